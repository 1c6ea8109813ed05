/* core/vclock.c - range vector clocks.
 *
 * Each node has a sorted list of entries (first key, time); an entry reaches to the one after it,
 * the last one to the end of the key space.
 *
 *     first:  0        100       200
 *     time:   |---4----|---7-----|---4----------------->
 *
 * Invariants, for each node:
 *   (1) entries[0].first == 0, so that every key is covered;
 *   (2) first strictly increases;
 *   (3) neighbours have different times: nothing is kept that could be joined.
 *
 * Threads: none; owned by the shard. Memory: all of it in create.
 * Cost: a set is O(ranges of the node), a look-up O(log ranges). */
#include "core/vclock.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

struct entry {
    uint64_t first;
    uint64_t time;
};

struct rbt_vclock {
    uint32_t node_count;
    uint32_t range_max;
    uint32_t *counts;      /* per node */
    struct entry *entries; /* node_count * (range_max + 2): a set may overshoot before it joins */
};

static struct entry *entries_of(const rbt_vclock *vclock, uint32_t node)
{
    RBT_ASSERT(node < vclock->node_count);
    RBT_DEBUG_ASSERT(vclock->counts[node] <= vclock->range_max + 2);
    return vclock->entries + (size_t)node * (vclock->range_max + 2);
}

rbt_status rbt_vclock_create(const struct rbt_vclock_options *options, rbt_vclock **vclock)
{
    RBT_ASSERT(options->node_count > 0);
    RBT_ASSERT(options->range_max > 0);
    rbt_vclock *v = rbt_calloc(1, sizeof *v);
    if (v == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a vector clock");
    }
    v->node_count = options->node_count;
    v->range_max = options->range_max;
    v->counts = rbt_calloc(v->node_count, sizeof *v->counts);
    v->entries = rbt_calloc(v->node_count, (v->range_max + 2) * sizeof *v->entries);
    if (v->counts == NULL || v->entries == NULL) {
        rbt_vclock_destroy(v);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a vector clock of %u nodes",
                        options->node_count);
    }
    rbt_vclock_reset(v);
    *vclock = v;
    return RBT_OK;
}

void rbt_vclock_destroy(rbt_vclock *vclock)
{
    if (vclock == NULL) {
        return;
    }
    rbt_free(vclock->entries);
    rbt_free(vclock->counts);
    rbt_free(vclock);
}

void rbt_vclock_reset(rbt_vclock *vclock)
{
    RBT_ASSERT(vclock->node_count > 0);
    RBT_ASSERT(vclock->entries != NULL);
    for (uint32_t node = 0; node < vclock->node_count; node++) {
        vclock->counts[node] = 1;
        entries_of(vclock, node)[0] = (struct entry){.first = 0, .time = 0};
    }
}

/* Index of the entry that holds `key`. */
static uint32_t find(const struct entry *entries, uint32_t count, uint64_t key)
{
    RBT_ASSERT(count > 0);
    RBT_ASSERT(entries[0].first == 0); /* (1) */
    uint32_t low = 0;
    uint32_t high = count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (entries[middle].first <= key) {
            low = middle;
        } else {
            high = middle;
        }
    }
    RBT_ASSERT(entries[low].first <= key);
    RBT_DEBUG_ASSERT(low + 1 == count || entries[low + 1].first > key);
    return low;
}

/* Makes an entry start at `key`, so that a set need not look left of it; returns its index. */
static uint32_t cut(struct entry *entries, uint32_t *count, uint64_t key)
{
    const uint32_t at = find(entries, *count, key);
    RBT_DEBUG_ASSERT(at < *count);
    if (entries[at].first == key) {
        return at;
    }
    memmove(entries + at + 2, entries + at + 1, (*count - at - 1) * sizeof *entries);
    entries[at + 1] = (struct entry){.first = key, .time = entries[at].time};
    *count += 1;
    return at + 1;
}

/* Joins entries begin-1 .. end with equal times, which restores (3) after a set of begin .. end-1.
 */
static void join(struct entry *entries, uint32_t *count, uint32_t begin)
{
    RBT_ASSERT(begin < *count);
    const uint32_t first = begin > 0 ? begin - 1 : 0;
    uint32_t kept = first;
    for (uint32_t i = first + 1; i < *count; i++) {
        if (entries[i].time != entries[kept].time) {
            entries[++kept] = entries[i];
        }
    }
    RBT_ASSERT(kept < *count);
    *count = kept + 1;
}

static bool invariants_hold(const struct entry *entries, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (entries[i].first <= entries[i - 1].first || entries[i].time == entries[i - 1].time) {
            return false;
        }
    }
    return count > 0 && entries[0].first == 0;
}

rbt_status rbt_vclock_set(rbt_vclock *vclock, uint32_t node, struct rbt_range range, uint64_t time)
{
    RBT_ASSERT(range.first <= range.last);
    struct entry *entries = entries_of(vclock, node);
    uint32_t *count = &vclock->counts[node];
    /* Covering everything needs no room; anything else may need two more entries. */
    const bool is_whole = range.first == 0 && range.last == UINT64_MAX;
    if (!is_whole && *count > vclock->range_max) {
        return rbt_fail(RBT_E_BUSY, "node %u has %u key ranges; no more are allowed", node, *count);
    }
    const uint32_t begin = cut(entries, count, range.first);
    const uint32_t end = range.last == UINT64_MAX ? *count : cut(entries, count, range.last + 1);
    RBT_ASSERT(begin < end);
    entries[begin].time = time;
    memmove(entries + begin + 1, entries + end, (*count - end) * sizeof *entries);
    *count -= end - begin - 1;
    join(entries, count, begin);
    RBT_ASSERT(*count <= vclock->range_max + 2);
    RBT_DEBUG_ASSERT(invariants_hold(entries, *count));
    (void)invariants_hold; /* used by debug builds */
    return RBT_OK;
}

uint64_t rbt_vclock_get(const rbt_vclock *vclock, uint32_t node, uint64_t key)
{
    const struct entry *entries = entries_of(vclock, node);
    RBT_ASSERT(vclock->counts[node] > 0);
    RBT_DEBUG_ASSERT(invariants_hold(entries, vclock->counts[node]));
    return entries[find(entries, vclock->counts[node], key)].time;
}

/* The smallest and the largest time in a range. */
struct span {
    uint64_t min;
    uint64_t max;
};

static struct span span_of(const rbt_vclock *vclock, uint32_t node, struct rbt_range range)
{
    RBT_ASSERT(range.first <= range.last);
    const struct entry *entries = entries_of(vclock, node);
    const uint32_t count = vclock->counts[node];
    uint32_t i = find(entries, count, range.first);
    struct span span = {entries[i].time, entries[i].time};
    for (i++; i < count && entries[i].first <= range.last; i++) {
        span.min = entries[i].time < span.min ? entries[i].time : span.min;
        span.max = entries[i].time > span.max ? entries[i].time : span.max;
    }
    RBT_ASSERT(i <= count);
    RBT_ASSERT(span.min <= span.max);
    return span;
}

uint64_t rbt_vclock_min(const rbt_vclock *vclock, uint32_t node, struct rbt_range range)
{
    return span_of(vclock, node, range).min;
}

uint64_t rbt_vclock_max(const rbt_vclock *vclock, uint32_t node, struct rbt_range range)
{
    return span_of(vclock, node, range).max;
}

uint32_t rbt_vclock_ranges(const rbt_vclock *vclock, uint32_t node)
{
    RBT_ASSERT(node < vclock->node_count);
    RBT_ASSERT(vclock->counts[node] > 0);
    return vclock->counts[node];
}

void rbt_vclock_save(const rbt_vclock *vclock, struct rbt_sink *sink)
{
    RBT_ASSERT(vclock->node_count > 0);
    for (uint32_t node = 0; node < vclock->node_count; node++) {
        const struct entry *entries = entries_of(vclock, node);
        RBT_ASSERT(invariants_hold(entries, vclock->counts[node]));
        rbt_sink_put_u64(sink, vclock->counts[node]);
        for (uint32_t i = 0; i < vclock->counts[node]; i++) {
            rbt_sink_put_u64(sink, entries[i].first);
            rbt_sink_put_u64(sink, entries[i].time);
        }
    }
}

void rbt_vclock_load(rbt_vclock *vclock, struct rbt_source *source)
{
    RBT_ASSERT(vclock->node_count > 0);
    for (uint32_t node = 0; node < vclock->node_count && rbt_source_is_good(source); node++) {
        struct entry *entries = entries_of(vclock, node);
        const uint64_t count = rbt_source_get_count(source, 2 * sizeof(uint64_t));
        if (count == 0 || count > vclock->range_max + UINT64_C(2)) {
            rbt_source_refuse(source, "a vector clock has too many ranges, or none");
            return;
        }
        for (uint64_t i = 0; i < count; i++) {
            entries[i].first = rbt_source_get_u64(source);
            entries[i].time = rbt_source_get_number(source);
        }
        vclock->counts[node] = (uint32_t)count;
        if (!invariants_hold(entries, (uint32_t)count)) {
            rbt_source_refuse(source, "the ranges of a vector clock are in no order");
            vclock->counts[node] = 1;
            entries[0] = (struct entry){0};
        }
        RBT_ASSERT(entries[0].first == 0); /* (1) */
    }
}
