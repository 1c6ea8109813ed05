/* comm/window.h - whether the network keeps up: what is sent and not yet acknowledged.
 *
 * A message that has been on its way for much longer than the quickest of late says that more is
 * sent than the network carries. Early sending then pauses until all that was on its way has
 * arrived, so that the queue in the network stays short, and goes on at once when it has. Nor may
 * more than a number of messages be on their way.
 *
 * What is the quickest is found out again from time to time, because routes change, and because a
 * queue that grows slowly would otherwise pass for a longer route. If the quickest has not been
 * met for ten seconds, sending pauses until the network is empty, and what comes next sets it.
 *
 * If nothing is ever acknowledged, early sending stays paused, and nothing else happens.
 * Threads: none. Memory: none but the struct. */
#ifndef RUBATO_COMM_WINDOW_H
#define RUBATO_COMM_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { RBT_WINDOW_MESSAGES = 256 };

struct rbt_window_message {
    uint64_t sequence;
    uint64_t bytes;
    rbt_time sent_at;
    rbt_time grace; /* so much later it would also be if the network kept up */
};

struct rbt_window {
    /* A ring: not acknowledged, in the order of their sequences. When it is full, the last one
     * stands for all that follow. */
    struct rbt_window_message messages[RBT_WINDOW_MESSAGES];
    uint32_t first;
    uint32_t count;
    uint32_t count_max; /* so many may be on their way */
    uint64_t bytes;     /* of those on their way */
    rbt_time quickest;  /* the shortest way there and back of late; RBT_TIME_NEVER: not known */
    rbt_time met_at;    /* when a message was last about as quick */
    rbt_time slack;     /* that much longer is normal */
    bool is_paused;
    uint64_t until;  /* the pause lasts until this sequence has arrived */
    uint64_t pauses; /* how often messages have been late */
    uint64_t probes; /* how often the quickest had to be found out again by a pause */
};

/* `count_max` is at most RBT_WINDOW_MESSAGES. */
void rbt_window_init(struct rbt_window *window, uint32_t count_max, rbt_time slack);

/* A message has left; `grace`: it is known to take so much longer than a small one, because of its
 * size and of what was sent before it. Sequences increase. */
void rbt_window_sent(struct rbt_window *window, uint64_t sequence, uint64_t bytes, rbt_time now,
                     rbt_time grace);

/* All messages up to this one have arrived. */
void rbt_window_acknowledged(struct rbt_window *window, uint64_t sequence, rbt_time now);

/* Whether more may be sent early. If not, only an acknowledgement can change it. */
bool rbt_window_is_open(struct rbt_window *window, rbt_time now);

#endif
