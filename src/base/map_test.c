/* base/map_test.c - one test per promise of map.c. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/rng.h"

static void keys_at_both_ends_are_keys_like_others(void **state)
{
    (void)state;
    struct rbt_map map;
    assert_ok(rbt_map_init(&map, 0));
    assert_int_equal(rbt_map_find(&map, 0), RBT_MAP_NONE);
    assert_int_equal(rbt_map_find(&map, UINT64_MAX), RBT_MAP_NONE);
    assert_ok(rbt_map_reserve(&map, 2));
    rbt_map_insert(&map, 0, 7);
    rbt_map_insert(&map, UINT64_MAX, UINT32_MAX - 1);
    assert_int_equal(rbt_map_find(&map, 0), 7);
    assert_int_equal(rbt_map_find(&map, UINT64_MAX), UINT32_MAX - 1);
    assert_int_equal(rbt_map_find(&map, 1), RBT_MAP_NONE);
    rbt_map_deinit(&map);
    assert_int_equal(rbt_alloc_live(), 0);
}

enum { SPACE = 4096 };

/* Random keys of a small space, spread in three ways so that some have equal low bits. */
static void it_agrees_with_an_array_while_it_grows(void **state)
{
    (void)state;
    const uint64_t factors[] = {1, 1ULL << 52, 0x9e3779b97f4a7c15U};
    for (size_t f = 0; f < 3; f++) {
        uint32_t model[SPACE];
        uint64_t keys[SPACE];
        uint32_t slots[SPACE];
        struct rbt_map map;
        struct rbt_rng rng;
        rbt_rng_init(&rng, 1, f, 0);
        memset(model, 0xff, sizeof model);
        assert_ok(rbt_map_init(&map, 0));
        for (uint32_t i = 0; i < 3000; i++) {
            const uint64_t at = rbt_rng_below(&rng, SPACE);
            if (model[at] == RBT_MAP_NONE) {
                assert_ok(rbt_map_reserve(&map, 1));
                rbt_map_insert(&map, at * factors[f], i);
                model[at] = i;
            }
        }
        for (uint64_t i = 0; i < SPACE; i++) {
            keys[i] = i * factors[f];
            assert_int_equal(rbt_map_find(&map, keys[i]), model[i]);
        }
        rbt_map_find_batch(&map, keys, SPACE, slots);
        assert_memory_equal(slots, model, sizeof model);
        rbt_map_deinit(&map);
    }
}

static void batches_of_any_length_find_what_single_look_ups_find(void **state)
{
    (void)state;
    struct rbt_map map;
    uint64_t keys[100];
    uint32_t slots[101];
    assert_ok(rbt_map_init(&map, 100));
    for (uint32_t i = 0; i < 100; i++) {
        keys[i] = i * 77;
        if (i % 3 != 0) {
            rbt_map_insert(&map, keys[i], i);
        }
    }
    for (size_t count = 0; count <= 100; count++) {
        slots[count] = 12345;
        rbt_map_find_batch(&map, keys, count, slots);
        assert_int_equal(slots[count], 12345); /* nothing is written behind the end */
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(slots[i], i % 3 == 0 ? RBT_MAP_NONE : i);
        }
    }
    rbt_map_deinit(&map);
}

static void a_reserve_is_enough_for_all_inserts(void **state)
{
    (void)state;
    struct rbt_map map;
    assert_ok(rbt_map_init(&map, 0));
    assert_ok(rbt_map_reserve(&map, 5000));
    const uint64_t calls = rbt_alloc_calls();
    for (uint32_t i = 0; i < 5000; i++) {
        rbt_map_insert(&map, i, i);
    }
    assert_int_equal(rbt_alloc_calls(), calls);
    rbt_map_deinit(&map);
}

static void failed_allocations_change_nothing(void **state)
{
    (void)state;
    struct rbt_map map;
    rbt_alloc_fail_nth(1);
    assert_int_equal(rbt_map_init(&map, 0), RBT_E_NOMEM);
    rbt_map_deinit(&map);
    assert_ok(rbt_map_init(&map, 1));
    rbt_map_insert(&map, 42, 1);
    rbt_alloc_fail_nth(1);
    assert_int_equal(rbt_map_reserve(&map, 100), RBT_E_NOMEM);
    rbt_alloc_fail_nth(0);
    assert_int_equal(rbt_map_find(&map, 42), 1);
    assert_int_equal(map.count, 1);
    rbt_map_deinit(&map);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_at_both_ends_are_keys_like_others),
        cmocka_unit_test(it_agrees_with_an_array_while_it_grows),
        cmocka_unit_test(batches_of_any_length_find_what_single_look_ups_find),
        cmocka_unit_test(a_reserve_is_enough_for_all_inserts),
        cmocka_unit_test(failed_allocations_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
