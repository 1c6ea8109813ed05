/* comm/sum.h - several batches of a table as one: rows of the same key are merged, as the table's
 * merge says (added up, usually).
 *
 *     struct rbt_sum sum = {0};
 *     st = rbt_sum_batches(&sum, &kind, batches, count, &result);
 *     ... result points into `sum`, until the next call ...
 *     rbt_sum_deinit(&sum);
 *
 * Merges are the same in any order, but for the last bits of real numbers that are added: here the
 * order is that of the batches. */
#ifndef RUBATO_COMM_SUM_H
#define RUBATO_COMM_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "core/batch.h"
#include "math/merge.h"

struct rbt_sum_kind {
    struct rbt_merge_kind merge;
    uint32_t width; /* of dense rows */
    bool is_sparse;
};

/* Zero is empty. */
struct rbt_sum {
    size_t *at; /* per batch: its next row; and its next element */
    size_t at_max;
    uint64_t *keys;
    size_t keys_max;
    uint32_t *offsets;
    size_t offsets_max;
    uint32_t *elements;
    size_t elements_max;
    char *values;
    size_t values_max; /* bytes */
};

void rbt_sum_deinit(struct rbt_sum *sum);

/* Merges batches of one table into one. Keys of a batch increase, and so do the elements of a
 * sparse row. Fails with RBT_E_NOMEM; the sum can be used again. */
RBT_MUST_USE rbt_status rbt_sum_batches(struct rbt_sum *sum, const struct rbt_sum_kind *kind,
                                        const struct rbt_batch *const *batches, size_t count,
                                        struct rbt_batch *result);

#endif
