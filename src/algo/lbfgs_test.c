/* algo/lbfgs_test.c - the two-loop recursion against the matrix that it never writes down. */
#include "base/test.h"

#include <math.h>

#include "algo/lbfgs.h"
#include "base/rng.h"

enum { N = 7, MEMORY = 4, STEPS = 9 };

/* H <- (I - r s y') H (I - r y s') + r s s'. */
static void update(double h[N][N], const double *s, const double *y)
{
    const double r = 1.0 / rbt_lbfgs_dot(s, y, N);
    double left[N][N] = {{0}};
    double next[N][N] = {{0}};
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            for (int k = 0; k < N; k++) {
                left[i][j] += ((i == k) - r * s[i] * y[k]) * h[k][j];
            }
        }
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            next[i][j] = r * s[i] * s[j];
            for (int k = 0; k < N; k++) {
                next[i][j] += left[i][k] * ((k == j) - r * y[k] * s[j]);
            }
        }
    }
    memcpy(h, next, sizeof next);
}

static void draw(struct rbt_rng *rng, double *vector)
{
    for (int i = 0; i < N; i++) {
        vector[i] = rbt_rng_normal(rng);
    }
}

/* A change of the gradient that fits the step: y's > 0. */
static void draw_pair(struct rbt_rng *rng, double *s, double *y)
{
    draw(rng, s);
    draw(rng, y);
    if (rbt_lbfgs_dot(s, y, N) < 0) {
        for (int i = 0; i < N; i++) {
            y[i] = -y[i];
        }
    }
}

static void direction_is_that_of_the_matrix(void **state)
{
    (void)state;
    struct rbt_rng rng;
    struct rbt_lbfgs lbfgs;
    double s[STEPS][N];
    double y[STEPS][N];
    rbt_rng_init(&rng, 3, 0, 0);
    assert_ok(rbt_lbfgs_init(&lbfgs, N, MEMORY));
    for (int step = 0; step < STEPS; step++) {
        double h[N][N] = {{0}};
        double g[N];
        double d[N];
        draw_pair(&rng, s[step], y[step]);
        rbt_lbfgs_note(&lbfgs, s[step], y[step]);
        const double scale =
            rbt_lbfgs_dot(s[step], y[step], N) / rbt_lbfgs_dot(y[step], y[step], N);
        for (int i = 0; i < N; i++) {
            h[i][i] = scale;
        }
        for (int k = step < MEMORY ? 0 : step - MEMORY + 1; k <= step; k++) {
            update(h, s[k], y[k]);
        }
        draw(&rng, g);
        rbt_lbfgs_direction(&lbfgs, g, d);
        for (int i = 0; i < N; i++) {
            const double expected = -rbt_lbfgs_dot(h[i], g, N);
            assert_true(fabs(d[i] - expected) <= 1e-7 * (1 + fabs(expected)));
        }
    }
    rbt_lbfgs_deinit(&lbfgs);
}

static void without_steps_it_is_steepest_descent(void **state)
{
    (void)state;
    struct rbt_lbfgs lbfgs;
    const double g[2] = {3, -4};
    const double s[2] = {1, 0};
    const double wrong[2] = {-1, 0}; /* the gradient falls on the way: not convex */
    double d[2];
    assert_ok(rbt_lbfgs_init(&lbfgs, 2, MEMORY));
    rbt_lbfgs_note(&lbfgs, s, wrong);
    assert_int_equal(lbfgs.count, 0);
    rbt_lbfgs_direction(&lbfgs, g, d);
    assert_true(d[0] == -3 && d[1] == 4);
    rbt_lbfgs_note(&lbfgs, s, s);
    assert_int_equal(lbfgs.count, 1);
    rbt_lbfgs_forget(&lbfgs);
    rbt_lbfgs_direction(&lbfgs, g, d);
    assert_true(d[0] == -3 && d[1] == 4);
    rbt_lbfgs_deinit(&lbfgs);
    rbt_lbfgs_deinit(&lbfgs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direction_is_that_of_the_matrix),
        cmocka_unit_test(without_steps_it_is_steepest_descent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
