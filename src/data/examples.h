/* data/examples.h - what data files become in memory: examples with sparse features, or ratings.
 *
 * Both are read once, by several threads, and are not changed afterwards; examples also part by
 * part. */
#ifndef RUBATO_DATA_EXAMPLES_H
#define RUBATO_DATA_EXAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum rbt_format {
    RBT_FORMAT_AUTO,    /* by the file's name and first lines */
    RBT_FORMAT_LIBSVM,  /* label key:value ..., keys from 1 and increasing */
    RBT_FORMAT_CSV,     /* numbers; column `label_column` is the label; a header line is skipped */
    RBT_FORMAT_RATINGS, /* user item rating [anything], separated by comma, tab, blank or :: */
    RBT_FORMAT_TSV,     /* the same as CSV, always separated by tabs */
    RBT_FORMAT_CRITEO,  /* label, 13 counts, 26 categories, separated by tabs */
    RBT_FORMAT_AVAZU,   /* id, click, hour, categories, separated by commas */
    RBT_FORMAT_BOW,     /* bag of words: lines D, W and N, then N lines: document word count */
    RBT_FORMAT_TEXT,    /* plain text, a document in a line */
};

struct rbt_column_plan; /* data/fields.h */

enum { RBT_NOTE_SIZE = 512 };

struct rbt_data_options {
    const char *const *paths; /* files, directories, globs, or "-" for standard input */
    size_t path_count;
    enum rbt_format format;
    uint32_t threads;       /* that parse; 0: one per core */
    bool is_zero_based;     /* LIBSVM keys start at 0 */
    int64_t label_column;   /* of CSV, from 0; -1 is the last */
    const char *label_name; /* the same as a text: a number, or a name in the header; NULL: look at
                               the number */
    char *note; /* of RBT_NOTE_SIZE bytes: gets a remark on files that have more columns than a
                   model knows; NULL: such files are refused */
    bool is_unlabelled;    /* CSV: all columns are features, and labels are 0 */
    bool ignores_label;    /* what the label's cell of a table holds is not looked at, nor whether
                              there is a rating; they are 0 */
    bool has_binary_label; /* labels must be two values, -1/+1, 0/1 or 1/2; they become -1 and +1 */
    bool has_classes;      /* labels of tables may be any texts, and the plan keeps the list of them
                              (data/classes.h) */
    bool is_binary_only;   /* no loss of the reader takes several classes: for hints */
    float label_positive; /* with has_binary_label: the label that becomes +1, as in the data that a
                             model was trained on; 0: the larger one of those that occur */
    uint32_t hash_bits;   /* features are hashed to so many bits; 0: they stay as they are */
    struct rbt_column_plan *plan; /* of tables with text (data/fields.h), completed by the first
                                     file; NULL: tables only hold numbers */
    size_t column_count; /* files are CSV with so many columns, as those that a model was trained
                            on; 0: anything */
};

/* Example i has label labels[i] and the features keys[k], values[k], k = offsets[i] ..
 * offsets[i+1]-1, keys increasing. Values are finite. */
struct rbt_examples {
    size_t count;
    uint64_t *offsets; /* count + 1 */
    float *labels;
    uint64_t *keys; /* for CSV the number of the column in the file, from 1 and with the label's, of
                       values that are not 0 */
    float *values;
    float label_positive; /* the label that has become +1: 1 or 2; 0 without has_binary_label */
    float label_negative; /* the other one: -1, 0 or 1 */
    size_t column_count;  /* of CSV, with the label's; 0: there was no CSV */
};

/* Rating k: users[k] gave items[k] the rating values[k]. */
struct rbt_ratings {
    size_t count;
    uint64_t *users;
    uint64_t *items;
    float *values;
};

/* Read all files in the order given. On success the caller frees the result; on failure nothing is
 * left behind. Fail with RBT_E_DATA and `cannot read "FILE", line N: what is wrong`, RBT_E_NOTFOUND
 * or RBT_E_IO for files that cannot be opened or read, RBT_E_INVALID for a format that does not
 * fit, RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_examples_read(const struct rbt_data_options *options,
                                          struct rbt_examples *examples);
RBT_MUST_USE rbt_status rbt_ratings_read(const struct rbt_data_options *options,
                                         struct rbt_ratings *ratings);

/* Who gets examples part by part, for files that are larger than memory. */
struct rbt_receiver {
    size_t part_size; /* about so many bytes of text at a time */
    void *context;
    /* `part` is only there during the call. Its labels are as in the file. */
    rbt_status (*take)(void *context, const struct rbt_examples *part);
};

/* With has_binary_label, the labels that stand for +1 and -1, and the number of columns, as in
 * struct rbt_examples. */
struct rbt_labels {
    float positive;
    float negative;
    size_t column_count;
    bool is_unscaled; /* numbers of columns were as in the files: the receiver has to multiply them
                         by the plan's scales, which are known now */
};

/* Reads like rbt_examples_read(), but keeps nothing. What labels mean is only known at the end.
 * With hash_bits, tables with numbers are read twice, which standard input cannot be
 * (RBT_E_INVALID). */
RBT_MUST_USE rbt_status rbt_examples_pass(const struct rbt_data_options *options,
                                          const struct rbt_receiver *receiver,
                                          struct rbt_labels *labels);

/* The same as the first two for one text in memory; paths are not looked at. */
struct rbt_text; /* data/lines.h */
RBT_MUST_USE rbt_status rbt_examples_parse(const struct rbt_data_options *options,
                                           const struct rbt_text *text,
                                           struct rbt_examples *examples);
RBT_MUST_USE rbt_status rbt_ratings_parse(const struct rbt_data_options *options,
                                          const struct rbt_text *text, struct rbt_ratings *ratings);

void rbt_examples_free(struct rbt_examples *examples);

/* Leaves out features that fewer than `count_min` examples have; the examples stay. Fails with
 * RBT_E_NOMEM or RBT_E_INVALID (more than 2^32 - 2 different features). */
RBT_MUST_USE rbt_status rbt_examples_drop_rare(struct rbt_examples *examples, uint64_t count_min);
void rbt_ratings_free(struct rbt_ratings *ratings);

/* What worker `index` of `count` works on: its share of a random order of the examples that depends
 * on `seed` alone, shares differing by at most one example, laid out one after the other with its
 * keys replaced by positions in the sorted list of keys that occur in the share. */
struct rbt_share {
    size_t count;
    uint64_t *offsets; /* count + 1 */
    float *labels;
    uint32_t *indices; /* positions in `keys` */
    float *values;
    uint64_t *keys; /* sorted, unique */
    size_t key_count;
};

RBT_MUST_USE rbt_status rbt_share_take(const struct rbt_examples *examples, uint64_t seed,
                                       uint32_t index, uint32_t count, struct rbt_share *share);
void rbt_share_free(struct rbt_share *share);

/* A share of the examples at these places, in this order. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_share_of(const struct rbt_examples *examples, const uint32_t *places,
                                     size_t count, struct rbt_share *share);

/* The random order of all examples: which one is at each place. The caller frees it with
 * rbt_free(). Fails with RBT_E_INVALID (more than 2^32 - 1 examples) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_share_order(uint64_t seed, size_t count, uint32_t **order);

/* The same for ratings. Users are spread over the workers, so that a user's ratings are all in one
 * share and shares have about equally many ratings; within the share the order is random. */
struct rbt_rating_share {
    size_t count;
    uint32_t *users; /* positions in user_keys */
    uint32_t *items; /* positions in item_keys */
    float *values;
    uint64_t *user_keys; /* sorted, unique */
    size_t user_count;
    uint64_t *item_keys;
    size_t item_count;
};

RBT_MUST_USE rbt_status rbt_rating_share_take(const struct rbt_ratings *ratings, uint64_t seed,
                                              uint32_t index, uint32_t count,
                                              struct rbt_rating_share *share);
void rbt_rating_share_free(struct rbt_rating_share *share);

#endif
