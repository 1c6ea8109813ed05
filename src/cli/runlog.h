/* cli/runlog.h - the log of a run (--log): one JSON object per line, as cli.md lists them.
 *
 * The log of a simulation has no real time and nothing else that could differ between two runs with
 * equal arguments: their logs are the same bytes.
 *
 * Each line is handed to the system as soon as it is complete, so that a run that was interrupted
 * or killed leaves a log that can be read and plotted. Threads: none. */
#ifndef RUBATO_CLI_RUNLOG_H
#define RUBATO_CLI_RUNLOG_H

#include <stdio.h>
#include <sys/types.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "algo/frame/algo.h"
#include "base/option.h"
#include "cli/json.h"
#include "cli/summary.h"

struct rbt_runlog {
    FILE *file; /* NULL: there is no log, and nothing below does anything */
    const char *path;
    bool is_new;     /* the file was not there before */
    bool is_started; /* the start event is written; nothing else comes before it */
    off_t size;      /* of the lines that are complete; below 0 where that has no meaning */
    struct rbt_json json;
};

/* Opens the file without touching what it holds; `path` NULL makes an empty object. The start event
 * replaces the old content; without one the file is left, or removed again, as it was. */
RBT_MUST_USE rbt_status rbt_runlog_open(const char *path, struct rbt_runlog *log);
RBT_MUST_USE rbt_status rbt_runlog_close(struct rbt_runlog *log);

/* What the start event tells: the command line and every option's value. */
struct rbt_runlog_start {
    const char *command; /* "train" */
    const char *algo;
    int argc;
    char *const *argv; /* behind the command */
    const struct rbt_option_table *tables;
    size_t table_count;
    const struct rbt_option_table *cluster; /* of a simulation; NULL: it runs for real */
};

RBT_MUST_USE rbt_status rbt_runlog_start(struct rbt_runlog *log,
                                         const struct rbt_runlog_start *start);
RBT_MUST_USE rbt_status rbt_runlog_eval(struct rbt_runlog *log,
                                        const struct rbt_train_event *event);

/* A node was noticed to be "up", "suspect" or "down". */
RBT_MUST_USE rbt_status rbt_runlog_node(struct rbt_runlog *log, double t, const char *node,
                                        const char *state);

/* After an evaluation in a simulation of at most 64 nodes: what each has sent so far. */
RBT_MUST_USE rbt_status rbt_runlog_traffic(struct rbt_runlog *log,
                                           const rbt_simulation *simulation);

/* At the end of a simulation: what became of each worker's time, and what each node has sent. */
RBT_MUST_USE rbt_status rbt_runlog_simulation(struct rbt_runlog *log,
                                              const rbt_simulation *simulation, uint32_t workers);

/* `status` is "ok", "failed" or "interrupted"; `error` and `summary` may be NULL. */
struct rbt_runlog_end {
    double t;
    const char *status;
    const char *error;
    const struct rbt_summary *summary;
};
RBT_MUST_USE rbt_status rbt_runlog_end(struct rbt_runlog *log, const struct rbt_runlog_end *end);

#endif
