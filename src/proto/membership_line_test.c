/* proto/membership_line_test.c - a member's connection: when it is made, when it is lost, and who
 * is to blame. */
#include "proto/membership_fixture.h"

static void signs_of_life_are_given_and_awaited(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    pass(f, SILENCE_MS - 1);
    assert_string_equal(f->said, "beat beat beat");
    assert_false(rbt_membership_has_ended(&f->m));
    hear_beat(f);
    pass(f, SILENCE_MS - 1);
    assert_false(rbt_membership_has_ended(&f->m));
    pass(f, 1);
    assert_failure(f, RBT_E_CLOSED, "lost the coordinator at unix:c: no sign of life for 2s");
    assert_true(f->has_woken);
    assert_string_equal(f->said, "cut");
}

static void a_process_that_stands_still_gives_no_sign_of_life(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_SERVER);
    step(f, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_ALIVE, .is_alive = false});
    pass(f, 3 * SILENCE_MS);
    assert_string_equal(f->said, ""); /* and the coordinator is not blamed for being silent */
    assert_false(rbt_membership_has_ended(&f->m));
    step(f, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_ALIVE, .is_alive = true});
    pass(f, SILENCE_MS / 4);
    assert_string_equal(f->said, "beat");
}

static void a_pause_of_our_own_is_forgiven(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    sleep_for(f, 100 * SILENCE_MS);
    assert_string_equal(f->said, "beat");
    assert_false(rbt_membership_has_ended(&f->m));
    pass(f, SILENCE_MS - 1); /* but then the coordinator has to say something */
    assert_false(rbt_membership_has_ended(&f->m));
    pass(f, 1);
    assert_failure(f, RBT_E_CLOSED, "no sign of life for 2s");
}

static void a_pause_without_a_connection_is_forgiven(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    step_down(f, RBT_E_CLOSED, "closed");
    sleep_for(f, 100 * CUT_MS);
    assert_string_equal(f->said, "connect");
    assert_false(rbt_membership_has_ended(&f->m));
}

static void a_connection_that_breaks_the_protocol_is_not_made_again(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    step_down(f, RBT_E_PROTOCOL, "the peer does not have the key");
    assert_failure(f, RBT_E_PROTOCOL, "the coordinator at unix:c: the peer does not have the key");
    sleep_for(f, 0);
    assert_string_equal(f->said, "");
}

static void attempts_are_made_ever_more_rarely(void **state)
{
    struct fixture *f = *state;
    static const int64_t waits[] = {10, 20, 40, 80, 160, 320, 500, 500};
    begin(f, RBT_ROLE_WORKER);
    sleep_for(f, 0);
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        assert_string_equal(f->said, "connect");
        step_down(f, RBT_E_IO, "could not reach unix:c: connection refused");
        pass(f, waits[i] - 1);
        assert_string_equal(f->said, "");
        pass(f, 1);
    }
    assert_string_equal(f->said, "connect");
}

/* Every attempt to connect fails, until the machine gives up. */
static void refuse_until_the_end(struct fixture *f)
{
    for (int i = 0; !rbt_membership_has_ended(&f->m); i++) {
        assert_in_range(i, 0, 1000);
        f->now = rbt_membership_deadline(&f->m);
        sleep_for(f, 0);
        if (strcmp(f->said, "connect") == 0) {
            step_down(f, RBT_E_IO, "could not reach unix:c: connection refused");
        }
    }
}

static void nobody_listens_where_the_coordinator_should_be(void **state)
{
    struct fixture *f = *state;
    begin(f, RBT_ROLE_WORKER);
    refuse_until_the_end(f);
    assert_int_equal(f->now, START + START_MS * MS);
    assert_failure(f, RBT_E_TIMEOUT,
                   "could not join the coordinator: could not reach unix:c: connection refused "
                   "(tried for 20s)");
}

static void nobody_answers_where_the_coordinator_should_be(void **state)
{
    struct fixture *f = *state;
    begin(f, RBT_ROLE_WORKER);
    sleep_for(f, 0);
    assert_string_equal(f->said, "connect");
    pass(f, 3000);
    assert_string_equal(f->said, "cut"); /* a new attempt is better */
    pass(f, 10);
    assert_string_equal(f->said, "connect");
    pass(f, START_MS - 3010);
    assert_failure(f, RBT_E_TIMEOUT,
                   "could not join the coordinator: could not reach unix:c: it does not answer "
                   "(tried for 20s)");
    assert_int_equal(f->m.line, RBT_MEMBERSHIP_DOWN);
}

static void connections_that_end_before_an_answer_are_named(void **state)
{
    struct fixture *f = *state;
    begin(f, RBT_ROLE_WORKER);
    sleep_for(f, 0);
    while (f->now < START + (START_MS - 1000) * MS) {
        step_up(f);
        step_down(f, RBT_E_CLOSED, "the peer closed the connection");
        assert_false(rbt_membership_has_ended(&f->m));
        f->now = f->m.retry_at;
        sleep_for(f, 0);
        assert_string_equal(f->said, "connect");
    }
    step_up(f);
    pass(f, 1000);
    assert_failure(f, RBT_E_TIMEOUT,
                   "could not join the coordinator at unix:c within 20s: the peer closed the "
                   "connection");
}

static void not_everybody_comes(void **state)
{
    struct fixture *f = *state;
    meet(f, RBT_ROLE_WORKER);
    for (int i = 0; i < START_MS + 2999; i += 999) { /* the coordinator is there */
        hear_beat(f);
        pass(f, 999);
        assert_false(i + 999 < START_MS + 3000 && rbt_membership_has_ended(&f->m));
    }
    hear_beat(f);
    pass(f, 999);
    assert_failure(f, RBT_E_TIMEOUT,
                   "the coordinator at unix:c did not report all processes within 20s");
    leave(f, RBT_E_TIMEOUT, "nobody came");
    assert_string_equal(f->said, "goodbye"); /* it is still there to be told */
}

static void the_coordinator_is_lost_when_it_cannot_be_reached_again(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    step_down(f, RBT_E_CLOSED, "closed");
    const rbt_time cut_at = f->now;
    refuse_until_the_end(f);
    assert_int_equal(f->now, cut_at + CUT_MS * MS);
    assert_failure(f, RBT_E_CLOSED, "lost the coordinator at unix:c: no connection for 3s");
}

static void a_connection_without_an_answer_is_none(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    reconnect(f);
    pass(f, 1000);
    step_down(f, RBT_E_CLOSED, "closed");
    pass(f, 10);
    step_up(f);
    pass(f, CUT_MS - 1010 - 1);
    assert_false(rbt_membership_has_ended(&f->m));
    pass(f, 1);
    assert_failure(f, RBT_E_CLOSED, "no connection for 3s");
}

static void a_connection_late_within_the_time_is_given_its_time(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    step_down(f, RBT_E_CLOSED, "closed");
    sleep_for(f, 0);
    f->now += (SILENCE_MS + 500) * MS; /* the carrier takes long, and tells when it is there */
    step_up(f);
    sleep_for(f, 0);
    assert_false(rbt_membership_has_ended(&f->m)); /* silence counts from the new connection */
    hear_beat(f);
    pass(f, SILENCE_MS - 1);
    assert_false(rbt_membership_has_ended(&f->m));
}

static void a_carrier_that_takes_long_to_connect_has_not_slept(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    step_down(f, RBT_E_CLOSED, "closed");
    sleep_for(f, 0);
    assert_string_equal(f->said, "connect");
    f->now += (SILENCE_MS / 2 + 100) * MS;
    step_down(f, RBT_E_IO, "could not reach unix:c: its name is not known");
    sleep_for(f, 10);
    assert_string_equal(f->said, "connect");
    f->now += (SILENCE_MS / 2 + 100) * MS;
    step_up(f);
    sleep_for(f, CUT_MS - SILENCE_MS - 210 - 1);
    assert_false(rbt_membership_has_ended(&f->m));
    sleep_for(f, 1);
    assert_failure(f, RBT_E_CLOSED, "no connection for 3s");
}

static void an_attempt_that_is_not_answered_is_no_pause(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    step_down(f, RBT_E_CLOSED, "closed");
    sleep_for(f, 0);
    assert_string_equal(f->said, "connect");
    pass(f, CUT_MS);
    assert_string_equal(f->said, "cut");
    assert_failure(f, RBT_E_CLOSED, "no connection for 3s");
}

static void who_has_something_to_say_does_not_wait_for_the_next_attempt(void **state)
{
    struct fixture *f = *state;
    begin(f, RBT_ROLE_WORKER);
    for (int i = 0; i < 3; i++) {
        f->now = rbt_membership_deadline(&f->m);
        sleep_for(f, 0);
        step_down(f, RBT_E_IO, "could not reach unix:c: connection refused");
        assert_true(rbt_membership_deadline(&f->m) > f->now);
    }
    leave(f, RBT_OK, NULL);
    assert_int_equal(rbt_membership_deadline(&f->m), f->now);
    sleep_for(f, 0);
    assert_string_equal(f->said, "connect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(signs_of_life_are_given_and_awaited),
        TEST(a_process_that_stands_still_gives_no_sign_of_life),
        TEST(a_pause_of_our_own_is_forgiven),
        TEST(a_pause_without_a_connection_is_forgiven),
        TEST(a_connection_that_breaks_the_protocol_is_not_made_again),
        TEST(attempts_are_made_ever_more_rarely),
        TEST(nobody_listens_where_the_coordinator_should_be),
        TEST(nobody_answers_where_the_coordinator_should_be),
        TEST(connections_that_end_before_an_answer_are_named),
        TEST(not_everybody_comes),
        TEST(the_coordinator_is_lost_when_it_cannot_be_reached_again),
        TEST(a_connection_without_an_answer_is_none),
        TEST(a_connection_late_within_the_time_is_given_its_time),
        TEST(a_carrier_that_takes_long_to_connect_has_not_slept),
        TEST(an_attempt_that_is_not_answered_is_no_pause),
        TEST(who_has_something_to_say_does_not_wait_for_the_next_attempt),
    };
    return cmocka_run_group_tests_name("proto/membership_line", tests, NULL, NULL);
}
