/* data/lines.h - a text cut at line borders, so that several threads can parse it.
 *
 * Cutting also counts the lines of each chunk. A thread therefore knows the true number of every
 * line it sees, and how much room its results can need at most:
 *
 *     struct rbt_chunks chunks;
 *     st = rbt_lines_cut(&text, threads, ':', &chunks);
 *     ... make room for chunks.items[i].line_count rows and mark_count features ...
 *     st = rbt_lines_walk(&chunks.items[i], parse_line, &results[i]);     // on thread i
 *     rbt_lines_free(&chunks);
 */
#ifndef RUBATO_DATA_LINES_H
#define RUBATO_DATA_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* Longer lines are refused: they are no data, and the rest of the code may count on it. */
enum { RBT_LINE_SIZE_MAX = 16 * 1024 * 1024 };

/* A file's content, or the rest of it. */
struct rbt_text {
    const char *name;  /* for messages */
    const char *bytes; /* bytes[size] is 0 */
    size_t size;
    size_t first_line; /* the number of its first line */
};

/* One line without its end. The byte at `end` belongs to no number and is no blank. */
struct rbt_line {
    const char *begin;
    const char *end;
    size_t number;
};

struct rbt_chunk {
    const char *name;
    const char *begin;
    const char *end;
    size_t first_line; /* the number of its first line in the file */
    size_t line_count;
    size_t mark_count; /* how often the mark occurs */
};

struct rbt_chunks {
    struct rbt_chunk *items;
    uint32_t count;
};

/* Cuts the text into at most `thread_max` chunks of about equal size and counts their lines and
 * marks; a small text gives fewer chunks. The caller frees them. Fails with RBT_E_NOMEM, or
 * RBT_E_IO when threads cannot be started. */
RBT_MUST_USE rbt_status rbt_lines_cut(const struct rbt_text *text, uint32_t thread_max, char mark,
                                      struct rbt_chunks *chunks);
void rbt_lines_free(struct rbt_chunks *chunks);

/* Runs `function(argument, index)` for every chunk: on threads of their own if there are several.
 * Returns the failure of the first chunk that has one, so of the first wrong line. */
RBT_MUST_USE rbt_status rbt_lines_run(const struct rbt_chunks *chunks,
                                      rbt_status (*function)(void *argument, uint32_t index),
                                      void *argument);

/* What parses one line. It fails with RBT_E_DATA and a message without the place. */
typedef rbt_status (*rbt_line_function)(void *context, const struct rbt_line *line);

/* Calls `function` for every line of the chunk that is neither blank nor a comment (#), until one
 * fails. The message then says `cannot read "FILE", line N: ...`. */
RBT_MUST_USE rbt_status rbt_lines_walk(const struct rbt_chunk *chunk, rbt_line_function function,
                                       void *context);

/* Takes the first line that is neither blank nor a comment off the text; false when none is left.
 */
bool rbt_lines_next(struct rbt_text *text, struct rbt_line *line);

/* The first place from `p` on that is not a blank or tab. */
static inline const char *rbt_lines_skip(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t')) {
        p++;
    }
    return p;
}

/* The word at `p`, up to a blank or one of `borders`, for messages: cut short if it is long. */
struct rbt_word {
    char text[44];
};
struct rbt_word rbt_lines_word(const char *p, const char *end, const char *borders);

#endif
