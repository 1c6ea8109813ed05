/* client/rowcache.h - rows that are read or updated one at a time: copies with their clocks, and
 * the updates made to them in the current clock. One per worker and table, or one per process and
 * table. */
#ifndef RUBATO_CLIENT_ROWCACHE_H
#define RUBATO_CLIENT_ROWCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/map.h"
#include "core/batch.h"
#include "math/merge.h"
#include "math/sparse_row.h"

struct rbt_rowcache_row {
    uint64_t key;
    int64_t clock;      /* all updates of clocks < clock are in the copy; -1: there is no copy */
    uint64_t version;   /* of the shard when the row was fetched */
    int64_t fetched_at; /* the worker's clock then */
    uint64_t push_seen; /* the push_count of the worker's table then */
    uint64_t stamp;     /* tables with a rule: of the read; RBT_STAMP_NONE: there was none */
    bool is_dirty;      /* has updates that are not in the buffer yet */
};

struct rbt_rowcache {
    struct rbt_merge_kind kind;
    uint32_t width;
    size_t row_size;
    bool is_sparse;
    uint32_t worker_count; /* a process cache: sequences kept per row; else 0 */
    struct rbt_map map;    /* key to row number */
    struct rbt_rowcache_row *rows;
    char *values;                         /* dense: row_size each */
    char *deltas;                         /* the same; of rows that are dirty, else anything */
    struct rbt_sparse_row *sparse_values; /* sparse */
    struct rbt_sparse_row *sparse_deltas;
    uint64_t *applied; /* worker_count each: what the copy contains of each worker */
    uint32_t *dirty;   /* numbers of dirty rows */
    uint64_t *sorted;  /* scratch: their keys */
    size_t dirty_count;
    size_t count;
    size_t capacity;
};

struct rbt_rowcache_options {
    struct rbt_merge_kind kind;
    uint32_t width;
    bool is_sparse;
    uint32_t worker_count;
};

RBT_MUST_USE rbt_status rbt_rowcache_init(struct rbt_rowcache *cache,
                                          const struct rbt_rowcache_options *options);
void rbt_rowcache_deinit(struct rbt_rowcache *cache);

/* Number of the key's row, which is added if it is not there. */
RBT_MUST_USE rbt_status rbt_rowcache_add(struct rbt_rowcache *cache, uint64_t key, uint32_t *row);

/* Forgets all rows, of which none is dirty; keeps the memory. */
void rbt_rowcache_empty(struct rbt_rowcache *cache);

/* Forgets all copies; updates stay. */
void rbt_rowcache_forget(struct rbt_rowcache *cache);

char *rbt_rowcache_values(const struct rbt_rowcache *cache, uint32_t row);
char *rbt_rowcache_deltas(const struct rbt_rowcache *cache, uint32_t row);

/* Some elements of one row and what is to be merged into them. */
struct rbt_rowcache_change {
    uint32_t first;        /* dense: elements first .. first+count-1, unless `index` is given */
    const uint32_t *index; /* increasing */
    const void *deltas;
    size_t count;
};

/* Merges the change into the row's updates and marks it dirty. Fails for sparse rows only, with
 * RBT_E_NOMEM and nothing changed. */
RBT_MUST_USE rbt_status rbt_rowcache_update(struct rbt_rowcache *cache, uint32_t row,
                                            const struct rbt_rowcache_change *change);

/* Merges the change into the copy. */
RBT_MUST_USE rbt_status rbt_rowcache_write_through(struct rbt_rowcache *cache, uint32_t row,
                                                   const struct rbt_rowcache_change *change);

/* Merges the row's own updates into `values`, or into `sparse`. */
RBT_MUST_USE rbt_status rbt_rowcache_overlay(const struct rbt_rowcache *cache, uint32_t row,
                                             char *values, struct rbt_sparse_row *sparse);

/* Sorts the dirty rows by key; their keys are in `sorted`. */
void rbt_rowcache_sort_dirty(struct rbt_rowcache *cache);

/* The updates have been moved elsewhere. */
void rbt_rowcache_clean(struct rbt_rowcache *cache);

#endif
