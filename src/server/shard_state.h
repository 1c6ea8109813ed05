/* server/shard_state.h - what a shard's thread knows; shared by shard_thread.c (its work) and
 * doorway.c (its listener). */
#ifndef RUBATO_SERVER_SHARD_STATE_H
#define RUBATO_SERVER_SHARD_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/channel.h"
#include "net/loop.h"
#include "net/nearby.h"
#include "proto/strangers.h"
#include "server/admitted.h"
#include "server/host.h"
#include "server/shard_thread.h"

enum {
    RBT_SHARD_DROPPED_MAX = 64, /* jobs that are remembered to be over */
    RBT_SHARD_DROPS_MAX = 64,   /* that wait for the thread */
};

struct rbt_shard_peer {
    struct rbt_stranger stranger; /* first: it leads back to the peer */
    rbt_shard_thread *thread;
    struct rbt_shard_peer *next;
    struct rbt_shard_peer *next_dirty;
    rbt_channel *channel;          /* NULL: it is in this process */
    rbt_watch *watch;              /* the same */
    struct rbt_nearby_inbox inbox; /* where its answers go then */
    struct rbt_guest guest;
    rbt_host *host; /* NULL: it has not said who it is */
    rbt_time since;
    bool is_dirty;                /* in the list of those that may have something to be sent */
    bool is_over;                 /* to be closed when the callbacks are done */
    char name[RBT_WIRE_NAME_MAX]; /* where it comes from, until it has said who it is */
};

struct rbt_shard_thread {
    rbt_loop *loop;
    rbt_watch *listening;
    rbt_timer *timer;
    int listener;
    char address[RBT_ADDRESS_MAX];
    const rbt_security *security;
    FILE *log;
    struct rbt_shard_thread_options options; /* on_version and what it is called with */
    pthread_t thread;
    bool is_running;
    atomic_bool has_ended;     /* the thread */
    atomic_int_least64_t seen; /* when the loop last went round */

    /* rank SHARD; the loop holds it while it works, and so do workers of this process, which call
     * instead of sending. Guards all below. */
    pthread_mutex_t core;
    uint32_t near_count; /* connections of this process */
    struct rbt_shard_peer *peers;
    struct rbt_shard_peer *dirty;
    struct rbt_strangers strangers;
    bool is_deaf;         /* no descriptor is free: nobody is accepted until the next tick */
    rbt_time deaf_logged; /* when the log was told, or 0 */
    rbt_host **hosts;
    uint32_t host_count;
    uint64_t dropped[RBT_SHARD_DROPPED_MAX];
    uint32_t dropped_count; /* ever */

    struct rbt_admitted admitted; /* has a mutex of its own */

    pthread_mutex_t mutex; /* rank LEAF; guards all below */
    uint64_t cluster;
    uint32_t shard;
    bool has_name;
    uint64_t drops[RBT_SHARD_DROPS_MAX];
    uint32_t drop_count;
};

/* Takes connections that wait. */
void rbt_doorway_accept(rbt_shard_thread *thread);

/* A peer: there is something to read; a block is to be sent; it is closed soon; why it is refused,
 * for the log. */
void rbt_shard_peer_work(void *context, short events);
void rbt_shard_peer_send(void *context, struct rbt_block *block);
void rbt_shard_peer_end(struct rbt_shard_peer *peer);
void rbt_shard_peer_note(const struct rbt_shard_peer *peer, const char *why);

#endif
