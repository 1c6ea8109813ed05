/* policy/rule/adagrad_test.c - AdaGrad against the sum over the history of a coordinate, bit by
 * bit. */
#include "policy/rule/rule_game.h"

static float squares(const struct touch *touches, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += touches[i].g * touches[i].g;
    }
    return sum;
}

static double plain(const struct touch *touches, size_t count, float first, double *scale)
{
    (void)scale;
    for (size_t i = 0; i < count; i++) {
        const float root = sqrtf(squares(touches, i + 1));
        first -= 0.5F / (1e-12F + root) * touches[i].g;
    }
    return (double)first;
}

static double with_decay(const struct touch *touches, size_t count, float first, double *scale)
{
    (void)scale;
    for (size_t i = 0; i < count; i++) {
        const float root = sqrtf(squares(touches, i + 1));
        first -= 0.5F / (2 + root) * (touches[i].g + 0.125F * first);
    }
    return (double)first;
}

static void adagrad_divides_by_the_root_of_all_squares(void **state)
{
    (void)state;
    const struct rig_game game = {
        .text = "adagrad:lr=0.5", .games = 2000, .steps = 60, .reference = plain};
    rig_play(&game);
}

static void adagrad_for_embeddings_also_decays(void **state)
{
    (void)state;
    const struct rig_game game = {.text = "adagrad:lr=0.5,beta=2,mu=0.125",
                                  .games = 2000,
                                  .steps = 60,
                                  .reference = with_decay};
    rig_play(&game);
}

/* The sum has the current gradient in it: the first step is lr, however large the gradient. */
static void adagrad_first_step_is_lr(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adagrad:lr=0.5", 1);
    memset(rig->values, 0, sizeof rig->values);
    float deltas[KEYS][WIDTH] = {{1e-4F, -1, 3, -1e4F, 1e9F, 0, 7}};
    rig_push(rig, 0, deltas);
    const double expected[WIDTH] = {-0.5, 0.5, -0.5, 0.5, -0.5, 0, -0.5};
    for (uint32_t i = 0; i < WIDTH; i++) {
        assert_near((double)rig->values[0][i], expected[i], 0.5, 1);
    }
    rig_close(rig);
    test_free(rig);
}

/* With decay, weights without gradients move as well; beta keeps them from leaping. */
static void adagrad_has_a_larger_beta_when_it_decays(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adagrad:lr=0.5,mu=0.5", 1);
    rig->values[0][1] = 8;
    float deltas[KEYS][WIDTH] = {{1}};
    rig_push(rig, 0, deltas);
    assert_true(rig->values[0][1] == 8 - 0.5F * 0.5F * 8);
    rig_close(rig);
    test_free(rig);
}

static void adagrad_refuses_what_cannot_work(void **state)
{
    (void)state;
    assert_fails(rbt_rule_check("adagrad:lr=0", 1, NULL), RBT_E_INVALID, "lr must be above 0");
    assert_fails(rbt_rule_check("adagrad:lr=-1", 1, NULL), RBT_E_INVALID, "lr must be above 0");
    assert_fails(rbt_rule_check("adagrad:beta=0", 1, NULL), RBT_E_INVALID, "beta must be at least");
    assert_fails(rbt_rule_check("adagrad:mu=-1", 1, NULL), RBT_E_INVALID, "mu must be at least 0");
    assert_fails(rbt_rule_check("adagrad:trust,mu=1", 1, NULL), RBT_E_INVALID,
                 "mu does not go with trust");
    assert_fails(rbt_rule_check("adagrad:lr=inf", 1, NULL), RBT_E_INVALID, "lr must be at most");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adagrad_divides_by_the_root_of_all_squares),
        cmocka_unit_test(adagrad_for_embeddings_also_decays),
        cmocka_unit_test(adagrad_first_step_is_lr),
        cmocka_unit_test(adagrad_has_a_larger_beta_when_it_decays),
        cmocka_unit_test(adagrad_refuses_what_cannot_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
