/* policy/rule/prox.c - a proximal gradient step with a diagonal scaling:
 *
 *     w <- Prox(w - lr U^-1 g),   Prox(x) = argmin_y l1 |y| + l2/2 y^2 + (x - y)' U (x - y) / (2
 * lr)
 *
 * which per coordinate is: move x by lr l1 / u towards zero, but not past it, and divide by
 * 1 + lr l2 / u. Li's thesis, sections 5.1 and 6.4, algorithm 5 (5.3 omits U^-1, and 5.4 calls
 * x'Ux a norm). U = diag(u) is
 *
 *     1                                 by default
 *     beta + sqrt(sum g^2)              scale=1: AdaGrad's
 *     sent by the workers               pairs=1: the first half of a row are the weights. In an
 *                                       update its second half is u, and in the row it is the
 *                                       gradient of the last update, for workers that want to know
 *
 * Coordinates whose u a worker sends as zero, with a gradient of zero, are not touched.
 *
 * State with scale=1: the sum of g^2. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rule/builtin.h"

struct prox {
    float lr;
    float l1;
    float l2;
    float beta;
    bool has_scale;
    bool has_pairs;
    rbt_status (*fail)(const char *format, ...);
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    enum { LR, L1, L2, BETA, SCALE, PAIRS, PARAMETERS };
    static const struct rbt_builtin_range ranges[PARAMETERS] = {
        [LR] = {.name = "lr", .fallback = 0.1, .max = 1e6, .is_open = true},
        [L1] = {.name = "l1", .max = 1e6},
        [L2] = {.name = "l2", .max = 1e6},
        [BETA] = {.name = "beta", .fallback = 1, .max = 1e6, .is_open = true},
        [SCALE] = {.name = "scale", .max = 1, .is_whole = true},
        [PAIRS] = {.name = "pairs", .max = 1, .is_whole = true},
    };
    double v[PARAMETERS];
    rbt_status st = rbt_builtin_numbers(setup, ranges, PARAMETERS, v);
    if (st != RBT_OK) {
        return st;
    }
    if (v[SCALE] != 0 && v[PAIRS] != 0) {
        return setup->fail("only one of scale and pairs may be given: workers send u, or not");
    }
    if (v[PAIRS] != 0 && setup->width % 2 != 0) {
        return setup->fail("pairs needs rows of an even width, not %u", setup->width);
    }
    st = rbt_builtin_new(setup, sizeof(struct prox), self);
    if (st != RBT_OK) {
        return st;
    }
    *(struct prox *)*self = (struct prox){.lr = (float)v[LR],
                                          .l1 = (float)v[L1],
                                          .l2 = (float)v[L2],
                                          .beta = (float)v[BETA],
                                          .has_scale = v[SCALE] != 0,
                                          .has_pairs = v[PAIRS] != 0,
                                          .fail = setup->fail};
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = v[SCALE] != 0 ? setup->width : 0;
    return RBT_OK;
}

/* One coordinate, with the step gamma = lr / u. */
static inline float step(const struct prox *p, float w, float g, float gamma)
{
    const float x = w - gamma * g;
    const float size = fabsf(x) - gamma * p->l1;
    return copysignf(size < 0 ? 0 : size, x) / (1 + gamma * p->l2) + 0.0F; /* -0 becomes 0 */
}

static rbt_status apply_pairs(const struct prox *p, const struct rbt_rule_row *row)
{
    const uint32_t half = row->width / 2;
    const float *g = row->delta;
    const float *u = row->delta + half;
    for (uint32_t i = 0; i < half; i++) {
        if (u[i] > 0) {
            row->values[i] = step(p, row->values[i], g[i], p->lr / u[i]);
            row->values[half + i] = g[i];
        } else if (u[i] != 0 || g[i] != 0) {
            return p->fail("a worker sent the scale %g for value %u of row %llu; it must be "
                           "positive",
                           (double)u[i], i, (unsigned long long)row->key);
        }
    }
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)message;
    const struct prox p = *(const struct prox *)self;
    if (p.has_pairs) {
        return apply_pairs(&p, row);
    }
    float *restrict w = row->values;
    const float *restrict g = row->delta;
    if (!p.has_scale) {
        RBT_BUILTIN_APART
        for (size_t i = 0; i < row->width; i++) {
            w[i] = step(&p, w[i], g[i], p.lr);
        }
        return RBT_OK;
    }
    float *restrict n = row->state;
    RBT_BUILTIN_APART
    for (size_t i = 0; i < row->width; i++) {
        n[i] += g[i] * g[i];
        w[i] = step(&p, w[i], g[i], p.lr / (p.beta + sqrtf(n[i])));
    }
    return RBT_OK;
}

const struct rbt_rule rbt_rule_prox = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_prox,
    .name = "prox",
    .summary = "A proximal step: exact zeros by l1, shrinkage by l2, scaled per coordinate.",
    .create = create,
    .destroy = rbt_builtin_free,
    .apply = apply};
