/* oracle/managed_test.c - rows that travel before a clock ends, on real threads, within a process
 * and over sockets: nothing is lost and nothing counts twice, updates name the reads that they were
 * computed from, and what must not be seen early is not.
 *
 * TOUCHED_RULE in the environment is rules/touched.c as a shared object. */
#include "base/test.h"

#include <stdlib.h>

#include "oracle/rig.h"

enum { WORKERS = 4, SHARDS = 3, CLOCKS = 12, ROUNDS = 40, KEYS = 200, WIDTH = 2, SOME = 7 };

#define MUCH UINT64_C(400000000) /* bytes per second */

struct scene {
    rbt_job *job;
    rbt_table *table;
    bool has_rule;
};

static void open_scene(struct scene *scene, const char *consistency, uint64_t bandwidth,
                       const char *priority, bool has_rule)
{
    *scene = (struct scene){.job = rig_job_with((struct rbt_job_options){.workers = WORKERS,
                                                                         .shards = SHARDS,
                                                                         .consistency = consistency,
                                                                         .bandwidth = bandwidth,
                                                                         .priority = priority}),
                            .has_rule = has_rule};
    scene->table = rig_table(scene->job, "rows",
                             (struct rbt_table_options){
                                 .width = WIDTH, .rule = has_rule ? getenv("TOUCHED_RULE") : NULL});
}

/* Changes some rows; which ones differs from worker to worker and from round to round. */
static void change_rows(const struct scene *scene, rbt_set *set, uint32_t me, uint32_t round)
{
    const float *values = rbt_set_values(set);
    float *deltas = rbt_set_deltas(set);
    for (uint32_t i = 0; i < SOME; i++) {
        const size_t row = (me * 31 + round * 17 + i * i * 5) % KEYS;
        deltas[row * WIDTH] += scene->has_rule ? values[row * WIDTH] : 1;
        deltas[row * WIDTH + 1] += 1;
        rbt_set_touch(set, row);
    }
}

static rbt_status use(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    uint64_t keys[KEYS];
    for (uint64_t k = 0; k < KEYS; k++) {
        keys[k] = k * 3;
    }
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, scene->table, keys, KEYS, RBT_SET_DELTAS, &set);
    st = st != RBT_OK ? st : rbt_set_manage(set);
    for (uint32_t clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        st = rbt_set_pull(set);
        for (uint32_t round = 0; st == RBT_OK && round < ROUNDS; round++) {
            change_rows(scene, set, rbt_worker_index(worker), clock * ROUNDS + round);
            st = rbt_worker_exchange(worker);
        }
        st = st != RBT_OK ? st : rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st == RBT_OK ? st : rig_failed(__FILE__, __LINE__, "use", st);
}

static rbt_status look(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    double count = 0;
    for (uint64_t k = 0; k < KEYS; k++) {
        float values[WIDTH];
        TRY(rbt_get(worker, scene->table, k * 3, values));
        count += (double)values[1];
    }
    CHECK(count == 2.0 * WORKERS * CLOCKS * ROUNDS * SOME);
    return RBT_OK;
}

/* Two runs, and a third that looks. */
static struct rbt_job_stats run(struct scene *scene)
{
    rig_run(scene->job, use, scene);
    rig_run(scene->job, use, scene);
    rig_run(scene->job, look, scene);
    const struct rbt_job_stats stats = rig_stats(scene->job);
    rbt_job_close(scene->job);
    return stats;
}

/* In lockstep nothing is new before the clock ends. A set that is new to a shard may get what it
 * has already, once. Returns what was received otherwise, which depends on who runs when. */
static uint64_t received(const struct rbt_job_stats *stats, const char *consistency)
{
    if (strcmp(consistency, "bsp") == 0) {
        assert_true(stats->early_received <= 2 * WORKERS * KEYS);
        return 0;
    }
    return stats->early_received;
}

static void nothing_is_lost_and_nothing_counts_twice(void **state)
{
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:1", "asp", "asp"};
    static const char *const priorities[] = {"oldest", "walk", "random", "relative", "sweep"};
    uint64_t total = 0;
    (void)state;
    for (size_t i = 0; i < sizeof consistencies / sizeof *consistencies; i++) {
        struct scene scene;
        open_scene(&scene, consistencies[i], MUCH, priorities[i], false);
        const struct rbt_job_stats stats = run(&scene);
        assert_true(stats.early_sent > 0);
        total += received(&stats, consistencies[i]);
    }
    assert_true(total > 0);
}

static void updates_name_the_reads_that_they_were_computed_from(void **state)
{
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:1", "asp"};
    uint64_t total = 0;
    uint64_t snapshots = 0;
    (void)state;
    for (size_t i = 0; i < sizeof consistencies / sizeof *consistencies; i++) {
        struct scene scene;
        open_scene(&scene, consistencies[i], MUCH, "magnitude", true);
        const struct rbt_job_stats stats = run(&scene);
        assert_true(stats.early_sent > 0);
        total += received(&stats, consistencies[i]);
        snapshots += stats.snapshots_max;
    }
    assert_true(total > 0);
    assert_true(snapshots > 0);
}

/* Rows that have not changed are read as well, and updates without a change name reads, too. */
static void a_sweep_loses_nothing(void **state)
{
    static const char *const consistencies[] = {"ssp:2", "asp"};
    (void)state;
    for (size_t i = 0; i < sizeof consistencies / sizeof *consistencies; i++) {
        struct scene scene;
        open_scene(&scene, consistencies[i], MUCH, "sweep", true);
        const struct rbt_job_stats stats = run(&scene);
        assert_true(stats.early_sent > 0);
        assert_true(stats.early_received > 0);
    }
}

/* With a budget for hardly anything, all of it arrives as well: run() looks. How little goes early
 * is for comm/manager_test.c, which has a time of its own. */
static void a_small_budget_is_enough(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "essp:1", 1000, "relative", true);
    (void)run(&scene);
}

static void without_a_budget_nothing_goes_early(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, "essp:1", 0, NULL, true);
    /* Sets that are not managed push what is in their deltas. */
    const struct rbt_job_stats stats = run(&scene);
    assert_int_equal(stats.early_sent, 0);
    assert_int_equal(stats.early_received, 0);
    assert_int_equal(stats.early_bytes_sent, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_and_nothing_counts_twice),
        cmocka_unit_test(updates_name_the_reads_that_they_were_computed_from),
        cmocka_unit_test(a_sweep_loses_nothing),
        cmocka_unit_test(a_small_budget_is_enough),
        cmocka_unit_test(without_a_budget_nothing_goes_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
