/* client/process.h - a worker process of a job, as all shards know it: the tables that it has
 * opened, the number of its run, and the questions that are nobody's in particular.
 *
 * Where its connections are, and who waits for them, is up to its owner: threads and sockets
 * (client/remote.c), or a simulation. For questions of the whole process the owner has one carrier
 * more, `control`.
 *
 * Threads: any; the lock of the control's carrier is what keeps them apart. */
#ifndef RUBATO_CLIENT_PROCESS_H
#define RUBATO_CLIENT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/job.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "base/error.h"
#include "client/carrier.h"
#include "proto/membership.h"

struct rbt_process_options {
    const struct rbt_member_plan *plan; /* these stay as long as the process */
    const char *name_space;
    bool is_reader;
    rbt_time silence_max;
    rbt_time cut_max;
    enum rbt_compression compression;
    uint32_t table_max;
    uint64_t runs; /* of jobs that this process had in the cluster before this one */
};

/* All zeros may be deinitialised. */
struct rbt_process {
    struct rbt_process_options options;
    struct rbt_caller_shared shared;
    struct rbt_carrier_heard *heard; /* by shard */
    struct rbt_carrier *control;     /* the owner's */
    uint64_t run;                    /* its number */
    struct rbt_wire_hello hello;     /* of all streams, but for worker and shard */
};

RBT_MUST_USE rbt_status rbt_process_init(struct rbt_process *process,
                                         const struct rbt_process_options *options);
void rbt_process_deinit(struct rbt_process *process);

/* How to reach each shard; NULL without memory. The caller frees it when carriers have been made
 * with it, which must not outlive the process. */
struct rbt_stream_options *rbt_process_streams(struct rbt_process *process);

/* Opens a table at a shard, or tells it of another staleness. */
RBT_MUST_USE rbt_status rbt_process_set_table(struct rbt_process *process,
                                              const struct rbt_driver_call *call);

/* A new run begins: what was heard of the last one is forgotten. Then: sets the clocks of a shard
 * back; whoever comes first does it for all. */
void rbt_process_begin(struct rbt_process *process);
RBT_MUST_USE rbt_status rbt_process_reset(struct rbt_process *process, uint32_t shard);

/* Adds what the shards know. */
void rbt_process_add_stats(struct rbt_process *process, struct rbt_job_stats *stats);

/* The shard's floor, as any carrier of the process has heard of it; `carrier`, if not NULL, is that
 * of a worker that looks again and again: it takes what has come, and asks the shard now and then,
 * or nothing would ever change. */
int64_t rbt_process_floor(const struct rbt_process *process, struct rbt_carrier *carrier,
                          uint32_t shard);

/* A worker's function has returned `status`: waits until the shards have everything that it has
 * sent. The first failure of both. */
RBT_MUST_USE rbt_status rbt_process_finish(const struct rbt_process *process,
                                           struct rbt_carrier *carrier, rbt_status status);

/* How a run went in a process: what all of them tell each other when it is over. */
struct rbt_outcome {
    int64_t status;
    char message[RBT_ERROR_MAX];
    char hint[RBT_ERROR_MAX];
};

/* The thread's record is the reason of a failure. */
void rbt_outcome_fill(struct rbt_outcome *outcome, rbt_status status);

/* How many of its bytes the others need: the reason only of a failure. All processes hear what all
 * have said, so that a thousand of them with reasons would send gigabytes. */
size_t rbt_outcome_size(const struct rbt_outcome *outcome);

/* Visits the part of a process: the first failure becomes that of `context`, an outcome. */
void rbt_outcome_take(void *context, uint32_t process, const char *bytes, size_t size);

/* Fails with it. */
RBT_MUST_USE rbt_status rbt_outcome_fail(const struct rbt_outcome *outcome);

#endif
