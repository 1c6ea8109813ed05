/* policy/rule/adarev.c - AdaRevision: AdaGrad that takes back what late gradients should not have
 * done:
 *
 *     b    = gbar - gbar_old                what others have added since the gradient's read
 *     z   <- z + g^2 + 2 g b,   z' <- max(z', z)
 *     eta  = lr / (beta + sqrt(z'))         eta_old: the same before
 *     w   <- w - eta g + (eta_old - eta) b
 *     gbar <- gbar + g
 *
 * McMahan and Streeter, "Delay-tolerant algorithms for asynchronous distributed online learning",
 * 2014, as used by Wei and others, "Managed communication and consistency for fast data-parallel
 * iterative analytics", section 3.4. Li's thesis, section 8.3.1, prints the rate without its
 * inverse. Without delay b = 0, and this is adagrad with the same lr and beta, bit by bit.
 *
 * State: gbar, z, eta. gbar comes first, since it is what is kept as of every read. eta stands for
 * z': both roundings are monotonic, so the least rate so far is the rate of the largest z so far,
 * and half of the roots and divisions are saved. An eta of 0 means that there was none, and then b
 * is 0 as well. beta keeps the rate finite where only zeros were seen.
 *
 * With trust=c rows find their own steps: rule/trust.c. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rule/builtin.h"
#include "policy/rule/trust.h"

struct adarev {
    struct rbt_trust trust; /* with the parameters that both formulas have */
    void (*revise)(const struct adarev *a, const struct rbt_rule_row *row);
};

__attribute__((always_inline)) static inline void
revise(const struct adarev *a, const struct rbt_rule_row *row, size_t width)
{
    const float lr = a->trust.lr;
    const float beta = a->trust.beta;
    float *restrict w = row->values;
    float *restrict gbar = row->state;
    float *restrict z = row->state + width;
    float *restrict eta = row->state + 2 * width;
    const float *restrict g = row->delta;
    const float *restrict before = row->before;
    RBT_BUILTIN_APART
    for (size_t i = 0; i < width; i++) {
        const float b = gbar[i] - before[i];
        const float sum = z[i] + (g[i] * g[i] + 2 * g[i] * b);
        const float rate = lr / (beta + sqrtf(sum < 0 ? 0 : sum));
        const float old = eta[i];
        const float bound = old == 0 ? INFINITY : old;
        const float now = rate < bound ? rate : bound;
        w[i] += -now * g[i] + (old - now) * b;
        gbar[i] += g[i];
        z[i] = sum;
        eta[i] = now;
    }
}

static void revise_anywhere(const struct adarev *a, const struct rbt_rule_row *row)
{
    revise(a, row, row->width);
}

#if defined(__x86_64__)
/* Roots and divisions twice as wide, without a fused multiplication: the bits are the same. */
__attribute__((target("avx2"))) static void revise_avx2(const struct adarev *a,
                                                        const struct rbt_rule_row *row)
{
    revise(a, row, row->width);
}
#endif

static void choose(struct adarev *a)
{
    a->revise = revise_anywhere;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        a->revise = revise_avx2;
    }
#endif
    rbt_trust_choose(&a->trust, true);
}

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    static const struct rbt_builtin_range ranges[] = {
        {.name = "lr", .fallback = 0.1, .max = 1e6, .is_open = true},
        {.name = "beta", .fallback = 1e-12, .min = 1e-30, .max = 1e6},
        {.name = "max", .max = UINT32_MAX - 1, .is_whole = true},
        {.name = "trust", .max = 1e6},
    };
    double values[4];
    rbt_status st = rbt_builtin_numbers(setup, ranges, 4, values);
    if (st == RBT_OK) {
        st = rbt_builtin_new(setup, sizeof(struct adarev), self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct adarev *)*self = (struct adarev){
        .trust = {.lr = (float)values[0], .beta = (float)values[1], .trust = (float)values[3]}};
    choose(*self);
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width =
        values[3] > 0 ? rbt_trust_state_width(setup->width, true) : 3 * setup->width;
    needs->snapshot_width = setup->width;
    needs->snapshot_max = (uint64_t)values[2];
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct adarev *a = self;
    if (a->trust.trust > 0) {
        a->trust.descend(&a->trust, message, row);
    } else if (row->width == 1) {
        revise(a, row, 1); /* frequent, and nothing for the vector units */
    } else {
        a->revise(a, row);
    }
    return RBT_OK;
}

const struct rbt_rule rbt_rule_adarev = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_adarev,
    .name = "adarev",
    .summary = "AdaGrad that corrects earlier steps when a late gradient arrives.",
    .create = create,
    .destroy = rbt_builtin_free,
    .apply = apply};
