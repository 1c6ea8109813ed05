/* proto/prefetch_test.c - rows asked for ahead keep what the shard must keep for them, and no
 * longer.
 */
#include "base/test.h"

#include "base/alloc.h"
#include "proto/prefetch.h"

enum { TABLE = 3, SHARD = 1 };

static int setup(void **state)
{
    struct rbt_prefetches *prefetches = test_calloc(1, sizeof *prefetches);
    assert_ok(rbt_prefetches_init(prefetches));
    *state = prefetches;
    return 0;
}

static int teardown(void **state)
{
    rbt_prefetches_deinit(*state);
    test_free(*state);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static uint64_t least(struct rbt_prefetches *prefetches, uint64_t said)
{
    return rbt_prefetches_least(prefetches, SHARD, TABLE, said);
}

static void keep(struct rbt_prefetches *prefetches, struct rbt_prefetch *prefetch, uint64_t version,
                 uint64_t stamp)
{
    const struct rbt_answer answer = {
        .head = {.news = {.version = version}, .has_stamp = true, .stamp = stamp}};
    const struct rbt_body body = {.bytes = "rows", .count = 4};
    assert_ok(rbt_prefetches_keep(prefetches, prefetch, &answer, &body));
}

static void test_what_is_on_its_way_or_waits_is_not_let_go(void **state)
{
    struct rbt_prefetches *prefetches = *state;
    assert_null(rbt_prefetches_find(prefetches, 9, SHARD, false));
    struct rbt_prefetch *prefetch = rbt_prefetches_get(prefetches, 9, SHARD, false);
    assert_ptr_equal(rbt_prefetches_find(prefetches, 9, SHARD, false), prefetch);
    assert_true(least(prefetches, RBT_STAMP_NONE) == RBT_STAMP_NONE);
    rbt_prefetches_expect(prefetches, prefetch, TABLE, 5);
    assert_int_equal(least(prefetches, RBT_STAMP_NONE), 5);
    assert_int_equal(least(prefetches, 4), 4);
    assert_int_equal(rbt_prefetches_least(prefetches, SHARD, TABLE + 1, 8), 8);
    assert_int_equal(rbt_prefetches_least(prefetches, SHARD + 1, TABLE, 8), 8);
    rbt_prefetch_arrived(prefetch);
    keep(prefetches, prefetch, 2, 7);
    assert_int_equal(least(prefetches, 20), 7);
    keep(prefetches, prefetch, 1, 6); /* older: not kept */
    assert_int_equal(least(prefetches, 20), 7);
    keep(prefetches, prefetch, 3, 9);
    assert_int_equal(least(prefetches, 20), 9);
    rbt_prefetches_expect(prefetches, prefetch, TABLE, 9);
    rbt_prefetch_drop(prefetch);
    assert_int_equal(least(prefetches, 20), 9); /* the next one may be no newer */
    rbt_prefetch_arrived(prefetch);
    assert_int_equal(least(prefetches, 20), 20);
    rbt_prefetches_expect(prefetches, prefetch, TABLE, RBT_STAMP_NONE); /* it may be anything */
    assert_int_equal(least(prefetches, 20), 0);
}

/* One version makes a difference. */
static void test_copies_never_get_older(void **state)
{
    struct rbt_prefetches *prefetches = *state;
    struct rbt_prefetch *prefetch = rbt_prefetches_get(prefetches, 9, SHARD, false);
    keep(prefetches, prefetch, 5, 50);
    keep(prefetches, prefetch, 4, 40);
    assert_int_equal(prefetch->news.version, 5);
    assert_int_equal(prefetch->answer_stamp, 50);
    keep(prefetches, prefetch, 5, 51); /* as new: what came last has no fewer of the worker's own */
    assert_int_equal(prefetch->answer_stamp, 51);
    rbt_prefetch_drop(prefetch);
    keep(prefetches, prefetch, 3, 30); /* there is nothing that it could be older than */
    assert_int_equal(prefetch->news.version, 3);
}

static void test_what_nobody_uses_is_dropped(void **state)
{
    struct rbt_prefetches *prefetches = *state;
    struct rbt_prefetch *used = rbt_prefetches_get(prefetches, 1, SHARD, false);
    struct rbt_prefetch *unused = rbt_prefetches_get(prefetches, 2, SHARD, false);
    used->table = unused->table = TABLE;
    keep(prefetches, used, 1, 11);
    keep(prefetches, unused, 1, 10);
    int clocks = 0;
    while (least(prefetches, 20) == 10 && clocks < 100) {
        rbt_prefetches_end_clock(prefetches, SHARD + 1); /* another's */
        rbt_prefetches_end_clock(prefetches, SHARD);
        used->idle = 0;
        clocks++;
    }
    assert_in_range(clocks, 3, 10);
    assert_int_equal(least(prefetches, 20), 11);
    assert_int_equal(unused->answer_bytes, 0);
    for (uint64_t i = 3; i < 200; i++) { /* room for all */
        struct rbt_prefetch *prefetch = rbt_prefetches_get(prefetches, i, SHARD, i % 2 == 0);
        prefetch->table = TABLE;
        keep(prefetches, prefetch, 1, 11 + i);
    }
    assert_int_equal(least(prefetches, 20), 11);
    rbt_prefetches_clear(prefetches);
    assert_int_equal(least(prefetches, 20), 20);
}

/* How long it waits to be used is counted for each answer: one that comes after another was dropped
 * waits as long. */
static void test_each_answer_waits_as_long(void **state)
{
    struct rbt_prefetches *prefetches = *state;
    struct rbt_prefetch *prefetch = rbt_prefetches_get(prefetches, 1, SHARD, false);
    int clocks[2] = {0};
    prefetch->table = TABLE;
    for (uint64_t i = 0; i < 2; i++) {
        keep(prefetches, prefetch, 1 + i, 10 + i);
        while (least(prefetches, 20) == 10 + i && clocks[i] < 100) {
            rbt_prefetches_end_clock(prefetches, SHARD);
            clocks[i]++;
        }
    }
    assert_in_range(clocks[0], 3, 10);
    assert_int_equal(clocks[1], clocks[0]);
}

/* What has come says how old later answers can be at most, also when it has been used. */
static void test_the_last_stamp_stays(void **state)
{
    struct rbt_prefetches *prefetches = *state;
    struct rbt_prefetch *prefetch = rbt_prefetches_get(prefetches, 9, SHARD, true);
    assert_int_equal(prefetch->last_stamp, 0);
    keep(prefetches, prefetch, 2, 7);
    rbt_prefetch_drop(prefetch);
    assert_int_equal(prefetch->last_stamp, 7);
    assert_true(least(prefetches, RBT_STAMP_NONE) == RBT_STAMP_NONE);
    keep(prefetches, prefetch, 3, 9);
    assert_int_equal(prefetch->last_stamp, 9);
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
