/* policy/rule/adam.c - Adam: a mean of the last gradients over the root of a mean of their squares:
 *
 *     m <- beta1 m + (1 - beta1) g,   v <- beta2 v + (1 - beta2) g^2
 *     w <- w - lr (m / (1 - beta1^k)) / (sqrt(v / (1 - beta2^k)) + eps)
 *
 * Kingma and Ba, 2015. k counts the row's own updates: rows that a message does not touch neither
 * move nor forget, as in the "lazy" variants for embeddings.
 *
 * State: m, v, k. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rule/builtin.h"

struct adam {
    double beta1;
    double beta2;
    float lr;
    float eps;
    uint64_t updates; /* that the corrections are for: most rows of a message have the same k */
    float mean;       /* 1 / (1 - beta1^k) */
    float square;     /* 1 / (1 - beta2^k) */
};

static void correct(struct adam *a, uint64_t k)
{
    if (a->updates != k) {
        a->updates = k;
        a->mean = (float)(1 / (1 - pow(a->beta1, (double)k)));
        a->square = (float)(1 / (1 - pow(a->beta2, (double)k)));
    }
}

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    static const struct rbt_builtin_range ranges[] = {
        {.name = "lr", .fallback = 0.001, .max = 1e6, .is_open = true},
        {.name = "beta1", .fallback = 0.9, .max = 0.9999999},
        {.name = "beta2", .fallback = 0.999, .max = 0.9999999},
        {.name = "eps", .fallback = 1e-8, .min = 1e-30, .max = 1e6},
    };
    double v[4];
    rbt_status st = rbt_builtin_numbers(setup, ranges, 4, v);
    if (st == RBT_OK) {
        st = rbt_builtin_new(setup, sizeof(struct adam), self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct adam *)*self =
        (struct adam){.lr = (float)v[0], .beta1 = v[1], .beta2 = v[2], .eps = (float)v[3]};
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = 2 * setup->width + RBT_BUILTIN_COUNT_WIDTH;
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)message;
    struct adam *a = self;
    const size_t width = row->width;
    float *restrict w = row->values;
    float *restrict m = row->state;
    float *restrict v = row->state + width;
    const float *restrict g = row->delta;
    const uint64_t k = rbt_builtin_count(row->state + 2 * width) + 1;
    rbt_builtin_set_count(row->state + 2 * width, k);
    correct(a, k);
    const float mean = a->mean;
    const float square = a->square;
    const float keep1 = (float)a->beta1;
    const float keep2 = (float)a->beta2;
    const float take1 = (float)(1 - a->beta1);
    const float take2 = (float)(1 - a->beta2);
    const float lr = a->lr;
    const float eps = a->eps;
    RBT_BUILTIN_APART
    for (size_t i = 0; i < width; i++) {
        m[i] = keep1 * m[i] + take1 * g[i];
        v[i] = keep2 * v[i] + take2 * (g[i] * g[i]);
        w[i] -= lr * (m[i] * mean) / (sqrtf(v[i] * square) + eps);
    }
    return RBT_OK;
}

const struct rbt_rule rbt_rule_adam = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_adam,
    .name = "adam",
    .summary = "Adam: steps of about equal size for all coordinates, with momentum.",
    .create = create,
    .destroy = rbt_builtin_free,
    .apply = apply};
