/* policy/rule/consgd_test.c - ConSGD against a sum with weights, and against model averaging. */
#include "policy/rule/rule_game.h"

static double weighted(const struct touch *touches, size_t count, float first, double *scale)
{
    (void)scale;
    for (size_t i = 0; i < count; i++) {
        first += 0.3F * touches[i].g;
    }
    return (double)first;
}

static void consgd_weighs_every_update_by_its_factor(void **state)
{
    (void)state;
    const struct rig_game game = {
        .text = "consgd:factor=0.3", .games = 1000, .steps = 60, .reference = weighted};
    rig_play(&game);
}

/* All workers start from the same model: then the result is the mean of their models. The weight is
 * 1/4, so that it is exact as long as the sums are, as they are here. */
static void consgd_after_a_clock_is_the_mean_of_the_models(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "consgd", 1);
    float mean[KEYS][WIDTH] = {{0}};
    for (uint32_t k = 0; k < KEYS; k++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            rig->values[k][i] = (float)(k + i);
        }
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        float deltas[KEYS][WIDTH];
        for (uint32_t k = 0; k < KEYS; k++) {
            for (uint32_t i = 0; i < WIDTH; i++) {
                deltas[k][i] = (float)rbt_rng_below(&rig->rng, 100) - 50;
                mean[k][i] += ((float)(k + i) + deltas[k][i]) / WORKERS;
            }
        }
        rig_push(rig, w, deltas);
    }
    assert_memory_equal(rig->values, mean, sizeof mean);
    rig_close(rig);
    test_free(rig);
}

static void consgd_refuses_factors_that_are_no_weights(void **state)
{
    (void)state;
    assert_fails(rbt_rule_check("consgd:factor=0", 1, NULL), RBT_E_INVALID,
                 "factor must be above 0, not 0");
    assert_fails(rbt_rule_check("consgd:factor=1.5", 1, NULL), RBT_E_INVALID,
                 "factor must be at most 1, not 1.5");
    assert_fails(rbt_rule_check("consgd:factor=nan", 1, NULL), RBT_E_INVALID,
                 "factor must be a number");
    assert_ok(rbt_rule_check("consgd:factor=1", 1, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(consgd_weighs_every_update_by_its_factor),
        cmocka_unit_test(consgd_after_a_clock_is_the_mean_of_the_models),
        cmocka_unit_test(consgd_refuses_factors_that_are_no_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
