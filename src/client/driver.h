/* client/driver.h - what carries a worker's events to the shards: the one seam between the client
 * library and the embedded driver, the processes and the simulator. */
#ifndef RUBATO_CLIENT_DRIVER_H
#define RUBATO_CLIENT_DRIVER_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/job.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "core/shard_event.h"

typedef struct rbt_driver rbt_driver;

struct rbt_driver_options {
    uint32_t worker_count;
    uint32_t shard_count;
    uint32_t table_max;
};

/* How a step went. */
struct rbt_driver_reply {
    rbt_status status;
    uint64_t version; /* the shard's, after the step */
    int64_t floor;    /* the shard's, after the step */
    rbt_time waited;  /* how long it took until the request could be answered */
    bool had_to_wait;
};

struct rbt_driver_ops {
    /* Steps a shard; a PULL or SCAN returns when it has been answered. */
    void (*step)(rbt_driver *driver, uint32_t shard, const struct rbt_shard_event *event,
                 struct rbt_driver_reply *reply);
    /* The shard's floor as last heard of; never waits. */
    int64_t (*floor)(rbt_driver *driver, uint32_t shard);
    /* The shard's version as last heard of: if it has not changed, neither have its rows. */
    uint64_t (*version)(rbt_driver *driver, uint32_t shard);
    /* Runs function(argument, index) for every worker of this process and waits for them. */
    rbt_status (*run)(rbt_driver *driver, rbt_status (*function)(void *argument, uint32_t index),
                      void *argument);
    /* Adds what the shards know: updates, duplicates, rows. */
    void (*stats)(rbt_driver *driver, struct rbt_job_stats *stats);
    void (*close)(rbt_driver *driver);
};

struct rbt_driver {
    const struct rbt_driver_ops *ops;
};

/* The embedded driver, in local/local.c. */
RBT_MUST_USE rbt_status rbt_local_open(const struct rbt_driver_options *options,
                                       rbt_driver **driver);

#endif
