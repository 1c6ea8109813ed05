/* data/csv.c - parses tables of numbers.
 *
 * Cells may stand in double quotes, and separators inside quotes do not count. Zeros are left out:
 * a table of mostly zeros becomes sparse examples.
 *
 * Threads: one per sink. */
#include "data/csv.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "data/builder.h"
#include "data/cells.h"
#include "data/classes.h"
#include "data/fields.h"
#include "data/header.h"
#include "data/match.h"
#include "data/number.h"

const char *rbt_csv_end(const char *p, const char *end, char separator)
{
    bool is_quoted = false;
    for (; p < end && (is_quoted || *p != separator); p++) {
        is_quoted ^= *p == '"';
    }
    return p;
}

static const char *skip_blanks(const char *p)
{
    while (*p == ' ') { /* ends: the byte behind a line is no blank */
        p++;
    }
    return p;
}

/* Reads a number that fills its cell and returns the cell's end; NULL when it is none. */
static const char *read_cell(const char *p, const char *end, char separator, float *value)
{
    p = skip_blanks(p);
    const bool is_quoted = *p == '"';
    p = rbt_number_float(p + is_quoted, value);
    if (p == NULL || (is_quoted && *p != '"')) {
        return NULL;
    }
    p = skip_blanks(p + is_quoted);
    return p == end || *p == separator ? p : NULL;
}

static char find_separator(const struct rbt_line *line, enum rbt_format format)
{
    if (format == RBT_FORMAT_TSV || format == RBT_FORMAT_CRITEO) {
        return '\t';
    }
    const size_t size = (size_t)(line->end - line->begin);
    for (const char *p = ",\t;"; *p != '\0'; p++) {
        if (memchr(line->begin, *p, size) != NULL) {
            return *p;
        }
    }
    return ',';
}

static size_t count_columns(const struct rbt_line *line, char separator)
{
    size_t count = 1;
    const char *p = rbt_csv_end(line->begin, line->end, separator);
    for (; p < line->end; p = rbt_csv_end(p + 1, line->end, separator)) {
        count++;
    }
    return count;
}

/* Where a column's cell begins; the end of the line if it has fewer. */
static const char *find_cell(const struct rbt_line *line, char separator, size_t column)
{
    const char *p = line->begin;
    for (size_t i = 0; i < column && p < line->end; i++) {
        p = rbt_csv_end(p, line->end, separator);
        p += p < line->end;
    }
    return p;
}

bool rbt_csv_find(const struct rbt_csv *csv, const char *name, size_t size, size_t *column)
{
    const char *p = csv->header.begin;
    for (size_t i = 0; csv->has_header && i < csv->column_count; i++, p++) {
        const struct rbt_cell cell = rbt_cell_at(p, csv->header.end, csv->separator, &p);
        if (rbt_cell_size(&cell) == size && memcmp(cell.begin, name, size) == 0) {
            *column = i;
            return true;
        }
    }
    return false;
}

rbt_status rbt_csv_look(const struct rbt_data_options *options, enum rbt_format format,
                        struct rbt_text *text, struct rbt_csv *csv)
{
    struct rbt_text rest = *text;
    struct rbt_line line;
    if (!rbt_lines_next(&rest, &line)) {
        return rbt_fail(RBT_E_DATA, "cannot read \"%s\": it has no examples", text->name);
    }
    struct rbt_csv layout = {
        .separator = find_separator(&line, format), .header = line, .label_column = SIZE_MAX};
    layout.column_count = count_columns(&line, layout.separator);
    layout.has_header = rbt_match_is_header(options->plan, &line, layout.separator) ||
                        rbt_header_is(&line, layout.separator, layout.column_count, &rest);
    if (layout.has_header) {
        *text = rest;
    }
    *csv = layout;
    return RBT_OK;
}

/* A line of names that is alone: a table of numbers says more about it as a header. */
static bool is_lone_header(const struct rbt_csv *csv, const struct rbt_text *text)
{
    struct rbt_text rest = *text;
    struct rbt_line line;
    return rbt_lines_next(&rest, &line) && !rbt_lines_next(&rest, &line) &&
           rbt_header_can_be(&csv->header, csv->separator);
}

rbt_status rbt_csv_open(const struct rbt_data_options *options, struct rbt_text *text,
                        struct rbt_csv *csv)
{
    struct rbt_column_plan *plan = options->plan;
    struct rbt_csv layout;
    rbt_status st = rbt_csv_look(options, options->format, text, &layout);
    if (st != RBT_OK) {
        return st;
    }
    if (!layout.has_header && is_lone_header(&layout, text)) {
        return rbt_fail(RBT_E_DATA, "cannot read \"%s\": it has no examples", text->name);
    }
    if (plan != NULL && plan->width != 0) {
        st = rbt_match_columns(options, text->name, &layout);
    } else {
        st = rbt_match_label(options, text->name, &layout);
        st = st == RBT_OK && plan != NULL ? rbt_match_begin(plan, &layout) : st;
    }
    *csv = layout;
    return st;
}

struct rbt_word rbt_csv_name(const struct rbt_csv *csv, size_t column)
{
    struct rbt_word name = {{0}};
    const char *p = find_cell(&csv->header, csv->separator, column);
    if (!csv->has_header || p >= csv->header.end) {
        return (struct rbt_word){" (from 0)"};
    }
    const char *end = rbt_csv_end(p, csv->header.end, csv->separator);
    p = skip_blanks(p);
    p += *p == '"';
    const size_t room = sizeof name.text - 6; /* for the blank, brackets, quotes and zero */
    const size_t size = p < end ? (size_t)(end - p) : 0;
    size_t used = size < room ? size : room;
    used -= used > 0 && p[used - 1] == '"';
    memcpy(name.text, " (\"", 3);
    memcpy(name.text + 3, p, used);
    memcpy(name.text + 3 + used, "\")", 2);
    return name;
}

struct rbt_word rbt_csv_quote(const char *begin, const char *end)
{
    struct rbt_word word = {{0}};
    const size_t room = sizeof word.text - 4;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    const bool is_quoted = end - begin >= 2 && *begin == '"' && end[-1] == '"';
    begin += is_quoted;
    end -= is_quoted;
    const size_t size = (size_t)(end - begin);
    memcpy(word.text, begin, size < room ? size : room);
    if (size > room) {
        memcpy(word.text + room, "...", 3);
    }
    return word;
}

rbt_status rbt_csv_hint_label(const struct rbt_data_options *options, rbt_status st)
{
    if (options->plan == NULL || options->plan->is_loaded) {
        return st;
    }
    return rbt_fail_hint(st, "%s; if another column is the label, name it with --label-column.",
                         options->has_binary_label ? "Name the positive label with --positive"
                                                   : "Quantities are numbers");
}

/* What can be done about text among numbers, for those who can say anything about columns. */
static rbt_status text_hint(const struct rbt_data_options *options, rbt_status st)
{
    if (options->column_count != 0 || (options->plan != NULL && options->plan->is_loaded)) {
        return st;
    }
    return options->plan != NULL
               ? rbt_fail_hint(st, "use --categorical auto if columns hold text")
               : rbt_fail_hint(st, "only linear, fm and kmeans read columns of text");
}

static rbt_status cell_failure(const struct rbt_builder_sink *sink, const char *p, const char *end,
                               size_t column)
{
    const struct rbt_csv *csv = sink->csv;
    const struct rbt_word name = rbt_csv_name(csv, column);
    const char *limit = rbt_csv_end(p, end, csv->separator);
    float value = 0;
    if (skip_blanks(p) >= limit) {
        return rbt_fail(RBT_E_DATA, "column %zu%s is empty", column, name.text);
    }
    const bool is_number = read_cell(p, end, csv->separator, &value) != NULL;
    const struct rbt_word word = rbt_csv_quote(skip_blanks(p), limit);
    const rbt_status st = rbt_fail(RBT_E_DATA, "column %zu%s holds \"%s\", which is %s", column,
                                   name.text, word.text, is_number ? "too large" : "not a number");
    return is_number                     ? st
           : column == csv->label_column ? rbt_csv_hint_label(sink->options, st)
                                         : text_hint(sink->options, st);
}

static rbt_status count_failure(const struct rbt_csv *csv, const struct rbt_line *line)
{
    const size_t count = count_columns(line, csv->separator);
    return rbt_fail(RBT_E_DATA, "%zu column%s instead of %zu as in the first line", count,
                    count == 1 ? "" : "s", csv->column_count);
}

rbt_status rbt_csv_line(void *context, const struct rbt_line *line)
{
    struct rbt_builder_sink *sink = context;
    const struct rbt_csv *csv = sink->csv;
    size_t nonzero_count = sink->nonzero_count;
    float label = 0;
    size_t column = 0;
    for (const char *p = line->begin;; p++, column++) { /* ends with the line's last cell */
        if (column == csv->column_count) {
            return count_failure(csv, line);
        }
        float value = 0;
        const bool is_ignored = column == csv->label_column
                                    ? sink->options->ignores_label
                                    : rbt_csv_place(csv, column) == SIZE_MAX;
        const bool is_class = column == csv->label_column && sink->options->has_classes;
        if (is_class && !is_ignored) {
            const struct rbt_cell cell = rbt_cell_at(p, line->end, csv->separator, &p);
            const rbt_status st = rbt_classes_note(sink, &cell, &label);
            if (st != RBT_OK) {
                return st;
            }
            if (p == line->end) {
                break;
            }
            continue;
        }
        const char *next = is_ignored ? rbt_csv_end(p, line->end, csv->separator)
                                      : read_cell(p, line->end, csv->separator, &value);
        if (next == NULL || !isfinite(value)) {
            return cell_failure(sink, p, line->end, column);
        }
        if (column == csv->label_column) {
            label = value;
        } else if (value != 0) {
            sink->keys[nonzero_count] = rbt_csv_place(csv, column) + 1;
            sink->values[nonzero_count] = value;
            nonzero_count++;
        }
        p = next;
        if (p == line->end) {
            break;
        }
    }
    if (column + 1 != csv->column_count) {
        return count_failure(csv, line);
    }
    if (csv->order != NULL) {
        nonzero_count = rbt_builder_tidy(sink, nonzero_count);
    }
    rbt_builder_row(sink, label, nonzero_count, line->number);
    return RBT_OK;
}
