/* proto/stream_test.c - what a stream sends, keeps, and sends again; and what it makes of answers.
 */
#include "proto/stream_rig.h"

#include "base/rng.h"

/* --- Sending and arriving -------------------------------------------------------------------- */

static void an_idle_stream_does_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(rbt_stream_deadline(&f->stream), RBT_TIME_NEVER);
    assert_ok(tick(f));
    assert_int_equal(f->stream.state, RBT_STREAM_DOWN);
    assert_false(f->is_wanted);
    assert_true(rbt_stream_is_settled(&f->stream));
}

static void what_has_arrived_is_forgotten(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    push(f, 2);
    const uint64_t id = ask(f);
    assert_false(rbt_stream_is_settled(&f->stream));
    assert_int_equal(rbt_stream_deadline(&f->stream), 0);
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PUSH, 1);
    shard_expects(f, RBT_FRAME_PUSH, 2);
    shard_expects(f, RBT_FRAME_PULL, id);
    assert_true(rbt_stream_is_settled(&f->stream));
    shard_says(f, RBT_FRAME_ACK, 1);
    assert_int_equal(f->stream.kept->number, 2);
    assert_int_equal(f->stream.kept_bytes, RBT_FRAME_HEADER);
    shard_answers(f, id, (struct rbt_wire_news){.floor = 4, .version = 9, .arrived = 2});
    assert_null(f->stream.kept);
    assert_int_equal(f->stream.kept_bytes, 0);
    assert_int_equal(f->answer_count, 1);
    assert_int_equal(f->stream.news.floor, 4);
    assert_int_equal(f->stream.news.version, 9);
    shard_answers(f, id, (struct rbt_wire_news){0}); /* again */
    assert_int_equal(f->answer_count, 1);
    shard_says(f, RBT_FRAME_ACK, 1); /* news only grow */
    assert_int_equal(f->stream.news.floor, 4);
    assert_int_equal(f->stream.news.arrived, 2);
}

/* Lists, then the updates, then requests; and only what the shard lacks. */
static void it_sends_again_in_order(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PUSH, 1);
    const uint64_t first = ask(f);
    assert_ok(rbt_stream_add_list(&f->stream, 5, make_block(RBT_FRAME_LIST, 5), &f->out));
    perform(f);
    assert_true(rbt_stream_has_list(&f->stream, 5));
    assert_false(rbt_stream_has_list(&f->stream, 6));
    assert_true(rbt_stream_can_name(&f->stream, 1 << 20));
    assert_false(rbt_stream_can_name(&f->stream, 1 << 28));
    push(f, 2);
    const uint64_t second = ask(f);
    push(f, 3);
    assert_ok(rbt_stream_push(&f->stream, make_block(RBT_FRAME_LEAVE, 4), 4, true, &f->out));
    perform(f);
    shard_says(f, RBT_FRAME_ACK, 1); /* something has come: the connection was of use */
    assert_ok(connection_is_lost(f, "cut"));
    assert_int_equal(f->stream.cuts, 1);
    assert_int_equal(f->stream.resent, 0);
    come_up(f, 2);
    assert_int_equal(f->stream.resent, 4); /* lists are sent on every connection */
    shard_expects(f, RBT_FRAME_LIST, 5);
    shard_expects(f, RBT_FRAME_PUSH, 3);
    shard_expects(f, RBT_FRAME_LEAVE, 4);
    shard_expects(f, RBT_FRAME_PULL, first);
    shard_expects(f, RBT_FRAME_PULL, second);
    shard_expects_nothing(f);
    shard_says(f, RBT_FRAME_ACK, 3); /* a leave is no number */
    assert_true(f->stream.kept->is_leave);
    assert_ok(shard_sends(f, (struct rbt_frame){.kind = RBT_FRAME_ACK, .flags = RBT_FRAME_HAS_LEFT},
                          (struct rbt_wire_news){.arrived = 3}));
    assert_null(f->stream.kept);
}

/* Cut at random places: the shard sees every number once or more, without gaps, and each request is
 * answered once, although answers are lost, too. */
static void random_cuts_lose_nothing(void **state)
{
    struct fixture *f = *state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 42, 0, 0);
    f->stream.options.cut_max = 100000 * SECOND;
    f->stream.options.silence_max = 100000 * SECOND;
    uint64_t arrived = 0;
    uint64_t sent = 0;
    uint64_t answered = 0;
    while (arrived < 2000) {
        for (uint64_t i = rbt_rng_next(&rng) % 8; i > 0; i--) {
            push(f, ++sent);
        }
        if (f->stream.request_count < 20) {
            (void)ask(f);
        }
        f->now += SECOND;
        assert_ok(tick(f));
        if (f->is_wanted) {
            connection_is_made(f, false);
            shard_expects(f, RBT_FRAME_HELLO, 0);
            shard_says(f, RBT_FRAME_WELCOME, arrived);
        }
        for (uint64_t i = rbt_rng_next(&rng) % 16; f->wire_first < f->wire_end && i > 0; i--) {
            struct rbt_frame frame;
            struct rbt_block *block = f->wire[f->wire_first++];
            assert_ok(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &frame));
            rbt_block_unref(block);
            if (frame.kind == RBT_FRAME_PUSH) {
                assert_true(frame.id <= arrived + 1);
                arrived = frame.id > arrived ? frame.id : arrived;
            } else if (rbt_rng_next(&rng) % 3 > 0) { /* else its answer is slow, or gets lost */
                const uint32_t count = f->stream.request_count;
                f->answer_count = 0;
                shard_answers(f, frame.id, (struct rbt_wire_news){.arrived = arrived});
                assert_int_equal(f->answer_count, 1);
                assert_int_equal(f->stream.request_count, count - 1);
                answered++;
            }
        }
        if (f->is_open && rbt_rng_next(&rng) % 3 == 0) {
            shard_says(f, RBT_FRAME_ACK, arrived);
        }
        if (f->is_open && rbt_rng_next(&rng) % 5 == 0) {
            assert_ok(connection_is_lost(f, "cut"));
        }
    }
    assert_true(f->stream.cuts > 50);
    assert_int_equal(answered + f->stream.request_count, f->stream.next_id);
}

/* Many requests, answered in another order; each answer finds its own. */
static void answers_come_in_any_order(void **state)
{
    struct fixture *f = *state;
    enum { MANY = 50, STRIDE = 17 };
    const uint64_t first = ask(f);
    for (uint64_t i = 1; i < MANY; i++) {
        assert_int_equal(ask(f), first + i);
    }
    come_up(f, 0);
    for (uint64_t i = 0; i < MANY; i++) {
        shard_answers(f, first + i * STRIDE % MANY, (struct rbt_wire_news){0});
        assert_int_equal(f->answer_count, i + 1);
        assert_int_equal(f->answers[i], first + i * STRIDE % MANY);
        assert_int_equal(f->stream.request_count, MANY - 1 - i);
    }
    assert_null(f->stream.requests);
    assert_null(f->stream.requests_last);
}

/* An answer is lost with its connection: the request is sent again, and answered once. */
static void a_lost_answer_is_asked_for_again(void **state)
{
    struct fixture *f = *state;
    const uint64_t id = ask(f);
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PULL, id);
    assert_ok(connection_is_lost(f, "cut"));
    f->now += SECOND;
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PULL, id);
    shard_answers(f, id, (struct rbt_wire_news){0});
    assert_int_equal(f->answer_count, 1);
    assert_ok(connection_is_lost(f, "cut"));
    assert_true(rbt_stream_is_settled(&f->stream));
    const uint64_t next = ask(f);
    assert_true(next != id);
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PULL, next);
    shard_expects_nothing(f);
}

/* --- Runs ------------------------------------------------------------------------------------ */

/* What an earlier run has asked for may be answered now: the floor and the numbers in it are old.
 */
static void news_of_an_earlier_run_do_not_count(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    const uint64_t old = ask(f);
    come_up(f, 0);
    assert_ok(shard_sends(f, (struct rbt_frame){.kind = RBT_FRAME_ACK},
                          (struct rbt_wire_news){.floor = 5, .arrived = 1}));
    assert_int_equal(f->stream.news.floor, 5);
    assert_ok(rbt_stream_reset(&f->stream, &f->out));
    assert_int_equal(f->out.count, 0); /* the connection stays */
    push(f, 1);
    shard_answers(f, old, (struct rbt_wire_news){.floor = INT64_MAX, .arrived = 1});
    assert_non_null(f->stream.kept);
    assert_int_equal(f->stream.news.floor, 0);
    assert_int_equal(f->answer_count, 0);
}

/* A greeting under way may tell of the run that is over, so it is not waited for. */
static void a_new_run_ends_a_greeting(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    assert_ok(tick(f));
    connection_is_made(f, false);
    assert_ok(rbt_stream_reset(&f->stream, &f->out));
    perform(f);
    assert_int_equal(f->cuts, 1);
    assert_int_equal(rbt_stream_deadline(&f->stream), RBT_TIME_NEVER);
    push(f, 1);
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PUSH, 1);
}

/* --- Long messages --------------------------------------------------------------------------- */

/* An update whose values are the worker's own memory: it says when that is about to change, and
 * what is sent again after a cut is what was sent before. */
static void what_is_sent_again_is_what_was_sent(void **state)
{
    struct fixture *f = *state;
    enum { VALUES = 64 };
    static char values[VALUES];
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER + VALUES);
    assert_non_null(block);
    memset(values, 5, sizeof values);
    block->bytes = RBT_FRAME_HEADER + VALUES;
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = RBT_FRAME_PUSH, .worker = WORKER, .id = 1},
                   block->bytes);
    block->tail = values;
    block->tail_at = RBT_FRAME_HEADER;
    assert_ok(rbt_stream_push(&f->stream, block, 1, false, &f->out));
    come_up(f, 0);
    shard_expects(f, RBT_FRAME_PUSH, 1);
    assert_ok(connection_is_lost(f, "cut"));
    rbt_stream_own(&f->stream);
    memset(values, 9, sizeof values); /* the next update */
    f->now += SECOND;
    come_up(f, 0);
    const struct rbt_block *again = f->wire[f->wire_first];
    assert_null(again->tail);
    for (size_t i = 0; i < VALUES; i++) {
        assert_int_equal(again->data[RBT_FRAME_HEADER + i], 5);
    }
    shard_expects(f, RBT_FRAME_PUSH, 1);
}

/* Rows of an answer that is as long as it should be have a place; those of any other have not. */
static void an_answer_that_fits_has_a_place(void **state)
{
    struct fixture *f = *state;
    enum { PREFIX = 64, LONG = 64 << 10 };
    static char rows[LONG];
    const struct rbt_frame_place wanted = {.prefix = PREFIX, .to = rows, .bytes = LONG};
    const uint64_t id = ask_for(f, wanted)->id;
    const uint64_t nowhere = ask(f);
    struct rbt_frame head = {.kind = RBT_FRAME_ROWS, .length = PREFIX + LONG, .id = id};
    struct rbt_frame_place place = {0};
    come_up(f, 0);
    assert_true(rbt_stream_place(&f->stream, &head, &place));
    assert_ptr_equal(place.to, rows);
    assert_int_equal(place.prefix, PREFIX);
    assert_int_equal(place.bytes, LONG);
    head.length -= RBT_FRAME_ALIGN;
    assert_false(rbt_stream_place(&f->stream, &head, &place));
    head.length += 2 * RBT_FRAME_ALIGN;
    assert_false(rbt_stream_place(&f->stream, &head, &place));
    head.length = PREFIX + LONG;
    head.kind = RBT_FRAME_DONE;
    assert_false(rbt_stream_place(&f->stream, &head, &place));
    head.kind = RBT_FRAME_ROWS;
    head.id = nowhere;
    assert_false(rbt_stream_place(&f->stream, &head, &place));
    head.id = nowhere + 1;
    assert_false(rbt_stream_place(&f->stream, &head, &place));
    shard_answers(f, id, (struct rbt_wire_news){0}); /* a short one, after all */
    assert_int_equal(f->answer_count, 1);
    head.id = id;
    assert_false(rbt_stream_place(&f->stream, &head, &place)); /* nobody waits for it any more */
}

/* The news are before what lies elsewhere: no byte behind them is looked at. */
static void a_placed_answer_is_its_beginning(void **state)
{
    struct fixture *f = *state;
    enum { LONG = 64 << 10 };
    static char rows[LONG];
    struct rbt_block *block = rbt_block_create(RBT_WIRE_ANSWER_BYTES);
    assert_non_null(block);
    const struct rbt_wire_answer answer = {.news = {.floor = 4}};
    const size_t prefix = rbt_wire_put_answer(block->data, &answer) - RBT_FRAME_HEADER;
    const struct rbt_frame_place place = {.prefix = prefix, .to = rows, .bytes = LONG};
    const uint64_t id = ask_for(f, place)->id;
    come_up(f, 0);
    assert_ok(happen(
        f,
        (struct rbt_port_event){
            .kind = RBT_PORT_FRAME,
            .frame = {.head = {.kind = RBT_FRAME_ROWS, .length = (uint32_t)prefix + LONG, .id = id},
                      .body = block->data + RBT_FRAME_HEADER,
                      .placed = LONG}}));
    assert_int_equal(f->answer_count, 1);
    assert_int_equal(f->stream.news.floor, 4);
    const uint64_t second = ask_for(f, place)->id;
    assert_ok(
        happen(f, (struct rbt_port_event){
                      .kind = RBT_PORT_FRAME,
                      .frame = {.head = {.kind = RBT_FRAME_ROWS, .length = LONG, .id = second},
                                .body = block->data + RBT_FRAME_HEADER,
                                .placed = LONG}}));
    assert_int_equal(f->stream.state, RBT_STREAM_DOWN); /* it had no news at all */
    rbt_block_unref(block);
}

/* --- Memory ---------------------------------------------------------------------------------- */

/* Records are used again: what goes round and round allocates nothing. */
static void a_steady_stream_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    enum { ROUNDS = 200, WINDOW = 5 };
    uint64_t number = 0;
    push(f, ++number);
    come_up(f, 1);
    for (int round = 0; round < ROUNDS; round++) {
        struct rbt_block *blocks[WINDOW];
        uint64_t ids[WINDOW];
        for (size_t i = 0; i < WINDOW; i++) {
            blocks[i] = make_block(RBT_FRAME_PUSH, 0);
        }
        if (round >= 1) { /* the first one makes the records */
            rbt_alloc_fail_nth(1);
        }
        for (size_t i = 0; i < WINDOW; i++) {
            struct rbt_stream_request *request = NULL;
            const struct rbt_stream_question question = {.block = blocks[i],
                                                         .header = {.kind = RBT_FRAME_PULL}};
            rbt_block_ref(blocks[i]);
            number++;
            assert_ok(rbt_stream_push(&f->stream, blocks[i], number, false, &f->out));
            assert_ok(rbt_stream_ask(&f->stream, &question, &f->out, &request));
            ids[i] = request->id;
        }
        perform(f);
        f->answer_count = 0;
        for (size_t i = 0; i < WINDOW; i++) {
            shard_answers(f, ids[i], (struct rbt_wire_news){.arrived = number});
        }
        rbt_alloc_fail_nth(0);
        drop_wire(f);
    }
    assert_null(f->stream.kept);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(an_idle_stream_does_nothing, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(what_has_arrived_is_forgotten, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(it_sends_again_in_order, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(random_cuts_lose_nothing, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(answers_come_in_any_order, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(a_lost_answer_is_asked_for_again, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(news_of_an_earlier_run_do_not_count, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(a_new_run_ends_a_greeting, stream_setup, stream_teardown),
        cmocka_unit_test_setup_teardown(what_is_sent_again_is_what_was_sent, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_fits_has_a_place, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(a_placed_answer_is_its_beginning, stream_setup,
                                        stream_teardown),
        cmocka_unit_test_setup_teardown(a_steady_stream_allocates_nothing, stream_setup,
                                        stream_teardown),
    };
    return cmocka_run_group_tests_name("proto/stream", list, NULL, NULL);
}
