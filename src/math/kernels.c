/* math/kernels.c - the loops that take the time. Compiled once per kind of processor with
 * RBT_KERNELS set to its name; formulas are in kernels.h.
 *
 * The flags allow sums to be reordered (and nothing else that would hide a NaN), so that plain
 * loops become vector code. Sums of single products are float inside a row, which is short, and
 * double across rows. */
#include "math/kernels.h"

#include <math.h>

#include "base/assert.h"
#include "math/nearest_set.h"

#define PASTE(a, b)       a##b
#define EXPAND(a, b)      PASTE(a, b)
#define QUOTE(a)          #a
#define TEXT(a)           QUOTE(a)
#define ALWAYS_INLINE     static inline __attribute__((always_inline))
#define KERNELS_OF_SUFFIX EXPAND(rbt_kernels_, RBT_KERNELS)

enum { PREFETCH_AHEAD = 6 }; /* ratings; a guess, not yet tuned on an idle machine */

enum { SOFTMAX_FEW = 16 }; /* classes whose sums fit into registers */

/* Says that the turns of the loop that follows do not depend on each other. clang, which builds the
 * sanitizer variants, has no such hint that is only a hint. */
#if defined(__clang__)
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

ALWAYS_INLINE float row_dot(const uint32_t *restrict indices, const float *restrict values,
                            size_t n, const float *restrict w)
{
    float sum = 0.0F;
    for (size_t k = 0; k < n; k++) {
        sum += values[k] * w[indices[k]];
    }
    return sum;
}

/* The indices of one row are all different, so no entry depends on the one before. */
ALWAYS_INLINE void row_axpy(float a, const struct rbt_sparse *x, float *restrict w)
{
    const uint32_t *restrict indices = x->indices;
    const float *restrict values = x->values;
    INDEPENDENT
    for (size_t k = 0; k < x->count; k++) {
        w[indices[k]] += a * values[k];
    }
}

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
    row_axpy(a, x, w);
}

ALWAYS_INLINE struct rbt_sparse row_at(const struct rbt_sgd_run *run, size_t i)
{
    const uint64_t first = run->offsets[i];
    return (struct rbt_sparse){.indices = run->indices + first,
                               .values = run->values + first,
                               .count = (size_t)(run->offsets[i + 1] - first)};
}

/* `loss` is a constant where this is called, so that the choice is made by the compiler. */
ALWAYS_INLINE struct rbt_loss_point loss_at(enum rbt_loss loss, double m, double y)
{
    switch (loss) {
    case RBT_LOSS_LOGISTIC:
        return rbt_loss_logistic(m, y);
    case RBT_LOSS_HINGE:
        return rbt_loss_hinge(m, y);
    case RBT_LOSS_SQUARED:
        return rbt_loss_squared(m, y);
    case RBT_LOSS_SOFTMAX:
        break;
    }
    RBT_UNREACHABLE();
}

ALWAYS_INLINE float step_at(const struct rbt_sgd_run *run, size_t i)
{
    return run->step_max == NULL ? run->eta : fminf(run->eta, run->step_max[i]);
}

ALWAYS_INLINE double sgd_single(struct rbt_sgd_run *run, enum rbt_loss loss)
{
    double sum = 0.0;
    float bias = run->bias;
    for (size_t i = run->begin; i < run->end; i++) {
        const struct rbt_sparse x = row_at(run, i);
        const float m = bias + row_dot(x.indices, x.values, x.count, run->weights);
        const struct rbt_loss_point at = loss_at(loss, (double)m, (double)run->labels[i]);
        const float a = -step_at(run, i) * (float)at.slope;
        sum += at.value;
        row_axpy(a, &x, run->weights);
        bias += a * run->bias_rate;
    }
    run->bias = bias;
    return sum;
}

ALWAYS_INLINE double sgd_batches(struct rbt_sgd_run *run, enum rbt_loss loss)
{
    double sum = 0.0;
    for (size_t first = run->begin; first < run->end; first += run->batch) {
        const size_t left = run->end - first;
        const size_t n = left < run->batch ? left : run->batch;
        for (size_t i = 0; i < n; i++) {
            const struct rbt_sparse x = row_at(run, first + i);
            const float m = run->bias + row_dot(x.indices, x.values, x.count, run->weights);
            const struct rbt_loss_point at =
                loss_at(loss, (double)m, (double)run->labels[first + i]);
            run->coefficients[i] = -step_at(run, first + i) * (float)at.slope / (float)n;
            sum += at.value;
        }
        for (size_t i = 0; i < n; i++) {
            const struct rbt_sparse x = row_at(run, first + i);
            row_axpy(run->coefficients[i], &x, run->weights);
            run->bias += run->coefficients[i] * run->bias_rate;
        }
    }
    return sum;
}

static double sgd(struct rbt_sgd_run *run)
{
    RBT_ASSERT(run->batch >= 1);
    const int is_single = run->batch == 1;
    switch (run->loss) {
    case RBT_LOSS_LOGISTIC:
        return is_single ? sgd_single(run, RBT_LOSS_LOGISTIC) : sgd_batches(run, RBT_LOSS_LOGISTIC);
    case RBT_LOSS_HINGE:
        return is_single ? sgd_single(run, RBT_LOSS_HINGE) : sgd_batches(run, RBT_LOSS_HINGE);
    case RBT_LOSS_SQUARED:
        return is_single ? sgd_single(run, RBT_LOSS_SQUARED) : sgd_batches(run, RBT_LOSS_SQUARED);
    case RBT_LOSS_SOFTMAX:
        break; /* see softmax() */
    }
    RBT_UNREACHABLE();
}

ALWAYS_INLINE double gradient_of(struct rbt_gradient_run *run, enum rbt_loss loss)
{
    double sum = 0.0;
    double bias_gradient = 0.0;
    for (size_t i = run->begin; i < run->end; i++) {
        const uint64_t first = run->offsets[i];
        const struct rbt_sparse x = {.indices = run->indices + first,
                                     .values = run->values + first,
                                     .count = (size_t)(run->offsets[i + 1] - first)};
        const float m = run->bias + row_dot(x.indices, x.values, x.count, run->weights);
        const struct rbt_loss_point at = loss_at(loss, (double)m, (double)run->labels[i]);
        const float g = run->factor * (float)at.slope;
        sum += at.value;
        row_axpy(g, &x, run->gradient);
        bias_gradient += (double)g;
    }
    run->bias_gradient += (float)bias_gradient;
    return sum;
}

static double gradient(struct rbt_gradient_run *run)
{
    switch (run->loss) {
    case RBT_LOSS_LOGISTIC:
        return gradient_of(run, RBT_LOSS_LOGISTIC);
    case RBT_LOSS_HINGE:
        return gradient_of(run, RBT_LOSS_HINGE);
    case RBT_LOSS_SQUARED:
        return gradient_of(run, RBT_LOSS_SQUARED);
    case RBT_LOSS_SOFTMAX:
        break; /* see softmax() */
    }
    RBT_UNREACHABLE();
}

/* Rows of a few numbers are too short for the compiler to make vectors of by itself: with these it
 * is three times as fast for 10 classes. */
typedef float lanes8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float lanes4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float lanes2 __attribute__((vector_size(8), aligned(4), may_alias));

/* y += a x for a row of a few numbers, a constant if all is to stay in registers. */
ALWAYS_INLINE void few_axpy(float a, const float *x, size_t n, float *y)
{
    size_t c = 0;
    for (; c + 8 <= n; c += 8) {
        *(lanes8 *)(y + c) += a * *(const lanes8 *)(x + c);
    }
    for (; c + 4 <= n; c += 4) {
        *(lanes4 *)(y + c) += a * *(const lanes4 *)(x + c);
    }
    for (; c + 2 <= n; c += 2) {
        *(lanes2 *)(y + c) += a * *(const lanes2 *)(x + c);
    }
    for (; c < n; c++) {
        y[c] += a * x[c];
    }
}

/* m = bias + W'x_i. Two rows at a time, since one sum would wait for the other; they are arrays of
 * a constant size, or `m` itself, so that few classes stay in registers. */
ALWAYS_INLINE void softmax_margins(const struct rbt_softmax_run *run, size_t i, size_t classes,
                                   float *restrict m)
{
    const uint32_t *restrict indices = run->indices;
    const float *restrict values = run->values;
    const float *weights = run->weights;
    const uint64_t end = run->offsets[i + 1];
    float even[SOFTMAX_FEW] = {0.0F};
    float odd[SOFTMAX_FEW] = {0.0F};
    const int is_few = classes <= SOFTMAX_FEW;
    uint64_t k = run->offsets[i];
    for (size_t c = 0; c < classes; c++) {
        m[c] = run->bias[c];
    }
    for (; is_few && k + 1 < end; k += 2) {
        few_axpy(values[k], weights + (size_t)indices[k] * classes, classes, even);
        few_axpy(values[k + 1], weights + (size_t)indices[k + 1] * classes, classes, odd);
    }
    for (; k < end; k++) {
        few_axpy(values[k], weights + (size_t)indices[k] * classes, classes, m);
    }
    for (size_t c = 0; is_few && c < classes; c++) {
        m[c] += even[c] + odd[c];
    }
}

/* Turns margins into g; returns the loss. The largest margin is taken off, so that nothing
 * overflows. */
ALWAYS_INLINE double softmax_slopes(float *restrict m, size_t classes, size_t y, float rate)
{
    float largest = m[0];
    for (size_t c = 1; c < classes; c++) {
        largest = m[c] > largest ? m[c] : largest;
    }
    const float right = m[y] - largest;
    float sum = 0.0F;
    for (size_t c = 0; c < classes; c++) {
        m[c] = expf(m[c] - largest);
        sum += m[c];
    }
    const float part = rate / sum;
    for (size_t c = 0; c < classes; c++) {
        m[c] *= part;
    }
    m[y] -= rate;
    return log((double)sum) - (double)right;
}

/* The target's rows get x_ij g. */
ALWAYS_INLINE void softmax_spread(const struct rbt_softmax_run *run, size_t i, size_t classes,
                                  const float *restrict g)
{
    const uint32_t *restrict indices = run->indices;
    const float *restrict values = run->values;
    float *target = run->target;
    const uint64_t end = run->offsets[i + 1];
    float few[SOFTMAX_FEW];
    const int is_few = classes <= SOFTMAX_FEW;
    for (size_t c = 0; is_few && c < classes; c++) {
        few[c] = g[c];
    }
    for (uint64_t k = run->offsets[i]; k < end; k++) {
        few_axpy(values[k], is_few ? few : g, classes, target + (size_t)indices[k] * classes);
    }
    for (size_t c = 0; run->bias_target != NULL && c < classes; c++) {
        run->bias_target[c] += g[c];
    }
}

ALWAYS_INLINE double softmax_range(const struct rbt_softmax_run *run, size_t classes)
{
    double sum = 0.0;
    for (size_t first = run->begin; first < run->end; first += run->batch) {
        const size_t left = run->end - first;
        const size_t n = left < run->batch ? left : run->batch;
        for (size_t i = 0; i < n; i++) {
            float *m = run->coefficients + i * classes;
            const float limit = run->step_max == NULL ? INFINITY : run->step_max[first + i];
            const float rate = copysignf(fminf(fabsf(run->rate), limit), run->rate) / (float)n;
            softmax_margins(run, first + i, classes, m);
            sum += softmax_slopes(m, classes, (size_t)run->labels[first + i], rate);
        }
        for (size_t i = 0; i < n; i++) {
            softmax_spread(run, first + i, classes, run->coefficients + i * classes);
        }
    }
    return sum;
}

static double softmax(const struct rbt_softmax_run *run)
{
    RBT_ASSERT(run->batch >= 1);
    switch (run->classes) {
    case 3:
        return softmax_range(run, 3);
    case 4:
        return softmax_range(run, 4);
    case 5:
        return softmax_range(run, 5);
    case 6:
        return softmax_range(run, 6);
    case 7:
        return softmax_range(run, 7);
    case 8:
        return softmax_range(run, 8);
    case 9:
        return softmax_range(run, 9);
    case 10:
        return softmax_range(run, 10);
    case SOFTMAX_FEW:
        return softmax_range(run, SOFTMAX_FEW);
    default: /* any other number works, too */
        return softmax_range(run, run->classes);
    }
}

/* What the model says about rating k, subtracted from it. */
ALWAYS_INLINE float mf_error(const struct rbt_mf_run *run, size_t k, size_t rank)
{
    const size_t u = run->users[k];
    const size_t i = run->items[k];
    const float *restrict p = run->user_factors + u * rank;
    const float *restrict q = run->item_factors + i * rank;
    float sum = run->mean;
    for (size_t j = 0; j < rank; j++) {
        sum += p[j] * q[j];
    }
    if (run->user_biases != NULL) {
        sum += run->user_biases[u] + run->item_biases[i];
    }
    return run->values[k] - sum;
}

ALWAYS_INLINE float at_least_0(float x)
{
    return x < 0.0F ? 0.0F : x;
}

/* One rating; returns e. `rank` and `is_nonnegative` are constants where it matters. */
ALWAYS_INLINE float mf_step(const struct rbt_mf_run *run, size_t k, size_t rank,
                            bool is_nonnegative)
{
    const size_t u = run->users[k];
    const size_t i = run->items[k];
    float *restrict p = run->user_factors + u * rank;
    float *restrict q = run->item_factors + i * rank;
    const float e = mf_error(run, k, rank);
    const float step = run->eta * e;
    const float keep = 1.0F - run->eta * run->l2;
    for (size_t j = 0; j < rank; j++) {
        const float p_old = p[j];
        const float p_new = keep * p_old + step * q[j];
        const float q_new = keep * q[j] + step * p_old;
        p[j] = is_nonnegative ? at_least_0(p_new) : p_new;
        q[j] = is_nonnegative ? at_least_0(q_new) : q_new;
    }
    if (run->user_biases != NULL) {
        run->user_biases[u] = keep * run->user_biases[u] + step;
        run->item_biases[i] = keep * run->item_biases[i] + step;
    }
    return e;
}

/* The same with steps by row. */
ALWAYS_INLINE float mf_step_by_row(const struct rbt_mf_run *run, size_t k, size_t rank,
                                   bool is_nonnegative)
{
    const size_t u = run->users[k];
    const size_t i = run->items[k];
    float *restrict p = run->user_factors + u * rank;
    float *restrict q = run->item_factors + i * rank;
    const struct rbt_mf_steps of_user = run->user_steps[u];
    const struct rbt_mf_steps of_item = run->item_steps[i];
    const float e = mf_error(run, k, rank);
    const float step_p = of_user.factors * e;
    const float step_q = of_item.factors * e;
    const float keep_p = 1.0F - of_user.factors * run->l2;
    const float keep_q = 1.0F - of_item.factors * run->l2;
    for (size_t j = 0; j < rank; j++) {
        const float p_old = p[j];
        const float p_new = keep_p * p_old + step_p * q[j];
        const float q_new = keep_q * q[j] + step_q * p_old;
        p[j] = is_nonnegative ? at_least_0(p_new) : p_new;
        q[j] = is_nonnegative ? at_least_0(q_new) : q_new;
    }
    if (run->user_biases != NULL) {
        run->user_biases[u] += of_user.bias * (e - run->l2 * run->user_biases[u]);
        run->item_biases[i] += of_item.bias * (e - run->l2 * run->item_biases[i]);
    }
    return e;
}

/* `is_by_row` is a constant, too. */
ALWAYS_INLINE double mf_range(const struct rbt_mf_run *run, size_t rank, bool is_nonnegative,
                              bool is_by_row)
{
    double sum = 0.0;
    for (size_t k = run->begin; k < run->end; k++) {
        if (k + PREFETCH_AHEAD < run->end) {
            const float *p = run->user_factors + run->users[k + PREFETCH_AHEAD] * rank;
            const float *q = run->item_factors + run->items[k + PREFETCH_AHEAD] * rank;
            for (size_t j = 0; j < rank; j += 16) {
                __builtin_prefetch(p + j, 1);
                __builtin_prefetch(q + j, 1);
            }
        }
        const float e = is_by_row ? mf_step_by_row(run, k, rank, is_nonnegative)
                                  : mf_step(run, k, rank, is_nonnegative);
        sum += (double)e * (double)e;
    }
    return sum;
}

ALWAYS_INLINE double mf_ranks(const struct rbt_mf_run *run, bool is_by_row)
{
    if (run->is_nonnegative) {
        return mf_range(run, run->rank, true, is_by_row);
    }
    switch (run->rank) {
    case 8:
        return mf_range(run, 8, false, is_by_row);
    case 16:
        return mf_range(run, 16, false, is_by_row);
    case 32:
        return mf_range(run, 32, false, is_by_row);
    case 64:
        return mf_range(run, 64, false, is_by_row);
    default: /* any other number works, too */
        return mf_range(run, run->rank, false, is_by_row);
    }
}

static double mf(const struct rbt_mf_run *run)
{
    RBT_ASSERT((run->user_steps == NULL) == (run->item_steps == NULL));
    return run->user_steps != NULL ? mf_ranks(run, true) : mf_ranks(run, false);
}

ALWAYS_INLINE double mf_gradient_range(const struct rbt_mf_gradient_run *run, size_t rank)
{
    const struct rbt_mf_run *at = run->at;
    const float l2 = at->l2;
    double sum = 0.0;
    for (size_t k = at->begin; k < at->end; k++) {
        const size_t u = at->users[k];
        const size_t i = at->items[k];
        const float *restrict p = at->user_factors + u * rank;
        const float *restrict q = at->item_factors + i * rank;
        float *restrict gp = run->user_factors + u * rank;
        float *restrict gq = run->item_factors + i * rank;
        const float e = mf_error(at, k, rank);
        for (size_t j = 0; j < rank; j++) {
            gp[j] -= e * q[j] - l2 * p[j];
            gq[j] -= e * p[j] - l2 * q[j];
        }
        if (run->user_biases != NULL) {
            run->user_biases[u] -= e - l2 * at->user_biases[u];
            run->item_biases[i] -= e - l2 * at->item_biases[i];
        }
        sum += (double)e * (double)e;
    }
    return sum;
}

static double mf_gradient(const struct rbt_mf_gradient_run *run)
{
    switch (run->at->rank) {
    case 8:
        return mf_gradient_range(run, 8);
    case 16:
        return mf_gradient_range(run, 16);
    case 32:
        return mf_gradient_range(run, 32);
    case 64:
        return mf_gradient_range(run, 64);
    default: /* any other number works, too */
        return mf_gradient_range(run, run->at->rank);
    }
}

static double dot(const float *restrict x, const float *restrict y, size_t n)
{
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) {
        sum += (double)x[k] * (double)y[k];
    }
    return sum;
}

static double norm1(const float *x, size_t n)
{
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) {
        sum += (double)fabsf(x[k]);
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

/* sign(u) max(0, |u| - a) = u - clamp(u, -a, a). */
static void shrink(const struct rbt_shrink *shrink, float *restrict u, size_t n)
{
    const float *restrict r = shrink->scales;
    const float *restrict a = shrink->pulls;
    const float *restrict d = shrink->decays;
    const float l1 = shrink->l1;
    const float l2 = shrink->l2;
    const float theta = shrink->theta;
    if (l1 == 0.0F) {
        for (size_t k = 0; k < n; k++) {
            u[k] = u[k] / (1.0F + l2 * d[k] * d[k]);
        }
        return;
    }
    for (size_t k = 0; k < n; k++) {
        const float pull = fabsf(u[k] * r[k]) <= theta ? l1 * a[k] : 0.0F;
        const float size = fabsf(u[k]) - pull;
        const float v = size <= 0.0F ? 0.0F : copysignf(size, u[k]);
        u[k] = v / (1.0F + l2 * d[k] * d[k]);
    }
}

static void difference(const struct rbt_difference *d, float *restrict deltas)
{
    const float *restrict now = d->now;
    const float *restrict before = d->before;
    const float *restrict rates = d->rates;
    if (d->width == 1) {
        for (size_t i = 0; i < d->count; i++) {
            deltas[i] = (now[i] - before[i]) * rates[i];
        }
        return;
    }
    for (size_t i = 0; i < d->count; i++) {
        for (size_t j = i * d->width; j < (i + 1) * d->width; j++) {
            deltas[j] = (now[j] - before[j]) * rates[i];
        }
    }
}

const struct rbt_kernels KERNELS_OF_SUFFIX = {
    .name = TEXT(RBT_KERNELS),
    .sparse_dot = sparse_dot,
    .sparse_axpy = sparse_axpy,
    .sgd = sgd,
    .gradient = gradient,
    .softmax = softmax,
    .mf = mf,
    .mf_gradient = mf_gradient,
    .fm_margins = EXPAND(rbt_fm_margins_, RBT_KERNELS),
    .fm_gradient = EXPAND(rbt_fm_gradient_, RBT_KERNELS),
    .fm_steps = EXPAND(rbt_fm_steps_, RBT_KERNELS),
    .dot = dot,
    .norm1 = norm1,
    .norm2_squared = norm2_squared,
    .shrink = shrink,
    .difference = difference,
    .nearest = RBT_NEAREST(nearest),
    .nearest_sparse = RBT_NEAREST(sparse),
    .distance = RBT_NEAREST(distance),
};
