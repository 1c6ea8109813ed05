/* core/task.c - tickets in a ring.
 *
 * Invariants:
 *   (1) issued - finished_through <= RBT_TASK_OPEN_MAX: a ticket's place is not re-used while open.
 *   (2) finished_through is as large as it can be: the ticket after it is open, or not yet issued.
 *   (3) Tickets follow earlier ones only, so there is always one that may start: the oldest open.
 *
 * Threads: none; owned by the worker. Memory: in place. */
#include "core/task.h"

#include "base/assert.h"
#include "base/error.h"

static struct rbt_task *place(struct rbt_task_list *list, rbt_ticket ticket)
{
    RBT_ASSERT(ticket <= list->issued);
    RBT_ASSERT(list->issued - ticket < RBT_TASK_OPEN_MAX); /* its place is still its own */
    RBT_ASSERT(ticket > 0);
    return &list->tasks[ticket % RBT_TASK_OPEN_MAX];
}

static const struct rbt_task *peek(const struct rbt_task_list *list, rbt_ticket ticket)
{
    RBT_ASSERT(ticket > 0);
    RBT_ASSERT(ticket <= list->issued);
    return &list->tasks[ticket % RBT_TASK_OPEN_MAX];
}

void rbt_task_init(struct rbt_task_list *list)
{
    RBT_ASSERT(list != NULL);
    *list = (struct rbt_task_list){.delay = RBT_STALENESS_ANY};
    RBT_ASSERT(list->issued == list->finished_through);
}

rbt_status rbt_task_issue(struct rbt_task_list *list, const struct rbt_after *after,
                          rbt_ticket *ticket)
{
    RBT_ASSERT(ticket != NULL);
    const size_t count = after == NULL ? 0 : after->count;
    RBT_ASSERT(list->issued - list->finished_through <= RBT_TASK_OPEN_MAX); /* (1) */
    if (list->issued - list->finished_through == RBT_TASK_OPEN_MAX) {
        return rbt_fail(RBT_E_BUSY, "%d tickets are open already; wait for one first",
                        RBT_TASK_OPEN_MAX);
    }
    if (count > RBT_TASK_AFTER_MAX) {
        return rbt_fail(RBT_E_INVALID, "a ticket can follow at most %d others, not %zu",
                        RBT_TASK_AFTER_MAX, count);
    }
    struct rbt_task task = {.after_count = (uint8_t)count};
    for (size_t i = 0; i < count; i++) {
        if (after->tickets[i] == 0 || after->tickets[i] > list->issued) { /* (3) */
            return rbt_fail(RBT_E_INVALID, "there is no ticket %llu to follow",
                            (unsigned long long)after->tickets[i]);
        }
        task.after[i] = after->tickets[i];
    }
    list->issued++;
    *place(list, list->issued) = task;
    RBT_ASSERT(list->issued > list->finished_through);
    *ticket = list->issued;
    return RBT_OK;
}

bool rbt_task_is_finished(const struct rbt_task_list *list, rbt_ticket ticket)
{
    RBT_DEBUG_ASSERT(list->issued - list->finished_through <= RBT_TASK_OPEN_MAX);
    RBT_ASSERT(list->finished_through <= list->issued);
    return ticket <= list->finished_through ||
           (ticket <= list->issued && peek(list, ticket)->is_finished);
}

bool rbt_task_is_ready(const struct rbt_task_list *list, rbt_ticket ticket)
{
    if (rbt_task_is_finished(list, ticket)) {
        return false;
    }
    const struct rbt_task *task = peek(list, ticket);
    RBT_ASSERT(task->after_count <= RBT_TASK_AFTER_MAX);
    for (uint8_t i = 0; i < task->after_count; i++) {
        if (!rbt_task_is_finished(list, task->after[i])) {
            return false;
        }
    }
    const bool has_bound = list->delay != RBT_STALENESS_ANY;
    RBT_ASSERT(!has_bound || list->delay >= 0);
    RBT_ASSERT(ticket > list->finished_through);
    return !has_bound || ticket - list->finished_through <= (uint64_t)list->delay + 1;
}

void rbt_task_finish(struct rbt_task_list *list, rbt_ticket ticket, rbt_status status)
{
    RBT_ASSERT(ticket <= list->issued);
    RBT_ASSERT(!rbt_task_is_finished(list, ticket));
    struct rbt_task *task = place(list, ticket);
    task->is_finished = true;
    task->status = status;
    while (list->finished_through < list->issued &&
           peek(list, list->finished_through + 1)->is_finished) { /* (2) */
        list->finished_through++;
    }
    RBT_ASSERT(list->finished_through <= list->issued);
}

rbt_status rbt_task_status(const struct rbt_task_list *list, rbt_ticket ticket)
{
    RBT_ASSERT(rbt_task_is_finished(list, ticket));
    RBT_ASSERT(ticket > 0);
    const bool is_remembered = list->issued - ticket < RBT_TASK_OPEN_MAX;
    return is_remembered ? peek(list, ticket)->status : RBT_OK;
}
