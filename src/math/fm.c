/* math/fm.c - kernels of factorisation machines. Compiled once per kind of processor with
 * RBT_KERNELS set to its name, like kernels.c; formulas are in fm.h.
 *
 * An example is gone through twice: entries that have an embedding are first listed side by side,
 * so that the loops over embeddings have no branch in them. The rank is a constant in the common
 * cases, so that sums stay in registers. */
#include "math/fm.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

#define PASTE(a, b)   a##b
#define EXPAND(a, b)  PASTE(a, b)
#define OF_SUFFIX(a)  EXPAND(a, RBT_KERNELS)
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Turns of the loop that follows do not depend on each other. GCC would write out short loops over
 * a rank that it knows before it looks for vectors in them, and then find none. */
#if defined(__clang__)
#define INDEPENDENT
#define OVER_RANK
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#define OVER_RANK   _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#endif

enum { PREFETCH_AHEAD = 8 }; /* entries of the list */

/* What is known of an example after the first time. */
struct seen {
    float margin;
    size_t count; /* entries with an embedding, in the run's rooms */
};

ALWAYS_INLINE float linear_part(const struct rbt_fm_run *run, size_t i, size_t *listed)
{
    const uint64_t end = run->offsets[i + 1];
    float sum = 0.0F;
    size_t count = 0;
    for (uint64_t k = run->offsets[i]; k < end; k++) {
        const uint32_t j = run->indices[k];
        const float x = run->values[k];
        const float w = run->weights[j];
        const uint32_t row = run->rows[j];
        sum += w * x;
        run->row_room[count] = row;
        run->value_room[count] = x;
        count += (row != RBT_FM_NONE) & ((w != 0.0F) | !run->is_shrunk);
    }
    *listed = count;
    return sum;
}

/* Fills in s and returns the margin. */
ALWAYS_INLINE struct seen look(const struct rbt_fm_run *run, size_t i, size_t rank)
{
    struct seen seen;
    float *restrict sum = run->sum_room;
    float squares = 0.0F;
    float pairs = 0.0F;
    const float linear = linear_part(run, i, &seen.count);
    memset(sum, 0, rank * sizeof *sum);
    for (size_t a = 0; a < seen.count; a++) {
        const float *restrict v = run->embeddings + (size_t)run->row_room[a] * rank;
        const float x = run->value_room[a];
        if (a + PREFETCH_AHEAD < seen.count) {
            __builtin_prefetch(run->embeddings + (size_t)run->row_room[a + PREFETCH_AHEAD] * rank);
        }
        OVER_RANK
        for (size_t f = 0; f < rank; f++) {
            const float t = x * v[f];
            sum[f] += t;
            squares += t * t;
        }
    }
    OVER_RANK
    for (size_t f = 0; f < rank; f++) {
        pairs += sum[f] * sum[f];
    }
    seen.margin = run->bias + linear + 0.5F * (pairs - squares);
    return seen;
}

ALWAYS_INLINE double gradient_range(const struct rbt_fm_run *run, struct rbt_fm_gradient *to,
                                    size_t rank)
{
    double loss = 0.0;
    double bias = 0.0;
    const float *restrict sum = run->sum_room;
    for (size_t i = run->begin; i < run->end; i++) {
        const struct seen seen = look(run, i, rank);
        const struct rbt_loss_point point =
            rbt_loss_at(run->loss, (double)seen.margin, (double)run->labels[i]);
        const float g = to->factor * (float)point.slope;
        loss += point.value;
        bias += (double)g;
        INDEPENDENT
        for (uint64_t k = run->offsets[i]; k < run->offsets[i + 1]; k++) {
            to->weights[run->indices[k]] += g * run->values[k];
        }
        for (size_t a = 0; a < seen.count; a++) {
            const size_t at = (size_t)run->row_room[a] * rank;
            const float *restrict v = run->embeddings + at;
            float *restrict gradient = to->embeddings + at;
            const float x = run->value_room[a];
            const float gx = g * x;
            OVER_RANK
            for (size_t f = 0; f < rank; f++) {
                gradient[f] += gx * (sum[f] - x * v[f]);
            }
        }
    }
    to->bias += (float)bias;
    return loss;
}

/* Constants of a step of FTRL-proximal. */
struct ftrl {
    float lr_inverse;
    float beta;
    float l1;
    float l2;
};

/* One step of a parameter that has a share of the penalties; returns the new weight. */
ALWAYS_INLINE float follow(struct ftrl c, float g, float w, float share, float *z, float *root)
{
    const float next = sqrtf(*root * *root + g * g);
    const float sum = *z + (next - *root) * c.lr_inverse * w - g;
    const float size = fmaxf(fabsf(sum) - share * c.l1, 0.0F);
    *root = next;
    *z = sum;
    return copysignf(size, sum) / ((c.beta + next) * c.lr_inverse + share * c.l2);
}

/* Steps of the embeddings of the example that was looked at. */
ALWAYS_INLINE void step_embeddings(const struct rbt_fm_run *run, struct rbt_fm_steps *steps,
                                   float g, size_t count, size_t rank)
{
    const float *restrict sum = run->sum_room;
    const float lr = steps->lr_v;
    const float beta = steps->beta;
    for (size_t a = 0; a < count; a++) {
        const size_t at = (size_t)run->row_room[a] * rank;
        float *restrict v = run->embeddings + at;
        float *restrict n = steps->squares + at;
        const float x = run->value_room[a];
        const float gx = g * x;
        const float l2 = steps->l2_v[run->row_room[a]];
        const float times = steps->times_v[run->row_room[a]];
        OVER_RANK
        for (size_t f = 0; f < rank; f++) {
            const float d = gx * (sum[f] - x * v[f]);
            const float squares = n[f] + times * d * d;
            const float size = beta + sqrtf(squares);
            n[f] = squares;
            v[f] = (size * v[f] - lr * d) / (size + lr * l2);
        }
    }
}

/* Steps of the weights of an example, whose features are all different. */
ALWAYS_INLINE void step_weights(const struct rbt_fm_run *run, const struct rbt_fm_steps *steps,
                                struct ftrl c, size_t i, float g)
{
    const uint64_t first = run->offsets[i];
    const size_t count = (size_t)(run->offsets[i + 1] - first);
    const uint32_t *restrict indices = run->indices + first;
    const float *restrict values = run->values + first;
    const float *restrict shares = steps->shares;
    float *restrict w = run->weights;
    float *restrict z = steps->z;
    float *restrict root = steps->root;
    INDEPENDENT
    for (size_t k = 0; k < count; k++) {
        const uint32_t j = indices[k];
        w[j] = follow(c, g * values[k], w[j], shares[j], &z[j], &root[j]);
    }
}

ALWAYS_INLINE double step_range(struct rbt_fm_run *run, struct rbt_fm_steps *steps, size_t rank)
{
    const struct ftrl c = {
        .lr_inverse = 1.0F / steps->lr, .beta = steps->beta, .l1 = steps->l1, .l2 = steps->l2};
    const struct ftrl bias = {.lr_inverse = c.lr_inverse, .beta = c.beta};
    double loss = 0.0;
    for (size_t i = run->begin; i < run->end; i++) {
        const struct seen seen = look(run, i, rank);
        const struct rbt_loss_point point =
            rbt_loss_at(run->loss, (double)seen.margin, (double)run->labels[i]);
        const float g = (float)point.slope;
        loss += point.value;
        step_embeddings(run, steps, g, seen.count, rank);
        step_weights(run, steps, c, i, g);
        if (steps->has_bias) {
            run->bias = follow(bias, g, run->bias, 0.0F, &steps->bias_z, &steps->bias_root);
        }
    }
    return loss;
}

ALWAYS_INLINE void margins_range(const struct rbt_fm_run *run, float *margins, size_t rank)
{
    for (size_t i = run->begin; i < run->end; i++) {
        margins[i - run->begin] = look(run, i, rank).margin;
    }
}

void OF_SUFFIX(rbt_fm_margins_)(const struct rbt_fm_run *run, float *margins)
{
    RBT_ASSERT(run->begin <= run->end);
    if (run->rank == 8) {
        margins_range(run, margins, 8);
    } else if (run->rank == 16) {
        margins_range(run, margins, 16);
    } else {
        margins_range(run, margins, run->rank);
    }
}

double OF_SUFFIX(rbt_fm_gradient_)(const struct rbt_fm_run *run, struct rbt_fm_gradient *gradient)
{
    RBT_ASSERT(run->begin <= run->end);
    switch (run->rank) {
    case 4:
        return gradient_range(run, gradient, 4);
    case 8:
        return gradient_range(run, gradient, 8);
    case 16:
        return gradient_range(run, gradient, 16);
    default:
        return gradient_range(run, gradient, run->rank);
    }
}

double OF_SUFFIX(rbt_fm_steps_)(struct rbt_fm_run *run, struct rbt_fm_steps *steps)
{
    RBT_ASSERT(run->begin <= run->end);
    switch (run->rank) {
    case 4:
        return step_range(run, steps, 4);
    case 8:
        return step_range(run, steps, 8);
    case 16:
        return step_range(run, steps, 16);
    default:
        return step_range(run, steps, run->rank);
    }
}
