/* core/task.h - tickets of a worker: what may start, what is finished, what waits for what.
 *
 * A ticket may start when the tickets that it was made to follow are finished and, under a delay
 * bound d, when all tickets up to t - d - 1 are. Any consistency of explicit push and pull is such
 * a graph: sequential (d = 0), eventual (no bound), bounded delay, or dependencies chosen by hand.
 */
#ifndef RUBATO_CORE_TASK_H
#define RUBATO_CORE_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/set.h>
#include <rubato/status.h>

enum {
    RBT_TASK_OPEN_MAX = 64, /* tickets that are not finished, from the oldest one on */
    RBT_TASK_AFTER_MAX = 8, /* tickets that one may wait for */
};

struct rbt_task {
    rbt_ticket after[RBT_TASK_AFTER_MAX];
    uint8_t after_count;
    bool is_finished;
    rbt_status status;
};

/* Plain state; zero is a fresh one except for `delay`, see rbt_task_init(). */
struct rbt_task_list {
    struct rbt_task tasks[RBT_TASK_OPEN_MAX]; /* ticket t is at t % RBT_TASK_OPEN_MAX */
    rbt_ticket issued;                        /* the last ticket given out */
    rbt_ticket finished_through;              /* all tickets up to this one are finished */
    int64_t delay;                            /* RBT_STALENESS_ANY: no bound */
};

void rbt_task_init(struct rbt_task_list *list);

/* Gives out the next ticket. Fails with RBT_E_BUSY when too many are open and RBT_E_INVALID when
 * `after` names a ticket that does not exist or too many. */
RBT_MUST_USE rbt_status rbt_task_issue(struct rbt_task_list *list, const struct rbt_after *after,
                                       rbt_ticket *ticket);

/* Whether it may start now; false if it is finished. */
bool rbt_task_is_ready(const struct rbt_task_list *list, rbt_ticket ticket);

void rbt_task_finish(struct rbt_task_list *list, rbt_ticket ticket, rbt_status status);

bool rbt_task_is_finished(const struct rbt_task_list *list, rbt_ticket ticket);

/* How a finished ticket ended; RBT_OK once 64 later ones have been given out. */
rbt_status rbt_task_status(const struct rbt_task_list *list, rbt_ticket ticket);

#endif
