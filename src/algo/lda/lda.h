/* algo/lda/lda.h - `rubato train lda`. */
#ifndef RUBATO_ALGO_LDA_LDA_H
#define RUBATO_ALGO_LDA_LDA_H

#include "algo/frame/algo.h"

extern const struct rbt_algo rbt_lda;

enum { RBT_MODEL_LDA = 3 }; /* the kind of its models */

/* How the servers hold the counts of a word. */
enum rbt_lda_rows_kind {
    RBT_LDA_ROWS_AUTO, /* what fits so many topics */
    RBT_LDA_ROWS_DENSE,
    RBT_LDA_ROWS_SPARSE,
};

/* The options of `train lda`, and what they write into. */
#define RBT_LDA_OPTIONS(OPTION)                                                                    \
    OPTION(INT, topics, "topics", .min = 1, .max = TOPICS_MAX, .value = "100",                     \
           .help = "Number of topics.")                                                            \
    OPTION(REAL, alpha, "alpha", .min = 1e-6, .max = 1e6, .value = "0.1",                          \
           .help =                                                                                 \
               "Prior count of each topic in a document; small for documents about few topics.")   \
    OPTION(REAL, beta, "beta", .min = 1e-6, .max = 1e6, .value = "0.1",                            \
           .help = "Prior count of each word in a topic; small for topics of few words.")          \
    OPTION(CHOICE, sampler, "sampler", .choices = rbt_lda_kinds, .value = "auto",                  \
           .help = "How topics are drawn. dense considers all topics, sparse those of the word "   \
                   "or the document, alias a few, which suits thousands of topics. auto takes "    \
                   "the fastest for the number of topics.")                                        \
    OPTION(CHOICE, rows, "rows", .choices = rows_kinds, .value = "auto",                           \
           .help = "How servers store the counts of a word: dense, for all topics; sparse, for "   \
                   "topics that the word has, which needs less memory and traffic but is slower "  \
                   "below some thousand topics. auto takes sparse from 4000 topics.")              \
    OPTION(TEXT, vocabulary, "vocab", .unit = "FILE",                                              \
           .help = "The words behind the numbers in the data, one per line; with text the words "  \
                   "to keep.")                                                                     \
    OPTION(INT, min_count, "min-count", .min = 1, .max = 1e9, .value = "5",                        \
           .help = "Leave out words of text that occur less often.")                               \
    OPTION(TEXT, stop_words, "stop-words", .unit = "FILE",                                         \
           .help = "Words of text to leave out, one per line.")                                    \
    OPTION(TEXT, state, "state", .unit = "DIR",                                                    \
           .help =                                                                                 \
               "Keep the topics of all tokens in files of this directory instead of in memory. "   \
               "If it already has some, training continues from them for --epochs more passes.")

struct rbt_lda_config {
    RBT_LDA_OPTIONS(RBT_OPTION_FIELD)
};

#endif
