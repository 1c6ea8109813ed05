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

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    static const struct rbt_builtin_range ranges[] = {
        {.name = "lr", .fallback = 0.1, .max = 1e6, .is_open = true},
        {.name = "beta", .fallback = 1, .max = 1e6, .is_open = true},
        {.name = "l1", .max = 1e6},
        {.name = "l2", .max = 1e6},
    };
    double v[4];
    rbt_status st = rbt_builtin_numbers(setup, ranges, 4, v);
    if (st == RBT_OK) {
        st = rbt_builtin_new(setup, sizeof(struct ftrl), self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct ftrl *)*self =
        (struct ftrl){.lr = (float)v[0], .beta = (float)v[1], .l1 = (float)v[2], .l2 = (float)v[3]};
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
    RBT_BUILTIN_APART
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

const struct rbt_rule rbt_rule_ftrl = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_ftrl,
    .name = "ftrl",
    .summary = "FTRL-proximal: like adagrad, with weights that l1 makes exactly zero.",
    .create = create,
    .destroy = rbt_builtin_free,
    .apply = apply};
