/* core/tuner_test.c - the tuner on clusters whose speed is a function of the bound. */
#include "base/test.h"

#include <math.h>

#include "base/rng.h"
#include "core/tuner.h"

/* Clocks per second of the floor with bound s, for a cluster of some shape. */
typedef double (*speed_function)(int64_t s);

/* Waiting falls with the bound and hardly matters from 7 on. */
static double with_slowdowns(int64_t s)
{
    return 100.0 / (1.0 + 1.5 / (1.0 + (double)s));
}

/* A worker that is always slow: no bound helps. */
static double with_a_straggler(int64_t s)
{
    (void)s;
    return 50.0;
}

/* Everything else is alike; only sending and receiving can be hidden, with a bound of 1. */
static double with_a_slow_network(int64_t s)
{
    return s == 0 ? 30.0 : 60.0;
}

/* A worker that is as far ahead as it may. */
static int64_t step(struct rbt_tuner *tuner, int64_t floor, int64_t lag, double now)
{
    const struct rbt_tuner_news news = {.floor = floor, .lag = lag, .now = (rbt_time)(now * 1e9)};
    return rbt_tuner_step(tuner, &news);
}

/* Runs `clocks` clocks with some noise. Returns the bound at the end and in *mean the mean speed
 * relative to the best bound's. */
static int64_t run(int64_t start, speed_function speed, int64_t clocks, double noise, double *mean)
{
    struct rbt_tuner tuner;
    struct rbt_rng rng;
    rbt_rng_init(&rng, (uint64_t)start + 1, 0, 0);
    rbt_tuner_init(&tuner, start);
    double now = 0;
    int64_t s = start;
    for (int64_t floor = 0; floor < clocks; floor++) {
        now += (1.0 + noise * (rbt_rng_uniform(&rng) - 0.5)) / speed(s);
        s = step(&tuner, floor + 1, s, now);
    }
    *mean = (double)clocks / now / speed(1000);
    return tuner.accepted;
}

static void climbs_as_long_as_it_pays(void **state)
{
    (void)state;
    double mean = 0;
    const int64_t s = run(0, with_slowdowns, 300, 0.0, &mean);
    assert_true(s >= 7 && s <= 31);
    assert_true(mean > 0.83);
}

static void comes_down_as_long_as_it_costs_nothing(void **state)
{
    (void)state;
    double mean = 0;
    const int64_t s = run(50, with_slowdowns, 300, 0.0, &mean);
    assert_true(s >= 7 && s <= 31);
    assert_true(mean > 0.9);
    assert_int_equal(run(50, with_a_slow_network, 300, 0.0, &mean), 1);
}

static void stays_small_when_no_bound_helps(void **state)
{
    (void)state;
    double mean = 0;
    assert_int_equal(run(0, with_a_straggler, 300, 0.0, &mean), 0);
    assert_int_equal(run(50, with_a_straggler, 300, 0.0, &mean), 0);
    assert_int_equal(run(0, with_a_slow_network, 300, 0.0, &mean), 1);
}

static void noise_does_not_lead_it_far_astray(void **state)
{
    (void)state;
    for (int64_t start = 0; start < 60; start++) {
        double mean = 0;
        (void)run(start, with_slowdowns, 300, 0.3, &mean);
        assert_true(mean > 0.75);
        const int64_t s = run(start, with_a_straggler, 300, 0.1, &mean);
        assert_true(s <= 15);
    }
}

/* When the cluster changes, it finds out. */
static void looks_again_from_time_to_time(void **state)
{
    (void)state;
    struct rbt_tuner tuner;
    rbt_tuner_init(&tuner, 0);
    double now = 0;
    int64_t s = 0;
    for (int64_t floor = 0; floor < 1000; floor++) {
        now += 1.0 / (floor < 200 ? with_a_straggler(s) : with_slowdowns(s));
        s = step(&tuner, floor + 1, s, now);
    }
    assert_true(tuner.accepted >= 3);
}

static void a_floor_that_jumps_or_time_that_stands_still_does_no_harm(void **state)
{
    (void)state;
    struct rbt_tuner tuner;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 7, 0, 0);
    rbt_tuner_init(&tuner, 1000000);
    rbt_time now = 0;
    int64_t floor = 0;
    for (int i = 0; i < 100000; i++) {
        now += (rbt_time)rbt_rng_below(&rng, 3) * 1000000;
        floor += (int64_t)rbt_rng_below(&rng, 20) / 6;
        const int64_t lag = (int64_t)rbt_rng_below(&rng, 200);
        const int64_t s = rbt_tuner_step(
            &tuner, &(struct rbt_tuner_news){.floor = floor, .lag = lag, .now = now});
        if (i > 50000 && i % 5000 == 0) {
            rbt_tuner_advise(&tuner, (int64_t)rbt_rng_below(&rng, 150));
        }
        assert_true(s >= 0 && s <= 127);
    }
}

/* Whoever knows better is obeyed, whatever the speed: upwards in steps, downwards at once. */
static void does_as_it_is_advised(void **state)
{
    (void)state;
    struct rbt_tuner tuner;
    rbt_tuner_init(&tuner, 0);
    rbt_tuner_advise(&tuner, 6);
    const int64_t expected[] = {1, 3, 6, 6, 6};
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(step(&tuner, i, 0, (double)(i * i)), expected[i]); /* ever slower */
    }
    rbt_tuner_advise(&tuner, 1);
    assert_int_equal(step(&tuner, 5, 6, 30), 1);
    rbt_tuner_advise(&tuner, 0);
    assert_int_equal(step(&tuner, 6, 0, 31), 0);
    rbt_tuner_advise(&tuner, 1000000); /* more than there is */
    for (int64_t i = 7; i < 100; i++) {
        (void)step(&tuner, i, 0, (double)(i + 30));
    }
    assert_int_equal(tuner.accepted, RBT_TUNER_BOUND_MAX);
}

static void a_start_above_the_advice_is_given_up_at_once(void **state)
{
    (void)state;
    struct rbt_tuner tuner;
    rbt_tuner_init(&tuner, 50);
    rbt_tuner_advise(&tuner, 2);
    assert_int_equal(step(&tuner, 1, 0, 1), 2);
    assert_int_equal(step(&tuner, 2, 0, 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(climbs_as_long_as_it_pays),
        cmocka_unit_test(comes_down_as_long_as_it_costs_nothing),
        cmocka_unit_test(stays_small_when_no_bound_helps),
        cmocka_unit_test(noise_does_not_lead_it_far_astray),
        cmocka_unit_test(looks_again_from_time_to_time),
        cmocka_unit_test(does_as_it_is_advised),
        cmocka_unit_test(a_start_above_the_advice_is_given_up_at_once),
        cmocka_unit_test(a_floor_that_jumps_or_time_that_stands_still_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
