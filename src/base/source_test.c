/* base/source_test.c - what was put into a sink is read from a source; what is wrong is refused,
 * and no memory is taken for what is only said. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/source.h"

enum { MACHINE = 7, SPEC = 99, NUMBERS = 1, TEXTS, KINDS_END };

static void write_all(struct rbt_sink *sink)
{
    rbt_sink_begin(sink, MACHINE, SPEC);
    rbt_sink_open(sink, NUMBERS, 3);
    rbt_sink_put_u8(sink, 1);
    rbt_sink_put_u32(sink, 0x01020304);
    rbt_sink_put_u64(sink, UINT64_MAX);
    rbt_sink_put_i64(sink, -5);
    rbt_sink_put_f64(sink, 0.25);
    rbt_sink_close(sink);
    rbt_sink_open(sink, TEXTS, 1);
    rbt_sink_put_text(sink, "what");
    rbt_sink_put_text(sink, NULL);
    rbt_sink_close(sink);
    assert_ok(rbt_sink_end(sink));
}

static void read_all(struct rbt_source *source)
{
    struct rbt_source_record record;
    char text[5];
    uint64_t spec = 0;
    rbt_source_begin(source, MACHINE, &spec);
    assert_int_equal(spec, SPEC);
    assert_true(rbt_source_next(source, KINDS_END, &record));
    assert_int_equal(record.kind, NUMBERS);
    assert_int_equal(record.version, 3);
    assert_true(rbt_source_get_bool(source));
    assert_int_equal(rbt_source_get_u32(source), 0x01020304);
    assert_int_equal(rbt_source_get_u64(source), UINT64_MAX);
    assert_int_equal(rbt_source_get_i64(source), -5);
    assert_true(rbt_source_get_f64(source) == 0.25);
    assert_int_equal(rbt_source_left(source), 0);
    rbt_source_finish(source);
    assert_true(rbt_source_next(source, KINDS_END, &record));
    rbt_source_get_text(source, text, sizeof text);
    assert_string_equal(text, "what");
    rbt_source_get_text(source, text, sizeof text);
    assert_string_equal(text, "");
    rbt_source_finish(source);
    assert_false(rbt_source_next(source, KINDS_END, &record));
    assert_ok(source->status);
}

static void what_is_put_is_read(void **state)
{
    (void)state;
    struct rbt_sink sink = {0};
    write_all(&sink);
    assert_memory_equal(sink.bytes, "RBTS\1\0\0\0\7\0\0\0\0\0\0\0\x63", 17);
    assert_memory_equal(sink.bytes + RBT_RECORD_STREAM + RBT_RECORD_HEAD, "\1\4\3\2\1", 5);
    struct rbt_source source = {.bytes = sink.bytes, .count = sink.count};
    read_all(&source);
    rbt_source_deinit(&source);
    rbt_sink_deinit(&sink);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* --- Through functions ------------------------------------------------------------------------ */

struct pipe {
    char bytes[1000];
    size_t count;
    size_t at;
    size_t calls;
};

static rbt_status take(void *context, const void *bytes, size_t count)
{
    struct pipe *pipe = context;
    memcpy(pipe->bytes + pipe->count, bytes, count);
    pipe->count += count;
    pipe->calls++;
    return RBT_OK;
}

static rbt_status give(void *context, void *to, size_t room, size_t *count)
{
    struct pipe *pipe = context;
    const size_t left = pipe->count - pipe->at;
    *count = room < left ? room : left;
    *count = *count < 3 ? *count : 3;
    memcpy(to, pipe->bytes + pipe->at, *count);
    pipe->at += *count;
    return RBT_OK;
}

static void records_are_handed_on_one_by_one(void **state)
{
    (void)state;
    struct pipe pipe = {0};
    struct rbt_sink sink = {.write = take, .context = &pipe};
    write_all(&sink);
    assert_int_equal(pipe.calls, 4); /* the head, two records, the end */
    struct rbt_sink whole = {0};
    write_all(&whole);
    assert_int_equal(pipe.count, whole.count);
    assert_memory_equal(pipe.bytes, whole.bytes, whole.count);
    struct rbt_source source = {.read = give, .context = &pipe};
    read_all(&source);
    rbt_source_deinit(&source);
    rbt_sink_deinit(&whole);
    rbt_sink_deinit(&sink);
    assert_int_equal(rbt_alloc_live(), 0);
}

static rbt_status refuse(void *context, const void *bytes, size_t count)
{
    (void)context;
    (void)bytes;
    (void)count;
    return RBT_E_IO;
}

static void the_first_failure_is_the_one_that_is_said(void **state)
{
    (void)state;
    struct rbt_sink sink = {.write = refuse};
    rbt_sink_begin(&sink, MACHINE, SPEC);
    rbt_sink_open(&sink, NUMBERS, 1);
    rbt_sink_close(&sink);
    assert_int_equal(rbt_sink_end(&sink), RBT_E_IO);
    rbt_sink_deinit(&sink);
}

/* A record that says that it has 2^40 bytes, of which three come. */
static void memory_follows_what_comes(void **state)
{
    (void)state;
    struct rbt_sink sink = {0};
    rbt_sink_begin(&sink, MACHINE, SPEC);
    rbt_sink_put_u32(&sink, NUMBERS);
    rbt_sink_put_u32(&sink, 1);
    rbt_sink_put_u64(&sink, UINT64_C(1) << 40);
    rbt_sink_put(&sink, "abc", 3);
    struct pipe pipe = {0};
    assert_ok(take(&pipe, sink.bytes, sink.count));
    const size_t live = rbt_alloc_live_bytes();
    struct rbt_source sources[2] = {{.bytes = sink.bytes, .count = sink.count},
                                    {.read = give, .context = &pipe}};
    for (size_t i = 0; i < 2; i++) {
        struct rbt_source_record record;
        uint64_t spec = 0;
        rbt_source_begin(&sources[i], MACHINE, &spec);
        assert_false(rbt_source_next(&sources[i], KINDS_END, &record));
        assert_fails(sources[i].status, RBT_E_DATA,
                     "the saved state cannot be read: it is cut off");
        assert_true(rbt_alloc_live_bytes() < live + (1 << 17));
        assert_int_equal(rbt_source_get_u64(&sources[i]), 0);
        rbt_source_deinit(&sources[i]);
    }
    rbt_sink_deinit(&sink);
}

static void counts_are_held_against_what_is_there(void **state)
{
    (void)state;
    static const char bytes[] = "\3\0\0\0\0\0\0\0abcdef";
    struct rbt_source source = {.at = bytes, .end = bytes + 14};
    assert_int_equal(rbt_source_get_count(&source, 2), 3);
    source.at = bytes;
    assert_int_equal(rbt_source_get_count(&source, 3), 0);
    assert_fails(source.status, RBT_E_DATA, "too short");
    struct rbt_source large = {.at = "\377\377\377\377\377\377\377\377", .end = NULL};
    large.end = large.at + 8;
    assert_int_equal(rbt_source_get_number(&large), 0);
    assert_fails(large.status, RBT_E_DATA, "a number is too large");
    char text[4];
    struct rbt_source zero = {.at = "\3\0\0\0a\0b", .end = NULL};
    zero.end = zero.at + 7;
    rbt_source_get_text(&zero, text, sizeof text);
    assert_fails(zero.status, RBT_E_DATA, "a zero in it");
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_read),
        cmocka_unit_test(records_are_handed_on_one_by_one),
        cmocka_unit_test(the_first_failure_is_the_one_that_is_said),
        cmocka_unit_test(memory_follows_what_comes),
        cmocka_unit_test(counts_are_held_against_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
