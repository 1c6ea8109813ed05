/* examples/rule.c - a rule of your own: momentum, which averages out gradients that disagree.
 *
 *     v <- mu v + g,   w <- w - lr v
 *
 *     cc -O2 -shared -fPIC -o momentum.so rule.c $(pkg-config --cflags rubato)
 *     rubato train linear ... --rule ./momentum.so:lr=0.1,mu=0.9
 *
 * What it remembers is v, which is kept with the rows; `self` holds only parameters, so that it
 * needs neither save() nor load(). docs/rules.md explains what else a rule can do. */
#include <math.h>
#include <rubato/rule.h>
#include <stdlib.h>

struct momentum {
    float lr;
    float mu;
    rbt_status (*fail)(const char *format, ...);
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    const double lr = setup->number(setup, "lr", 0.05);
    const double mu = setup->number(setup, "mu", 0.9);
    if (!(mu >= 0 && mu < 1)) {
        return setup->fail("mu must be at least 0 and below 1, not %g", mu);
    }
    struct momentum *m = malloc(sizeof *m); /* tidy: allow heap, because users have no other */
    if (m == NULL) {
        return RBT_E_NOMEM;
    }
    *m = (struct momentum){.lr = (float)lr, .mu = (float)mu, .fail = setup->fail};
    needs->input = RBT_RULE_GRADIENTS;
    needs->state_width = setup->width; /* v, zero at first */
    *self = m;
    return RBT_OK;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct momentum *m = self;
    for (uint32_t i = 0; i < row->width; i++) {
        row->state[i] = m->mu * row->state[i] + row->delta[i];
        row->values[i] -= m->lr * row->state[i];
        if (!isfinite(row->values[i])) {
            return m->fail("worker %u sent row %llu out of bounds; is lr too large?",
                           message->worker, (unsigned long long)row->key);
        }
    }
    return RBT_OK;
}

RBT_RULE_EXPORT const struct rbt_rule rbt_rule = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule,
    .name = "momentum",
    .summary = "Gradient steps that keep some of their direction.",
    .create = create,
    .destroy = free,
    .apply = apply};
