/* policy/rule/ftrl.c - FTRL-proximal: sparse models, with a step per coordinate:
 *
 *     sigma = (sqrt(n + g^2) - sqrt(n)) / lr
 *     z <- z - g + sigma w,   n <- n + g^2
 *     w = 0 if |z| <= l1, otherwise (z - sign(z) l1) / ((beta + sqrt(n)) / lr + l2)
 *
 * McMahan and others, "Ad click prediction: a view from the trenches", 2013; Li's thesis, equation
 * 10.19, whose z is the negative of theirs. Weights that do not pay for l1 are exactly zero. They
 * start at zero: what a table's rows hold at first counts only in the first sigma w.
 *
 * State: z, n. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>

#include "policy/rule/builtin.h"

struct ftrl {
    float lr;
    float beta;
    float l1;
    float l2;
};

enum { LR, BETA, L1, L2, PARAMETERS };

static const struct rbt_policy_parameter parameters[] = {
    [LR] = {"lr", "the step size", .fallback = 0.1, .max = 1e6, .is_open = true},
    [BETA] = {"beta", "smooths the first steps", .fallback = 1, .max = 1e6, .is_open = true},
    [L1] = {"l1", "the larger, the more weights are exactly zero", .max = 1e6},
    [L2] = {"l2", "pulls weights towards zero", .max = 1e6},
    [PARAMETERS] = {.name = NULL}};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    double v[PARAMETERS];
    rbt_status st = rbt_builtin_numbers(setup, parameters, v);
    if (st == RBT_OK) {
        st = rbt_policy_new(sizeof(struct ftrl), "rule", setup->table, self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct ftrl *)*self = (struct ftrl){
        .lr = (float)v[LR], .beta = (float)v[BETA], .l1 = (float)v[L1], .l2 = (float)v[L2]};
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = 2 * setup->width;
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)message;
    const struct ftrl f = *(const struct ftrl *)self;
    const size_t width = row->width;
    float *restrict w = row->values;
    float *restrict z = row->state;
    float *restrict n = row->state + width;
    const float *restrict g = row->delta;
    RBT_POLICY_APART
    for (size_t i = 0; i < width; i++) {
        const float root = sqrtf(n[i] + g[i] * g[i]);
        const float sigma = (root - sqrtf(n[i])) / f.lr;
        z[i] += sigma * w[i] - g[i];
        n[i] += g[i] * g[i];
        const float size = fabsf(z[i]) - f.l1;
        const float weight = copysignf(size < 0 ? 0 : size, z[i]);
        w[i] = weight / ((f.beta + root) / f.lr + f.l2) + 0.0F; /* -0 becomes 0 */
    }
    return RBT_OK;
}

static const struct rbt_rule rule = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rule,
    .name = "ftrl",
    .summary = "FTRL-proximal: like adagrad, with weights that l1 makes exactly zero.",
    .create = create,
    .destroy = rbt_policy_free,
    .apply = apply};

const struct rbt_policy rbt_rule_ftrl = {
    .code = &rule,
    .choose = "Sparse models for click data: most weights become exactly zero. The rows should "
              "start at zero.",
    .formula = "w = (z - sign(z) l1)/((beta + sqrt(n))/lr + l2), or 0 if |z| <= l1",
    .parameters = parameters};
