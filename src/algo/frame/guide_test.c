/* algo/frame/guide_test.c - what the guide makes of objectives that fall, rise and wobble. */
#include "base/test.h"

#include <math.h>

#include "algo/frame/guide.h"

/* Objectives of a training that goes well, from pass 0 on. */
static double falling(int pass)
{
    return 0.5 + 0.4 / (1.0 + pass);
}

static void grows_up_to_three_quarters_of_a_pass(void **state)
{
    (void)state;
    const int64_t expected[][6] = {/* clocks per pass, first bound, after one pass, two, ... */
                                   {1, 1, 3, 3, 3, 3},     {2, 1, 3, 3, 3, 3},
                                   {4, 2, 3, 3, 3, 3},     {8, 2, 5, 6, 6, 6},
                                   {16, 2, 5, 11, 12, 12}, {100, 2, 5, 11, 23, 47}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct rbt_guide guide;
        rbt_guide_init(&guide, expected[i][0]);
        assert_int_equal(guide.bound, expected[i][1]);
        for (int pass = 0; pass < 4; pass++) {
            assert_int_equal(rbt_guide_step(&guide, falling(pass)), expected[i][2 + pass]);
        }
    }
}

static void falls_to_a_quarter_when_the_objective_rises(void **state)
{
    (void)state;
    struct rbt_guide guide;
    rbt_guide_init(&guide, 16);
    for (int pass = 0; pass < 5; pass++) {
        (void)rbt_guide_step(&guide, falling(pass));
    }
    assert_int_equal(guide.bound, 12);
    assert_int_equal(rbt_guide_step(&guide, 0.7), 3);
    for (int pass = 5; pass < 100; pass++) { /* and stays there */
        assert_int_equal(rbt_guide_step(&guide, falling(pass)), 3);
    }
}

/* What the larger bound did still shows; only what comes after that is held against the new one. */
static void falls_again_but_not_for_the_same_reason(void **state)
{
    (void)state;
    struct rbt_guide guide;
    rbt_guide_init(&guide, 16);
    for (int pass = 0; pass < 5; pass++) {
        (void)rbt_guide_step(&guide, falling(pass));
    }
    assert_int_equal(rbt_guide_step(&guide, 0.7), 3);
    assert_int_equal(rbt_guide_step(&guide, 0.8), 3);
    assert_int_equal(rbt_guide_step(&guide, 0.9), 3);
    assert_int_equal(rbt_guide_step(&guide, 1.0), 1);
    for (int pass = 0; pass < 10; pass++) { /* never below 1 */
        assert_int_equal(rbt_guide_step(&guide, 2.0 + pass), 1);
    }
}

static void a_rise_right_after_the_first_pass_counts(void **state)
{
    (void)state;
    struct rbt_guide guide;
    rbt_guide_init(&guide, 16);
    assert_int_equal(rbt_guide_step(&guide, 0.3), 5);
    assert_int_equal(rbt_guide_step(&guide, 0.301), 1);
}

/* From 0.9 to 0.5 it has fallen by 0.4; half a per cent of that is noise. */
static void a_wobble_does_not_count(void **state)
{
    (void)state;
    struct rbt_guide guide;
    rbt_guide_init(&guide, 8);
    (void)rbt_guide_step(&guide, 0.9);
    (void)rbt_guide_step(&guide, 0.5);
    for (int pass = 0; pass < 20; pass++) {
        assert_int_equal(rbt_guide_step(&guide, pass % 2 == 0 ? 0.5019 : 0.5), 6);
    }
    assert_int_equal(rbt_guide_step(&guide, 0.503), 1);
}

static void what_is_not_a_number_is_not_good(void **state)
{
    (void)state;
    struct rbt_guide guide;
    rbt_guide_init(&guide, 8);
    (void)rbt_guide_step(&guide, 0.9);
    (void)rbt_guide_step(&guide, 0.5);
    assert_int_equal(guide.bound, 6);
    assert_int_equal(rbt_guide_step(&guide, NAN), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_up_to_three_quarters_of_a_pass),
        cmocka_unit_test(falls_to_a_quarter_when_the_objective_rises),
        cmocka_unit_test(falls_again_but_not_for_the_same_reason),
        cmocka_unit_test(a_rise_right_after_the_first_pass_counts),
        cmocka_unit_test(a_wobble_does_not_count),
        cmocka_unit_test(what_is_not_a_number_is_not_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
