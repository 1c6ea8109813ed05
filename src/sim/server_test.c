/* sim/server_test.c - every update is applied exactly once, whatever the network does, and requests
 * are answered as the shard decides. */
#include "base/test.h"

#include "sim/trial.h"

static struct rbt_job_stats job_stats(const struct rbt_trial *trial)
{
    struct rbt_job_stats stats;
    rbt_job_stats(trial->job, &stats);
    return stats;
}

static struct rbt_trial_options walk(const char *consistency)
{
    return (struct rbt_trial_options){.workers = 5,
                                      .servers = 3,
                                      .rows = 12,
                                      .consistency = consistency,
                                      .clocks = 25,
                                      .spends = 0.002};
}

static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2", "asp"};

static void a_good_network_loses_and_repeats_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rbt_trial trial;
        const struct rbt_trial_options options = walk(consistencies[i]);
        rbt_trial_pass(&trial, &options);
        const struct rbt_simulation_stats stats = rbt_trial_stats(&trial);
        assert_int_equal(stats.lost, 0);
        assert_int_equal(stats.duplicated, 0);
        assert_int_equal(stats.resent, 0);
        assert_int_equal(job_stats(&trial).duplicates, 0);
        assert_int_equal(job_stats(&trial).updates, 5 * 3 * 25); /* one per worker and server */
        rbt_trial_close(&trial);
    }
}

/* D10: messages are delivered twice, all of them; the sums do not change. */
static void what_arrives_twice_is_applied_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rbt_trial trial;
        struct rbt_trial_options options = walk(consistencies[i]);
        options.cluster.duplication = 1;
        rbt_trial_pass(&trial, &options);
        assert_int_equal(rbt_trial_stats(&trial).duplicated, rbt_trial_stats(&trial).messages);
        assert_int_equal(job_stats(&trial).updates, 5 * 3 * 25);
        assert_true(job_stats(&trial).duplicates >= 5 * 3 * 20); /* the last may come too late */
        rbt_trial_close(&trial);
    }
}

static void what_is_lost_is_sent_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rbt_trial trial;
        struct rbt_trial_options options = walk(consistencies[i]);
        options.cluster.loss = 0.2;
        rbt_trial_pass(&trial, &options);
        assert_true(rbt_trial_stats(&trial).lost > 0);
        assert_true(rbt_trial_stats(&trial).resent > 0);
        assert_int_equal(job_stats(&trial).updates, 5 * 3 * 25);
        rbt_trial_close(&trial);
    }
}

static rbt_status push_in_a_row(rbt_worker *worker, void *argument)
{
    const struct rbt_trial *trial = argument;
    const int64_t one = 1;
    rbt_status st = RBT_OK;
    for (int i = 0; st == RBT_OK && i < 300; i++) {
        st = rbt_add(worker, trial->table, 1, &one);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    return st;
}

/* 300 messages at once, each up to a second late: hardly any comes in its turn. */
static void what_comes_too_early_waits_for_its_predecessor(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){
                               .cluster = {.jitter = 0.15, .duplication = 0.1}, .workers = 2});
    assert_ok(rbt_job_run(trial.job, push_in_a_row, &trial));
    assert_int_equal(rbt_trial_value(&trial, 1), 600);
    assert_int_equal(job_stats(&trial).updates, 600);
    assert_int_equal(rbt_trial_stats(&trial).lost, 0);
    assert_int_equal(rbt_trial_stats(&trial).resent, 0); /* nobody has become impatient */
    rbt_trial_close(&trial);
}

static void sums_are_right_under_everything_at_once(void **state)
{
    (void)state;
    uint64_t resent = 0;
    uint64_t duplicates = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct rbt_trial trial;
        struct rbt_trial_options options = walk(consistencies[seed % 4]);
        options.cluster = (struct rbt_simulation_options){.seed = seed,
                                                          .threads = 1 + (uint32_t)seed % 3,
                                                          .jitter = 5e-3,
                                                          .loss = 0.05,
                                                          .duplication = 0.05,
                                                          .spike_chance = 0.02,
                                                          .spike_seconds = 0.3};
        rbt_trial_pass(&trial, &options);
        resent += rbt_trial_stats(&trial).resent;
        duplicates += job_stats(&trial).duplicates;
        rbt_trial_close(&trial);
    }
    assert_true(resent > 0);
    assert_true(duplicates > 0);
}

/* Worker 0 computes for a long time; the others are gone at once. */
static rbt_status leave_early(rbt_worker *worker, void *argument)
{
    const struct rbt_trial *trial = argument;
    const int64_t one = 1;
    rbt_spend(worker, rbt_worker_index(worker) == 0 ? 100.0 : 0.0);
    return rbt_add(worker, trial->table, 0, &one);
}

static void whoever_has_left_has_nothing_to_send_again(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.workers = 3, .servers = 2});
    assert_ok(rbt_job_run(trial.job, leave_early, &trial));
    assert_int_equal(rbt_trial_value(&trial, 0), 3);
    assert_int_equal(rbt_trial_stats(&trial).resent, 0);
    rbt_trial_close(&trial);
}

/* What the worker has read of a sparse table and of a range. */
struct findings {
    rbt_table *sparse;
    rbt_table *dense;
    uint64_t wrong;
    size_t rows;
};

/* Clock by clock every worker adds 1 to an element of its own of a sparse row. */
static rbt_status add_elements(rbt_worker *worker, void *argument)
{
    struct findings *findings = argument;
    uint32_t index[8];
    float values[8];
    struct rbt_elements elements = {.index = index, .values = values, .capacity = 8};
    rbt_status st = RBT_OK;
    for (int clock = 0; st == RBT_OK && clock < 5; clock++) {
        const float one = 1;
        const int64_t whole = 1;
        elements.count = 0;
        st = rbt_get_sparse(worker, findings->sparse, 9, &elements);
        findings->wrong += st == RBT_OK && elements.count != (clock == 0 ? 0 : 3);
        for (size_t i = 0; st == RBT_OK && i < elements.count; i++) {
            findings->wrong += index[i] != 10 * i || values[i] != (float)clock;
        }
        st = st != RBT_OK
                 ? st
                 : rbt_add_at(worker, findings->sparse, 9, 10 * rbt_worker_index(worker), &one);
        st = st != RBT_OK ? st
                          : rbt_add(worker, findings->dense,
                                    (uint64_t)clock * 3 + rbt_worker_index(worker), &whole);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    struct rbt_rows rows = {0};
    st = st != RBT_OK
             ? st
             : rbt_pull_range(worker, findings->dense, (struct rbt_range){3, 11}, 0, &rows);
    if (st == RBT_OK) {
        findings->rows += rows.count;
        rbt_rows_free(&rows);
    }
    return st;
}

static void sparse_rows_and_ranges_are_read_from_all_servers(void **state)
{
    (void)state;
    struct rbt_trial trial;
    struct findings findings = {0};
    const struct rbt_table_options sparse = {
        .struct_size = sizeof sparse, .layout = RBT_SPARSE, .width = 100};
    rbt_trial_open(&trial, &(struct rbt_trial_options){.cluster = {.loss = 0.05, .jitter = 1e-3},
                                                       .workers = 3,
                                                       .servers = 3});
    findings.dense = trial.table;
    assert_ok(rbt_table_open(trial.job, "sparse", &sparse, &findings.sparse));
    assert_ok(rbt_job_run(trial.job, add_elements, &findings));
    assert_int_equal(findings.wrong, 0);
    assert_int_equal(findings.rows, 3 * 9); /* keys 3 .. 11, by three workers */
    rbt_trial_close(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_network_loses_and_repeats_nothing),
        cmocka_unit_test(what_arrives_twice_is_applied_once),
        cmocka_unit_test(what_is_lost_is_sent_again),
        cmocka_unit_test(what_comes_too_early_waits_for_its_predecessor),
        cmocka_unit_test(sums_are_right_under_everything_at_once),
        cmocka_unit_test(whoever_has_left_has_nothing_to_send_again),
        cmocka_unit_test(sparse_rows_and_ranges_are_read_from_all_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
