/* client/carrier.h - one worker's way to the shards, and the waiting for them.
 *
 * What is said, and what follows from it, is decided by a caller (proto/caller.h). A carrier does
 * what the caller's outbox says, tells it what has happened, and waits until the caller says that
 * it need not. How bytes move and how one waits is up to its kind: sockets between processes
 * (client/sockets.h), virtual time in a simulation.
 *
 * Threads: a carrier belongs to one thread; its kind may let another one write in between. */
#ifndef RUBATO_CLIENT_CARRIER_H
#define RUBATO_CLIENT_CARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "proto/caller.h"

struct rbt_carrier;

/* What a kind of carrier can do. */
struct rbt_carrier_ops {
    /* Nobody else touches the caller in between. NULL: nobody ever does. */
    void (*lock)(struct rbt_carrier *carrier);
    void (*unlock)(struct rbt_carrier *carrier);
    /* Does what is in the outbox, as far as that goes without waiting. */
    void (*send)(struct rbt_carrier *carrier);
    /* Waits, and tells the caller what happens, until rbt_carrier_is_done(). */
    void (*wait)(struct rbt_carrier *carrier);
    /* Tells the caller what has happened, without waiting; but whoever looks again and again sees
     * time pass. And: the same, unless that was a moment ago; no time need pass. */
    void (*look)(struct rbt_carrier *carrier);
    void (*glance)(struct rbt_carrier *carrier);
    rbt_time (*now)(const struct rbt_carrier *carrier);
    /* Bytes that were sent, or handed over to be, and received, in all. */
    void (*count)(const struct rbt_carrier *carrier, uint64_t bytes[2]);
};

/* What a carrier waits for; the end of everything is each. */
enum rbt_carrier_goal {
    RBT_CARRIER_ROOM,       /* the worker may go on while the rest is sent */
    RBT_CARRIER_ANSWERS,    /* nothing is awaited any more */
    RBT_CARRIER_ONE,        /* nothing with the number `asked` is under way */
    RBT_CARRIER_EVERYTHING, /* the shards have it, the last message of the run included */
};

/* The highest that any carrier of a process has heard of a shard. Relaxed. */
struct rbt_carrier_heard {
    atomic_int_least64_t floor;
    atomic_uint_least64_t version;
};

struct rbt_carrier {
    const struct rbt_carrier_ops *ops;
    struct rbt_carrier_heard *heard; /* the process's, by shard */
    struct rbt_caller caller;
    struct rbt_outbox out; /* of the caller; empty between functions */
    enum rbt_carrier_goal goal;
    uint64_t asked;
    uint64_t counted[2]; /* bytes that replies have told of so far */
};

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

/* For the kinds: whether there is nothing to wait for any more; and: the caller has been told of a
 * message of this shard, so the process may know more than before. */
bool rbt_carrier_is_done(const struct rbt_carrier *carrier);
void rbt_carrier_publish(const struct rbt_carrier *carrier, uint32_t shard);

#endif
