/* client/ticket.c - pushes and pulls without waiting.
 *
 * core/task.c knows what may start; this file knows what starting means. A worker's tickets are
 * done by the worker itself, whenever it calls: a push as soon as it may start, a pull as soon as
 * the shards are fresh enough. Only rbt_wait() and rbt_wait_through() wait, and they do so in the
 * oldest ticket that may start, on which everything else depends.
 *
 * Threads: a worker's own. */
#include "base/assert.h"
#include "base/error.h"
#include "client/client.h"
#include "client/set.h"

static struct rbt_ticket_work *work_of(rbt_worker *worker, rbt_ticket ticket)
{
    return &worker->work[ticket % RBT_TASK_OPEN_MAX];
}

/* Whether a pull would not have to wait. */
static bool is_open(const rbt_worker *worker, const rbt_set *set)
{
    const int64_t staleness = rbt_table_staleness(set->portion->table);
    return rbt_set_is_fresh(set) ||
           (rbt_set_has_answer(set) &&
            rbt_worker_shard_clock(worker) >= rbt_worker_need(worker, staleness));
}

static void run(rbt_worker *worker, rbt_ticket ticket)
{
    const struct rbt_ticket_work *work = work_of(worker, ticket);
    const rbt_status st = work->is_pull ? rbt_set_pull(work->set) : rbt_set_push(work->set);
    rbt_task_finish(&worker->tasks, ticket, st);
}

/* The oldest ticket that may start and, unless `may_wait`, can do so without waiting; or 0. */
static rbt_ticket next_ready(rbt_worker *worker, bool may_wait)
{
    const struct rbt_task_list *tasks = &worker->tasks;
    for (rbt_ticket t = tasks->finished_through + 1; t <= tasks->issued; t++) {
        if (rbt_task_is_ready(tasks, t) && (may_wait || !work_of(worker, t)->is_pull ||
                                            is_open(worker, work_of(worker, t)->set))) {
            return t;
        }
    }
    return 0;
}

void rbt_ticket_poll(rbt_worker *worker)
{
    for (rbt_ticket t = next_ready(worker, false); t != 0; t = next_ready(worker, false)) {
        run(worker, t); /* each turn finishes a ticket */
    }
}

static rbt_status issue(rbt_set *set, bool is_pull, const struct rbt_after *after,
                        rbt_ticket *ticket)
{
    rbt_worker *worker = set->worker;
    rbt_ticket_poll(worker);
    const rbt_status st = rbt_task_issue(&worker->tasks, after, ticket);
    if (st == RBT_OK) {
        *work_of(worker, *ticket) = (struct rbt_ticket_work){.set = set, .is_pull = is_pull};
        if (is_pull && rbt_task_is_ready(&worker->tasks, *ticket)) {
            rbt_set_ask(set);
        }
        rbt_ticket_poll(worker);
    }
    return st;
}

rbt_status rbt_set_pull_async(rbt_set *set, const struct rbt_after *after, rbt_ticket *ticket)
{
    return issue(set, true, after, ticket);
}

rbt_status rbt_set_push_async(rbt_set *set, const struct rbt_after *after, rbt_ticket *ticket)
{
    return issue(set, false, after, ticket);
}

bool rbt_is_finished(rbt_worker *worker, rbt_ticket ticket)
{
    rbt_ticket_poll(worker);
    return rbt_task_is_finished(&worker->tasks, ticket);
}

static rbt_status check_ticket(const rbt_worker *worker, rbt_ticket ticket)
{
    if (ticket == 0 || ticket > worker->tasks.issued) {
        return rbt_fail(RBT_E_INVALID, "there is no ticket %llu", (unsigned long long)ticket);
    }
    return RBT_OK;
}

/* Runs one ticket, waiting if it must. */
static void run_next(rbt_worker *worker)
{
    const rbt_ticket t = next_ready(worker, true);
    RBT_ASSERT(t != 0); /* the oldest open ticket follows finished ones only */
    run(worker, t);
}

rbt_status rbt_wait(rbt_worker *worker, rbt_ticket ticket)
{
    const rbt_status st = check_ticket(worker, ticket);
    if (st != RBT_OK) {
        return st;
    }
    while (!rbt_is_finished(worker, ticket)) {
        run_next(worker);
    }
    return rbt_task_status(&worker->tasks, ticket);
}

rbt_status rbt_wait_through(rbt_worker *worker, rbt_ticket ticket)
{
    rbt_status st = check_ticket(worker, ticket);
    /* Tickets that were finished on the way count, too, as long as they are remembered. */
    const rbt_ticket issued = worker->tasks.issued;
    const rbt_ticket first = issued < RBT_TASK_OPEN_MAX ? 1 : issued - RBT_TASK_OPEN_MAX + 1;
    while (st == RBT_OK && worker->tasks.finished_through < ticket) {
        run_next(worker);
    }
    for (rbt_ticket t = first; st == RBT_OK && t <= ticket; t++) {
        st = rbt_task_status(&worker->tasks, t);
    }
    return st;
}

rbt_status rbt_set_delay(rbt_worker *worker, int64_t delay)
{
    if (delay < RBT_STALENESS_ANY) {
        return rbt_fail(RBT_E_INVALID,
                        "a delay is a number of tickets or RBT_STALENESS_ANY, not %lld",
                        (long long)delay);
    }
    worker->tasks.delay = delay;
    return RBT_OK;
}
