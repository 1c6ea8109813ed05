/* algo/linear_model.h - what a linear model says about examples: margins m = w'x + b.
 *
 * The model's arrays: "weights" (width 1), rows that are zero left out, and "bias" (one row with
 * key 0), if it has one. Setting "loss" is an enum rbt_loss. Threads: none; models are not changed.
 */
#ifndef RUBATO_ALGO_LINEAR_MODEL_H
#define RUBATO_ALGO_LINEAR_MODEL_H

#include "algo/algo.h"
#include "data/examples.h"
#include "math/loss.h"

enum rbt_loss rbt_linear_model_loss(const struct rbt_model *model);
float rbt_linear_model_bias(const struct rbt_model *model);

/* weights[i] becomes the weight of keys[i], zero if the model has none; keys increase. */
void rbt_linear_model_weights(const struct rbt_model *model, const uint64_t *keys, size_t count,
                              float *weights);

/* Margins of all examples of a share, whose features have these weights. */
void rbt_linear_model_margins(const struct rbt_share *share, const float *weights, float bias,
                              float *margins);

/* Adds the figures that fit the loss: logloss or hinge, accuracy, auc; or rmse. */
RBT_MUST_USE rbt_status rbt_linear_model_measure(enum rbt_loss loss, const float *margins,
                                                 const float *labels, size_t count,
                                                 struct rbt_metrics *metrics);

/* The same for a whole share. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_linear_model_measure_share(const struct rbt_model *model,
                                                       const struct rbt_share *share,
                                                       struct rbt_metrics *metrics);

/* For the registry: one value per line (a probability, a margin, or a prediction); figures. */
rbt_status rbt_linear_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options);
rbt_status rbt_linear_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics);

#endif
