/* comm/window.h - whether the network keeps up: what is sent and not yet acknowledged.
 *
 * Messages that have been on their way for much longer than the quickest of late say that more is
 * sent than the network carries. Early sending then pauses until what is on its way has gone down,
 * so that the queue in the network stays short, and goes on at once when it has. */
#ifndef RUBATO_COMM_WINDOW_H
#define RUBATO_COMM_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

enum { RBT_WINDOW_MESSAGES = 256 };

struct rbt_window_message {
    uint64_t sequence;
    uint64_t bytes;
    rbt_time sent_at;
};

struct rbt_window {
    struct rbt_window_message messages[RBT_WINDOW_MESSAGES]; /* a ring: not acknowledged */
    uint32_t first;
    uint32_t count;
    uint64_t bytes;      /* of them */
    rbt_time quickest;   /* the shortest way there and back of late; 0: none yet */
    rbt_time slack;      /* that much longer is normal */
    uint32_t count_max;  /* messages on their way */
    bool is_paused;
    uint64_t pauses;     /* how often that has happened */
};

void rbt_window_init(struct rbt_window *window, uint32_t count_max, rbt_time slack);
void rbt_window_sent(struct rbt_window *window, uint64_t sequence, uint64_t bytes, rbt_time now);
/* All messages up to this one have arrived. */
void rbt_window_acknowledged(struct rbt_window *window, uint64_t sequence, rbt_time now);
/* Whether more may be sent early. */
bool rbt_window_is_open(struct rbt_window *window, rbt_time now);

#endif
