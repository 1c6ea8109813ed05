/* math/sparse_row.h - a sparse row: elements in order of index, each with a value. */
#ifndef RUBATO_MATH_SPARSE_ROW_H
#define RUBATO_MATH_SPARSE_ROW_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "math/merge.h"

/* Zero is an empty row. */
struct rbt_sparse_row {
    uint32_t *index; /* increasing */
    char *values;    /* `count` elements of the table's type */
    uint32_t count;
    uint32_t capacity;
    uint32_t promised; /* elements of updates that are still to come, for which there is room */
    uint32_t zeros;    /* elements whose bits are all zero */
};

/* Some elements, borrowed: indices increasing. */
struct rbt_sparse_view {
    const uint32_t *index;
    const void *values;
    size_t count;
};

void rbt_sparse_row_deinit(struct rbt_sparse_row *row);

/* Forgets the elements, keeps the memory. */
void rbt_sparse_row_clear(struct rbt_sparse_row *row);

/* Makes room for `count` more elements. */
RBT_MUST_USE rbt_status rbt_sparse_row_reserve(struct rbt_sparse_row *row, rbt_type type,
                                               size_t count);

/* Merges the elements into the row; those that are not there yet start from zero for ADD and OR,
 * and from the update itself for MAX and MIN. The room must have been reserved. */
void rbt_sparse_row_merge(struct rbt_sparse_row *row, struct rbt_merge_kind kind,
                          struct rbt_sparse_view elements);

/* If most elements of a row of a table that adds or ors are zero, forgets those, which changes
 * nothing that anybody reads, and gives back their memory, but for what has been promised. Others
 * start anew from what comes, so theirs stay. */
void rbt_sparse_row_compact(struct rbt_sparse_row *row, struct rbt_merge_kind kind);

/* Bytes of the elements, with the room for more. */
size_t rbt_sparse_row_bytes(const struct rbt_sparse_row *row, rbt_type type);

struct rbt_sparse_view rbt_sparse_row_peek(const struct rbt_sparse_row *row);

#endif
