/* net/member.h - this process as a member of a cluster: its line to the coordinator.
 *
 * A thread of its own keeps the line: it says that the process is there, reconnects when the line
 * is cut, and hears what the coordinator has to say: that a process was lost and the job is over,
 * that the staleness has changed, that a job has ended. So a worker may compute for hours without
 * being taken for dead, and a wait for others always ends.
 *
 *     st = rbt_member_join(&options, &member);        // waits until everybody is there
 *     const struct rbt_member_plan *plan = rbt_member_plan(member);
 *     ...
 *     st = rbt_member_gather(member, own, size, visit, context);  // everybody's, at the same point
 *     rbt_member_leave(member, RBT_OK, NULL);
 *
 * Whatever waits elsewhere should also poll rbt_member_alarm(): it becomes, and stays, readable
 * when the job has failed; rbt_member_failure() then says why.
 *
 * Threads: any, but rbt_member_gather() is for one thread at a time. */
#ifndef RUBATO_NET_MEMBER_H
#define RUBATO_NET_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "net/security.h"
#include "proto/membership.h"
#include "wire/control.h"

typedef struct rbt_member rbt_member;

struct rbt_member_options {
    const char *coordinator;      /* address */
    const rbt_security *security; /* NULL: plain */
    enum rbt_role role;
    int32_t index; /* which server or worker process of its job it is; RBT_INDEX_ANY: next free */
    rbt_time start_timeout; /* for everybody to come */
    rbt_time silence_max;   /* after so long without a sign of life the other side is gone */
    rbt_time cut_max;       /* after so long without a connection, too */
    /* A server: where its shards listen. */
    const char *const *shards;
    uint32_t shard_count;
    /* A worker process: the job's namespace, how many workers the job has in all and how many of
     * them are here. */
    const char *space;
    uint32_t worker_count;
    uint32_t thread_count;
    struct rbt_wire_secret permit; /* see struct rbt_control_join */
    struct rbt_wire_secret read_permit;
    /* Polled by whoever waits to join or for the end: true ends that with RBT_E_INTERRUPTED. May be
     * NULL: nobody tells this process to stop. */
    bool (*should_stop)(void);
    /* All called on the member's thread; may be NULL. */
    void *context;
    bool (*is_alive)(void *context);              /* false: no sign of life is given */
    void (*on_drop)(void *context, uint64_t job); /* a server: the job is over */
    /* A server: the job begins, and this is who may say HELLO for it. May be repeated. */
    void (*on_job)(void *context, uint64_t number, const struct rbt_control_job *job);
    /* How stale reads are from now on: when this returns, the process, or the server, acts on it.
     * May be repeated, with the same number. A failure is the member's. */
    rbt_status (*on_bound)(void *context, uint64_t number, const struct rbt_control_bound *bound);
    /* A worker process: all shards have the versions of the table below this one. */
    void (*on_stable)(void *context, uint32_t table, uint64_t version);
};

/* Connects, says who it is, and waits for the plan. Fails with one sentence: the coordinator could
 * not be reached, refused us and why, or not everybody came and who is missing. */
RBT_MUST_USE rbt_status rbt_member_join(const struct rbt_member_options *options,
                                        rbt_member **member);
const struct rbt_member_plan *rbt_member_plan(const rbt_member *member);

/* Waits until every worker process of the job has called this, the same number of times, and hands
 * over what each has brought, in order of process. Fails when the job fails. */
RBT_MUST_USE rbt_status rbt_member_gather(rbt_member *member, const void *bytes, size_t size,
                                          void (*visit)(void *context, uint32_t process,
                                                        const char *bytes, size_t size),
                                          void *context);

/* Changes how stale reads of a table may be, or, with RBT_CONTROL_ALL, of all that follow the job:
 * on_bound is called in all processes of the job, also in this one, and at the servers. The first
 * one waits until all have returned from it, and fails when the job fails; the second one does not
 * wait. Threads: any. */
RBT_MUST_USE rbt_status rbt_member_set_bound(rbt_member *member, uint32_t table, int64_t staleness);
void rbt_member_advise_bound(rbt_member *member, uint32_t table, int64_t staleness);

/* A server: its shard, counted from its first one, has the versions of the job's table below this
 * one. When all of them have more than the coordinator knows, it is told, after a moment, so that
 * much becomes one message. Versions never decrease. Out of memory, it is not told at once. */
void rbt_member_tell_version(rbt_member *member, const struct rbt_member_version *version);

int rbt_member_alarm(const rbt_member *member);

/* RBT_OK, or why the job is over, with the sentence in the calling thread's record. */
RBT_MUST_USE rbt_status rbt_member_failure(const rbt_member *member);

/* This process cannot go on with its job: its other threads hear of it as they do when the job has
 * failed elsewhere. Whoever else is in the job hears of it when the member leaves. */
void rbt_member_give_up(rbt_member *member, rbt_status status, const char *why);

/* A server: waits until the cluster is over: RBT_OK, or why it failed. */
RBT_MUST_USE rbt_status rbt_member_wait(rbt_member *member);

/* Leaves, with RBT_OK or with why this process gives up, which ends its job for all others. */
void rbt_member_leave(rbt_member *member, rbt_status status, const char *why);

#endif
