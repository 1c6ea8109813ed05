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
};

/* Looks at the first line of the text, and takes it off the text if it is a header: if a cell
 * begins with a letter. Fails with RBT_E_DATA (no lines) and RBT_E_INVALID (no such column).
 */
RBT_MUST_USE rbt_status rbt_csv_open(const struct rbt_data_options *options, struct rbt_text *text,
                                     struct rbt_csv *csv);

/* Parses a line into the struct rbt_sink `context`, which has room for a feature per cell. */
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
