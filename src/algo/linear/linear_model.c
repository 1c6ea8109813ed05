/* algo/linear/linear_model.c - what a linear model says about examples. */
#include "algo/linear/linear_model.h"

#include <math.h>
#include <stdio.h>

#include "algo/frame/column_options.h"
#include "algo/frame/column_words.h"
#include "algo/frame/lookup.h"
#include "algo/frame/metrics.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/choose.h"

enum rbt_loss rbt_linear_model_loss(const struct rbt_model *model)
{
    const double loss = rbt_model_setting(model, "loss", RBT_LOSS_LOGISTIC);
    for (enum rbt_loss known = RBT_LOSS_LOGISTIC; known <= RBT_LOSS_SOFTMAX; known++) {
        if (loss == (double)known) {
            return known;
        }
    }
    return RBT_LOSS_LOGISTIC;
}

size_t rbt_linear_model_width(const struct rbt_model *model)
{
    const struct rbt_model_array *classes = rbt_model_array_find(model, "classes");
    const bool is_softmax = rbt_linear_model_loss(model) == RBT_LOSS_SOFTMAX;
    return is_softmax && classes != NULL ? classes->count : 1;
}

rbt_status rbt_linear_model_check(const struct rbt_model *model)
{
    const struct rbt_model_array *weights = rbt_model_array_find(model, "weights");
    const struct rbt_model_array *bias = rbt_model_array_find(model, "bias");
    const struct rbt_model_array *classes = rbt_model_array_find(model, "classes");
    const size_t width = rbt_linear_model_width(model);
    const bool is_softmax = rbt_linear_model_loss(model) == RBT_LOSS_SOFTMAX;
    if (weights == NULL || weights->width != width) {
        return rbt_fail(RBT_E_DATA, "the model has no weights");
    }
    if (bias != NULL && bias->count > 0 && bias->width != width) {
        return rbt_fail(RBT_E_DATA, "the model's bias does not fit its weights");
    }
    if (is_softmax && (classes == NULL || classes->count == 0 || classes->width != 1)) {
        return rbt_fail(RBT_E_DATA, "the model has no classes");
    }
    return RBT_OK;
}

/* Of margin c. */
static float bias_of(const struct rbt_model *model, size_t c)
{
    const struct rbt_model_array *bias = rbt_model_array_find(model, "bias");
    return bias != NULL && bias->count > 0 && c < bias->width ? bias->values[c] : 0.0F;
}

/* Adds x times a row of weights to the margins of an example. */
static void add_row(float x, const float *row, size_t width, double *m)
{
    for (size_t c = 0; c < width; c++) {
        m[c] += (double)x * (double)row[c];
    }
}

void rbt_linear_model_margins(const struct rbt_model *model, const struct rbt_share *share,
                              const float *weights, float *margins)
{
    const struct rbt_kernels *kernels = rbt_choose_kernels();
    const size_t width = rbt_linear_model_width(model);
    const float bias = bias_of(model, 0);
    for (size_t i = 0; i < share->count; i++) {
        const struct rbt_sparse x = {.indices = share->indices + share->offsets[i],
                                     .values = share->values + share->offsets[i],
                                     .count = (size_t)(share->offsets[i + 1] - share->offsets[i])};
        if (width == 1) {
            margins[i] = (float)((double)bias + kernels->sparse_dot(&x, weights));
            continue;
        }
        float *m = margins + i * width;
        for (size_t c = 0; c < width; c++) {
            m[c] = bias_of(model, c);
        }
        for (size_t k = 0; k < x.count; k++) {
            const float *row = weights + (size_t)x.indices[k] * width;
            for (size_t c = 0; c < width; c++) {
                m[c] += x.values[k] * row[c];
            }
        }
    }
}

rbt_status rbt_linear_model_measure_share(const struct rbt_model *model,
                                          const struct rbt_share *share,
                                          struct rbt_metrics *metrics)
{
    const size_t width = rbt_linear_model_width(model);
    float *weights = rbt_calloc(share->key_count * width, sizeof *weights);
    float *margins = rbt_calloc(share->count * width, sizeof *margins);
    rbt_status st = RBT_OK;
    if (weights == NULL || margins == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory to evaluate %zu examples", share->count);
    } else {
        rbt_scores_rows(rbt_model_array_find(model, "weights"), share->keys, share->key_count,
                        weights);
        rbt_linear_model_margins(model, share, weights, margins);
        const struct rbt_scores scores = {.loss = rbt_linear_model_loss(model),
                                          .width = width,
                                          .margins = margins,
                                          .labels = share->labels,
                                          .count = share->count};
        st = rbt_scores_measure(&scores, metrics);
    }
    rbt_free(margins);
    rbt_free(weights);
    return st;
}

rbt_status rbt_linear_model_place(const float *classes, size_t class_count,
                                  struct rbt_examples *examples)
{
    for (size_t i = 0; i < examples->count; i++) {
        size_t first = 0;
        size_t end = class_count;
        while (end - first > 1) {
            const size_t middle = first + (end - first) / 2;
            if (classes[middle] <= examples->labels[i]) {
                first = middle;
            } else {
                end = middle;
            }
        }
        if (class_count == 0 || classes[first] != examples->labels[i]) {
            return rbt_fail(RBT_E_DATA,
                            "label %.9g of example %zu does not occur in the training data",
                            (double)examples->labels[i], i + 1);
        }
        examples->labels[i] = (float)first;
    }
    return RBT_OK;
}

/* Margins of examples in their own order; features that the model does not know count nothing. */
static rbt_status margins_of(const struct rbt_model *model, const struct rbt_examples *examples,
                             float *margins)
{
    const struct rbt_model_array *array = rbt_model_array_find(model, "weights");
    const size_t width = rbt_linear_model_width(model);
    rbt_lookup *lookup = NULL;
    double *m = rbt_calloc(width, sizeof *m);
    rbt_status st = m == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for %zu margins", width)
                              : rbt_lookup_create(array->keys, array->count, &lookup);
    for (size_t i = 0; st == RBT_OK && i < examples->count; i++) {
        for (size_t c = 0; c < width; c++) {
            m[c] = (double)bias_of(model, c);
        }
        for (uint64_t k = examples->offsets[i]; k < examples->offsets[i + 1]; k++) {
            const uint32_t row = rbt_lookup_find(lookup, examples->keys[k]);
            if (row != RBT_LOOKUP_MISSING) {
                add_row(examples->values[k], array->values + (size_t)row * width, width, m);
            }
        }
        for (size_t c = 0; c < width; c++) {
            margins[i * width + c] = (float)m[c];
        }
    }
    rbt_lookup_destroy(lookup);
    rbt_free(m);
    return st;
}

/* Reads the data and computes margins; the caller frees both. With `unknown`, which counts values
 * that the model's dictionary does not have, labels are made what the loss asks for; NULL: nobody
 * looks at them. */
static rbt_status score(const struct rbt_model *model, const struct rbt_predict_options *options,
                        uint64_t *unknown, struct rbt_examples *examples, float **margins)
{
    uint64_t none = 0;
    const bool has_labels = unknown != NULL;
    unknown = has_labels ? unknown : &none;
    const enum rbt_loss loss = rbt_linear_model_loss(model);
    const bool is_binary = loss == RBT_LOSS_LOGISTIC || loss == RBT_LOSS_HINGE;
    struct rbt_column_plan plan;
    struct rbt_data_options data = {.paths = options->data.values,
                                    .path_count = options->data.count,
                                    .format = (enum rbt_format)options->format,
                                    .is_zero_based = options->is_zero_based,
                                    .label_column = options->label_column,
                                    .label_name = options->label_name,
                                    .note = options->note,
                                    .ignores_label = !has_labels,
                                    .has_binary_label = has_labels && is_binary,
                                    .has_classes = has_labels && loss == RBT_LOSS_SOFTMAX,
                                    .label_positive =
                                        (float)rbt_model_setting(model, "label_positive", 0.0)};
    struct rbt_dictionary dictionary = {0};
    rbt_status st = rbt_linear_model_check(model);
    st = st != RBT_OK ? st : rbt_column_options_load(model, &plan, &data);
    st = st != RBT_OK ? st : rbt_column_words_load(model, &dictionary, &plan);
    st = st != RBT_OK ? st : rbt_examples_read(&data, examples);
    *unknown = dictionary.unknown;
    rbt_dictionary_free(&dictionary);
    if (st != RBT_OK) {
        return st;
    }
    if (has_labels && loss == RBT_LOSS_SOFTMAX) {
        const struct rbt_model_array *classes = rbt_model_array_find(model, "classes");
        st = rbt_linear_model_place(classes->values, classes->count, examples);
    }
    float *scores = NULL;
    if (st == RBT_OK) {
        scores = rbt_calloc(examples->count * rbt_linear_model_width(model), sizeof *scores);
        st = scores == NULL
                 ? rbt_fail(RBT_E_NOMEM, "no memory to score %zu examples", examples->count)
                 : margins_of(model, examples, scores);
    }
    if (st != RBT_OK) {
        rbt_free(scores);
        rbt_examples_free(examples);
        return st;
    }
    *margins = scores;
    return RBT_OK;
}

/* One line for an example with margins of several classes: the likeliest, or all probabilities. */
static void print_classes(FILE *out, const struct rbt_model *model, const float *margins,
                          bool has_probabilities)
{
    const struct rbt_model_array *classes = rbt_model_array_find(model, "classes");
    const struct rbt_model_texts *names = rbt_model_texts_find(model, "classes");
    size_t best = 0;
    double sum = 0.0;
    for (size_t c = 1; c < classes->count; c++) {
        best = margins[c] > margins[best] ? c : best;
    }
    if (!has_probabilities && names != NULL && names->count == classes->count) {
        const struct rbt_titles titles = {
            .count = names->count, .size = names->size, .bytes = names->bytes};
        fprintf(out, "%s\n", rbt_titles_at(&titles, best));
        return;
    }
    if (!has_probabilities) {
        fprintf(out, "%.9g\n", (double)classes->values[best]);
        return;
    }
    for (size_t c = 0; c < classes->count; c++) {
        sum += exp((double)margins[c] - (double)margins[best]);
    }
    for (size_t c = 0; c < classes->count; c++) {
        const double p = exp((double)margins[c] - (double)margins[best]) / sum;
        fprintf(out, "%.9g%c", p, c + 1 < classes->count ? ' ' : '\n');
    }
}

rbt_status rbt_linear_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options)
{
    struct rbt_examples examples;
    float *margins = NULL;
    const rbt_status st = score(model, options, NULL, &examples, &margins);
    if (st != RBT_OK) {
        return st;
    }
    const enum rbt_loss loss = rbt_linear_model_loss(model);
    const size_t width = rbt_linear_model_width(model);
    for (size_t i = 0; i < examples.count; i++) {
        const double m = (double)margins[i * width];
        if (loss == RBT_LOSS_SOFTMAX) {
            print_classes(options->out, model, margins + i * width, options->has_probabilities);
        } else {
            fprintf(options->out, "%.9g\n", loss == RBT_LOSS_LOGISTIC ? 1.0 / (1.0 + exp(-m)) : m);
        }
    }
    rbt_free(margins);
    rbt_examples_free(&examples);
    return RBT_OK;
}

rbt_status rbt_linear_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics)
{
    struct rbt_examples examples;
    float *margins = NULL;
    uint64_t unknown = 0;
    rbt_status st = score(model, options, &unknown, &examples, &margins);
    if (st != RBT_OK) {
        return st;
    }
    *metrics = (struct rbt_metrics){0};
    const struct rbt_scores scores = {.loss = rbt_linear_model_loss(model),
                                      .width = rbt_linear_model_width(model),
                                      .margins = margins,
                                      .labels = examples.labels,
                                      .count = examples.count};
    st = rbt_scores_measure(&scores, metrics);
    if (st == RBT_OK && rbt_model_texts_find(model, "dictionary") != NULL) {
        rbt_metrics_add(metrics, "unknown_values", (double)unknown);
    }
    rbt_free(margins);
    rbt_examples_free(&examples);
    return st;
}
