/* algo/mf/mf_adaptation_test.c - adaptive steps against the sums that they stand for. */
#include "base/test.h"

#include <math.h>
#include <string.h>

#include "algo/mf/mf_adaptation.h"

enum { USERS = 3, ITEMS = 2, RANK = 2 };

static const uint32_t user_ratings[USERS] = {1, 10, 1000};
static const uint32_t item_ratings[ITEMS] = {11, 1000};
static const float item_totals[ITEMS] = {44.0F, 1000.0F}; /* others have rated item 0, too */

struct fixture {
    float users[USERS * RANK];
    float items[ITEMS * RANK];
    struct rbt_mf_run run;
    struct rbt_mf_adaptation adaptation;
};

static void open_with(struct fixture *f, double scale)
{
    for (size_t j = 0; j < USERS * RANK; j++) {
        f->users[j] = 2.0F; /* so that the mean square is 4, whatever the weights */
    }
    for (size_t j = 0; j < ITEMS * RANK; j++) {
        f->items[j] = 0.5F;
    }
    f->run = (struct rbt_mf_run){
        .end = 100, .user_factors = f->users, .item_factors = f->items, .rank = RANK};
    const struct rbt_mf_adaptation_options options = {.user_ratings = user_ratings,
                                                      .user_count = USERS,
                                                      .item_ratings = item_ratings,
                                                      .item_totals = item_totals,
                                                      .item_count = ITEMS,
                                                      .lr = 0.08,
                                                      .scale = scale};
    assert_ok(rbt_mf_adaptation_open(&options, &f->adaptation));
}

/* Rows that have gathered more take smaller steps, by the root of it. */
static void steps_fall_with_ratings(void **state)
{
    (void)state;
    struct fixture f;
    open_with(&f, 1.0);
    rbt_mf_adaptation_step(&f.adaptation, 0.0, &f.run);
    for (size_t i = 0; i < USERS; i++) {
        /* Half a sixteenth of a pass is ahead, with errors like the ratings' and items' 0.5^2. */
        const double n = user_ratings[i];
        const double expected = 0.08 / sqrt(0.1 + n * 0.25 / 32.0);
        const double bias = 0.1 / pow(1.0 + n / 320.0, 0.75);
        assert_true(fabs((double)f.run.user_steps[i].factors - expected) < 1e-6);
        assert_true(fabs((double)f.run.user_steps[i].bias - bias) < 1e-6);
    }
    for (size_t i = 0; i < ITEMS; i++) {
        const double n = (double)item_totals[i]; /* a rating counts as much as with one worker */
        const double expected = 0.08 / sqrt(0.1 + n * 4.0 / 32.0);
        assert_true(fabs((double)f.run.item_steps[i].factors - expected) < 1e-6);
    }
    rbt_mf_adaptation_close(&f.adaptation);
}

/* What is gathered is the integral of what was seen, and the first guess is not in it. */
static void errors_add_up(void **state)
{
    (void)state;
    struct fixture f;
    open_with(&f, 1.0);
    rbt_mf_adaptation_step(&f.adaptation, 0.0, &f.run);
    rbt_mf_adaptation_note(&f.adaptation, &f.run, 900.0); /* 100 ratings: e^2 is 9 */
    const float before = f.run.user_steps[1].factors;
    rbt_mf_adaptation_step(&f.adaptation, 0.03, &f.run); /* too early */
    assert_true(f.run.user_steps[1].factors == before);
    rbt_mf_adaptation_step(&f.adaptation, 0.5, &f.run);
    const double gathered = 0.25 * 9.0 * (0.5 + 1.0 / 32.0);
    assert_true(fabs((double)f.run.user_steps[1].factors - 0.08 / sqrt(0.1 + 10.0 * gathered)) <
                1e-6);
    rbt_mf_adaptation_close(&f.adaptation);
}

/* A worker that begins after five passes takes no larger steps than those that were there. */
static void who_comes_late_is_careful(void **state)
{
    (void)state;
    struct fixture early;
    struct fixture late;
    open_with(&early, 1.0);
    open_with(&late, 1.0);
    for (int k = 0; k <= 80; k++) {
        rbt_mf_adaptation_step(&early.adaptation, k / 16.0, &early.run);
        rbt_mf_adaptation_note(&early.adaptation, &early.run, 100.0);
    }
    early.adaptation.due = 0.0;
    rbt_mf_adaptation_step(&early.adaptation, 5.0, &early.run);
    rbt_mf_adaptation_step(&late.adaptation, 5.0, &late.run);
    for (size_t i = 0; i < USERS; i++) {
        const struct rbt_mf_steps a = early.run.user_steps[i];
        const struct rbt_mf_steps b = late.run.user_steps[i];
        assert_true(fabsf(a.factors - b.factors) < 1e-5F);
        assert_true(fabsf(a.bias - b.bias) < 1e-6F);
    }
    rbt_mf_adaptation_close(&late.adaptation);
    rbt_mf_adaptation_close(&early.adaptation);
}

/* Ratings c times as large with factors sqrt(c) times as large want steps 1/c times as large. */
static void scale_makes_no_difference(void **state)
{
    (void)state;
    struct fixture f;
    struct fixture g;
    open_with(&f, 1.0);
    open_with(&g, 4.0);
    for (size_t j = 0; j < USERS * RANK; j++) {
        g.users[j] *= 2.0F;
    }
    for (size_t j = 0; j < ITEMS * RANK; j++) {
        g.items[j] *= 2.0F;
    }
    rbt_mf_adaptation_step(&f.adaptation, 0.0, &f.run);
    rbt_mf_adaptation_step(&g.adaptation, 0.0, &g.run);
    for (size_t i = 0; i < USERS; i++) {
        const float ratio = g.run.user_steps[i].factors / f.run.user_steps[i].factors;
        assert_true(fabsf(ratio - 0.25F) < 1e-6F);
        assert_true(g.run.user_steps[i].bias == f.run.user_steps[i].bias);
    }
    rbt_mf_adaptation_close(&g.adaptation);
    rbt_mf_adaptation_close(&f.adaptation);
}

/* Small ratings want large steps, but never so large that l2 turns a row around. */
static void l2_bounds_steps(void **state)
{
    (void)state;
    struct fixture f;
    open_with(&f, 1e-3);
    f.run.l2 = 1000.0F;
    rbt_mf_adaptation_step(&f.adaptation, 0.0, &f.run);
    for (size_t i = 0; i < USERS; i++) {
        assert_true(f.run.user_steps[i].factors * f.run.l2 < 1.0F);
        assert_true(f.run.user_steps[i].bias * f.run.l2 < 1.0F);
    }
    rbt_mf_adaptation_close(&f.adaptation);
}

/* The moves of workers add up while they are short, and are averaged when each goes all the way;
 * where reads are stale, what others do counts for several clocks. */
static void moves_count_by_how_far_they_go(void **state)
{
    (void)state;
    struct fixture f;
    float factors[ITEMS];
    float biases[ITEMS];
    open_with(&f, 1.0);
    rbt_mf_adaptation_step(&f.adaptation, 0.0, &f.run);
    const double step = 0.08 / sqrt(0.1 + 44.0 * 4.0 / 32.0);
    const double bias = 0.1 / pow(1.0 + 44.0 / 320.0, 0.75);
    for (int staleness = 0; staleness <= 2; staleness += 2) {
        struct rbt_mf_clock clock = {.passes = 0.25, .staleness = staleness, .l2 = 0.5};
        rbt_mf_adaptation_shares(&f.adaptation, &clock, factors, biases);
        const double all = 11.0 + (1.0 + staleness / 2.0) * 33.0;
        const double way = 0.25 * step * (4.0 + 0.5); /* users' factors are 2 */
        const double bias_way = 0.25 * bias * 1.5;
        assert_true(fabs((double)factors[0] - (1.0 + 11.0 * way) / (1.0 + all * way)) < 1e-6);
        assert_true(fabs((double)biases[0] - (1.0 + 11.0 * bias_way) / (1.0 + all * bias_way)) <
                    1e-6);
        assert_true(factors[1] == 1.0F); /* nobody else has it */
        assert_true(biases[1] == 1.0F);
        clock.passes = 1e-6;
        rbt_mf_adaptation_shares(&f.adaptation, &clock, factors, biases);
        assert_true(factors[0] > 0.999F);
        clock.passes = 1e6;
        rbt_mf_adaptation_shares(&f.adaptation, &clock, factors, biases);
        assert_true(fabs((double)factors[0] - 11.0 / all) < 1e-4);
    }
    rbt_mf_adaptation_close(&f.adaptation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_fall_with_ratings),
                                       cmocka_unit_test(errors_add_up),
                                       cmocka_unit_test(who_comes_late_is_careful),
                                       cmocka_unit_test(scale_makes_no_difference),
                                       cmocka_unit_test(l2_bounds_steps),
                                       cmocka_unit_test(moves_count_by_how_far_they_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
