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
    RBT_POLICY_APART
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

enum { LR, BETA, MU, TRUST, PARAMETERS };

static const struct rbt_policy_parameter parameters[] = {
    [LR] = {"lr", "the step size", .fallback = 0.1, .max = 1e6, .is_open = true},
    [BETA] = {"beta", "added to the root of the sum of squares; 1 if mu is given",
              .fallback = 1e-12, .min = 1e-30, .max = 1e6},
    [MU] = {"mu", "weight decay", .max = 1e6},
    [TRUST] = {"trust", "initial step of a row, relative to its size; 0: off", .max = 1e6},
    [PARAMETERS] = {.name = NULL}};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    double v[PARAMETERS];
    rbt_status st = rbt_builtin_numbers(setup, parameters, v);
    if (st == RBT_OK && v[MU] != 0) {
        struct rbt_policy_parameter with_decay = parameters[BETA];
        with_decay.fallback = 1;
        st = rbt_builtin_number(setup, &with_decay, &v[BETA]);
    }
    if (st == RBT_OK && v[MU] > 0 && v[TRUST] > 0) {
        st = rbt_fail(RBT_E_INVALID, "mu does not go with trust");
    }
    if (st == RBT_OK) {
        st = rbt_policy_new(sizeof(struct adagrad), "rule", setup->table, self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct adagrad *)*self = (struct adagrad){
        .trust = {.lr = (float)v[LR], .beta = (float)v[BETA], .trust = (float)v[TRUST]},
        .mu = (float)v[MU]};
    choose(*self);
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = v[TRUST] > 0 ? rbt_trust_state_width(setup->width, false) : setup->width;
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

static const struct rbt_rule rule = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rule,
    .name = "adagrad",
    .summary = "A step per coordinate that shrinks with the gradients it has seen.",
    .create = create,
    .destroy = rbt_policy_free,
    .apply = apply};

const struct rbt_policy rbt_rule_adagrad = {
    .code = &rule,
    .choose = "Sparse data, as a first choice: rare features take larger steps.",
    .formula = "n += g^2; w -= lr/(beta + sqrt(n)) (g + mu w)",
    .parameters = parameters};
