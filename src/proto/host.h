/* proto/host.h - one job at one shard: what the shard does with the messages of its workers.
 *
 * The shard decides; a host carries. It checks what has come, steps the shard, and sends what
 * follows. A request that must wait is kept in a slot, whose number is the shard's name for it.
 * Everything that it sends says how far the shard is: its floor, its version, and how much of the
 * worker's stream has arrived.
 *
 * A guest is one connection. When it ends, its requests are forgotten (they will be asked again)
 * and nothing else: what a worker has sent stays.
 *
 * No I/O: blocks go out through a function. Threads: the shard's. */
#ifndef RUBATO_PROTO_HOST_H
#define RUBATO_PROTO_HOST_H

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

typedef struct rbt_host rbt_host;

struct rbt_host_options {
    uint64_t job;
    uint32_t worker_count;
    uint32_t table_max;
    const char *name;     /* for people: "shard 1 at HOST:PORT"; NULL: "the shard" */
    uint32_t shards_here; /* shards that share the node's budget; 0: it is the only one */
};

/* One connection. Starts as all zero but for the first fields. */
struct rbt_guest {
    uint32_t worker; /* or RBT_FRAME_NOBODY */
    bool is_reader;
    enum rbt_compression compression; /* that it wants */
    bool is_near; /* in this process: it may keep an answer longer than its rows stay as they are */
    /* Takes a block to be sent; it takes its own reference. */
    void (*send)(void *context, struct rbt_block *block);
    void *context;
    /* The host's. */
    bool owes_ack;
    uint32_t waiting; /* the last of its requests that wait in a slot: its number + 1; 0: none */
    struct rbt_list **lists; /* that this connection may name; a reference each */
    uint32_t list_count;
    uint32_t list_max;
    uint32_t list_keys; /* in all of them */
    struct rbt_map list_index;
    bool has_index;
};

RBT_MUST_USE rbt_status rbt_host_create(const struct rbt_host_options *options, rbt_host **host);
void rbt_host_destroy(rbt_host *host);

uint32_t rbt_host_worker_count(const rbt_host *host);
uint64_t rbt_host_job(const rbt_host *host);
rbt_shard *rbt_host_shard(const rbt_host *host);

/* The smallest clock that a request waits for; RBT_CLOCK_GONE if none waits. */
int64_t rbt_host_parked_need(const rbt_host *host);

/* How far the shard is, for WELCOME. */
struct rbt_wire_news rbt_host_news(const rbt_host *host, uint32_t worker);

/* One message. RBT_E_PROTOCOL: the guest has broken the rules, and RBT_E_NOTFOUND: it has named a
 * list that it has not sent: the connection must end; with the latter the peer may try again. Other
 * failures are of the job, which is then over here: every connection must end, and every later
 * message fails in the same way. The sentence is in the thread's record. */
RBT_MUST_USE rbt_status rbt_host_receive(rbt_host *host, struct rbt_guest *guest,
                                         const struct rbt_frame *frame, const char *body,
                                         rbt_time now);

/* Whether a failure is the job's. */
static inline bool rbt_host_is_failure(rbt_status status)
{
    return status != RBT_OK && status != RBT_E_PROTOCOL && status != RBT_E_NOTFOUND &&
           status != RBT_E_CLOSED;
}

/* The coordinator has changed how stale reads may be; it may be told again. If that fails, so does
 * every later message. */
void rbt_host_bound(rbt_host *host, const struct rbt_bound *bound);

/* Sends an ACK if the guest has pushed and heard nothing since. */
void rbt_host_settle(rbt_host *host, struct rbt_guest *guest);

/* Hands over the tables that are synchronised and whose version has grown since the last time. */
void rbt_host_report(rbt_host *host,
                     void (*visit)(void *context, uint64_t job, uint32_t table, uint64_t version),
                     void *context);

/* The connection has ended. */
void rbt_host_forget(rbt_host *host, struct rbt_guest *guest);

#endif
