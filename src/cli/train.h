/* cli/train.h - one training run from the command line's view: check, run, log, report. */
#ifndef RUBATO_CLI_TRAIN_H
#define RUBATO_CLI_TRAIN_H

#include <stdio.h>

#include <rubato/cluster.h>
#include <rubato/export.h>
#include <rubato/status.h>

#include "algo/frame/algo.h"
#include "cli/runlog.h"

/* Everything that `rubato train ALGO` was told. */
struct rbt_train_request {
    struct rbt_train_options options;
    const char *log;  /* path, or NULL */
    int32_t summary;  /* enum rbt_summary_format */
    int32_t progress; /* enum rbt_progress_mode */
    bool wants_list;  /* --list: no run at all */

    const struct rbt_simulation_options *cluster; /* to pretend to run on; NULL: run here */
    const struct rbt_cluster_options *join;       /* a cluster to be a part of; NULL: none */
    const struct rbt_algo *algo;
    const void *config; /* the algorithm's options */
    struct rbt_runlog_start start;
    FILE *out; /* results */
    FILE *err; /* progress */
};

/* Finds contradictions and outputs that cannot be written, before anything starts and without
 * changing any file. Fails with RBT_E_INVALID or RBT_E_IO. */
RBT_MUST_USE rbt_status rbt_train_check(const struct rbt_train_request *request);

/* Trains. Fails with what the algorithm or a log that cannot be written failed with, and with
 * RBT_E_INTERRUPTED after Ctrl-C. The log has its end event in every case but the one that it
 * cannot be written. */
RBT_MUST_USE rbt_status rbt_train_run(const struct rbt_train_request *request);

#endif
