/* algo/linear/linear_lazy_test.c - penalties that wait: which features they reach, and how much of
 * it. */
#include "base/test.h"

#include <math.h>
#include <stdlib.h>

#include "algo/linear/linear_lazy.h"
#include "base/rng.h"

enum { EXAMPLES = 240, ROW = 3, FEATURES = 200 };

struct fixture {
    struct rbt_linear_job linear;
    struct rbt_linear_worker w;
    uint64_t offsets[EXAMPLES + 1];
    uint32_t indices[EXAMPLES * ROW];
    float values[EXAMPLES * ROW];
    float labels[EXAMPLES];
    float scales[FEATURES];
    float pulls[FEATURES];
    float decays[FEATURES];
    float weights[FEATURES];
};

/* Feature 0 is in every example, the others in about one of a hundred. */
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 7, 0, 0);
    for (size_t i = 0; i < EXAMPLES; i++) {
        f->offsets[i + 1] = (i + 1) * ROW;
        for (size_t k = 1; k < ROW; k++) {
            f->indices[i * ROW + k] = 1 + (uint32_t)rbt_rng_below(&rng, FEATURES - 1);
        }
    }
    for (size_t j = 0; j < FEATURES; j++) {
        f->scales[j] = 1.0F;
        f->pulls[j] = 1.0F;
        f->decays[j] = 1.0F + 0.01F * (float)j;
    }
    f->w = (struct rbt_linear_worker){
        .share = {.count = EXAMPLES,
                  .offsets = f->offsets,
                  .indices = f->indices,
                  .values = f->values,
                  .labels = f->labels,
                  .key_count = FEATURES},
        .scales = f->scales,
        .pulls = f->pulls,
        .decays = f->decays,
        .sweep = FEATURES / (2 * ROW) + 1,
        .weights = {.values = f->weights, .count = FEATURES, .width = 1}};
    f->linear.width = 1;
    f->linear.config.l2 = 0.01;
    f->linear.config.batch = 1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_linear_lazy_close(&f->w);
    free(f);
    return 0;
}

/* Two epochs of so many clocks, with one step of the penalty for each example; returns how many
 * weights were gone through. */
static size_t run(struct fixture *f, int64_t clocks)
{
    size_t gone_through = 0;
    f->linear.clocks_per_epoch = clocks;
    for (size_t j = 0; j < FEATURES; j++) {
        f->weights[j] = 1.0F;
    }
    assert_ok(rbt_linear_lazy_open(&f->linear, &f->w));
    for (int64_t clock = 0; clock < 2 * clocks; clock++) {
        const size_t index = (size_t)(clock % clocks);
        const size_t first = EXAMPLES * index / (size_t)clocks;
        const size_t end = EXAMPLES * (index + 1) / (size_t)clocks;
        float before[FEATURES];
        bool is_used[FEATURES] = {false};
        memcpy(before, f->weights, sizeof before);
        size_t used = 0;
        for (uint64_t k = f->offsets[first]; k < f->offsets[end]; k++) {
            used += !is_used[f->indices[k]];
            is_used[f->indices[k]] = true;
        }
        rbt_linear_lazy_begin(&f->linear, &f->w, (int64_t)index, first, end);
        const size_t sweep = rbt_linear_lazy_sweep(&f->w);
        for (size_t i = first; i < end; i += sweep) {
            rbt_linear_lazy_shrink(&f->linear, &f->w, (double)(end - i < sweep ? end - i : sweep));
            gone_through += used;
        }
        rbt_linear_lazy_settle(&f->linear, &f->w);
        for (size_t j = 0; j < FEATURES; j++) {
            assert_true(is_used[j] ? f->weights[j] < before[j] : f->weights[j] == before[j]);
        }
    }
    return gone_through;
}

/* A feature has the penalty of all examples up to the last clock that has it, whichever way the
 * clock goes through its features. */
static void every_feature_gets_what_is_due(void **state)
{
    struct fixture *f = *state;
    for (int64_t clocks = 2; clocks <= EXAMPLES; clocks *= 4) {
        (void)run(f, clocks);
        for (size_t j = 0; j < FEATURES; j++) {
            double due = 0.0;
            for (int64_t c = 0; c < clocks; c++) {
                const size_t end = EXAMPLES * (size_t)(c + 1) / (size_t)clocks;
                for (size_t k = EXAMPLES * (size_t)c / (size_t)clocks * ROW; k < end * ROW; k++) {
                    due = f->indices[k] == j ? EXAMPLES + (double)end : due;
                }
            }
            const double d = (double)f->decays[j];
            const double rate = f->linear.config.l2 * d * d;
            /* Fewer, larger steps of 1 / (1 + x) leave more than exp(-x), and never less. */
            assert_true((double)f->weights[j] >= 0.999 * exp(-rate * due));
            assert_true((double)f->weights[j] <= 1.001 / (1.0 + rate * due));
        }
        rbt_linear_lazy_close(&f->w);
    }
}

/* Were the steps of all features as many as with clocks of half a pass, 60 clocks would go through
 * several times as many weights as the examples have values. */
static void cost_follows_the_features_of_a_clock(void **state)
{
    struct fixture *f = *state;
    for (int64_t clocks = 4; clocks <= EXAMPLES; clocks *= 4) {
        const size_t gone_through = run(f, clocks);
        assert_true(gone_through <= (size_t)2 * EXAMPLES * ROW * 5 / 2);
        rbt_linear_lazy_close(&f->w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_feature_gets_what_is_due, setup, teardown),
        cmocka_unit_test_setup_teardown(cost_follows_the_features_of_a_clock, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
