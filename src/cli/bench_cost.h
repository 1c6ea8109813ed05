/* cli/bench_cost.h - measures what algorithms compute, to compare with what they tell simulations.
 *
 * A simulation believes an algorithm that says how long it computes (struct rbt_algo_cost). Here
 * the algorithm runs for real, with one worker, on generated data of several shapes; the costs that
 * explain the times of these runs are what it should say. */
#ifndef RUBATO_CLI_BENCH_COST_H
#define RUBATO_CLI_BENCH_COST_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum { RBT_BENCH_COST_UNITS = 3 }; /* costs of an algorithm, and runs to find them */

struct rbt_bench_cost {
    const char *algo;
    const char *names[RBT_BENCH_COST_UNITS]; /* "nonzero" */
    double declared_ns[RBT_BENCH_COST_UNITS];
    double measured_ns[RBT_BENCH_COST_UNITS];
    double declared_seconds; /* of all runs */
    double measured_seconds;
};

enum { RBT_BENCH_COST_ALGOS = 2 };

/* Measures each algorithm. `examples` is the size of the largest data; files are made in the
 * system's folder for temporary files and removed. */
RBT_MUST_USE rbt_status rbt_bench_cost(uint64_t examples,
                                       struct rbt_bench_cost costs[RBT_BENCH_COST_ALGOS]);

#endif
