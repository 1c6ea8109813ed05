/* math/reference.c - the obvious versions of all kernels: one line per line of the formula in
 * kernels.h, sums in double and in order. Never used outside tests. */
#include "math/reference.h"

#include <math.h>

#include "math/prox.h"

static double sparse_dot(const struct rbt_sparse *x, const float *restrict w)
{
    double sum = 0.0;
    for (size_t k = 0; k < x->count; k++) {
        sum += (double)x->values[k] * (double)w[x->indices[k]];
    }
    return sum;
}

static void sparse_axpy(float a, const struct rbt_sparse *x, float *restrict w)
{
    for (size_t k = 0; k < x->count; k++) {
        w[x->indices[k]] += a * x->values[k];
    }
}

static struct rbt_sparse row_at(const struct rbt_sgd_run *run, size_t i)
{
    return (struct rbt_sparse){.indices = run->indices + run->offsets[i],
                               .values = run->values + run->offsets[i],
                               .count = (size_t)(run->offsets[i + 1] - run->offsets[i])};
}

static double sgd(struct rbt_sgd_run *run)
{
    double sum = 0.0;
    for (size_t first = run->begin; first < run->end; first += run->batch) {
        const size_t last = first + run->batch < run->end ? first + run->batch : run->end;
        const float n = (float)(last - first);
        float coefficients[64];
        for (size_t i = first; i < last; i++) {
            const struct rbt_sparse x = row_at(run, i);
            const double m = (double)run->bias + sparse_dot(&x, run->weights);
            const struct rbt_loss_point at = rbt_loss_at(run->loss, m, (double)run->labels[i]);
            const float eta = run->step_max == NULL ? run->eta : fminf(run->eta, run->step_max[i]);
            coefficients[(i - first) % 64] = -eta * (float)at.slope / n; /* tests use batch < 64 */
            sum += at.value;
        }
        for (size_t i = first; i < last; i++) {
            const struct rbt_sparse x = row_at(run, i);
            sparse_axpy(coefficients[(i - first) % 64], &x, run->weights);
            run->bias += run->bias_rate * coefficients[(i - first) % 64];
        }
    }
    return sum;
}

static double gradient(struct rbt_gradient_run *run)
{
    double sum = 0.0;
    for (size_t i = run->begin; i < run->end; i++) {
        const struct rbt_sparse x = {.indices = run->indices + run->offsets[i],
                                     .values = run->values + run->offsets[i],
                                     .count = (size_t)(run->offsets[i + 1] - run->offsets[i])};
        const double m = (double)run->bias + sparse_dot(&x, run->weights);
        const struct rbt_loss_point at = rbt_loss_at(run->loss, m, (double)run->labels[i]);
        sum += at.value;
        sparse_axpy(run->factor * (float)at.slope, &x, run->gradient);
        run->bias_gradient += run->factor * (float)at.slope;
    }
    return sum;
}

static double softmax(const struct rbt_softmax_run *run)
{
    const size_t classes = run->classes;
    double sum = 0.0;
    for (size_t first = run->begin; first < run->end; first += run->batch) {
        const size_t last = first + run->batch < run->end ? first + run->batch : run->end;
        for (size_t i = first; i < last; i++) {
            double m[64]; /* tests use fewer classes */
            for (size_t c = 0; c < classes; c++) {
                m[c] = (double)run->bias[c];
                for (uint64_t k = run->offsets[i]; k < run->offsets[i + 1]; k++) {
                    m[c] += (double)run->values[k] *
                            (double)run->weights[run->indices[k] * classes + c];
                }
            }
            const float limit = run->step_max == NULL ? INFINITY : run->step_max[i];
            const float size = fminf(fabsf(run->rate), limit) / (float)(last - first);
            sum += rbt_loss_softmax(m, classes, (size_t)run->labels[i], m);
            for (size_t c = 0; c < classes; c++) {
                run->coefficients[(i - first) * classes + c] =
                    copysignf(size, run->rate) * (float)m[c];
            }
        }
        for (size_t i = first; i < last; i++) {
            for (size_t c = 0; c < classes; c++) {
                const float g = run->coefficients[(i - first) * classes + c];
                for (uint64_t k = run->offsets[i]; k < run->offsets[i + 1]; k++) {
                    run->target[run->indices[k] * classes + c] += run->values[k] * g;
                }
                if (run->bias_target != NULL) {
                    run->bias_target[c] += g;
                }
            }
        }
    }
    return sum;
}

static double mf(const struct rbt_mf_run *run)
{
    double sum = 0.0;
    for (size_t k = run->begin; k < run->end; k++) {
        float *p = run->user_factors + run->users[k] * run->rank;
        float *q = run->item_factors + run->items[k] * run->rank;
        float *bu = run->user_biases != NULL ? &run->user_biases[run->users[k]] : NULL;
        float *bi = run->item_biases != NULL ? &run->item_biases[run->items[k]] : NULL;
        double predicted = (double)run->mean;
        for (size_t j = 0; j < run->rank; j++) {
            predicted += (double)p[j] * (double)q[j];
        }
        if (bu != NULL && bi != NULL) {
            predicted += (double)*bu + (double)*bi;
        }
        const double e = (double)run->values[k] - predicted;
        const bool has_steps = run->user_steps != NULL;
        const struct rbt_mf_steps all = {run->eta, run->eta};
        const struct rbt_mf_steps u = has_steps ? run->user_steps[run->users[k]] : all;
        const struct rbt_mf_steps i = has_steps ? run->item_steps[run->items[k]] : all;
        sum += e * e;
        for (size_t j = 0; j < run->rank; j++) {
            const float p_old = p[j];
            p[j] += u.factors * ((float)e * q[j] - run->l2 * p_old);
            q[j] += i.factors * ((float)e * p_old - run->l2 * q[j]);
            p[j] = run->is_nonnegative && p[j] < 0 ? 0 : p[j];
            q[j] = run->is_nonnegative && q[j] < 0 ? 0 : q[j];
        }
        if (bu != NULL && bi != NULL) {
            *bu += u.bias * ((float)e - run->l2 * *bu);
            *bi += i.bias * ((float)e - run->l2 * *bi);
        }
    }
    return sum;
}

static double dot(const float *restrict x, const float *restrict y, size_t n)
{
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) {
        sum += (double)x[k] * (double)y[k];
    }
    return sum;
}

static double mf_gradient(const struct rbt_mf_gradient_run *run)
{
    const struct rbt_mf_run *at = run->at;
    double sum = 0.0;
    for (size_t k = at->begin; k < at->end; k++) {
        const size_t u = at->users[k];
        const size_t i = at->items[k];
        const float *p = at->user_factors + u * at->rank;
        const float *q = at->item_factors + i * at->rank;
        double predicted = (double)at->mean + dot(p, q, at->rank);
        if (at->user_biases != NULL) {
            predicted += (double)at->user_biases[u] + (double)at->item_biases[i];
        }
        const double e = (double)at->values[k] - predicted;
        sum += e * e;
        for (size_t j = 0; j < at->rank; j++) {
            run->user_factors[u * at->rank + j] -= (float)e * q[j] - at->l2 * p[j];
            run->item_factors[i * at->rank + j] -= (float)e * p[j] - at->l2 * q[j];
        }
        if (at->user_biases != NULL) {
            run->user_biases[u] -= (float)e - at->l2 * at->user_biases[u];
            run->item_biases[i] -= (float)e - at->l2 * at->item_biases[i];
        }
    }
    return sum;
}

static double norm1(const float *x, size_t n)
{
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) {
        sum += fabs((double)x[k]);
    }
    return sum;
}

static double norm2_squared(const float *x, size_t n)
{
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) {
        sum += (double)x[k] * (double)x[k];
    }
    return sum;
}

static void shrink(const struct rbt_shrink *shrink, float *restrict u, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const float d = shrink->decays[k];
        u[k] = rbt_prox_truncate(u[k], shrink->l1 * shrink->pulls[k],
                                 shrink->theta / shrink->scales[k]);
        u[k] = rbt_prox_shrink(u[k], shrink->l2 * d * d);
    }
}

static void difference(const struct rbt_difference *d, float *restrict deltas)
{
    for (size_t i = 0; i < d->count; i++) {
        for (size_t j = 0; j < d->width; j++) {
            const size_t at = i * d->width + j;
            deltas[at] = (d->now[at] - d->before[at]) * d->rates[i];
        }
    }
}

static void take_score(const struct rbt_nearest_found *found, size_t at, uint32_t centre,
                       double score)
{
    if (score < (double)found->first[at]) {
        found->second[at] = found->first[at];
        found->first[at] = (float)score;
        found->nearest[at] = centre;
    } else if (score < (double)found->second[at]) {
        found->second[at] = (float)score;
    }
}

static void nearest(const struct rbt_nearest_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        const float *x = run->points + run->rows[i] * run->dims;
        run->found.nearest[i] = 0;
        run->found.first[i] = INFINITY;
        run->found.second[i] = INFINITY;
        for (size_t c = 0; c < run->panel_count * RBT_NEAREST_PANEL; c++) {
            const float *panel = run->panels +
                                 c / RBT_NEAREST_PANEL * run->dims * RBT_NEAREST_PANEL +
                                 c % RBT_NEAREST_PANEL;
            double score = (double)run->halves[c];
            for (size_t j = 0; j < run->dims; j++) {
                score -= (double)x[j] * (double)panel[j * RBT_NEAREST_PANEL];
            }
            take_score(&run->found, i, (uint32_t)c, score);
        }
    }
}

static void nearest_sparse(const struct rbt_nearest_sparse_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        run->found.nearest[i] = 0;
        run->found.first[i] = INFINITY;
        run->found.second[i] = INFINITY;
        for (size_t c = 0; c < run->stride; c++) {
            double score = (double)run->halves[c];
            for (uint64_t k = run->offsets[run->rows[i]]; k < run->offsets[run->rows[i] + 1]; k++) {
                score -= (double)run->values[k] *
                         (double)run->columns[run->indices[k] * run->stride + c];
            }
            take_score(&run->found, i, (uint32_t)c, score);
        }
    }
}

static void distance(const struct rbt_distance_run *run)
{
    for (size_t i = run->begin; i < run->end; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < run->dims; j++) {
            const double d = (double)run->points[i * run->dims + j] -
                             (double)run->centres[run->nearest[i] * run->dims + j];
            sum += d * d;
        }
        run->out[i - run->begin] = (float)sum;
    }
}

const struct rbt_kernels rbt_reference = {
    .name = "reference",
    .sparse_dot = sparse_dot,
    .sparse_axpy = sparse_axpy,
    .sgd = sgd,
    .gradient = gradient,
    .softmax = softmax,
    .mf = mf,
    .mf_gradient = mf_gradient,
    .dot = dot,
    .norm1 = norm1,
    .norm2_squared = norm2_squared,
    .shrink = shrink,
    .difference = difference,
    .nearest = nearest,
    .nearest_sparse = nearest_sparse,
    .distance = distance,
};
