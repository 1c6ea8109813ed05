/* sim/queue.h - what is to happen when: a heap of events in virtual time.
 *
 * Events of the same moment come out in the order in which they went in. Memory: grows; adding can
 * fail. */
#ifndef RUBATO_SIM_QUEUE_H
#define RUBATO_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"

struct rbt_queue_event {
    rbt_time at;
    uint64_t order; /* filled in by the queue */
    uint32_t kind;  /* what it means is up to the caller */
    uint32_t index;
    void *what;
};

struct rbt_queue {
    struct rbt_queue_event *heap;
    size_t count;
    size_t max;
    uint64_t order;
};

void rbt_queue_deinit(struct rbt_queue *queue);

/* Adds an event. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_queue_add(struct rbt_queue *queue, const struct rbt_queue_event *event);

/* Takes the earliest event out. Returns false if there is none. */
bool rbt_queue_take(struct rbt_queue *queue, struct rbt_queue_event *event);

#endif
