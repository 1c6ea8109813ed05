/* algo/frame/scores.h - margins of examples, as linear models and factorisation machines have them,
 * against their labels.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_FRAME_SCORES_H
#define RUBATO_ALGO_FRAME_SCORES_H

#include "algo/frame/algo.h"
#include "data/examples.h"
#include "math/loss.h"

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

/* Replaces labels by their places in the list of `class_count` that increase. Fails with RBT_E_DATA
 * if it does not have one. */
RBT_MUST_USE rbt_status rbt_scores_place(const float *classes, size_t class_count,
                                         struct rbt_examples *examples);

/* How a model makes margins of examples in their own order, (count, width); those of softmax have
 * an array "classes" with the labels. Features that the model does not know count nothing. */
struct rbt_scorer {
    enum rbt_loss loss;
    size_t width;
    rbt_status (*margins)(const struct rbt_model *model, const struct rbt_examples *examples,
                          float *margins);
};

/* What algorithms have as `predict` and `evaluate` (algo.h): one value per line, which is a
 * probability, a class, a margin or a number; figures. */
RBT_MUST_USE rbt_status rbt_scores_predict(const struct rbt_scorer *scorer,
                                           const struct rbt_model *model,
                                           const struct rbt_predict_options *options);
RBT_MUST_USE rbt_status rbt_scores_evaluate(const struct rbt_scorer *scorer,
                                            const struct rbt_model *model,
                                            const struct rbt_predict_options *options,
                                            struct rbt_metrics *metrics);

/* Why models with this loss have no probabilities: what they are; NULL: they have some. */
const char *rbt_scores_why_uncertain(enum rbt_loss loss);

#endif
