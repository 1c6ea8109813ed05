/* client/read_test.c - caches never take back what a worker has seen, nor do they miss what an
 * eager table shows. Workers are threads that take turns, and answers come when the test says. */
#include "base/test.h"

#include <pthread.h>

#include "base/error.h"
#include "client/client.h"

#include <rubato/rubato.h>

enum { K = 7, L = 8, M = 9, WORKERS = 3, LATE = 1 };

/* The turn that it is, of those who take turns. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void set_turn(int to)
{
    (void)pthread_mutex_lock(&mutex);
    turn = to;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&mutex);
}

static void wait_turn(int least)
{
    (void)pthread_mutex_lock(&mutex);
    while (turn < least) {
        (void)pthread_cond_wait(&changed, &mutex);
    }
    (void)pthread_mutex_unlock(&mutex);
}

/* --- A driver on which the answer of one worker is long on its way --------------------------- */

static const struct rbt_driver_ops *real;

static void step(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    real->step(driver, calls, count);
    if (calls[0].event.kind == RBT_SHARD_PULL && calls[0].event.worker == LATE) {
        set_turn(1);
        wait_turn(7);
    }
}

/* --- Tests ----------------------------------------------------------------------------------- */

struct scene {
    rbt_table *table;
    bool is_crowded; /* the process's cache has no room for what others read, but worker 0's has */
    int64_t first;   /* what worker 0 has seen of row K, and sees then */
    int64_t second;
    int wrong; /* reads of worker 0, or of the late one */
};

static rbt_status look_twice(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const int64_t one = 1;
    int64_t value = 0;
    rbt_status st = RBT_OK;
    switch (rbt_worker_index(worker)) {
    case 0:
        wait_turn(2);
        st = rbt_get(worker, scene->table, K, &scene->first);
        set_turn(scene->is_crowded ? 5 : 2);
        if (scene->is_crowded) {
            wait_turn(6);
        } else {
            st = st != RBT_OK ? st : rbt_get(worker, scene->table, L, &value);
        }
        set_turn(7); /* the late one goes on */
        wait_turn(8);
        return st != RBT_OK ? st : rbt_get(worker, scene->table, K, &scene->second);
    case LATE:
        st = rbt_get(worker, scene->table, K, &value);
        scene->wrong += value != 0; /* it was asked before anything happened */
        set_turn(8);
        return st;
    default:
        wait_turn(1);
        st = rbt_add(worker, scene->table, K, &one);
        st = st != RBT_OK ? st : rbt_clock(worker);
        set_turn(2);
        if (scene->is_crowded) {
            wait_turn(5);
            st = st != RBT_OK ? st : rbt_get(worker, scene->table, L, &value);
            st = st != RBT_OK ? st : rbt_get(worker, scene->table, M, &value);
            set_turn(6);
        }
        return st;
    }
}

static void what_was_seen_does_not_vanish_because_of_a_late_answer(void **state)
{
    (void)state;
    static const rbt_cache caches[] = {RBT_CACHE_PROCESS, RBT_CACHE_BOTH};
    for (int i = 0; i < 4; i++) {
        const struct rbt_job_options options = {
            .struct_size = sizeof options, .workers = WORKERS, .consistency = "ssp:5"};
        const bool is_crowded = i >= 2;
        const struct rbt_table_options table = {.struct_size = sizeof table,
                                                .type = RBT_I64,
                                                .width = 1,
                                                .overlay = RBT_OVERLAY_NONE,
                                                .cache = caches[i % 2],
                                                .cache_rows = is_crowded ? 2 : 1};
        struct scene scene = {.is_crowded = is_crowded};
        rbt_job *job = NULL;
        turn = 0;
        assert_ok(rbt_job_open(&options, &job));
        assert_ok(rbt_table_open(job, "t", &table, &scene.table));
        real = job->driver->ops;
        struct rbt_driver_ops slow = *real;
        slow.step = step;
        job->driver->ops = &slow;
        assert_ok(rbt_job_run(job, look_twice, &scene));
        assert_int_equal(scene.wrong, 0);
        assert_int_equal(scene.first, 1);
        assert_int_equal(scene.second, 1);
        job->driver->ops = real;
        rbt_job_close(job);
    }
}

/* Worker 0 has a copy, which is fresh enough for its clock; but the table is eager. */
static rbt_status look_at_the_newest(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const int64_t one = 1;
    rbt_status st = RBT_OK;
    if (rbt_worker_index(worker) == 0) {
        st = rbt_get(worker, scene->table, K, &scene->first);
        for (int i = 1; st == RBT_OK && i < 6; i += 2) {
            set_turn(i);
            wait_turn(i + 1);
            st = rbt_get(worker, scene->table, K, &scene->second);
            scene->wrong += scene->second != (i + 1) / 2; /* each update is one version */
        }
        return st;
    }
    for (int i = 1; st == RBT_OK && rbt_worker_index(worker) == 1 && i < 6; i += 2) {
        wait_turn(i);
        st = rbt_add(worker, scene->table, K, &one);
        st = st != RBT_OK ? st : rbt_clock(worker);
        set_turn(i + 1);
    }
    return st;
}

static void an_eager_read_is_not_one_version_behind(void **state)
{
    (void)state;
    static const rbt_cache caches[] = {RBT_CACHE_WORKER, RBT_CACHE_PROCESS, RBT_CACHE_BOTH};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        const struct rbt_job_options options = {
            .struct_size = sizeof options, .workers = 2, .consistency = "essp:9"};
        const struct rbt_table_options table = {
            .struct_size = sizeof table, .type = RBT_I64, .width = 1, .cache = caches[i]};
        struct scene scene = {.first = -1};
        rbt_job *job = NULL;
        turn = 0;
        assert_ok(rbt_job_open(&options, &job));
        assert_ok(rbt_table_open(job, "t", &table, &scene.table));
        assert_ok(rbt_job_run(job, look_at_the_newest, &scene));
        assert_int_equal(scene.wrong, 0);
        assert_int_equal(scene.first, 0);
        assert_int_equal(scene.second, 3);
        rbt_job_close(job);
    }
}

enum { UPDATED = 50, LISTED = 150 }; /* rows */

/* Reads a list of `count` rows, the last of which nobody has updated. */
static rbt_status count_wrong(rbt_worker *worker, struct scene *scene, size_t count)
{
    uint64_t keys[LISTED];
    int64_t values[LISTED];
    for (size_t i = 0; i < count; i++) {
        keys[i] = i + 1 < count ? i : LISTED;
    }
    const struct rbt_rows rows = {.keys = keys, .values = values, .count = count};
    const rbt_status st = rbt_pull(worker, scene->table, &rows);
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        scene->wrong += values[i] != (keys[i] < UPDATED);
    }
    return st;
}

/* Updates rows without having read them, and looks at them one by one, in a short list and in a
 * long one. */
static rbt_status look_at_own_updates(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const int64_t one = 1;
    rbt_status st = RBT_OK;
    for (uint64_t key = 0; st == RBT_OK && key < UPDATED; key++) {
        st = rbt_add(worker, scene->table, key, &one);
    }
    for (uint64_t key = 0; st == RBT_OK && key < LISTED; key += 7) {
        st = rbt_get(worker, scene->table, key, &scene->second);
        scene->wrong += scene->second != (key < UPDATED);
    }
    st = st != RBT_OK ? st : count_wrong(worker, scene, UPDATED / 2);
    return st != RBT_OK ? st : count_wrong(worker, scene, LISTED);
}

static void own_updates_are_in_every_row_once(void **state)
{
    (void)state;
    static const rbt_overlay overlays[] = {RBT_OVERLAY_OWN, RBT_OVERLAY_PROCESS};
    for (size_t i = 0; i < sizeof overlays / sizeof *overlays; i++) {
        const struct rbt_job_options options = {
            .struct_size = sizeof options, .workers = 1, .shards = 2};
        const struct rbt_table_options table = {
            .struct_size = sizeof table, .type = RBT_I64, .overlay = overlays[i]};
        struct scene scene = {0};
        rbt_job *job = NULL;
        assert_ok(rbt_job_open(&options, &job));
        assert_ok(rbt_table_open(job, "t", &table, &scene.table));
        assert_ok(rbt_job_run(job, look_at_own_updates, &scene));
        assert_int_equal(scene.wrong, 0);
        rbt_job_close(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_seen_does_not_vanish_because_of_a_late_answer),
        cmocka_unit_test(an_eager_read_is_not_one_version_behind),
        cmocka_unit_test(own_updates_are_in_every_row_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
