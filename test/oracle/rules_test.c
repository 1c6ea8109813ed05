/* oracle/rules_test.c - tables with rules, from a worker's point of view.
 *
 * Which rule computes what is tested beside the rules; here is what becomes of it between workers,
 * with rules of our own and with a user's (fixture_rule.c). Numbers are small integers and halves,
 * so that sums are exact in any order. */
#include "base/test.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle/rig.h"

enum { KEYS = 6, CLOCKS = 5, WORKERS = 4, SPAN = 17, TEXT_MAX = 900 };

/* The fixture with these parameters: it lies beside this program. */
static const char *fixture(const char *parameters)
{
    static char text[TEXT_MAX + 64];
    char path[TEXT_MAX];
    const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(size > 0);
    path[size] = '\0';
    *strrchr(path, '/') = '\0';
    const int length = snprintf(text, sizeof text, "%s/fixture.so:%s", path, parameters);
    assert_true(length > 0 && (size_t)length < sizeof text);
    return text;
}

/* What the workers of a test share. */
struct scene {
    rbt_table *table;
    struct rig_gate gate;
    struct rig_gate second;
    float model[KEYS];
    size_t found; /* rows of the model */
    bool fetched[SPAN];
    rbt_set_flags flags;
    bool has_rows; /* one at a time, without a set */
};

static const uint64_t keys[KEYS] = {0, 1, 2, 3, 4, 5};

/* An update that differs by worker, clock and key. */
static float update_of(uint32_t worker, int clock, size_t key)
{
    return (float)((int)(worker * 7 + (uint32_t)clock * 3 + (uint32_t)key * 5) % 9 - 4);
}

static void open_table(struct scene *scene, rbt_job *job, struct rbt_table_options options)
{
    scene->table = rig_table(job, "weights", options);
}

static rbt_status read_model(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) != 0) {
        return RBT_OK;
    }
    struct rbt_rows rows = {0};
    TRY(rbt_pull_range(worker, scene->table, RBT_RANGE_ALL, RBT_STALENESS_ANY, &rows));
    scene->found = rows.count;
    for (size_t i = 0; i < rows.count && i < KEYS; i++) {
        scene->model[i] = ((const float *)rows.values)[i];
    }
    rbt_rows_free(&rows);
    return RBT_OK;
}

/* Runs the workers, and then looks at what has become of the table, which has width 1. */
static void run_and_read(rbt_job *job, rbt_worker_function function, struct scene *scene)
{
    rig_run(job, function, scene);
    rig_run(job, read_model, scene);
    rbt_job_close(job);
}

/* --- What the server makes of updates -------------------------------------------------------- */

static rbt_status push_updates(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, KEYS, RBT_SET_DELTAS, &set));
    for (int clock = 0; clock < CLOCKS; clock++) {
        TRY(rbt_set_pull(set));
        float *deltas = rbt_set_deltas(set);
        for (size_t k = 0; k < KEYS; k++) {
            deltas[k] = update_of(rbt_worker_index(worker), clock, k);
        }
        TRY(rbt_set_push(set));
        TRY(rbt_clock(worker));
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static float halved(float value)
{
    return value / 2;
}

static float clipped(float value)
{
    const float low = value < -1.5F ? -1.5F : value;
    return low > 1.5F ? 1.5F : low;
}

static void a_users_rule_decides_what_becomes_of_updates(void **state)
{
    (void)state;
    static const struct {
        const char *parameters;
        float (*function)(float value);
    } cases[] = {{"scale=0.5", halved}, {"clip=1.5", clipped}};
    for (size_t i = 0; i < 2; i++) {
        rbt_job *job = rig_job(WORKERS, 1 + (uint32_t)i, "ssp:1");
        struct scene scene = {.found = 0};
        open_table(&scene, job, (struct rbt_table_options){.rule = fixture(cases[i].parameters)});
        run_and_read(job, push_updates, &scene);
        assert_int_equal(scene.found, KEYS);
        for (size_t k = 0; k < KEYS; k++) {
            float sum = 0;
            for (uint32_t n = 0; n < WORKERS * CLOCKS; n++) {
                sum += cases[i].function(update_of(n % WORKERS, (int)(n / WORKERS), k));
            }
            assert_true(scene.model[k] == sum);
        }
    }
}

/* Worker 0 of one does all that the others would do. */
static rbt_status push_whole_updates(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, KEYS, RBT_SET_DELTAS, &set));
    for (int clock = 0; clock < CLOCKS; clock++) {
        TRY(rbt_set_pull(set));
        float *deltas = rbt_set_deltas(set);
        for (size_t k = 0; k < KEYS; k++) {
            for (uint32_t w = 0; w < WORKERS; w++) {
                deltas[k] += update_of(w, clock, k);
            }
        }
        TRY(rbt_set_push(set));
        TRY(rbt_clock(worker));
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

/* To the last bit, though the steps are anything but sums. */
static void updates_that_are_aggregated_count_as_one(void **state)
{
    (void)state;
    struct scene many = {.found = 0};
    struct scene one = {.found = 0};
    struct scene apart = {.found = 0};
    rbt_job *job = rig_job(WORKERS, 2, "bsp");
    open_table(&many, job, (struct rbt_table_options){.rule = "adagrad:lr=0.3,aggregate=1"});
    run_and_read(job, push_updates, &many);
    job = rig_job(1, 2, "bsp");
    open_table(&one, job, (struct rbt_table_options){.rule = "adagrad:lr=0.3"});
    run_and_read(job, push_whole_updates, &one);
    job = rig_job(WORKERS, 2, "bsp");
    open_table(&apart, job, (struct rbt_table_options){.rule = "adagrad:lr=0.3"});
    run_and_read(job, push_updates, &apart);
    assert_memory_equal(many.model, one.model, sizeof one.model);
    assert_memory_not_equal(apart.model, one.model, sizeof one.model);
}

/* --- Replicas -------------------------------------------------------------------------------- */

/* Each worker goes half the way to a point of its own. */
static rbt_status go_half_way(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    const float target = (float)(8 * rbt_worker_index(worker));
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 1, scene->flags, &set));
    for (int clock = 0; clock < CLOCKS; clock++) {
        TRY(rbt_set_pull(set));
        float *w = rbt_set_values(set);
        const float move = (target - w[0]) / 2;
        if (scene->flags == RBT_SET_IN_PLACE) {
            w[0] += move;
        } else {
            *(float *)rbt_set_deltas(set) = move;
        }
        TRY(rbt_set_push(set));
        TRY(rbt_clock(worker));
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

/* w <- (1/M) sum (w + u). */
static void consgd_with_bsp_averages_models(void **state)
{
    (void)state;
    float expected = 0;
    for (int clock = 0; clock < CLOCKS; clock++) {
        float sum = 0;
        for (int w = 0; w < WORKERS; w++) {
            sum += expected + ((float)(8 * w) - expected) / 2;
        }
        expected = sum / WORKERS;
    }
    for (int i = 0; i < 4; i++) {
        rbt_job *job = rig_job(WORKERS, 1, "bsp");
        struct scene scene = {.flags = i % 2 == 0 ? RBT_SET_DELTAS : RBT_SET_IN_PLACE};
        open_table(
            &scene, job,
            (struct rbt_table_options){.rule = "consgd",
                                       .overlay = i < 2 ? RBT_OVERLAY_NONE : RBT_OVERLAY_REPLICA});
        run_and_read(job, go_half_way, &scene);
        assert_true(scene.model[0] == expected);
    }
}

/* Moves the worker's copy, in the way that the scene says. */
static rbt_status move(const struct scene *scene, rbt_worker *worker, rbt_set *set, float amount)
{
    if (scene->has_rows) {
        return rbt_add(worker, scene->table, 0, &amount);
    }
    if (scene->flags == RBT_SET_IN_PLACE) {
        *(float *)rbt_set_values(set) += amount;
    } else {
        *(float *)rbt_set_deltas(set) = amount;
    }
    return rbt_set_push(set);
}

static rbt_status look(const struct scene *scene, rbt_worker *worker, rbt_set *set, float *value)
{
    if (scene->has_rows) {
        return rbt_get(worker, scene->table, 0, value);
    }
    const rbt_status st = rbt_set_pull(set);
    *value = *(const float *)rbt_set_values(set);
    return st;
}

/* Worker 0 goes by 8, 16 and 32 while the others stand still. */
static rbt_status shrink_at_pull(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    static const float moves[] = {8, 16, 32, 0};
    if (rbt_worker_index(worker) != 0) {
        for (int clock = 0; clock < 4; clock++) {
            TRY(rbt_clock(worker));
        }
        rig_post(&scene->gate);
        return RBT_OK;
    }
    AWAIT(&scene->gate, WORKERS - 1);
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 1, scene->flags, &set));
    float expected = 3;
    for (int clock = 0; clock < 4; clock++) {
        float value = 0;
        TRY(look(scene, worker, set, &value));
        CHECK(value == expected);
        TRY(move(scene, worker, set, moves[clock]));
        expected += moves[clock];
        TRY(look(scene, worker, set, &value)); /* within the clock as well */
        CHECK(value == expected);
        TRY(rbt_clock(worker));
    }
    float value = 0;
    TRY(look(scene, worker, set, &value));
    CHECK(value == 3 + (8 + 16 + 32) / 4);
    rbt_set_destroy(set);
    return RBT_OK;
}

/* Jiang et al. 2017, figure 3(d): w0+a+b+c becomes w0+(a+b+c)/4. */
static void a_replica_grows_by_its_own_updates_until_a_pull_replaces_it(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        rbt_job *job = rig_job(WORKERS, 1, "ssp:3");
        struct scene scene = {.flags = i == 1 ? RBT_SET_IN_PLACE : RBT_SET_DELTAS,
                              .has_rows = i == 2};
        open_table(&scene, job,
                   (struct rbt_table_options){.rule = "consgd",
                                              .overlay = RBT_OVERLAY_REPLICA,
                                              .init = RBT_INIT_CONSTANT,
                                              .init_value = 3});
        rig_run(job, shrink_at_pull, &scene);
        rbt_job_close(job);
    }
}

static rbt_status count_fetches(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 1, scene->flags, &set));
    for (size_t clock = 0; clock < SPAN; clock++) {
        const uint64_t before = rig_stats(rbt_worker_job(worker)).fetches;
        float value = 0;
        TRY(look(scene, worker, set, &value));
        scene->fetched[clock] = rig_stats(rbt_worker_job(worker)).fetches > before;
        TRY(move(scene, worker, set, 1));
        TRY(rbt_clock(worker));
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

/* With slack 0 as SSP means it, with slack 1 as Jiang et al. 2017 print it. */
static void a_copy_is_fetched_again_when_it_is_too_old_and_not_before(void **state)
{
    (void)state;
    static const struct {
        const char *consistency;
        uint32_t slack;
        size_t period;
    } cases[] = {{"ssp:0", 0, 1}, {"ssp:0", 1, 2}, {"ssp:3", 0, 4}, {"ssp:3", 1, 5}};
    for (int i = 0; i < 4 * 3 * 2; i++) {
        rbt_job *job = rig_job(1, 2, cases[i % 4].consistency);
        struct scene scene = {.flags = i / 4 % 3 == 1 ? RBT_SET_IN_PLACE : RBT_SET_DELTAS,
                              .has_rows = i / 4 % 3 == 2};
        open_table(&scene, job,
                   (struct rbt_table_options){.rule = i / 12 == 0 ? NULL : "dynsgd",
                                              .overlay = RBT_OVERLAY_REPLICA,
                                              .experiments =
                                                  RIG_EXPERIMENTS(.slack = cases[i % 4].slack)});
        rig_run(job, count_fetches, &scene);
        for (size_t clock = 0; clock < SPAN; clock++) {
            assert_int_equal(scene.fetched[clock], clock % cases[i % 4].period == 0);
        }
        rbt_job_close(job);
    }
}

/* --- Versions -------------------------------------------------------------------------------- */

/* Gates order what workers do. That orders what shards see only if workers step them; elsewhere
 * there is nothing to be tested in this way. */
static bool is_embedded(void)
{
    return getenv("RIG_CLUSTER") == NULL;
}

/* Worker 0 first, then worker 1, each what the test says. */
static rbt_status share_versions(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const bool is_first = rbt_worker_index(worker) == 0;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 1, RBT_SET_DELTAS, &set));
    TRY(rbt_set_pull(set));
    rig_post(&scene->gate);
    AWAIT(&scene->gate, 2); /* both have read the first version */
    if (is_first) {
        TRY(move(scene, worker, set, 4));
        TRY(rbt_clock(worker));
        rig_post(&scene->second);
        AWAIT(&scene->second, 2);
        float value = 0;
        TRY(look(scene, worker, set, &value));
        CHECK(value == (4 + 2) / 2.0F); /* of one version: their mean */
        TRY(move(scene, worker, set, 10));
        TRY(rbt_clock(worker));
        TRY(look(scene, worker, set, &value));
        CHECK(value == 3 + 10); /* alone in its version, as yet */
        rig_post(&scene->second);
    } else {
        AWAIT(&scene->second, 1);
        TRY(move(scene, worker, set, 2));
        TRY(rbt_clock(worker));
        rig_post(&scene->second);
        AWAIT(&scene->second, 3);
        TRY(move(scene, worker, set, 6)); /* the next of the same read: the next version */
        TRY(rbt_clock(worker));
        float value = 0;
        TRY(look(scene, worker, set, &value));
        CHECK(value == 3 + (10 + 6) / 2.0F);
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static void dynsgd_weighs_updates_by_those_that_share_their_version(void **state)
{
    (void)state;
    if (!is_embedded()) {
        return;
    }
    rbt_job *job = rig_job(2, 1, "asp");
    struct scene scene = {.flags = RBT_SET_DELTAS};
    open_table(&scene, job, (struct rbt_table_options){.rule = "dynsgd"});
    rig_run(job, share_versions, &scene);
    assert_int_equal(rig_stats(job).versions_max, 1); /* one goes when none can be added to it */
    assert_true(rig_stats(job).rule_bytes > 0);
    assert_true(rig_stats(job).server_bytes > rig_stats(job).rule_bytes);
    rig_run(job, read_model, &scene);
    assert_true(scene.model[0] == 11);
    rbt_job_close(job);
}

/* What the fixture has noted in a row: sum, messages before the last, its delay, its clock. */
enum { SUM, COUNT, DELAY, CLOCK, NOTES };

static rbt_status add_note(rbt_worker *worker, const struct scene *scene, uint64_t key)
{
    const float deltas[NOTES] = {1};
    return rbt_add(worker, scene->table, key, deltas);
}

static rbt_status measure_delays(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    float row[NOTES];
    if (rbt_worker_index(worker) == 0) {
        for (int i = 0; i < 2; i++) { /* messages 0 and 1, each from a read just before */
            TRY(rbt_get(worker, scene->table, 0, row));
            CHECK(row[SUM] == (float)i);
            TRY(add_note(worker, scene, 0));
            if (i == 0) {
                rig_post(&scene->gate);
                AWAIT(&scene->second, 1); /* worker 1 has read before any message */
            }
            TRY(rbt_clock(worker));
            TRY(rbt_get(worker, scene->table, 0, row));
            CHECK(row[COUNT] == (float)i && row[DELAY] == 0 && row[CLOCK] == (float)i);
        }
        rig_post(&scene->gate);
        AWAIT(&scene->second, 2);
        TRY(add_note(worker, scene, 0)); /* message 3, from after message 1 */
        rig_post(&scene->gate);
        TRY(rbt_get(worker, scene->table, 0, row));
        CHECK(row[SUM] == 3 && row[COUNT] == 2 && row[DELAY] == 2 && row[CLOCK] == 0);
        TRY(add_note(worker, scene, 0)); /* message 4, from after message 2 */
        TRY(add_note(worker, scene, 0)); /* the same */
        TRY(rbt_clock(worker));
        TRY(rbt_get(worker, scene->table, 0, row));
        CHECK(row[SUM] == 6 && row[COUNT] == 4 && row[DELAY] == 1 && row[CLOCK] == 2);
        return RBT_OK;
    }
    AWAIT(&scene->gate, 1);
    TRY(rbt_get(worker, scene->table, 0, row));
    CHECK(row[SUM] == 0);
    rig_post(&scene->second);
    AWAIT(&scene->gate, 2);
    TRY(add_note(worker, scene, 0));
    TRY(rbt_clock(worker)); /* message 2, from before message 0 */
    rig_post(&scene->second);
    return RBT_OK;
}

static void a_rule_learns_how_many_messages_came_between_read_and_update(void **state)
{
    (void)state;
    if (!is_embedded()) {
        return;
    }
    rbt_job *job = rig_job(2, 1, "asp");
    struct scene scene = {.found = 0};
    open_table(&scene, job,
               (struct rbt_table_options){
                   .rule = fixture("witness=1"), .width = NOTES, .cache = RBT_CACHE_NONE});
    rig_run(job, measure_delays, &scene);
    assert_int_equal(rig_stats(job).updates, 5);
    rbt_job_close(job);
}

/* Worker 1 reads and waits while worker 0 works; then it works alone. */
static rbt_status keep_snapshots(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 1, RBT_SET_DELTAS, &set));
    TRY(rbt_set_pull(set));
    rig_post(&scene->gate);
    AWAIT(&scene->gate, 2);
    if (rbt_worker_index(worker) == 1) {
        AWAIT(&scene->second, 1);
    }
    for (int clock = 0; clock < CLOCKS; clock++) {
        TRY(move(scene, worker, set, 1));
        TRY(rbt_clock(worker));
        TRY(rbt_set_pull(set));
    }
    rbt_set_destroy(set);
    TRY(rbt_worker_leave(worker));
    rig_post(&scene->second);
    return RBT_OK;
}

static void snapshots_are_kept_for_reads_that_updates_may_name_and_no_longer(void **state)
{
    (void)state;
    if (!is_embedded()) {
        return;
    }
    rbt_job *job = rig_job(2, 1, "asp");
    struct scene scene = {.flags = RBT_SET_DELTAS};
    open_table(&scene, job, (struct rbt_table_options){.rule = "adarev"});
    rig_run(job, keep_snapshots, &scene);
    assert_in_range(rig_stats(job).snapshots_max, 1, CLOCKS); /* not one for every message */
    rbt_job_close(job);
}

enum { IDLE_CLOCKS = 6000 };
static atomic_bool idle_is_over;

/* Worker 1 reads once and then does nothing; worker 0 works on. */
static rbt_status work_beside_an_idle_one(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 2, RBT_SET_DELTAS, &set));
    TRY(rbt_set_pull(set));
    if (rbt_worker_index(worker) == 0) {
        for (int clock = 0; clock < IDLE_CLOCKS; clock++) {
            float *deltas = rbt_set_deltas(set);
            deltas[0] = 0.5F;
            deltas[1] = -0.25F;
            TRY(rbt_set_push(set));
            TRY(rbt_clock(worker));
            TRY(rbt_set_pull(set));
        }
        atomic_store(&idle_is_over, true);
    } else {
        while (!atomic_load(&idle_is_over)) {
            (void)sched_yield();
        }
        float *deltas = rbt_set_deltas(set); /* as late as can be */
        deltas[0] = 1;
        TRY(rbt_set_push(set));
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static void an_idle_worker_does_not_fill_the_memory(void **state)
{
    (void)state;
    static const char *const rules[] = {"adarev", "adarev:max=100", "dynsgd", "dynsgd:max=5"};
    static const uint64_t most[] = {4096, 100, 65, 6};
    if (!is_embedded()) {
        return;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        rbt_job *job = rig_job(2, 1, "asp");
        struct scene scene = {.flags = RBT_SET_DELTAS};
        atomic_store(&idle_is_over, false);
        open_table(&scene, job, (struct rbt_table_options){.rule = rules[i]});
        rig_run(job, work_beside_an_idle_one, &scene);
        const struct rbt_job_stats stats = rig_stats(job);
        const uint64_t kept = i < 2 ? stats.snapshots_max : stats.versions_max;
        assert_in_range(kept, 1, most[i]);
        rbt_job_close(job);
    }
}

/* --- Tiny updates ---------------------------------------------------------------------------- */

static rbt_status push_crumbs(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 2, RBT_SET_DELTAS, &set));
    for (int clock = 0; clock < 10; clock++) {
        for (int push = 0; push < 2; push++) { /* the second is added to the first */
            float *deltas = rbt_set_deltas(set);
            deltas[0] += 0.125F;
            deltas[1] += 2;
            TRY(rbt_set_push(set));
        }
        TRY(rbt_clock(worker));
        TRY(rbt_set_pull(set));
        const float *values = rbt_set_values(set);
        const float sent = (float)((clock + 1) / 4); /* whole ones */
        CHECK(values[1] == (float)(4 * (clock + 1)));
        CHECK(values[0] == sent);
        CHECK(values[0] + ((const float *)rbt_set_deltas(set))[0] == 0.25F * (float)(clock + 1));
        CHECK(((const float *)rbt_set_deltas(set))[1] == 0);
    }
    TRY(rbt_set_push_range(set, RBT_RANGE_ALL)); /* the rest */
    TRY(rbt_clock(worker));
    TRY(rbt_set_pull(set));
    CHECK(((const float *)rbt_set_values(set))[0] == 2.5F);
    CHECK(((const float *)rbt_set_deltas(set))[0] == 0);
    rbt_set_destroy(set);
    return RBT_OK;
}

static void tiny_updates_stay_until_they_have_grown_and_none_is_lost(void **state)
{
    (void)state;
    static const char *const rules[] = {NULL, "add"};
    for (size_t i = 0; i < 4; i++) {
        rbt_job *job = rig_job(1, 2, i < 2 ? "bsp" : "essp:0");
        struct scene scene = {.found = 0};
        open_table(&scene, job,
                   (struct rbt_table_options){.rule = rules[i % 2],
                                              .experiments = RIG_EXPERIMENTS(.tiny = 1)});
        rig_run(job, push_crumbs, &scene);
        rbt_job_close(job);
    }
}

/* --- What is refused ------------------------------------------------------------------------- */

static void refuse(rbt_job *job, struct rbt_table_options options, const char *sentence)
{
    rbt_table *table = NULL;
    options.struct_size = sizeof options;
    assert_int_equal(rbt_table_open(job, "refused", &options, &table), RBT_E_INVALID);
    if (strstr(rbt_last_error(), sentence) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", rbt_last_error(), sentence);
    }
}

static void what_a_rule_cannot_do_is_refused_in_a_sentence(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "bsp");
    static const char dense[] = "a rule needs dense rows of f32 with merge \"add\"";
    refuse(job, (struct rbt_table_options){.rule = "add", .type = RBT_F64}, dense);
    refuse(job, (struct rbt_table_options){.rule = "add", .layout = RBT_SPARSE}, dense);
    refuse(job, (struct rbt_table_options){.rule = "add", .merge = RBT_MERGE_MAX}, dense);
    refuse(job, (struct rbt_table_options){.rule = "adarev", .overlay = RBT_OVERLAY_PROCESS},
           "only the shards know what a rule makes of an update");
    refuse(job, (struct rbt_table_options){.rule = "adarev", .overlay = RBT_OVERLAY_REPLICA},
           "rule \"adarev\" takes gradients, which cannot be added to a replica");
    refuse(job, (struct rbt_table_options){.rule = "add", .cache = RBT_CACHE_PROCESS},
           "rows cannot be cached for the process");
    refuse(job, (struct rbt_table_options){.rule = "add", .cache = RBT_CACHE_BOTH},
           "rows cannot be cached for the process");
    refuse(job, (struct rbt_table_options){.rule = "consgd:factor=2"}, "factor");
    refuse(job, (struct rbt_table_options){.rule = "consgd:speed=2"}, "speed");
    refuse(job,
           (struct rbt_table_options){.experiments = &(struct rbt_table_experiments){.slack = 1}},
           "the experiments of table \"main/refused\": struct_size is 0");
    refuse(job, (struct rbt_table_options){.rule = "konsgd"}, "konsgd");
    refuse(job, (struct rbt_table_options){.rule = "./nowhere.so"}, "nowhere.so");
    refuse(job, (struct rbt_table_options){.experiments = RIG_EXPERIMENTS(.tiny = -1)}, "tiny");
    refuse(job,
           (struct rbt_table_options){.experiments = RIG_EXPERIMENTS(.tiny = 1), .type = RBT_I64},
           "tiny");
    refuse(job, (struct rbt_table_options){.experiments = RIG_EXPERIMENTS(.slack = 2000000)},
           "slack");
    rbt_job_close(job);
}

static void a_table_keeps_its_rule(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "bsp");
    rbt_table *table = rig_table(job, "refused", (struct rbt_table_options){.rule = "consgd"});
    static const char other[] = "is there already, with other options";
    assert_ptr_equal(rig_table(job, "refused", (struct rbt_table_options){.rule = "consgd"}),
                     table);
    refuse(job, (struct rbt_table_options){.rule = "consgd:factor=0.5"}, other);
    refuse(job, (struct rbt_table_options){.rule = "dynsgd"}, other);
    refuse(job, (struct rbt_table_options){.overlay = RBT_OVERLAY_NONE}, other);
    refuse(job,
           (struct rbt_table_options){.rule = "consgd", .experiments = RIG_EXPERIMENTS(.slack = 1)},
           other);
    refuse(job,
           (struct rbt_table_options){.rule = "consgd", .experiments = RIG_EXPERIMENTS(.tiny = 1)},
           other);
    (void)rig_table(job, "plain", (struct rbt_table_options){.rule = ""}); /* none */
    (void)rig_table(job, "plain",
                    (struct rbt_table_options){.experiments = RIG_EXPERIMENTS(.tiny = 0)});
    (void)rig_table(job, "plain", (struct rbt_table_options){.rule = NULL});
    rbt_job_close(job);
}

static rbt_status change_gradients_in_place(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    rbt_set *set = NULL;
    CHECK(rbt_set_create(worker, scene->table, keys, 1, RBT_SET_IN_PLACE, &set) == RBT_E_INVALID);
    CHECK(strstr(rbt_last_error(), "takes gradients") != NULL);
    return RBT_OK;
}

static void gradients_are_not_changes_in_place(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "bsp");
    struct scene scene = {.found = 0};
    open_table(&scene, job, (struct rbt_table_options){.rule = "adagrad"});
    rig_run(job, change_gradients_in_place, &scene);
    rbt_job_close(job);
}

/* Like push_updates(), but a failure is nothing that the rig should know about. */
static rbt_status push_until_it_fails(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, scene->table, keys, KEYS, RBT_SET_DELTAS, &set);
    for (int clock = 0; st == RBT_OK && clock < 100; clock++) {
        st = rbt_set_pull(set);
        if (st == RBT_OK) {
            *(float *)rbt_set_deltas(set) = 1;
            st = rbt_set_push(set);
        }
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static void a_rule_that_fails_ends_the_job_with_its_sentence(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:1", "asp"};
    for (size_t i = 0; i < 8; i++) {
        rbt_job *job = rig_job(WORKERS, 1 + (uint32_t)i / 4, consistencies[i % 4]);
        struct scene scene = {.found = 0};
        open_table(&scene, job, (struct rbt_table_options){.rule = fixture("fail=9")});
        const rbt_status st = rbt_job_run(job, push_until_it_fails, &scene);
        assert_int_equal(st, RBT_E_DATA); /* no wrong argument of ours */
        assert_non_null(strstr(rbt_last_error(), "rule \"fixture\" failed at row 0 of table"));
        assert_non_null(strstr(rbt_last_error(), "message 9 is one too many"));
        rbt_job_close(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_users_rule_decides_what_becomes_of_updates),
        cmocka_unit_test(updates_that_are_aggregated_count_as_one),
        cmocka_unit_test(consgd_with_bsp_averages_models),
        cmocka_unit_test(a_replica_grows_by_its_own_updates_until_a_pull_replaces_it),
        cmocka_unit_test(a_copy_is_fetched_again_when_it_is_too_old_and_not_before),
        cmocka_unit_test(dynsgd_weighs_updates_by_those_that_share_their_version),
        cmocka_unit_test(a_rule_learns_how_many_messages_came_between_read_and_update),
        cmocka_unit_test(snapshots_are_kept_for_reads_that_updates_may_name_and_no_longer),
        cmocka_unit_test(an_idle_worker_does_not_fill_the_memory),
        cmocka_unit_test(tiny_updates_stay_until_they_have_grown_and_none_is_lost),
        cmocka_unit_test(what_a_rule_cannot_do_is_refused_in_a_sentence),
        cmocka_unit_test(a_table_keeps_its_rule),
        cmocka_unit_test(gradients_are_not_changes_in_place),
        cmocka_unit_test(a_rule_that_fails_ends_the_job_with_its_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
