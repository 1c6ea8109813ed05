/* sim/run.h - runs the scenario of a seed, or of many, in processes of their own. */
#ifndef RUBATO_SIM_RUN_H
#define RUBATO_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/world.h"

struct sim_result {
    enum sim_invariant broken; /* SIM_HOLDS: none */
    char text[400];
    uint64_t events;
    uint64_t reads;
    uint64_t hash;
};

/* Runs the scenario once, or twice to see whether it can be repeated. Reports a broken invariant to
 * `out`, if that is not NULL. */
void sim_run(uint64_t seed, bool is_verbose, FILE *out, struct sim_result *result);

/* From now on a process that dies says at which seed, and what happened last. */
void sim_catch_death(void);

/* Seeds first .. last. */
struct sim_batch {
    uint64_t first;
    uint64_t last;
    uint32_t jobs; /* processes */
    bool stops;    /* at the first failure */
    bool is_quiet; /* reports nothing, shows no progress */
};

struct sim_summary {
    uint64_t seeds;
    uint64_t failures;
    uint64_t crashes; /* among the failures: an assertion of the library, a signal, a hang */
    uint64_t events;
    uint64_t reads;
    uint64_t failed_seed;      /* the first that was seen to fail */
    enum sim_invariant broken; /* by it; SIM_HOLDS: it crashed */
};

/* Runs all seeds in child processes, so that one that crashes is told from the others. */
void sim_run_batch(const struct sim_batch *batch, struct sim_summary *summary);

#endif
