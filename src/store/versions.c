/* store/versions.c - parts behind a small table of slots, or side by side for all rows.
 *
 * Sparse: places are probed one after the other, at most 7/8 of them are taken. Dense: the place is
 * the slot, and a row without a part has one of zeros.
 *
 * Threads: none; owned by the shard. */
#include "store/versions.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "core/batch.h"

enum { PLACES_MIN = 16 };

void rbt_versions_init(struct rbt_versions *versions, uint32_t width)
{
    RBT_ASSERT(width > 0);
    *versions = (struct rbt_versions){.width = width};
}

static void free_version(struct rbt_version *version)
{
    RBT_ASSERT(!version->is_dense || version->slots == NULL);
    rbt_free(version->slots);
    rbt_free(version->parts);
}

void rbt_versions_deinit(struct rbt_versions *versions)
{
    RBT_ASSERT(versions->count <= versions->capacity);
    RBT_ASSERT(versions->count <= versions->count_max);
    for (size_t i = 0; i < versions->count; i++) {
        free_version(&versions->live[i]);
    }
    rbt_free(versions->live);
    *versions = (struct rbt_versions){0};
}

rbt_status rbt_versions_at(struct rbt_versions *versions, uint64_t id, struct rbt_version **version)
{
    RBT_ASSERT(versions->count <= versions->capacity);
    size_t at = versions->count;
    while (at > 0 && versions->live[at - 1].id > id) {
        at--;
    }
    if (at > 0 && versions->live[at - 1].id == id) {
        *version = &versions->live[at - 1];
        return RBT_OK;
    }
    if (versions->count == versions->capacity) {
        const size_t capacity = versions->capacity == 0 ? 8 : versions->capacity * 2;
        struct rbt_version *live = rbt_realloc(versions->live, capacity, sizeof *live);
        if (live == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate %zu versions", capacity);
        }
        versions->live = live;
        versions->capacity = capacity;
    }
    memmove(versions->live + at + 1, versions->live + at,
            (versions->count - at) * sizeof *versions->live);
    versions->live[at] = (struct rbt_version){.id = id};
    versions->count++;
    versions->count_max =
        versions->count > versions->count_max ? versions->count : versions->count_max;
    *version = &versions->live[at];
    RBT_ASSERT(at == 0 || versions->live[at - 1].id < id);
    return RBT_OK;
}

static uint64_t hash_slot(uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot != RBT_SLOT_NONE);
    return (slot * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
}

/* The place of the slot, or the free one where it would be. */
static uint64_t place_of(const struct rbt_version *version, uint32_t slot)
{
    RBT_DEBUG_ASSERT(version->count < version->capacity);
    RBT_DEBUG_ASSERT(!version->is_dense);
    uint64_t place = (hash_slot(slot) * version->capacity) >> 32;
    while (version->slots[place] != slot && version->slots[place] != RBT_SLOT_NONE) {
        place = place + 1 == version->capacity ? 0 : place + 1;
    }
    return place;
}

/* Takes the parts of `from` over into `to`, which has room. */
static void move_parts(const struct rbt_versions *versions, const struct rbt_version *from,
                       struct rbt_version *to)
{
    uint64_t place = 0;
    uint32_t slot = 0;
    const float *part = NULL;
    while ((part = rbt_versions_next(versions, from, &place, &slot)) != NULL) {
        const uint64_t at = to->is_dense ? slot : place_of(to, slot);
        RBT_ASSERT(at < to->capacity);
        if (!to->is_dense) {
            to->slots[at] = slot;
        }
        memcpy(to->parts + at * versions->width, part, versions->width * sizeof *part);
    }
    RBT_ASSERT(to->count == from->count);
}

/* Gives the version `capacity` places, dense or not. */
static bool resize(const struct rbt_versions *versions, struct rbt_version *version,
                   uint64_t capacity, bool is_dense)
{
    RBT_ASSERT(capacity > version->count || is_dense);
    struct rbt_version grown = *version;
    grown.is_dense = is_dense;
    grown.capacity = capacity;
    grown.slots = is_dense ? NULL : rbt_alloc(capacity * sizeof *grown.slots);
    grown.parts = rbt_calloc(capacity * versions->width, sizeof *grown.parts);
    if (grown.parts == NULL || (!is_dense && grown.slots == NULL)) {
        free_version(&grown);
        return false;
    }
    if (!is_dense) {
        memset(grown.slots, 0xff, capacity * sizeof *grown.slots); /* RBT_SLOT_NONE */
    }
    move_parts(versions, version, &grown);
    free_version(version);
    *version = grown;
    RBT_ASSERT(version->is_dense == (version->slots == NULL));
    return true;
}

/* Room for one more part, of the row in this slot. */
static bool make_room(const struct rbt_versions *versions, struct rbt_version *version,
                      uint32_t slot, uint64_t rows)
{
    RBT_ASSERT(slot < rows);
    RBT_ASSERT(version->is_dense || version->count <= version->capacity);
    if (version->is_dense) {
        return slot < version->capacity || resize(versions, version, rows + rows / 8, true);
    }
    if (2 * (version->count + 1) > rows && rows > PLACES_MIN) {
        return resize(versions, version, rows + rows / 8, true);
    }
    if (version->count + 1 <= version->capacity - version->capacity / 8 && version->capacity > 0) {
        return true;
    }
    const uint64_t capacity = version->capacity + version->capacity / 2;
    return resize(versions, version, capacity < PLACES_MIN ? PLACES_MIN : capacity, false);
}

float *rbt_versions_part(const struct rbt_versions *versions, struct rbt_version *version,
                         uint32_t slot, uint64_t rows)
{
    RBT_ASSERT(slot < rows);
    const float *there = rbt_versions_peek(versions, version, slot);
    if (there != NULL) {
        return version->parts + (there - version->parts);
    }
    if (!make_room(versions, version, slot, rows)) {
        return NULL;
    }
    const uint64_t place = version->is_dense ? slot : place_of(version, slot);
    RBT_ASSERT(place < version->capacity);
    if (!version->is_dense) {
        version->slots[place] = slot;
        version->count++;
    }
    return version->parts + place * versions->width;
}

const float *rbt_versions_peek(const struct rbt_versions *versions,
                               const struct rbt_version *version, uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot != RBT_SLOT_NONE);
    RBT_DEBUG_ASSERT(versions->width > 0);
    if (version->is_dense) {
        return slot < version->capacity ? version->parts + (size_t)slot * versions->width : NULL;
    }
    if (version->count == 0) {
        return NULL;
    }
    const uint64_t place = place_of(version, slot);
    return version->slots[place] == slot ? version->parts + place * versions->width : NULL;
}

const float *rbt_versions_next(const struct rbt_versions *versions,
                               const struct rbt_version *version, uint64_t *place, uint32_t *slot)
{
    RBT_DEBUG_ASSERT(*place <= version->capacity);
    RBT_DEBUG_ASSERT(versions->width > 0);
    uint64_t at = *place;
    while (at < version->capacity && !version->is_dense && version->slots[at] == RBT_SLOT_NONE) {
        at++;
    }
    if (at >= version->capacity) {
        return NULL;
    }
    *slot = version->is_dense ? (uint32_t)at : version->slots[at];
    *place = at + 1;
    return version->parts + at * versions->width;
}

void rbt_versions_drop(struct rbt_versions *versions)
{
    RBT_ASSERT(versions->count > 0);
    RBT_ASSERT(versions->count == 1 || versions->live[0].id < versions->live[1].id);
    free_version(&versions->live[0]);
    versions->count--;
    memmove(versions->live, versions->live + 1, versions->count * sizeof *versions->live);
}

size_t rbt_versions_bytes(const struct rbt_versions *versions)
{
    RBT_ASSERT(versions->count <= versions->capacity);
    size_t bytes = versions->capacity * sizeof *versions->live;
    for (size_t i = 0; i < versions->count; i++) {
        const struct rbt_version *version = &versions->live[i];
        RBT_DEBUG_ASSERT(version->count <= version->capacity);
        bytes += version->capacity * versions->width * sizeof *version->parts;
        bytes += version->is_dense ? 0 : version->capacity * sizeof *version->slots;
    }
    return bytes;
}
