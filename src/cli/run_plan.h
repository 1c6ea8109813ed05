/* cli/run_plan.h - the processes of `rubato run`: their command lines, hosts and addresses.
 *
 *     struct rbt_run_plan plan = {0};
 *     rbt_status st = rbt_run_plan_build(&options, &plan);
 *     ... rbt_launch_run() with plan.processes ...
 *     rbt_run_plan_deinit(&plan);
 *
 * The coordinator comes first, then the servers, then the worker processes. Threads: none. */
#ifndef RUBATO_CLI_RUN_PLAN_H
#define RUBATO_CLI_RUN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "launch/argv.h"
#include "launch/hosts.h"
#include "launch/launch.h"

struct rbt_run_plan_options {
    const char *program;           /* path of rubato here */
    const char *far_program;       /* on other hosts */
    int64_t workers;               /* of the job */
    int64_t threads;               /* workers per process */
    int64_t servers;               /* processes */
    int64_t server_threads;        /* shards per server */
    const char *directory;         /* for Unix sockets; NULL: TCP */
    const char *listen;            /* host of TCP addresses here; NULL: 127.0.0.1 or the host's */
    const char *coordinator;       /* where it listens; NULL: anywhere */
    const struct rbt_hosts *hosts; /* NULL: all here */
    const char *own_name;          /* of this host */
    const char *ssh;               /* command with options */
    const char *key;               /* text; NULL: none */
    double start_timeout;
    double timeout;
    const char *compress;       /* or NULL */
    const char *const *plugins; /* that servers may load */
    size_t plugin_count;
    bool is_quiet;
    bool is_colocated;        /* servers are in the first worker processes */
    bool is_beside;           /* servers are processes beside them, on the same hosts */
    char *const *job;         /* what to run; ends with NULL */
    const char *folder;       /* where to run on other hosts; may be NULL */
    char *const *environment; /* for other hosts, see launch/child.h */
    int64_t parent;           /* this process */
    bool is_ordered;          /* results and messages go to one terminal */
    int columns;              /* of the terminal that shows the progress line; 0: none */
};

/* One process; what rbt_launch_process points to. */
struct rbt_run_plan_member {
    char name[32];
    struct rbt_argv words;
    struct rbt_text_buffer input;
};

/* All zeros is empty. */
struct rbt_run_plan {
    struct rbt_launch_process *processes; /* owned */
    struct rbt_run_plan_member *members;  /* owned */
    size_t count;
};

/* How many worker processes there are. */
int64_t rbt_run_plan_processes(const struct rbt_run_plan_options *options);

/* Fails with RBT_E_INVALID when other hosts could not reach this one; with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_run_plan_build(const struct rbt_run_plan_options *options,
                                           struct rbt_run_plan *plan);
void rbt_run_plan_deinit(struct rbt_run_plan *plan);

#endif
