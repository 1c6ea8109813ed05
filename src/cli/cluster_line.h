/* cli/cluster_line.h - the command line of a simulated cluster: what follows "simulate".
 *
 *     struct rbt_cluster_line line = {0}; // rbt_option_parse() with rbt_cluster_line_options
 *     struct rbt_cluster_line_plan plan = {0};
 *     rbt_status st = rbt_cluster_line_read(&line, &plan);
 *     ... plan.options ...
 *     rbt_cluster_line_free(&plan);
 *
 * Threads: none. */
#ifndef RUBATO_CLI_CLUSTER_LINE_H
#define RUBATO_CLI_CLUSTER_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/simulate.h>
#include <rubato/status.h>

#include "base/option.h"

/* What the options write into; texts are as they were typed. */
struct rbt_cluster_line {
    int64_t workers; /* 0: not given */
    int64_t servers; /* 0: not given */
    int64_t threads; /* workers per process */
    const char *bandwidth;
    int64_t racks;
    double oversubscription; /* 0: not given */
    double latency;
    double jitter;
    const char *loss;
    const char *duplication;
    const char *spikes;
    const char *stragglers;
    const char *slowdowns;
    struct rbt_option_list crash;
    struct rbt_option_list pause;
    struct rbt_option_list partition;
    struct rbt_option_list slow_link;
    struct rbt_option_list cut;
    double cuts;
    double until; /* 0: not given */
    int64_t seed;
    bool is_measured;
    const char *trace;
};

extern const struct rbt_option rbt_cluster_line_options[];
extern const size_t rbt_cluster_line_option_count;

/* What the description means. */
struct rbt_cluster_line_plan {
    struct rbt_simulation_options options; /* the observer is left to the caller */
    struct rbt_fault *faults;              /* owned; options.faults */
    char (*nodes)[32];                     /* owned; their nodes' names */
};

/* Reads a description whose numbers of workers and servers are known by now. The trace's path is
 * borrowed. Fails with RBT_E_INVALID, a message that quotes what was typed, and a hint; and with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_cluster_line_read(const struct rbt_cluster_line *cluster,
                                              struct rbt_cluster_line_plan *plan);

/* Accepts an empty plan. */
void rbt_cluster_line_free(struct rbt_cluster_line_plan *plan);

#endif
