/* data/ratings.c - reads files of ratings: user, item, rating, and perhaps more.
 *
 * The same two passes as for examples: chunks and their lines are counted, every thread writes to
 * its own part of the arrays, the gaps are closed.
 *
 * Threads: as many as the options say while a file is parsed. Memory: one file's text at a time. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/thread.h"
#include "data/examples.h"
#include "data/format.h"
#include "data/input.h"
#include "data/lines.h"
#include "data/number.h"
#include "data/paths.h"

/* Where one thread puts its ratings. */
struct sink {
    uint64_t *users;
    uint64_t *items;
    float *values;
    size_t count;
    bool ignores_rating;
};

struct builder {
    struct rbt_ratings ratings;
    size_t capacity;
};

/* One file that is being parsed. */
struct task {
    struct rbt_text text;
    struct rbt_chunks chunks;
    struct sink *sinks;
    bool ignores_rating;
};

void rbt_ratings_free(struct rbt_ratings *ratings)
{
    rbt_free(ratings->users);
    rbt_free(ratings->items);
    rbt_free(ratings->values);
    *ratings = (struct rbt_ratings){0};
}

/* Skips one separator: a comma, a semicolon, "::" or blanks, with blanks around it. */
static const char *skip_separator(const char *p, const char *end)
{
    p = rbt_lines_skip(p, end);
    if (p < end && (*p == ',' || *p == ';')) {
        p++;
    } else if (end - p >= 2 && p[0] == ':' && p[1] == ':') {
        p += 2;
    }
    return rbt_lines_skip(p, end);
}

static bool is_border(const char *p, const char *end)
{
    return p == end || strchr(" \t,;:", *p) != NULL;
}

static rbt_status field_failure(const char *p, const char *end, const char *what, const char *kind)
{
    const struct rbt_word word = rbt_lines_word(p, end, "\t,;:");
    if (word.text[0] == '\0') {
        return rbt_fail(RBT_E_DATA, "the %s is missing; a line is: user item rating", what);
    }
    return rbt_fail(RBT_E_DATA, "%s \"%s\" is not a %s", what, word.text, kind);
}

static rbt_status parse_line(void *context, const struct rbt_line *line)
{
    struct sink *sink = context;
    const char *const end = line->end;
    const char *p = rbt_lines_skip(line->begin, end);
    uint64_t user = 0;
    const char *next = rbt_number_u64(p, &user);
    if (next == NULL || !is_border(next, end)) {
        return field_failure(p, end, "user", "whole number below 2^64");
    }
    p = skip_separator(next, end);
    uint64_t item = 0;
    next = rbt_number_u64(p, &item);
    if (next == NULL || !is_border(next, end)) {
        return field_failure(p, end, "item", "whole number below 2^64");
    }
    p = skip_separator(next, end);
    float value = 0;
    next = sink->ignores_rating ? end : rbt_number_float(p, &value);
    if (next == NULL || !is_border(next, end) || !isfinite(value)) {
        return field_failure(p, end, "rating", "finite number");
    }
    sink->users[sink->count] = user;
    sink->items[sink->count] = item;
    sink->values[sink->count] = value;
    sink->count++;
    return RBT_OK;
}

/* Takes the first line off the text if it begins with a word: it names the columns. */
static void skip_header(struct rbt_text *text)
{
    struct rbt_text rest = *text;
    struct rbt_line line;
    if (!rbt_lines_next(&rest, &line)) {
        return;
    }
    const char *p = rbt_lines_skip(line.begin, line.end);
    if (isalpha((unsigned char)*p) || *p == '"' || *p == '%') {
        *text = rest;
    }
}

static bool grow(void **block, size_t count, size_t size)
{
    void *grown = rbt_realloc(*block, count, size);
    if (grown == NULL) {
        return false;
    }
    *block = grown;
    return true;
}

static bool make_room(struct builder *builder, size_t more)
{
    struct rbt_ratings *ratings = &builder->ratings;
    const size_t least = ratings->count + more;
    if (least <= builder->capacity && ratings->users != NULL) {
        return true;
    }
    const size_t twice = builder->capacity * 2;
    const size_t capacity = least > twice ? least : twice;
    if (!grow((void **)&ratings->users, capacity, sizeof *ratings->users) ||
        !grow((void **)&ratings->items, capacity, sizeof *ratings->items) ||
        !grow((void **)&ratings->values, capacity, sizeof *ratings->values)) {
        return false;
    }
    builder->capacity = capacity;
    return true;
}

static rbt_status make_sinks(struct task *task, struct builder *builder)
{
    size_t rows = 0;
    for (uint32_t i = 0; i < task->chunks.count; i++) {
        rows += task->chunks.items[i].line_count;
    }
    task->sinks = rbt_calloc(task->chunks.count, sizeof *task->sinks);
    if (task->sinks == NULL || !make_room(builder, rows)) {
        return rbt_fail(RBT_E_NOMEM, "cannot read \"%s\": out of memory", task->text.name);
    }
    size_t row = builder->ratings.count;
    for (uint32_t i = 0; i < task->chunks.count; i++) {
        task->sinks[i].ignores_rating = task->ignores_rating;
        task->sinks[i].users = builder->ratings.users + row;
        task->sinks[i].items = builder->ratings.items + row;
        task->sinks[i].values = builder->ratings.values + row;
        row += task->chunks.items[i].line_count;
    }
    RBT_ASSERT(row <= builder->capacity);
    return RBT_OK;
}

static rbt_status parse_chunk(void *argument, uint32_t index)
{
    const struct task *task = argument;
    return rbt_lines_walk(&task->chunks.items[index], parse_line, &task->sinks[index]);
}

static void gather(struct rbt_ratings *ratings, const struct sink *sink)
{
    RBT_ASSERT(ratings->users + ratings->count <= sink->users); /* moved to the left, if at all */
    memmove(ratings->users + ratings->count, sink->users, sink->count * sizeof *sink->users);
    memmove(ratings->items + ratings->count, sink->items, sink->count * sizeof *sink->items);
    memmove(ratings->values + ratings->count, sink->values, sink->count * sizeof *sink->values);
    ratings->count += sink->count;
}

static rbt_status parse_text(struct task *task, uint32_t threads, struct builder *builder)
{
    skip_header(&task->text);
    rbt_status st = rbt_lines_cut(&task->text, threads, '\n', &task->chunks);
    st = st != RBT_OK ? st : make_sinks(task, builder);
    st = st != RBT_OK ? st : rbt_lines_run(&task->chunks, parse_chunk, task);
    if (st != RBT_OK) {
        return st;
    }
    const size_t before = builder->ratings.count;
    for (uint32_t i = 0; i < task->chunks.count; i++) {
        gather(&builder->ratings, &task->sinks[i]);
    }
    if (builder->ratings.count == before) {
        return rbt_fail(RBT_E_DATA, "cannot read \"%s\": it has no ratings", task->text.name);
    }
    return RBT_OK;
}

static rbt_status add(struct builder *builder, const struct rbt_data_options *options,
                      const struct rbt_text *text)
{
    if (options->format == RBT_FORMAT_AUTO && rbt_format_guess(text) == RBT_FORMAT_LIBSVM) {
        return rbt_fail(RBT_E_INVALID, "cannot read \"%s\": it holds examples, not ratings",
                        text->name);
    }
    struct task task = {.text = *text, .ignores_rating = options->ignores_label};
    if (text->size >= 3 && memcmp(text->bytes, "\xef\xbb\xbf", 3) == 0) {
        task.text.bytes += 3; /* the byte order mark of editors on Windows */
        task.text.size -= 3;
    }
    const uint32_t wanted = options->threads == 0 ? rbt_thread_cores() : options->threads;
    const rbt_status st =
        parse_text(&task, wanted < RBT_PARSERS_MAX ? wanted : RBT_PARSERS_MAX, builder);
    rbt_lines_free(&task.chunks);
    rbt_free(task.sinks);
    return st;
}

static rbt_status check_format(enum rbt_format format)
{
    if (format == RBT_FORMAT_AUTO || format == RBT_FORMAT_RATINGS) {
        return RBT_OK;
    }
    return rbt_fail(RBT_E_INVALID, "files of the format \"%s\" do not hold ratings",
                    rbt_format_name(format));
}

/* Takes the builder: its content moves to `ratings` or is freed. */
static rbt_status finish(struct builder *builder, rbt_status st, struct rbt_ratings *ratings)
{
    if (st != RBT_OK) {
        rbt_ratings_free(&builder->ratings);
        return st;
    }
    *ratings = builder->ratings;
    return RBT_OK;
}

rbt_status rbt_ratings_parse(const struct rbt_data_options *options, const struct rbt_text *text,
                             struct rbt_ratings *ratings)
{
    struct builder builder = {0};
    rbt_status st = check_format(options->format);
    st = st != RBT_OK ? st : add(&builder, options, text);
    return finish(&builder, st, ratings);
}

static rbt_status add_file(struct builder *builder, const struct rbt_data_options *options,
                           const char *path)
{
    struct rbt_input input = {0};
    rbt_status st = rbt_input_read(path, &input);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_text text = {
        .name = path, .bytes = input.bytes, .size = input.size, .first_line = 1};
    st = add(builder, options, &text);
    rbt_input_free(&input);
    return st;
}

rbt_status rbt_ratings_read(const struct rbt_data_options *options, struct rbt_ratings *ratings)
{
    rbt_status st = check_format(options->format);
    if (st == RBT_OK && options->path_count == 0) {
        st = rbt_fail(RBT_E_INVALID, "the name of a data file is missing");
    }
    struct rbt_paths paths = {0};
    st = st != RBT_OK ? st : rbt_paths_expand(options->paths, options->path_count, &paths);
    struct builder builder = {0};
    for (size_t i = 0; st == RBT_OK && i < paths.count; i++) {
        st = add_file(&builder, options, paths.items[i]);
    }
    rbt_paths_free(&paths);
    return finish(&builder, st, ratings);
}
