/* sim/engine_test.c - whole runs: workers that fail, runs that are ended, memory that runs out,
 * measured time. Run it under the thread sanitizer as well: it must be told of every fiber. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sim/engine.h"
#include "sim/inspect.h"
#include "sim/trial.h"
#include "wire/frame.h"

/* --- Workers that fail ----------------------------------------------------------------------- */

/* Workers 1 and 2 fail after some clocks. */
static rbt_status walk_or_fail(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    const uint32_t index = rbt_worker_index(worker);
    if (index != 1 && index != 2) {
        return rbt_trial_walk(worker, argument);
    }
    const int64_t one = 1;
    rbt_status st = RBT_OK;
    for (int clock = 0; st == RBT_OK && clock < 4; clock++) {
        st = rbt_add(worker, trial->table, 0, &one);
        rbt_worker_spend(worker,
                         0.01 / index); /* the second fails first, but is not the one to tell */
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    st = st != RBT_OK ? st : rbt_add(worker, trial->table, 0, &one); /* is dropped */
    return st != RBT_OK ? st : rbt_fail(RBT_E_INVALID, "worker %u has had enough", index);
}

static void a_failure_comes_out_of_the_run_and_the_others_finish(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(
        &trial,
        &(struct rbt_trial_options){
            .workers = 4, .servers = 2, .consistency = "ssp:1", .clocks = 20, .spends = 0.01});
    assert_int_equal(rbt_job_run(trial.job, walk_or_fail, &trial), RBT_E_INVALID);
    assert_string_equal(rbt_last_error(), "worker 1 has had enough");
    assert_int_equal(rbt_trial_worker(&trial, 0).clocks, 20);
    assert_int_equal(rbt_trial_worker(&trial, 3).clocks, 20);
    assert_int_equal(rbt_trial_value(&trial, 0), 2 * 20 + 2 * 4);
    trial.options.clocks = 2;
    assert_ok(rbt_job_run(trial.job, rbt_trial_walk, &trial)); /* the job is as good as before */
    rbt_trial_close(&trial);
}

static void a_failure_is_told_even_if_the_process_crashes_later(void **state)
{
    (void)state;
    const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = "worker/1", .at = 0.1};
    struct rbt_trial trial;
    rbt_trial_open(&trial,
                   &(struct rbt_trial_options){.cluster = {.faults = &fault, .fault_count = 1},
                                               .workers = 4,
                                               .consistency = "ssp:1",
                                               .clocks = 20,
                                               .spends = 0.01});
    assert_int_equal(rbt_job_run(trial.job, walk_or_fail, &trial), RBT_E_INVALID);
    assert_string_equal(rbt_last_error(), "worker 1 has had enough");
    rbt_trial_close(&trial);
}

/* --- Runs that are ended --------------------------------------------------------------------- */

struct counter {
    uint64_t events;
    uint64_t events_max;
    rbt_time at; /* of the last event */
    bool is_ordered;
};

static bool count_event(void *context, rbt_simulation *simulation)
{
    struct counter *counter = context;
    struct rbt_inspect_event event;
    rbt_inspect_event(simulation, &event);
    counter->is_ordered = counter->is_ordered && event.at >= counter->at;
    counter->at = event.at;
    return ++counter->events < counter->events_max;
}

static void the_observer_sees_every_event_in_order_of_time(void **state)
{
    (void)state;
    struct counter counter = {.events_max = UINT64_MAX, .is_ordered = true};
    struct rbt_trial trial;
    rbt_trial_pass(
        &trial,
        &(struct rbt_trial_options){
            .cluster = {.jitter = 0.01, .observer = {.context = &counter, .on_event = count_event}},
            .workers = 3,
            .clocks = 10});
    assert_int_equal(counter.events, rbt_trial_stats(&trial).events);
    assert_true(counter.is_ordered);
    rbt_trial_close(&trial);
}

/* --- Messages that are shown ----------------------------------------------------------------- */

struct shown {
    uint64_t frames[RBT_INSPECT_ROUTES];
    uint64_t bytes;
};

static void count_frame(void *context, const struct rbt_inspect_frame *frame)
{
    struct shown *shown = context;
    struct rbt_frame head;
    assert_ok(rbt_frame_get(frame->bytes, RBT_FRAME_BODY_MAX, &head));
    assert_int_equal(head.length + RBT_FRAME_HEADER, frame->size);
    const bool is_control = head.kind >= RBT_FRAME_JOIN;
    const bool is_to_control =
        frame->route == RBT_INSPECT_TO_COORDINATOR || frame->route == RBT_INSPECT_TO_MEMBER;
    assert_int_equal(is_control, is_to_control);
    assert_true(head.kind != RBT_FRAME_PUSH || frame->route == RBT_INSPECT_TO_SERVER);
    assert_true(head.kind != RBT_FRAME_ROWS || frame->route == RBT_INSPECT_TO_WORKER);
    assert_true(head.kind != RBT_FRAME_PLAN || frame->route == RBT_INSPECT_TO_MEMBER);
    assert_true(head.kind != RBT_FRAME_PUSH || strcmp(frame->message, "push") == 0);
    assert_non_null(frame->receiver);
    shown->frames[frame->route]++;
    shown->bytes += frame->size;
}

/* From the first JOIN on, and as they are heard. */
static void every_message_is_shown_to_whoever_looks(void **state)
{
    (void)state;
    struct shown shown = {0};
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &(struct rbt_trial_options){
                               .workers = 3,
                               .servers = 2,
                               .clocks = 10,
                               .frames = {.context = &shown, .on_frame = count_frame}});
    uint64_t frames = 0;
    for (int i = 0; i < RBT_INSPECT_ROUTES; i++) {
        assert_true(shown.frames[i] > 0);
        frames += shown.frames[i];
    }
    assert_int_equal(frames, rbt_trial_stats(&trial).messages);
    assert_int_equal(shown.bytes, rbt_trial_stats(&trial).bytes);
    rbt_trial_close(&trial);
}

static void the_observer_can_end_the_run_at_any_event(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "essp:1"};
    for (uint64_t i = 0; i < 200; i++) {
        struct counter counter = {.events_max = 1 + i};
        struct rbt_trial trial;
        rbt_trial_open(&trial,
                       &(struct rbt_trial_options){
                           .cluster = {.loss = 0.01,
                                       .observer = {.context = &counter, .on_event = count_event}},
                           .workers = 3,
                           .servers = 2,
                           .consistency = consistencies[i % 2],
                           .clocks = 20,
                           .spends = 0.001});
        assert_int_equal(rbt_job_run(trial.job, rbt_trial_walk, &trial), RBT_E_CLOSED);
        assert_int_equal(counter.events, 1 + i);
        rbt_trial_close(&trial);
    }
}

/* The observer's word is final, as the loss of a process is. */
static void a_cluster_that_was_ended_stays_ended(void **state)
{
    (void)state;
    struct counter counter = {.events_max = 20};
    struct rbt_trial trial;
    rbt_trial_open(&trial,
                   &(struct rbt_trial_options){
                       .cluster = {.observer = {.context = &counter, .on_event = count_event}},
                       .workers = 3,
                       .consistency = "ssp:1",
                       .clocks = 20});
    assert_int_equal(rbt_job_run(trial.job, rbt_trial_walk, &trial), RBT_E_CLOSED);
    counter.events_max = UINT64_MAX;
    assert_int_equal(rbt_job_run(trial.job, rbt_trial_walk, &trial), RBT_E_CLOSED);
    rbt_trial_close(&trial);
}

/* --- Processes that are lost ----------------------------------------------------------------- */

/* 20 virtual seconds, 4 workers. */
static struct rbt_trial_options long_walk(const struct rbt_fault *fault)
{
    return (struct rbt_trial_options){.cluster = {.faults = fault, .fault_count = 1},
                                      .workers = 4,
                                      .servers = 2,
                                      .rows = 10,
                                      .consistency = "ssp:2",
                                      .clocks = 40,
                                      .spends = 0.5};
}

struct losses {
    uint32_t count;
    double at; /* of the last one; which is: */
    char node[32];
    char state[8];
};

static void note_loss(void *context, double t, const char *node, const char *state)
{
    struct losses *losses = context;
    losses->count++;
    losses->at = t;
    snprintf(losses->node, sizeof losses->node, "%s", node);
    snprintf(losses->state, sizeof losses->state, "%s", state);
}

static void losses_are_counted_and_told(void **state)
{
    (void)state;
    static const char *const nodes[] = {"worker/1", "server/1", "coordinator"};
    for (size_t i = 0; i < 3; i++) {
        const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = nodes[i], .at = 5.2};
        struct losses losses = {0};
        struct rbt_trial trial;
        struct rbt_trial_options options = long_walk(&fault);
        options.cluster.observer =
            (struct rbt_simulation_observer){.context = &losses, .on_node = note_loss};
        rbt_trial_open(&trial, &options);
        assert_int_equal(rbt_job_run(trial.job, rbt_trial_walk, &trial), RBT_E_CLOSED);
        const uint32_t count = i < 2 ? 1 : 0; /* nobody is left to give the coordinator up */
        assert_int_equal(losses.count, count);
        assert_int_equal(rbt_trial_stats(&trial).nodes_lost, count);
        assert_string_equal(losses.node, count == 0 ? "" : nodes[i]);
        assert_string_equal(losses.state, count == 0 ? "" : "down");
        if (count > 0) {
            rbt_trial_near(losses.at, 5.2 + 3, 0.1); /* so long it may be without a connection */
        }
        rbt_trial_close(&trial);
    }
}

static void what_is_sent_again_is_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct rbt_trial trial;
        rbt_trial_pass(&trial, &(struct rbt_trial_options){
                                   .cluster = {.latency = 0.01, .cuts = i == 0 ? 0 : 5},
                                   .workers = 4,
                                   .servers = 2,
                                   .rows = 10,
                                   .clocks = 20});
        assert_true((rbt_trial_stats(&trial).resent > 0) == (i == 1));
        assert_int_equal(rbt_trial_stats(&trial).nodes_lost, 0);
        rbt_trial_close(&trial);
    }
}

static void a_job_ends_when_it_has_lost_a_process_and_says_which(void **state)
{
    (void)state;
    static const rbt_fault_kind kinds[] = {RBT_FAULT_CRASH, RBT_FAULT_PARTITION};
    static const char *const nodes[] = {"worker/1", "server/1", "coordinator"};
    for (size_t i = 0; i < 6; i++) {
        const struct rbt_fault fault = {
            .kind = kinds[i / 3], .node = nodes[i % 3], .at = 5.2, .lasts = i < 3 ? 0 : 1000};
        struct rbt_trial trial;
        const struct rbt_trial_options options = long_walk(&fault);
        rbt_trial_open(&trial, &options);
        assert_int_equal(rbt_job_run(trial.job, rbt_trial_walk, &trial), RBT_E_CLOSED);
        if (strstr(rbt_last_error(), fault.node) == NULL) {
            fail_msg("%s is lost: %s", fault.node, rbt_last_error());
        }
        assert_true(rbt_trial_stats(&trial).seconds > 5.2);
        assert_true(rbt_trial_stats(&trial).seconds < 5.2 + 30);
        assert_true(rbt_trial_worker(&trial, 0).clocks < 40);
        rbt_trial_close(&trial); /* fibers have freed what they held */
    }
}

static void a_short_pause_partition_or_cut_changes_nothing(void **state)
{
    (void)state;
    static const rbt_fault_kind kinds[] = {RBT_FAULT_PAUSE, RBT_FAULT_PARTITION, RBT_FAULT_CUT};
    static const char *const nodes[] = {"worker/1", "server/1", "coordinator"};
    for (size_t i = 0; i < 9; i++) {
        const struct rbt_fault fault = {
            .kind = kinds[i / 3], .node = nodes[i % 3], .at = 5.2, .lasts = 1.5};
        struct rbt_trial trial;
        const struct rbt_trial_options options = long_walk(&fault);
        rbt_trial_pass(&trial, &options);
        assert_int_equal(rbt_trial_worker(&trial, 1).clocks, 40);
        rbt_trial_close(&trial);
    }
}

static rbt_status spend_long(rbt_worker *worker, void *argument)
{
    rbt_worker_spend(worker, 20000);
    return rbt_worker_seconds(worker) >= 20000 ? rbt_trial_walk(worker, argument) : RBT_E_PROTOCOL;
}

static void whoever_computes_for_hours_is_not_stuck(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.workers = 2, .clocks = 2});
    assert_ok(rbt_job_run(trial.job, spend_long, &trial));
    assert_true(rbt_trial_stats(&trial).seconds > 20000);
    rbt_trial_close(&trial);
}

static bool has_failed(const void *awaited)
{
    const struct rbt_process_node *process = awaited;
    return process->member.party.engine->status != RBT_OK;
}

/* Worker 1 waits for what never comes, and the others, in the end, for it. */
static rbt_status wait_in_vain(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    rbt_engine *engine = trial->simulation->engine;
    if (rbt_worker_index(worker) == 1) {
        rbt_strand_await(engine, has_failed, &engine->processes[1]);
    }
    return rbt_trial_walk(worker, argument);
}

static void who_waits_in_vain_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const double patience = i == 0 ? 3600 : 3600 + 1000 * 0.25;
        char sentence[80];
        struct rbt_trial trial;
        rbt_trial_open(
            &trial,
            &(struct rbt_trial_options){
                .cluster = {.latency = i == 0 ? 0 : 0.25}, .workers = 3, .clocks = 2, .spends = 1});
        assert_int_equal(rbt_job_run(trial.job, wait_in_vain, &trial), RBT_E_CLOSED);
        snprintf(sentence, sizeof sentence,
                 "the workers have waited in vain for %.0f virtual seconds", patience);
        assert_string_equal(rbt_last_error(), sentence);
        assert_true(rbt_trial_stats(&trial).seconds > patience);
        assert_true(rbt_trial_stats(&trial).seconds < patience + 60);
        assert_int_equal(rbt_job_run(trial.job, rbt_trial_walk, &trial), RBT_E_CLOSED);
        rbt_trial_close(&trial);
    }
}

/* --- Memory ---------------------------------------------------------------------------------- */

/* Opens, runs, closes with the n-th allocation failing. Returns whether nothing failed. */
static bool pass_without(unsigned nth, const struct rbt_trial_options *options)
{
    struct rbt_trial trial;
    rbt_trial_open(&trial, options);
    rbt_alloc_fail_nth(nth);
    const rbt_status st = rbt_job_run(trial.job, rbt_trial_walk, &trial);
    rbt_alloc_fail_nth(0);
    rbt_trial_check_memory(st);
    if (st == RBT_OK) {
        assert_int_equal(rbt_trial_value(&trial, 0), options->clocks * options->workers);
    }
    rbt_trial_close(&trial);
    return st == RBT_OK;
}

static void a_run_survives_every_failed_allocation(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "essp:1"};
    const struct rbt_fault fault = {.kind = RBT_FAULT_CUT, .node = "worker/1", .at = 0.0011};
    for (size_t i = 0; i < 2; i++) {
        const struct rbt_trial_options options = {.cluster = {.loss = 0.01,
                                                              .duplication = 0.1,
                                                              .jitter = 1e-3,
                                                              .faults = &fault,
                                                              .fault_count = 1},
                                                  .workers = 3,
                                                  .servers = 2,
                                                  .rows = 4,
                                                  .consistency = consistencies[i],
                                                  .clocks = 3,
                                                  .spends = 0.001};
        unsigned passed = 0; /* in a row: the run needs no more */
        for (unsigned nth = 1; passed < 50; nth++) {
            passed = pass_without(nth, &options) ? passed + 1 : 0;
            assert_true(nth < 10000);
        }
    }
}

/* Worker 1 leaves at once, and the others wait for nobody. */
static rbt_status leave_or_walk(rbt_worker *worker, void *argument)
{
    return rbt_worker_index(worker) == 1 ? RBT_OK : rbt_trial_walk(worker, argument);
}

static void nobody_waits_for_who_has_no_memory_to_leave(void **state)
{
    (void)state;
    unsigned passed = 0; /* in a row: it needs no more */
    for (unsigned nth = 1; passed < 50; nth++) {
        struct rbt_trial trial;
        rbt_trial_open(&trial,
                       &(struct rbt_trial_options){
                           .workers = 3, .servers = 2, .consistency = "ssp:1", .clocks = 5});
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_job_run(trial.job, leave_or_walk, &trial);
        rbt_alloc_fail_nth(0);
        rbt_trial_check_memory(st);
        passed = st == RBT_OK ? passed + 1 : 0;
        rbt_trial_close(&trial);
    }
}

/* Adds to a sparse row, and reads it; a row that came without its elements would be empty. */
static rbt_status read_sparse(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    uint32_t index[8];
    float values[8];
    struct rbt_elements elements = {.index = index, .values = values, .capacity = 8};
    const float one = 1;
    rbt_status st = RBT_OK;
    for (int clock = 0; st == RBT_OK && clock < 3; clock++) {
        st = rbt_add_at(worker, trial->table, 9, 5, &one);
        st = st != RBT_OK ? st : rbt_clock(worker);
        elements.count = 0;
        st = st != RBT_OK ? st : rbt_get_sparse(worker, trial->table, 9, &elements);
        trial->wrong_reads +=
            st == RBT_OK && (elements.count != 1 || values[0] != 2 * (float)(clock + 1));
    }
    return st;
}

static void a_sparse_row_is_never_read_without_its_elements(void **state)
{
    (void)state;
    const struct rbt_table_options sparse = {
        .struct_size = sizeof sparse, .layout = RBT_SPARSE, .width = 100, .consistency = "bsp"};
    unsigned passed = 0;
    for (unsigned nth = 1; passed < 50; nth++) {
        struct rbt_trial trial;
        rbt_trial_open(&trial, &(struct rbt_trial_options){.workers = 2, .servers = 2});
        assert_ok(rbt_table_open(trial.job, "sparse", &sparse, &trial.table));
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_job_run(trial.job, read_sparse, &trial);
        rbt_alloc_fail_nth(0);
        rbt_trial_check_memory(st);
        if (trial.wrong_reads > 0 && st == RBT_OK) {
            fail_msg("allocation %u failed, and a read was wrong", nth);
        }
        passed = st == RBT_OK ? passed + 1 : 0;
        rbt_trial_close(&trial);
    }
}

/* --- Measured time --------------------------------------------------------------------------- */

static rbt_status work_hard(rbt_worker *worker, void *argument)
{
    volatile double sum = 0;
    for (int i = 0; i < 300000; i++) {
        sum = sum + (double)i;
    }
    rbt_worker_spend(worker, 1000); /* does not count: it is measured */
    return rbt_trial_walk(worker, argument);
}

static void measured_time_is_the_processors(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.cluster = {.is_measured = true,
                                                                   .straggler_share = 1,
                                                                   .straggler_factor = 1000},
                                                       .workers = 2,
                                                       .clocks = 3,
                                                       .spends = 1000});
    assert_ok(rbt_job_run(trial.job, work_hard, &trial));
    const struct rbt_simulation_stats stats = rbt_trial_stats(&trial);
    /* 300000 additions take 0.1 ms at least and, with everything else, hardly a second each. */
    assert_true(stats.compute_seconds > 2 * 1e-4 * 1000);
    assert_true(stats.compute_seconds < 2 * 1000);
    rbt_trial_near(stats.compute_seconds + stats.transmit_seconds + stats.wait_seconds +
                       stats.idle_seconds,
                   2 * stats.seconds, 1e-6);
    assert_int_equal(rbt_trial_value(&trial, 0), 6);
    rbt_trial_close(&trial);
}

/* --- Size ------------------------------------------------------------------------------------ */

static void bsp_reads_exactly_what_everybody_has_added_in_clusters_of_all_shapes(void **state)
{
    (void)state;
    static const struct {
        uint32_t workers;
        uint32_t servers;
        uint32_t threads;
    } shapes[] = {{1, 1, 1}, {1, 10, 1}, {4, 2, 2}, {30, 10, 1}, {30, 10, 4}, {64, 1, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct rbt_trial trial;
        rbt_trial_pass(&trial, &(struct rbt_trial_options){
                                   .cluster = {.threads = shapes[i].threads, .jitter = 1e-3},
                                   .workers = shapes[i].workers,
                                   .servers = shapes[i].servers,
                                   .rows = 33,
                                   .width = 3,
                                   .clocks = 6,
                                   .spends = 0.001});
        rbt_trial_close(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_comes_out_of_the_run_and_the_others_finish),
        cmocka_unit_test(a_failure_is_told_even_if_the_process_crashes_later),
        cmocka_unit_test(the_observer_sees_every_event_in_order_of_time),
        cmocka_unit_test(every_message_is_shown_to_whoever_looks),
        cmocka_unit_test(the_observer_can_end_the_run_at_any_event),
        cmocka_unit_test(a_cluster_that_was_ended_stays_ended),
        cmocka_unit_test(losses_are_counted_and_told),
        cmocka_unit_test(what_is_sent_again_is_counted),
        cmocka_unit_test(a_job_ends_when_it_has_lost_a_process_and_says_which),
        cmocka_unit_test(a_short_pause_partition_or_cut_changes_nothing),
        cmocka_unit_test(whoever_computes_for_hours_is_not_stuck),
        cmocka_unit_test(who_waits_in_vain_is_told),
        cmocka_unit_test(a_run_survives_every_failed_allocation),
        cmocka_unit_test(nobody_waits_for_who_has_no_memory_to_leave),
        cmocka_unit_test(a_sparse_row_is_never_read_without_its_elements),
        cmocka_unit_test(measured_time_is_the_processors),
        cmocka_unit_test(bsp_reads_exactly_what_everybody_has_added_in_clusters_of_all_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
