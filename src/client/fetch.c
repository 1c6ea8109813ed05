/* client/fetch.c - what a worker's reads see: rows from their shards, and what is laid on top.
 *
 * Rows are pulled from all their shards at once. Then what the table's overlay asks for is added
 * out of the buffers: updates whose number is above what the shard says is visible in its rows.
 *
 * With overlay PROCESS the buffers of other workers count as well, and they drop what they know to
 * be visible. A copy that was pulled before that lacks it, and is pulled again.
 *
 * Threads: a worker's own; never waits with the table's mutex held. */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "client/client.h"

/* Adds to a target the rows that a worker has updated but not flushed. Walks the shorter of the two
 * lists: one row is read among many that were updated, or many where few were. */
static rbt_status overlay_open(const struct rbt_rowcache *rows, uint32_t shard,
                               const struct rbt_buffer_target *target)
{
    const struct rbt_keylist *keys = target->keys;
    const bool is_target_shorter = keys->count <= rows->dirty_count;
    const size_t count = is_target_shorter ? keys->count : rows->dirty_count;
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        const uint32_t row =
            is_target_shorter ? rbt_map_find(&rows->map, keys->keys[i]) : rows->dirty[i];
        if (row == RBT_MAP_NONE || !rows->rows[row].is_dirty) {
            continue;
        }
        const uint64_t key = rows->rows[row].key;
        const size_t at = is_target_shorter ? i : rbt_keys_find(keys->keys, keys->count, key);
        if (at != SIZE_MAX && rbt_placement_shard(keys->placement, key) == shard) {
            char *values = rows->is_sparse ? NULL : target->values + at * rows->row_size;
            st = rbt_rowcache_overlay(rows, row, values, target->sparse);
        }
    }
    return st;
}

rbt_status rbt_worker_overlay(rbt_worker *worker, struct rbt_worker_table *local, uint32_t shard,
                              const uint64_t *applied, const struct rbt_buffer_target *target)
{
    const rbt_job *job = worker->job;
    switch (local->table->options.overlay) {
    case RBT_OVERLAY_NONE:
    case RBT_OVERLAY_REPLICA:
        return RBT_OK;
    case RBT_OVERLAY_OWN: {
        if (RBT_MUTANT(NO_OVERLAY)) {
            return RBT_OK;
        }
        const rbt_status st = rbt_buffer_overlay(&local->buffer, shard, applied[0], target);
        return st != RBT_OK ? st : overlay_open(&local->rows, shard, target);
    }
    case RBT_OVERLAY_PROCESS:
        break;
    }
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < worker->process_size; i++) {
        const rbt_worker *colleague = &job->workers[worker->process_first + i];
        struct rbt_worker_table *other = colleague->locals[local->table->spec.number];
        if (other != NULL) {
            st = rbt_buffer_overlay(&other->buffer, shard, applied[i], target);
            st = st != RBT_OK ? st : overlay_open(&other->rows, shard, target);
        }
    }
    return st;
}

/* Collects the elements of a sparse row while the shard is being stepped. */
struct sparse_sink {
    struct rbt_sparse_row *row;
    struct rbt_merge_kind kind;
    rbt_status status;
};

static void take_elements(void *context, const uint32_t *index, const void *values, size_t count)
{
    struct sparse_sink *sink = context;
    rbt_sparse_row_clear(sink->row);
    sink->status = rbt_sparse_row_reserve(sink->row, sink->kind.type, count);
    if (sink->status == RBT_OK) {
        rbt_sparse_row_merge(sink->row, sink->kind, (struct rbt_sparse_view){index, values, count});
    }
}

/* For each worker of the process, what has been dropped from its buffer. It is not laid on top any
 * more: rows that lack it, because they were sent before, are of no use. */
static void list_dropped(const rbt_worker *worker, const struct rbt_worker_table *local,
                         uint64_t *least)
{
    const rbt_overlay overlay = local->table->options.overlay;
    rbt_worker_lock(local);
    for (uint32_t i = 0; i < worker->process_size; i++) {
        const rbt_worker *other = &worker->job->workers[worker->process_first + i];
        const bool is_laid =
            overlay == RBT_OVERLAY_PROCESS || (overlay == RBT_OVERLAY_OWN && other == worker);
        const struct rbt_worker_table *dropping =
            is_laid ? other->locals[local->table->spec.number] : NULL;
        least[i] = dropping == NULL ? 0 : dropping->buffer.dropped;
    }
    rbt_worker_unlock(local);
}

void rbt_worker_list_bases(const struct rbt_worker_table *local, const uint64_t *held,
                           uint64_t *bases)
{
    for (uint32_t i = 0; i < local->stamps->shard_count; i++) {
        bases[i] = rbt_stamps_base(local->stamps, i, held == NULL ? RBT_STAMP_NONE : held[i]);
    }
}

/* Whether updates can be computed from what the worker reads. */
static bool can_update(const rbt_worker *worker)
{
    return !worker->job->driver->is_reader &&
           !atomic_load_explicit(&worker->has_left, memory_order_relaxed);
}

/* Completes a call to a shard that has a rule for the table: says which reads may be named that are
 * older than this one. The copy that the answer replaces is none of them, unless it is still in use
 * when the shard makes the answer. */
static void say_base(const rbt_worker *worker, const struct rbt_worker_table *local,
                     const struct rbt_fetch *fetch, struct rbt_driver_call *call)
{
    const uint32_t shard = call->shard;
    const bool replaces = fetch->want->stamps != NULL && !fetch->is_ahead;
    const uint64_t unsent = rbt_buffer_least(&local->buffer, shard);
    const uint64_t newest = local->stamps->shards[shard].newest;
    uint64_t least = rbt_stamps_least(local->stamps, shard,
                                      replaces ? fetch->want->stamps[shard] : RBT_STAMP_NONE);
    least = unsent < least ? unsent : least;
    least = fetch->is_ahead && newest < least ? newest : least;
    call->event.is_base = can_update(worker);
    call->event.sequence = worker->sequence - 1;
    call->event.least = least;
    call->event.stamp = &worker->stamps[call - worker->calls];
}

/* Makes room for what the calls will say of a table with a rule. */
static rbt_status fit_stamps(rbt_worker *worker, const struct rbt_worker_table *local)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < worker->call_count; i++) {
        st = rbt_stamps_reserve(local->stamps, worker->calls[i].shard);
    }
    return st;
}

/* Notes what the calls have said; whoever wanted the rows holds it from now on. */
static void take_stamps(const rbt_worker *worker, const struct rbt_worker_table *local,
                        const struct rbt_want *want)
{
    for (size_t i = 0; i < worker->call_count; i++) {
        const struct rbt_driver_call *call = &worker->calls[i];
        if (!call->event.is_base) {
            continue;
        }
        rbt_stamps_note(local->stamps, call->shard, worker->stamps[i]);
        if (want->stamps != NULL) {
            rbt_stamps_replace(local->stamps, call->shard, &want->stamps[call->shard],
                               worker->stamps[i]);
        }
    }
}

/* One call for each shard that owns rows of the target. */
static size_t make_calls(rbt_worker *worker, const struct rbt_worker_table *local,
                         const struct rbt_fetch *fetch, struct sparse_sink *sink)
{
    const rbt_table *table = local->table;
    const struct rbt_want *want = fetch->want;
    rbt_driver *driver = worker->job->driver;
    const uint32_t workers = fetch->is_process ? worker->process_size : 1;
    uint64_t *least = worker->applied + (size_t)worker->job->shard_count * workers;
    RBT_ASSERT((worker->job->shard_count + 1) * (size_t)workers <= worker->applied_max);
    if (fetch->is_process) {
        list_dropped(worker, local, least);
    } else {
        least[0] = table->options.overlay == RBT_OVERLAY_OWN ? local->buffer.dropped : 0;
    }
    /* Whether the read takes the versions that all shards have. With staleness 0 it has all that
     * it may see in every shard anyway. A reader's tables are not told of versions. */
    const bool is_limited = table->experiments.is_synchronised && !driver->is_reader &&
                            want->need < rbt_client_clock(worker);
    const uint64_t stable =
        is_limited ? driver->ops->stable(driver, worker->index, table->spec.number) : 0;
    size_t count = 0;
    for (uint32_t turn = 0; turn < worker->job->shard_count; turn++) {
        const uint32_t shard = (worker->shard_first + turn) % worker->job->shard_count;
        struct rbt_batch batch = rbt_keylist_batch(want->target.keys, shard);
        if (batch.count == 0) {
            continue;
        }
        batch.table = table->spec.number;
        batch.values = want->target.values;
        worker->pulls[count] = batch;
        worker->calls[count] = (struct rbt_driver_call){
            .shard = shard,
            .event = {.kind = RBT_SHARD_PULL,
                      .worker = worker->index,
                      .table = table->spec.number,
                      .batches = &worker->pulls[count],
                      .batch_count = 1,
                      .need = want->need,
                      .request = worker->index,
                      .subscription = want->subscription,
                      .asked = want->asked,
                      .on_elements = take_elements,
                      .context = sink,
                      .applied = worker->applied + count * workers,
                      .applied_first = fetch->is_process ? worker->process_first : worker->index,
                      .applied_count = workers,
                      .applied_least = least,
                      .is_stable = is_limited,
                      .stable = stable,
                      .limit = is_limited ? &worker->calls[count].limit : NULL,
                      .copy = want->copies == NULL ? NULL : &want->copies[shard]},
            .limit = stable};
        if (local->stamps != NULL) {
            say_base(worker, local, fetch, &worker->calls[count]);
        }
        count++;
    }
    return count;
}

/* Shards whose updates would else be missing have taken more versions than all are known to have:
 * whether the rows must be read again, so that all shards take the same. They do then: what a shard
 * needs for this read has arrived there. */
static bool raise_limits(rbt_worker *worker, size_t count)
{
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;
    for (size_t i = 0; i < count; i++) {
        lowest = worker->calls[i].limit < lowest ? worker->calls[i].limit : lowest;
        highest = worker->calls[i].limit > highest ? worker->calls[i].limit : highest;
    }
    for (size_t i = 0; i < count && lowest < highest; i++) {
        worker->calls[i].event.stable = highest;
    }
    return lowest < highest;
}

rbt_status rbt_worker_pull(rbt_worker *worker, struct rbt_worker_table *local,
                           const struct rbt_fetch *fetch, struct rbt_age *age)
{
    struct rbt_sparse_row *sparse = fetch->want->target.sparse;
    struct sparse_sink sink = {.row = sparse, .kind = local->table->kind};
    const size_t count = make_calls(worker, local, fetch, &sink);
    worker->call_count = count;
    worker->has_waited = false;
    rbt_status st = local->stamps == NULL ? RBT_OK : fit_stamps(worker, local);
    st = st != RBT_OK ? st : rbt_worker_step(worker, worker->calls, count);
    const bool is_limited = count > 0 && worker->calls[0].event.is_stable;
    if (st == RBT_OK && is_limited && raise_limits(worker, count)) {
        st = rbt_worker_step(worker, worker->calls, count);
    }
    st = st != RBT_OK ? st : sink.status;
    rbt_client_count(&worker->stats->fetches, 1);
    rbt_client_count(&worker->stats->reads_waited, worker->has_waited);
    if (st != RBT_OK) {
        return st;
    }
    if (sparse != NULL && !worker->job->driver->counts_bytes) {
        const size_t element = sizeof(uint32_t) + local->table->element_size;
        rbt_client_count_received(worker->stats, RBT_TRAFFIC_READ, sparse->count * element);
    }
    age->clock = rbt_client_clock(worker); /* the floor is above it once the worker has left */
    for (size_t i = 0; i < count; i++) {
        const struct rbt_driver_reply *reply = &worker->calls[i].reply;
        age->clock = reply->floor < age->clock ? reply->floor : age->clock;
        age->version = reply->version;
    }
    if (local->stamps != NULL) {
        take_stamps(worker, local, fetch->want);
    }
    return RBT_OK;
}

void rbt_worker_ask(rbt_worker *worker, struct rbt_worker_table *local, const struct rbt_want *want)
{
    rbt_driver *driver = worker->job->driver;
    const struct rbt_fetch fetch = {.want = want,
                                    .is_process =
                                        local->table->options.overlay == RBT_OVERLAY_PROCESS,
                                    .is_ahead = true};
    struct sparse_sink sink = {.row = NULL};
    if (driver->ops->ask != NULL) {
        driver->ops->ask(driver, worker->calls, make_calls(worker, local, &fetch, &sink));
    } /* else it is asked for when it is fetched */
}

size_t rbt_worker_list_calls(rbt_worker *worker, struct rbt_worker_table *local,
                             const struct rbt_want *want)
{
    const struct rbt_fetch fetch = {.want = want, .is_ahead = true};
    struct sparse_sink sink = {.row = NULL};
    return make_calls(worker, local, &fetch, &sink);
}

bool rbt_worker_has_all(const rbt_worker *worker, const struct rbt_worker_table *local)
{
    const rbt_job *job = worker->job;
    for (uint32_t i = 0; i < worker->process_size; i++) {
        const rbt_worker *colleague = &job->workers[worker->process_first + i];
        const struct rbt_worker_table *other = colleague->locals[local->table->spec.number];
        for (size_t k = 0; other != NULL && k < worker->call_count; k++) {
            if (worker->calls[k].event.applied[i] < other->buffer.dropped) {
                return false;
            }
        }
    }
    return true;
}

rbt_status rbt_worker_fetch(rbt_worker *worker, struct rbt_worker_table *local,
                            const struct rbt_want *want, struct rbt_age *age)
{
    const bool is_shared = local->table->options.overlay == RBT_OVERLAY_PROCESS;
    const struct rbt_fetch fetch = {.want = want, .is_process = is_shared};
    bool is_whole = false;
    rbt_status st = RBT_OK;
    while (!is_whole) { /* ends: repeated only when another worker has ended a clock meanwhile */
        st = rbt_worker_pull(worker, local, &fetch, age);
        if (st != RBT_OK) {
            return st;
        }
        if (is_shared) {
            rbt_worker_lock(local);
        }
        is_whole = !is_shared || rbt_worker_has_all(worker, local);
        for (size_t i = 0; is_whole && st == RBT_OK && i < worker->call_count; i++) {
            st = rbt_worker_overlay(worker, local, worker->calls[i].shard,
                                    worker->calls[i].event.applied, &want->target);
        }
        if (is_shared) {
            rbt_worker_unlock(local);
        }
    }
    return st;
}
