/* algo/frame/scores.c - margins of examples against their labels. */
#include "algo/frame/scores.h"

#include "algo/frame/metrics.h"

void rbt_scores_rows(const struct rbt_model_array *array, const uint64_t *keys, size_t count,
                     float *rows)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        while (at < array->count && array->keys[at] < keys[i]) {
            at++;
        }
        const bool is_there = at < array->count && array->keys[at] == keys[i];
        for (size_t c = 0; c < array->width; c++) {
            rows[i * array->width + c] = is_there ? array->values[at * array->width + c] : 0.0F;
        }
    }
}

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
