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
#include "proto/call.h"

typedef struct rbt_driver rbt_driver;

struct rbt_driver_options {
    uint32_t worker_count;
    uint32_t shard_count;
    uint32_t table_max;
    /* A process, perhaps this one, has changed the staleness of a table or of all that follow the
     * job, and `place` acts on it from now on. Over processes it is called on another thread; in a
     * simulation on the job's, whatever that is doing. Embedded, never. */
    void *context;
    void (*on_staleness)(void *context, uint32_t place, uint32_t table, int64_t staleness);
};

/* Of which table one wants to know how stale its reads may be: */
struct rbt_driver_bound {
    uint32_t table; /* or RBT_CONTROL_ALL */
    bool follows_job;
    int64_t staleness; /* if it was never changed */
};

struct rbt_driver_ops {
    /* Steps shards, each with its own event, all at once. A PULL or SCAN has been answered when the
     * call returns; a PUSH or LEAVE may still be on its way, and then arrives in the order of
     * sequences. `acknowledged` of the reply says how far that is. */
    void (*step)(rbt_driver *driver, struct rbt_driver_call *calls, size_t count);
    /* These PULLs will be stepped soon, each with the same `asked` number: what can be done before
     * is done now, without waiting. And: whether nothing is left to wait for. All are NULL where
     * shards are near. */
    void (*ask)(rbt_driver *driver, struct rbt_driver_call *calls, size_t count);
    bool (*has_answer)(rbt_driver *driver, uint32_t worker, uint64_t asked);
    /* They will not: waits until the driver does not use the places of their rows any more. */
    void (*forget)(rbt_driver *driver, uint32_t worker, uint64_t asked);
    /* These PULLs are early ones (rbt_shard_early): asks for them without waiting. And: whether all
     * are answered; if so, writes the answers. What has been asked is asked again with the same
     * subscription only after that. NULL where shards are near: then they are stepped. */
    void (*ask_early)(rbt_driver *driver, struct rbt_driver_call *calls, size_t count);
    bool (*take_early)(rbt_driver *driver, struct rbt_driver_call *calls, size_t count);
    /* All shards have the worker's messages up to this sequence, as far as it has heard. */
    uint64_t (*heard)(rbt_driver *driver, uint32_t worker);
    /* The shard's floor as last heard of; never waits. */
    int64_t (*floor)(rbt_driver *driver, uint32_t shard);
    /* The shard's version as last heard of: if it has not changed, neither have its rows. */
    uint64_t (*version)(rbt_driver *driver, uint32_t shard);
    /* Of a table that is synchronised: all shards have the versions below this one, as the worker
     * last heard; never waits, and never decreases. */
    uint64_t (*stable)(rbt_driver *driver, uint32_t worker, uint32_t table);
    /* Runs function(argument, index) for every worker of this process and waits for them, and for
     * those of other processes. The first failure of any worker is returned in every process. */
    rbt_status (*run)(rbt_driver *driver, rbt_status (*function)(void *argument, uint32_t index),
                      void *argument);
    /* Time since the run began; and: the worker has computed for so long. */
    rbt_time (*now)(rbt_driver *driver);
    void (*spend)(rbt_driver *driver, uint32_t worker, double seconds);
    /* Adds what the shards know: updates, duplicates, rows. */
    void (*stats)(rbt_driver *driver, struct rbt_job_stats *stats);
    /* Makes every process know the records of all workers: `records` has one of `size` bytes for
     * each worker of the job, of which this process has filled in its own. NULL: there are no other
     * processes. */
    rbt_status (*share)(rbt_driver *driver, void *records, size_t size);
    /* Where there are other processes: tells all of them, this one, too, and the shards, how stale
     * reads of the table, or of all that follow the job (RBT_CONTROL_ALL), may be; if it is
     * awaited, waits until all act on it. They do so by their on_staleness. And: how stale they may
     * be at that place, as was told before, or `staleness`. Both are NULL where there are no other
     * processes. */
    rbt_status (*tell_staleness)(rbt_driver *driver, uint32_t table, int64_t staleness,
                                 bool is_awaited);
    int64_t (*bound)(rbt_driver *driver, uint32_t place, const struct rbt_driver_bound *wanted);
    /* Where all workers are on one thread: what stands for the job's mutex. One that waits for it
     * lets the others run. NULL: there are threads. */
    void (*lock)(rbt_driver *driver);
    void (*unlock)(rbt_driver *driver);
    void (*close)(rbt_driver *driver);
};

struct rbt_driver {
    const struct rbt_driver_ops *ops;
    uint32_t process_size; /* workers in a process, the last one maybe fewer */
    uint32_t worker_first; /* of this process */
    uint32_t worker_here;  /* how many are in this process; of a simulation, all */
    uint32_t place_count;  /* processes that act on a staleness of their own: of a simulation all of
                              them, else 1 */
    uint32_t place;        /* of these, the one that calls; in a simulation it changes */
    bool counts_bytes;     /* replies say what went over the network */
    bool is_reader;        /* tables are only read, and must be there */
    bool sends_ahead;      /* a PULL with a subscription may be answered with an older copy */
    bool has_queues;       /* at shards: workers had better not all begin with the same one */
};

/* The embedded driver, in local/local.c. */
RBT_MUST_USE rbt_status rbt_local_open(const struct rbt_driver_options *options,
                                       rbt_driver **driver);

/* The simulated one, in sim/engine.c. */
RBT_MUST_USE rbt_status rbt_sim_open(rbt_simulation *simulation,
                                     const struct rbt_driver_options *options, rbt_driver **driver);

/* The one for processes, in client/remote.c. */
RBT_MUST_USE rbt_status rbt_remote_open(rbt_cluster *cluster,
                                        const struct rbt_driver_options *options,
                                        rbt_driver **driver);

#endif
