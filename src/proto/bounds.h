/* proto/bounds.h - which staleness holds for the tables of a job, after it was changed.
 *
 * Changes are numbered, by the coordinator for everybody. A change is for one table or for all that
 * follow the job. What holds for a table is the last change that concerns it, also if the table is
 * opened after it.
 *
 * Invariants: numbers increase from the first to the last; a table, and "all", is there at most
 * once. So changes that are told again in this order, from any of them on, end in the same state.
 *
 * Threads: those of its owner. Memory: grows with the tables whose staleness was changed. Cost:
 * O(tables that were changed). */
#ifndef RUBATO_PROTO_BOUNDS_H
#define RUBATO_PROTO_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "wire/control.h"

struct rbt_bound {
    uint64_t number;   /* from 1 */
    uint32_t table;    /* or RBT_CONTROL_ALL */
    int64_t staleness; /* -1: no bound */
};

/* All zeros is empty. */
struct rbt_bounds {
    struct rbt_bound *list; /* the latest of each table, in order of their numbers */
    uint32_t count;
    uint32_t max;
    uint64_t last; /* the highest number ever */
};

void rbt_bounds_deinit(struct rbt_bounds *bounds);

/* The staleness was changed. A change that is told again is ignored. Fails with RBT_E_NOMEM, and
 * then nothing has changed. */
RBT_MUST_USE rbt_status rbt_bounds_note(struct rbt_bounds *bounds, const struct rbt_bound *bound);

/* What holds for the table, or for the job (RBT_CONTROL_ALL), or, if it was never changed,
 * `staleness`. */
int64_t rbt_bounds_find(const struct rbt_bounds *bounds, uint32_t table, bool follows_job,
                        int64_t staleness);

#endif
