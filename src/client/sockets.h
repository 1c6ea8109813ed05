/* client/sockets.h - a carrier (client/carrier.h) over sockets, with TLS or without, and to shards
 * of this very process.
 *
 * What the kernel does not take at once is left to the process's sender (client/sender.h), so that
 * the worker can go on. There is no other thread in between: waking one would cost more than most
 * answers take.
 *
 * Threads: a carrier belongs to one thread, but for the mutex: it is held by whoever drives the
 * connections, the carrier's own thread in every function, else the process's sender. */
#ifndef RUBATO_CLIENT_SOCKETS_H
#define RUBATO_CLIENT_SOCKETS_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/error.h"
#include "client/carrier.h"
#include "client/line.h"
#include "net/member.h"
#include "net/spin.h"

/* What all carriers of a process share. */
struct rbt_sockets_shared {
    const struct rbt_caller_shared *caller;
    rbt_member *member;
    const rbt_security *security;    /* NULL: plain */
    struct rbt_carrier_heard *heard; /* by shard */
    struct rbt_sender *sender; /* who writes what the kernel would not take at once; or NULL */
};

/* All zeros may be deinitialised. */
struct rbt_sockets {
    struct rbt_carrier carrier; /* first: they are a carrier */
    struct rbt_sockets_shared *shared;
    pthread_mutex_t mutex; /* rank SHARD */
    bool is_ready;         /* the mutex was made */
    struct rbt_line *lines;
    struct pollfd *polls; /* shard_count + 1 */
    struct rbt_spin spin;
    rbt_time looked_at; /* when what had come was last read without waiting */
    char why[RBT_ERROR_MAX];
};

/* `streams`: how to reach each shard; the addresses stay. */
RBT_MUST_USE rbt_status rbt_sockets_init(struct rbt_sockets *sockets,
                                         struct rbt_sockets_shared *shared, uint32_t worker,
                                         const struct rbt_stream_options *streams);
void rbt_sockets_deinit(struct rbt_sockets *sockets);

#endif
