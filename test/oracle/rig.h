/* oracle/rig.h - what the tests on real threads have in common: jobs in one line, gates, checks.
 *
 * cmocka's assertions leave the test by longjmp(), which only the test's own thread may do. A
 * worker therefore uses CHECK, TRY and AWAIT: they remember the first broken promise, open all
 * gates so that nobody hangs, and return from the worker's function. rig_run() then fails the test
 * with what was remembered. Like base/test.h, this is the place where macros may return.
 *
 * A gate counts posts; waiting for the n-th post puts threads into an exact order without sleeping.
 * Threads: gates any; the rest belongs to the test's thread unless it says otherwise. */
#ifndef RUBATO_ORACLE_RIG_H
#define RUBATO_ORACLE_RIG_H

#include <stdbool.h>

#include "base/test.h"

#include <rubato/rubato.h>

struct rig_gate {
    int posts; /* guarded by the rig's mutex */
};

void rig_post(struct rig_gate *gate);

/* Waits until the gate has been posted `posts` times; false if a check was broken meanwhile. */
bool rig_await(struct rig_gate *gate, int posts);

/* Where the shared objects of the tests lie: beside this program, and in the folder of rules.
 * Returns how many `paths` there are, which stay. */
size_t rig_plugins(const char *const **paths);

/* Any thread: remembers the first broken promise, opens all gates, returns a failing status. */
rbt_status rig_broken(const char *file, int line, const char *what);

/* Any thread: remembers and passes on the status of a call that failed. */
rbt_status rig_failed(const char *file, int line, const char *what, rbt_status st);

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return rig_broken(__FILE__, __LINE__, #condition);                                     \
        }                                                                                          \
    } while (0)

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const rbt_status try_st = (call);                                                          \
        if (try_st != RBT_OK) {                                                                    \
            return rig_failed(__FILE__, __LINE__, #call, try_st);                                  \
        }                                                                                          \
    } while (0)

#define AWAIT(gate, posts) CHECK(rig_await((gate), (posts)))

/* A job with so many workers and shards; fails the test if there is none. */
rbt_job *rig_job(uint32_t workers, uint32_t shards, const char *consistency);

/* The same, with more options; sets `struct_size`. */
rbt_job *rig_job_with(struct rbt_job_options options);

/* A cluster for a job with so many, or NULL if the test runs in one process. */
rbt_cluster *rig_cluster(uint32_t workers, uint32_t shards);

/* Ends the clusters whose jobs have been closed, and waits until their threads are gone. */
void rig_end_clusters(void);

/* A table of the job; sets `struct_size`. */
rbt_table *rig_table(rbt_job *job, const char *name, struct rbt_table_options options);

/* Its experiments, for the expression or block that they stand in. */
#define RIG_EXPERIMENTS(...)                                                                       \
    (&(const struct rbt_table_experiments){.struct_size = sizeof(struct rbt_table_experiments),    \
                                           __VA_ARGS__})

/* The most common one: dense i64. */
rbt_table *rig_counts(rbt_job *job, uint32_t width);

/* Runs the function on all workers and fails the test if one of them broke a promise. */
void rig_run(rbt_job *job, rbt_worker_function function, void *argument);

struct rbt_job_stats rig_stats(rbt_job *job);

/* Any thread: gives other threads a chance, `turns` times. */
void rig_yield(int turns);

#endif
