/* policy/filter/kkt_test.c - kkt: what does not go, what comes back, and that it changes no
 * optimum. */
#include "policy/filter/filter_rig.h"

/* Four workers: a share of lambda = 4 is 1. */
static bool goes(const char *text, float gradient, float weight, uint64_t turn)
{
    struct rig *rig = rig_open(text, RBT_FILTER_PUSH, 1);
    rig->values[0] = gradient;
    rig->known[0] = weight;
    rig->rows.known = rig->known;
    rig->rows.turn = turn;
    rig_apply(rig);
    const bool result = rig->keep[0];
    assert_true(rig_bits(rig->values[0]) == (result ? rig_bits(gradient) : 0)); /* not kept */
    rig_close(rig);
    return result;
}

static void gradients_within_their_share_do_not_go(void **state)
{
    (void)state;
    assert_false(goes("kkt:4", 1, 0, 1));
    assert_false(goes("kkt:4", -1, -0.0F, 1));
    assert_true(goes("kkt:4", 1.0001F, 0, 1));
    assert_true(goes("kkt:4", 0.5F, 1e-30F, 1)); /* an active weight */
    assert_true(goes("kkt:4", NAN, 0, 1));
    assert_false(goes("kkt:4:2", 0.5F, 0, 1));
    assert_true(goes("kkt:4:2", 0.6F, 0, 1));
    assert_true(goes("kkt:4:4", 1e-30F, 0, 1)); /* D = L: off, but for zeros */
    assert_false(goes("kkt:4:4", 0, 0, 1));
}

static void everything_goes_every_so_many_turns(void **state)
{
    (void)state;
    for (uint64_t turn = 0; turn < 50; turn++) {
        assert_int_equal(goes("kkt:4", 0.5F, 0, turn), turn % 8 == 0);
        assert_int_equal(goes("kkt:4:0:3", 0.5F, 0, turn), turn % 3 == 0);
        assert_true(goes("kkt:4:0:1", 0.5F, 0, turn));
    }
}

static void without_weights_everything_goes(void **state)
{
    (void)state;
    struct rig *rig = rig_open("kkt:4", RBT_FILTER_PUSH, 1);
    rig->rows.turn = 1;
    rig_apply(rig);
    assert_true(rig->keep[0]);
    rig_close(rig);
}

static float soft(float x, float by)
{
    return x > by ? x - by : x < -by ? x + by : 0;
}

/* Proximal gradient descent on f(w) = sum over workers of 1/2 |w - a_k|^2 / workers, with an L1
 * penalty: the optimum is soft(mean a, lambda). In the middle the data change, and weights that
 * were inactive become active. Returns how many gradients were sent of how many. */
static double descend(const char *text, float w[], const float *first, const float *second)
{
    enum { COUNT = 200, STEPS = 200 };
    const float lambda = 0.5F;
    struct rig *rig = text == NULL ? NULL : rig_open(text, RBT_FILTER_PUSH, COUNT);
    size_t sent = 0;
    memset(w, 0, COUNT * sizeof *w);
    for (int step = 0; step < STEPS; step++) {
        const float *a = step < STEPS / 2 ? first : second;
        float g[COUNT] = {0};
        for (int k = 0; k < RIG_WORKERS; k++) {
            float own[COUNT];
            for (size_t i = 0; i < COUNT; i++) {
                own[i] = (w[i] - a[i] - 0.05F * (float)(k - 1)) / RIG_WORKERS;
            }
            if (rig != NULL) {
                memcpy(rig->values, own, sizeof own);
                memcpy(rig->known, w, sizeof own);
                rig->rows.known = rig->known;
                rig->rows.turn = (uint64_t)step;
                assert_ok(rbt_chain_apply(rig->chain, &rig->rows, &rig->code));
                memcpy(own, rig->values, sizeof own);
            }
            for (size_t i = 0; i < COUNT; i++) {
                sent += rig == NULL || rig->keep[i];
                g[i] += own[i];
            }
        }
        for (size_t i = 0; i < COUNT; i++) {
            w[i] = soft(w[i] - 0.3F * g[i], 0.3F * lambda);
        }
    }
    if (rig != NULL) {
        rig_close(rig);
    }
    return (double)sent / (COUNT * STEPS * RIG_WORKERS);
}

static void the_optimum_is_the_same_and_what_grows_comes_back(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    float first[COUNT];
    float second[COUNT];
    float plain[COUNT];
    float filtered[COUNT];
    size_t woken = 0;
    for (size_t i = 0; i < COUNT; i++) {
        first[i] = i % 10 == 0 ? 2 : 0.3F;
        second[i] = i % 10 == 5 ? -2 : 0.1F; /* others than before */
    }
    const double all = descend(NULL, plain, first, second);
    const double some = descend("kkt:0.5", filtered, first, second);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fabsf(plain[i] - filtered[i]) < 1e-5F);
        woken += filtered[i] != 0;
    }
    assert_int_equal(woken, COUNT / 10);
    assert_true(all == 1 && some < 0.35);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_within_their_share_do_not_go),
        cmocka_unit_test(everything_goes_every_so_many_turns),
        cmocka_unit_test(without_weights_everything_goes),
        cmocka_unit_test(the_optimum_is_the_same_and_what_grows_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
