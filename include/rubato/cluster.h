/* rubato/cluster.h - this process as a part of a cluster: some of a job's workers run here, the
 * others elsewhere, and the tables live on servers.
 *
 *     struct rbt_cluster_options cluster_options = {.struct_size = sizeof cluster_options};
 *     rbt_cluster *cluster = NULL;
 *     rbt_status st = rbt_cluster_join(&cluster_options, &cluster);
 *     struct rbt_job_options options = {.struct_size = sizeof options, .cluster = cluster};
 *     st = rbt_job_open(&options, &job);
 *     ...                                  // the same program as in one process
 *     rbt_job_close(job);
 *     rbt_cluster_leave(cluster, st, rbt_last_error());
 *
 * `rubato run --workers 4 --servers 2 -- ./program` starts the servers and the processes and tells
 * each of them, through the environment, who it is. Every process runs the same program: it opens
 * the same tables in the same order and runs the job as often as the others.
 *
 * A process may have several jobs on one cluster, one after the other. Tables belong to the
 * namespace: a table that a job has opened is found by the next one with the values that it had.
 *
 * Threads: a cluster may be used by any thread; one job at a time. */
#ifndef RUBATO_CLUSTER_H
#define RUBATO_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/job.h>
#include <rubato/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A zero means: what the environment says (RUBATO_COORDINATOR, RUBATO_KEY, RUBATO_WORKERS,
 * RUBATO_THREADS, RUBATO_INDEX, RUBATO_NAMESPACE, RUBATO_READER=1, RUBATO_COMPRESSION,
 * RUBATO_START_TIMEOUT, RUBATO_TIMEOUT), or else the default. Over TCP there must be a key, unless
 * RUBATO_INSECURE=1 is set. RUBATO_JOB_KEY names the file of a key that the job has for itself, or,
 * for a reader, that of its readers. */
struct rbt_cluster_options {
    size_t struct_size;
    const char *coordinator; /* "HOST:PORT" or "unix:PATH" */
    const char *key_file;    /* the cluster's key, made by `rubato keygen`; default: none */
    uint32_t workers;        /* of the job, in all processes; default: 1 */
    uint32_t threads;        /* how many of them are here; default: 1 */
    int32_t index;           /* which process this is, plus 1; 0: the next that is free */
    const char *name_space;  /* of the job; default: "main" */
    bool is_reader;          /* a group of its own that reads what the namespace's job trains, at
                                any staleness, and updates nothing */
    const char *compression; /* of what is sent, when it pays: "none", "zeros" (left out), "lz4" or
                                "zstd"; default: zeros over TCP, none within a host */
    double start_timeout;    /* seconds for everybody to come; default: 30 */
    double timeout;          /* seconds without a sign of life after which a process is lost;
                                default: 10 */
};

/* Joins the cluster; waits until everybody is there. Fails with RBT_E_INVALID, RBT_E_TIMEOUT,
 * RBT_E_CLOSED and a sentence: who could not be reached or did not come, or why we were refused. */
RBT_API RBT_MUST_USE rbt_status rbt_cluster_join(const struct rbt_cluster_options *options,
                                                 rbt_cluster **cluster);

/* Which process of the job this is, from 0; and whether the environment says that there is a
 * cluster to join. */
RBT_API uint32_t rbt_cluster_index(const rbt_cluster *cluster);
RBT_API bool rbt_cluster_is_there(void);

/* Leaves. Without a word before (`status` is RBT_OK) the job has ended well for this process; else
 * all other processes of the job are told that this one has failed, and why. Accepts NULL. */
RBT_API void rbt_cluster_leave(rbt_cluster *cluster, rbt_status status, const char *why);

#ifdef __cplusplus
}
#endif

#endif
