/* algo/frame/metrics.h - how good predictions are. Threads: none. */
#ifndef RUBATO_ALGO_FRAME_METRICS_H
#define RUBATO_ALGO_FRAME_METRICS_H

#include <stddef.h>

#include <rubato/status.h>

#include "algo/frame/algo.h"

/* Adds a figure; `name` is a constant string. */
void rbt_metrics_add(struct rbt_metrics *metrics, const char *name, double value);

/* Means over n > 0 predictions; margins are w'x + b, labels -1 or +1:
 *     logloss    log(1 + exp(-y m))
 *     hinge      max(0, 1 - y m)
 *     accuracy   1 if y m > 0, or m is 0 and y is +1
 *     rmse       root of the mean of (m - y)^2 */
double rbt_metrics_logloss(const float *margins, const float *labels, size_t n);
double rbt_metrics_hinge(const float *margins, const float *labels, size_t n);
double rbt_metrics_accuracy(const float *margins, const float *labels, size_t n);
double rbt_metrics_rmse(const float *predictions, const float *labels, size_t n);

/* The same for several classes: margins are (n, classes), labels 0 .. classes-1. A tie is for the
 * first class.
 *     logloss    log(sum_c exp(m_c)) - m_y
 *     accuracy   1 if m_y is the largest */
double rbt_metrics_class_logloss(const float *margins, const float *labels, size_t n,
                                 size_t classes);
double rbt_metrics_class_accuracy(const float *margins, const float *labels, size_t n,
                                  size_t classes);

/* Area under the ROC curve: the chance that a random positive example has a larger margin than a
 * random negative one, ties counting one half. Exact, by sorting. 0.5 if there is only one class.
 * Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_metrics_auc(const float *margins, const float *labels, size_t n,
                                        double *auc);

#endif
