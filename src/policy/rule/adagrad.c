/* policy/rule/adagrad.c - AdaGrad: a step per coordinate that shrinks with the gradients seen so
 * far:
 *
 *     n <- n + g^2,   w <- w - lr / (beta + sqrt(n)) (g + mu w)
 *
 * Duchi, Hazan and Singer, 2011; with stale gradients it is the "AsyncAdaGrad" of Li's thesis,
 * section 8.3.1 (which prints the rate without its inverse), and with beta and mu it is that of its
 * factorisation machines, equation 10.18. n has the current g in it.
 *
 * State: n. beta keeps the rate finite where only zeros were seen; with mu, which moves weights
 * there as well, it is 1 unless given. With trust=c rows find their own steps: rule/trust.c. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>

#include "base/error.h"
#include "policy/rule/builtin.h"
#include "policy/rule/trust.h"

struct adagrad {
    struct rbt_trust trust; /* with the parameters that both formulas have */
    float mu;
    void (*descend)(const struct adagrad *a, const struct rbt_rule_row *row);
};

__attribute__((always_inline)) static inline void descend(const struct adagrad *a,
                                                          const struct rbt_rule_row *row)
{
    const float lr = a->trust.lr;
    const float beta = a->trust.beta;
    const float mu = a->mu;
    const size_t width = row->width;
    float *restrict w = row->values;
    float *restrict n = row->state;
    const float *restrict g = row->delta;
    RBT_BUILTIN_APART
    for (size_t i = 0; i < width; i++) {
        n[i] += g[i] * g[i];
        w[i] -= lr / (beta + sqrtf(n[i])) * (g[i] + mu * w[i]);
    }
}

static void descend_anywhere(const struct adagrad *a, const struct rbt_rule_row *row)
{
    descend(a, row);
}

#if defined(__x86_64__)
/* Roots and divisions twice as wide, without a fused multiplication: the bits are the same. */
__attribute__((target("avx2"))) static void descend_avx2(const struct adagrad *a,
                                                         const struct rbt_rule_row *row)
{
    descend(a, row);
}
#endif

static void choose(struct adagrad *a)
{
    a->descend = descend_anywhere;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        a->descend = descend_avx2;
    }
#endif
    rbt_trust_choose(&a->trust, false);
}

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    static const struct rbt_builtin_range ranges[] = {
        {.name = "lr", .fallback = 0.1, .max = 1e6, .is_open = true},
        {.name = "mu", .max = 1e6},
        {.name = "trust", .max = 1e6},
    };
    struct rbt_builtin_range range = {.name = "beta", .fallback = 1e-12, .min = 1e-30, .max = 1e6};
    double values[3];
    double beta = 0;
    rbt_status st = rbt_builtin_numbers(setup, ranges, 3, values);
    if (st == RBT_OK) {
        range.fallback = values[1] == 0 ? range.fallback : 1;
        st = rbt_builtin_number(setup, &range, &beta);
    }
    if (st == RBT_OK && values[1] > 0 && values[2] > 0) {
        st = rbt_fail(RBT_E_INVALID, "mu does not go with trust");
    }
    if (st == RBT_OK) {
        st = rbt_builtin_new(setup, sizeof(struct adagrad), self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct adagrad *)*self = (struct adagrad){
        .trust = {.lr = (float)values[0], .beta = (float)beta, .trust = (float)values[2]},
        .mu = (float)values[1]};
    choose(*self);
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = values[2] > 0 ? rbt_trust_state_width(setup->width, false) : setup->width;
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct adagrad *a = self;
    if (a->trust.trust > 0) {
        a->trust.descend(&a->trust, message, row);
    } else {
        a->descend(a, row);
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
