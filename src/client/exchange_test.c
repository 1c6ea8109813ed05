/* client/exchange_test.c - rows that travel early: nothing is lost, nothing counts twice, and they
 * are seen before the clock ends. */
#include "base/test.h"

#include <rubato/rubato.h>

#include "base/alloc.h"
#include "client/exchange.h"
#include "client/set.h"

enum { ROWS = 200, WIDTH = 4, CLOCKS = 5, PIECES = 40, WORKERS = 3 };

struct rig {
    rbt_job *job;
    rbt_table *table;
    bool has_seen; /* a row that changed before the clock ended */
};

static void open_rig(struct rig *rig, const char *rule, const char *priority, uint32_t workers)
{
    *rig = (struct rig){0};
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = workers,
                                            .shards = 3,
                                            .consistency = "essp:1",
                                            .bandwidth = 1000 * 1000 * 1000,
                                            .priority = priority};
    const struct rbt_table_options table = {
        .struct_size = sizeof table, .type = RBT_F32, .width = WIDTH, .rule = rule};
    assert_ok(rbt_job_open(&options, &rig->job));
    assert_ok(rbt_table_open(rig->job, "rows", &table, &rig->table));
}

static rbt_status make_set(rbt_worker *worker, const struct rig *rig, rbt_set **set)
{
    uint64_t keys[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i * 7;
    }
    const rbt_status st = rbt_set_create(worker, rig->table, keys, ROWS, RBT_SET_DELTAS, set);
    return st != RBT_OK ? st : rbt_set_manage(*set);
}

static void add_one(rbt_set *set, uint32_t row)
{
    float *deltas = rbt_set_deltas(set);
    for (uint32_t i = 0; i < WIDTH; i++) {
        deltas[(size_t)row * WIDTH + i] += 1;
    }
}

/* Adds one to every row in every clock, piece by piece. */
static rbt_status add_pieces(rbt_worker *worker, void *argument)
{
    const struct rig *rig = argument;
    rbt_set *set = NULL;
    rbt_status st = make_set(worker, rig, &set);
    for (int clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        st = rbt_set_pull(set);
        for (uint32_t piece = 0; st == RBT_OK && piece < PIECES; piece++) {
            uint32_t rows[ROWS / PIECES];
            for (uint32_t i = 0; i < ROWS / PIECES; i++) {
                rows[i] = (piece * 13 % PIECES) + i * PIECES;
                add_one(set, rows[i]);
            }
            rbt_set_touch_rows(set, rows, ROWS / PIECES);
            rbt_set_touch(set, rows[0]);
            st = rbt_worker_exchange(worker);
        }
        st = st != RBT_OK ? st : rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static rbt_status check_sums(rbt_worker *worker, void *argument)
{
    const struct rig *rig = argument;
    struct rbt_rows rows = {0};
    const rbt_status st = rbt_pull_range(worker, rig->table, RBT_RANGE_ALL, 0, &rows);
    if (st == RBT_OK) {
        const float sign = rig->has_seen ? -1 : 1;
        assert_int_equal(rows.count, ROWS);
        for (size_t i = 0; i < rows.count * WIDTH; i++) {
            assert_float_equal(((const float *)rows.values)[i], sign * WORKERS * CLOCKS, 0);
        }
    }
    rbt_rows_free(&rows);
    return st;
}

static void nothing_is_lost_or_counts_twice(void **state)
{
    static const char *const priorities[] = {"oldest", "walk",      "sweep",
                                             "random", "magnitude", "relative"};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof priorities / sizeof priorities[0]; i++) {
        struct rig rig;
        open_rig(&rig, i % 2 == 0 ? NULL : "sgd:lr=1", priorities[i / 2], WORKERS);
        assert_ok(rbt_job_run(rig.job, add_pieces, &rig));
        struct rbt_job_stats stats = {.struct_size = sizeof stats};
        rbt_job_stats(rig.job, &stats);
        uint64_t rows = 0;
        for (size_t k = 0; k < RBT_TIMES_COUNTS; k++) {
            rows += stats.row_sends[k];
        }
        assert_int_equal(rows, WORKERS * ROWS);
        assert_true(stats.early_sent > 0);
        rig.has_seen = i % 2 != 0; /* the rule steps against gradients */
        assert_ok(rbt_job_run(rig.job, check_sums, &rig));
        rbt_job_close(rig.job);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

/* One worker: changes a row until it sees that the rule has changed it. */
static rbt_status wait_for_own(rbt_worker *worker, void *argument)
{
    struct rig *rig = argument;
    rbt_set *set = NULL;
    rbt_status st = make_set(worker, rig, &set);
    st = st != RBT_OK ? st : rbt_set_pull(set);
    for (uint32_t i = 0; st == RBT_OK && i < 100000000 && !rig->has_seen; i++) {
        if (i < 2) { /* the second meets the first on its way back */
            add_one(set, 3);
            rbt_set_touch(set, 3);
        }
        st = rbt_worker_exchange(worker);
        rig->has_seen = ((const float *)rbt_set_values(set))[3 * WIDTH] == -2;
    }
    st = st != RBT_OK ? st : rbt_set_push(set);
    st = st != RBT_OK ? st : rbt_clock(worker);
    rbt_set_destroy(set);
    return st;
}

static void rows_come_before_the_clock_ends(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, "sgd:lr=1", "relative", 1);
    assert_ok(rbt_job_run(rig.job, wait_for_own, &rig));
    assert_true(rig.has_seen);
    rbt_job_close(rig.job);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Memory runs out again and again: neither managing nor pushing a set loses anything by that. */
static rbt_status add_without_memory(rbt_worker *worker, void *argument)
{
    const struct rig *rig = argument;
    static const uint64_t keys[] = {1, 2, 3, 5};
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, rig->table, keys, 4, RBT_SET_DELTAS, &set);
    assert_ok(st);
    unsigned nth = 0;
    do {
        rbt_alloc_fail_nth(++nth);
        st = rbt_set_manage(set);
        rbt_alloc_fail_nth(0);
    } while (st == RBT_E_NOMEM);
    assert_true(nth > 1);
    assert_ok(st);
    for (uint32_t row = 0; row < 4; row++) {
        add_one(set, row);
        rbt_set_touch(set, row);
    }
    nth = 0;
    do {
        rbt_alloc_fail_nth(++nth);
        st = rbt_set_push(set);
        rbt_alloc_fail_nth(0);
    } while (st == RBT_E_NOMEM);
    assert_true(nth > 1);
    assert_ok(st);
    assert_ok(rbt_clock(worker));
    assert_ok(rbt_set_pull_within(set, 0));
    const float *values = rbt_set_values(set);
    for (size_t i = 0; i < (size_t)4 * WIDTH; i++) {
        assert_true(values[i] == (rig->has_seen ? -1.0F : 1.0F));
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static void nothing_is_lost_without_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        open_rig(&rig, i == 0 ? NULL : "sgd:lr=1", "relative", 1);
        rig.has_seen = i != 0; /* the rule steps against gradients */
        assert_ok(rbt_job_run(rig.job, add_without_memory, &rig));
        rbt_job_close(rig.job);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

/* A row that has come early waits for the changes of an older one to become an update; but then a
 * pull brings a newer one. */
static rbt_status pull_while_aside(rbt_worker *worker, void *argument)
{
    rbt_set *set = NULL;
    assert_ok(make_set(worker, argument, &set));
    assert_ok(rbt_set_pull(set));
    struct rbt_managed *m = set->managed;
    const uint32_t row = 3;
    const uint32_t shard = rbt_placement_shard(set->local->table->placement, set->keys->keys[row]);
    assert_ok(rbt_stamps_reserve(set->local->stamps, shard));
    rbt_stamps_replace(set->local->stamps, shard, &m->aside[row], set->stamps[shard]);
    ((float *)m->kept)[row * WIDTH] = 99;
    const uint64_t other = set->keys->keys[row];
    const float gradient[WIDTH] = {1, 1, 1, 1};
    const struct rbt_rows rows = {
        .keys = (uint64_t *)&other, .values = (float *)gradient, .count = 1};
    assert_ok(rbt_push(worker, set->local->table, &rows));
    assert_ok(rbt_clock(worker));
    assert_ok(rbt_set_pull_within(set, 0));
    const float *values = rbt_set_values(set);
    assert_float_equal(values[row * WIDTH], -1, 0);
    add_one(set, row);
    rbt_set_touch(set, row);
    assert_ok(rbt_set_push(set));
    assert_float_equal(values[row * WIDTH], -1, 0);
    assert_ok(rbt_clock(worker));
    rbt_set_destroy(set);
    return RBT_OK;
}

static void rows_put_aside_do_not_outlive_a_pull(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, "sgd:lr=1", "relative", 1);
    assert_ok(rbt_job_run(rig.job, pull_while_aside, &rig));
    rbt_job_close(rig.job);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Where a process's workers see each other's updates, rows cannot come early: which of these the
 * shard has put into them is not known. */
static void rows_of_a_process_do_not_travel_early(void **state)
{
    struct rig rig;
    (void)state;
    open_rig(&rig, NULL, "relative", WORKERS);
    const struct rbt_table_options table = {.struct_size = sizeof table,
                                            .type = RBT_F32,
                                            .width = WIDTH,
                                            .overlay = RBT_OVERLAY_PROCESS};
    assert_ok(rbt_table_open(rig.job, "shared", &table, &rig.table));
    assert_ok(rbt_job_run(rig.job, add_pieces, &rig));
    struct rbt_job_stats stats = {.struct_size = sizeof stats};
    rbt_job_stats(rig.job, &stats);
    assert_int_equal(stats.early_sent, 0);
    assert_int_equal(stats.early_received, 0);
    assert_ok(rbt_job_run(rig.job, check_sums, &rig));
    rbt_job_close(rig.job);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void counts_of_times_are_in_order(void **state)
{
    (void)state;
    assert_int_equal(rbt_times_bin(0), 0);
    assert_int_equal(rbt_times_bin(15), 15);
    assert_int_equal(rbt_times_bin(16), 16);
    assert_int_equal(rbt_times_bin(19), 16);
    assert_int_equal(rbt_times_bin(20), 17);
    assert_int_equal(rbt_times_bin(31), 19);
    assert_int_equal(rbt_times_bin(32), 20);
    assert_int_equal(rbt_times_bin(UINT32_MAX), RBT_TIMES_COUNTS - 1);
    for (uint32_t i = 1; i < 100000; i++) {
        const size_t step = rbt_times_bin(i) - rbt_times_bin(i - 1);
        assert_true(step <= 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_or_counts_twice),
        cmocka_unit_test(rows_come_before_the_clock_ends),
        cmocka_unit_test(nothing_is_lost_without_memory),
        cmocka_unit_test(rows_put_aside_do_not_outlive_a_pull),
        cmocka_unit_test(rows_of_a_process_do_not_travel_early),
        cmocka_unit_test(counts_of_times_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
