/* sim/node_test.c - pauses, crashes that pass, partitions and slow links: what they cost, and that
 * nothing is lost in the end. What the coordinator does about them is in coordinator_test.c. */
#include "base/test.h"

#include "sim/trial.h"

#define LATENCY 1e-3
#define BYTE    1e-9 /* at 1e9 bytes per second */
#define COST    2e-6
#define SLACK   1e-9

enum { HEADER = 64, REQUEST = HEADER + 100 * 8, ANSWER = HEADER + 8 + 100 * 8 };

static struct rbt_simulation_options cluster_with(const struct rbt_fault *faults, size_t count)
{
    return (struct rbt_simulation_options){
        .bandwidth = 1e9, .latency = LATENCY, .faults = faults, .fault_count = count};
}

static rbt_status compute_a_second(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    rbt_spend(worker, 1.0);
    trial->ended_seconds[rbt_worker_index(worker)] = rbt_worker_seconds(worker);
    return RBT_OK;
}

/* When worker 1 of two, with these faults, has computed for a second. */
static double second_of(const struct rbt_fault *faults, size_t count)
{
    struct rbt_trial trial;
    rbt_trial_open(
        &trial, &(struct rbt_trial_options){.cluster = cluster_with(faults, count), .workers = 2});
    assert_ok(rbt_job_run(trial.job, compute_a_second, &trial));
    rbt_trial_near(trial.ended_seconds[0], 1.0, SLACK); /* the other is not affected */
    const double seconds = trial.ended_seconds[1];
    rbt_trial_close(&trial);
    return seconds;
}

static void a_pause_delays_a_computation_by_its_length(void **state)
{
    (void)state;
    const struct rbt_fault pause = {
        .kind = RBT_FAULT_PAUSE, .node = "worker/1", .at = 0.4, .lasts = 0.3};
    rbt_trial_near(second_of(&pause, 1), 1.3, SLACK);
    const struct rbt_fault late = {
        .kind = RBT_FAULT_PAUSE, .node = "worker/1", .at = 1.1, .lasts = 0.3};
    rbt_trial_near(second_of(&late, 1), 1.0, SLACK);
    const struct rbt_fault crash = {
        .kind = RBT_FAULT_CRASH, .node = "worker/1", .at = 0.4, .lasts = 0.3};
    rbt_trial_near(second_of(&crash, 1), 1.3, SLACK); /* it comes back as it was */
}

static void pauses_that_overlap_count_once(void **state)
{
    (void)state;
    const struct rbt_fault across[2] = {
        {.kind = RBT_FAULT_PAUSE, .node = "worker/1", .at = 0.2, .lasts = 0.4},
        {.kind = RBT_FAULT_PAUSE, .node = "worker/1", .at = 0.4, .lasts = 0.5}};
    rbt_trial_near(second_of(across, 2), 1.7, SLACK);
    const struct rbt_fault inside[2] = {
        {.kind = RBT_FAULT_PAUSE, .node = "worker/1", .at = 0.2, .lasts = 0.8},
        {.kind = RBT_FAULT_PAUSE, .node = "worker/1", .at = 0.4, .lasts = 0.1}};
    rbt_trial_near(second_of(inside, 2), 1.8, SLACK);
}

/* The first pull of a worker whose cluster has this fault. */
static double pull_with(struct rbt_fault fault)
{
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &(struct rbt_trial_options){
                               .cluster = cluster_with(&fault, 1), .rows = 100, .clocks = 1});
    const double seconds = trial.first_pull_seconds;
    rbt_trial_close(&trial);
    return seconds;
}

static void a_paused_server_answers_when_it_goes_on(void **state)
{
    (void)state;
    const double answer = LATENCY + ANSWER * BYTE + COST;
    rbt_trial_near(
        pull_with((struct rbt_fault){.kind = RBT_FAULT_PAUSE, .node = "server/0", .lasts = 0.1}),
        0.1 + answer, SLACK);
}

/* The request, and the one that is sent after 0.2 seconds, come while it is down; the next one,
 * after twice the time, does not. */
static void a_crashed_server_has_missed_what_was_sent_to_it(void **state)
{
    (void)state;
    const double answer = 2 * LATENCY + (REQUEST + ANSWER) * BYTE + 2 * COST;
    rbt_trial_near(
        pull_with((struct rbt_fault){.kind = RBT_FAULT_CRASH, .node = "server/0", .lasts = 0.3}),
        0.2 + 0.4 + answer, SLACK);
}

static void a_slow_link_takes_its_factor_longer(void **state)
{
    (void)state;
    const double undisturbed = 2 * LATENCY + 2 * COST + (REQUEST + ANSWER) * BYTE;
    const double slow = 2 * LATENCY + 2 * COST + 100 * (REQUEST + ANSWER) * BYTE;
    const struct rbt_fault worker = {
        .kind = RBT_FAULT_SLOW_LINK, .node = "worker/0", .factor = 100};
    struct rbt_fault server = {.kind = RBT_FAULT_SLOW_LINK, .node = "server/0", .factor = 100};
    /* The fault is at time 0, as is the worker's first request, which is sent before it. */
    rbt_trial_near(pull_with(worker), slow - 99 * REQUEST * BYTE, SLACK);
    rbt_trial_near(pull_with(server), slow, SLACK);
    server.lasts = LATENCY / 2; /* it is over when the request comes */
    rbt_trial_near(pull_with(server), undisturbed, SLACK);
}

static struct rbt_trial_options walk(const struct rbt_fault *faults, size_t count)
{
    return (struct rbt_trial_options){.cluster = cluster_with(faults, count),
                                      .workers = 4,
                                      .servers = 2,
                                      .rows = 10,
                                      .clocks = 40,
                                      .spends = 0.05};
}

static void nothing_is_lost_by_faults_that_pass(void **state)
{
    (void)state;
    static const rbt_fault_kind kinds[] = {RBT_FAULT_CRASH, RBT_FAULT_PAUSE, RBT_FAULT_PARTITION};
    static const char *const nodes[] = {"worker/0", "worker/3", "server/1", "coordinator"};
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2"};
    for (size_t i = 0; i < 3 * 4 * 3; i++) {
        const struct rbt_fault fault = {
            .kind = kinds[i % 3], .node = nodes[i / 3 % 4], .at = 0.31, .lasts = 1.5};
        struct rbt_trial trial;
        struct rbt_trial_options options = walk(&fault, 1);
        options.consistency = consistencies[i / 12];
        rbt_trial_pass(&trial, &options); /* all sums are right */
        if (strcmp(fault.node, "coordinator") == 0) {
            assert_true(rbt_trial_stats(&trial).seconds < 2.3);
        } else {
            assert_true(rbt_trial_stats(&trial).seconds > 40 * 0.05 + 1.2);
        }
        rbt_trial_close(&trial);
    }
}

static void what_is_sent_across_a_partition_is_lost_and_sent_again(void **state)
{
    (void)state;
    const struct rbt_fault fault = {
        .kind = RBT_FAULT_PARTITION, .node = "worker/2", .at = 0.3, .lasts = 1};
    struct rbt_trial trial;
    const struct rbt_trial_options options = walk(&fault, 1);
    rbt_trial_pass(&trial, &options);
    assert_true(rbt_trial_stats(&trial).lost > 0);
    assert_true(rbt_trial_stats(&trial).resent > 0);
    assert_true(rbt_trial_stats(&trial).seconds > 3.0);
    assert_true(rbt_trial_stats(&trial).seconds < 4.0);
    rbt_trial_close(&trial);
}

/* Worker 1 is done at once; worker 0 takes a second. */
static rbt_status push_or_compute(rbt_worker *worker, void *argument)
{
    const struct rbt_trial *trial = argument;
    const int64_t one = 1;
    const rbt_status st = rbt_add(worker, trial->table, rbt_worker_index(worker), &one);
    rbt_spend(worker, rbt_worker_index(worker) == 0 ? 1.0 : 0.0);
    return st != RBT_OK ? st : rbt_clock(worker);
}

/* The fault is still there when the first run ends. */
static void partitions_that_overlap_end_with_the_last(void **state)
{
    (void)state;
    const struct rbt_fault faults[] = {
        {.kind = RBT_FAULT_PARTITION, .node = "worker/2", .at = 0.3, .lasts = 2},
        {.kind = RBT_FAULT_PARTITION, .node = "worker/2", .at = 0.5, .lasts = 0.5}};
    struct rbt_trial one;
    struct rbt_trial both;
    const struct rbt_trial_options alone = walk(faults, 1);
    const struct rbt_trial_options together = walk(faults, 2);
    rbt_trial_pass(&one, &alone);
    const struct rbt_simulation_stats expected = rbt_trial_stats(&one);
    rbt_trial_close(&one);
    rbt_trial_pass(&both, &together);
    rbt_trial_near(rbt_trial_stats(&both).seconds, expected.seconds, SLACK);
    assert_int_equal(rbt_trial_stats(&both).lost, expected.lost);
    rbt_trial_close(&both);
}

static void the_slower_of_two_slow_links_is_there_again_when_the_other_ends(void **state)
{
    (void)state;
    const struct rbt_fault faults[] = {
        {.kind = RBT_FAULT_SLOW_LINK, .node = "worker/2", .factor = 100000},
        {.kind = RBT_FAULT_SLOW_LINK, .node = "worker/2", .at = 0.3, .lasts = 0.001, .factor = 2}};
    double seconds[2];
    for (size_t i = 0; i < 2; i++) {
        struct rbt_trial trial;
        const struct rbt_trial_options options = walk(faults, i + 1);
        rbt_trial_pass(&trial, &options);
        seconds[i] = rbt_trial_stats(&trial).seconds;
        rbt_trial_close(&trial);
    }
    rbt_trial_near(seconds[0], seconds[1], 0.2 * seconds[0]);
}

/* Messages wait for seconds in the queue of a server's link, and none is sent again for that. */
static void what_is_in_a_queue_is_not_sent_again(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2", "asp"};
    for (size_t i = 0; i < 4; i++) {
        struct rbt_trial trial;
        const struct rbt_trial_options options = {.cluster = {.bandwidth = 1e5},
                                                  .workers = 8,
                                                  .rows = 1000,
                                                  .consistency = consistencies[i],
                                                  .clocks = 10,
                                                  .spends = 0.1};
        rbt_trial_pass(&trial, &options);
        assert_true(rbt_trial_stats(&trial).seconds > 10);
        assert_int_equal(rbt_trial_stats(&trial).resent, 0);
        rbt_trial_close(&trial);
    }
}

static void a_run_begins_with_a_cluster_that_is_well(void **state)
{
    (void)state;
    static const rbt_fault_kind kinds[] = {RBT_FAULT_CRASH, RBT_FAULT_PAUSE, RBT_FAULT_PARTITION,
                                           RBT_FAULT_SLOW_LINK};
    for (size_t i = 0; i < 4; i++) {
        const struct rbt_fault fault = {
            .kind = kinds[i], .node = "worker/1", .at = 0.5, .lasts = 1000, .factor = 1e6};
        struct rbt_trial trial;
        const struct rbt_trial_options options = walk(&fault, 1);
        rbt_trial_open(&trial, &options);
        for (int run = 1; run <= 3; run++) {
            assert_ok(rbt_job_run(trial.job, push_or_compute, &trial));
            assert_int_equal(rbt_trial_value(&trial, 1), run);
            assert_true(rbt_trial_stats(&trial).seconds < run * 1.1);
        }
        rbt_trial_close(&trial);
    }
}

static void a_worker_that_crashed_is_back_in_the_next_run(void **state)
{
    (void)state;
    const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = "worker/1", .at = 0.5};
    struct rbt_trial trial;
    const struct rbt_trial_options options = walk(&fault, 1);
    rbt_trial_open(&trial, &options);
    trial.options.consistency = "ssp"; /* not all sums are whole: do not judge */
    for (int run = 1; run <= 2; run++) {
        const int64_t before = rbt_trial_value(&trial, 0);
        assert_ok(rbt_job_run(trial.job, rbt_trial_walk, &trial));
        const int64_t added = rbt_trial_value(&trial, 0) - before;
        assert_true(added >= 3 * 40 + 5); /* it has worked for half a second */
        assert_true(added <= 3 * 40 + 11);
    }
    rbt_trial_close(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_delays_a_computation_by_its_length),
        cmocka_unit_test(pauses_that_overlap_count_once),
        cmocka_unit_test(a_paused_server_answers_when_it_goes_on),
        cmocka_unit_test(a_crashed_server_has_missed_what_was_sent_to_it),
        cmocka_unit_test(a_slow_link_takes_its_factor_longer),
        cmocka_unit_test(nothing_is_lost_by_faults_that_pass),
        cmocka_unit_test(what_is_sent_across_a_partition_is_lost_and_sent_again),
        cmocka_unit_test(partitions_that_overlap_end_with_the_last),
        cmocka_unit_test(the_slower_of_two_slow_links_is_there_again_when_the_other_ends),
        cmocka_unit_test(what_is_in_a_queue_is_not_sent_again),
        cmocka_unit_test(a_run_begins_with_a_cluster_that_is_well),
        cmocka_unit_test(a_worker_that_crashed_is_back_in_the_next_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
