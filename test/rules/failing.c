/* test/rules/failing.c - a user's rule that goes wrong as its text says, at any of its functions.
 *
 *     failing.so:create=1     create fails with a sentence; create=2 without
 *     failing.so:here=1       create fails in processes with RULE_FAILS_HERE in their environment
 *     failing.so:clock=5      apply fails from clock 5 on; with silent=1 without a word
 *     failing.so:crash=5      apply is killed by a signal at clock 5
 *     failing.so:stuck=5      apply does not return from clock 5 on
 *     failing.so:snapshots=1  more snapshots than state
 *     failing.so:gradients=1  takes gradients, and otherwise moves */
#include <rubato/rule.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct failing {
    rbt_status (*fail)(const char *format, ...);
    double clock;
    double crash;
    double stuck;
    double silent;
    double gradients;
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    const double how = setup->number(setup, "create", 0);
    const double is_here = setup->number(setup, "here", 0);
    const struct failing made = {.fail = setup->fail,
                                 .clock = setup->number(setup, "clock", 1e9),
                                 .crash = setup->number(setup, "crash", 1e9),
                                 .stuck = setup->number(setup, "stuck", 1e9),
                                 .silent = setup->number(setup, "silent", 0),
                                 .gradients = setup->number(setup, "gradients", 0)};
    needs->snapshot_width = (uint32_t)setup->number(setup, "snapshots", 0);
    needs->input = made.gradients != 0 ? RBT_RULE_GRADIENTS : RBT_RULE_MOVES;
    if (how == 1) {
        return setup->fail("create is %g", how);
    }
    if (is_here != 0 && getenv("RULE_FAILS_HERE") != NULL) {
        return setup->fail("it fails here");
    }
    struct failing *failing = how == 2 ? NULL : malloc(sizeof *failing);
    if (failing == NULL) {
        return RBT_E_NOMEM;
    }
    *failing = made;
    *self = failing;
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct failing *failing = self;
    if ((double)message->clock >= failing->crash) {
        (void)raise(SIGKILL); /* leaves no core, and no sanitizer's report */
    }
    while ((double)message->clock >= failing->stuck) {
        (void)pause(); /* signals come and go */
    }
    if ((double)message->clock >= failing->clock) {
        return failing->silent != 0
                   ? RBT_E_CLOSED
                   : failing->fail("clock %lld is too much", (long long)message->clock);
    }
    for (uint32_t i = 0; i < row->width; i++) {
        row->values[i] += (failing->gradients != 0 ? -0.1F : 1.0F) * row->delta[i];
    }
    return RBT_OK;
}

RBT_RULE_EXPORT const struct rbt_rule rbt_rule = {.abi = RBT_RULE_ABI,
                                                  .struct_size = sizeof rbt_rule,
                                                  .name = "failing",
                                                  .summary = "Fails as its text says.",
                                                  .create = create,
                                                  .destroy = free,
                                                  .apply = apply};
