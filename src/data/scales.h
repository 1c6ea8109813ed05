/* data/scales.h - how large the numbers of a table's columns are, over all of its examples.
 *
 * Columns have units of their own, and go with categories, which are 1. So numbers are multiplied
 * by the power of two that brings a column's root of the mean square, or its standard deviation,
 * nearest to 1. Files are often sorted, so that only all lines tell it: numbers are read as they
 * are, measured, and multiplied when the last file has been read. A cell that is missing counts
 * nothing, a 0 does.
 *
 * Sums are made in the order of the examples, whatever threads have parsed them and in whatever
 * parts: all who read the data get the same bits.
 *
 * Threads: one at a time. */
#ifndef RUBATO_DATA_SCALES_H
#define RUBATO_DATA_SCALES_H

#include "data/examples.h"
#include "data/fields.h"

/* What is known of a column so far. */
struct rbt_scale_sums {
    uint64_t numbers;  /* cells that are not missing */
    uint64_t nonzeros; /* those of them that examples have */
    double origin;     /* the first nonzero; the sums are of distances from it */
    double sum;
    double squares;
    double pure; /* sum of squares of the numbers themselves */
};

struct rbt_scales {
    struct rbt_scale_sums *columns;
    size_t count;
};

/* Makes room for the columns of a plan, unless there is. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_scales_open(struct rbt_scales *scales, size_t count);
void rbt_scales_free(struct rbt_scales *scales);

/* Adds the numbers of examples first .. count-1, whose keys are columns, from 1, or no numbers. */
void rbt_scales_add(struct rbt_scales *scales, const struct rbt_examples *examples, size_t first);

/* The plan gets its scales and is no longer measuring. */
void rbt_scales_settle(const struct rbt_scales *scales, struct rbt_column_plan *plan);

/* A number times a scale; finite. */
float rbt_scales_times(float value, float scale);

/* Multiplies the numbers of all examples. */
void rbt_scales_apply(const struct rbt_column_plan *plan, struct rbt_examples *examples);

#endif
