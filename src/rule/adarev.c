/* rule/adarev.c - AdaRevision: AdaGrad that takes back what late gradients should not have done:
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
 * With trust=c the row as a whole finds its step, and lr is no more than where a row of zeros
 * begins. |.| is the norm of a row, and its size is |w| / sqrt(width):
 *
 *     g   <- g min(1, |root of z'| / |g|)   no gradient counts more than all before it together
 *     d    = c size at first, or lr if that is 0; then d <- min(d, max(c size, d / 2))
 *     q    = |gbar|^2 / |root of z'|^2      about 1 if gradients are noise, t if all t agree
 *     eta  = d max(1, q)^2.5 / (beta + sqrt(z')), and all else as above
 *
 * While all agree, the step of update t is t^2 times the first. q needs no more than what is there,
 * and gradients from the same read do not seem to agree: z counts them as one. d changes once per
 * round: by an update from a read that knew of its last change. "Distance over gradients" (Ivgi and
 * others, 2023) and layer-wise trust ratios (You and others, 2017) gave the idea; neither is this.
 * docs/experiments/adaptive.md says how well it does.
 *
 * State: gbar, z, z', d max(1, q)^2.5, d, and the count of the last change of d. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>
#include <stdint.h>

#include "rule/builtin.h"

struct adarev {
    float lr;
    float beta;
    float trust; /* 0: the plain formula */
    void (*revise)(const struct adarev *a, const struct rbt_rule_row *row);
};

__attribute__((always_inline)) static inline void
revise(const struct adarev *a, const struct rbt_rule_row *row, size_t width)
{
    const float lr = a->lr;
    const float beta = a->beta;
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
}

/* --- With trust ------------------------------------------------------------------------------- */

static const float growth_max = 1e4F; /* finite, where gradients agree for ever */

/* Behind gbar, z and z'. */
enum { TRUST_SCALE, TRUST_STEP, TRUST_COUNT, TRUST_WIDTH = TRUST_COUNT + RBT_BUILTIN_COUNT_WIDTH };

static float sum_of_squares(const float *values, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i] * values[i];
    }
    return sum;
}

static float sum_of(const float *values, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum;
}

/* d, which changes if the update knows of its last change. */
static float settle_step(const struct adarev *a, const struct rbt_rule_message *message,
                         const struct rbt_rule_row *row)
{
    float *own = row->state + 3 * (size_t)row->width;
    const float step = own[TRUST_STEP];
    if (step != 0 && message->count - message->delay < rbt_builtin_count(own + TRUST_COUNT)) {
        return step;
    }
    const float size = sqrtf(sum_of_squares(row->values, row->width) / (float)row->width);
    const float bound = a->trust * size;
    if (step == 0) {
        own[TRUST_STEP] = bound > 0 ? bound : a->lr;
    } else if (step > bound) {
        own[TRUST_STEP] = fmaxf(bound, step / 2);
    }
    rbt_builtin_set_count(own + TRUST_COUNT, message->count + 1);
    return own[TRUST_STEP];
}

/* Of gradients: there is nothing to limit the first one by. */
static float limit(const struct rbt_rule_row *row)
{
    const float size = sum_of_squares(row->delta, row->width);
    const float before = sum_of(row->state + 2 * (size_t)row->width, row->width);
    return before > 0 && size > before ? sqrtf(before / size) : 1;
}

static void revise_with_trust(const struct adarev *a, const struct rbt_rule_message *message,
                              const struct rbt_rule_row *row)
{
    const size_t width = row->width;
    float *gbar = row->state;
    float *z = row->state + width;
    float *largest = row->state + 2 * width;
    float *own = row->state + 3 * width;
    const float step = settle_step(a, message, row);
    const float factor = limit(row);
    float agreed = 0;
    float seen = 0;
    for (size_t i = 0; i < width; i++) {
        const float g = factor * row->delta[i];
        const float sum = z[i] + (g * g + 2 * g * (gbar[i] - row->before[i]));
        const float now = gbar[i] + g;
        agreed += now * now;
        seen += sum > largest[i] ? sum : largest[i];
    }
    const float q = seen > 0 ? agreed / seen : 1;
    const float scale = step * (q > 1 ? fminf(q * q * sqrtf(q), growth_max) : 1);
    for (size_t i = 0; i < width; i++) {
        const float g = factor * row->delta[i];
        const float b = gbar[i] - row->before[i];
        const float old = own[TRUST_SCALE] / (a->beta + sqrtf(largest[i]));
        z[i] += g * g + 2 * g * b;
        largest[i] = z[i] > largest[i] ? z[i] : largest[i];
        const float eta = scale / (a->beta + sqrtf(largest[i]));
        row->values[i] += -eta * g + (old - eta) * b;
        gbar[i] += g;
    }
    own[TRUST_SCALE] = scale;
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
        .lr = (float)values[0], .beta = (float)values[1], .trust = (float)values[3]};
    choose(*self);
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = 3 * setup->width + (values[3] > 0 ? TRUST_WIDTH : 0);
    needs->snapshot_width = setup->width;
    needs->snapshot_max = (uint64_t)values[2];
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct adarev *a = self;
    if (a->trust > 0) {
        revise_with_trust(a, message, row);
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
