/* oracle/clocks_test.c - clocks, waiting and leaving.
 *
 * Workers are brought into an exact order by gates. Where a read must wait, the other worker is let
 * go only when the read is about to start, so a read that does not wait returns too little. */
#include "base/test.h"

#include <stdatomic.h>
#include <stdio.h>

#include "oracle/rig.h"

/* What the workers of a test share. */
struct scene {
    rbt_table *table;
    struct rig_gate gate; /* tests say who posts it */
    struct rig_gate second;
    int64_t clocks; /* how far somebody goes */
    int64_t staleness;
    _Atomic int64_t count;
};

/* Adds 1 to row 0 and ends the clock, `clocks` times. */
static rbt_status count_clocks(rbt_worker *worker, rbt_table *table, int64_t clocks)
{
    const int64_t one = 1;
    for (int64_t c = 0; c < clocks; c++) {
        TRY(rbt_add(worker, table, 0, &one));
        TRY(rbt_clock(worker));
    }
    return RBT_OK;
}

static rbt_status run_asp_beside_a_stopped_worker(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) == 0) {
        AWAIT(&scene->gate, (int)rbt_worker_count(worker) - 1);
        return RBT_OK;
    }
    const int64_t one = 1;
    for (int64_t c = 0; c < 1000; c++) {
        int64_t value = -1;
        TRY(rbt_get(worker, scene->table, (uint64_t)c % 10, &value));
        CHECK(value >= 0);
        TRY(rbt_add(worker, scene->table, (uint64_t)c % 10, &one));
        TRY(rbt_clock(worker));
    }
    rig_post(&scene->gate);
    return RBT_OK;
}

static void asp_workers_never_wait_for_a_stopped_one(void **state)
{
    (void)state;
    rbt_job *job = rig_job(4, 2, "asp");
    struct scene scene = {.table = rig_counts(job, 1)};
    rig_run(job, run_asp_beside_a_stopped_worker, &scene);
    const struct rbt_job_stats stats = rig_stats(job);
    assert_int_equal(stats.reads, 3000);
    assert_int_equal(stats.reads_waited, 0);
    rbt_job_close(job);
}

static rbt_status see_others_under_asp(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    int64_t value = -1;
    if (rbt_worker_index(worker) == 0) {
        TRY(rbt_get(worker, scene->table, 0, &value)); /* a copy is cached from now on */
        CHECK(value == 0);
        rig_post(&scene->gate);
        AWAIT(&scene->second, 1);
        TRY(rbt_clock(worker));
        TRY(rbt_get(worker, scene->table, 0, &value));
        CHECK(value == 5);
        rig_post(&scene->gate);
        return RBT_OK;
    }
    AWAIT(&scene->gate, 1);
    TRY(count_clocks(worker, scene->table, 5));
    rig_post(&scene->second);
    AWAIT(&scene->gate, 2);
    return RBT_OK;
}

/* Asynchronous is a pull in every clock, not a copy that grows old. */
static void asp_reads_of_the_next_clock_see_what_others_have_ended(void **state)
{
    (void)state;
    for (int cache = RBT_CACHE_WORKER; cache <= RBT_CACHE_NONE; cache++) {
        rbt_job *job = rig_job(2, 1, "asp");
        struct scene scene = {.table = rig_table(job, "counts",
                                                 (struct rbt_table_options){
                                                     .type = RBT_I64, .cache = (rbt_cache)cache})};
        rig_run(job, see_others_under_asp, &scene);
        rbt_job_close(job);
    }
}

/* Worker 1 runs to clock 5 and reads with s=5, which must not wait, then with s=0, which must. */
static rbt_status read_with_two_bounds(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) == 0) {
        AWAIT(&scene->gate, 1);
        rig_yield(200); /* time for a read that does not wait to go wrong */
        return count_clocks(worker, scene->table, 5);
    }
    int64_t value = -1;
    TRY(count_clocks(worker, scene->table, 5));
    TRY(rbt_get_within(worker, scene->table, 0, 5, &value));
    CHECK(value == 5);
    TRY(rbt_get_within(worker, scene->table, 0, RBT_STALENESS_ANY, &value));
    CHECK(value == 5);
    rig_post(&scene->gate);
    TRY(rbt_get_within(worker, scene->table, 0, 0, &value));
    CHECK(value == 10);
    return RBT_OK;
}

static void a_read_waits_by_the_staleness_that_it_names(void **state)
{
    (void)state;
    for (int cache = RBT_CACHE_WORKER; cache <= RBT_CACHE_NONE; cache++) {
        rbt_job *job = rig_job(2, 1, "ssp:3");
        struct scene scene = {.table = rig_table(job, "counts",
                                                 (struct rbt_table_options){
                                                     .type = RBT_I64, .cache = (rbt_cache)cache})};
        rig_run(job, read_with_two_bounds, &scene);
        rbt_job_close(job);
    }
}

/* Worker i completes 3, 7 or 5 clocks, then all compare. */
static rbt_status compare_clocks(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    static const int64_t clocks[] = {3, 7, 5};
    const int64_t mine = clocks[rbt_worker_index(worker)];
    TRY(count_clocks(worker, scene->table, mine));
    rig_post(&scene->gate);
    AWAIT(&scene->gate, 3);
    CHECK(rbt_worker_clock(worker) == mine);
    CHECK(rbt_worker_process_clock(worker) == 3);
    CHECK(rbt_worker_shard_clock(worker) == 3);
    rig_post(&scene->second);
    AWAIT(&scene->second, 3);
    if (mine == 3) {
        TRY(rbt_worker_leave(worker)); /* the slowest leaves; the next one is at 5 */
        rig_post(&scene->second);
    }
    AWAIT(&scene->second, 4);
    if (mine != 3) {
        CHECK(rbt_worker_process_clock(worker) == 5);
        CHECK(rbt_worker_shard_clock(worker) == 5);
    }
    rig_post(&scene->gate);
    AWAIT(&scene->gate, 6);
    return RBT_OK;
}

static void process_and_shard_clocks_are_the_slowest_workers(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 5; shards += 2) {
        rbt_job *job = rig_job(3, shards, "ssp:2");
        struct scene scene = {.table = rig_counts(job, 1)};
        rig_run(job, compare_clocks, &scene);
        rbt_job_close(job);
    }
}

/* The fast worker ends 20 clocks first; the slow one then reads once per clock. */
static rbt_status read_slowly(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) == 0) {
        TRY(count_clocks(worker, scene->table, 20));
        rig_post(&scene->gate);
        AWAIT(&scene->gate, 2);
        return RBT_OK;
    }
    AWAIT(&scene->gate, 1);
    for (int64_t c = 0; c < 20; c++) {
        int64_t value = 0;
        TRY(rbt_get(worker, scene->table, 0, &value));
        CHECK(value >= c - scene->staleness + c); /* worker 0's up to c-s-1, and all own */
        TRY(count_clocks(worker, scene->table, 1));
    }
    rig_post(&scene->gate);
    return RBT_OK;
}

/* The slowest worker asks a shard every s+1 clocks. */
static void the_slowest_worker_fetches_every_s_plus_one_clocks(void **state)
{
    (void)state;
    for (int64_t s = 0; s <= 4; s++) {
        char consistency[16];
        (void)snprintf(consistency, sizeof consistency, "ssp:%d", (int)s);
        rbt_job *job = rig_job(2, 1, consistency);
        struct scene scene = {.table = rig_counts(job, 1), .staleness = s};
        rig_run(job, read_slowly, &scene);
        const struct rbt_job_stats stats = rig_stats(job);
        assert_int_equal(stats.reads, 20);
        assert_int_equal(stats.fetches, (20 + s) / (s + 1));
        assert_int_equal(stats.reads_waited, 0);
        rbt_job_close(job);
    }
}

enum { AHEAD = 10000 }; /* clocks */

/* Worker 0 is frozen until worker 1 has made thousands of updates and clocks; then worker 1 reads.
 */
static rbt_status run_beside_a_frozen_worker(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) == 0) {
        AWAIT(&scene->gate, 1);
        rig_yield(200);
        return count_clocks(worker, scene->table, AHEAD);
    }
    int64_t value = 0;
    TRY(count_clocks(worker, scene->table, AHEAD));
    rig_post(&scene->gate);
    TRY(rbt_get(worker, scene->table, 0, &value));
    CHECK(value >= 2 * AHEAD - scene->staleness && value <= 2 * AHEAD);
    return RBT_OK;
}

static void updates_and_clocks_never_wait_but_the_next_read_does(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2"};
    for (int i = 0; i < 3; i++) {
        rbt_job *job = rig_job(2, 2, consistencies[i]);
        struct scene scene = {.table = rig_counts(job, 1), .staleness = i == 0 ? 0 : 2};
        rig_run(job, run_beside_a_frozen_worker, &scene);
        rbt_job_close(job);
    }
}

/* S = 3, the reader has completed 6 clocks: it needs clock 2 of the other, and not clock 3. */
static rbt_status read_at_clock_six(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) == 0) {
        TRY(count_clocks(worker, scene->table, 2)); /* clocks 0 and 1 are complete */
        rig_post(&scene->second);
        AWAIT(&scene->gate, 1);
        rig_yield(200);
        TRY(count_clocks(worker, scene->table, 1)); /* clock 2 */
        AWAIT(&scene->gate, 2);                     /* waits for the read, not the other way */
        return RBT_OK;
    }
    int64_t value = 0;
    TRY(count_clocks(worker, scene->table, 5));
    AWAIT(&scene->second, 1);
    TRY(rbt_get(worker, scene->table, 0, &value)); /* at clock 5, clock 1 is enough */
    CHECK(value == 7);
    TRY(count_clocks(worker, scene->table, 1));
    rig_post(&scene->gate);
    TRY(rbt_get(worker, scene->table, 0, &value));
    CHECK(value == 9);
    rig_post(&scene->gate);
    return RBT_OK;
}

/* The scenario of Wei et al. 2015, figure 2. */
static void a_read_at_clock_six_with_staleness_three_needs_clock_two(void **state)
{
    (void)state;
    for (int cache = RBT_CACHE_WORKER; cache <= RBT_CACHE_NONE; cache++) {
        rbt_job *job = rig_job(2, 1, "ssp:3");
        struct scene scene = {.table = rig_table(job, "counts",
                                                 (struct rbt_table_options){
                                                     .type = RBT_I64, .cache = (rbt_cache)cache})};
        rig_run(job, read_at_clock_six, &scene);
        assert_true(rig_stats(job).lag_max <= 3);
        rbt_job_close(job);
    }
}

static rbt_status ask_for_freshness(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct rbt_freshness fresh = {.struct_size = sizeof fresh};
    int64_t value = 0;
    if (rbt_worker_index(worker) == 0) {
        TRY(count_clocks(worker, scene->table, 4));
        rig_post(&scene->gate);
        AWAIT(&scene->gate, 2);
        return RBT_OK;
    }
    AWAIT(&scene->gate, 1);
    rbt_row_freshness(worker, scene->table, 0, &fresh);
    CHECK(fresh.clock == -1);
    TRY(count_clocks(worker, scene->table, 2));
    TRY(rbt_get(worker, scene->table, 0, &value));
    rbt_row_freshness(worker, scene->table, 0, &fresh);
    CHECK(fresh.clock == 2); /* worker 0 has ended 4, this one 2 */
    CHECK(fresh.staleness == 0);
    TRY(rbt_clock(worker));
    TRY(rbt_clock(worker));
    rbt_row_freshness(worker, scene->table, 0, &fresh);
    CHECK(fresh.clock == 2);
    CHECK(fresh.staleness == 2);
    TRY(rbt_clock(worker));
    rbt_row_freshness(worker, scene->table, 7, &fresh);
    CHECK(fresh.clock == -1); /* nobody has read that row */
    rig_post(&scene->gate);
    return RBT_OK;
}

static void freshness_says_which_clocks_are_in_the_copy(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 1, "ssp:2");
    struct scene scene = {.table = rig_counts(job, 1)};
    rig_run(job, ask_for_freshness, &scene);
    rbt_job_close(job);
}

/* Worker p runs 10 + 5 p clocks of BSP; all that remain see all of those that are gone. */
static rbt_status run_uneven_clocks(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const int64_t me = rbt_worker_index(worker);
    for (int64_t c = 0; c < 10 + 5 * me; c++) {
        int64_t value = 0;
        int64_t expected = 0;
        TRY(rbt_get(worker, scene->table, 0, &value));
        for (int64_t p = 0; p < (int64_t)rbt_worker_count(worker); p++) {
            expected += c < 10 + 5 * p ? c : 10 + 5 * p;
        }
        CHECK(value == expected);
        TRY(count_clocks(worker, scene->table, 1));
    }
    return RBT_OK;
}

static void workers_that_end_early_hold_nobody_up(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 2; shards++) {
        rbt_job *job = rig_job(4, shards, "bsp");
        struct scene scene = {.table = rig_counts(job, 1)};
        rig_run(job, run_uneven_clocks, &scene);
        rbt_job_close(job);
    }
}

/* Worker 0 leaves in the middle of its second clock, stays, and reads. */
static rbt_status leave_and_stay(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const int64_t one = 1;
    int64_t value = 0;
    if (rbt_worker_index(worker) == 0) {
        TRY(count_clocks(worker, scene->table, 1));
        TRY(rbt_add(worker, scene->table, 0, &one));
        TRY(rbt_worker_leave(worker));
        rig_post(&scene->gate);
        AWAIT(&scene->gate, 2);
        TRY(rbt_get(worker, scene->table, 0, &value));
        CHECK(value >= 2);
        CHECK(rbt_add(worker, scene->table, 0, &one) != RBT_OK);
        return RBT_OK;
    }
    TRY(count_clocks(worker, scene->table, 10));
    AWAIT(&scene->gate, 1);
    TRY(rbt_get(worker, scene->table, 0, &value));
    CHECK(value == 12); /* what was pending has been sent */
    rig_post(&scene->gate);
    return RBT_OK;
}

static void a_worker_that_leaves_sends_what_is_pending_and_may_still_read(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 1, "bsp");
    struct scene scene = {.table = rig_counts(job, 1)};
    rig_run(job, leave_and_stay, &scene);
    rbt_job_close(job);
}

static rbt_status run_again(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    int64_t value = -1;
    CHECK(rbt_worker_clock(worker) == 0);
    TRY(rbt_get(worker, scene->table, 0, &value));
    CHECK(value >= scene->count);
    CHECK(value <= scene->count + scene->staleness); /* what others may have done by now */
    return count_clocks(worker, scene->table, scene->clocks);
}

static void a_job_that_runs_again_keeps_rows_and_restarts_clocks(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2", "asp"};
    for (int i = 0; i < 4; i++) {
        rbt_job *job = rig_job(3, 2, consistencies[i]);
        struct scene scene = {.table = rig_counts(job, 1), .staleness = i == 0 ? 0 : 2 * 6};
        for (int64_t run = 0; run < 5; run++) {
            scene.clocks = 5 + run % 2;
            rig_run(job, run_again, &scene);
            scene.count += 3 * scene.clocks;
        }
        rbt_job_close(job);
    }
}

/* Workers 1 and 2 fail, in this or the other order; the rest goes on. */
static rbt_status fail_in_the_middle(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const uint32_t me = rbt_worker_index(worker);
    for (int c = 0; c < 20; c++) {
        int64_t value = 0;
        rbt_set *set = NULL;
        const uint64_t unsorted[] = {2, 1};
        if (me == 1 && c == 7) {
            return rbt_set_create(worker, scene->table, unsorted, 2, RBT_SET_DELTAS, &set);
        }
        if (me == 2 && c == 3) {
            return RBT_E_INTERRUPTED;
        }
        rbt_status st = rbt_get(worker, scene->table, 0, &value);
        st = st != RBT_OK ? st : count_clocks(worker, scene->table, 1);
        if (st != RBT_OK) {
            return st;
        }
    }
    atomic_fetch_add(&scene->count, 1);
    return RBT_OK;
}

static void the_first_worker_that_fails_gives_the_job_its_status_and_message(void **state)
{
    (void)state;
    rbt_job *job = rig_job(4, 1, "bsp");
    struct scene scene = {.table = rig_counts(job, 1)};
    const rbt_status st = rbt_job_run(job, fail_in_the_middle, &scene);
    assert_int_equal(st, RBT_E_INVALID);
    assert_true(strlen(rbt_last_error()) > 0);
    assert_int_equal(scene.count, 2); /* workers 0 and 3 came to their end */
    rbt_job_close(job);
}

static rbt_status change_the_bound(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    if (rbt_worker_index(worker) == 0) {
        AWAIT(&scene->gate, 1);
        rig_yield(200);
        return count_clocks(worker, scene->table, 5);
    }
    int64_t value = 0;
    TRY(count_clocks(worker, scene->table, 5));
    TRY(rbt_get(worker, scene->table, 0, &value)); /* ssp:5: clock 0 is not needed yet */
    CHECK(value == 5);
    TRY(rbt_table_set_staleness(scene->table, 0));
    CHECK(rbt_table_staleness(scene->table) == 0);
    rig_post(&scene->gate);
    TRY(rbt_get(worker, scene->table, 0, &value));
    CHECK(value == 10);
    TRY(rbt_table_set_staleness(scene->table, RBT_STALENESS_ANY));
    CHECK(rbt_table_staleness(scene->table) == RBT_STALENESS_ANY);
    return RBT_OK;
}

static void a_new_bound_of_a_table_holds_for_the_next_read(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 1, "ssp:5");
    struct scene scene = {.table = rig_counts(job, 1)};
    assert_int_equal(rbt_table_staleness(scene.table), 5);
    rig_run(job, change_the_bound, &scene);
    rbt_job_close(job);
}

static void a_consistency_is_a_staleness_with_a_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t staleness;
    } cases[] = {
        {"bsp", 0}, {"ssp:0", 0}, {"ssp:7", 7}, {"essp:12", 12}, {"asp", RBT_STALENESS_ANY}};
    rbt_job *job = rig_job(1, 1, NULL);
    assert_int_equal(rbt_table_staleness(rig_counts(job, 1)), 2); /* the default is essp:2 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct rbt_table_options options = {.consistency = cases[i].name};
        rbt_table *table = rig_table(job, cases[i].name, options);
        assert_int_equal(rbt_table_staleness(table), cases[i].staleness);
    }
    rbt_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asp_workers_never_wait_for_a_stopped_one),
        cmocka_unit_test(asp_reads_of_the_next_clock_see_what_others_have_ended),
        cmocka_unit_test(a_read_waits_by_the_staleness_that_it_names),
        cmocka_unit_test(process_and_shard_clocks_are_the_slowest_workers),
        cmocka_unit_test(the_slowest_worker_fetches_every_s_plus_one_clocks),
        cmocka_unit_test(updates_and_clocks_never_wait_but_the_next_read_does),
        cmocka_unit_test(a_read_at_clock_six_with_staleness_three_needs_clock_two),
        cmocka_unit_test(freshness_says_which_clocks_are_in_the_copy),
        cmocka_unit_test(workers_that_end_early_hold_nobody_up),
        cmocka_unit_test(a_worker_that_leaves_sends_what_is_pending_and_may_still_read),
        cmocka_unit_test(a_job_that_runs_again_keeps_rows_and_restarts_clocks),
        cmocka_unit_test(the_first_worker_that_fails_gives_the_job_its_status_and_message),
        cmocka_unit_test(a_new_bound_of_a_table_holds_for_the_next_read),
        cmocka_unit_test(a_consistency_is_a_staleness_with_a_name),
    };
    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
