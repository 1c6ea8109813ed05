/* algo/fm/fm_linear.h - the linear model that a factorisation machine begins with, and must be
 * better than.
 *
 * A linear model is a factorisation machine without pairs. Its minimum does not depend on the order
 * of steps or the number of workers, so it is found first, of all examples but those that are held
 * out, with the penalty that `train linear` would find (penalty.h). Training starts there, so that
 * pairs are what is left to learn; and if held-out examples do not tell in the end that the pairs
 * are of use, the linear model of all examples is the result (fm_watch.c).
 *
 * Every process does so, as it reads all the data, and finds the same.
 *
 * Threads: some of its own. */
#ifndef RUBATO_ALGO_FM_FM_LINEAR_H
#define RUBATO_ALGO_FM_FM_LINEAR_H

#include "algo/frame/model.h"
#include "algo/frame/sample.h"

struct rbt_fm_job;

struct rbt_fm_linear {
    struct rbt_model model;   /* in units of the examples; empty: training begins with zeros */
    double total;             /* its penalty against the sum of losses */
    struct rbt_sample sample; /* on which that is found */
};

/* Takes the sample that `train linear` takes, of the examples as they are in the file. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fm_linear_sample(struct rbt_fm_job *fm);

/* Fits the linear model of the examples that are not held out. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fm_linear_take(struct rbt_fm_job *fm);

/* The same of all examples with the same penalty, into an empty model, in the same units. Fails
 * with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fm_linear_refit(const struct rbt_fm_job *fm, struct rbt_model *model);

/* Accepts an empty one and leaves one. */
void rbt_fm_linear_free(struct rbt_fm_linear *linear);

#endif
