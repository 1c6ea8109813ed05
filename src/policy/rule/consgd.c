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

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    const double workers = setup->worker_count == 0 ? 1 : setup->worker_count;
    const struct rbt_builtin_range range = {
        .name = "factor", .fallback = 1 / workers, .max = 1, .is_open = true};
    double factor = 0;
    rbt_status st = rbt_builtin_number(setup, &range, &factor);
    if (st == RBT_OK) {
        st = rbt_builtin_new(setup, sizeof(struct consgd), self);
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
    RBT_BUILTIN_APART
    for (size_t i = 0; i < row->width; i++) {
        w[i] += factor * u[i];
    }
    return RBT_OK;
}

const struct rbt_rule rbt_rule_consgd = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_consgd,
    .name = "consgd",
    .summary = "Adds every update with one weight, 1/workers unless given.",
    .create = create,
    .destroy = rbt_builtin_free,
    .apply = apply};
