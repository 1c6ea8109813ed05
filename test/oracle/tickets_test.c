/* oracle/tickets_test.c - calls that do not wait.
 *
 * Worker 0 stands still in clock 0 of a BSP table until worker 1 lets it go, so that every pull of
 * worker 1, which is at clock 1, is started and not finished. What comes after such a pull must not
 * have started either. */
#include "base/test.h"

#include "oracle/rig.h"

enum { SETS = 65, TICKETS_MAX = 64, AFTER_MAX = 8 };

struct scene {
    rbt_table *table;
    struct rig_gate gate;
};

/* Worker 1's sets: set i is the row with key i. */
struct desk {
    rbt_worker *worker;
    struct scene *scene;
    rbt_set *sets[SETS];
};

static int64_t *deltas_of(struct desk *desk, size_t i)
{
    return rbt_set_deltas(desk->sets[i]);
}

static int64_t value_of(struct desk *desk, size_t i)
{
    return *(int64_t *)rbt_set_values(desk->sets[i]);
}

/* Worker 0: adds 100 to row 0 in clock 0, which ends when the gate opens. */
static rbt_status stand_still(rbt_worker *worker, struct scene *scene)
{
    const int64_t hundred = 100;
    TRY(rbt_add(worker, scene->table, 0, &hundred));
    AWAIT(&scene->gate, 1);
    TRY(rbt_clock(worker));
    return RBT_OK;
}

static rbt_status sit_down(struct desk *desk, rbt_worker *worker, struct scene *scene)
{
    *desk = (struct desk){.worker = worker, .scene = scene};
    for (uint64_t key = 0; key < SETS; key++) {
        TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &desk->sets[key]));
    }
    return rbt_clock(worker); /* from here on pulls have to wait for worker 0 */
}

static void stand_up(struct desk *desk)
{
    for (size_t i = 0; i < SETS; i++) {
        rbt_set_destroy(desk->sets[i]);
    }
}

static void run_scene(rbt_worker_function function, uint32_t shards)
{
    rbt_job *job = rig_job(2, shards, "bsp");
    struct scene scene = {.table = rig_counts(job, 1)};
    rig_run(job, function, &scene);
    rbt_job_close(job);
}

static rbt_status pull_without_waiting(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct desk desk;
    rbt_ticket pull = 0;
    rbt_ticket push = 0;
    if (rbt_worker_index(worker) == 0) {
        return stand_still(worker, scene);
    }
    TRY(sit_down(&desk, worker, scene));
    TRY(rbt_set_pull_async(desk.sets[0], NULL, &pull));
    CHECK(pull == 1);
    CHECK(!rbt_ticket_is_finished(worker, pull));
    *deltas_of(&desk, 1) = 7;
    TRY(rbt_set_push_async(desk.sets[1], NULL, &push)); /* not held up by the pull */
    CHECK(push == 2);
    CHECK(rbt_ticket_is_finished(worker, push));
    TRY(rbt_ticket_wait(worker, push));
    CHECK(!rbt_ticket_is_finished(worker, pull));
    rig_post(&scene->gate);
    TRY(rbt_ticket_wait(worker, pull));
    CHECK(rbt_ticket_is_finished(worker, pull));
    CHECK(value_of(&desk, 0) == 100);
    CHECK(rbt_set_clock(desk.sets[0]) >= 1);
    TRY(rbt_clock(worker));
    TRY(rbt_set_pull(desk.sets[1]));
    CHECK(value_of(&desk, 1) == 7);
    stand_up(&desk);
    return RBT_OK;
}

static void a_pull_without_waiting_returns_at_once_and_finishes_later(void **state)
{
    (void)state;
    run_scene(pull_without_waiting, 1);
    run_scene(pull_without_waiting, 5);
}

/* Worker 0 stands still after its first clock, which is all that the pull asks for: the worker has
 * gone on by two clocks when it is done. A pull as fresh as the table says would wait for ever. */
static rbt_status pull_what_has_ended(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct desk desk;
    rbt_ticket pull = 0;
    if (rbt_worker_index(worker) == 0) {
        const int64_t hundred = 100;
        TRY(rbt_add(worker, scene->table, 0, &hundred));
        TRY(rbt_clock(worker));
        AWAIT(&scene->gate, 1);
        return RBT_OK;
    }
    TRY(sit_down(&desk, worker, scene));
    TRY(rbt_set_pull_within_async(desk.sets[0], 0, NULL, &pull));
    TRY(rbt_clock(worker));
    TRY(rbt_clock(worker));
    TRY(rbt_ticket_wait(worker, pull));
    CHECK(value_of(&desk, 0) == 100);
    CHECK(rbt_set_clock(desk.sets[0]) == 1);
    CHECK(rbt_set_pull_within_async(desk.sets[0], -2, NULL, &pull) == RBT_E_INVALID);
    rig_post(&scene->gate);
    stand_up(&desk);
    return RBT_OK;
}

static void a_pull_within_counts_from_when_it_was_asked_for(void **state)
{
    (void)state;
    run_scene(pull_what_has_ended, 1);
    run_scene(pull_what_has_ended, 5);
}

/* pull(0) <- push(1) <- push(2), and push(3) by itself. */
static rbt_status depend(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct desk desk;
    rbt_ticket tickets[4];
    if (rbt_worker_index(worker) == 0) {
        return stand_still(worker, scene);
    }
    TRY(sit_down(&desk, worker, scene));
    TRY(rbt_set_pull_async(desk.sets[0], NULL, &tickets[0]));
    for (size_t i = 1; i <= 2; i++) {
        *deltas_of(&desk, i) = (int64_t)i;
        const struct rbt_after after = {tickets, i};
        TRY(rbt_set_push_async(desk.sets[i], &after, &tickets[i]));
    }
    *deltas_of(&desk, 3) = 3;
    TRY(rbt_set_push_async(desk.sets[3], NULL, &tickets[3]));
    CHECK(!rbt_ticket_is_finished(worker, tickets[0]));
    CHECK(!rbt_ticket_is_finished(worker, tickets[1]));
    CHECK(!rbt_ticket_is_finished(worker, tickets[2]));
    CHECK(rbt_ticket_is_finished(worker, tickets[3]));
    rig_post(&scene->gate);
    TRY(rbt_ticket_wait(worker, tickets[2])); /* which drags the others along */
    for (size_t i = 0; i < 4; i++) {
        CHECK(rbt_ticket_is_finished(worker, tickets[i]));
    }
    TRY(rbt_clock(worker));
    for (size_t i = 1; i < 4; i++) {
        TRY(rbt_set_pull(desk.sets[i]));
        CHECK(value_of(&desk, i) == (int64_t)i);
    }
    stand_up(&desk);
    return RBT_OK;
}

static void tickets_start_after_those_they_name(void **state)
{
    (void)state;
    run_scene(depend, 1);
    run_scene(depend, 2);
}

static rbt_status bound_the_delay(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct desk desk;
    rbt_ticket ticket = 0;
    if (rbt_worker_index(worker) == 0) {
        return stand_still(worker, scene);
    }
    TRY(sit_down(&desk, worker, scene));
    TRY(rbt_set_pull_async(desk.sets[0], NULL, &ticket)); /* ticket 1 is stuck */
    TRY(rbt_worker_set_delay(worker, 2));
    TRY(rbt_set_push_async(desk.sets[1], NULL, &ticket)); /* needs tickets up to -1 */
    CHECK(rbt_ticket_is_finished(worker, 2));
    TRY(rbt_set_push_async(desk.sets[2], NULL, &ticket)); /* up to 0 */
    CHECK(rbt_ticket_is_finished(worker, 3));
    TRY(rbt_set_push_async(desk.sets[3], NULL, &ticket)); /* up to 1 */
    CHECK(!rbt_ticket_is_finished(worker, 4));
    TRY(rbt_worker_set_delay(worker, 3)); /* raised while ticket 4 waits */
    CHECK(rbt_ticket_is_finished(worker, 4));
    TRY(rbt_worker_set_delay(worker, 0));
    TRY(rbt_set_push_async(desk.sets[5], NULL, &ticket));
    CHECK(!rbt_ticket_is_finished(worker, 5));
    TRY(rbt_worker_set_delay(worker, RBT_STALENESS_ANY));
    CHECK(rbt_ticket_is_finished(worker, 5));
    TRY(rbt_worker_set_delay(worker, 1)); /* lowered below what is open: no deadlock */
    TRY(rbt_set_push_async(desk.sets[6], NULL, &ticket));
    CHECK(ticket == 6);
    CHECK(!rbt_ticket_is_finished(worker, 6));
    rig_post(&scene->gate);
    TRY(rbt_ticket_wait_through(worker, 6));
    for (rbt_ticket t = 1; t <= 6; t++) {
        CHECK(rbt_ticket_is_finished(worker, t));
    }
    stand_up(&desk);
    return RBT_OK;
}

static void a_ticket_starts_when_those_older_than_the_delay_are_finished(void **state)
{
    (void)state;
    run_scene(bound_the_delay, 1);
    run_scene(bound_the_delay, 2);
}

static rbt_status open_too_many(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct desk desk;
    rbt_ticket tickets[SETS];
    if (rbt_worker_index(worker) == 0) {
        return stand_still(worker, scene);
    }
    TRY(sit_down(&desk, worker, scene));
    for (size_t i = 0; i < TICKETS_MAX; i++) {
        TRY(rbt_set_pull_async(desk.sets[i], NULL, &tickets[i]));
        CHECK(tickets[i] == i + 1);
    }
    rbt_ticket none = 12345;
    CHECK(rbt_set_pull_async(desk.sets[TICKETS_MAX], NULL, &none) == RBT_E_BUSY);
    CHECK(none == 12345);
    CHECK(strlen(rbt_last_error()) > 0);
    rig_post(&scene->gate);
    TRY(rbt_ticket_wait_through(worker, tickets[TICKETS_MAX - 1]));
    CHECK(value_of(&desk, 0) == 100);
    const struct rbt_after eight = {tickets, AFTER_MAX};
    TRY(rbt_set_pull_async(desk.sets[TICKETS_MAX], &eight, &none));
    CHECK(none == TICKETS_MAX + 1);
    TRY(rbt_ticket_wait(worker, none));
    const struct rbt_after nine = {tickets, AFTER_MAX + 1};
    CHECK(rbt_set_pull_async(desk.sets[0], &nine, &none) == RBT_E_INVALID);
    stand_up(&desk);
    return RBT_OK;
}

static void at_most_64_tickets_are_open_and_8_are_named(void **state)
{
    (void)state;
    run_scene(open_too_many, 1);
}

/* "Every third iteration is synchronous": pulls run ahead, and every third push waits for all
 * pulls so far. Under any delay bound the sums are right and nothing hangs. */
static rbt_status iterate_by_tickets(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    static const int64_t delays[] = {0, 8, 1, RBT_STALENESS_ANY, 3};
    const uint64_t key = 4;
    rbt_set *set = NULL;
    rbt_ticket last = 0;
    TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &set));
    for (int64_t c = 0; c < 100; c++) {
        const struct rbt_after after = {&last, c > 0 && c % 3 == 0 ? 1 : 0};
        TRY(rbt_worker_set_delay(worker, delays[c / 20]));
        TRY(rbt_set_pull_async(set, &after, &last));
        TRY(rbt_ticket_wait(worker, last));
        const int64_t value = *(int64_t *)rbt_set_values(set);
        CHECK(value >= c + (c - 2 > 0 ? c - 2 : 0)); /* ssp:2: own, and the other's up to c-3 */
        CHECK(value <= 2 * c + 2);
        *(int64_t *)rbt_set_deltas(set) = 1;
        TRY(rbt_set_push_async(set, NULL, &last));
        TRY(rbt_ticket_wait_through(worker, last));
        TRY(rbt_clock(worker));
    }
    rbt_set_destroy(set);
    int64_t value = 0;
    TRY(rbt_get_within(worker, scene->table, key, 0, &value));
    CHECK(value == 200);
    return RBT_OK;
}

static void the_delay_may_change_at_any_time(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 2, "ssp:2");
    struct scene scene = {.table = rig_counts(job, 1)};
    rig_run(job, iterate_by_tickets, &scene);
    rbt_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pull_without_waiting_returns_at_once_and_finishes_later),
        cmocka_unit_test(a_pull_within_counts_from_when_it_was_asked_for),
        cmocka_unit_test(tickets_start_after_those_they_name),
        cmocka_unit_test(a_ticket_starts_when_those_older_than_the_delay_are_finished),
        cmocka_unit_test(at_most_64_tickets_are_open_and_8_are_named),
        cmocka_unit_test(the_delay_may_change_at_any_time),
    };
    return cmocka_run_group_tests_name("tickets", tests, NULL, NULL);
}
