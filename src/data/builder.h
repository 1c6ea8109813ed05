/* data/builder.h - collects the examples of several files that several threads parse.
 *
 * Per file: reserve room for what the chunks can hold at most, let each thread fill its own part of
 * the arrays through a sink, then close the gaps. At the end the examples are taken out.
 *
 * Threads: a sink belongs to one thread; all else is called by one. */
#ifndef RUBATO_DATA_BUILDER_H
#define RUBATO_DATA_BUILDER_H

#include "data/examples.h"
#include "data/lines.h"
#include "data/scales.h"
#include "data/vocabulary.h"

struct rbt_csv; /* data/csv.h */

/* The first line that has a certain label. */
struct rbt_label_place {
    float label;
    size_t line;
};

/* Three different labels are enough to know that they are not two. */
enum { RBT_LABELS_MAX = 3 };

/* Where one thread puts the examples of its chunk. */
struct rbt_builder_sink {
    const struct rbt_data_options *options;
    const struct rbt_csv *csv; /* NULL for other formats */
    uint64_t *ends;            /* of each example, from the beginning of the chunk's features */
    float *labels;
    uint64_t *keys;
    float *values;
    size_t count;
    size_t nonzero_count;
    struct rbt_vocabulary classes; /* labels that are texts (data/classes.h) */
    uint64_t *numbers;             /* of each column, those met; NULL: nobody wants to know */
    size_t unknown_count;          /* cells that a dictionary does not have */
    struct rbt_label_place places[RBT_LABELS_MAX]; /* different labels in the order met */
    size_t place_count;
};

struct rbt_builder {
    struct rbt_examples examples;
    size_t capacity; /* of examples */
    size_t nonzero_count;
    size_t nonzero_capacity;
    float labels[2]; /* different labels so far, with has_binary_label */
    size_t label_count;
    const char *label_name;        /* the file of the first label, borrowed until the end */
    size_t label_line;             /* and its line */
    struct rbt_vocabulary classes; /* the same, of all sinks */
    struct rbt_scales scales;      /* of numbers, while a plan measures them */
};

/* Makes sinks for the chunks, with room for a row per line and `nonzero_max[i]` features in chunk
 * i. The caller frees the array with rbt_free(). Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_builder_reserve(struct rbt_builder *builder,
                                            const struct rbt_chunks *chunks,
                                            const size_t *nonzero_max,
                                            struct rbt_builder_sink **sinks);

/* Sorts the features that were written behind sink->nonzero_count, up to `nonzero_count`, and adds
 * up those with the same key; says where they end now. */
size_t rbt_builder_tidy(struct rbt_builder_sink *sink, size_t nonzero_count);

/* Ends an example whose features were written behind sink->nonzero_count. With hash_bits, they are
 * hashed and made tidy, unless numbers among them are to be measured first. */
void rbt_builder_row(struct rbt_builder_sink *sink, float label, size_t nonzero_count, size_t line);

/* Adds what the sinks hold to the examples. */
void rbt_builder_gather(struct rbt_builder *builder, const struct rbt_builder_sink *sinks,
                        uint32_t count);

/* Hashes the features of all examples, if that was put off. */
void rbt_builder_hash(struct rbt_builder *builder, uint32_t bits);

/* Looks at the different labels of the sinks. Fails with RBT_E_DATA at the first label that makes
 * it impossible to see two classes. */
RBT_MUST_USE rbt_status rbt_builder_check(struct rbt_builder *builder, const char *name,
                                          const struct rbt_builder_sink *sinks, uint32_t count);

/* Turns the labels into -1 and +1, once all files are read. `positive` is the label that becomes
 * +1, or 0 for the larger one. */
RBT_MUST_USE rbt_status rbt_builder_classify(struct rbt_builder *builder, float positive);

#endif
