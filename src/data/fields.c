/* data/fields.c - parses tables with text in some columns.
 *
 * Keys of texts are hashes of 64 bits: of a million different texts two are the same with a chance
 * of 1 in 37 million. The features of an example are sorted, and those that --hash has made equal
 * are added up (data/builder.c).
 *
 * Threads: one per sink; the plan is complete before lines are parsed. */
#include "data/fields.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/limits.h"
#include "data/builder.h"
#include "data/cells.h"
#include "data/classes.h"
#include "data/dictionary.h"
#include "data/match.h"
#include "data/scales.h"

enum {
    CRITEO_COLUMNS = 40,
    CRITEO_COUNTS = 13,
    NAME_SIZE_MAX = 128,
};

#define COLUMN_STEP UINT64_C(0x9e3779b97f4a7c15) /* odd, and its bits look random */

bool rbt_fields_is_planned(const struct rbt_column_plan *plan)
{
    return plan != NULL && (plan->categorical != NULL || plan->skipped != NULL ||
                            plan->positive != 0 || plan->count != 0 || plan->dictionary != NULL);
}

void rbt_fields_free(struct rbt_column_plan *plan)
{
    rbt_titles_free(&plan->titles);
    rbt_titles_free(&plan->classes);
}

/* XXH3 adds its seed to the first bytes of a short text, so that a number's digits undo a column's
 * number: the column is mixed in behind it. */
uint64_t rbt_fields_hash(const char *text, size_t size, size_t column)
{
    const uint64_t hash = rbt_hash_key(rbt_hash_bytes(text, size, 0) + (column + 1) * COLUMN_STEP);
    return hash == 0 ? 1 : hash;
}

uint64_t rbt_fields_positive(const char *text, size_t size)
{
    const uint64_t hash = rbt_hash_bytes(text, size, 0) >> 12;
    return hash == 0 ? 1 : hash;
}

/* --- The plan --------------------------------------------------------------------------------- */

/* The column that an entry of a list names: a number, or a name in the header. */
static bool find_column(const struct rbt_csv *csv, const char *name, size_t size, size_t *column)
{
    size_t number = 0;
    size_t digits = 0;
    for (; digits < size && isdigit((unsigned char)name[digits]) && number < RBT_FIELDS_MAX;
         digits++) {
        number = number * 10 + (size_t)(name[digits] - '0');
    }
    if (digits == size && size > 0) {
        *column = number;
        return number < csv->column_count;
    }
    return rbt_csv_find(csv, name, size, column);
}

static rbt_status no_column(const struct rbt_csv *csv, const char *entry, size_t size)
{
    char name[NAME_SIZE_MAX];
    const size_t used = size < sizeof name - 1 ? size : sizeof name - 1;
    memcpy(name, entry, used);
    name[used] = '\0';
    const rbt_status st = rbt_fail(RBT_E_INVALID, "there is no column \"%s\"", name);
    return rbt_fail_hint(st, "Columns are numbered from 0 to %zu%s.", csv->column_count - 1,
                         csv->has_header ? ", or named as in the first line" : "");
}

/* One entry of a list: a column, or a range of them. */
static rbt_status mark_entry(struct rbt_column_plan *plan, const struct rbt_csv *csv,
                             const struct rbt_cell *entry, enum rbt_column kind)
{
    size_t first = 0;
    if (!find_column(csv, entry->begin, rbt_cell_size(entry), &first)) {
        const char *dash = memchr(entry->begin, '-', rbt_cell_size(entry));
        size_t last = 0;
        if (dash == NULL ||
            !find_column(csv, entry->begin, (size_t)(dash - entry->begin), &first) ||
            !find_column(csv, dash + 1, (size_t)(entry->end - dash - 1), &last)) {
            return no_column(csv, entry->begin, rbt_cell_size(entry));
        }
        for (size_t i = first; i <= last; i++) {
            plan->kinds[i] = (uint8_t)kind;
        }
        return RBT_OK;
    }
    plan->kinds[first] = (uint8_t)kind;
    return RBT_OK;
}

/* All entries of a list; says whether "auto" is one. */
static rbt_status mark(struct rbt_column_plan *plan, const struct rbt_csv *csv, const char *list,
                       enum rbt_column kind, bool *is_auto)
{
    const char *p = list;
    while (p != NULL && *p != '\0') {
        const char *end = p + strcspn(p, ",");
        const struct rbt_cell entry = {p, end};
        if (is_auto != NULL && rbt_cell_size(&entry) == 4 && memcmp(p, "auto", 4) == 0) {
            *is_auto = true;
        } else {
            const rbt_status st = mark_entry(plan, csv, &entry, kind);
            if (st != RBT_OK) {
                return st;
            }
        }
        p = *end == ',' ? end + 1 : end;
    }
    return RBT_OK;
}

/* Columns of numbers in which the line has text are categories. */
static void glance_at(struct rbt_column_plan *plan, const struct rbt_csv *csv,
                      const struct rbt_line *line)
{
    const char *p = line->begin;
    for (size_t column = 0; column < csv->column_count && p <= line->end; column++, p++) {
        float value = 0;
        const struct rbt_cell cell = rbt_cell_at(p, line->end, csv->separator, &p);
        if (plan->kinds[column] == RBT_COLUMN_NUMBER && !rbt_cell_number(&cell, &value) &&
            !rbt_cell_is_missing(&cell)) {
            plan->kinds[column] = RBT_COLUMN_CATEGORY;
        }
    }
}

/* Guesses by the first lines which columns hold text. */
static void look_ahead(struct rbt_column_plan *plan, const struct rbt_csv *csv,
                       struct rbt_text rest)
{
    struct rbt_line line;
    for (int i = 0; i < RBT_LOOK_LINES_MAX && rbt_lines_next(&rest, &line); i++) {
        glance_at(plan, csv, &line);
    }
}

/* Scales are 1, and still to be found if there are numbers. */
static void begin_scales(struct rbt_column_plan *plan)
{
    plan->is_measuring = false;
    for (size_t i = 0; i < plan->count; i++) {
        plan->scales[i] = 1;
        plan->is_measuring |=
            !plan->is_raw && i != plan->label && plan->kinds[i] == RBT_COLUMN_NUMBER;
    }
}

/* What is known of files of click data. */
static void plan_clicks(struct rbt_column_plan *plan, enum rbt_format format)
{
    for (size_t i = 0; i < plan->count; i++) {
        plan->kinds[i] = RBT_COLUMN_CATEGORY;
    }
    if (format == RBT_FORMAT_CRITEO) {
        for (size_t i = 1; i <= CRITEO_COUNTS; i++) {
            plan->kinds[i] = RBT_COLUMN_COUNT;
        }
        plan->label = 0;
    } else {
        plan->kinds[0] = RBT_COLUMN_SKIPPED;
        plan->kinds[2] = RBT_COLUMN_HOUR;
        plan->label = 1;
    }
}

/* Makes the plan complete. */
static rbt_status complete(struct rbt_column_plan *plan, const struct rbt_csv *csv,
                           enum rbt_format format, const struct rbt_text *rest)
{
    bool is_auto = false;
    plan->count = csv->column_count;
    plan->label = csv->label_column;
    plan->format = format;
    if (format == RBT_FORMAT_CRITEO || format == RBT_FORMAT_AVAZU) {
        plan_clicks(plan, format);
    }
    rbt_status st = mark(plan, csv, plan->categorical, RBT_COLUMN_CATEGORY, &is_auto);
    if (st == RBT_OK && is_auto) {
        look_ahead(plan, csv, *rest);
    }
    st = st != RBT_OK ? st : mark(plan, csv, plan->skipped, RBT_COLUMN_SKIPPED, NULL);
    begin_scales(plan);
    return st;
}

static rbt_status wrong_count(const struct rbt_column_plan *plan, const struct rbt_text *text,
                              const struct rbt_line *line, size_t count, size_t wanted)
{
    const rbt_status st =
        rbt_fail(RBT_E_DATA, "cannot read \"%s\", line %zu: %zu column%s instead of %zu%s",
                 text->name, line->number, count, count == 1 ? "" : "s", wanted,
                 plan->is_loaded ? " as in training" : "");
    size_t spare = plan->label < plan->count ? 1 : 0;
    for (size_t i = 0; i < plan->count; i++) {
        spare += plan->kinds[i] == RBT_COLUMN_SKIPPED;
    }
    return plan->is_loaded && count < wanted && count + spare >= wanted
               ? rbt_fail_hint(
                     st, "Without names in the first line all columns of training are needed, "
                         "skipped ones too; only predictions work without the label's.")
               : st;
}

/* How many columns there must be; 0: any number. */
static size_t wanted_count(const struct rbt_column_plan *plan, enum rbt_format format)
{
    return plan->count != 0 ? plan->count : format == RBT_FORMAT_CRITEO ? CRITEO_COLUMNS : 0;
}

rbt_status rbt_fields_open(const struct rbt_data_options *options, enum rbt_format format,
                           struct rbt_text *text, struct rbt_csv *csv)
{
    struct rbt_column_plan *plan = options->plan;
    const bool is_known = plan->count != 0;
    if (is_known && plan->width == 0) {
        plan->width = plan->count;
        plan->target = plan->label;
    }
    const enum rbt_format asked = is_known ? plan->format : format;
    struct rbt_csv layout;
    rbt_status st = rbt_csv_look(options, asked, text, &layout);
    if (st == RBT_OK && is_known) {
        st = rbt_match_columns(options, text->name, &layout);
    }
    if (st != RBT_OK) {
        return st;
    }
    layout.plan = plan;
    *csv = layout; /* from here on its order is the caller's */
    const size_t wanted = wanted_count(plan, asked);
    const size_t count = layout.column_count;
    if ((wanted != 0 && count != wanted && !layout.is_matched) || count > RBT_FIELDS_MAX ||
        (asked == RBT_FORMAT_AVAZU && count < 3)) {
        return wrong_count(plan, text, &layout.header, count, wanted != 0 ? wanted : 24);
    }
    if (is_known) {
        return RBT_OK;
    }
    if (asked == RBT_FORMAT_CRITEO || asked == RBT_FORMAT_AVAZU) {
        csv->label_column = asked == RBT_FORMAT_CRITEO ? 0 : 1;
    } else {
        st = rbt_match_label(options, text->name, csv);
        if (st != RBT_OK) {
            return st;
        }
    }
    st = complete(plan, csv, asked, text);
    if (st != RBT_OK) {
        return rbt_fail_in(st, "cannot read \"%s\"", text->name);
    }
    return rbt_match_begin(plan, csv);
}

/* --- Lines ------------------------------------------------------------------------------------ */

static rbt_status number_failure(const struct rbt_builder_sink *sink, const struct rbt_cell *cell,
                                 size_t column)
{
    const struct rbt_csv *csv = sink->csv;
    const struct rbt_word name = rbt_csv_name(csv, column);
    const struct rbt_word word = rbt_csv_quote(cell->begin, cell->end);
    if (column == csv->label_column) {
        const rbt_status st =
            rbt_fail(RBT_E_DATA, "the label in column %zu%s %s%s%s", column, name.text,
                     rbt_cell_is_missing(cell) ? "is missing" : "is \"",
                     rbt_cell_is_missing(cell) ? "" : word.text,
                     rbt_cell_is_missing(cell) ? "" : "\", which is not a number");
        return rbt_cell_is_missing(cell) ? st : rbt_csv_hint_label(sink->options, st);
    }
    const rbt_status st = rbt_fail(RBT_E_DATA, "column %zu%s holds \"%s\", which is not a number",
                                   column, name.text, word.text);
    return csv->plan->is_loaded
               ? st
               : rbt_fail_hint(st, "Name the column in --categorical if it holds text: auto,%zu.",
                               column);
}

static rbt_status read_label(struct rbt_builder_sink *sink, const struct rbt_cell *cell,
                             float *label)
{
    const struct rbt_csv *csv = sink->csv;
    if (sink->options->ignores_label) {
        return RBT_OK;
    }
    if (csv->plan->positive != 0) {
        *label =
            rbt_fields_positive(cell->begin, rbt_cell_size(cell)) == csv->plan->positive ? 1 : 0;
        return rbt_cell_is_missing(cell) ? number_failure(sink, cell, csv->label_column) : RBT_OK;
    }
    if (sink->options->has_classes) {
        return rbt_classes_note(sink, cell, label);
    }
    return rbt_cell_number(cell, label) ? RBT_OK : number_failure(sink, cell, csv->label_column);
}

/* The bucket of a count: itself up to 2, then the whole part of log(x)^2, above them. */
static int64_t bucket_of(float count)
{
    if (count <= 2) {
        return (int64_t)(count < -1000 ? -1000 : count);
    }
    const double log_count = log((double)count);
    return 3 + (int64_t)(log_count * log_count);
}

/* What a cell of a column with texts says. */
struct name {
    struct rbt_dictionary_cell text;
    char digits[24]; /* of a bucket */
    int64_t bucket;
    bool is_bucket;
};

/* False if it should be a number and is not. */
static bool name_cell(const struct rbt_csv *csv, const struct rbt_cell *cell, size_t column,
                      struct name *name)
{
    const enum rbt_column kind = (enum rbt_column)csv->plan->kinds[column];
    const char *from =
        kind == RBT_COLUMN_HOUR && rbt_cell_size(cell) > 2 ? cell->end - 2 : cell->begin;
    float value = 0;
    *name = (struct name){.text = {column, from, (size_t)(cell->end - from)},
                          .is_bucket = kind == RBT_COLUMN_COUNT};
    if (name->is_bucket) {
        if (!rbt_cell_number(cell, &value)) {
            return false;
        }
        name->bucket = bucket_of(value);
        const int size =
            snprintf(name->digits, sizeof name->digits, "%lld", (long long)name->bucket);
        name->text.text = name->digits;
        name->text.size = (size_t)size;
    }
    return true;
}

/* The key of a text; 0: a dictionary does not have it. */
static uint64_t key_of(struct rbt_builder_sink *sink, const struct name *name)
{
    const struct rbt_column_plan *plan = sink->csv->plan;
    if (plan->dictionary != NULL) {
        const uint32_t number = rbt_dictionary_find(plan->dictionary, &name->text);
        sink->unknown_count += number == RBT_WORD_NONE;
        return number == RBT_WORD_NONE ? 0 : plan->count + 1 + number;
    }
    return name->is_bucket ? rbt_fields_hash((const char *)&name->bucket, sizeof name->bucket,
                                             name->text.column)
                           : rbt_fields_hash(name->text.text, name->text.size, name->text.column);
}

/* Adds the texts of a line. What is wrong with the line otherwise is found when it is parsed. */
static rbt_status collect_line(const struct rbt_csv *csv, const struct rbt_line *line)
{
    const struct rbt_column_plan *plan = csv->plan;
    const char *p = line->begin;
    rbt_status st = RBT_OK;
    for (size_t column = 0; st == RBT_OK && column < csv->column_count && p <= line->end;
         column++, p++) {
        const struct rbt_cell cell = rbt_cell_at(p, line->end, csv->separator, &p);
        struct name name;
        const size_t place = rbt_csv_place(csv, column);
        const bool has_text = column != csv->label_column && place != SIZE_MAX &&
                              plan->kinds[place] != RBT_COLUMN_NUMBER &&
                              plan->kinds[place] != RBT_COLUMN_SKIPPED &&
                              !rbt_cell_is_missing(&cell);
        if (has_text && name_cell(csv, &cell, place, &name)) {
            st = rbt_dictionary_add(plan->dictionary, &name.text);
        }
    }
    return st;
}

rbt_status rbt_fields_collect(const struct rbt_csv *csv, const struct rbt_text *text)
{
    struct rbt_text rest = *text;
    struct rbt_line line;
    rbt_status st = RBT_OK;
    while (st == RBT_OK && rbt_lines_next(&rest, &line)) {
        st = collect_line(csv, &line);
    }
    return st != RBT_OK ? rbt_fail_in(st, "cannot read \"%s\", line %zu", text->name, line.number)
                        : RBT_OK;
}

/* Adds the feature of a cell that is not missing. */
static rbt_status add_cell(struct rbt_builder_sink *sink, const struct rbt_cell *cell,
                           size_t column, size_t *count)
{
    const struct rbt_csv *csv = sink->csv;
    const size_t place = rbt_csv_place(csv, column);
    if (place == SIZE_MAX) {
        return RBT_OK;
    }
    float value = 1;
    uint64_t key = 0;
    switch ((enum rbt_column)csv->plan->kinds[place]) {
    case RBT_COLUMN_SKIPPED:
        return RBT_OK;
    case RBT_COLUMN_NUMBER:
        if (!rbt_cell_number(cell, &value)) {
            return number_failure(sink, cell, column);
        }
        key = place + 1;
        value = rbt_scales_times(value, csv->plan->scales[place]);
        if (sink->numbers != NULL) {
            sink->numbers[place]++;
        }
        break;
    case RBT_COLUMN_CATEGORY:
    case RBT_COLUMN_HOUR:
    case RBT_COLUMN_COUNT: {
        struct name name;
        if (!name_cell(csv, cell, place, &name)) {
            return number_failure(sink, cell, column);
        }
        key = key_of(sink, &name);
        if (key == 0) {
            return RBT_OK;
        }
        break;
    }
    }
    if (value != 0) {
        sink->keys[*count] = key;
        sink->values[*count] = value;
        (*count)++;
    }
    return RBT_OK;
}

rbt_status rbt_fields_line(void *context, const struct rbt_line *line)
{
    struct rbt_builder_sink *sink = context;
    const struct rbt_csv *csv = sink->csv;
    size_t count = sink->nonzero_count;
    float label = 0;
    size_t column = 0;
    for (const char *p = line->begin; p <= line->end; p++, column++) {
        const struct rbt_cell cell = rbt_cell_at(p, line->end, csv->separator, &p);
        rbt_status st = RBT_OK;
        if (column >= csv->column_count) {
            continue; /* they are counted */
        }
        if (column == csv->label_column) {
            st = read_label(sink, &cell, &label);
        } else if (!rbt_cell_is_missing(&cell)) {
            st = add_cell(sink, &cell, column, &count);
        }
        if (st != RBT_OK) {
            return st;
        }
    }
    if (column != csv->column_count) {
        return rbt_fail(RBT_E_DATA, "%zu column%s instead of %zu", column, column == 1 ? "" : "s",
                        csv->column_count);
    }
    count = rbt_builder_tidy(sink, count);
    rbt_builder_row(sink, label, count, line->number);
    return RBT_OK;
}
