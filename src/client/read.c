/* client/read.c - rows one at a time: rbt_get() and its relatives.
 *
 * A read looks into the worker's cache, then into the process's, then asks the shard, as the table
 * says. A copy is good enough if
 *
 *     it contains all clocks < c - s (its clock is >= c - s; with slack k, c - s - k), and
 *     an eager table has nothing newer (the shard has shown nothing since), and
 *     it contains the worker's own updates.
 *
 * Without a bound a row is fetched once per clock.
 *
 * Threads: a worker's own; the process cache is guarded by its table's mutex, which is never held
 * while waiting. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sized.h"
#include "client/client.h"

/* Whether a copy is fresh enough, own updates aside. A reader has no clock to tell by. */
static bool is_fresh(const rbt_worker *worker, const rbt_table *table,
                     const struct rbt_rowcache_row *row, int64_t staleness)
{
    rbt_driver *driver = worker->job->driver;
    const int64_t clock = rbt_client_clock(worker);
    if (row->clock < 0 || driver->is_reader) {
        return false;
    }
    if (staleness == RBT_STALENESS_ANY) {
        return row->fetched_at >= clock;
    }
    if (row->clock < clock - staleness - table->experiments.slack) {
        return false;
    }
    if (table->is_eager && table->experiments.is_synchronised) {
        return row->fetched_at >= clock; /* more may be shown of the same rows */
    }
    return !table->is_eager ||
           driver->ops->version(driver, rbt_placement_shard(table->placement, row->key)) ==
               row->version;
}

static void note_copy(const rbt_worker *worker, const struct rbt_worker_table *local,
                      struct rbt_rowcache_row *row, const struct rbt_age *age)
{
    row->clock = age->clock;
    row->version = age->version;
    row->fetched_at = rbt_client_clock(worker);
    row->push_seen = local->push_count;
}

/* Where a row of a cache is to be written. */
static struct rbt_buffer_target target_of(struct rbt_rowcache *cache, uint32_t row,
                                          struct rbt_keylist *keys)
{
    return (struct rbt_buffer_target){
        .keys = keys,
        .values = cache->is_sparse ? NULL : rbt_rowcache_values(cache, row),
        .sparse = cache->is_sparse ? &cache->sparse_values[row] : NULL};
}

/* --- The process cache ----------------------------------------------------------------------- */

/* What a row of the process's cache contains of the worker's messages. */
static const uint64_t *applied_of(const rbt_worker *worker, const struct rbt_rowcache *cache,
                                  uint32_t row)
{
    return cache->applied + (size_t)row * cache->worker_count +
           (worker->index - worker->process_first);
}

/* Whether the process's copy is at least as new as all that the worker has seen of the row: what a
 * worker has seen must not vanish because a colleague's copy was longer on its way. */
static bool is_newest(const struct rbt_worker_table *local, uint32_t row)
{
    const struct rbt_rowcache_row *copy = &local->process->rows[row];
    const uint32_t own = rbt_map_find(&local->rows.map, copy->key);
    const uint32_t shard = rbt_placement_shard(local->table->placement, copy->key);
    return copy->version >= (own == RBT_MAP_NONE ? 0 : local->rows.rows[own].version) &&
           copy->version >= (local->seen == NULL ? 0 : local->seen[shard]);
}

/* No update will name the reads of the rows any more. */
static void release_rows(struct rbt_worker_table *local)
{
    for (size_t i = 0; local->stamps != NULL && i < local->rows.count; i++) {
        struct rbt_rowcache_row *row = &local->rows.rows[i];
        rbt_stamps_replace(local->stamps, rbt_placement_shard(local->table->placement, row->key),
                           &row->stamp, RBT_STAMP_NONE);
    }
}

/* Forgets all rows of the worker's cache but for how new they were. */
static void empty_cache(struct rbt_worker_table *local)
{
    for (size_t i = 0; i < local->rows.count; i++) {
        const struct rbt_rowcache_row *row = &local->rows.rows[i];
        uint64_t *seen = &local->seen[rbt_placement_shard(local->table->placement, row->key)];
        *seen = row->version > *seen ? row->version : *seen;
    }
    release_rows(local);
    rbt_rowcache_empty(&local->rows);
}

/* Whether the process's copy will do for this worker. */
static bool is_usable(const rbt_worker *worker, const struct rbt_worker_table *local, uint32_t row,
                      int64_t staleness)
{
    const struct rbt_rowcache *cache = local->process;
    const bool sees_own = local->table->options.overlay != RBT_OVERLAY_OWN ||
                          *applied_of(worker, cache, row) >= local->buffer.dropped;
    return sees_own && is_newest(local, row) &&
           is_fresh(worker, local->table, &cache->rows[row], staleness);
}

static void lock(rbt_table *table)
{
    const int error = pthread_mutex_lock(&table->mutex);
    RBT_ASSERT(error == 0);
}

static void unlock(rbt_table *table)
{
    const int error = pthread_mutex_unlock(&table->mutex);
    RBT_ASSERT(error == 0);
}

/* Copies the values of a row from one cache to another. */
static rbt_status copy_row(const struct rbt_rowcache *source, uint32_t from,
                           struct rbt_rowcache *cache, uint32_t to)
{
    if (!cache->is_sparse) {
        memcpy(rbt_rowcache_values(cache, to), rbt_rowcache_values(source, from), cache->row_size);
        return RBT_OK;
    }
    const struct rbt_sparse_view row = rbt_sparse_row_peek(&source->sparse_values[from]);
    struct rbt_sparse_row *target = &cache->sparse_values[to];
    rbt_sparse_row_clear(target);
    const rbt_status st = rbt_sparse_row_reserve(target, cache->kind.type, row.count);
    if (st == RBT_OK) {
        rbt_sparse_row_merge(target, cache->kind, row);
    }
    return st;
}

/* Copies the process's row into the worker's and lays the worker's own updates on top. */
static rbt_status copy_from_process(rbt_worker *worker, struct rbt_worker_table *local,
                                    uint32_t from, uint32_t to)
{
    struct rbt_rowcache *cache = local->process;
    struct rbt_rowcache *own = &local->rows;
    const struct rbt_buffer_target target = target_of(own, to, local->list);
    rbt_status st = copy_row(cache, from, own, to);
    if (st == RBT_OK && local->table->options.overlay == RBT_OVERLAY_OWN) {
        const uint32_t shard = rbt_placement_shard(local->table->placement, own->rows[to].key);
        st = rbt_worker_overlay(worker, local, shard, applied_of(worker, cache, from), &target);
    }
    if (st == RBT_OK) {
        const struct rbt_age age = {cache->rows[from].clock, cache->rows[from].version};
        note_copy(worker, local, &own->rows[to], &age);
    }
    return st;
}

/* Finds or adds the key in the process cache, whose mutex is held; a full cache starts again. */
static rbt_status add_shared(const struct rbt_worker_table *local, uint64_t key, uint32_t *row)
{
    struct rbt_rowcache *cache = local->process;
    const uint32_t limit = local->table->options.cache_rows;
    if (limit > 0 && cache->count >= limit && rbt_map_find(&cache->map, key) == RBT_MAP_NONE) {
        rbt_rowcache_empty(cache);
    }
    return rbt_rowcache_add(cache, key, row);
}

/* Puts the row that has just been pulled into row `from` of the worker's cache also into the
 * process's cache, whose mutex is held, with the overlay that all see. */
static rbt_status fill_process(rbt_worker *worker, struct rbt_worker_table *local, uint32_t from,
                               const struct rbt_age *age)
{
    struct rbt_rowcache *cache = local->process;
    struct rbt_rowcache *own = &local->rows;
    uint32_t row = 0;
    rbt_status st = add_shared(local, own->rows[from].key, &row);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_rowcache_row *info = &cache->rows[row];
    if (info->clock >= age->clock && info->version > age->version) {
        return copy_from_process(worker, local, row, from); /* somebody was faster */
    }
    uint64_t *applied = cache->applied + (size_t)row * cache->worker_count;
    const struct rbt_driver_call *call = &worker->calls[0]; /* one key, one shard */
    const struct rbt_buffer_target target = target_of(cache, row, local->list);
    memcpy(applied, call->event.applied, worker->process_size * sizeof *applied);
    st = copy_row(own, from, cache, row);
    if (st == RBT_OK && local->table->options.overlay == RBT_OVERLAY_PROCESS) {
        st = rbt_worker_overlay(worker, local, call->shard, applied, &target);
    }
    if (st == RBT_OK) {
        note_copy(worker, local, &cache->rows[row], age);
        st = copy_from_process(worker, local, row, from);
    } else {
        cache->rows[row].clock = -1;
    }
    return st;
}

/* Fetches a row for the process, through row `to` of the worker's cache: others may empty the
 * process's while this worker waits. Never from rows that were sent ahead: the worker may have seen
 * newer ones that a colleague fetched, and would see them vanish. */
static rbt_status fetch_process(rbt_worker *worker, struct rbt_worker_table *local, uint32_t to,
                                int64_t need)
{
    rbt_table *table = local->table;
    struct rbt_rowcache *own = &local->rows;
    const struct rbt_want want = {.target = target_of(own, to, local->list), .need = need};
    const struct rbt_fetch fetch = {.want = &want, .is_process = true};
    for (;;) { /* ends: repeated only when another worker has ended a clock meanwhile */
        struct rbt_age age = {0};
        own->rows[to].clock = -1;
        rbt_status st = rbt_worker_pull(worker, local, &fetch, &age);
        if (st != RBT_OK) {
            return st;
        }
        lock(table);
        const bool is_whole =
            table->options.overlay != RBT_OVERLAY_PROCESS || rbt_worker_has_all(worker, local);
        st = is_whole ? fill_process(worker, local, to, &age) : RBT_OK;
        unlock(table);
        if (is_whole) {
            return st;
        }
    }
}

/* Reads through the process cache into row `to` of the worker's. */
static rbt_status read_process(rbt_worker *worker, struct rbt_worker_table *local, uint32_t to,
                               int64_t staleness)
{
    rbt_table *table = local->table;
    uint32_t from = 0;
    lock(table);
    rbt_status st = add_shared(local, local->rows.rows[to].key, &from);
    const bool is_good = st == RBT_OK && is_usable(worker, local, from, staleness);
    if (is_good) {
        st = copy_from_process(worker, local, from, to);
    }
    unlock(table);
    if (st != RBT_OK || is_good) {
        return st;
    }
    return fetch_process(worker, local, to, rbt_worker_need(worker, staleness));
}

/* --- Reading --------------------------------------------------------------------------------- */

/* Remembers a key while the table's accesses are recorded. */
static rbt_status record(struct rbt_worker_table *local, uint64_t key)
{
    if (local->recorded_count == local->recorded_max) {
        const size_t max = local->recorded_max == 0 ? 1024 : local->recorded_max * 2;
        uint64_t *recorded = rbt_realloc(local->recorded, max, sizeof *recorded);
        if (recorded == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not record %zu keys", max);
        }
        local->recorded = recorded;
        local->recorded_max = max;
    }
    local->recorded[local->recorded_count++] = key;
    return RBT_OK;
}

/* Fetches a row of a table with a rule. What the old copy was updated with names the old read: it
 * moves to the buffer, unless nothing has changed at the shard since then. */
static rbt_status fetch_ruled(rbt_worker *worker, struct rbt_worker_table *local, uint32_t row,
                              struct rbt_want *want, struct rbt_age *age)
{
    struct rbt_rowcache_row *info = &local->rows.rows[row];
    const uint32_t shard = rbt_placement_shard(local->table->placement, info->key);
    rbt_status st = info->is_dirty && info->stamp == RBT_STAMP_NONE
                        ? rbt_worker_flush_rows(worker, local)
                        : RBT_OK;
    const bool is_dirty = info->is_dirty;
    uint64_t *held = &local->row_stamps[shard];
    *held = is_dirty ? RBT_STAMP_NONE : info->stamp; /* updates still name it */
    want->stamps = local->row_stamps;
    st = st != RBT_OK ? st : rbt_worker_fetch(worker, local, want, age);
    if (st != RBT_OK || !is_dirty) {
        info->stamp = *held;
        return st;
    }
    if (*held != RBT_STAMP_NONE) { /* else the worker has left */
        st = *held != info->stamp ? rbt_worker_flush_rows(worker, local) : RBT_OK;
        rbt_stamps_replace(local->stamps, shard, st == RBT_OK ? &info->stamp : held,
                           RBT_STAMP_NONE);
        info->stamp = st == RBT_OK ? *held : info->stamp;
    }
    return st;
}

/* The number under which a row of an eager table is asked for again and again. */
static uint64_t subscription_of(const rbt_table *table, uint64_t key)
{
    const uint64_t of_rows = UINT64_C(1) << 63; /* sets count from 1 */
    return table->is_eager && !table->experiments.is_synchronised
               ? of_rows | rbt_hash_key(rbt_hash_key(key) ^ table->spec.number)
               : 0;
}

/* Brings the worker's copy of a row up to date. */
static rbt_status refresh(rbt_worker *worker, struct rbt_worker_table *local, uint32_t row,
                          int64_t staleness)
{
    const rbt_table *table = local->table;
    struct rbt_rowcache *cache = &local->rows;
    const uint64_t key = cache->rows[row].key;
    rbt_status st = rbt_keylist_assign(local->list, &key, 1);
    if (st != RBT_OK) {
        return st;
    }
    if (table->options.cache == RBT_CACHE_PROCESS || table->options.cache == RBT_CACHE_BOTH) {
        return read_process(worker, local, row, staleness);
    }
    struct rbt_want want = {.target = target_of(cache, row, local->list),
                            .need = rbt_worker_need(worker, staleness)};
    if (worker->job->driver->sends_ahead) {
        want.subscription = subscription_of(table, key);
    }
    struct rbt_age age = {0};
    st = local->stamps == NULL ? rbt_worker_fetch(worker, local, &want, &age)
                               : fetch_ruled(worker, local, row, &want, &age);
    if (st == RBT_OK) {
        note_copy(worker, local, &cache->rows[row], &age);
    } else {
        cache->rows[row].clock = -1;
    }
    return st;
}

/* Finds or adds the key in the worker's cache; a full cache starts again, its updates being safe in
 * the buffer. */
static rbt_status add_row(rbt_worker *worker, struct rbt_worker_table *local, uint64_t key,
                          uint32_t *row)
{
    struct rbt_rowcache *cache = &local->rows;
    *row = rbt_map_find(&cache->map, key);
    if (*row != RBT_MAP_NONE) {
        return RBT_OK;
    }
    const uint32_t limit = local->table->options.cache_rows;
    const bool is_full = limit > 0 && cache->count >= limit;
    rbt_status st = is_full ? rbt_worker_flush_rows(worker, local) : RBT_OK;
    if (st != RBT_OK) {
        return st;
    }
    const bool is_shared = local->table->options.overlay == RBT_OVERLAY_PROCESS;
    if (is_shared) { /* others look through the cache for updates */
        rbt_worker_lock(local);
    }
    if (is_full) {
        empty_cache(local);
    }
    st = rbt_rowcache_add(cache, key, row);
    if (is_shared) {
        rbt_worker_unlock(local);
    }
    return st;
}

/* The number of the row in the worker's cache, fresh enough to be read. */
static rbt_status read_row(rbt_worker *worker, struct rbt_worker_table *local, uint64_t key,
                           int64_t staleness, uint32_t *row)
{
    const struct rbt_table_options *options = &local->table->options;
    struct rbt_rowcache *cache = &local->rows;
    rbt_status st = add_row(worker, local, key, row);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_rowcache_row *info = &cache->rows[*row];
    const bool is_cached = options->cache == RBT_CACHE_WORKER || options->cache == RBT_CACHE_BOTH;
    const bool has_own =
        options->overlay == RBT_OVERLAY_NONE || info->push_seen == local->push_count;
    if (!is_cached || !has_own || !is_fresh(worker, local->table, info, staleness)) {
        st = refresh(worker, local, *row, staleness);
    }
    if (st == RBT_OK) {
        rbt_worker_note_read(worker, cache->rows[*row].clock);
    }
    return st;
}

static rbt_status get_dense(rbt_worker *worker, rbt_table *table, uint64_t key, int64_t staleness,
                            void *values)
{
    if (table->spec.layout != RBT_DENSE) {
        return rbt_fail(RBT_E_INVALID, "table \"%s\" has sparse rows; use rbt_get_sparse()",
                        table->spec.name);
    }
    struct rbt_worker_table *local = NULL;
    rbt_status st = rbt_worker_table_of(worker, table, &local);
    if (st != RBT_OK) {
        return st;
    }
    if (local->is_recording) {
        rbt_initial_values(&table->initial, key, values);
        return record(local, key);
    }
    uint32_t row = 0;
    st = read_row(worker, local, key, staleness, &row);
    if (st == RBT_OK) {
        memcpy(values, rbt_rowcache_values(&local->rows, row), table->row_size);
    }
    return st;
}

rbt_status rbt_get(rbt_worker *worker, rbt_table *table, uint64_t key, void *values)
{
    return get_dense(worker, table, key, rbt_table_staleness(table), values);
}

rbt_status rbt_get_within(rbt_worker *worker, rbt_table *table, uint64_t key, int64_t staleness,
                          void *values)
{
    const rbt_status st = rbt_worker_check_staleness(staleness);
    return st != RBT_OK ? st : get_dense(worker, table, key, staleness, values);
}

/* Copies the elements that are not zero. */
static rbt_status copy_elements(const rbt_table *table, const struct rbt_sparse_row *row,
                                struct rbt_elements *elements)
{
    static const char zero[8];
    const size_t size = table->element_size;
    size_t count = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        const char *value = row->values + i * size;
        if (memcmp(value, zero, size) == 0) {
            continue;
        }
        if (count < elements->capacity) {
            elements->index[count] = row->index[i];
            memcpy((char *)elements->values + count * size, value, size);
        }
        count++;
    }
    elements->count = count;
    if (count > elements->capacity) {
        return rbt_fail(RBT_E_TOO_SMALL, "the row has %zu elements; there is room for %zu", count,
                        elements->capacity);
    }
    return RBT_OK;
}

static rbt_status get_sparse(rbt_worker *worker, rbt_table *table, uint64_t key, int64_t staleness,
                             struct rbt_elements *elements)
{
    if (table->spec.layout != RBT_SPARSE) {
        return rbt_fail(RBT_E_INVALID, "table \"%s\" has dense rows; use rbt_get()",
                        table->spec.name);
    }
    struct rbt_worker_table *local = NULL;
    rbt_status st = rbt_worker_table_of(worker, table, &local);
    if (st != RBT_OK) {
        return st;
    }
    if (local->is_recording) {
        elements->count = 0;
        return record(local, key);
    }
    uint32_t row = 0;
    st = read_row(worker, local, key, staleness, &row);
    return st != RBT_OK ? st : copy_elements(table, &local->rows.sparse_values[row], elements);
}

rbt_status rbt_get_sparse(rbt_worker *worker, rbt_table *table, uint64_t key,
                          struct rbt_elements *elements)
{
    return get_sparse(worker, table, key, rbt_table_staleness(table), elements);
}

rbt_status rbt_get_sparse_within(rbt_worker *worker, rbt_table *table, uint64_t key,
                                 int64_t staleness, struct rbt_elements *elements)
{
    const rbt_status st = rbt_worker_check_staleness(staleness);
    return st != RBT_OK ? st : get_sparse(worker, table, key, staleness, elements);
}

rbt_status rbt_row_freshness(rbt_worker *worker, rbt_table *table, uint64_t key,
                             struct rbt_freshness *freshness)
{
    const struct rbt_worker_table *local = worker->locals[table->spec.number];
    const uint32_t row = local == NULL ? RBT_MAP_NONE : rbt_map_find(&local->rows.map, key);
    const int64_t clock = row == RBT_MAP_NONE ? -1 : local->rows.rows[row].clock;
    const struct rbt_freshness full = {.clock = clock,
                                       .staleness = rbt_client_clock(worker) - clock};
    return rbt_sized_give(freshness, &full, sizeof full);
}

/* --- Updating -------------------------------------------------------------------------------- */

/* Shows an update in the copies that must show it. */
static rbt_status write_through(struct rbt_worker_table *local, uint32_t row,
                                const struct rbt_rowcache_change *change)
{
    rbt_table *table = local->table;
    rbt_status st = RBT_OK;
    const bool is_own =
        table->options.overlay == RBT_OVERLAY_OWN || table->options.overlay == RBT_OVERLAY_REPLICA;
    if (is_own && local->rows.rows[row].clock >= 0) {
        st = rbt_rowcache_write_through(&local->rows, row, change);
    }
    if (table->options.overlay == RBT_OVERLAY_PROCESS) {
        const uint32_t shared = rbt_map_find(&local->process->map, local->rows.rows[row].key);
        if (shared != RBT_MAP_NONE && local->process->rows[shared].clock >= 0) {
            st = rbt_rowcache_write_through(local->process, shared, change);
        }
    }
    return st;
}

static rbt_status update(rbt_worker *worker, rbt_table *table, uint64_t key,
                         const struct rbt_rowcache_change *change)
{
    struct rbt_worker_table *local = NULL;
    rbt_status st = rbt_worker_may_update(worker);
    st = st != RBT_OK ? st : rbt_worker_table_of(worker, table, &local);
    if (st != RBT_OK) {
        return st;
    }
    if (local->is_recording) {
        return record(local, key);
    }
    uint32_t row = 0;
    st = add_row(worker, local, key, &row);
    if (st != RBT_OK) {
        return st;
    }
    rbt_worker_lock(local);
    st = rbt_rowcache_update(&local->rows, row, change);
    if (st == RBT_OK && write_through(local, row, change) != RBT_OK) {
        /* The update itself is safe; a copy that lacks it is worth nothing and is fetched anew. */
        local->rows.rows[row].clock = -1;
        if (table->options.overlay == RBT_OVERLAY_PROCESS) {
            rbt_rowcache_forget(local->process); /* its lock is held */
        }
    }
    local->add_count++;
    rbt_worker_unlock(local);
    return st;
}

rbt_status rbt_add(rbt_worker *worker, rbt_table *table, uint64_t key, const void *deltas)
{
    if (table->spec.layout != RBT_DENSE) {
        return rbt_fail(RBT_E_INVALID, "table \"%s\" has sparse rows; use rbt_add_elements()",
                        table->spec.name);
    }
    const struct rbt_rowcache_change change = {.deltas = deltas, .count = table->spec.width};
    return update(worker, table, key, &change);
}

rbt_status rbt_add_at(rbt_worker *worker, rbt_table *table, uint64_t key, uint32_t element,
                      const void *delta)
{
    if (element >= table->spec.width) {
        return rbt_fail(RBT_E_INVALID, "table \"%s\" has elements 0 to %u, not %u",
                        table->spec.name, table->spec.width - 1, element);
    }
    const bool is_sparse = table->spec.layout == RBT_SPARSE;
    const struct rbt_rowcache_change change = {
        .first = element, .index = is_sparse ? &element : NULL, .deltas = delta, .count = 1};
    return update(worker, table, key, &change);
}

rbt_status rbt_add_elements(rbt_worker *worker, rbt_table *table, uint64_t key,
                            const struct rbt_elements *elements)
{
    for (size_t i = 0; i < elements->count; i++) {
        if (elements->index[i] >= table->spec.width ||
            (i > 0 && elements->index[i] <= elements->index[i - 1])) {
            return rbt_fail(RBT_E_INVALID,
                            "element %u of table \"%s\" is out of range or out of order",
                            elements->index[i], table->spec.name);
        }
    }
    const struct rbt_rowcache_change change = {
        .index = elements->index, .deltas = elements->values, .count = elements->count};
    return update(worker, table, key, &change);
}
