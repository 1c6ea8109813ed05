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
#include "proto/service.h"
#include "server/shard_thread.h"

/* One connection. */
struct rbt_shard_peer {
    rbt_shard_thread *thread;
    uint32_t port; /* its place among the thread's */
    struct rbt_shard_peer *next_dirty;
    rbt_channel *channel;          /* NULL: it is in this process */
    rbt_watch *watch;              /* the same */
    struct rbt_nearby_inbox inbox; /* where its answers go then */
    bool is_admitted;              /* long messages are taken */
    bool is_dirty;                 /* in the list of those that may have something to be sent */
    bool is_over;                  /* to be closed when the callbacks are done */
    bool is_cut;                   /* by the service, which has forgotten it */
};

/* What the process's member has to tell the service. */
struct rbt_shard_word {
    struct rbt_service_event event;
    struct rbt_control_job job; /* ADMIT: that it points to */
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
    rbt_service *service;
    struct rbt_outbox outbox;
    uint32_t near_count;           /* connections of this process */
    struct rbt_shard_peer **peers; /* by port; NULL: the port is free */
    uint32_t peer_max;
    struct rbt_shard_peer *dirty;
    bool is_deaf;         /* no descriptor is free: nobody is accepted until the next tick */
    rbt_time deaf_logged; /* when the log was told, or 0 */

    pthread_mutex_t mutex; /* rank LEAF; guards all below */
    struct rbt_shard_word *words;
    uint32_t word_count;
    uint32_t word_max;
    atomic_bool has_words; /* may be read without it */
};

/* Takes connections that wait. */
void rbt_doorway_accept(rbt_shard_thread *thread);

/* Steps the service and does what follows from it. The core's mutex is held. */
void rbt_shard_thread_step(rbt_shard_thread *thread, const struct rbt_service_event *event);

/* Gives a peer a port, and tells the service that it is there. Without memory for that it fails
 * with RBT_E_NOMEM, and the peer is the caller's still. */
RBT_MUST_USE rbt_status rbt_shard_peer_add(struct rbt_shard_peer *peer, const char *name);

/* There is something to read. */
void rbt_shard_peer_work(void *context, short events);

#endif
