/* cli/run_line.h - the command line of `rubato run`, in front of "--". Threads: none. */
#ifndef RUBATO_CLI_RUN_LINE_H
#define RUBATO_CLI_RUN_LINE_H

#include <stdint.h>

#include "base/option.h"
#include "cli/halves.h"
#include "launch/argv.h"

enum rbt_run_transport { RBT_RUN_AUTO, RBT_RUN_UNIX, RBT_RUN_TCP };

/* What the options write into. */
struct rbt_run_line {
    int64_t workers; /* 0: not given */
    int64_t servers; /* 0: not given */
    int64_t threads;
    int64_t server_threads;
    int32_t transport; /* enum rbt_run_transport */
    const char *hosts;
    const char *listen;
    const char *coordinator;
    const char *key;
    const char *compress;
    const char *ssh;
    const char *remote_path;
    double start_timeout;
    double timeout;
    bool is_colocated;
    bool is_verbose;
    struct rbt_option_list plugins; /* beside those that "train" names */
};

struct rbt_option_table rbt_run_line_table(struct rbt_run_line *line);

/* One of several ranks that srun or mpirun has started: takes a role and plays it, in this process.
 * Servers may load `plugins`. `*is_ranked` says whether that was so. */
RBT_MUST_USE rbt_status rbt_run_rank(const struct rbt_run_line *line,
                                     const struct rbt_halves *halves,
                                     const struct rbt_argv *plugins, bool *is_ranked, int *code);

#endif
