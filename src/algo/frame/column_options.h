/* algo/frame/column_options.h - the options about columns with text, for algorithms that read
 * examples; and how a model remembers them.
 *
 *     struct rbt_my_config { ...; struct rbt_column_config columns; };
 *     #define COLUMN(kind, field, ...) ENTRY(kind, columns.field, __VA_ARGS__)
 *     static const struct rbt_option my_options[] = {... RBT_COLUMN_OPTIONS(COLUMN, COLUMN)};
 *
 *     rbt_column_options_apply(&config->columns, &plan, &data);     // then the data is read
 *     st = rbt_column_options_store(&data, model);                  // then the model is written
 *     st = rbt_column_options_load(model, &plan, &data);            // in predict and eval
 */
#ifndef RUBATO_ALGO_FRAME_COLUMN_OPTIONS_H
#define RUBATO_ALGO_FRAME_COLUMN_OPTIONS_H

#include <stdio.h>

#include "algo/frame/model.h"
#include "base/option.h"
#include "data/examples.h"
#include "data/fields.h"

/* LABELLED is for algorithms that have a label: OPTION, or a macro that leaves its options out. */
#define RBT_COLUMN_OPTIONS(OPTION, LABELLED)                                                       \
    OPTION(TEXT, categorical, "categorical", .group = RBT_GROUP_DATA, .unit = "COLUMNS",           \
           .help = "Columns of tables that hold text, or numbers that are only names: auto, "      \
                   "column numbers from 0, ranges, or names from the header, as in auto,3,7-9. "   \
                   "Every text becomes a feature.")                                                \
    OPTION(TEXT, skip, "skip", .unit = "COLUMNS", .help = "Columns of tables to ignore.")          \
    LABELLED(TEXT, positive, "positive", .unit = "TEXT",                                           \
             .help = "Label of the positive class, for tables whose labels are texts.")            \
    OPTION(INT, hash_bits, "hash", .min = 1, .max = 62, .unit = "bits",                            \
           .help = "Hash features to N bits, which gives at most 2^N features.")

struct rbt_column_config {
    RBT_COLUMN_OPTIONS(RBT_OPTION_FIELD, RBT_OPTION_FIELD)
};

/* Makes the plan, and names it and the rest in `data`. */
void rbt_column_options_apply(const struct rbt_column_config *config, struct rbt_column_plan *plan,
                              struct rbt_data_options *data);

/* Keeps what `data` says about columns, after files were read, with the model. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_column_options_store(const struct rbt_data_options *data,
                                                 struct rbt_model *model);

/* The number of columns of the CSV files that a model was trained on, which others must have, too;
 * 0: it was LIBSVM data, or the model does not say. */
void rbt_column_options_keep_count(size_t count, struct rbt_model *model);
size_t rbt_column_options_count(const struct rbt_model *model);

/* The label's column of tables of numbers, which are read without a plan; `count` columns. */
void rbt_column_options_keep_label(const struct rbt_data_options *data, size_t count,
                                   struct rbt_model *model);

/* What the numbers of a feature are multiplied with before the model sees them; 1 for others. An
 * export has weights of numbers as they are in files. */
float rbt_column_options_unit(const struct rbt_model *model, uint64_t key);

/* What the features of a model stand for. */
struct rbt_feature_names {
    size_t column_count;
    struct rbt_title_cursor columns;
    struct rbt_title_cursor words; /* of the dictionary */
};
struct rbt_feature_names rbt_column_options_names(const struct rbt_model *model);

/* Writes what a feature stands for as a cell of CSV: the name of its column, and of a text in a
 * dictionary "column=text"; its number if nothing is known. Fast if keys increase. */
void rbt_column_options_write_feature(struct rbt_feature_names *names, uint64_t key, FILE *out);

/* Writes a text as a cell of CSV, in quotes if it needs them. */
void rbt_column_options_write_cell(const char *text, FILE *out);

/* Says for people what the columns of tables with text hold; nothing about other models. */
void rbt_column_options_describe(const struct rbt_model *model, FILE *out);

/* Puts it into `data` again. A model without is read as tables of numbers are. Fails with
 * RBT_E_DATA if it makes no sense. */
RBT_MUST_USE rbt_status rbt_column_options_load(const struct rbt_model *model,
                                                struct rbt_column_plan *plan,
                                                struct rbt_data_options *data);

#endif
