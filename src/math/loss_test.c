/* math/loss_test.c - slopes by finite differences, and the far ends. */
#include "base/test.h"

#include <math.h>

#include "math/loss.h"

static void slopes_match_finite_differences(void **state)
{
    (void)state;
    const double h = 1e-6;
    const double margins[] = {-30.0, -3.0, -0.7, 0.0, 0.4, 0.99, 1.3, 5.0, 30.0};
    const enum rbt_loss losses[] = {RBT_LOSS_LOGISTIC, RBT_LOSS_HINGE, RBT_LOSS_SQUARED};
    for (size_t l = 0; l < 3; l++) {
        for (size_t i = 0; i < sizeof margins / sizeof margins[0]; i++) {
            for (double y = -1.0; y <= 1.0; y += 2.0) {
                const double m = margins[i];
                const double expected = (rbt_loss_at(losses[l], m + h, y).value -
                                         rbt_loss_at(losses[l], m - h, y).value) /
                                        (2 * h);
                const double slope = rbt_loss_at(losses[l], m, y).slope;
                assert_true(fabs(slope - expected) < 1e-7 * (1 + fabs(expected)));
            }
        }
    }
}

static void logistic_survives_large_margins(void **state)
{
    (void)state;
    const struct rbt_loss_point wrong = rbt_loss_logistic(-1e5, 1.0);
    assert_true(wrong.value == 1e5);
    assert_true(wrong.slope == -1.0);
    const struct rbt_loss_point right = rbt_loss_logistic(1e5, 1.0);
    assert_true(right.value == 0.0);
    assert_true(right.slope == 0.0);
    assert_true(fabs(rbt_loss_logistic(0.0, -1.0).value - log(2.0)) < 1e-15);
}

static void every_loss_shows_a_nan(void **state)
{
    (void)state;
    assert_true(isnan(rbt_loss_logistic((double)NAN, 1.0).value));
    assert_true(isnan(rbt_loss_hinge((double)NAN, 1.0).value));
    assert_true(isnan(rbt_loss_squared((double)NAN, 1.0).value));
}

static void curvature_bounds_the_change_of_slope(void **state)
{
    (void)state;
    for (double m = -5.0; m < 5.0; m += 0.01) {
        const double change =
            rbt_loss_logistic(m + 0.01, 1.0).slope - rbt_loss_logistic(m, 1.0).slope;
        assert_true(change <= 0.01 * rbt_loss_curvature(RBT_LOSS_LOGISTIC) + 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_match_finite_differences),
        cmocka_unit_test(logistic_survives_large_margins),
        cmocka_unit_test(every_loss_shows_a_nan),
        cmocka_unit_test(curvature_bounds_the_change_of_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
