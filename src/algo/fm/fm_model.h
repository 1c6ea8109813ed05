/* algo/fm/fm_model.h - what a factorisation machine says about examples, and its other formats.
 *
 * The model's arrays: "weights" (width 1) of features whose weight is not zero or that have an
 * embedding; "embeddings" (width `rank`) of some of these; "bias" (one row with key 0), if it has
 * one. Setting "loss" is an enum rbt_loss. Threads: none; models are not changed. */
#ifndef RUBATO_ALGO_FM_FM_MODEL_H
#define RUBATO_ALGO_FM_FM_MODEL_H

#include "algo/frame/algo.h"
#include "data/examples.h"
#include "math/loss.h"

enum rbt_loss rbt_fm_model_loss(const struct rbt_model *model);

/* Margins g(x) of all examples of a share. Fails with RBT_E_NOMEM, and RBT_E_DATA for a model whose
 * arrays do not fit each other. */
RBT_MUST_USE rbt_status rbt_fm_model_margins(const struct rbt_model *model,
                                             const struct rbt_share *share, float *margins);

/* Adds the figures that fit the loss: logloss, accuracy, auc; or rmse; and how many numbers of w
 * and V are not zero. Fails like rbt_fm_model_margins(). */
RBT_MUST_USE rbt_status rbt_fm_model_measure(const struct rbt_model *model,
                                             const struct rbt_share *share,
                                             struct rbt_metrics *metrics);

/* For the registry: one value per line (a probability or a prediction); figures; libFM's format. */
rbt_status rbt_fm_model_predict(const struct rbt_model *model,
                                const struct rbt_predict_options *options);
rbt_status rbt_fm_model_evaluate(const struct rbt_model *model,
                                 const struct rbt_predict_options *options,
                                 struct rbt_metrics *metrics);
const char *rbt_fm_model_why_uncertain(const struct rbt_model *model);
void rbt_fm_model_describe(const struct rbt_model *model, FILE *out);
rbt_status rbt_fm_model_write_libfm(const struct rbt_model *model, FILE *out);

#endif
