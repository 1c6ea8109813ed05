/* comm/priority.h - which of the rows that have changed matter most.
 *
 *   "oldest", "walk"   round-robin, both readings of the papers (E64)
 *   "random"
 *   "magnitude"        the sum over the row of |change|
 *   "relative"         the sum over the row of |change / value|; where the value is zero or not
 *                      known, |change|
 *   a shared object    the user's own: one function from a row and its change to a score
 *
 * For servers with a rule, "change" is what the rule did to the row, not what workers sent (G18). */
#ifndef RUBATO_COMM_PRIORITY_H
#define RUBATO_COMM_PRIORITY_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "comm/queue.h"

/* A row, what it is as far as the sender knows (NULL: not known), and what has changed in it since
 * it was last sent. */
struct rbt_priority_row {
    uint64_t key;
    uint32_t width;
    const float *change;
    const float *value;
};

typedef float (*rbt_priority_score)(const struct rbt_priority_row *row);

struct rbt_priority {
    const char *name;
    rbt_queue_order order;
    rbt_priority_score score; /* NULL: the order asks for none */
};

/* By its name, or the path of a shared object (it has a '/') with a function
 * `float rbt_priority(const struct rbt_priority_row *)`. RBT_E_INVALID with a sentence. */
RBT_MUST_USE rbt_status rbt_priority_find(const char *text, struct rbt_priority *priority);

#endif
