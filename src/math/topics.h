/* math/topics.h - draws topics of words: the inner loops of latent Dirichlet allocation.
 *
 * Collapsed Gibbs sampling takes a token i with word w of document d out of the counts and draws
 * its topic z from
 *
 *     P(z = k) ~ (n_dk + alpha) (n_wk + beta) / (n_k + beta V)
 *
 * where n_dk, n_wk and n_k count the other tokens of the document, of the word and of all words
 * that have topic k. Then it is counted again.
 *
 * Threads: any, each with its own struct. */
#ifndef RUBATO_MATH_TOPICS_H
#define RUBATO_MATH_TOPICS_H

#include <stddef.h>
#include <stdint.h>

/* K topics; the caller makes room, and calls rbt_topics_refresh() when `sums` have changed. */
struct rbt_topics {
    size_t topic_count; /* K, at most 65536 */
    float alpha;
    float beta;
    float beta_sum; /* beta V */

    float *word_topics; /* n_wk: (words, K) */
    float *word_moves;  /* the same: what is added to n_wk is added here too; NULL: it is not */
    float *sums;        /* n_k: (K) */
    int32_t *sum_moves; /* (K): what has been added to n_k */

    int32_t *document; /* n_dk: (K), all zero between documents */
    float *inverses;   /* (K): 1 / (n_k + beta V) */
    float *weights;    /* (K): (n_dk + alpha) / (n_k + beta V) */
    float *scratch;    /* (K + 16) */

    const uint64_t *offsets; /* tokens of document d: offsets[d] .. offsets[d+1]-1 */
    const uint32_t *words;   /* of each token */
    uint16_t *topics;        /* of each token */
    const double *logs;      /* log(n + alpha), n from 0 to the longest document */

    uint64_t random;      /* state; another number for another stream */
    double log_documents; /* what is added: sum over documents and topics of
                             log Gamma(n_dk + alpha) - log Gamma(alpha), after sampling */
};

/* Computes `inverses` and `weights` from `sums`, between two documents. */
void rbt_topics_refresh(struct rbt_topics *topics);

/* Draws the topics of all tokens of documents first .. end-1, looking at all K topics of each. The
 * fastest version that this processor runs (see choose.h). */
void rbt_topics_dense(struct rbt_topics *topics, size_t first, size_t end);

/* The next random number of a stream, and as one in [0, 1) with 24 random bits. */
static inline uint64_t rbt_topics_next(uint64_t *random)
{
    *random += 0x9e3779b97f4a7c15U; /* splitmix64 */
    uint64_t z = *random;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

static inline float rbt_topics_uniform(uint64_t *random)
{
    return (float)(rbt_topics_next(random) >> 40) * 0x1p-24F;
}

/* Takes a token with this topic out of the counts (by = -1), or counts it (by = 1). */
static inline void rbt_topics_count(struct rbt_topics *t, float *row, size_t k, int32_t by)
{
    row[k] += (float)by;
    t->sums[k] += (float)by;
    t->document[k] += by;
    t->inverses[k] = 1.0F / (t->sums[k] + t->beta_sum);
    t->weights[k] = ((float)t->document[k] + t->alpha) * t->inverses[k];
}

/* A token of word w has gone from one topic to another. */
static inline void rbt_topics_move(struct rbt_topics *t, size_t word, size_t from, size_t to)
{
    t->sum_moves[from]--;
    t->sum_moves[to]++;
    if (t->word_moves != NULL) {
        t->word_moves[word * t->topic_count + from] -= 1.0F;
        t->word_moves[word * t->topic_count + to] += 1.0F;
    }
}

/* Counts the tokens of a document, before sampling; forgets them afterwards and adds to
 * log_documents. */
void rbt_topics_enter(struct rbt_topics *topics, size_t document);
void rbt_topics_leave(struct rbt_topics *topics, size_t document);

/* The versions of rbt_topics_dense(). */
void rbt_topics_dense_baseline(struct rbt_topics *topics, size_t first, size_t end);
#if defined(__x86_64__)
void rbt_topics_dense_avx2(struct rbt_topics *topics, size_t first, size_t end);
void rbt_topics_dense_avx512(struct rbt_topics *topics, size_t first, size_t end);
#endif

#endif
