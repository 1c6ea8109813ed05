/* algo/sketch/sketch_stream.c - reads streams of keys.
 *
 * The same two passes as for other data (data/lines.h): lines are counted, then every thread writes
 * to its own part of the arrays. The room for counts is only made when there is one that is not 1.
 */
#include "algo/sketch/sketch_stream.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "data/input.h"
#include "data/number.h"
#include "data/paths.h"

static const uint64_t total_max = ((uint64_t)1 << 48) - 1;

/* Where a thread puts the keys of its chunk. */
struct sink {
    const struct rbt_chunk *chunk;
    uint64_t *hashes; /* room for a key per line */
    uint64_t *counts; /* the same, or NULL as long as all are 1 */
    size_t count;
    uint64_t total;
};

struct task {
    struct rbt_chunks chunks;
    struct sink *sinks;
};

void rbt_sketch_stream_free(struct rbt_sketch_stream *stream)
{
    rbt_free(stream->counts);
    rbt_free(stream->hashes);
    *stream = (struct rbt_sketch_stream){0};
}

/* (count) ones. */
static uint64_t *make_ones(size_t room, size_t count)
{
    uint64_t *ones = rbt_calloc(room, sizeof *ones);
    for (size_t i = 0; ones != NULL && i < count; i++) {
        ones[i] = 1;
    }
    return ones;
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a stream of keys");
}

/* What follows a key in its line: nothing, or a count. */
static rbt_status read_count(const char *p, const char *end, uint64_t *count)
{
    const char *at = rbt_lines_skip(p, end);
    if (at == end) {
        return RBT_OK;
    }
    if (at == p) {
        return rbt_fail(RBT_E_DATA, "it is not text"); /* a control character ended the key */
    }
    const char *next = rbt_number_u64(at, count);
    if (next != NULL && rbt_lines_skip(next, end) == end) {
        return RBT_OK;
    }
    const bool is_number = next != NULL && (*next == ' ' || *next == '\t');
    const struct rbt_word word = rbt_lines_word(at, end, "\t");
    return rbt_fail(RBT_E_DATA,
                    is_number ? "something follows the count \"%s\""
                              : "the count \"%s\" is not a whole number below 2^64",
                    word.text);
}

static rbt_status take(struct sink *sink, uint64_t hash, uint64_t count)
{
    if (count != 1 && sink->counts == NULL) {
        sink->counts = make_ones(sink->chunk->line_count, sink->count);
        if (sink->counts == NULL) {
            return no_memory();
        }
    }
    if (count > total_max || sink->total > total_max - count) {
        return rbt_fail(RBT_E_DATA, "the counts add up to 2^48 or more");
    }
    sink->hashes[sink->count] = hash;
    if (sink->counts != NULL) {
        sink->counts[sink->count] = count;
    }
    sink->total += count;
    sink->count++;
    return RBT_OK;
}

/* One line at `*p`, which moves behind it. Scanning stops at the latest where the chunk does: there
 * is a line's end, or the zero behind the text. */
static rbt_status parse_line(struct sink *sink, const char **p, const char *end)
{
    const char *key = rbt_lines_skip(*p, end);
    const char *at = key;
    while ((unsigned char)*at > ' ') {
        at++;
    }
    const size_t size = (size_t)(at - key);
    uint64_t count = 1;
    rbt_status st = RBT_OK;
    if (at < end && *at != '\n') {
        const char *found = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = found == NULL ? end : found;
        const bool has_return = line_end > at && line_end[-1] == '\r'; /* of Windows */
        st = read_count(at, line_end - (has_return ? 1 : 0), &count);
        at = line_end;
    }
    *p = at < end ? at + 1 : end;
    return st != RBT_OK || size == 0 ? st : take(sink, rbt_hash_bytes(key, size, 0), count);
}

static rbt_status parse_chunk(void *argument, uint32_t index)
{
    struct sink *sink = &((struct task *)argument)->sinks[index];
    const struct rbt_chunk *chunk = sink->chunk;
    size_t number = chunk->first_line;
    for (const char *p = chunk->begin; p < chunk->end; number++) {
        const rbt_status st = parse_line(sink, &p, chunk->end);
        if (st != RBT_OK) {
            return st == RBT_E_DATA
                       ? rbt_fail_in(st, "cannot read \"%s\", line %zu", chunk->name, number)
                       : st;
        }
    }
    RBT_ASSERT(number == chunk->first_line + chunk->line_count); /* there was room for as many */
    return RBT_OK;
}

/* Makes room for all lines behind what the stream has, and gives each chunk its part. */
static rbt_status make_sinks(struct task *task, struct rbt_sketch_stream *stream)
{
    size_t lines = stream->count;
    for (uint32_t i = 0; i < task->chunks.count; i++) {
        lines += task->chunks.items[i].line_count;
    }
    task->sinks = rbt_calloc(task->chunks.count, sizeof *task->sinks);
    uint64_t *hashes = rbt_realloc(stream->hashes, lines, sizeof *hashes);
    if (hashes != NULL) {
        stream->hashes = hashes;
    }
    if (task->sinks == NULL || hashes == NULL) {
        return no_memory();
    }
    size_t line = stream->count;
    for (uint32_t i = 0; i < task->chunks.count; i++) {
        task->sinks[i].chunk = &task->chunks.items[i];
        task->sinks[i].hashes = hashes + line;
        line += task->chunks.items[i].line_count;
    }
    return RBT_OK;
}

/* Adds what the sinks hold, closing the gaps. */
static rbt_status gather(const struct task *task, struct rbt_sketch_stream *stream)
{
    size_t count = stream->count;
    bool has_counts = stream->counts != NULL;
    for (uint32_t i = 0; i < task->chunks.count; i++) {
        count += task->sinks[i].count;
        has_counts |= task->sinks[i].counts != NULL;
    }
    if (has_counts) {
        uint64_t *counts = stream->counts == NULL
                               ? make_ones(count, count)
                               : rbt_realloc(stream->counts, count, sizeof *counts);
        if (counts == NULL) {
            return no_memory();
        }
        stream->counts = counts;
    }
    for (uint32_t i = 0; i < task->chunks.count; i++) {
        const struct sink *sink = &task->sinks[i];
        memmove(stream->hashes + stream->count, sink->hashes, sink->count * sizeof *sink->hashes);
        for (size_t k = 0; has_counts && k < sink->count; k++) {
            stream->counts[stream->count + k] = sink->counts != NULL ? sink->counts[k] : 1;
        }
        stream->count += sink->count;
        if (sink->total > total_max - stream->total) {
            return rbt_fail(RBT_E_DATA, "the counts add up to 2^48 or more");
        }
        stream->total += sink->total;
    }
    return RBT_OK;
}

rbt_status rbt_sketch_stream_parse(const struct rbt_text *text, uint32_t threads,
                                   struct rbt_sketch_stream *stream)
{
    struct task task = {0};
    rbt_status st = rbt_lines_cut(text, threads, ' ', &task.chunks);
    st = st != RBT_OK ? st : make_sinks(&task, stream);
    st = st != RBT_OK ? st : rbt_lines_run(&task.chunks, parse_chunk, &task);
    st = st != RBT_OK ? st : gather(&task, stream);
    for (uint32_t i = 0; task.sinks != NULL && i < task.chunks.count; i++) {
        rbt_free(task.sinks[i].counts);
    }
    rbt_free(task.sinks);
    rbt_lines_free(&task.chunks);
    return st;
}

rbt_status rbt_sketch_stream_read(const struct rbt_option_list *paths,
                                  struct rbt_sketch_stream *stream)
{
    struct rbt_sketch_stream made = {0};
    struct rbt_paths files = {0};
    rbt_status st = rbt_paths_expand(paths->values, paths->count, &files);
    for (size_t i = 0; st == RBT_OK && i < files.count; i++) {
        struct rbt_input input = {0};
        st = rbt_input_read(files.items[i], &input);
        if (st == RBT_OK) {
            const struct rbt_text text = {
                .name = files.items[i], .bytes = input.bytes, .size = input.size, .first_line = 1};
            st = rbt_sketch_stream_parse(&text, rbt_thread_cores(), &made);
            rbt_input_free(&input);
        }
    }
    if (st == RBT_OK && made.count == 0) {
        st = rbt_fail(RBT_E_DATA, "the stream has no keys");
    }
    rbt_paths_free(&files);
    if (st != RBT_OK) {
        rbt_sketch_stream_free(&made);
        return st;
    }
    *stream = made;
    return RBT_OK;
}
