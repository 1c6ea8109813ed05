/* client/carrier.c - one thread's connections to the shards, and the waiting for them.
 *
 * A connection is worked on (attend()) when polling says that it is ready, or when something was
 * done with it. Cost: a wait looks at every shard's deadline and descriptor; reading and writing is
 * done for those that are ready. */
#include "client/carrier.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/sender.h"

enum { GLANCE_TIME = 50000 }; /* ns; looking costs about a microsecond for each shard */

#define NANOSECONDS_PER_MS INT64_C(1000000)
#define TIMEOUT_MAX        (NANOSECONDS_PER_MS << 30) /* of one wait */

/* --- Life ------------------------------------------------------------------------------------ */

static uint32_t shard_count(const struct rbt_carrier *carrier)
{
    return carrier->shared->caller.shard_count;
}

static bool find_place(void *context, const struct rbt_frame *head, struct rbt_frame_place *place)
{
    return rbt_stream_place(context, head, place);
}

rbt_status rbt_carrier_init(struct rbt_carrier *carrier, struct rbt_carrier_shared *shared,
                            uint32_t worker, const struct rbt_stream_options *streams)
{
    const uint32_t count = shared->caller.shard_count;
    const struct rbt_caller_options options = {
        .shared = &shared->caller, .streams = streams, .worker = worker, .out = &carrier->out};
    carrier->shared = shared;
    const int error = pthread_mutex_init(&carrier->mutex, NULL);
    RBT_ASSERT(error == 0);
    carrier->is_ready = true;
    const rbt_status st = rbt_caller_init(&carrier->caller, &options);
    struct rbt_line *lines = st != RBT_OK ? NULL : rbt_calloc(count, sizeof *lines);
    for (uint32_t i = 0; lines != NULL && i < count; i++) {
        rbt_line_init(&lines[i], &(struct rbt_line_options){.port = i,
                                                            .address = streams[i].address,
                                                            .security = shared->security,
                                                            .context = &carrier->caller.streams[i],
                                                            .find_place = find_place});
    }
    carrier->lines = lines;
    carrier->polls = rbt_calloc((size_t)count + 1, sizeof *carrier->polls);
    return st != RBT_OK || (lines != NULL && carrier->polls != NULL)
               ? st
               : rbt_fail(RBT_E_NOMEM, "no memory for connections to %u shards", count);
}

void rbt_carrier_deinit(struct rbt_carrier *carrier)
{
    for (uint32_t i = 0; carrier->lines != NULL && i < shard_count(carrier); i++) {
        rbt_line_deinit(&carrier->lines[i]);
    }
    rbt_caller_deinit(&carrier->caller);
    rbt_outbox_deinit(&carrier->out);
    rbt_free(carrier->lines);
    rbt_free(carrier->polls);
    if (carrier->is_ready) {
        (void)pthread_mutex_destroy(&carrier->mutex); /* nobody holds it */
    }
}

static void lock(struct rbt_carrier *carrier)
{
    const int error = pthread_mutex_lock(&carrier->mutex);
    RBT_ASSERT(error == 0);
}

/* Whether something is left to be written. */
static bool has_rest(const struct rbt_carrier *carrier)
{
    bool has = false;
    for (uint32_t i = 0; carrier->caller.status == RBT_OK && i < shard_count(carrier); i++) {
        has = has || (carrier->caller.streams[i].state == RBT_STREAM_UP &&
                      rbt_line_queued(&carrier->lines[i]) > 0);
    }
    return has;
}

/* What is not written yet is the sender's from here on. It does not wait for the mutex, and forgets
 * whom it finds it held by, so it is woken after this, every time. */
static void unlock(struct rbt_carrier *carrier)
{
    const bool must_wake = carrier->shared->sender != NULL && has_rest(carrier);
    const int error = pthread_mutex_unlock(&carrier->mutex);
    RBT_ASSERT(error == 0);
    if (must_wake) {
        rbt_sender_wake(carrier->shared->sender);
    }
}

/* --- Events and effects ---------------------------------------------------------------------- */

/* Does what the caller wants done. */
static void perform(struct rbt_carrier *carrier)
{
    for (uint32_t i = 0; i < carrier->out.count; i++) {
        const struct rbt_out *item = &carrier->out.items[i];
        RBT_ASSERT(item->port < shard_count(carrier));
        rbt_line_perform(&carrier->lines[item->port], item);
    }
    rbt_outbox_clear(&carrier->out);
}

/* Tells the other threads of this process how far the shard is. */
static void publish(const struct rbt_carrier *carrier, uint32_t shard)
{
    const struct rbt_wire_news *news = &carrier->caller.streams[shard].news;
    atomic_int_least64_t *floors = &carrier->shared->floors[shard];
    atomic_uint_least64_t *versions = &carrier->shared->versions[shard];
    int64_t floor = atomic_load_explicit(floors, memory_order_relaxed);
    while (news->floor > floor &&
           !atomic_compare_exchange_weak_explicit(floors, &floor, news->floor, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
    uint64_t version = atomic_load_explicit(versions, memory_order_relaxed);
    while (news->version > version &&
           !atomic_compare_exchange_weak_explicit(versions, &version, news->version,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Tells the caller all that has happened to a connection. */
static void receive(struct rbt_carrier *carrier, uint32_t shard, rbt_time now)
{
    struct rbt_port_event event;
    struct rbt_caller *caller = &carrier->caller;
    while (caller->status == RBT_OK && !rbt_caller_is_lost(caller) &&
           rbt_line_next(&carrier->lines[shard], &event, carrier->why)) {
        rbt_caller_port(caller, &event, now);
        if (event.kind == RBT_PORT_FRAME) {
            publish(carrier, shard);
        }
        perform(carrier);
    }
}

/* Reads and writes what can be on a connection. */
static void attend(struct rbt_carrier *carrier, uint32_t shard, rbt_time now)
{
    do {
        receive(carrier, shard, now);
    } while (rbt_line_flush(&carrier->lines[shard]) && carrier->caller.status == RBT_OK &&
             !rbt_caller_is_lost(&carrier->caller));
}

/* Works on the connections that are ready, or on all of them, and lets time pass. */
static void work(struct rbt_carrier *carrier, rbt_time now, bool are_all)
{
    for (uint32_t i = 0; i < shard_count(carrier); i++) {
        if (are_all || carrier->polls[i].revents != 0 || carrier->lines[i].is_touched) {
            attend(carrier, i, now);
        }
    }
    if (now < rbt_caller_deadline(&carrier->caller)) {
        return;
    }
    rbt_caller_tick(&carrier->caller, now);
    perform(carrier);
    for (uint32_t i = 0; i < shard_count(carrier); i++) {
        if (carrier->lines[i].is_touched) {
            attend(carrier, i, now);
        }
    }
}

/* Writes what the caller has just sent. */
static void send_all(struct rbt_carrier *carrier)
{
    perform(carrier);
    for (uint32_t i = 0; i < shard_count(carrier); i++) {
        if (carrier->lines[i].is_touched && carrier->caller.streams[i].state == RBT_STREAM_UP) {
            (void)rbt_line_flush(&carrier->lines[i]); /* what it may have shows in a wait */
        }
    }
}

/* --- Waiting --------------------------------------------------------------------------------- */

/* Waits for something to happen: looks for a moment, then sleeps. */
static int poll_all(struct rbt_carrier *carrier, nfds_t count, int timeout)
{
    struct pollfd *polls = carrier->polls;
    int ready = 0;
    if (timeout != 0 && rbt_spin_begin(&carrier->spin)) {
        do {
            ready = poll(polls, count, 0);
        } while (ready == 0 && rbt_spin_again(&carrier->spin));
        rbt_spin_end(&carrier->spin, ready != 0);
    }
    return ready != 0 ? ready : poll(polls, count, timeout);
}

/* Until when to sleep, in milliseconds. */
static int timeout_of(rbt_time deadline)
{
    if (deadline == RBT_TIME_NEVER) {
        return -1;
    }
    const rbt_time left = deadline - rbt_clock_now();
    const rbt_time most = left < TIMEOUT_MAX ? left : TIMEOUT_MAX;
    return left <= 0 ? 0 : (int)((most + NANOSECONDS_PER_MS - 1) / NANOSECONDS_PER_MS);
}

/* What to poll for; whether something is there already. */
static bool prepare(struct rbt_carrier *carrier)
{
    const uint32_t count = shard_count(carrier);
    const bool is_lost = rbt_caller_is_lost(&carrier->caller);
    bool is_there = false;
    for (uint32_t i = 0; i < count; i++) {
        carrier->polls[i] = (struct pollfd){.fd = -1};
        if (!is_lost && rbt_line_prepare(&carrier->lines[i], &carrier->polls[i])) {
            carrier->lines[i].is_touched = true;
            is_there = true;
        }
    }
    carrier->polls[count] =
        (struct pollfd){.fd = rbt_member_alarm(carrier->shared->member), .events = POLLIN};
    return is_there;
}

/* Sleeps until something can be done, and does it. */
static void wait_once(struct rbt_carrier *carrier)
{
    const uint32_t count = shard_count(carrier);
    const bool is_there = prepare(carrier);
    const int timeout = is_there ? 0 : timeout_of(rbt_caller_deadline(&carrier->caller));
    if (poll_all(carrier, (nfds_t)count + 1, timeout) < 0 && errno != EINTR) {
        rbt_caller_fail(&carrier->caller, rbt_fail(RBT_E_IO, "could not wait for the shards"));
        return;
    }
    if (carrier->polls[count].revents != 0) {
        rbt_caller_alarm(&carrier->caller, rbt_member_failure(carrier->shared->member));
    }
    if (carrier->caller.status == RBT_OK) {
        work(carrier, rbt_clock_now(), false);
    }
}

/* Takes what has come, with the mutex held. */
static void look(struct rbt_carrier *carrier, rbt_time now)
{
    if (rbt_caller_is_lost(&carrier->caller)) {
        wait_once(carrier); /* for the reason, until there is one */
    } else if (carrier->caller.status == RBT_OK) {
        work(carrier, now, true);
    }
}

void rbt_carrier_look(struct rbt_carrier *carrier)
{
    lock(carrier);
    look(carrier, rbt_clock_now());
    unlock(carrier);
}

/* The same, unless that was a moment ago. */
static void glance(struct rbt_carrier *carrier)
{
    const rbt_time now = rbt_clock_now();
    if (now - carrier->looked_at >= GLANCE_TIME) {
        carrier->looked_at = now;
        look(carrier, now);
    }
}

/* Whether everything has been handed to the kernel, or to the sender. */
static bool is_written(const struct rbt_carrier *carrier)
{
    bool is_written = carrier->shared->sender != NULL;
    for (uint32_t i = 0; !is_written && i < shard_count(carrier); i++) {
        if (rbt_line_queued(&carrier->lines[i]) > 0) {
            return false;
        }
    }
    return true;
}

/* Writes what the caller has sent, and waits until the worker may go on. */
static void send_and_wait(struct rbt_carrier *carrier)
{
    send_all(carrier);
    while (!rbt_caller_may_go_on(&carrier->caller) ||
           (carrier->caller.status == RBT_OK && !is_written(carrier))) {
        wait_once(carrier);
    }
}

rbt_status rbt_carrier_drain(struct rbt_carrier *carrier)
{
    lock(carrier);
    while (!rbt_caller_is_drained(&carrier->caller)) {
        wait_once(carrier);
    }
    unlock(carrier);
    return carrier->caller.status == RBT_OK ? RBT_OK : rbt_caller_refuse(&carrier->caller);
}

/* --- What workers want ----------------------------------------------------------------------- */

void rbt_carrier_reset(struct rbt_carrier *carrier)
{
    lock(carrier);
    rbt_caller_reset(&carrier->caller);
    perform(carrier);
    unlock(carrier);
}

/* What has gone over the wire since the last reply, or was handed over to go. A connection that was
 * cut has lost some of that: it counts when it is sent again. */
static void count_bytes(struct rbt_carrier *carrier, struct rbt_driver_reply *reply)
{
    uint64_t sent = 0;
    uint64_t received = 0;
    for (uint32_t i = 0; i < shard_count(carrier); i++) {
        struct rbt_channel_stats stats;
        rbt_line_stats(&carrier->lines[i], &stats);
        sent += stats.bytes_sent + rbt_line_queued(&carrier->lines[i]);
        received += stats.bytes_received;
    }
    reply->bytes_sent = sent > carrier->counted.bytes_sent ? sent - carrier->counted.bytes_sent : 0;
    reply->bytes_received = received - carrier->counted.bytes_received;
    carrier->counted.bytes_sent = sent;
    carrier->counted.bytes_received = received;
}

void rbt_carrier_step(struct rbt_carrier *carrier, struct rbt_driver_call *calls, size_t count)
{
    lock(carrier);
    rbt_caller_start(&carrier->caller, calls, count);
    send_and_wait(carrier);
    if (!rbt_caller_is_answered(&carrier->caller)) {
        const rbt_time began = rbt_clock_now();
        while (!rbt_caller_is_answered(&carrier->caller)) {
            wait_once(carrier);
        }
        calls[0].reply.waited = rbt_clock_now() - began;
    }
    rbt_caller_finish(&carrier->caller, calls, count);
    if (count > 0) {
        count_bytes(carrier, &calls[0].reply);
    }
    unlock(carrier);
}

void rbt_carrier_expect(struct rbt_carrier *carrier, struct rbt_driver_call *calls, size_t count)
{
    lock(carrier);
    rbt_caller_expect(&carrier->caller, calls, count);
    send_all(carrier);
    unlock(carrier);
}

void rbt_carrier_forget(struct rbt_carrier *carrier, uint64_t asked)
{
    lock(carrier);
    while (rbt_caller_is_asking(&carrier->caller, asked)) {
        wait_once(carrier);
    }
    rbt_caller_forget(&carrier->caller, asked);
    unlock(carrier);
}

bool rbt_carrier_has_answer(struct rbt_carrier *carrier, uint64_t asked)
{
    rbt_carrier_look(carrier);
    return !rbt_caller_is_asking(&carrier->caller, asked);
}

void rbt_carrier_ask_early(struct rbt_carrier *carrier, struct rbt_driver_call *calls, size_t count)
{
    lock(carrier);
    rbt_caller_ask_early(&carrier->caller, calls, count);
    send_all(carrier);
    unlock(carrier);
}

bool rbt_carrier_take_early(struct rbt_carrier *carrier, struct rbt_driver_call *calls,
                            size_t count)
{
    lock(carrier);
    glance(carrier);
    const bool is_there = rbt_caller_has_early(&carrier->caller, calls, count);
    if (is_there) {
        rbt_caller_take_early(&carrier->caller, calls, count);
    }
    if (is_there && count > 0) {
        count_bytes(carrier, &calls[0].reply);
    }
    unlock(carrier);
    return is_there;
}

uint64_t rbt_carrier_heard(struct rbt_carrier *carrier)
{
    lock(carrier);
    glance(carrier);
    const uint64_t heard = rbt_caller_heard(&carrier->caller);
    unlock(carrier);
    return heard;
}

rbt_status rbt_carrier_ask(struct rbt_carrier *carrier, uint32_t shard, struct rbt_block *block,
                           struct rbt_frame header, struct rbt_wire_done *done)
{
    lock(carrier);
    rbt_caller_ask(&carrier->caller, shard, block, header, done);
    send_all(carrier);
    while (!rbt_caller_is_answered(&carrier->caller)) {
        wait_once(carrier);
    }
    rbt_status st = carrier->caller.status;
    if (st != RBT_OK) {
        st = rbt_caller_refuse(&carrier->caller);
    } else if (done->status != RBT_OK) {
        st = rbt_fail((rbt_status)done->status, "%s", done->text);
    }
    unlock(carrier);
    return st;
}
