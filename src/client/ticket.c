/* client/ticket.c - pushes and pulls without waiting.
 *
 * core/task.c knows what may start; this file knows what starting means. A worker's tickets are
 * done by the worker itself, whenever it calls: a push as soon as it may start, a pull as soon as
 * the shards are fresh enough. Only rbt_ticket_wait() and rbt_ticket_wait_through() wait, and they
 * do so in the oldest ticket that may start, on which everything else depends.
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

/* How stale the rows of a pull may be if it is done now. */
static int64_t staleness_of(const rbt_worker *worker, const struct rbt_ticket_work *work)
{
    if (!work->is_fixed) {
        return rbt_table_staleness(work->set->local->table);
    }
    const int64_t since = rbt_client_clock(worker) - work->clock;
    return work->staleness == RBT_STALENESS_ANY ? RBT_STALENESS_ANY : work->staleness + since;
}

/* Whether a pull would not have to wait. */
static bool is_open(const rbt_worker *worker, const struct rbt_ticket_work *work)
{
    const rbt_set *set = work->set;
    const int64_t staleness = staleness_of(worker, work);
    return rbt_set_is_fresh(set, staleness) ||
           (rbt_set_has_answer(set) &&
            rbt_worker_shard_clock(worker) >= rbt_worker_need(worker, staleness));
}

static void run(rbt_worker *worker, rbt_ticket ticket)
{
    const struct rbt_ticket_work *work = work_of(worker, ticket);
    const rbt_status st = work->is_pull ? rbt_set_pull_within(work->set, staleness_of(worker, work))
                                        : rbt_set_push(work->set);
    rbt_task_finish(&worker->tasks, ticket, st);
}

/* The oldest ticket that may start and, unless `may_wait`, can do so without waiting; or 0. */
static rbt_ticket next_ready(rbt_worker *worker, bool may_wait)
{
    const struct rbt_task_list *tasks = &worker->tasks;
    for (rbt_ticket t = tasks->finished_through + 1; t <= tasks->issued; t++) {
        if (rbt_task_is_ready(tasks, t) &&
            (may_wait || !work_of(worker, t)->is_pull || is_open(worker, work_of(worker, t)))) {
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

static rbt_status issue(const struct rbt_ticket_work *what, const struct rbt_after *after,
                        rbt_ticket *ticket)
{
    rbt_worker *worker = what->set->worker;
    rbt_ticket_poll(worker);
    const rbt_status st = rbt_task_issue(&worker->tasks, after, ticket);
    if (st == RBT_OK) {
        struct rbt_ticket_work *work = work_of(worker, *ticket);
        *work = *what;
        if (work->is_pull && rbt_task_is_ready(&worker->tasks, *ticket)) {
            rbt_set_ask(work->set, staleness_of(worker, work));
        }
        rbt_ticket_poll(worker);
    }
    return st;
}

rbt_status rbt_set_pull_async(rbt_set *set, const struct rbt_after *after, rbt_ticket *ticket)
{
    return issue(&(struct rbt_ticket_work){.set = set, .is_pull = true}, after, ticket);
}

rbt_status rbt_set_pull_within_async(rbt_set *set, int64_t staleness, const struct rbt_after *after,
                                     rbt_ticket *ticket)
{
    const rbt_status st = rbt_worker_check_staleness(staleness);
    const struct rbt_ticket_work work = {.set = set,
                                         .is_pull = true,
                                         .is_fixed = true,
                                         .staleness = staleness,
                                         .clock = rbt_client_clock(set->worker)};
    return st != RBT_OK ? st : issue(&work, after, ticket);
}

rbt_status rbt_set_push_async(rbt_set *set, const struct rbt_after *after, rbt_ticket *ticket)
{
    return issue(&(struct rbt_ticket_work){.set = set}, after, ticket);
}

bool rbt_ticket_is_finished(rbt_worker *worker, rbt_ticket ticket)
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

rbt_status rbt_ticket_wait(rbt_worker *worker, rbt_ticket ticket)
{
    const rbt_status st = check_ticket(worker, ticket);
    if (st != RBT_OK) {
        return st;
    }
    while (!rbt_ticket_is_finished(worker, ticket)) {
        run_next(worker);
    }
    return rbt_task_status(&worker->tasks, ticket);
}

rbt_status rbt_ticket_wait_through(rbt_worker *worker, rbt_ticket ticket)
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

rbt_status rbt_worker_set_delay(rbt_worker *worker, int64_t delay)
{
    if (delay < RBT_STALENESS_ANY) {
        return rbt_fail(RBT_E_INVALID,
                        "a delay is a number of tickets or RBT_STALENESS_ANY, not %lld",
                        (long long)delay);
    }
    worker->tasks.delay = delay;
    return RBT_OK;
}
