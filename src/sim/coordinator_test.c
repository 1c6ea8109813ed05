/* sim/coordinator_test.c - nodes that fall silent: who is suspected and given up, what that means
 * for the others, and that a coordinator in trouble takes nobody with it.
 *
 * A beat is sent every half second; two seconds of silence make a suspect, five a lost node. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "sim/trial.h"

/* What the observer was told. */
struct news {
    char text[512]; /* "worker/1 suspect, worker/1 down, " */
    double times[8];
    size_t count;
};

static void hear(void *context, double t, const char *node, const char *state)
{
    struct news *news = context;
    const size_t at = strlen(news->text);
    snprintf(news->text + at, sizeof news->text - at, "%s %s, ", node, state);
    if (news->count < 8) {
        news->times[news->count++] = t;
    }
}

/* 20 virtual seconds, 4 workers. */
static struct rbt_trial_options long_walk(const struct rbt_fault *fault, struct news *news)
{
    *news = (struct news){0};
    return (struct rbt_trial_options){.cluster = {.faults = fault,
                                                  .fault_count = fault == NULL ? 0 : 1,
                                                  .observer = {.context = news, .on_node = hear}},
                                      .workers = 4,
                                      .servers = 2,
                                      .rows = 10,
                                      .consistency = "ssp:2",
                                      .clocks = 40,
                                      .spends = 0.5};
}

static void nobody_is_suspected_in_a_cluster_that_is_well(void **state)
{
    (void)state;
    struct rbt_trial trial;
    struct news news;
    const struct rbt_trial_options options = long_walk(NULL, &news);
    rbt_trial_pass(&trial, &options);
    assert_string_equal(news.text, "");
    rbt_trial_close(&trial);
}

static void the_others_go_on_without_a_worker_that_crashed(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2"};
    for (size_t i = 0; i < 3; i++) {
        const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = "worker/1", .at = 5.2};
        struct rbt_trial trial;
        struct news news;
        struct rbt_trial_options options = long_walk(&fault, &news);
        options.consistency = consistencies[i];
        rbt_trial_open(&trial, &options);
        assert_ok(rbt_job_run(trial.job, rbt_trial_walk, &trial));
        assert_string_equal(news.text, "worker/1 suspect, worker/1 down, ");
        rbt_trial_near(news.times[0], 5.2 + 2, 0.6);
        rbt_trial_near(news.times[1], 5.2 + 5, 0.6);
        const int64_t value = rbt_trial_value(&trial, 3);
        assert_true(value >= 3 * 40 + 9); /* what it had sent is there */
        assert_true(value <= 3 * 40 + 11);
        assert_int_equal(rbt_trial_worker(&trial, 0).clocks, 40);
        assert_true(rbt_trial_worker(&trial, 1).clocks <= 11);
        rbt_trial_near(rbt_trial_stats(&trial).seconds, 20 + 5,
                       2);       /* they waited for it for a while */
        rbt_trial_close(&trial); /* and its fiber has freed what it held */
    }
}

/* The last worker of each process ends at once; the first one goes on. */
static rbt_status even_ones_walk(rbt_worker *worker, void *argument)
{
    return rbt_worker_index(worker) % 2 == 1 ? RBT_OK : rbt_trial_walk(worker, argument);
}

static void a_process_is_watched_until_its_last_worker_has_ended(void **state)
{
    (void)state;
    const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = "worker/0", .at = 5.2};
    struct rbt_trial trial;
    struct news news;
    struct rbt_trial_options options = long_walk(&fault, &news);
    options.cluster.threads = 2;
    rbt_trial_open(&trial, &options);
    assert_ok(rbt_job_run(trial.job, even_ones_walk, &trial));
    assert_string_equal(news.text, "worker/0 suspect, worker/0 down, ");
    assert_int_equal(rbt_trial_worker(&trial, 2).clocks, 40);
    rbt_trial_close(&trial);
}

static void all_workers_of_a_process_crash_with_it(void **state)
{
    (void)state;
    const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = "worker/0", .at = 5.2};
    struct rbt_trial trial;
    struct news news;
    struct rbt_trial_options options = long_walk(&fault, &news);
    options.cluster.threads = 3;
    rbt_trial_open(&trial, &options);
    assert_ok(rbt_job_run(trial.job, rbt_trial_walk, &trial));
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(rbt_trial_worker(&trial, i).clocks <= 11);
    }
    assert_int_equal(rbt_trial_worker(&trial, 3).clocks, 40);
    rbt_trial_close(&trial);
}

static void a_run_fails_when_a_server_is_lost(void **state)
{
    (void)state;
    const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = "server/1", .at = 3};
    struct rbt_trial trial;
    struct news news;
    const struct rbt_trial_options options = long_walk(&fault, &news);
    rbt_trial_open(&trial, &options);
    assert_int_equal(rbt_job_run(trial.job, rbt_trial_walk, &trial), RBT_E_CLOSED);
    assert_string_equal(rbt_last_error(),
                        "server/1 has been silent for too long, and nobody else has its rows");
    assert_string_equal(news.text, "server/1 suspect, server/1 down, ");
    rbt_trial_near(rbt_trial_stats(&trial).seconds, 3 + 5, 0.6);
    rbt_trial_close(&trial);
}

static void a_worker_that_was_given_up_is_refused_when_it_comes_back(void **state)
{
    (void)state;
    static const rbt_fault_kind kinds[] = {RBT_FAULT_PARTITION, RBT_FAULT_PAUSE, RBT_FAULT_CRASH};
    for (size_t i = 0; i < 3; i++) {
        const struct rbt_fault fault = {
            .kind = kinds[i], .node = "worker/2", .at = 5.2, .lasts = 9};
        struct rbt_trial trial;
        struct news news;
        const struct rbt_trial_options options = long_walk(&fault, &news);
        rbt_trial_open(&trial, &options);
        assert_ok(rbt_job_run(trial.job, rbt_trial_walk, &trial)); /* as if it had crashed */
        assert_true(rbt_trial_worker(&trial, 2).clocks < 40);
        assert_int_equal(rbt_trial_stats(&trial).nodes_lost, 1);
        assert_string_equal(news.text, "worker/2 suspect, worker/2 down, ");
        assert_int_equal(rbt_trial_worker(&trial, 0).clocks, 40); /* the others have finished */
        assert_int_equal(rbt_trial_worker(&trial, 3).clocks, 40);
        rbt_trial_close(&trial);
    }
}

static void a_suspect_that_is_heard_of_again_goes_on(void **state)
{
    (void)state;
    static const rbt_fault_kind kinds[] = {RBT_FAULT_PARTITION, RBT_FAULT_PAUSE, RBT_FAULT_CRASH};
    for (size_t i = 0; i < 6; i++) {
        const struct rbt_fault fault = {
            .kind = kinds[i % 3], .node = i < 3 ? "worker/2" : "server/0", .at = 5.2, .lasts = 3.5};
        struct rbt_trial trial;
        struct news news;
        char expected[64];
        const struct rbt_trial_options options = long_walk(&fault, &news);
        rbt_trial_pass(&trial, &options);
        snprintf(expected, sizeof expected, "%s suspect, %s up, ", fault.node, fault.node);
        assert_string_equal(news.text, expected);
        rbt_trial_close(&trial);
    }
}

/* One clock, and then it is over; worker 1's messages do not get through for a long time. */
static rbt_status push_once(rbt_worker *worker, void *argument)
{
    const struct rbt_trial *trial = argument;
    const int64_t one = 1;
    rbt_spend(worker, 1.0);
    const rbt_status st = rbt_add(worker, trial->table, 0, &one);
    return st != RBT_OK ? st : rbt_clock(worker);
}

static void a_worker_that_has_ended_is_waited_for_until_it_has_delivered(void **state)
{
    (void)state;
    const double lasts[] = {3, 30}; /* the second is more than the coordinator's patience */
    for (size_t i = 0; i < 2; i++) {
        const struct rbt_fault fault = {
            .kind = RBT_FAULT_PARTITION, .node = "worker/1", .at = 0.5, .lasts = lasts[i]};
        struct rbt_trial trial;
        struct news news;
        const struct rbt_trial_options options = long_walk(&fault, &news);
        rbt_trial_open(&trial, &options);
        assert_ok(rbt_job_run(trial.job, push_once, &trial));
        assert_int_equal(rbt_trial_value(&trial, 0), i == 0 ? 4 : 3);
        assert_int_equal(rbt_trial_stats(&trial).nodes_lost, i);
        rbt_trial_close(&trial);
    }
}

/* It has ended, but not all servers have heard of it. */
static void a_worker_that_crashes_before_it_has_delivered_is_given_up(void **state)
{
    (void)state;
    const struct rbt_fault faults[] = {
        {.kind = RBT_FAULT_PARTITION, .node = "server/1", .at = 0.5, .lasts = 3},
        {.kind = RBT_FAULT_CRASH, .node = "worker/1", .at = 1.5}};
    struct rbt_trial trial;
    struct news news;
    struct rbt_trial_options options = long_walk(faults, &news);
    options.cluster.fault_count = 2;
    rbt_trial_open(&trial, &options);
    assert_ok(rbt_job_run(trial.job, push_once, &trial));
    assert_int_equal(rbt_trial_stats(&trial).nodes_lost, 1);
    assert_true(rbt_trial_stats(&trial).seconds < 10);
    rbt_trial_close(&trial);
}

/* Whatever happens to it: for good, for longer than it would wait for others, and how. */
static void a_coordinator_in_trouble_changes_nothing(void **state)
{
    (void)state;
    static const struct rbt_fault faults[] = {
        {.kind = RBT_FAULT_CRASH, .node = "coordinator", .at = 1.2},
        {.kind = RBT_FAULT_CRASH, .node = "coordinator", .at = 1.2, .lasts = 9},
        {.kind = RBT_FAULT_PAUSE, .node = "coordinator", .at = 1.2, .lasts = 9},
        {.kind = RBT_FAULT_PARTITION, .node = "coordinator", .at = 1.2, .lasts = 9},
    };
    struct rbt_trial trial;
    struct news news;
    struct rbt_trial_options options = long_walk(NULL, &news);
    rbt_trial_pass(&trial, &options);
    const double undisturbed = rbt_trial_stats(&trial).seconds;
    rbt_trial_close(&trial);
    for (size_t i = 0; i < 4; i++) {
        options = long_walk(&faults[i], &news);
        rbt_trial_pass(&trial, &options);
        assert_string_equal(news.text, "");
        rbt_trial_near(rbt_trial_stats(&trial).seconds, undisturbed,
                       1e-4); /* beats take some room */
        rbt_trial_close(&trial);
    }
}

/* It comes back, and then does its work again. */
static void a_coordinator_that_was_away_still_finds_who_is_gone(void **state)
{
    (void)state;
    const struct rbt_fault faults[] = {
        {.kind = RBT_FAULT_CRASH, .node = "coordinator", .at = 1.2, .lasts = 9},
        {.kind = RBT_FAULT_CRASH, .node = "worker/1", .at = 5.2},
    };
    struct rbt_trial trial;
    struct news news;
    struct rbt_trial_options options = long_walk(faults, &news);
    options.cluster.fault_count = 2;
    rbt_trial_open(&trial, &options);
    assert_ok(rbt_job_run(trial.job, rbt_trial_walk, &trial));
    assert_string_equal(news.text, "worker/1 suspect, worker/1 down, ");
    rbt_trial_near(news.times[1], 1.2 + 9 + 5, 0.7);
    rbt_trial_close(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_suspected_in_a_cluster_that_is_well),
        cmocka_unit_test(the_others_go_on_without_a_worker_that_crashed),
        cmocka_unit_test(a_process_is_watched_until_its_last_worker_has_ended),
        cmocka_unit_test(all_workers_of_a_process_crash_with_it),
        cmocka_unit_test(a_run_fails_when_a_server_is_lost),
        cmocka_unit_test(a_worker_that_was_given_up_is_refused_when_it_comes_back),
        cmocka_unit_test(a_suspect_that_is_heard_of_again_goes_on),
        cmocka_unit_test(a_worker_that_has_ended_is_waited_for_until_it_has_delivered),
        cmocka_unit_test(a_worker_that_crashes_before_it_has_delivered_is_given_up),
        cmocka_unit_test(a_coordinator_in_trouble_changes_nothing),
        cmocka_unit_test(a_coordinator_that_was_away_still_finds_who_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
