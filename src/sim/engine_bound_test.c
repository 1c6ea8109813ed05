/* sim/engine_bound_test.c - a simulated process changes the staleness as a real one does: by way of
 * the coordinator, in virtual time, for all processes and servers. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/error.h"
#include "client/staleness.h"
#include "sim/trial.h"

#define LATENCY 0.01 /* seconds, of every message */
#define SLACK   0.001

/* What workers have seen; they do not fail tests themselves. */
struct scene {
    struct rbt_trial trial;
    double took[4];     /* how long the call of the worker took */
    double seen_at[4];  /* when it first saw the new staleness */
    double ended_at[4]; /* when its call returned */
    int64_t seen[4];    /* what it saw in the end */
    rbt_status status[4];
    rbt_table *opened[4];
};

static void open_scene(struct scene *scene, const struct rbt_fault *fault, uint32_t threads)
{
    *scene = (struct scene){0};
    rbt_trial_open(&scene->trial,
                   &(struct rbt_trial_options){.cluster = {.latency = LATENCY,
                                                           .threads = threads,
                                                           .faults = fault,
                                                           .fault_count = fault == NULL ? 0 : 1},
                                               .workers = 4,
                                               .servers = 2,
                                               .consistency = "ssp:3"});
}

/* Looks until the table has this staleness, or for long enough. */
static void look_for(struct scene *scene, rbt_worker *worker, int64_t staleness)
{
    const uint32_t me = rbt_worker_index(worker);
    for (int i = 0; i < 2000 && rbt_table_staleness(scene->trial.table) != staleness; i++) {
        rbt_worker_spend(worker, 1e-4);
    }
    scene->seen_at[me] = rbt_worker_seconds(worker);
    scene->seen[me] = rbt_table_staleness(scene->trial.table);
}

static rbt_status change_or_look(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) != 1) {
        look_for(scene, worker, 5);
        return RBT_OK;
    }
    const rbt_status st = rbt_table_set_staleness(scene->trial.table, 5);
    scene->ended_at[1] = rbt_worker_seconds(worker);
    scene->seen[1] = rbt_table_staleness(scene->trial.table);
    return st;
}

/* To the coordinator, to all, back to it, and the answer: four ways. */
static void a_change_takes_the_ways_of_its_messages(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, NULL, 1);
    assert_ok(rbt_job_run(scene.trial.job, change_or_look, &scene));
    rbt_trial_near(scene.ended_at[1], 4 * LATENCY, SLACK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(scene.seen[i], 5);
        if (i != 1) {
            rbt_trial_near(scene.seen_at[i], 2 * LATENCY, SLACK);
        }
    }
    const struct rbt_simulation_stats stats = rbt_trial_stats(&scene.trial);
    rbt_trial_near(stats.compute_seconds + stats.transmit_seconds + stats.wait_seconds +
                       stats.idle_seconds,
                   4 * stats.seconds, 1e-6); /* waiting for it is accounted for */
    rbt_trial_close(&scene.trial);
}

static rbt_status change_soon_or_look(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    rbt_status st = RBT_OK;
    if (rbt_worker_index(worker) == 1) {
        st = rbt_job_set_staleness_soon(scene->trial.job, 5);
        scene->ended_at[1] = rbt_worker_seconds(worker);
        scene->took[1] = (double)rbt_job_staleness(scene->trial.job);
    }
    look_for(scene, worker, 5);
    return st;
}

static void a_change_that_is_not_awaited_takes_no_time(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, NULL, 1);
    assert_ok(rbt_job_run(scene.trial.job, change_soon_or_look, &scene));
    assert_true(scene.ended_at[1] == 0);
    assert_true(scene.took[1] == 3); /* it acts on what comes back alone */
    for (uint32_t i = 0; i < 4; i++) {
        rbt_trial_near(scene.seen_at[i], 2 * LATENCY, SLACK);
    }
    assert_int_equal(rbt_job_staleness(scene.trial.job), 5);
    rbt_trial_close(&scene.trial);
}

/* All workers, two in each process. */
static rbt_status change_all(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const uint32_t me = rbt_worker_index(worker);
    const rbt_status st = rbt_table_set_staleness(scene->trial.table, 10 + me);
    scene->ended_at[me] = rbt_worker_seconds(worker);
    rbt_worker_spend(worker, 1);
    scene->seen[me] = rbt_table_staleness(scene->trial.table);
    return st;
}

static void of_changes_at_once_all_keep_the_last(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, NULL, 2);
    assert_ok(rbt_job_run(scene.trial.job, change_all, &scene));
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(scene.seen[i], scene.seen[0]);
        /* One at a time of a process. */
        rbt_trial_near(scene.ended_at[i], (i % 2 == 0 ? 4 : 8) * LATENCY, SLACK);
    }
    assert_in_range(scene.seen[0], 10, 13);
    rbt_trial_close(&scene.trial);
}

static void outside_of_a_run_it_is_changed_as_well(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, NULL, 1);
    assert_ok(rbt_table_set_staleness(scene.trial.table, 5));
    assert_int_equal(rbt_table_staleness(scene.trial.table), 5);
    assert_ok(rbt_job_set_staleness(scene.trial.job, 6));
    assert_int_equal(rbt_job_staleness(scene.trial.job), 6);
    const struct rbt_table_options options = {.struct_size = sizeof options, .type = RBT_I64};
    rbt_table *late = NULL;
    assert_ok(rbt_table_open(scene.trial.job, "late", &options, &late));
    assert_int_equal(rbt_table_staleness(late), 6);
    scene.trial.table = late;
    assert_ok(rbt_job_run(scene.trial.job, change_or_look, &scene));
    assert_int_equal(scene.seen[3], 5);
    rbt_trial_close(&scene.trial);
}

/* Worker 1 changes it when something is wrong already, or will be before all have taken it. */
static rbt_status change_late(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const uint32_t me = rbt_worker_index(worker);
    if (me == 1) {
        rbt_worker_spend(worker, 1);
        scene->status[me] = rbt_table_set_staleness(scene->trial.table, 5);
        scene->ended_at[me] = rbt_worker_seconds(worker);
    }
    return scene->status[me];
}

static void a_failure_of_the_job_ends_the_wait(void **state)
{
    (void)state;
    static const char *const nodes[] = {"coordinator", "server/1", "worker/1", "worker/2"};
    for (size_t i = 0; i < 8; i++) {
        const struct rbt_fault fault = {
            .kind = RBT_FAULT_CRASH, .node = nodes[i / 2], .at = i % 2 == 0 ? 0.5 : 1.015};
        struct scene scene;
        open_scene(&scene, &fault, 1);
        assert_int_equal(rbt_job_run(scene.trial.job, change_late, &scene), RBT_E_CLOSED);
        assert_int_equal(scene.status[1], RBT_E_CLOSED);
        assert_true(scene.ended_at[1] < 30);
        if (strstr(rbt_last_error(), fault.node) == NULL) {
            fail_msg("%s is lost: %s", fault.node, rbt_last_error());
        }
        rbt_trial_close(&scene.trial);
    }
}

static void cuts_delay_a_change_and_lose_none(void **state)
{
    (void)state;
    static const char *const nodes[] = {"coordinator", "server/1", "worker/1", "worker/2"};
    for (size_t i = 0; i < 4 * 50; i++) {
        const struct rbt_fault fault = {
            .kind = RBT_FAULT_CUT, .node = nodes[i / 50], .at = (double)(i % 50) * 1e-3};
        struct scene scene;
        open_scene(&scene, &fault, 1);
        assert_ok(rbt_job_run(scene.trial.job, change_or_look, &scene));
        assert_true(scene.ended_at[1] >= 4 * LATENCY);
        for (uint32_t k = 0; k < 4; k++) {
            assert_int_equal(scene.seen[k], 5);
        }
        rbt_trial_close(&scene.trial);
    }
}

/* All workers open a table at once, and use it. */
static rbt_status open_table(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const uint32_t me = rbt_worker_index(worker);
    const struct rbt_table_options options = {.struct_size = sizeof options, .type = RBT_I64};
    rbt_status st =
        rbt_table_open(scene->trial.job, me < 2 ? "new" : "other", &options, &scene->opened[me]);
    st = st != RBT_OK ? st : rbt_job_set_staleness(scene->trial.job, 0);
    st = st != RBT_OK ? st : rbt_add(worker, scene->opened[me], 7, &(int64_t){1});
    st = st != RBT_OK ? st : rbt_clock(worker);
    return st != RBT_OK ? st : rbt_get(worker, scene->opened[me], 7, &scene->seen[me]);
}

static void tables_can_be_opened_in_a_run(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 4; threads *= 2) {
        struct scene scene;
        open_scene(&scene, NULL, threads);
        assert_ok(rbt_job_run(scene.trial.job, open_table, &scene));
        assert_ptr_equal(scene.opened[0], scene.opened[1]);
        assert_ptr_equal(scene.opened[2], scene.opened[3]);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(scene.seen[i], 2);
        }
        rbt_trial_close(&scene.trial);
    }
}

static void a_change_survives_every_failed_allocation(void **state)
{
    (void)state;
    unsigned passed = 0; /* in a row: it needs no more */
    for (unsigned nth = 1; passed < 20; nth++) {
        struct scene scene;
        open_scene(&scene, NULL, 2);
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_job_run(scene.trial.job, change_all, &scene);
        rbt_alloc_fail_nth(0);
        rbt_trial_check_memory(st);
        passed = st == RBT_OK ? passed + 1 : 0;
        rbt_trial_close(&scene.trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_takes_the_ways_of_its_messages),
        cmocka_unit_test(a_change_that_is_not_awaited_takes_no_time),
        cmocka_unit_test(of_changes_at_once_all_keep_the_last),
        cmocka_unit_test(outside_of_a_run_it_is_changed_as_well),
        cmocka_unit_test(a_failure_of_the_job_ends_the_wait),
        cmocka_unit_test(cuts_delay_a_change_and_lose_none),
        cmocka_unit_test(tables_can_be_opened_in_a_run),
        cmocka_unit_test(a_change_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("sim/engine_bound", tests, NULL, NULL);
}
