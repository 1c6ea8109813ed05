/* wire/message_test.c - every message: its bytes, the way back, and what is refused.
 *
 * The bytes are written out (GOLDEN): whoever changes them changes the protocol and has to raise
 * its version. Messages with rows are tested with the rows that they carry. */
#include "base/test.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

#include <rubato/table.h>

#include "wire/message.h"

enum { ROOM = RBT_WIRE_SHORT_MAX };

static _Alignas(8) char message[ROOM];
static _Alignas(8) char cut[ROOM];

static const struct rbt_wire_news NEWS = {.floor = 7, .version = 8, .arrived = 9, .settled = 6};
static const struct rbt_wire_hello HELLO = {.cluster = 0x0807060504030201,
                                            .job = 2,
                                            .worker = 3,
                                            .worker_count = 4,
                                            .shard = 5,
                                            .is_reader = true,
                                            .secret = {"0123456789abcde"},
                                            .space = "main",
                                            .node = "worker/3"};
static const struct rbt_spec TABLE = {.number = 1,
                                      .type = RBT_F64,
                                      .layout = RBT_SPARSE,
                                      .width = 100,
                                      .state_width = 2,
                                      .merge = RBT_MERGE_MAX,
                                      .init = RBT_INIT_NORMAL,
                                      .partial = RBT_PARTIAL_SHOW,
                                      .a = 1.0,
                                      .b = 0.5,
                                      .seed = 11,
                                      .staleness = -1,
                                      .rows_expected = 1000,
                                      .must_exist = true,
                                      .is_synchronised = true,
                                      .follows_job = true,
                                      .name = "weights",
                                      .rule = "ftrl:l1=2",
                                      .priority = "walk",
                                      .bandwidth = 4096,
                                      .filter = "keys,lz4"};
static const uint64_t KEYS[] = {10, 20, 30, 47};
static const float VALUES[] = {1.0F, -0.0F, 2.0F, 0.5F};

/* --- Writing one of each ---------------------------------------------------------------------- */

static size_t put_rows(char *to, bool has_values)
{
    const struct rbt_wire_rows rows = {.table = 6,
                                       .count = 4,
                                       .keys = KEYS,
                                       .list = 0xabcd,
                                       .values = has_values ? VALUES : NULL,
                                       .element_size = 4,
                                       .width = 1};
    return rbt_wire_rows_put(to, &rows, NULL);
}

static size_t put_hello(void)
{
    return rbt_wire_put_hello(message, &HELLO);
}

static size_t put_welcome(void)
{
    return rbt_wire_put_welcome(message, &NEWS);
}

static size_t put_refused(void)
{
    return rbt_wire_put_refused(message, "no");
}

static size_t put_push(void)
{
    const struct rbt_wire_push push = {
        .clock = 5, .marker = -1, .range_first = 1, .range_last = 99, .batch_count = 1};
    const size_t bytes = rbt_wire_put_push(message, &push);
    return bytes + put_rows(message + bytes, true);
}

/* The same, of a table with a rule. */
static size_t put_based_push(void)
{
    const struct rbt_wire_push push = {
        .clock = 5, .marker = -1, .range_first = 1, .range_last = 99, .batch_count = 1};
    const struct rbt_wire_rows rows = {.table = 6,
                                       .count = 4,
                                       .keys = KEYS,
                                       .list = 0xabcd,
                                       .values = VALUES,
                                       .element_size = 4,
                                       .width = 1,
                                       .has_base = true,
                                       .base = 12,
                                       .least = 11};
    const size_t bytes = rbt_wire_put_push(message, &push);
    return bytes + rbt_wire_rows_put(message + bytes, &rows, NULL);
}

static size_t put_leave(void)
{
    return RBT_WIRE_LEAVE_BYTES;
}

static size_t put_list(void)
{
    return RBT_WIRE_LIST_BYTES + put_rows(message + RBT_WIRE_LIST_BYTES, false);
}

static size_t put_pull(void)
{
    const struct rbt_wire_pull pull = {
        .need = INT64_MIN, .subscription = 3, .applied_first = 2, .applied_count = 1};
    const size_t bytes = rbt_wire_put_pull(message, &pull);
    return bytes + put_rows(message + bytes, false);
}

static size_t put_base_pull(void)
{
    const struct rbt_wire_pull pull = {.need = INT64_MIN,
                                       .subscription = 3,
                                       .applied_first = 2,
                                       .applied_count = 1,
                                       .wants_stamp = true,
                                       .is_base = true,
                                       .is_ahead = true,
                                       .least = UINT64_MAX,
                                       .sequence = 17,
                                       .is_stable = true,
                                       .stable = 18};
    const size_t bytes = rbt_wire_put_pull(message, &pull);
    return bytes + put_rows(message + bytes, false);
}

static size_t put_copy_pull(void)
{
    const struct rbt_wire_pull pull = {.need = INT64_MIN,
                                       .subscription = 3,
                                       .applied_first = 2,
                                       .applied_count = 1,
                                       .has_copy = true,
                                       .copy = 20};
    const size_t bytes = rbt_wire_put_pull(message, &pull);
    return bytes + put_rows(message + bytes, false);
}

static size_t put_early_pull(void)
{
    const struct rbt_wire_pull pull = {.need = INT64_MIN,
                                       .subscription = 3,
                                       .applied_first = 2,
                                       .applied_count = 1,
                                       .is_early = true,
                                       .room = 19};
    const size_t bytes = rbt_wire_put_pull(message, &pull);
    return bytes + put_rows(message + bytes, false);
}

static size_t put_scan(void)
{
    const struct rbt_wire_scan scan = {
        .need = 4, .range_first = 5, .range_last = UINT64_MAX, .capacity = 50, .table = 6};
    return rbt_wire_put_scan(message, &scan);
}

static size_t put_answer(void)
{
    static const uint64_t APPLIED[] = {31, 32};
    const struct rbt_wire_answer answer = {
        .news = NEWS, .was_parked = true, .scan_count = 4, .applied_count = 2, .applied = APPLIED};
    const size_t bytes = rbt_wire_put_answer(message, &answer);
    return bytes + put_rows(message + bytes, true);
}

static size_t put_stamped_answer(void)
{
    static const uint64_t APPLIED[] = {31, 32};
    const struct rbt_wire_answer answer = {.news = NEWS,
                                           .was_parked = true,
                                           .is_withheld = true,
                                           .has_stamp = true,
                                           .stamp = 21,
                                           .scan_count = 4,
                                           .applied_count = 2,
                                           .applied = APPLIED};
    const size_t bytes = rbt_wire_put_answer(message, &answer);
    return bytes + put_rows(message + bytes, true);
}

static size_t put_copied_answer(void)
{
    static const uint64_t APPLIED[] = {31, 32};
    const struct rbt_wire_answer answer = {.news = NEWS,
                                           .was_parked = true,
                                           .has_copy = true,
                                           .copy_base = 20,
                                           .copy = 22,
                                           .has_limit = true,
                                           .limit = 23,
                                           .scan_count = 4,
                                           .applied_count = 2,
                                           .applied = APPLIED};
    const size_t bytes = rbt_wire_put_answer(message, &answer);
    return bytes + put_rows(message + bytes, true);
}

static size_t put_ack(void)
{
    return rbt_wire_put_ack(message, &NEWS);
}

static size_t put_table(void)
{
    return rbt_wire_put_table(message, &TABLE);
}

static size_t put_reset(void)
{
    return RBT_WIRE_RESET_BYTES;
}

static size_t put_done(void)
{
    const struct rbt_wire_done done = {.news = NEWS,
                                       .status = RBT_E_NOTFOUND,
                                       .figures = {1, 2, 3, 4, 5, 6, 7, 8},
                                       .table = TABLE,
                                       .text = "no table"};
    return rbt_wire_put_done(message, &done);
}

/* --- Reading one of each: fields are compared when the body is whole ---------------------------
 */

static rbt_status get_any_rows(struct rbt_wire_cursor *from, bool is_whole, bool has_base)
{
    struct rbt_wire_view view = {0};
    uint64_t keys[4];
    const rbt_status st = rbt_wire_rows_get(&from->at, from->end, &view);
    if (st == RBT_OK && is_whole) {
        assert_int_equal(view.table, 6);
        assert_int_equal(view.list, 0xabcd);
        assert_int_equal(view.count, 4);
        assert_int_equal(view.has_base, has_base);
        assert_int_equal(view.base, has_base ? 12 : 0);
        assert_int_equal(view.least, has_base ? 11 : 0);
        assert_ok(rbt_wire_view_keys(&view, keys));
        assert_memory_equal(keys, KEYS, sizeof keys);
        if (view.value_form != RBT_VALUES_NONE) {
            assert_int_equal(view.element_count, 4);
            assert_memory_equal(rbt_wire_view_raw(&view), VALUES, sizeof VALUES);
        }
    }
    return st;
}

static rbt_status get_rows(struct rbt_wire_cursor *from, bool is_whole)
{
    return get_any_rows(from, is_whole, false);
}

static void check_news(const struct rbt_wire_news *news)
{
    assert_int_equal(news->floor, 7);
    assert_int_equal(news->version, 8);
    assert_int_equal(news->arrived, 9);
    assert_int_equal(news->settled, 6);
}

static rbt_status get_hello(struct rbt_wire_cursor *from, bool is_whole)
{
    struct rbt_wire_hello hello = {0};
    const rbt_status st = rbt_wire_get_hello(from, &hello);
    if (st == RBT_OK && is_whole) {
        assert_int_equal(hello.cluster, HELLO.cluster);
        assert_int_equal(hello.job, 2);
        assert_int_equal(hello.worker, 3);
        assert_int_equal(hello.worker_count, 4);
        assert_int_equal(hello.shard, 5);
        assert_true(hello.is_reader);
        assert_true(rbt_wire_is_secret(&hello.secret, &HELLO.secret));
        assert_string_equal(hello.space, "main");
        assert_string_equal(hello.node, "worker/3");
    }
    return st;
}

static rbt_status get_news(struct rbt_wire_cursor *from, bool is_whole)
{
    struct rbt_wire_news news = {0};
    const rbt_status st = rbt_wire_get_news(from, &news);
    if (st == RBT_OK && is_whole) {
        check_news(&news);
    }
    return st;
}

static rbt_status get_refused(struct rbt_wire_cursor *from, bool is_whole)
{
    char text[RBT_WIRE_TEXT_MAX];
    const rbt_status st = rbt_wire_get_text(from, text);
    if (st == RBT_OK && is_whole) {
        assert_string_equal(text, "no");
    }
    return st;
}

static rbt_status get_any_push(struct rbt_wire_cursor *from, bool is_whole, bool has_base)
{
    struct rbt_wire_push push = {0};
    const rbt_status st = rbt_wire_get_push(from, &push);
    if (st == RBT_OK && is_whole) {
        assert_int_equal(push.clock, 5);
        assert_int_equal(push.marker, -1);
        assert_int_equal(push.range_first, 1);
        assert_int_equal(push.range_last, 99);
        assert_int_equal(push.batch_count, 1);
    }
    return st == RBT_OK ? get_any_rows(from, is_whole, has_base) : st;
}

static rbt_status get_push(struct rbt_wire_cursor *from, bool is_whole)
{
    return get_any_push(from, is_whole, false);
}

static rbt_status get_based_push(struct rbt_wire_cursor *from, bool is_whole)
{
    return get_any_push(from, is_whole, true);
}

static rbt_status get_nothing(struct rbt_wire_cursor *from, bool is_whole)
{
    assert_true(is_whole);
    return rbt_wire_get_end(from);
}

static rbt_status get_any_pull(struct rbt_wire_cursor *from, bool is_whole, bool is_base,
                               bool is_early)
{
    struct rbt_wire_pull pull = {0};
    const rbt_status st = rbt_wire_get_pull(from, &pull);
    if (st == RBT_OK && is_whole) {
        assert_true(pull.need == INT64_MIN);
        assert_int_equal(pull.subscription, 3);
        assert_int_equal(pull.applied_first, 2);
        assert_int_equal(pull.applied_count, 1);
        assert_int_equal(pull.wants_stamp, is_base);
        assert_int_equal(pull.is_base, is_base);
        assert_int_equal(pull.is_ahead, is_base);
        assert_true(pull.least == (is_base ? UINT64_MAX : 0));
        assert_int_equal(pull.sequence, is_base ? 17 : 0);
        assert_int_equal(pull.is_stable, is_base);
        assert_int_equal(pull.stable, is_base ? 18 : 0);
        assert_int_equal(pull.is_early, is_early);
        assert_int_equal(pull.room, is_early ? 19 : 0);
    }
    return st == RBT_OK ? get_rows(from, is_whole) : st;
}

static rbt_status get_pull(struct rbt_wire_cursor *from, bool is_whole)
{
    return get_any_pull(from, is_whole, false, false);
}

static rbt_status get_base_pull(struct rbt_wire_cursor *from, bool is_whole)
{
    return get_any_pull(from, is_whole, true, false);
}

static rbt_status get_early_pull(struct rbt_wire_cursor *from, bool is_whole)
{
    return get_any_pull(from, is_whole, false, true);
}

static rbt_status get_copy_pull(struct rbt_wire_cursor *from, bool is_whole)
{
    struct rbt_wire_cursor cursor = *from;
    struct rbt_wire_pull pull = {0};
    if (rbt_wire_get_pull(&cursor, &pull) == RBT_OK && is_whole) {
        assert_true(pull.has_copy);
        assert_int_equal(pull.copy, 20);
    }
    return get_any_pull(from, is_whole, false, false);
}

static rbt_status get_scan(struct rbt_wire_cursor *from, bool is_whole)
{
    struct rbt_wire_scan scan = {0};
    const rbt_status st = rbt_wire_get_scan(from, &scan);
    if (st == RBT_OK && is_whole) {
        assert_int_equal(scan.need, 4);
        assert_int_equal(scan.range_first, 5);
        assert_true(scan.range_last == UINT64_MAX);
        assert_int_equal(scan.capacity, 50);
        assert_int_equal(scan.table, 6);
    }
    return st;
}

static rbt_status get_any_answer(struct rbt_wire_cursor *from, bool is_whole, bool has_stamp)
{
    struct rbt_wire_answer answer = {0};
    const rbt_status st = rbt_wire_get_answer(from, &answer);
    if (st == RBT_OK && is_whole) {
        check_news(&answer.news);
        assert_true(answer.was_parked);
        assert_int_equal(answer.scan_count, 4);
        assert_int_equal(answer.applied_count, 2);
        assert_int_equal(answer.applied[0], 31);
        assert_int_equal(answer.applied[1], 32);
        assert_int_equal(answer.has_stamp, has_stamp);
        assert_int_equal(answer.is_withheld, has_stamp);
        assert_int_equal(answer.stamp, has_stamp ? 21 : 0);
    }
    return st == RBT_OK ? get_rows(from, is_whole) : st;
}

static rbt_status get_answer(struct rbt_wire_cursor *from, bool is_whole)
{
    return get_any_answer(from, is_whole, false);
}

static rbt_status get_stamped_answer(struct rbt_wire_cursor *from, bool is_whole)
{
    return get_any_answer(from, is_whole, true);
}

static rbt_status get_copied_answer(struct rbt_wire_cursor *from, bool is_whole)
{
    struct rbt_wire_cursor cursor = *from;
    struct rbt_wire_answer answer = {0};
    if (rbt_wire_get_answer(&cursor, &answer) == RBT_OK && is_whole) {
        assert_true(answer.has_copy);
        assert_int_equal(answer.copy_base, 20);
        assert_int_equal(answer.copy, 22);
        assert_true(answer.has_limit);
        assert_int_equal(answer.limit, 23);
    }
    return get_any_answer(from, is_whole, false);
}

static void check_table(const struct rbt_spec *table)
{
    assert_int_equal(table->number, TABLE.number);
    assert_int_equal(table->type, TABLE.type);
    assert_int_equal(table->layout, TABLE.layout);
    assert_int_equal(table->width, TABLE.width);
    assert_int_equal(table->state_width, TABLE.state_width);
    assert_int_equal(table->merge, TABLE.merge);
    assert_int_equal(table->init, TABLE.init);
    assert_int_equal(table->partial, TABLE.partial);
    assert_true(table->a == TABLE.a);
    assert_true(table->b == TABLE.b);
    assert_int_equal(table->seed, TABLE.seed);
    assert_int_equal(table->staleness, TABLE.staleness);
    assert_int_equal(table->rows_expected, TABLE.rows_expected);
    assert_true(table->must_exist);
    assert_true(table->is_synchronised);
    assert_true(table->follows_job);
    assert_string_equal(table->name, TABLE.name);
    assert_string_equal(table->rule, TABLE.rule);
    assert_string_equal(table->priority, TABLE.priority);
    assert_int_equal(table->bandwidth, TABLE.bandwidth);
    assert_string_equal(table->filter, TABLE.filter);
}

static rbt_status get_table(struct rbt_wire_cursor *from, bool is_whole)
{
    struct rbt_spec table = {0};
    const rbt_status st = rbt_wire_get_table(from, &table);
    if (st == RBT_OK && is_whole) {
        check_table(&table);
    }
    return st;
}

static rbt_status get_done(struct rbt_wire_cursor *from, bool is_whole)
{
    struct rbt_wire_done done = {0};
    const rbt_status st = rbt_wire_get_done(from, &done);
    if (st == RBT_OK && is_whole) {
        check_news(&done.news);
        assert_int_equal(done.status, RBT_E_NOTFOUND);
        for (uint64_t i = 0; i < 8; i++) {
            assert_int_equal(done.figures[i], i + 1);
        }
        check_table(&done.table);
        assert_string_equal(done.text, "no table");
    }
    return st;
}

/* Bodies; a space for the eye after every field, or every 8 bytes. */
#define ROWS_HEAD "06000000 04000000 cdab000000000000 "
#define ROWS_KEYS "0a00000000000000 0500000000000000 2941000000000000 "
#define GOLDEN_ROWS                                                                                \
    ROWS_HEAD "02 01 04 00 04000000 18000000 10000000 " ROWS_KEYS                                  \
              "0000803f 00000080 00000040 0000003f "
#define GOLDEN_BASED                                                                               \
    ROWS_HEAD                                                                                      \
    "02 01 04 02 04000000 18000000 10000000 0c00000000000000 0b00000000000000 " ROWS_KEYS          \
    "0000803f 00000080 00000040 0000003f "
#define GOLDEN_LIST ROWS_HEAD "02 00 00 00 00000000 18000000 00000000 " ROWS_KEYS
#define GOLDEN_NEWS "0700000000000000 0800000000000000 0900000000000000 0600000000000000 "
#define GOLDEN_TABLE                                                                               \
    "01000000 01000000 01000000 64000000 02000000 01000000 03000000 01000000 "                     \
    "000000000000f03f 000000000000e03f 0b00000000000000 ffffffffffffffff e803000000000000 "        \
    "01000000 01000000 01000000 00000000 0010000000000000 7765696768747300 6674726c3a6c313d "      \
    "3200000000000000 77616c6b00000000 6b6579732c6c7a34 0000000000000000 "

static const struct {
    uint16_t kind;
    size_t (*put)(void);
    rbt_status (*get)(struct rbt_wire_cursor *from, bool is_whole);
    const char *body;
} MESSAGES[] = {
    {RBT_FRAME_HELLO, put_hello, get_hello,
     "0102030405060708 0200000000000000 03000000 04000000 05000000 01000000 "
     "3031323334353637 3839616263646500 "
     "6d61696e00000000 776f726b65722f33 0000000000000000"},
    {RBT_FRAME_WELCOME, put_welcome, get_news, GOLDEN_NEWS},
    {RBT_FRAME_REFUSED, put_refused, get_refused, "6e6f000000000000"},
    {RBT_FRAME_PUSH, put_push, get_push,
     "0500000000000000 ffffffffffffffff 0100000000000000 6300000000000000 01000000 00000000"
     " " GOLDEN_ROWS},
    {RBT_FRAME_PUSH, put_based_push, get_based_push,
     "0500000000000000 ffffffffffffffff 0100000000000000 6300000000000000 01000000 00000000"
     " " GOLDEN_BASED},
    {RBT_FRAME_LEAVE, put_leave, get_nothing, ""},
    {RBT_FRAME_LIST, put_list, get_rows, GOLDEN_LIST},
    {RBT_FRAME_PULL, put_pull, get_pull,
     "0000000000000080 0300000000000000 02000000 01000000 " GOLDEN_LIST},
    {RBT_FRAME_PULL, put_base_pull, get_base_pull,
     "0000000000000080 0300000000000000 02000000 010000 0f ffffffffffffffff "
     "1100000000000000 1200000000000000 " GOLDEN_LIST},
    {RBT_FRAME_PULL, put_early_pull, get_early_pull,
     "0000000000000080 0300000000000000 02000000 010000 10 13000000 00000000 " GOLDEN_LIST},
    {RBT_FRAME_PULL, put_copy_pull, get_copy_pull,
     "0000000000000080 0300000000000000 02000000 010000 20 1400000000000000 " GOLDEN_LIST},
    {RBT_FRAME_SCAN, put_scan, get_scan,
     "0400000000000000 0500000000000000 ffffffffffffffff 3200000000000000 06000000 00000000"},
    {RBT_FRAME_ROWS, put_answer, get_answer,
     GOLDEN_NEWS "0400000000000000 02000000 01000000 1f00000000000000 2000000000000000"
                 " " GOLDEN_ROWS},
    {RBT_FRAME_ROWS, put_stamped_answer, get_stamped_answer,
     GOLDEN_NEWS "0400000000000000 02000000 07000000 1500000000000000 1f00000000000000 "
                 "2000000000000000 " GOLDEN_ROWS},
    {RBT_FRAME_ROWS, put_copied_answer, get_copied_answer,
     GOLDEN_NEWS "0400000000000000 02000000 19000000 1400000000000000 1600000000000000 "
                 "1700000000000000 1f00000000000000 2000000000000000 " GOLDEN_ROWS},
    {RBT_FRAME_ACK, put_ack, get_news, GOLDEN_NEWS},
    {RBT_FRAME_TABLE, put_table, get_table, GOLDEN_TABLE},
    {RBT_FRAME_RESET, put_reset, get_nothing, ""},
    {RBT_FRAME_STATS, put_reset, get_nothing, ""},
    {RBT_FRAME_DONE, put_done, get_done,
     GOLDEN_NEWS "fdffffff 00000000 0100000000000000 0200000000000000 0300000000000000 "
                 "0400000000000000 0500000000000000 0600000000000000 0700000000000000 "
                 "0800000000000000 " GOLDEN_TABLE "6e6f207461626c65 0000000000000000"},
};

enum { MESSAGE_COUNT = sizeof MESSAGES / sizeof *MESSAGES };

/* Writes message i with its header; returns the bytes of its body. */
static size_t put(size_t i)
{
    memset(message, 0x55, sizeof message);
    const size_t bytes = MESSAGES[i].put();
    assert_true(bytes <= RBT_WIRE_SHORT_MAX);
    rbt_wire_close(message, (struct rbt_frame){.kind = MESSAGES[i].kind, .id = i}, bytes);
    return bytes - RBT_FRAME_HEADER;
}

static void test_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGE_COUNT; i++) {
        const size_t bytes = put(i);
        char hex[2 * ROOM + 1] = "";
        char golden[2 * ROOM + 1] = "";
        size_t length = 0;
        for (const char *c = MESSAGES[i].body; *c != 0; c++) {
            if (!isspace((unsigned char)*c)) {
                golden[length++] = *c;
            }
        }
        for (size_t k = 0; k < bytes; k++) {
            (void)snprintf(hex + 2 * k, 3, "%02x", (unsigned char)message[RBT_FRAME_HEADER + k]);
        }
        assert_string_equal(hex, golden);
    }
}

static void test_way_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGE_COUNT; i++) {
        const size_t bytes = put(i);
        struct rbt_frame frame;
        assert_ok(rbt_frame_get(message, RBT_FRAME_SMALL_MAX, &frame));
        assert_int_equal(frame.kind, MESSAGES[i].kind);
        assert_int_equal(frame.length, bytes);
        struct rbt_wire_cursor cursor = {message + RBT_FRAME_HEADER,
                                         message + RBT_FRAME_HEADER + bytes};
        assert_ok(MESSAGES[i].get(&cursor, true));
        assert_ok(rbt_wire_get_end(&cursor));
        cursor.end += 8;
        assert_fails(rbt_wire_get_end(&cursor), RBT_E_PROTOCOL, "behind its end");
    }
}

static void test_truncation(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGE_COUNT; i++) {
        const size_t whole = put(i);
        for (size_t bytes = 0; bytes < whole; bytes++) {
            memset(cut, 0, sizeof cut);
            memcpy(cut, message + RBT_FRAME_HEADER, bytes);
            struct rbt_wire_cursor cursor = {cut, cut + bytes};
            assert_int_equal(MESSAGES[i].get(&cursor, false), RBT_E_PROTOCOL);
        }
    }
}

/* Writes `size` bytes of a number into the body of a message and expects the sentence. */
static void expect_refusal(uint16_t kind, size_t place, uint64_t number, size_t size,
                           const char *text)
{
    for (size_t i = 0; i < MESSAGE_COUNT; i++) {
        if (MESSAGES[i].kind == kind) {
            const size_t bytes = put(i);
            assert_true(place + size <= bytes);
            memcpy(message + RBT_FRAME_HEADER + place, &number, size);
            struct rbt_wire_cursor cursor = {message + RBT_FRAME_HEADER,
                                             message + RBT_FRAME_HEADER + bytes};
            assert_fails(MESSAGES[i].get(&cursor, false), RBT_E_PROTOCOL, text);
            return;
        }
    }
    fail_msg("no message of kind %u", kind);
}

static void test_ranges(void **state)
{
    (void)state;
    expect_refusal(RBT_FRAME_HELLO, 16, RBT_WIRE_WORKERS_MAX, 4, "a worker out of range");
    expect_refusal(RBT_FRAME_HELLO, 20, RBT_WIRE_WORKERS_MAX + 1, 4, "too many workers");
    expect_refusal(RBT_FRAME_HELLO, 28, 2, 4, "flags that mean nothing");
    expect_refusal(RBT_FRAME_HELLO, 28, (RBT_COMPRESSION_ZSTD + 1) << 8, 4,
                   "flags that mean nothing");
    expect_refusal(RBT_FRAME_HELLO, 28, UINT32_C(1) << 31, 4, "flags that mean nothing");
    expect_refusal(RBT_FRAME_HELLO, 53, 1, 1, "behind its end");
    expect_refusal(RBT_FRAME_PUSH, 0, UINT64_MAX, 8, "a clock below 0");
    expect_refusal(RBT_FRAME_PUSH, 8, UINT64_MAX - 1, 8, "a clock below 0");
    expect_refusal(RBT_FRAME_PUSH, 16, 100, 8, "ends before it begins");
    expect_refusal(RBT_FRAME_PUSH, 32, 3, 4, "more batches");
    expect_refusal(RBT_FRAME_PUSH, 36, 1, 4, "mean nothing");
    expect_refusal(RBT_FRAME_PULL, 16, RBT_WIRE_WORKERS_MAX, 4, "workers out of range");
    expect_refusal(RBT_FRAME_PULL, 20, UINT32_MAX, 4, "workers out of range");
    expect_refusal(RBT_FRAME_PULL, 23, 64, 1, "flags that mean nothing");
    expect_refusal(RBT_FRAME_SCAN, 16, 4, 8, "ends before it begins");
    expect_refusal(RBT_FRAME_SCAN, 36, 1, 4, "mean nothing");
    expect_refusal(RBT_FRAME_ROWS, 40, 20, 4, "more workers");
    expect_refusal(RBT_FRAME_ROWS, 40, UINT32_MAX, 4, "more workers");
    expect_refusal(RBT_FRAME_ROWS, 44, 32, 4, "flags that mean nothing");
    expect_refusal(RBT_FRAME_ROWS, 44, UINT32_C(1) << 31, 4, "flags that mean nothing");
    expect_refusal(RBT_FRAME_TABLE, 4, 4, 4, "a kind that does not exist");
    expect_refusal(RBT_FRAME_TABLE, 8, 2, 4, "a kind that does not exist");
    expect_refusal(RBT_FRAME_TABLE, 20, 4, 4, "a kind that does not exist");
    expect_refusal(RBT_FRAME_TABLE, 24, 4, 4, "a kind that does not exist");
    expect_refusal(RBT_FRAME_TABLE, 28, 2, 4, "a kind that does not exist");
    expect_refusal(RBT_FRAME_TABLE, 56, (uint64_t)INT64_MIN, 8, "a staleness below 0");
    expect_refusal(RBT_FRAME_TABLE, 72, 2, 4, "mean nothing");
    expect_refusal(RBT_FRAME_TABLE, 76, 2, 4, "mean nothing");
    expect_refusal(RBT_FRAME_TABLE, 80, 2, 4, "mean nothing");
    expect_refusal(RBT_FRAME_TABLE, 84, 1, 4, "mean nothing");
    expect_refusal(RBT_FRAME_TABLE, 103, 'x', 1, "does not end");
    expect_refusal(RBT_FRAME_TABLE, 125, 'x', 1, "behind its end");
    expect_refusal(RBT_FRAME_TABLE, 114, 'x', 1, "behind its end");
    expect_refusal(RBT_FRAME_DONE, 32, 1, 4, "a status that does not exist");
    expect_refusal(RBT_FRAME_DONE, 32, (uint32_t)-11, 4, "a status that does not exist");
}

/* What is behind the room of an early PULL must be zero. */
static void test_early(void **state)
{
    (void)state;
    const size_t bytes = put_early_pull();
    struct rbt_wire_pull pull;
    struct rbt_wire_cursor cursor = {message + RBT_FRAME_HEADER, message + bytes};
    message[RBT_WIRE_PULL_BYTES + 5] = 1;
    assert_fails(rbt_wire_get_pull(&cursor, &pull), RBT_E_PROTOCOL, "mean nothing");
    message[RBT_WIRE_PULL_BYTES + 5] = 0;
    assert_ok(rbt_wire_get_pull(&cursor, &pull));
}

/* A text that is too long is cut by the writer, and refused by the reader. */
static void test_long_texts(void **state)
{
    (void)state;
    char text[2 * RBT_WIRE_TEXT_MAX];
    char got[RBT_WIRE_TEXT_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    const size_t bytes = rbt_wire_put_refused(message, text);
    assert_int_equal(bytes, RBT_FRAME_HEADER + RBT_WIRE_TEXT_MAX);
    struct rbt_wire_cursor cursor = {message + RBT_FRAME_HEADER, message + bytes};
    assert_ok(rbt_wire_get_text(&cursor, got));
    assert_int_equal(strlen(got), RBT_WIRE_TEXT_MAX - 1);
    cursor = (struct rbt_wire_cursor){text, text + sizeof text};
    assert_fails(rbt_wire_get_text(&cursor, got), RBT_E_PROTOCOL, "does not end");
}

/* The longest DONE and HELLO that there can be are short. */
static void test_short(void **state)
{
    (void)state;
    static struct rbt_wire_done done;
    static struct rbt_wire_hello hello;
    memset(done.text, 'x', sizeof done.text - 1);
    memset(done.table.name, 'x', sizeof done.table.name - 1);
    memset(done.table.rule, 'x', sizeof done.table.rule - 1);
    memset(done.table.priority, 'x', sizeof done.table.priority - 1);
    memset(done.table.filter, 'x', sizeof done.table.filter - 1);
    memset(hello.space, 'x', sizeof hello.space - 1);
    memset(hello.node, 'x', sizeof hello.node - 1);
    assert_true(rbt_wire_put_done(message, &done) <= RBT_WIRE_SHORT_MAX);
    const size_t bytes = rbt_wire_put_hello(message, &hello);
    assert_true(bytes <= RBT_WIRE_SHORT_MAX);
    struct rbt_wire_hello got;
    struct rbt_wire_cursor cursor = {message + RBT_FRAME_HEADER, message + bytes};
    assert_ok(rbt_wire_get_hello(&cursor, &got));
    assert_memory_equal(got.space, hello.space, sizeof hello.space);
    assert_memory_equal(got.node, hello.node, sizeof hello.node);
}

/* What a HELLO wants answers to be like comes through, whoever wants it. */
static void test_compressions(void **state)
{
    (void)state;
    for (int wanted = RBT_COMPRESSION_NONE; wanted <= RBT_COMPRESSION_ZSTD; wanted++) {
        for (int is_reader = 0; is_reader < 2; is_reader++) {
            struct rbt_wire_hello hello = HELLO;
            struct rbt_wire_hello got = {0};
            hello.compression = (enum rbt_compression)wanted;
            hello.is_reader = is_reader == 1;
            const size_t bytes = rbt_wire_put_hello(message, &hello);
            struct rbt_wire_cursor cursor = {message + RBT_FRAME_HEADER, message + bytes};
            assert_ok(rbt_wire_get_hello(&cursor, &got));
            assert_int_equal(got.compression, wanted);
            assert_int_equal(got.is_reader, is_reader);
            assert_string_equal(got.node, HELLO.node);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_way_back),
        cmocka_unit_test(test_truncation),   cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_long_texts),   cmocka_unit_test(test_short),
        cmocka_unit_test(test_compressions), cmocka_unit_test(test_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
