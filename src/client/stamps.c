/* client/stamps.c - for each shard a sorted list of stamps and how many copies hold each.
 *
 * Stamps come nearly in order: a read is mostly the newest yet, so that it goes to the end, and the
 * copies that are replaced are mostly the oldest. What nobody holds any more stays in the list
 * until room is needed, or until it is at the front.
 *
 * Invariants, of every shard:
 *   (1) stamps increase strictly;
 *   (2) entries before `first` have no holders, and the entry at `first`, if any, has some.
 *
 * Threads: the worker's own. Memory: the lists, which grow to the number of different stamps. */
#include "client/stamps.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

rbt_status rbt_stamps_create(uint32_t shard_count, struct rbt_stamps **stamps)
{
    RBT_ASSERT(shard_count > 0);
    struct rbt_stamps *s = rbt_calloc(1, sizeof *s);
    struct rbt_stamps_shard *shards = rbt_calloc(shard_count, sizeof *shards);
    if (s == NULL || shards == NULL) {
        rbt_free(shards);
        rbt_free(s);
        return rbt_fail(RBT_E_NOMEM, "could not allocate the stamps of %u shards", shard_count);
    }
    for (uint32_t i = 0; i < shard_count; i++) {
        shards[i].newest = RBT_STAMP_NONE;
    }
    *s = (struct rbt_stamps){.shard_count = shard_count, .shards = shards};
    *stamps = s;
    return RBT_OK;
}

void rbt_stamps_destroy(struct rbt_stamps *stamps)
{
    if (stamps == NULL) {
        return;
    }
    for (uint32_t i = 0; i < stamps->shard_count; i++) {
        rbt_free(stamps->shards[i].entries);
    }
    rbt_free(stamps->shards);
    rbt_free(stamps);
}

static struct rbt_stamps_shard *shard_of(const struct rbt_stamps *stamps, uint32_t shard)
{
    RBT_ASSERT(shard < stamps->shard_count);
    return &stamps->shards[shard];
}

/* Forgets what nobody holds. */
static void compact(struct rbt_stamps_shard *shard)
{
    size_t kept = 0;
    for (size_t i = shard->first; i < shard->count; i++) {
        if (shard->entries[i].holders > 0) {
            shard->entries[kept++] = shard->entries[i];
        }
    }
    shard->first = 0;
    shard->count = kept;
}

rbt_status rbt_stamps_reserve(struct rbt_stamps *stamps, uint32_t shard)
{
    struct rbt_stamps_shard *s = shard_of(stamps, shard);
    if (s->count < s->capacity) {
        return RBT_OK;
    }
    compact(s);
    if (s->count <= s->capacity / 2 && s->capacity > 0) { /* else it would be full again soon */
        return RBT_OK;
    }
    const size_t capacity = s->capacity == 0 ? 8 : s->capacity * 2;
    struct rbt_stamps_entry *entries = rbt_realloc(s->entries, capacity, sizeof *entries);
    if (entries == NULL) {
        return s->count < s->capacity
                   ? RBT_OK
                   : rbt_fail(RBT_E_NOMEM, "could not allocate %zu stamps of reads", capacity);
    }
    s->entries = entries;
    s->capacity = capacity;
    return RBT_OK;
}

/* First entry from `first` on whose stamp is >= stamp. */
static size_t lower_bound(const struct rbt_stamps_shard *shard, uint64_t stamp)
{
    size_t low = shard->first;
    size_t high = shard->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (shard->entries[middle].stamp < stamp) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void hold(struct rbt_stamps_shard *shard, uint64_t stamp)
{
    const size_t at = lower_bound(shard, stamp);
    if (at == shard->count || shard->entries[at].stamp != stamp) {
        RBT_ASSERT(shard->count < shard->capacity); /* see rbt_stamps_reserve() */
        memmove(shard->entries + at + 1, shard->entries + at,
                (shard->count - at) * sizeof *shard->entries);
        shard->entries[at] = (struct rbt_stamps_entry){.stamp = stamp};
        shard->count++;
    }
    shard->entries[at].holders++;
}

static void release(struct rbt_stamps_shard *shard, uint64_t stamp)
{
    const size_t at = lower_bound(shard, stamp);
    RBT_ASSERT(at < shard->count);
    RBT_ASSERT(shard->entries[at].stamp == stamp);
    RBT_ASSERT(shard->entries[at].holders > 0);
    shard->entries[at].holders--;
    while (shard->first < shard->count && shard->entries[shard->first].holders == 0) {
        shard->first++; /* (2) */
    }
}

void rbt_stamps_note(struct rbt_stamps *stamps, uint32_t shard, uint64_t stamp)
{
    struct rbt_stamps_shard *s = shard_of(stamps, shard);
    RBT_ASSERT(stamp != RBT_STAMP_NONE);
    if (s->newest == RBT_STAMP_NONE || s->newest < stamp) {
        s->newest = stamp;
    }
}

void rbt_stamps_replace(struct rbt_stamps *stamps, uint32_t shard, uint64_t *held, uint64_t stamp)
{
    struct rbt_stamps_shard *s = shard_of(stamps, shard);
    if (stamp != RBT_STAMP_NONE) {
        hold(s, stamp);
    }
    if (*held != RBT_STAMP_NONE) {
        release(s, *held);
    }
    *held = stamp;
}

uint64_t rbt_stamps_least(const struct rbt_stamps *stamps, uint32_t shard, uint64_t except)
{
    const struct rbt_stamps_shard *s = shard_of(stamps, shard);
    for (size_t i = s->first; i < s->count; i++) {
        const uint64_t others = s->entries[i].holders - (s->entries[i].stamp == except ? 1 : 0);
        if (s->entries[i].holders > 0 && others > 0) {
            return s->entries[i].stamp;
        }
    }
    return RBT_STAMP_NONE;
}

uint64_t rbt_stamps_base(const struct rbt_stamps *stamps, uint32_t shard, uint64_t held)
{
    const uint64_t newest = shard_of(stamps, shard)->newest;
    if (held != RBT_STAMP_NONE) {
        return held;
    }
    return newest == RBT_STAMP_NONE ? 0 : newest;
}
