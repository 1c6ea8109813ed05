/* cli/runs.h - reads logs of runs back (cli/runlog.h writes them).
 *
 * Logs come from anywhere and may be cut off: a last line that is incomplete is left out, events
 * that are not known are skipped, and anything that is not a log is refused with its line. */
#ifndef RUBATO_CLI_RUNS_H
#define RUBATO_CLI_RUNS_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/text.h"

/* Columns of a run: those that every log has, then metrics, and bytes by what they were for
 * ("sent_clock", "received_early"), in the order of appearance. */
enum rbt_runs_column {
    RBT_RUNS_T,
    RBT_RUNS_EPOCH,
    RBT_RUNS_CLOCK,
    RBT_RUNS_EXAMPLES,
    RBT_RUNS_OBJECTIVE,
    RBT_RUNS_LAG_MEAN,
    RBT_RUNS_LAG_MAX,
    RBT_RUNS_BYTES,
    RBT_RUNS_METRICS, /* the first metric; not a column of its own */
};

enum { RBT_RUNS_COLUMNS_MAX = 40, RBT_RUNS_NAME_MAX = 32, RBT_RUNS_PAIRS_MAX = 64 };

/* How many things have which value: reads by their lag, rows by how often they travelled. */
struct rbt_runs_counts {
    double values[RBT_RUNS_PAIRS_MAX]; /* increasing, none below 0 */
    double counts[RBT_RUNS_PAIRS_MAX];
    size_t count;
};

/* What a node has sent and received until then; of a simulation. */
struct rbt_runs_sample {
    char node[RBT_RUNS_NAME_MAX];
    double t;
    double sent;
    double received;
};

struct rbt_run {
    const char *path;               /* borrowed */
    struct rbt_text_buffer command; /* "rubato train linear ...", or empty */
    char version[RBT_RUNS_NAME_MAX];
    char time[RBT_RUNS_NAME_MAX];   /* when it began; "" in a simulation */
    char status[RBT_RUNS_NAME_MAX]; /* of the end event; "" when there is none */
    char names[RBT_RUNS_COLUMNS_MAX][RBT_RUNS_NAME_MAX];
    size_t column_count;
    double *values; /* row_count * RBT_RUNS_COLUMNS_MAX; NaN where a log has none */
    size_t row_count;
    size_t row_capacity;
    struct rbt_runs_counts lags;  /* of reads */
    struct rbt_runs_counts sends; /* of rows, early; and how often they were received */
    struct rbt_runs_counts receipts;
    struct rbt_runs_sample *samples; /* in the order of the log */
    size_t sample_count;
    size_t sample_capacity;
    bool is_cut; /* the last line is incomplete */
};

/* Reads a log. On success the caller frees it; `path` must live as long.
 * Fails with RBT_E_NOTFOUND, RBT_E_IO, RBT_E_NOMEM, or RBT_E_DATA and
 * `cannot read "x.jsonl", line 3: this is not a JSON object`. */
RBT_MUST_USE rbt_status rbt_runs_read(const char *path, struct rbt_run *run);
void rbt_runs_free(struct rbt_run *run);

/* The column with this name, or -1. */
int rbt_runs_column(const struct rbt_run *run, const char *name);

/* A value. */
double rbt_runs_value(const struct rbt_run *run, size_t row, int column);

#endif
