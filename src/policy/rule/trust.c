/* policy/rule/trust.c - AdaGrad and AdaRevision whose rows find their own steps. lr is no more than
 * where a row of zeros begins. |.| is the norm of a row, and its size is |w| / sqrt(width):
 *
 *     g   <- g min(1, sqrt(s) / |g|)        no gradient counts more than all before it together
 *     d    = c size at first, or lr if that is 0; then d <- min(d, max(c size, d / 2))
 *     z   <- z + g^2 + 2 g b,   z' <- max(z', z),   s <- max(s, sum of z)
 *     q    = |gbar + g|^2 / s               about 1 if gradients are noise, t if all t agree
 *     eta  = d max(1, q)^2.5 / (beta + sqrt(z')), and all else as without trust (rule/adarev.c;
 *                                           in adagrad b is 0)
 *
 * While all agree, the step of update t is t^2 times the first. q needs no more than what is there,
 * and gradients from the same read do not seem to agree: z counts them as one. d changes once per
 * round: by an update from a read that knew of its last change. "Distance over gradients" (Ivgi and
 * others, 2023) and layer-wise trust ratios (You and others, 2017) gave the idea; neither is this.
 * docs/experiments/adaptive.md says how well it does.
 *
 * State: gbar, which comes first, since it is what is kept as of every read; z; with b
 * 1 / (beta + sqrt(z')), which stands for z' as eta does in rule/adarev.c; and of the row as a
 * whole s, d max(1, q)^2.5, d, and the count of the last change of d. */
#include "policy/rule/trust.h"

#include <math.h>
#include <stddef.h>

#include "policy/rule/builtin.h"

#define ALWAYS_INLINE __attribute__((always_inline)) static inline

/* Sums are of LANES running sums, so that vector units can make them, and of the rest, in order:
 * the same on every processor. */
enum { LANES = 8 };
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef float loose_lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef float quad __attribute__((vector_size(16), may_alias));
#if defined(__clang__)
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int order __attribute__((vector_size(16)));
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (order){i, j, k, l})
#endif

/* No function, since it could not return them where there are no such registers. */
#define AT(values, i) (*(const loose_lanes *)((values) + (i)))

/* Behind what there is for every weight. */
enum { SEEN, SCALE, STEP, COUNT, OWN_WIDTH = COUNT + RBT_BUILTIN_COUNT_WIDTH };

static const float growth_max = 1e4F; /* finite, where gradients agree for ever */

struct sums {
    float gradient; /* |g|^2 */
    float agreed;   /* |gbar + g|^2 */
    float total;    /* of z, with this gradient */
    float weights;  /* |w|^2 */
};

/* s[0] + s[4], s[1] + s[5], ... */
#define HALVES(s) (((const quad *)&(s))[0] + ((const quad *)&(s))[1])

/* The sum of each and its rest: ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7)) + rest. */
ALWAYS_INLINE struct sums fold(const lanes s[4], const struct sums *rest)
{
    const quad a = HALVES(s[0]);
    const quad b = HALVES(s[1]);
    const quad c = HALVES(s[2]);
    const quad d = HALVES(s[3]);
    const quad ab = SHUFFLE(a, b, 0, 4, 1, 5) + SHUFFLE(a, b, 2, 6, 3, 7);
    const quad cd = SHUFFLE(c, d, 0, 4, 1, 5) + SHUFFLE(c, d, 2, 6, 3, 7);
    const quad all = SHUFFLE(ab, cd, 0, 1, 4, 5) + SHUFFLE(ab, cd, 2, 3, 6, 7);
    return (struct sums){all[0] + rest->gradient, all[1] + rest->agreed, all[2] + rest->total,
                         all[3] + rest->weights};
}

/* Of a row and `factor` times its gradient. */
ALWAYS_INLINE struct sums add_up(const struct rbt_rule_row *row, size_t width, float factor,
                                 bool is_revised)
{
    const float *gbar = row->state;
    const float *z = row->state + width;
    const float *before = row->before;
    lanes sums[4] = {{0}};
    size_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        const lanes g = factor * AT(row->delta, i);
        const lanes now = AT(gbar, i) + g;
        sums[0] += g * g;
        sums[1] += now * now;
        if (is_revised) {
            const lanes b = AT(gbar, i) - AT(before, i);
            sums[2] += AT(z, i) + (g * g + 2 * g * b);
        } else {
            sums[2] += AT(z, i) + g * g;
        }
        sums[3] += AT(row->values, i) * AT(row->values, i);
    }
    struct sums rest = {0};
    for (; i < width; i++) {
        const float g = factor * row->delta[i];
        const float b = is_revised ? gbar[i] - before[i] : 0;
        const float now = gbar[i] + g;
        rest.gradient += g * g;
        rest.agreed += now * now;
        rest.total += z[i] + (g * g + 2 * g * b);
        rest.weights += row->values[i] * row->values[i];
    }
    return fold(sums, &rest);
}

/* d, which changes if the update knows of its last change. The root is rarely needed: most steps
 * are smaller than their rows. */
ALWAYS_INLINE float settle_step(const struct rbt_trust *t, const struct rbt_rule_message *message,
                                float mean_square, float *own)
{
    const float step = own[STEP];
    if (step != 0 && message->count - message->delay < rbt_builtin_count(own + COUNT)) {
        return step;
    }
    rbt_builtin_set_count(own + COUNT, message->count + 1);
    const float square = t->trust * t->trust * mean_square;
    if (step != 0 && step * step <= square) {
        return step;
    }
    const float bound = sqrtf(square);
    if (step == 0) {
        own[STEP] = bound > 0 ? bound : t->lr;
    } else { /* the bound is below the step */
        own[STEP] = bound > step / 2 ? bound : step / 2;
    }
    return own[STEP];
}

/* What the step is multiplied by if gradients agree. A branch: when the processor guesses that they
 * do not, it need not wait for the sums before it begins with the weights. */
ALWAYS_INLINE float growth(float agreed, float seen)
{
    const float all = seen > 0 ? seen : 1;
    if (__builtin_expect_with_probability(agreed <= all, 1, 0.95)) {
        return 1;
    }
    const float q = agreed / all;
    const float grown = q * q * sqrtf(q);
    return grown < growth_max ? grown : growth_max;
}

ALWAYS_INLINE void descend(const struct rbt_trust *t, const struct rbt_rule_message *message,
                           const struct rbt_rule_row *row, size_t width, bool is_revised)
{
    const float beta = t->beta;
    float *restrict w = row->values;
    float *restrict gbar = row->state;
    float *restrict z = row->state + width;
    float *restrict rate = row->state + 2 * width;
    float *own = row->state + (is_revised ? 3 : 2) * width;
    const float *restrict delta = row->delta;
    const float *restrict before = row->before;
    struct sums sums = add_up(row, width, 1, is_revised);
    float factor = 1;
    if (own[SEEN] > 0 && sums.gradient > own[SEEN]) { /* nothing limits the first one */
        factor = sqrtf(own[SEEN] / sums.gradient);
        sums = add_up(row, width, factor, is_revised);
    }
    own[SEEN] = sums.total > own[SEEN] ? sums.total : own[SEEN];
    const float old = own[SCALE];
    const float scale =
        settle_step(t, message, sums.weights / (float)width, own) * growth(sums.agreed, own[SEEN]);
    own[SCALE] = scale;
    RBT_BUILTIN_APART
    for (size_t i = 0; is_revised && i < width; i++) {
        const float g = factor * delta[i];
        const float b = gbar[i] - before[i];
        const float sum = z[i] + (g * g + 2 * g * b);
        const float made = 1 / (beta + sqrtf(sum < 0 ? 0 : sum));
        const float bound = rate[i] == 0 ? INFINITY : rate[i];
        const float now = made < bound ? made : bound;
        w[i] += -(scale * now) * g + (old * rate[i] - scale * now) * b;
        gbar[i] += g;
        z[i] = sum;
        rate[i] = now;
    }
    RBT_BUILTIN_APART
    for (size_t i = 0; !is_revised && i < width; i++) {
        const float g = factor * delta[i];
        z[i] += g * g;
        w[i] -= scale * (1 / (beta + sqrtf(z[i]))) * g;
        gbar[i] += g;
    }
}

#define DEFINE(name, is_revised, attributes)                                                       \
    attributes static void name(const struct rbt_trust *t, const struct rbt_rule_message *message, \
                                const struct rbt_rule_row *row)                                    \
    {                                                                                              \
        if (row->width == 1) { /* frequent, and nothing for the vector units */                    \
            descend(t, message, row, 1, is_revised);                                               \
        } else {                                                                                   \
            descend(t, message, row, row->width, is_revised);                                      \
        }                                                                                          \
    }

DEFINE(descend_anywhere, false, )
DEFINE(revise_anywhere, true, )
#if defined(__x86_64__)
/* Roots and divisions twice as wide, without a fused multiplication. */
DEFINE(descend_avx2, false, __attribute__((target("avx2"))))
DEFINE(revise_avx2, true, __attribute__((target("avx2"))))
#endif

void rbt_trust_choose(struct rbt_trust *t, bool is_revised)
{
    t->descend = is_revised ? revise_anywhere : descend_anywhere;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        t->descend = is_revised ? revise_avx2 : descend_avx2;
    }
#endif
}

uint32_t rbt_trust_state_width(uint32_t width, bool is_revised)
{
    /* If vectors fill the width, all of them stay within a line of the cache. */
    const uint32_t own = width % LANES == 0 ? (OWN_WIDTH + LANES - 1) / LANES * LANES : OWN_WIDTH;
    return (is_revised ? 3 : 2) * width + own;
}
