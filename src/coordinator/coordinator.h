/* coordinator/coordinator.h - the process that knows who is there: it waits for the servers, gives
 * every job its numbers and the list of shards, watches who is silent, and tells the others.
 *
 * Threads: one, the caller's. */
#ifndef RUBATO_COORDINATOR_COORDINATOR_H
#define RUBATO_COORDINATOR_COORDINATOR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "net/security.h"

struct rbt_coordinator_options {
    const char *listen;           /* address */
    const rbt_security *security; /* NULL: plain */
    uint32_t server_count;
    bool is_once; /* ends, and ends the servers, when the first job has ended; else it stays until
                     it is told to stop */
    rbt_time start_timeout;
    rbt_time silence_max;
    rbt_time cut_max;
    FILE *log;                              /* info lines; may be NULL */
    bool (*should_stop)(void);              /* polled; may be NULL */
    void (*on_listen)(const char *address); /* where it came to listen; may be NULL */
};

/* Runs until the end. Returns RBT_OK, or why the first job failed (is_once). */
RBT_MUST_USE rbt_status rbt_coordinator_run(const struct rbt_coordinator_options *options);

#endif
