/* policy/rule/adadelay_test.c - AdaDelay against its closed form, over random delays and a script
 * of them.
 */
#include "policy/rule/rule_game.h"

/* The rate as printed, from the whole history, in double. */
static double rate(const struct touch *touches, size_t last, double gamma)
{
    const double t = (double)touches[last].t;
    double sum = 0;
    for (size_t i = 0; i <= last; i++) {
        const double then = (double)touches[i].t;
        const double g = (double)touches[i].g;
        sum += then / (then + (double)touches[i].delay) * g * g;
    }
    const double c = sqrt(sum / t);
    return 0.75 / (1 + c * pow(t + (double)touches[last].delay, gamma));
}

static double closed(const struct touch *touches, size_t count, double w, double gamma,
                     double *scale)
{
    for (size_t i = 0; i < count; i++) {
        const double step = rate(touches, i, gamma) * (double)touches[i].g;
        w -= step;
        *scale = fmax(*scale, fmax(fabs(w), fabs(step)));
    }
    return w;
}

static double half(const struct touch *touches, size_t count, float first, double *scale)
{
    return closed(touches, count, (double)first, 0.5, scale);
}

static double quarter(const struct touch *touches, size_t count, float first, double *scale)
{
    return closed(touches, count, (double)first, 0.25, scale);
}

/* Up to 40 steps in float, each with a few roundings. */
static void adadelay_follows_from_the_history(void **state)
{
    (void)state;
    const struct rig_game game = {
        .text = "adadelay:lr=0.75", .games = 2000, .steps = 60, .ulps = 16, .reference = half};
    rig_play(&game);
}

static void adadelay_has_another_power_if_asked(void **state)
{
    (void)state;
    const struct rig_game game = {.text = "adadelay:lr=0.75,gamma=0.25",
                                  .games = 1000,
                                  .steps = 60,
                                  .ulps = 16,
                                  .reference = quarter};
    rig_play(&game);
}

/* Gradients of 1 and delays 0, 1, 2, 0, 3: the sums of i/(i+tau) are 1, 5/3, 34/15, 49/15 and
 * 49/15 + 5/8; eta_t = 1 / (1 + sqrt(sum/t) sqrt(t + tau)). */
static void adadelay_agrees_with_a_script_of_delays(void **state)
{
    (void)state;
    static const uint64_t delays[] = {0, 1, 2, 0, 3};
    static const double sums[] = {1, 5.0 / 3, 34.0 / 15, 49.0 / 15, 49.0 / 15 + 0.625};
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adadelay:lr=1", 1);
    rig->values[0][0] = 0;
    float deltas[KEYS][WIDTH] = {{1}};
    double w = 0;
    for (uint32_t t = 1; t <= 5; t++) {
        rig->workers[0].base = t - 1 - delays[t - 1];
        rig_push(rig, 0, deltas);
        w -= 1 / (1 + sqrt(sums[t - 1] / t) * sqrt(t + (double)delays[t - 1]));
        assert_near((double)rig->values[0][0], w, 1, 4);
    }
    rig_close(rig);
    test_free(rig);
}

/* tau = 0: eta_t = lr / (L + sqrt(sum g^2)), as the synchronous rule has it. */
static void adadelay_without_delay_is_the_synchronous_rule(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adadelay:lr=0.5,L=2", 1);
    double w = (double)rig->values[0][0];
    double sum = 0;
    for (uint32_t t = 0; t < 40; t++) {
        const float g = (float)rbt_rng_normal(&rig->rng);
        float deltas[KEYS][WIDTH] = {{g}};
        rig_read(rig, 0);
        rig_push(rig, 0, deltas);
        sum += (double)g * (double)g;
        w -= 0.5 / (2 + sqrt(sum)) * (double)g;
        assert_near((double)rig->values[0][0], w, 2, 16);
    }
    rig_close(rig);
    test_free(rig);
}

static void adadelay_stays_in_its_box(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adadelay:lr=100,radius=0.5", 1);
    float deltas[KEYS][WIDTH] = {{-50, 50, 0, 1e-4F}};
    rig->values[0][0] = rig->values[0][1] = rig->values[0][3] = 0;
    rig->values[0][2] = 9;
    rig_push(rig, 0, deltas);
    assert_true(rig->values[0][0] == 0.5F);
    assert_true(rig->values[0][1] == -0.5F);
    assert_true(rig->values[0][2] == 0.5F); /* also what started outside */
    assert_true(rig->values[0][3] > -0.5F);
    assert_true(rig->values[0][3] < 0);
    rig_close(rig);
    test_free(rig);
}

static void adadelay_refuses_what_cannot_work(void **state)
{
    (void)state;
    struct rbt_rule_needs needs;
    assert_ok(rbt_rule_check("adadelay", 8, &needs));
    assert_int_equal(needs.state_width, 8);
    assert_int_equal(needs.snapshot_width, 0);
    assert_fails(rbt_rule_check("adadelay:L=0", 8, NULL), RBT_E_INVALID, "L must be above 0");
    assert_fails(rbt_rule_check("adadelay:gamma=2", 8, NULL), RBT_E_INVALID, "gamma must be at");
    assert_fails(rbt_rule_check("adadelay:radius=-1", 8, NULL), RBT_E_INVALID, "radius must be");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adadelay_follows_from_the_history),
        cmocka_unit_test(adadelay_has_another_power_if_asked),
        cmocka_unit_test(adadelay_agrees_with_a_script_of_delays),
        cmocka_unit_test(adadelay_without_delay_is_the_synchronous_rule),
        cmocka_unit_test(adadelay_stays_in_its_box),
        cmocka_unit_test(adadelay_refuses_what_cannot_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
