/* algo/linear/linear_model.c - what a linear model says about examples. */
#include "algo/linear/linear_model.h"

#include "algo/frame/lookup.h"
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
        rbt_model_array_rows(rbt_model_array_find(model, "weights"), share->keys, share->key_count,
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

/* What frame/scores.h has to know. */
static rbt_status open_scorer(const struct rbt_model *model, struct rbt_scorer *scorer)
{
    *scorer = (struct rbt_scorer){.loss = rbt_linear_model_loss(model),
                                  .width = rbt_linear_model_width(model),
                                  .margins = margins_of};
    return rbt_linear_model_check(model);
}

rbt_status rbt_linear_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options)
{
    struct rbt_scorer scorer;
    const rbt_status st = open_scorer(model, &scorer);
    return st != RBT_OK ? st : rbt_scores_predict(&scorer, model, options);
}

rbt_status rbt_linear_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics)
{
    struct rbt_scorer scorer;
    const rbt_status st = open_scorer(model, &scorer);
    return st != RBT_OK ? st : rbt_scores_evaluate(&scorer, model, options, metrics);
}

const char *rbt_linear_model_why_uncertain(const struct rbt_model *model)
{
    return rbt_scores_why_uncertain(rbt_linear_model_loss(model));
}
