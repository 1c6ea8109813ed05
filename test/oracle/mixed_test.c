/* oracle/mixed_test.c - access paths mixed on one table, and calls that fail half-way: nothing is
 * lost, nothing is doubled, and what a worker must see it sees on every path. */
#include "oracle/rig.h"

#include <string.h>

#include "base/alloc.h"

enum { KEYS = 64 };

struct scene {
    rbt_table *table;
    rbt_table *other;
    struct rig_gate gate;
    unsigned nth;
};

static const char *const consistencies[] = {"bsp", "ssp:2", "essp:2", "asp"};

static rbt_status read_in_all_ways(rbt_worker *worker, rbt_table *table, rbt_set *set, int64_t want)
{
    uint64_t key = 1;
    int64_t value = -1;
    int64_t listed = -1;
    const struct rbt_rows rows = {&key, &listed, 1};
    TRY(rbt_get(worker, table, key, &value));
    CHECK(value == want);
    TRY(rbt_set_pull(set));
    CHECK(*(int64_t *)rbt_set_values(set) == want);
    TRY(rbt_pull(worker, table, &rows));
    CHECK(listed == want);
    return RBT_OK;
}

static rbt_status update_in_all_ways(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    uint64_t key = 1;
    int64_t one = 1;
    const struct rbt_rows rows = {&key, &one, 1};
    rbt_set *sets[2] = {NULL, NULL};
    TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_IN_PLACE, &sets[0]));
    TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &sets[1]));
    int64_t want = 0;
    for (int clock = 0; clock < 6; clock++) {
        for (int way = 0; way < 4; way++) {
            TRY(read_in_all_ways(worker, scene->table, sets[way % 2], want));
            switch ((clock + way) % 4) {
            case 0:
                TRY(rbt_add(worker, scene->table, key, &one));
                break;
            case 1:
                TRY(rbt_push(worker, scene->table, &rows));
                break;
            case 2:
                TRY(rbt_set_pull(sets[0]));
                *(int64_t *)rbt_set_values(sets[0]) += 1;
                TRY(rbt_set_push(sets[0]));
                break;
            default:
                *(int64_t *)rbt_set_deltas(sets[1]) = 1;
                TRY(rbt_set_push(sets[1]));
            }
            want++;
            TRY(read_in_all_ways(worker, scene->table, sets[0], want));
            TRY(read_in_all_ways(worker, scene->table, sets[1], want));
        }
        TRY(rbt_clock(worker));
    }
    rbt_set_destroy(sets[0]);
    rbt_set_destroy(sets[1]);
    return RBT_OK;
}

static void own_updates_are_seen_on_every_path_whatever_path_made_them(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        rbt_job *job = rig_job(1, 1 + (uint32_t)i / 8, consistencies[i % 4]);
        const struct rbt_table_options options = {.type = RBT_I64,
                                                  .overlay = i / 4 % 2 == 0 ? RBT_OVERLAY_OWN
                                                                            : RBT_OVERLAY_PROCESS,
                                                  .cache = (rbt_cache)(i % 4)};
        struct scene scene = {.table = rig_table(job, "counts", options)};
        rig_run(job, update_in_all_ways, &scene);
        rbt_job_close(job);
    }
}

static rbt_status look_over_the_shoulder(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const uint64_t key = 1;
    const int64_t one = 1;
    if (rbt_worker_index(worker) == 1) {
        AWAIT(&scene->gate, 1);
        TRY(rbt_add(worker, scene->table, key, &one));
        rig_post(&scene->gate);
        AWAIT(&scene->gate, 3);
        return RBT_OK;
    }
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &set));
    TRY(rbt_set_pull(set));
    rig_post(&scene->gate);
    AWAIT(&scene->gate, 2);
    TRY(rbt_set_pull(set));
    CHECK(*(int64_t *)rbt_set_values(set) == 1);
    rig_post(&scene->gate);
    rbt_set_destroy(set);
    return RBT_OK;
}

static void sets_see_updates_of_the_process_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        rbt_job *job = rig_job(2, 1, consistencies[i]);
        const struct rbt_table_options options = {.type = RBT_I64, .overlay = RBT_OVERLAY_PROCESS};
        struct scene scene = {.table = rig_table(job, "counts", options)};
        rig_run(job, look_over_the_shoulder, &scene);
        rbt_job_close(job);
    }
}

/* Worker 1 completes a clock while worker 0 stays in its first: it is visible, though the floor has
 * not moved. */
static rbt_status get_the_newest(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    int64_t value = -1;
    const int64_t one = 1;
    if (rbt_worker_index(worker) == 1) {
        AWAIT(&scene->gate, 1);
        TRY(rbt_add(worker, scene->table, 1, &one));
        TRY(rbt_clock(worker));
        rig_post(&scene->gate);
        return RBT_OK;
    }
    TRY(rbt_get(worker, scene->table, 1, &value));
    CHECK(value == 0);
    rig_post(&scene->gate);
    AWAIT(&scene->gate, 2);
    TRY(rbt_get(worker, scene->table, 1, &value));
    CHECK(value == 1);
    return RBT_OK;
}

static void an_eager_read_takes_the_newest_there_is(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 1, "essp:2");
    struct scene scene = {.table = rig_counts(job, 1)};
    rig_run(job, get_the_newest, &scene);
    rbt_job_close(job);
}

/* --- Failures half-way ------------------------------------------------------------------------ */

static rbt_status push_with_a_failure(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    uint64_t keys[KEYS];
    int64_t ones[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
        ones[i] = 1;
    }
    const struct rbt_rows rows = {keys, ones, KEYS};
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, KEYS, RBT_SET_DELTAS, &set));
    memcpy(rbt_set_deltas(set), ones, sizeof ones);
    TRY(rbt_push(worker, scene->other, &rows));
    TRY(rbt_add(worker, scene->other, 0, ones));
    rbt_alloc_fail_nth(scene->nth);
    rbt_status st = rbt_set_push_range(set, RBT_RANGE_ALL);
    rbt_alloc_fail_nth(0);
    if (st != RBT_OK) {
        CHECK(st == RBT_E_NOMEM);
        TRY(rbt_set_push_range(set, RBT_RANGE_ALL));
    }
    /* Once more: what was sent half-way stays a message of its own. */
    memcpy(rbt_set_deltas(set), ones, sizeof ones);
    TRY(rbt_set_push(set));
    rbt_alloc_fail_nth(scene->nth);
    st = rbt_clock(worker);
    rbt_alloc_fail_nth(0);
    if (st != RBT_OK) {
        CHECK(st == RBT_E_NOMEM);
        TRY(rbt_clock(worker));
    }
    CHECK(rbt_worker_clock(worker) == 1);
    for (uint64_t i = 0; i < KEYS; i++) {
        int64_t values[2] = {-1, -1};
        TRY(rbt_get(worker, scene->table, i, &values[0]));
        TRY(rbt_get(worker, scene->other, i, &values[1]));
        CHECK(values[0] == 2);
        CHECK(values[1] == (i == 0 ? 2 : 1));
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static void pushes_and_clocks_that_fail_half_way_lose_and_double_nothing(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 160; i++) {
        rbt_job *job = rig_job(1, 1 + i % 2 * 2, "bsp");
        const struct rbt_table_options shown = {
            .type = RBT_I64, .consistency = "ssp:1", .partial = RBT_PARTIAL_SHOW};
        struct scene scene = {.nth = 1 + i / 4};
        if (i / 2 % 2 == 0) { /* the tables' order is the order within a message */
            scene.table = rig_table(job, "shown", shown);
        }
        scene.other = rig_counts(job, 1);
        if (i / 2 % 2 == 1) {
            scene.table = rig_table(job, "shown", shown);
        }
        rig_run(job, push_with_a_failure, &scene);
        rbt_job_close(job);
    }
}

static rbt_status fail_with_pending_updates(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const int64_t one = 1;
    TRY(rbt_add(worker, scene->table, 1, &one));
    TRY(rbt_clock(worker));
    TRY(rbt_add(worker, scene->table, 1, &one));
    return rbt_worker_index(worker) == 0 ? RBT_E_TIMEOUT : RBT_OK; /* any failure of its own */
}

static rbt_status expect_three(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    int64_t value = -1;
    TRY(rbt_get(worker, scene->table, 1, &value));
    CHECK(value == 3); /* both workers' finished clocks, and what the good one had pending */
    return RBT_OK;
}

static void a_worker_that_fails_sends_finished_clocks_only(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 1, "bsp");
    struct scene scene = {.table = rig_counts(job, 1)};
    assert_int_equal(rbt_job_run(job, fail_with_pending_updates, &scene), RBT_E_TIMEOUT);
    rig_run(job, expect_three, &scene);
    rbt_job_close(job);
}

static rbt_status push_after_leaving(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    const uint64_t key = 1;
    rbt_set *set = NULL;
    rbt_ticket tickets[2];
    TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &set));
    TRY(rbt_worker_leave(worker));
    TRY(rbt_set_push_async(set, NULL, &tickets[0]));
    TRY(rbt_set_pull_async(set, NULL, &tickets[1]));
    CHECK(rbt_ticket_is_finished(worker, tickets[1]));
    CHECK(rbt_ticket_wait(worker, tickets[0]) == RBT_E_CLOSED);
    CHECK(rbt_ticket_wait(worker, tickets[1]) == RBT_OK);
    CHECK(rbt_ticket_wait_through(worker, tickets[1]) == RBT_E_CLOSED);
    rbt_set_destroy(set);
    return RBT_OK;
}

static void waiting_for_many_tickets_tells_of_failures_that_are_over(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "ssp:1");
    struct scene scene = {.table = rig_counts(job, 1)};
    rig_run(job, push_after_leaving, &scene);
    rbt_job_close(job);
}

static rbt_status change_bounds(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    const uint32_t me = rbt_worker_index(worker);
    const int64_t one = 1;
    for (int64_t clock = 0; clock < 400; clock++) {
        int64_t value = -1;
        if (me == 0) {
            TRY(rbt_table_set_staleness(scene->table, clock % 7));
        }
        TRY(rbt_add(worker, scene->table, me, &one));
        TRY(rbt_clock(worker));
        TRY(rbt_get_within(worker, scene->table, me, RBT_STALENESS_ANY, &value));
        CHECK(value == clock + 1);
    }
    return RBT_OK;
}

static void own_updates_stay_visible_while_the_bound_changes(void **state)
{
    (void)state;
    rbt_job *job = rig_job(3, 16, "ssp:3");
    struct scene scene = {.table = rig_counts(job, 1)};
    rig_run(job, change_bounds, &scene);
    rbt_job_close(job);
}

enum { MANY = 500, FEW = 20 };

/* Every worker counts on all keys and checks its own keys, which nobody else touches, exactly. */
static rbt_status count_on_many_rows(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    const uint64_t first = rbt_worker_index(worker) * (uint64_t)MANY;
    const int64_t one = 1;
    for (int64_t clock = 0; clock < 8; clock++) {
        for (uint64_t i = 0; i < MANY; i++) {
            int64_t value = -1;
            TRY(rbt_add(worker, scene->table, first + i, &one));
            TRY(rbt_add(worker, scene->table, first + (i * 7 + 3) % MANY, &one));
            TRY(rbt_get(worker, scene->table, first + (i * 11) % MANY, &value));
            CHECK(value >= 2 * clock && value <= 2 * clock + 2);
        }
        for (uint64_t i = 0; i < MANY; i++) {
            int64_t value = -1;
            TRY(rbt_get(worker, scene->table, first + i, &value));
            CHECK(value == 2 * clock + 2);
        }
        TRY(rbt_clock(worker));
    }
    return RBT_OK;
}

static void a_cache_that_holds_few_rows_costs_fetches_and_nothing_else(void **state)
{
    (void)state;
    for (int i = 0; i < 32; i++) {
        uint64_t fetches[2];
        for (uint32_t is_small = 0; is_small < 2; is_small++) {
            rbt_job *job = rig_job(2, 1 + (uint32_t)i / 16, consistencies[i % 4]);
            const struct rbt_table_options options = {
                .type = RBT_I64,
                .overlay = i / 4 % 4 == 3 ? RBT_OVERLAY_PROCESS : RBT_OVERLAY_OWN,
                .cache = (rbt_cache)(i / 4 % 3),
                .cache_rows = is_small == 1 ? FEW : 0};
            struct scene scene = {.table = rig_table(job, "counts", options)};
            rig_run(job, count_on_many_rows, &scene);
            fetches[is_small] = rig_stats(job).fetches;
            rbt_job_close(job);
        }
        if (i % 4 < 2) { /* how often eager tables fetch depends on the schedule */
            assert_true(fetches[1] > fetches[0]);
        }
    }
}

static rbt_status read_an_empty_sparse_row(rbt_worker *worker, void *argument)
{
    const struct scene *scene = argument;
    uint32_t index[4];
    int64_t values[4];
    struct rbt_elements elements = {index, values, 0, 4};
    TRY(rbt_get_sparse(worker, scene->table, 1, &elements));
    CHECK(elements.count == 0);
    return RBT_OK;
}

static void an_empty_sparse_row_costs_its_key_only(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "ssp:1");
    const struct rbt_table_options options = {
        .type = RBT_I64, .layout = RBT_SPARSE, .width = UINT32_MAX};
    struct scene scene = {.table = rig_table(job, "sparse", options)};
    rig_run(job, read_an_empty_sparse_row, &scene);
    assert_int_equal(rig_stats(job).bytes_received, sizeof(uint64_t));
    rbt_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_updates_are_seen_on_every_path_whatever_path_made_them),
        cmocka_unit_test(sets_see_updates_of_the_process_at_once),
        cmocka_unit_test(an_eager_read_takes_the_newest_there_is),
        cmocka_unit_test(pushes_and_clocks_that_fail_half_way_lose_and_double_nothing),
        cmocka_unit_test(a_worker_that_fails_sends_finished_clocks_only),
        cmocka_unit_test(waiting_for_many_tickets_tells_of_failures_that_are_over),
        cmocka_unit_test(own_updates_stay_visible_while_the_bound_changes),
        cmocka_unit_test(a_cache_that_holds_few_rows_costs_fetches_and_nothing_else),
        cmocka_unit_test(an_empty_sparse_row_costs_its_key_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
