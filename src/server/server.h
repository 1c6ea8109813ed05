/* server/server.h - a server process: threads that own shards, and what they listen on.
 *
 * Threads: the caller's waits; each shard has its own. */
#ifndef RUBATO_SERVER_SERVER_H
#define RUBATO_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "net/security.h"

struct rbt_server_options {
    const char *coordinator;
    const rbt_security *security; /* NULL: plain */
    int32_t index;                /* or RBT_INDEX_ANY */
    uint32_t threads;             /* shards; each listens by itself */
    const char *listen;           /* an address: "unix:PATH" (each thread adds its number),
                                     "HOST:PORT" (each the next port; 0: any) */
    const char *advertise;        /* what others are told instead, or NULL; one shard only */
    rbt_time start_timeout;
    rbt_time silence_max;
    rbt_time cut_max;
    FILE *log;                 /* info and warning lines; may be NULL */
    bool (*should_stop)(void); /* polled; may be NULL */
    /* Shared objects that jobs may name as rules, filters and priorities, or directories of them;
     * this process loads no others. */
    const char *const *plugins;
    size_t plugin_count;
};

/* Runs until the coordinator says that it is over, or it should stop: RBT_E_INTERRUPTED. */
RBT_MUST_USE rbt_status rbt_server_run(const struct rbt_server_options *options);

#endif
