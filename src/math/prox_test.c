/* math/prox_test.c - each operator against the minimum that defines it. */
#include "base/test.h"

#include <math.h>

#include "math/prox.h"

/* The best of a fine grid of v for (v - w)^2 / 2 + a |v| + b v^2 / 2. */
static double best_on_grid(double w, double a, double b)
{
    double best = 0.0;
    double value_min = INFINITY;
    for (int i = -40000; i <= 40000; i++) {
        const double v = i * 1e-4;
        const double value = (v - w) * (v - w) / 2 + a * fabs(v) + b * v * v / 2;
        if (value < value_min) {
            value_min = value;
            best = v;
        }
    }
    return best;
}

static void soft_threshold_minimises(void **state)
{
    (void)state;
    const float weights[] = {-2.0F, -0.31F, -0.1F, 0.0F, 0.05F, 0.3F, 1.7F};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        const double expected = best_on_grid((double)weights[i], 0.3, 0.0);
        assert_true(fabs((double)rbt_prox_soft(weights[i], 0.3F) - expected) < 1e-4);
        const double shrunk = best_on_grid((double)weights[i], 0.0, 0.3);
        assert_true(fabs((double)rbt_prox_shrink(weights[i], 0.3F) - shrunk) < 1e-4);
    }
}

static void truncation_spares_large_weights(void **state)
{
    (void)state;
    assert_true(rbt_prox_truncate(1.5F, 0.25F, 1.0F) == 1.5F);
    assert_true(rbt_prox_truncate(-1.5F, 0.25F, 1.0F) == -1.5F);
    assert_true(rbt_prox_truncate(1.0F, 0.25F, 1.0F) == 0.75F);
    assert_true(rbt_prox_truncate(-0.5F, 0.25F, 1.0F) == -0.25F);
    assert_true(rbt_prox_truncate(0.125F, 0.25F, 1.0F) == 0.0F);
}

static void a_nan_is_kept(void **state)
{
    (void)state;
    assert_true(isnan(rbt_prox_soft(NAN, 0.1F)));
    assert_true(isnan(rbt_prox_truncate(NAN, 0.1F, 1.0F)));
    assert_true(isnan(rbt_prox_shrink(NAN, 0.1F)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soft_threshold_minimises),
        cmocka_unit_test(truncation_spares_large_weights),
        cmocka_unit_test(a_nan_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
