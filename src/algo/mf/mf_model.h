/* algo/mf/mf_model.h - what a factorisation says about ratings: mean + bu_u + bi_i + p_u'q_i.
 *
 * The model's arrays: "users" and "items" (width rank) and, if it has biases, "user_bias" and
 * "item_bias" (width 1) with the same keys; setting "mean". A user or item that it does not know
 * adds nothing. Threads: any number may use a scorer at once. */
#ifndef RUBATO_ALGO_MF_MF_MODEL_H
#define RUBATO_ALGO_MF_MF_MODEL_H

#include "algo/frame/algo.h"
#include "data/examples.h"

typedef struct rbt_mf_model rbt_mf_model; /* a model with its keys ready to be found */

/* The model is borrowed and must outlive the scorer. Fails with RBT_E_DATA (arrays that do not fit
 * together) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_mf_model_open(const struct rbt_model *model, rbt_mf_model **scorer);

/* Accepts NULL. */
void rbt_mf_model_close(rbt_mf_model *scorer);

/* What it predicts for this user and item. */
float rbt_mf_model_score(const rbt_mf_model *scorer, uint64_t user, uint64_t item);

/* Sums over ratings first .. end-1 of e^2 and of ||p_u||^2 + ||q_i||^2 + bu_u^2 + bi_i^2. */
struct rbt_mf_sums {
    double errors;
    double sizes;
};
struct rbt_mf_sums rbt_mf_model_sums(const rbt_mf_model *scorer, const struct rbt_ratings *ratings,
                                     size_t first, size_t end);

/* Adds "rmse" on these ratings. */
RBT_MUST_USE rbt_status rbt_mf_model_measure(const struct rbt_model *model,
                                             const struct rbt_ratings *ratings,
                                             struct rbt_metrics *metrics);

/* For the registry. */
rbt_status rbt_mf_model_predict(const struct rbt_model *model,
                                const struct rbt_predict_options *options);
rbt_status rbt_mf_model_evaluate(const struct rbt_model *model,
                                 const struct rbt_predict_options *options,
                                 struct rbt_metrics *metrics);

#endif
