/* launch/launch.h - starts the processes of a job, listens to them, and ends them all.
 *
 *     struct rbt_launch_process processes[] = {
 *         {.name = "coordinator", .argv = ...},
 *         {.name = "worker/0", .argv = ..., .is_worker = true, .is_plain = true}, ...};
 *     st = rbt_launch_run(&(struct rbt_launch_options){processes, 2, .err = stderr, ...});
 *
 * The job is done when every worker process has ended with status 0; the others then end by
 * themselves. When a process is lost, all others are ended, and the failure names the one that is
 * to blame. Whatever happens, no process that was started is left when rbt_launch_run() returns.
 *
 * Threads: one at a time; it handles SIGINT, SIGTERM, SIGHUP and SIGCHLD while it runs. */
#ifndef RUBATO_LAUNCH_LAUNCH_H
#define RUBATO_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* In a command line, stands for the address that the first process says that it listens on; the
 * processes that have this word come last and start when it is known. */
#define RBT_LAUNCH_ADDRESS "{address}"

struct rbt_launch_process {
    const char *name;  /* "worker/2" */
    const char *host;  /* for messages */
    char *const *argv; /* the program, its arguments, NULL */
    const char *input; /* what it reads from its standard input; NULL: nothing */
    bool is_worker;    /* the job is done when these are */
    bool is_plain;     /* its output is the job's; at most one */
    bool is_ordered;   /* and is shown after what it said before: both go to one terminal */
    bool is_remote;    /* argv is an ssh that runs it elsewhere; see launch/child.h */
};

struct rbt_launch_options {
    const struct rbt_launch_process *processes;
    size_t count;
    FILE *err;            /* messages of all processes; standard output is the plain one's */
    bool is_live;         /* `err` is a terminal on which a line may redraw itself */
    double start_seconds; /* for the first process to say where it listens, if that is needed */
};

/* Returns RBT_OK, or RBT_E_CLOSED (RBT_E_INVALID: wrong usage) and one sentence about the process
 * that was lost; RBT_E_INTERRUPTED after Ctrl-C; RBT_E_NOMEM, RBT_E_IO. */
RBT_MUST_USE rbt_status rbt_launch_run(const struct rbt_launch_options *options);

#endif
