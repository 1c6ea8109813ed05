/* algo/frame/columns.h - the examples of a share by feature: what coordinate descent walks along.
 *
 * Threads: none; the caller owns it. */
#ifndef RUBATO_ALGO_FRAME_COLUMNS_H
#define RUBATO_ALGO_FRAME_COLUMNS_H

#include "data/examples.h"

/* Column c is feature features[c] (a position in the share's keys, increasing), with the entries
 * rows[k], values[k], k = starts[c] .. starts[c+1]-1; rows increase. */
struct rbt_columns {
    size_t count;       /* features that the examples have */
    uint32_t *features; /* (count) */
    uint64_t *starts;   /* (count + 1) */
    uint32_t *rows;     /* examples, from 0 for the first of the range */
    float *values;
};

/* Examples first .. end-1 of the share. `columns` is empty at first, and on failure again. Fails
 * with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_columns_take(const struct rbt_share *share, size_t first, size_t end,
                                         struct rbt_columns *columns);

/* Accepts an empty one and leaves one. */
void rbt_columns_free(struct rbt_columns *columns);

#endif
