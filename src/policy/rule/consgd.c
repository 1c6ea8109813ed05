/* policy/rule/consgd.c - ConSGD: adds every update with one constant weight:
 *
 *     w <- w + lambda u,   lambda = 1/M for M workers unless given
 *
 * Jiang and others, "Heterogeneity-aware distributed parameter servers", section 4. With M workers
 * that all start from the same w and lambda = 1/M this is model averaging. */
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>

#include "policy/rule/builtin.h"

struct consgd {
    float factor;
};

static const struct rbt_policy_parameter parameters[] = {
    {"factor", "the weight of every update, above 0 and at most 1", .usual = "1/workers", .max = 1,
     .is_open = true},
    {.name = NULL}};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    struct rbt_policy_parameter parameter = parameters[0];
    double factor = 0;
    parameter.fallback = setup->worker_count == 0 ? 1 : 1.0 / setup->worker_count;
    rbt_status st = rbt_builtin_number(setup, &parameter, &factor);
    if (st == RBT_OK) {
        st = rbt_policy_new(sizeof(struct consgd), "rule", setup->table, self);
    }
    if (st != RBT_OK) {
        return st;
    }
    ((struct consgd *)*self)->factor = (float)factor;
    needs->input = RBT_RULE_MOVES;
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)message;
    const float factor = ((const struct consgd *)self)->factor;
    float *restrict w = row->values;
    const float *restrict u = row->delta;
    RBT_POLICY_APART
    for (size_t i = 0; i < row->width; i++) {
        w[i] += factor * u[i];
    }
    return RBT_OK;
}

static const struct rbt_rule rule = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rule,
    .name = "consgd",
    .summary = "Adds every update with one weight, 1/workers unless given.",
    .create = create,
    .destroy = rbt_policy_free,
    .apply = apply};

const struct rbt_policy rbt_rule_consgd = {
    .code = &rule,
    .choose = "Machines of different speed and scarce memory: steadier than add, equally cheap.",
    .formula = "w += factor u",
    .parameters = parameters};
