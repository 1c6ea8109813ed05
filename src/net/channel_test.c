/* net/channel_test.c - frames over pairs of sockets, plain and with TLS, cut in every way. The
 * fixture has a channel at one end (`near`), and at the other end a socket (`wire`) or a channel
 * (`far`). Both ends are driven by the test's only thread: nothing waits. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "net/channel.h"

static const char KEY[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

enum { TURNS_MAX = 1000000 }; /* of a loop that is sure to end much earlier */

#define MIB (UINT32_C(1) << 20)

struct fixture {
    bool is_secure;
    rbt_security *security;
    rbt_channel *near;
    rbt_channel *far;
    int wire;
};

static int set_up(void **state)
{
    struct fixture *f = *state;
    static struct fixture plain;
    f = f != NULL ? f : &plain;
    const bool is_secure = f->is_secure; /* the only thing that main() sets */
    *f = (struct fixture){.is_secure = is_secure, .wire = -1};
    if (is_secure) {
        assert_ok(rbt_security_open(KEY, &f->security));
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_channel_close(f->near);
    rbt_channel_close(f->far);
    if (f->wire >= 0) {
        (void)close(f->wire);
    }
    rbt_security_close(f->security);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static rbt_channel *open_channel(const struct fixture *f, int socket, bool is_server)
{
    const struct rbt_channel_options options = {
        .security = f->security, .is_server = is_server, .body_max = 64 * MIB};
    rbt_channel *channel = NULL;
    assert_ok(rbt_channel_open(socket, &options, &channel));
    return channel;
}

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
}

static void open_one(struct fixture *f)
{
    int pair[2];
    make_pair(pair);
    f->near = open_channel(f, pair[0], true);
    f->wire = pair[1];
}

static void open_both(struct fixture *f)
{
    int pair[2];
    make_pair(pair);
    f->near = open_channel(f, pair[0], false);
    f->far = open_channel(f, pair[1], true);
}

/* A body is told from all others by its id and its place. */
static void fill_body(char *body, uint64_t id, size_t length)
{
    for (size_t at = 0; at < length; at += 8) {
        const uint64_t word = id * UINT64_C(0x9e3779b97f4a7c15) + at;
        memcpy(body + at, &word, 8);
    }
}

static void append_frame(struct rbt_block *block, uint64_t id, uint32_t length)
{
    const struct rbt_frame frame = {
        .kind = RBT_FRAME_PUSH, .flags = 3, .length = length, .worker = 7, .id = id};
    assert_true(block->bytes + RBT_FRAME_HEADER + length <= block->capacity);
    rbt_frame_put(block->data + block->bytes, &frame);
    fill_body(block->data + block->bytes + RBT_FRAME_HEADER, id, length);
    block->bytes += RBT_FRAME_HEADER + (size_t)length;
}

static struct rbt_block *make_block(uint64_t id, uint32_t length)
{
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER + (size_t)length);
    assert_non_null(block);
    append_frame(block, id, length);
    return block;
}

static void send_frame(rbt_channel *channel, uint64_t id, uint32_t length)
{
    struct rbt_block *block = make_block(id, length);
    assert_ok(rbt_channel_send(channel, block));
    rbt_block_unref(block);
}

static void check_frame(const struct rbt_frame *frame, const char *body, uint64_t id,
                        uint32_t length)
{
    assert_int_equal(frame->kind, RBT_FRAME_PUSH);
    assert_int_equal(frame->flags, 3);
    assert_int_equal(frame->worker, 7);
    assert_int_equal(frame->id, id);
    assert_int_equal(frame->length, length);
    assert_int_equal((uintptr_t)body % RBT_FRAME_ALIGN, 0);
    for (size_t at = 0; at < length; at += 8) {
        const uint64_t word = id * UINT64_C(0x9e3779b97f4a7c15) + at;
        if (memcmp(body + at, &word, 8) != 0) {
            fail_msg("frame %llu differs at %zu", (unsigned long long)id, at);
        }
    }
}

/* Both ends work until `to` has a frame. */
static void expect_frame(rbt_channel *from, rbt_channel *to, uint64_t id, uint32_t length)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        struct rbt_frame frame;
        const char *body = NULL;
        rbt_status st = rbt_channel_flush(from);
        if (st != RBT_E_BUSY) {
            assert_ok(st);
        }
        st = rbt_channel_receive(to, &frame, &body);
        if (st == RBT_OK) {
            check_frame(&frame, body, id, length);
            return;
        }
        assert_int_equal(st, RBT_E_BUSY);
        st = rbt_channel_receive(from, &frame, &body); /* a handshake needs both directions */
        assert_int_equal(st, RBT_E_BUSY);
    }
    fail_msg("frame %llu never came", (unsigned long long)id);
}

static rbt_status receive_nothing(rbt_channel *channel)
{
    struct rbt_frame frame;
    const char *body = NULL;
    return rbt_channel_receive(channel, &frame, &body);
}

/* A channel may say once that it is busy, when it has just emptied the socket, and it is busy when
 * TLS has only something for itself. Who polls would come back. */
static rbt_status receive_patiently(rbt_channel *channel, struct rbt_frame *frame,
                                    const char **body)
{
    rbt_status st = RBT_E_BUSY;
    for (int turn = 0; turn < 5 && st == RBT_E_BUSY; turn++) {
        st = rbt_channel_receive(channel, frame, body);
    }
    return st;
}

static rbt_status receive_failure(rbt_channel *channel)
{
    struct rbt_frame frame;
    const char *body = NULL;
    return receive_patiently(channel, &frame, &body);
}

static const uint32_t LENGTHS[] = {0, 8,     64,    0,  1000,  16384,  32, 200000, 262112, 262144,
                                   0, 32736, 32744, 24, 65536, 300000, 8,  131072, 524288, 96};
enum { LENGTH_COUNT = sizeof LENGTHS / sizeof LENGTHS[0] };

/* All frames of LENGTHS, but none longer than `length_max`, as bytes. */
static struct rbt_block *make_stream(uint32_t length_max)
{
    struct rbt_block *stream = rbt_block_create(4 * (size_t)MIB);
    assert_non_null(stream);
    for (uint64_t i = 0; i < LENGTH_COUNT; i++) {
        append_frame(stream, i, LENGTHS[i] < length_max ? LENGTHS[i] : length_max);
    }
    return stream;
}

/* Writes the stream to the wire in pieces of 1 to `piece_max` bytes, receiving in between. */
static void feed(struct fixture *f, uint32_t length_max, size_t piece_max, uint64_t seed)
{
    struct rbt_block *stream = make_stream(length_max);
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, 0, 0);
    size_t at = 0;
    for (uint64_t next = 0; next < LENGTH_COUNT;) {
        size_t piece = 1 + rbt_rng_below(&rng, piece_max);
        piece = piece < stream->bytes - at ? piece : stream->bytes - at;
        const ssize_t sent = piece > 0 ? write(f->wire, stream->data + at, piece) : 0;
        at += sent > 0 ? (size_t)sent : 0;
        struct rbt_frame frame;
        const char *body = NULL;
        rbt_status st = RBT_OK;
        while ((st = rbt_channel_receive(f->near, &frame, &body)) == RBT_OK) {
            const uint32_t length = LENGTHS[next] < length_max ? LENGTHS[next] : length_max;
            check_frame(&frame, body, next++, length);
        }
        assert_int_equal(st, RBT_E_BUSY);
    }
    assert_int_equal(at, stream->bytes);
    rbt_block_unref(stream);
}

static void frames_arrive_whole_however_they_are_cut(void **state)
{
    struct fixture *f = *state;
    open_one(f);
    feed(f, 1000, 1, 1);
    feed(f, 40000, 7, 2);
    for (uint64_t seed = 3; seed < 20; seed++) {
        feed(f, MIB, 300000, seed);
        feed(f, 40000, 5000, seed);
    }
}

/* Two channels with a relay between them that passes on pieces of at most `piece_max` bytes. */
struct relay {
    int left;
    int right;
    size_t piece_max;
    struct rbt_rng rng;
    bool is_false; /* changes a bit in everything */
};

static void open_relay(struct fixture *f, size_t piece_max, struct relay *relay)
{
    int left[2];
    int right[2];
    make_pair(left);
    make_pair(right);
    f->near = open_channel(f, left[0], false);
    f->far = open_channel(f, right[0], true);
    *relay = (struct relay){.left = left[1], .right = right[1], .piece_max = piece_max};
    rbt_rng_init(&relay->rng, piece_max, 0, 0);
}

static void close_relay(struct fixture *f, struct relay *relay)
{
    rbt_channel_close(f->near);
    rbt_channel_close(f->far);
    f->near = NULL;
    f->far = NULL;
    (void)close(relay->left);
    (void)close(relay->right);
}

static void pass_on(struct relay *relay, int from, int to)
{
    char bytes[4096];
    const size_t size = 1 + rbt_rng_below(&relay->rng, relay->piece_max);
    const ssize_t got = read(from, bytes, size < sizeof bytes ? size : sizeof bytes);
    if (got > 0) {
        bytes[0] = relay->is_false ? (char)(bytes[0] ^ 1) : bytes[0];
        assert_int_equal(write(to, bytes, (size_t)got), got); /* the far end always reads */
    }
}

/* One turn of everybody; what the far end received, or RBT_E_BUSY. */
static rbt_status turn_relay(struct fixture *f, struct relay *relay, struct rbt_frame *frame,
                             const char **body)
{
    const rbt_status st = rbt_channel_flush(f->near);
    if (st != RBT_E_BUSY) {
        assert_ok(st);
    }
    pass_on(relay, relay->left, relay->right);
    pass_on(relay, relay->right, relay->left);
    assert_int_equal(receive_nothing(f->near), RBT_E_BUSY);
    return rbt_channel_receive(f->far, frame, body);
}

/* Nor is there more after RBT_E_BUSY, even if TLS holds a part of a record: who does not sleep
 * while there is more would not sleep at all. */
static void frames_arrive_whole_through_a_slow_relay(void **state)
{
    static const size_t pieces[] = {1, 7, 900, 4096};
    static const uint32_t lengths_max[] = {96, 1000, 40000, 300000};
    struct fixture *f = *state;
    for (size_t i = 0; i < 4; i++) {
        struct relay relay;
        open_relay(f, pieces[i], &relay);
        for (uint64_t id = 0; id < LENGTH_COUNT; id++) {
            send_frame(f->near, id, LENGTHS[id] < lengths_max[i] ? LENGTHS[id] : lengths_max[i]);
        }
        uint64_t next = 0;
        for (int turn = 0; turn < TURNS_MAX && next < LENGTH_COUNT; turn++) {
            struct rbt_frame frame;
            const char *body = NULL;
            const rbt_status st = turn_relay(f, &relay, &frame, &body);
            if (st == RBT_OK) {
                const uint32_t length =
                    LENGTHS[next] < lengths_max[i] ? LENGTHS[next] : lengths_max[i];
                check_frame(&frame, body, next++, length);
            } else {
                assert_int_equal(st, RBT_E_BUSY);
                assert_false(rbt_channel_has_more(f->far));
            }
        }
        assert_int_equal(next, LENGTH_COUNT);
        close_relay(f, &relay);
    }
}

static void a_bit_changed_under_way_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct relay relay;
    struct rbt_frame frame;
    const char *body = NULL;
    open_relay(f, 4096, &relay);
    send_frame(f->near, 1, 64);
    rbt_status st = RBT_E_BUSY;
    for (int turn = 0; turn < 100 && st == RBT_E_BUSY; turn++) {
        st = turn_relay(f, &relay, &frame, &body);
    }
    assert_ok(st);
    relay.is_false = true;
    send_frame(f->near, 2, 64);
    st = RBT_E_BUSY;
    for (int turn = 0; turn < 100 && st == RBT_E_BUSY; turn++) {
        st = turn_relay(f, &relay, &frame, &body);
    }
    assert_fails(st, RBT_E_PROTOCOL, "not encrypted correctly");
    close_relay(f, &relay);
}

static void channels_understand_each_other(void **state)
{
    struct fixture *f = *state;
    open_both(f);
    for (uint64_t i = 0; i < LENGTH_COUNT; i++) {
        send_frame(f->near, i, LENGTHS[i]);
    }
    for (uint64_t i = 0; i < LENGTH_COUNT; i++) {
        expect_frame(f->near, f->far, i, LENGTHS[i]);
    }
    for (uint64_t i = 0; i < LENGTH_COUNT; i++) {
        send_frame(f->far, i, LENGTHS[i]);
        expect_frame(f->far, f->near, i, LENGTHS[i]);
    }
    assert_true(rbt_channel_is_ready(f->near));
    assert_true(rbt_channel_is_ready(f->far));
    assert_int_equal(receive_nothing(f->near), RBT_E_BUSY);
    struct rbt_channel_stats sent;
    struct rbt_channel_stats got;
    rbt_channel_stats(f->near, &sent);
    rbt_channel_stats(f->far, &got);
    assert_int_equal(sent.frames_sent, LENGTH_COUNT);
    assert_int_equal(got.frames_received, LENGTH_COUNT);
    assert_int_equal(sent.bytes_sent, got.bytes_received);
    assert_int_equal(sent.bytes_received, got.bytes_sent);
}

/* Long frames have a block of their own, which is kept for the next one, but not for ever. */
static void the_block_of_a_long_frame_is_used_again(void **state)
{
    struct fixture *f = *state;
    open_both(f);
    struct rbt_block *block = make_block(1, 16 * MIB);
    rbt_block_trim();
    const size_t live = rbt_alloc_live_bytes();
    assert_ok(rbt_channel_send(f->near, block));
    expect_frame(f->near, f->far, 1, 16 * MIB);
    assert_true(rbt_alloc_live_bytes() >= live + 16 * MIB);
    const uint64_t calls = rbt_alloc_calls();
    for (int i = 0; i < 3; i++) {
        assert_ok(rbt_channel_send(f->near, block));
        expect_frame(f->near, f->far, 1, 16 * MIB);
    }
    assert_int_equal(rbt_alloc_calls(), calls);
    rbt_block_unref(block);
    for (uint64_t i = 0; i < 5000; i++) {
        send_frame(f->near, i, 8);
        expect_frame(f->near, f->far, i, 8);
    }
    rbt_block_trim();
    assert_true(rbt_alloc_live_bytes() < live);
}

/* Blocks whose bodies are elsewhere, from `tail_at` of the body on, go through a socket that is too
 * small for one of them. Between two turns a body moves into its block: it must not be noticed. */
static void a_tail_arrives_with_its_block(void **state)
{
    static const uint32_t lengths[] = {8, 4096, MIB, 8, 2 * MIB, 64};
    struct fixture *f = *state;
    open_both(f);
    for (size_t cut = 0; cut < 4; cut++) {
        struct rbt_block *blocks[6];
        char *bodies[6];
        for (size_t i = 0; i < 6; i++) {
            blocks[i] = make_block(i, lengths[i]);
            bodies[i] = rbt_calloc(lengths[i], 1);
            assert_non_null(bodies[i]);
            const size_t at = lengths[i] * cut / 4 / 8 * 8;
            memcpy(bodies[i], blocks[i]->data + RBT_FRAME_HEADER + at, lengths[i] - at);
            memset(blocks[i]->data + RBT_FRAME_HEADER + at, 0x77, lengths[i] - at);
            blocks[i]->tail = bodies[i];
            blocks[i]->tail_at = RBT_FRAME_HEADER + at;
            assert_ok(rbt_channel_send(f->near, blocks[i]));
        }
        for (uint64_t i = 0; i < 6; i++) {
            if (i == 2) { /* a part of it is gone */
                rbt_block_own_rest(blocks[i]);
                memset(bodies[i], 0x55, lengths[i]);
            }
            expect_frame(f->near, f->far, i, lengths[i]);
        }
        for (size_t i = 0; i < 6; i++) {
            assert_int_equal(blocks[i]->references, 1);
            assert_int_equal(blocks[i]->sent, blocks[i]->bytes); /* no more, whatever followed */
            rbt_block_unref(blocks[i]);
            rbt_free(bodies[i]);
        }
    }
}

/* Gives long frames a place for all but the first `prefix` bytes, except to those with odd ids. */
struct waiter {
    size_t prefix;
    uint32_t asked;
    char *place;
};

static bool find_place(void *context, const struct rbt_frame *frame, struct rbt_frame_place *place)
{
    struct waiter *waiter = context;
    waiter->asked++;
    assert_int_equal(frame->kind, RBT_FRAME_PUSH);
    *place = (struct rbt_frame_place){
        .prefix = waiter->prefix, .to = waiter->place, .bytes = frame->length - waiter->prefix};
    return frame->id % 2 == 0;
}

/* Puts a frame that has come, with its end in its place or not, together and compares it. */
static void check_placed(const struct waiter *waiter, const struct rbt_frame *frame,
                         const char *body, uint64_t id, uint32_t length)
{
    char *whole = rbt_calloc(length, 1);
    assert_non_null(whole);
    assert_int_equal(frame->length, length);
    memcpy(whole, body, waiter->prefix);
    memcpy(whole + waiter->prefix, waiter->place, length - waiter->prefix);
    check_frame(frame, whole, id, length);
    assert_int_equal(waiter->place[length - waiter->prefix], 0x77); /* and nothing behind it */
    rbt_free(whole);
}

static void the_end_of_a_long_frame_goes_to_its_place(void **state)
{
    static const uint32_t lengths[] = {40000, 40000, 8, 64, 300000, 99992, 40000, 1000};
    static const size_t prefixes[] = {0, 8, 128, 39992, 40000};
    static const size_t pieces[] = {37, 900, 4096};
    struct fixture *f = *state;
    for (size_t run = 0; run < 15; run++) {
        struct waiter waiter = {.prefix = prefixes[run % 5], .place = rbt_calloc(MIB, 1)};
        struct relay relay;
        assert_non_null(waiter.place);
        open_relay(f, pieces[run / 5], &relay);
        rbt_channel_on_long(f->far, find_place, &waiter);
        for (uint64_t id = 0; id < 8; id++) {
            send_frame(f->near, id, lengths[id]);
        }
        uint64_t next = 0;
        memset(waiter.place, 0x77, MIB);
        for (int turn = 0; turn < TURNS_MAX && next < 8; turn++) {
            struct rbt_frame frame;
            const char *body = NULL;
            const rbt_status st = turn_relay(f, &relay, &frame, &body);
            if (st == RBT_OK && lengths[next] >= 40000 && next % 2 == 0) {
                check_placed(&waiter, &frame, body, next, lengths[next]);
                memset(waiter.place, 0x77, MIB);
                next++;
            } else if (st == RBT_OK) {
                check_frame(&frame, body, next, lengths[next]);
                next++;
            } else {
                assert_int_equal(st, RBT_E_BUSY);
            }
        }
        assert_int_equal(next, 8);
        assert_int_equal(waiter.asked, 5); /* once for each */
        close_relay(f, &relay);
        rbt_free(waiter.place);
    }
}

/* A peer that does not read fills the socket; the rest waits here, in order, and is counted. */
static void what_the_socket_does_not_take_waits(void **state)
{
    enum { COUNT = 100, LENGTH = 99992 };
    struct fixture *f = *state;
    open_both(f);
    send_frame(f->near, 0, 8);
    expect_frame(f->near, f->far, 0, 8); /* the handshake is over */
    assert_int_equal(rbt_channel_wants(f->near), POLLIN);
    struct rbt_block *first = make_block(0, LENGTH);
    assert_ok(rbt_channel_send(f->near, first));
    assert_int_equal(first->references, 2);
    for (uint64_t i = 1; i < COUNT; i++) {
        send_frame(f->near, i, LENGTH);
    }
    assert_int_equal(rbt_channel_queued(f->near), COUNT * (LENGTH + RBT_FRAME_HEADER));
    assert_int_equal(rbt_channel_wants(f->near), POLLIN | POLLOUT);
    assert_int_equal(rbt_channel_flush(f->near), RBT_E_BUSY);
    assert_int_equal(first->references, 1);
    rbt_block_unref(first);
    const size_t queued = rbt_channel_queued(f->near);
    assert_true(queued > 0);
    assert_int_equal(rbt_channel_flush(f->near), RBT_E_BUSY);
    assert_int_equal(rbt_channel_queued(f->near), queued);
    for (uint64_t i = 0; i < COUNT; i++) {
        expect_frame(f->near, f->far, i, LENGTH);
    }
    assert_ok(rbt_channel_flush(f->near));
    assert_int_equal(rbt_channel_queued(f->near), 0);
    assert_int_equal(rbt_channel_wants(f->near), POLLIN);
}

static void many_blocks_leave_in_one_call_and_come_in_one(void **state)
{
    enum { COUNT = 64 };
    struct fixture *f = *state;
    open_both(f);
    send_frame(f->near, 0, 8);
    expect_frame(f->near, f->far, 0, 8);
    assert_int_equal(receive_nothing(f->far), RBT_E_BUSY);
    struct rbt_channel_stats before[2];
    rbt_channel_stats(f->near, &before[0]);
    rbt_channel_stats(f->far, &before[1]);
    for (uint64_t i = 0; i < COUNT; i++) {
        send_frame(f->near, i, 64);
    }
    assert_ok(rbt_channel_flush(f->near));
    assert_false(rbt_channel_has_more(f->far));
    for (uint64_t i = 0; i < COUNT; i++) {
        expect_frame(f->near, f->far, i, 64);
        assert_int_equal(rbt_channel_has_more(f->far), i + 1 < COUNT);
    }
    assert_int_equal(receive_nothing(f->far), RBT_E_BUSY);
    struct rbt_channel_stats after[2];
    rbt_channel_stats(f->near, &after[0]);
    rbt_channel_stats(f->far, &after[1]);
    assert_int_equal(after[0].writes - before[0].writes, 1);
    assert_int_equal(after[1].reads - before[1].reads, 1);
}

static void a_length_above_the_limit_is_refused(void **state)
{
    struct fixture *f = *state;
    open_both(f);
    rbt_channel_set_body_max(f->far, 1024);
    send_frame(f->near, 1, 1024);
    expect_frame(f->near, f->far, 1, 1024);
    send_frame(f->near, 2, 1032);
    assert_ok(rbt_channel_flush(f->near));
    const size_t live = rbt_alloc_live();
    assert_int_equal(receive_failure(f->far), RBT_E_PROTOCOL);
    assert_int_equal(rbt_alloc_live(), live);
}

/* Once a channel has failed, it says so with the same words; but the reason can still be sent. */
static void a_failure_stays(void **state)
{
    struct fixture *f = *state;
    open_both(f);
    send_frame(f->near, 1, 8);
    expect_frame(f->near, f->far, 1, 8);
    rbt_channel_set_body_max(f->far, 8);
    send_frame(f->near, 2, 16);
    assert_ok(rbt_channel_flush(f->near));
    assert_int_equal(receive_failure(f->far), RBT_E_PROTOCOL);
    char sentence[256];
    (void)snprintf(sentence, sizeof sentence, "%s", rbt_last_error()); /* may be cut */
    struct rbt_block *block = make_block(3, 8);
    assert_fails(receive_nothing(f->far), RBT_E_PROTOCOL, sentence);
    assert_false(rbt_channel_has_more(f->far));
    assert_int_equal(rbt_channel_wants(f->far), POLLIN);
    assert_ok(rbt_channel_send(f->far, block));
    assert_ok(rbt_channel_flush(f->far));
    expect_frame(f->far, f->near, 3, 8);
    assert_fails(receive_nothing(f->far), RBT_E_PROTOCOL, sentence);
    rbt_block_unref(block);
}

static void a_peer_that_closes_is_noticed(void **state)
{
    struct fixture *f = *state;
    open_both(f);
    send_frame(f->near, 1, 8);
    send_frame(f->near, 2, 8);
    expect_frame(f->near, f->far, 1, 8);
    rbt_channel_close(f->near);
    f->near = NULL;
    struct rbt_frame frame;
    const char *body = NULL;
    assert_ok(receive_patiently(f->far, &frame, &body)); /* what came before is not lost */
    const rbt_status st = receive_failure(f->far);
    assert_fails(st, RBT_E_CLOSED, "the peer closed the connection");
    assert_null(strstr(rbt_last_error(), "middle"));
}

static void a_connection_cut_in_a_message_is_no_message(void **state)
{
    static const uint32_t lengths[] = {64, 500000};
    struct fixture *f = *state;
    for (size_t i = 0; i < 2; i++) {
        open_one(f);
        struct rbt_block *block = make_block(1, lengths[i]);
        for (size_t at = 0; at + 8 < block->bytes;) {
            const ssize_t sent = write(f->wire, block->data + at, block->bytes - 8 - at);
            at += sent > 0 ? (size_t)sent : 0;
            assert_int_equal(receive_nothing(f->near), RBT_E_BUSY);
        }
        (void)close(f->wire);
        f->wire = -1;
        const rbt_status st = receive_failure(f->near);
        assert_fails(st, RBT_E_CLOSED, "in the middle of a message");
        rbt_block_unref(block);
        rbt_channel_close(f->near);
        f->near = NULL;
    }
}

/* A refusal is the last message of a connection; who writes at that moment must still read it. */
static void what_was_said_before_a_close_can_be_read_after_a_failed_write(void **state)
{
    struct fixture *f = *state;
    open_both(f);
    send_frame(f->near, 1, 8);
    expect_frame(f->near, f->far, 1, 8);
    send_frame(f->far, 2, 64);
    assert_ok(rbt_channel_flush(f->far));
    rbt_channel_close(f->far);
    f->far = NULL;
    send_frame(f->near, 3, 8);
    assert_fails(rbt_channel_flush(f->near), RBT_E_CLOSED, "closed");
    struct rbt_block *block = make_block(4, 8);
    assert_fails(rbt_channel_send(f->near, block), RBT_E_CLOSED, "closed");
    rbt_block_unref(block);
    assert_int_equal(rbt_channel_wants(f->near), POLLIN);
    struct rbt_frame frame;
    const char *body = NULL;
    assert_ok(receive_patiently(f->near, &frame, &body));
    check_frame(&frame, body, 2, 64);
}

/* Who polls is told of what is in the socket and of nothing else: to write must not empty it, not
 * even while hands are shaken. */
static void flushing_does_not_read(void **state)
{
    struct fixture *f = *state;
    open_both(f);
    send_frame(f->near, 1, 8);
    struct rbt_frame frame;
    const char *body = NULL;
    if (f->is_secure) {
        assert_int_equal(rbt_channel_receive(f->far, &frame, &body), RBT_E_BUSY);
        assert_int_equal(rbt_channel_receive(f->near, &frame, &body), RBT_E_BUSY);
    }
    assert_ok(rbt_channel_flush(f->near));
    assert_ok(rbt_channel_flush(f->far));
    struct pollfd poll_one = {.fd = rbt_channel_socket(f->far), .events = POLLIN};
    assert_int_equal(poll(&poll_one, 1, 0), 1);
    assert_ok(rbt_channel_receive(f->far, &frame, &body));
    check_frame(&frame, body, 1, 8);
}

/* Connections are closed because something has failed: that is what is to be told. */
static void closing_leaves_the_last_error_alone(void **state)
{
    struct fixture *f = *state;
    open_both(f);
    send_frame(f->near, 1, 8);
    expect_frame(f->near, f->far, 1, 8);
    rbt_channel_close(f->far);
    f->far = NULL;
    assert_int_equal(rbt_fail(RBT_E_TIMEOUT, "lost"), RBT_E_TIMEOUT);
    rbt_channel_close(f->near);
    f->near = NULL;
    assert_string_equal(rbt_last_error(), "lost");
}

static void random_bytes_are_refused(void **state)
{
    struct fixture *f = *state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 11, 0, 0);
    for (int run = 0; run < 50; run++) {
        open_one(f);
        uint64_t noise[64];
        for (size_t i = 0; i < 64; i++) {
            noise[i] = rbt_rng_next(&rng);
        }
        assert_int_equal(write(f->wire, noise, sizeof noise), sizeof noise);
        (void)shutdown(f->wire, SHUT_WR);
        const rbt_status st = receive_failure(f->near);
        assert_int_equal(st, f->is_secure && st == RBT_E_CLOSED ? RBT_E_CLOSED : RBT_E_PROTOCOL);
        rbt_channel_close(f->near);
        (void)close(f->wire);
        f->near = NULL;
        f->wire = -1;
    }
}

/* With every allocation failing once, nothing leaks and the socket is closed. */
static void opening_survives_a_lack_of_memory(void **state)
{
    struct fixture *f = *state;
    bool has_opened = false;
    for (unsigned nth = 1; !has_opened; nth++) {
        assert_true(nth < 20);
        int pair[2];
        make_pair(pair);
        const struct rbt_channel_options options = {.security = f->security, .body_max = 1024};
        rbt_channel *channel = NULL;
        const size_t live = rbt_alloc_live();
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_channel_open(pair[0], &options, &channel);
        rbt_alloc_fail_nth(0);
        has_opened = st == RBT_OK;
        if (has_opened) {
            rbt_channel_close(channel);
        } else {
            assert_fails(st, RBT_E_NOMEM, "out of memory");
        }
        rbt_block_trim();
        assert_int_equal(rbt_alloc_live(), live);
        assert_int_equal(fcntl(pair[0], F_GETFD), -1);
        assert_int_equal(errno, EBADF);
        (void)close(pair[1]);
    }
}

#define BOTH_WAYS(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down),                                      \
    {                                                                                              \
#test " (TLS)", test, set_up, tear_down, &secure                                           \
    }

int main(void)
{
    static struct fixture secure = {.is_secure = true};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_arrive_whole_however_they_are_cut, set_up,
                                        tear_down),
        BOTH_WAYS(frames_arrive_whole_through_a_slow_relay),
        {"a_bit_changed_under_way_is_noticed (TLS)", a_bit_changed_under_way_is_noticed, set_up,
         tear_down, &secure},
        BOTH_WAYS(channels_understand_each_other),
        BOTH_WAYS(the_block_of_a_long_frame_is_used_again),
        BOTH_WAYS(a_tail_arrives_with_its_block),
        BOTH_WAYS(the_end_of_a_long_frame_goes_to_its_place),
        BOTH_WAYS(what_the_socket_does_not_take_waits),
        BOTH_WAYS(many_blocks_leave_in_one_call_and_come_in_one),
        BOTH_WAYS(a_length_above_the_limit_is_refused),
        BOTH_WAYS(a_failure_stays),
        BOTH_WAYS(a_peer_that_closes_is_noticed),
        cmocka_unit_test_setup_teardown(a_connection_cut_in_a_message_is_no_message, set_up,
                                        tear_down),
        BOTH_WAYS(what_was_said_before_a_close_can_be_read_after_a_failed_write),
        BOTH_WAYS(flushing_does_not_read),
        BOTH_WAYS(closing_leaves_the_last_error_alone),
        BOTH_WAYS(random_bytes_are_refused),
        BOTH_WAYS(opening_survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests_name("net/channel", tests, NULL, NULL);
}
