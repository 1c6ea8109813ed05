/* algo/frame/penalty_test.c - penalties that are found fit data whose best ones are known. */
#include "base/test.h"

#include <math.h>

#include "algo/frame/penalty.h"
#include "base/alloc.h"
#include "base/rng.h"

enum { FEATURES = 60, PER_EXAMPLE = 8 };

/* Quantities that follow true weights of this spread, with noise of another. The right penalty is
 * then (noise / spread)^2: the weights' prior is normal. */
static void make(size_t count, double spread, double noise, enum rbt_loss loss,
                 struct rbt_share *share)
{
    struct rbt_rng rng;
    double truth[FEATURES];
    rbt_rng_init(&rng, 11, 0, 0);
    *share = (struct rbt_share){.count = count, .key_count = FEATURES};
    share->offsets = rbt_calloc(count + 1, sizeof *share->offsets);
    share->labels = rbt_calloc(count, sizeof *share->labels);
    share->indices = rbt_calloc(count * PER_EXAMPLE, sizeof *share->indices);
    share->values = rbt_calloc(count * PER_EXAMPLE, sizeof *share->values);
    share->keys = rbt_calloc(FEATURES, sizeof *share->keys);
    for (size_t j = 0; j < FEATURES; j++) {
        share->keys[j] = j + 1;
        truth[j] = spread * rbt_rng_normal(&rng);
    }
    for (size_t i = 0; i < count; i++) {
        double margin = 0.0;
        const uint64_t first = rbt_rng_below(&rng, FEATURES / PER_EXAMPLE);
        for (size_t k = 0; k < PER_EXAMPLE; k++) {
            const uint32_t j = (uint32_t)(first + k * (FEATURES / PER_EXAMPLE));
            share->indices[i * PER_EXAMPLE + k] = j;
            share->values[i * PER_EXAMPLE + k] = (float)rbt_rng_normal(&rng);
            margin += truth[j] * (double)share->values[i * PER_EXAMPLE + k];
        }
        const double y = margin + noise * rbt_rng_normal(&rng);
        share->labels[i] = (float)(loss == RBT_LOSS_SQUARED ? y : y > 0 ? 1 : -1);
        share->offsets[i + 1] = (i + 1) * PER_EXAMPLE;
    }
}

static void penalties_are_those_of_the_prior(void **state)
{
    (void)state;
    const struct {
        double spread;
        double noise;
    } all[] = {{1.0, 1.0}, {1.0, 10.0}, {0.1, 5.0}};
    const struct rbt_penalty_options options = {.loss = RBT_LOSS_SQUARED, .classes = 1};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct rbt_share share;
        struct rbt_penalty found;
        struct rbt_penalty again;
        const double right = pow(all[i].noise / all[i].spread, 2);
        make(2000, all[i].spread, all[i].noise, RBT_LOSS_SQUARED, &share);
        assert_ok(rbt_penalty_find(&share, &options, &found));
        assert_true(found.total > right / 5 && found.total < right * 5);
        assert_int_equal(found.held_out, 2000); /* all of them in turn */
        assert_ok(rbt_penalty_find(&share, &options, &again));
        assert_true(found.total == again.total);
        rbt_share_free(&share);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void weights_that_say_nothing_are_shrunk(void **state)
{
    (void)state;
    const enum rbt_loss losses[] = {RBT_LOSS_LOGISTIC, RBT_LOSS_HINGE};
    for (size_t i = 0; i < 2; i++) {
        double totals[2];
        for (size_t is_noise = 0; is_noise < 2; is_noise++) {
            struct rbt_share share;
            struct rbt_penalty found;
            const struct rbt_penalty_options options = {
                .loss = losses[i], .classes = 1, .has_bias = true};
            make(3000, is_noise != 0 ? 0.0 : 1.0, 0.5, losses[i], &share);
            assert_ok(rbt_penalty_find(&share, &options, &found));
            totals[is_noise] = found.total;
            rbt_share_free(&share);
        }
        assert_true(totals[1] > 20 * totals[0]);
    }
}

/* Features that nearly are one: descent takes hundreds of steps without second derivatives. */
static void weights_are_trained_to_the_end(void **state)
{
    (void)state;
    const struct rbt_penalty_options options = {.loss = RBT_LOSS_SQUARED, .classes = 1};
    struct rbt_share share;
    struct rbt_penalty found;
    struct rbt_rng rng;
    double truth[PER_EXAMPLE];
    make(8000, 1.0, 1.0, RBT_LOSS_SQUARED, &share);
    rbt_rng_init(&rng, 12, 0, 0);
    for (size_t k = 0; k < PER_EXAMPLE; k++) {
        truth[k] = rbt_rng_normal(&rng);
    }
    for (size_t i = 0; i < share.count; i++) {
        const double common = rbt_rng_normal(&rng);
        double y = rbt_rng_normal(&rng);
        for (size_t k = 0; k < PER_EXAMPLE; k++) {
            float *x = &share.values[i * PER_EXAMPLE + k];
            *x = (float)(100 * common + 0.1 * rbt_rng_normal(&rng));
            share.indices[i * PER_EXAMPLE + k] = (uint32_t)k;
            y += truth[k] * (double)*x;
        }
        share.labels[i] = (float)y;
    }
    assert_ok(rbt_penalty_find(&share, &options, &found));
    assert_true(found.total > 0.1 && found.total < 10);
    assert_true(found.loss > 0.48 && found.loss < 0.54); /* 1/2 is the noise's */
    rbt_share_free(&share);
}

/* One of 1,000 examples is far from all others, and its label is not what the others tell. */
static void a_few_examples_far_away_do_not_decide(void **state)
{
    (void)state;
    const struct rbt_penalty_options options = {
        .loss = RBT_LOSS_LOGISTIC, .classes = 1, .has_bias = true};
    double totals[2];
    for (size_t is_spoilt = 0; is_spoilt < 2; is_spoilt++) {
        struct rbt_share share;
        struct rbt_penalty found;
        make(6000, 3.0, 0.5, RBT_LOSS_LOGISTIC, &share);
        for (size_t i = 0; is_spoilt != 0 && i < share.count; i += 1000) {
            share.labels[i] = -share.labels[i];
            for (size_t k = 0; k < PER_EXAMPLE; k++) {
                share.values[i * PER_EXAMPLE + k] *= 100.0F;
            }
        }
        assert_ok(rbt_penalty_find(&share, &options, &found));
        totals[is_spoilt] = found.total;
        rbt_share_free(&share);
    }
    assert_true(totals[1] < 100 * totals[0]);
}

static void few_examples_tell_nothing(void **state)
{
    (void)state;
    struct rbt_share share;
    struct rbt_penalty found;
    const struct rbt_penalty_options options = {.loss = RBT_LOSS_SQUARED, .classes = 1};
    make(RBT_PENALTY_EXAMPLES_MIN - 1, 1, 1, RBT_LOSS_SQUARED, &share);
    assert_ok(rbt_penalty_find(&share, &options, &found));
    assert_true(found.total == 1.0);
    assert_int_equal(found.held_out, 0);
    rbt_share_free(&share);
}

static void it_fails_without_memory_and_leaves_nothing(void **state)
{
    (void)state;
    struct rbt_share share;
    struct rbt_penalty found;
    const struct rbt_penalty_options options = {.loss = RBT_LOSS_SQUARED, .classes = 1};
    make(100, 1, 1, RBT_LOSS_SQUARED, &share);
    const size_t live = rbt_alloc_live();
    for (unsigned nth = 1; nth < 40; nth += 3) {
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_penalty_find(&share, &options, &found);
        rbt_alloc_fail_nth(0);
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), live);
    }
    rbt_share_free(&share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(penalties_are_those_of_the_prior),
        cmocka_unit_test(weights_that_say_nothing_are_shrunk),
        cmocka_unit_test(weights_are_trained_to_the_end),
        cmocka_unit_test(a_few_examples_far_away_do_not_decide),
        cmocka_unit_test(few_examples_tell_nothing),
        cmocka_unit_test(it_fails_without_memory_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
