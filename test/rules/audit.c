/* rules/audit.c - a rule that sees through mistakes: every update says what it was computed from,
 * and the rule compares that with what it is told.
 *
 * A row counts the messages that were applied to it. Whoever reads it therefore reads the stamp of
 * the read, if every message of the table has the row; and an update of the row is, in its first
 * element, one more than what was read, times the number of updates that were added up; in its
 * second, that number. The base that the rule is told of, the tag that it gave the read, and the
 * state as of the read must all be the stamp.
 *
 * With rows=1 messages need not have every row: a row counts its own updates, and only the state as
 * of the read can be compared.
 *
 *     audit.so:fails=9    fails at message 9
 *     audit.so:max=4      keeps at most 4 snapshots: those of older reads are not to be had then */
#include <rubato/rule.h>
#include <stdlib.h>

struct audit {
    rbt_status (*fail)(const char *format, ...);
    double fails;
    double max;
    bool is_by_row;
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    struct audit *audit = malloc(sizeof *audit);
    if (audit == NULL) {
        return setup->fail("no memory");
    }
    audit->fail = setup->fail;
    audit->fails = setup->number(setup, "fails", 0);
    audit->max = setup->number(setup, "max", 0);
    audit->is_by_row = setup->number(setup, "rows", 0) != 0;
    needs->snapshot_max = (uint64_t)audit->max;
    needs->input = RBT_RULE_MOVES;
    needs->state_width = 2; /* messages; and one more than the number of the last */
    needs->snapshot_width = 1;
    *self = audit;
    return setup->width == 2 ? RBT_OK : setup->fail("rows have two elements");
}

static uint64_t on_send(void *self, const struct rbt_rule_send *send)
{
    (void)self;
    return send->count;
}

/* With rows=1. */
static rbt_status apply_by_row(const struct audit *audit, const struct rbt_rule_message *message,
                               const struct rbt_rule_row *row)
{
    const double base = (double)row->before[0];
    const double said = (double)(row->delta[0] / row->delta[1]) - 1;
    const bool is_right = said == base || (audit->max > 0 && said < base); /* the next is left */
    if (!is_right) {
        return audit->fail(
            "worker %u computed from update %g of row %llu what is said to come from %g",
            message->worker, said, (unsigned long long)row->key, base);
    }
    row->values[0] += 1;
    row->values[1] += row->delta[1];
    row->state[0] = row->values[0];
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct audit *audit = self;
    if (audit->is_by_row) {
        return apply_by_row(audit, message, row);
    }
    const double base = (double)(message->count - message->delay);
    if (audit->fails > 0 && (double)message->count >= audit->fails) {
        return audit->fail("that was message %g", audit->fails);
    }
    /* A message may have the row twice: two updates from one read here, but not at other shards. */
    const bool is_again = (double)row->state[1] == (double)message->count + 1;
    if ((double)row->values[0] != (double)(message->count + is_again)) {
        return audit->fail("row %llu has %g of %llu messages", (unsigned long long)row->key,
                           (double)row->values[0], (unsigned long long)message->count);
    }
    if ((double)row->delta[0] != (base + 1) * (double)row->delta[1]) {
        return audit->fail("worker %u computed from %g what is said to come from %g",
                           message->worker, (double)(row->delta[0] / row->delta[1]) - 1, base);
    }
    const bool is_before = (double)row->before[0] == base ||
                           (audit->max > 0 && (double)row->before[0] > base); /* the next is left */
    if ((double)message->tag != base || !is_before) {
        return audit->fail("worker %u read %g: the tag is %llu, the state was %g", message->worker,
                           base, (unsigned long long)message->tag, (double)row->before[0]);
    }
    row->values[0] = (float)(message->count + 1);
    row->values[1] += row->delta[1];
    row->state[0] = row->values[0];
    row->state[1] = row->values[0];
    return RBT_OK;
}

RBT_RULE_EXPORT const struct rbt_rule rbt_rule = {.abi = RBT_RULE_ABI,
                                                  .struct_size = sizeof rbt_rule,
                                                  .name = "audit",
                                                  .summary = "Compares what it is told.",
                                                  .create = create,
                                                  .destroy = free,
                                                  .send = on_send,
                                                  .apply = apply};
