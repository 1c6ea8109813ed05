/* data/csv.h - tables of numbers as text, one column being the label. */
#ifndef RUBATO_DATA_CSV_H
#define RUBATO_DATA_CSV_H

#include "data/examples.h"
#include "data/lines.h"

/* How the file is laid out, as its first line shows. */
struct rbt_csv {
    char separator; /* comma, tab or semicolon */
    size_t column_count;
    size_t label_column; /* from 0; SIZE_MAX: none */
    bool has_header;
    struct rbt_line header;             /* names of the columns; inside the text */
    const struct rbt_column_plan *plan; /* data/fields.h; NULL: all columns are numbers */
    size_t *order; /* of each column, that of the training data, SIZE_MAX: it is left out; NULL: as
                      they come (data/match.h) */
    bool is_matched; /* by names, or without a label: the number of columns may be another one */
};

/* The column of the training data that a column of the file is. */
static inline size_t rbt_csv_place(const struct rbt_csv *csv, size_t column)
{
    return csv->order == NULL ? column : csv->order[column];
}

/* Looks at the first line of the text, and takes it off the text if it is a header (data/header.h).
 * The label's column is not known yet. Fails with RBT_E_DATA (no lines). */
RBT_MUST_USE rbt_status rbt_csv_look(const struct rbt_data_options *options, enum rbt_format format,
                                     struct rbt_text *text, struct rbt_csv *csv);

/* The same for tables of numbers, with their columns. Fails also with RBT_E_INVALID (no such
 * column). The caller frees `order` with rbt_free(). */
RBT_MUST_USE rbt_status rbt_csv_open(const struct rbt_data_options *options, struct rbt_text *text,
                                     struct rbt_csv *csv);

/* The column with this name in the header. */
bool rbt_csv_find(const struct rbt_csv *csv, const char *name, size_t size, size_t *column);

/* Parses a line into the struct rbt_builder_sink `context`, which has room for a feature per cell.
 */
rbt_status rbt_csv_line(void *context, const struct rbt_line *line);

/* For tables of other kinds: the end of the cell at `p`, a separator or the end of the line; and
 * what follows the number of a column in messages: its name in brackets, or where numbers start. */
const char *rbt_csv_end(const char *p, const char *end, char separator);
struct rbt_word rbt_csv_name(const struct rbt_csv *csv, size_t column);

/* A cell for messages: without quotes around it, with the blanks inside it, and cut short if it is
 * long. */
struct rbt_word rbt_csv_quote(const char *begin, const char *end);

/* Says what can be done about a label that is text, to those who can do something. */
rbt_status rbt_csv_hint_label(const struct rbt_data_options *options, rbt_status st);

#endif
