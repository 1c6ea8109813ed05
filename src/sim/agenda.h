/* sim/agenda.h - what is to happen when: a heap of events in virtual time.
 *
 * Events of the same moment come out in the order in which they went in. Memory: grows; adding can
 * fail. */
#ifndef RUBATO_SIM_AGENDA_H
#define RUBATO_SIM_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"

struct rbt_agenda_event {
    rbt_time at;
    uint64_t order; /* filled in by the queue */
    uint32_t kind;  /* what it means is up to the caller */
    uint32_t index;
    void *what;
};

struct rbt_agenda {
    struct rbt_agenda_event *heap;
    size_t count;
    size_t max;
    uint64_t order;
};

void rbt_agenda_deinit(struct rbt_agenda *queue);

/* Adds an event. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_agenda_add(struct rbt_agenda *queue,
                                       const struct rbt_agenda_event *event);

/* Takes the earliest event out. Returns false if there is none. */
bool rbt_agenda_take(struct rbt_agenda *queue, struct rbt_agenda_event *event);

#endif
