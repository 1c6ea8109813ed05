/* store/unshown.c - which messages have updates that are not shown yet: a sorted list per worker,
 * from whose front the messages go that have none left. */
#include "store/unshown.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { ROOM_MIN = 8 };

rbt_status rbt_unshown_init(struct rbt_unshown *unshown, uint32_t worker_count)
{
    RBT_ASSERT(unshown->workers == NULL);
    RBT_ASSERT(worker_count > 0);
    unshown->workers = rbt_calloc(worker_count, sizeof *unshown->workers);
    if (unshown->workers == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a shard for %u workers", worker_count);
    }
    unshown->worker_count = worker_count;
    return RBT_OK;
}

void rbt_unshown_deinit(struct rbt_unshown *unshown)
{
    RBT_ASSERT(unshown->worker_count == 0 || unshown->workers != NULL);
    for (uint32_t i = 0; i < unshown->worker_count; i++) {
        RBT_ASSERT(unshown->workers[i].first <= unshown->workers[i].end);
        rbt_free(unshown->workers[i].messages);
    }
    rbt_free(unshown->workers);
    *unshown = (struct rbt_unshown){0};
}

static struct rbt_unshown_worker *worker_at(const struct rbt_unshown *unshown, uint32_t worker)
{
    RBT_ASSERT(worker < unshown->worker_count);
    struct rbt_unshown_worker *w = &unshown->workers[worker];
    RBT_ASSERT(w->first <= w->end && w->end <= w->max);
    return w;
}

rbt_status rbt_unshown_reserve(struct rbt_unshown *unshown, uint32_t worker)
{
    struct rbt_unshown_worker *w = worker_at(unshown, worker);
    if (w->end < w->max) {
        return RBT_OK;
    }
    if (w->first > w->max / 2) { /* what is in front of the first is room, too */
        memmove(w->messages, w->messages + w->first, (w->end - w->first) * sizeof *w->messages);
        w->end -= w->first;
        w->first = 0;
        RBT_ASSERT(w->end < w->max);
        return RBT_OK;
    }
    const size_t max = w->max == 0 ? ROOM_MIN : 2 * w->max;
    struct rbt_unshown_message *grown = rbt_realloc(w->messages, max, sizeof *grown);
    if (grown == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not hold %zu messages of a worker", max);
    }
    w->messages = grown;
    w->max = max;
    RBT_ASSERT(w->end < w->max);
    return RBT_OK;
}

void rbt_unshown_add(struct rbt_unshown *unshown, uint32_t worker, uint64_t sequence)
{
    struct rbt_unshown_worker *w = worker_at(unshown, worker);
    RBT_ASSERT(sequence > 0);
    if (w->end > w->first && w->messages[w->end - 1].sequence == sequence) {
        w->messages[w->end - 1].count++;
        return;
    }
    RBT_ASSERT(w->end == w->first || w->messages[w->end - 1].sequence < sequence);
    RBT_ASSERT(w->end < w->max);
    w->messages[w->end++] = (struct rbt_unshown_message){.sequence = sequence, .count = 1};
}

/* Where the message is. */
static size_t find(const struct rbt_unshown_worker *w, uint64_t sequence)
{
    size_t low = w->first;
    size_t high = w->end;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (w->messages[middle].sequence < sequence) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    RBT_ASSERT(low < w->end);
    RBT_ASSERT(w->messages[low].sequence == sequence);
    return low;
}

void rbt_unshown_remove(struct rbt_unshown *unshown, uint32_t worker, uint64_t sequence)
{
    struct rbt_unshown_worker *w = worker_at(unshown, worker);
    const size_t at = find(w, sequence);
    RBT_ASSERT(w->messages[at].count > 0);
    w->messages[at].count--;
    while (w->first < w->end && w->messages[w->first].count == 0) {
        w->first++;
    }
    while (w->first < w->end && w->messages[w->end - 1].count == 0) {
        w->end--; /* a message that is taken back */
    }
    if (w->first == w->end) {
        w->first = 0;
        w->end = 0;
    }
}

uint64_t rbt_unshown_first(const struct rbt_unshown *unshown, uint32_t worker)
{
    const struct rbt_unshown_worker *w = worker_at(unshown, worker);
    RBT_ASSERT(w->first == w->end || w->messages[w->first].count > 0);
    return w->first == w->end ? 0 : w->messages[w->first].sequence;
}
