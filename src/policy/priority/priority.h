/* policy/priority/priority.h - which of the rows that have changed matter most.
 *
 *   "oldest", "walk"   round-robin, both readings of the papers (docs/papers.md)
 *   "sweep"            all rows round and round, whether they have changed or not: what Yahoo!LDA
 *                      does, for comparison
 *   "random"
 *   "magnitude"        the sum over the row of |change|
 *   "relative"         the sum over the row of |change / value|; where the value is zero or not
 *                      known, |change|
 *   a shared object    the user's own: one function from a row and its change to a score
 *                      (rubato/priority.h)
 *
 * For servers with a rule, "change" is what the rule did to the row, not what workers sent.
 * Threads: any. */
#ifndef RUBATO_POLICY_PRIORITY_PRIORITY_H
#define RUBATO_POLICY_PRIORITY_PRIORITY_H

#include <stdbool.h>

#include <rubato/export.h>
#include <rubato/priority.h>
#include <rubato/status.h>

#include "comm/queue.h"
#include "policy/plugin.h"

typedef float (*rbt_priority_score)(const struct rbt_priority_row *row);

/* A priority that was chosen. */
struct rbt_priority_policy {
    const char *name;
    rbt_queue_order order;
    rbt_priority_score score; /* NULL: the order asks for none */
    bool is_sweep;            /* rows that have not changed go as well, when it is their turn */
};

/* By its name, or the path of a shared object (it has a '/'), which stays for as long as the
 * process. Fails with RBT_E_INVALID, or RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_priority_find(const char *text, struct rbt_priority_policy *policy);

/* The text with an absolute path, for processes that run elsewhere. Fails with RBT_E_INVALID. */
RBT_MUST_USE rbt_status rbt_priority_resolve(const char *text, char resolved[RBT_PLUGIN_PATH_MAX]);

#endif
