/* oracle/placement_test.c - the same program with every placement: equal results, different
 * traffic.
 *
 * The job's driver is wrapped in one that counts what each shard is asked. */
#include "base/test.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "client/client.h"
#include "oracle/rig.h"

enum { SHARDS = 4, WORKERS = 3, KEYS = 4000, CLOCKS = 5 };

static const struct rbt_driver_ops *inner;
static atomic_uint_least64_t keys_asked[SHARDS]; /* keys pulled and pushed */
static atomic_uint_least64_t scans[SHARDS];

static void counting_step(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_add(&scans[calls[i].shard], calls[i].event.kind == RBT_SHARD_SCAN);
        for (size_t k = 0; k < calls[i].event.batch_count; k++) {
            atomic_fetch_add(&keys_asked[calls[i].shard], calls[i].event.batches[k].count);
        }
    }
    inner->step(driver, calls, count);
}

static struct rbt_driver_ops counting;

static rbt_job *counted_job(void)
{
    rbt_job *job = rig_job(WORKERS, SHARDS, "bsp");
    inner = job->driver->ops;
    counting = *inner;
    counting.step = counting_step;
    job->driver->ops = &counting;
    for (size_t i = 0; i < SHARDS; i++) {
        atomic_store(&keys_asked[i], 0);
        atomic_store(&scans[i], 0);
    }
    return job;
}

struct run {
    rbt_table *table;
    uint64_t digest;
};

static bool is_mine(uint64_t key, uint32_t worker)
{
    return worker == 0 || key % (worker + 1) == 0 || key < KEYS / 8;
}

/* Adds numbers that depend on every bit of what was read, and in an order that matters. */
static rbt_status train(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    uint64_t keys[KEYS];
    size_t count = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        if (is_mine(key, rbt_worker_index(worker))) {
            keys[count++] = key;
        }
    }
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, run->table, keys, count, RBT_SET_DELTAS, &set));
    for (int64_t clock = 0; clock < CLOCKS; clock++) {
        TRY(rbt_set_pull(set));
        const float *values = rbt_set_values(set);
        float *deltas = rbt_set_deltas(set);
        for (size_t i = 0; i < count; i++) {
            deltas[i] = 0.1F * (float)(rbt_worker_index(worker) + 1) - values[i] / 3;
        }
        TRY(rbt_set_push(set));
        const float one = 1.0F / 7;
        TRY(rbt_add(worker, run->table, (uint64_t)clock * 100, &one));
        TRY(rbt_clock(worker));
    }
    rbt_set_destroy(set);
    struct rbt_rows rows = {0};
    TRY(rbt_pull_range(worker, run->table, RBT_RANGE_ALL, 0, &rows));
    CHECK(rows.count == KEYS);
    if (rbt_worker_index(worker) == 0) {
        run->digest = rbt_hash_bytes(rows.values, rows.count * sizeof(float), 0);
        run->digest = rbt_hash_bytes(rows.keys, rows.count * sizeof *rows.keys, run->digest);
    }
    rbt_rows_free(&rows);
    return RBT_OK;
}

static rbt_table *table_with(rbt_job *job, rbt_placement placement)
{
    return rig_table(
        job, "placed",
        (struct rbt_table_options){.type = RBT_F32, .placement = placement, .keys_max = KEYS - 1});
}

static void all_placements_give_the_same_bits_and_different_traffic(void **state)
{
    (void)state;
    uint64_t digests[4];
    uint64_t asked[4][SHARDS];
    for (int kind = RBT_PLACE_HASH; kind <= RBT_PLACE_ROUND_ROBIN; kind++) {
        rbt_job *job = counted_job();
        struct run run = {.table = table_with(job, (rbt_placement)kind)};
        rig_run(job, train, &run);
        assert_int_equal(rig_stats(job).rows, KEYS);
        digests[kind] = run.digest;
        for (size_t i = 0; i < SHARDS; i++) {
            asked[kind][i] = atomic_load(&keys_asked[i]);
            assert_true(asked[kind][i] > 0);
        }
        assert_int_equal(digests[kind], digests[0]);
        for (int other = 0; other < kind; other++) {
            assert_memory_not_equal(asked[kind], asked[other], sizeof asked[0]);
        }
        rbt_job_close(job);
    }
}

static rbt_status pull_part(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    const struct rbt_range range = {KEYS / 2, KEYS / 2 + 2}; /* in one of 1024 ranges */
    if (rbt_worker_index(worker) == 0) {
        const float one = 1;
        for (uint64_t key = 0; key < KEYS; key++) {
            TRY(rbt_add(worker, run->table, key, &one));
        }
    }
    TRY(rbt_clock(worker));
    struct rbt_rows rows = {0};
    TRY(rbt_pull_range(worker, run->table, range, 0, &rows));
    CHECK(rows.count == 3);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK(rows.keys[i] == range.first + i);
    }
    rbt_rows_free(&rows);
    return RBT_OK;
}

static void a_range_is_pulled_from_the_shards_that_can_hold_it(void **state)
{
    (void)state;
    static const uint32_t expected[] = {
        [RBT_PLACE_RANGE] = 1, [RBT_PLACE_RANGE_HASH] = 1, [RBT_PLACE_ROUND_ROBIN] = 3};
    for (int kind = RBT_PLACE_RANGE; kind <= RBT_PLACE_ROUND_ROBIN; kind++) {
        rbt_job *job = counted_job();
        struct run run = {.table = table_with(job, (rbt_placement)kind)};
        rig_run(job, pull_part, &run);
        uint32_t touched = 0;
        for (size_t i = 0; i < SHARDS; i++) {
            touched += atomic_load(&scans[i]) > 0;
        }
        assert_int_equal(touched, expected[kind]);
        rbt_job_close(job);
    }
}

static void a_table_is_opened_again_with_the_same_placement_only(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, SHARDS, "bsp");
    struct rbt_table_options options = {
        .struct_size = sizeof options, .placement = RBT_PLACE_RANGE, .keys_max = 99};
    rbt_table *table = NULL;
    rbt_table *again = NULL;
    assert_ok(rbt_table_open(job, "t", &options, &table));
    assert_ok(rbt_table_open(job, "t", &options, &again));
    assert_ptr_equal(table, again);
    options.keys_max = 100;
    assert_int_equal(rbt_table_open(job, "t", &options, &again), RBT_E_INVALID);
    options.keys_max = 99;
    options.placement = RBT_PLACE_HASH;
    assert_int_equal(rbt_table_open(job, "t", &options, &again), RBT_E_INVALID);
    options.placement = (rbt_placement)4;
    assert_int_equal(rbt_table_open(job, "u", &options, &again), RBT_E_INVALID);
    rbt_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_placements_give_the_same_bits_and_different_traffic),
        cmocka_unit_test(a_range_is_pulled_from_the_shards_that_can_hold_it),
        cmocka_unit_test(a_table_is_opened_again_with_the_same_placement_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
