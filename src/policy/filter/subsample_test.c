/* policy/filter/subsample_test.c - skip and sample are right in the mean, and as noisy as they say.
 *
 * Seeds are fixed. The limits are four standard deviations of what is measured: with other seeds,
 * one in 16,000 comparisons would fail by chance. */
#include "policy/filter/filter_rig.h"

enum { COUNT = 1000, ROUNDS = 1000 };

/* 10^6 draws of an element of size 3. */
static void skip_is_unbiased_and_as_noisy_as_it_says(void **state)
{
    (void)state;
    static const double probabilities[] = {0.5, 0.1, 0.9};
    static const char *const texts[] = {"skip:0.5", "skip:0.1", "skip:0.9"};
    for (size_t t = 0; t < 3; t++) {
        const double q = probabilities[t];
        struct rig *rig = rig_open(texts[t], RBT_FILTER_PUSH, COUNT);
        double sum = 0;
        double squares = 0;
        size_t kept = 0;
        for (int round = 0; round < ROUNDS; round++) {
            for (size_t i = 0; i < COUNT; i++) {
                rig->values[i] = 3;
            }
            rig_apply(rig);
            for (size_t i = 0; i < COUNT; i++) {
                const double x = (double)rig->values[i];
                assert_true(rig->keep[i] ? fabs(x - 3 / q) < 1e-5 : x == 0);
                kept += rig->keep[i];
                sum += x;
                squares += x * x;
            }
        }
        const double n = (double)COUNT * ROUNDS;
        const double variance = (1 - q) / q * 9;
        assert_true(fabs(sum / n - 3) < 4 * sqrt(variance / n));
        assert_true(fabs((double)kept / n - q) < 4 * sqrt(q * (1 - q) / n));
        assert_true(fabs((squares / n - 9) / variance - 1) < 0.02);
        rig_close(rig);
    }
}

/* Neighbours, and equal places of successive calls, do not go together more often than by chance.
 */
static void draws_do_not_depend_on_each_other(void **state)
{
    (void)state;
    struct rig *rig = rig_open("skip:0.5", RBT_FILTER_PUSH, COUNT);
    bool before[COUNT] = {false};
    double neighbours = 0;
    double calls = 0;
    for (int round = 0; round < ROUNDS; round++) {
        rig_apply(rig);
        for (size_t i = 1; i < COUNT; i++) {
            neighbours += rig->keep[i] == rig->keep[i - 1] ? 1 : -1;
            calls += rig->keep[i] == before[i] ? 1 : -1;
        }
        memcpy(before, rig->keep, sizeof before);
    }
    assert_true(fabs(neighbours) < 4 * sqrt((double)COUNT * ROUNDS));
    assert_true(fabs(calls) < 4 * sqrt((double)COUNT * ROUNDS));
    rig_close(rig);
}

static void sure_things_go_as_they_are(void **state)
{
    (void)state;
    struct rig *rig = rig_open("skip:1", RBT_FILTER_PUSH, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        rig->values[i] = sinf((float)i);
    }
    rig_apply(rig);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(rig->keep[i] && rig->values[i] == sinf((float)i));
    }
    rig_close(rig);
}

/* Of 1000 elements 600 are not zero, and 50 of these go, 12 times as large. */
static void samples_have_their_size_and_the_right_mean(void **state)
{
    (void)state;
    enum { SIZE = 50, CANDIDATES = 600, TIMES = 6000 };
    static double sums[COUNT];
    struct rig *rig = rig_open("sample:50", RBT_FILTER_PUSH, COUNT);
    double worst = 0;
    memset(sums, 0, sizeof sums);
    for (int round = 0; round < TIMES; round++) {
        size_t kept = 0;
        for (size_t i = 0; i < COUNT; i++) {
            rig->values[i] = i % 5 < 3 ? 1 : 0;
        }
        rig_apply(rig);
        for (size_t i = 0; i < COUNT; i++) {
            kept += rig->keep[i];
            sums[i] += (double)rig->values[i];
            assert_true(rig->values[i] == (rig->keep[i] ? 12 : 0));
        }
        assert_int_equal(kept, SIZE);
    }
    const double q = (double)SIZE / CANDIDATES;
    const double deviation = sqrt((1 - q) / q / TIMES);
    for (size_t i = 0; i < COUNT; i++) {
        const double off = fabs(sums[i] / TIMES - (i % 5 < 3 ? 1 : 0));
        worst = off > worst ? off : worst;
    }
    assert_true(worst < 4.5 * deviation); /* the worst of 600: one in 250 by chance */
    rig_close(rig);
}

static void small_lists_go_as_they_are(void **state)
{
    (void)state;
    struct rig *rig = rig_open("sample:50", RBT_FILTER_PUSH, 60);
    for (size_t i = 0; i < 60; i++) {
        rig->values[i] = i < 50 ? -2 : 0;
    }
    rig_apply(rig);
    for (size_t i = 0; i < 60; i++) {
        assert_int_equal(rig->keep[i], i < 50);
        assert_true(rig->values[i] == (i < 50 ? -2 : 0));
    }
    rig_close(rig);
}

/* What another filter holds back is neither drawn nor scaled. */
static void what_waits_is_left_alone(void **state)
{
    (void)state;
    static const char *const texts[] = {"tiny:2,skip:0.5", "tiny:2,sample:10"};
    for (size_t t = 0; t < 2; t++) {
        struct rig *rig = rig_open(texts[t], RBT_FILTER_PUSH, 100);
        for (size_t i = 0; i < 100; i++) {
            rig->values[i] = i % 2 == 0 ? 1 : 10;
        }
        rig_apply(rig);
        for (size_t i = 0; i < 100; i++) {
            assert_true(i % 2 == 1 || (!rig->keep[i] && rig->values[i] == 1));
            assert_true(i % 2 == 0 || rig->keep[i] || rig->values[i] == 0);
        }
        rig_close(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(skip_is_unbiased_and_as_noisy_as_it_says),
        cmocka_unit_test(draws_do_not_depend_on_each_other),
        cmocka_unit_test(sure_things_go_as_they_are),
        cmocka_unit_test(samples_have_their_size_and_the_right_mean),
        cmocka_unit_test(small_lists_go_as_they_are),
        cmocka_unit_test(what_waits_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
