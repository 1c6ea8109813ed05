/* data/header.h - whether the first line of a table names the columns.
 *
 * Names stand where data does not look like them. A line is a header if none of its cells is a
 * number or a word for what is missing, and the lines that follow (up to 1000) say so:
 *
 *     there are columns of numbers    and at most half of the names of the other columns occur
 *                                     again in them
 *     all columns hold text           no name occurs again in its column, no two are the same,
 *                                     and there is a column of few texts
 *
 * All else is data, so that a line is never left out because of one cell. */
#ifndef RUBATO_DATA_HEADER_H
#define RUBATO_DATA_HEADER_H

#include "data/lines.h"

/* Whether the line could be one, as far as it shows by itself. */
bool rbt_header_can_be(const struct rbt_line *line, char separator);

/* `rest` begins behind the line. Without memory for a guess, false. */
bool rbt_header_is(const struct rbt_line *line, char separator, size_t column_count,
                   const struct rbt_text *rest);

#endif
