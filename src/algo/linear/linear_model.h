/* algo/linear/linear_model.h - what a linear model says about examples: margins m = w'x + b.
 *
 * The model's arrays: "weights" (width 1), rows that are zero left out, and "bias" (one row with
 * key 0), if it has one. Setting "loss" is an enum rbt_loss. With softmax, rows are as wide as
 * there are classes, and "classes" (width 1, keys 0, 1, ...) has their labels, increasing.
 * Threads: none; models are not changed. */
#ifndef RUBATO_ALGO_LINEAR_LINEAR_MODEL_H
#define RUBATO_ALGO_LINEAR_LINEAR_MODEL_H

#include "algo/frame/algo.h"
#include "algo/frame/scores.h"
#include "data/examples.h"
#include "math/loss.h"

enum rbt_loss rbt_linear_model_loss(const struct rbt_model *model);

/* Margins of each example: 1, or the number of classes. */
size_t rbt_linear_model_width(const struct rbt_model *model);

/* Whether the arrays are there and fit together; a model that was just trained is right. Fails with
 * RBT_E_DATA. */
RBT_MUST_USE rbt_status rbt_linear_model_check(const struct rbt_model *model);

/* Margins, (count, width), of all examples of a share, whose features have these weights. */
void rbt_linear_model_margins(const struct rbt_model *model, const struct rbt_share *share,
                              const float *weights, float *margins);

/* Adds the figures of a whole share (scores.h). Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_linear_model_measure_share(const struct rbt_model *model,
                                                       const struct rbt_share *share,
                                                       struct rbt_metrics *metrics);

/* liblinear's model file; and a table of features, by their names, and their weights. */
rbt_status rbt_linear_model_export(const struct rbt_model *model, FILE *out);
rbt_status rbt_linear_model_export_csv(const struct rbt_model *model, FILE *out);

/* What algo.h asks for: why a model has no probabilities. */
const char *rbt_linear_model_why_uncertain(const struct rbt_model *model);

/* For the registry: one value per line (a probability, a margin, or a prediction); figures. */
rbt_status rbt_linear_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options);
rbt_status rbt_linear_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics);

#endif
