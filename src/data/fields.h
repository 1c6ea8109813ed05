/* data/fields.h - tables with text in some columns.
 *
 * What a column is stands in a plan: it is made from what the user says, completed by the first
 * file, and kept with the model, so that later files are read the same way.
 *
 *     number      feature `column + 1` with this value, unless it is 0; multiplied by a power of
 *                 two that brings the column near 1, so that it goes with categories
 *     category    a feature for every text, with value 1: its key is a hash of the column and the
 *                 text, so that no dictionary is needed; or its number in one, behind the columns
 *     count       a number with a long tail: a feature for every bucket, 0, 1, 2, then log(x)^2
 *     hour        a category: the last two characters of YYMMDDHH, so that other days have it, too
 *     skipped     nothing
 *
 * Missing cells are no features: empty ones, ?, NA, NaN, null. */
#ifndef RUBATO_DATA_FIELDS_H
#define RUBATO_DATA_FIELDS_H

#include "data/csv.h"
#include "data/examples.h"
#include "data/lines.h"
#include "data/titles.h"

enum rbt_column {
    RBT_COLUMN_NUMBER,
    RBT_COLUMN_CATEGORY,
    RBT_COLUMN_COUNT,
    RBT_COLUMN_HOUR,
    RBT_COLUMN_SKIPPED,
};

enum {
    RBT_FIELDS_MAX = 4096,
    RBT_FIELDS_HASH_VERSION = 2, /* of rbt_fields_hash(): models of another one know other keys */
};

struct rbt_dictionary; /* data/dictionary.h */

struct rbt_column_plan {
    const char *categorical; /* "auto" (what is no number in the first lines), numbers from 0,
                                ranges 3-7, names of the header; commas between; or NULL */
    const char *skipped;     /* the same without "auto", or NULL */
    uint64_t positive; /* rbt_fields_positive() of the label that is 1, the others being 0; or 0:
                          labels are numbers */
    enum rbt_format format;            /* how files are laid out, when the rest is known */
    struct rbt_dictionary *dictionary; /* of texts; until it is closed, files add to it; or NULL */
    bool is_raw;                       /* numbers are not scaled */
    bool is_spread;                    /* scales are by the standard deviation */
    bool is_measuring; /* scales are not known yet, so numbers are as in the files (data/scales.h)
                        */
    bool is_libsvm;    /* from a model of LIBSVM data: tables are refused */
    bool is_loaded;    /* from a model: nobody can say more about columns */
    size_t width; /* columns of any table, also of one that is read without a plan; 0: not known yet
                   */
    size_t target;             /* the label's column, the same; SIZE_MAX: none */
    struct rbt_titles titles;  /* names of the columns; empty: there are none */
    struct rbt_titles classes; /* with has_classes: the labels that are texts, in order; empty: they
                                  are numbers */
    bool has_classes;          /* all training data was read, so that this is known */
    const char *label_asked;   /* what a user says about the label of other files, or NULL */
    size_t count;              /* columns; 0: not known yet */
    size_t label;              /* column */
    uint8_t kinds[RBT_FIELDS_MAX]; /* enum rbt_column */
    float scales[RBT_FIELDS_MAX];  /* what numbers are multiplied with */
};

/* Whether anything is said about columns, so that files are to be read by a plan. */
bool rbt_fields_is_planned(const struct rbt_column_plan *plan);

/* Frees what reading files has added to it. */
void rbt_fields_free(struct rbt_column_plan *plan);

/* What stands for a text in a column, and for a label. Never 0; that of a label has 52 bits, so
 * that a double can hold it. */
uint64_t rbt_fields_hash(const char *text, size_t size, size_t column);
uint64_t rbt_fields_positive(const char *text, size_t size);

/* Completes the plan of the options by the first lines of the text, or sees whether the text fits a
 * plan that is complete. A header is taken off. Fails with RBT_E_DATA and RBT_E_INVALID. */
RBT_MUST_USE rbt_status rbt_fields_open(const struct rbt_data_options *options,
                                        enum rbt_format format, struct rbt_text *text,
                                        struct rbt_csv *csv);

/* Adds the texts of all lines to the plan's dictionary. Fails with RBT_E_DATA and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fields_collect(const struct rbt_csv *csv, const struct rbt_text *text);

/* Parses a line into the struct rbt_builder_sink `context`, which has room for a feature per cell.
 */
rbt_status rbt_fields_line(void *context, const struct rbt_line *line);

#endif
