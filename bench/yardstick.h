/* bench/yardstick.h - what the yardsticks share: threads that run passes in step, and the report.
 */
#ifndef RUBATO_BENCH_YARDSTICK_H
#define RUBATO_BENCH_YARDSTICK_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum {
    RBT_YARDSTICK_PASSES_MAX = 1000,
    RBT_YARDSTICK_THREADS_MAX = 64,
};

/* A loop that is timed. */
struct rbt_yardstick {
    const char *name;
    const char *unit; /* what is counted: "examples" */
    const char *flags;
    uint32_t threads;
    uint32_t passes;
    size_t count; /* units of one pass, all threads together */

    /* Thread `thread` does its part of pass `pass`. */
    void (*run)(void *context, uint32_t thread, uint32_t pass);

    /* How good the result is, with its name, after the last pass. */
    double (*judge)(void *context);
    const char *metric;
    void *context;
};

/* Runs all passes and prints one line of JSON: rate of the median and of the best pass. */
RBT_MUST_USE rbt_status rbt_yardstick_run(const struct rbt_yardstick *yardstick);

/* The number that was given as argument `index`, or `otherwise`. */
uint32_t rbt_yardstick_argument(int argc, char **argv, int index, uint32_t otherwise);

#endif
