/* algo/linear/linear_lazy.h - penalties of features that a clock's examples do not have can wait.
 *
 * If an epoch has several clocks, a clock regularises only the features that its examples use, and
 * at its end makes up for the clocks since each of them was last used, in one step. So a clock
 * changes, and sends, nothing else, and what it costs follows from the features that it uses.
 *
 * Which features a clock uses is listed once, when the worker has its examples, unless these are on
 * disk: then before every clock, because the lists may be half as large as the examples.
 * Threads: owned by the worker. */
#ifndef RUBATO_ALGO_LINEAR_LINEAR_LAZY_H
#define RUBATO_ALGO_LINEAR_LINEAR_LAZY_H

#include "algo/linear/linear_job.h"

/* For the worker's share, if the job is lazy. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_linear_lazy_open(const struct rbt_linear_job *linear,
                                             struct rbt_linear_worker *w);

/* Accepts a worker without. */
void rbt_linear_lazy_close(struct rbt_linear_worker *w);

/* Before clock `index` of the epoch, which has examples first .. end-1 of the share. */
void rbt_linear_lazy_begin(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                           int64_t index, size_t first, size_t end);

/* Examples between two regularisation steps of this clock. */
size_t rbt_linear_lazy_sweep(const struct rbt_linear_worker *w);

/* One regularisation step of the features of this clock that stands for steps whose sizes have this
 * sum; and, after the clock's last one, what they have missed in the clocks before it. That comes
 * after the gradients, so that a weight is at rest where they and its penalty are even. */
void rbt_linear_lazy_shrink(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                            double amount);
void rbt_linear_lazy_settle(const struct rbt_linear_job *linear, struct rbt_linear_worker *w);

#endif
