/* sim/aggregator_test.c - updates that are added up in their rack: what crosses between racks, what
 * comes out of it, and what happens when an aggregator is in trouble. */
#include "base/test.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/trial.h"

#define WITH(...) ((struct rbt_simulation_options){__VA_ARGS__})

static uint64_t crossed(rbt_simulation *simulation)
{
    struct rbt_simulation_rack rack;
    uint64_t bytes = 0;
    for (uint32_t i = 0; rbt_simulation_rack(simulation, i, &rack); i++) {
        bytes += rack.bytes_sent;
    }
    return bytes;
}

/* --- What crosses ---------------------------------------------------------------------------- */

enum { ROWS = 256, WIDTH = 16, CLOCKS = 6 };

/* Workers that push the same rows in every clock, and read nothing. */
struct rig {
    uint32_t workers;
    uint32_t servers;
    rbt_type type;
    const char *filter;
    struct rbt_simulation_options cluster;
    rbt_table *table;
    uint64_t crossed;
    double seconds;
    uint64_t resent;
    double sums[ROWS * WIDTH];
};

/* Anything whose sums depend on their order, if they are real numbers. */
static double amount(uint32_t worker, int clock, size_t i)
{
    return 0.1 * (double)(worker + 1) + 7.3 * clock + 1e-3 * (double)i;
}

static void store(rbt_type type, void *deltas, size_t i, double value)
{
    if (type == RBT_F32) {
        ((float *)deltas)[i] = (float)value;
    } else {
        ((int32_t *)deltas)[i] = (int32_t)(1000 * value);
    }
}

static rbt_status push_all(rbt_worker *worker, void *argument)
{
    const struct rig *rig = argument;
    uint64_t keys[ROWS];
    rbt_set *set = NULL;
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i;
    }
    rbt_status st = rbt_set_create(worker, rig->table, keys, ROWS, RBT_SET_DELTAS, &set);
    for (int clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        void *deltas = rbt_set_deltas(set);
        for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++) {
            store(rig->type, deltas, i, amount(rbt_worker_index(worker), clock, i));
        }
        rbt_spend(worker, 0.01);
        st = rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static rbt_status read_all(rbt_worker *worker, void *argument)
{
    struct rig *rig = argument;
    struct rbt_rows rows = {0};
    const rbt_status st = rbt_pull_range(worker, rig->table, RBT_RANGE_ALL, 0, &rows);
    for (size_t i = 0; st == RBT_OK && rows.count == ROWS && i < (size_t)ROWS * WIDTH; i++) {
        rig->sums[i] = rig->type == RBT_F32 ? (double)((const float *)rows.values)[i]
                                            : ((const int32_t *)rows.values)[i];
    }
    rbt_rows_free(&rows);
    return st;
}

static void run_rig(struct rig *rig)
{
    rbt_simulation *simulation = NULL;
    rbt_job *job = NULL;
    struct rbt_simulation_stats stats;
    rig->cluster.struct_size = sizeof rig->cluster;
    assert_ok(rbt_simulation_open(&rig->cluster, &simulation));
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = rig->workers,
                                            .shards = rig->servers,
                                            .consistency = "bsp",
                                            .simulation = simulation};
    const struct rbt_table_options table = {
        .struct_size = sizeof table, .type = rig->type, .width = WIDTH, .filter = rig->filter};
    assert_ok(rbt_job_open(&options, &job));
    assert_ok(rbt_table_open(job, "rows", &table, &rig->table));
    assert_ok(rbt_job_run(job, push_all, rig));
    rbt_simulation_stats(simulation, &stats);
    rig->crossed = crossed(simulation);
    rig->seconds = stats.seconds;
    rig->resent = stats.resent;
    assert_ok(rbt_job_run(job, read_all, rig));
    rbt_job_close(job);
    assert_ok(rbt_simulation_close(simulation));
    assert_int_equal(rbt_alloc_live(), 0);
}

/* The same job without and with aggregators. */
static void compare(struct rig *plain, struct rig *added)
{
    *added = *plain;
    added->cluster.aggregate_seconds = 0.05;
    run_rig(plain);
    run_rig(added);
    assert_int_equal(plain->resent, 0);
    assert_int_equal(added->resent, 0);
}

static void check_fall(uint32_t racks, uint32_t fan_in, rbt_type type, const char *filter)
{
    static struct rig plain;
    static struct rig added;
    plain = (struct rig){.workers = racks * fan_in,
                         .servers = racks,
                         .type = type,
                         .filter = filter,
                         .cluster = WITH(.racks = racks)};
    compare(&plain, &added);
    const double fall = (double)plain.crossed / (double)added.crossed;
    if (fall < 0.9 * fan_in || fall > fan_in) { /* acknowledgements are as many as before */
        fail_msg("%u racks of %u workers: %.2f times less", racks, fan_in, fall);
    }
    for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++) {
        if (type == RBT_F32) {
            rbt_trial_near(added.sums[i], plain.sums[i], 1e-5 * fabs(plain.sums[i]));
        } else {
            assert_true(added.sums[i] == plain.sums[i]);
        }
        assert_true(plain.sums[i] != 0);
    }
}

/* G24: a tree of depth 2. */
static void what_crosses_falls_by_the_workers_of_a_rack(void **state)
{
    (void)state;
    check_fall(2, 4, RBT_I32, NULL);
    check_fall(2, 4, RBT_F32, NULL);
    check_fall(4, 4, RBT_I32, NULL);
    check_fall(4, 2, RBT_F32, NULL);
    check_fall(2, 8, RBT_I32, NULL);
}

static void filters_that_lose_nothing_have_their_effect_on_sums(void **state)
{
    (void)state;
    check_fall(2, 4, RBT_I32, "keys");
}

static void a_slow_way_is_quicker_with_sums(void **state)
{
    (void)state;
    static struct rig plain;
    static struct rig added;
    plain = (struct rig){.workers = 8,
                         .servers = 2,
                         .type = RBT_I32,
                         .cluster = WITH(.racks = 2, .oversubscription = 100, .bandwidth = 1e7)};
    compare(&plain, &added);
    assert_true(added.seconds < 0.5 * plain.seconds);
}

/* --- What comes out -------------------------------------------------------------------------- */

static const struct rbt_trial_options walk = {
    .workers = 8, .servers = 4, .rows = 32, .width = 4, .clocks = 12, .spends = 0.005};

static struct rbt_trial_options walk_with(struct rbt_simulation_options cluster)
{
    struct rbt_trial_options options = walk;
    options.cluster = cluster;
    options.cluster.racks = cluster.racks == 0 ? 2 : cluster.racks;
    options.cluster.aggregate_seconds =
        cluster.aggregate_seconds == 0 ? 0.02 : cluster.aggregate_seconds;
    return options;
}

/* Passes, with every read of "bsp" as it must be. Returns how long it took. */
static double pass(struct rbt_trial_options options)
{
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &options);
    const double seconds = rbt_trial_stats(&trial).seconds;
    rbt_trial_close(&trial);
    return seconds;
}

static void reads_see_what_they_must(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:0", "ssp:2", "essp:1", "asp"};
    for (size_t i = 0; i < sizeof consistencies / sizeof consistencies[0]; i++) {
        struct rbt_trial_options options = walk_with(WITH(.jitter = 1e-3));
        options.consistency = consistencies[i];
        (void)pass(options);
        options.cluster.threads = 3; /* workers of a process are in its rack */
        (void)pass(options);
    }
}

static void equal_runs_are_equal(void **state)
{
    (void)state;
    const struct rbt_trial_options options =
        walk_with(WITH(.jitter = 1e-3, .loss = 0.02, .duplication = 0.02));
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &options);
    const struct rbt_simulation_stats first = rbt_trial_stats(&trial);
    rbt_trial_close(&trial);
    rbt_trial_pass(&trial, &options);
    assert_int_equal(rbt_trial_stats(&trial).events, first.events);
    assert_true(rbt_trial_stats(&trial).seconds == first.seconds);
    rbt_trial_close(&trial);
}

/* Servers only in rack 0, workers in all three; and the other way round. */
static void racks_need_not_have_both(void **state)
{
    (void)state;
    struct rbt_trial_options options = walk_with(WITH(.racks = 3));
    options.servers = 1;
    (void)pass(options);
    options.servers = 3;
    options.workers = 1;
    (void)pass(options);
}

/* --- Trouble --------------------------------------------------------------------------------- */

/* Workers 0 and 1 have nothing to do but to add up for their racks. */
static rbt_status walk_but_two(rbt_worker *worker, void *argument)
{
    return rbt_worker_index(worker) < 2 ? RBT_OK : rbt_trial_walk(worker, argument);
}

static double pass_with_fault(const struct rbt_fault *fault)
{
    struct rbt_trial_options options =
        walk_with(WITH(.faults = fault, .fault_count = fault == NULL ? 0 : 1, .latency = 1e-3));
    options.servers = 2; /* in other racks there is one */
    struct rbt_trial trial;
    rbt_trial_open(&trial, &options);
    trial.options.workers -= 2; /* of those that add something */
    assert_ok(rbt_job_run(trial.job, walk_but_two, &trial));
    assert_int_equal(trial.wrong_reads, 0);
    for (uint64_t row = 0; row < options.rows; row++) {
        assert_int_equal(rbt_trial_value(&trial, row), options.clocks * trial.options.workers);
    }
    const double seconds = rbt_trial_stats(&trial).seconds;
    rbt_trial_close(&trial);
    return seconds;
}

/* Whatever happens to it, workers find the other way within a few tenths of a second. */
static void without_an_aggregator_everything_goes_straight(void **state)
{
    (void)state;
    const double calm = pass_with_fault(NULL);
    const struct rbt_fault faults[] = {
        {.kind = RBT_FAULT_CRASH, .node = "worker/0", .at = 0},
        {.kind = RBT_FAULT_CRASH, .node = "worker/0", .at = 0.0152},
        {.kind = RBT_FAULT_CRASH, .node = "worker/1", .at = 0.0152, .lasts = 0.01},
        {.kind = RBT_FAULT_CRASH, .node = "worker/1", .at = 0.02, .lasts = 1000},
        {.kind = RBT_FAULT_PARTITION, .node = "worker/0", .at = 0.02, .lasts = 1000},
        {.kind = RBT_FAULT_PAUSE, .node = "worker/0", .at = 0.0152, .lasts = 1000},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const double seconds = pass_with_fault(&faults[i]);
        if (seconds > calm + 0.6) {
            fail_msg("fault %zu: %.3f s, without it %.3f s", i, seconds, calm);
        }
    }
}

static void a_bad_network_changes_no_sum(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        const struct rbt_fault faults[] = {
            {.kind = RBT_FAULT_CRASH, .node = "worker/0", .at = 0.02, .lasts = 0.1},
            {.kind = RBT_FAULT_PAUSE, .node = "worker/1", .at = 0.04, .lasts = 0.2},
            {.kind = RBT_FAULT_PARTITION, .node = "worker/3", .at = 0.01, .lasts = 0.3}};
        struct rbt_trial_options options =
            walk_with(WITH(.seed = seed, .jitter = 5e-3, .loss = 0.05, .duplication = 0.05,
                           .faults = faults, .fault_count = 3));
        options.consistency = seed % 2 == 0 ? "bsp" : "ssp:2";
        (void)pass(options);
    }
}

static void the_others_go_on_without_a_worker_that_is_lost(void **state)
{
    (void)state;
    const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = "worker/2", .at = 0.0152};
    const struct rbt_trial_options options = walk_with(WITH(.faults = &fault, .fault_count = 1));
    struct rbt_trial trial;
    rbt_trial_open(&trial, &options);
    assert_ok(rbt_job_run(trial.job, rbt_trial_walk, &trial));
    for (uint64_t row = 0; row < options.rows; row++) { /* all of seven, and what it had sent */
        const int64_t value = rbt_trial_value(&trial, row);
        assert_true(value >= 12 * 7 && value < 12 * 8);
    }
    rbt_trial_close(&trial);
}

/* --- Mistakes -------------------------------------------------------------------------------- */

static rbt_status open_table(struct rbt_simulation_options cluster, uint64_t bandwidth,
                             struct rbt_table_options table)
{
    rbt_simulation *simulation = NULL;
    rbt_job *job = NULL;
    rbt_table *opened = NULL;
    cluster.struct_size = sizeof cluster;
    table.struct_size = sizeof table;
    rbt_status st = rbt_simulation_open(&cluster, &simulation);
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = 4,
                                            .shards = 2,
                                            .bandwidth = bandwidth,
                                            .simulation = simulation};
    st = st != RBT_OK ? st : rbt_job_open(&options, &job);
    st = st != RBT_OK ? st : rbt_table_open(job, "t", &table, &opened);
    rbt_job_close(job);
    assert_ok(rbt_simulation_close(simulation));
    assert_int_equal(rbt_alloc_live(), 0);
    return st;
}

#define TABLE(...) ((struct rbt_table_options){.type = RBT_F32, .width = 2, __VA_ARGS__})

static void what_has_no_sum_is_refused(void **state)
{
    (void)state;
    const struct rbt_simulation_options racks = WITH(.racks = 2, .aggregate_seconds = 0.01);
    assert_ok(open_table(racks, 0, TABLE(.merge = RBT_MERGE_MAX)));
    assert_ok(open_table(racks, 0, TABLE(.filter = "keys,zeros,lz4")));
    assert_fails(open_table(racks, 0, TABLE(.rule = "adagrad")), RBT_E_INVALID,
                 "updates cannot be added up in the racks: table \"main/t\" has a rule, which "
                 "takes them one by one");
    assert_fails(open_table(racks, 0, TABLE(.filter = "tiny:0.1")), RBT_E_INVALID,
                 "table \"main/t\" has filters that leave some out or round them");
    assert_fails(open_table(racks, 1000000, TABLE(.filter = NULL)), RBT_E_INVALID,
                 "rows that travel early go by themselves");
    assert_fails(open_table(WITH(.aggregate_seconds = 0.01), 0, TABLE(.filter = NULL)),
                 RBT_E_INVALID, "to add up updates for other racks takes at least two of them");
    assert_fails(open_table(WITH(.racks = 2, .aggregate_seconds = -1), 0, TABLE(.filter = NULL)),
                 RBT_E_INVALID, "the time for which updates wait in a rack is a number of seconds");
}

static bool opens_without(unsigned nth)
{
    const struct rbt_simulation_options cluster = {
        .struct_size = sizeof cluster, .racks = 2, .aggregate_seconds = 0.01};
    rbt_simulation *simulation = NULL;
    rbt_job *job = NULL;
    assert_ok(rbt_simulation_open(&cluster, &simulation));
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 4, .shards = 2, .simulation = simulation};
    rbt_alloc_fail_nth(nth);
    const rbt_status st = rbt_job_open(&options, &job);
    rbt_alloc_fail_nth(0);
    assert_true(st == RBT_OK || st == RBT_E_NOMEM);
    rbt_job_close(job);
    assert_ok(rbt_simulation_close(simulation));
    assert_int_equal(rbt_alloc_live(), 0);
    return st == RBT_OK;
}

static bool runs_without(unsigned nth)
{
    struct rbt_trial trial;
    struct rbt_trial_options options = walk_with(WITH(.racks = 2));
    options.clocks = 2;
    options.workers = 4;
    options.servers = 2;
    rbt_trial_open(&trial, &options);
    rbt_alloc_fail_nth(nth);
    const rbt_status st = rbt_job_run(trial.job, rbt_trial_walk, &trial);
    rbt_alloc_fail_nth(0);
    assert_true(st == RBT_OK || st == RBT_E_NOMEM);
    assert_true(st != RBT_OK || rbt_trial_value(&trial, 0) == 8);
    rbt_trial_close(&trial);
    return st == RBT_OK;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    unsigned nth = 1;
    while (!opens_without(nth)) { /* ends: there are only so many */
        nth++;
    }
    assert_true(nth > 20);
    unsigned passed = 0; /* in a row: some can be done without */
    for (nth = 1; passed < 50; nth++) {
        passed = runs_without(nth) ? passed + 1 : 0;
    }
    assert_true(nth > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_crosses_falls_by_the_workers_of_a_rack),
        cmocka_unit_test(filters_that_lose_nothing_have_their_effect_on_sums),
        cmocka_unit_test(a_slow_way_is_quicker_with_sums),
        cmocka_unit_test(reads_see_what_they_must),
        cmocka_unit_test(equal_runs_are_equal),
        cmocka_unit_test(racks_need_not_have_both),
        cmocka_unit_test(without_an_aggregator_everything_goes_straight),
        cmocka_unit_test(a_bad_network_changes_no_sum),
        cmocka_unit_test(the_others_go_on_without_a_worker_that_is_lost),
        cmocka_unit_test(what_has_no_sum_is_refused),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
