/* store/rule_state_edges_test.c - rules at work where it is easy to be slightly wrong: rows that
 * nobody touches, workers that never read, and a second run. */
#include "base/test.h"

#include "store/rule_state_rig.h"

/* The row was left alone by the last messages: its average catches up while it is read. */
static void averages_catch_up_when_they_are_read(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 1, RBT_STALENESS_ANY, "sgd:lr=1,average=1", NULL);
    push(&f, 0, KEY, -8);
    push(&f, 0, KEY, -8);
    push(&f, 0, KEY + 1, -1);
    push(&f, 0, KEY + 1, -1);
    assert_true(look(&f, KEY) == 16);
    uint64_t key = 0;
    float average = 0;
    struct rbt_shard_scan scan = {
        .range = {KEY, KEY}, .keys = &key, .values = (char *)&average, .capacity = 1};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_SCAN, .scan = &scan};
    rbt_shard_step(f.shard, &event, &f.out);
    assert_ok(f.out.status);
    assert_int_equal(scan.count, 1);
    assert_true(average == 14); /* (8 + 16 + 16 + 16) / 4 */
    stop(&f);
}

/* In the first run a late reader pushes several times from one read, and versions run ahead of the
 * clocks. In the second every clock must still have a version of its own. */
static void versions_of_a_second_run_are_its_own(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 2, RBT_STALENESS_ANY, "dynsgd", NULL);
    for (int i = 0; i < 5; i++) {
        push(&f, 0, KEY, 1);
    }
    pull(&f, 1, KEY);
    for (int i = 0; i < 3; i++) {
        push(&f, 1, KEY, 1); /* versions 5, 6 and 7, in clocks 0, 1 and 2 */
    }
    leave(&f, 0);
    leave(&f, 1);
    assert_true(look(&f, KEY) == 8);
    for (int run = 0; run < 2; run++) {
        const float before = look(&f, KEY);
        reset(&f);
        pull(&f, 0, KEY);
        pull(&f, 1, KEY);
        push(&f, 0, KEY, 10);
        push(&f, 1, KEY, 20);
        pull(&f, 0, KEY);
        pull(&f, 1, KEY);
        push(&f, 0, KEY, 30);
        push(&f, 1, KEY, 50);
        assert_true(look(&f, KEY) == before + 15 + 40);
        leave(&f, 0);
        leave(&f, 1);
    }
    stop(&f);
}

/* --- Workers that never read ------------------------------------------------------------------ */

static rbt_status create_mean(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                              void **self)
{
    (void)setup;
    (void)self;
    needs->parts = RBT_PARTS_SHOWN;
    return RBT_OK;
}

static rbt_status apply_mean(void *self, const struct rbt_rule_message *message,
                             const struct rbt_rule_row *row)
{
    (void)self;
    (void)message;
    row->part[0] += row->delta[0];
    return RBT_OK;
}

static void fold_mean(void *self, const struct rbt_rule_version *version,
                      const struct rbt_rule_row *row)
{
    (void)self;
    row->values[0] += row->part[0] / (float)version->messages;
}

/* Versions are clocks, and go when nobody can add to them any more. */
static const struct rbt_rule mean = {.abi = RBT_RULE_ABI,
                                     .struct_size = sizeof mean,
                                     .name = "mean",
                                     .create = create_mean,
                                     .apply = apply_mean,
                                     .fold = fold_mean};

static void clocks_of_workers_that_never_read_stay_until_all_are_there(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 2, RBT_STALENESS_ANY, "mean", &mean);
    for (int clock = 0; clock < 6; clock++) {
        const float before = look(&f, KEY);
        assert_ok(push_with(&f, 0, (struct push){KEY, 10, 0, RBT_STAMP_NONE}));
        assert_true(look(&f, KEY) == before + 10);
        assert_ok(push_with(&f, 1, (struct push){KEY, 30, 0, RBT_STAMP_NONE}));
        assert_true(look(&f, KEY) == before + 20);
        assert_true(stats_of(&f).versions_max <= 2);
    }
    leave(&f, 0);
    assert_ok(push_with(&f, 1, (struct push){KEY, 7, 0, RBT_STAMP_NONE}));
    assert_true(look(&f, KEY) == 6 * 20 + 7);
    leave(&f, 1);
    assert_true(look(&f, KEY) == 6 * 20 + 7);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_catch_up_when_they_are_read),
        cmocka_unit_test(versions_of_a_second_run_are_its_own),
        cmocka_unit_test(clocks_of_workers_that_never_read_stay_until_all_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
