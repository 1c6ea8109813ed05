/* launch/relay.c - what a child process prints, on its way to our terminal.
 *
 * A plain child's line is held back only as long as it may still become one of the lines that are
 * kept. A line that never ends is printed in pieces of LINE_MAX_BYTES. */
#include "launch/relay.h"

#include <string.h>

#include "base/assert.h"

enum { LINE_MAX_BYTES = 16384 };

static const char error_mark[] = "rubato: error: ";
static const char hint_mark[] = "rubato: hint: ";
static const char process_mark[] = "rubato: process "; /* see launch/child.c */
static const char listen_mark[] = "listening on ";

static bool starts_with(const char *text, const char *mark)
{
    return strncmp(text, mark, strlen(mark)) == 0;
}

/* Whether the line is one that is kept back, or may become one. */
static bool may_be_kept(const char *line, size_t length)
{
    const char *const marks[] = {error_mark, hint_mark, process_mark, listen_mark};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const size_t size = strlen(marks[i]);
        if (strncmp(line, marks[i], length < size ? length : size) == 0) {
            return true;
        }
    }
    return false;
}

static void copy(char to[RBT_RELAY_LINE], const char *from)
{
    snprintf(to, RBT_RELAY_LINE, "%s", from);
}

/* Remembers a whole line. Returns whether it is kept back. */
static bool remember(struct rbt_relay_record *record, const char *line)
{
    if (starts_with(line, error_mark)) {
        if (record->error[0] == '\0') {
            copy(record->error, line + strlen(error_mark));
        }
        return true;
    }
    if (starts_with(line, hint_mark)) {
        if (record->hint[0] == '\0') {
            copy(record->hint, line + strlen(hint_mark));
        }
        return true;
    }
    if (starts_with(line, process_mark) &&
        rbt_text_to_int(line + strlen(process_mark), &record->pid)) {
        return true;
    }
    if (starts_with(line, listen_mark) && record->address[0] == '\0') {
        copy(record->address, line + strlen(listen_mark));
        return true;
    }
    if (line[0] != '\0') {
        copy(record->last[record->line_count++ % RBT_RELAY_LAST], line);
    }
    return false;
}

/* An open line of the plain child is wiped, because it will be drawn again, or ended. */
static void clear_line(struct rbt_relay_screen *screen)
{
    if (screen->is_open) {
        fputs(screen->is_live ? "\r\033[K" : "\n", screen->err);
        screen->is_open = false;
    }
}

/* Prints what of the line has not been printed. */
static void show(struct rbt_relay *relay, bool is_whole)
{
    struct rbt_relay_screen *screen = relay->screen;
    const char *rest = rbt_text_data(&relay->line) + relay->shown;
    const size_t size = relay->line.length - relay->shown;
    if (relay->name != NULL) {
        RBT_ASSERT(is_whole);
        clear_line(screen);
        fprintf(screen->err, "[%s] %s\n", relay->name, rest);
    } else {
        fwrite(rest, 1, size, screen->err);
        if (is_whole) {
            fputc('\n', screen->err);
        }
        screen->is_open = !is_whole && (size > 0 || screen->is_open);
    }
    relay->shown = relay->line.length;
}

/* The line is whole. What was shown of it already cannot be kept back any more. ssh ends its own
 * lines as terminals do. */
static void end_line(struct rbt_relay *relay)
{
    struct rbt_text_buffer *line = &relay->line;
    if (line->length > relay->shown && line->data[line->length - 1] == '\r') {
        line->data[--line->length] = '\0';
    }
    if (!remember(relay->record, rbt_text_data(line)) || relay->shown > 0) {
        show(relay, true);
    }
    rbt_text_clear(line);
    relay->shown = 0;
}

void rbt_relay_take(struct rbt_relay *relay, const char *bytes, size_t size)
{
    const char *const end = bytes + size;
    while (bytes < end) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
        const char *stop = newline != NULL ? newline : end;
        rbt_text_add_bytes(&relay->line, bytes, (size_t)(stop - bytes));
        if (newline != NULL || relay->line.length > LINE_MAX_BYTES || relay->line.has_failed) {
            end_line(relay);
        }
        bytes = newline != NULL ? newline + 1 : end;
    }
    if (relay->name == NULL && relay->line.length > relay->shown &&
        !may_be_kept(rbt_text_data(&relay->line), relay->line.length)) {
        show(relay, false);
    }
    fflush(relay->screen->err);
}

void rbt_relay_finish(struct rbt_relay *relay)
{
    if (relay->line.length > 0) {
        end_line(relay);
        fflush(relay->screen->err);
    }
}

void rbt_relay_deinit(struct rbt_relay *relay)
{
    rbt_text_deinit(&relay->line);
}

void rbt_relay_release(struct rbt_relay_screen *screen, const char *name,
                       const struct rbt_relay_record *record)
{
    if (record->error[0] != '\0') {
        clear_line(screen);
        fprintf(screen->err, "[%s] %s\n", name, record->error);
        fflush(screen->err);
    }
}

void rbt_relay_describe(const struct rbt_relay_record *record, struct rbt_text_buffer *text)
{
    if (record->line_count == 0) {
        return;
    }
    const uint32_t count =
        record->line_count < RBT_RELAY_LAST ? record->line_count : RBT_RELAY_LAST;
    rbt_text_add(text, "; its last line%s: ", count == 1 ? " was" : "s were");
    for (uint32_t i = record->line_count - count; i < record->line_count; i++) {
        rbt_text_add(text, "%s%s", record->last[i % RBT_RELAY_LAST],
                     i + 1 < record->line_count ? " | " : "");
    }
}
