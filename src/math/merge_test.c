/* math/merge_test.c - every type and operation against a plain loop, one element at a time. */
#include "base/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/rng.h"
#include "math/merge.h"

enum { COUNT = 37 }; /* not a multiple of any vector's length */

static const struct rbt_merge_kind kinds[] = {
    {RBT_F32, RBT_MERGE_ADD}, {RBT_F32, RBT_MERGE_MAX}, {RBT_F32, RBT_MERGE_MIN},
    {RBT_F64, RBT_MERGE_ADD}, {RBT_F64, RBT_MERGE_MAX}, {RBT_F64, RBT_MERGE_MIN},
    {RBT_I32, RBT_MERGE_ADD}, {RBT_I32, RBT_MERGE_MAX}, {RBT_I32, RBT_MERGE_MIN},
    {RBT_I32, RBT_MERGE_OR},  {RBT_I64, RBT_MERGE_ADD}, {RBT_I64, RBT_MERGE_MAX},
    {RBT_I64, RBT_MERGE_MIN}, {RBT_I64, RBT_MERGE_OR},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

union element {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
    char bytes[8];
};

static union element load(rbt_type type, const char *array, size_t i)
{
    union element e = {.i64 = 0};
    memcpy(e.bytes, array + i * rbt_merge_size(type), rbt_merge_size(type));
    return e;
}

static void fill(struct rbt_rng *rng, rbt_type type, char *array)
{
    for (size_t i = 0; i < COUNT; i++) {
        union element e = {.i64 = (int64_t)rbt_rng_next(rng)};
        if (type == RBT_F32) {
            e.f32 = (float)rbt_rng_normal(rng);
        } else if (type == RBT_F64) {
            e.f64 = rbt_rng_normal(rng);
        }
        memcpy(array + i * rbt_merge_size(type), e.bytes, rbt_merge_size(type));
    }
}

static double pick(rbt_merge merge, double a, double b)
{
    return merge == RBT_MERGE_ADD ? a + b : merge == RBT_MERGE_MAX ? fmax(a, b) : fmin(a, b);
}

static uint64_t pick_bits(rbt_merge merge, int64_t a, int64_t b)
{
    switch (merge) {
    case RBT_MERGE_ADD:
        return (uint64_t)a + (uint64_t)b;
    case RBT_MERGE_MAX:
        return (uint64_t)(a > b ? a : b);
    case RBT_MERGE_MIN:
        return (uint64_t)(a < b ? a : b);
    case RBT_MERGE_OR:
        return (uint64_t)a | (uint64_t)b;
    }
    return 0;
}

static bool is_merged(struct rbt_merge_kind kind, union element a, union element b,
                      union element result)
{
    switch (kind.type) {
    case RBT_F32: /* a double sum of two floats, rounded once more, is the float sum */
        return result.f32 == (float)pick(kind.merge, (double)a.f32, (double)b.f32);
    case RBT_F64:
        return result.f64 == pick(kind.merge, a.f64, b.f64);
    case RBT_I32:
        return (uint32_t)result.i32 == (uint32_t)pick_bits(kind.merge, a.i32, b.i32);
    case RBT_I64:
        return (uint64_t)result.i64 == pick_bits(kind.merge, a.i64, b.i64);
    }
    return false;
}

static void every_type_and_operation_agrees_with_plain_arithmetic(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    for (size_t k = 0; k < KINDS * 20; k++) {
        const struct rbt_merge_kind kind = kinds[k % KINDS];
        _Alignas(8) char to[COUNT * 8];
        _Alignas(8) char old[COUNT * 8];
        _Alignas(8) char from[COUNT * 8];
        fill(&rng, kind.type, to);
        fill(&rng, kind.type, from);
        memcpy(old, to, sizeof old);
        rbt_merge_apply(kind, to, from, COUNT - 1);
        for (size_t i = 0; i < COUNT; i++) {
            const union element a = load(kind.type, old, i);
            const union element result = load(kind.type, to, i);
            if (i == COUNT - 1) {
                assert_memory_equal(result.bytes, a.bytes, 8); /* behind the end */
            } else {
                assert_true(is_merged(kind, a, load(kind.type, from, i), result));
            }
        }
    }
}

static void neutral_updates_change_nothing_and_are_recognised(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 2, 0, 0);
    for (size_t k = 0; k < KINDS; k++) {
        _Alignas(8) char to[COUNT * 8];
        _Alignas(8) char old[COUNT * 8];
        _Alignas(8) char from[COUNT * 8];
        fill(&rng, kinds[k].type, to);
        memcpy(old, to, sizeof old);
        rbt_merge_clear(kinds[k], from, COUNT);
        assert_true(rbt_merge_is_neutral(kinds[k], from, COUNT));
        rbt_merge_apply(kinds[k], to, from, COUNT);
        assert_memory_equal(to, old, COUNT * rbt_merge_size(kinds[k].type));
        fill(&rng, kinds[k].type, from);
        assert_false(rbt_merge_is_neutral(kinds[k], from, COUNT));
    }
}

static void one_element_that_says_something_is_enough(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++) {
        const size_t size = rbt_merge_size(kinds[k].type);
        for (size_t at = 0; at < COUNT; at++) {
            _Alignas(8) char from[COUNT * 8];
            rbt_merge_clear(kinds[k], from, COUNT);
            rbt_merge_store(kinds[k].type, from + at * size, 3);
            assert_false(rbt_merge_is_neutral(kinds[k], from, COUNT));
            assert_true(rbt_merge_is_neutral(kinds[k], from, at));
        }
    }
}

static void integer_sums_wrap_around(void **state)
{
    (void)state;
    int32_t to32 = INT32_MAX;
    const int32_t one32 = 1;
    rbt_merge_apply((struct rbt_merge_kind){RBT_I32, RBT_MERGE_ADD}, &to32, &one32, 1);
    assert_true(to32 == INT32_MIN);
    int64_t to64 = INT64_MIN;
    const int64_t one64 = 1;
    rbt_merge_subtract(RBT_I64, &to64, &one64, 1);
    assert_true(to64 == INT64_MAX);
}

static void subtracting_undoes_adding(void **state)
{
    (void)state;
    for (int type = RBT_F32; type <= RBT_I64; type++) {
        const struct rbt_merge_kind kind = {(rbt_type)type, RBT_MERGE_ADD};
        _Alignas(8) char to[8] = {0};
        _Alignas(8) char from[8] = {0};
        _Alignas(8) char old[8] = {0};
        rbt_merge_store(kind.type, to, 40);
        rbt_merge_store(kind.type, from, 2.5);
        memcpy(old, to, 8);
        rbt_merge_apply(kind, to, from, 1);
        assert_memory_not_equal(to, old, 8);
        rbt_merge_subtract(kind.type, to, from, 1);
        assert_memory_equal(to, old, 8);
    }
}

static void stored_numbers_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    union element e = {.i64 = 0};
    rbt_merge_store(RBT_I32, e.bytes, -2.6);
    assert_int_equal(e.i32, -3);
    rbt_merge_store(RBT_I64, e.bytes, 1e15 + 0.75);
    assert_int_equal(e.i64, 1000000000000001);
    rbt_merge_store(RBT_F32, e.bytes, 0.1);
    assert_true(e.f32 == 0.1F);
    rbt_merge_store(RBT_F64, e.bytes, 0.1);
    assert_true(e.f64 == 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_operation_agrees_with_plain_arithmetic),
        cmocka_unit_test(neutral_updates_change_nothing_and_are_recognised),
        cmocka_unit_test(one_element_that_says_something_is_enough),
        cmocka_unit_test(integer_sums_wrap_around),
        cmocka_unit_test(subtracting_undoes_adding),
        cmocka_unit_test(stored_numbers_are_rounded_to_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
