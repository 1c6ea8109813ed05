/* client/line_test.c - a line and a peer that does what the test says, in one thread. Nothing
 * waits.
 */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "client/line.h"
#include "wire/message.h"

enum { PORT = 5, PREFIX = 64, LONG = 64 << 10 }; /* what a long answer begins with, and its rows */

struct fixture {
    char folder[64];
    char address[128];
    int listener;
    rbt_channel *peer; /* the connection that was accepted last */
    struct rbt_line line;
    struct rbt_port_event event; /* the last one */
    char why[RBT_ERROR_MAX];
    struct rbt_frame_place place; /* where long answers belong; bytes 0: nowhere */
};

static bool find_place(void *context, const struct rbt_frame *head, struct rbt_frame_place *place)
{
    const struct fixture *f = context;
    *place = f->place;
    return head->kind == RBT_FRAME_ROWS && f->place.bytes > 0;
}

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    char actual[RBT_ADDRESS_MAX];
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/rubato-line-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->address, sizeof f->address, "unix:%s/p", f->folder);
    assert_ok(rbt_address_listen(f->address, actual, &f->listener));
    rbt_line_init(&f->line,
                  &(struct rbt_line_options){
                      .port = PORT, .address = f->address, .context = f, .find_place = find_place});
    *state = f;
    return 0;
}

static void stop_listening(struct fixture *f)
{
    if (f->listener >= 0) {
        (void)close(f->listener);
    }
    f->listener = -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_line_deinit(&f->line);
    rbt_channel_close(f->peer);
    stop_listening(f);
    (void)unlink(f->address + strlen("unix:"));
    (void)rmdir(f->folder);
    test_free(f);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* --- Both sides ------------------------------------------------------------------------------ */

static void perform(struct fixture *f, enum rbt_out_kind kind, struct rbt_block *block)
{
    rbt_line_perform(&f->line, &(struct rbt_out){.kind = kind, .port = PORT, .block = block});
}

/* The next event must be of this kind. */
static void expect(struct fixture *f, enum rbt_port_event_kind kind)
{
    assert_true(rbt_line_next(&f->line, &f->event, f->why));
    assert_int_equal(f->event.kind, kind);
    assert_int_equal(f->event.port, PORT);
}

static void expect_nothing(struct fixture *f)
{
    assert_false(rbt_line_next(&f->line, &f->event, f->why));
}

static void connect_line(struct fixture *f)
{
    int socket = -1;
    const struct rbt_channel_options options = {.is_server = true, .body_max = RBT_FRAME_SMALL_MAX};
    perform(f, RBT_OUT_CONNECT, NULL);
    expect(f, RBT_PORT_UP);
    assert_string_equal(f->event.up.peer, f->address);
    assert_false(f->event.up.is_near);
    expect_nothing(f);
    rbt_channel_close(f->peer);
    f->peer = NULL;
    assert_ok(rbt_address_accept(f->listener, &socket));
    assert_ok(rbt_channel_open(socket, &options, &f->peer));
}

static struct rbt_block *make_block(struct rbt_frame header, size_t body)
{
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER + body);
    assert_non_null(block);
    block->bytes = RBT_FRAME_HEADER + body;
    memset(block->data, 7, block->bytes);
    rbt_wire_close(block->data, header, block->bytes);
    return block;
}

static void peer_sends(struct fixture *f, struct rbt_frame header, size_t body)
{
    struct rbt_block *block = make_block(header, body);
    assert_ok(rbt_channel_send(f->peer, block));
    assert_ok(rbt_channel_flush(f->peer));
    rbt_block_unref(block);
}

/* The peer writes half of a long answer, the first or the second. */
static void peer_writes_half(struct fixture *f, bool is_second)
{
    struct rbt_block *block =
        make_block((struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = 9}, PREFIX + LONG);
    const size_t half = block->bytes / 2;
    assert_int_equal(write(rbt_channel_socket(f->peer), block->data + (is_second ? half : 0), half),
                     half);
    rbt_block_unref(block);
}

/* --- Tests ----------------------------------------------------------------------------------- */

static void a_closed_line_does_nothing(void **state)
{
    struct fixture *f = *state;
    struct pollfd poll;
    expect_nothing(f);
    assert_false(rbt_line_prepare(&f->line, &poll));
    assert_int_equal(poll.fd, -1);
    assert_false(rbt_line_flush(&f->line));
    assert_int_equal(rbt_line_queued(&f->line), 0);
}

static void frames_go_both_ways(void **state)
{
    struct fixture *f = *state;
    struct rbt_frame frame;
    const char *body = NULL;
    struct rbt_channel_stats stats;
    connect_line(f);
    perform(f, RBT_OUT_SEND, make_block((struct rbt_frame){.kind = RBT_FRAME_PULL, .id = 3}, 8));
    assert_int_equal(rbt_line_queued(&f->line), RBT_FRAME_HEADER + 8);
    assert_true(f->line.is_touched);
    assert_false(rbt_line_flush(&f->line));
    assert_false(f->line.is_touched);
    assert_int_equal(rbt_line_queued(&f->line), 0);
    assert_ok(rbt_channel_receive(f->peer, &frame, &body));
    assert_int_equal(frame.id, 3);
    peer_sends(f, (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = 3}, 16);
    peer_sends(f, (struct rbt_frame){.kind = RBT_FRAME_ACK}, 24);
    expect(f, RBT_PORT_FRAME);
    assert_int_equal(f->event.frame.head.kind, RBT_FRAME_ROWS);
    assert_int_equal(f->event.frame.head.length, 16);
    assert_int_equal(f->event.frame.placed, 0);
    assert_int_equal(f->event.frame.body[15], 7);
    expect(f, RBT_PORT_FRAME);
    assert_int_equal(f->event.frame.head.kind, RBT_FRAME_ACK);
    expect_nothing(f);
    rbt_line_stats(&f->line, &stats);
    assert_int_equal(stats.frames_sent, 1);
    assert_int_equal(stats.frames_received, 2);
    perform(f, RBT_OUT_CUT, NULL);
    rbt_line_stats(&f->line, &stats); /* of connections that are over, too */
    assert_int_equal(stats.frames_received, 2);
    expect_nothing(f);
}

/* What the peer has said before it hung up is heard before that. */
static void the_end_comes_last(void **state)
{
    struct fixture *f = *state;
    connect_line(f);
    peer_sends(f, (struct rbt_frame){.kind = RBT_FRAME_REFUSED}, 8);
    rbt_channel_close(f->peer);
    f->peer = NULL;
    perform(f, RBT_OUT_SEND, make_block((struct rbt_frame){.kind = RBT_FRAME_PULL}, 8));
    assert_true(rbt_line_flush(&f->line)); /* in vain */
    expect(f, RBT_PORT_FRAME);
    assert_int_equal(f->event.frame.head.kind, RBT_FRAME_REFUSED);
    expect(f, RBT_PORT_DOWN);
    assert_int_equal(f->event.down.status, RBT_E_CLOSED);
    assert_string_equal(f->event.down.why, "the peer closed the connection");
    expect_nothing(f);
    connect_line(f); /* and again */
}

static void nobody_is_there(void **state)
{
    struct fixture *f = *state;
    stop_listening(f);
    perform(f, RBT_OUT_CONNECT, NULL);
    expect(f, RBT_PORT_DOWN);
    assert_int_equal(f->event.down.status, RBT_E_IO);
    assert_non_null(strstr(f->event.down.why, f->address));
    expect_nothing(f);
}

/* What was sent on a connection that is gone is dropped, and its memory with it. */
static void a_closed_line_sends_nothing(void **state)
{
    struct fixture *f = *state;
    perform(f, RBT_OUT_SEND, make_block((struct rbt_frame){.kind = RBT_FRAME_PULL}, 8));
    assert_int_equal(rbt_line_queued(&f->line), 0);
    connect_line(f);
    perform(f, RBT_OUT_SEND, make_block((struct rbt_frame){.kind = RBT_FRAME_PULL}, 8));
    perform(f, RBT_OUT_CUT, NULL);
    assert_int_equal(rbt_line_queued(&f->line), 0);
}

/* A long answer goes to its place, and the event says so; the next one is not said to. */
static void a_long_answer_is_placed(void **state)
{
    struct fixture *f = *state;
    static char rows[LONG];
    connect_line(f);
    f->place = (struct rbt_frame_place){.prefix = PREFIX, .to = rows, .bytes = LONG};
    peer_writes_half(f, false);
    expect_nothing(f);
    peer_writes_half(f, true);
    expect(f, RBT_PORT_FRAME);
    assert_int_equal(f->event.frame.placed, LONG);
    assert_int_equal(f->event.frame.head.length, PREFIX + LONG);
    assert_int_equal(f->event.frame.body[PREFIX - 1], 7);
    assert_int_equal(rows[0], 7);
    assert_int_equal(rows[LONG - 1], 7);
    expect_nothing(f);
    peer_sends(f, (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = 9}, 16);
    expect(f, RBT_PORT_FRAME);
    assert_int_equal(f->event.frame.placed, 0);
}

/* Half of a long answer has come, and gone to its place, when the connection is cut. On the next
 * one the answer is short: it must not be taken for what lies there. */
static void half_of_a_long_answer_is_nothing(void **state)
{
    struct fixture *f = *state;
    static char rows[LONG];
    connect_line(f);
    f->place = (struct rbt_frame_place){.prefix = PREFIX, .to = rows, .bytes = LONG};
    peer_writes_half(f, false);
    expect_nothing(f);
    assert_int_equal(f->line.placed, LONG);
    rbt_channel_close(f->peer);
    f->peer = NULL;
    expect(f, RBT_PORT_DOWN);
    assert_non_null(strstr(f->event.down.why, "in the middle of a message"));
    connect_line(f);
    peer_sends(f, (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = 9}, 16);
    expect(f, RBT_PORT_FRAME);
    assert_int_equal(f->event.frame.placed, 0);
}

/* --- A shard in this process ----------------------------------------------------------------- */

/* It answers each message with an acknowledgement, by the time that the call returns. */
struct near_shard {
    struct rbt_nearby_inbox inbox;
    rbt_status answer;
    uint32_t sent;
    uint32_t closed;
};

static rbt_status near_open(void *shard, const struct rbt_nearby_inbox *inbox, void **connection)
{
    struct near_shard *near = shard;
    near->inbox = *inbox;
    *connection = near;
    return RBT_OK;
}

static rbt_status near_send(void *connection, const struct rbt_block *block)
{
    struct near_shard *near = connection;
    assert_null(block->tail);
    near->sent++;
    if (near->answer == RBT_OK) {
        near->inbox.deliver(near->inbox.context,
                            make_block((struct rbt_frame){.kind = RBT_FRAME_ACK}, 24));
    }
    return near->answer;
}

static void near_close(void *connection)
{
    struct near_shard *near = connection;
    near->closed++;
}

static void a_near_shard_answers_at_once(void **state)
{
    struct fixture *f = *state;
    static const struct rbt_nearby_ops ops = {near_open, near_send, near_close};
    static const char tail[8] = "aaaaaaa";
    struct near_shard near = {0};
    struct pollfd poll;
    assert_ok(rbt_nearby_add(f->address, &(struct rbt_nearby){&ops, &near}));
    perform(f, RBT_OUT_CONNECT, NULL);
    expect(f, RBT_PORT_UP);
    assert_true(f->event.up.is_near);
    expect_nothing(f);
    struct rbt_block *block = make_block((struct rbt_frame){.kind = RBT_FRAME_PUSH}, sizeof tail);
    block->tail = tail;
    block->tail_at = RBT_FRAME_HEADER;
    perform(f, RBT_OUT_SEND, block);
    assert_int_equal(near.sent, 1);
    assert_true(rbt_line_prepare(&f->line, &poll));
    expect(f, RBT_PORT_FRAME);
    assert_int_equal(f->event.frame.head.kind, RBT_FRAME_ACK);
    expect_nothing(f);
    assert_false(rbt_line_prepare(&f->line, &poll));
    near.answer = RBT_E_NOMEM;
    perform(f, RBT_OUT_SEND, make_block((struct rbt_frame){.kind = RBT_FRAME_PUSH}, 8));
    assert_true(rbt_line_prepare(&f->line, &poll));
    expect(f, RBT_PORT_DOWN);
    assert_int_equal(f->event.down.status, RBT_E_NOMEM);
    assert_int_equal(near.closed, 1);
    rbt_nearby_remove(f->address);
}

/* What one connection had no memory for says nothing of the next, also if nobody has heard of it:
 * the stream may have cut the connection for another reason. */
static void a_new_line_has_memory_again(void **state)
{
    struct fixture *f = *state;
    static const struct rbt_nearby_ops ops = {near_open, near_send, near_close};
    struct near_shard near = {.answer = RBT_E_NOMEM};
    assert_ok(rbt_nearby_add(f->address, &(struct rbt_nearby){&ops, &near}));
    perform(f, RBT_OUT_CONNECT, NULL);
    expect(f, RBT_PORT_UP);
    perform(f, RBT_OUT_SEND, make_block((struct rbt_frame){.kind = RBT_FRAME_PUSH}, 8));
    perform(f, RBT_OUT_CUT, NULL);
    near.answer = RBT_OK;
    perform(f, RBT_OUT_CONNECT, NULL);
    expect(f, RBT_PORT_UP);
    expect_nothing(f);
    perform(f, RBT_OUT_SEND, make_block((struct rbt_frame){.kind = RBT_FRAME_PUSH}, 8));
    expect(f, RBT_PORT_FRAME);
    perform(f, RBT_OUT_CUT, NULL); /* while the shard is there */
    assert_int_equal(near.closed, 2);
    rbt_nearby_remove(f->address);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(a_closed_line_does_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(frames_go_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_comes_last, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_closed_line_sends_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_answer_is_placed, setup, teardown),
        cmocka_unit_test_setup_teardown(half_of_a_long_answer_is_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_near_shard_answers_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_line_has_memory_again, setup, teardown),
    };
    return cmocka_run_group_tests_name("client/line", list, NULL, NULL);
}
