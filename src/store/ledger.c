/* store/ledger.c - holds in an array per worker; there are one or two, unless the worker keeps a
 * row that it read long ago: then there is one for every read since.
 *
 * Invariants:
 *   (1) a worker's holds are in increasing order of stamps;
 *   (2) what is below its `least` is pinned, or has overtaken messages that are still to come.
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
        w->has_left = false;
        w->versions = RBT_RULE_NO_VERSION;
        w->limited_version = RBT_RULE_NO_VERSION;
    }
}

static bool is_needed(const struct rbt_ledger_worker *w, const struct rbt_hold *hold)
{
    RBT_DEBUG_ASSERT(hold >= w->holds && hold < w->holds + w->count);
    return hold->stamp >= w->least || hold->pins > 0 || hold->overtaken > 0; /* (2) */
}

/* Drops what is neither pinned nor needed. */
static void prune(struct rbt_ledger_worker *w)
{
    RBT_ASSERT(w->count <= w->capacity);
    uint32_t kept = 0;
    if (w->count > 0 && w->holds[0].stamp >= w->least) {
        return; /* nor anything behind it */
    }
    for (uint32_t i = 0; i < w->count; i++) {
        if (is_needed(w, &w->holds[i])) {
            w->holds[kept++] = w->holds[i];
        }
    }
    RBT_ASSERT(kept <= w->count);
    w->count = kept;
}

/* Messages below `sequence` have come: they are no reason any more to keep a read. The message
 * itself was sent before reads that have overtaken it, so that its `least` is not about these. */
static void arrive(struct rbt_ledger_worker *w, uint64_t sequence)
{
    RBT_ASSERT(sequence > 0);
    RBT_ASSERT(w->count <= w->capacity);
    for (uint32_t i = 0; i < w->count; i++) {
        struct rbt_hold *hold = &w->holds[i];
        hold->overtaken = hold->overtaken >= sequence ? hold->overtaken : 0;
    }
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
    hold->is_limited = read->is_limited;
    w->is_known = true;
    hold->overtaken = read->overtaken;
    if (read->overtaken == 0) {
        arrive(w, UINT64_MAX);
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
    arrive(w, sequence);
    w->least = least;
    prune(w);
    RBT_ASSERT(w->count == 0 || is_needed(w, &w->holds[0])); /* (2) */
}

struct rbt_hold *rbt_ledger_find(struct rbt_ledger *ledger, uint32_t worker, uint64_t base)
{
    struct rbt_ledger_worker *w = worker_at(ledger, worker);
    uint32_t low = 0;
    uint32_t high = w->count == 0 ? 0 : w->count - 1; /* the last one if all are below */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (w->holds[middle].stamp < base) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    RBT_ASSERT(w->count == 0 || low < w->count);
    RBT_ASSERT(low == 0 || w->holds[low - 1].stamp < base); /* (1) */
    return w->count == 0 ? NULL : &w->holds[low];
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

void rbt_ledger_save(const struct rbt_ledger *ledger, struct rbt_sink *sink)
{
    RBT_ASSERT(ledger->workers != NULL);
    for (uint32_t i = 0; i < ledger->worker_count; i++) {
        const struct rbt_ledger_worker *w = worker_at(ledger, i);
        RBT_ASSERT(w->count <= w->capacity);
        rbt_sink_put_u64(sink, w->least);
        rbt_sink_put_u8(sink, w->is_known ? 1 : 0);
        rbt_sink_put_u8(sink, w->has_left ? 1 : 0);
        rbt_sink_put_u64(sink, w->versions);
        rbt_sink_put_u64(sink, w->limited_tag);
        rbt_sink_put_u64(sink, w->limited_version);
        rbt_sink_put_u64(sink, w->count);
        for (uint32_t k = 0; k < w->count; k++) {
            const struct rbt_hold *hold = &w->holds[k];
            rbt_sink_put_u64(sink, hold->stamp);
            rbt_sink_put_u64(sink, hold->tag);
            rbt_sink_put_u64(sink, hold->version);
            rbt_sink_put_u64(sink, hold->overtaken);
            rbt_sink_put_u8(sink, hold->is_limited ? 1 : 0);
        }
    }
}

static void load_hold(struct rbt_ledger_worker *w, struct rbt_source *source, uint64_t highest)
{
    RBT_ASSERT(w->count <= w->capacity);
    struct rbt_hold hold = {.stamp = rbt_source_get_u64(source)};
    hold.tag = rbt_source_get_u64(source);
    hold.version = rbt_source_get_u64(source);
    hold.overtaken = rbt_source_get_u64(source);
    hold.is_limited = rbt_source_get_bool(source);
    const bool is_next = w->count == 0 || w->holds[w->count - 1].stamp < hold.stamp; /* (1) */
    if (hold.stamp > highest || !is_next || (hold.is_limited && hold.tag == RBT_RULE_NO_VERSION) ||
        (hold.overtaken > 0 && !w->is_known)) {
        rbt_source_refuse(source, "a worker holds a read that cannot be");
        return;
    }
    if (!reserve(w)) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for a worker's reads");
        return;
    }
    w->holds[w->count++] = hold;
    RBT_ASSERT(w->count <= w->capacity);
}

void rbt_ledger_load(struct rbt_ledger *ledger, struct rbt_source *source, uint64_t highest)
{
    enum { HOLD_SIZE = 4 * sizeof(uint64_t) + 1 };
    RBT_ASSERT(ledger->workers != NULL);
    for (uint32_t i = 0; i < ledger->worker_count && rbt_source_is_good(source); i++) {
        struct rbt_ledger_worker *w = worker_at(ledger, i);
        RBT_ASSERT(w->capacity > 0);
        w->least = rbt_source_get_u64(source);
        w->is_known = rbt_source_get_bool(source);
        w->has_left = rbt_source_get_bool(source);
        w->versions = rbt_source_get_u64(source);
        w->limited_tag = rbt_source_get_u64(source);
        w->limited_version = rbt_source_get_u64(source);
        const uint64_t count = rbt_source_get_count(source, HOLD_SIZE);
        w->count = 0;
        for (uint64_t k = 0; k < count && rbt_source_is_good(source); k++) {
            load_hold(w, source, highest);
        }
    }
}
