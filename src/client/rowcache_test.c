/* client/rowcache_test.c - one test per promise of rowcache.c. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "client/rowcache.h"

static struct rbt_rowcache_options options_of(rbt_merge merge, bool is_sparse)
{
    return (struct rbt_rowcache_options){
        .kind = {RBT_I64, merge}, .width = 4, .is_sparse = is_sparse};
}

static uint32_t add(struct rbt_rowcache *cache, uint64_t key)
{
    uint32_t row = RBT_MAP_NONE;
    assert_ok(rbt_rowcache_add(cache, key, &row));
    return row;
}

static void rows_are_found_again_and_have_no_copy_at_first(void **state)
{
    (void)state;
    struct rbt_rowcache cache;
    const struct rbt_rowcache_options options = options_of(RBT_MERGE_ADD, false);
    assert_ok(rbt_rowcache_init(&cache, &options));
    assert_int_equal(rbt_map_find(&cache.map, 0), RBT_MAP_NONE);
    for (uint64_t i = 0; i < 1000; i++) {
        const uint32_t row = add(&cache, UINT64_MAX - i * 3);
        assert_int_equal(row, i);
        assert_int_equal(cache.rows[row].clock, -1);
        assert_false(cache.rows[row].is_dirty);
        *(int64_t *)rbt_rowcache_values(&cache, row) = (int64_t)i;
    }
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(add(&cache, UINT64_MAX - i * 3), i);
        assert_int_equal(rbt_map_find(&cache.map, UINT64_MAX - i * 3), i);
        assert_int_equal(*(int64_t *)rbt_rowcache_values(&cache, (uint32_t)i), i);
    }
    assert_int_equal(cache.count, 1000);
    rbt_rowcache_deinit(&cache);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Many updates of one element become one. */
static void updates_coalesce_and_are_laid_over_a_copy(void **state)
{
    (void)state;
    struct rbt_rowcache cache;
    const struct rbt_rowcache_options options = options_of(RBT_MERGE_ADD, false);
    assert_ok(rbt_rowcache_init(&cache, &options));
    const uint32_t row = add(&cache, 7);
    const int64_t one = 1;
    const uint32_t ends[] = {0, 3};
    const int64_t deltas[] = {10, 20};
    for (int i = 0; i < 1000; i++) {
        const struct rbt_rowcache_change change = {.first = 2, .deltas = &one, .count = 1};
        assert_ok(rbt_rowcache_update(&cache, row, &change));
    }
    const struct rbt_rowcache_change change = {.index = ends, .deltas = deltas, .count = 2};
    assert_ok(rbt_rowcache_update(&cache, row, &change));
    assert_int_equal(cache.dirty_count, 1);
    int64_t values[4] = {1, 1, 1, 1};
    assert_ok(rbt_rowcache_overlay(&cache, row, (char *)values, NULL));
    const int64_t expected[] = {11, 1, 1001, 21};
    assert_memory_equal(values, expected, sizeof expected);
    rbt_rowcache_clean(&cache);
    assert_ok(rbt_rowcache_overlay(&cache, row, (char *)values, NULL));
    assert_memory_equal(values, expected, sizeof expected); /* nothing is left to lay over */
    assert_ok(rbt_rowcache_update(&cache, row, &change));
    assert_int_equal(((int64_t *)rbt_rowcache_deltas(&cache, row))[3], 20); /* from neutral again */
    assert_int_equal(cache.dirty_count, 1);
    rbt_rowcache_deinit(&cache);
}

static void maxima_start_from_the_neutral_update(void **state)
{
    (void)state;
    struct rbt_rowcache cache;
    const struct rbt_rowcache_options options = options_of(RBT_MERGE_MAX, false);
    assert_ok(rbt_rowcache_init(&cache, &options));
    const uint32_t row = add(&cache, 7);
    const int64_t delta = -5;
    const struct rbt_rowcache_change change = {.first = 1, .deltas = &delta, .count = 1};
    for (int round = 0; round < 2; round++) {
        int64_t values[4] = {-9, -9, -9, -9};
        assert_ok(rbt_rowcache_update(&cache, row, &change));
        assert_ok(rbt_rowcache_overlay(&cache, row, (char *)values, NULL));
        const int64_t expected[] = {-9, -5, -9, -9};
        assert_memory_equal(values, expected, sizeof expected);
        rbt_rowcache_clean(&cache);
    }
    rbt_rowcache_deinit(&cache);
}

static void writing_through_changes_the_copy_and_leaves_no_update(void **state)
{
    (void)state;
    for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
        struct rbt_rowcache cache;
        const struct rbt_rowcache_options options = options_of(RBT_MERGE_ADD, is_sparse == 1);
        assert_ok(rbt_rowcache_init(&cache, &options));
        const uint32_t row = add(&cache, 7);
        const uint32_t index = 2;
        const int64_t delta = 5;
        const struct rbt_rowcache_change change = {.index = &index, .deltas = &delta, .count = 1};
        assert_ok(rbt_rowcache_write_through(&cache, row, &change));
        assert_ok(rbt_rowcache_write_through(&cache, row, &change));
        const void *at = is_sparse == 1 ? cache.sparse_values[row].values
                                        : rbt_rowcache_values(&cache, row) + 2 * sizeof delta;
        assert_int_equal(*(const int64_t *)at, 10);
        assert_int_equal(cache.dirty_count, 0);
        rbt_rowcache_deinit(&cache);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void sparse_updates_are_laid_over_a_row_and_cleaned(void **state)
{
    (void)state;
    struct rbt_rowcache cache;
    const struct rbt_rowcache_options options = options_of(RBT_MERGE_ADD, true);
    struct rbt_sparse_row target = {0};
    assert_ok(rbt_rowcache_init(&cache, &options));
    const uint32_t row = add(&cache, 7);
    const uint32_t index[] = {1, 1000};
    const int64_t deltas[] = {10, 20};
    const struct rbt_rowcache_change change = {.index = index, .deltas = deltas, .count = 2};
    assert_ok(rbt_rowcache_overlay(&cache, row, NULL, &target));
    assert_int_equal(target.count, 0);
    assert_ok(rbt_rowcache_update(&cache, row, &change));
    assert_ok(rbt_rowcache_update(&cache, row, &change));
    assert_ok(rbt_rowcache_overlay(&cache, row, NULL, &target));
    const int64_t expected[] = {20, 40};
    assert_int_equal(target.count, 2);
    assert_memory_equal(target.values, expected, sizeof expected);
    rbt_rowcache_clean(&cache);
    assert_int_equal(cache.sparse_deltas[row].count, 0);
    rbt_sparse_row_deinit(&target);
    rbt_rowcache_deinit(&cache);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void dirty_rows_are_sorted_by_key(void **state)
{
    (void)state;
    struct rbt_rowcache cache;
    const struct rbt_rowcache_options options = options_of(RBT_MERGE_ADD, false);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    assert_ok(rbt_rowcache_init(&cache, &options));
    rbt_rowcache_sort_dirty(&cache); /* of none */
    const int64_t one = 1;
    const struct rbt_rowcache_change change = {.deltas = &one, .count = 1};
    for (int i = 0; i < 200; i++) {
        assert_ok(rbt_rowcache_update(&cache, add(&cache, rbt_rng_below(&rng, 500)), &change));
    }
    rbt_rowcache_sort_dirty(&cache);
    assert_int_equal(cache.dirty_count, cache.count);
    for (size_t i = 0; i < cache.dirty_count; i++) {
        assert_int_equal(cache.sorted[i], cache.rows[cache.dirty[i]].key);
        assert_true(i == 0 || cache.sorted[i] > cache.sorted[i - 1]);
    }
    rbt_rowcache_deinit(&cache);
}

static void forgetting_copies_keeps_updates(void **state)
{
    (void)state;
    struct rbt_rowcache cache;
    const struct rbt_rowcache_options options = options_of(RBT_MERGE_ADD, false);
    assert_ok(rbt_rowcache_init(&cache, &options));
    const uint32_t row = add(&cache, 7);
    const int64_t one = 1;
    const struct rbt_rowcache_change change = {.deltas = &one, .count = 1};
    cache.rows[row].clock = 5;
    assert_ok(rbt_rowcache_update(&cache, row, &change));
    rbt_rowcache_forget(&cache);
    assert_int_equal(cache.rows[row].clock, -1);
    assert_int_equal(*(int64_t *)rbt_rowcache_deltas(&cache, row), 1);
    assert_int_equal(cache.dirty_count, 1);
    rbt_rowcache_deinit(&cache);
}

static void failed_allocations_change_nothing(void **state)
{
    (void)state;
    for (int is_sparse = 0; is_sparse < 2; is_sparse++) {
        struct rbt_rowcache cache;
        struct rbt_rowcache_options options = options_of(RBT_MERGE_ADD, is_sparse == 1);
        options.worker_count = 3;
        rbt_status st = RBT_E_NOMEM;
        for (unsigned nth = 1; st != RBT_OK; nth++) {
            uint32_t row = RBT_MAP_NONE;
            rbt_alloc_fail_nth(nth);
            st = rbt_rowcache_init(&cache, &options);
            for (uint64_t key = 0; st == RBT_OK && key < 100; key++) {
                st = rbt_rowcache_add(&cache, key, &row);
            }
            const uint32_t index = 9;
            const int64_t delta = 5;
            const struct rbt_rowcache_change change = {
                .first = 1, .index = is_sparse == 1 ? &index : NULL, .deltas = &delta, .count = 1};
            const size_t count = cache.count;
            st = st != RBT_OK ? st : rbt_rowcache_update(&cache, row, &change);
            rbt_alloc_fail_nth(0);
            assert_true(st == RBT_OK || st == RBT_E_NOMEM);
            assert_int_equal(cache.dirty_count, st == RBT_OK);
            assert_int_equal(cache.count, count);
            rbt_rowcache_deinit(&cache);
            assert_int_equal(rbt_alloc_live(), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_again_and_have_no_copy_at_first),
        cmocka_unit_test(updates_coalesce_and_are_laid_over_a_copy),
        cmocka_unit_test(maxima_start_from_the_neutral_update),
        cmocka_unit_test(writing_through_changes_the_copy_and_leaves_no_update),
        cmocka_unit_test(sparse_updates_are_laid_over_a_row_and_cleaned),
        cmocka_unit_test(dirty_rows_are_sorted_by_key),
        cmocka_unit_test(forgetting_copies_keeps_updates),
        cmocka_unit_test(failed_allocations_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
