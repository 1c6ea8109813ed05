/* math/cholesky_test.c - solutions solve, and dependent rows do no harm. */
#include "base/test.h"

#include <math.h>

#include "base/rng.h"
#include "math/cholesky.h"

enum { SIZE = 37, MORE = 50 };

/* a = x'x, of random rows; column `twin` of x is that of `of`, if they differ. */
static void make(double *a, size_t of, size_t twin)
{
    double x[MORE][SIZE];
    struct rbt_rng rng;
    rbt_rng_init(&rng, 3, 0, 0);
    for (size_t i = 0; i < MORE; i++) {
        for (size_t j = 0; j < SIZE; j++) {
            x[i][j] = rbt_rng_normal(&rng);
        }
        x[i][twin] = x[i][of];
    }
    for (size_t j = 0; j < SIZE; j++) {
        for (size_t k = 0; k < SIZE; k++) {
            a[j * SIZE + k] = 0.0;
            for (size_t i = 0; i < MORE; i++) {
                a[j * SIZE + k] += x[i][j] * x[i][k];
            }
        }
    }
}

static void assert_solves(const double *a, const double *b, const double *x)
{
    for (size_t j = 0; j < SIZE; j++) {
        double sum = 0.0;
        for (size_t k = 0; k < SIZE; k++) {
            sum += a[j * SIZE + k] * x[k];
        }
        assert_true(fabs(sum - b[j]) < 1e-8);
    }
}

static void solutions_solve(void **state)
{
    (void)state;
    double a[SIZE * SIZE];
    double l[SIZE * SIZE];
    double b[SIZE];
    double x[SIZE];
    make(a, 0, 0);
    memcpy(l, a, sizeof a);
    for (size_t j = 0; j < SIZE; j++) {
        b[j] = x[j] = (double)j - 5.0;
    }
    assert_int_equal(rbt_cholesky_factor(l, SIZE), 0);
    rbt_cholesky_solve(l, SIZE, x);
    assert_solves(a, b, x);
}

static void a_row_that_depends_on_others_is_left_out(void **state)
{
    (void)state;
    double a[SIZE * SIZE];
    double l[SIZE * SIZE];
    double b[SIZE];
    double x[SIZE];
    make(a, 4, 20);
    memcpy(l, a, sizeof a);
    for (size_t j = 0; j < SIZE; j++) {
        b[j] = x[j] = a[j * SIZE + 4] - 2 * a[j * SIZE + 7]; /* of the solution e4 - 2 e7 */
    }
    assert_int_equal(rbt_cholesky_factor(l, SIZE), 1);
    rbt_cholesky_solve(l, SIZE, x);
    assert_solves(a, b, x);
    assert_true(x[20] == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solutions_solve),
        cmocka_unit_test(a_row_that_depends_on_others_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
