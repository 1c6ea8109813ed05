/* core/placement_test.c - one test per promise of placement.c. */
#include "base/test.h"

#include <math.h>

#include "base/alloc.h"
#include "core/placement.h"

static struct rbt_placement_map *make(struct rbt_placement_options options)
{
    struct rbt_placement_map *map = NULL;
    assert_ok(rbt_placement_create(&options, &map));
    assert_int_equal(map->version, options.version);
    return map;
}

static struct rbt_placement_map *make_kind(rbt_placement kind, uint32_t shards, uint64_t keys_max)
{
    return make((struct rbt_placement_options){
        .shard_count = shards, .kind = kind, .keys_max = keys_max, .version = 7});
}

static const rbt_placement kinds[] = {RBT_PLACE_HASH, RBT_PLACE_RANGE, RBT_PLACE_RANGE_HASH,
                                      RBT_PLACE_ROUND_ROBIN};
enum { KINDS = sizeof kinds / sizeof kinds[0], KEYS = 100000, SHARDS = 8 };

/* Largest load of a shard, divided by the mean; key k weighs weight(k). */
static double largest(const struct rbt_placement_map *map, double (*weight)(uint64_t key))
{
    double loads[RBT_CLUSTER_SHARDS_MAX] = {0};
    double total = 0;
    double most = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        loads[rbt_placement_shard(map, key)] += weight(key);
        total += weight(key);
    }
    for (uint32_t i = 0; i < map->shard_count; i++) {
        most = loads[i] > most ? loads[i] : most;
    }
    return most * map->shard_count / total;
}

static double one(uint64_t key)
{
    (void)key;
    return 1;
}

/* A zipf law of exponent 1/2: key 0 is 300 times as popular as key KEYS - 1. */
static double zipf(uint64_t key)
{
    return 1 / sqrt((double)key + 1);
}

static void all_kinds_give_even_shares_of_consecutive_keys(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        for (uint32_t shards = 1; shards <= 64; shards *= 2) {
            struct rbt_placement_map *map = make_kind(kinds[k], shards, KEYS - 1);
            /* 5 standard deviations of a hash; ranges of RANGE_HASH are whole. */
            const double noise = 5 / sqrt((double)KEYS / shards);
            assert_true(largest(map, one) <= 1.03 + noise);
            rbt_placement_destroy(map);
        }
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void adding_a_shard_moves_about_its_share_of_the_keys(void **state)
{
    (void)state;
    const double limits[] = {1.5, 2, 3}; /* plain, levelled, 1024 ranges */
    for (uint32_t shards = 1; shards <= 64; shards *= 2) {
        for (int k = 0; k < 3; k++) {
            const struct rbt_placement_options options = {.shard_count = shards,
                                                          .kind = k == 2 ? RBT_PLACE_RANGE_HASH
                                                                         : RBT_PLACE_HASH,
                                                          .is_plain = k == 0};
            struct rbt_placement_options more = options;
            more.shard_count++;
            struct rbt_placement_map *old = make(options);
            struct rbt_placement_map *fresh = make(more);
            const double moved = rbt_placement_moved(old, fresh, UINT64_MAX, KEYS);
            const double share = 1.0 / (shards + 1);
            assert_true(moved > 0.7 * share && moved < limits[k] * share);
            assert_true(rbt_placement_moved(old, old, UINT64_MAX, KEYS) == 0);
            for (uint64_t key = 0; k == 0 && key < KEYS; key++) { /* the plain ring: to the new */
                const uint32_t owner = rbt_placement_shard(fresh, key);
                assert_true(owner == shards || owner == rbt_placement_shard(old, key));
            }
            rbt_placement_destroy(old);
            rbt_placement_destroy(fresh);
        }
    }
    struct rbt_placement_map *old = make_kind(RBT_PLACE_ROUND_ROBIN, 8, 0);
    struct rbt_placement_map *fresh = make_kind(RBT_PLACE_ROUND_ROBIN, 9, 0);
    assert_true(rbt_placement_moved(old, fresh, UINT64_MAX, KEYS) > 0.8); /* why there is a ring */
    rbt_placement_destroy(old);
    rbt_placement_destroy(fresh);
}

static void the_plain_ring_is_the_more_even_the_more_places_it_has(void **state)
{
    (void)state;
    double before = INFINITY;
    for (uint32_t nodes = 1; nodes <= 1024; nodes *= 8) {
        struct rbt_placement_options options = {
            .shard_count = SHARDS, .virtual_nodes = nodes, .is_plain = true};
        struct rbt_placement_map *map = make(options);
        const double spread = largest(map, one) - 1;
        assert_true(spread < before);
        before = spread * 0.8;
        rbt_placement_destroy(map);
        options.is_plain = false; /* levelled, it is even from the start */
        map = make(options);
        assert_true(largest(map, one) < 1.05);
        rbt_placement_destroy(map);
    }
    assert_true(before < 0.1);
}

static uint32_t touched(const struct rbt_placement_map *map, uint64_t first, uint64_t last)
{
    bool shards[RBT_CLUSTER_SHARDS_MAX];
    return rbt_placement_shards(map, (struct rbt_range){first, last}, shards);
}

/* Hashed ranges: a range query asks few shards, unlike hashing; skewed keys stay balanced, unlike
 * pure ranges. */
static void hashed_ranges_are_balanced_and_friendly_to_ranges(void **state)
{
    (void)state;
    struct rbt_placement_map *hash = make_kind(RBT_PLACE_HASH, SHARDS, KEYS - 1);
    struct rbt_placement_map *range = make_kind(RBT_PLACE_RANGE, SHARDS, KEYS - 1);
    struct rbt_placement_map *both = make_kind(RBT_PLACE_RANGE_HASH, SHARDS, KEYS - 1);
    double asked = 0;
    for (uint64_t first = 0; first < KEYS; first += KEYS / 1000) {
        const uint64_t last = first + KEYS / 1000 - 1; /* a thousandth of the keys */
        assert_int_equal(touched(hash, first, last), SHARDS);
        assert_in_range(touched(range, first, last), 1, 2);
        assert_in_range(touched(both, first, last), 1, 3);
        asked += touched(both, first, last) / 1000.0;
    }
    assert_true(asked < 2);
    assert_true(largest(hash, zipf) < 1.2);
    assert_true(largest(range, zipf) > 2.5);
    assert_true(largest(both, zipf) < 1.4);
    rbt_placement_destroy(hash);
    rbt_placement_destroy(range);
    rbt_placement_destroy(both);
}

static void ranges_are_equal_pieces_in_order(void **state)
{
    (void)state;
    const uint64_t maxima[] = {1, 2, 5, 8, 9, 1000, UINT64_C(1) << 40, UINT64_MAX - 1, UINT64_MAX};
    for (size_t m = 0; m < sizeof maxima / sizeof maxima[0]; m++) {
        for (uint32_t shards = 2; shards <= 9; shards++) {
            struct rbt_placement_map *map = make_kind(RBT_PLACE_RANGE, shards, maxima[m]);
            uint32_t before = 0;
            assert_int_equal(rbt_placement_shard(map, 0), 0);
            for (uint64_t key = 0; maxima[m] <= 1000 && key <= maxima[m]; key++) {
                const uint64_t expected = maxima[m] < shards ? key : key * shards / (maxima[m] + 1);
                assert_int_equal(rbt_placement_shard(map, key), expected);
                assert_true(expected >= before);
                before = (uint32_t)expected;
            }
            if (maxima[m] > 1000) { /* the middle of each piece */
                for (uint32_t s = 0; s < shards; s++) {
                    const uint64_t middle = maxima[m] / shards * s + maxima[m] / shards / 2;
                    assert_int_equal(rbt_placement_shard(map, middle), s);
                }
            }
            const uint32_t last = maxima[m] < shards ? (uint32_t)maxima[m] : shards - 1;
            assert_int_equal(rbt_placement_shard(map, maxima[m]), last);
            assert_int_equal(rbt_placement_shard(map, UINT64_MAX), last); /* larger than expected */
            rbt_placement_destroy(map);
        }
    }
}

static void keys_live_where_a_map_made_by_hand_says(void **state)
{
    (void)state;
    const struct rbt_placement_piece pieces[] = {{0, 2}, {10, 0}, {11, 2}, {1000, 1}};
    struct rbt_placement_options options = {
        .shard_count = 3, .pieces = pieces, .piece_count = 4, .version = 42};
    struct rbt_placement_map *map = make(options);
    const uint64_t keys[] = {0, 9, 10, 11, 999, 1000, UINT64_MAX};
    const uint32_t owners[] = {2, 2, 0, 2, 2, 1, 1};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(rbt_placement_shard(map, keys[i]), owners[i]);
    }
    assert_int_equal(touched(map, 11, 999), 1);
    assert_int_equal(touched(map, 9, 10), 2);
    assert_int_equal(touched(map, 0, UINT64_MAX), 3);
    rbt_placement_destroy(map);

    const struct rbt_placement_piece wrong[][2] = {
        {{1, 0}, {2, 0}}, {{0, 0}, {0, 1}}, {{0, 0}, {5, 3}}};
    map = NULL;
    for (size_t i = 0; i < 3; i++) {
        options.pieces = wrong[i];
        options.piece_count = 2;
        assert_int_equal(rbt_placement_create(&options, &map), RBT_E_INVALID);
    }
    options.piece_count = 0;
    assert_int_equal(rbt_placement_create(&options, &map), RBT_E_INVALID);
    assert_null(map);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* What is asked for is never less than what is there. */
static void no_owner_of_a_key_in_the_range_is_left_out(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        struct rbt_placement_map *map = make_kind(kinds[k], SHARDS, 4999);
        for (uint64_t first = 0; first < 6000; first += 37) {
            for (uint64_t length = 1; length < 2000; length *= 3) {
                bool shards[SHARDS];
                uint32_t marked = 0;
                const struct rbt_range range = {first, first + length - 1};
                const uint32_t count = rbt_placement_shards(map, range, shards);
                for (uint64_t key = range.first; key <= range.last; key++) {
                    assert_true(shards[rbt_placement_shard(map, key)]);
                }
                for (uint32_t s = 0; s < SHARDS; s++) {
                    marked += shards[s];
                }
                assert_int_equal(count, marked);
            }
        }
        assert_int_equal(touched(map, 17, 17), 1);
        assert_int_equal(touched(map, 0, UINT64_MAX), SHARDS);
        rbt_placement_destroy(map);
    }
}

/* Two programs of different versions must agree: this is a format, and changes need a new one. */
static void maps_are_the_same_everywhere(void **state)
{
    (void)state;
    const uint64_t expected[KINDS] = {0x26cde6c4684eab06, 0xcce461ea5ecfa4b0, 0x7516c778c573c8c2,
                                      0xa1aade10ce043196};
    for (size_t k = 0; k < KINDS; k++) {
        struct rbt_placement_map *map = make_kind(kinds[k], 5, KEYS - 1);
        uint64_t fingerprint = 0;
        for (uint64_t key = 0; key < KEYS; key++) {
            fingerprint = rbt_hash_key(fingerprint + rbt_placement_shard(map, key) + 1);
        }
        assert_int_equal(fingerprint, expected[k]);
        rbt_placement_destroy(map);
    }
}

static void options_out_of_bounds_are_refused(void **state)
{
    (void)state;
    struct rbt_placement_map *map = NULL;
    const struct rbt_placement_options wrong[] = {
        {.shard_count = 0},
        {.shard_count = RBT_CLUSTER_SHARDS_MAX + 1},
        {.shard_count = 2, .virtual_nodes = RBT_PLACEMENT_VIRTUAL_MAX + 1},
        {.shard_count = 2, .kind = (rbt_placement)99}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(rbt_placement_create(&wrong[i], &map), RBT_E_INVALID);
        assert_null(map);
    }
    rbt_placement_destroy(NULL);
    map = make((struct rbt_placement_options){.shard_count = RBT_CLUSTER_SHARDS_MAX});
    rbt_placement_destroy(map);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    const struct rbt_placement_piece piece = {0, 1};
    for (size_t k = 0; k <= KINDS; k++) {
        rbt_status st = RBT_E_NOMEM;
        for (unsigned nth = 1; st != RBT_OK; nth++) {
            const struct rbt_placement_options options = {.shard_count = 3,
                                                          .kind = kinds[k % KINDS],
                                                          .pieces = k == KINDS ? &piece : NULL,
                                                          .piece_count = 1};
            struct rbt_placement_map *map = NULL;
            rbt_alloc_fail_nth(nth);
            st = rbt_placement_create(&options, &map);
            rbt_alloc_fail_nth(0);
            assert_true(st == RBT_OK || st == RBT_E_NOMEM);
            rbt_placement_destroy(map);
            assert_int_equal(rbt_alloc_live(), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_kinds_give_even_shares_of_consecutive_keys),
        cmocka_unit_test(adding_a_shard_moves_about_its_share_of_the_keys),
        cmocka_unit_test(the_plain_ring_is_the_more_even_the_more_places_it_has),
        cmocka_unit_test(hashed_ranges_are_balanced_and_friendly_to_ranges),
        cmocka_unit_test(ranges_are_equal_pieces_in_order),
        cmocka_unit_test(keys_live_where_a_map_made_by_hand_says),
        cmocka_unit_test(no_owner_of_a_key_in_the_range_is_left_out),
        cmocka_unit_test(maps_are_the_same_everywhere),
        cmocka_unit_test(options_out_of_bounds_are_refused),
        cmocka_unit_test(create_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
