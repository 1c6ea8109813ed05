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

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mutant.h"
#include "client/client.h"

/* Adds rows that a worker has updated but not flushed to a target of many rows. */
static rbt_status overlay_open(const struct rbt_rowcache *rows, uint32_t shard,
                               const struct rbt_buffer_target *target)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < rows->dirty_count; i++) {
        const uint32_t row = rows->dirty[i];
        const uint64_t key = rows->rows[row].key;
        const size_t at = rbt_keys_find(target->keys->keys, target->keys->count, key);
        if (at != SIZE_MAX && rbt_placement_shard(target->keys->placement, key) == shard) {
            char *values = rows->is_sparse ? NULL : target->values + at * rows->row_size;
            st = rbt_rowcache_overlay(rows, row, values, target->sparse);
        }
    }
    return st;
}

rbt_status rbt_worker_overlay(rbt_worker *worker, struct rbt_portion *portion, uint32_t shard,
                              const uint64_t *applied, const struct rbt_buffer_target *target)
{
    const rbt_job *job = worker->job;
    switch (portion->table->options.overlay) {
    case RBT_OVERLAY_NONE:
    case RBT_OVERLAY_REPLICA:
        return RBT_OK;
    case RBT_OVERLAY_OWN: {
        if (RBT_MUTANT(NO_OVERLAY)) {
            return RBT_OK;
        }
        const rbt_status st = rbt_buffer_overlay(&portion->buffer, shard, applied[0], target);
        return st != RBT_OK ? st : overlay_open(&portion->rows, shard, target);
    }
    case RBT_OVERLAY_PROCESS:
        break;
    }
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < worker->process_size; i++) {
        const rbt_worker *colleague = &job->workers[worker->process_first + i];
        struct rbt_portion *other = colleague->portions[portion->table->id];
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

/* Room for what each of `shards` shards says about `count` workers, and for what they must say. */
static rbt_status fit_applied(rbt_worker *worker, size_t shards, size_t count)
{
    const size_t needed = (shards + 1) * count;
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

/* What has been dropped from buffers is not laid on top any more: rows that lack it, because they
 * were sent before, are of no use. Returns one sequence for each worker that the fetch asks about.
 */
static const uint64_t *list_dropped(rbt_worker *worker, const struct rbt_portion *portion,
                                    const struct rbt_fetch *fetch)
{
    const rbt_overlay overlay = portion->table->options.overlay;
    uint64_t *least = worker->applied + worker->job->shard_count * fetch->applied_count;
    rbt_worker_lock(portion);
    for (uint32_t i = 0; i < fetch->applied_count; i++) {
        const rbt_worker *other = &worker->job->workers[fetch->applied_first + i];
        const bool is_laid =
            overlay == RBT_OVERLAY_PROCESS || (overlay == RBT_OVERLAY_OWN && other == worker);
        const struct rbt_portion *dropping = is_laid ? other->portions[portion->table->id] : NULL;
        least[i] = dropping == NULL ? 0 : dropping->buffer.dropped;
    }
    rbt_worker_unlock(portion);
    return least;
}

void rbt_worker_list_bases(const struct rbt_portion *portion, const uint64_t *held, uint64_t *bases)
{
    for (uint32_t i = 0; i < portion->stamps->shard_count; i++) {
        bases[i] = rbt_stamps_base(portion->stamps, i, held == NULL ? RBT_STAMP_NONE : held[i]);
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
static void say_base(const rbt_worker *worker, const struct rbt_portion *portion,
                     const struct rbt_fetch *fetch, struct rbt_driver_call *call)
{
    const uint32_t shard = call->shard;
    const bool replaces = fetch->want.stamps != NULL && !fetch->is_ahead;
    const uint64_t unsent = rbt_buffer_least(&portion->buffer, shard);
    const uint64_t newest = portion->stamps->shards[shard].newest;
    uint64_t least = rbt_stamps_least(portion->stamps, shard,
                                      replaces ? fetch->want.stamps[shard] : RBT_STAMP_NONE);
    least = unsent < least ? unsent : least;
    least = fetch->is_ahead && newest < least ? newest : least;
    call->event.is_base = can_update(worker);
    call->event.sequence = worker->sequence - 1;
    call->event.least = least;
    call->event.stamp = &worker->stamps[call - worker->calls];
}

/* Makes room for what the calls will say. */
static rbt_status fit_stamps(rbt_worker *worker, const struct rbt_portion *portion)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && portion->stamps != NULL && i < worker->call_count; i++) {
        st = rbt_stamps_reserve(portion->stamps, worker->calls[i].shard);
    }
    return st;
}

/* Notes what the calls have said; whoever wanted the rows holds it from now on. */
static void take_stamps(const rbt_worker *worker, const struct rbt_portion *portion,
                        const struct rbt_want *want)
{
    for (size_t i = 0; portion->stamps != NULL && i < worker->call_count; i++) {
        const struct rbt_driver_call *call = &worker->calls[i];
        if (!call->event.is_base) {
            continue;
        }
        rbt_stamps_note(portion->stamps, call->shard, worker->stamps[i]);
        if (want->stamps != NULL) {
            rbt_stamps_replace(portion->stamps, call->shard, &want->stamps[call->shard],
                               worker->stamps[i]);
        }
    }
}

/* Whether the read takes the versions that all shards have. With staleness 0 it has all that it
 * may see in every shard anyway. A reader's tables are not told of versions. */
static bool is_stable(const rbt_worker *worker, const rbt_table *table, int64_t need)
{
    return table->options.is_synchronised && !worker->job->driver->is_reader &&
           need < rbt_client_clock(worker);
}

/* One call for each shard that owns rows of the target. */
static size_t make_calls(rbt_worker *worker, const struct rbt_portion *portion,
                         const struct rbt_fetch *fetch, struct sparse_sink *sink)
{
    const uint64_t *least = list_dropped(worker, portion, fetch);
    rbt_driver *driver = worker->job->driver;
    const bool is_limited = is_stable(worker, portion->table, fetch->want.need);
    const uint64_t stable =
        is_limited ? driver->ops->stable(driver, worker->index, portion->table->id) : 0;
    size_t count = 0;
    for (uint32_t turn = 0; turn < worker->job->shard_count; turn++) {
        const uint32_t shard = rbt_worker_shard(worker, turn);
        struct rbt_batch batch = rbt_keylist_batch(fetch->want.target.keys, shard);
        if (batch.count == 0) {
            continue;
        }
        batch.table = portion->table->id;
        batch.values = fetch->want.target.values;
        worker->pulls[count] = batch;
        worker->calls[count] = (struct rbt_driver_call){
            .shard = shard,
            .event = {.kind = RBT_SHARD_PULL,
                      .worker = worker->index,
                      .table = portion->table->id,
                      .batches = &worker->pulls[count],
                      .batch_count = 1,
                      .need = fetch->want.need,
                      .request = worker->index,
                      .subscription = fetch->want.subscription,
                      .asked = fetch->want.asked,
                      .on_elements = take_elements,
                      .context = sink,
                      .applied = worker->applied + count * fetch->applied_count,
                      .applied_first = fetch->applied_first,
                      .applied_count = fetch->applied_count,
                      .applied_least = least,
                      .is_stable = is_limited,
                      .stable = stable,
                      .limit = is_limited ? &worker->calls[count].limit : NULL,
                      .copy = fetch->want.copies == NULL ? NULL : &fetch->want.copies[shard]},
            .limit = stable};
        if (portion->stamps != NULL) {
            say_base(worker, portion, fetch, &worker->calls[count]);
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
    for (size_t i = 0; i < count && worker->calls[i].event.is_stable; i++) {
        lowest = worker->calls[i].limit < lowest ? worker->calls[i].limit : lowest;
        highest = worker->calls[i].limit > highest ? worker->calls[i].limit : highest;
    }
    for (size_t i = 0; i < count && lowest < highest; i++) {
        worker->calls[i].event.stable = highest;
    }
    return lowest < highest;
}

rbt_status rbt_worker_pull(rbt_worker *worker, struct rbt_portion *portion,
                           const struct rbt_fetch *fetch, struct rbt_age *age)
{
    struct sparse_sink sink = {.row = fetch->want.target.sparse, .kind = portion->table->kind};
    rbt_status st = fit_applied(worker, worker->job->shard_count, fetch->applied_count);
    if (st != RBT_OK) {
        return st;
    }
    const size_t count = make_calls(worker, portion, fetch, &sink);
    worker->call_count = count;
    worker->has_waited = false;
    st = fit_stamps(worker, portion);
    st = st != RBT_OK ? st : rbt_worker_step(worker, worker->calls, count);
    if (st == RBT_OK && raise_limits(worker, count)) {
        st = rbt_worker_step(worker, worker->calls, count);
    }
    st = st != RBT_OK ? st : sink.status;
    rbt_client_count(&worker->stats->fetches, 1);
    rbt_client_count(&worker->stats->reads_waited, worker->has_waited);
    if (st != RBT_OK) {
        return st;
    }
    if (fetch->want.target.sparse != NULL && !worker->job->driver->counts_bytes) {
        const size_t element = sizeof(uint32_t) + portion->table->element_size;
        rbt_client_count_received(worker->stats, RBT_TRAFFIC_READ,
                                  fetch->want.target.sparse->count * element);
    }
    age->clock = rbt_client_clock(worker); /* the floor is above it once the worker has left */
    for (size_t i = 0; i < count; i++) {
        const struct rbt_driver_reply *reply = &worker->calls[i].reply;
        age->clock = reply->floor < age->clock ? reply->floor : age->clock;
        age->version = reply->version;
    }
    take_stamps(worker, portion, &fetch->want);
    return RBT_OK;
}

/* What a fetch of a worker's own asks for. */
static struct rbt_fetch fetch_of(const rbt_worker *worker, const struct rbt_portion *portion,
                                 const struct rbt_want *want)
{
    const bool shares = portion->table->options.overlay == RBT_OVERLAY_PROCESS;
    return (struct rbt_fetch){.want = *want,
                              .applied_first = shares ? worker->process_first : worker->index,
                              .applied_count = shares ? worker->process_size : 1};
}

void rbt_worker_ask(rbt_worker *worker, struct rbt_portion *portion, const struct rbt_want *want)
{
    rbt_driver *driver = worker->job->driver;
    struct rbt_fetch fetch = fetch_of(worker, portion, want);
    struct sparse_sink sink = {.row = NULL};
    fetch.is_ahead = true;
    if (driver->ops->ask != NULL &&
        fit_applied(worker, worker->job->shard_count, fetch.applied_count) == RBT_OK) {
        driver->ops->ask(driver, worker->calls, make_calls(worker, portion, &fetch, &sink));
    } /* else it is asked for when it is fetched */
}

size_t rbt_worker_list_calls(rbt_worker *worker, struct rbt_portion *portion,
                             const struct rbt_want *want)
{
    struct rbt_fetch fetch = fetch_of(worker, portion, want);
    struct sparse_sink sink = {.row = NULL};
    fetch.is_ahead = true;
    fetch.applied_first = worker->index;
    fetch.applied_count = 1;
    return fit_applied(worker, worker->job->shard_count, 1) == RBT_OK
               ? make_calls(worker, portion, &fetch, &sink)
               : 0;
}

bool rbt_worker_has_all(const rbt_worker *worker, const struct rbt_portion *portion)
{
    const rbt_job *job = worker->job;
    for (uint32_t i = 0; i < worker->process_size; i++) {
        const rbt_worker *colleague = &job->workers[worker->process_first + i];
        const struct rbt_portion *other = colleague->portions[portion->table->id];
        for (size_t k = 0; other != NULL && k < worker->call_count; k++) {
            if (worker->calls[k].event.applied[i] < other->buffer.dropped) {
                return false;
            }
        }
    }
    return true;
}

uint64_t rbt_worker_row_subscription(const rbt_table *table, uint64_t key)
{
    const uint64_t of_rows = UINT64_C(1) << 63; /* sets count from 1 */
    return table->is_eager && !table->options.is_synchronised
               ? of_rows | rbt_hash_key(rbt_hash_key(key) ^ table->id)
               : 0;
}

/* Lays the overlay on what has been pulled. */
static rbt_status overlay_all(rbt_worker *worker, struct rbt_portion *portion,
                              const struct rbt_buffer_target *target)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < worker->call_count; i++) {
        st = rbt_worker_overlay(worker, portion, worker->calls[i].shard,
                                worker->calls[i].event.applied, target);
    }
    return st;
}

rbt_status rbt_worker_fetch(rbt_worker *worker, struct rbt_portion *portion,
                            const struct rbt_want *want, struct rbt_age *age)
{
    const bool shares = portion->table->options.overlay == RBT_OVERLAY_PROCESS;
    const struct rbt_fetch fetch = fetch_of(worker, portion, want);
    for (;;) { /* ends: repeated only when another worker has ended a clock meanwhile */
        rbt_status st = rbt_worker_pull(worker, portion, &fetch, age);
        if (st != RBT_OK) {
            return st;
        }
        rbt_worker_lock(portion);
        const bool is_whole = !shares || rbt_worker_has_all(worker, portion);
        st = is_whole ? overlay_all(worker, portion, &want->target) : RBT_OK;
        rbt_worker_unlock(portion);
        if (is_whole) {
            return st;
        }
    }
}
