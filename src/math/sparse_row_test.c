/* math/sparse_row_test.c - one test per promise of sparse_row.c. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "math/sparse_row.h"

enum { WIDTH = 64 };

static const struct rbt_merge_kind add = {RBT_I64, RBT_MERGE_ADD};

/* A random choice of increasing indices with values. */
static size_t draw(struct rbt_rng *rng, uint32_t *index, int64_t *values)
{
    const uint64_t share = rbt_rng_below(rng, 8);
    size_t count = 0;
    for (uint32_t i = 0; i < WIDTH; i++) {
        if (rbt_rng_below(rng, 8) < share) {
            index[count] = i;
            values[count++] = (int64_t)rbt_rng_below(rng, 7) - 3;
        }
    }
    return count;
}

static int64_t merged(rbt_merge merge, int64_t a, int64_t b)
{
    return merge == RBT_MERGE_ADD   ? a + b
           : merge == RBT_MERGE_OR  ? a | b
           : merge == RBT_MERGE_MAX ? (a > b ? a : b)
                                    : (a < b ? a : b);
}

static void assert_row_is(const struct rbt_sparse_row *row, const int64_t *model, const bool *is_in)
{
    const struct rbt_sparse_view view = rbt_sparse_row_peek(row);
    size_t at = 0;
    for (uint32_t i = 0; i < WIDTH; i++) {
        if (is_in[i]) {
            assert_true(at < view.count);
            assert_int_equal(view.index[at], i);
            assert_int_equal(((const int64_t *)view.values)[at++], model[i]);
        }
    }
    assert_int_equal(at, view.count);
}

static void merging_agrees_with_an_array(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const struct rbt_merge_kind kind = {RBT_I64, (rbt_merge)(seed % 4)};
        struct rbt_sparse_row row = {0};
        struct rbt_rng rng;
        int64_t model[WIDTH] = {0};
        bool is_in[WIDTH] = {0};
        rbt_rng_init(&rng, seed, 0, 0);
        for (int step = 0; step < 10; step++) {
            uint32_t index[WIDTH];
            int64_t values[WIDTH];
            const size_t count = draw(&rng, index, values);
            assert_ok(rbt_sparse_row_reserve(&row, kind.type, count));
            rbt_sparse_row_merge(&row, kind, (struct rbt_sparse_view){index, values, count});
            for (size_t i = 0; i < count; i++) {
                int64_t *element = &model[index[i]];
                *element = is_in[index[i]] ? merged(kind.merge, *element, values[i]) : values[i];
                is_in[index[i]] = true;
            }
            assert_row_is(&row, model, is_in);
        }
        rbt_sparse_row_deinit(&row);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

/* What is there already needs no room, so a reserved merge never needs more than was asked for. */
static void merging_what_is_there_needs_no_room(void **state)
{
    (void)state;
    struct rbt_sparse_row row = {0};
    uint32_t index[16];
    int64_t values[16];
    assert_ok(rbt_sparse_row_reserve(&row, RBT_I64, 4));
    assert_true(row.capacity <= 16);
    for (uint32_t i = 0; i < row.capacity; i++) {
        index[i] = 3 * i;
        values[i] = i;
    }
    rbt_sparse_row_merge(&row, add, (struct rbt_sparse_view){index, values, row.capacity});
    assert_int_equal(row.count, row.capacity);
    rbt_sparse_row_merge(&row, add, (struct rbt_sparse_view){index + 1, values + 1, 2});
    values[1] *= 2;
    values[2] *= 2;
    assert_memory_equal(rbt_sparse_row_peek(&row).values, values, row.count * sizeof values[0]);
    rbt_sparse_row_deinit(&row);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void clear_keeps_the_memory(void **state)
{
    (void)state;
    struct rbt_sparse_row row = {0};
    rbt_sparse_row_clear(&row);
    assert_int_equal(rbt_sparse_row_peek(&row).count, 0);
    assert_ok(rbt_sparse_row_reserve(&row, RBT_I64, 10));
    const uint32_t index = 3;
    const int64_t value = 4;
    rbt_sparse_row_merge(&row, add, (struct rbt_sparse_view){&index, &value, 1});
    rbt_sparse_row_clear(&row);
    const uint64_t calls = rbt_alloc_calls();
    assert_ok(rbt_sparse_row_reserve(&row, RBT_I64, 10));
    assert_int_equal(rbt_alloc_calls(), calls);
    assert_int_equal(rbt_sparse_row_peek(&row).count, 0);
    rbt_sparse_row_deinit(&row);
}

/* Counts go up and down; what is zero goes when it is the greater part. */
static void most_zeros_are_given_back(void **state)
{
    (void)state;
    for (int merge = 0; merge < 2; merge++) { /* ADD; then MAX, whose zeros mean something */
        const struct rbt_merge_kind kind = {RBT_I64, merge == 0 ? RBT_MERGE_ADD : RBT_MERGE_MAX};
        struct rbt_sparse_row row = {0};
        uint32_t index[WIDTH];
        int64_t values[WIDTH];
        for (uint32_t i = 0; i < WIDTH; i++) {
            index[i] = i;
            values[i] = merge == 0 ? (int64_t)i + 1 : i % 8 == 0 ? 1 : 0;
        }
        const struct rbt_sparse_view all = {index, values, WIDTH};
        assert_ok(rbt_sparse_row_reserve(&row, kind.type, WIDTH));
        rbt_sparse_row_merge(&row, kind, all);
        const size_t full = rbt_sparse_row_bytes(&row, kind.type);
        assert_true(full >= WIDTH * (sizeof *index + sizeof *values));
        for (uint32_t i = 0; i < WIDTH && merge == 0; i++) {
            values[i] = i % 8 == 0 ? 0 : -values[i];
        }
        rbt_sparse_row_merge(&row, kind, all);
        assert_int_equal(row.zeros, WIDTH - WIDTH / 8);
        row.promised = 5;
        rbt_sparse_row_compact(&row, kind);
        const struct rbt_sparse_view left = rbt_sparse_row_peek(&row);
        assert_int_equal(left.count, merge == 0 ? WIDTH / 8 : WIDTH);
        for (size_t i = 0; i < left.count; i++) {
            assert_int_equal(left.index[i], merge == 0 ? 8 * i : i);
            assert_int_equal(((const int64_t *)left.values)[i], merge == 0   ? 8 * (int64_t)i + 1
                                                                : i % 8 == 0 ? 1
                                                                             : 0);
        }
        assert_true(row.capacity >= left.count + row.promised);
        assert_true(merge != 0 || rbt_sparse_row_bytes(&row, kind.type) < full / 4);
        rbt_sparse_row_deinit(&row);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_failed_reserve_changes_nothing(void **state)
{
    (void)state;
    struct rbt_sparse_row row = {0};
    const uint32_t index = 3;
    const int64_t value = 4;
    assert_ok(rbt_sparse_row_reserve(&row, RBT_I64, 1));
    rbt_sparse_row_merge(&row, add, (struct rbt_sparse_view){&index, &value, 1});
    for (unsigned nth = 1; nth <= 2; nth++) {
        rbt_alloc_fail_nth(nth);
        assert_int_equal(rbt_sparse_row_reserve(&row, RBT_I64, 100), RBT_E_NOMEM);
        rbt_alloc_fail_nth(0);
        assert_int_equal(rbt_sparse_row_peek(&row).count, 1);
        assert_int_equal(*(const int64_t *)rbt_sparse_row_peek(&row).values, 4);
    }
    assert_fails(rbt_sparse_row_reserve(&row, RBT_I64, UINT32_MAX), RBT_E_INVALID, "sparse row");
    assert_ok(rbt_sparse_row_reserve(&row, RBT_I64, 100));
    rbt_sparse_row_deinit(&row);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_agrees_with_an_array),
        cmocka_unit_test(merging_what_is_there_needs_no_room),
        cmocka_unit_test(clear_keeps_the_memory),
        cmocka_unit_test(most_zeros_are_given_back),
        cmocka_unit_test(a_failed_reserve_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
