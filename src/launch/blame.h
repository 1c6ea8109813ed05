/* launch/blame.h - several processes of a job have ended badly: which one is to blame?
 *
 * When one process dies, the others notice and die as well, each with a complaint that it lost
 * somebody. The user wants the first cause, in one sentence. Pure functions. Threads: none. */
#ifndef RUBATO_LAUNCH_BLAME_H
#define RUBATO_LAUNCH_BLAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "launch/relay.h"

/* How a process ended, by itself. */
struct rbt_blame_end {
    const char *name; /* "worker/2" */
    const char *host;
    int64_t pid;
    bool is_plain;  /* the user saw its messages as they are: it needs no name in front */
    bool is_remote; /* status and signal are ssh's */
    int64_t status;
    int signal;     /* that killed it, or 0 */
    uint32_t order; /* 1: it was the first to end; 0: it has not ended, or well, or we ended it */
    const struct rbt_relay_record *record;
};

/* Whether the process ended badly by itself. */
bool rbt_blame_is_loss(const struct rbt_blame_end *end);

/* Whether what it said last is about another process. */
bool rbt_blame_is_about_others(const struct rbt_blame_end *end);

/* Whether it only reports the loss of another, so that it is worth waiting for a better reason. */
bool rbt_blame_is_echo(const struct rbt_blame_end *end);

/* Records the sentence for the one that is to blame, and a hint if it gave one. At least one must
 * be a loss. Returns RBT_E_INVALID when that one ended with the exit status of wrong usage,
 * RBT_E_CLOSED otherwise. */
rbt_status rbt_blame(const struct rbt_blame_end *ends, size_t count);

#endif
