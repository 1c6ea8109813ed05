/* algo/lda/lda.h - `rubato train lda`. */
#ifndef RUBATO_ALGO_LDA_LDA_H
#define RUBATO_ALGO_LDA_LDA_H

#include "algo/frame/algo.h"

extern const struct rbt_algo rbt_lda;

/* How the servers hold the counts of a word. */
enum rbt_lda_rows_kind {
    RBT_LDA_ROWS_AUTO, /* what fits so many topics */
    RBT_LDA_ROWS_DENSE,
    RBT_LDA_ROWS_SPARSE,
};

/* What the options of `train lda` write into. */
struct rbt_lda_config {
    int64_t topics;
    double alpha;
    double beta;
    int32_t sampler; /* enum rbt_lda_kind */
    int32_t rows;    /* enum rbt_lda_rows_kind */
    const char *vocabulary;
    const char *stop_words;
    int64_t min_count;
    const char *state; /* directory, or NULL */
};

#endif
