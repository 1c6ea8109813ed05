/* sim/connections.h - connections between simulated nodes, as TCP gives them: bytes in order, which
 * may be delayed, stalled, slowed and cut, but never lost, doubled or reordered one by one.
 *
 * A connection has two sides: the one that has asked for it, and the one that has accepted it. What
 * is sent is a block (base/block.h), which holds one whole message; it is heard on the other side
 * when its last byte is there. Each node has one link out and one link in (sim/network.h), which
 * its connections share.
 *
 *     st = rbt_connections_open(all, from, to, end, now, &connection);   a SYN goes out
 *     ... on_accept() at `to` one way later, on_up() at `from` two ways later, or on_down() ...
 *     rbt_connection_send(connection, RBT_SIDE_CALLER, block, now);
 *     ... on_frame() at `to`, and on_turn() after the last one that has come at that moment ...
 *     rbt_connection_cut(connection, RBT_SIDE_CALLER, now);
 *     ... on_down() at `to`, after the last on_frame() ...
 *
 * Whoever takes an event of kind `kind` from the agenda hands it to rbt_connections_handle().
 *
 * Threads: none. Given the same calls it does the same: randomness comes from the seed. */
#ifndef RUBATO_SIM_CONNECTIONS_H
#define RUBATO_SIM_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/block.h"
#include "base/clock.h"
#include "sim/agenda.h"
#include "sim/network.h"

typedef struct rbt_connections rbt_connections;
typedef struct rbt_connection rbt_connection;

enum rbt_side { RBT_SIDE_CALLER, RBT_SIDE_LISTENER };

/* Whose a side is; both are the owner's own words for it. */
struct rbt_connection_end {
    void *owner;
    uint32_t port;
};

/* What happens at a side. None is called from within a function of this header but
 * rbt_connections_handle() and rbt_connections_crash(); each may call all of them but these. */
struct rbt_connections_events {
    void *context;
    /* Somebody connects to the node. Stores whose the new side is, and returns true; or false:
     * nobody listens, and the caller's side is told so. */
    bool (*on_accept)(void *context, rbt_connection *connection, uint32_t node,
                      struct rbt_connection_end *end);
    void (*on_up)(void *context, rbt_connection *connection); /* at the caller's side */
    /* `sent`: when it was handed over on the other side. The block is borrowed. */
    void (*on_frame)(void *context, rbt_connection *connection, enum rbt_side side,
                     struct rbt_block *block, rbt_time sent);
    /* Nothing more has come for now. */
    void (*on_turn)(void *context, rbt_connection *connection, enum rbt_side side);
    /* It is over; the connection is not valid afterwards for this side. */
    void (*on_down)(void *context, rbt_connection *connection, enum rbt_side side,
                    rbt_status status, const char *why);
};

struct rbt_connections_options {
    uint32_t node_count;
    uint64_t seed;
    double bandwidth; /* bytes per second, of each link */
    rbt_time latency;
    rbt_time jitter;     /* 0 .. jitter more per piece; never reorders one connection */
    double loss;         /* chance per packet */
    double duplication;  /* the same: paid for on both links, and seen by nobody */
    double spike_chance; /* per piece: the path stands still for `spike` */
    rbt_time spike;
    rbt_time message_cost;     /* the receiver's processor per message */
    size_t window;             /* bytes that a side may have unread; 0: 4 MiB */
    uint32_t rack_count;       /* 0: there are none */
    struct rbt_agenda *agenda; /* borrowed; its events get this kind: */
    uint32_t kind;
    struct rbt_connections_events events;
};

/* Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_connections_create(const struct rbt_connections_options *options,
                                               rbt_connections **connections);
void rbt_connections_destroy(rbt_connections *connections); /* nobody is told; accepts NULL */

/* An event of the agenda, whose time has come. */
void rbt_connections_handle(rbt_connections *connections, const struct rbt_agenda_event *event);

/* The first failure of the network itself (no memory); the reason is the thread's record. */
rbt_status rbt_connections_status(const rbt_connections *connections);

/* --- One connection -------------------------------------------------------------------------- */

/* tidy: allow parameters, because a struct for one call would be longer than the call. */
RBT_MUST_USE rbt_status rbt_connections_open(rbt_connections *connections, uint32_t from,
                                             uint32_t to, struct rbt_connection_end end,
                                             rbt_time now, rbt_connection **connection);

/* Takes over the reference. What comes after a cut of the other side goes nowhere. */
void rbt_connection_send(rbt_connection *connection, enum rbt_side side, struct rbt_block *block,
                         rbt_time now);

/* Ends it, after what was sent before; this side hears nothing more, and must not use it again. */
void rbt_connection_cut(rbt_connection *connection, enum rbt_side side, rbt_time now);

/* Bytes that this side has sent and that have not left its node. */
size_t rbt_connection_queued(const rbt_connection *connection, enum rbt_side side);

struct rbt_connection_end rbt_connection_end(const rbt_connection *connection, enum rbt_side side);
uint32_t rbt_connection_node(const rbt_connection *connection, enum rbt_side side);

/* --- Faults ---------------------------------------------------------------------------------- */

/* Its links have 1 / factor of the bandwidth from now on. */
void rbt_connections_slow(rbt_connections *connections, uint32_t node, double factor);

/* Packets pass only between nodes of one side; at first all are on side 0. Connections stay: what
 * cannot pass is sent again when it can, after a retransmission time-out. */
void rbt_connections_set_side(rbt_connections *connections, uint32_t node, uint32_t side,
                              rbt_time now);

/* Until then nothing is handled at the node; its kernel takes bytes, up to the window. */
void rbt_connections_pause(rbt_connections *connections, uint32_t node, rbt_time until);

/* One connection is reset: bytes under way are lost, in both directions, from the first message on
 * that has not been heard; the caller's side hears of it at once, and the listener's side one way
 * later, if the path is open. */
void rbt_connection_reset(rbt_connection *connection, rbt_time now);

/* All connections of the node are reset: bytes under way are lost, in both directions, from the
 * first message on that has not been heard; both sides hear of it, the other nodes one way later,
 * if the path is open. */
void rbt_connections_reset_node(rbt_connections *connections, uint32_t node, rbt_time now);

/* The same, but the node itself hears nothing: its process is gone. */
void rbt_connections_crash(rbt_connections *connections, uint32_t node, rbt_time now);

/* --- Racks and figures ----------------------------------------------------------------------- */

void rbt_connections_set_rack(rbt_connections *connections, uint32_t node, uint32_t rack);
void rbt_connections_set_rack_bandwidth(rbt_connections *connections, uint32_t rack,
                                        double bandwidth);

struct rbt_connections_stats {
    uint64_t messages;
    uint64_t bytes;      /* of messages, as `run` counts them: without headers of packets */
    uint64_t lost;       /* packets */
    uint64_t duplicated; /* packets */
    uint64_t cut;        /* connections that were reset */
};
void rbt_connections_stats(const rbt_connections *connections, struct rbt_connections_stats *stats);
uint64_t rbt_connections_sent(const rbt_connections *connections, uint32_t node);
uint64_t rbt_connections_received(const rbt_connections *connections, uint32_t node);

/* Bytes of messages that have crossed the rack's up-link, and its down-link; those that were sent
 * again count again. */
struct rbt_rack_bytes rbt_connections_rack_bytes(const rbt_connections *connections, uint32_t rack);

#endif
