/* algo/lda/lda_words.h - topics for people and for other programs: their words, and all counts. */
#ifndef RUBATO_ALGO_LDA_LDA_WORDS_H
#define RUBATO_ALGO_LDA_LDA_WORDS_H

#include <stdio.h>

#include <rubato/status.h>

#include "algo/frame/model.h"

/* Counts of words: row i is word keys[i]'s, by topic. */
struct rbt_lda_rows {
    const uint64_t *keys;
    const float *values; /* (count, width) */
    size_t count;
    size_t width;
};

/* The most frequent words of a topic, the first first, at most `count` and 32; how many. */
size_t rbt_lda_words_top(const struct rbt_lda_rows *rows, size_t topic, size_t count,
                         uint64_t *keys);

/* For the registry. `word topic:count ...`, one line per word; `topic share word ...`, one line per
 * topic; and what `rubato info` shows. Topics are numbered from 1; words that have no names are
 * their numbers. */
rbt_status rbt_lda_words_write_counts(const struct rbt_model *model, FILE *out);
rbt_status rbt_lda_words_write_topics(const struct rbt_model *model, FILE *out);
void rbt_lda_words_describe(const struct rbt_model *model, FILE *out);

#endif
