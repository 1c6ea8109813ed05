/* client/link_test.c - a link and a peer that does what the test says, in one thread. Time is what
 * the test says it is: nothing waits. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "client/link.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

enum { SEEN_MAX = 64 };

struct fixture {
    char folder[64];
    char address[128];
    int listener;
    rbt_channel *peer; /* the connection that was accepted last */
    struct rbt_link link;
    struct rbt_link_handler handler;
    rbt_time now;
    uint64_t answers[SEEN_MAX]; /* ids, in the order of coming */
    uint32_t answer_count;
    uint32_t news_count;
    rbt_status answer; /* what the handler returns */
    bool was_placed;   /* the last answer's rows were put where they belong */
};

static rbt_status on_answer(void *context, struct rbt_link *link, struct rbt_link_request *request,
                            const struct rbt_frame *frame, const char *body)
{
    struct fixture *f = context;
    (void)link;
    (void)body;
    assert_int_equal(request->id, frame->id);
    assert_true(f->answer_count < SEEN_MAX);
    f->answers[f->answer_count++] = frame->id;
    f->was_placed = request->is_placed;
    return f->answer;
}

static void on_news(void *context, struct rbt_link *link)
{
    struct fixture *f = context;
    (void)link;
    f->news_count++;
}

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    char actual[RBT_ADDRESS_MAX];
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/rubato-link-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->address, sizeof f->address, "unix:%s/p", f->folder);
    assert_ok(rbt_address_listen(f->address, actual, &f->listener));
    struct rbt_link_options options = {.hello = {.worker = 3, .worker_count = 4, .shard = 7},
                                       .cut_max = 3 * SECOND,
                                       .silence_max = 8 * SECOND};
    (void)snprintf(options.address, sizeof options.address, "%s", f->address);
    assert_ok(rbt_link_init(&f->link, &options));
    f->handler = (struct rbt_link_handler){f, on_answer, on_news};
    f->now = 1000 * SECOND;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_link_deinit(&f->link);
    rbt_channel_close(f->peer);
    if (f->listener >= 0) {
        (void)close(f->listener);
    }
    (void)unlink(f->address + strlen("unix:"));
    (void)rmdir(f->folder);
    test_free(f);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* --- The link -------------------------------------------------------------------------------- */

static rbt_status work(struct fixture *f)
{
    return rbt_link_work(&f->link, f->now, &f->handler);
}

static struct rbt_block *make_block(uint16_t kind, uint64_t id)
{
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER);
    assert_non_null(block);
    block->bytes = RBT_FRAME_HEADER;
    rbt_wire_close(block->data, (struct rbt_frame){.kind = kind, .worker = 3, .id = id},
                   block->bytes);
    return block;
}

static void push(struct fixture *f, uint64_t number)
{
    assert_ok(rbt_link_push(&f->link, make_block(RBT_FRAME_PUSH, number), number, false));
}

static uint64_t ask(struct fixture *f)
{
    static int owner;
    struct rbt_link_request *request = NULL;
    assert_ok(rbt_link_ask(&f->link, make_block(RBT_FRAME_PULL, 0),
                           (struct rbt_frame){.kind = RBT_FRAME_PULL, .worker = 3}, &owner,
                           &request));
    return request->id;
}

/* --- The peer -------------------------------------------------------------------------------- */

static void peer_accept(struct fixture *f)
{
    int socket = -1;
    const struct rbt_channel_options options = {.is_server = true, .body_max = RBT_FRAME_SMALL_MAX};
    rbt_channel_close(f->peer);
    f->peer = NULL;
    assert_ok(rbt_address_accept(f->listener, &socket));
    assert_ok(rbt_channel_open(socket, &options, &f->peer));
}

/* The next message of the link must be this one. */
static void peer_expect(struct fixture *f, uint16_t kind, uint64_t id)
{
    struct rbt_frame frame;
    const char *body = NULL;
    rbt_status st = rbt_channel_receive(f->peer, &frame, &body);
    if (st == RBT_E_BUSY) { /* it knew that the socket was empty, and has looked again now */
        st = rbt_channel_receive(f->peer, &frame, &body);
    }
    assert_ok(st);
    assert_int_equal(frame.kind, kind);
    assert_int_equal(frame.id, id);
    assert_int_equal(frame.worker, 3);
}

static void peer_expect_nothing(struct fixture *f)
{
    struct rbt_frame frame;
    const char *body = NULL;
    assert_int_equal(rbt_channel_receive(f->peer, &frame, &body), RBT_E_BUSY);
}

static void peer_send(struct fixture *f, struct rbt_frame header, struct rbt_wire_news news)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    assert_non_null(block);
    const struct rbt_wire_done done = {.news = news};
    const struct rbt_wire_answer answer = {.news = news};
    switch (header.kind) {
    case RBT_FRAME_WELCOME:
    case RBT_FRAME_ACK:
        block->bytes = rbt_wire_put_ack(block->data, &news);
        break;
    case RBT_FRAME_ROWS:
        block->bytes = rbt_wire_put_answer(block->data, &answer);
        break;
    case RBT_FRAME_DONE:
        block->bytes = rbt_wire_put_done(block->data, &done);
        break;
    default:
        block->bytes = rbt_wire_put_refused(block->data, "not today");
        break;
    }
    rbt_wire_close(block->data, header, block->bytes);
    assert_ok(rbt_channel_send(f->peer, block));
    assert_ok(rbt_channel_flush(f->peer));
    rbt_block_unref(block);
}

static void peer_say(struct fixture *f, uint16_t kind, uint64_t arrived)
{
    peer_send(f, (struct rbt_frame){.kind = kind}, (struct rbt_wire_news){.arrived = arrived});
}

static void peer_answer(struct fixture *f, uint64_t id, struct rbt_wire_news news)
{
    peer_send(f, (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = id}, news);
}

static void peer_hang_up(struct fixture *f)
{
    rbt_channel_close(f->peer);
    f->peer = NULL;
}

/* The link connects and is welcomed; the shard has `arrived` messages. */
static void come_up(struct fixture *f, uint64_t arrived)
{
    assert_ok(work(f));
    peer_accept(f);
    assert_int_equal(f->link.state, RBT_LINK_GREETING);
    peer_expect(f, RBT_FRAME_HELLO, 0);
    peer_expect_nothing(f);
    peer_say(f, RBT_FRAME_WELCOME, arrived);
    assert_ok(work(f));
    assert_int_equal(f->link.state, RBT_LINK_UP);
}

/* --- Tests ----------------------------------------------------------------------------------- */

static void test_idle_link_does_nothing(void **state)
{
    struct fixture *f = *state;
    struct pollfd poll;
    assert_ok(work(f));
    assert_int_equal(f->link.state, RBT_LINK_DOWN);
    assert_int_equal(rbt_link_prepare(&f->link, &poll), RBT_TIME_NEVER);
    assert_int_equal(poll.fd, -1);
    assert_true(rbt_link_is_flushed(&f->link));
}

static void test_sends_and_forgets_what_has_arrived(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    push(f, 2);
    const uint64_t id = ask(f);
    assert_false(rbt_link_is_flushed(&f->link));
    come_up(f, 0);
    peer_expect(f, RBT_FRAME_PUSH, 1);
    peer_expect(f, RBT_FRAME_PUSH, 2);
    peer_expect(f, RBT_FRAME_PULL, id);
    assert_true(rbt_link_is_flushed(&f->link));
    peer_say(f, RBT_FRAME_ACK, 1);
    assert_ok(work(f));
    assert_int_equal(f->link.kept->number, 2);
    peer_answer(f, id, (struct rbt_wire_news){.floor = 4, .version = 9, .arrived = 2});
    assert_ok(work(f));
    assert_null(f->link.kept);
    assert_int_equal(f->link.kept_bytes, 0);
    assert_int_equal(f->answer_count, 1);
    assert_int_equal(f->link.news.floor, 4);
    assert_int_equal(f->link.news.version, 9);
    assert_true(f->news_count >= 2);
    peer_answer(f, id, (struct rbt_wire_news){0}); /* again */
    assert_ok(work(f));
    assert_int_equal(f->answer_count, 1);
}

/* Lists, then the stream, then requests; and only what the shard lacks. */
static void test_sends_again_in_order(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 0);
    peer_expect(f, RBT_FRAME_PUSH, 1);
    const uint64_t first = ask(f);
    assert_ok(rbt_link_add_list(&f->link, 5, make_block(RBT_FRAME_LIST, 5)));
    assert_true(rbt_link_has_list(&f->link, 5));
    assert_false(rbt_link_has_list(&f->link, 6));
    assert_true(rbt_link_can_name(&f->link, 1 << 20));
    assert_false(rbt_link_can_name(&f->link, 1 << 28));
    push(f, 2);
    const uint64_t second = ask(f);
    push(f, 3);
    assert_ok(rbt_link_push(&f->link, make_block(RBT_FRAME_LEAVE, 4), 4, true));
    peer_say(f, RBT_FRAME_ACK, 1); /* something has come: the connection was of use */
    assert_ok(work(f));
    peer_hang_up(f);
    assert_ok(work(f));
    assert_int_equal(f->link.cuts, 1);
    come_up(f, 2);
    peer_expect(f, RBT_FRAME_LIST, 5);
    peer_expect(f, RBT_FRAME_PUSH, 3);
    peer_expect(f, RBT_FRAME_LEAVE, 4);
    peer_expect(f, RBT_FRAME_PULL, first);
    peer_expect(f, RBT_FRAME_PULL, second);
    peer_expect_nothing(f);
    peer_say(f, RBT_FRAME_ACK, 3); /* a leave is no number */
    assert_ok(work(f));
    assert_true(f->link.kept->is_leave);
    peer_send(f, (struct rbt_frame){.kind = RBT_FRAME_ACK, .flags = RBT_FRAME_HAS_LEFT},
              (struct rbt_wire_news){.arrived = 3});
    assert_ok(work(f));
    assert_null(f->link.kept);
}

/* Cut at random places: the peer sees every number once or more, without gaps. */
static void test_random_cuts(void **state)
{
    struct fixture *f = *state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 42, 0, 0);
    f->link.options.cut_max = 100000 * SECOND;
    f->link.options.silence_max = 100000 * SECOND;
    uint64_t arrived = 0;
    uint64_t sent = 0;
    while (arrived < 2000) {
        for (uint64_t i = rbt_rng_next(&rng) % 8; i > 0; i--) {
            push(f, ++sent);
        }
        f->now += SECOND;
        assert_ok(work(f));
        if (f->link.state == RBT_LINK_GREETING) {
            peer_accept(f);
            peer_expect(f, RBT_FRAME_HELLO, 0);
            peer_say(f, RBT_FRAME_WELCOME, arrived);
            assert_ok(work(f));
        }
        for (uint64_t i = rbt_rng_next(&rng) % 8; f->peer != NULL && i > 0; i--) {
            struct rbt_frame frame;
            const char *body = NULL;
            const rbt_status st = rbt_channel_receive(f->peer, &frame, &body);
            if (st != RBT_OK) {
                assert_int_equal(st, RBT_E_BUSY);
                break;
            }
            if (frame.kind == RBT_FRAME_PUSH) {
                assert_true(frame.id <= arrived + 1);
                arrived = frame.id > arrived ? frame.id : arrived;
            }
        }
        if (f->peer != NULL && rbt_rng_next(&rng) % 3 == 0) {
            peer_say(f, RBT_FRAME_ACK, arrived);
        }
        if (rbt_rng_next(&rng) % 5 == 0) {
            peer_hang_up(f);
        }
    }
    assert_true(f->link.cuts > 50);
}

/* What an earlier run has asked for may be answered now: the floor and the numbers in it are old.
 */
static void test_news_of_an_earlier_run(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    const uint64_t old = ask(f);
    come_up(f, 0);
    peer_say(f, RBT_FRAME_ACK, 1);
    assert_ok(work(f));
    rbt_link_reset(&f->link);
    push(f, 1);
    peer_answer(f, old, (struct rbt_wire_news){.floor = INT64_MAX, .arrived = 1});
    assert_ok(work(f));
    assert_non_null(f->link.kept);
    assert_int_equal(f->link.news.floor, 0);
    assert_int_equal(f->answer_count, 0);
}

static void test_refused_for_good(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 0);
    peer_send(f, (struct rbt_frame){.kind = RBT_FRAME_REFUSED}, (struct rbt_wire_news){0});
    assert_fails(work(f), RBT_E_CLOSED, "refused us: not today");
    assert_non_null(strstr(rbt_last_error(), "shard 7"));
}

/* May come again, and does, less and less often; and gives up with the reason. */
static void test_refused_for_now(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    const rbt_time began = f->now;
    uint32_t tries = 0;
    rbt_status st = RBT_OK;
    while (st == RBT_OK) {
        st = work(f);
        assert_ok(st);
        peer_accept(f);
        tries++;
        if (tries % 2 == 0) { /* greeted first, which makes it no better */
            peer_say(f, RBT_FRAME_WELCOME, 0);
            assert_ok(work(f));
        }
        peer_send(f, (struct rbt_frame){.kind = RBT_FRAME_REFUSED, .flags = RBT_FRAME_TRY_AGAIN},
                  (struct rbt_wire_news){0});
        st = work(f);
        struct pollfd poll;
        const rbt_time due = rbt_link_prepare(&f->link, &poll);
        assert_true(st != RBT_OK || (due > f->now && due <= f->now + SECOND / 2));
        f->now = due;
    }
    assert_fails(st, RBT_E_CLOSED, "not today");
    assert_non_null(strstr(rbt_last_error(), "no connection for 3"));
    assert_in_range(tries, 8, 15);
    assert_true(f->now - began >= 3 * SECOND);
}

static void test_gives_up_when_nobody_is_there(void **state)
{
    struct fixture *f = *state;
    (void)close(f->listener);
    f->listener = -1;
    push(f, 1);
    rbt_status st = RBT_OK;
    uint32_t tries = 0;
    for (; st == RBT_OK; tries++) {
        struct pollfd poll;
        st = work(f);
        f->now = rbt_link_prepare(&f->link, &poll);
    }
    assert_fails(st, RBT_E_CLOSED, "lost shard 7");
    assert_in_range(tries, 8, 15);
}

/* A connection that nobody has wanted for long was not lost for long. */
static void test_comes_back_after_a_pause(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    come_up(f, 1);
    f->now += 100 * SECOND;
    peer_hang_up(f);
    assert_ok(work(f));
    (void)close(f->listener);
    f->listener = -1;
    f->now += 100 * SECOND;
    assert_ok(work(f));
    push(f, 2);
    assert_ok(work(f)); /* fails to connect, but has only begun to try */
    assert_int_equal(f->link.state, RBT_LINK_DOWN);
    f->now += 4 * SECOND;
    assert_int_equal(work(f), RBT_E_CLOSED);
}

/* Silence is asked about after a quarter of the time, and ends the connection after all of it. */
static void test_silence(void **state)
{
    struct fixture *f = *state;
    struct pollfd poll;
    const uint64_t id = ask(f);
    come_up(f, 0);
    peer_expect(f, RBT_FRAME_PULL, id);
    assert_int_equal(rbt_link_prepare(&f->link, &poll), f->now + 2 * SECOND);
    f->now += 2 * SECOND;
    assert_ok(work(f));
    peer_expect(f, RBT_FRAME_STATS, id + 1);
    assert_int_equal(rbt_link_prepare(&f->link, &poll), f->now + 6 * SECOND);
    peer_send(f, (struct rbt_frame){.kind = RBT_FRAME_DONE, .id = id + 1},
              (struct rbt_wire_news){0});
    assert_ok(work(f)); /* it is there, only slow */
    assert_int_equal(f->answer_count, 0);
    f->now += 100 * SECOND; /* we were busy: it was not asked */
    assert_ok(work(f));
    assert_int_equal(f->link.state, RBT_LINK_UP);
    peer_expect(f, RBT_FRAME_STATS, id + 2);
    f->now += 6 * SECOND - 1;
    assert_ok(work(f));
    assert_int_equal(f->link.state, RBT_LINK_UP);
    f->now += 1;
    assert_ok(work(f));
    assert_int_equal(f->link.state, RBT_LINK_DOWN);
    come_up(f, 0);
    peer_expect(f, RBT_FRAME_PULL, id);
    peer_expect(f, RBT_FRAME_STATS, id + 2);
}

/* A host that takes connections but whose shard says nothing is given up, too. */
static void test_no_greeting(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    assert_ok(work(f));
    assert_int_equal(f->link.state, RBT_LINK_GREETING);
    f->now += 8 * SECOND;
    assert_fails(work(f), RBT_E_CLOSED, "no word for 8s");
}

static void test_wrong_messages_cut(void **state)
{
    struct fixture *f = *state;
    push(f, 1);
    assert_ok(work(f));
    peer_accept(f);
    peer_say(f, RBT_FRAME_ACK, 0); /* no greeting */
    assert_ok(work(f));
    assert_int_equal(f->link.state, RBT_LINK_DOWN);
    f->now += SECOND / 2;
    come_up(f, 0);
    peer_say(f, RBT_FRAME_ACK, 0);
    assert_ok(work(f));
    peer_say(f, RBT_FRAME_WELCOME, 0); /* a second one */
    assert_ok(work(f));
    assert_int_equal(f->link.state, RBT_LINK_DOWN);
    const uint64_t id = ask(f);
    come_up(f, 1);
    f->answer = RBT_E_NOMEM;
    peer_answer(f, id, (struct rbt_wire_news){0});
    assert_int_equal(work(f), RBT_E_NOMEM);
}

/* --- Messages that are sent from where they lie --------------------------------------------- */

/* An update whose values are the worker's own memory: it says when that is about to change, and
 * what is sent again after a cut is what was sent before. */
static void test_what_is_sent_again_is_what_was_sent(void **state)
{
    struct fixture *f = *state;
    enum { VALUES = 64 };
    static char values[VALUES];
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER + VALUES);
    assert_non_null(block);
    memset(values, 5, sizeof values);
    block->bytes = RBT_FRAME_HEADER + VALUES;
    rbt_wire_close(block->data, (struct rbt_frame){.kind = RBT_FRAME_PUSH, .worker = 3, .id = 1},
                   block->bytes);
    block->tail = values;
    block->tail_at = RBT_FRAME_HEADER;
    assert_ok(rbt_link_push(&f->link, block, 1, false));
    come_up(f, 0);
    peer_expect(f, RBT_FRAME_PUSH, 1);
    peer_hang_up(f);
    rbt_link_own(&f->link);
    memset(values, 9, sizeof values); /* the next update */
    assert_ok(work(f));
    f->now += SECOND;
    come_up(f, 0);
    struct rbt_frame frame;
    const char *body = NULL;
    rbt_status st = rbt_channel_receive(f->peer, &frame, &body);
    st = st == RBT_E_BUSY ? rbt_channel_receive(f->peer, &frame, &body) : st;
    assert_ok(st);
    assert_int_equal(frame.id, 1);
    for (size_t i = 0; i < VALUES; i++) {
        assert_int_equal(body[i], 5);
    }
}

/* --- Long answers ---------------------------------------------------------------------------- */

enum { PREFIX = 64, LONG = 64 << 10 }; /* what a long answer begins with, and its rows */

/* The peer writes half of an answer to this request, the first or the second, whose rows are all
 * `byte`. */
static void peer_write_half(struct fixture *f, uint64_t id, int byte, bool is_second)
{
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER + PREFIX + LONG);
    assert_non_null(block);
    const struct rbt_wire_answer answer = {0};
    const size_t head = rbt_wire_put_answer(block->data, &answer);
    assert_true(head <= RBT_FRAME_HEADER + PREFIX);
    block->bytes = RBT_FRAME_HEADER + PREFIX + LONG;
    memset(block->data + head, byte, block->bytes - head);
    rbt_wire_close(block->data, (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = id}, block->bytes);
    const size_t first = is_second ? block->bytes / 2 : 0;
    const size_t now = is_second ? block->bytes - first : block->bytes / 2;
    assert_int_equal(write(rbt_channel_socket(f->peer), block->data + first, now), now);
    rbt_block_unref(block);
}

/* Half of a long answer has come, and gone to its place, when the connection is cut. On the next
 * one the answer is short: it must not be taken for what lies there. */
static void test_half_of_a_long_answer(void **state)
{
    struct fixture *f = *state;
    static char rows[LONG];
    static int owner;
    struct rbt_link_request *request = NULL;
    assert_ok(rbt_link_ask(&f->link, make_block(RBT_FRAME_PULL, 0),
                           (struct rbt_frame){.kind = RBT_FRAME_PULL, .worker = 3}, &owner,
                           &request));
    request->place = (struct rbt_frame_place){.prefix = PREFIX, .to = rows, .bytes = LONG};
    const uint64_t id = request->id;
    come_up(f, 0);
    peer_expect(f, RBT_FRAME_PULL, id);
    peer_write_half(f, id, 1, false);
    assert_ok(work(f));
    assert_int_equal(f->answer_count, 0);
    assert_true(request->is_placed);
    peer_hang_up(f);
    assert_ok(work(f));
    f->now += SECOND;
    come_up(f, 0);
    peer_expect(f, RBT_FRAME_PULL, id);
    peer_answer(f, id, (struct rbt_wire_news){.floor = 4});
    assert_ok(work(f));
    assert_int_equal(f->answer_count, 1);
    assert_false(f->was_placed);
}

/* A long answer that is as long as it should be goes to its place; any other does not. */
static void test_a_long_answer_is_placed_if_it_fits(void **state)
{
    struct fixture *f = *state;
    static char rows[LONG + RBT_FRAME_ALIGN];
    static const size_t sizes[] = {LONG, LONG - RBT_FRAME_ALIGN, LONG + RBT_FRAME_ALIGN};
    static int owner;
    push(f, 1);
    come_up(f, 0);
    peer_expect(f, RBT_FRAME_PUSH, 1);
    for (size_t i = 0; i < 3; i++) {
        struct rbt_link_request *request = NULL;
        assert_ok(rbt_link_ask(&f->link, make_block(RBT_FRAME_PULL, 0),
                               (struct rbt_frame){.kind = RBT_FRAME_PULL, .worker = 3}, &owner,
                               &request));
        request->place = (struct rbt_frame_place){.prefix = PREFIX, .to = rows, .bytes = sizes[i]};
        const uint64_t id = request->id;
        assert_ok(work(f));
        peer_expect(f, RBT_FRAME_PULL, id);
        memset(rows, 0, sizeof rows);
        peer_write_half(f, id, 7, false);
        assert_ok(work(f));
        peer_write_half(f, id, 7, true);
        assert_ok(work(f));
        assert_int_equal(f->answer_count, i + 1);
        assert_int_equal(f->was_placed, sizes[i] == LONG);
        assert_int_equal(rows[0], sizes[i] == LONG ? 7 : 0);
        assert_int_equal(rows[LONG - 1], sizes[i] == LONG ? 7 : 0);
        assert_int_equal(rows[LONG], 0);
    }
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(test_idle_link_does_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sends_and_forgets_what_has_arrived, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sends_again_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_cuts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_news_of_an_earlier_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_for_good, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_for_now, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gives_up_when_nobody_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_comes_back_after_a_pause, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_sent_again_is_what_was_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_half_of_a_long_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_answer_is_placed_if_it_fits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_greeting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_messages_cut, setup, teardown),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
