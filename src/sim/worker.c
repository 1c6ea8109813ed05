/* sim/worker.c - a simulated worker: a fiber, what it has on its way to each server, and what it
 * has been sent ahead.
 *
 * Pushes are sent and not waited for, unless too many are unacknowledged. Pulls go out to all
 * servers at once and the fiber stops until the last answer is there.
 *
 * Rows of eager tables are sent ahead: whenever the worker has used an answer, the next request for
 * the same rows is on its way at once, and asks for more than there is. The server answers when
 * everybody has finished another clock, and usually the rows are there before they are wanted. Rows
 * that are no longer read are no longer asked for.
 *
 * A worker whose process is gone runs on to its end with every call failing, so that it frees what
 * it holds; nothing that it does any more reaches anybody. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mutant.h"
#include "sim/aggregator.h"
#include "sim/weigh.h"
#include "sim/worker.h"

/* Messages from a worker to a server that may be unanswered. Pushes wait and requests that are
 * ahead of their time are left out long before that, so that there is always room for a read. */
enum {
    OPEN_MAX_PUSH = RBT_LINK_WINDOW / 4 * 3,
    IDLE_MAX = 4, /* clocks for which rows that updates may be computed from wait to be used */
    STACK_BYTES = 1 << 20,
};

#define POLL_TIME rbt_sim_time(1e-6) /* what looking at a floor costs */

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_sim_worker_init(rbt_sim_cluster *cluster, uint32_t index)
{
    struct rbt_sim_worker *worker = &cluster->workers[index];
    worker->index = index;
    worker->node = RBT_NODE_SERVERS + cluster->server_count + index / cluster->threads;
    worker->factor = 1.0;
    worker->links = rbt_calloc(cluster->server_count, sizeof *worker->links);
    worker->newest =
        rbt_calloc((size_t)cluster->server_count * cluster->table_max, sizeof *worker->newest);
    if (worker->links == NULL || worker->newest == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a simulated worker");
    }
    return rbt_map_init(&worker->stash_index, 0);
}

static void clear_stashes(struct rbt_sim_worker *worker)
{
    for (uint32_t i = 0; i < worker->stash_count; i++) {
        rbt_message_unref(worker->stashes[i]->answer);
        rbt_free(worker->stashes[i]);
    }
    if (worker->stash_count > 0) { /* else there may be no map yet */
        rbt_map_clear(&worker->stash_index);
    }
    worker->stash_count = 0;
    worker->has_bases = false;
}

void rbt_sim_worker_clear(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    for (uint32_t i = 0; worker->links != NULL && i < cluster->server_count; i++) {
        struct rbt_link *link = &worker->links[i];
        rbt_link_abandon(cluster, link);
        rbt_session_destroy(link->session);
        *link = (struct rbt_link){.node = worker->node, .server = i, .timer_at = RBT_TIME_NEVER};
    }
    clear_stashes(worker);
    rbt_fiber_destroy(worker->fiber);
    rbt_free(worker->error);
    worker->fiber = NULL;
    worker->error = NULL;
    worker->state = RBT_WORKER_RUNNING;
    worker->is_closed = false;
    worker->was_crashed = false;
    worker->status = RBT_OK;
    worker->slowdown = 1.0;
    worker->unanswered = 0;
    worker->wants_room = false;
}

void rbt_sim_worker_deinit(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    rbt_sim_worker_clear(cluster, worker);
    rbt_free(worker->stashes);
    rbt_map_deinit(&worker->stash_index);
    rbt_free(worker->newest);
    rbt_free(worker->links);
}

static struct rbt_simulation_worker *figures_of(const rbt_sim_cluster *cluster,
                                                const struct rbt_sim_worker *worker)
{
    return &cluster->simulation->workers[worker->index];
}

static rbt_time cpu_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* cannot fail for this clock */
    return (rbt_time)now.tv_sec * 1000000000 + now.tv_nsec;
}

void rbt_sim_worker_resume(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    RBT_ASSERT(cluster->running == NULL);
    RBT_ASSERT(worker->state != RBT_WORKER_ENDED);
    worker->state = RBT_WORKER_RUNNING;
    cluster->last_step = cluster->now;
    cluster->running = worker;
    worker->cpu_mark = cluster->simulation->options.is_measured ? cpu_now() : 0;
    rbt_fiber_resume(worker->fiber);
    cluster->running = NULL;
    if (rbt_fiber_has_ended(worker->fiber)) {
        worker->state = RBT_WORKER_ENDED;
        worker->ended_at = cluster->now;
        cluster->ended_count++;
    }
}

void rbt_sim_worker_close(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    if (worker->state == RBT_WORKER_ENDED || worker->is_closed) {
        return;
    }
    worker->is_closed = true;
    if (worker->error == NULL) { /* every call fails with the reason given now */
        worker->error = rbt_calloc(1, sizeof *worker->error);
        if (worker->error != NULL) {
            rbt_error_save(worker->error);
        }
    }
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        rbt_link_abandon(cluster, &worker->links[i]);
    }
    for (uint32_t i = 0; i < worker->stash_count; i++) {
        worker->stashes[i]->call = NULL; /* on a stack that is about to be left */
        worker->stashes[i]->request = NULL;
    }
    worker->unanswered = 0;
    if (worker != cluster->running) {
        rbt_sim_worker_resume(cluster, worker);
    }
}

/* --- Time ------------------------------------------------------------------------------------ */

static struct rbt_trace_lane lane_of(const rbt_sim_cluster *cluster,
                                     const struct rbt_sim_worker *worker)
{
    return (struct rbt_trace_lane){worker->node, worker->index % cluster->threads};
}

static void trace(const rbt_sim_cluster *cluster, const struct rbt_sim_worker *worker,
                  const char *name, rbt_time start)
{
    if (cluster->simulation->trace != NULL && cluster->now > start) {
        rbt_trace_span(cluster->simulation->trace, lane_of(cluster, worker), name, start,
                       cluster->now);
    }
}

static void sleep_for(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker, rbt_time time)
{
    worker->wake_at = cluster->now + time;
    worker->state = RBT_WORKER_COMPUTING;
    rbt_sim_cluster_schedule(cluster, worker->wake_at, RBT_EVENT_WAKE, worker->index, NULL);
    rbt_fiber_yield();
}

static void compute(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker, double seconds)
{
    const rbt_time start = cluster->now;
    sleep_for(cluster, worker, rbt_sim_time(seconds * worker->factor * worker->slowdown));
    figures_of(cluster, worker)->compute_seconds += (double)(cluster->now - start) * 1e-9;
    trace(cluster, worker, "compute", start);
}

void rbt_sim_worker_spend(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker, double seconds)
{
    if (!worker->is_closed && !cluster->simulation->options.is_measured) {
        compute(cluster, worker, seconds);
    }
}

/* In measured runs: lets as much virtual time pass as the fiber has used since it was resumed. */
static void charge(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    if (cluster->simulation->options.is_measured) {
        compute(cluster, worker, (double)(cpu_now() - worker->cpu_mark) * 1e-9);
    }
}

void rbt_sim_worker_wake(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    if (worker->state != RBT_WORKER_COMPUTING) {
        return; /* it was closed meanwhile */
    }
    if (worker->wake_at > cluster->now) { /* its process stood still for a while */
        rbt_sim_cluster_schedule(cluster, worker->wake_at, RBT_EVENT_WAKE, worker->index, NULL);
        return;
    }
    rbt_sim_worker_resume(cluster, worker);
}

/* Stops until the step's calls are answered, or there is room, and accounts for the time. */
static rbt_time wait(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    const rbt_time start = cluster->now;
    worker->answered_last = start;
    worker->state = RBT_WORKER_WAITING;
    rbt_fiber_yield();
    const rbt_time waited = cluster->now - start;
    const rbt_time for_others = worker->answered_last - start;
    struct rbt_simulation_worker *figures = figures_of(cluster, worker);
    figures->wait_seconds += (double)for_others * 1e-9;
    figures->transmit_seconds += (double)(waited - for_others) * 1e-9;
    trace(cluster, worker, for_others > 0 ? "wait" : "transmit", start);
    return waited;
}

/* --- Sending --------------------------------------------------------------------------------- */

/* Why a worker's calls fail: it was closed, or the run has failed and will be over soon. */
rbt_status rbt_sim_worker_refuse(const rbt_sim_cluster *cluster,
                                 const struct rbt_sim_worker *worker)
{
    const bool is_own = worker->is_closed && worker->error != NULL;
    if (is_own || cluster->status != RBT_OK) {
        rbt_error_restore(is_own ? worker->error : &cluster->error);
    }
    return worker->is_closed ? RBT_E_CLOSED : cluster->status;
}

/* Waits until fewer than OPEN_MAX_PUSH messages to this server are unanswered. */
static rbt_status wait_for_room(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                                const rbt_session *session)
{
    while (!worker->is_closed && rbt_session_open(session) >= OPEN_MAX_PUSH) {
        worker->wants_room = true;
        (void)wait(cluster, worker);
        worker->wants_room = false;
    }
    return worker->is_closed ? rbt_sim_worker_refuse(cluster, worker) : RBT_OK;
}

/* Gives the message to the link's session, which keeps it, and sends it. */
static rbt_status transmit(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker, uint32_t shard,
                           struct rbt_message *message)
{
    struct rbt_link *link = &worker->links[shard];
    rbt_session *session = rbt_link_session(cluster, link);
    const bool is_push = message->kind == RBT_MESSAGE_PUSH;
    message->from = worker->node;
    message->to = RBT_NODE_SERVERS + shard;
    message->shard = shard;
    const struct rbt_session_message record = {
        .is_request = !is_push, .number = message->id, .cookie = (uintptr_t)message};
    rbt_status st = session == NULL ? RBT_E_NOMEM : RBT_OK;
    st = st == RBT_OK && is_push ? wait_for_room(cluster, worker, session) : st;
    st = st != RBT_OK ? st : rbt_session_send(session, &record, cluster->now);
    if (st != RBT_OK) {
        rbt_message_unref(message);
        if (st != RBT_E_CLOSED) {
            rbt_sim_cluster_fail(cluster, st);
        }
        return st;
    }
    rbt_sim_cluster_send_on(cluster, message, worker->node,
                            rbt_sim_aggregator_first_stop(cluster, link, message));
    rbt_link_arm(cluster, link);
    return RBT_OK;
}

/* Copies the event into a message; a failure becomes the run's. */
static struct rbt_message *copy(rbt_sim_cluster *cluster, const struct rbt_shard_event *event,
                                uint32_t shard)
{
    struct rbt_message *message = rbt_message_copy(event, cluster->tables);
    if (message == NULL) {
        rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate a message"));
    } else if (cluster->has_filters) {
        rbt_weigh_request(message, shard, cluster->tables);
    }
    return message;
}

static void draw_slowdown(const rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    const struct rbt_simulation_options *options = &cluster->simulation->options;
    if (options->slowdown_chance > 0) {
        const bool is_slow = rbt_rng_uniform(&worker->rng) < options->slowdown_chance;
        worker->slowdown = is_slow ? options->slowdown_factor : 1.0;
    }
}

/* --- Stamps of rows sent ahead --------------------------------------------------------------- */

static bool has_base(const struct rbt_stash *stash)
{
    return stash->answer != NULL && stash->answer->event.is_base &&
           stash->answer->event.stamp != NULL;
}

/* The lowest stamp that the worker must not let go of, if it says `least` itself: updates may yet
 * be computed from rows that were sent ahead, or are on their way. */
static uint64_t lower_least(const struct rbt_sim_worker *worker, uint32_t shard, uint32_t table,
                            uint64_t least)
{
    uint64_t lowest = least;
    for (uint32_t i = 0; worker->has_bases && i < worker->stash_count; i++) {
        const struct rbt_stash *stash = worker->stashes[i];
        if (stash->shard != shard || stash->table != table || RBT_MUTANT(HASTY_COPY)) {
            continue;
        }
        lowest = stash->request_stamp < lowest ? stash->request_stamp : lowest;
        if (has_base(stash) && stash->answer->stamp < lowest) {
            lowest = stash->answer->stamp;
        }
    }
    return lowest;
}

uint64_t *rbt_sim_worker_newest(const rbt_sim_cluster *cluster, const struct rbt_sim_worker *worker,
                                uint32_t shard, uint32_t table)
{
    RBT_ASSERT(table < cluster->table_max);
    return &worker->newest[(size_t)shard * cluster->table_max + table];
}

/* What a request may say. It may arrive twice, and which of the answers is used is not known: so
 * the second must not let go what the first was answered with, which is no older than anything
 * that has been seen. */
static uint64_t least_of_request(const rbt_sim_cluster *cluster,
                                 const struct rbt_sim_worker *worker, uint32_t shard,
                                 const struct rbt_shard_event *event)
{
    const uint64_t least = lower_least(worker, shard, event->table, event->least);
    const uint64_t newest = *rbt_sim_worker_newest(cluster, worker, shard, event->table);
    return least < newest || RBT_MUTANT(HASTY_READ) ? least : newest;
}

/* A clock has ended: rows that nobody has used for some are dropped, or what the shard keeps for
 * them would stay for ever. */
static void age_stashes(const struct rbt_sim_worker *worker, uint32_t shard)
{
    for (uint32_t i = 0; worker->has_bases && i < worker->stash_count; i++) {
        struct rbt_stash *stash = worker->stashes[i];
        if (stash->shard == shard && has_base(stash) && stash->call == NULL &&
            ++stash->idle > IDLE_MAX) {
            rbt_message_unref(stash->answer);
            stash->answer = NULL;
        }
    }
}

static rbt_status push(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker, uint32_t shard,
                       const struct rbt_shard_event *event)
{
    struct rbt_link *link = &worker->links[shard];
    if (event->kind == RBT_SHARD_PUSH && event->sequence <= link->sent) {
        return RBT_OK; /* another server's copy could not be sent, and so all are sent again */
    }
    struct rbt_message *message = copy(cluster, event, shard);
    if (message == NULL) {
        return RBT_E_NOMEM;
    }
    message->id = event->sequence > link->sent ? event->sequence : link->sent + 1;
    if (event->kind == RBT_SHARD_PUSH && event->marker != RBT_MARKER_NONE && shard == 0) {
        figures_of(cluster, worker)->clocks = event->marker;
        draw_slowdown(cluster, worker); /* a new clock */
    }
    for (size_t i = 0; i < event->batch_count; i++) {
        struct rbt_batch *batch = &message->event.batches[i];
        batch->least = lower_least(worker, shard, batch->table, batch->least);
    }
    if (event->marker != RBT_MARKER_NONE) {
        age_stashes(worker, shard);
    }
    const uint64_t id = message->id;
    const rbt_status st = transmit(cluster, worker, shard, message);
    link->sent = st == RBT_OK ? id : link->sent;
    link->leave = event->kind == RBT_SHARD_LEAVE ? id : link->leave;
    return st;
}

rbt_status rbt_sim_worker_request(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                                  uint32_t shard, const struct rbt_shard_event *event,
                                  struct rbt_message **sent)
{
    struct rbt_message *message = copy(cluster, event, shard);
    if (message == NULL) {
        return RBT_E_NOMEM;
    }
    message->id = ++worker->next_id;
    message->event.least = least_of_request(cluster, worker, shard, event);
    *sent = message; /* the session holds it until it is answered */
    return transmit(cluster, worker, shard, message);
}

/* --- Rows sent ahead ------------------------------------------------------------------------- */

/* The worker's stash for these rows of this server, made if there is none; NULL without memory. */
struct rbt_stash *rbt_sim_worker_stash(struct rbt_sim_worker *worker, uint64_t subscription,
                                       uint32_t shard)
{
    const uint64_t key = rbt_hash_key(subscription) + shard;
    const uint32_t found = rbt_map_find(&worker->stash_index, key);
    if (found != RBT_MAP_NONE) {
        return worker->stashes[found];
    }
    if (worker->stash_count == worker->stash_max) {
        const uint32_t max = worker->stash_max == 0 ? 16 : worker->stash_max * 2;
        struct rbt_stash **stashes = rbt_realloc(worker->stashes, max, sizeof *stashes);
        if (stashes == NULL) {
            return NULL;
        }
        worker->stashes = stashes;
        worker->stash_max = max;
    }
    struct rbt_stash *stash = rbt_calloc(1, sizeof *stash);
    if (stash == NULL || rbt_map_reserve(&worker->stash_index, 1) != RBT_OK) {
        rbt_free(stash);
        return NULL;
    }
    *stash = (struct rbt_stash){
        .subscription = subscription, .shard = shard, .request_stamp = RBT_STAMP_NONE};
    rbt_map_insert(&worker->stash_index, key, worker->stash_count);
    worker->stashes[worker->stash_count++] = stash;
    return stash;
}

/* Asks for the rows as they will be once everybody has got further. */
static void ask_ahead(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                      struct rbt_stash *stash, const struct rbt_shard_event *event)
{
    const int64_t floor = stash->answer->floor;
    const uint32_t shard = stash->answer->shard;
    if (stash->request != NULL || floor == RBT_CLOCK_GONE ||
        rbt_session_open(worker->links[shard].session) >= RBT_WORKER_AHEAD_MAX) {
        return;
    }
    struct rbt_shard_event next = *event;
    stash->idle = 0;
    next.need = floor > event->need ? floor + 1 : event->need + 1;
    if (rbt_sim_worker_request(cluster, worker, shard, &next, &stash->request) == RBT_OK) {
        stash->request->stash = stash;
        stash->request->is_ahead = true;
        if (has_base(stash)) { /* stamps grow: what comes is no older than what has been used */
            stash->request_stamp = stash->answer->stamp;
        }
    } else {
        stash->request = NULL;
    }
}

void rbt_sim_worker_complete(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                             struct rbt_driver_call *call, const struct rbt_message *answer)
{
    rbt_message_unpack(answer, &call->event, cluster->tables);
    uint64_t *newest = rbt_sim_worker_newest(cluster, worker, call->shard, call->event.table);
    *newest = answer->stamp > *newest ? answer->stamp : *newest;
    if (answer->was_parked && answer->answered > worker->answered_last) {
        worker->answered_last = answer->answered;
    }
    call->reply = (struct rbt_driver_reply){.status = RBT_OK,
                                            .version = answer->version,
                                            .floor = answer->floor,
                                            .acknowledged = worker->links[call->shard].arrived,
                                            .settled = worker->links[call->shard].settled,
                                            .had_to_wait = answer->was_parked &&
                                                           answer->answered > worker->step_at};
}

/* Whether the stash's answer is of the right clock. */
static bool is_fresh(const struct rbt_stash *stash, const struct rbt_shard_event *event)
{
    return stash->answer != NULL &&
           (stash->answer->floor >= event->need || RBT_MUTANT(STALE_COPY)) &&
           rbt_message_fits(stash->answer, event);
}

/* Whether it contains what the reader relies on; it may have been sent before that was visible. */
static bool has_least(const struct rbt_stash *stash, const struct rbt_shard_event *event)
{
    for (uint32_t i = 0; event->applied_least != NULL && i < event->applied_count; i++) {
        if (stash->answer->event.applied[i] < event->applied_least[i] &&
            !RBT_MUTANT(FORGETFUL_COPY)) {
            return false;
        }
    }
    return true;
}

/* Asks for the rows as they are now. What is asked for ahead may have to wait for this worker. */
static rbt_status pull_now(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                           struct rbt_driver_call *call, struct rbt_stash *stash)
{
    struct rbt_message *sent = NULL;
    worker->unanswered++;
    const rbt_status st = rbt_sim_worker_request(cluster, worker, call->shard, &call->event, &sent);
    if (st == RBT_OK) {
        sent->call = call;
        sent->stash = stash;
    } else {
        worker->unanswered = worker->is_closed ? 0 : worker->unanswered - 1;
    }
    return st;
}

/* Serves the call from the stash, or lets it wait there. */
static rbt_status pull_eagerly(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                               struct rbt_driver_call *call)
{
    struct rbt_stash *stash = rbt_sim_worker_stash(worker, call->event.subscription, call->shard);
    if (stash == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate room for rows sent ahead");
    }
    stash->table = call->event.table;
    worker->has_bases = worker->has_bases || call->event.is_base;
    if (is_fresh(stash, &call->event)) {
        if (!has_least(stash, &call->event)) {
            return pull_now(cluster, worker, call, stash);
        }
        rbt_sim_worker_complete(cluster, worker, call, stash->answer);
        ask_ahead(cluster, worker, stash, &call->event);
        return RBT_OK;
    }
    RBT_ASSERT(stash->call == NULL); /* a worker has one step under way */
    stash->call = call;
    worker->unanswered++;
    if (stash->request != NULL) {
        stash->request->is_ahead = false; /* somebody waits for it now */
        return RBT_OK;
    }
    const rbt_status st =
        rbt_sim_worker_request(cluster, worker, call->shard, &call->event, &stash->request);
    if (st == RBT_OK) {
        stash->request->stash = stash;
        return RBT_OK;
    }
    stash->request = NULL;
    stash->call = NULL;
    worker->unanswered = worker->is_closed ? 0 : worker->unanswered - 1;
    return st;
}

static rbt_status pull(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                       struct rbt_driver_call *call)
{
    if (call->event.kind == RBT_SHARD_PULL && call->event.subscription != 0 &&
        call->event.need != RBT_CLOCK_ANY) {
        return pull_eagerly(cluster, worker, call);
    }
    return pull_now(cluster, worker, call, NULL);
}

/* --- Steps ----------------------------------------------------------------------------------- */

static bool is_request(const struct rbt_shard_event *event)
{
    return event->kind == RBT_SHARD_PULL || event->kind == RBT_SHARD_SCAN;
}

static void start(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                  struct rbt_driver_call *call)
{
    const struct rbt_link *link = &worker->links[call->shard];
    call->reply = (struct rbt_driver_reply){0};
    if (worker->is_closed || cluster->status != RBT_OK) {
        call->reply.status = rbt_sim_worker_refuse(cluster, worker);
    } else if (is_request(&call->event)) {
        const rbt_status st = pull(cluster, worker, call);
        call->reply.status = st != RBT_OK ? st : call->reply.status;
    } else {
        call->reply.status = push(cluster, worker, call->shard, &call->event);
        call->reply.floor = link->floor;
        call->reply.version = link->version;
        call->reply.acknowledged = link->arrived;
        call->reply.settled = link->settled;
    }
}

void rbt_sim_worker_step(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                         struct rbt_driver_call *calls, size_t count)
{
    if (!worker->is_closed) {
        charge(cluster, worker);
    }
    worker->step_at = cluster->now;
    for (size_t i = 0; i < count; i++) {
        start(cluster, worker, &calls[i]);
    }
    if (worker->unanswered > 0 && !worker->is_closed) {
        const rbt_time waited = wait(cluster, worker);
        calls[0].reply.waited = waited;
    }
    for (size_t i = 0; worker->is_closed && i < count; i++) {
        calls[i].reply.status = rbt_sim_worker_refuse(cluster, worker);
    }
}

int64_t rbt_sim_worker_floor(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                             uint32_t shard)
{
    struct rbt_link *link = &worker->links[shard];
    if (worker->is_closed) {
        return RBT_CLOCK_GONE; /* it need not wait for anything */
    }
    /* Whoever looks again and again must let time pass and ask, or nothing would ever change. */
    if (link->session == NULL || rbt_session_open(link->session) == 0) {
        struct rbt_shard_scan nothing = {.range = {1, 0}};
        const struct rbt_shard_event event = {.kind = RBT_SHARD_SCAN,
                                              .worker = worker->index,
                                              .need = RBT_CLOCK_ANY,
                                              .scan = &nothing};
        struct rbt_message *sent = NULL;
        const rbt_status st = rbt_sim_worker_request(cluster, worker, shard, &event, &sent);
        (void)st; /* a failure is the run's */
    }
    const rbt_time start = cluster->now;
    sleep_for(cluster, worker, POLL_TIME);
    figures_of(cluster, worker)->compute_seconds += (double)(cluster->now - start) * 1e-9;
    return link->floor;
}

/* --- Receiving ------------------------------------------------------------------------------- */

/* Copies never get older. */
static void keep_newest(struct rbt_stash *stash, struct rbt_message *answer)
{
    const struct rbt_message *old = stash->answer;
    if (old == NULL || old->version <= answer->version) {
        rbt_message_ref(answer);
        rbt_message_unref(stash->answer);
        stash->answer = answer;
        stash->idle = 0;
    }
}

/* The answer to a request for rows that are sent ahead. */
static void receive_ahead(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                          struct rbt_stash *stash, struct rbt_message *answer)
{
    stash->request = NULL;
    stash->request_stamp = RBT_STAMP_NONE;
    if (!answer->is_withheld) {
        keep_newest(stash, answer);
    }
    struct rbt_driver_call *call = stash->call;
    if (call == NULL) {
        return;
    }
    if (is_fresh(stash, &call->event) && has_least(stash, &call->event)) {
        stash->call = NULL;
        worker->unanswered--;
        rbt_sim_worker_complete(cluster, worker, call, stash->answer);
        ask_ahead(cluster, worker, stash, &call->event);
    } else if (rbt_sim_worker_request(cluster, worker, call->shard, &call->event,
                                      &stash->request) == RBT_OK) {
        stash->request->stash = stash;
    } else {
        stash->request = NULL;
    }
}

static void receive_rows(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                         struct rbt_link *link, struct rbt_message *answer)
{
    struct rbt_session_outbox out = {.effects = cluster->released};
    if (!rbt_session_answered(link->session, answer->id, cluster->now, &out)) {
        return; /* a repetition */
    }
    RBT_ASSERT(out.count == 1);
    struct rbt_message *asked = (struct rbt_message *)(uintptr_t)out.effects[0].cookie;
    struct rbt_driver_call *call = asked->call;
    struct rbt_stash *stash = asked->stash;
    rbt_message_unref(asked);
    if (call != NULL) {
        worker->unanswered--;
        if (stash != NULL) {
            keep_newest(stash, answer);
        }
        const bool is_kept = stash != NULL && rbt_message_fits(stash->answer, &call->event);
        rbt_sim_worker_complete(cluster, worker, call, is_kept ? stash->answer : answer);
    } else if (stash != NULL) {
        receive_ahead(cluster, worker, stash, answer);
    }
}

/* The server has all of the stream up to `number`. */
static void acknowledge(const rbt_sim_cluster *cluster, struct rbt_link *link, uint64_t number)
{
    struct rbt_session_outbox out = {.effects = cluster->released};
    rbt_session_acknowledge(link->session, number, cluster->now, &out);
    rbt_link_release(&out);
}

/* What every message of a server says. */
static void note_news(rbt_sim_cluster *cluster, struct rbt_link *link,
                      const struct rbt_message *message)
{
    link->floor = message->floor > link->floor ? message->floor : link->floor;
    link->version = message->version > link->version ? message->version : link->version;
    link->arrived = message->arrived > link->arrived ? message->arrived : link->arrived;
    link->settled = message->settled > link->settled ? message->settled : link->settled;
    acknowledge(cluster, link, message->arrived);
}

void rbt_sim_worker_receive(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                            struct rbt_message *message)
{
    struct rbt_link *link = &worker->links[message->shard];
    if (worker->is_closed || link->session == NULL) {
        return;
    }
    note_news(cluster, link, message);
    switch (message->kind) {
    case RBT_MESSAGE_ROWS:
        receive_rows(cluster, worker, link, message);
        break;
    case RBT_MESSAGE_PARKED:
        rbt_session_received(link->session, message->id, cluster->now);
        break;
    case RBT_MESSAGE_ACK: /* shards do not count the last message of the stream */
        if (message->id == link->leave) {
            acknowledge(cluster, link, link->leave);
        }
        break;
    case RBT_MESSAGE_REFUSED:
        (void)rbt_fail(RBT_E_CLOSED, "%s was given up: it had been silent for too long",
                       cluster->nodes[worker->node].name);
        worker->was_crashed = worker->state != RBT_WORKER_ENDED; /* the others went on without it */
        rbt_sim_worker_close(cluster, worker);
        return;
    default:
        RBT_UNREACHABLE();
    }
    rbt_link_arm(cluster, link);
    if (worker->state == RBT_WORKER_WAITING && (worker->unanswered == 0 || worker->wants_room)) {
        rbt_sim_worker_resume(cluster, worker);
    }
}

/* What the fiber runs. */
static void run_fiber(void *argument)
{
    struct rbt_sim_worker *worker = argument;
    rbt_sim_cluster *cluster = worker->cluster;
    worker->status = cluster->function(cluster->argument, worker->index);
    if (worker->status != RBT_OK && worker->error == NULL) {
        worker->error = rbt_calloc(1, sizeof *worker->error);
        if (worker->error != NULL) {
            rbt_error_save(worker->error);
        }
    }
}

rbt_status rbt_sim_worker_start(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker)
{
    worker->cluster = cluster;
    rbt_rng_init(&worker->rng, cluster->simulation->options.seed, 2, worker->index);
    draw_slowdown(cluster, worker);
    return rbt_fiber_create(run_fiber, worker, STACK_BYTES, &worker->fiber);
}
