/* policy/rule/rule.h - rules by their text, and instances of them.
 *
 * A text is NAME[:k=v,...], where NAME is that of a rule that comes with Rubato, or the path of a
 * shared object, which has a '/' in it. Every rule also knows the parameter "aggregate": with
 * aggregate=1 the updates of all workers of a clock are summed and applied as one. */
#ifndef RUBATO_POLICY_RULE_RULE_H
#define RUBATO_POLICY_RULE_RULE_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/rule.h>
#include <rubato/status.h>

#include "base/source.h"
#include "policy/registry.h"

extern const struct rbt_policy_kind rbt_policy_rules;

/* The rule that the text names; it stays for as long as the process. Shared objects are opened, and
 * refused with a sentence if they do not fit: RBT_E_INVALID. Threads: any. */
RBT_MUST_USE rbt_status rbt_rule_find(const char *text, const struct rbt_rule **rule);

/* What a parameter of the rule is unless the text gives it; 0 if the rule has no such parameter, or
 * is a user's, whose own defaults only the rule knows. */
double rbt_rule_default(const char *text, const char *parameter);

/* An instance: what its functions get as `self`, and what it needs. */
struct rbt_rule_instance {
    const struct rbt_rule *rule; /* NULL: there is none */
    void *self;
    struct rbt_rule_needs needs;
};

/* For a table; `text` says with which parameters. */
struct rbt_rule_table {
    const char *name;
    uint32_t width;
    uint32_t worker_count;
};
RBT_MUST_USE rbt_status rbt_rule_create(const struct rbt_rule *rule, const char *text,
                                        const struct rbt_rule_table *table,
                                        struct rbt_rule_instance *instance);

/* What the instance has learnt. Loading into one that was just made by the same rule with the same
 * parameters; what the rule refuses is refused, and the instance is then to be destroyed. */
void rbt_rule_save(const struct rbt_rule_instance *instance, struct rbt_sink *sink);
void rbt_rule_load(struct rbt_rule_instance *instance, struct rbt_source *source);

/* Accepts an empty one and leaves one. */
void rbt_rule_destroy(struct rbt_rule_instance *instance);

#endif
