/* rubato/job.h - a training job: its workers, its shards, and how far the workers may drift apart.
 *
 * A job owns tables (rubato/table.h) and runs one function on every worker. A worker has a clock;
 * it calls rbt_clock() whenever it has finished a unit of work. Reads wait, if they must, until
 * the slowest worker is near enough; nothing else ever waits:
 *
 *     static rbt_status work(rbt_worker *worker, void *argument)
 *     {
 *         rbt_table *table = argument;
 *         const float one = 1.0F;
 *         rbt_status st = rbt_add(worker, table, 7, &one);
 *         return st != RBT_OK ? st : rbt_clock(worker);
 *     }
 *
 *     struct rbt_job_options options = {.struct_size = sizeof options, .workers = 4};
 *     rbt_job *job = NULL;
 *     rbt_table *table = NULL;
 *     rbt_status st = rbt_job_open(&options, &job);
 *     if (st == RBT_OK) {
 *         st = rbt_table_open(job, "weights", NULL, &table);
 *     }
 *     if (st == RBT_OK) {
 *         st = rbt_job_run(job, work, table);
 *     }
 *     rbt_job_close(job);
 *
 * Threads: a job may be used by any thread; a worker only by the function that was given it. */
#ifndef RUBATO_JOB_H
#define RUBATO_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rbt_job rbt_job;
typedef struct rbt_cluster rbt_cluster;       /* rubato/cluster.h */
typedef struct rbt_simulation rbt_simulation; /* rubato/simulate.h */
typedef struct rbt_worker rbt_worker;         /* lives as long as the call of its function */

/* A zero means the default, so that `{.struct_size = sizeof options}` is a complete job. */
struct rbt_job_options {
    size_t struct_size; /* sizeof this struct, so that it can grow */
    /* How many workers run the function, in all processes together: here, in the simulation, or in
     * the cluster. At most 1024; default: one per core, or in a cluster as many as it has. A job
     * that expects another number there is refused, and so is one that expects other shards. */
    uint32_t workers;
    uint32_t shards;         /* how many parts the tables are cut into; at most 256; default: 1, or
                                in a cluster as many as its servers have */
    const char *consistency; /* of tables that name none: "bsp", "ssp:S", "essp:S", "asp" or
                                "auto", see rubato/table.h; default: "essp:2" */
    const char *name_space;  /* where tables without "/" in their name live; default: "main", or in
                                a cluster the one that was joined; another is refused */
    rbt_simulation *simulation; /* the cluster to pretend to run on; default: none, run here */
    rbt_cluster *cluster;       /* the cluster to run on; default: none, run here */
    /* Managed communication (docs/communication.md): bytes per second that a node may use in each
     * direction. Rows of sets that are managed (rbt_set_manage()) then travel before the clock
     * ends, and are seen early unless the consistency is "bsp". Default: they do not */
    uint64_t bandwidth;
    /* Which rows go first: "oldest", "walk", "random", "magnitude", "relative" (the default), or a
     * shared object (rubato/priority.h). With "sweep" all rows go round and round, whether they
     * have changed or not: what one has without priorities, for comparison. */
    const char *priority;
};

/* What a worker runs. When it returns, the worker has left: nobody waits for it any more. If it
 * fails, updates of the clock that it was in are dropped. */
typedef rbt_status (*rbt_worker_function)(rbt_worker *worker, void *argument);

/* Opens a job in this process. On success stores a job that the caller closes.
 * Fails with RBT_E_INVALID (a count too large, an unrecognized consistency), RBT_E_BUSY (the
 * cluster or the simulation has a job already) and RBT_E_NOMEM. */
RBT_API RBT_MUST_USE rbt_status rbt_job_open(const struct rbt_job_options *options, rbt_job **job);

/* Runs `function(worker, argument)` once per worker, each on a thread of its own, and waits for all
 * of them. Returns RBT_OK, or the status and message of the first worker (by number) that failed.
 * May be called again: tables keep their rows, clocks start again at 0. Fails with RBT_E_BUSY while
 * it runs. */
RBT_API RBT_MUST_USE rbt_status rbt_job_run(rbt_job *job, rbt_worker_function function,
                                            void *argument);

/* The staleness of tables that name no consistency of their own; RBT_STALENESS_ANY: no bound. It
 * may be changed while the job runs: reads obey the new bound from then on, in all processes, as
 * with rbt_table_set_staleness(). A job opened as "auto" changes it by itself. Fails with
 * RBT_E_INVALID, tables may then differ; or with why the job has failed. Threads: any. */
RBT_API RBT_MUST_USE rbt_status rbt_job_set_staleness(rbt_job *job, int64_t staleness);
RBT_API int64_t rbt_job_staleness(const rbt_job *job);

/* A job opened as "auto" stops measuring and goes to this staleness within a few clocks: for
 * callers who know more than how fast it goes, such as how many clocks a pass over the data takes,
 * or that the objective has got worse. Does nothing for other jobs, nor with a staleness below 0.
 * To be called by worker 0, or before the job runs. */
RBT_API void rbt_job_advise_staleness(rbt_job *job, int64_t staleness);

/* Ends the job and frees its tables. Accepts NULL. Must not be called while the job runs. */
RBT_API void rbt_job_close(rbt_job *job);

/* Whether the worker with this number runs in this process, and not elsewhere in a cluster. */
RBT_API bool rbt_job_is_here(const rbt_job *job, uint32_t worker);

/* What messages are for. */
enum rbt_traffic {
    RBT_TRAFFIC_OTHER, /* acknowledgements, lists of keys, greetings, reads of observers */
    RBT_TRAFFIC_CLOCK, /* updates, but for early ones */
    RBT_TRAFFIC_READ,  /* requests, and the rows that they bring */
    RBT_TRAFFIC_EARLY, /* updates and rows before the clock ends */
};
enum { RBT_TRAFFIC_CLASSES = 4 };

enum { RBT_LAG_COUNTS = 16 };
enum { RBT_TIMES_COUNTS = 64 };

/* What the job has done so far, summed over workers; consistent when no worker is running. As in
 * every struct of figures, the caller sets struct_size to sizeof the struct, and no byte behind
 * that is written: a program that was built before a field was added goes on to work. */
struct rbt_job_stats {
    size_t struct_size;
    uint32_t workers;      /* that this is about: all, but in a cluster only those of this process
                              until the run has ended */
    uint64_t updates;      /* update messages that shards applied */
    uint64_t reads;        /* rows and sets read by workers */
    uint64_t reads_waited; /* how many of them had to wait for another worker */
    uint64_t fetches;      /* how many went to a shard; the rest were served by a cache */
    uint64_t duplicates;   /* messages dropped because they had been applied before */
    double wait_seconds;   /* time spent waiting, summed over workers */
    double lag_mean;       /* clocks that a read was behind its worker, on average */
    int64_t lag_max;       /* and at most */
    uint64_t lag_counts[RBT_LAG_COUNTS]; /* reads that were 0, 1, 2, ... clocks behind; the last
                                            count is of all that were further */
    int64_t clock_min;                   /* of the workers that have not left; 0 if nothing runs */
    int64_t clock_max;
    uint64_t bytes_sent;                        /* keys and values from workers to shards */
    uint64_t bytes_received;                    /* and back */
    uint64_t traffic_sent[RBT_TRAFFIC_CLASSES]; /* the same by what it was for */
    uint64_t traffic_received[RBT_TRAFFIC_CLASSES];
    uint64_t rows;                 /* rows that exist in all tables */
    uint64_t server_bytes;         /* memory of all tables at the shards */
    uint64_t rule_bytes;           /* how much of it rules need: state, snapshots, versions */
    uint64_t rule_bytes_max;       /* the same, most at a time and shard; over sockets: as of now */
    uint64_t versions_max;         /* most versions that a table had at a shard at a time */
    uint64_t snapshots_max;        /* most copies of a rule's state, the same */
    uint64_t early_sent;           /* rows that workers sent before the clock ended */
    uint64_t early_received;       /* and received */
    uint64_t early_bytes_sent;     /* what of bytes_sent that was, about */
    uint64_t early_bytes_received; /* and of bytes_received */
    uint64_t early_pauses;         /* how often workers found the network too slow, and paused */
    /* Of tables with filters, over a network: bytes before filters and after, of what was sent. */
    uint64_t filter_keys_in; /* lists of keys, of updates and requests */
    uint64_t filter_keys_out;
    uint64_t filter_push_in; /* values of updates */
    uint64_t filter_push_out;
    uint64_t filter_pull_in; /* values of rows, to the workers */
    uint64_t filter_pull_out;
    /* Rows of working sets by how often they were: 0, 1, 2, .. 15 times, and from there on in steps
     * of a quarter of an octave; the last count is of all beyond. Known when sets are destroyed. */
    uint64_t row_sends[RBT_TIMES_COUNTS];
    uint64_t row_receipts[RBT_TIMES_COUNTS];
};

/* Fails with RBT_E_INVALID if struct_size has not been set, and not otherwise. */
RBT_API rbt_status rbt_job_stats(rbt_job *job, struct rbt_job_stats *stats);

/* The job that the worker works for, which of its workers it is (from 0), and how many there are.
 */
RBT_API rbt_job *rbt_worker_job(const rbt_worker *worker);
RBT_API uint32_t rbt_worker_index(const rbt_worker *worker);
RBT_API uint32_t rbt_worker_count(const rbt_worker *worker);

/* How many clocks the worker has completed; the smallest such number among the workers of this
 * process that have not left; and the smallest in the whole job, as the shards know it. */
RBT_API int64_t rbt_worker_clock(const rbt_worker *worker);
RBT_API int64_t rbt_worker_process_clock(const rbt_worker *worker);
RBT_API int64_t rbt_worker_shard_clock(const rbt_worker *worker);

/* Seconds since the run began: real ones, or virtual ones in a simulation. */
RBT_API double rbt_worker_seconds(const rbt_worker *worker);

/* Says that the worker has just computed for so long, on a processor of full speed. In a simulation
 * that much virtual time passes, more if the worker is slow; elsewhere the call does nothing. */
RBT_API void rbt_worker_spend(rbt_worker *worker, double seconds);

/* Ends the worker's current clock: its updates are sent, stamped with that clock. Waits for
 * nobody; in a simulation only while very many messages are unanswered.
 * Fails with RBT_E_NOMEM; the clock has then not ended, and the call must be repeated before the
 * worker updates again. */
RBT_API RBT_MUST_USE rbt_status rbt_clock(rbt_worker *worker);

/* Leaves early: sends what is pending, and from then on no read of others waits for this worker.
 * It may still read, and must not update. Its function returning RBT_OK does the same. */
RBT_API RBT_MUST_USE rbt_status rbt_worker_leave(rbt_worker *worker);

#ifdef __cplusplus
}
#endif

#endif
