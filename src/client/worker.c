/* client/worker.c - a worker: its clock, its messages to the shards, and what its reads see.
 *
 * Updates gather in one buffer per table. rbt_clock() sends them all in one message per shard, with
 * the marker that ends the clock; it waits for nobody. A message keeps its number until every shard
 * has it, so repeating a failed rbt_clock() applies nothing twice.
 *
 * Threads: a worker belongs to one thread. With overlay PROCESS its buffers are read by the others,
 * under the table's mutex, which is therefore held whenever they change. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "client/client.h"
#include "client/exchange.h"
#include "client/filtering.h"
#include "client/staleness.h"

void rbt_worker_lock(const struct rbt_worker_table *local)
{
    if (local->table->options.overlay == RBT_OVERLAY_PROCESS) {
        const int error = pthread_mutex_lock(&local->table->mutex);
        RBT_ASSERT(error == 0);
    }
}

void rbt_worker_unlock(const struct rbt_worker_table *local)
{
    if (local->table->options.overlay == RBT_OVERLAY_PROCESS) {
        const int error = pthread_mutex_unlock(&local->table->mutex);
        RBT_ASSERT(error == 0);
    }
}

/* What the worker's side of a table with a rule has besides. */
static rbt_status make_stamps(const rbt_worker *worker, struct rbt_worker_table *local)
{
    const uint32_t shards = worker->job->shard_count;
    local->bases = rbt_calloc(shards, sizeof *local->bases);
    local->row_stamps = rbt_calloc(shards, sizeof *local->row_stamps);
    if (local->bases == NULL || local->row_stamps == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a worker's part of table \"%s\"",
                        local->table->spec.name);
    }
    return rbt_stamps_create(shards, &local->stamps);
}

/* Room for what each shard says of the workers whose updates reads of the table show, and for what
 * it must say. */
static rbt_status fit_applied(rbt_worker *worker, const rbt_table *table)
{
    const rbt_cache cache = table->options.cache;
    const bool is_process = cache == RBT_CACHE_PROCESS || cache == RBT_CACHE_BOTH;
    const size_t shards = worker->job->shard_count;
    const size_t needed = (shards + 1) * (is_process ? worker->process_size : 1);
    RBT_ASSERT(is_process || table->options.overlay != RBT_OVERLAY_PROCESS);
    if (needed <= worker->applied_max) {
        return RBT_OK;
    }
    uint64_t *applied = rbt_realloc(worker->applied, needed, sizeof *applied);
    if (applied == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a read from %zu shards", shards);
    }
    worker->applied = applied;
    worker->applied_max = needed;
    return RBT_OK;
}

static rbt_status make_worker_table(rbt_worker *worker, rbt_table *table,
                                    struct rbt_worker_table **local)
{
    struct rbt_worker_table *p = rbt_calloc(1, sizeof *p);
    if (p == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a worker's part of table \"%s\"",
                        table->spec.name);
    }
    const struct rbt_rowcache_options rows = {.kind = table->kind,
                                              .width = table->spec.width,
                                              .is_sparse = table->spec.layout == RBT_SPARSE};
    p->table = table;
    p->process = &table->processes[worker->process_first / worker->job->driver->process_size];
    p->buffer = (struct rbt_buffer){.kind = table->kind,
                                    .width = table->spec.width,
                                    .placement = table->placement,
                                    .is_sparse = rows.is_sparse,
                                    .has_bases = rbt_spec_has_rule(&table->spec)};
    if (table->options.cache_rows > 0) {
        p->seen = rbt_calloc(worker->job->shard_count, sizeof *p->seen);
    }
    rbt_status st = table->options.cache_rows > 0 && p->seen == NULL
                        ? rbt_fail(RBT_E_NOMEM, "could not allocate a worker's cache")
                        : rbt_rowcache_init(&p->rows, &rows);
    if (st == RBT_OK) {
        st = rbt_keylist_create(table->placement, &p->list);
    }
    if (st == RBT_OK) {
        st = fit_applied(worker, table);
    }
    if (st == RBT_OK && rbt_spec_has_rule(&table->spec)) {
        st = make_stamps(worker, p);
    }
    if (st == RBT_OK && table->has_filter) {
        st = rbt_filtering_create(table, worker->index, &p->filtering);
    }
    if (st != RBT_OK) {
        rbt_worker_free_table(p);
        return st;
    }
    rbt_worker_lock(p); /* others look at it from now on */
    worker->locals[table->spec.number] = p;
    rbt_worker_unlock(p);
    if (table->spec.number >= worker->table_count) {
        worker->table_count = table->spec.number + 1;
    }
    *local = p;
    return RBT_OK;
}

void rbt_worker_free_table(struct rbt_worker_table *local)
{
    if (local == NULL) {
        return;
    }
    rbt_keylist_unref(local->list);
    rbt_rowcache_deinit(&local->rows);
    rbt_buffer_deinit(&local->buffer);
    rbt_stamps_destroy(local->stamps);
    rbt_filtering_destroy(local->filtering);
    rbt_free(local->row_stamps);
    rbt_free(local->bases);
    rbt_free(local->recorded);
    rbt_free(local->seen);
    rbt_free(local);
}

rbt_status rbt_worker_table_of(rbt_worker *worker, rbt_table *table,
                               struct rbt_worker_table **local)
{
    if (table->job != worker->job) {
        return rbt_fail(RBT_E_INVALID, "table \"%s\" belongs to another job", table->spec.name);
    }
    *local = worker->locals[table->spec.number];
    return *local != NULL ? RBT_OK : make_worker_table(worker, table, local);
}

rbt_job *rbt_worker_job(const rbt_worker *worker)
{
    return worker->job;
}

uint32_t rbt_worker_index(const rbt_worker *worker)
{
    return worker->index;
}

uint32_t rbt_worker_count(const rbt_worker *worker)
{
    return worker->job->worker_count;
}

int64_t rbt_worker_clock(const rbt_worker *worker)
{
    return rbt_client_clock(worker);
}

int64_t rbt_worker_process_clock(const rbt_worker *worker)
{
    int64_t min = RBT_CLOCK_GONE;
    for (uint32_t i = 0; i < worker->process_size; i++) {
        const rbt_worker *other = &worker->job->workers[worker->process_first + i];
        if (!atomic_load_explicit(&other->has_left, memory_order_relaxed)) {
            const int64_t clock = rbt_client_clock(other);
            min = clock < min ? clock : min;
        }
    }
    return min == RBT_CLOCK_GONE ? rbt_client_clock(worker) : min;
}

double rbt_worker_seconds(const rbt_worker *worker)
{
    rbt_driver *driver = worker->job->driver;
    return (double)driver->ops->now(driver) * 1e-9;
}

void rbt_worker_spend(rbt_worker *worker, double seconds)
{
    rbt_driver *driver = worker->job->driver;
    if (seconds > 0) {
        driver->ops->spend(driver, worker->index, seconds);
    }
}

/* The smallest floor of all shards. */
static int64_t shards_floor(const rbt_worker *worker)
{
    rbt_driver *driver = worker->job->driver;
    int64_t min = RBT_CLOCK_GONE;
    for (uint32_t shard = 0; shard < worker->job->shard_count; shard++) {
        const int64_t floor = driver->ops->floor(driver, shard);
        min = floor < min ? floor : min;
    }
    return min;
}

int64_t rbt_worker_shard_clock(const rbt_worker *worker)
{
    const int64_t floor = shards_floor(worker);
    return floor == RBT_CLOCK_GONE ? rbt_client_clock(worker) : floor;
}

int64_t rbt_worker_need(const rbt_worker *worker, int64_t staleness)
{
    RBT_ASSERT(staleness >= RBT_STALENESS_ANY);
    return staleness == RBT_STALENESS_ANY || worker->job->driver->is_reader
               ? RBT_CLOCK_ANY
               : rbt_client_clock(worker) - staleness;
}

rbt_status rbt_worker_check_staleness(int64_t staleness)
{
    if (staleness < RBT_STALENESS_ANY || staleness > RBT_STALENESS_MAX) {
        return rbt_fail(RBT_E_INVALID,
                        "staleness is a number of clocks up to %d or RBT_STALENESS_ANY, not %lld",
                        RBT_STALENESS_MAX, (long long)staleness);
    }
    return RBT_OK;
}

rbt_status rbt_worker_may_update(const rbt_worker *worker)
{
    if (worker->job->driver->is_reader) {
        return rbt_fail(RBT_E_INVALID, "a group that reads what others train cannot update");
    }
    if (atomic_load_explicit(&worker->has_left, memory_order_relaxed)) {
        return rbt_fail(RBT_E_CLOSED, "worker %u has left and cannot update any more",
                        worker->index);
    }
    if (worker->must_repeat) {
        return rbt_fail(RBT_E_BUSY, "the last rbt_clock() of worker %u failed; repeat it first",
                        worker->index);
    }
    return RBT_OK;
}

void rbt_worker_note_read(rbt_worker *worker, int64_t clock)
{
    struct rbt_worker_stats *stats = worker->stats;
    const int64_t lag = rbt_client_clock(worker) - clock;
    rbt_client_count(&stats->reads, 1);
    const int64_t bin = lag < 0 ? 0 : lag < RBT_LAG_COUNTS ? lag : RBT_LAG_COUNTS - 1;
    rbt_client_count(&stats->lag_counts[bin], 1);
    if (lag > 0) {
        rbt_client_count(&stats->lag_sum, (uint64_t)lag);
        if ((uint64_t)lag > atomic_load_explicit(&stats->lag_max, memory_order_relaxed)) {
            atomic_store_explicit(&stats->lag_max, (uint64_t)lag, memory_order_relaxed);
        }
    }
}

static void count_bytes(rbt_worker *worker, const struct rbt_driver_call *call)
{
    const struct rbt_shard_event *event = &call->event;
    uint64_t bytes = 0;
    if (event->early != NULL) {
        const rbt_table *table = worker->job->tables[event->table];
        bytes = event->early->count * (sizeof(uint64_t) + table->row_size);
    }
    for (size_t i = 0; event->early == NULL && i < event->batch_count; i++) {
        const struct rbt_batch *batch = &event->batches[i];
        const rbt_table *table = worker->job->tables[batch->table];
        bytes += batch->count * sizeof *batch->keys;
        if (table->spec.layout == RBT_DENSE) {
            bytes += batch->count * table->row_size;
        }
        /* What a read of a sparse row brings is counted when it has come. */
        for (size_t k = 0; batch->offsets != NULL && k < batch->count; k++) {
            const size_t at = rbt_batch_position(batch, k);
            bytes += (batch->offsets[at + 1] - batch->offsets[at]) *
                     (sizeof *batch->elements + table->element_size);
        }
    }
    const uint32_t class = worker->is_early || event->early != NULL ? RBT_TRAFFIC_EARLY
                           : event->kind == RBT_SHARD_PUSH          ? RBT_TRAFFIC_CLOCK
                                                                    : RBT_TRAFFIC_READ;
    struct rbt_worker_stats *stats = worker->stats;
    const bool is_push = event->kind == RBT_SHARD_PUSH;
    rbt_client_count(is_push ? &stats->bytes_sent : &stats->bytes_received, bytes);
    rbt_client_count(is_push ? &stats->traffic_sent[class] : &stats->traffic_received[class],
                     bytes);
}

void rbt_worker_count_reply(rbt_worker *worker, const struct rbt_driver_reply *reply)
{
    rbt_client_count(&worker->stats->bytes_sent, reply->bytes_sent);
    rbt_client_count(&worker->stats->bytes_received, reply->bytes_received);
    for (uint32_t k = 0; k < RBT_TRAFFIC_CLASSES; k++) {
        rbt_client_count(&worker->stats->traffic_sent[k], reply->traffic_sent[k]);
        rbt_client_count(&worker->stats->traffic_received[k], reply->traffic_received[k]);
    }
}

rbt_status rbt_worker_step(rbt_worker *worker, struct rbt_driver_call *calls, size_t count)
{
    rbt_driver *driver = worker->job->driver;
    rbt_status st = RBT_OK;
    driver->ops->step(driver, calls, count);
    for (size_t i = 0; i < count; i++) {
        const struct rbt_driver_reply *reply = &calls[i].reply;
        worker->has_waited = worker->has_waited || reply->had_to_wait;
        rbt_client_count(&worker->stats->wait_ns, (uint64_t)reply->waited);
        if (driver->counts_bytes) {
            rbt_worker_count_reply(worker, reply);
        }
        for (int k = 0; k < RBT_FILTERED_KINDS; k++) {
            rbt_client_count(&worker->stats->filtered[k][0], reply->filtered[k][0]);
            rbt_client_count(&worker->stats->filtered[k][1], reply->filtered[k][1]);
        }
        if (reply->status == RBT_OK) {
            if (!driver->counts_bytes) {
                count_bytes(worker, &calls[i]);
            }
        } else if (st == RBT_OK) {
            st = reply->status;
        }
    }
    return st;
}

/* --- Sending --------------------------------------------------------------------------------- */

static rbt_status fit_batches(rbt_worker *worker, size_t count)
{
    if (count <= worker->batch_max) {
        return RBT_OK;
    }
    struct rbt_batch *batches = rbt_realloc(worker->batches, count * 2, sizeof *batches);
    if (batches == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a message of %zu updates", count);
    }
    worker->batches = batches;
    worker->batch_max = count * 2;
    return RBT_OK;
}

/* Says in the batches of a table with a rule, which are all that is unsent, which reads may still
 * be named after each of them. */
static void say_least(const struct rbt_worker_table *local, uint32_t shard,
                      struct rbt_batch *batches, size_t count)
{
    const uint64_t newest = local->stamps->shards[shard].newest;
    uint64_t least = rbt_stamps_least(local->stamps, shard, RBT_STAMP_NONE);
    least = newest < least ? newest : least; /* lists of rows name it: see rbt_push() */
    while (count-- > 0) {
        batches[count].least = least;
        least = batches[count].base < least ? batches[count].base : least;
    }
}

/* Puts updates of the same read next to each other, in the order in which they were made: to the
 * rule they are one message. Mostly they are in order already. */
static void sort_by_base(struct rbt_batch *batches, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct rbt_batch batch = batches[i];
        size_t at = i;
        for (; at > 0 && batches[at - 1].base > batch.base; at--) {
            batches[at] = batches[at - 1];
        }
        batches[at] = batch;
    }
}

/* Leaves out batches without rows that are no message of their own: others name the same read. They
 * are sorted by base. Returns how many are left. */
static size_t drop_empty(struct rbt_batch *batches, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const bool has_before = kept > 0 && batches[kept - 1].base == batches[i].base;
        const bool has_after = i + 1 < count && batches[i + 1].base == batches[i].base;
        if (batches[i].count > 0 || (!has_before && !has_after)) {
            batches[kept++] = batches[i];
        }
    }
    return kept;
}

/* Adds the unsent updates of a worker's table for one shard to the worker's batches: those without
 * rows as well, since the rule counts messages. */
static rbt_status gather(rbt_worker *worker, const struct rbt_worker_table *local, uint32_t shard,
                         size_t *count)
{
    if (local == NULL || local->buffer.unsent_count == 0) {
        return RBT_OK;
    }
    const size_t before = *count;
    rbt_status st = fit_batches(worker, *count + local->buffer.unsent_count);
    for (const struct rbt_update *u = local->buffer.unsent; st == RBT_OK && u != NULL;
         u = u->next) {
        worker->batches[(*count)++] = rbt_buffer_batch(u, local->table->spec.number, shard);
    }
    if (st == RBT_OK && local->stamps != NULL) {
        sort_by_base(worker->batches + before, *count - before);
        *count = before + drop_empty(worker->batches + before, *count - before);
        say_least(local, shard, worker->batches + before, *count - before);
    }
    return st;
}

/* What all shards have, as far as the worker knows. */
struct progress {
    int64_t floor;
    uint64_t acknowledged; /* the worker's messages up to this one have arrived */
    uint64_t settled;      /* up to this one, they are shown to everybody */
};

static const struct progress nothing_asked = {
    .floor = RBT_CLOCK_GONE, .acknowledged = UINT64_MAX, .settled = UINT64_MAX};

static void note_reply(struct progress *progress, const struct rbt_driver_reply *reply)
{
    progress->floor = reply->floor < progress->floor ? reply->floor : progress->floor;
    progress->acknowledged =
        reply->acknowledged < progress->acknowledged ? reply->acknowledged : progress->acknowledged;
    progress->settled = reply->settled < progress->settled ? reply->settled : progress->settled;
}

/* Drops own updates that no read needs any more: where reads show own updates, those that all
 * shards have said to show by themselves. What is visible is never computed from the staleness:
 * another process may have changed it. */
static void drop_shown(struct rbt_worker_table *local, int64_t completed,
                       const struct progress *progress)
{
    const rbt_table *table = local->table;
    if (table->options.overlay == RBT_OVERLAY_NONE) {
        rbt_buffer_drop(&local->buffer, RBT_CLOCK_GONE, progress->acknowledged);
        return;
    }
    /* Where rows are sent ahead a read may use an older copy, which as a rule has all clocks below
     * c - s. One that lacks what was dropped would have to be fetched again. */
    const int64_t staleness = rbt_table_staleness(table);
    const bool has_copies = table->is_eager && table->job->driver->sends_ahead;
    const int64_t clock =
        has_copies && staleness != RBT_STALENESS_ANY ? completed - staleness : RBT_CLOCK_GONE;
    rbt_buffer_drop(&local->buffer, clock,
                    RBT_MUTANT(EARLY_DROP) ? UINT64_MAX
                                           : progress->settled + RBT_MUTANT(EARLY_VISIBLE));
}

/* Notes that the unsent updates have been sent, and drops what no read needs by now. */
static void settle(rbt_worker *worker, struct rbt_worker_table *local, int64_t completed,
                   const struct progress *progress)
{
    if (local == NULL || local->buffer.first == NULL) {
        return;
    }
    rbt_worker_lock(local);
    rbt_buffer_mark_sent(&local->buffer, worker->sequence, rbt_client_clock(worker));
    drop_shown(local, completed, progress);
    rbt_worker_unlock(local);
}

/* Sends the first `count` of the worker's batches, and the marker, to a shard. */
static rbt_status push(rbt_worker *worker, uint32_t shard, size_t count, int64_t marker,
                       struct progress *progress)
{
    struct rbt_driver_call call = {.shard = shard,
                                   .is_early = worker->is_early,
                                   .event = {.kind = RBT_SHARD_PUSH,
                                             .worker = worker->index,
                                             .sequence = worker->sequence,
                                             .clock = rbt_client_clock(worker),
                                             .marker = marker,
                                             .batches = worker->batches,
                                             .batch_count = count}};
    const rbt_status st = rbt_worker_step(worker, &call, 1);
    if (st == RBT_OK) {
        worker->headers_sent += RBT_CLIENT_MESSAGE_BYTES + count * RBT_CLIENT_BATCH_BYTES;
        note_reply(progress, &call.reply);
    }
    return st;
}

/* One message per shard with everything that is unsent, and the marker. */
static rbt_status send_all(rbt_worker *worker, int64_t marker, struct progress *progress)
{
    rbt_status st = RBT_OK;
    for (uint32_t turn = 0; st == RBT_OK && turn < worker->job->shard_count; turn++) {
        const uint32_t shard = (worker->shard_first + turn) % worker->job->shard_count;
        size_t count = 0;
        for (uint32_t i = 0; st == RBT_OK && i < worker->table_count; i++) {
            st = gather(worker, worker->locals[i], shard, &count);
        }
        st = st != RBT_OK ? st : push(worker, shard, count, marker, progress);
    }
    return st;
}

static rbt_status resend_all(rbt_worker *worker)
{
    struct progress progress = nothing_asked;
    const rbt_status st = send_all(worker, RBT_MARKER_NONE, &progress);
    if (st != RBT_OK) {
        return st;
    }
    for (uint32_t i = 0; i < worker->table_count; i++) {
        settle(worker, worker->locals[i], rbt_client_clock(worker), &progress);
    }
    worker->sequence++;
    worker->must_resend_all = false;
    return RBT_OK;
}

rbt_status rbt_worker_resend(rbt_worker *worker)
{
    struct rbt_worker_table *local = worker->resend;
    struct progress progress = nothing_asked;
    if (worker->must_resend_all) {
        return resend_all(worker);
    }
    for (uint32_t shard = 0; local != NULL && shard < worker->job->shard_count; shard++) {
        size_t count = 0;
        rbt_status st = gather(worker, local, shard, &count);
        st = st != RBT_OK ? st : push(worker, shard, count, RBT_MARKER_NONE, &progress);
        if (st != RBT_OK) {
            return st; /* what has arrived is known by its sequence and not applied again */
        }
    }
    if (local != NULL) {
        settle(worker, local, rbt_client_clock(worker), &progress);
        worker->sequence++;
        worker->resend = NULL;
    }
    return RBT_OK;
}

void rbt_worker_send_early(rbt_worker *worker)
{
    RBT_ASSERT(worker->resend == NULL && !worker->must_resend_all);
    worker->must_resend_all = true;
    worker->is_early = true;
    const rbt_status st = rbt_worker_resend(worker);
    worker->is_early = false;
    (void)st; /* as below */
}

void rbt_worker_send(rbt_worker *worker, struct rbt_worker_table *local)
{
    RBT_ASSERT(worker->resend == NULL); /* whoever pushes has seen to that */
    worker->resend = local;
    const rbt_status st = rbt_worker_resend(worker);
    (void)st; /* the updates are safe in the buffer; they go out before anything else does */
}

/* Worker 0 sees to it that the job's staleness is the one that pays. */
static void tune(const rbt_worker *worker, int64_t floor)
{
    rbt_job *job = worker->job;
    /* A floor above the own clock means that the worker was given up: the others have gone on. */
    if (!job->consistency.is_tuned || worker->index != 0 || floor > rbt_client_clock(worker)) {
        return;
    }
    const struct rbt_tuner_news news = {.floor = floor,
                                        .lag = rbt_client_clock(worker) - floor,
                                        .now = job->driver->ops->now(job->driver)};
    const int64_t staleness = rbt_tuner_step(&job->tuner, &news);
    if (staleness != rbt_job_staleness(job)) {
        const rbt_status st = rbt_job_set_staleness_soon(job, staleness);
        (void)st; /* fails only if the job has: a bound of tables that are open needs no memory */
    }
}

rbt_status rbt_clock(rbt_worker *worker)
{
    if (worker->job->driver->is_reader) {
        return rbt_fail(RBT_E_INVALID, "a group that reads what others train has no clock");
    }
    if (atomic_load_explicit(&worker->has_left, memory_order_relaxed)) {
        return rbt_fail(RBT_E_CLOSED, "worker %u has left; its clock stands still", worker->index);
    }
    if (!worker->must_repeat) {
        rbt_ticket_poll(worker);
    }
    const int64_t clock = rbt_client_clock(worker);
    struct progress progress = nothing_asked;
    rbt_status st = rbt_worker_resend(worker);
    for (uint32_t i = 0; st == RBT_OK && !worker->must_repeat && i < worker->table_count; i++) {
        if (worker->locals[i] != NULL) {
            st = rbt_worker_flush_rows(worker, worker->locals[i]);
        }
    }
    if (st == RBT_OK) {
        st = send_all(worker, clock + 1, &progress);
        worker->must_repeat = st != RBT_OK;
    }
    if (st != RBT_OK) {
        return rbt_fail_in(st, "worker %u could not end clock %lld", worker->index,
                           (long long)clock);
    }
    for (uint32_t i = 0; i < worker->table_count; i++) {
        settle(worker, worker->locals[i], clock + 1, &progress);
    }
    worker->sequence++;
    atomic_store_explicit(&worker->clock, clock + 1, memory_order_relaxed);
    tune(worker, progress.floor);
    return RBT_OK;
}

static bool has_pending(const rbt_worker *worker)
{
    for (uint32_t i = 0; i < worker->table_count; i++) {
        const struct rbt_worker_table *local = worker->locals[i];
        if (local != NULL && (local->buffer.unsent_count > 0 || local->rows.dirty_count > 0)) {
            return true;
        }
    }
    return false;
}

void rbt_worker_abandon(rbt_worker *worker)
{
    for (uint32_t i = 0; i < worker->table_count; i++) {
        struct rbt_worker_table *local = worker->locals[i];
        if (local == NULL) {
            continue;
        }
        rbt_worker_lock(local); /* others may be looking at what is dropped here */
        rbt_rowcache_clean(&local->rows);
        while (local->buffer.unsent != NULL) {
            rbt_buffer_take_back(&local->buffer);
        }
        if (local->table->options.overlay == RBT_OVERLAY_PROCESS) {
            rbt_rowcache_forget(local->process);
        }
        rbt_worker_unlock(local);
    }
    worker->resend = NULL;
    worker->must_resend_all = false;
}

void rbt_worker_retire(rbt_worker *worker)
{
    if (atomic_load_explicit(&worker->has_left, memory_order_relaxed)) {
        return;
    }
    atomic_store_explicit(&worker->has_left, true, memory_order_relaxed);
    for (uint32_t shard = 0; !worker->job->driver->is_reader && shard < worker->job->shard_count;
         shard++) {
        struct rbt_driver_call call = {.shard = shard,
                                       .event = {.kind = RBT_SHARD_LEAVE,
                                                 .worker = worker->index,
                                                 .sequence = worker->sequence}};
        const rbt_status st = rbt_worker_step(worker, &call, 1);
        (void)st; /* a shard that has given the worker up does not wait for it either */
    }
}

rbt_status rbt_worker_leave(rbt_worker *worker)
{
    if (atomic_load_explicit(&worker->has_left, memory_order_relaxed)) {
        return RBT_OK;
    }
    rbt_ticket_poll(worker);
    rbt_status st = worker->held == NULL || worker->must_repeat ? RBT_OK : rbt_worker_flush(worker);
    st = st == RBT_OK && has_pending(worker) ? rbt_clock(worker) : st;
    if (st == RBT_OK) {
        rbt_worker_retire(worker);
    }
    return st;
}
