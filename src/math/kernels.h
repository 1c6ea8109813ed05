/* math/kernels.h - the loops that take the time, on plain arrays.
 *
 * kernels.c is compiled once per kind of processor; choose.c picks one set at start-up; the obvious
 * versions in reference.c judge them all. Every set gives the same bits on every run; different
 * sets differ in the last places, since they add in a different order.
 *
 * Arrays do not overlap unless a comment says so. Threads: none; the caller owns all arrays. */
#ifndef RUBATO_MATH_KERNELS_H
#define RUBATO_MATH_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "math/fm.h"
#include "math/loss.h"
#include "math/nearest.h"

/* The entries of a sparse vector x that are not zero; indices are all different. */
struct rbt_sparse {
    const uint32_t *indices; /* (count) */
    const float *values;     /* (count) */
    size_t count;
};

/* Stochastic gradient descent over examples begin .. end-1 of a sparse matrix, in order:
 *
 *     m = w'x_i + bias,  g = loss'(m, y_i),  eta_i = min(eta, step_max_i)
 *     w -= eta_i g x_i,  bias -= eta_i g
 *
 * With batch = B > 1, B examples at a time use the same w and the mean of their steps. */
struct rbt_sgd_run {
    enum rbt_loss loss;
    const uint64_t *offsets; /* (end + 1): example i is entries offsets[i] .. offsets[i+1]-1 */
    const float *labels;     /* (end) */
    const uint32_t *indices;
    const float *values;
    const float *step_max; /* (end), or NULL for no limit */
    size_t begin;
    size_t end;
    float *weights;
    float bias;
    float bias_rate;     /* what eta is multiplied with for the bias: 1, or 0 for no bias */
    float eta;           /* step size */
    size_t batch;        /* at least 1 */
    float *coefficients; /* (batch), scratch; not used when batch is 1 */
};

/* The gradient of the losses of examples begin .. end-1 at fixed weights:
 *
 *     m = w'x_i + bias,  g = factor loss'(m, y_i)
 *     gradient += g x_i,  bias_gradient += g */
struct rbt_gradient_run {
    enum rbt_loss loss;
    const uint64_t *offsets; /* as in rbt_sgd_run */
    const float *labels;
    const uint32_t *indices;
    const float *values;
    size_t begin;
    size_t end;
    const float *weights;
    float bias;
    float factor;
    float *gradient; /* as long as the weights */
    float bias_gradient;
};

/* The same two for several classes, whose weights stand side by side, one row for each feature. For
 * examples begin .. end-1 in order, or `batch` at a time:
 *
 *     m = bias + W'x_i,  p = exp(m) / sum exp(m),  g_c = rate_i / batch (p_c - [c = y_i])
 *     target_j += x_ij g,  bias_target += g
 *
 * with rate_i = rate, whose size is limited to step_max_i. Steps have rate = -eta and the weights
 * as target; a gradient has its factor as rate, batch 1, and a target of its own. */
struct rbt_softmax_run {
    size_t classes;
    const uint64_t *offsets; /* as in rbt_sgd_run */
    const float *labels;     /* y: 0 .. classes-1 */
    const uint32_t *indices;
    const float *values;
    const float *step_max; /* (end), or NULL for no limit */
    size_t begin;
    size_t end;
    const float *weights; /* (features, classes), row-major; may be the target */
    const float *bias;    /* (classes); may be the bias's target */
    float rate;
    size_t batch;
    float *target;       /* (features, classes) */
    float *bias_target;  /* (classes), or NULL if there is no bias */
    float *coefficients; /* (batch, classes), scratch */
};

/* Stochastic gradient descent for a factorisation over ratings begin .. end-1, in order:
 *
 *     e = r - mean - bu_u - bi_i - p_u'q_i
 *     p_u += eta (e q_i - l2 p_u)      q_i += eta (e p_u - l2 q_i)   (both from the old values)
 *     bu_u += eta (e - l2 bu_u)        bi_i += eta (e - l2 bi_i)
 *
 * The sign is plus: e q_i - l2 p_u is the direction of descent (docs/papers.md). With steps by row,
 * each of the four has its own eta. */
struct rbt_mf_steps {
    float factors;
    float bias;
};
struct rbt_mf_run {
    const uint32_t *users;
    const uint32_t *items;
    const float *values;
    size_t begin;
    size_t end;
    float *user_factors; /* (users, rank), row-major */
    float *item_factors; /* (items, rank) */
    size_t rank;
    float *user_biases; /* (users), or NULL for none; then item_biases is NULL, too */
    float *item_biases; /* (items) */
    float mean;
    float eta;
    float l2;
    bool is_nonnegative;                   /* after each step factors below 0 become 0 */
    const struct rbt_mf_steps *user_steps; /* (users), or NULL: all steps are eta */
    const struct rbt_mf_steps *item_steps; /* (items), or NULL with the users' */
};

/* The gradient, for fixed factors, of half the sum over ratings begin .. end-1 of
 * e^2 + l2 (||p_u||^2 + ||q_i||^2 + bu_u^2 + bi_i^2), with e as above:
 *
 *     gp_u -= e q_i - l2 p_u      gq_i -= e p_u - l2 q_i
 *     gbu_u -= e - l2 bu_u        gbi_i -= e - l2 bi_i */
struct rbt_mf_gradient_run {
    const struct rbt_mf_run *at; /* ratings and factors; `eta` is not used, nothing is changed */
    float *user_factors;         /* gp: (users, rank) */
    float *item_factors;
    float *user_biases; /* gbu: (users), or NULL if there are none */
    float *item_biases;
};

/* One regularisation step of step size eta, already multiplied into l1 and l2, on weights in scaled
 * coordinates u_j = w_j / r_j:
 *
 *     v   <- sign(u_j) max(0, |u_j| - l1 a_j) if |u_j r_j| <= theta, else u_j
 *     u_j <- v / (1 + l2 d_j^2)
 *
 * which for a = d = r and theta = infinity is the proximal step of l1 |w| + l2/2 w^2. */
struct rbt_shrink {
    const float *scales; /* r: (count); not used without l1 */
    const float *pulls;  /* a: (count), likewise */
    const float *decays; /* d: (count) */
    float l2;
    float l1;
    float theta; /* INFINITY: soft threshold; otherwise truncation */
};

/* deltas = (now - before) * rates, rates per row: (count) rows of `width`. */
struct rbt_difference {
    const float *now;
    const float *before;
    const float *rates;
    size_t count;
    size_t width;
};

struct rbt_kernels {
    const char *name;
    double (*sparse_dot)(const struct rbt_sparse *x, const float *restrict w);
    void (*sparse_axpy)(float a, const struct rbt_sparse *x, float *restrict w); /* w += a x */
    double (*sgd)(struct rbt_sgd_run *run); /* returns the sum of losses before each step */
    double (*gradient)(struct rbt_gradient_run *run);             /* returns the sum of losses */
    double (*softmax)(const struct rbt_softmax_run *run);         /* the same */
    double (*mf)(const struct rbt_mf_run *run);                   /* returns the sum of e^2 */
    double (*mf_gradient)(const struct rbt_mf_gradient_run *run); /* the same */
    void (*fm_margins)(const struct rbt_fm_run *run, float *margins); /* (end - begin) */
    double (*fm_gradient)(const struct rbt_fm_run *run, struct rbt_fm_gradient *gradient);
    double (*fm_steps)(struct rbt_fm_run *run, struct rbt_fm_steps *steps); /* sums of losses */
    double (*dot)(const float *restrict x, const float *restrict y, size_t n);
    double (*norm1)(const float *x, size_t n);         /* sum |x_j| */
    double (*norm2_squared)(const float *x, size_t n); /* sum x_j^2 */
    void (*shrink)(const struct rbt_shrink *shrink, float *restrict u, size_t n);
    void (*difference)(const struct rbt_difference *difference, float *restrict deltas);
    void (*nearest)(const struct rbt_nearest_run *run); /* nearest.h */
    void (*nearest_sparse)(const struct rbt_nearest_sparse_run *run);
    void (*distance)(const struct rbt_distance_run *run);
};

extern const struct rbt_kernels rbt_kernels_baseline;
#if defined(__x86_64__)
extern const struct rbt_kernels rbt_kernels_avx2;
extern const struct rbt_kernels rbt_kernels_avx512;
#endif

#endif
