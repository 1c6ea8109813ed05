/* base/alloc_test.c - one test per promise of alloc.c. Small blocks come from the C library, large
 * ones are mapped; the sizes below lie on both sides of the border of two megabytes. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"

static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 2097151, 2097152, 2097153, 5000000};

static bool is_zero(const char *bytes, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static void blocks_are_zeroed_and_aligned_to_a_cache_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *block = rbt_calloc(sizes[i], 1);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_true(is_zero(block, 0, sizes[i]));
        memset(block, 0x5a, sizes[i]);
        rbt_free(block);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void products_that_overflow_are_refused(void **state)
{
    (void)state;
    char *block = rbt_calloc(10, 1);
    assert_null(rbt_calloc(SIZE_MAX / 2, 3));
    assert_null(rbt_calloc(SIZE_MAX, 1));
    assert_null(rbt_realloc(block, SIZE_MAX / 4, 8));
    assert_int_equal(rbt_alloc_live(), 1); /* the old block stays */
    rbt_free(block);
}

static void live_blocks_and_bytes_and_calls_are_counted(void **state)
{
    (void)state;
    const uint64_t calls = rbt_alloc_calls();
    char *small = rbt_calloc(10, 10);
    char *large = rbt_calloc(3, 1 << 20);
    assert_int_equal(rbt_alloc_live(), 2);
    assert_int_equal(rbt_alloc_live_bytes(), 100 + 3 * (1 << 20));
    assert_int_equal(rbt_alloc_calls() - calls, 2);
    rbt_free(small);
    rbt_free(large);
    rbt_free(NULL);
    assert_int_equal(rbt_alloc_live(), 0);
    assert_int_equal(rbt_alloc_live_bytes(), 0);
}

static void realloc_keeps_contents_and_zeroes_what_is_added(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            const size_t kept = sizes[i] < sizes[j] ? sizes[i] : sizes[j];
            unsigned char *block = rbt_calloc(sizes[i], 1);
            memset(block, 0xa7, sizes[i]);
            block = rbt_realloc(block, sizes[j], 1);
            assert_non_null(block);
            if (kept > 0) {
                assert_int_equal(block[0], 0xa7);
                assert_int_equal(block[kept / 2], 0xa7);
                assert_int_equal(block[kept - 1], 0xa7);
            }
            assert_true(is_zero((char *)block, kept, sizes[j]));
            assert_int_equal(rbt_alloc_live_bytes(), sizes[j]);
            rbt_free(block);
        }
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void realloc_of_nothing_allocates(void **state)
{
    (void)state;
    char *block = rbt_realloc(NULL, 7, 9);
    assert_non_null(block);
    assert_true(is_zero(block, 0, 63));
    rbt_free(block);
}

static void the_nth_allocation_fails_and_only_that_one(void **state)
{
    (void)state;
    rbt_alloc_fail_nth(3);
    char *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = rbt_calloc(1, 1);
    }
    assert_non_null(blocks[0]);
    assert_non_null(blocks[1]);
    assert_null(blocks[2]);
    assert_non_null(blocks[3]);
    for (int i = 0; i < 4; i++) {
        rbt_free(blocks[i]);
    }
    rbt_alloc_fail_nth(1);
    rbt_alloc_fail_nth(0);
    char *copy = rbt_strdup("zero turns it off");
    assert_string_equal(copy, "zero turns it off");
    rbt_free(copy);
}

static void a_failed_realloc_leaves_the_old_block(void **state)
{
    (void)state;
    char *block = rbt_strdup("still here");
    rbt_alloc_fail_nth(1);
    assert_null(rbt_realloc(block, 100, 1));
    assert_string_equal(block, "still here");
    rbt_alloc_fail_nth(1);
    assert_null(rbt_strdup("no"));
    rbt_free(block);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_and_aligned_to_a_cache_line),
        cmocka_unit_test(products_that_overflow_are_refused),
        cmocka_unit_test(live_blocks_and_bytes_and_calls_are_counted),
        cmocka_unit_test(realloc_keeps_contents_and_zeroes_what_is_added),
        cmocka_unit_test(realloc_of_nothing_allocates),
        cmocka_unit_test(the_nth_allocation_fails_and_only_that_one),
        cmocka_unit_test(a_failed_realloc_leaves_the_old_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
