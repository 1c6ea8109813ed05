/* store/snapshots.c - copies in a ring.
 *
 * Copies are made and freed in the same order, since each is good for reads up to the message that
 * made it necessary. A row's copies are a chain from the newest to older ones; links to copies that
 * are gone are recognised by their number, so freeing one touches nothing else. What is known of
 * copies lies apart from the states, which so keep to their own cache lines, and are touched only
 * when they are wanted.
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

#define COPIES_MAX (UINT32_MAX / 2)
#define NO_LINK    (1U << 31) /* from a copy's number to one that is not there while it is */

/* It stands for the stamps above its elder's `to`, or since the row's last change. */
struct rbt_snapshot {
    uint64_t to;
    uint32_t slot;
    uint32_t older; /* number of the row's copy before this one */
};
_Static_assert(CAPACITY_MIN * sizeof(struct rbt_snapshot) % 64 == 0, "states begin on a line");

void rbt_snapshots_init(struct rbt_snapshots *snapshots, uint32_t width, uint64_t max)
{
    RBT_ASSERT(width > 0);
    *snapshots = (struct rbt_snapshots){.width = width,
                                        .max = max == 0 || max > COPIES_MAX ? COPIES_MAX : max};
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

static size_t place_of(const struct rbt_snapshots *snapshots, uint32_t number)
{
    RBT_DEBUG_ASSERT(number - snapshots->first < snapshots->count);
    RBT_DEBUG_ASSERT(snapshots->ring != NULL);
    return number & (snapshots->capacity - 1);
}

static float *state_at(const struct rbt_snapshots *snapshots, uint32_t number)
{
    RBT_DEBUG_ASSERT(snapshots->width > 0);
    float *states = (float *)(snapshots->ring + snapshots->capacity);
    return states + place_of(snapshots, number) * snapshots->width;
}

/* Whether the copy is still there, and the row's; else the number has come round again. */
static bool is_copy_of(const struct rbt_snapshots *snapshots, uint32_t number, uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot < snapshots->slot_capacity);
    RBT_DEBUG_ASSERT(snapshots->count <= snapshots->capacity);
    return number - snapshots->first < snapshots->count &&
           snapshots->ring[place_of(snapshots, number)].slot == slot;
}

static size_t bytes_of(const struct rbt_snapshots *snapshots, uint32_t capacity)
{
    RBT_DEBUG_ASSERT((capacity & (capacity - 1)) == 0);
    return capacity * (sizeof *snapshots->ring + snapshots->width * sizeof(float));
}

/* Twice as much room, up to the limit. */
static bool grow(struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count == snapshots->capacity);
    RBT_ASSERT((snapshots->capacity & (snapshots->capacity - 1)) == 0);
    struct rbt_snapshots grown = *snapshots;
    grown.capacity = snapshots->capacity == 0 ? CAPACITY_MIN : snapshots->capacity * 2;
    grown.ring = rbt_alloc(bytes_of(snapshots, grown.capacity));
    if (grown.ring == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < snapshots->count; i++) {
        const uint32_t number = snapshots->first + i;
        grown.ring[place_of(&grown, number)] = snapshots->ring[place_of(snapshots, number)];
        memcpy(state_at(&grown, number), state_at(snapshots, number),
               snapshots->width * sizeof(float));
    }
    rbt_free(snapshots->ring);
    *snapshots = grown;
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

/* Copies the row; returns where to. There is room. */
static const float *copy_row(struct rbt_snapshots *snapshots, uint32_t slot, const float *state,
                             uint64_t count)
{
    const uint32_t newest = snapshots->newest[slot];
    const bool has_older = is_copy_of(snapshots, newest, slot);
    const uint32_t number = snapshots->first + snapshots->count++;
    RBT_DEBUG_ASSERT(snapshots->count <= snapshots->capacity); /* (2) */
    RBT_DEBUG_ASSERT(snapshots->count == 1 ||
                     snapshots->ring[place_of(snapshots, number - 1)].to <= count); /* (1) */
    snapshots->ring[place_of(snapshots, number)] = (struct rbt_snapshot){
        .to = count, .slot = slot, .older = has_older ? newest : number + NO_LINK};
    snapshots->newest[slot] = number;
    snapshots->count_max =
        snapshots->count > snapshots->count_max ? snapshots->count : snapshots->count_max;
    float *to = state_at(snapshots, number);
    if (snapshots->width == 1) { /* no call for the most frequent case */
        *to = *state;
        return to;
    }
    return memcpy(to, state, snapshots->width * sizeof *state);
}

const float *rbt_snapshots_keep(struct rbt_snapshots *snapshots, uint32_t slot, const float *state,
                                uint64_t count, uint64_t highest)
{
    RBT_ASSERT(slot < snapshots->slot_capacity);
    const uint64_t changed = snapshots->changed[slot];
    RBT_DEBUG_ASSERT(changed <= count + 1);
    snapshots->changed[slot] = count + 1;
    if (changed > count || highest < changed) { /* the same message has changed it, or no need */
        return state;
    }
    const bool has_room =
        snapshots->count < snapshots->capacity && snapshots->count < snapshots->max;
    return has_room || make_room(snapshots) ? copy_row(snapshots, slot, state, count) : state;
}

const float *rbt_snapshots_find(const struct rbt_snapshots *snapshots, uint32_t slot, uint64_t base,
                                const float *state)
{
    RBT_ASSERT(slot < snapshots->slot_capacity);
    if (rbt_snapshots_is_present(snapshots, slot, base)) {
        return state;
    }
    const struct rbt_snapshot *ring = snapshots->ring;
    const uint32_t first = snapshots->first;
    const uint32_t count = snapshots->count;
    const uint32_t mask = snapshots->capacity - 1;
    uint32_t number = snapshots->newest[slot];
    uint32_t found = first + NO_LINK;
    while (number - first < count && ring[number & mask].to >= base &&
           ring[number & mask].slot == slot) { /* ends: older and older */
        found = number;
        number = ring[number & mask].older;
    }
    RBT_DEBUG_ASSERT(found == first + NO_LINK || is_copy_of(snapshots, found, slot));
    return found == first + NO_LINK ? state : state_at(snapshots, found);
}

/* How many of the oldest copies are good for reads below `lowest` only. */
static uint32_t count_below(const struct rbt_snapshots *snapshots, uint64_t lowest)
{
    uint32_t low = 0;
    uint32_t high = snapshots->count;
    while (low < high) { /* (1) */
        const uint32_t middle = low + (high - low) / 2;
        if (snapshots->ring[place_of(snapshots, snapshots->first + middle)].to < lowest) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    RBT_ASSERT(low <= snapshots->count);
    return low;
}

void rbt_snapshots_release(struct rbt_snapshots *snapshots, uint64_t lowest)
{
    const uint32_t released = count_below(snapshots, lowest);
    snapshots->first += released;
    snapshots->count -= released;
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
           bytes_of(snapshots, snapshots->capacity);
}
