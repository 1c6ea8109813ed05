/* server/shard_thread_test.c - a shard's thread over a Unix socket, and clients that behave in ways
 * that clients should not. Waits end by themselves: what is waited for is promised. */
#include "base/test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "core/shard_event.h"
#include "net/channel.h"
#include "server/shard_thread.h"
#include "wire/message.h"

enum { CLUSTER = 11, SHARD = 2, JOB = 5, WORKERS = 2, WIDE = 1 << 18, PULLS = 80, VISITS = 300 };

struct fixture {
    char folder[64];
    char address[128];
    rbt_shard_thread *thread;
    char *log;
    size_t log_size;
    FILE *stream;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/rubato-shard-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->address, sizeof f->address, "unix:%s/s", f->folder);
    f->stream = open_memstream(&f->log, &f->log_size);
    const struct rbt_shard_thread_options options = {.listen = f->address, .log = f->stream};
    assert_ok(rbt_shard_thread_create(&options, &f->thread));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_shard_thread_destroy(f->thread);
    (void)fclose(f->stream);
    free(f->log);
    (void)rmdir(f->folder);
    test_free(f);
    return 0;
}

/* --- A client -------------------------------------------------------------------------------- */

static rbt_channel *dial(struct fixture *f)
{
    int socket = -1;
    rbt_channel *channel = NULL;
    const struct rbt_channel_options options = {.body_max = RBT_FRAME_BODY_MAX};
    assert_ok(rbt_address_begin(f->address, &socket));
    assert_ok(rbt_address_finish(f->address, socket));
    assert_ok(rbt_channel_open(socket, &options, &channel));
    return channel;
}

/* Sends the frame of `bytes` bytes in `block`, whose reference it takes over. */
static void post(rbt_channel *channel, struct rbt_block *block, struct rbt_frame header)
{
    rbt_wire_close(block->data, header, block->bytes);
    assert_ok(rbt_channel_send(channel, block));
    rbt_block_unref(block);
}

static void flush(rbt_channel *channel)
{
    rbt_status st = RBT_E_BUSY;
    while ((st = rbt_channel_flush(channel)) == RBT_E_BUSY) {
        struct pollfd one = {.fd = rbt_channel_socket(channel), .events = POLLOUT};
        assert_true(poll(&one, 1, 20000) > 0);
    }
}

/* The next frame, or how the connection ended. */
static rbt_status await(rbt_channel *channel, struct rbt_frame *frame, const char **body)
{
    rbt_status st = RBT_E_BUSY;
    while ((st = rbt_channel_receive(channel, frame, body)) == RBT_E_BUSY) {
        struct pollfd one = {.fd = rbt_channel_socket(channel), .events = POLLIN};
        assert_true(poll(&one, 1, 20000) > 0); /* else it has forgotten us */
    }
    return st;
}

static const struct rbt_control_job ADMITTED = {
    .worker_count = WORKERS, .secret = {"of its workers"}, .read_secret = {"of its readers"}};

static void greet_with(rbt_channel *channel, struct rbt_wire_hello hello)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    block->bytes = rbt_wire_put_hello(block->data, &hello);
    post(channel, block, (struct rbt_frame){.kind = RBT_FRAME_HELLO, .worker = hello.worker});
    flush(channel);
}

static void greet(rbt_channel *channel, uint64_t cluster, uint32_t worker)
{
    greet_with(channel, (struct rbt_wire_hello){.cluster = cluster,
                                                .job = JOB,
                                                .worker = worker,
                                                .worker_count = WORKERS,
                                                .shard = SHARD,
                                                .secret = ADMITTED.secret,
                                                .node = "test\nclient"});
}

static void expect(rbt_channel *channel, uint16_t kind, uint16_t flags)
{
    struct rbt_frame frame;
    const char *body = NULL;
    assert_ok(await(channel, &frame, &body));
    assert_int_equal(frame.kind, kind);
    assert_int_equal(frame.flags, flags);
}

static void expect_refused(rbt_channel *channel, uint16_t flags, const char *why)
{
    struct rbt_frame frame;
    const char *body = NULL;
    char text[RBT_WIRE_TEXT_MAX];
    assert_ok(await(channel, &frame, &body));
    assert_int_equal(frame.kind, RBT_FRAME_REFUSED);
    assert_int_equal(frame.flags, flags);
    struct rbt_wire_cursor cursor = {body, body + frame.length};
    assert_ok(rbt_wire_get_text(&cursor, text));
    assert_non_null(strstr(text, why));
    assert_int_equal(await(channel, &frame, &body), RBT_E_CLOSED);
    rbt_channel_close(channel);
}

static rbt_channel *join(struct fixture *f, uint32_t worker)
{
    rbt_channel *channel = dial(f);
    greet(channel, CLUSTER, worker);
    expect(channel, RBT_FRAME_WELCOME, 0);
    return channel;
}

static void post_empty(rbt_channel *channel, uint16_t kind, uint32_t worker, uint64_t id)
{
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER);
    block->bytes = RBT_FRAME_HEADER;
    post(channel, block, (struct rbt_frame){.kind = kind, .worker = worker, .id = id});
}

static void post_push(rbt_channel *channel, uint32_t worker, uint64_t id)
{
    const struct rbt_wire_push push = {
        .clock = (int64_t)id, .marker = (int64_t)id + 1, .range_last = UINT64_MAX};
    struct rbt_block *block = rbt_block_create(RBT_WIRE_PUSH_BYTES);
    block->bytes = rbt_wire_put_push(block->data, &push);
    post(channel, block, (struct rbt_frame){.kind = RBT_FRAME_PUSH, .worker = worker, .id = id});
}

/* This table, and the first run. */
static void begin_with(struct fixture *f, const struct rbt_spec *table)
{
    rbt_shard_thread_name(f->thread, CLUSTER, SHARD);
    rbt_shard_thread_admit(f->thread, JOB, &ADMITTED);
    rbt_channel *process = join(f, RBT_FRAME_NOBODY);
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    block->bytes = rbt_wire_put_table(block->data, table);
    post(process, block, (struct rbt_frame){.kind = RBT_FRAME_TABLE, .worker = UINT32_MAX});
    post_empty(process, RBT_FRAME_RESET, RBT_FRAME_NOBODY, 1);
    flush(process);
    expect(process, RBT_FRAME_DONE, 0);
    expect(process, RBT_FRAME_DONE, 0);
    rbt_channel_close(process);
}

/* The same with long rows. */
static void begin(struct fixture *f)
{
    begin_with(f, &(struct rbt_spec){.width = WIDE, .name = "wide"});
}

/* Asks for a row of table 0. */
static void post_pull(rbt_channel *channel, uint32_t worker, uint64_t id, int64_t need)
{
    const struct rbt_wire_pull pull = {.need = need};
    const struct rbt_wire_rows rows = {.count = 1, .keys = &id, .element_size = 4, .width = 1};
    struct rbt_block *block = rbt_block_create(RBT_WIRE_PULL_BYTES + rbt_wire_rows_bound(&rows));
    block->bytes = rbt_wire_put_pull(block->data, &pull);
    block->bytes += rbt_wire_rows_put(block->data + block->bytes, &rows, NULL);
    post(channel, block, (struct rbt_frame){.kind = RBT_FRAME_PULL, .worker = worker, .id = id});
}

/* --- Tests ----------------------------------------------------------------------------------- */

static void test_who_is_let_in(void **state)
{
    struct fixture *f = *state;
    rbt_channel *channel = dial(f);
    greet(channel, CLUSTER, 0);
    expect_refused(channel, RBT_FRAME_TRY_AGAIN, "has not joined"); /* a worker was faster */
    rbt_shard_thread_name(f->thread, CLUSTER, SHARD);
    channel = dial(f);
    greet(channel, CLUSTER, 0);
    expect_refused(channel, RBT_FRAME_TRY_AGAIN, "does not know job"); /* the same */
    rbt_shard_thread_admit(f->thread, JOB, &ADMITTED);
    rbt_shard_thread_admit(f->thread, JOB, &ADMITTED); /* it may be told again */
    channel = dial(f);
    greet(channel, CLUSTER + 1, 0);
    expect_refused(channel, 0, "looks for another cluster");
    channel = dial(f);
    greet(channel, CLUSTER, WORKERS);
    expect_refused(channel, 0, "does not exist");
    channel = dial(f);
    post_empty(channel, RBT_FRAME_STATS, 0, 1);
    flush(channel);
    expect_refused(channel, 0, "instead of a greeting");
    rbt_channel_close(join(f, 0));
    rbt_shard_thread_destroy(f->thread);
    f->thread = NULL;
    assert_int_equal(fflush(f->stream), 0);
    assert_null(strstr(f->log, "\nclient")); /* nobody else writes lines into the log */
}

/* A secret opens what it is for, and nothing else. */
static void test_secrets_of_a_job(void **state)
{
    struct fixture *f = *state;
    begin(f);
    const struct rbt_control_job other = {
        .worker_count = 1, .secret = {"of another job"}, .read_secret = {"of its readers2"}};
    rbt_shard_thread_admit(f->thread, JOB + 1, &other);
    const struct rbt_wire_hello hello = {
        .cluster = CLUSTER, .job = JOB, .worker_count = WORKERS, .shard = SHARD, .node = "thief"};
    const struct rbt_wire_secret secrets[] = {{{0}}, other.secret, ADMITTED.read_secret};
    rbt_channel *worker = join(f, 0);
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        struct rbt_wire_hello one = hello;
        rbt_channel *channel = dial(f);
        one.secret = secrets[i];
        greet_with(channel, one);
        expect_refused(channel, 0, "thief does not have the secret of job");
    }
    struct rbt_wire_hello reader = hello;
    reader.is_reader = true;
    reader.secret = other.read_secret;
    rbt_channel *channel = dial(f);
    greet_with(channel, reader);
    expect_refused(channel, 0, "does not have the secret of job");
    reader.secret = ADMITTED.read_secret;
    channel = dial(f);
    greet_with(channel, reader);
    expect(channel, RBT_FRAME_WELCOME, 0);
    post_push(channel, 0, 1); /* readers only read */
    flush(channel);
    expect_refused(channel, 0, "");
    post_push(worker, 0, 1); /* nobody has cut it off */
    flush(worker);
    expect(worker, RBT_FRAME_ACK, 0);
    rbt_channel_close(worker);
}

/* All requests come at once, nobody reads: what has been read by then must be answered later. */
static void test_answers_more_than_fit(void **state)
{
    struct fixture *f = *state;
    begin(f);
    rbt_channel *channel = join(f, 0);
    for (uint64_t i = 1; i <= PULLS; i++) {
        post_pull(channel, 0, i, 0);
    }
    flush(channel);
    rbt_channel *other = join(f, 1); /* the shard has been through the requests */
    for (uint64_t i = 1; i <= PULLS; i++) {
        struct rbt_frame frame;
        const char *body = NULL;
        assert_ok(await(channel, &frame, &body));
        assert_int_equal(frame.kind, RBT_FRAME_ROWS);
        assert_int_equal(frame.id, i);
        assert_true(frame.length > WIDE * 4);
    }
    rbt_channel_close(other);
    rbt_channel_close(channel);
}

/* Clients that send and are gone, before and while they are answered. */
static void test_hurried_clients(void **state)
{
    struct fixture *f = *state;
    begin(f);
    for (uint64_t i = 1; i <= VISITS; i++) {
        rbt_channel *channel = dial(f);
        greet(channel, CLUSTER, 0);
        if (i % 3 == 0) {
            expect(channel, RBT_FRAME_WELCOME, 0);
        }
        post_push(channel, 0, i % 7 == 0 ? i + 5 : 1); /* now and then one that is refused */
        flush(channel);
        post_empty(channel, RBT_FRAME_STATS, 0, i);
        const rbt_status flushed = rbt_channel_flush(channel);
        (void)flushed; /* it may have hung up already */
        rbt_channel_close(channel);
    }
    rbt_channel *channel = join(f, 1);
    post_push(channel, 1, 1);
    flush(channel);
    expect(channel, RBT_FRAME_ACK, 0);
    rbt_channel_close(channel);
}

static void test_one_connection_per_worker(void **state)
{
    struct fixture *f = *state;
    struct rbt_frame frame;
    const char *body = NULL;
    begin(f);
    rbt_channel *first = join(f, 0);
    rbt_channel *other = join(f, 1);
    rbt_channel *second = join(f, 0);
    assert_int_equal(await(first, &frame, &body), RBT_E_CLOSED);
    post_push(second, 0, 1);
    flush(second);
    expect(second, RBT_FRAME_ACK, 0);
    post_empty(second, RBT_FRAME_LEAVE, 0, 2);
    flush(second);
    expect(second, RBT_FRAME_ACK, RBT_FRAME_HAS_LEFT);
    post_empty(other, RBT_FRAME_STATS, 1, 3);
    flush(other);
    expect(other, RBT_FRAME_DONE, 0); /* it was not disturbed */
    rbt_channel_close(first);
    rbt_channel_close(second);
    rbt_channel_close(other);
}

static void test_a_job_is_over(void **state)
{
    struct fixture *f = *state;
    struct rbt_frame frame;
    const char *body = NULL;
    begin(f);
    rbt_channel *channel = join(f, 0);
    rbt_shard_thread_drop(f->thread, JOB);
    rbt_shard_thread_drop(f->thread, JOB + 1);
    assert_int_equal(await(channel, &frame, &body), RBT_E_CLOSED);
    rbt_channel_close(channel);
    channel = dial(f);
    greet(channel, CLUSTER, 0);
    expect_refused(channel, 0, "the job is over");
    assert_true(rbt_shard_thread_seen(f->thread) > 0);
}

/* Who waits for a clock that will never be whole hears why, like the one who has brought the rule
 * to fall. */
static void test_a_rule_fails_while_others_wait(void **state)
{
    struct fixture *f = *state;
    const struct rbt_spec table = {
        .width = 2, .staleness = RBT_STALENESS_ANY, .name = "weights", .rule = "prox:pairs=1"};
    begin_with(f, &table);
    rbt_channel *pusher = join(f, 0);
    rbt_channel *waiting = join(f, 1);
    post_pull(waiting, 1, 9, 1);
    post_empty(waiting, RBT_FRAME_STATS, 1, 10);
    flush(waiting);
    expect(waiting, RBT_FRAME_DONE, 0); /* by now the read waits */
    const uint64_t key = 9;
    const float wrong[] = {1, -1}; /* a scale must be positive */
    const struct rbt_wire_rows rows = {.count = 1,
                                       .keys = &key,
                                       .values = wrong,
                                       .element_size = 4,
                                       .width = 2,
                                       .has_base = true,
                                       .least = RBT_STAMP_NONE};
    const struct rbt_wire_push push = {.marker = 1, .range_last = UINT64_MAX, .batch_count = 1};
    struct rbt_block *block = rbt_block_create(RBT_WIRE_PUSH_BYTES + rbt_wire_rows_bound(&rows));
    block->bytes = rbt_wire_put_push(block->data, &push);
    block->bytes += rbt_wire_rows_put(block->data + block->bytes, &rows, NULL);
    post(pusher, block, (struct rbt_frame){.kind = RBT_FRAME_PUSH, .id = 1});
    flush(pusher);
    expect_refused(pusher, RBT_FRAME_FAILURE, "rule \"prox\" failed at row 9");
    expect_refused(waiting, RBT_FRAME_FAILURE, "rule \"prox\" failed at row 9");
    rbt_channel *late = join(f, 1);
    post_pull(late, 1, 9, 0);
    flush(late);
    expect_refused(late, RBT_FRAME_FAILURE, "rule \"prox\" failed at row 9");
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(test_who_is_let_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_secrets_of_a_job, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answers_more_than_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hurried_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_connection_per_worker, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_job_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_rule_fails_while_others_wait, setup, teardown),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
