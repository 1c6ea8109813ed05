/* cli/summary.h - the figures of a training run, for people and for programs. */
#ifndef RUBATO_CLI_SUMMARY_H
#define RUBATO_CLI_SUMMARY_H

#include <stdio.h>

#include "algo/frame/algo.h"
#include "cli/json.h"

/* The values of --summary, in the order of its choices; only training has FULL. */
enum rbt_summary_format {
    RBT_SUMMARY_TEXT,
    RBT_SUMMARY_JSON,
    RBT_SUMMARY_FULL,
};

/* Adds the metrics as an object: {"logloss":0.4,"auc":0.9}. */
void rbt_summary_metrics(struct rbt_json *json, const char *name,
                         const struct rbt_metrics *metrics);

/* Adds bytes by what they were for, as two objects: "sent" and "received", {"clock":1,...}. */
void rbt_summary_traffic(struct rbt_json *json, const struct rbt_job_stats *stats);

/* Adds how many reads were 0, 1, ... clocks behind: "lag_counts". */
void rbt_summary_lags(struct rbt_json *json, const struct rbt_job_stats *stats);

/* Adds what went into filters and came out, if anything did: "filter_keys_in_bytes" and so on. */
void rbt_summary_filters(struct rbt_json *json, const struct rbt_job_stats *stats);

/* What there is to tell about a run. */
struct rbt_summary {
    const struct rbt_train_summary *train;
    const struct rbt_simulation_stats *simulation; /* NULL: it ran for real */
    const struct rbt_train_options *options;
    uint64_t rack_bytes; /* of a simulation with racks: from one rack to another; 0: none */
};

/* What Wei et al. 2015 call a run like this: "SN" (one worker), "BS-4" (4 clocks per pass),
 * "MC-200-RM" (200 Mbit/s; R random, RR round-robin, M magnitude, RM relative magnitude, or the
 * name of a priority), "sweep-200". */
enum { RBT_SUMMARY_MODE_MAX = 64 };
void rbt_summary_mode(const struct rbt_summary *summary, char mode[RBT_SUMMARY_MODE_MAX]);

/* Adds the summary as an object with the fields of cli.md. A summary that is `reproducible` has no
 * figures that differ between two simulations with equal arguments: real time and memory. */
void rbt_summary_json(struct rbt_json *json, const char *name, const struct rbt_summary *summary,
                      bool is_reproducible);

/* Prints three lines: the result, the time, and where the model was written (`model`, NULL:
 * nowhere); and a warning if training has not converged. */
void rbt_summary_text(FILE *out, const char *algo, const char *model,
                      const struct rbt_summary *summary);

/* Prints every figure, in a block of aligned lines. */
void rbt_summary_full(FILE *out, const char *algo, const char *model,
                      const struct rbt_summary *summary);

/* Most memory that this process has had, in millions of bytes. */
double rbt_summary_peak_rss_mb(void);

#endif
