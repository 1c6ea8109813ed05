/* math/initial_test.c - initial values are a function of the key, the element and the seed. */
#include "base/test.h"

#include <math.h>

#include "math/initial.h"

enum { WIDTH = 5, KEYS = 20000 };

static void zero_and_constant_fill_every_type(void **state)
{
    (void)state;
    struct rbt_initial initial = {.type = RBT_I32, .width = 3};
    int32_t i32[4] = {9, 9, 9, 9};
    rbt_initial_values(&initial, 7, i32);
    assert_int_equal(i32[0] | i32[1] | i32[2], 0);
    assert_int_equal(i32[3], 9); /* behind the end */
    initial.init = RBT_INIT_CONSTANT;
    initial.a = -4;
    rbt_initial_values(&initial, 7, i32);
    assert_int_equal(i32[2], -4);
    initial.type = RBT_I64;
    int64_t i64[3];
    rbt_initial_values(&initial, 7, i64);
    assert_true(i64[2] == -4);
    initial.type = RBT_F32;
    float f32[3];
    rbt_initial_values(&initial, 7, f32);
    assert_true(f32[0] == -4);
    initial.type = RBT_F64;
    double f64[3];
    rbt_initial_values(&initial, 7, f64);
    assert_true(f64[1] == -4);
}

static void draws_are_the_same_in_any_order(void **state)
{
    (void)state;
    struct rbt_initial initial = {
        .type = RBT_F64, .init = RBT_INIT_NORMAL, .width = WIDTH, .b = 1, .seed = 3};
    double forward[100][WIDTH];
    double again[WIDTH];
    for (uint64_t key = 0; key < 100; key++) {
        rbt_initial_values(&initial, key, forward[key]);
    }
    for (uint64_t key = 100; key-- > 0;) {
        rbt_initial_values(&initial, key, again);
        assert_memory_equal(again, forward[key], sizeof again);
    }
    initial.seed = 4;
    rbt_initial_values(&initial, 0, again);
    assert_memory_not_equal(again, forward[0], sizeof again);
}

/* 10^5 draws; within five standard errors, which fails for one seed in 1.7 million. */
static void uniform_and_normal_draws_have_the_moments_asked_for(void **state)
{
    (void)state;
    struct rbt_initial initial = {
        .type = RBT_F32, .init = RBT_INIT_UNIFORM, .width = WIDTH, .a = -1, .b = 3, .seed = 9};
    for (int round = 0; round < 2; round++) {
        double sum = 0;
        double squares = 0;
        for (uint64_t key = 0; key < KEYS; key++) {
            float row[WIDTH];
            rbt_initial_values(&initial, key, row);
            for (size_t i = 0; i < WIDTH; i++) {
                assert_true(round == 1 || (row[i] >= -1 && row[i] < 3));
                sum += (double)row[i];
                squares += (double)row[i] * (double)row[i];
            }
        }
        const double n = KEYS * WIDTH;
        const double mean = sum / n;
        const double variance = squares / n - mean * mean;
        const double expected = round == 0 ? 16.0 / 12 : 4;
        assert_true(fabs(mean - (round == 0 ? 1 : 5)) < 5 * sqrt(expected / n));
        assert_true(fabs(variance - expected) < 5 * expected * sqrt((round == 0 ? 0.8 : 2) / n));
        initial.init = RBT_INIT_NORMAL;
        initial.a = 5;
        initial.b = 2;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_and_constant_fill_every_type),
        cmocka_unit_test(draws_are_the_same_in_any_order),
        cmocka_unit_test(uniform_and_normal_draws_have_the_moments_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
