/* oracle/audit_test.c - tables with a rule on real threads, within a process and over sockets:
 * updates reach the rule with the read that they were computed from, what a rule makes of them is
 * right, and a rule that fails ends the job with its sentence.
 *
 * AUDIT_RULE in the environment is rules/audit.c as a shared object. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "oracle/rig.h"

enum { WORKERS = 4, SHARDS = 3, CLOCKS = 25, KEYS = 12, WIDTH = 2 };

struct scene {
    rbt_job *job;
    rbt_table *sets; /* all workers use all rows */
    rbt_table *row;  /* one row is updated */
    int ended;       /* workers; counted by those that see their failure */
};

static void open_scene(struct scene *scene, const char *consistency, const char *parameters)
{
    char rule[1024];
    (void)snprintf(rule, sizeof rule, "%s%s", getenv("AUDIT_RULE"), parameters);
    *scene = (struct scene){.job = rig_job(WORKERS, SHARDS, consistency)};
    struct rbt_table_options options = {.width = WIDTH, .rule = rule};
    scene->sets = rig_table(scene->job, "sets", options);
    options.cache_rows = 1;
    scene->row = rig_table(scene->job, "row", options);
}

/* See rules/audit.c. */
static void make_update(float *delta, const float *read)
{
    delta[0] += read[0] + 1;
    delta[1] += 1;
}

static rbt_status use_set(rbt_worker *worker, rbt_set *set, int64_t clock)
{
    rbt_ticket ticket = 0;
    if (clock % 3 == 0) { /* asked for ahead of its time */
        TRY(rbt_set_pull_async(set, NULL, &ticket));
        TRY(rbt_ticket_wait(worker, ticket));
    } else {
        TRY(rbt_set_pull(set));
    }
    const float *values = rbt_set_values(set);
    float *deltas = rbt_set_deltas(set);
    for (size_t k = 0; k < KEYS; k++) {
        make_update(deltas + WIDTH * k, values + WIDTH * k);
    }
    return rbt_set_push(set);
}

static rbt_status use_row(rbt_worker *worker, rbt_table *table, int64_t clock)
{
    float values[WIDTH];
    float delta[WIDTH] = {0};
    if (clock % 4 == 0) {
        TRY(rbt_get(worker, table, 6, values)); /* takes the other's place */
    }
    TRY(rbt_get(worker, table, 5, values));
    make_update(delta, values);
    return rbt_add(worker, table, 5, delta);
}

static rbt_status use_both(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    uint64_t keys[KEYS];
    for (uint64_t k = 0; k < KEYS; k++) {
        keys[k] = k;
    }
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, scene->sets, keys, KEYS, RBT_SET_DELTAS, &set);
    for (int64_t clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        st = use_set(worker, set, clock);
        st = st != RBT_OK ? st : use_row(worker, scene->row, clock);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static rbt_status look(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    float values[WIDTH];
    for (uint64_t k = 0; k < KEYS; k++) {
        TRY(rbt_get(worker, scene->sets, k, values));
        CHECK(values[0] == (float)(2 * WORKERS * CLOCKS));
        CHECK(values[1] == (float)(2 * WORKERS * CLOCKS));
    }
    TRY(rbt_get(worker, scene->row, 5, values));
    CHECK(values[1] == (float)(2 * WORKERS * CLOCKS));
    return RBT_OK;
}

static void updates_name_the_reads_that_they_were_computed_from(void **state)
{
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:0", "essp:2", "asp"};
    (void)state;
    for (size_t i = 0; i < sizeof consistencies / sizeof *consistencies; i++) {
        struct scene scene;
        open_scene(&scene, consistencies[i], "");
        rig_run(scene.job, use_both, &scene);
        rig_run(scene.job, use_both, &scene); /* stamps go on where they were */
        rig_run(scene.job, look, &scene);
        const struct rbt_job_stats stats = rig_stats(scene.job);
        assert_true(stats.snapshots_max > 0);
        assert_true(stats.rule_bytes > 0 && stats.server_bytes > stats.rule_bytes);
        rbt_job_close(scene.job);
    }
}

/* With few snapshots rows are not sent ahead; everybody gets on all the same. */
static void a_cap_holds_nobody_up(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "essp:2", ":max=4");
    rig_run(scene.job, use_both, &scene);
    assert_true(rig_stats(scene.job).snapshots_max <= 4); /* of each table */
    rbt_job_close(scene.job);
}

/* Fails whenever the rule has; never says that a promise was broken. */
static rbt_status use_until_it_fails(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    rbt_status st = RBT_OK;
    for (;;) { /* ends: the rule fails */
        float values[WIDTH];
        float delta[WIDTH] = {0};
        st = rbt_get_within(worker, scene->row, 5, 0, values);
        if (st == RBT_OK) {
            make_update(delta, values);
            st = rbt_add(worker, scene->row, 5, delta);
        }
        st = st != RBT_OK ? st : rbt_clock(worker);
        if (st != RBT_OK) {
            return st;
        }
    }
}

static void a_rule_that_fails_ends_the_job_with_its_sentence(void **state)
{
    static const char *const consistencies[] = {"bsp", "essp:2", "asp"};
    (void)state;
    for (size_t i = 0; i < sizeof consistencies / sizeof *consistencies; i++) {
        struct scene scene;
        open_scene(&scene, consistencies[i], ":fails=30");
        const rbt_status st = rbt_job_run(scene.job, use_until_it_fails, &scene);
        if (st != RBT_E_DATA || strstr(rbt_last_error(), "that was message 30") == NULL ||
            strstr(rbt_last_error(), "\"main/row\"") == NULL) {
            fail_msg("%s: %s: %s", consistencies[i], rbt_status_text(st), rbt_last_error());
        }
        rbt_job_close(scene.job);
    }
}

/* --- DynSGD ---------------------------------------------------------------------------------- */

static rbt_status move(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    const float me = (float)rbt_worker_index(worker);
    for (int clock = 0; clock < 4; clock++) {
        float values[2];
        TRY(rbt_get(worker, table, 3, values));
        const float mean = (float)clock * (WORKERS - 1) / 2;
        CHECK(values[0] == mean && values[1] == 10 * mean);
        const float delta[2] = {me, 10 * me};
        TRY(rbt_add(worker, table, 3, delta));
        TRY(rbt_clock(worker));
    }
    return RBT_OK;
}

/* In lockstep all updates of a clock are of one version: their mean counts. */
static void dynsgd_in_lockstep_adds_means(void **state)
{
    (void)state;
    rbt_job *job = rig_job(WORKERS, SHARDS, "bsp");
    rbt_table *table =
        rig_table(job, "weights", (struct rbt_table_options){.width = 2, .rule = "dynsgd"});
    rig_run(job, move, table);
    assert_true(rig_stats(job).versions_max > 0);
    rbt_job_close(job);
}

enum { LONG = 100 };

static rbt_status push_first(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    uint64_t keys[LONG];
    rbt_set *set = NULL;
    for (size_t i = 0; i < LONG; i++) {
        keys[i] = 3 * i;
    }
    TRY(rbt_set_create(worker, table, keys, LONG, RBT_SET_DELTAS, &set));
    for (int clock = 0; clock < 3; clock++) {
        float *deltas = rbt_set_deltas(set);
        for (size_t i = 0; i < LONG; i++) {
            deltas[i] = (float)i;
        }
        TRY(rbt_set_push(set));
        TRY(rbt_clock(worker));
    }
    TRY(rbt_set_pull(set));
    for (size_t i = 0; i < LONG; i++) {
        CHECK(((const float *)rbt_set_values(set))[i] == 3 * WORKERS * (float)i);
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

/* Over processes a long list of keys is sent once, by whoever needs it first: the push. */
static void a_set_can_be_pushed_before_it_is_pulled(void **state)
{
    (void)state;
    rbt_job *job = rig_job(WORKERS, SHARDS, "bsp");
    rbt_table *table = rig_table(job, "weights", (struct rbt_table_options){.rule = "add"});
    rig_run(job, push_first, table);
    rbt_job_close(job);
}

static void rules_that_cannot_be_had_are_refused(void **state)
{
    static const char *const rules[] = {"nonsense", "/nowhere/mine.so", "adagrad:lr=-1",
                                        "adagrad:pace=1"};
    (void)state;
    rbt_job *job = rig_job(1, 2, "bsp");
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const struct rbt_table_options options = {
            .struct_size = sizeof options, .width = 2, .rule = rules[i]};
        rbt_table *table = NULL;
        assert_int_equal(rbt_table_open(job, "weights", &options, &table), RBT_E_INVALID);
    }
    rbt_table *table =
        rig_table(job, "weights", (struct rbt_table_options){.width = 2, .rule = "adagrad"});
    assert_non_null(table); /* nothing of the others is left */
    rbt_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_name_the_reads_that_they_were_computed_from),
        cmocka_unit_test(a_cap_holds_nobody_up),
        cmocka_unit_test(a_rule_that_fails_ends_the_job_with_its_sentence),
        cmocka_unit_test(dynsgd_in_lockstep_adds_means),
        cmocka_unit_test(a_set_can_be_pushed_before_it_is_pulled),
        cmocka_unit_test(rules_that_cannot_be_had_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
