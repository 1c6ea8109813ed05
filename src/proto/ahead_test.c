/* proto/ahead_test.c - rows asked for ahead keep what the shard must keep for them, and no longer.
 */
#include "base/test.h"

#include "base/alloc.h"
#include "proto/ahead.h"

enum { TABLE = 3, SHARD = 1 };

static int setup(void **state)
{
    struct rbt_aheads *aheads = test_calloc(1, sizeof *aheads);
    assert_ok(rbt_aheads_init(aheads));
    *state = aheads;
    return 0;
}

static int teardown(void **state)
{
    rbt_aheads_deinit(*state);
    test_free(*state);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static uint64_t least(struct rbt_aheads *aheads, uint64_t said)
{
    return rbt_aheads_least(aheads, SHARD, TABLE, said);
}

static void keep(struct rbt_aheads *aheads, struct rbt_ahead *ahead, uint64_t version,
                 uint64_t stamp)
{
    const struct rbt_answer answer = {
        .head = {.news = {.version = version}, .has_stamp = true, .stamp = stamp}};
    const struct rbt_body body = {.bytes = "rows", .count = 4};
    assert_ok(rbt_aheads_keep(aheads, ahead, &answer, &body));
}

static void test_what_is_on_its_way_or_waits_is_not_let_go(void **state)
{
    struct rbt_aheads *aheads = *state;
    assert_null(rbt_aheads_find(aheads, 9, SHARD, false));
    struct rbt_ahead *ahead = rbt_aheads_get(aheads, 9, SHARD, false);
    assert_ptr_equal(rbt_aheads_find(aheads, 9, SHARD, false), ahead);
    assert_true(least(aheads, RBT_STAMP_NONE) == RBT_STAMP_NONE);
    rbt_aheads_expect(aheads, ahead, TABLE, 5);
    assert_int_equal(least(aheads, RBT_STAMP_NONE), 5);
    assert_int_equal(least(aheads, 4), 4);
    assert_int_equal(rbt_aheads_least(aheads, SHARD, TABLE + 1, 8), 8);
    assert_int_equal(rbt_aheads_least(aheads, SHARD + 1, TABLE, 8), 8);
    rbt_ahead_arrived(ahead);
    keep(aheads, ahead, 2, 7);
    assert_int_equal(least(aheads, 20), 7);
    keep(aheads, ahead, 1, 6); /* older: not kept */
    assert_int_equal(least(aheads, 20), 7);
    keep(aheads, ahead, 3, 9);
    assert_int_equal(least(aheads, 20), 9);
    rbt_aheads_expect(aheads, ahead, TABLE, 9);
    rbt_ahead_drop(ahead);
    assert_int_equal(least(aheads, 20), 9); /* the next one may be no newer */
    rbt_ahead_arrived(ahead);
    assert_int_equal(least(aheads, 20), 20);
    rbt_aheads_expect(aheads, ahead, TABLE, RBT_STAMP_NONE); /* it may be anything */
    assert_int_equal(least(aheads, 20), 0);
}

/* One version makes a difference. */
static void test_copies_never_get_older(void **state)
{
    struct rbt_aheads *aheads = *state;
    struct rbt_ahead *ahead = rbt_aheads_get(aheads, 9, SHARD, false);
    keep(aheads, ahead, 5, 50);
    keep(aheads, ahead, 4, 40);
    assert_int_equal(ahead->news.version, 5);
    assert_int_equal(ahead->answer_stamp, 50);
    keep(aheads, ahead, 5, 51); /* as new: what came last has no fewer of the worker's own */
    assert_int_equal(ahead->answer_stamp, 51);
    rbt_ahead_drop(ahead);
    keep(aheads, ahead, 3, 30); /* there is nothing that it could be older than */
    assert_int_equal(ahead->news.version, 3);
}

static void test_what_nobody_uses_is_dropped(void **state)
{
    struct rbt_aheads *aheads = *state;
    struct rbt_ahead *used = rbt_aheads_get(aheads, 1, SHARD, false);
    struct rbt_ahead *unused = rbt_aheads_get(aheads, 2, SHARD, false);
    used->table = unused->table = TABLE;
    keep(aheads, used, 1, 11);
    keep(aheads, unused, 1, 10);
    int clocks = 0;
    while (least(aheads, 20) == 10 && clocks < 100) {
        rbt_aheads_end_clock(aheads, SHARD + 1); /* another's */
        rbt_aheads_end_clock(aheads, SHARD);
        used->idle = 0;
        clocks++;
    }
    assert_in_range(clocks, 3, 10);
    assert_int_equal(least(aheads, 20), 11);
    assert_int_equal(unused->answer_bytes, 0);
    for (uint64_t i = 3; i < 200; i++) { /* room for all */
        struct rbt_ahead *ahead = rbt_aheads_get(aheads, i, SHARD, i % 2 == 0);
        ahead->table = TABLE;
        keep(aheads, ahead, 1, 11 + i);
    }
    assert_int_equal(least(aheads, 20), 11);
    rbt_aheads_clear(aheads);
    assert_int_equal(least(aheads, 20), 20);
}

/* How long it waits to be used is counted for each answer: one that comes after another was dropped
 * waits as long. */
static void test_each_answer_waits_as_long(void **state)
{
    struct rbt_aheads *aheads = *state;
    struct rbt_ahead *ahead = rbt_aheads_get(aheads, 1, SHARD, false);
    int clocks[2] = {0};
    ahead->table = TABLE;
    for (uint64_t i = 0; i < 2; i++) {
        keep(aheads, ahead, 1 + i, 10 + i);
        while (least(aheads, 20) == 10 + i && clocks[i] < 100) {
            rbt_aheads_end_clock(aheads, SHARD);
            clocks[i]++;
        }
    }
    assert_in_range(clocks[0], 3, 10);
    assert_int_equal(clocks[1], clocks[0]);
}

/* What has come says how old later answers can be at most, also when it has been used. */
static void test_the_last_stamp_stays(void **state)
{
    struct rbt_aheads *aheads = *state;
    struct rbt_ahead *ahead = rbt_aheads_get(aheads, 9, SHARD, true);
    assert_int_equal(ahead->last_stamp, 0);
    keep(aheads, ahead, 2, 7);
    rbt_ahead_drop(ahead);
    assert_int_equal(ahead->last_stamp, 7);
    assert_true(least(aheads, RBT_STAMP_NONE) == RBT_STAMP_NONE);
    keep(aheads, ahead, 3, 9);
    assert_int_equal(ahead->last_stamp, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_on_its_way_or_waits_is_not_let_go, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_copies_never_get_older, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_nobody_uses_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_answer_waits_as_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_last_stamp_stays, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
