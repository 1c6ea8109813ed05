/* policy/rule/adadelay.c - AdaDelay: a step per coordinate that shrinks with the measured delay:
 *
 *     s_j <- s_j + t / (t + tau) g_j^2,   c_j = sqrt(s_j / t)
 *     w_j <- proj(w_j - lr / (L + c_j (t + tau)^gamma) g_j)
 *
 * Sra, Yu, Li and Smola, "AdaDelay: delay adaptive distributed stochastic optimization", 2016; Li's
 * thesis, sections 8.2 and 8.3.1 and corollary 19 (whose text writes eta for gamma). t counts the
 * messages, from 1, and tau is how many came since the gradient's read.
 *
 * radius=R projects onto the box |w_j| <= R. A ball would need the norm of a whole model that is
 * spread over rows and shards; a box does what the theory asks for, which is a bounded domain.
 *
 * State: s. The server keeps no more than AdaGrad does. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>

#include "policy/rule/builtin.h"

struct adadelay {
    float lr;
    float offset; /* L */
    float radius; /* infinite: none */
    double gamma;
    float weight; /* t / (t + tau) of the message that is being applied */
    float growth; /* (t + tau)^gamma / sqrt(t) of the same */
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    enum { LR, OFFSET, GAMMA, RADIUS, PARAMETERS };
    static const struct rbt_builtin_range ranges[PARAMETERS] = {
        [LR] = {.name = "lr", .fallback = 0.1, .max = 1e6, .is_open = true},
        [OFFSET] = {.name = "L", .fallback = 1, .max = 1e6, .is_open = true},
        [GAMMA] = {.name = "gamma", .fallback = 0.5, .max = 1, .is_open = true},
        [RADIUS] = {.name = "radius", .max = 1e30},
    };
    double v[PARAMETERS];
    rbt_status st = rbt_builtin_numbers(setup, ranges, PARAMETERS, v);
    if (st == RBT_OK) {
        st = rbt_builtin_new(setup, sizeof(struct adadelay), self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct adadelay *)*self =
        (struct adadelay){.lr = (float)v[LR],
                          .offset = (float)v[OFFSET],
                          .gamma = v[GAMMA],
                          .radius = v[RADIUS] == 0 ? INFINITY : (float)v[RADIUS]};
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = setup->width;
    return RBT_OK;
}

static void begin(void *self, const struct rbt_rule_message *message)
{
    struct adadelay *a = self;
    const double t = (double)message->count + 1;
    const double sum = t + (double)message->delay;
    a->weight = (float)(t / sum);
    a->growth = (float)(pow(sum, a->gamma) / sqrt(t));
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)message;
    const struct adadelay a = *(const struct adadelay *)self;
    float *restrict w = row->values;
    float *restrict s = row->state;
    const float *restrict g = row->delta;
    RBT_BUILTIN_APART
    for (size_t i = 0; i < row->width; i++) {
        s[i] += a.weight * (g[i] * g[i]);
        const float moved = w[i] - a.lr / (a.offset + a.growth * sqrtf(s[i])) * g[i];
        const float below = moved > a.radius ? a.radius : moved;
        w[i] = below < -a.radius ? -a.radius : below;
    }
    return RBT_OK;
}

const struct rbt_rule rbt_rule_adadelay = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_adadelay,
    .name = "adadelay",
    .summary = "A step per coordinate that shrinks with the measured delay of the gradient.",
    .create = create,
    .destroy = rbt_builtin_free,
    .begin = begin,
    .apply = apply};
