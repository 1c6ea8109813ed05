/* math/fm.h - kernels of factorisation machines, on plain arrays; part of struct rbt_kernels.
 *
 * With weights w, an embedding V_i of length `rank` for some features, and s = sum_i x_i V_i,
 *
 *     g(x) = bias + w'x + 1/2 ||s||^2 - 1/2 sum_i x_i^2 ||V_i||^2
 *
 * which is bias + w'x + sum of x_i x_j V_i'V_j over all pairs i < j (Li's thesis prints equation
 * 10.5 without the second 1/2: docs/papers.md). Derivatives are x_i and x_i s - x_i^2 V_i.
 *
 * Features without an embedding, and those whose weight is zero if `is_shrunk`, count as V_i = 0:
 * their embedding is neither read nor changed. Sums over an example are float, sums of losses
 * double. Threads: none; the caller owns all arrays, which do not overlap. */
#ifndef RUBATO_MATH_FM_H
#define RUBATO_MATH_FM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "math/loss.h"

#define RBT_FM_NONE UINT32_MAX /* no embedding */

/* Examples begin .. end-1 of a sparse matrix, and a model. */
struct rbt_fm_run {
    enum rbt_loss loss;
    const uint64_t *offsets; /* (end + 1): example i is entries offsets[i] .. offsets[i+1]-1 */
    const float *labels;     /* (end) */
    const uint32_t *indices; /* of features; different within an example */
    const float *values;
    size_t begin;
    size_t end;
    const uint32_t *rows; /* (features): which embedding a feature has, or RBT_FM_NONE */
    size_t rank;
    bool is_shrunk;
    float *weights;    /* (features) */
    float *embeddings; /* (embeddings, rank) */
    float bias;
    uint32_t *row_room; /* as long as the longest example: scratch */
    float *value_room;  /* the same */
    float *sum_room;    /* (rank) */
};

/* Where gradients are added up: of factor * loss. */
struct rbt_fm_gradient {
    float factor;
    float *weights;
    float *embeddings;
    float bias;
};

/* One step per example. With g the derivative of the loss by the parameter,
 *
 *     w by FTRL-proximal, kept as z and r = sqrt(n), with a share of l1 and l2 per feature
 *     V by AdaGrad:  n += g^2,  r = lr_v / (beta + sqrt(n)),  V = (V - r g) / (1 + r l2_v)
 *     the bias like w, without penalties
 *
 * The penalty of V is taken at the new V, not at the old one as equation 10.18 prints it, so that
 * it shrinks V however large it is and never turns it around. */
struct rbt_fm_steps {
    float lr;
    float lr_v;
    float beta;
    float l1;
    float l2;
    const float *shares;  /* of l1 and l2: (features) */
    const float *l2_v;    /* (embeddings) */
    const float *times_v; /* (embeddings): how many times g^2 is added to n, since others take
                             steps with the same V at the same time; 1 if nobody does */
    float *z;             /* (features) */
    float *root;          /* (features) */
    float *squares;       /* n: (embeddings, rank) */
    float bias_z;         /* not changed if has_bias is false */
    float bias_root;
    bool has_bias;
};

#define RBT_FM_KERNELS(name)                                                                       \
    void rbt_fm_margins_##name(const struct rbt_fm_run *run, float *margins);                      \
    double rbt_fm_gradient_##name(const struct rbt_fm_run *run, struct rbt_fm_gradient *gradient); \
    double rbt_fm_steps_##name(struct rbt_fm_run *run, struct rbt_fm_steps *steps);

RBT_FM_KERNELS(baseline)
#if defined(__x86_64__)
RBT_FM_KERNELS(avx2)
RBT_FM_KERNELS(avx512)
#endif

#endif
