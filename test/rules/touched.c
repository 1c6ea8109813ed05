/* rules/touched.c - a rule that sees through mistakes when messages have only some of the rows.
 *
 * The first element of a row is the number of the message that last changed it, counted from 1, and
 * so is its state. Whoever computes an update adds what it has read there to the first element of
 * the update, and 1 to the second, any number of times. The state as of the read that the update is
 * said to be computed from must then be what was read. The second element of the row counts. */
#include <rubato/rule.h>
#include <stdlib.h>

struct touched {
    rbt_status (*fail)(const char *format, ...);
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    struct touched *touched = malloc(sizeof *touched);
    if (touched == NULL) {
        return setup->fail("no memory");
    }
    touched->fail = setup->fail;
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = 1;
    needs->snapshot_width = 1;
    *self = touched;
    return setup->width == 2 ? RBT_OK : setup->fail("rows have two elements");
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct touched *touched = self;
    if (row->delta[0] != row->before[0] * row->delta[1]) {
        return touched->fail("worker %u computed from %g of row %llu what is said to come from %g",
                             message->worker, (double)(row->delta[0] / row->delta[1]),
                             (unsigned long long)row->key, (double)row->before[0]);
    }
    row->values[0] = (float)(message->count + 1);
    row->values[1] += row->delta[1];
    row->state[0] = row->values[0];
    return RBT_OK;
}

RBT_RULE_EXPORT const struct rbt_rule rbt_rule = {.abi = RBT_RULE_ABI,
                                                  .struct_size = sizeof rbt_rule,
                                                  .name = "touched",
                                                  .summary = "Compares what it is told.",
                                                  .create = create,
                                                  .destroy = free,
                                                  .apply = apply};
