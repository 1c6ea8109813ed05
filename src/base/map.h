/* base/map.h - from 64-bit keys to slots: open addressing, probed in batches. */
#ifndef RUBATO_BASE_MAP_H
#define RUBATO_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#define RBT_MAP_NONE UINT32_MAX /* the key is not there */

struct rbt_map_entry {
    uint64_t key;
    uint32_t slot; /* RBT_MAP_NONE: the entry is empty */
    uint32_t unused;
};

/* Initialise with rbt_map_init(). */
struct rbt_map {
    struct rbt_map_entry *entries;
    uint64_t mask;  /* number of entries - 1, a power of two less one */
    uint64_t count; /* keys */
};

RBT_MUST_USE rbt_status rbt_map_init(struct rbt_map *map, uint64_t keys_expected);
void rbt_map_deinit(struct rbt_map *map);

/* Makes room for `count` more keys, so that inserting them cannot fail. */
RBT_MUST_USE rbt_status rbt_map_reserve(struct rbt_map *map, uint64_t count);

/* Forgets all keys, keeps the memory. */
void rbt_map_clear(struct rbt_map *map);

/* Adds a key that is not there; room must have been reserved. */
void rbt_map_insert(struct rbt_map *map, uint64_t key, uint32_t slot);

/* Slot of a key, or RBT_MAP_NONE. */
uint32_t rbt_map_find(const struct rbt_map *map, uint64_t key);

/* slots[i] of each of `count` keys; several look-ups are under way at once. */
void rbt_map_find_batch(const struct rbt_map *map, const uint64_t *keys, size_t count,
                        uint32_t *slots);

#endif
