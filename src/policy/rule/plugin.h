/* policy/rule/plugin.h - rules from shared objects. Threads: any. */
#ifndef RUBATO_POLICY_RULE_PLUGIN_H
#define RUBATO_POLICY_RULE_PLUGIN_H

#include <rubato/export.h>
#include <rubato/rule.h>
#include <rubato/status.h>

#include "policy/plugin.h"

/* Opens the shared object, if it is not open yet, and finds its rule, which stays for as long as
 * the process. Fails with RBT_E_INVALID if it is not there or does not fit, or RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_rule_plugin_find(const char *path, const struct rbt_rule **rule);

/* The absolute path. Fails with RBT_E_INVALID if there is no such file. */
RBT_MUST_USE rbt_status rbt_rule_plugin_resolve(const char *path,
                                                char resolved[RBT_PLUGIN_PATH_MAX]);

#endif
