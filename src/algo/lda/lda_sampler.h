/* algo/lda/lda_sampler.h - ways to draw the topics of all tokens of a document once.
 *
 * All draw from the same distribution (math/topics.h). `dense` looks at all K topics of a token and
 * is vector code; `sparse` only at those that the document or the word has; `alias` proposes topics
 * in constant time and accepts or refuses them.
 *
 * Threads: a sampler belongs to one. */
#ifndef RUBATO_ALGO_LDA_LDA_SAMPLER_H
#define RUBATO_ALGO_LDA_LDA_SAMPLER_H

#include <rubato/export.h>
#include <rubato/status.h>

#include "algo/frame/room.h"
#include "math/topics.h"

enum rbt_lda_kind {
    RBT_LDA_AUTO, /* what is fastest with so many topics */
    RBT_LDA_DENSE,
    RBT_LDA_SPARSE,
    RBT_LDA_ALIAS,
};

extern const char *const rbt_lda_kinds[]; /* their names, ended by NULL */

struct rbt_lda_alias; /* lda_alias.c */

struct rbt_lda_sampler {
    struct rbt_room room;   /* of all arrays that are its own */
    enum rbt_lda_kind kind; /* not AUTO */
    size_t word_count;
    struct rbt_topics topics; /* the caller fills in what it points to from word_topics to sums, and
                                 from offsets to random */
    /* Of `sparse`: which topics a word and the document have, as bits, and sums of weights. */
    uint64_t *word_bits; /* (words, bit_count) */
    uint64_t *document_bits;
    size_t bit_count; /* in units of 64 */
    uint16_t *found;
    double smoothing; /* sum of alpha beta / (n_k + beta V) */
    double shared;    /* sum of n_dk beta / (n_k + beta V) */
    struct rbt_lda_alias *alias;
};

/* The kind that is meant by AUTO with so many topics. */
enum rbt_lda_kind rbt_lda_sampler_choose(enum rbt_lda_kind kind, size_t topic_count);

/* Makes room for `topic_count` topics; alpha, beta and beta_sum in `sampler->topics` are set by the
 * caller. Fails with RBT_E_NOMEM; may then be closed. */
RBT_MUST_USE rbt_status rbt_lda_sampler_open(struct rbt_lda_sampler *sampler,
                                             enum rbt_lda_kind kind, size_t topic_count,
                                             size_t word_count);
void rbt_lda_sampler_close(struct rbt_lda_sampler *sampler);

/* To be called when the counts of words or the sums have changed from outside, between documents.
 * Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_lda_sampler_refresh(struct rbt_lda_sampler *sampler);

/* Draws the topics of all tokens of documents first .. end-1. */
void rbt_lda_sampler_run(struct rbt_lda_sampler *sampler, size_t first, size_t end);

/* For lda_sampler.c: the alias sampler. */
RBT_MUST_USE rbt_status rbt_lda_alias_create(size_t topic_count, size_t word_count,
                                             struct rbt_lda_alias **alias);
void rbt_lda_alias_destroy(struct rbt_lda_alias *alias);
RBT_MUST_USE rbt_status rbt_lda_alias_refresh(struct rbt_lda_alias *alias,
                                              const struct rbt_topics *topics);
void rbt_lda_alias_run(struct rbt_lda_alias *alias, struct rbt_topics *topics, size_t first,
                       size_t end);

#endif
