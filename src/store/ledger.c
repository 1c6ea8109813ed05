/* store/ledger.c - holds in an array per worker; there are one or two, seldom more.
 *
 * Invariants:
 *   (1) a worker's holds are in increasing order of stamps;
 *   (2) what is below its `least` is pinned.
 *
 * Threads: none; owned by the shard. */
#include "store/ledger.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

static struct rbt_ledger_worker *worker_at(const struct rbt_ledger *ledger, uint32_t worker)
{
    RBT_ASSERT(worker < ledger->worker_count);
    RBT_ASSERT(ledger->workers != NULL);
    return &ledger->workers[worker];
}

static bool reserve(struct rbt_ledger_worker *w)
{
    RBT_ASSERT(w->count <= w->capacity);
    if (w->count < w->capacity) {
        return true;
    }
    const uint32_t capacity = w->capacity == 0 ? 2 : w->capacity * 2;
    struct rbt_hold *holds = rbt_realloc(w->holds, capacity, sizeof *holds);
    if (holds == NULL) {
        return false;
    }
    RBT_ASSERT(capacity > w->count);
    w->holds = holds;
    w->capacity = capacity;
    return true;
}

rbt_status rbt_ledger_init(struct rbt_ledger *ledger, uint32_t worker_count)
{
    RBT_ASSERT(worker_count > 0);
    RBT_ASSERT(worker_count != UINT32_MAX);
    *ledger = (struct rbt_ledger){.worker_count = worker_count};
    ledger->workers = rbt_calloc(worker_count, sizeof *ledger->workers);
    bool is_complete = ledger->workers != NULL;
    for (uint32_t i = 0; is_complete && i < worker_count; i++) {
        is_complete = reserve(&ledger->workers[i]);
    }
    if (!is_complete) {
        rbt_ledger_deinit(ledger);
        return rbt_fail(RBT_E_NOMEM, "could not allocate the reads of %u workers", worker_count);
    }
    rbt_ledger_reset(ledger, 0, 0);
    RBT_ASSERT(rbt_ledger_lowest(ledger) == 0);
    return RBT_OK;
}

void rbt_ledger_deinit(struct rbt_ledger *ledger)
{
    RBT_ASSERT(ledger->workers == NULL || ledger->worker_count > 0);
    for (uint32_t i = 0; ledger->workers != NULL && i < ledger->worker_count; i++) {
        rbt_free(ledger->workers[i].holds);
    }
    rbt_free(ledger->workers);
    *ledger = (struct rbt_ledger){0};
}

void rbt_ledger_reset(struct rbt_ledger *ledger, uint64_t stamp, uint64_t tag)
{
    RBT_ASSERT(stamp != RBT_STAMP_NONE);
    for (uint32_t i = 0; i < ledger->worker_count; i++) {
        struct rbt_ledger_worker *w = worker_at(ledger, i);
        RBT_ASSERT(w->capacity > 0);
        w->holds[0] = (struct rbt_hold){.stamp = stamp, .tag = tag, .version = RBT_RULE_NO_VERSION};
        w->count = 1;
        w->least = stamp;
        w->is_known = false;
        w->versions = RBT_RULE_NO_VERSION;
        w->ahead_sequence = 0;
    }
}

/* Drops what is neither pinned nor needed. */
static void prune(struct rbt_ledger_worker *w)
{
    RBT_ASSERT(w->count <= w->capacity);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->holds[i].stamp >= w->least || w->holds[i].pins > 0) { /* (2) */
            w->holds[kept++] = w->holds[i];
        }
    }
    w->count = kept;
    RBT_ASSERT(w->least != RBT_STAMP_NONE || w->count == 0 || w->holds[0].pins > 0);
}

rbt_status rbt_ledger_hold(struct rbt_ledger *ledger, uint32_t worker,
                           const struct rbt_ledger_read *read)
{
    struct rbt_ledger_worker *w = worker_at(ledger, worker);
    RBT_ASSERT(w->count == 0 || w->holds[w->count - 1].stamp <= read->stamp);
    const bool is_there = w->count > 0 && w->holds[w->count - 1].stamp == read->stamp;
    if (!is_there && !reserve(w)) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a read of worker %u", worker);
    }
    struct rbt_hold *hold = &w->holds[is_there ? w->count - 1 : w->count++];
    if (!is_there || hold->tag != read->tag) { /* a tag may change: other versions were read */
        const uint32_t pins = is_there ? hold->pins : 0;
        *hold = (struct rbt_hold){
            .stamp = read->stamp, .tag = read->tag, .version = RBT_RULE_NO_VERSION, .pins = pins};
    }
    w->is_known = true;
    if (read->overtaken > 0) {
        w->ahead_stamp = w->ahead_sequence > 0 ? w->ahead_stamp : read->stamp;
        w->ahead_sequence =
            read->overtaken > w->ahead_sequence ? read->overtaken : w->ahead_sequence;
        w->least = w->least < read->stamp ? w->least : read->stamp;
    } else {
        w->ahead_sequence = 0;
        w->least = read->least < read->stamp ? read->least : read->stamp;
        prune(w);
    }
    RBT_ASSERT(w->holds[w->count - 1].stamp == read->stamp); /* (1) */
    return RBT_OK;
}

void rbt_ledger_release(struct rbt_ledger *ledger, uint32_t worker, uint64_t sequence,
                        uint64_t least)
{
    struct rbt_ledger_worker *w = worker_at(ledger, worker);
    w->ahead_sequence = sequence <= w->ahead_sequence ? w->ahead_sequence : 0;
    w->least = w->ahead_sequence > 0 && w->ahead_stamp < least ? w->ahead_stamp : least;
    prune(w);
    RBT_ASSERT(w->count == 0 || w->holds[0].stamp >= w->least || w->holds[0].pins > 0); /* (2) */
}

struct rbt_hold *rbt_ledger_find(struct rbt_ledger *ledger, uint32_t worker, uint64_t base)
{
    struct rbt_ledger_worker *w = worker_at(ledger, worker);
    uint32_t i = 0;
    while (i + 1 < w->count && w->holds[i].stamp < base) {
        i++;
    }
    RBT_ASSERT(w->count == 0 || i < w->count);
    RBT_ASSERT(i == 0 || w->holds[i - 1].stamp < base); /* (1) */
    return w->count == 0 ? NULL : &w->holds[i];
}

void rbt_ledger_pin(struct rbt_ledger *ledger, uint32_t worker, uint64_t base)
{
    struct rbt_hold *hold = rbt_ledger_find(ledger, worker, base);
    RBT_ASSERT(hold != NULL && hold->stamp == base);
    RBT_ASSERT(hold->pins < UINT32_MAX);
    hold->pins++;
}

void rbt_ledger_unpin(struct rbt_ledger *ledger, uint32_t worker, uint64_t base)
{
    struct rbt_hold *hold = rbt_ledger_find(ledger, worker, base);
    RBT_ASSERT(hold != NULL && hold->stamp == base); /* (2) */
    RBT_ASSERT(hold->pins > 0);
    hold->pins--;
    prune(worker_at(ledger, worker));
}

uint64_t rbt_ledger_lowest(const struct rbt_ledger *ledger)
{
    uint64_t lowest = RBT_STAMP_NONE;
    for (uint32_t i = 0; i < ledger->worker_count; i++) {
        const struct rbt_ledger_worker *w = worker_at(ledger, i);
        RBT_DEBUG_ASSERT(w->count <= w->capacity);
        lowest = w->count > 0 && w->holds[0].stamp < lowest ? w->holds[0].stamp : lowest;
    }
    return lowest;
}

uint64_t rbt_ledger_highest(const struct rbt_ledger *ledger)
{
    uint64_t highest = 0;
    for (uint32_t i = 0; i < ledger->worker_count; i++) {
        const struct rbt_ledger_worker *w = worker_at(ledger, i);
        RBT_DEBUG_ASSERT(w->count <= w->capacity);
        highest = w->count > 0 && w->holds[w->count - 1].stamp > highest
                      ? w->holds[w->count - 1].stamp
                      : highest;
    }
    return highest;
}
