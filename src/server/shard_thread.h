/* server/shard_thread.h - a thread that owns a shard: it listens, and serves whoever connects.
 *
 * Several jobs may use the shard at once; each has a part of its own (proto/job_shard.h). Threads:
 * create and destroy are the caller's, everything else happens on the shard's own thread. */
#ifndef RUBATO_SERVER_SHARD_THREAD_H
#define RUBATO_SERVER_SHARD_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "net/address.h"
#include "net/member.h"
#include "net/security.h"
#include "proto/bounds.h"
#include "wire/control.h"

typedef struct rbt_shard_thread rbt_shard_thread;

struct rbt_shard_thread_options {
    const char *listen;           /* address */
    const rbt_security *security; /* NULL: plain */
    FILE *log;                    /* may be NULL */
    /* Called when the shard has a new version of a job's table that is synchronised, with the
     * core's mutex held; may be NULL. `index` is the caller's number of the thread. */
    void (*on_version)(void *context, const struct rbt_member_version *version);
    void *context;
    uint32_t index;
    uint32_t shards_here; /* threads of the process: they share its budget */
};

/* Listens, and starts the thread. Until it knows who it is, everybody has to try again. */
RBT_MUST_USE rbt_status rbt_shard_thread_create(const struct rbt_shard_thread_options *options,
                                                rbt_shard_thread **thread);

/* Stops the thread and frees everything. */
void rbt_shard_thread_destroy(rbt_shard_thread *thread);

/* Where it listens. */
const char *rbt_shard_thread_address(const rbt_shard_thread *thread);

/* Who it is: a shard of a cluster. */
void rbt_shard_thread_name(rbt_shard_thread *thread, uint64_t cluster, uint32_t shard);

/* A job begins: who may say HELLO for it, as a worker process or as a reader. */
void rbt_shard_thread_admit(rbt_shard_thread *thread, uint64_t number,
                            const struct rbt_control_job *job);

/* How stale the job's reads may be. It counts for every message that is worked on after this.
 * Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_shard_thread_bound(rbt_shard_thread *thread, uint64_t job,
                                               const struct rbt_bound *bound);

/* A job is over: its rows are freed and its connections closed. */
void rbt_shard_thread_drop(rbt_shard_thread *thread, uint64_t job);

/* When it last went round its loop. */
rbt_time rbt_shard_thread_seen(const rbt_shard_thread *thread);

#endif
