/* core/placement.c - makes maps from keys to shards, and compares them.
 *
 * The ring is [0, 2^64). It is cut into cells, each of which has one owner, so that a look-up is
 * one load. A shard stands at `virtual_nodes` places of the ring, which depend on its number alone;
 * a cell belongs to the next place at or after the cell's begin. So an arc of the ring is rounded
 * up to whole cells. There are always 2^16 of them (128 kB, which stay in the cache): if their
 * number depended on that of the shards, all arcs would be rounded anew when a shard is added, and
 * keys would move between shards that have nothing to do with it.
 *
 * Arcs have random lengths: with 64 places per shard, the largest of 32 shards owns a quarter more
 * than the mean, and everybody waits for it. So no shard takes more cells than its share: a
 * cell whose owner is full goes to the next place after it that belongs to a shard with room
 * (consistent hashing with bounded loads; here the bound is the mean itself). When a shard is
 * added, some cells then move between old shards as well: 1.1 to 1.8 times as many keys move as the
 * new one gets, for 2 to 64 shards. Cells take their turn in an order of bit-reversed numbers,
 * which are spread over the ring at any time, so that those who come late are nowhere in
 * particular.
 *
 * Invariant: every owner is < shard_count. */
#include "core/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { CELL_BITS = 16 };
_Static_assert(RBT_CLUSTER_SHARDS_MAX <= UINT16_MAX + 1, "owners are 16 bits");

/* Where a shard stands. */
struct place {
    uint64_t at;
    uint32_t shard;
};

/* A ring while a map is made. */
struct ring {
    struct place *places; /* in order */
    size_t place_count;
    uint32_t *cells;    /* cells taken by each shard */
    uint32_t cells_max; /* that a shard may take */
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a;
    const struct place *y = b;
    RBT_DEBUG_ASSERT(x != NULL && y != NULL);
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

static void ring_deinit(struct ring *ring)
{
    rbt_free(ring->places);
    rbt_free(ring->cells);
}

static rbt_status ring_init(struct ring *ring, const struct rbt_placement_options *options,
                            uint32_t cell_count)
{
    const uint32_t nodes =
        options->virtual_nodes == 0 ? RBT_PLACEMENT_VIRTUAL_DEFAULT : options->virtual_nodes;
    RBT_ASSERT(options->shard_count > 0);
    RBT_ASSERT(cell_count > 0);
    *ring = (struct ring){.place_count = (size_t)nodes * options->shard_count};
    ring->cells_max = options->is_plain
                          ? UINT32_MAX
                          : (cell_count + options->shard_count - 1) / options->shard_count;
    ring->places = rbt_calloc(ring->place_count, sizeof *ring->places);
    ring->cells = rbt_calloc(options->shard_count, sizeof *ring->cells);
    if (ring->places == NULL || ring->cells == NULL) {
        ring_deinit(ring);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a ring of %u shards",
                        options->shard_count);
    }
    for (size_t i = 0; i < ring->place_count; i++) {
        const uint64_t shard = i / nodes;
        /* Two rounds: keys are hashed in one, and no key is to lie on a place by design. */
        const uint64_t at = rbt_hash_key(~rbt_hash_key(shard << 32 | (i % nodes + 1)));
        ring->places[i] = (struct place){at, (uint32_t)shard};
    }
    RBT_ASSERT(ring->cells_max > 0);
    qsort(ring->places, ring->place_count, sizeof *ring->places, compare_places);
    return RBT_OK;
}

/* The owner of what lies at `at`: the next shard on the ring that has room. */
static uint32_t ring_take(struct ring *ring, uint64_t at)
{
    RBT_ASSERT(ring->place_count > 0);
    size_t low = 0;
    size_t high = ring->place_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ring->places[middle].at < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t i = low == ring->place_count ? 0 : low;
    /* ends: shares are rounded up, so there is room for all */
    while (ring->cells[ring->places[i].shard] >= ring->cells_max) {
        i = i + 1 == ring->place_count ? 0 : i + 1;
    }
    const uint32_t shard = ring->places[i].shard;
    ring->cells[shard]++;
    RBT_ASSERT(ring->cells[shard] <= ring->cells_max);
    return shard;
}

static uint32_t reverse_bits(uint32_t number, uint32_t bits)
{
    RBT_ASSERT(bits > 0 && bits < 32);
    RBT_ASSERT(number < UINT32_C(1) << bits);
    uint32_t reversed = 0;
    for (uint32_t i = 0; i < bits; i++) {
        reversed |= (number >> i & 1) << (bits - 1 - i);
    }
    return reversed;
}

/* Gives every cell of the ring, or every range, an owner. */
static rbt_status fill_owners(struct rbt_placement_map *map,
                              const struct rbt_placement_options *options)
{
    const bool is_hash = map->look == RBT_PLACEMENT_BY_HASH;
    RBT_ASSERT(is_hash || map->look == RBT_PLACEMENT_BY_RANGE_HASH);
    RBT_ASSERT(is_hash || map->range_count > 0);
    const uint32_t bits = is_hash ? CELL_BITS : 0;
    const uint32_t count = is_hash ? UINT32_C(1) << bits : map->range_count;
    struct ring ring;
    rbt_status st = ring_init(&ring, options, count);
    if (st != RBT_OK) {
        return st;
    }
    map->owners = rbt_calloc(count, sizeof *map->owners);
    if (map->owners == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate a map of %u shards", map->shard_count);
    }
    map->hash_shift = 64 - bits;
    for (uint32_t i = 0; st == RBT_OK && i < count; i++) {
        const uint32_t cell = is_hash ? reverse_bits(i, bits) : i;
        const uint64_t at = is_hash ? (uint64_t)cell << map->hash_shift : rbt_hash_key(cell);
        map->owners[cell] = (uint16_t)ring_take(&ring, at);
        RBT_ASSERT(map->owners[cell] < map->shard_count);
    }
    ring_deinit(&ring);
    return st;
}

static void cut_ranges(struct rbt_placement_map *map, uint32_t count)
{
    RBT_ASSERT(count > 0);
    RBT_ASSERT(map->keys_max > 0);
    map->range_count = count;
    if (map->keys_max < count) {
        map->range_count = (uint32_t)map->keys_max + 1;
        return; /* a range is one key */
    }
    /* A fraction of 63 bits, rounded up: what is whole stays so, and other boundaries are at most
     * one key early, or a few if there are nearly 2^64. The last range takes what that leaves. */
    const rbt_placement_wide keys = (rbt_placement_wide)map->keys_max + 1;
    map->scale_shift = 64;
    while (((rbt_placement_wide)count << map->scale_shift) / keys < UINT64_C(1) << 62 &&
           (rbt_placement_wide)count << map->scale_shift >> 126 == 0) {
        map->scale_shift++;
    }
    map->scale = (uint64_t)((((rbt_placement_wide)count << map->scale_shift) + keys - 1) / keys);
    RBT_ASSERT(map->scale > 0); /* and less than 2^64, because count < keys */
}

static rbt_status copy_pieces(struct rbt_placement_map *map,
                              const struct rbt_placement_options *options)
{
    RBT_ASSERT(options->pieces != NULL);
    for (size_t i = 0; i < options->piece_count; i++) {
        const struct rbt_placement_piece *piece = &options->pieces[i];
        if (piece->shard >= options->shard_count) {
            return rbt_fail(RBT_E_INVALID, "piece %zu belongs to shard %u; there are %u", i,
                            piece->shard, options->shard_count);
        }
        if (i == 0 ? piece->first != 0 : piece->first <= options->pieces[i - 1].first) {
            return rbt_fail(RBT_E_INVALID, "piece %zu does not begin %s", i,
                            i == 0 ? "at key 0" : "after the one before it");
        }
    }
    if (options->piece_count == 0) {
        return rbt_fail(RBT_E_INVALID, "a map made by hand needs a piece");
    }
    map->pieces = rbt_calloc(options->piece_count, sizeof *map->pieces);
    if (map->pieces == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu pieces", options->piece_count);
    }
    memcpy(map->pieces, options->pieces, options->piece_count * sizeof *map->pieces);
    map->piece_count = options->piece_count;
    RBT_ASSERT(map->pieces[0].first == 0);
    return RBT_OK;
}

static rbt_status fill_map(struct rbt_placement_map *map,
                           const struct rbt_placement_options *options)
{
    RBT_ASSERT(map->look == RBT_PLACEMENT_BY_NOTHING);
    RBT_ASSERT(map->shard_count > 0);
    if (options->pieces != NULL) {
        map->look = RBT_PLACEMENT_BY_SEARCH;
        return copy_pieces(map, options);
    }
    if (map->shard_count == 1) {
        return RBT_OK;
    }
    switch (options->kind) {
    case RBT_PLACE_HASH:
        map->look = RBT_PLACEMENT_BY_HASH;
        return fill_owners(map, options);
    case RBT_PLACE_RANGE:
        map->look = RBT_PLACEMENT_BY_RANGE;
        cut_ranges(map, map->shard_count);
        return RBT_OK;
    case RBT_PLACE_RANGE_HASH:
        map->look = RBT_PLACEMENT_BY_RANGE_HASH;
        cut_ranges(map, RBT_PLACEMENT_RANGES);
        return fill_owners(map, options);
    case RBT_PLACE_ROUND_ROBIN:
        map->look = RBT_PLACEMENT_BY_MODULO;
        return RBT_OK;
    }
    return rbt_fail(RBT_E_INVALID, "unrecognised placement %d", (int)options->kind);
}

rbt_status rbt_placement_create(const struct rbt_placement_options *options,
                                struct rbt_placement_map **map)
{
    if (options->shard_count == 0 || options->shard_count > RBT_CLUSTER_SHARDS_MAX ||
        options->virtual_nodes > RBT_PLACEMENT_VIRTUAL_MAX) {
        return rbt_fail(RBT_E_INVALID, "a map has 1 to %d shards, each at up to %d places",
                        (int)RBT_CLUSTER_SHARDS_MAX, (int)RBT_PLACEMENT_VIRTUAL_MAX);
    }
    struct rbt_placement_map *m = rbt_calloc(1, sizeof *m);
    if (m == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a map of %u shards", options->shard_count);
    }
    m->version = options->version;
    m->shard_count = options->shard_count;
    m->keys_max = options->keys_max == 0 ? UINT64_MAX : options->keys_max;
    const rbt_status st = fill_map(m, options);
    if (st != RBT_OK) {
        rbt_placement_destroy(m);
        return st;
    }
    RBT_ASSERT(rbt_placement_shard(m, 0) < m->shard_count);
    RBT_ASSERT(rbt_placement_shard(m, UINT64_MAX) < m->shard_count);
    *map = m;
    return RBT_OK;
}

void rbt_placement_destroy(struct rbt_placement_map *map)
{
    if (map == NULL) {
        return;
    }
    RBT_ASSERT(map->shard_count > 0);
    rbt_free(map->owners);
    rbt_free(map->pieces);
    rbt_free(map);
}

size_t rbt_placement_search(const struct rbt_placement_map *map, uint64_t key)
{
    RBT_DEBUG_ASSERT(map->piece_count > 0);
    size_t low = 0; /* its first key is <= key */
    size_t high = map->piece_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (map->pieces[middle].first <= key) {
            low = middle;
        } else {
            high = middle;
        }
    }
    RBT_DEBUG_ASSERT(map->pieces[low].first <= key);
    return low;
}

static uint32_t mark(bool *shards, uint32_t shard)
{
    RBT_ASSERT(shards != NULL);
    RBT_ASSERT(shard < RBT_CLUSTER_SHARDS_MAX);
    const bool is_new = !shards[shard];
    shards[shard] = true;
    return is_new;
}

uint32_t rbt_placement_shards(const struct rbt_placement_map *map, struct rbt_range range,
                              bool *shards)
{
    RBT_ASSERT(range.first <= range.last);
    RBT_ASSERT(shards != NULL);
    uint32_t marked = 0;
    memset(shards, 0, map->shard_count * sizeof *shards);
    if (map->look == RBT_PLACEMENT_BY_SEARCH) {
        const size_t last = rbt_placement_search(map, range.last);
        for (size_t i = rbt_placement_search(map, range.first); i <= last; i++) {
            marked += mark(shards, map->pieces[i].shard);
        }
        return marked;
    }
    if (map->look == RBT_PLACEMENT_BY_RANGE || map->look == RBT_PLACEMENT_BY_RANGE_HASH) {
        const uint32_t last = rbt_placement_range(map, range.last);
        for (uint32_t i = rbt_placement_range(map, range.first); i <= last; i++) {
            marked += mark(shards, map->look == RBT_PLACEMENT_BY_RANGE ? i : map->owners[i]);
        }
        return marked;
    }
    /* Neighbours live apart: only the shards of a few keys are worth being named one by one. */
    if (range.last - range.first < map->shard_count) {
        for (uint64_t i = 0; i <= range.last - range.first; i++) {
            marked += mark(shards, rbt_placement_shard(map, range.first + i));
        }
        return marked;
    }
    memset(shards, true, map->shard_count * sizeof *shards);
    return map->shard_count;
}

double rbt_placement_moved(const struct rbt_placement_map *old,
                           const struct rbt_placement_map *fresh, uint64_t keys_max,
                           uint32_t samples)
{
    RBT_ASSERT(samples > 0);
    RBT_ASSERT(keys_max >= samples);
    const uint64_t step = keys_max / samples;
    uint32_t moved = 0;
    for (uint64_t i = 0; i < samples; i++) {
        const uint64_t key = i * step + rbt_hash_key(i + 1) % step;
        moved += rbt_placement_shard(old, key) != rbt_placement_shard(fresh, key);
    }
    return (double)moved / samples;
}
