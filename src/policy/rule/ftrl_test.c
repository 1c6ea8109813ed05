/* policy/rule/ftrl_test.c - FTRL-proximal against the textbook, whose z has the other sign, and
 * against what it minimises. */
#include "policy/rule/rule_game.h"

/* McMahan and others, 2013, algorithm 1. The signs mirror, so the bits are the same. */
static double textbook(const struct touch *touches, size_t count, float first, double *scale)
{
    (void)scale;
    const float alpha = 0.25F;
    const float beta = 1;
    const float l1 = 1.5F;
    const float l2 = 0.5F;
    float z = 0;
    float n = 0;
    float w = first;
    for (size_t i = 0; i < count; i++) {
        const float g = touches[i].g;
        const float sigma = (sqrtf(n + g * g) - sqrtf(n)) / alpha;
        z += g - sigma * w;
        n += g * g;
        if (fabsf(z) <= l1) {
            w = 0;
        } else {
            const float sign = z < 0 ? -1.0F : 1.0F;
            w = -(z - sign * l1) / ((beta + sqrtf(n)) / alpha + l2);
        }
    }
    return (double)w;
}

static void ftrl_is_the_textbook_with_the_other_sign(void **state)
{
    (void)state;
    const struct rig_game game = {.text = "ftrl:lr=0.25,beta=1,l1=1.5,l2=0.5",
                                  .games = 3000,
                                  .steps = 60,
                                  .reference = textbook};
    rig_play(&game);
}

static void ftrl_has_exact_zeros_without_a_sign(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "ftrl:lr=0.5,l1=2", 1);
    memset(rig->values, 0, sizeof rig->values);
    float deltas[KEYS][WIDTH] = {{2, -2, 1.9F, -1.9F, 0, 2.1F, -2.1F}};
    rig_push(rig, 0, deltas);
    const float zeros[5] = {0};
    assert_memory_equal(rig->values[0], zeros, sizeof zeros);
    assert_true(rig->values[0][5] < 0);
    assert_true(rig->values[0][6] > 0);
    rig_close(rig);
    test_free(rig);
}

/* w_t minimises g_1:t w + 1/2 sum sigma_s (w - w_s)^2 + beta/(2 alpha) w^2 + l1 |w| + l2/2 w^2: the
 * derivative changes its sign there. */
static void ftrl_minimises_what_it_should(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    for (uint32_t game = 0; game < 200; game++) {
        rig_open(rig, "ftrl:lr=0.5,beta=1,l1=0.25,l2=0.125", game);
        rig->values[0][0] = 0;
        double sum = 0; /* of g - sigma w */
        double n = 0;
        for (uint32_t t = 0; t < 30; t++) {
            const float g = (float)rbt_rng_normal(&rig->rng);
            float deltas[KEYS][WIDTH] = {{g}};
            const double more = n + (double)g * (double)g;
            sum += (double)g - (sqrt(more) - sqrt(n)) / 0.5 * (double)rig->values[0][0];
            n = more;
            rig_push(rig, 0, deltas);
            const double w = (double)rig->values[0][0];
            const double slope = sum + ((1 + sqrt(n)) / 0.5 + 0.125) * w;
            assert_true(slope - 0.25 < 1e-4);
            assert_true(slope + 0.25 > -1e-4);
            assert_true(w <= 0 || fabs(slope + 0.25) < 1e-4);
            assert_true(w >= 0 || fabs(slope - 0.25) < 1e-4);
        }
        rig_close(rig);
    }
    test_free(rig);
}

static void ftrl_refuses_what_cannot_work(void **state)
{
    (void)state;
    assert_fails(rbt_rule_check("ftrl:lr=0", 8, NULL), RBT_E_INVALID, "lr must be above 0");
    assert_fails(rbt_rule_check("ftrl:beta=0", 8, NULL), RBT_E_INVALID, "beta must be above 0");
    assert_fails(rbt_rule_check("ftrl:l1=-1", 8, NULL), RBT_E_INVALID, "l1 must be at least 0");
    assert_fails(rbt_rule_check("ftrl:l2=-1", 8, NULL), RBT_E_INVALID, "l2 must be at least 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ftrl_is_the_textbook_with_the_other_sign),
        cmocka_unit_test(ftrl_has_exact_zeros_without_a_sign),
        cmocka_unit_test(ftrl_minimises_what_it_should),
        cmocka_unit_test(ftrl_refuses_what_cannot_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
