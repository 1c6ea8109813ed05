/* base/map.c - open addressing with linear probing.
 *
 * Entries are 16 bytes, so a look-up touches one cache line almost always; at most half of them are
 * used, so that a miss ends soon. A batch first asks for the cache lines of the next keys, then
 * reads those that have arrived: memory latency, 100 ns and more, is paid once per batch instead of
 * once per key. Keys are never removed.
 *
 * Threads: none; whoever owns the map. Memory: doubles when half full, in reserve only. */
#include "base/map.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

enum {
    ENTRIES_MIN = 16,
    AHEAD = 24, /* look-ups under way at once; 16 to 32 measured best */
};

static void empty_entries(struct rbt_map_entry *entries, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        entries[i].slot = RBT_MAP_NONE;
    }
}

static struct rbt_map_entry *make_entries(uint64_t count)
{
    RBT_ASSERT((count & (count - 1)) == 0);
    struct rbt_map_entry *entries = rbt_calloc(count, sizeof *entries);
    if (entries != NULL) {
        empty_entries(entries, count);
    }
    return entries;
}

rbt_status rbt_map_init(struct rbt_map *map, uint64_t keys_expected)
{
    *map = (struct rbt_map){0};
    return rbt_map_reserve(map, keys_expected < ENTRIES_MIN / 2 ? ENTRIES_MIN / 2 : keys_expected);
}

void rbt_map_deinit(struct rbt_map *map)
{
    rbt_free(map->entries);
    *map = (struct rbt_map){0};
}

void rbt_map_clear(struct rbt_map *map)
{
    empty_entries(map->entries, map->mask + 1);
    map->count = 0;
}

rbt_status rbt_map_reserve(struct rbt_map *map, uint64_t count)
{
    const uint64_t needed = (map->count + count) * 2;
    uint64_t size = map->entries == NULL ? ENTRIES_MIN : map->mask + 1;
    if (map->entries != NULL && needed <= size) {
        return RBT_OK;
    }
    while (size < needed) {
        size *= 2;
    }
    struct rbt_map grown = {.entries = make_entries(size), .mask = size - 1};
    if (grown.entries == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a map of %llu keys",
                        (unsigned long long)(map->count + count));
    }
    for (uint64_t i = 0; map->entries != NULL && i <= map->mask; i++) {
        if (map->entries[i].slot != RBT_MAP_NONE) {
            rbt_map_insert(&grown, map->entries[i].key, map->entries[i].slot);
        }
    }
    rbt_free(map->entries);
    *map = grown;
    RBT_ASSERT(map->count * 2 <= map->mask + 1);
    return RBT_OK;
}

void rbt_map_insert(struct rbt_map *map, uint64_t key, uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot != RBT_MAP_NONE);
    RBT_ASSERT((map->count + 1) * 2 <= map->mask + 1); /* room was reserved */
    uint64_t at = rbt_hash_key(key) & map->mask;
    while (map->entries[at].slot != RBT_MAP_NONE) { /* ends: half of the entries are empty */
        RBT_DEBUG_ASSERT(map->entries[at].key != key);
        at = (at + 1) & map->mask;
    }
    map->entries[at].key = key;
    map->entries[at].slot = slot;
    map->count++;
}

static uint32_t probe(const struct rbt_map *map, uint64_t key, uint64_t at)
{
    RBT_DEBUG_ASSERT(at <= map->mask);
    for (;;) { /* ends at the key or at an empty entry */
        const struct rbt_map_entry *entry = &map->entries[at];
        if (entry->slot == RBT_MAP_NONE || entry->key == key) {
            return entry->slot;
        }
        at = (at + 1) & map->mask;
    }
}

uint32_t rbt_map_find(const struct rbt_map *map, uint64_t key)
{
    RBT_DEBUG_ASSERT(map->entries != NULL);
    return probe(map, key, rbt_hash_key(key) & map->mask);
}

void rbt_map_find_batch(const struct rbt_map *map, const uint64_t *keys, size_t count,
                        uint32_t *slots)
{
    uint64_t homes[AHEAD]; /* of keys i .. i+AHEAD-1, at their number modulo AHEAD */
    RBT_ASSERT(map->entries != NULL);
    const size_t first = count < AHEAD ? count : AHEAD;
    for (size_t i = 0; i < first; i++) {
        homes[i] = rbt_hash_key(keys[i]) & map->mask;
        __builtin_prefetch(&map->entries[homes[i]]);
    }
    size_t turn = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t home = homes[turn];
        if (i + AHEAD < count) {
            homes[turn] = rbt_hash_key(keys[i + AHEAD]) & map->mask;
            __builtin_prefetch(&map->entries[homes[turn]]);
        }
        turn = turn + 1 == AHEAD ? 0 : turn + 1;
        slots[i] = probe(map, keys[i], home);
    }
}
