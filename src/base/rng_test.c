/* base/rng_test.c - one test per promise of rng.c.
 *
 * Seeds are fixed, so that nothing fails by chance once it has passed. Intervals are five standard
 * errors wide to each side: with another seed a test would fail once in 1.7 million. */
#include "base/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/rng.h"

enum { DRAWS = 200000 };

struct moments {
    double mean;
    double variance;
};

static struct moments moments_of(const double *draws, size_t count)
{
    struct moments m = {0};
    for (size_t i = 0; i < count; i++) {
        m.mean += draws[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        m.variance += (draws[i] - m.mean) * (draws[i] - m.mean) / (double)count;
    }
    return m;
}

static double draws[DRAWS];

/* A variance of `variance`, the variance's own of `of_square` per draw. */
static void assert_moments(double mean, double variance, double of_square)
{
    const struct moments m = moments_of(draws, DRAWS);
    assert_true(fabs(m.mean - mean) < 5 * sqrt(variance / DRAWS));
    assert_true(fabs(m.variance - variance) < 5 * sqrt(of_square / DRAWS));
}

static void uniform_draws_have_the_moments_of_the_unit_interval(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < DRAWS; i++) {
        draws[i] = rbt_rng_uniform(&rng);
        assert_true(draws[i] >= 0 && draws[i] < 1);
    }
    assert_moments(0.5, 1.0 / 12, 1.0 / 180); /* fourth central moment 1/80, less 1/144 */
    for (size_t i = 0; i < DRAWS; i++) {
        draws[i] = rbt_rng_uniform_at(9, i / 7, i % 7);
        assert_true(draws[i] >= 0 && draws[i] < 1);
    }
    assert_moments(0.5, 1.0 / 12, 1.0 / 180);
}

static void normal_draws_have_the_moments_of_the_standard_normal(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 4, 0, 0);
    for (size_t i = 0; i < DRAWS; i++) {
        draws[i] = rbt_rng_normal(&rng);
    }
    assert_moments(0, 1, 2);
    for (size_t i = 0; i < DRAWS; i++) {
        draws[i] = rbt_rng_normal_at(5, i, 0);
        assert_true(isfinite(draws[i]));
    }
    assert_moments(0, 1, 2);
    for (size_t i = 0; i < DRAWS; i++) { /* neighbours, by key and by index, are uncorrelated */
        draws[i] = rbt_rng_normal_at(5, i, 3) * rbt_rng_normal_at(5, i + 1, 4);
    }
    assert_moments(0, 1, 8);
}

/* 3 * 2^62: by plain remainder the first third would come twice as often. */
static void below_has_no_bias(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 6, 0, 0);
    const uint64_t bound = 3ULL << 62;
    size_t low = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        const uint64_t draw = rbt_rng_below(&rng, bound);
        assert_true(draw < bound);
        low += draw < bound / 3;
    }
    assert_true(fabs((double)low - DRAWS / 3.0) < 5 * sqrt(DRAWS * 2 / 9.0));
    size_t counts[10] = {0};
    for (size_t i = 0; i < DRAWS; i++) {
        counts[rbt_rng_below(&rng, 10)]++;
    }
    for (size_t i = 0; i < 10; i++) {
        assert_true(fabs((double)counts[i] - DRAWS / 10.0) < 5 * sqrt(DRAWS * 0.09));
    }
    assert_int_equal(rbt_rng_below(&rng, 1), 0);
}

static void a_permutation_has_every_number_once(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 7, 0, 0);
    uint32_t order[1000];
    for (size_t count = 0; count <= 1000; count += 125) {
        uint8_t seen[1000] = {0};
        rbt_rng_permutation(&rng, order, count);
        for (size_t i = 0; i < count; i++) {
            assert_true(order[i] < count);
            assert_int_equal(seen[order[i]]++, 0);
        }
    }
}

static void all_orders_are_equally_likely(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 8, 0, 0);
    size_t counts[27] = {0};
    for (size_t i = 0; i < 60000; i++) {
        uint32_t order[3];
        rbt_rng_permutation(&rng, order, 3);
        counts[order[0] * 9 + order[1] * 3 + order[2]]++;
    }
    for (size_t i = 0; i < 27; i++) {
        const bool is_order = i / 9 != i / 3 % 3 && i / 9 != i % 3 && i / 3 % 3 != i % 3;
        const double expected = is_order ? 10000 : 0;
        assert_true(fabs((double)counts[i] - expected) <= 5 * sqrt(expected * 5 / 6));
    }
}

static void streams_repeat_and_differ_by_every_number_of_their_name(void **state)
{
    (void)state;
    const uint64_t names[][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}, {0, 1, 1}};
    uint64_t first[6];
    for (size_t i = 0; i < 6; i++) {
        struct rbt_rng a;
        struct rbt_rng b;
        rbt_rng_init(&a, names[i][0], names[i][1], names[i][2]);
        rbt_rng_init(&b, names[i][0], names[i][1], names[i][2]);
        first[i] = rbt_rng_next(&a);
        assert_int_equal(first[i], rbt_rng_next(&b));
        assert_int_equal(rbt_rng_next(&a), rbt_rng_next(&b));
        for (size_t j = 0; j < i; j++) {
            assert_true(first[i] != first[j]);
        }
    }
}

static void keyed_draws_do_not_depend_on_their_order(void **state)
{
    (void)state;
    double forward[100];
    for (uint64_t i = 0; i < 100; i++) {
        forward[i] = rbt_rng_normal_at(3, i % 10, i / 10) + rbt_rng_uniform_at(3, i, i);
    }
    for (uint64_t i = 100; i-- > 0;) {
        const double again = rbt_rng_normal_at(3, i % 10, i / 10) + rbt_rng_uniform_at(3, i, i);
        assert_true(again == forward[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_draws_have_the_moments_of_the_unit_interval),
        cmocka_unit_test(normal_draws_have_the_moments_of_the_standard_normal),
        cmocka_unit_test(below_has_no_bias),
        cmocka_unit_test(a_permutation_has_every_number_once),
        cmocka_unit_test(all_orders_are_equally_likely),
        cmocka_unit_test(streams_repeat_and_differ_by_every_number_of_their_name),
        cmocka_unit_test(keyed_draws_do_not_depend_on_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
