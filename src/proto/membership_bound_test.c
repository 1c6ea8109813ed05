/* proto/membership_bound_test.c - what a member says of the staleness of its job, and when it is
 * known that all have taken it. */
#include "proto/membership_fixture.h"

static void read_bound(const struct fixture *f, struct rbt_control_bound *bound)
{
    const struct rbt_wire_cursor body = {.at = f->last_body, .end = f->last_body + f->last_size};
    assert_ok(rbt_control_get_bound(body, bound));
}

static void who_tells_waits_until_all_have_taken_it(void **state)
{
    struct fixture *f = *state;
    struct rbt_control_bound bound;
    join(f, RBT_ROLE_WORKER);
    assert_false(rbt_membership_is_telling(&f->m));
    tell_bound(f, 3);
    assert_string_equal(f->said, "bound");
    assert_int_equal(f->last_id, 1);
    read_bound(f, &bound);
    assert_int_equal(bound.job, 1);
    assert_int_equal(bound.table, 4);
    assert_int_equal(bound.staleness, 3);
    assert_int_equal(f->news.kind, RBT_MEMBERSHIP_NO_NEWS); /* the coordinator decides */
    hear_bound(f, 7, 3);
    assert_int_equal(f->news.kind, RBT_MEMBERSHIP_NEW_BOUND);
    assert_true(rbt_membership_is_telling(&f->m)); /* others may not have it */
    hear_taken(f, 1);
    assert_true(f->has_woken);
    assert_false(rbt_membership_is_telling(&f->m));
    tell_bound(f, 4);
    assert_int_equal(f->last_id, 2);
    hear_taken(f, 1); /* an answer of before */
    assert_false(f->has_woken);
    assert_true(rbt_membership_is_telling(&f->m));
}

static void what_is_heard_is_taken_also_again(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    for (int i = 0; i < 2; i++) {
        hear_bound(f, 2, 7);
        assert_int_equal(f->news.kind, RBT_MEMBERSHIP_NEW_BOUND);
        assert_int_equal(f->news.number, 2);
        assert_int_equal(f->news.bound.table, 4);
        assert_int_equal(f->news.bound.staleness, 7);
        assert_string_equal(f->said, "taken");
        assert_int_equal(f->last_id, 2);
    }
}

static void a_server_takes_the_bounds_of_its_jobs(void **state)
{
    struct fixture *f = *state;
    uint64_t job;
    const struct rbt_control_bound bound = {.job = 6, .table = RBT_CONTROL_ALL, .staleness = -1};
    join(f, RBT_ROLE_SERVER);
    (void)rbt_control_put_bound(f->message, 3, &bound);
    hear(f);
    assert_int_equal(f->news.bound.job, 6);
    assert_int_equal(f->news.bound.table, RBT_CONTROL_ALL);
    assert_string_equal(f->said, "taken");
    assert_int_equal(f->last_id, 3);
    const struct rbt_wire_cursor body = {.at = f->last_body, .end = f->last_body + f->last_size};
    assert_ok(rbt_control_get_taken(body, &job));
    assert_int_equal(job, 6);
}

static void a_bound_is_told_first_and_again_after_a_cut(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    tell_bound(f, 3);
    gather(f, "own");
    reconnect(f);
    assert_string_equal(f->said, "join bound gather");
    hear_taken(f, 1);
    reconnect(f);
    assert_string_equal(f->said, "join gather"); /* it was answered */
    step_down(f, RBT_E_CLOSED, "closed");
    tell_bound(f, 5);
    assert_string_equal(f->said, "");
    sleep_for(f, 0);
    step_up(f);
    assert_string_equal(f->said, "join bound gather");
    hear_taken(f, 2);
    assert_false(rbt_membership_is_telling(&f->m));
}

static void what_nobody_waits_for_delays_nobody(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    advise_bound(f, 3);
    assert_string_equal(f->said, "bound");
    assert_int_equal(f->last_id, 1);
    assert_false(rbt_membership_is_telling(&f->m));
    advise_bound(f, 3); /* it was said */
    assert_string_equal(f->said, "");
    tell_bound(f, 4);
    assert_int_equal(f->last_id, 2);
    advise_bound(f, 5);
    advise_bound(f, 6); /* the latest counts */
    assert_string_equal(f->said, "");
    hear_taken(f, 2);
    assert_string_equal(f->said, "bound");
    assert_int_equal(f->last_id, 3);
    hear_taken(f, 3);
    advise_bound(f, 6); /* others may have changed it since */
    assert_int_equal(f->last_id, 4);
}

static void what_was_said_first_is_said_first_again(void **state)
{
    struct fixture *f = *state;
    struct rbt_control_bound bound;
    join(f, RBT_ROLE_WORKER);
    advise_bound(f, 3);
    tell_bound(f, 4);
    reconnect(f);
    assert_string_equal(f->said, "join bound bound");
    assert_int_equal(f->last_id, 2);
    read_bound(f, &bound);
    assert_int_equal(bound.staleness, 4);
    hear_taken(f, 2);
    reconnect(f);
    assert_string_equal(f->said, "join");
}

static void a_failure_ends_the_wait(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    tell_bound(f, 3);
    hear_ending(f, RBT_FRAME_FAILED, RBT_E_CLOSED, "lost worker/1");
    assert_true(f->has_woken);
    assert_false(rbt_membership_is_telling(&f->m));
    tell_bound(f, 4);
    assert_string_equal(f->said, "");
    assert_false(rbt_membership_is_telling(&f->m));
}

static void a_bound_of_another_job_is_a_mistake(void **state)
{
    struct fixture *f = *state;
    const struct rbt_control_bound bound = {.job = 2, .staleness = 1};
    join(f, RBT_ROLE_WORKER);
    (void)rbt_control_put_bound(f->message, 1, &bound);
    hear(f);
    assert_failure(f, RBT_E_PROTOCOL, "the staleness of another job");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_tells_waits_until_all_have_taken_it),
        TEST(what_is_heard_is_taken_also_again),
        TEST(a_server_takes_the_bounds_of_its_jobs),
        TEST(a_bound_is_told_first_and_again_after_a_cut),
        TEST(what_nobody_waits_for_delays_nobody),
        TEST(what_was_said_first_is_said_first_again),
        TEST(a_failure_ends_the_wait),
        TEST(a_bound_of_another_job_is_a_mistake),
    };
    return cmocka_run_group_tests_name("proto/membership_bound", tests, NULL, NULL);
}
