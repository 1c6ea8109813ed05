/* core/task_test.c - one test per promise of task.c. */
#include "base/test.h"

#include "base/error.h"
#include "base/rng.h"
#include "core/task.h"

static rbt_ticket issue(struct rbt_task_list *list)
{
    rbt_ticket ticket = 0;
    assert_ok(rbt_task_issue(list, NULL, &ticket));
    return ticket;
}

static rbt_ticket issue_after(struct rbt_task_list *list, rbt_ticket a, rbt_ticket b)
{
    const rbt_ticket tickets[] = {a, b};
    rbt_ticket ticket = 0;
    assert_ok(rbt_task_issue(list, &(struct rbt_after){tickets, 2}, &ticket));
    return ticket;
}

static void tickets_are_numbered_from_one(void **state)
{
    (void)state;
    struct rbt_task_list list;
    rbt_task_init(&list);
    assert_int_equal(issue(&list), 1);
    assert_int_equal(issue(&list), 2);
    assert_true(rbt_task_is_ready(&list, 1));
    assert_false(rbt_task_is_finished(&list, 1));
    assert_false(rbt_task_is_finished(&list, 3)); /* nobody has it yet */
}

static void a_ticket_starts_when_those_before_it_are_finished(void **state)
{
    (void)state;
    struct rbt_task_list list;
    rbt_task_init(&list);
    issue(&list);
    issue(&list);
    const rbt_ticket joined = issue_after(&list, 1, 2);
    assert_false(rbt_task_is_ready(&list, joined));
    rbt_task_finish(&list, 2, RBT_OK);
    assert_false(rbt_task_is_ready(&list, joined));
    assert_true(rbt_task_is_finished(&list, 2)); /* although 1 is not */
    rbt_task_finish(&list, 1, RBT_OK);
    assert_true(rbt_task_is_ready(&list, joined));
    rbt_task_finish(&list, joined, RBT_OK);
    assert_false(rbt_task_is_ready(&list, joined)); /* it need not start again */
}

static void following_a_finished_ticket_costs_nothing(void **state)
{
    (void)state;
    struct rbt_task_list list;
    rbt_task_init(&list);
    issue(&list);
    rbt_task_finish(&list, 1, RBT_OK);
    assert_true(rbt_task_is_ready(&list, issue_after(&list, 1, 1)));
}

static void without_delay_one_runs_after_the_other(void **state)
{
    (void)state;
    struct rbt_task_list list;
    rbt_task_init(&list);
    list.delay = 0;
    for (rbt_ticket t = 1; t <= 3; t++) {
        assert_int_equal(issue(&list), t);
        assert_int_equal(rbt_task_is_ready(&list, t), t == 1);
    }
    rbt_task_finish(&list, 1, RBT_OK);
    assert_true(rbt_task_is_ready(&list, 2));
    assert_false(rbt_task_is_ready(&list, 3));
}

static unsigned count_ready(const struct rbt_task_list *list)
{
    unsigned count = 0;
    for (rbt_ticket t = 1; t <= list->issued; t++) {
        count += rbt_task_is_ready(list, t);
    }
    return count;
}

static void the_delay_bound_may_change_at_any_time(void **state)
{
    (void)state;
    struct rbt_task_list list;
    rbt_task_init(&list);
    list.delay = 0;
    for (int i = 0; i < 20; i++) {
        issue(&list);
    }
    assert_int_equal(count_ready(&list), 1);
    list.delay = 8;
    assert_int_equal(count_ready(&list), 9);
    rbt_task_finish(&list, 1, RBT_OK);
    assert_true(rbt_task_is_ready(&list, 10));
    assert_false(rbt_task_is_ready(&list, 11));
    list.delay = 1;
    assert_int_equal(count_ready(&list), 2);
    assert_true(rbt_task_is_ready(&list, 3));
    list.delay = RBT_STALENESS_ANY;
    assert_int_equal(count_ready(&list), 19);
    list.delay = INT64_MAX;
    assert_int_equal(count_ready(&list), 19);
}

static void at_most_64_tickets_are_open_from_the_oldest_on(void **state)
{
    (void)state;
    struct rbt_task_list list;
    rbt_ticket ticket = 0;
    rbt_task_init(&list);
    for (int i = 0; i < RBT_TASK_OPEN_MAX; i++) {
        issue(&list);
    }
    assert_fails(rbt_task_issue(&list, NULL, &ticket), RBT_E_BUSY, "64 tickets");
    rbt_task_finish(&list, 40, RBT_OK); /* the oldest is still open */
    assert_fails(rbt_task_issue(&list, NULL, &ticket), RBT_E_BUSY, "64 tickets");
    assert_int_equal(ticket, 0);
    rbt_task_finish(&list, 1, RBT_OK);
    assert_int_equal(issue(&list), 65);
}

static void tickets_that_do_not_exist_cannot_be_followed(void **state)
{
    (void)state;
    struct rbt_task_list list;
    rbt_ticket ticket = 0;
    rbt_task_init(&list);
    issue(&list);
    const rbt_ticket bad[] = {0, 2, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        assert_fails(rbt_task_issue(&list, &(struct rbt_after){&bad[i], 1}, &ticket), RBT_E_INVALID,
                     "there is no ticket");
    }
    const rbt_ticket many[RBT_TASK_AFTER_MAX + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_fails(rbt_task_issue(&list, &(struct rbt_after){many, 9}, &ticket), RBT_E_INVALID,
                 "at most 8 others, not 9");
    assert_ok(rbt_task_issue(&list, &(struct rbt_after){many, 8}, &ticket));
    assert_int_equal(ticket, 2); /* those that failed got no number */
}

static void a_status_is_remembered_for_63_tickets_more(void **state)
{
    (void)state;
    struct rbt_task_list list;
    rbt_task_init(&list);
    issue(&list);
    rbt_task_finish(&list, 1, RBT_E_NOMEM);
    for (int i = 0; i < RBT_TASK_OPEN_MAX - 1; i++) {
        assert_int_equal(rbt_task_status(&list, 1), RBT_E_NOMEM);
        rbt_task_finish(&list, issue(&list), RBT_OK);
    }
    assert_int_equal(rbt_task_status(&list, 1), RBT_E_NOMEM);
    rbt_task_finish(&list, issue(&list), RBT_E_BUSY); /* takes its place */
    assert_int_equal(rbt_task_status(&list, 1), RBT_OK);
}

/* Ten rounds of the ring in random order against plain arrays; something may always start. */
static void it_agrees_with_a_list_of_all_tickets(void **state)
{
    (void)state;
    enum { TICKETS = 640 };
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct rbt_task_list list;
        struct rbt_rng rng;
        bool is_finished[TICKETS + 1] = {true};
        rbt_ticket follows[TICKETS + 1] = {0};
        rbt_ticket done = 0; /* all up to this one */
        rbt_task_init(&list);
        rbt_rng_init(&rng, seed, 0, 0);
        list.delay = seed % 3 == 0 ? RBT_STALENESS_ANY : (int64_t)(seed % 20);
        while (done < TICKETS) {
            rbt_ticket t = list.issued + 1;
            if (t <= TICKETS && list.issued - done < RBT_TASK_OPEN_MAX) {
                follows[t] = t == 1 ? 0 : 1 + rbt_rng_below(&rng, t - 1);
                const rbt_status st =
                    rbt_task_issue(&list, &(struct rbt_after){&follows[t], t > 1}, &t);
                assert_int_equal(st, RBT_OK);
            }
            t = done + 1 + rbt_rng_below(&rng, list.issued - done);
            const bool is_near = list.delay < 0 || t <= done + (uint64_t)list.delay + 1;
            const bool may_start = !is_finished[t] && is_finished[follows[t]] && is_near;
            assert_int_equal(rbt_task_is_ready(&list, t), may_start);
            assert_int_equal(rbt_task_is_finished(&list, t), is_finished[t]);
            assert_true(rbt_task_is_ready(&list, done + 1)); /* the oldest can */
            if (may_start) {
                rbt_task_finish(&list, t, RBT_OK);
                is_finished[t] = true;
            }
            while (done < list.issued && is_finished[done + 1]) {
                done++;
            }
            assert_int_equal(list.finished_through, done);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tickets_are_numbered_from_one),
        cmocka_unit_test(a_ticket_starts_when_those_before_it_are_finished),
        cmocka_unit_test(following_a_finished_ticket_costs_nothing),
        cmocka_unit_test(without_delay_one_runs_after_the_other),
        cmocka_unit_test(the_delay_bound_may_change_at_any_time),
        cmocka_unit_test(at_most_64_tickets_are_open_from_the_oldest_on),
        cmocka_unit_test(tickets_that_do_not_exist_cannot_be_followed),
        cmocka_unit_test(a_status_is_remembered_for_63_tickets_more),
        cmocka_unit_test(it_agrees_with_a_list_of_all_tickets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
