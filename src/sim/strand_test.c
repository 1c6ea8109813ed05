/* sim/strand_test.c - what becomes of a worker's time: computing, messages, waiting for others.
 *
 * Where times are exact a byte takes a nanosecond, and the expectation is computed here from the
 * model: latency, bytes and the receiver's processor, once there and once back. */
#include "base/test.h"

#include <math.h>

#include "sim/inspect.h"
#include "sim/trial.h"

#define LATENCY 1e-3
#define BYTE    1e-9 /* at 1e9 bytes per second */
#define SLACK   1e-9 /* times are whole nanoseconds */

#define FIRST (4 * LATENCY) /* a connection is made at its first use, and both sides say hello */
#define SOME  1e-4          /* messages have some bytes, and cost their receivers something */

enum { VALUE = 8 };

static const struct rbt_simulation_options plain = {.bandwidth = 1e9, .latency = LATENCY};

/* --- Exact times ----------------------------------------------------------------------------- */

static rbt_status spend_twice(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    rbt_worker_spend(worker, 0.01);
    trial->first_pull_seconds = rbt_worker_seconds(worker);
    rbt_worker_spend(worker, 0.005);
    rbt_worker_spend(worker, 0);
    rbt_worker_spend(worker, -1);
    trial->ended_seconds[0] = rbt_worker_seconds(worker);
    return RBT_OK;
}

static void computing_takes_as_long_as_it_is_said_to(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.cluster = plain});
    assert_ok(rbt_job_run(trial.job, spend_twice, &trial));
    rbt_trial_near(trial.first_pull_seconds, 0.01, SLACK);
    rbt_trial_near(trial.ended_seconds[0], 0.015, SLACK);
    rbt_trial_near(rbt_trial_worker(&trial, 0).compute_seconds, 0.015, SLACK);
    /* Then the server is told, and says that it has heard: on a new connection. */
    rbt_trial_near(rbt_trial_stats(&trial).seconds, 0.015 + FIRST + 2 * LATENCY, SOME);
    rbt_trial_close(&trial);
}

static void a_pull_takes_two_latencies_and_the_first_one_those_of_its_connection(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &(struct rbt_trial_options){.cluster = plain, .rows = 10, .clocks = 2});
    rbt_trial_near(trial.first_pull_seconds, FIRST + 2 * LATENCY, SOME);
    rbt_trial_near(trial.last_pull_seconds, 2 * LATENCY, SOME);
    assert_true(trial.last_pull_seconds > 2 * LATENCY);
    rbt_trial_near(rbt_trial_worker(&trial, 0).wait_seconds, 0, 0);
    rbt_trial_close(&trial);
}

static void pulls_from_several_servers_overlap(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_pass(&trial,
                   &(struct rbt_trial_options){
                       .cluster = plain, .servers = 8, .rows = 800, .width = 4, .clocks = 1});
    /* The ways there and back are gone at once. */
    assert_true(trial.first_pull_seconds > FIRST + 2 * LATENCY);
    assert_true(trial.first_pull_seconds < FIRST + 3 * LATENCY);
    rbt_trial_close(&trial);
}

static rbt_status only_push(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    const int64_t one = 1;
    rbt_status st = RBT_OK;
    for (int64_t i = 0; st == RBT_OK && i < trial->options.clocks; i++) {
        st = rbt_add(worker, trial->table, 0, &one);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    trial->ended_seconds[0] = rbt_worker_seconds(worker);
    return st;
}

static void pushes_do_not_wait(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.cluster = {.latency = 1.0}, .clocks = 500});
    assert_ok(rbt_job_run(trial.job, only_push, &trial));
    rbt_trial_near(trial.ended_seconds[0], 4.0, 0.001); /* only for its connection */
    assert_int_equal(rbt_trial_value(&trial, 0), 500);  /* they have arrived all the same */
    rbt_trial_near(rbt_trial_stats(&trial).seconds, 4.0 + 2.0, 0.1);
    rbt_trial_close(&trial);
}

static void workers_of_one_process_share_its_links(void **state)
{
    (void)state;
    struct rbt_trial trial;
    double seconds[2] = {0}; /* until rows and updates had come, latencies aside */
    for (uint32_t i = 0; i < 2; i++) {
        struct rbt_simulation_options cluster = plain;
        cluster.threads = i == 0 ? 1 : 4;
        rbt_trial_pass(&trial, &(struct rbt_trial_options){.cluster = cluster,
                                                           .workers = 4,
                                                           .servers = 4,
                                                           .rows = 1000,
                                                           .width = 64,
                                                           .consistency = "asp",
                                                           .clocks = 1});
        for (uint32_t k = 0; k < 4; k++) {
            seconds[i] = fmax(seconds[i],
                              rbt_trial_worker(&trial, k).transmit_seconds - FIRST - 4 * LATENCY);
        }
        rbt_trial_close(&trial);
    }
    const double answers = 4 * 1000 * 64 * VALUE * BYTE; /* of four workers */
    assert_true(seconds[1] > answers);                   /* through one link */
    assert_true(seconds[0] < answers / 2);
}

/* --- Slow workers ---------------------------------------------------------------------------- */

static void exactly_the_share_of_workers_is_slow(void **state)
{
    (void)state;
    static const struct {
        double share;
        uint32_t count;
    } cases[] = {{0, 0}, {0.04, 0}, {0.05, 1}, {0.3, 3}, {0.32, 3}, {0.35, 4}, {1, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rbt_trial trial;
        uint32_t slow = 0;
        rbt_trial_open(
            &trial,
            &(struct rbt_trial_options){
                .cluster = {.seed = i, .straggler_share = cases[i].share, .straggler_factor = 2.5},
                .workers = 10});
        for (uint32_t k = 0; k < 10; k++) {
            const double factor = rbt_trial_worker(&trial, k).factor;
            assert_true(factor == 1.0 || factor == 2.5);
            slow += factor == 2.5;
        }
        assert_int_equal(slow, cases[i].count);
        rbt_trial_close(&trial);
    }
}

static void factors_can_be_drawn_between_two(void **state)
{
    (void)state;
    struct rbt_trial trial;
    double low = 10;
    double high = 0;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.cluster = {.straggler_share = 1,
                                                                   .straggler_factor = 1,
                                                                   .straggler_factor_max = 4},
                                                       .workers = 100});
    for (uint32_t i = 0; i < 100; i++) {
        const double factor = rbt_trial_worker(&trial, i).factor;
        low = factor < low ? factor : low;
        high = factor > high ? factor : high;
    }
    /* All of 100 in the upper or lower nine tenths: less than once in 10000 seeds. */
    assert_true(low >= 1 && low < 1.3);
    assert_true(high <= 4 && high > 3.7);
    rbt_trial_close(&trial);
}

static void slowdowns_happen_in_their_share_of_clocks(void **state)
{
    (void)state;
    static const double chances[] = {1.0, 0.25};
    for (size_t i = 0; i < 2; i++) {
        struct rbt_trial trial;
        rbt_trial_pass(&trial, &(struct rbt_trial_options){
                                   .cluster = {.slowdown_chance = chances[i], .slowdown_factor = 3},
                                   .workers = 10,
                                   .consistency = "asp",
                                   .clocks = 200,
                                   .spends = 0.01});
        /* 2000 draws: the deviation of the mean factor is 0.02; four of them. */
        const double mean = rbt_trial_stats(&trial).compute_seconds / (0.01 * 2000);
        rbt_trial_near(mean, 1 + 2 * chances[i], chances[i] == 1.0 ? 1e-6 : 0.08);
        rbt_trial_close(&trial);
    }
}

/* HL = (computing + transmitting) of the slowest over that of the fastest, per clock. */
static void the_measured_heterogeneity_is_the_injected_one(void **state)
{
    (void)state;
    static const double factors[] = {1.5, 2, 4};
    for (size_t i = 0; i < 3; i++) {
        struct rbt_trial trial;
        double low = 1e9;
        double high = 0;
        rbt_trial_pass(&trial,
                       &(struct rbt_trial_options){
                           .cluster = {.straggler_share = 0.2, .straggler_factor = factors[i]},
                           .workers = 10,
                           .servers = 2,
                           .consistency = "ssp:3",
                           .clocks = 30,
                           .spends = 0.01});
        for (uint32_t k = 0; k < 10; k++) {
            const struct rbt_simulation_worker w = rbt_trial_worker(&trial, k);
            const double per_clock = (w.compute_seconds + w.transmit_seconds) / (double)w.clocks;
            low = per_clock < low ? per_clock : low;
            high = per_clock > high ? per_clock : high;
        }
        rbt_trial_near(high / low, factors[i], 0.05 * factors[i]);
        rbt_trial_close(&trial);
    }
}

/* For every worker and under everything that can delay it. */
static void the_parts_of_a_workers_time_are_all_of_it(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2", "asp"};
    for (size_t i = 0; i < 4; i++) {
        struct rbt_trial trial;
        rbt_trial_pass(&trial, &(struct rbt_trial_options){.cluster = {.seed = i,
                                                                       .jitter = 1e-3,
                                                                       .loss = 0.01,
                                                                       .slowdown_chance = 0.3,
                                                                       .slowdown_factor = 5},
                                                           .workers = 8,
                                                           .servers = 3,
                                                           .rows = 40,
                                                           .consistency = consistencies[i],
                                                           .clocks = 40,
                                                           .spends = 0.002});
        for (uint32_t k = 0; k < 8; k++) {
            const struct rbt_simulation_worker w = rbt_trial_worker(&trial, k);
            const double sum =
                w.compute_seconds + w.transmit_seconds + w.wait_seconds + w.idle_seconds;
            rbt_trial_near(sum, rbt_trial_stats(&trial).seconds, 1e-6);
        }
        rbt_trial_close(&trial);
    }
}

/* Virtual time of 20 clocks in which computing dominates. */
static double time_of_stragglers(double share)
{
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &(struct rbt_trial_options){
                               .cluster = {.straggler_share = share, .straggler_factor = 2},
                               .workers = 30,
                               .servers = 5,
                               .rows = 50,
                               .clocks = 20,
                               .spends = 0.05});
    const double seconds = rbt_trial_stats(&trial).seconds;
    rbt_trial_close(&trial);
    return seconds;
}

static void bsp_is_as_slow_as_its_slowest_worker(void **state)
{
    (void)state;
    const double ratio = time_of_stragglers(0.2) / time_of_stragglers(0);
    assert_true(ratio >= 1.9);
    assert_true(ratio <= 2.1);
}

static double waiting_under(const char *consistency)
{
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &(struct rbt_trial_options){
                               .cluster = {.slowdown_chance = 0.2, .slowdown_factor = 2},
                               .workers = 30,
                               .servers = 5,
                               .consistency = consistency,
                               .clocks = 40,
                               .spends = 0.05});
    const double seconds = rbt_trial_stats(&trial).wait_seconds;
    rbt_trial_close(&trial);
    return seconds;
}

static void staleness_lets_workers_wait_less(void **state)
{
    (void)state;
    const double bsp = waiting_under("bsp");
    assert_true(bsp > 0);
    assert_true(waiting_under("ssp:3") <= bsp / 3);
    assert_true(waiting_under("essp:3") <= bsp / 3);
    assert_true(waiting_under("ssp:6") <= waiting_under("ssp:3"));
    assert_true(waiting_under("asp") == 0);
}

/* --- Rows sent ahead ------------------------------------------------------------------------- */

static struct rbt_trial_options eager(const char *consistency)
{
    return (struct rbt_trial_options){.workers = 8,
                                      .servers = 2,
                                      .rows = 20,
                                      .consistency = consistency,
                                      .clocks = 60,
                                      .spends = 0.01};
}

static void eager_reads_find_their_rows_there(void **state)
{
    (void)state;
    struct rbt_trial trial;
    struct rbt_trial_options options = eager("essp:2");
    rbt_trial_pass(&trial, &options);
    for (uint32_t i = 0; i < 8; i++) { /* only the first read has to go and get them */
        assert_true(rbt_trial_worker(&trial, i).transmit_seconds < 2 * trial.first_pull_seconds);
        assert_true(rbt_trial_worker(&trial, i).wait_seconds == 0);
    }
    assert_true(trial.last_pull_seconds == 0);
    rbt_trial_close(&trial);
    options = eager("ssp:2"); /* these do go */
    rbt_trial_pass(&trial, &options);
    assert_true(rbt_trial_worker(&trial, 0).transmit_seconds > 10 * trial.first_pull_seconds);
    rbt_trial_close(&trial);
}

/* Whatever the bound, a read is about one clock behind, if a sync takes less than a clock. */
static void eager_reads_are_one_clock_behind(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"essp:2", "essp:5", "essp:10"};
    for (size_t i = 0; i < 3; i++) {
        struct rbt_trial trial;
        struct rbt_trial_options options = eager(consistencies[i]);
        options.cluster.jitter = 1e-3;
        rbt_trial_pass(&trial, &options);
        int64_t reads = 0;
        for (int lag = 0; lag < RBT_TRIAL_LAGS; lag++) {
            reads += trial.lags[lag];
            assert_true(trial.lags[lag] <= trial.lags[1]);
        }
        assert_int_equal(reads, 8 * 60);
        const int64_t fresh = trial.lags[0] + trial.lags[1] + trial.lags[2];
        assert_true(100 * fresh >= 95 * reads);
        rbt_trial_close(&trial);
    }
}

/* Deliveries, by what they are. */
struct tally {
    int64_t pulls;
    int64_t rows;
    int64_t rows_late; /* after `since` */
    rbt_time since;
};

static bool count_delivery(void *context, rbt_simulation *simulation)
{
    struct tally *tally = context;
    struct rbt_inspect_event event;
    rbt_inspect_event(simulation, &event);
    tally->pulls += strcmp(event.message, "pull") == 0;
    tally->rows += strcmp(event.message, "rows") == 0;
    tally->rows_late += strcmp(event.message, "rows") == 0 && event.at > tally->since;
    return true;
}

/* Reads for 10 clocks, and not any more for 50. */
static rbt_status read_then_push(rbt_worker *worker, void *argument)
{
    const struct rbt_trial *trial = argument;
    const int64_t one = 1;
    rbt_status st = RBT_OK;
    for (int64_t clock = 0; st == RBT_OK && clock < 60; clock++) {
        int64_t value = 0;
        st = clock < 10 ? rbt_get(worker, trial->table, 5, &value) : RBT_OK;
        st = st != RBT_OK ? st : rbt_add(worker, trial->table, 5, &one);
        rbt_worker_spend(worker, 0.01);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    return st;
}

static void rows_that_nobody_reads_any_more_are_not_sent(void **state)
{
    (void)state;
    struct rbt_trial trial;
    struct tally tally = {.since = 150000000}; /* 0.15 s: clock 15 */
    struct rbt_trial_options options = eager("essp:2");
    options.cluster.observer =
        (struct rbt_simulation_observer){.context = &tally, .on_event = count_delivery};
    rbt_trial_open(&trial, &options);
    assert_ok(rbt_job_run(trial.job, read_then_push, &trial));
    assert_true(tally.rows >= 8 * 9); /* as long as they were read */
    assert_int_equal(tally.rows_late, 0);
    rbt_trial_close(&trial);
}

/* A row that nobody modifies stays fresh; it is asked for once a clock, not again and again.
 */
static void a_row_that_does_not_change_is_not_fetched_in_a_storm(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:1", "essp:1"};
    for (size_t i = 0; i < 3; i++) {
        struct rbt_trial trial;
        struct tally tally = {0};
        struct rbt_trial_options options = eager(consistencies[i]);
        options.is_reading = true;
        options.cluster.observer =
            (struct rbt_simulation_observer){.context = &tally, .on_event = count_delivery};
        rbt_trial_pass(&trial, &options);
        assert_true(tally.pulls >= 8 * 2);
        assert_true(tally.pulls <= 8 * 2 * (60 + 1)); /* workers, servers, clocks */
        assert_true(rbt_trial_stats(&trial).resent == 0);
        rbt_trial_close(&trial);
    }
}

/* --- Tickets --------------------------------------------------------------------------------- */

static const uint64_t three_keys[3] = {1, 2, 3};

/* Asks for rows, computes while they are under way, and waits for them: first for longer than they
 * take, then for less. How long each took is in first_pull_seconds and last_pull_seconds. */
static rbt_status prefetch(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, trial->table, three_keys, 3, RBT_SET_DELTAS, &set);
    st = st != RBT_OK ? st : rbt_set_pull(set); /* connects */
    for (int i = 0; st == RBT_OK && i < 2; i++) {
        rbt_ticket ticket = 0;
        st = rbt_clock(worker); /* the rows are too old now */
        const double began = rbt_worker_seconds(worker);
        st = st != RBT_OK ? st : rbt_set_pull_async(set, NULL, &ticket);
        rbt_worker_spend(worker, i == 0 ? 10 * LATENCY : LATENCY);
        st = st != RBT_OK ? st : rbt_ticket_wait(worker, ticket);
        *(i == 0 ? &trial->first_pull_seconds : &trial->last_pull_seconds) =
            rbt_worker_seconds(worker) - began;
    }
    rbt_set_destroy(set);
    return st;
}

static void rows_come_while_a_worker_computes(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.cluster = plain});
    assert_ok(rbt_job_run(trial.job, prefetch, &trial));
    rbt_trial_near(trial.first_pull_seconds, 10 * LATENCY, SOME); /* not 12 */
    rbt_trial_near(trial.last_pull_seconds, 2 * LATENCY, SOME);   /* not 3 */
    rbt_trial_close(&trial);
}

/* Worker 1 is a second late; worker 0 asks again and again whether it may read. */
static rbt_status poll_for_rows(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    rbt_set *set = NULL;
    rbt_ticket ticket = 0;
    rbt_worker_spend(worker, rbt_worker_index(worker) == 1 ? 1.0 : 0.0);
    rbt_status st = rbt_set_create(worker, trial->table, three_keys, 3, RBT_SET_DELTAS, &set);
    if (st == RBT_OK) {
        ((int64_t *)rbt_set_deltas(set))[1] = 10;
        st = rbt_set_push_async(set, NULL, &ticket);
    }
    st = st != RBT_OK ? st : rbt_ticket_wait(worker, ticket);
    st = st != RBT_OK ? st : rbt_clock(worker);
    if (st == RBT_OK && rbt_worker_index(worker) == 0) {
        st = rbt_set_pull_async(set, NULL, &ticket);
        while (st == RBT_OK && !rbt_ticket_is_finished(worker, ticket)) {
            trial->lags[0]++;
        }
        st = st != RBT_OK ? st : rbt_ticket_wait(worker, ticket);
        trial->lags[1] = ((const int64_t *)rbt_set_values(set))[1];
        trial->ended_seconds[0] = rbt_worker_seconds(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static void looking_again_and_again_lets_time_pass(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial,
                   &(struct rbt_trial_options){.cluster = plain, .workers = 2, .servers = 2});
    assert_ok(rbt_job_run(trial.job, poll_for_rows, &trial));
    assert_true(trial.lags[0] > 0);
    assert_int_equal(trial.lags[1], 20); /* of both workers */
    assert_true(trial.ended_seconds[0] > 1.0);
    rbt_trial_near(trial.ended_seconds[0], 1.0, 20 * LATENCY);
    for (uint32_t i = 0; i < 2; i++) {
        const struct rbt_simulation_worker w = rbt_trial_worker(&trial, i);
        rbt_trial_near(w.compute_seconds + w.transmit_seconds + w.wait_seconds + w.idle_seconds,
                       rbt_trial_stats(&trial).seconds, 1e-6);
    }
    rbt_trial_close(&trial);
}

/* Two pulls and a push that must come after both. */
static rbt_status chain(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    rbt_set *set = NULL;
    rbt_set *other = NULL;
    rbt_ticket tickets[3] = {0};
    const struct rbt_after after = {.tickets = tickets, .count = 2};
    rbt_status st = rbt_set_create(worker, trial->table, three_keys, 3, RBT_SET_DELTAS, &set);
    st = st != RBT_OK ? st
                      : rbt_set_create(worker, trial->table, three_keys, 2, RBT_SET_DELTAS, &other);
    for (int clock = 0; st == RBT_OK && clock < 5; clock++) {
        st = rbt_set_pull_async(set, NULL, &tickets[0]);
        st = st != RBT_OK ? st : rbt_set_pull_async(other, NULL, &tickets[1]);
        ((int64_t *)rbt_set_deltas(set))[0] = 1;
        st = st != RBT_OK ? st : rbt_set_push_async(set, &after, &tickets[2]);
        st = st != RBT_OK ? st : rbt_ticket_wait_through(worker, tickets[2]);
        trial->wrong_reads += ((const int64_t *)rbt_set_values(set))[0] != clock * 3;
        trial->wrong_reads += ((const int64_t *)rbt_set_values(other))[0] != clock * 3;
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(other);
    rbt_set_destroy(set);
    return st;
}

static void tickets_work_as_on_threads(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.workers = 3, .servers = 2});
    assert_ok(rbt_job_run(trial.job, chain, &trial));
    assert_int_equal(trial.wrong_reads, 0);
    assert_int_equal(rbt_trial_value(&trial, 1), 15);
    rbt_trial_close(&trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computing_takes_as_long_as_it_is_said_to),
        cmocka_unit_test(a_pull_takes_two_latencies_and_the_first_one_those_of_its_connection),
        cmocka_unit_test(pulls_from_several_servers_overlap),
        cmocka_unit_test(pushes_do_not_wait),
        cmocka_unit_test(workers_of_one_process_share_its_links),
        cmocka_unit_test(exactly_the_share_of_workers_is_slow),
        cmocka_unit_test(factors_can_be_drawn_between_two),
        cmocka_unit_test(slowdowns_happen_in_their_share_of_clocks),
        cmocka_unit_test(the_measured_heterogeneity_is_the_injected_one),
        cmocka_unit_test(the_parts_of_a_workers_time_are_all_of_it),
        cmocka_unit_test(bsp_is_as_slow_as_its_slowest_worker),
        cmocka_unit_test(staleness_lets_workers_wait_less),
        cmocka_unit_test(eager_reads_find_their_rows_there),
        cmocka_unit_test(eager_reads_are_one_clock_behind),
        cmocka_unit_test(rows_that_nobody_reads_any_more_are_not_sent),
        cmocka_unit_test(a_row_that_does_not_change_is_not_fetched_in_a_storm),
        cmocka_unit_test(rows_come_while_a_worker_computes),
        cmocka_unit_test(looking_again_and_again_lets_time_pass),
        cmocka_unit_test(tickets_work_as_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
