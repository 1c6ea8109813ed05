/* oracle/client_test.c - caches, overlays, buffers and ranges. */
#include "base/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "oracle/rig.h"

/* What the workers of a test share. */
struct scene {
    rbt_table *table;
    struct rig_gate gate;
    struct rig_gate second;
    bool has_set;                   /* read and write through sets */
    uint64_t calls[2];              /* allocations before and after the measured clocks */
    int64_t staleness;              /* of the loop that is measured */
    atomic_int_least64_t clocks[2]; /* that its workers have completed */
};

/* One row with key 0, by rbt_add() and rbt_get() or through a set; all tables here are i64. */
struct access {
    rbt_worker *worker;
    rbt_table *table;
    rbt_set *set; /* or NULL */
};

static rbt_status open_access(struct access *access, rbt_worker *worker, const struct scene *scene)
{
    const uint64_t key = 0;
    *access = (struct access){.worker = worker, .table = scene->table};
    return scene->has_set
               ? rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &access->set)
               : RBT_OK;
}

static rbt_status add(struct access *access, int64_t amount)
{
    if (access->set == NULL) {
        return rbt_add(access->worker, access->table, 0, &amount);
    }
    *(int64_t *)rbt_set_deltas(access->set) = amount;
    return rbt_set_push(access->set);
}

static rbt_status get(struct access *access, int64_t staleness, int64_t *value)
{
    if (access->set == NULL) {
        return rbt_get_within(access->worker, access->table, 0, staleness, value);
    }
    TRY(rbt_set_pull_within(access->set, staleness));
    *value = *(int64_t *)rbt_set_values(access->set);
    return RBT_OK;
}

/* Runs the function for all caches, and through sets. */
static void run_everywhere(uint32_t workers, const char *consistency, rbt_overlay overlay,
                           rbt_worker_function function)
{
    for (int i = 0; i <= RBT_CACHE_NONE + 1; i++) {
        rbt_job *job = rig_job(workers, 1 + (uint32_t)i % 2, consistency);
        struct scene scene = {
            .has_set = i > RBT_CACHE_NONE,
            .table =
                rig_table(job, "counts",
                          (struct rbt_table_options){
                              .type = RBT_I64, .overlay = overlay, .cache = (rbt_cache)(i % 4)})};
        rig_run(job, function, &scene);
        rbt_job_close(job);
    }
}

/* Worker 1 sees worker 0's update at once, after the clock still once, and in the next run too. */
static rbt_status share_in_process(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct access access;
    int64_t value = -1;
    TRY(open_access(&access, worker, scene));
    if (rbt_worker_index(worker) == 0) {
        AWAIT(&scene->gate, 1);
        TRY(add(&access, 5));
        TRY(get(&access, RBT_STALENESS_ANY, &value));
        CHECK(value == 5);
        rig_post(&scene->second);
        AWAIT(&scene->gate, 2);
        TRY(rbt_clock(worker));
        rig_post(&scene->second);
        AWAIT(&scene->gate, 3);
    } else {
        TRY(get(&access, RBT_STALENESS_ANY, &value)); /* a copy is cached before the update */
        CHECK(value == 0);
        rig_post(&scene->gate);
        AWAIT(&scene->second, 1);
        TRY(get(&access, RBT_STALENESS_ANY, &value));
        CHECK(value == 5);
        rig_post(&scene->gate);
        AWAIT(&scene->second, 2);
        TRY(get(&access, RBT_STALENESS_ANY, &value));
        CHECK(value == 5);
        TRY(rbt_clock(worker));
        TRY(get(&access, 0, &value));
        CHECK(value == 5);
        rig_post(&scene->gate);
    }
    rbt_set_destroy(access.set);
    return RBT_OK;
}

static void overlay_process_shows_updates_of_the_process_at_once_and_once(void **state)
{
    (void)state;
    run_everywhere(2, "ssp:2", RBT_OVERLAY_PROCESS, share_in_process);
    run_everywhere(2, "asp", RBT_OVERLAY_PROCESS, share_in_process);
}

/* Reads never fall and never exceed what was written: nothing is lost or doubled meanwhile. */
static rbt_status grow_in_process(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct access access;
    int64_t last = 0;
    TRY(open_access(&access, worker, scene));
    for (int64_t c = 0; c < 200; c++) {
        int64_t value = 0;
        TRY(add(&access, 1));
        TRY(get(&access, RBT_STALENESS_ANY, &value));
        CHECK(value >= last + 1);
        CHECK(value <= 200 * (int64_t)rbt_worker_count(worker));
        last = value;
        TRY(rbt_clock(worker));
    }
    rig_post(&scene->gate);
    AWAIT(&scene->gate, (int)rbt_worker_count(worker));
    TRY(get(&access, 0, &last));
    CHECK(last == 200 * (int64_t)rbt_worker_count(worker));
    rbt_set_destroy(access.set);
    return RBT_OK;
}

/* The overlay under concurrency, and read-my-writes there. */
static void overlay_process_loses_and_doubles_nothing(void **state)
{
    (void)state;
    run_everywhere(4, "ssp:3", RBT_OVERLAY_PROCESS, grow_in_process);
    run_everywhere(4, "ssp:3", RBT_OVERLAY_OWN, grow_in_process);
}

static rbt_status read_without_overlay(rbt_worker *worker, void *argument)
{
    struct access access;
    int64_t value = -1;
    TRY(open_access(&access, worker, argument));
    TRY(add(&access, 5));
    TRY(get(&access, 0, &value));
    CHECK(value == 0);
    TRY(rbt_clock(worker));
    TRY(get(&access, 0, &value));
    CHECK(value == 5);
    TRY(add(&access, 7));
    TRY(get(&access, 0, &value));
    CHECK(value == 5);
    TRY(rbt_clock(worker));
    TRY(get(&access, 0, &value));
    CHECK(value == 12);
    rbt_set_destroy(access.set);
    return RBT_OK;
}

static void overlay_none_shows_updates_when_the_shards_have_them(void **state)
{
    (void)state;
    run_everywhere(1, "bsp", RBT_OVERLAY_NONE, read_without_overlay);
    run_everywhere(1, "ssp:1", RBT_OVERLAY_NONE, read_without_overlay);
}

static rbt_status read_replica(rbt_worker *worker, void *argument)
{
    struct access access;
    int64_t value = -1;
    struct scene *scene = argument;
    if (scene->has_set) {
        return RBT_OK; /* every pull of a set is a fetch */
    }
    TRY(open_access(&access, worker, scene));
    TRY(get(&access, 2, &value));
    CHECK(value == 0);
    TRY(add(&access, 5));
    TRY(get(&access, 2, &value));
    CHECK(value == 5);
    TRY(rbt_clock(worker));
    TRY(get(&access, 2, &value)); /* still the same copy, with the own update */
    CHECK(value == 5);
    TRY(add(&access, 7));
    TRY(get(&access, 2, &value));
    CHECK(value == 12);
    TRY(get(&access, 0, &value)); /* a fetch: the server's, without the open clock */
    CHECK(value == 5);
    TRY(rbt_clock(worker));
    TRY(get(&access, 0, &value));
    CHECK(value == 12);
    return RBT_OK;
}

static void overlay_replica_keeps_own_updates_until_the_next_fetch(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "ssp:2");
    const struct rbt_table_options options = {.type = RBT_I64, .overlay = RBT_OVERLAY_REPLICA};
    struct scene scene = {.table = rig_table(job, "counts", options)};
    rig_run(job, read_replica, &scene);
    rbt_job_close(job);
}

/* Worker 0 stands still, so that the shard holds back all updates of worker 1, which reads again
 * and again with no bound. Whatever is fetched, its own updates are there. */
static rbt_status refill_while_updates_are_held_back(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct access access;
    TRY(open_access(&access, worker, scene));
    if (rbt_worker_index(worker) == 0) {
        TRY(add(&access, 1000));
        AWAIT(&scene->gate, 1);
        rbt_set_destroy(access.set);
        return RBT_OK;
    }
    for (int64_t c = 0; c < 20; c++) {
        int64_t value = 0;
        TRY(get(&access, RBT_STALENESS_ANY, &value));
        CHECK(value == 2 * c);
        TRY(add(&access, 1));
        TRY(get(&access, RBT_STALENESS_ANY, &value));
        CHECK(value == 2 * c + 1);
        TRY(add(&access, 1));
        TRY(get(&access, RBT_STALENESS_ANY, &value));
        CHECK(value == 2 * c + 2);
        TRY(rbt_clock(worker));
    }
    rig_post(&scene->gate);
    int64_t value = 0;
    TRY(get(&access, 0, &value)); /* now the shard has it all, and nothing is doubled */
    CHECK(value == 1040);
    rbt_set_destroy(access.set);
    return RBT_OK;
}

static void refills_never_lose_own_updates_that_are_held_back(void **state)
{
    (void)state;
    run_everywhere(2, "bsp", RBT_OVERLAY_OWN, refill_while_updates_are_held_back);
    run_everywhere(2, "ssp:3", RBT_OVERLAY_OWN, refill_while_updates_are_held_back);
    run_everywhere(2, "essp:3", RBT_OVERLAY_OWN, refill_while_updates_are_held_back);
}

static rbt_status add_a_million_times(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    const int64_t one = 1;
    for (int i = 0; i < 1000000; i++) {
        TRY(rbt_add_at(worker, table, (uint64_t)i % 10, (uint32_t)(i / 10 % 10), &one));
    }
    TRY(rbt_clock(worker));
    for (uint64_t key = 0; key < 10; key++) {
        int64_t row[10];
        TRY(rbt_get(worker, table, key, row));
        for (int i = 0; i < 10; i++) {
            CHECK(row[i] == 10000);
        }
    }
    return RBT_OK;
}

/* 100 values of 8 bytes and 10 keys are 880 bytes; four times that leaves room for headers. */
static void a_million_updates_of_a_hundred_elements_are_sent_as_a_hundred(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "bsp");
    rig_run(job, add_a_million_times, rig_counts(job, 10));
    const struct rbt_job_stats stats = rig_stats(job);
    assert_in_range(stats.bytes_sent, 1, 4 * 880);
    assert_in_range(stats.updates, 1, 100);
    assert_int_equal(stats.duplicates, 0);
    rbt_job_close(job);
}

/* Worker 0 stands still under BSP; worker 1, a clock ahead, records without waiting. */
static rbt_status record(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) == 0) {
        AWAIT(&scene->gate, 1);
        return RBT_OK;
    }
    static const uint64_t touched[] = {50, 3, UINT64_MAX, 3, 50, 7};
    static const uint64_t expected[] = {3, 7, 50, UINT64_MAX};
    const int64_t one = 1;
    rbt_set *set = NULL;
    TRY(rbt_clock(worker));
    TRY(rbt_worker_record_begin(worker, scene->table));
    for (size_t i = 0; i < 5; i++) {
        int64_t value = -1;
        TRY(rbt_get(worker, scene->table, touched[i], &value));
        CHECK(value == 4);
    }
    TRY(rbt_add(worker, scene->table, touched[5], &one)); /* ignored, but its key is not */
    TRY(rbt_worker_record_end(worker, scene->table, RBT_SET_DELTAS, &set));
    CHECK(rbt_set_count(set) == 4);
    CHECK(memcmp(rbt_set_keys(set), expected, sizeof expected) == 0);
    rig_post(&scene->gate);
    ((int64_t *)rbt_set_deltas(set))[2] = 10;
    TRY(rbt_set_push(set));
    TRY(rbt_clock(worker));
    TRY(rbt_set_pull(set));
    const int64_t *values = rbt_set_values(set);
    CHECK(values[0] == 4 && values[1] == 4 && values[2] == 14 && values[3] == 4);
    rbt_set_destroy(set);
    return RBT_OK;
}

static void recording_remembers_keys_without_waiting_or_updating(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 2, "bsp");
    const struct rbt_table_options options = {
        .type = RBT_I64, .init = RBT_INIT_CONSTANT, .init_value = 4};
    struct scene scene = {.table = rig_table(job, "fours", options)};
    rig_run(job, record, &scene);
    rbt_job_close(job);
}

enum { LOOP_KEYS = 300 };

/* Before the measured clocks each worker once lets the other get as far ahead as it can: what that
 * takes is then there. Ends: the other is stopped by nothing but its bound. */
static void let_the_other_run(const rbt_worker *worker, struct scene *scene, int64_t clock)
{
    const uint32_t index = rbt_worker_index(worker);
    if (rbt_worker_count(worker) == 1 || clock != (index == 0 ? 20 : 40)) {
        return;
    }
    while (atomic_load(&scene->clocks[1 - index]) < clock + scene->staleness + 1) {
        (void)sched_yield();
    }
}

static rbt_status loop(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    uint64_t keys[LOOP_KEYS];
    rbt_set *set = NULL;
    for (uint64_t i = 0; i < LOOP_KEYS; i++) {
        keys[i] = rbt_hash_key(i);
    }
    CHECK(rbt_keys_sort(keys, LOOP_KEYS) == LOOP_KEYS);
    TRY(rbt_set_create(worker, scene->table, keys, LOOP_KEYS, RBT_SET_DELTAS, &set));
    for (int c = 0; c < 180; c++) {
        const int64_t one = 1;
        int64_t value = 0;
        if (rbt_worker_index(worker) == 0 && (c == 60 || c == 160)) {
            scene->calls[c == 160] = rbt_alloc_calls();
        }
        let_the_other_run(worker, scene, c);
        TRY(rbt_set_pull(set));
        for (int i = c % 3; i < LOOP_KEYS; i += 3) {
            ((int64_t *)rbt_set_deltas(set))[i] = 1;
        }
        TRY(rbt_set_push(set));
        for (uint64_t i = 0; i < 20; i++) {
            TRY(rbt_get(worker, scene->table, keys[i], &value));
            TRY(rbt_add(worker, scene->table, keys[i], &one));
        }
        TRY(rbt_clock(worker));
        atomic_store(&scene->clocks[rbt_worker_index(worker)], c + 1);
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static void nothing_is_allocated_inside_the_loop(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2", "asp"};
    for (uint32_t i = 0; i < 16; i++) {
        const bool is_asp = i % 4 == 3; /* two asynchronous workers may drift apart for ever */
        rbt_job *job = rig_job(is_asp ? 1 : 1 + i / 8, 1 + i / 4 % 2, consistencies[i % 4]);
        struct scene scene = {.table = rig_counts(job, 1), .staleness = i % 4 == 0 ? 0 : 2};
        rig_run(job, loop, &scene);
        if (scene.calls[0] != scene.calls[1]) {
            fail_msg("%llu allocations in 100 clocks of %s, %u workers, %u shards",
                     (unsigned long long)(scene.calls[1] - scene.calls[0]), consistencies[i % 4],
                     1 + i / 8, 1 + i / 4 % 2);
        }
        rbt_job_close(job);
    }
}

/* --- Ranges ----------------------------------------------------------------------------------- */

enum { RANGE_KEYS = 52, RANGE_WIDTH = 2 };

static uint64_t range_key(uint64_t i)
{
    return i * (UINT64_MAX / (RANGE_KEYS - 1));
}

/* Pulls a range and compares it: the keys are range_key(first) .. range_key(last - 1). */
static rbt_status expect_range(rbt_worker *worker, rbt_table *table, struct rbt_range range,
                               uint64_t first, uint64_t last)
{
    struct rbt_rows rows = {0};
    TRY(rbt_pull_range(worker, table, range, 0, &rows));
    CHECK(rows.count == last - first);
    for (uint64_t i = first; i < last; i++) {
        const int64_t *values = (int64_t *)rows.values + (i - first) * RANGE_WIDTH;
        CHECK(rows.keys[i - first] == range_key(i));
        CHECK(values[0] == (int64_t)i + 1);
        CHECK(values[1] == -(int64_t)i);
    }
    rbt_rows_free(&rows);
    return RBT_OK;
}

static rbt_status pull_ranges(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) == 0) {
        for (uint64_t i = 0; i < RANGE_KEYS; i++) {
            const int64_t row[RANGE_WIDTH] = {(int64_t)i + 1, -(int64_t)i};
            TRY(rbt_add(worker, scene->table, range_key(i), row));
        }
    }
    TRY(rbt_clock(worker));
    rbt_table *table = scene->table;
    TRY(expect_range(worker, table, RBT_RANGE_ALL, 0, RANGE_KEYS));
    TRY(expect_range(worker, table, (struct rbt_range){0, 0}, 0, 1));
    TRY(expect_range(worker, table, (struct rbt_range){UINT64_MAX, UINT64_MAX}, RANGE_KEYS - 1,
                     RANGE_KEYS));
    TRY(expect_range(worker, table, (struct rbt_range){range_key(7), range_key(7)}, 7, 8));
    TRY(expect_range(worker, table, (struct rbt_range){range_key(7) + 1, range_key(8) - 1}, 8, 8));
    TRY(expect_range(worker, table, (struct rbt_range){range_key(9) + 1, range_key(30)}, 10, 31));
    return RBT_OK;
}

static void a_range_pull_returns_the_rows_that_exist_in_order(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 5; shards += 2) {
        rbt_job *job = rig_job(2, shards, "bsp");
        struct scene scene = {.table = rig_counts(job, RANGE_WIDTH)};
        rig_run(job, pull_ranges, &scene);
        assert_int_equal(rig_stats(job).rows, RANGE_KEYS);
        rbt_job_close(job);
    }
}

/* A share of the data may have no rows at all. */
static rbt_status use_nothing(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    for (int flags = RBT_SET_DELTAS; flags <= RBT_SET_IN_PLACE; flags++) {
        rbt_set *set = NULL;
        TRY(rbt_set_create(worker, scene->table, NULL, 0, (rbt_set_flags)flags, &set));
        for (int clock = 0; clock < 3; clock++) {
            TRY(rbt_set_pull(set));
            TRY(rbt_set_push(set));
            TRY(rbt_set_push(set));
            TRY(rbt_set_push_range(set, RBT_RANGE_ALL));
            TRY(rbt_clock(worker));
        }
        rbt_set_destroy(set);
    }
    return RBT_OK;
}

static void a_set_may_have_no_rows(void **state)
{
    (void)state;
    static const char *const filters[] = {NULL, "significant:1", "f16", "keys"};
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        rbt_job *job = rig_job(2, 2, i % 2 == 0 ? "bsp" : "essp:1");
        const struct rbt_table_options options = {.type = RBT_F32, .filter = filters[i]};
        struct scene scene = {.table = rig_table(job, "t", options)};
        rig_run(job, use_nothing, &scene);
        rbt_job_close(job);
    }
}

static rbt_status push_ranges(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    uint64_t keys[] = {0, 10, 20, 30, UINT64_MAX};
    static const struct rbt_range ranges[] = {
        {10, 10}, {11, 19}, {15, 30}, {UINT64_MAX, UINT64_MAX}, {0, UINT64_MAX}};
    static const int64_t expected[][5] = {
        {0, 2, 0, 0, 0}, {0, 2, 0, 0, 0}, {0, 2, 3, 4, 0}, {0, 2, 3, 4, 5}, {1, 2, 3, 4, 5}};
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 5, RBT_SET_DELTAS, &set));
    for (int64_t i = 0; i < 5; i++) {
        ((int64_t *)rbt_set_deltas(set))[i] = i + 1;
    }
    for (size_t step = 0; step < 5; step++) {
        int64_t values[5];
        const struct rbt_rows rows = {keys, values, 5};
        TRY(rbt_set_push_range(set, ranges[step]));
        TRY(rbt_clock(worker));
        TRY(rbt_pull(worker, scene->table, &rows));
        CHECK(memcmp(values, expected[step], sizeof values) == 0);
        for (int64_t i = 0; i < 5; i++) { /* what was not pushed stays */
            CHECK(((int64_t *)rbt_set_deltas(set))[i] == i + 1 - expected[step][i]);
        }
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static void a_range_push_sends_the_rows_of_the_range_and_keeps_the_others(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 5; shards += 2) {
        rbt_job *job = rig_job(1, shards, "bsp");
        struct scene scene = {.table = rig_counts(job, 1)};
        rig_run(job, push_ranges, &scene);
        rbt_job_close(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlay_process_shows_updates_of_the_process_at_once_and_once),
        cmocka_unit_test(overlay_process_loses_and_doubles_nothing),
        cmocka_unit_test(overlay_none_shows_updates_when_the_shards_have_them),
        cmocka_unit_test(overlay_replica_keeps_own_updates_until_the_next_fetch),
        cmocka_unit_test(refills_never_lose_own_updates_that_are_held_back),
        cmocka_unit_test(a_million_updates_of_a_hundred_elements_are_sent_as_a_hundred),
        cmocka_unit_test(recording_remembers_keys_without_waiting_or_updating),
        cmocka_unit_test(nothing_is_allocated_inside_the_loop),
        cmocka_unit_test(a_range_pull_returns_the_rows_that_exist_in_order),
        cmocka_unit_test(a_set_may_have_no_rows),
        cmocka_unit_test(a_range_push_sends_the_rows_of_the_range_and_keeps_the_others),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
