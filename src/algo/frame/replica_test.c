/* algo/frame/replica_test.c - moves of a copy that serves for several clocks, few moves, and
 * gradients.
 */
#include "base/test.h"

#include "algo/frame/replica.h"

enum { CLOCKS = 12 };

struct run {
    rbt_table *table;
    float seen[CLOCKS]; /* after each pull */
    float last;         /* at the server, at the end */
};

static const uint64_t key = 7;

/* Moves by 1 in every clock, in coordinates in which a row is half as large. */
static rbt_status move(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    struct rbt_replica replica;
    const struct rbt_replica_rows rows = {run->table, &key, 1};
    const float scale = 2.0F;
    assert_ok(rbt_replica_open(worker, &rows, &replica));
    assert_ok(rbt_replica_tune(&replica, NULL, &scale));
    for (int clock = 0; clock < CLOCKS; clock++) {
        assert_ok(rbt_replica_pull(&replica));
        run->seen[clock] = replica.values[0];
        replica.values[0] += 1.0F;
        assert_ok(rbt_replica_push(&replica));
        assert_ok(rbt_clock(worker));
    }
    rbt_replica_close(&replica);
    return rbt_get_within(worker, run->table, key, 0, &run->last);
}

static void check_moves(uint32_t slack, int fetched_every)
{
    struct run run = {0};
    rbt_job *job = NULL;
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 1, .consistency = "ssp:3"};
    const struct rbt_table_experiments experiments = {.struct_size = sizeof experiments,
                                                      .slack = slack};
    const struct rbt_table_options table = {.struct_size = sizeof table,
                                            .rule = "consgd:factor=0.5",
                                            .overlay = RBT_OVERLAY_REPLICA,
                                            .experiments = &experiments};
    assert_ok(rbt_job_open(&options, &job));
    assert_ok(rbt_table_open(job, "w", &table, &run.table));
    assert_ok(rbt_job_run(job, move, &run));
    for (int clock = 0; clock < CLOCKS; clock++) {
        const int fetched = clock / fetched_every * fetched_every;
        const float expected = 0.5F * (float)fetched + (float)(clock - fetched);
        assert_true(run.seen[clock] == expected);
    }
    assert_true(run.last == CLOCKS); /* 2 x 1/2 in each clock, whatever the copy was */
    rbt_job_close(job);
}

static void own_moves_count_until_the_next_fetch(void **state)
{
    (void)state;
    check_moves(0, 4);
}

static void slack_is_one_clock_more(void **state)
{
    (void)state;
    check_moves(1, 5);
}

static rbt_status descend(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    struct rbt_replica replica;
    const struct rbt_replica_rows rows = {run->table, &key, 1};
    assert_ok(rbt_replica_open(worker, &rows, &replica));
    for (int clock = 0; clock < CLOCKS; clock++) {
        assert_ok(rbt_replica_pull(&replica));
        run->seen[clock] = replica.values[0];
        assert_true(rbt_replica_gradient(&replica)[0] == 0.0F);
        rbt_replica_gradient(&replica)[0] = 1.0F;
        assert_ok(rbt_replica_push_gradient(&replica));
        assert_ok(rbt_clock(worker));
    }
    rbt_replica_close(&replica);
    return RBT_OK;
}

static void gradients_are_seen_when_the_rule_has_made_the_step(void **state)
{
    (void)state;
    struct run run = {0};
    rbt_job *job = NULL;
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 1, .consistency = "bsp"};
    const struct rbt_table_options table = {.struct_size = sizeof table, .rule = "sgd:lr=0.25"};
    assert_ok(rbt_job_open(&options, &job));
    assert_ok(rbt_table_open(job, "w", &table, &run.table));
    assert_ok(rbt_job_run(job, descend, &run));
    for (int clock = 0; clock < CLOCKS; clock++) {
        assert_true(run.seen[clock] == -0.25F * (float)clock);
    }
    rbt_job_close(job);
}

/* Moves by 1 in every clock, of which a filter lets pass what is more than 2. */
static rbt_status move_slowly(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    struct rbt_replica replica;
    const struct rbt_replica_rows rows = {run->table, &key, 1};
    assert_ok(rbt_replica_open(worker, &rows, &replica));
    for (int clock = 0; clock < CLOCKS; clock++) {
        assert_ok(rbt_replica_pull(&replica));
        run->seen[clock] = replica.values[0];
        replica.values[0] += 1.0F;
        assert_ok(rbt_replica_push(&replica));
        assert_ok(rbt_clock(worker));
    }
    rbt_replica_close(&replica);
    return RBT_OK;
}

/* What everybody sees once the worker has left. */
static rbt_status look(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    return rbt_get(worker, run->table, key, &run->seen[0]);
}

static void what_filters_keep_back_is_seen_by_its_worker_and_goes_at_the_end(void **state)
{
    (void)state;
    struct run run = {0};
    rbt_job *job = NULL;
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 1, .consistency = "bsp"};
    const struct rbt_table_options table = {.struct_size = sizeof table,
                                            .filter = "push.significant:2"};
    assert_ok(rbt_job_open(&options, &job));
    assert_ok(rbt_table_open(job, "w", &table, &run.table));
    assert_ok(rbt_job_run(job, move_slowly, &run));
    for (int clock = 0; clock < CLOCKS; clock++) {
        assert_true(run.seen[clock] == (float)clock);
    }
    assert_ok(rbt_job_run(job, look, &run));
    assert_true(run.seen[0] == (float)CLOCKS);
    rbt_job_close(job);
}

enum { ROWS = 40 };

/* In clock c the first 2 c rows move by 1. */
static rbt_status move_more(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    struct rbt_replica replica;
    uint64_t keys[ROWS];
    float expected[ROWS] = {0};
    for (size_t i = 0; i < ROWS; i++) {
        keys[i] = 3 * i;
    }
    const struct rbt_replica_rows rows = {run->table, keys, ROWS};
    assert_ok(rbt_replica_open(worker, &rows, &replica));
    for (size_t clock = 0; clock < CLOCKS; clock++) {
        assert_ok(rbt_replica_pull(&replica));
        assert_memory_equal(replica.values, expected, sizeof expected); /* own moves are seen */
        for (size_t i = 0; i < 2 * clock; i++) {
            replica.values[i] += 1.0F;
            expected[i] += 1.0F;
        }
        assert_ok(rbt_replica_push(&replica));
        assert_ok(rbt_clock(worker));
    }
    rbt_replica_close(&replica);
    return rbt_get_within(worker, run->table, 0, 0, &run->last);
}

static void few_moves_are_sent_alone_and_stay_in_the_copy(void **state)
{
    (void)state;
    const char *const kinds[] = {"bsp", "ssp:3"};
    uint64_t rows = 0;
    for (size_t clock = 0; clock < CLOCKS; clock++) {
        rows += 2 * clock <= ROWS / 4 ? 2 * clock : ROWS;
    }
    for (size_t i = 0; i < 2; i++) {
        struct run run = {0};
        rbt_job *job = NULL;
        const struct rbt_job_options options = {
            .struct_size = sizeof options, .workers = 1, .consistency = kinds[i]};
        const struct rbt_table_options table = {.struct_size = sizeof table};
        struct rbt_job_stats stats = {.struct_size = sizeof stats};
        assert_ok(rbt_job_open(&options, &job));
        assert_ok(rbt_table_open(job, "w", &table, &run.table));
        assert_ok(rbt_job_run(job, move_more, &run));
        assert_true(run.last == CLOCKS - 1);
        rbt_job_stats(job, &stats);
        assert_int_equal(stats.bytes_sent, rows * (sizeof(uint64_t) + sizeof(float)));
        /* A copy serves for four clocks with ssp:3, though its own moves have gone. */
        assert_int_equal(stats.fetches, (i == 0 ? CLOCKS : (CLOCKS + 3) / 4) + 1);
        rbt_job_close(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_moves_count_until_the_next_fetch),
        cmocka_unit_test(slack_is_one_clock_more),
        cmocka_unit_test(few_moves_are_sent_alone_and_stay_in_the_copy),
        cmocka_unit_test(gradients_are_seen_when_the_rule_has_made_the_step),
        cmocka_unit_test(what_filters_keep_back_is_seen_by_its_worker_and_goes_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
