/* algo/frame/metrics.c - how good predictions are. */
#include "algo/frame/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "math/loss.h"

void rbt_metrics_add(struct rbt_metrics *metrics, const char *name, double value)
{
    RBT_ASSERT(metrics->count < RBT_METRICS_MAX);
    metrics->names[metrics->count] = name;
    metrics->values[metrics->count] = value;
    metrics->count++;
}

double rbt_metrics_logloss(const float *margins, const float *labels, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += rbt_loss_logistic((double)margins[i], (double)labels[i]).value;
    }
    return sum / (double)n;
}

double rbt_metrics_hinge(const float *margins, const float *labels, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += rbt_loss_hinge((double)margins[i], (double)labels[i]).value;
    }
    return sum / (double)n;
}

double rbt_metrics_accuracy(const float *margins, const float *labels, size_t n)
{
    size_t right = 0;
    for (size_t i = 0; i < n; i++) {
        right += (margins[i] >= 0.0F) == (labels[i] > 0.0F);
    }
    return (double)right / (double)n;
}

/* The first class with the largest margin. */
static size_t likeliest(const float *margins, size_t classes)
{
    size_t best = 0;
    for (size_t c = 1; c < classes; c++) {
        best = margins[c] > margins[best] ? c : best;
    }
    return best;
}

double rbt_metrics_class_logloss(const float *margins, const float *labels, size_t n,
                                 size_t classes)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const float *m = margins + i * classes;
        const double largest = (double)m[likeliest(m, classes)];
        double parts = 0.0;
        for (size_t c = 0; c < classes; c++) {
            parts += exp((double)m[c] - largest);
        }
        sum += log(parts) + largest - (double)m[(size_t)labels[i]];
    }
    return sum / (double)n;
}

double rbt_metrics_class_accuracy(const float *margins, const float *labels, size_t n,
                                  size_t classes)
{
    size_t right = 0;
    for (size_t i = 0; i < n; i++) {
        right += likeliest(margins + i * classes, classes) == (size_t)labels[i];
    }
    return (double)right / (double)n;
}

double rbt_metrics_rmse(const float *predictions, const float *labels, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double e = (double)predictions[i] - (double)labels[i];
        sum += e * e;
    }
    return sqrt(sum / (double)n);
}

struct scored {
    float margin;
    float label;
};

static int compare(const void *a, const void *b)
{
    const float x = ((const struct scored *)a)->margin;
    const float y = ((const struct scored *)b)->margin;
    return (x > y) - (x < y);
}

/* Walks the examples in order of margin, one group of equal margins at a time. Every positive in a
 * group beats all negatives below the group and half of those in it:
 *     auc = sum over groups of p (below + n / 2) / (positives * negatives) */
rbt_status rbt_metrics_auc(const float *margins, const float *labels, size_t n, double *auc)
{
    struct scored *sorted = rbt_calloc(n, sizeof *sorted);
    if (sorted == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to sort %zu predictions", n);
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = (struct scored){.margin = margins[i], .label = labels[i]};
    }
    qsort(sorted, n, sizeof *sorted, compare);
    double wins = 0.0;
    double positives = 0.0;
    double negatives = 0.0;
    for (size_t first = 0; first < n;) {
        double p = 0.0;
        size_t end = first;
        while (end < n && (end == first || sorted[end].margin == sorted[first].margin)) {
            p += sorted[end++].label > 0.0F ? 1.0 : 0.0;
        }
        const double in_group = (double)(end - first) - p;
        wins += p * (negatives + in_group / 2);
        positives += p;
        negatives += in_group;
        first = end;
    }
    rbt_free(sorted);
    *auc = positives > 0 && negatives > 0 ? wins / (positives * negatives) : 0.5;
    return RBT_OK;
}
