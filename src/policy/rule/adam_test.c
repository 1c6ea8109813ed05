/* policy/rule/adam_test.c - Adam against its means written as sums over the history of a row, in
 * double.
 */
#include "policy/rule/rule_game.h"

static double mean(const struct touch *touches, size_t count, double beta, bool is_square)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double g = (double)touches[i].g;
        sum += (1 - beta) * pow(beta, (double)(count - 1 - i)) * (is_square ? g * g : g);
    }
    return sum / (1 - pow(beta, (double)count));
}

static double closed(const struct touch *touches, size_t count, float first, double *scale)
{
    double w = (double)first;
    for (size_t i = 1; i <= count; i++) {
        w -= 0.1 * mean(touches, i, 0.8, false) / (sqrt(mean(touches, i, 0.95, true)) + 1e-8);
        *scale = fmax(*scale, fabs(w));
    }
    *scale += 0.1; /* the means cancel: their errors are as large as steps, not as weights */
    return w;
}

/* A row's own updates count: those that did not touch it are not in its history. */
static void adam_follows_from_the_history(void **state)
{
    (void)state;
    const struct rig_game game = {.text = "adam:lr=0.1,beta1=0.8,beta2=0.95",
                                  .games = 1500,
                                  .steps = 60,
                                  .ulps = 32,
                                  .reference = closed};
    rig_play(&game);
}

static void adam_first_step_is_lr(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adam:lr=0.5", 1);
    memset(rig->values, 0, sizeof rig->values);
    float deltas[KEYS][WIDTH] = {{1, -1, 100, -100, 0, 0.01F, 3}};
    rig_push(rig, 0, deltas);
    const double expected[WIDTH] = {-0.5, 0.5, -0.5, 0.5, 0, -0.5, -0.5};
    for (uint32_t i = 0; i < WIDTH; i++) {
        assert_near((double)rig->values[0][i], expected[i], 0.5, 16);
    }
    rig_close(rig);
    test_free(rig);
}

static void adam_refuses_what_cannot_work(void **state)
{
    (void)state;
    assert_fails(rbt_rule_check("adam:lr=0", 8, NULL), RBT_E_INVALID, "lr must be above 0");
    assert_fails(rbt_rule_check("adam:beta1=1", 8, NULL), RBT_E_INVALID, "beta1 must be at most");
    assert_fails(rbt_rule_check("adam:beta2=-1", 8, NULL), RBT_E_INVALID, "beta2 must be at least");
    assert_fails(rbt_rule_check("adam:eps=0", 8, NULL), RBT_E_INVALID, "eps must be at least");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adam_follows_from_the_history),
        cmocka_unit_test(adam_first_step_is_lr),
        cmocka_unit_test(adam_refuses_what_cannot_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
