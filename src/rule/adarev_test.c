/* rule/adarev_test.c - AdaRevision: from the history of a coordinate, bit by bit; by hand; and
 * against AdaGrad. */
#include "rule/rule_game.h"

static float sum_of(const struct touch *touches, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += touches[i].g;
    }
    return sum;
}

/* As the papers write it: with z', the largest z so far, and both rates from it. */
static double from_history(const struct touch *touches, size_t count, float first, double *scale)
{
    (void)scale;
    float z = 0;
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        const float g = touches[i].g;
        const float b = sum_of(touches, i) - sum_of(touches, touches[i].seen);
        const float eta_old = 0.25F / (1e-12F + sqrtf(largest));
        z += g * g + 2 * g * b;
        largest = fmaxf(largest, z);
        const float eta = 0.25F / (1e-12F + sqrtf(largest));
        first += -eta * g + (eta_old - eta) * b;
    }
    return (double)first;
}

static void adarev_follows_from_the_history(void **state)
{
    (void)state;
    const struct rig_game game = {
        .text = "adarev:lr=0.25", .games = 3000, .steps = 60, .reference = from_history};
    rig_play(&game);
}

/* Everybody reads before every push: nothing is late. */
static void adarev_without_delay_is_adagrad_bit_by_bit(void **state)
{
    (void)state;
    struct rig *rigs[2];
    for (uint32_t game = 0; game < 500; game++) {
        for (uint32_t r = 0; r < 2; r++) {
            rigs[r] = test_calloc(1, sizeof *rigs[r]);
            rig_open(rigs[r], r == 0 ? "adarev:lr=0.3" : "adagrad:lr=0.3", game);
            for (uint32_t t = 0; t < LOG_MAX; t++) {
                float deltas[KEYS][WIDTH];
                for (uint32_t i = 0; i < KEYS * WIDTH; i++) {
                    deltas[i / WIDTH][i % WIDTH] = rig_gradient(rigs[r]);
                }
                rig_read(rigs[r], t % WORKERS);
                rig_push(rigs[r], t % WORKERS, deltas);
            }
        }
        assert_memory_equal(rigs[0]->values, rigs[1]->values, sizeof rigs[0]->values);
        for (uint32_t r = 0; r < 2; r++) {
            rig_close(rigs[r]);
            test_free(rigs[r]);
        }
    }
}

/* Two workers read at the start. With lr = 1, in the order of arrival:
 *
 *     A: g = 3    b = 0    z = 9           z' = 9    eta 1/3               w = -1
 *     B: g = 2    b = 3    z = 9+4+12 = 25 z' = 25   eta 1/5, was 1/3      w = -1 - 2/5 + 2/15 3
 *                                                                            = -1
 *     A: g = -4   b = 2+3  z = 25+16-40=1  z' = 25   eta 1/5               w = -1 + 4/5 = -1/5
 *        (from its first read: gbar was 0, and is 5)
 *     B reads. gbar = 1
 *     B: g = 1    b = 0    z = 2           z' = 25   eta 1/5               w = -2/5
 *     A: g = 6    b = 2    z = 2+36+24=62  z' = 62   eta 1/sqrt(62)        w = -2/5 - 6/sqrt(62)
 *        (gbar was 0, and is 2)                                              + (1/5 - 1/sqrt(62)) 2
 */
static void adarev_agrees_with_five_steps_by_hand(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adarev:lr=1", 1);
    rig->values[0][0] = 0;
    const uint32_t workers[] = {0, 1, 0, 1, 0};
    const float gradients[] = {3, 2, -4, 1, 6};
    const double root = sqrt(62.0);
    const double expected[] = {-1, -1, -0.2, -0.4, -0.4 - 6 / root + 2 * (0.2 - 1 / root)};
    for (uint32_t t = 0; t < 5; t++) {
        float deltas[KEYS][WIDTH] = {{0}};
        deltas[0][0] = gradients[t];
        if (t == 3) {
            rig_read(rig, 1);
        }
        rig_push(rig, workers[t], deltas);
        assert_near((double)rig->values[0][0], expected[t], 1, 2);
    }
    rig_close(rig);
    test_free(rig);
}

static void adarev_has_copies_of_the_sums_alone(void **state)
{
    (void)state;
    struct rbt_rule_needs needs;
    assert_ok(rbt_rule_check("adarev:max=100", 8, &needs));
    assert_int_equal(needs.input, RBT_RULE_GRADIENTS);
    assert_int_equal(needs.state_width, 24);
    assert_int_equal(needs.snapshot_width, 8);
    assert_int_equal(needs.snapshot_max, 100);
    assert_fails(rbt_rule_check("adarev:max=1.5", 8, NULL), RBT_E_INVALID,
                 "max must be a whole number, not 1.5");
    assert_fails(rbt_rule_check("adarev:max=-1", 8, NULL), RBT_E_INVALID, "max must be at least 0");
    assert_fails(rbt_rule_check("adarev:lr=0", 8, NULL), RBT_E_INVALID, "lr must be above 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adarev_follows_from_the_history),
        cmocka_unit_test(adarev_without_delay_is_adagrad_bit_by_bit),
        cmocka_unit_test(adarev_agrees_with_five_steps_by_hand),
        cmocka_unit_test(adarev_has_copies_of_the_sums_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
