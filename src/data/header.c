/* data/header.c - whether the first line of a table names the columns. */
#include "data/header.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/limits.h"
#include "data/cells.h"

enum {
    LOOK_SIZE_MAX = 4 << 20, /* bytes of them */
    TEXTS_MAX = 16,          /* of a column that are remembered */
};

/* What the lines behind the first one say about a column. */
struct column {
    const char *name; /* in the first line */
    size_t size;
    size_t numbers;
    size_t texts;
    size_t repeats; /* texts that are one of those that are remembered */
    size_t known_count;
    uint64_t known[TEXTS_MAX]; /* hashes of the first texts */
    bool is_found;             /* the name occurs again */
};

/* Words that stand for numbers, but for none that is finite. */
static bool is_infinite(const struct rbt_cell *cell)
{
    const size_t sign = rbt_cell_size(cell) > 0 && (*cell->begin == '-' || *cell->begin == '+');
    const size_t size = rbt_cell_size(cell) - sign;
    return (size == 3 && strncasecmp(cell->begin + sign, "inf", 3) == 0) ||
           (size == 8 && strncasecmp(cell->begin + sign, "infinity", 8) == 0) ||
           (size == 3 && strncasecmp(cell->begin + sign, "nan", 3) == 0);
}

/* Every cell can be a name, and one is; an empty one can be that of line numbers. */
bool rbt_header_can_be(const struct rbt_line *line, char separator)
{
    bool has_text = false;
    for (const char *p = line->begin; p <= line->end; p++) {
        float value = 0;
        const struct rbt_cell cell = rbt_cell_at(p, line->end, separator, &p);
        const bool is_empty = rbt_cell_size(&cell) == 0;
        if (rbt_cell_number(&cell, &value) || is_infinite(&cell) ||
            (rbt_cell_is_missing(&cell) && !is_empty)) {
            return false;
        }
        has_text |= !is_empty;
    }
    return has_text;
}

static void note_text(struct column *column, const struct rbt_cell *cell)
{
    const size_t size = rbt_cell_size(cell);
    const uint64_t hash = rbt_hash_bytes(cell->begin, size, 0);
    column->texts++;
    column->is_found |= size == column->size && memcmp(cell->begin, column->name, size) == 0;
    for (size_t i = 0; i < column->known_count; i++) {
        if (column->known[i] == hash) {
            column->repeats++;
            return;
        }
    }
    if (column->known_count < TEXTS_MAX) {
        column->known[column->known_count++] = hash;
    }
}

static void look_at(struct column *columns, size_t count, const struct rbt_line *line,
                    char separator)
{
    const char *p = line->begin;
    for (size_t i = 0; i < count && p <= line->end; i++, p++) {
        float value = 0;
        const struct rbt_cell cell = rbt_cell_at(p, line->end, separator, &p);
        if (rbt_cell_number(&cell, &value)) {
            columns[i].numbers++;
        } else if (!rbt_cell_is_missing(&cell)) {
            note_text(&columns[i], &cell);
        }
    }
}

static bool has_twins(const struct column *columns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (columns[i].size == columns[k].size &&
                memcmp(columns[i].name, columns[k].name, columns[i].size) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool decide(const struct column *columns, size_t count)
{
    size_t of_numbers = 0;
    size_t of_texts = 0;
    size_t found = 0;
    bool is_repetitive = false;
    for (size_t i = 0; i < count; i++) {
        of_numbers += columns[i].numbers > 0 && columns[i].texts == 0 && columns[i].size > 0;
        of_texts += columns[i].texts > 0;
        found += columns[i].is_found;
        is_repetitive |= columns[i].size > 0 && columns[i].repeats > 0 &&
                         columns[i].repeats * 2 >= columns[i].texts;
    }
    if (of_numbers > 0) {
        return found * 2 <= of_texts;
    }
    return found == 0 && is_repetitive && !has_twins(columns, count);
}

bool rbt_header_is(const struct rbt_line *line, char separator, size_t column_count,
                   const struct rbt_text *rest)
{
    if (!rbt_header_can_be(line, separator)) {
        return false;
    }
    struct column *columns = rbt_calloc(column_count, sizeof *columns);
    if (columns == NULL) {
        return false;
    }
    const char *p = line->begin;
    for (size_t i = 0; i < column_count && p <= line->end; i++, p++) {
        const struct rbt_cell cell = rbt_cell_at(p, line->end, separator, &p);
        columns[i].name = cell.begin;
        columns[i].size = rbt_cell_size(&cell);
    }
    struct rbt_text left = *rest;
    struct rbt_line next;
    for (int i = 0; i < RBT_LOOK_LINES_MAX && rest->size - left.size < LOOK_SIZE_MAX; i++) {
        if (!rbt_lines_next(&left, &next)) {
            break;
        }
        look_at(columns, column_count, &next, separator);
    }
    const bool is_header = decide(columns, column_count);
    rbt_free(columns);
    return is_header;
}
