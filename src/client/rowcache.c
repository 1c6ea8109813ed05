/* client/rowcache.c - rows behind a map, with parallel arrays for what is known of each.
 *
 * The cache grows with the rows that a worker touches, which are its working set; where it must
 * not, it is emptied when it is full. Copy and updates are kept apart so that a refill can put the
 * updates back on top.
 *
 * Threads: the worker's own; a process cache is guarded by its table's mutex.
 * Memory: grows when a key is seen for the first time; nothing is allocated afterwards, except by
 * sparse rows that grow. */
#include "client/rowcache.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

rbt_status rbt_rowcache_init(struct rbt_rowcache *cache, const struct rbt_rowcache_options *options)
{
    *cache = (struct rbt_rowcache){.kind = options->kind,
                                   .width = options->width,
                                   .row_size = options->width * rbt_merge_size(options->kind.type),
                                   .is_sparse = options->is_sparse,
                                   .worker_count = options->worker_count};
    return rbt_map_init(&cache->map, 0);
}

void rbt_rowcache_deinit(struct rbt_rowcache *cache)
{
    for (size_t i = 0; cache->is_sparse && i < cache->count; i++) {
        rbt_sparse_row_deinit(&cache->sparse_values[i]);
        rbt_sparse_row_deinit(&cache->sparse_deltas[i]);
    }
    rbt_map_deinit(&cache->map);
    rbt_free(cache->rows);
    rbt_free(cache->values);
    rbt_free(cache->deltas);
    rbt_free(cache->sparse_values);
    rbt_free(cache->sparse_deltas);
    rbt_free(cache->applied);
    rbt_free(cache->dirty);
    rbt_free(cache->sorted);
    *cache = (struct rbt_rowcache){0};
}

/* Enlarges one array; on failure the old one stays. */
static bool enlarge(void *array, size_t capacity, size_t size)
{
    void **place = array;
    void *grown = rbt_realloc(*place, capacity, size);
    if (grown != NULL) {
        *place = grown;
    }
    return grown != NULL;
}

static rbt_status grow(struct rbt_rowcache *cache)
{
    const size_t capacity = cache->capacity == 0 ? 64 : cache->capacity * 2;
    if (capacity >= RBT_MAP_NONE) {
        return rbt_fail(RBT_E_BUSY, "a cache holds at most %u rows", RBT_MAP_NONE - 1);
    }
    bool is_done = enlarge(&cache->rows, capacity, sizeof *cache->rows) &&
                   enlarge(&cache->dirty, capacity, sizeof *cache->dirty) &&
                   enlarge(&cache->sorted, capacity, sizeof *cache->sorted);
    if (cache->is_sparse) {
        is_done = is_done &&
                  enlarge(&cache->sparse_values, capacity, sizeof(struct rbt_sparse_row)) &&
                  enlarge(&cache->sparse_deltas, capacity, sizeof(struct rbt_sparse_row));
    } else {
        is_done = is_done && enlarge(&cache->values, capacity, cache->row_size) &&
                  enlarge(&cache->deltas, capacity, cache->row_size);
    }
    if (cache->worker_count > 0) {
        is_done = is_done &&
                  enlarge(&cache->applied, capacity, cache->worker_count * sizeof *cache->applied);
    }
    if (!is_done) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a cache of %zu rows", capacity);
    }
    const rbt_status st = rbt_map_reserve(&cache->map, capacity - cache->count);
    if (st == RBT_OK) {
        cache->capacity = capacity;
    }
    return st;
}

rbt_status rbt_rowcache_add(struct rbt_rowcache *cache, uint64_t key, uint32_t *row)
{
    const uint32_t known = rbt_map_find(&cache->map, key);
    if (known != RBT_MAP_NONE) {
        *row = known;
        return RBT_OK;
    }
    const rbt_status st = cache->count < cache->capacity ? RBT_OK : grow(cache);
    if (st != RBT_OK) {
        return st;
    }
    const uint32_t fresh = (uint32_t)cache->count++;
    rbt_map_insert(&cache->map, key, fresh);
    cache->rows[fresh] =
        (struct rbt_rowcache_row){.key = key, .clock = -1, .stamp = RBT_STAMP_NONE};
    *row = fresh;
    return RBT_OK;
}

void rbt_rowcache_empty(struct rbt_rowcache *cache)
{
    RBT_ASSERT(cache->dirty_count == 0);
    for (size_t i = 0; cache->is_sparse && i < cache->count; i++) { /* rows are zeroed when added */
        rbt_sparse_row_deinit(&cache->sparse_values[i]);
        rbt_sparse_row_deinit(&cache->sparse_deltas[i]);
    }
    rbt_map_clear(&cache->map);
    cache->count = 0;
}

void rbt_rowcache_forget(struct rbt_rowcache *cache)
{
    for (size_t i = 0; i < cache->count; i++) {
        cache->rows[i].clock = -1;
    }
}

char *rbt_rowcache_values(const struct rbt_rowcache *cache, uint32_t row)
{
    RBT_DEBUG_ASSERT(row < cache->count);
    return cache->values + row * cache->row_size;
}

char *rbt_rowcache_deltas(const struct rbt_rowcache *cache, uint32_t row)
{
    RBT_DEBUG_ASSERT(row < cache->count);
    return cache->deltas + row * cache->row_size;
}

static void merge_dense(const struct rbt_rowcache *cache, char *to,
                        const struct rbt_rowcache_change *change)
{
    const size_t size = rbt_merge_size(cache->kind.type);
    if (change->index == NULL) {
        rbt_merge_apply(cache->kind, to + change->first * size, change->deltas, change->count);
        return;
    }
    for (size_t i = 0; i < change->count; i++) {
        RBT_DEBUG_ASSERT(change->index[i] < cache->width);
        rbt_merge_apply(cache->kind, to + change->index[i] * size,
                        (const char *)change->deltas + i * size, 1);
    }
}

static rbt_status merge_sparse(const struct rbt_rowcache *cache, struct rbt_sparse_row *to,
                               const struct rbt_rowcache_change *change)
{
    RBT_ASSERT(change->index != NULL);
    const struct rbt_sparse_view elements = {change->index, change->deltas, change->count};
    rbt_status st = rbt_sparse_row_reserve(to, cache->kind.type, change->count);
    if (st == RBT_OK) {
        rbt_sparse_row_merge(to, cache->kind, elements);
    }
    return st;
}

rbt_status rbt_rowcache_update(struct rbt_rowcache *cache, uint32_t row,
                               const struct rbt_rowcache_change *change)
{
    const bool is_first = !cache->rows[row].is_dirty;
    rbt_status st = RBT_OK;
    if (cache->is_sparse) {
        st = merge_sparse(cache, &cache->sparse_deltas[row], change);
    } else {
        char *deltas = rbt_rowcache_deltas(cache, row);
        if (is_first) {
            rbt_merge_clear(cache->kind, deltas, cache->width);
        }
        merge_dense(cache, deltas, change);
    }
    if (st == RBT_OK && is_first) {
        cache->rows[row].is_dirty = true;
        cache->dirty[cache->dirty_count++] = row;
    }
    RBT_ASSERT(cache->dirty_count <= cache->count);
    return st;
}

rbt_status rbt_rowcache_write_through(struct rbt_rowcache *cache, uint32_t row,
                                      const struct rbt_rowcache_change *change)
{
    if (cache->is_sparse) {
        return merge_sparse(cache, &cache->sparse_values[row], change);
    }
    merge_dense(cache, rbt_rowcache_values(cache, row), change);
    return RBT_OK;
}

rbt_status rbt_rowcache_overlay(const struct rbt_rowcache *cache, uint32_t row, char *values,
                                struct rbt_sparse_row *sparse)
{
    if (!cache->rows[row].is_dirty) {
        return RBT_OK;
    }
    if (!cache->is_sparse) {
        rbt_merge_apply(cache->kind, values, rbt_rowcache_deltas(cache, row), cache->width);
        return RBT_OK;
    }
    const struct rbt_sparse_view own = rbt_sparse_row_peek(&cache->sparse_deltas[row]);
    rbt_status st = rbt_sparse_row_reserve(sparse, cache->kind.type, own.count);
    if (st == RBT_OK) {
        rbt_sparse_row_merge(sparse, cache->kind, own);
    }
    return st;
}

static int compare_keys(const void *a, const void *b, void *context)
{
    const struct rbt_rowcache_row *rows = context;
    const uint64_t x = rows[*(const uint32_t *)a].key;
    const uint64_t y = rows[*(const uint32_t *)b].key;
    return x < y ? -1 : x > y;
}

void rbt_rowcache_sort_dirty(struct rbt_rowcache *cache)
{
    if (cache->dirty_count == 0) {
        return; /* there may be no arrays yet */
    }
    qsort_r(cache->dirty, cache->dirty_count, sizeof *cache->dirty, compare_keys, cache->rows);
    for (size_t i = 0; i < cache->dirty_count; i++) {
        cache->sorted[i] = cache->rows[cache->dirty[i]].key;
    }
}

void rbt_rowcache_clean(struct rbt_rowcache *cache)
{
    for (size_t i = 0; i < cache->dirty_count; i++) {
        const uint32_t row = cache->dirty[i];
        cache->rows[row].is_dirty = false;
        if (cache->is_sparse) {
            rbt_sparse_row_clear(&cache->sparse_deltas[row]);
        }
    }
    cache->dirty_count = 0;
}
