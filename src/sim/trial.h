/* sim/trial.h - what the tests of the simulator have in common: a job on a cluster, and a worker
 * function that counts up the same rows in every clock.
 *
 * cmocka's assertions leave by longjmp(), which a fiber must not do: workers remember what they
 * see, and the test looks at it after the run. */
#ifndef RUBATO_SIM_TRIAL_H
#define RUBATO_SIM_TRIAL_H

#include "base/test.h"

#include <stdbool.h>

#include <rubato/rubato.h>
#include <rubato/simulate.h>

#include "sim/inspect.h"

enum { RBT_TRIAL_ROWS_MAX = 1024, RBT_TRIAL_LAGS = 64 };

/* One table of i64, dense. Zeros mean: one worker, one server, "bsp", one row of width one. */
struct rbt_trial_options {
    struct rbt_simulation_options cluster; /* its struct_size is filled in */
    uint32_t workers;
    uint32_t servers;
    const char *consistency;
    uint32_t width;
    uint32_t rows;                    /* keys 0 .. rows - 1 */
    int64_t clocks;                   /* of rbt_trial_walk() */
    double spends;                    /* in each of them */
    bool is_reading;                  /* it only reads, but for worker 0 in clock 0 */
    struct rbt_inspect_frames frames; /* who looks at messages; or nobody */
};

struct rbt_trial {
    struct rbt_trial_options options;
    size_t live; /* blocks that were allocated before */
    rbt_simulation *simulation;
    rbt_job *job;
    rbt_table *table;
    int64_t wrong_reads; /* with "bsp": a row that does not hold what everybody has added */
    int64_t lags[RBT_TRIAL_LAGS]; /* reads by how many clocks the rows were behind */
    double first_pull_seconds;    /* of worker 0 */
    double last_pull_seconds;     /* of worker 0 */
    double ended_seconds[64];     /* when the worker's function came to its end, by worker */
};

/* Fails the test if there is no such cluster or job. */
void rbt_trial_open(struct rbt_trial *trial, const struct rbt_trial_options *options);

/* Closes everything and sees to it that nothing is left. */
void rbt_trial_close(struct rbt_trial *trial);

/* Opens, runs rbt_trial_walk(), checks that it went well and that all sums are right. */
void rbt_trial_pass(struct rbt_trial *trial, const struct rbt_trial_options *options);

/* A worker function, whose argument is the trial: pulls the rows, spends time, adds one to every
 * element, pushes, ends the clock. */
rbt_status rbt_trial_walk(rbt_worker *worker, void *argument);

/* Element 0 of the row as its server has it, visible or not. */
int64_t rbt_trial_value(struct rbt_trial *trial, uint64_t key);

struct rbt_simulation_stats rbt_trial_stats(const struct rbt_trial *trial);
struct rbt_simulation_worker rbt_trial_worker(const struct rbt_trial *trial, uint32_t index);

/* After a failed allocation: all went well, or memory ran out, here or in another process, and the
 * last error says so. */
void rbt_trial_check_memory(rbt_status st);

/* |a - b| <= slack. */
void rbt_trial_near(double a, double b, double slack);

#endif
