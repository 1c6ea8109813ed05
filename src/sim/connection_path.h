/* sim/connection_path.h - the inside of connections between simulated nodes, shared by
 * connections.c (what the two sides do and hear) and connection_path.c (how bytes get across).
 *
 * An endpoint is one side of a connection together with the direction that leads away from it. Its
 * messages wait in a queue, leave in pieces, and each message that ends in a piece is attached to
 * it. A piece is in one place at a time: in the agenda, in the endpoint's list of pieces that have
 * to be sent again, or in the list of a paused node. SYN and FIN are pieces as well.
 *
 * Invariants:
 *   (1) Pieces of one direction are numbered as they leave; they are heard in this order.
 *   (2) outstanding <= window: bytes that have left and that the other side has not read.
 *   (3) A connection is freed when both sides are done and `references` is 0: no piece, no timer
 *       and no link's queue leads to it. */
#ifndef RUBATO_SIM_CONNECTION_PATH_H
#define RUBATO_SIM_CONNECTION_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/status.h>

#include "base/block.h"
#include "base/clock.h"
#include "base/rng.h"
#include "sim/connections.h"
#include "sim/network.h"
#include "sim/records.h"

enum rbt_piece_kind {
    RBT_PIECE_BYTES,   /* of messages; or none, and only a FIN */
    RBT_PIECE_SYN,     /* from the caller: is somebody there? */
    RBT_PIECE_UP,      /* the listener's answer: yes */
    RBT_PIECE_REFUSED, /* the answer: no */
    RBT_PIECE_RESET,   /* the connection is reset; in no order with the others */
};

/* What an event of the agenda means: its `index`. Its `what` is in brackets. */
enum rbt_connections_stage {
    RBT_STAGE_LEAVE,        /* the link out has time for more (node) */
    RBT_STAGE_ARRIVE,       /* the first byte is at the next link (piece) */
    RBT_STAGE_ARRIVE_NEXT,  /* the same of the first piece of the list `arriving` (node) */
    RBT_STAGE_DELIVER,      /* the last byte is in, and the processor has time (piece) */
    RBT_STAGE_DELIVER_NEXT, /* the same of the first piece of the list `delivering` (node) */
    RBT_STAGE_RESUME,       /* a pause may be over (node) */
    RBT_STAGE_TIMER,        /* the window, or that of congestion, may have room again (endpoint) */
    RBT_STAGE_RETRY,        /* a retransmission time-out has passed (endpoint) */
};

struct rbt_queued_message {
    struct rbt_queued_message *next;
    struct rbt_block *block; /* NULL: the record is not in use */
    rbt_time sent;           /* when it was handed over */
};

struct rbt_message_list {
    struct rbt_queued_message *first;
    struct rbt_queued_message *last;
};

/* Two cache lines. */
struct rbt_connection_piece {
    struct rbt_connection_piece *next;
    rbt_time due; /* when it arrives, or is to be heard */
    struct rbt_endpoint *from;
    struct rbt_endpoint *to;          /* the other one */
    struct rbt_message_list messages; /* those that end in it */
    uint64_t number;                  /* (1) */
    size_t bytes;                     /* of messages */
    size_t wire;                      /* with headers and doubled packets */
    rbt_time left;                    /* when it was last put on the link */
    struct rbt_passage passage;
    enum rbt_piece_kind kind;
    uint32_t message_count;
    bool is_last;  /* a FIN follows the bytes */
    bool has_left; /* once at least: its bytes are counted */
};

struct rbt_piece_list {
    struct rbt_connection_piece *first;
    struct rbt_connection_piece *last;
};

/* What each piece needs comes first. */
struct rbt_endpoint {
    rbt_connection *connection;
    uint32_t node;
    bool is_done;      /* it has cut, or has heard that it is over; or nobody has accepted yet */
    bool is_up;        /* it may send */
    bool is_cut;       /* a FIN follows the queue */
    bool is_fin_sent;  /* the FIN has left */
    bool is_listed;    /* in the list of its node */
    bool is_ready;     /* in the queue for the link out */
    bool is_blocked;   /* the window is full */
    bool is_stalled;   /* pieces have to be sent again, after a time-out */
    bool has_timer;    /* there is an event TIMER */
    bool has_retry;    /* there is an event RETRY */
    bool is_next_lost; /* the packet that leaves next will be lost */
    struct rbt_message_list queue;
    size_t queued;       /* bytes in it */
    size_t outstanding;  /* (2) */
    uint64_t left_count; /* pieces */
    uint64_t arrived_count;
    rbt_time arrives_last; /* of the pieces under way: no later piece arrives before */
    rbt_time delivered_last;
    rbt_time paced;              /* when everything sent would have left at the rate cwnd / RTT */
    struct rbt_piece_list again; /* to be sent again, by number */
    struct rbt_endpoint *ready_next;
    size_t gone;            /* bytes of the queue's first message that have left */
    struct rbt_block *copy; /* what the receiver will see of that message; NULL: its block */
    double cwnd;            /* packets; 0: nothing was lost yet, so there is no limit */
    rbt_time cwnd_at;       /* when it was brought up to date */
    rbt_time halved;        /* when it was last halved */
    rbt_time stalled_since; /* when the first piece left that could not pass */
    struct rbt_endpoint *stalled_next;
    struct rbt_endpoint *stalled_before;
    struct rbt_endpoint *listed_next;
    struct rbt_endpoint *listed_before;
    struct rbt_connection_end end;
};

struct rbt_connection {
    rbt_connections *all;
    uint32_t references; /* (3) */
    bool is_dead;        /* reset, or both sides are done: nothing of it is heard any more */
    struct rbt_endpoint ends[2]; /* by enum rbt_side */
};

struct rbt_ready_list {
    struct rbt_endpoint *first;
    struct rbt_endpoint *last;
};

struct rbt_connection_node {
    rbt_time link_free; /* of the link out */
    rbt_time cpu_free;
    rbt_time paused; /* until then */
    uint32_t index;
    uint32_t side;
    uint32_t rack;
    bool is_leaving;              /* there is an event LEAVE */
    bool is_resuming;             /* there is an event RESUME */
    struct rbt_ready_list ready;  /* wait for the link out */
    struct rbt_ready_list served; /* have sent and have more; they go behind the others */
    struct rbt_endpoint *listed_first;
    struct rbt_endpoint *listed_last;
    struct rbt_piece_list arriving;   /* from its link out, by `due`; one event for all */
    struct rbt_piece_list delivering; /* from its link in, by `due`; one event for all */
    struct rbt_piece_list waiting;    /* to be heard after the pause */
    uint64_t sent_bytes;
    uint64_t received_bytes;
};

struct rbt_connections {
    struct rbt_connections_options options;
    rbt_network *network; /* links; without faults of its own */
    struct rbt_rng rng;
    rbt_status status;
    struct rbt_connections_stats stats;
    struct rbt_connection_node *nodes; /* options.node_count entries */
    struct rbt_rack_bytes *rack_bytes; /* options.rack_count entries */
    struct rbt_endpoint *stalled;      /* all that are */
    struct rbt_records connection_records;
    struct rbt_records piece_records;
    struct rbt_records message_records;
};

static inline struct rbt_endpoint *rbt_endpoint_other(const struct rbt_endpoint *end)
{
    struct rbt_endpoint *ends = end->connection->ends;
    return end == &ends[0] ? &ends[1] : &ends[0];
}

static inline rbt_time rbt_time_later(rbt_time a, rbt_time b)
{
    return a > b ? a : b;
}

/* The sum, or RBT_TIME_NEVER if there is no such time: links may be absurdly slow. */
static inline rbt_time rbt_time_plus(rbt_time time, rbt_time duration)
{
    return duration > RBT_TIME_NEVER - time ? RBT_TIME_NEVER : time + duration;
}

/* --- connection_path.c ----------------------------------------------------------------------- */

/* Adds an event to the agenda. If there is no memory, the network has failed. */
void rbt_path_schedule(rbt_connections *all, enum rbt_connections_stage stage, void *what,
                       rbt_time at);

/* The first piece of a list of the node, whose time has come. */
struct rbt_connection_piece *rbt_path_next(rbt_connections *all, struct rbt_connection_node *node,
                                           enum rbt_connections_stage stage);

/* A piece without bytes, in the order of the direction; NULL without memory. */
struct rbt_connection_piece *rbt_path_make(struct rbt_endpoint *end, enum rbt_piece_kind kind);

/* Puts a piece on the link. */
void rbt_path_launch(struct rbt_connection_piece *piece, rbt_time now);

/* Takes part in the sending of its node from now on, if it has something to send and may. */
void rbt_path_wake(struct rbt_endpoint *end, rbt_time now);

/* The other side has read so many bytes. */
void rbt_path_read(struct rbt_endpoint *end, size_t bytes, rbt_time now);

/* The events of the agenda. A piece that arrives is scheduled for DELIVER. */
void rbt_path_leave(rbt_connections *all, struct rbt_connection_node *node, rbt_time now);
void rbt_path_arrive(struct rbt_connection_piece *piece, rbt_time now);
void rbt_path_timer(struct rbt_endpoint *end, rbt_time now);
void rbt_path_retry(struct rbt_endpoint *end, rbt_time now);

/* The nodes have changed sides: who can pass again gets a time at which to send again. */
void rbt_path_reopen(rbt_connections *all, rbt_time now);

bool rbt_path_is_open(const struct rbt_endpoint *end);

/* Forgets what the endpoint has not sent, or would have to send again. */
void rbt_path_drop(struct rbt_endpoint *end);

/* --- connections.c: lists and lifetimes ------------------------------------------------------ */

void rbt_connection_unref(rbt_connection *connection);
void rbt_message_list_add(struct rbt_message_list *list, struct rbt_queued_message *message);
struct rbt_queued_message *rbt_message_list_take(struct rbt_message_list *list);

/* Gives back the piece, its messages, and its reference to the connection. */
void rbt_piece_release(struct rbt_connection_piece *piece);

#endif
