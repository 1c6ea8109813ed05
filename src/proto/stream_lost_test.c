/* proto/stream_lost_test.c - refusals, silence, and when a stream gives up. */
#include "proto/stream_rig.h"

/* --- Refusals and giving up ------------------------------------------------------------------ */

static void a_refusal_is_for_good(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 0);
    assert_fails(
        shard_sends(f, (struct rbt_frame){.kind = RBT_FRAME_REFUSED}, (struct rbt_wire_news){0}),
        RBT_E_CLOSED, "shard 7 at a.shard:7 refused us: not today");
    assert_int_equal(f->cuts, 1);
}

/* If the job has failed at the shard, that is the reason, and its status. */
static void a_failure_at_the_shard_is_told(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    assert_ok(tick(f));
    connection_is_made(f, false);
    assert_fails(shard_sends(f,
                             (struct rbt_frame){.kind = RBT_FRAME_REFUSED,
                                                .flags = RBT_FRAME_FAILURE,
                                                .id = (uint64_t)-RBT_E_NOMEM},
                             (struct rbt_wire_news){0}),
                 RBT_E_NOMEM, "shard 7 at a.shard:7: not today");
}

/* May come again, and does, less and less often; and gives up with the reason. */
static void a_refusal_for_now_is_tried_again(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    uint32_t tries = 0;
    rbt_status st = RBT_OK;
    while (st == RBT_OK) {
        assert_ok(tick(f));
        connection_is_made(f, false);
        tries++;
        if (tries % 2 == 0) { /* greeted first, which makes it no better */
            shard_says(f, RBT_FRAME_WELCOME, 0);
        }
        const struct rbt_frame refused = {.kind = RBT_FRAME_REFUSED, .flags = RBT_FRAME_TRY_AGAIN};
        st = shard_sends(f, refused, (struct rbt_wire_news){0});
        const rbt_time due = rbt_stream_deadline(&f->stream);
        assert_true(st != RBT_OK || (due > f->now && due <= f->now + SECOND / 2));
        f->now = due;
    }
    assert_fails(st, RBT_E_CLOSED, "not today");
    assert_non_null(strstr(rbt_last_error(), "no connection for 3"));
    assert_in_range(tries, 8, 15);
    assert_true(f->now >= 3 * SECOND);
}

/* The reason is the carrier's, and not whatever the thread has failed at last. */
static void it_gives_up_when_nobody_is_there(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    rbt_status st = RBT_OK;
    uint32_t tries = 0;
    for (; st == RBT_OK; tries++) {
        (void)rbt_fail(RBT_E_INVALID, "something else");
        assert_ok(tick(f));
        st = connection_is_lost(f, "nobody listens");
        f->now = rbt_stream_deadline(&f->stream);
    }
    assert_fails(st, RBT_E_CLOSED, "lost shard 7 at a.shard:7: no connection for");
    assert_non_null(strstr(rbt_last_error(), "(nobody listens)"));
    assert_in_range(tries, 8, 15);
}

static void connecting_may_take_so_long(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    assert_ok(tick(f));
    assert_int_equal(rbt_stream_deadline(&f->stream), 3 * SECOND);
    f->now = 3 * SECOND - 1;
    assert_ok(tick(f));
    assert_true(f->is_wanted);
    f->now++;
    assert_fails(tick(f), RBT_E_CLOSED, "it does not answer");
    assert_int_equal(f->cuts, 1);
}

/* A connection that nobody has wanted for long was not lost for long. */
static void it_comes_back_after_a_pause(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 1);
    f->now += 100 * SECOND;
    assert_ok(connection_is_lost(f, "cut"));
    f->now += 100 * SECOND;
    assert_ok(tick(f));
    assert_false(f->is_wanted);
    push(f, 2);
    assert_ok(tick(f));
    assert_ok(connection_is_lost(f, "nobody listens")); /* but it has only begun to try */
    assert_int_equal(f->stream.state, RBT_STREAM_DOWN);
    f->now += 4 * SECOND;
    assert_ok(tick(f));
    assert_int_equal(connection_is_lost(f, "nobody listens"), RBT_E_CLOSED);
}

/* A connection that was of use ends what came before: the pauses between attempts are short again.
 */
static void pauses_begin_anew_after_a_good_connection(void **state)
{
    struct fixture *f = *state;
    rbt_time first = 0;
    push(f, 1);
    for (int tries = 0; tries < 4; tries++) {
        assert_ok(tick(f));
        assert_ok(connection_is_lost(f, "nobody listens"));
        first = tries == 0 ? rbt_stream_deadline(&f->stream) - f->now : first;
        f->now = rbt_stream_deadline(&f->stream);
    }
    come_up(f, 0);
    shard_says(f, RBT_FRAME_ACK, 0);
    assert_ok(connection_is_lost(f, "cut"));
    assert_int_equal(rbt_stream_deadline(&f->stream), f->now); /* at once */
    assert_ok(tick(f));
    assert_ok(connection_is_lost(f, "nobody listens"));
    assert_true(first > 0);
    assert_int_equal(rbt_stream_deadline(&f->stream) - f->now, first);
}

/* Whoever wants more of a lost shard does not make it less lost: rows may be asked for ahead at any
 * time. */
static void wanting_more_does_not_put_off_the_end(void **state)
{
    struct fixture *f = *state;
    (void)ask(f);
    assert_ok(tick(f));
    assert_ok(connection_is_lost(f, "nobody listens"));
    f->now = 2 * SECOND;
    (void)ask(f);
    assert_ok(tick(f));
    assert_ok(connection_is_lost(f, "nobody listens"));
    f->now = 3 * SECOND;
    (void)ask(f);
    assert_ok(tick(f));
    assert_fails(connection_is_lost(f, "nobody listens"), RBT_E_CLOSED, "no connection for 3s");
}

/* Without memory the worker fails at once: trying again would take more. */
static void without_memory_it_fails(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 0);
    drop_wire(f);
    f->is_open = false;
    assert_fails(happen(f, (struct rbt_port_event){.kind = RBT_PORT_DOWN,
                                                   .down = {RBT_E_NOMEM, "no memory to send"}}),
                 RBT_E_NOMEM, "no memory to send");
}

/* --- Silence --------------------------------------------------------------------------------- */

/* Silence is asked about after a quarter of the time, and ends the connection after all of it. */
static void silence_ends_a_connection(void **state)
{
    struct fixture *f = *state;
    const uint64_t id = ask(f);
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PULL, id);
    assert_int_equal(rbt_stream_deadline(&f->stream), f->now + 2 * SECOND);
    f->now += 2 * SECOND;
    assert_ok(tick(f));
    shard_expects(f, RBT_FRAME_STATS, id + 1);
    assert_int_equal(rbt_stream_deadline(&f->stream), f->now + 6 * SECOND);
    assert_ok(shard_sends(f, (struct rbt_frame){.kind = RBT_FRAME_DONE, .id = id + 1},
                          (struct rbt_wire_news){0})); /* it is there, only slow */
    assert_int_equal(f->answer_count, 0);
    f->now += 100 * SECOND; /* we were busy: it was not asked */
    assert_ok(tick(f));
    assert_int_equal(f->stream.state, RBT_STREAM_UP);
    shard_expects(f, RBT_FRAME_STATS, id + 2);
    f->now += 6 * SECOND - 1;
    assert_ok(tick(f));
    assert_int_equal(f->stream.state, RBT_STREAM_UP);
    f->now += 1;
    assert_ok(tick(f));
    assert_int_equal(f->stream.state, RBT_STREAM_DOWN);
    assert_int_equal(f->cuts, 1);
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PULL, id);
    shard_expects(f, RBT_FRAME_STATS, id + 2);
    assert_ok(shard_sends(f, (struct rbt_frame){.kind = RBT_FRAME_DONE, .id = id + 2},
                          (struct rbt_wire_news){0})); /* of the connection before */
    assert_int_equal(f->answer_count, 0);
    assert_int_equal(f->stream.request_count, 1);
}

/* What was asked on a connection before says nothing of this one: the shard has its time again. */
static void a_new_connection_is_asked_anew(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 0);
    f->now += 2 * SECOND;
    assert_ok(tick(f)); /* asks whether the shard is there */
    f->now += 6 * SECOND;
    assert_ok(tick(f));
    assert_int_equal(f->cuts, 1);
    f->now += SECOND / 2;
    come_up(f, 0);
    f->now += 2 * SECOND;
    assert_ok(tick(f)); /* asks once more, and does not give up */
    assert_int_equal(f->cuts, 1);
    assert_int_equal(rbt_stream_deadline(&f->stream), f->now + 6 * SECOND);
}

/* A shard that says other things has not fallen silent, however late it answers the question. */
/* What was asked in a run that is over is not owed in the next. */
static void a_new_run_is_asked_anew(void **state)
{
    struct fixture *f = *state;
    uint64_t id = ask(f);
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PULL, id);
    f->now += 2 * SECOND;
    assert_ok(tick(f));
    shard_expects(f, RBT_FRAME_STATS, id + 1);
    assert_ok(rbt_stream_reset(&f->stream, &f->out));
    f->now += 100 * SECOND;
    id = ask(f);
    shard_expects(f, RBT_FRAME_PULL, id);
    assert_ok(tick(f));
    assert_int_equal(f->cuts, 0);
    shard_expects(f, RBT_FRAME_STATS, id + 1);
}

static void a_shard_that_talks_is_there(void **state)
{
    struct fixture *f = *state;
    (void)ask(f);
    come_up(f, 0);
    f->now += 2 * SECOND;
    assert_ok(tick(f)); /* asks */
    f->now += 6 * SECOND - 1;
    shard_says(f, RBT_FRAME_ACK, 0);
    f->now++;
    assert_true(rbt_stream_deadline(&f->stream) > f->now);
    assert_ok(tick(f));
    assert_int_equal(f->stream.state, RBT_STREAM_UP);
    f->now = rbt_stream_deadline(&f->stream);
    assert_ok(tick(f));
    assert_int_equal(f->stream.state, RBT_STREAM_DOWN);
}

/* Nobody asks a shard of which nothing is due. */
static void an_idle_connection_may_be_silent(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 1);
    assert_int_equal(rbt_stream_deadline(&f->stream), RBT_TIME_NEVER);
    f->now += 100 * SECOND;
    assert_ok(tick(f));
    shard_expects_nothing(f);
}

/* A host that takes connections but whose shard says nothing is given up, too. */
static void a_greeting_may_take_so_long(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    assert_ok(tick(f));
    connection_is_made(f, false);
    assert_int_equal(rbt_stream_deadline(&f->stream), f->now + 8 * SECOND);
    f->now += 8 * SECOND;
    assert_fails(tick(f), RBT_E_CLOSED, "no word for 8s");
}

static void wrong_messages_end_a_connection(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    assert_ok(tick(f));
    connection_is_made(f, false);
    shard_says(f, RBT_FRAME_ACK, 0); /* no greeting */
    assert_int_equal(f->stream.state, RBT_STREAM_DOWN);
    assert_int_equal(f->cuts, 1);
    f->now += SECOND / 2;
    come_up(f, 0);
    shard_says(f, RBT_FRAME_ACK, 0);
    shard_says(f, RBT_FRAME_WELCOME, 0); /* a second one */
    assert_int_equal(f->stream.state, RBT_STREAM_DOWN);
    assert_int_equal(f->cuts, 2);
    come_up(f, 1);
    struct rbt_port_event shorter = {
        .kind = RBT_PORT_FRAME,
        .frame = {.head = {.kind = RBT_FRAME_ACK, .length = 8}, .body = "1234567"}};
    assert_ok(happen(f, shorter)); /* too short for its news */
    assert_int_equal(f->cuts, 3);
}

/* --- A shard in this process ----------------------------------------------------------------- */

/* It says what it has to say before a call returns: it is not asked whether it is there, and what
 * is said to it is no traffic. A connection of the other kind may follow. */
static void a_near_shard_is_not_watched(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    const uint64_t id = ask(f);
    come_up_as(f, 0, true);
    shard_expects(f, RBT_FRAME_PUSH, 1);
    shard_expects(f, RBT_FRAME_PULL, id);
    assert_int_equal(rbt_stream_deadline(&f->stream), RBT_TIME_NEVER);
    f->now += 100 * SECOND;
    assert_ok(tick(f));
    shard_expects_nothing(f);
    for (uint32_t i = 0; i < RBT_TRAFFIC_CLASSES; i++) {
        assert_int_equal(f->stream.traffic_sent[i], 0);
        assert_int_equal(f->stream.traffic_received[i], 0);
    }
    assert_ok(connection_is_lost(f, "it has moved"));
    come_up(f, 1);
    assert_int_equal(rbt_stream_deadline(&f->stream), f->now + 2 * SECOND);
    assert_true(f->stream.traffic_sent[RBT_TRAFFIC_READ] > 0);
}

/* Bytes are counted by what they were for: of answers, what was asked for. */
static void traffic_is_counted_by_class(void **state)
{
    struct fixture *f = *state;
    come_up_as((push(f, 1), f), 1, false);
    const uint64_t hello = f->stream.traffic_sent[RBT_TRAFFIC_OTHER];
    assert_true(hello > RBT_FRAME_HEADER);
    const uint64_t other = f->stream.traffic_received[RBT_TRAFFIC_OTHER];
    const uint64_t id = ask(f);
    assert_int_equal(f->stream.traffic_sent[RBT_TRAFFIC_READ], RBT_FRAME_HEADER);
    shard_answers(f, id, (struct rbt_wire_news){.arrived = 1});
    assert_int_equal(f->stream.traffic_received[RBT_TRAFFIC_READ], RBT_WIRE_ANSWER_BYTES);
    assert_int_equal(f->stream.traffic_received[RBT_TRAFFIC_OTHER], other);
    assert_int_equal(f->stream.traffic_sent[RBT_TRAFFIC_OTHER], hello);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(a_refusal_is_for_good, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(a_failure_at_the_shard_is_told, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(a_refusal_for_now_is_tried_again, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(it_gives_up_when_nobody_is_there, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(connecting_may_take_so_long, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(it_comes_back_after_a_pause, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(pauses_begin_anew_after_a_good_connection, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(wanting_more_does_not_put_off_the_end, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(without_memory_it_fails, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(silence_ends_a_connection, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(a_new_connection_is_asked_anew, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(a_new_run_is_asked_anew, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(a_shard_that_talks_is_there, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(an_idle_connection_may_be_silent, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(a_greeting_may_take_so_long, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(wrong_messages_end_a_connection, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(a_near_shard_is_not_watched, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(traffic_is_counted_by_class, stream_setup, stream_teardown),
    };
    return cmocka_run_group_tests_name("proto/stream_lost", list, NULL, NULL);
}
