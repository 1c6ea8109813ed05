/* server/shard_thread.c - a thread that owns a shard: it listens, and serves whoever connects.
 *
 * Everything that can be read is read and worked on; what follows from it is sent when there is
 * nothing more to do, many messages in one write. A peer that does not read what it has asked for
 * is not read from, either, until it does: it slows itself down and nobody else. What is answered,
 * and to whom, is decided by the service (proto/service.h); here are its sockets and its turns.
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
#include "server/shard_state.h"

enum {
    QUEUED_MAX = 64 << 20, /* bytes to a peer, above which it is not read from */
    FLUSH_AT = 256 << 10,  /* bytes to a peer that are sent without waiting for more */
    TURN_MAX = 256,        /* messages of a peer before it is others' turn */
    PEERS_MIN = 16,
};

#define SECOND    INT64_C(1000000000)
#define TICK_TIME (SECOND / 10)
#define END_TIME  (5 * SECOND)   /* for what is under way when the server ends */
#define MOMENT    (SECOND / 500) /* between two looks whether it has ended */

/* --- What the service wants done --------------------------------------------------------------
 */

static void mark_dirty(struct rbt_shard_peer *peer)
{
    if (!peer->is_dirty && peer->channel != NULL) {
        peer->is_dirty = true;
        peer->next_dirty = peer->thread->dirty;
        peer->thread->dirty = peer;
    }
}

/* Wakes the loop if it is not the one that runs: it has something to send now. */
static void wake_loop(const rbt_shard_thread *thread)
{
    if (!pthread_equal(pthread_self(), thread->thread)) {
        rbt_loop_wake(thread->loop);
    }
}

/* Sends a block to a peer; takes over the reference. */
static void send_block(struct rbt_shard_peer *peer, struct rbt_block *block)
{
    if (peer->channel == NULL && !peer->is_over) {
        peer->inbox.deliver(peer->inbox.context, block);
        return;
    }
    /* Nobody is told anything who has not yet proved that it has the key. */
    if (!peer->is_over && rbt_channel_is_ready(peer->channel) &&
        rbt_channel_send(peer->channel, block) != RBT_OK) {
        peer->is_over = true;
    }
    rbt_block_unref(block);
    mark_dirty(peer);
    wake_loop(peer->thread);
}

/* Ends a connection, after what was sent before, as far as that goes. */
static void cut(struct rbt_shard_peer *peer)
{
    if (peer->channel != NULL && !peer->is_over) {
        const rbt_status flushed = rbt_channel_flush(peer->channel);
        (void)flushed; /* it ends either way */
    }
    peer->is_over = true;
    peer->is_cut = true;
    mark_dirty(peer);
    wake_loop(peer->thread);
}

void rbt_shard_thread_step(rbt_shard_thread *thread, const struct rbt_service_event *event)
{
    struct rbt_outbox *out = &thread->outbox;
    RBT_ASSERT(out->count == 0);
    rbt_service_step(thread->service, event, rbt_clock_now(), out);
    for (uint32_t i = 0; i < out->count; i++) {
        struct rbt_shard_peer *peer = thread->peers[out->items[i].port];
        RBT_ASSERT(peer != NULL);
        switch (out->items[i].kind) {
        case RBT_OUT_SEND:
            send_block(peer, out->items[i].block);
            break;
        case RBT_OUT_CUT:
            cut(peer);
            break;
        case RBT_OUT_CONNECT: /* it is others who connect to a shard */
            RBT_UNREACHABLE();
        }
    }
    rbt_outbox_clear(out);
}

static void step_port(struct rbt_shard_peer *peer, struct rbt_port_event event)
{
    event.port = peer->port;
    rbt_shard_thread_step(peer->thread,
                          &(struct rbt_service_event){.kind = RBT_SERVICE_PORT, .port = &event});
}

static void step_turn(rbt_shard_thread *thread, uint32_t port)
{
    rbt_shard_thread_step(thread,
                          &(struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = port});
}

/* --- Peers ----------------------------------------------------------------------------------- */

/* A port that is free. Fails with RBT_E_NOMEM. */
static rbt_status find_port(rbt_shard_thread *thread, uint32_t *port)
{
    uint32_t free = 0;
    while (free < thread->peer_max && thread->peers[free] != NULL) {
        free++;
    }
    if (free == thread->peer_max) {
        const uint32_t max = free == 0 ? PEERS_MIN : 2 * free;
        struct rbt_shard_peer **grown = rbt_realloc(thread->peers, max, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for a connection");
        }
        memset(grown + free, 0, (max - free) * sizeof *grown);
        thread->peers = grown;
        thread->peer_max = max;
    }
    *port = free;
    return RBT_OK;
}

rbt_status rbt_shard_peer_add(struct rbt_shard_peer *peer, const char *name)
{
    const rbt_status st = find_port(peer->thread, &peer->port);
    if (st != RBT_OK) {
        return st;
    }
    peer->thread->peers[peer->port] = peer;
    step_port(peer,
              (struct rbt_port_event){.kind = RBT_PORT_UP,
                                      .up = {.peer = name, .is_near = peer->channel == NULL}});
    return RBT_OK;
}

static void free_peer(struct rbt_shard_peer *peer)
{
    if (!peer->is_cut) {
        step_port(peer, (struct rbt_port_event){.kind = RBT_PORT_DOWN,
                                                .down = {RBT_E_CLOSED, "the connection is over"}});
    }
    peer->thread->peers[peer->port] = NULL;
    if (peer->channel != NULL) {
        rbt_watch_close(peer->watch);
        rbt_channel_close(peer->channel);
    }
    rbt_free(peer);
}

/* --- What the member has to tell ------------------------------------------------------------- */

/* Hands over what was told since the last time. The core's mutex is held. */
static void take_words(rbt_shard_thread *thread)
{
    pthread_mutex_lock(&thread->mutex);
    struct rbt_shard_word *words = thread->words;
    const uint32_t count = thread->word_count;
    thread->words = NULL;
    thread->word_count = 0;
    thread->word_max = 0;
    atomic_store(&thread->has_words, false);
    pthread_mutex_unlock(&thread->mutex);
    for (uint32_t i = 0; i < count; i++) {
        words[i].event.admit.job =
            words[i].event.kind == RBT_SERVICE_ADMIT ? &words[i].job : words[i].event.admit.job;
        rbt_shard_thread_step(thread, &words[i].event);
    }
    rbt_free(words);
}

/* Without memory it is not told: then nobody gets into a job, or its rows stay until the end. */
static bool tell(rbt_shard_thread *thread, const struct rbt_shard_word *word)
{
    pthread_mutex_lock(&thread->mutex);
    if (thread->word_count == thread->word_max) {
        const uint32_t max = thread->word_max == 0 ? 4 : 2 * thread->word_max;
        struct rbt_shard_word *grown = rbt_realloc(thread->words, max, sizeof *grown);
        thread->words = grown != NULL ? grown : thread->words;
        thread->word_max = grown != NULL ? max : thread->word_max;
    }
    const bool has_room = thread->word_count < thread->word_max;
    if (has_room) {
        thread->words[thread->word_count++] = *word;
        atomic_store(&thread->has_words, true);
    }
    pthread_mutex_unlock(&thread->mutex);
    rbt_loop_wake(thread->loop);
    return has_room;
}

void rbt_shard_thread_drop(rbt_shard_thread *thread, uint64_t job)
{
    (void)tell(thread, &(struct rbt_shard_word){.event = {.kind = RBT_SERVICE_DROP, .drop = job}});
}

rbt_status rbt_shard_thread_bound(rbt_shard_thread *thread, uint64_t job,
                                  const struct rbt_bound *bound)
{
    const struct rbt_shard_word word = {
        .event = {.kind = RBT_SERVICE_BOUND, .bound = {.job = job, .bound = *bound}}};
    return tell(thread, &word) ? RBT_OK
                               : rbt_fail(RBT_E_NOMEM, "no memory to send a staleness to a shard");
}

void rbt_shard_thread_admit(rbt_shard_thread *thread, uint64_t number,
                            const struct rbt_control_job *job)
{
    (void)tell(thread,
               &(struct rbt_shard_word){
                   .event = {.kind = RBT_SERVICE_ADMIT, .admit = {.number = number}}, .job = *job});
}

void rbt_shard_thread_name(rbt_shard_thread *thread, uint64_t cluster, uint32_t shard)
{
    (void)tell(thread, &(struct rbt_shard_word){
                           .event = {.kind = RBT_SERVICE_NAME, .name = {cluster, shard}}});
}

static void unlock(rbt_shard_thread *thread)
{
    const int error = pthread_mutex_unlock(&thread->core);
    RBT_ASSERT(error == 0);
}

/* Takes the core's mutex, and hears what the member has told before. */
static void lock(rbt_shard_thread *thread)
{
    const int error = pthread_mutex_lock(&thread->core);
    RBT_ASSERT(error == 0);
    if (atomic_load(&thread->has_words)) {
        take_words(thread);
    }
}

/* --- Serving --------------------------------------------------------------------------------- */

/* One frame, or why there is none. */
static void work_on(struct rbt_shard_peer *peer, rbt_status st, const struct rbt_frame *frame,
                    const char *body)
{
    if (st == RBT_E_CLOSED || st == RBT_E_IO) {
        peer->is_over = true;
        return;
    }
    if (st != RBT_OK) {
        char why[RBT_ERROR_MAX];
        memcpy(why, rbt_last_error(), sizeof why);
        step_port(peer, (struct rbt_port_event){.kind = RBT_PORT_BROKEN, .down = {st, why}});
        return;
    }
    step_port(peer, (struct rbt_port_event){.kind = RBT_PORT_FRAME,
                                            .frame = {.head = *frame, .body = body}});
    if (!peer->is_admitted && !peer->is_over &&
        rbt_service_is_admitted(peer->thread->service, peer->port)) {
        peer->is_admitted = true;
        rbt_channel_set_body_max(peer->channel, RBT_FRAME_BODY_MAX);
    }
    if (!peer->is_over && rbt_channel_queued(peer->channel) >= FLUSH_AT) {
        const rbt_status flushed =
            rbt_channel_flush(peer->channel); /* it can work on it meanwhile */
        peer->is_over = flushed != RBT_OK && flushed != RBT_E_BUSY;
    }
}

/* Works on what the peer has sent, unless it leaves too much unread; for a while, since others want
 * their turn, too. What is left is taken up by on_wake(). */
static void serve(struct rbt_shard_peer *peer)
{
    struct rbt_frame frame;
    const char *body = NULL;
    for (int turn = 0;
         turn < TURN_MAX && !peer->is_over && rbt_channel_queued(peer->channel) < QUEUED_MAX;
         turn++) {
        const rbt_status st = rbt_channel_receive(peer->channel, &frame, &body);
        if (st == RBT_E_BUSY) {
            break;
        }
        if (atomic_load(&peer->thread->has_words)) { /* a staleness was told before this was sent */
            take_words(peer->thread);
        }
        if (!peer->is_over) {
            work_on(peer, st, &frame, body);
        }
    }
    mark_dirty(peer);
}

void rbt_shard_peer_work(void *context, short events)
{
    struct rbt_shard_peer *peer = context;
    rbt_shard_thread *thread = peer->thread;
    (void)events;
    lock(thread);
    if (!peer->is_over) {
        serve(peer);
    }
    unlock(thread);
}

/* Sends what is to be sent to one peer, and says what it waits for. It counts as dirty meanwhile:
 * it may end here, and must not be in the list again when it does. */
static void settle(struct rbt_shard_peer *peer)
{
    RBT_ASSERT(peer->is_dirty);
    if (!peer->is_over) {
        const rbt_status st = rbt_channel_flush(peer->channel);
        peer->is_over = st != RBT_OK && st != RBT_E_BUSY;
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

static void on_version(void *context, uint64_t job, uint32_t table, uint64_t version)
{
    const rbt_shard_thread *thread = context;
    const struct rbt_shard_thread_options *options = &thread->options;
    if (options->on_version != NULL) {
        options->on_version(options->context, &(struct rbt_member_version){.job = job,
                                                                           .table = table,
                                                                           .shard = options->index,
                                                                           .version = version});
    }
}

static void on_note(void *context, const char *text)
{
    const rbt_shard_thread *thread = context;
    rbt_log(thread->log, RBT_LOG_WARN, "server", "%s", text);
}

static void before_sleep(void *context)
{
    rbt_shard_thread *thread = context;
    lock(thread);
    step_turn(thread, RBT_SERVICE_ALL);
    settle_all(thread);
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
    if (rbt_service_deadline(thread->service) <= now) {
        rbt_shard_thread_step(thread, &(struct rbt_service_event){.kind = RBT_SERVICE_TIME});
    }
    unlock(thread);
}

static void on_wake(void *context)
{
    rbt_shard_thread *thread = context;
    lock(thread);
    for (uint32_t i = 0; i < thread->peer_max; i++) {
        struct rbt_shard_peer *peer = thread->peers[i];
        if (peer != NULL && !peer->is_over && peer->channel != NULL &&
            rbt_channel_has_more(peer->channel)) {
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
    *peer = (struct rbt_shard_peer){.thread = thread, .inbox = *inbox};
    lock(thread);
    const rbt_status st = rbt_shard_peer_add(peer, "a neighbour");
    thread->near_count += st == RBT_OK;
    unlock(thread);
    if (st != RBT_OK) {
        rbt_free(peer);
        return st;
    }
    *connection = peer;
    return RBT_OK;
}

/* Works on one frame, in the thread of whoever sends it. */
static rbt_status send_near(void *connection, const struct rbt_block *block)
{
    struct rbt_shard_peer *peer = connection;
    struct rbt_frame frame;
    const rbt_status st = rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &frame);
    if (st != RBT_OK) {
        return st;
    }
    lock(peer->thread);
    if (!peer->is_over) {
        step_port(peer, (struct rbt_port_event){
                            .kind = RBT_PORT_FRAME,
                            .frame = {.head = frame, .body = block->data + RBT_FRAME_HEADER}});
    }
    if (!peer->is_over) {
        step_turn(peer->thread, peer->port);
    }
    const bool is_over = peer->is_over;
    unlock(peer->thread);
    return is_over ? rbt_fail(RBT_E_CLOSED, "the connection has ended") : RBT_OK;
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

static rbt_status open_service(rbt_shard_thread *thread)
{
    const struct rbt_service_options options = {.address = thread->address,
                                                .shards_here = thread->options.shards_here,
                                                .context = thread,
                                                .on_note = on_note,
                                                .on_version = on_version};
    return rbt_service_create(&options, &thread->service);
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
    rbt_status st = rbt_address_listen(options->listen, t->address, &t->listener);
    st = st != RBT_OK ? st : open_service(t);
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
        rbt_log(
            thread->log, RBT_LOG_WARN, "server",
            "a rule or filter of a job does not return; the process ends without waiting for it");
        return; /* with all that it may still use */
    }
    if (thread->is_running) {
        const int error = pthread_join(thread->thread, NULL);
        RBT_ASSERT(error == 0);
    }
    for (uint32_t i = 0; i < thread->peer_max; i++) {
        if (thread->peers[i] != NULL) {
            free_peer(thread->peers[i]);
        }
    }
    rbt_free(thread->peers);
    rbt_service_destroy(thread->service);
    rbt_outbox_deinit(&thread->outbox);
    rbt_free(thread->words);
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
    (void)pthread_mutex_destroy(&thread->mutex); /* nobody holds it */
    (void)pthread_mutex_destroy(&thread->core);  /* the same */
    rbt_free(thread);
}
