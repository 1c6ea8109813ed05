/* data/sort_test.c - keys are sorted and numbered the same way however they are spread. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/rng.h"
#include "data/sort.h"

enum { COUNT = 50000 };

static void keys_are_sorted(void **state)
{
    (void)state;
    uint64_t *keys = rbt_calloc(COUNT, sizeof *keys);
    uint64_t *scratch = rbt_calloc(COUNT, sizeof *scratch);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    uint64_t sum = 0;
    for (size_t i = 0; i < COUNT; i++) {
        keys[i] = rbt_rng_next(&rng) >> rbt_rng_below(&rng, 64);
        sum += keys[i];
    }
    rbt_sort_keys(keys, scratch, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(i == 0 || keys[i - 1] <= keys[i]);
        sum -= keys[i];
    }
    assert_int_equal(sum, 0);
    rbt_free(keys);
    rbt_free(scratch);
}

/* Numbers keys drawn from `range` values, spread over 64 bits or not, and checks the promise. */
static void check_positions(uint64_t range, bool is_spread, size_t count)
{
    uint64_t *keys = rbt_calloc(count, sizeof *keys);
    uint32_t *positions = rbt_calloc(count, sizeof *positions);
    struct rbt_sorted sorted = {0};
    struct rbt_rng rng;
    rbt_rng_init(&rng, 2, range, is_spread);
    for (size_t i = 0; i < count; i++) {
        const uint64_t draw = rbt_rng_below(&rng, range);
        keys[i] = is_spread ? rbt_hash_key(draw) : draw;
    }
    assert_ok(rbt_sort_positions(keys, count, positions, &sorted));
    assert_true(sorted.count <= range);
    for (size_t i = 1; i < sorted.count; i++) {
        assert_true(sorted.keys[i - 1] < sorted.keys[i]);
    }
    size_t used = 0; /* every key of the list occurs */
    uint8_t *is_used = rbt_calloc(sorted.count, 1);
    for (size_t i = 0; i < count; i++) {
        assert_true(positions[i] < sorted.count);
        assert_true(sorted.keys[positions[i]] == keys[i]);
        used += is_used[positions[i]] == 0;
        is_used[positions[i]] = 1;
    }
    assert_int_equal(used, sorted.count);
    rbt_free(is_used);
    rbt_free(sorted.keys);
    rbt_free(positions);
    rbt_free(keys);
}

static void dense_keys_are_numbered_in_order(void **state)
{
    (void)state;
    check_positions(1, false, 10);
    check_positions(1000, false, COUNT);
    check_positions(1000000, false, COUNT);
    check_positions(1, false, 0);
}

static void sparse_keys_are_numbered_in_order(void **state)
{
    (void)state;
    check_positions(2, true, 10);
    check_positions(1000, true, COUNT);
    check_positions(UINT64_MAX, true, COUNT);
}

static void extreme_keys_are_ordinary_keys(void **state)
{
    (void)state;
    static const uint64_t keys[] = {UINT64_MAX, 0, UINT64_MAX, 5, UINT64_MAX - 1};
    static const uint32_t expected[] = {3, 0, 3, 1, 2};
    uint32_t positions[5];
    struct rbt_sorted sorted = {0};
    assert_ok(rbt_sort_positions(keys, 5, positions, &sorted));
    assert_memory_equal(positions, expected, sizeof expected);
    assert_int_equal(sorted.count, 4);
    rbt_free(sorted.keys);
}

static void numbering_survives_every_failed_allocation(void **state)
{
    (void)state;
    static uint64_t keys[4000];
    static uint32_t positions[4000];
    for (int spread = 0; spread < 2; spread++) {
        for (size_t i = 0; i < 4000; i++) {
            keys[i] = spread ? rbt_hash_key(i) : i;
        }
        for (unsigned nth = 1;; nth++) { /* ends when nothing fails any more */
            struct rbt_sorted sorted = {0};
            rbt_alloc_fail_nth(nth);
            const rbt_status st = rbt_sort_positions(keys, 4000, positions, &sorted);
            rbt_alloc_fail_nth(0);
            if (st == RBT_OK) {
                rbt_free(sorted.keys);
                break;
            }
            assert_int_equal(st, RBT_E_NOMEM);
            assert_null(sorted.keys);
            assert_int_equal(rbt_alloc_live(), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_sorted),
        cmocka_unit_test(dense_keys_are_numbered_in_order),
        cmocka_unit_test(sparse_keys_are_numbered_in_order),
        cmocka_unit_test(extreme_keys_are_ordinary_keys),
        cmocka_unit_test(numbering_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("data/sort", tests, NULL, NULL);
}
