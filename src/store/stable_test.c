/* store/stable_test.c - reads of some versions only: what they show, what stays because of them,
 * and that the rows are the same in the end. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "policy/rule/rule.h"
#include "store/shard.h"

enum { WORKERS = 4, KEY = 3 };

struct fixture {
    rbt_shard *shard;
    struct rbt_shard_effect effects[WORKERS + 1];
    struct rbt_shard_outbox out;
    uint64_t sequences[WORKERS];
    int64_t clocks[WORKERS];
    uint64_t stamps[WORKERS];
};

static void start(struct fixture *f)
{
    *f = (struct fixture){0};
    f->out.effects = f->effects;
    const struct rbt_shard_options options = {
        .worker_count = WORKERS, .table_max = 1, .parked_max = WORKERS};
    struct rbt_shard_table schema = {.width = 1,
                                     .staleness = RBT_STALENESS_ANY,
                                     .rule = "dynsgd",
                                     .name = "main/weights",
                                     .is_synchronised = true};
    assert_ok(rbt_shard_create(&options, &f->shard));
    assert_ok(rbt_rule_find("dynsgd", &schema.code));
    const struct rbt_shard_event event = {.kind = RBT_SHARD_TABLE, .schema = &schema};
    rbt_shard_step(f->shard, &event, &f->out);
    assert_ok(f->out.status);
}

static void stop(struct fixture *f)
{
    rbt_shard_destroy(f->shard);
}

static void push(struct fixture *f, uint32_t worker, float value)
{
    uint64_t key = KEY;
    struct rbt_batch batch = {.count = 1,
                              .keys = &key,
                              .values = &value,
                              .base = f->stamps[worker],
                              .least = f->stamps[worker]};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = worker,
                                          .sequence = ++f->sequences[worker],
                                          .clock = f->clocks[worker],
                                          .marker = f->clocks[worker] + 1,
                                          .batches = &batch,
                                          .batch_count = 1};
    f->clocks[worker]++;
    rbt_shard_step(f->shard, &event, &f->out);
    assert_ok(f->out.status);
}

/* The worker reads to compute with; only versions below `stable`, if it is not UINT64_MAX. */
static float pull_within(struct fixture *f, uint32_t worker, int64_t need, uint64_t stable,
                         uint64_t *limit)
{
    uint64_t key = KEY;
    float value = -1;
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = &value};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .worker = worker,
                                          .need = need,
                                          .sequence = f->sequences[worker],
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .is_base = true,
                                          .least = RBT_STAMP_NONE,
                                          .stamp = &f->stamps[worker],
                                          .is_stable = stable != UINT64_MAX,
                                          .stable = stable,
                                          .limit = limit};
    rbt_shard_step(f->shard, &event, &f->out);
    assert_ok(f->out.status);
    return value;
}

static float pull(struct fixture *f, uint32_t worker, uint64_t stable)
{
    return pull_within(f, worker, RBT_CLOCK_ANY, stable, NULL);
}

static void leave_all(struct fixture *f)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        const struct rbt_shard_event event = {.kind = RBT_SHARD_LEAVE, .worker = i};
        rbt_shard_step(f->shard, &event, &f->out);
        assert_ok(f->out.status);
    }
}

static float result(struct fixture *f)
{
    uint64_t key = 0;
    float value = 0;
    struct rbt_shard_scan scan = {
        .range = RBT_RANGE_ALL, .keys = &key, .values = (char *)&value, .capacity = 1};
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_SCAN, .need = RBT_CLOCK_ANY, .scan = &scan};
    rbt_shard_step(f->shard, &event, &f->out);
    assert_ok(f->out.status);
    assert_int_equal(scan.count, 1);
    return value;
}

/* One part of an update is late. Without the limit the two shards show different versions,
 * with the lowest of their versions they do not. */
static void a_part_that_is_late_is_missed_in_both(void **state)
{
    (void)state;
    struct fixture shards[2];
    start(&shards[0]);
    start(&shards[1]);
    for (int i = 0; i < 2; i++) {
        push(&shards[i], 0, 1); /* version 0 */
    }
    push(&shards[0], 0, 10); /* version 1, whose other half is on its way */
    assert_true(pull(&shards[0], 1, UINT64_MAX) == 11);
    assert_true(pull(&shards[1], 1, UINT64_MAX) == 1); /* mixed */
    assert_int_equal(rbt_shard_version(shards[0].shard, 0), 2);
    assert_int_equal(rbt_shard_version(shards[1].shard, 0), 1);
    assert_true(pull(&shards[0], 2, 1) == 1);
    assert_true(pull(&shards[1], 2, 1) == 1);
    push(&shards[1], 0, 10);
    assert_true(pull(&shards[0], 2, 2) == 11);
    assert_true(pull(&shards[1], 2, 2) == 11);
    stop(&shards[0]);
    stop(&shards[1]);
}

/* What a worker's reads do not show yet is not folded for good, although nobody's update can be
 * mapped to it any more. */
static void what_a_read_hides_stays_apart(void **state)
{
    (void)state;
    struct fixture f;
    start(&f);
    for (uint32_t i = 0; i < WORKERS; i++) {
        (void)pull(&f, i, 0);
    }
    for (int clock = 0; clock < 3; clock++) {
        for (uint32_t i = 0; i < WORKERS; i++) {
            push(&f, i, 1);
        }
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_true(pull(&f, i, 1) == 1); /* versions 1 and 2 are there, and can be left out */
    }
    assert_true(pull(&f, 0, 3) == 3);
    assert_true(pull(&f, 1, 2) == 2);
    stop(&f);
}

/* Whoever says which versions all shards have may be late, and workers far ahead of that: a read
 * that needs clocks has all of their updates, and says below which version it is. */
static void a_limit_does_not_break_the_bound(void **state)
{
    (void)state;
    struct fixture f;
    uint64_t limit = 0;
    start(&f);
    for (uint32_t i = 0; i < WORKERS; i++) {
        (void)pull(&f, i, 0);
    }
    for (int clock = 0; clock < 4; clock++) { /* version = clock */
        for (uint32_t i = 0; i < WORKERS; i++) {
            push(&f, i, 1);
        }
    }
    assert_true(pull_within(&f, 0, 0, 1, &limit) == 1);
    assert_int_equal(limit, 1);
    assert_true(pull_within(&f, 0, 1, 1, &limit) == 1);
    assert_int_equal(limit, 1);
    assert_true(pull_within(&f, 0, 3, 1, &limit) == 3); /* clocks 0, 1 and 2 */
    assert_int_equal(limit, 3);
    assert_true(pull_within(&f, 0, 2, 4, &limit) == 4); /* more is known to be everywhere */
    assert_int_equal(limit, 4);
    stop(&f);
}

/* Limited to what the shard has begun, or not at all: the versions are the same, and when all
 * of them are over, so are the rows. */
static void both_kinds_of_reads_end_with_the_same_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct rbt_rng rng;
        struct fixture plain;
        struct fixture limited;
        uint64_t version = 0;
        uint64_t last[WORKERS] = {0};
        rbt_rng_init(&rng, seed, 0, 0);
        start(&plain);
        start(&limited);
        for (int step = 0; step < 200; step++) {
            const uint32_t worker = (uint32_t)rbt_rng_below(&rng, WORKERS);
            const uint64_t stable = rbt_shard_version(limited.shard, 0);
            if (rbt_rng_below(&rng, 2) == 0 && stable > last[worker]) { /* else they are one */
                last[worker] = stable;
                (void)pull(&plain, worker, UINT64_MAX);
                (void)pull(&limited, worker, stable);
            }
            const float value = (float)(1 + rbt_rng_below(&rng, 8));
            push(&plain, worker, value);
            push(&limited, worker, value);
            const uint64_t now = rbt_shard_version(limited.shard, 0);
            assert_true(now >= version);
            version = now;
        }
        leave_all(&plain);
        leave_all(&limited);
        assert_true(result(&plain) == result(&limited));
        stop(&plain);
        stop(&limited);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_that_is_late_is_missed_in_both),
        cmocka_unit_test(what_a_read_hides_stays_apart),
        cmocka_unit_test(a_limit_does_not_break_the_bound),
        cmocka_unit_test(both_kinds_of_reads_end_with_the_same_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
