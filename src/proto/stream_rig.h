/* proto/stream_rig.h - for tests: a stream and a shard that does what the test says, without a
 * socket. What the stream sends waits in a queue, which is lost when the connection is; time is
 * what the test says it is. */
#ifndef RUBATO_PROTO_STREAM_RIG_H
#define RUBATO_PROTO_STREAM_RIG_H

#include "base/test.h"

#include "base/alloc.h"
#include "base/error.h"
#include "proto/stream.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

enum { SHARD = 7, WORKER = 3, WIRE_MAX = 8192, SEEN_MAX = 64 };

struct fixture {
    struct rbt_stream stream;
    struct rbt_outbox out;
    rbt_time now;
    bool is_wanted; /* the stream has asked for a connection */
    bool is_open;
    struct rbt_block *wire[WIRE_MAX]; /* sent on this connection, in order */
    uint32_t wire_first;
    uint32_t wire_end;
    uint32_t cuts;              /* asked for by the stream */
    uint64_t answers[SEEN_MAX]; /* ids, in the order of coming */
    uint32_t answer_count;
};

static inline int stream_setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    static const struct rbt_wire_hello hello = {.worker_count = 4};
    const struct rbt_stream_options options = {.address = "a.shard:7",
                                               .hello = &hello,
                                               .worker = WORKER,
                                               .shard = SHARD,
                                               .cut_max = 3 * SECOND,
                                               .silence_max = 8 * SECOND};
    assert_ok(rbt_stream_init(&f->stream, &options));
    *state = f;
    return 0;
}

static inline void drop_wire(struct fixture *f)
{
    while (f->wire_first < f->wire_end) {
        rbt_block_unref(f->wire[f->wire_first++]);
    }
    f->wire_first = 0;
    f->wire_end = 0;
}

static inline int stream_teardown(void **state)
{
    struct fixture *f = *state;
    drop_wire(f);
    rbt_stream_deinit(&f->stream);
    rbt_outbox_deinit(&f->out);
    test_free(f);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* --- The carrier ----------------------------------------------------------------------------- */

static inline void perform(struct fixture *f)
{
    for (uint32_t i = 0; i < f->out.count; i++) {
        const struct rbt_out *item = &f->out.items[i];
        assert_int_equal(item->port, SHARD);
        switch (item->kind) {
        case RBT_OUT_CONNECT:
            assert_false(f->is_open || f->is_wanted);
            f->is_wanted = true;
            break;
        case RBT_OUT_SEND:
            assert_true(f->is_open && f->wire_end < WIRE_MAX);
            f->wire[f->wire_end++] = item->block;
            break;
        case RBT_OUT_CUT:
            assert_true(f->is_open || f->is_wanted);
            f->is_wanted = false;
            f->is_open = false;
            f->cuts++;
            drop_wire(f);
            break;
        }
    }
    rbt_outbox_clear(&f->out);
}

static inline rbt_status happen(struct fixture *f, struct rbt_port_event event)
{
    struct rbt_stream_request *answered = NULL;
    event.port = SHARD;
    const rbt_status st = rbt_stream_step(&f->stream, &event, f->now, &f->out, &answered);
    if (answered != NULL) {
        assert_int_equal(answered->id, event.frame.head.id);
        assert_true(f->answer_count < SEEN_MAX);
        f->answers[f->answer_count++] = answered->id;
        rbt_stream_release(&f->stream, answered);
    }
    perform(f);
    return st;
}

static inline rbt_status tick(struct fixture *f)
{
    const rbt_status st = rbt_stream_tick(&f->stream, f->now, &f->out);
    perform(f);
    return st;
}

static inline void connection_is_made(struct fixture *f, bool is_near)
{
    assert_true(f->is_wanted);
    f->is_wanted = false;
    f->is_open = true;
    assert_ok(happen(f, (struct rbt_port_event){.kind = RBT_PORT_UP,
                                                .up = {.peer = "a.shard:7", .is_near = is_near}}));
}

/* The connection is lost, or could not be made, and with it what was on its way. */
static inline rbt_status connection_is_lost(struct fixture *f, const char *why)
{
    assert_true(f->is_wanted || f->is_open);
    f->is_wanted = false;
    f->is_open = false;
    drop_wire(f);
    return happen(f, (struct rbt_port_event){.kind = RBT_PORT_DOWN,
                                             .down = {.status = RBT_E_CLOSED, .why = why}});
}

/* --- The worker ------------------------------------------------------------------------------ */

static inline struct rbt_block *make_block(uint16_t kind, uint64_t id)
{
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER);
    assert_non_null(block);
    block->bytes = RBT_FRAME_HEADER;
    rbt_wire_close(block->data, (struct rbt_frame){.kind = kind, .worker = WORKER, .id = id},
                   block->bytes);
    return block;
}

static inline void push(struct fixture *f, uint64_t number)
{
    assert_ok(
        rbt_stream_push(&f->stream, make_block(RBT_FRAME_PUSH, number), number, false, &f->out));
    perform(f);
}

static inline struct rbt_stream_request *ask_for(struct fixture *f, struct rbt_frame_place place)
{
    struct rbt_stream_request *request = NULL;
    const struct rbt_stream_question question = {
        .block = make_block(RBT_FRAME_PULL, 0),
        .header = {.kind = RBT_FRAME_PULL, .worker = WORKER},
        .place = place};
    question.block->class = RBT_TRAFFIC_READ;
    assert_ok(rbt_stream_ask(&f->stream, &question, &f->out, &request));
    perform(f);
    return request;
}

static inline uint64_t ask(struct fixture *f)
{
    return ask_for(f, (struct rbt_frame_place){0})->id;
}

/* --- The shard ------------------------------------------------------------------------------- */

/* The next message that it gets must be this one. */
static inline void shard_expects(struct fixture *f, uint16_t kind, uint64_t id)
{
    struct rbt_frame frame;
    assert_true(f->wire_first < f->wire_end);
    struct rbt_block *block = f->wire[f->wire_first++];
    assert_ok(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &frame));
    assert_int_equal(frame.kind, kind);
    assert_int_equal(frame.id, id);
    assert_int_equal(frame.worker, WORKER);
    rbt_block_unref(block);
}

static inline void shard_expects_nothing(const struct fixture *f)
{
    assert_int_equal(f->wire_first, f->wire_end);
}

static inline rbt_status shard_sends(struct fixture *f, struct rbt_frame header,
                                     struct rbt_wire_news news)
{
    static _Alignas(8) char message[RBT_WIRE_SHORT_MAX];
    const struct rbt_wire_done done = {.news = news};
    const struct rbt_wire_answer answer = {.news = news};
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME};
    size_t bytes = 0;
    switch (header.kind) {
    case RBT_FRAME_WELCOME:
    case RBT_FRAME_ACK:
        bytes = rbt_wire_put_ack(message, &news);
        break;
    case RBT_FRAME_ROWS:
        bytes = rbt_wire_put_answer(message, &answer);
        break;
    case RBT_FRAME_DONE:
        bytes = rbt_wire_put_done(message, &done);
        break;
    default:
        bytes = rbt_wire_put_refused(message, "not today");
        break;
    }
    rbt_wire_close(message, header, bytes);
    assert_ok(rbt_frame_get(message, RBT_FRAME_BODY_MAX, &event.frame.head));
    event.frame.body = message + RBT_FRAME_HEADER;
    return happen(f, event);
}

static inline void shard_says(struct fixture *f, uint16_t kind, uint64_t arrived)
{
    assert_ok(shard_sends(f, (struct rbt_frame){.kind = kind},
                          (struct rbt_wire_news){.arrived = arrived}));
}

static inline void shard_answers(struct fixture *f, uint64_t id, struct rbt_wire_news news)
{
    assert_ok(shard_sends(f, (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = id}, news));
}

/* The stream connects and is welcomed; the shard has `arrived` messages. */
static inline void come_up_as(struct fixture *f, uint64_t arrived, bool is_near)
{
    assert_ok(tick(f));
    assert_int_equal(f->stream.state, RBT_STREAM_CONNECTING);
    connection_is_made(f, is_near);
    assert_int_equal(f->stream.state, RBT_STREAM_GREETING);
    shard_expects(f, RBT_FRAME_HELLO, 0);
    shard_expects_nothing(f);
    shard_says(f, RBT_FRAME_WELCOME, arrived);
    assert_int_equal(f->stream.state, RBT_STREAM_UP);
}

static inline void come_up(struct fixture *f, uint64_t arrived)
{
    come_up_as(f, arrived, false);
}

#endif
