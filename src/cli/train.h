/* cli/train.h - one training run from the command line's view: check, run, log, report. */
#ifndef RUBATO_CLI_TRAIN_H
#define RUBATO_CLI_TRAIN_H

#include <stdio.h>

#include <rubato/cluster.h>
#include <rubato/export.h>
#include <rubato/status.h>

#include "algo/frame/algo.h"
#include "cli/runlog.h"

/* Options of the command alone; names of choices are those of cli/names.h. */
#define RBT_TRAIN_REQUEST_OPTIONS(OPTION)                                                          \
    OPTION(TEXT, log, "log", .unit = "FILE",                                                       \
           .help = "File to write a log to, one JSON object per line; \"rubato plot\" draws it.")  \
    OPTION(CHOICE, summary, "summary", .choices = rbt_names_train_summary, .value = "text",        \
           .help = "How results are printed: text has the result, the time and where the model "   \
                   "is; full has all figures; json has all figures for programs.")                 \
    OPTION(CHOICE, progress, "progress", .choices = rbt_names_progress, .value = "auto",           \
           .unit = "WHEN", .help = "Whether to show progress on standard error.")

/* Everything that `rubato train ALGO` was told. */
struct rbt_train_request {
    struct rbt_train_options options;
    RBT_TRAIN_REQUEST_OPTIONS(RBT_OPTION_FIELD)
    bool wants_list; /* --list: no run at all */

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
