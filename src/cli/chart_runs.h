/* cli/chart_runs.h - curves of a chart from logs of runs: values by time, bandwidth, lags of reads,
 * how often rows travelled.
 *
 * Each function adds the curves of one run. All fail with RBT_E_DATA if the log has nothing to
 * draw, RBT_E_INVALID if there are too many curves, and RBT_E_NOMEM; what was added then stays to
 * be freed. Threads: none. */
#ifndef RUBATO_CLI_CHART_RUNS_H
#define RUBATO_CLI_CHART_RUNS_H

#include <rubato/export.h>
#include <rubato/status.h>

#include "cli/chart.h"
#include "cli/runs.h"

/* A run, and what its curves are called and drawn over. */
struct rbt_chart_run {
    const struct rbt_run *run;
    int x_column;     /* of bandwidth: what runs to the right */
    const char *name; /* in front of curves' names; NULL: there is no other run */
};

/* Bytes per second, in steps from evaluation to evaluation: a curve for each class of messages and
 * direction that has any. */
RBT_MUST_USE rbt_status rbt_chart_add_bandwidth(struct rbt_chart *chart,
                                                const struct rbt_chart_run *run);

/* The same of each node of a simulation; always by time. */
RBT_MUST_USE rbt_status rbt_chart_add_nodes(struct rbt_chart *chart,
                                            const struct rbt_chart_run *run);

/* A histogram: which share of the reads was how many clocks behind. */
RBT_MUST_USE rbt_status rbt_chart_add_lags(struct rbt_chart *chart,
                                           const struct rbt_chart_run *run);

/* Which share of the rows travelled early at most so often: a curve for each direction. */
RBT_MUST_USE rbt_status rbt_chart_add_rows(struct rbt_chart *chart,
                                           const struct rbt_chart_run *run);

/* Makes bytes per second into a unit that fits the largest, and returns its name: "MB/s". */
const char *rbt_chart_scale_bytes(struct rbt_chart *chart);

/* Frees the curves. */
void rbt_chart_free_curves(struct rbt_chart *chart);

#endif
