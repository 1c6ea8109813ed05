/* policy/rule/dynsgd_test.c - DynSGD: the example of the paper's appendix C, and means over random
 * histories. */
#include "policy/rule/rule_game.h"

/* Updates 2^0, 2^6, ... so that every sum and every mean below tells which updates are in it. */
static void push(struct rig *rig, uint32_t worker, float update)
{
    float deltas[KEYS][WIDTH] = {{0}};
    deltas[0][0] = update;
    rig_push(rig, worker, deltas);
}

static float value(struct rig *rig)
{
    float values[WIDTH];
    rig_get(rig, 0, RBT_READ_WORK, values);
    return values[0];
}

static uint64_t version_of_last(const struct rig *rig)
{
    return rig->log[rig->count - 1].message.version;
}

/* W1 pushes a, b and e from its first read, W2 and W3 one update each, then W2 pulls: it gets
 * version 3. With the line that the paper prints, c_max <- c, it would get 2. */
static void dynsgd_does_what_appendix_c_says(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "dynsgd", 1);
    memset(rig->values, 0, sizeof rig->values);
    const float a = 12;
    const float b = 64;
    const float c = 24;
    const float d = 60;
    const float e = 1024;
    const float f = 4;
    const float g = 4096;
    push(rig, 0, a);
    assert_int_equal(version_of_last(rig), 0);
    push(rig, 0, b);
    assert_int_equal(version_of_last(rig), 1);
    push(rig, 1, c);
    assert_int_equal(version_of_last(rig), 0);
    push(rig, 2, d);
    assert_int_equal(version_of_last(rig), 0);
    push(rig, 0, e);
    assert_int_equal(version_of_last(rig), 2);
    assert_true(value(rig) == (a + c + d) / 3 + b + e);
    rig_read(rig, 1);
    assert_int_equal(rig->workers[1].tag, 3);
    push(rig, 3, f);
    assert_int_equal(version_of_last(rig), 0);
    assert_true(value(rig) == (a + c + d + f) / 4 + b + e);
    push(rig, 1, g);
    assert_int_equal(version_of_last(rig), 3);
    assert_true(value(rig) == (a + c + d + f) / 4 + b + e + g);
    assert_int_equal(rig->expired, 1); /* all four are past version 0 */
    rig_close(rig);
    test_free(rig);
}

/* w = w_0 + the sum over versions of their means, from the log alone. The means are added in the
 * order of versions, which is that in which they are folded: the bits are the same. A message that
 * does not touch the row counts as an update of zero. */
static float fold_of_all(const struct rig *rig, uint32_t key, uint32_t i)
{
    float w = rig->first[key][i];
    for (uint64_t version = 0; version <= 2 * LOG_MAX; version++) {
        float sum = 0;
        float count = 0;
        for (uint64_t t = 0; t < rig->count; t++) {
            if (rig->log[t].message.version == version) {
                sum += rig->log[t].deltas[key][i];
                count++;
            }
        }
        w += count == 0 ? 0 : sum / count;
    }
    return w;
}

static void dynsgd_is_the_fold_of_the_means_of_its_versions(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    for (uint32_t game = 0; game < 400; game++) {
        rig_open(rig, "dynsgd", game);
        for (uint32_t step = 0; step < 80; step++) {
            rig_step(rig);
            for (uint32_t k = 0; k < KEYS; k++) {
                float values[WIDTH];
                rig_get(rig, k, RBT_READ_WORK, values);
                assert_true(values[step % WIDTH] == fold_of_all(rig, k, step % WIDTH));
            }
        }
        rig_close(rig);
    }
    test_free(rig);
}

/* A slow worker pushes three clocks from a read that got version 5, and then reads again: it gets
 * 5 once more, which therefore must not have gone in the meantime. */
static void dynsgd_keeps_versions_that_a_read_can_bring_back(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "dynsgd", 1);
    memset(rig->values, 0, sizeof rig->values);
    for (uint32_t i = 0; i < 5; i++) {
        push(rig, 0, 1);
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        rig_read(rig, w);
        assert_int_equal(rig->workers[w].tag, 5);
    }
    for (uint32_t w = 1; w < WORKERS; w++) {
        push(rig, w, 4);
        push(rig, w, 4);
        push(rig, w, 4);
    }
    rig->workers[0].previous = 9; /* as if it had pushed on, without a clock */
    rig_expire(rig);
    assert_int_equal(rig->expired, 5);
    rig_read(rig, 1);
    push(rig, 1, 8);
    assert_int_equal(version_of_last(rig), 5);
    assert_true(value(rig) == 5 + (4 + 4 + 4 + 8) / 4.0F + 4 + 4);
    rig_close(rig);
    test_free(rig);
}

/* A read that shows only versions that are stable everywhere is not of a later version than those.
 */
static void dynsgd_gives_reads_no_version_that_they_do_not_show(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "dynsgd", 1);
    for (uint32_t i = 0; i < 5; i++) {
        push(rig, 0, 1);
    }
    const struct rbt_rule_instance *in = &rig->instance;
    struct rbt_rule_send send = {.worker = 1, .count = rig->count, .versions = 2};
    assert_int_equal(in->rule->send(in->self, &send), 2);
    send.versions = 9;
    assert_int_equal(in->rule->send(in->self, &send), 5);
    rig_close(rig);
    test_free(rig);
}

/* Workers 1 to 3 have read once and do nothing: as many versions stay as are asked for. */
static void dynsgd_keeps_no_more_versions_than_it_may(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "dynsgd:max=8", 1);
    memset(rig->values, 0, sizeof rig->values);
    for (uint32_t w = 0; w < WORKERS; w++) {
        rig_read(rig, w);
    }
    for (uint32_t i = 0; i < 50; i++) {
        rig_read(rig, 0);
        push(rig, 0, 1);
        rig_expire(rig);
        assert_int_equal(rig->expired, i + 1 < 8 ? 0 : i + 2 - 8);
    }
    assert_true(value(rig) == 50);
    push(rig, 1, 3); /* from version 0, which is gone: the oldest that is left takes it */
    assert_true(value(rig) == 49 + (1 + 3) / 2.0F);
    rig_close(rig);
    test_free(rig);
}

static void dynsgd_lets_all_versions_go_when_nobody_is_left(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "dynsgd", 1);
    const struct rbt_rule_age age = {.version = {.version = 7, .messages = 1},
                                     .lowest = RBT_RULE_NO_VERSION};
    assert_true(rig->instance.rule->expire(rig->instance.self, &age));
    rig_close(rig);
    test_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynsgd_does_what_appendix_c_says),
        cmocka_unit_test(dynsgd_is_the_fold_of_the_means_of_its_versions),
        cmocka_unit_test(dynsgd_keeps_versions_that_a_read_can_bring_back),
        cmocka_unit_test(dynsgd_gives_reads_no_version_that_they_do_not_show),
        cmocka_unit_test(dynsgd_keeps_no_more_versions_than_it_may),
        cmocka_unit_test(dynsgd_lets_all_versions_go_when_nobody_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
