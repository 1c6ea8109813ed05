/* proto/job_shard.h - one job at one shard: what the shard does with the messages of its workers.
 *
 * The shard decides; a job shard carries. It checks what has come, steps the shard, and sends what
 * follows. A request that must wait is kept in a slot, whose number is the shard's name for it.
 * Everything that it sends says how far the shard is: its floor, its version, and how much of the
 * worker's stream has arrived.
 *
 * A session is one connection. When it ends, its requests are forgotten (they will be asked again)
 * and nothing else: what a worker has sent stays.
 *
 * No I/O: blocks go out through a function. Threads: the shard's. */
#ifndef RUBATO_PROTO_JOB_SHARD_H
#define RUBATO_PROTO_JOB_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/block.h"
#include "base/clock.h"
#include "proto/bounds.h"
#include "proto/lists.h"
#include "store/shard.h"
#include "wire/message.h"

typedef struct rbt_job_shard rbt_job_shard;

struct rbt_job_shard_options {
    uint64_t job;
    uint32_t worker_count;
    uint32_t table_max;
    const char *name;     /* for people: "shard 1 at HOST:PORT"; NULL: "the shard" */
    uint32_t shards_here; /* shards that share the node's budget; 0: it is the only one */
};

/* One connection. Starts as all zero but for the first fields. */
struct rbt_session {
    uint32_t worker; /* or RBT_FRAME_NOBODY */
    bool is_reader;
    enum rbt_compression compression; /* that it wants */
    bool is_near; /* in this process: it may keep an answer longer than its rows stay as they are */
    /* Takes a block to be sent; it takes its own reference. */
    void (*send)(void *context, struct rbt_block *block);
    void *context;
    /* Those of the job shard. */
    bool owes_ack;
    uint32_t waiting; /* the last of its requests that wait in a slot: its number + 1; 0: none */
    struct rbt_list **lists; /* that this connection may name; a reference each */
    uint32_t list_count;
    uint32_t list_max;
    uint32_t list_keys; /* in all of them */
    struct rbt_map list_index;
    bool has_index;
};

RBT_MUST_USE rbt_status rbt_job_shard_create(const struct rbt_job_shard_options *options,
                                             rbt_job_shard **job);
void rbt_job_shard_destroy(rbt_job_shard *job);

uint32_t rbt_job_shard_worker_count(const rbt_job_shard *job);
uint64_t rbt_job_shard_job(const rbt_job_shard *job);
rbt_shard *rbt_job_shard_shard(const rbt_job_shard *job);

/* The smallest clock that a request waits for; RBT_CLOCK_GONE if none waits. */
int64_t rbt_job_shard_parked_need(const rbt_job_shard *job);

/* How far the shard is, for WELCOME. */
struct rbt_wire_news rbt_job_shard_news(const rbt_job_shard *job, uint32_t worker);

/* One message. RBT_E_PROTOCOL: the peer has broken the rules, and RBT_E_NOTFOUND: it has named a
 * list that it has not sent: the connection must end; with the latter the peer may try again. Other
 * failures are of the job, which is then over here: every connection must end, and every later
 * message fails in the same way. The sentence is in the thread's record. */
RBT_MUST_USE rbt_status rbt_job_shard_receive(rbt_job_shard *job, struct rbt_session *session,
                                              const struct rbt_frame *frame, const char *body,
                                              rbt_time now);

/* Whether a failure is the job's. */
static inline bool rbt_job_shard_is_failure(rbt_status status)
{
    return status != RBT_OK && status != RBT_E_PROTOCOL && status != RBT_E_NOTFOUND &&
           status != RBT_E_CLOSED;
}

/* The coordinator has changed how stale reads may be; it may be told again. If that fails, so does
 * every later message. */
void rbt_job_shard_bound(rbt_job_shard *job, const struct rbt_bound *bound);

/* Sends an ACK if the session has pushed and heard nothing since. */
void rbt_job_shard_settle(rbt_job_shard *job, struct rbt_session *session);

/* Hands over the tables that are synchronised and whose version has grown since the last time. */
void rbt_job_shard_report(rbt_job_shard *job,
                          void (*visit)(void *context, uint64_t job, uint32_t table,
                                        uint64_t version),
                          void *context);

/* The connection has ended. */
void rbt_job_shard_forget(rbt_job_shard *job, struct rbt_session *session);

#endif
