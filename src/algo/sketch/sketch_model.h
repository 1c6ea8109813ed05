/* algo/sketch/sketch_model.h - cells of a CountMin sketch, and what they say about keys.
 *
 * A sketch has `depth` rows of `width` cells, one after the other. A key with the hash h is counted
 * in one cell of each row r:
 *
 *     column = (upper 32 bits of h a_r) * width / 2^32,    a_r odd and random
 *
 * (multiply-shift). Every cell of a key holds its count and perhaps those of others, so the
 * smallest is an estimate that is never below the truth.
 *
 * In a model, array "cells" has rows of RBT_SKETCH_ROW cells, those without a count left out. Cells
 * are whole numbers of up to 48 bits, of which a float holds 24: the upper ones are in array
 * "upper", if there are any. Settings: depth, width, total, and the seed in two halves. */
#ifndef RUBATO_ALGO_SKETCH_SKETCH_MODEL_H
#define RUBATO_ALGO_SKETCH_SKETCH_MODEL_H

#include "algo/frame/algo.h"
#include "algo/sketch/sketch_stream.h"

enum { RBT_SKETCH_DEPTH_MAX = 32, RBT_SKETCH_ROW = 256 };

struct rbt_sketch_shape {
    uint32_t depth;
    uint32_t width;
    uint64_t seed;
    uint64_t multipliers[RBT_SKETCH_DEPTH_MAX]; /* a */
};

struct rbt_sketch_shape rbt_sketch_model_shape(uint32_t depth, uint32_t width, uint64_t seed);

/* How many rows of a table hold the cells. */
size_t rbt_sketch_model_rows(const struct rbt_sketch_shape *shape);

/* Adds keys first .. end-1 of the stream to the cells, (depth, width). */
void rbt_sketch_model_insert(const struct rbt_sketch_shape *shape,
                             const struct rbt_sketch_stream *stream, size_t first, size_t end,
                             int64_t *cells);

/* The smallest cell of a key. */
uint64_t rbt_sketch_model_estimate(const struct rbt_sketch_shape *shape, const int64_t *cells,
                                   uint64_t hash);

/* With probability 1 - exp(-depth) an estimate is at most this much above the truth: e N / width.
 */
double rbt_sketch_model_bound(const struct rbt_sketch_shape *shape, double total);

/* Writes cells into an empty model; and gets them back, to be freed with rbt_free(). Fail with
 * RBT_E_NOMEM, RBT_E_DATA (not a sketch). */
RBT_MUST_USE rbt_status rbt_sketch_model_write(const struct rbt_sketch_shape *shape,
                                               const int64_t *cells, struct rbt_model *model);
RBT_MUST_USE rbt_status rbt_sketch_model_open(const struct rbt_model *model,
                                              struct rbt_sketch_shape *shape, int64_t **cells);

/* Adds the figures of a stream whose counts are the truth; keys may occur several times. */
RBT_MUST_USE rbt_status rbt_sketch_model_measure(const struct rbt_model *model,
                                                 const struct rbt_sketch_stream *stream,
                                                 struct rbt_metrics *metrics);

/* For the registry: an estimate per key; figures; cells as CSV. */
rbt_status rbt_sketch_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options);
rbt_status rbt_sketch_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics);
extern const struct rbt_algo_export rbt_sketch_model_exports[];

#endif
