/* data/lines.c - cuts texts into chunks, counts and walks their lines.
 *
 * Two passes over the text cost less than they save: counting runs at several gigabytes per second,
 * and in return results are written to their final place, without checks and without growing.
 *
 * Threads: the chunks are counted by as many threads as there are chunks. */
#include "data/lines.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"

enum {
    CHUNK_SIZE_MIN = 32 * 1024, /* below, starting a thread takes longer than parsing */
    BLOCK_SIZE = 16 * 1024,     /* what is counted at once: it stays in the nearest cache */
};

void rbt_lines_free(struct rbt_chunks *chunks)
{
    rbt_free(chunks->items);
    *chunks = (struct rbt_chunks){0};
}

rbt_status rbt_lines_run(const struct rbt_chunks *chunks,
                         rbt_status (*function)(void *argument, uint32_t index), void *argument)
{
    return chunks->count == 1 ? function(argument, 0)
                              : rbt_thread_run(chunks->count, function, argument);
}

/* How often `mark` occurs in a block. The small counter lets the compiler use whole vectors. */
static size_t count_marks(const char *block, size_t size, char mark)
{
    RBT_ASSERT(size <= BLOCK_SIZE);
    uint16_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count = (uint16_t)(count + (block[i] == mark));
    }
    return count;
}

struct counting {
    struct rbt_chunk *items;
    char mark;
};

static rbt_status count_chunk(void *argument, uint32_t index)
{
    const struct counting *counting = argument;
    struct rbt_chunk *chunk = &counting->items[index];
    size_t size = 0;
    for (const char *block = chunk->begin; block < chunk->end; block += size) {
        const size_t left = (size_t)(chunk->end - block);
        size = left < BLOCK_SIZE ? left : BLOCK_SIZE;
        chunk->line_count += count_marks(block, size, '\n');
        chunk->mark_count += count_marks(block, size, counting->mark);
    }
    if (chunk->end > chunk->begin && chunk->end[-1] != '\n') {
        chunk->line_count++; /* the last line of the text has no end */
    }
    return RBT_OK;
}

/* The first line border at or behind `p`. */
static const char *next_border(const char *p, const char *end)
{
    const char *found = memchr(p, '\n', (size_t)(end - p));
    return found == NULL ? end : found + 1;
}

rbt_status rbt_lines_cut(const struct rbt_text *text, uint32_t thread_max, char mark,
                         struct rbt_chunks *chunks)
{
    RBT_ASSERT(text->bytes[text->size] == '\0');
    RBT_ASSERT(thread_max > 0);
    const size_t chunk_max = text->size / CHUNK_SIZE_MIN + 1;
    const uint32_t count = thread_max < chunk_max ? thread_max : (uint32_t)chunk_max;
    struct rbt_chunks list = {.items = rbt_calloc(count, sizeof *list.items), .count = count};
    if (list.items == NULL) {
        return rbt_fail(RBT_E_NOMEM, "cannot read \"%s\": out of memory", text->name);
    }
    const char *const end = text->bytes + text->size;
    const char *begin = text->bytes;
    for (uint32_t i = 0; i < count; i++) {
        const char *wanted = text->bytes + text->size / count * (i + 1);
        const char *border = i + 1 == count ? end : next_border(wanted, end);
        border = border < begin ? begin : border;
        list.items[i] = (struct rbt_chunk){.name = text->name, .begin = begin, .end = border};
        begin = border;
    }
    struct counting counting = {.items = list.items, .mark = mark};
    const rbt_status st = rbt_lines_run(&list, count_chunk, &counting);
    if (st != RBT_OK) {
        rbt_lines_free(&list);
        return st;
    }
    size_t line = text->first_line;
    for (uint32_t i = 0; i < count; i++) {
        list.items[i].first_line = line;
        line += list.items[i].line_count;
    }
    *chunks = list;
    return RBT_OK;
}

/* The line that begins at `begin`, without its end, which may be that of Windows. */
static struct rbt_line line_at(const char *begin, const char *limit, size_t number)
{
    const char *end = memchr(begin, '\n', (size_t)(limit - begin));
    end = end == NULL ? limit : end;
    end -= end > begin && end[-1] == '\r';
    return (struct rbt_line){.begin = begin, .end = end, .number = number};
}

static const char *after(const struct rbt_line *line, const char *limit)
{
    const char *p = line->end;
    p += p < limit && *p == '\r';
    return p < limit ? p + 1 : limit;
}

static bool is_void(const struct rbt_line *line)
{
    const char *p = rbt_lines_skip(line->begin, line->end);
    return p == line->end || *p == '#';
}

bool rbt_lines_next(struct rbt_text *text, struct rbt_line *line)
{
    const char *const limit = text->bytes + text->size;
    while (text->size > 0) {
        const struct rbt_line found = line_at(text->bytes, limit, text->first_line);
        text->bytes = after(&found, limit);
        text->size = (size_t)(limit - text->bytes);
        text->first_line++;
        if (!is_void(&found)) {
            *line = found;
            return true;
        }
    }
    return false;
}

/* Control characters do not occur in text, but nearly always in anything else. */
static bool is_text(const struct rbt_line *line)
{
    for (const char *p = line->begin; p < line->end; p++) {
        if ((unsigned char)*p < ' ' && *p != '\t' && *p != '\r') {
            return false;
        }
    }
    return true;
}

static rbt_status parse(const struct rbt_line *line, rbt_line_function function, void *context)
{
    if (line->end - line->begin > RBT_LINE_SIZE_MAX) {
        return rbt_fail(RBT_E_DATA, "the line is longer than %d MiB", RBT_LINE_SIZE_MAX >> 20);
    }
    const rbt_status st = function(context, line);
    if (st == RBT_E_DATA && !is_text(line)) {
        return rbt_fail(RBT_E_DATA, "it is not text");
    }
    return st;
}

rbt_status rbt_lines_walk(const struct rbt_chunk *chunk, rbt_line_function function, void *context)
{
    size_t number = chunk->first_line;
    for (const char *p = chunk->begin; p < chunk->end; number++) {
        const struct rbt_line line = line_at(p, chunk->end, number);
        p = after(&line, chunk->end);
        if (is_void(&line)) {
            continue;
        }
        const rbt_status st = parse(&line, function, context);
        if (st != RBT_OK) {
            return rbt_fail_in(st, "cannot read \"%s\", line %zu", chunk->name, line.number);
        }
    }
    RBT_ASSERT(number == chunk->first_line + chunk->line_count);
    return RBT_OK;
}

struct rbt_word rbt_lines_word(const char *p, const char *end, const char *borders)
{
    struct rbt_word word = {{0}};
    const size_t room = sizeof word.text - 4;
    for (size_t i = 0; p + i < end && strchr(borders, p[i]) == NULL && p[i] != ' '; i++) {
        if (i == room) {
            memcpy(word.text + room, "...", 3);
            break;
        }
        word.text[i] = p[i];
    }
    return word;
}
