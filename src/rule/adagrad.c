/* rule/adagrad.c - AdaGrad: a step per coordinate that shrinks with the gradients seen so far:
 *
 *     n <- n + g^2,   w <- w - lr / (beta + sqrt(n)) (g + mu w)
 *
 * Duchi, Hazan and Singer, 2011; with stale gradients it is the "AsyncAdaGrad" of Li's thesis,
 * section 8.3.1 (which prints the rate without its inverse), and with beta and mu it is that of its
 * factorisation machines, equation 10.18. n has the current g in it.
 *
 * State: n. Without beta, a coordinate that has only seen zeros has the rate 0 and stays. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>

#include "rule/builtin.h"

struct adagrad {
    float lr;
    float beta;
    float mu;
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    static const struct rbt_builtin_range ranges[] = {
        {.name = "lr", .fallback = 0.1, .max = 1e6, .is_open = true},
        {.name = "beta", .fallback = 1e-12, .min = 1e-30, .max = 1e6},
        {.name = "mu", .fallback = 0, .max = 1e6},
    };
    double values[3];
    rbt_status st = rbt_builtin_numbers(setup, ranges, 3, values);
    if (st == RBT_OK) {
        st = rbt_builtin_new(setup, sizeof(struct adagrad), self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct adagrad *)*self =
        (struct adagrad){.lr = (float)values[0], .beta = (float)values[1], .mu = (float)values[2]};
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = setup->width;
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)message;
    const struct adagrad a = *(const struct adagrad *)self;
    float *restrict w = row->values;
    float *restrict n = row->state;
    const float *restrict g = row->delta;
    for (size_t i = 0; i < row->width; i++) {
        n[i] += g[i] * g[i];
        w[i] -= a.lr / (a.beta + sqrtf(n[i])) * (g[i] + a.mu * w[i]);
    }
    return RBT_OK;
}

const struct rbt_rule rbt_rule_adagrad = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_adagrad,
    .name = "adagrad",
    .summary = "A step per coordinate that shrinks with the gradients it has seen.",
    .create = create,
    .destroy = rbt_builtin_free,
    .apply = apply};
