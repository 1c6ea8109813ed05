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

enum { LR, OFFSET, GAMMA, RADIUS, PARAMETERS };

static const struct rbt_policy_parameter parameters[] = {
    [LR] = {"lr", "the step size", .fallback = 0.1, .max = 1e6, .is_open = true},
    [OFFSET] = {"L", "how steep the gradient may be; bounds the first steps by lr/L", .fallback = 1,
                .max = 1e6, .is_open = true},
    [GAMMA] = {"gamma", "the power with which steps shrink with time and delay", .fallback = 0.5,
               .max = 1, .is_open = true},
    [RADIUS] = {"radius", "keep every weight between -radius and radius; 0: no limit", .max = 1e30},
    [PARAMETERS] = {.name = NULL}};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    double v[PARAMETERS];
    rbt_status st = rbt_builtin_numbers(setup, parameters, v);
    if (st == RBT_OK) {
        st = rbt_policy_new(sizeof(struct adadelay), "rule", setup->table, self);
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
    RBT_POLICY_APART
    for (size_t i = 0; i < row->width; i++) {
        s[i] += a.weight * (g[i] * g[i]);
        const float moved = w[i] - a.lr / (a.offset + a.growth * sqrtf(s[i])) * g[i];
        const float below = moved > a.radius ? a.radius : moved;
        w[i] = below < -a.radius ? -a.radius : below;
    }
    return RBT_OK;
}

static const struct rbt_rule rule = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rule,
    .name = "adadelay",
    .summary = "A step per coordinate that shrinks with the measured delay of the gradient.",
    .create = create,
    .destroy = rbt_policy_free,
    .begin = begin,
    .apply = apply};

const struct rbt_policy rbt_rule_adadelay = {
    .code = &rule,
    .choose = "Stragglers, when memory is scarce: late gradients take smaller steps, and the "
              "server needs no more memory than with adagrad.",
    .formula = "w -= lr/(L + c (t + delay)^gamma) g, c^2 = mean of t/(t + delay) g^2",
    .parameters = parameters};
