/* algo/frame/scores.h - margins of examples, as linear models and factorisation machines have them,
 * against their labels.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_FRAME_SCORES_H
#define RUBATO_ALGO_FRAME_SCORES_H

#include "algo/frame/algo.h"
#include "math/loss.h"

/* Row i of `rows`, (count, array->width), becomes that of keys[i], zero if the array has none; keys
 * increase. */
void rbt_scores_rows(const struct rbt_model_array *array, const uint64_t *keys, size_t count,
                     float *rows);

/* What was said about examples, and what is right. */
struct rbt_scores {
    enum rbt_loss loss;
    size_t width;         /* margins of an example */
    const float *margins; /* (count, width) */
    const float *labels;  /* of softmax: places in the list of classes */
    size_t count;
};

/* Sum of the losses. */
double rbt_scores_losses(const struct rbt_scores *scores);

/* Adds the figures that fit the loss: logloss or hinge, accuracy, auc; or rmse. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_scores_measure(const struct rbt_scores *scores,
                                           struct rbt_metrics *metrics);

#endif
