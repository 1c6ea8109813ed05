/* client/carrier.h - one thread's connections to the shards, and the waiting for them.
 *
 * What is said, and what follows from it, is decided by a caller (proto/caller.h). The carrier does
 * what the caller's outbox says, tells it what has happened, and waits until the caller says that
 * it need not. What the kernel does not take at once is left to the process's sender
 * (client/sender.h), so that the worker can go on. There is no other thread in between: waking one
 * would cost more than most answers take.
 *
 * Threads: a carrier belongs to one thread, but for the mutex: it is held by whoever drives the
 * connections, its own thread in every function below, else the process's sender. */
#ifndef RUBATO_CLIENT_CARRIER_H
#define RUBATO_CLIENT_CARRIER_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/error.h"
#include "client/line.h"
#include "net/member.h"
#include "net/spin.h"
#include "proto/caller.h"

/* What all carriers of a process share. */
struct rbt_carrier_shared {
    struct rbt_caller_shared caller;
    rbt_member *member;
    const rbt_security *security;    /* NULL: plain */
    atomic_int_least64_t *floors;    /* per shard, the highest heard of; relaxed */
    atomic_uint_least64_t *versions; /* the same */
    struct rbt_sender *sender; /* who writes what the kernel would not take at once; or NULL */
};

/* All zeros may be deinitialised. */
struct rbt_carrier {
    struct rbt_carrier_shared *shared;
    struct rbt_caller caller;
    struct rbt_outbox out; /* of the caller; empty between functions */
    pthread_mutex_t mutex; /* rank SHARD */
    bool is_ready;         /* the mutex was made */
    struct rbt_line *lines;
    struct pollfd *polls;             /* shard_count + 1 */
    struct rbt_channel_stats counted; /* what replies have told of so far */
    struct rbt_spin spin;
    rbt_time looked_at; /* when what had come was last read without waiting */
    char why[RBT_ERROR_MAX];
};

/* `streams`: how to reach each shard; the addresses stay. */
RBT_MUST_USE rbt_status rbt_carrier_init(struct rbt_carrier *carrier,
                                         struct rbt_carrier_shared *shared, uint32_t worker,
                                         const struct rbt_stream_options *streams);
void rbt_carrier_deinit(struct rbt_carrier *carrier);

/* A new run. */
void rbt_carrier_reset(struct rbt_carrier *carrier);

/* See struct rbt_driver_ops; PUSH, LEAVE, PULL and SCAN. */
void rbt_carrier_step(struct rbt_carrier *carrier, struct rbt_driver_call *calls, size_t count);

void rbt_carrier_expect(struct rbt_carrier *carrier, struct rbt_driver_call *calls, size_t count);
void rbt_carrier_forget(struct rbt_carrier *carrier, uint64_t asked);
bool rbt_carrier_has_answer(struct rbt_carrier *carrier, uint64_t asked);

/* Early reads. Nothing of the calls is used after either has returned. */
void rbt_carrier_ask_early(struct rbt_carrier *carrier, struct rbt_driver_call *calls,
                           size_t count);
bool rbt_carrier_take_early(struct rbt_carrier *carrier, struct rbt_driver_call *calls,
                            size_t count);

/* All shards have the updates up to this number, as far as it is known after a look at what has
 * come of late. */
uint64_t rbt_carrier_heard(struct rbt_carrier *carrier);

/* Sends a message that is answered with DONE, and waits for that. The block holds everything but
 * the header. Fails with what the answer says. */
RBT_MUST_USE rbt_status rbt_carrier_ask(struct rbt_carrier *carrier, uint32_t shard,
                                        struct rbt_block *block, struct rbt_frame header,
                                        struct rbt_wire_done *done);

/* Takes what has come, without waiting. */
void rbt_carrier_look(struct rbt_carrier *carrier);

/* Waits until the shards have everything, the last message of the run included. */
RBT_MUST_USE rbt_status rbt_carrier_drain(struct rbt_carrier *carrier);

#endif
