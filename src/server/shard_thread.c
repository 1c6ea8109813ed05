/* server/shard_thread.c - a thread that owns a shard: it listens, and serves whoever connects.
 *
 * Everything that can be read is read and worked on; what follows from it is sent when there is
 * nothing more to do, many messages in one write. A peer that does not read what it has asked for
 * is not read from, either, until it does: it slows itself down and nobody else.
 *
 * Workers of this process do not connect: they call (net/nearby.h), and what they send is worked on
 * by their own threads, under the same mutex as the loop's work.
 *
 * Threads: the shard's own and, for what `core` guards, those of workers in this process. */
#include "server/shard_thread.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "server/host.h"
#include "server/shard_state.h"

_Static_assert((int)RBT_WIRE_NAME_MAX >= (int)RBT_ADDRESS_MAX, "a peer's name is its address");

enum {
    TABLE_MAX = 4096,
    QUEUED_MAX = 64 << 20, /* bytes to a peer, above which it is not read from */
    FLUSH_AT = 256 << 10,  /* bytes to a peer that are sent without waiting for more */
    TURN_MAX = 256,        /* messages of a peer before it is others' turn */
    HOSTS_MAX = 1024,      /* jobs at a time */
};

#define SECOND     INT64_C(1000000000)
#define HELLO_TIME (5 * SECOND) /* for a stranger to say who it is */
#define TICK_TIME  (SECOND / 10)
#define END_TIME   (5 * SECOND)   /* for what is under way when the server ends */
#define MOMENT     (SECOND / 500) /* between two looks whether it has ended */

/* --- Peers ----------------------------------------------------------------------------------- */

static void mark_dirty(struct rbt_shard_peer *peer)
{
    if (!peer->is_dirty && peer->channel != NULL) {
        peer->is_dirty = true;
        peer->next_dirty = peer->thread->dirty;
        peer->thread->dirty = peer;
    }
}

void rbt_shard_peer_end(struct rbt_shard_peer *peer)
{
    peer->is_over = true;
    mark_dirty(peer);
}

/* Wakes the loop if it is not the one that runs: it has something to send now. */
static void wake_loop(const rbt_shard_thread *thread)
{
    if (!pthread_equal(pthread_self(), thread->thread)) {
        rbt_loop_wake(thread->loop);
    }
}

void rbt_shard_peer_send(void *context, struct rbt_block *block)
{
    struct rbt_shard_peer *peer = context;
    if (peer->channel == NULL) {
        if (!peer->is_over) {
            rbt_block_ref(block);
            peer->inbox.deliver(peer->inbox.context, block);
        }
        return;
    }
    if (!peer->is_over && rbt_channel_send(peer->channel, block) != RBT_OK) {
        rbt_shard_peer_end(peer);
    }
    mark_dirty(peer);
    wake_loop(peer->thread);
}

static void free_peer(struct rbt_shard_peer *peer)
{
    struct rbt_shard_peer **at = &peer->thread->peers;
    while (*at != peer) { /* ends: it is in the list */
        RBT_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = peer->next;
    rbt_strangers_remove(&peer->thread->strangers, &peer->stranger);
    if (peer->host != NULL) {
        rbt_host_forget(peer->host, &peer->guest);
    }
    if (peer->channel != NULL) {
        rbt_watch_close(peer->watch);
        rbt_channel_close(peer->channel);
    }
    rbt_free(peer);
}

/* Strangers must not be able to fill the log. */
void rbt_shard_peer_note(const struct rbt_shard_peer *peer, const char *why)
{
    rbt_shard_thread *thread = peer->thread;
    if (rbt_strangers_may_log(&thread->strangers, rbt_clock_now())) {
        rbt_log(thread->log, RBT_LOG_WARN, "server", "refused a connection from %s: %s", peer->name,
                why);
    }
}

/* Says no, in a sentence, and ends the connection. */
static void refuse(struct rbt_shard_peer *peer, rbt_status status)
{
    char why[RBT_ERROR_MAX];
    const bool is_failure = rbt_host_is_failure(status) && peer->host != NULL;
    memcpy(why, rbt_last_error(), sizeof why);
    if (status != RBT_E_NOTFOUND && !is_failure) { /* that one comes back */
        rbt_shard_peer_note(peer, why);
    }
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    if (block != NULL && (peer->channel == NULL || rbt_channel_is_ready(peer->channel))) {
        block->bytes = rbt_wire_put_refused(block->data, why);
        const struct rbt_frame header = {.kind = RBT_FRAME_REFUSED,
                                         .flags = status == RBT_E_NOTFOUND ? RBT_FRAME_TRY_AGAIN
                                                  : is_failure             ? RBT_FRAME_FAILURE
                                                                           : 0,
                                         .worker = peer->guest.worker,
                                         .id = is_failure ? (uint64_t)-status : 0};
        rbt_wire_close(block->data, header, block->bytes);
        rbt_shard_peer_send(peer, block);
        const rbt_status flushed =
            peer->channel == NULL ? RBT_OK : rbt_channel_flush(peer->channel);
        (void)flushed; /* as far as it goes */
    }
    rbt_block_unref(block);
    rbt_shard_peer_end(peer);
}

/* Something was not as it should be: its sender hears why and is not listened to any more. If the
 * job has failed here, nobody can go on, and who waits for others would wait for ever. */
static void refuse_all(struct rbt_shard_peer *peer, rbt_status status)
{
    const rbt_host *host = peer->host;
    if (host == NULL || !rbt_host_is_failure(status)) {
        refuse(peer, status);
        return;
    }
    struct rbt_error_record why;
    rbt_error_save(&why);
    rbt_log(peer->thread->log, RBT_LOG_WARN, "server", "job %llu has failed: %s",
            (unsigned long long)rbt_host_job(host), why.message);
    for (struct rbt_shard_peer *p = peer->thread->peers; p != NULL; p = p->next) {
        if (p->host == host && !p->is_over) {
            rbt_error_restore(&why);
            refuse(p, status);
        }
    }
    rbt_error_restore(&why);
}

/* --- Who is there ---------------------------------------------------------------------------- */

static rbt_host *find_host(const rbt_shard_thread *thread, uint64_t job)
{
    for (uint32_t i = 0; i < thread->host_count; i++) {
        if (rbt_host_job(thread->hosts[i]) == job) {
            return thread->hosts[i];
        }
    }
    return NULL;
}

static bool is_dropped(const rbt_shard_thread *thread, uint64_t job)
{
    for (uint32_t i = 0; i < RBT_SHARD_DROPPED_MAX && i < thread->dropped_count; i++) {
        if (thread->dropped[i] == job) {
            return true;
        }
    }
    return false;
}

static rbt_status make_host(rbt_shard_thread *thread, const struct rbt_wire_hello *hello,
                            rbt_host **host)
{
    if (thread->host_count >= HOSTS_MAX) {
        return rbt_fail(RBT_E_BUSY, "there are %d jobs already", HOSTS_MAX);
    }
    char name[RBT_WIRE_NAME_MAX + 32];
    snprintf(name, sizeof name, "shard %u at %s", hello->shard, thread->address);
    const struct rbt_host_options options = {.job = hello->job,
                                             .worker_count = hello->worker_count,
                                             .table_max = TABLE_MAX,
                                             .name = name,
                                             .shards_here = thread->options.shards_here};
    rbt_host **grown =
        rbt_realloc(thread->hosts, (size_t)thread->host_count + 1, sizeof *thread->hosts);
    if (grown == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for another job");
    }
    thread->hosts = grown;
    const rbt_status st = rbt_host_create(&options, host);
    if (st == RBT_OK) {
        thread->hosts[thread->host_count++] = *host;
    }
    return st;
}

/* Whether it is us that the peer means. */
static rbt_status check_hello(rbt_shard_thread *thread, const struct rbt_wire_hello *hello)
{
    pthread_mutex_lock(&thread->mutex);
    const bool has_name = thread->has_name;
    const bool is_us = hello->cluster == thread->cluster && hello->shard == thread->shard;
    pthread_mutex_unlock(&thread->mutex);
    if (!has_name) { /* the others may have heard of the plan before us */
        return rbt_fail(RBT_E_NOTFOUND, "the shard does not know yet who it is");
    }
    if (!is_us) {
        return rbt_fail(RBT_E_PROTOCOL, "%s means another cluster or another shard", hello->node);
    }
    if (hello->worker_count == 0 || hello->worker_count > RBT_WIRE_WORKERS_MAX ||
        (hello->worker != RBT_FRAME_NOBODY && hello->worker >= hello->worker_count)) {
        return rbt_fail(RBT_E_PROTOCOL, "there is no worker %u of %u", hello->worker,
                        hello->worker_count);
    }
    if (is_dropped(thread, hello->job)) {
        return rbt_fail(RBT_E_CLOSED, "the job is over");
    }
    return rbt_admitted_check(&thread->admitted, hello);
}

static rbt_status find_or_make_host(rbt_shard_thread *thread, const struct rbt_wire_hello *hello,
                                    rbt_host **host)
{
    *host = find_host(thread, hello->job);
    if (*host == NULL && hello->is_reader) {
        return rbt_fail(RBT_E_NOTFOUND, "nobody trains in namespace \"%s\"", hello->space);
    }
    return *host == NULL ? make_host(thread, hello, host) : RBT_OK;
}

/* A worker has one connection. The newest is the right one: the other was cut without our noticing.
 */
static void replace_older(const struct rbt_shard_peer *peer)
{
    for (struct rbt_shard_peer *p = peer->thread->peers; p != NULL; p = p->next) {
        const bool is_same = p != peer && p->host == peer->host && !p->is_over &&
                             p->guest.worker == peer->guest.worker;
        if (is_same && !p->guest.is_reader && p->guest.worker != RBT_FRAME_NOBODY) {
            rbt_shard_peer_end(p);
            rbt_host_forget(p->host, &p->guest); /* nothing more of it counts */
        }
    }
}

static rbt_status welcome(struct rbt_shard_peer *peer)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a connection");
    }
    const struct rbt_wire_news news = rbt_host_news(peer->host, peer->guest.worker);
    block->bytes = rbt_wire_put_welcome(block->data, &news);
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = RBT_FRAME_WELCOME, .worker = peer->guest.worker},
                   block->bytes);
    rbt_shard_peer_send(peer, block);
    rbt_block_unref(block);
    return RBT_OK;
}

static rbt_status receive_hello(struct rbt_shard_peer *peer, const struct rbt_frame *frame,
                                const char *body)
{
    struct rbt_wire_cursor cursor = {body, body + frame->length};
    struct rbt_wire_hello hello;
    rbt_host *host = NULL;
    if (frame->kind != RBT_FRAME_HELLO) {
        return rbt_fail(RBT_E_PROTOCOL, "the first message is %u, not a greeting", frame->kind);
    }
    rbt_status st = rbt_wire_get_hello(&cursor, &hello);
    st = st != RBT_OK ? st : check_hello(peer->thread, &hello);
    st = st != RBT_OK ? st : find_or_make_host(peer->thread, &hello, &host);
    if (st != RBT_OK) {
        return st;
    }
    peer->host = host;
    rbt_strangers_remove(&peer->thread->strangers, &peer->stranger);
    memcpy(peer->name, hello.node, sizeof peer->name);
    peer->guest.worker = hello.is_reader ? RBT_FRAME_NOBODY : hello.worker;
    peer->guest.is_reader = hello.is_reader;
    peer->guest.compression = hello.compression;
    if (peer->channel != NULL) {
        rbt_channel_set_body_max(peer->channel, RBT_FRAME_BODY_MAX);
    }
    replace_older(peer);
    return welcome(peer);
}

/* --- Serving --------------------------------------------------------------------------------- */

/* Works on what the peer has sent, unless it leaves too much unread; for a while, since others want
 * their turn, too. What is left is taken up by on_wake(). */
static void serve(struct rbt_shard_peer *peer)
{
    struct rbt_frame frame;
    const char *body = NULL;
    for (int turn = 0;
         turn < TURN_MAX && !peer->is_over && rbt_channel_queued(peer->channel) < QUEUED_MAX;
         turn++) {
        rbt_status st = rbt_channel_receive(peer->channel, &frame, &body);
        if (st == RBT_E_BUSY) {
            break;
        }
        if (st == RBT_E_CLOSED || st == RBT_E_IO) { /* not worth a word: they come back */
            rbt_shard_peer_end(peer);
            break;
        }
        if (st == RBT_OK) {
            st = peer->host == NULL ? receive_hello(peer, &frame, body)
                                    : rbt_host_receive(peer->host, &peer->guest, &frame, body);
        }
        if (st != RBT_OK) {
            refuse_all(peer, st);
        } else if (rbt_channel_queued(peer->channel) >= FLUSH_AT) {
            st = rbt_channel_flush(peer->channel); /* the peer can work on it meanwhile */
            peer->is_over = peer->is_over || (st != RBT_OK && st != RBT_E_BUSY);
        }
    }
    mark_dirty(peer);
}

static void lock(rbt_shard_thread *thread)
{
    const int error = pthread_mutex_lock(&thread->core);
    RBT_ASSERT(error == 0);
}

static void unlock(rbt_shard_thread *thread)
{
    const int error = pthread_mutex_unlock(&thread->core);
    RBT_ASSERT(error == 0);
}

void rbt_shard_peer_work(void *context, short events)
{
    struct rbt_shard_peer *peer = context;
    (void)events;
    lock(peer->thread);
    if (!peer->is_over) {
        serve(peer);
    }
    unlock(peer->thread);
}

/* Sends what is to be sent to one peer, and says what it waits for. It counts as dirty meanwhile:
 * it may end here, and must not be in the list again when it does. */
static void settle(struct rbt_shard_peer *peer)
{
    RBT_ASSERT(peer->is_dirty);
    if (!peer->is_over && peer->host != NULL) {
        rbt_host_settle(peer->host, &peer->guest);
    }
    if (!peer->is_over) {
        const rbt_status st = rbt_channel_flush(peer->channel);
        peer->is_over = peer->is_over || (st != RBT_OK && st != RBT_E_BUSY);
    }
    if (peer->is_over) {
        free_peer(peer);
        return;
    }
    peer->is_dirty = false; /* only now: what is sent above must not put it back into the list */
    const bool is_full = rbt_channel_queued(peer->channel) >= QUEUED_MAX;
    const short wants = rbt_channel_wants(peer->channel);
    rbt_watch_change(peer->watch, is_full ? (short)(wants & ~POLLIN) : wants);
    if (!is_full && rbt_channel_has_more(peer->channel)) {
        rbt_loop_wake(peer->thread->loop); /* the socket will not tell of what was read already */
    }
}

/* Sends what is to be sent; the core's mutex is held. */
static void settle_all(rbt_shard_thread *thread)
{
    while (thread->dirty != NULL) { /* ends: nobody is added but by callbacks of others */
        struct rbt_shard_peer *peer = thread->dirty;
        thread->dirty = peer->next_dirty;
        settle(peer);
    }
}

/* A table of a host, for visit_version(). */
struct reporter {
    const rbt_shard_thread *thread;
    uint64_t job;
};

static void visit_version(void *context, uint32_t table, uint64_t version)
{
    const struct reporter *reporter = context;
    const struct rbt_shard_thread_options *options = &reporter->thread->options;
    options->on_version(options->context, &(struct rbt_member_version){.job = reporter->job,
                                                                       .table = table,
                                                                       .shard = options->index,
                                                                       .version = version});
}

/* Tells which tables have new versions; the core's mutex is held. */
static void report(const rbt_shard_thread *thread, rbt_host *host)
{
    struct reporter reporter = {thread, rbt_host_job(host)};
    if (thread->options.on_version != NULL) {
        rbt_host_report(host, visit_version, &reporter);
    }
}

static void before_sleep(void *context)
{
    rbt_shard_thread *thread = context;
    lock(thread);
    settle_all(thread);
    for (uint32_t i = 0; i < thread->host_count; i++) {
        report(thread, thread->hosts[i]);
    }
    unlock(thread);
}

static void on_connection(void *context, short events)
{
    (void)events;
    lock(context);
    rbt_doorway_accept(context);
    unlock(context);
}

static void on_tick(void *context)
{
    rbt_shard_thread *thread = context;
    const rbt_time now = rbt_clock_now();
    atomic_store_explicit(&thread->seen, now, memory_order_relaxed);
    lock(thread);
    if (thread->is_deaf) {
        thread->is_deaf = false;
        rbt_watch_change(thread->listening, POLLIN);
    }
    for (struct rbt_shard_peer *peer = thread->peers; peer != NULL; peer = peer->next) {
        if (peer->channel != NULL && peer->host == NULL && !peer->is_over &&
            now - peer->since > HELLO_TIME) {
            (void)rbt_fail(RBT_E_TIMEOUT, "it has not said who it is");
            refuse(peer, RBT_E_TIMEOUT);
        }
    }
    unlock(thread);
}

/* --- Jobs that are over ---------------------------------------------------------------------- */

static void drop(rbt_shard_thread *thread, uint64_t job)
{
    thread->dropped[thread->dropped_count++ % RBT_SHARD_DROPPED_MAX] = job;
    rbt_admitted_remove(&thread->admitted, job);
    rbt_host *host = find_host(thread, job);
    if (host == NULL) {
        return;
    }
    for (struct rbt_shard_peer *peer = thread->peers; peer != NULL; peer = peer->next) {
        if (peer->host == host) {
            rbt_shard_peer_end(peer);
            rbt_host_forget(host, &peer->guest);
            peer->host = NULL;
        }
    }
    settle_all(thread);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < thread->host_count; i++) {
        if (thread->hosts[i] != host) {
            thread->hosts[kept++] = thread->hosts[i];
        }
    }
    thread->host_count = kept;
    rbt_host_destroy(host);
}

static void on_wake(void *context)
{
    rbt_shard_thread *thread = context;
    uint64_t drops[RBT_SHARD_DROPS_MAX];
    pthread_mutex_lock(&thread->mutex);
    const uint32_t count = thread->drop_count;
    memcpy(drops, thread->drops, count * sizeof *drops);
    thread->drop_count = 0;
    pthread_mutex_unlock(&thread->mutex);
    lock(thread);
    for (uint32_t i = 0; i < count; i++) {
        drop(thread, drops[i]);
    }
    for (struct rbt_shard_peer *peer = thread->peers; peer != NULL; peer = peer->next) {
        if (!peer->is_over && peer->channel != NULL && rbt_channel_has_more(peer->channel)) {
            serve(peer);
        }
    }
    unlock(thread);
}

/* --- Workers of this process ----------------------------------------------------------------- */

static rbt_status open_near(void *shard, const struct rbt_nearby_inbox *inbox, void **connection)
{
    rbt_shard_thread *thread = shard;
    struct rbt_shard_peer *peer = rbt_calloc(1, sizeof *peer);
    if (peer == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a connection");
    }
    *peer = (struct rbt_shard_peer){.thread = thread, .inbox = *inbox, .name = "a neighbour"};
    peer->guest = (struct rbt_guest){
        .worker = RBT_FRAME_NOBODY, .is_near = true, .send = rbt_shard_peer_send, .context = peer};
    lock(thread);
    peer->next = thread->peers;
    thread->peers = peer;
    thread->near_count++;
    unlock(thread);
    *connection = peer;
    return RBT_OK;
}

/* Works on one frame, in the thread of whoever sends it. */
static rbt_status send_near(void *connection, const struct rbt_block *block)
{
    struct rbt_shard_peer *peer = connection;
    struct rbt_frame frame;
    rbt_status st = rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &frame);
    lock(peer->thread);
    if (st == RBT_OK && peer->is_over) {
        st = rbt_fail(RBT_E_CLOSED, "the connection has ended");
    } else if (st == RBT_OK) {
        const char *body = block->data + RBT_FRAME_HEADER;
        st = peer->host == NULL ? receive_hello(peer, &frame, body)
                                : rbt_host_receive(peer->host, &peer->guest, &frame, body);
        if (st != RBT_OK) {
            refuse_all(peer, st);
        } else if (peer->host != NULL) {
            rbt_host_settle(peer->host, &peer->guest);
            report(peer->thread, peer->host);
        }
    }
    unlock(peer->thread);
    return st;
}

static void close_near(void *connection)
{
    struct rbt_shard_peer *peer = connection;
    rbt_shard_thread *thread = peer->thread;
    lock(thread);
    free_peer(peer);
    thread->near_count--;
    unlock(thread);
}

static const struct rbt_nearby_ops nearby_ops = {
    .open = open_near, .send = send_near, .close = close_near};

void rbt_shard_thread_drop(rbt_shard_thread *thread, uint64_t job)
{
    pthread_mutex_lock(&thread->mutex);
    if (thread->drop_count <
        RBT_SHARD_DROPS_MAX) { /* else its memory stays until the server ends */
        thread->drops[thread->drop_count++] = job;
    }
    pthread_mutex_unlock(&thread->mutex);
    rbt_loop_wake(thread->loop);
}

void rbt_shard_thread_admit(rbt_shard_thread *thread, uint64_t number,
                            const struct rbt_control_job *job)
{
    rbt_admitted_add(&thread->admitted, number, job);
}

void rbt_shard_thread_name(rbt_shard_thread *thread, uint64_t cluster, uint32_t shard)
{
    pthread_mutex_lock(&thread->mutex);
    thread->cluster = cluster;
    thread->shard = shard;
    thread->has_name = true;
    pthread_mutex_unlock(&thread->mutex);
}

rbt_time rbt_shard_thread_seen(const rbt_shard_thread *thread)
{
    return atomic_load_explicit(&thread->seen, memory_order_relaxed);
}

const char *rbt_shard_thread_address(const rbt_shard_thread *thread)
{
    return thread->address;
}

/* --- Life ------------------------------------------------------------------------------------ */

static void *run(void *argument)
{
    rbt_shard_thread *thread = argument;
    rbt_loop_run(thread->loop);
    atomic_store(&thread->has_ended, true);
    return NULL;
}

static rbt_status open_loop(rbt_shard_thread *thread)
{
    const struct rbt_watcher watcher = {.on_events = on_connection, .context = thread};
    rbt_status st = rbt_loop_create(&thread->loop);
    if (st != RBT_OK) {
        return st;
    }
    rbt_loop_before_sleep(thread->loop, before_sleep, thread);
    rbt_loop_on_wake(thread->loop, on_wake, thread);
    rbt_loop_set_spinning(thread->loop);
    st = rbt_loop_watch(thread->loop, thread->listener, POLLIN, &watcher, &thread->listening);
    return st != RBT_OK ? st
                        : rbt_loop_every(thread->loop, TICK_TIME, on_tick, thread, &thread->timer);
}

rbt_status rbt_shard_thread_create(const struct rbt_shard_thread_options *options,
                                   rbt_shard_thread **thread)
{
    rbt_shard_thread *t = rbt_calloc(1, sizeof *t);
    if (t == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a shard's thread");
    }
    *t = (rbt_shard_thread){.listener = -1,
                            .security = options->security,
                            .log = options->log,
                            .options = *options,
                            .seen = rbt_clock_now()};
    int error = pthread_mutex_init(&t->mutex, NULL) | pthread_mutex_init(&t->core, NULL);
    RBT_ASSERT(error == 0);
    rbt_admitted_init(&t->admitted);
    rbt_status st = rbt_address_listen(options->listen, t->address, &t->listener);
    st = st != RBT_OK ? st : open_loop(t);
    if (st == RBT_OK) {
        error = rbt_thread_create(&t->thread, run, t);
        t->is_running = error == 0;
        st = error == 0 ? RBT_OK : rbt_fail(RBT_E_NOMEM, "could not start a shard's thread");
    }
    if (st == RBT_OK) {
        const struct rbt_nearby nearby = {.ops = &nearby_ops, .shard = t};
        st = rbt_nearby_add(t->address, &nearby);
    }
    if (st != RBT_OK) {
        rbt_shard_thread_destroy(t);
        return st;
    }
    *thread = t;
    return RBT_OK;
}

/* Stops the thread, and the workers of this process that use it; false if they do not end. What
 * users have written runs under the core's mutex, and may never return. */
static bool is_stuck(rbt_shard_thread *thread)
{
    const struct timespec moment = {.tv_nsec = MOMENT};
    const rbt_time deadline = rbt_clock_now() + END_TIME;
    bool has_ended = false;
    bool is_told = !thread->is_running;
    while (!has_ended && rbt_clock_now() < deadline) {
        if (pthread_mutex_trylock(&thread->core) == 0) {
            const bool is_alone = thread->near_count == 0; /* they leave when the cluster does */
            unlock(thread);
            if (is_alone && !is_told) {
                rbt_loop_stop(thread->loop);
                is_told = true;
            }
            has_ended = is_alone && (!thread->is_running || atomic_load(&thread->has_ended));
        }
        if (!has_ended) {
            (void)nanosleep(&moment, NULL); /* shorter is as good */
        }
    }
    return !has_ended;
}

void rbt_shard_thread_destroy(rbt_shard_thread *thread)
{
    if (thread == NULL) {
        return;
    }
    rbt_nearby_remove(thread->address);
    if (is_stuck(thread)) {
        rbt_log(thread->log, RBT_LOG_WARN, "server",
                "a rule or a filter of a job does not return; the process ends without it");
        return; /* with all that it may still use */
    }
    if (thread->is_running) {
        const int error = pthread_join(thread->thread, NULL);
        RBT_ASSERT(error == 0);
    }
    while (thread->peers != NULL) {
        free_peer(thread->peers);
    }
    for (uint32_t i = 0; i < thread->host_count; i++) {
        rbt_host_destroy(thread->hosts[i]);
    }
    rbt_free(thread->hosts);
    if (thread->listening != NULL) {
        rbt_watch_close(thread->listening);
    }
    if (thread->timer != NULL) {
        rbt_timer_close(thread->timer);
    }
    if (thread->listener >= 0) {
        (void)close(thread->listener);
        if (rbt_address_is_unix(thread->address)) {
            (void)unlink(thread->address + strlen("unix:"));
        }
    }
    if (thread->loop != NULL) {
        rbt_loop_destroy(thread->loop);
    }
    rbt_admitted_deinit(&thread->admitted);
    (void)pthread_mutex_destroy(&thread->mutex); /* nobody holds it */
    (void)pthread_mutex_destroy(&thread->core);  /* the same */
    rbt_free(thread);
}
