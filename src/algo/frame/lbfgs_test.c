/* algo/frame/lbfgs_test.c - the two-loop recursion against the matrix that it never writes down. */
#include "base/test.h"

#include <math.h>

#include "algo/frame/lbfgs.h"
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

/* Functions along a line, with their slopes; none is lower beyond 1000. */
static double parabola(double a, double *slope)
{
    *slope = 2e-3 * (a - 700);
    return 1e-3 * (a - 700) * (a - 700);
}

static double steep(double a, double *slope)
{
    *slope = 2e6 * (a - 1e-4);
    return 1e6 * (a - 1e-4) * (a - 1e-4);
}

static double logistic(double a, double *slope)
{
    *slope = 1 / (1 + exp(3 - a)) - 0.05;
    return log1p(exp(a - 3)) - 0.05 * a;
}

/* It overflows soon. */
static double cliff(double a, double *slope)
{
    *slope = exp(300 * a) - 2;
    return exp(300 * a) / 300 - 2 * a;
}

static double falling(double a, double *slope)
{
    *slope = -1;
    return -a;
}

static double wrong(double a, double *slope)
{
    *slope = -1; /* what the value says is not so */
    return a;
}

/* Whatever size is tried first, the one that is taken falls enough and is flatter. */
static void a_line_ends_at_a_size_that_is_good(void **state)
{
    (void)state;
    double (*const functions[])(double, double *) = {parabola, steep, logistic, cliff};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        for (double size = 1e-6; size < 1e7; size *= 100) {
            double start_slope = 0;
            double slope = 0;
            enum rbt_lbfgs_verdict verdict = RBT_LINE_AGAIN;
            const double start = functions[i](0, &start_slope);
            struct rbt_lbfgs_line line = rbt_lbfgs_line_begin(start, start_slope, size);
            double value = start;
            while (verdict == RBT_LINE_AGAIN) {
                value = functions[i](line.size, &slope);
                verdict = rbt_lbfgs_line_judge(&line, value, slope);
            }
            assert_int_equal(verdict, RBT_LINE_GOOD);
            assert_true(value <= start + 1e-4 * line.size * start_slope);
            assert_true(slope >= 0.9 * start_slope);
        }
    }
}

static void a_line_without_a_good_size_ends(void **state)
{
    (void)state;
    double (*const functions[])(double, double *) = {falling, wrong};
    for (size_t i = 0; i < 2; i++) {
        double slope = 0;
        struct rbt_lbfgs_line line = rbt_lbfgs_line_begin(functions[i](0, &slope), -1, 1);
        enum rbt_lbfgs_verdict verdict = RBT_LINE_AGAIN;
        for (int tries = 0; verdict == RBT_LINE_AGAIN; tries++) {
            assert_true(tries < 100);
            const double value = functions[i](line.size, &slope);
            verdict = rbt_lbfgs_line_judge(&line, value, slope);
        }
        assert_int_equal(verdict, RBT_LINE_NOWHERE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direction_is_that_of_the_matrix),
        cmocka_unit_test(without_steps_it_is_steepest_descent),
        cmocka_unit_test(a_line_ends_at_a_size_that_is_good),
        cmocka_unit_test(a_line_without_a_good_size_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
