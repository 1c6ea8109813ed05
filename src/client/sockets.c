/* client/sockets.c - a carrier over sockets: what its connections do, and the waiting for them.
 *
 * A connection is worked on (attend()) when polling says that it is ready, or when something was
 * done with it. Cost: a wait looks at every shard's deadline and descriptor; reading and writing is
 * done for those that are ready. */
#include "client/sockets.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/sender.h"

enum { GLANCE_TIME = 50000 }; /* ns; looking costs about a microsecond for each shard */

#define NANOSECONDS_PER_MS INT64_C(1000000)
#define TIMEOUT_MAX        (NANOSECONDS_PER_MS << 30) /* of one wait */

static struct rbt_sockets *sockets_of(struct rbt_carrier *carrier)
{
    return (struct rbt_sockets *)carrier;
}

static uint32_t shard_count(const struct rbt_sockets *sockets)
{
    return sockets->shared->caller->shard_count;
}

static void lock(struct rbt_carrier *carrier)
{
    struct rbt_sockets *sockets = sockets_of(carrier);
    const int error = pthread_mutex_lock(&sockets->mutex);
    RBT_ASSERT(error == 0);
}

/* Whether something is left to be written. */
static bool has_rest(const struct rbt_sockets *sockets)
{
    bool has = false;
    for (uint32_t i = 0; sockets->carrier.caller.status == RBT_OK && i < shard_count(sockets);
         i++) {
        has = has || (sockets->carrier.caller.streams[i].state == RBT_STREAM_UP &&
                      rbt_line_queued(&sockets->lines[i]) > 0);
    }
    return has;
}

/* What is not written yet is the sender's from here on. It does not wait for the mutex, and forgets
 * whom it finds it held by, so it is woken after this, every time. */
static void unlock(struct rbt_carrier *carrier)
{
    struct rbt_sockets *sockets = sockets_of(carrier);
    const bool must_wake = sockets->shared->sender != NULL && has_rest(sockets);
    const int error = pthread_mutex_unlock(&sockets->mutex);
    RBT_ASSERT(error == 0);
    if (must_wake) {
        rbt_sender_wake(sockets->shared->sender);
    }
}

/* --- Events and effects ---------------------------------------------------------------------- */

/* Does what the caller wants done. */
static void perform(struct rbt_sockets *sockets)
{
    for (uint32_t i = 0; i < sockets->carrier.out.count; i++) {
        const struct rbt_out *item = &sockets->carrier.out.items[i];
        RBT_ASSERT(item->port < shard_count(sockets));
        rbt_line_perform(&sockets->lines[item->port], item);
    }
    rbt_outbox_clear(&sockets->carrier.out);
}

/* Tells the caller all that has happened to a connection. */
static void receive(struct rbt_sockets *sockets, uint32_t shard, rbt_time now)
{
    struct rbt_port_event event;
    struct rbt_caller *caller = &sockets->carrier.caller;
    while (caller->status == RBT_OK && !rbt_caller_is_lost(caller) &&
           rbt_line_next(&sockets->lines[shard], &event, sockets->why)) {
        rbt_caller_port(caller, &event, now);
        if (event.kind == RBT_PORT_FRAME) {
            rbt_carrier_publish(&sockets->carrier, shard);
        }
        perform(sockets);
    }
}

/* Reads and writes what can be on a connection. */
static void attend(struct rbt_sockets *sockets, uint32_t shard, rbt_time now)
{
    do {
        receive(sockets, shard, now);
    } while (rbt_line_flush(&sockets->lines[shard]) && sockets->carrier.caller.status == RBT_OK &&
             !rbt_caller_is_lost(&sockets->carrier.caller));
}

/* Works on the connections that are ready, or on all of them, and lets time pass. */
static void work(struct rbt_sockets *sockets, rbt_time now, bool are_all)
{
    for (uint32_t i = 0; i < shard_count(sockets); i++) {
        if (are_all || sockets->polls[i].revents != 0 || sockets->lines[i].is_touched) {
            attend(sockets, i, now);
        }
    }
    if (now < rbt_caller_deadline(&sockets->carrier.caller)) {
        return;
    }
    rbt_caller_tick(&sockets->carrier.caller, now);
    perform(sockets);
    for (uint32_t i = 0; i < shard_count(sockets); i++) {
        if (sockets->lines[i].is_touched) {
            attend(sockets, i, now);
        }
    }
}

/* Writes what the caller has just sent. */
static void send_all(struct rbt_carrier *carrier)
{
    struct rbt_sockets *sockets = sockets_of(carrier);
    perform(sockets);
    for (uint32_t i = 0; i < shard_count(sockets); i++) {
        if (sockets->lines[i].is_touched &&
            sockets->carrier.caller.streams[i].state == RBT_STREAM_UP) {
            (void)rbt_line_flush(&sockets->lines[i]); /* what it may have shows in a wait */
        }
    }
}

/* --- Waiting --------------------------------------------------------------------------------- */

/* Waits for something to happen: looks for a moment, then sleeps. */
static int poll_all(struct rbt_sockets *sockets, nfds_t count, int timeout)
{
    struct pollfd *polls = sockets->polls;
    int ready = 0;
    if (timeout != 0 && rbt_spin_begin(&sockets->spin)) {
        do {
            ready = poll(polls, count, 0);
        } while (ready == 0 && rbt_spin_again(&sockets->spin));
        rbt_spin_end(&sockets->spin, ready != 0);
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
static bool prepare(struct rbt_sockets *sockets)
{
    const uint32_t count = shard_count(sockets);
    const bool is_lost = rbt_caller_is_lost(&sockets->carrier.caller);
    bool is_there = false;
    for (uint32_t i = 0; i < count; i++) {
        sockets->polls[i] = (struct pollfd){.fd = -1};
        if (!is_lost && rbt_line_prepare(&sockets->lines[i], &sockets->polls[i])) {
            sockets->lines[i].is_touched = true;
            is_there = true;
        }
    }
    sockets->polls[count] =
        (struct pollfd){.fd = rbt_member_alarm(sockets->shared->member), .events = POLLIN};
    return is_there;
}

/* Sleeps until something can be done, and does it. */
static void wait_once(struct rbt_sockets *sockets)
{
    const uint32_t count = shard_count(sockets);
    const bool is_there = prepare(sockets);
    const int timeout = is_there ? 0 : timeout_of(rbt_caller_deadline(&sockets->carrier.caller));
    if (poll_all(sockets, (nfds_t)count + 1, timeout) < 0 && errno != EINTR) {
        rbt_caller_fail(&sockets->carrier.caller,
                        rbt_fail(RBT_E_IO, "could not wait for the shards"));
        return;
    }
    if (sockets->polls[count].revents != 0) {
        rbt_caller_alarm(&sockets->carrier.caller, rbt_member_failure(sockets->shared->member));
    }
    if (sockets->carrier.caller.status == RBT_OK) {
        work(sockets, rbt_clock_now(), false);
    }
}

/* Whether everything has been handed to the kernel, or to the sender. */
static bool is_written(const struct rbt_sockets *sockets)
{
    bool is_written = sockets->shared->sender != NULL;
    for (uint32_t i = 0; !is_written && i < shard_count(sockets); i++) {
        if (rbt_line_queued(&sockets->lines[i]) > 0) {
            return false;
        }
    }
    return true;
}

static void wait(struct rbt_carrier *carrier)
{
    struct rbt_sockets *sockets = sockets_of(carrier);
    while (!rbt_carrier_is_done(carrier) ||
           (carrier->goal == RBT_CARRIER_ROOM && carrier->caller.status == RBT_OK &&
            !is_written(sockets))) {
        wait_once(sockets);
    }
}

static void look_at(struct rbt_sockets *sockets, rbt_time now)
{
    if (rbt_caller_is_lost(&sockets->carrier.caller)) {
        wait_once(sockets); /* for the reason, until there is one */
    } else if (sockets->carrier.caller.status == RBT_OK) {
        work(sockets, now, true);
    }
}

static void look(struct rbt_carrier *carrier)
{
    look_at(sockets_of(carrier), rbt_clock_now());
}

static void glance(struct rbt_carrier *carrier)
{
    struct rbt_sockets *sockets = sockets_of(carrier);
    const rbt_time now = rbt_clock_now();
    if (now - sockets->looked_at >= GLANCE_TIME) {
        sockets->looked_at = now;
        look_at(sockets, now);
    }
}

static rbt_time now_of(const struct rbt_carrier *carrier)
{
    (void)carrier;
    return rbt_clock_now();
}

static void count(const struct rbt_carrier *carrier, uint64_t bytes[2])
{
    const struct rbt_sockets *sockets = (const struct rbt_sockets *)carrier;
    for (uint32_t i = 0; i < shard_count(sockets); i++) {
        struct rbt_channel_stats stats;
        rbt_line_stats(&sockets->lines[i], &stats);
        bytes[0] += stats.bytes_sent + rbt_line_queued(&sockets->lines[i]);
        bytes[1] += stats.bytes_received;
    }
}

/* --- Life ------------------------------------------------------------------------------------ */

static const struct rbt_carrier_ops ops = {.lock = lock,
                                           .unlock = unlock,
                                           .send = send_all,
                                           .wait = wait,
                                           .look = look,
                                           .glance = glance,
                                           .now = now_of,
                                           .count = count};

static bool find_place(void *context, const struct rbt_frame *head, struct rbt_frame_place *place)
{
    return rbt_stream_place(context, head, place);
}

rbt_status rbt_sockets_init(struct rbt_sockets *sockets, struct rbt_sockets_shared *shared,
                            uint32_t worker, const struct rbt_stream_options *streams)
{
    const uint32_t count = shared->caller->shard_count;
    const struct rbt_caller_options options = {.shared = shared->caller,
                                               .streams = streams,
                                               .worker = worker,
                                               .out = &sockets->carrier.out};
    sockets->carrier.ops = &ops;
    sockets->carrier.heard = shared->heard;
    sockets->shared = shared;
    const int error = pthread_mutex_init(&sockets->mutex, NULL);
    RBT_ASSERT(error == 0);
    sockets->is_ready = true;
    const rbt_status st = rbt_caller_init(&sockets->carrier.caller, &options);
    struct rbt_line *lines = st != RBT_OK ? NULL : rbt_calloc(count, sizeof *lines);
    for (uint32_t i = 0; lines != NULL && i < count; i++) {
        rbt_line_init(&lines[i],
                      &(struct rbt_line_options){.port = i,
                                                 .address = streams[i].address,
                                                 .security = shared->security,
                                                 .context = &sockets->carrier.caller.streams[i],
                                                 .find_place = find_place});
    }
    sockets->lines = lines;
    sockets->polls = rbt_calloc((size_t)count + 1, sizeof *sockets->polls);
    return st != RBT_OK || (lines != NULL && sockets->polls != NULL)
               ? st
               : rbt_fail(RBT_E_NOMEM, "no memory for connections to %u shards", count);
}

void rbt_sockets_deinit(struct rbt_sockets *sockets)
{
    for (uint32_t i = 0; sockets->lines != NULL && i < shard_count(sockets); i++) {
        rbt_line_deinit(&sockets->lines[i]);
    }
    rbt_caller_deinit(&sockets->carrier.caller);
    rbt_outbox_deinit(&sockets->carrier.out);
    rbt_free(sockets->lines);
    rbt_free(sockets->polls);
    if (sockets->is_ready) {
        (void)pthread_mutex_destroy(&sockets->mutex); /* nobody holds it */
    }
}
