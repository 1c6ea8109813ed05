/* comm/link_rig.h - for tests: a link with a rate and a way that change, a queue before it, and a
 * sender who always has something to send.
 *
 * Time goes in steps of a tenth of a millisecond. The link carries the messages in their order and
 * has them acknowledged one way later; it knows nothing of budgets. */
#ifndef RUBATO_COMM_LINK_RIG_H
#define RUBATO_COMM_LINK_RIG_H

#include <stdint.h>
#include <string.h>

#include "base/clock.h"

enum {
    LINK_STEP = 100000, /* ns */
    LINK_SECOND = 1000000000,
    LINK_MESSAGES = 1 << 17,
};

struct link_message {
    uint64_t bytes;
    rbt_time sent_at;
    rbt_time acknowledged_at; /* once it has been carried */
};

struct link_rig {
    uint64_t rate; /* bytes per second; may be changed between steps */
    rbt_time way;  /* there, and back again: the same may be said */
    struct link_message messages[LINK_MESSAGES]; /* the one with sequence s is at s - 1 */
    uint64_t sent;
    uint64_t carried;
    uint64_t heard; /* acknowledged so far */
    uint64_t ready; /* bytes that the link can carry but has not yet */
    rbt_time now;
    uint64_t carried_bytes;
    rbt_time wait_max; /* the longest time in the queue and on the link; reset at will */
};

static inline void link_init(struct link_rig *link, uint64_t rate, rbt_time way)
{
    memset(link, 0, sizeof *link);
    link->rate = rate;
    link->way = way;
}

/* Returns its sequence. */
static inline uint64_t link_send(struct link_rig *link, uint64_t bytes)
{
    link->messages[link->sent] = (struct link_message){.bytes = bytes, .sent_at = link->now};
    return ++link->sent;
}

/* A step further. Returns the newest sequence whose acknowledgement has come; 0: nothing new. */
static inline uint64_t link_step(struct link_rig *link)
{
    const uint64_t heard = link->heard;
    link->now += LINK_STEP;
    link->ready += link->rate / (LINK_SECOND / LINK_STEP);
    while (link->carried < link->sent) {
        struct link_message *message = &link->messages[link->carried];
        if (link->ready < message->bytes) {
            break;
        }
        const rbt_time wait = link->now - message->sent_at;
        link->ready -= message->bytes;
        link->carried_bytes += message->bytes;
        link->wait_max = wait > link->wait_max ? wait : link->wait_max;
        message->acknowledged_at = link->now + 2 * link->way;
        link->carried++;
    }
    if (link->carried == link->sent) {
        link->ready = 0;
    }
    while (link->heard < link->carried &&
           link->messages[link->heard].acknowledged_at <= link->now) {
        link->heard++;
    }
    return link->heard > heard ? link->heard : 0;
}

#endif
