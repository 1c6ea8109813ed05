/* algo/kmeans/kmeans_model.h - what centres say about points.
 *
 * The model's arrays: "centres" (keys 0 .. k-1, one column per feature), "features" (which features
 * these are, and how far dense points are moved before distances are computed), and "sizes" (points
 * per cluster). Settings: "dense", and "labelled": csv files have a label, which is no coordinate.
 * Threads: none; models are not changed. */
#ifndef RUBATO_ALGO_KMEANS_KMEANS_MODEL_H
#define RUBATO_ALGO_KMEANS_KMEANS_MODEL_H

#include "algo/frame/algo.h"
#include "algo/kmeans/kmeans_points.h"

/* Nearest centres of all points, (points->count), and the sum of squared distances; on all cores.
 * `nearest` may be NULL. The sum does not depend on the number of cores. */
RBT_MUST_USE rbt_status rbt_kmeans_model_assign(const struct rbt_kmeans_centres *centres,
                                                const struct rbt_kmeans_points *points,
                                                uint32_t *nearest, double *inertia);

/* The model's centres in a space: its own, or that of the data that it was trained on. */
RBT_MUST_USE rbt_status rbt_kmeans_model_centres(const struct rbt_model *model,
                                                 const struct rbt_kmeans_space *space,
                                                 struct rbt_kmeans_centres *centres);

/* Adds the figures of examples: distance and inertia. */
RBT_MUST_USE rbt_status rbt_kmeans_model_measure(const struct rbt_model *model,
                                                 const struct rbt_examples *examples,
                                                 struct rbt_metrics *metrics);

/* For the registry: the number of the cluster, from 0, per line; figures; centres as CSV. */
rbt_status rbt_kmeans_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options);
rbt_status rbt_kmeans_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics);
extern const struct rbt_algo_export rbt_kmeans_model_exports[];

#endif
