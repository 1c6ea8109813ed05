/* algo/frame/scores.c - margins of examples: figures, predictions, evaluation. */
#include "algo/frame/scores.h"

#include <math.h>
#include <stdio.h>

#include "algo/frame/inputs.h"
#include "algo/frame/metrics.h"
#include "base/alloc.h"
#include "base/error.h"

double rbt_scores_losses(const struct rbt_scores *scores)
{
    double sum = 0.0;
    if (scores->loss == RBT_LOSS_SOFTMAX) {
        return scores->count == 0 ? 0.0
                                  : (double)scores->count *
                                        rbt_metrics_class_logloss(scores->margins, scores->labels,
                                                                  scores->count, scores->width);
    }
    for (size_t i = 0; i < scores->count; i++) {
        const double m = (double)scores->margins[i];
        sum += rbt_loss_at(scores->loss, m, (double)scores->labels[i]).value;
    }
    return sum;
}

rbt_status rbt_scores_measure(const struct rbt_scores *scores, struct rbt_metrics *metrics)
{
    const float *margins = scores->margins;
    const float *labels = scores->labels;
    const size_t count = scores->count;
    if (count == 0) {
        return RBT_OK;
    }
    if (scores->loss == RBT_LOSS_SQUARED) {
        rbt_metrics_add(metrics, "rmse", rbt_metrics_rmse(margins, labels, count));
        return RBT_OK;
    }
    if (scores->loss == RBT_LOSS_SOFTMAX) {
        rbt_metrics_add(metrics, "logloss",
                        rbt_metrics_class_logloss(margins, labels, count, scores->width));
        rbt_metrics_add(metrics, "accuracy",
                        rbt_metrics_class_accuracy(margins, labels, count, scores->width));
        return RBT_OK;
    }
    double auc = 0.0;
    const rbt_status st = rbt_metrics_auc(margins, labels, count, &auc);
    if (st != RBT_OK) {
        return st;
    }
    if (scores->loss == RBT_LOSS_LOGISTIC) {
        rbt_metrics_add(metrics, "logloss", rbt_metrics_logloss(margins, labels, count));
    } else {
        rbt_metrics_add(metrics, "hinge", rbt_metrics_hinge(margins, labels, count));
    }
    rbt_metrics_add(metrics, "accuracy", rbt_metrics_accuracy(margins, labels, count));
    rbt_metrics_add(metrics, "auc", auc);
    return RBT_OK;
}

rbt_status rbt_scores_place(const float *classes, size_t class_count, struct rbt_examples *examples)
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

/* Examples, and what a model says about them. */
struct scored {
    struct rbt_examples examples;
    float *margins;
    uint64_t unknown; /* values that the model's dictionary does not have */
};

static void free_scored(struct scored *scored)
{
    rbt_free(scored->margins);
    rbt_examples_free(&scored->examples);
}

/* Reads the data and computes margins. With `has_labels` these become what the loss asks for; else
 * nobody looks at them. The caller frees it. */
static rbt_status score(const struct rbt_scorer *scorer, const struct rbt_model *model,
                        const struct rbt_predict_options *options, bool has_labels,
                        struct scored *scored)
{
    const bool is_softmax = scorer->loss == RBT_LOSS_SOFTMAX;
    struct rbt_data_options data = rbt_inputs_prediction(options);
    *scored = (struct scored){0};
    data.ignores_label = !has_labels;
    data.has_binary_label = has_labels && !is_softmax && scorer->loss != RBT_LOSS_SQUARED;
    data.has_classes = has_labels && is_softmax;
    rbt_status st = rbt_inputs_read(model, &data, &scored->examples, &scored->unknown);
    if (st != RBT_OK) {
        return st;
    }
    if (data.has_classes) {
        const struct rbt_model_array *classes = rbt_model_array_find(model, "classes");
        st = rbt_scores_place(classes->values, classes->count, &scored->examples);
    }
    if (st == RBT_OK) {
        const size_t count = scored->examples.count;
        scored->margins = rbt_calloc(count * scorer->width, sizeof *scored->margins);
        st = scored->margins == NULL
                 ? rbt_fail(RBT_E_NOMEM, "no memory to score %zu examples", count)
                 : scorer->margins(model, &scored->examples, scored->margins);
    }
    if (st != RBT_OK) {
        free_scored(scored);
    }
    return st;
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

rbt_status rbt_scores_predict(const struct rbt_scorer *scorer, const struct rbt_model *model,
                              const struct rbt_predict_options *options)
{
    struct scored scored;
    const rbt_status st = score(scorer, model, options, false, &scored);
    if (st != RBT_OK) {
        return st;
    }
    for (size_t i = 0; i < scored.examples.count; i++) {
        const float *margins = scored.margins + i * scorer->width;
        const double m = (double)margins[0];
        if (scorer->loss == RBT_LOSS_SOFTMAX) {
            print_classes(options->out, model, margins, options->has_probabilities);
        } else {
            fprintf(options->out, "%.9g\n",
                    scorer->loss == RBT_LOSS_LOGISTIC ? 1.0 / (1.0 + exp(-m)) : m);
        }
    }
    free_scored(&scored);
    return RBT_OK;
}

rbt_status rbt_scores_evaluate(const struct rbt_scorer *scorer, const struct rbt_model *model,
                               const struct rbt_predict_options *options,
                               struct rbt_metrics *metrics)
{
    struct scored scored;
    rbt_status st = score(scorer, model, options, true, &scored);
    if (st != RBT_OK) {
        return st;
    }
    *metrics = (struct rbt_metrics){0};
    const struct rbt_scores scores = {.loss = scorer->loss,
                                      .width = scorer->width,
                                      .margins = scored.margins,
                                      .labels = scored.examples.labels,
                                      .count = scored.examples.count};
    st = rbt_scores_measure(&scores, metrics);
    if (st == RBT_OK && rbt_model_texts_find(model, "dictionary") != NULL) {
        rbt_metrics_add(metrics, "unknown_values", (double)scored.unknown);
    }
    free_scored(&scored);
    return st;
}

const char *rbt_scores_why_uncertain(enum rbt_loss loss)
{
    return loss == RBT_LOSS_HINGE     ? "a model with the hinge loss"
           : loss == RBT_LOSS_SQUARED ? "a model with the squared loss"
                                      : NULL;
}
