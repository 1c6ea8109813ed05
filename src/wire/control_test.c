/* wire/control_test.c - the coordinator's messages come back as they were; none that is cut short,
 * or too long, is believed. */
#include "base/test.h"

#include "wire/control.h"

enum { ROOM = 1 << 16 };

static _Alignas(8) char frame_bytes[ROOM];

/* The body of the frame that was written last; its header is as it should be. */
static struct rbt_wire_cursor body_of(size_t bytes, enum rbt_frame_kind kind, uint64_t id)
{
    struct rbt_frame frame;
    assert_true(bytes <= ROOM);
    assert_ok(rbt_frame_get(frame_bytes, RBT_FRAME_BODY_MAX, &frame));
    assert_int_equal(frame.kind, kind);
    assert_int_equal(frame.id, id);
    assert_int_equal(frame.worker, RBT_FRAME_NOBODY);
    assert_int_equal(RBT_FRAME_HEADER + frame.length, bytes);
    return (struct rbt_wire_cursor){.at = frame_bytes + RBT_FRAME_HEADER,
                                    .end = frame_bytes + bytes};
}

/* No beginning of the body is accepted, nor what is longer by a number. */
#define assert_only_whole(body, get)                                                               \
    do {                                                                                           \
        const size_t whole = (size_t)((body).end - (body).at);                                     \
        for (size_t cut = 0; cut <= whole + 8; cut++) {                                            \
            struct rbt_wire_cursor from = {(body).at, (body).at + cut};                            \
            if (cut != whole) {                                                                    \
                assert_int_equal((get), RBT_E_PROTOCOL);                                           \
            }                                                                                      \
        }                                                                                          \
    } while (0)

static const char *const addresses[] = {"unix:/tmp/a", "[::1]:7000", "host:1"};

static void join_comes_back(void **state)
{
    (void)state;
    const struct rbt_control_join join = {.token = UINT64_C(0x123456789abcdef0),
                                          .is_return = true,
                                          .role = 1,
                                          .index = -1,
                                          .pid = 4242,
                                          .worker_count = 8,
                                          .thread_count = 2,
                                          .permit = {{1, 2, [15] = 3}},
                                          .read_permit = {{4, 5, [15] = 6}},
                                          .shards = {.count = 3, .texts = addresses},
                                          .space = "main",
                                          .host = "node7"};
    const size_t bytes = rbt_control_put_join(frame_bytes, &join);
    assert_int_equal(rbt_control_put_join(NULL, &join), bytes);
    const struct rbt_wire_cursor body = body_of(bytes, RBT_FRAME_JOIN, 0);
    struct rbt_control_join read;
    assert_ok(rbt_control_get_join(body, &read));
    assert_int_equal(read.token, join.token);
    assert_true(read.is_return);
    assert_int_equal(read.role, 1);
    assert_int_equal(read.index, -1);
    assert_int_equal(read.pid, 4242);
    assert_int_equal(read.worker_count, 8);
    assert_int_equal(read.thread_count, 2);
    assert_true(rbt_wire_is_secret(&read.permit, &join.permit));
    assert_true(rbt_wire_is_secret(&read.read_permit, &join.read_permit));
    assert_string_equal(read.space, "main");
    assert_string_equal(read.host, "node7");
    assert_int_equal(read.shards.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        char address[RBT_NAME_MAX];
        rbt_control_next_shard(&read.shards, address);
        assert_string_equal(address, addresses[i]);
    }
    assert_only_whole(body, rbt_control_get_join(from, &read));
}

static void plan_comes_back(void **state)
{
    (void)state;
    const struct rbt_control_plan plan = {.cluster = 77,
                                          .job = 3,
                                          .index = 1,
                                          .process_count = 3,
                                          .worker_count = 5,
                                          .worker_first = 2,
                                          .thread_count = 2,
                                          .process_size = 2,
                                          .map_version = 1,
                                          .secret = {{7, [15] = 8}},
                                          .shards = {.count = 2, .texts = addresses}};
    const size_t bytes = rbt_control_put_plan(frame_bytes, &plan);
    const struct rbt_wire_cursor body = body_of(bytes, RBT_FRAME_PLAN, 0);
    struct rbt_control_plan read;
    assert_ok(rbt_control_get_plan(body, &read));
    assert_int_equal(read.cluster, 77);
    assert_int_equal(read.job, 3);
    assert_int_equal(read.index, 1);
    assert_int_equal(read.process_count, 3);
    assert_int_equal(read.worker_count, 5);
    assert_int_equal(read.worker_first, 2);
    assert_int_equal(read.thread_count, 2);
    assert_int_equal(read.process_size, 2);
    assert_int_equal(read.map_version, 1);
    assert_true(rbt_wire_is_secret(&read.secret, &plan.secret));
    assert_int_equal(read.shards.count, 2);
    assert_only_whole(body, rbt_control_get_plan(from, &read));
}

static void a_job_comes_back(void **state)
{
    (void)state;
    const struct rbt_control_job job = {
        .worker_count = 5, .secret = {{1, [15] = 2}}, .read_secret = {{3, [15] = 4}}};
    const size_t bytes = rbt_control_put_job(frame_bytes, 9, &job);
    assert_int_equal(rbt_control_put_job(NULL, 9, &job), bytes);
    const struct rbt_wire_cursor body = body_of(bytes, RBT_FRAME_JOB, 9);
    struct rbt_control_job read;
    assert_ok(rbt_control_get_job(body, &read));
    assert_int_equal(read.worker_count, 5);
    assert_true(rbt_wire_is_secret(&read.secret, &job.secret));
    assert_true(rbt_wire_is_secret(&read.read_secret, &job.read_secret));
    assert_only_whole(body, rbt_control_get_job(from, &read));
    frame_bytes[RBT_FRAME_HEADER + 4] = 1; /* must be zero */
    assert_int_equal(rbt_control_get_job(body, &read), RBT_E_PROTOCOL);
    frame_bytes[RBT_FRAME_HEADER + 4] = 0;
    frame_bytes[RBT_FRAME_HEADER] = 0; /* no workers */
    assert_int_equal(rbt_control_get_job(body, &read), RBT_E_PROTOCOL);
}

static void parts_come_back(void **state)
{
    (void)state;
    const struct rbt_control_part parts[] = {{"one", 3}, {NULL, 0}, {"12345678", 8}};
    struct rbt_control_part part;
    size_t bytes = rbt_control_put_gather(frame_bytes, 9, &parts[0]);
    struct rbt_wire_cursor body = body_of(bytes, RBT_FRAME_GATHER, 9);
    assert_ok(rbt_control_get_gather(body, &part));
    assert_int_equal(part.size, 3);
    assert_memory_equal(part.bytes, "one", 3);
    assert_only_whole(body, rbt_control_get_gather(from, &part));

    bytes = rbt_control_put_gathered(frame_bytes, 9, parts, 3);
    body = body_of(bytes, RBT_FRAME_GATHERED, 9);
    struct rbt_wire_cursor list;
    uint32_t count;
    assert_ok(rbt_control_get_gathered(body, &list, &count));
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < count; i++) {
        rbt_control_next_part(&list, &part);
        assert_int_equal(part.size, parts[i].size);
        assert_true(part.size == 0 || memcmp(part.bytes, parts[i].bytes, part.size) == 0);
    }
    assert_only_whole(body, rbt_control_get_gathered(from, &list, &count));
}

static void bounds_that_cannot_be_are_refused(void **state)
{
    static const struct {
        uint64_t words[3];
        const char *why;
    } cases[] = {{{0, 1, 2}, "a job in it"},
                 {{1, RBT_JOB_TABLES_MAX, 2}, "a table in it"},
                 {{1, UINT64_C(1) << 32, 2}, "where zeros should be"},
                 {{1, 1, (uint64_t)-2}, "a staleness in it"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *at = (const char *)cases[i].words;
        struct rbt_control_bound bound;
        const struct rbt_wire_cursor body = {at, at + sizeof cases[i].words};
        assert_fails(rbt_control_get_bound(body, &bound), RBT_E_PROTOCOL, cases[i].why);
    }
    uint64_t job;
    const char *zero = (const char *)cases[0].words;
    assert_fails(rbt_control_get_taken((struct rbt_wire_cursor){zero, zero + 8}, &job),
                 RBT_E_PROTOCOL, "a job in it");
}

static void short_messages_come_back(void **state)
{
    (void)state;
    const struct rbt_control_bound wanted = {.job = 9, .table = RBT_CONTROL_ALL, .staleness = -1};
    struct rbt_control_bound bound;
    struct rbt_wire_cursor body =
        body_of(rbt_control_put_bound(frame_bytes, 4, &wanted), RBT_FRAME_BOUND, 4);
    assert_ok(rbt_control_get_bound(body, &bound));
    assert_int_equal(bound.job, 9);
    assert_int_equal(bound.table, RBT_CONTROL_ALL);
    assert_int_equal(bound.staleness, -1);
    assert_only_whole(body, rbt_control_get_bound(from, &bound));

    uint64_t job;
    body = body_of(rbt_control_put_taken(frame_bytes, 4, 9), RBT_FRAME_BOUND_TAKEN, 4);
    assert_ok(rbt_control_get_taken(body, &job));
    assert_int_equal(job, 9);
    assert_only_whole(body, rbt_control_get_taken(from, &job));

    const struct rbt_control_version told = {.table = 3, .version = UINT64_MAX};
    struct rbt_control_version version;
    body = body_of(rbt_control_put_version(frame_bytes, RBT_FRAME_STABLE, 7, &told),
                   RBT_FRAME_STABLE, 7);
    assert_ok(rbt_control_get_version(body, &version));
    assert_int_equal(version.table, 3);
    assert_int_equal(version.version, UINT64_MAX);
    assert_only_whole(body, rbt_control_get_version(from, &version));
    frame_bytes[RBT_FRAME_HEADER + 4] = 1;
    assert_fails(rbt_control_get_version(body, &version), RBT_E_PROTOCOL, "where zeros should be");
    frame_bytes[RBT_FRAME_HEADER + 4] = 0;
    frame_bytes[RBT_FRAME_HEADER + 1] = RBT_JOB_TABLES_MAX >> 8;
    assert_fails(rbt_control_get_version(body, &version), RBT_E_PROTOCOL, "a table in it");

    body = body_of(rbt_control_put_plain(frame_bytes, RBT_FRAME_DROP, 12), RBT_FRAME_DROP, 12);
    assert_ok(rbt_control_get_plain(body));
    assert_only_whole(body, rbt_control_get_plain(from));

    struct rbt_control_ending ending;
    body = body_of(rbt_control_put_ending(frame_bytes, RBT_FRAME_FAILED, RBT_E_CLOSED, "lost it"),
                   RBT_FRAME_FAILED, 0);
    assert_ok(rbt_control_get_ending(body, &ending));
    assert_int_equal(ending.status, RBT_E_CLOSED);
    assert_string_equal(ending.text, "lost it");
    assert_only_whole(body, rbt_control_get_ending(from, &ending));
}

static void a_sentence_is_one_line_that_fits(void **state)
{
    (void)state;
    struct rbt_control_ending ending;
    static char text[RBT_WIRE_TEXT_MAX + 100];
    memset(text, 'x', sizeof text - 1);
    text[1] = '\n';
    text[2] = '\x1b';
    const size_t bytes = rbt_control_put_ending(frame_bytes, RBT_FRAME_GOODBYE, RBT_OK, text);
    struct rbt_wire_cursor body = body_of(bytes, RBT_FRAME_GOODBYE, 0);
    assert_ok(rbt_control_get_ending(body, &ending));
    assert_int_equal(strlen(ending.text), RBT_WIRE_TEXT_MAX - 1);
    assert_memory_equal(ending.text, "x  x", 4);

    frame_bytes[RBT_FRAME_HEADER + 8 + 1] = '\n';
    assert_fails(rbt_control_get_ending(body, &ending), RBT_E_PROTOCOL, "not one line");
}

/* The bytes of one message, as docs/wire.md has them. */
static void the_bytes_are_as_written_down(void **state)
{
    (void)state;
    const struct rbt_control_join join = {.token = 0x0807060504030201,
                                          .is_return = true,
                                          .role = 2,
                                          .index = -1,
                                          .pid = 0x1234,
                                          .worker_count = 5,
                                          .thread_count = 4,
                                          .permit = {"permit of 16 by"},
                                          .read_permit = {"and for readers"},
                                          .shards = {.count = 1, .texts = addresses},
                                          .space = "main",
                                          .host = "12345678"};
    static const char bytes[] = "\x01\x02\x03\x04\x05\x06\x07\x08"
                                "\x01\0\0\0\x02\0\0\0"
                                "\xff\xff\xff\xff\x34\x12\0\0"
                                "\x05\0\0\0\x04\0\0\0"
                                "permit of 16 by\0"
                                "and for readers\0"
                                "main\0\0\0\0"
                                "12345678"
                                "\0\0\0\0\0\0\0\0"
                                "\x01\0\0\0\0\0\0\0"
                                "unix:/tmp/a\0\0\0\0";
    const size_t size = rbt_control_put_join(frame_bytes, &join);
    assert_int_equal(size, RBT_FRAME_HEADER + sizeof bytes);
    assert_memory_equal(frame_bytes + RBT_FRAME_HEADER, bytes, sizeof bytes);
}

/* Writes a number into the JOIN or PLAN at hand, reads, and puts the old one back. */
static void poke(size_t at, uint32_t value)
{
    memcpy(frame_bytes + RBT_FRAME_HEADER + at, &value, sizeof value);
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    const struct rbt_control_join join = {
        .token = 1, .role = 1, .index = 0, .worker_count = 2, .thread_count = 1};
    const size_t bytes = rbt_control_put_join(frame_bytes, &join);
    const struct rbt_wire_cursor body = body_of(bytes, RBT_FRAME_JOIN, 0);
    const struct {
        size_t at;
        uint32_t bad;
        uint32_t good;
    } cases[] = {
        {0, 0, 1},                         /* token */
        {8, 2, 0},                         /* is_return */
        {12, RBT_CONTROL_ROLES, 1},        /* role */
        {16, (uint32_t)-2, 0},             /* index */
        {24, RBT_WIRE_WORKERS_MAX + 1, 2}, /* workers */
        {28, 3, 1},                        /* threads */
        {80, RBT_CLUSTER_SHARDS_MAX + 1, 0},
    };
    struct rbt_control_join read;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        poke(cases[i].at, cases[i].bad);
        assert_int_equal(rbt_control_get_join(body, &read), RBT_E_PROTOCOL);
        poke(cases[i].at, cases[i].good);
        assert_ok(rbt_control_get_join(body, &read));
    }
}

static void a_length_beyond_the_end_is_refused(void **state)
{
    (void)state;
    const struct rbt_control_part part = {"12345", 5};
    struct rbt_control_part read;
    const size_t bytes = rbt_control_put_gather(frame_bytes, 1, &part);
    const struct rbt_wire_cursor body = body_of(bytes, RBT_FRAME_GATHER, 1);
    static const uint64_t sizes[] = {9, 16, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memcpy(frame_bytes + RBT_FRAME_HEADER, &sizes[i], sizeof sizes[i]);
        assert_fails(rbt_control_get_gather(body, &read), RBT_E_PROTOCOL, "beyond its end");
    }
    const uint64_t shorter = 4; /* then the fifth byte is where zeros should be */
    memcpy(frame_bytes + RBT_FRAME_HEADER, &shorter, sizeof shorter);
    assert_fails(rbt_control_get_gather(body, &read), RBT_E_PROTOCOL, "zeros");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_comes_back),
        cmocka_unit_test(plan_comes_back),
        cmocka_unit_test(a_job_comes_back),
        cmocka_unit_test(parts_come_back),
        cmocka_unit_test(short_messages_come_back),
        cmocka_unit_test(bounds_that_cannot_be_are_refused),
        cmocka_unit_test(a_sentence_is_one_line_that_fits),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(the_bytes_are_as_written_down),
        cmocka_unit_test(a_length_beyond_the_end_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
