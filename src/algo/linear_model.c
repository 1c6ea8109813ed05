/* algo/linear_model.c - what a linear model says about examples. */
#include "algo/linear_model.h"

#include <math.h>
#include <stdio.h>

#include "algo/column_options.h"
#include "algo/lookup.h"
#include "algo/metrics.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/choose.h"

enum rbt_loss rbt_linear_model_loss(const struct rbt_model *model)
{
    const double loss = rbt_model_setting(model, "loss", RBT_LOSS_LOGISTIC);
    return loss == RBT_LOSS_HINGE     ? RBT_LOSS_HINGE
           : loss == RBT_LOSS_SQUARED ? RBT_LOSS_SQUARED
                                      : RBT_LOSS_LOGISTIC;
}

float rbt_linear_model_bias(const struct rbt_model *model)
{
    const struct rbt_model_array *bias = rbt_model_array_find(model, "bias");
    return bias != NULL && bias->count > 0 ? bias->values[0] : 0.0F;
}

void rbt_linear_model_weights(const struct rbt_model *model, const uint64_t *keys, size_t count,
                              float *weights)
{
    const struct rbt_model_array *array = rbt_model_array_find(model, "weights");
    const size_t row_count = array == NULL || array->width != 1 ? 0 : array->count;
    size_t row = 0;
    for (size_t i = 0; i < count; i++) {
        while (row < row_count && array->keys[row] < keys[i]) {
            row++;
        }
        const bool is_there = row < row_count && array->keys[row] == keys[i];
        weights[i] = is_there ? array->values[row] : 0.0F;
    }
}

void rbt_linear_model_margins(const struct rbt_share *share, const float *weights, float bias,
                              float *margins)
{
    const struct rbt_kernels *kernels = rbt_choose_kernels();
    for (size_t i = 0; i < share->count; i++) {
        const struct rbt_sparse x = {.indices = share->indices + share->offsets[i],
                                     .values = share->values + share->offsets[i],
                                     .count = (size_t)(share->offsets[i + 1] - share->offsets[i])};
        margins[i] = (float)((double)bias + kernels->sparse_dot(&x, weights));
    }
}

rbt_status rbt_linear_model_measure(enum rbt_loss loss, const float *margins, const float *labels,
                                    size_t count, struct rbt_metrics *metrics)
{
    if (count == 0) {
        return RBT_OK;
    }
    if (loss == RBT_LOSS_SQUARED) {
        rbt_metrics_add(metrics, "rmse", rbt_metrics_rmse(margins, labels, count));
        return RBT_OK;
    }
    double auc = 0.0;
    const rbt_status st = rbt_metrics_auc(margins, labels, count, &auc);
    if (st != RBT_OK) {
        return st;
    }
    if (loss == RBT_LOSS_LOGISTIC) {
        rbt_metrics_add(metrics, "logloss", rbt_metrics_logloss(margins, labels, count));
    } else {
        rbt_metrics_add(metrics, "hinge", rbt_metrics_hinge(margins, labels, count));
    }
    rbt_metrics_add(metrics, "accuracy", rbt_metrics_accuracy(margins, labels, count));
    rbt_metrics_add(metrics, "auc", auc);
    return RBT_OK;
}

rbt_status rbt_linear_model_measure_share(const struct rbt_model *model,
                                          const struct rbt_share *share,
                                          struct rbt_metrics *metrics)
{
    float *weights = rbt_calloc(share->key_count, sizeof *weights);
    float *margins = rbt_calloc(share->count, sizeof *margins);
    rbt_status st = RBT_OK;
    if (weights == NULL || margins == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory to evaluate %zu examples", share->count);
    } else {
        rbt_linear_model_weights(model, share->keys, share->key_count, weights);
        rbt_linear_model_margins(share, weights, rbt_linear_model_bias(model), margins);
        st = rbt_linear_model_measure(rbt_linear_model_loss(model), margins, share->labels,
                                      share->count, metrics);
    }
    rbt_free(margins);
    rbt_free(weights);
    return st;
}

/* Margins of examples in their own order; features that the model does not know count nothing. */
static rbt_status margins_of(const struct rbt_model *model, const struct rbt_examples *examples,
                             float *margins)
{
    const struct rbt_model_array *array = rbt_model_array_find(model, "weights");
    if (array == NULL || array->width != 1) {
        return rbt_fail(RBT_E_DATA, "the model has no weights");
    }
    rbt_lookup *lookup = NULL;
    const rbt_status st = rbt_lookup_create(array->keys, array->count, &lookup);
    if (st != RBT_OK) {
        return st;
    }
    const double bias = (double)rbt_linear_model_bias(model);
    for (size_t i = 0; i < examples->count; i++) {
        double m = bias;
        for (uint64_t k = examples->offsets[i]; k < examples->offsets[i + 1]; k++) {
            const uint32_t row = rbt_lookup_find(lookup, examples->keys[k]);
            if (row != RBT_LOOKUP_MISSING) {
                m += (double)array->values[row] * (double)examples->values[k];
            }
        }
        margins[i] = (float)m;
    }
    rbt_lookup_destroy(lookup);
    return RBT_OK;
}

/* Reads the data and computes margins; the caller frees both. */
static rbt_status score(const struct rbt_model *model, const struct rbt_predict_options *options,
                        bool has_binary_label, struct rbt_examples *examples, float **margins)
{
    struct rbt_column_plan plan;
    struct rbt_data_options data = {.paths = options->data.values,
                                    .path_count = options->data.count,
                                    .format = (enum rbt_format)options->format,
                                    .is_zero_based = options->is_zero_based,
                                    .label_column = options->label_column,
                                    .has_binary_label = has_binary_label,
                                    .label_positive =
                                        (float)rbt_model_setting(model, "label_positive", 0.0)};
    rbt_status st = rbt_column_options_load(model, &plan, &data);
    st = st != RBT_OK ? st : rbt_examples_read(&data, examples);
    if (st != RBT_OK) {
        return st;
    }
    float *scores = rbt_calloc(examples->count, sizeof *scores);
    st = scores == NULL ? rbt_fail(RBT_E_NOMEM, "no memory to score %zu examples", examples->count)
                        : margins_of(model, examples, scores);
    if (st != RBT_OK) {
        rbt_free(scores);
        rbt_examples_free(examples);
        return st;
    }
    *margins = scores;
    return RBT_OK;
}

rbt_status rbt_linear_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options)
{
    struct rbt_examples examples;
    float *margins = NULL;
    rbt_status st = score(model, options, false, &examples, &margins);
    if (st != RBT_OK) {
        return st;
    }
    const bool is_logistic = rbt_linear_model_loss(model) == RBT_LOSS_LOGISTIC;
    for (size_t i = 0; i < examples.count; i++) {
        const double m = (double)margins[i];
        fprintf(options->out, "%.9g\n", is_logistic ? 1.0 / (1.0 + exp(-m)) : m);
    }
    if (fflush(options->out) != 0 || ferror(options->out)) {
        st = rbt_fail(RBT_E_IO, "could not write predictions");
    }
    rbt_free(margins);
    rbt_examples_free(&examples);
    return st;
}

rbt_status rbt_linear_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics)
{
    struct rbt_examples examples;
    float *margins = NULL;
    const enum rbt_loss loss = rbt_linear_model_loss(model);
    rbt_status st = score(model, options, loss != RBT_LOSS_SQUARED, &examples, &margins);
    if (st != RBT_OK) {
        return st;
    }
    *metrics = (struct rbt_metrics){0};
    st = rbt_linear_model_measure(loss, margins, examples.labels, examples.count, metrics);
    rbt_free(margins);
    rbt_examples_free(&examples);
    return st;
}
