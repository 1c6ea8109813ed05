/* rubato/simulate.h - run a job on a cluster that does not exist, in virtual time.
 *
 * A simulation is a cluster: a coordinator, servers, worker processes, and the links between them,
 * all inside this process and on one thread. A job that names it runs the same worker functions on
 * the same protocol; reads wait as long as they would there, and time is counted, not spent:
 *
 *     struct rbt_simulation_options cluster = {.struct_size = sizeof cluster, .latency = 1e-4};
 *     rbt_simulation *simulation = NULL;
 *     rbt_status st = rbt_simulation_open(&cluster, &simulation);
 *     ...
 *     struct rbt_job_options options = {.struct_size = sizeof options, .workers = 30,
 *                                       .shards = 10, .simulation = simulation};
 *
 * Computing takes as long as the worker says with rbt_worker_spend(). Equal options, equal bits:
 * everything random comes from the seed.
 *
 * Nodes have names: "coordinator", "server/3", "worker/12". A worker node is a process, which runs
 * `threads` workers.
 *
 * Threads: a simulation is used by one thread. */
#ifndef RUBATO_SIMULATE_H
#define RUBATO_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/job.h>
#include <rubato/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rbt_fault_kind {
    RBT_FAULT_CRASH,     /* the process is gone, and what it knew; with `lasts` > 0 one that knows
                            nothing starts in its place. A job ends when it has lost a process */
    RBT_FAULT_PAUSE,     /* the process stands still for `lasts`; nothing is lost */
    RBT_FAULT_PARTITION, /* nothing gets to or from the node for `lasts`; connections stay */
    RBT_FAULT_SLOW_LINK, /* its links have 1 / factor of the bandwidth; `lasts` 0: for good */
    RBT_FAULT_CUT,       /* its connections are reset: what is on its way is lost, and sent again on
                            new ones; `lasts` means nothing */
} rbt_fault_kind;

/* Something that happens to a node, in every run. */
struct rbt_fault {
    rbt_fault_kind kind;
    const char *node; /* its name */
    double at;        /* virtual seconds since the run began, when all nodes are up */
    double lasts;     /* seconds; 0: for good */
    double factor;    /* of RBT_FAULT_SLOW_LINK */
};

/* Where what happens is told; any may be NULL. */
struct rbt_simulation_observer {
    void *context;
    /* The coordinator has given the node up: it is "down", and the job ends. */
    void (*on_node)(void *context, double t, const char *node, const char *state);
    /* After every event; for tests. Returning false ends the simulation with RBT_E_CLOSED. */
    bool (*on_event)(void *context, rbt_simulation *simulation);
};

/* A zero means the default. Times are seconds, sizes bytes, chances between 0 and 1. */
struct rbt_simulation_options {
    size_t struct_size; /* sizeof this struct, so that it can grow */
    uint64_t seed;
    uint32_t threads;    /* workers per process; default: 1 */
    double bandwidth;    /* of a node, per second and direction; default: 1.25e8 (1 Gbit/s) */
    double latency;      /* of a message; default: 1e-4; negative: none */
    double jitter;       /* up to so much more, evenly spread; never within a connection */
    double loss;         /* chance that a packet is lost: its connection waits for it to be sent
                            again, and is slower for a while */
    double duplication;  /* chance that a packet arrives twice: it costs bandwidth, no more */
    double spike_chance; /* chance that a connection stands still for spike_seconds, at each send */
    double spike_seconds;

    double straggler_share;      /* so many of the workers are slow all the time */
    double straggler_factor;     /* by this factor, */
    double straggler_factor_max; /* or, if larger, by one between the two, drawn per worker */
    double slowdown_chance;      /* chance that a worker is slow in a clock */
    double slowdown_factor;      /* by this factor */

    bool is_measured; /* computing takes the CPU time that it takes here, times the factors; runs
                         are then no longer equal */
    const struct rbt_fault *faults;
    size_t fault_count;
    const char *trace; /* path of a timeline to write in Chrome's trace format, or NULL */
    struct rbt_simulation_observer observer;

    /* Server i and worker process i are in rack i modulo `racks`, the coordinator in rack 0. What
     * goes from one rack to another crosses the up-link of the one and the down-link of the other.
     * Each of them has the bandwidth of the rack's servers and worker processes together, divided
     * by the oversubscription. */
    uint32_t racks;          /* default: 1, and no such links */
    double oversubscription; /* 1 or more; default: 1 */

    double cuts; /* so often per second and node, at random, its connections are reset */
};

/* On success stores a simulation that the caller closes, after the jobs that use it. Fails with
 * RBT_E_INVALID when an option makes no sense, RBT_E_IO when the trace cannot be written, and
 * RBT_E_NOMEM. Whether faults name nodes that exist is found out when a job is opened. */
RBT_API RBT_MUST_USE rbt_status rbt_simulation_open(const struct rbt_simulation_options *options,
                                                    rbt_simulation **simulation);

/* Ends the trace and frees everything. Fails with RBT_E_IO when the trace could not be written, and
 * with RBT_E_CLOSED when the coordinator gave up a job while its processes said goodbye, though all
 * its runs had ended well. Accepts NULL. */
RBT_API rbt_status rbt_simulation_close(rbt_simulation *simulation);

/* What happened so far, in all runs of the job that is open, or was last. Times of workers are sums
 * over workers. The caller sets struct_size of this and the following structs (rubato/job.h); the
 * functions fail with RBT_E_INVALID if that has not been done. */
struct rbt_simulation_stats {
    size_t struct_size;
    double seconds; /* virtual time since the job's first run began */
    uint64_t events;
    uint64_t messages;       /* sent, repetitions included */
    uint64_t bytes;          /* the same */
    uint64_t lost;           /* messages */
    uint64_t duplicated;     /* by the network */
    uint64_t nodes_lost;     /* that the coordinator has given up */
    uint64_t resent;         /* messages to servers, because their connection was reset */
    double compute_seconds;  /* computing, as declared and slowed down */
    double transmit_seconds; /* waiting for messages that were on their way */
    double wait_seconds;     /* waiting for other workers */
    double idle_seconds;     /* after leaving, before the last worker left */
};

RBT_API rbt_status rbt_simulation_stats(const rbt_simulation *simulation,
                                        struct rbt_simulation_stats *stats);

/* What became of one worker's time. */
struct rbt_simulation_worker {
    size_t struct_size;
    double compute_seconds;
    double transmit_seconds;
    double wait_seconds;
    double idle_seconds;
    double factor; /* how slow it is: 1 is full speed */
    int64_t clocks;
};

/* Figures of worker `index`. Fails with RBT_E_NOTFOUND if there is no such worker. */
RBT_API rbt_status rbt_simulation_worker(const rbt_simulation *simulation, uint32_t index,
                                         struct rbt_simulation_worker *worker);

/* Bytes that a node has sent and received; the index counts the coordinator, then the servers, then
 * the worker processes. Fails with RBT_E_NOTFOUND if there is no such node. */
struct rbt_simulation_node {
    size_t struct_size;
    char name[32];
    uint64_t bytes_sent;
    uint64_t bytes_received;
};
RBT_API rbt_status rbt_simulation_node(const rbt_simulation *simulation, uint32_t index,
                                       struct rbt_simulation_node *node);

/* Bytes that a rack has sent to others and received from them, if there is more than one. Fails
 * with RBT_E_NOTFOUND if there is no such rack. */
struct rbt_simulation_rack {
    size_t struct_size;
    uint64_t bytes_sent;
    uint64_t bytes_received;
};
RBT_API rbt_status rbt_simulation_rack(const rbt_simulation *simulation, uint32_t index,
                                       struct rbt_simulation_rack *rack);

#ifdef __cplusplus
}
#endif

#endif
