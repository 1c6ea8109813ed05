/* core/placement.h - which shard owns a key.
 *
 * A map is made once and never changes: a new number of shards is a new map with a higher version.
 * Both sides of a message make the same map out of the same options, bit for bit.
 *
 *     HASH         the ring: the hash of a key is a place on it, shards stand at many places
 *     RANGE        [0, keys_max] in as many equal pieces as there are shards
 *     RANGE_HASH   [0, keys_max] in many equal pieces, each of which is put on the ring
 *     ROUND_ROBIN  key modulo number of shards
 *     by hand      pieces that somebody else has chosen
 *
 * Threads: any number may look into a map. Memory: in create only. */
#ifndef RUBATO_CORE_PLACEMENT_H
#define RUBATO_CORE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/set.h>
#include <rubato/status.h>
#include <rubato/table.h>

#include "base/hash.h"
#include "base/limits.h"

enum {
    RBT_PLACEMENT_VIRTUAL_DEFAULT = 64,
    RBT_PLACEMENT_VIRTUAL_MAX = 1024,
    RBT_PLACEMENT_RANGES = 1024, /* of RANGE_HASH; does not depend on the shards, so that a range
                                    stays one when they change */
};

__extension__ typedef unsigned __int128 rbt_placement_wide; /* a product of two 64-bit numbers */

/* Keys from `first` up to the next piece's belong to `shard`. */
struct rbt_placement_piece {
    uint64_t first;
    uint32_t shard;
};

struct rbt_placement_options {
    uint64_t version;
    uint32_t shard_count;
    rbt_placement kind;
    uint64_t keys_max;      /* of ranges; larger keys belong to the last one; 0: 2^64-1 */
    uint32_t virtual_nodes; /* places of a shard on the ring; default: 64 */
    bool is_plain;          /* the ring as it is: shards may own more than their share of it */
    /* By hand, instead of `kind`: the first piece begins at 0, the others increase. Copied. */
    const struct rbt_placement_piece *pieces;
    size_t piece_count;
};

enum rbt_placement_look {                           /* how a key is looked up */
                          RBT_PLACEMENT_BY_NOTHING, /* one shard has all */
                          RBT_PLACEMENT_BY_HASH,
                          RBT_PLACEMENT_BY_RANGE,
                          RBT_PLACEMENT_BY_RANGE_HASH,
                          RBT_PLACEMENT_BY_MODULO,
                          RBT_PLACEMENT_BY_SEARCH,
};

/* Plain data, but made by create only. */
struct rbt_placement_map {
    uint64_t version;
    uint32_t shard_count;
    enum rbt_placement_look look;
    uint32_t hash_shift; /* the hash's first 64 - hash_shift bits are the number of its cell */
    uint32_t range_count;
    uint64_t keys_max;
    uint64_t scale; /* 2^scale_shift * range_count / (keys_max + 1), rounded up; 0: a range is one
                       key */
    uint32_t scale_shift;
    uint16_t *owners; /* of cells of the ring, or of ranges */
    size_t piece_count;
    struct rbt_placement_piece *pieces;
};

/* Fails with RBT_E_INVALID if pieces are out of order or belong to no shard, and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_placement_create(const struct rbt_placement_options *options,
                                             struct rbt_placement_map **map);
void rbt_placement_destroy(struct rbt_placement_map *map);

/* Number of the piece that holds the key, of a map made by hand. */
size_t rbt_placement_search(const struct rbt_placement_map *map, uint64_t key);

/* Number of the range that holds the key. */
static inline uint32_t rbt_placement_range(const struct rbt_placement_map *map, uint64_t key)
{
    const uint64_t inside = key < map->keys_max ? key : map->keys_max;
    const uint64_t range =
        map->scale == 0 ? inside
                        : (uint64_t)(((rbt_placement_wide)inside * map->scale) >> map->scale_shift);
    return range < map->range_count ? (uint32_t)range : map->range_count - 1;
}

/* The shard that owns a key. Here, because it is called for every key of every list. */
static inline uint32_t rbt_placement_shard(const struct rbt_placement_map *map, uint64_t key)
{
    switch (map->look) {
    case RBT_PLACEMENT_BY_NOTHING:
        return 0;
    case RBT_PLACEMENT_BY_HASH:
        return map->owners[rbt_hash_key(key) >> map->hash_shift];
    case RBT_PLACEMENT_BY_RANGE:
        return rbt_placement_range(map, key);
    case RBT_PLACEMENT_BY_RANGE_HASH:
        return map->owners[rbt_placement_range(map, key)];
    case RBT_PLACEMENT_BY_MODULO:
        return (uint32_t)(key % map->shard_count);
    case RBT_PLACEMENT_BY_SEARCH:
        break;
    }
    return map->pieces[rbt_placement_search(map, key)].shard;
}

/* Marks in `shards` (one per shard) those that can own a key of the range; returns how many. */
uint32_t rbt_placement_shards(const struct rbt_placement_map *map, struct rbt_range range,
                              bool *shards);

/* The share of keys that have another owner in `fresh`: of `samples` keys that are spread over
 * 0 .. keys_max. */
double rbt_placement_moved(const struct rbt_placement_map *old,
                           const struct rbt_placement_map *fresh, uint64_t keys_max,
                           uint32_t samples);

#endif
