/* comm/manager.h - the budget of a node or of a link, in one direction: when an early message may
 * go, and how large it may be.
 *
 * Puts the limiter and the window together. Clock-end traffic always goes and is only noted; early
 * messages ask first:
 *
 *     size_t bytes = rbt_comm_grant(&comm, now);         // 0: not now
 *     ... choose rows for at most so many bytes, send them ...
 *     rbt_comm_sent(&comm, now, sequence, sent, RBT_COMM_EARLY);
 *     rbt_comm_acknowledged(&comm, now, sequence);       // as it is heard
 *
 * A machine without I/O: time is an argument. Threads: none; it belongs to one thread, or to one
 * lock. */
#ifndef RUBATO_COMM_MANAGER_H
#define RUBATO_COMM_MANAGER_H

#include <stddef.h>
#include <stdint.h>

#include "comm/limiter.h"
#include "comm/window.h"

typedef enum rbt_comm_class {
    RBT_COMM_CLOCK, /* updates at the end of a clock */
    RBT_COMM_EARLY, /* updates and rows before it */
    RBT_COMM_READ,  /* requests, and rows that were asked for */
    RBT_COMM_OTHER, /* acknowledgements, lists of keys, greetings */
    RBT_COMM_CLASSES,
} rbt_comm_class;

struct rbt_comm_options {
    uint64_t rate;      /* bytes per second; 0: nothing is sent early */
    uint64_t burst;     /* 0: what the rate makes in 20 ms, at least two messages */
    size_t message_max; /* bytes of an early message (the papers' queue size); 0: what the rate
                           makes in 10 ms, from 64 KiB to 1 MiB. A row must fit */
    size_t message_min; /* a grant is not worth less; 0: what the rate makes in 20 ms, from 1 KiB to
                           half of message_max */
    uint32_t unacknowledged_max; /* messages on their way before early ones pause; 0: 64, or fewer
                                    if they are larger than 64 KiB */
    rbt_time slack;              /* so much later than the quickest is normal; 0: 50 ms */
};

struct rbt_comm {
    struct rbt_comm_options options; /* defaults filled in */
    struct rbt_limiter limiter;
    struct rbt_window window;
    uint64_t bytes[RBT_COMM_CLASSES];
    uint64_t messages[RBT_COMM_CLASSES];
};

/* `message_min` <= `message_max`, and at least one message fits into the burst. */
void rbt_comm_init(struct rbt_comm *comm, const struct rbt_comm_options *options, rbt_time now);

/* How many bytes may go early now: 0, or at least message_min. Nothing is set aside: what is sent
 * must be told before the next grant is asked for. */
size_t rbt_comm_grant(struct rbt_comm *comm, rbt_time now);

/* A message has gone. `sequence`: on this link, where they increase; 0: it will not be
 * acknowledged.
 */
void rbt_comm_sent(struct rbt_comm *comm, rbt_time now, uint64_t sequence, size_t bytes,
                   rbt_comm_class class);

/* All messages of this link up to this sequence have arrived. */
void rbt_comm_acknowledged(struct rbt_comm *comm, rbt_time now, uint64_t sequence);

/* When to ask again, if a grant was refused; RBT_TIME_NEVER: not before something has been
 * acknowledged. */
rbt_time rbt_comm_when(const struct rbt_comm *comm, rbt_time now);

#endif
