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

static void softmax_slopes_match_finite_differences(void **state)
{
    (void)state;
    enum { CLASSES = 4 };
    const double h = 1e-6;
    const double scales[] = {0.0, 0.3, 2.0, 20.0};
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        for (size_t y = 0; y < CLASSES; y++) {
            double m[CLASSES] = {0.5 * scales[s], -scales[s], 0.1 * scales[s], scales[s]};
            double slopes[CLASSES];
            double ignored[CLASSES];
            double sum = 0.0;
            (void)rbt_loss_softmax(m, CLASSES, y, slopes);
            for (size_t c = 0; c < CLASSES; c++) {
                const double middle = m[c];
                m[c] = middle + h;
                const double above = rbt_loss_softmax(m, CLASSES, y, ignored);
                m[c] = middle - h;
                const double below = rbt_loss_softmax(m, CLASSES, y, ignored);
                m[c] = middle;
                assert_true(fabs(slopes[c] - (above - below) / (2 * h)) < 1e-7);
                sum += slopes[c];
            }
            assert_true(fabs(sum) < 1e-14);
        }
    }
}

/* Of two classes with margins m and 0 it is the logistic loss. */
static void softmax_of_two_is_logistic(void **state)
{
    (void)state;
    for (double m = -40.0; m < 41.0; m += 8.0) {
        double margins[2] = {0.0, m};
        const struct rbt_loss_point expected = rbt_loss_logistic(m, 1.0);
        const double value = rbt_loss_softmax(margins, 2, 1, margins);
        assert_true(fabs(value - expected.value) < 1e-12 * (1 + expected.value));
        assert_true(fabs(margins[1] - expected.slope) < 1e-12);
    }
}

static void softmax_survives_large_margins(void **state)
{
    (void)state;
    double margins[3] = {1e5, -1e5, 0.0};
    double slopes[3];
    assert_true(rbt_loss_softmax(margins, 3, 1, slopes) == 2e5);
    assert_true(slopes[0] == 1.0 && slopes[1] == -1.0 && slopes[2] == 0.0);
    assert_true(rbt_loss_softmax(margins, 3, 0, slopes) == 0.0);
    margins[2] = (double)NAN;
    assert_true(isnan(rbt_loss_softmax(margins, 3, 0, slopes)));
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
        cmocka_unit_test(softmax_slopes_match_finite_differences),
        cmocka_unit_test(softmax_of_two_is_logistic),
        cmocka_unit_test(softmax_survives_large_margins),
        cmocka_unit_test(logistic_survives_large_margins),
        cmocka_unit_test(every_loss_shows_a_nan),
        cmocka_unit_test(curvature_bounds_the_change_of_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
