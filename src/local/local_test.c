/* local/local_test.c - the embedded driver, on its own and under whole jobs. Workers meet at
 * barriers and in reads; nobody sleeps. Run it under the thread sanitizer as well. */
#include "base/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rubato/rubato.h>

#include "base/alloc.h"
#include "client/driver.h"

enum { WORKERS = 3 };

struct bench {
    rbt_driver *driver;
    rbt_table *table;
    pthread_barrier_t barrier;
    atomic_int answers;
};

static void step(rbt_driver *driver, const struct rbt_shard_event *event)
{
    struct rbt_driver_call call = {.event = *event};
    driver->ops->step(driver, &call, 1);
    assert_ok(call.reply.status);
}

static void pull(rbt_driver *driver, uint32_t worker, int64_t need, int64_t *value)
{
    const uint64_t key = 1;
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = value};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .worker = worker,
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .need = need,
                                          .request = worker};
    step(driver, &event);
}

static void push(rbt_driver *driver, uint32_t worker, int64_t clock)
{
    const uint64_t key = 1;
    int64_t one = 1;
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = &one};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = worker,
                                          .sequence = (uint64_t)clock + 1,
                                          .clock = clock,
                                          .marker = clock + 1,
                                          .batches = &batch,
                                          .batch_count = 1};
    step(driver, &event);
}

static void open_driver(struct bench *b)
{
    const struct rbt_driver_options options = {
        .worker_count = WORKERS, .shard_count = 1, .table_max = 1};
    const struct rbt_spec spec = {.type = RBT_I64, .width = 1};
    assert_ok(rbt_local_open(&options, &b->driver));
    step(b->driver, &(struct rbt_shard_event){.kind = RBT_SHARD_TABLE, .spec = &spec});
}

/* Worker 0 reads what only the departure of the others can open. */
static rbt_status read_or_leave(void *argument, uint32_t index)
{
    struct bench *b = argument;
    push(b->driver, index, 0);
    (void)pthread_barrier_wait(&b->barrier);
    if (index == 0) {
        int64_t value = 0;
        push(b->driver, 0, 1);
        pull(b->driver, 0, 2, &value);
        atomic_fetch_add(&b->answers, value == WORKERS + 1);
    }
    step(b->driver, &(struct rbt_shard_event){.kind = RBT_SHARD_LEAVE, .worker = index});
    return RBT_OK;
}

static void a_reader_is_woken_when_others_leave(void **state)
{
    (void)state;
    struct bench b = {0};
    assert_int_equal(pthread_barrier_init(&b.barrier, NULL, WORKERS), 0);
    for (int round = 1; round <= 100; round++) {
        open_driver(&b);
        assert_ok(b.driver->ops->run(b.driver, read_or_leave, &b));
        assert_int_equal(atomic_load(&b.answers), round);
        assert_true(b.driver->ops->floor(b.driver, 0) == RBT_CLOCK_GONE);
        struct rbt_job_stats stats = {.struct_size = sizeof stats};
        b.driver->ops->stats(b.driver, &stats);
        assert_int_equal(stats.updates, WORKERS + 1);
        assert_int_equal(stats.rows, 1);
        b.driver->ops->close(b.driver);
    }
    assert_int_equal(pthread_barrier_destroy(&b.barrier), 0);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Every clock waits for everybody: each read sees exactly the clocks before it. */
static rbt_status march(void *argument, uint32_t index)
{
    struct bench *b = argument;
    bool is_right = true;
    for (int64_t clock = 0; clock < 200; clock++) {
        int64_t value = 0;
        pull(b->driver, index, clock, &value);
        is_right = is_right && value == clock * WORKERS;
        push(b->driver, index, clock);
    }
    step(b->driver, &(struct rbt_shard_event){.kind = RBT_SHARD_LEAVE, .worker = index});
    atomic_fetch_add(&b->answers, is_right);
    return RBT_OK;
}

static void a_clock_wakes_the_readers_that_it_held_back(void **state)
{
    (void)state;
    struct bench b = {0};
    open_driver(&b);
    assert_ok(b.driver->ops->run(b.driver, march, &b));
    assert_int_equal(atomic_load(&b.answers), WORKERS);
    b.driver->ops->close(b.driver);
}

static rbt_status count_up(rbt_worker *worker, void *argument)
{
    struct bench *b = argument;
    const float one = 1;
    rbt_status st = rbt_add(worker, b->table, rbt_worker_index(worker), &one);
    return st != RBT_OK ? st : rbt_clock(worker);
}

static void a_job_starts_and_stops_a_thousand_times(void **state)
{
    (void)state;
    struct bench b = {0};
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 2, .shards = 2};
    for (int round = 0; round < 1000; round++) {
        rbt_job *job = NULL;
        assert_ok(rbt_job_open(&options, &job));
        assert_ok(rbt_table_open(job, "counts", NULL, &b.table));
        assert_ok(rbt_job_run(job, count_up, &b));
        rbt_job_close(job);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

/* A worker with two sets of one table, all rows new. */
static rbt_status push_two_sets(rbt_worker *worker, void *argument)
{
    struct bench *b = argument;
    uint64_t keys[2][400];
    for (uint64_t i = 0; i < 400; i++) {
        keys[0][i] = i;
        keys[1][i] = 1000 + i;
    }
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < 2; i++) {
        rbt_set *set = NULL;
        st = rbt_set_create(worker, b->table, keys[i], 400, RBT_SET_DELTAS, &set);
        for (size_t k = 0; st == RBT_OK && k < 400; k++) {
            ((float *)rbt_set_deltas(set))[k] = 1;
        }
        st = st != RBT_OK ? st : rbt_set_push(set);
        rbt_set_destroy(set);
    }
    return st != RBT_OK ? st : rbt_clock(worker);
}

static void two_sets_of_one_table_bring_new_rows_in_one_clock(void **state)
{
    (void)state;
    struct bench b = {0};
    rbt_job *job = NULL;
    struct rbt_job_stats stats = {.struct_size = sizeof stats};
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 1, .consistency = "asp"};
    assert_ok(rbt_job_open(&options, &job));
    assert_ok(rbt_table_open(job, "weights", NULL, &b.table));
    assert_ok(rbt_job_run(job, push_two_sets, &b));
    rbt_job_stats(job, &stats);
    assert_int_equal(stats.rows, 800);
    rbt_job_close(job);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_job_survives_every_failed_allocation_while_it_opens(void **state)
{
    (void)state;
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 2, .shards = 2};
    const struct rbt_table_options wide = {.struct_size = sizeof wide, .width = 9};
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        struct bench b = {0};
        rbt_job *job = NULL;
        rbt_alloc_fail_nth(nth);
        st = rbt_job_open(&options, &job);
        const bool is_open = st == RBT_OK;
        st = is_open ? rbt_table_open(job, "wide", &wide, &b.table) : st;
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        if (is_open) { /* another table may get the number of the one that failed */
            assert_ok(rbt_table_open(job, "narrow", NULL, &b.table));
            assert_ok(rbt_job_run(job, count_up, &b));
        }
        rbt_job_close(job);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_is_woken_when_others_leave),
        cmocka_unit_test(a_clock_wakes_the_readers_that_it_held_back),
        cmocka_unit_test(a_job_starts_and_stops_a_thousand_times),
        cmocka_unit_test(two_sets_of_one_table_bring_new_rows_in_one_clock),
        cmocka_unit_test(a_job_survives_every_failed_allocation_while_it_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
