/* proto/roster_bound.c - how stale the reads of a job may be: changes get their order here.
 *
 * A change gets the job's next number and is told to the processes of the job, also to the one that
 * wants it, and to the servers. Each says when it has taken it. What was told last, table by table,
 * is kept for those who were cut off.
 *
 * Invariants:
 *   (1) whoever has said that it has taken a number acts on all changes up to it, or on later ones
 *       of the same tables;
 *   (2) a process hears that its change was taken when all that are there have said so.
 * After a cut a change may be missing from what is told again, because a later one of the same
 * table has replaced it. So (1) holds only once all was taken that is told again, and nothing less
 * counts.
 *
 * Threads: none. Memory: see bounds.h; one record per server and job. Cost: a change, and each word
 * that it was taken, looks at all peers. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "proto/roster_state.h"

static bool is_server(const struct rbt_roster_peer *peer)
{
    return peer->is_there && peer->role == RBT_ROLE_SERVER;
}

static void emit(const struct rbt_roster_job *job, const struct rbt_bound *bound, uint32_t peer,
                 struct rbt_roster_outbox *out)
{
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_BOUND,
                                                    .peer = peer,
                                                    .job = job->number,
                                                    .number = bound->number,
                                                    .table = bound->table,
                                                    .staleness = bound->staleness});
}

static void emit_taken(const rbt_roster *roster, const struct rbt_roster_job *job, uint32_t peer,
                       struct rbt_roster_outbox *out)
{
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_TAKEN,
                                                    .peer = peer,
                                                    .job = job->number,
                                                    .number = roster->peers[peer].bound_number});
}

/* The highest number that all have taken. */
static uint64_t taken_by_all(const rbt_roster *roster, const struct rbt_roster_job *job)
{
    uint64_t lowest = job->bounds.last;
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        if (rbt_roster_is_worker_of(roster, i, job) && roster->peers[i].taking.taken < lowest) {
            lowest = roster->peers[i].taking.taken;
        }
    }
    for (uint32_t i = 0; job->servers != NULL && i < roster->options.server_count; i++) {
        lowest = job->servers[i].taken < lowest ? job->servers[i].taken : lowest;
    }
    return lowest;
}

void rbt_roster_settle_bounds(rbt_roster *roster, const struct rbt_roster_job *job,
                              struct rbt_roster_outbox *out)
{
    const uint64_t taken = RBT_MUTANT(EARLY_TAKEN) ? job->bounds.last : taken_by_all(roster, job);
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        struct rbt_roster_peer *peer = &roster->peers[i];
        if (rbt_roster_is_worker_of(roster, i, job) && peer->bound_due > 0 &&
            peer->bound_due <= taken) { /* (2) */
            peer->bound_due = 0;
            emit_taken(roster, job, i, out);
        }
    }
}

/* Gives the change its number. */
static rbt_status note(const rbt_roster *roster, struct rbt_roster_job *job,
                       const struct rbt_control_bound *bound)
{
    if (job->servers == NULL) {
        job->servers = rbt_calloc(roster->options.server_count, sizeof *job->servers);
        if (job->servers == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate the staleness of a job");
        }
    }
    const uint64_t number = job->bounds.last + 1;
    const rbt_status st = rbt_bounds_note(
        &job->bounds, &(struct rbt_bound){
                          .number = number, .table = bound->table, .staleness = bound->staleness});
    RBT_ASSERT(st != RBT_OK || job->bounds.last == number);
    return st;
}

rbt_status rbt_roster_bound(rbt_roster *roster, uint32_t peer, uint64_t number,
                            const struct rbt_control_bound *bound, struct rbt_roster_outbox *out)
{
    struct rbt_roster_job *job;
    rbt_status st = rbt_roster_job_of(roster, peer, &job);
    if (st != RBT_OK || job == NULL) {
        return st;
    }
    struct rbt_roster_peer *p = &roster->peers[peer];
    if (bound->job != job->number) {
        return rbt_fail(RBT_E_PROTOCOL, "malformed message: it names the staleness of another job");
    }
    if (number <= p->bound_number) { /* told again after the line was cut */
        if (p->bound_due == 0 && number > 0) {
            emit_taken(roster, job, peer, out);
        }
        return RBT_OK;
    }
    st = note(roster, job, bound);
    if (st != RBT_OK) {
        return st;
    }
    p->bound_number = number;
    p->bound_due = job->bounds.last;
    const struct rbt_bound *told = &job->bounds.list[job->bounds.count - 1];
    RBT_ASSERT(told->number == job->bounds.last);
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        if (is_server(&roster->peers[i]) || rbt_roster_is_worker_of(roster, i, job)) {
            emit(job, told, i, out);
        }
    }
    return RBT_OK;
}

static void take(struct rbt_roster_taking *taking, uint64_t number)
{
    if (number >= taking->repeated && number > taking->taken) { /* (1) */
        taking->taken = number;
    }
}

rbt_status rbt_roster_taken(rbt_roster *roster, uint32_t peer, uint64_t job, uint64_t number,
                            struct rbt_roster_outbox *out)
{
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(p->is_there);
    const struct rbt_roster_job *j = rbt_roster_running_job(roster, job);
    if (j == NULL) { /* it is over, and the peer has not heard it yet */
        return RBT_OK;
    }
    if (number > j->bounds.last || !(is_server(p) || rbt_roster_is_worker_of(roster, peer, j))) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed message: it confirms a staleness that was not sent");
    }
    if (number == 0) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed message: it confirms a staleness without a number");
    }
    RBT_ASSERT(!is_server(p) || p->index < roster->options.server_count);
    take(is_server(p) ? &j->servers[p->index] : &p->taking, number);
    rbt_roster_settle_bounds(roster, j, out);
    return RBT_OK;
}

static void repeat(const struct rbt_roster_job *job, uint32_t peer,
                   struct rbt_roster_taking *taking, struct rbt_roster_outbox *out)
{
    taking->repeated = job->bounds.last;
    for (uint32_t i = 0; i < job->bounds.count; i++) {
        emit(job, &job->bounds.list[i], peer, out);
    }
}

void rbt_roster_repeat_bounds(rbt_roster *roster, uint32_t peer, struct rbt_roster_outbox *out)
{
    struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(p->is_there);
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        const struct rbt_roster_job *job = &roster->jobs[i];
        if (job->state != RBT_ROSTER_JOB_RUNNING || job->bounds.count == 0 ||
            RBT_MUTANT(LOST_BOUND)) {
            continue;
        }
        if (is_server(p)) {
            repeat(job, peer, &job->servers[p->index], out);
        } else if (rbt_roster_is_worker_of(roster, peer, job)) {
            repeat(job, peer, &p->taking, out);
        }
    }
}
