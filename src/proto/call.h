/* proto/call.h - what a worker wants of a shard, and how that went.
 *
 * The client library fills in calls; whoever carries them out, a machine of this folder or a
 * driver, fills in the replies. Threads: none. Memory: everything is the caller's. */
#ifndef RUBATO_PROTO_CALL_H
#define RUBATO_PROTO_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/job.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "core/shard_event.h"

/* What filters make smaller: keys of updates and requests, updates, rows that are read. */
enum { RBT_FILTERED_KEYS, RBT_FILTERED_PUSH, RBT_FILTERED_PULL, RBT_FILTERED_KINDS };

/* How a step went. */
struct rbt_driver_reply {
    rbt_status status;
    uint64_t version;      /* the shard's, after the step or as last heard of */
    int64_t floor;         /* the same */
    uint64_t acknowledged; /* the shard has all messages of the worker up to this sequence */
    uint64_t settled;      /* of these, it shows all updates up to this one to everybody */
    rbt_time waited;       /* how long the call took because of others or of the way to them */
    bool had_to_wait;      /* other workers were behind */
    uint64_t bytes_sent;   /* over the network since the last step, in the first reply of a step */
    uint64_t bytes_received;                    /* the same; of drivers that count them */
    uint64_t traffic_sent[RBT_TRAFFIC_CLASSES]; /* the same, of whole messages */
    uint64_t traffic_received[RBT_TRAFFIC_CLASSES];
    uint64_t filtered[RBT_FILTERED_KINDS]
                     [2]; /* the same, of tables with filters: before and after */
};

/* A shard to be stepped. */
struct rbt_driver_call {
    uint32_t shard;
    bool is_early; /* a PUSH before the clock ends; only for those who count */
    struct rbt_shard_event event;
    struct rbt_driver_reply reply;
    uint64_t limit; /* of a PULL of stable versions, see its event */
};

#endif
