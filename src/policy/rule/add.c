/* policy/rule/add.c - adds every update as it comes:
 *
 *     w <- w + u
 *
 * The rule of the first parameter servers; the baseline "SSPSGD" of the papers on bounded
 * staleness. Updates of slow workers count as much as fresh ones. Cost: one pass over the row. */
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stddef.h>

#include "policy/rule/builtin.h"

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    (void)setup;
    needs->input = RBT_RULE_MOVES;
    *self = NULL;
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)self;
    (void)message;
    float *restrict w = row->values;
    const float *restrict u = row->delta;
    RBT_BUILTIN_APART
    for (size_t i = 0; i < row->width; i++) {
        w[i] += u[i];
    }
    return RBT_OK;
}

const struct rbt_rule rbt_rule_add = {.abi = RBT_RULE_ABI,
                                      .struct_size = sizeof rbt_rule_add,
                                      .name = "add",
                                      .summary = "Adds every update unchanged.",
                                      .create = create,
                                      .apply = apply};
