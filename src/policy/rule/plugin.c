/* policy/rule/plugin.c - rules from shared objects (base/plugin.h).
 *
 * Threads: any. Memory: none. */
#include "policy/rule/plugin.h"

#include <stddef.h>

#include "policy/plugin.h"

static const char *missing(const void *found)
{
    const struct rbt_rule *rule = found;
    return rule->name == NULL                         ? "name"
           : rule->create == NULL                     ? "create function"
           : rule->apply == NULL                      ? "apply function"
           : rule->save == NULL && rule->load != NULL ? "save function, but a load function"
           : rule->save != NULL && rule->load == NULL ? "load function, but a save function"
                                                      : NULL;
}

static const struct rbt_plugin_kind kind = {
    .what = "rule",
    .symbol = "rbt_rule",
    .definition = "RBT_RULE_EXPORT const struct rbt_rule rbt_rule",
    .header = "rubato/rule.h",
    .manual = "docs/rules.md",
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof(struct rbt_rule),
    .missing = missing,
};

rbt_status rbt_rule_plugin_find(const char *path, const struct rbt_rule **rule)
{
    const void *found = NULL;
    const rbt_status st = rbt_plugin_find(&kind, path, &found);
    if (st == RBT_OK) {
        *rule = found;
    }
    return st;
}

rbt_status rbt_rule_plugin_resolve(const char *path, char resolved[RBT_PLUGIN_PATH_MAX])
{
    return rbt_plugin_resolve(&kind, path, resolved);
}
