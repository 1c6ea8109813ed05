/* policy/filter/threshold_test.c - tiny, significant and changed: what waits, and how far receivers
 * are off. That nothing is lost is in chain_test.c. */
#include "policy/filter/filter_rig.h"

/* Applies the filter to one value. */
static bool goes(const char *text, rbt_filter_direction direction, float value, const float *known)
{
    struct rig *rig = rig_open(text, direction, 1);
    rig->values[0] = value;
    rig->rows.known = known;
    rig_apply(rig);
    assert_true(rig_bits(rig->values[0]) == rig_bits(value)); /* also of what waits: the rest */
    const bool result = rig->keep[0];
    rig_close(rig);
    return result;
}

static void tiny_updates_wait(void **state)
{
    (void)state;
    assert_false(goes("tiny:0.5", RBT_FILTER_PUSH, 0.4999F, NULL));
    assert_false(goes("tiny:0.5", RBT_FILTER_PUSH, -0.4999F, NULL));
    assert_true(goes("tiny:0.5", RBT_FILTER_PUSH, 0.5F, NULL));
    assert_true(goes("tiny:0.5", RBT_FILTER_PUSH, -0.5F, NULL));
    assert_true(goes("tiny:0.5", RBT_FILTER_PUSH, NAN, NULL));
    assert_true(goes("tiny:0.5", RBT_FILTER_PUSH, -INFINITY, NULL));
    assert_true(goes("tiny:0", RBT_FILTER_PUSH, 0, NULL));
}

static void significant_ones_go(void **state)
{
    (void)state;
    const float one = 1;
    const float nan_known = NAN;
    assert_false(goes("significant:0.5", RBT_FILTER_PUSH, -0.5F, &one));
    assert_true(goes("significant:0.5", RBT_FILTER_PUSH, -0.5001F, &one));
    assert_true(goes("significant:0.5", RBT_FILTER_PUSH, NAN, &one));
    assert_false(goes("significant:0.5", RBT_FILTER_PULL, 1.5F, &one));
    assert_false(goes("significant:0.5", RBT_FILTER_PULL, 0.5F, &one));
    assert_true(goes("significant:0.5", RBT_FILTER_PULL, 1.5001F, &one));
    assert_true(goes("significant:0.5", RBT_FILTER_PULL, 0, &one));
    assert_true(goes("significant:0.5", RBT_FILTER_PULL, 1, NULL)); /* nothing is known */
    assert_true(goes("significant:0.5", RBT_FILTER_PULL, 1, &nan_known));
    assert_false(goes("significant:0", RBT_FILTER_PULL, 1, &one));
}

static void changed_ones_go(void **state)
{
    (void)state;
    const float zero = 0;
    const float nan_known = NAN;
    assert_true(goes("changed", RBT_FILTER_PULL, -0.0F, &zero)); /* other bits */
    assert_false(goes("changed", RBT_FILTER_PULL, 0, &zero));
    assert_false(goes("changed", RBT_FILTER_PULL, nan_known, &nan_known));
    assert_true(goes("changed", RBT_FILTER_PULL, 0, NULL));
}

/* Rows move at random; the receiver is never further off than the threshold of the turn, in which
 * everything was looked at, and for `changed` not at all. */
static void follow(const char *text, double threshold, bool shrinks)
{
    enum { COUNT = 700, TURNS = 100 };
    static float rows[COUNT];
    static float has[COUNT];
    struct rig *rig = rig_open(text, RBT_FILTER_PULL, COUNT);
    struct rbt_rng rng;
    size_t sends = 0;
    rbt_rng_init(&rng, 29, 0, 0);
    memset(rows, 0, sizeof rows);
    memset(has, 0, sizeof has);
    rig->rows.known = has;
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < COUNT; i++) {
            const bool moves = rbt_rng_below(&rng, 3) == 0;
            rows[i] += moves ? (float)rbt_rng_normal(&rng) * 0.01F : 0;
        }
        memcpy(rig->values, rows, sizeof rows);
        rig_apply(rig);
        (void)rig_deliver(rig);
        for (size_t i = 0; i < COUNT; i++) {
            has[i] = rig->keep[i] ? rig->values[i] : has[i];
            sends += rig->keep[i];
            const double limit = shrinks ? threshold / (turn + 1) : threshold;
            assert_true(fabs((double)has[i] - (double)rows[i]) <= limit);
        }
    }
    assert_true(sends > 100 && sends < (size_t)COUNT * TURNS / 2);
    rig_close(rig);
}

static void receivers_are_never_further_off(void **state)
{
    (void)state;
    follow("significant:0.02", 0.02, false);
    follow("significant:0.5:1,lz4", 0.5, true);
    follow("changed", 0, false);
    follow("changed,significant:0.01", 0.01, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_updates_wait),
        cmocka_unit_test(significant_ones_go),
        cmocka_unit_test(changed_ones_go),
        cmocka_unit_test(receivers_are_never_further_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
