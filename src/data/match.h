/* data/match.h - which column of a file is which column of the training data.
 *
 * The first file that is read says how many columns there are, what they are called, if it has a
 * header, and which one is the label. In later files, and in those that a model is applied to,
 * columns are found by their names if both have some, in any order; others may be there, too, if
 * somebody can be told about it. Without names columns go by their places.
 *
 * Who does not look at labels need not have their column. */
#ifndef RUBATO_DATA_MATCH_H
#define RUBATO_DATA_MATCH_H

#include "data/csv.h"
#include "data/fields.h"

/* Whether the line has the names of the plan's columns, or most of them. */
bool rbt_match_is_header(const struct rbt_column_plan *plan, const struct rbt_line *line,
                         char separator);

/* The label's column of the first file, which the options name or number. Fails with
 * RBT_E_INVALID. */
RBT_MUST_USE rbt_status rbt_match_label(const struct rbt_data_options *options, const char *file,
                                        struct rbt_csv *csv);

/* Keeps what the first file shows. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_match_begin(struct rbt_column_plan *plan, const struct rbt_csv *csv);

/* Finds the columns of another file, whose header is known: `order` and `label_column`; the caller
 * frees the former with rbt_free(). Fails with RBT_E_DATA and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_match_columns(const struct rbt_data_options *options, const char *file,
                                          struct rbt_csv *csv);

#endif
