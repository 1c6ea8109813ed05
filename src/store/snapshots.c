/* store/snapshots.c - copies in a ring.
 *
 * Copies are made and freed in the same order, since each is good for reads up to the message that
 * made it necessary. A row's copies are a chain from the newest to older ones; links to copies that
 * are gone are recognised by their number, so freeing one touches nothing else.
 *
 * Invariants:
 *   (1) `to` does not decrease along the ring;
 *   (2) count <= max, count <= capacity.
 *
 * Threads: none; owned by the shard. */
#include "store/snapshots.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "core/batch.h"

enum { CAPACITY_MIN = 64 };

struct rbt_snapshot {
    uint64_t from; /* stamps that it stands for: from .. to */
    uint64_t to;
    uint32_t slot;
    uint32_t older; /* number of the row's copy before this one */
    float state[];
};

void rbt_snapshots_init(struct rbt_snapshots *snapshots, uint32_t width, uint64_t max)
{
    const uint64_t most = UINT32_MAX / 2;
    RBT_ASSERT(width > 0);
    const size_t size = sizeof(struct rbt_snapshot) + width * sizeof(float);
    *snapshots = (struct rbt_snapshots){
        .width = width, .max = max == 0 || max > most ? most : max, .stride = (size + 7) / 8 * 8};
    RBT_ASSERT(snapshots->max > 0);
}

void rbt_snapshots_deinit(struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count <= snapshots->capacity);
    RBT_ASSERT((snapshots->ring == NULL) == (snapshots->capacity == 0));
    rbt_free(snapshots->changed);
    rbt_free(snapshots->newest);
    rbt_free(snapshots->ring);
    *snapshots = (struct rbt_snapshots){0};
}

rbt_status rbt_snapshots_fit(struct rbt_snapshots *snapshots, uint64_t slots)
{
    RBT_ASSERT(slots < RBT_SLOT_NONE);
    const uint64_t before = snapshots->slot_capacity;
    if (slots <= before) {
        return RBT_OK;
    }
    const uint64_t capacity = slots + slots / 4;
    uint64_t *changed = rbt_realloc(snapshots->changed, capacity, sizeof *changed);
    snapshots->changed = changed == NULL ? snapshots->changed : changed;
    uint32_t *newest = rbt_realloc(snapshots->newest, capacity, sizeof *newest);
    snapshots->newest = newest == NULL ? snapshots->newest : newest;
    if (changed == NULL || newest == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the versions of %llu rows",
                        (unsigned long long)slots);
    }
    memset(changed + before, 0, (capacity - before) * sizeof *changed);
    for (uint64_t i = before; i < capacity; i++) {
        newest[i] = snapshots->first - 1; /* one that is gone */
    }
    snapshots->slot_capacity = capacity;
    RBT_ASSERT(snapshots->slot_capacity >= slots);
    return RBT_OK;
}

static struct rbt_snapshot *copy_at(const struct rbt_snapshots *snapshots, uint32_t number)
{
    RBT_DEBUG_ASSERT(number - snapshots->first < snapshots->count);
    RBT_DEBUG_ASSERT(snapshots->ring != NULL);
    return (struct rbt_snapshot *)(snapshots->ring +
                                   (number & (snapshots->capacity - 1)) * snapshots->stride);
}

/* The copy, if it is still there and the row's. */
static const struct rbt_snapshot *copy_of(const struct rbt_snapshots *snapshots, uint32_t number,
                                          uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot < snapshots->slot_capacity);
    RBT_DEBUG_ASSERT(snapshots->count <= snapshots->capacity);
    if (number - snapshots->first >= snapshots->count) {
        return NULL;
    }
    const struct rbt_snapshot *copy = copy_at(snapshots, number);
    return copy->slot == slot ? copy : NULL; /* else the number has come round again */
}

/* Twice as much room, up to the limit. */
static bool grow(struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count == snapshots->capacity);
    RBT_ASSERT((snapshots->capacity & (snapshots->capacity - 1)) == 0);
    const uint32_t capacity = snapshots->capacity == 0 ? CAPACITY_MIN : snapshots->capacity * 2;
    char *ring = rbt_alloc(capacity * snapshots->stride);
    if (ring == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < snapshots->count; i++) {
        const uint32_t number = snapshots->first + i;
        memcpy(ring + (number & (capacity - 1)) * snapshots->stride, copy_at(snapshots, number),
               snapshots->stride);
    }
    rbt_free(snapshots->ring);
    snapshots->ring = ring;
    snapshots->capacity = capacity;
    RBT_ASSERT(snapshots->count < snapshots->capacity);
    return true;
}

/* Room for one more, if need be at the price of the oldest; false: there is none at all. */
static bool make_room(struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count <= snapshots->max);
    const bool is_full = snapshots->count == snapshots->max ||
                         (snapshots->count == snapshots->capacity && !grow(snapshots));
    if (is_full && snapshots->count > 0) {
        snapshots->first++;
        snapshots->count--;
    }
    RBT_ASSERT(snapshots->count < snapshots->max); /* (2) */
    return snapshots->count < snapshots->capacity;
}

void rbt_snapshots_keep(struct rbt_snapshots *snapshots, uint32_t slot, const float *state,
                        uint64_t count, uint64_t highest)
{
    RBT_ASSERT(slot < snapshots->slot_capacity);
    const uint64_t changed = snapshots->changed[slot];
    RBT_ASSERT(changed <= count + 1);
    /* A row that the same message has changed already has its copy. */
    if (changed <= count && highest >= changed && make_room(snapshots)) {
        const uint32_t newest = snapshots->newest[slot];
        const bool has_older = copy_of(snapshots, newest, slot) != NULL;
        const uint32_t number = snapshots->first + snapshots->count++;
        struct rbt_snapshot *copy = copy_at(snapshots, number);
        RBT_DEBUG_ASSERT(snapshots->count == 1 ||
                         copy_at(snapshots, number - 1)->to <= count); /* (1) */
        copy->from = changed;
        copy->to = count;
        copy->slot = slot;
        /* A link to itself ends the chain: a number that has long gone may come round again. */
        copy->older = has_older ? newest : number;
        memcpy(copy->state, state, snapshots->width * sizeof *state);
        snapshots->newest[slot] = number;
        snapshots->count_max =
            snapshots->count > snapshots->count_max ? snapshots->count : snapshots->count_max;
    }
    snapshots->changed[slot] = count + 1;
}

const float *rbt_snapshots_find(const struct rbt_snapshots *snapshots, uint32_t slot, uint64_t base,
                                const float *state)
{
    RBT_ASSERT(slot < snapshots->slot_capacity);
    const float *found = state;
    if (base >= snapshots->changed[slot]) {
        return found;
    }
    const struct rbt_snapshot *copy = copy_of(snapshots, snapshots->newest[slot], slot);
    while (copy != NULL && copy->to >= base) { /* ends: older and older */
        found = copy->state;
        if (copy->from <= base || copy_of(snapshots, copy->older, slot) == copy) {
            break;
        }
        copy = copy_of(snapshots, copy->older, slot);
    }
    RBT_ASSERT(found != NULL);
    return found;
}

void rbt_snapshots_release(struct rbt_snapshots *snapshots, uint64_t lowest)
{
    while (snapshots->count > 0 && copy_at(snapshots, snapshots->first)->to < lowest) {
        snapshots->first++;
        snapshots->count--;
    }
    if (snapshots->count == 0 && snapshots->capacity > CAPACITY_MIN && lowest == RBT_STAMP_NONE) {
        rbt_free(snapshots->ring);
        snapshots->ring = NULL;
        snapshots->capacity = 0;
    }
    RBT_ASSERT(snapshots->count <= snapshots->max); /* (2) */
}

size_t rbt_snapshots_bytes(const struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count <= snapshots->capacity);
    RBT_ASSERT(snapshots->count <= snapshots->count_max);
    return snapshots->slot_capacity * (sizeof *snapshots->changed + sizeof *snapshots->newest) +
           snapshots->capacity * snapshots->stride;
}
