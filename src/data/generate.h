/* data/generate.h - data sets whose truth is known, made from a seed.
 *
 * Beside the data F a file F.truth says what the data were made from, so that tests can compare a
 * model with it. The same options give the same bytes. */
#ifndef RUBATO_DATA_GENERATE_H
#define RUBATO_DATA_GENERATE_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* Examples in LIBSVM's format with labels -1 and +1 (`rubato gen sparse`). */
struct rbt_generate_sparse {
    const char *path;
    uint64_t seed;
    uint64_t examples;
    uint64_t features; /* keys are 1 .. features */
    uint64_t nonzeros; /* per example, at most `features` */
    double power;      /* feature k is about k^-power times as frequent as feature 1; from 0 */
    double noise;      /* probability that a label is turned around, from 0 to 0.5 */
};

/* Writes examples x with P(label = +1) = 1 / (1 + exp(-w.x)), values in -1 .. 1, and the truth as
 * lines `key weight`. Fails with RBT_E_INVALID (an option out of range), RBT_E_IO, RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_generate_sparse(const struct rbt_generate_sparse *options);

/* Examples in LIBSVM's format as those of advertisements (`rubato gen clicks`). */
struct rbt_generate_clicks {
    const char *path;
    uint64_t seed;
    uint64_t examples;
    uint64_t columns; /* each has one value per example */
    uint64_t
        vocabulary; /* values of the last column, from 2; the first has 2, or as many if alone */
    double power;   /* value k of a column is about k^-power times as frequent as value 1 */
    double noise;   /* probability that a label is turned around, from 0 to 0.5 */
};

/* Writes examples with one feature of value 1 per column; a value of a column is a feature, those
 * of the first column come first, keys start at 1. Every fifth or so has a weight, and the labels
 * are +1 with P = 1 / (1 + exp(-(bias + sum of weights))), one in five in all before noise. The
 * truth is a line `bias B` and lines `key weight` of the features that have one. Fails as above. */
RBT_MUST_USE rbt_status rbt_generate_clicks(const struct rbt_generate_clicks *options);

/* Lines `user,item,rating` after a header (`rubato gen ratings`). */
struct rbt_generate_ratings {
    const char *path;
    uint64_t seed;
    uint64_t users; /* numbered from 1 */
    uint64_t items; /* numbered from 1 */
    uint64_t ratings;
    uint64_t rank; /* length of the factors */
    double noise;  /* standard deviation of what is added to the product of the factors */
};

/* Writes ratings, sorted by user, of pairs that all differ; few users and items have most of them.
 * The truth has lines `user U f1 f2 ...` and `item I f1 f2 ...`. A rating is the product of the two
 * factors, about 3, and noise. Fails with RBT_E_INVALID, RBT_E_IO, RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_generate_ratings(const struct rbt_generate_ratings *options);

/* Points around centres, as CSV without a label (`rubato gen blobs`). */
struct rbt_generate_blobs {
    const char *path;
    uint64_t seed;
    uint64_t points;
    uint64_t dims;
    uint64_t clusters;
    double spread; /* standard deviation of a coordinate around its centre's */
};

/* Writes lines `x1,x2,...` after a header. Centres are uniform in [-10, 10), a point belongs to
 * each cluster with the same chance. The truth has lines `centre C x1 x2 ...`. Fails as above. */
RBT_MUST_USE rbt_status rbt_generate_blobs(const struct rbt_generate_blobs *options);

/* A stream of keys, one per line (`rubato gen stream`). */
struct rbt_generate_stream {
    const char *path;
    uint64_t seed;
    uint64_t inserts; /* lines */
    uint64_t keys;    /* different ones there can be: 1 .. keys */
    double power;     /* key k is about k^-power times as frequent as key 1; from 0 */
};

/* The truth has lines `key count` of all keys that occur. Fails as above. */
RBT_MUST_USE rbt_status rbt_generate_stream(const struct rbt_generate_stream *options);

/* A bag of words in the format of the UCI repository (`rubato gen documents`). */
struct rbt_generate_documents {
    const char *path;
    uint64_t seed;
    uint64_t documents;
    uint64_t words;  /* of the vocabulary; the first are the most frequent */
    uint64_t tokens; /* occurrences of words, in all documents */
    uint64_t topics;
};

/* Writes documents that are mixtures of topics. The truth has a line `topic K w1 w2 ...` for each
 * topic, with its 20 most likely words, the first first. Fails with RBT_E_INVALID, RBT_E_IO,
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_generate_documents(const struct rbt_generate_documents *options);

#endif
