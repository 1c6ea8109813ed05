/* store/bins.h - updates that have arrived but are not visible yet, in the order in which they will
 * be. */
#ifndef RUBATO_STORE_BINS_H
#define RUBATO_STORE_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "core/batch.h"
#include "store/rows.h"

/* Whose update it is, of which clock, and in which message it came; compared in the order clock,
 * worker, sequence. */
struct rbt_bin_id {
    int64_t clock;
    uint32_t worker;
    uint64_t sequence;
};

/* A held update. Rows are copied dense, or as elements when fewer than half of the values say
 * something. */
struct rbt_bin {
    struct rbt_bin_id id;
    struct rbt_batch batch; /* into the arrays below; positions NULL */
    size_t missing;         /* rows that it will create, at most */
    uint64_t *keys;
    char *values;
    uint32_t *offsets;
    uint32_t *elements;
    bool is_packed;          /* a dense row kept as elements */
    uint32_t *slots;         /* where the rows were when the update came */
    uint64_t slots_complete; /* see core/batch.h */
    size_t slots_max;
    size_t keys_max;
    size_t values_max; /* bytes */
    size_t offsets_max;
    size_t elements_max;
};

/* Zero is empty. */
struct rbt_bins {
    struct rbt_bin **held; /* sorted by id */
    size_t count;
    size_t capacity;
    struct rbt_bin **spare; /* bins to be used again */
    size_t spare_count;
    size_t missing; /* rows that all held bins will create, at most */
};

void rbt_bins_deinit(struct rbt_bins *bins);

/* Negative, zero or positive as a comes before, is, or comes after b. */
int rbt_bins_compare(const struct rbt_bin_id *a, const struct rbt_bin_id *b);

/* Keeps a copy of the batch, of whose rows `missing` do not exist. */
RBT_MUST_USE rbt_status rbt_bins_hold(struct rbt_bins *bins, const struct rbt_spec *spec,
                                      const struct rbt_bin_id *id, const struct rbt_batch *batch,
                                      size_t missing);

/* Forgets the bins with this id, and returns how many there were. */
size_t rbt_bins_remove(struct rbt_bins *bins, const struct rbt_bin_id *id);

/* Memory of all bins, those included that wait to be used again. */
size_t rbt_bins_bytes(const struct rbt_bins *bins);

/* Bin number `at` in the order of ids, or NULL behind the last one; and its removal. */
const struct rbt_bin *rbt_bins_at(const struct rbt_bins *bins, size_t at);
void rbt_bins_drop(struct rbt_bins *bins, size_t at);

/* The bin as a batch of rows. `scratch` has room for one dense row at a time: a packed bin is
 * handed out row by row, `i` counting from 0 until false is returned. */
bool rbt_bins_unpack(const struct rbt_bin *bin, const struct rbt_spec *spec, size_t i,
                     void *scratch, struct rbt_batch *batch);

/* A bin as a part of a saved shard. Loading adds one behind all others, and makes room for its
 * elements in sparse rows; the caller makes room for the rows that all bins will create. `table` is
 * the number of the table. What makes no sense is refused. */
void rbt_bins_save(const struct rbt_bin *bin, const struct rbt_spec *spec, struct rbt_sink *sink);
void rbt_bins_load(struct rbt_bins *bins, const struct rbt_spec *spec, rbt_row_store *rows,
                   uint32_t table, struct rbt_source *source);

#endif
