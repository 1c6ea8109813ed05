/* algo/lda/lda_sampler.c - draws topics: the dense and the sparse way, and what all have in common.
 *
 * The sparse way (SparseLDA) takes the weight of topic k apart,
 *
 *     (n_dk + a) (n_wk + b) i_k  =  a b i_k  +  n_dk b i_k  +  (n_dk + a) n_wk i_k
 *
 * with i_k = 1 / (n_k + b V). The sums of the first two over all k are kept up to date; the third
 * is not zero only for topics that the word has, and they are few. Which they are is kept as bits,
 * so that no list has to be moved when a count becomes zero. */
#include "algo/lda/lda_sampler.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

/* From so many topics on another sampler is faster; measured, see bench/RESULTS.md. */
enum { SPARSE_TOPICS = 4000, ALIAS_TOPICS = 20000 };

const char *const rbt_lda_kinds[] = {[RBT_LDA_AUTO] = "auto",
                                     [RBT_LDA_DENSE] = "dense",
                                     [RBT_LDA_SPARSE] = "sparse",
                                     [RBT_LDA_ALIAS] = "alias",
                                     NULL};

enum rbt_lda_kind rbt_lda_sampler_choose(enum rbt_lda_kind kind, size_t topic_count)
{
    if (kind != RBT_LDA_AUTO) {
        return kind;
    }
    if (topic_count < SPARSE_TOPICS) {
        return RBT_LDA_DENSE;
    }
    return topic_count < ALIAS_TOPICS ? RBT_LDA_SPARSE : RBT_LDA_ALIAS;
}

rbt_status rbt_lda_sampler_open(struct rbt_lda_sampler *sampler, enum rbt_lda_kind kind,
                                size_t topic_count, size_t word_count)
{
    struct rbt_topics *topics = &sampler->topics;
    RBT_ASSERT(kind != RBT_LDA_AUTO);
    sampler->kind = kind;
    sampler->word_count = word_count;
    topics->topic_count = topic_count;
    topics->sum_moves = rbt_room_take(&sampler->room, topic_count, sizeof *topics->sum_moves);
    topics->document = rbt_room_take(&sampler->room, topic_count, sizeof *topics->document);
    topics->inverses = rbt_room_take(&sampler->room, topic_count, sizeof *topics->inverses);
    topics->weights = rbt_room_take(&sampler->room, topic_count, sizeof *topics->weights);
    topics->scratch = rbt_room_take(&sampler->room, topic_count + 16, sizeof *topics->scratch);
    if (kind == RBT_LDA_SPARSE) {
        sampler->bit_count = (topic_count + 63) / 64;
        sampler->word_bits =
            rbt_room_take(&sampler->room, word_count, sampler->bit_count * sizeof(uint64_t));
        sampler->document_bits =
            rbt_room_take(&sampler->room, sampler->bit_count, sizeof(uint64_t));
        sampler->found = rbt_room_take(&sampler->room, topic_count, sizeof *sampler->found);
    }
    if (sampler->room.is_short) {
        return rbt_fail(RBT_E_NOMEM, "no memory to draw %zu topics of %zu words", topic_count,
                        word_count);
    }
    return kind == RBT_LDA_ALIAS ? rbt_lda_alias_create(topic_count, word_count, &sampler->alias)
                                 : RBT_OK;
}

void rbt_lda_sampler_close(struct rbt_lda_sampler *sampler)
{
    rbt_lda_alias_destroy(sampler->alias);
    rbt_room_free(&sampler->room);
    *sampler = (struct rbt_lda_sampler){0};
}

/* --- Sparse ---------------------------------------------------------------------------------- */

static void set_bit(uint64_t *bits, size_t k)
{
    bits[k / 64] |= 1ULL << (k % 64);
}

static void clear_bit(uint64_t *bits, size_t k)
{
    bits[k / 64] &= ~(1ULL << (k % 64));
}

static void find_bits(struct rbt_lda_sampler *sampler)
{
    const size_t topic_count = sampler->topics.topic_count;
    for (size_t w = 0; w < sampler->word_count; w++) {
        const float *row = sampler->topics.word_topics + w * topic_count;
        uint64_t *bits = sampler->word_bits + w * sampler->bit_count;
        for (size_t b = 0; b < sampler->bit_count; b++) {
            const size_t first = 64 * b;
            const size_t count = topic_count - first < 64 ? topic_count - first : 64;
            uint64_t mask = 0;
            for (size_t k = 0; k < count; k++) {
                mask |= (uint64_t)(row[first + k] > 0) << k;
            }
            bits[b] = mask;
        }
    }
}

static void sum_smoothing(struct rbt_lda_sampler *sampler)
{
    const struct rbt_topics *t = &sampler->topics;
    double sum = 0.0;
    for (size_t k = 0; k < t->topic_count; k++) {
        sum += (double)t->inverses[k];
    }
    sampler->smoothing = sum * (double)t->alpha * (double)t->beta;
}

rbt_status rbt_lda_sampler_refresh(struct rbt_lda_sampler *sampler)
{
    rbt_topics_refresh(&sampler->topics);
    if (sampler->kind == RBT_LDA_SPARSE) {
        find_bits(sampler);
        sum_smoothing(sampler); /* anew, so that rounding errors do not add up */
    }
    return sampler->kind == RBT_LDA_ALIAS ? rbt_lda_alias_refresh(sampler->alias, &sampler->topics)
                                          : RBT_OK;
}

/* Counts a token, or takes it out, and keeps sums and bits up to date. */
static void count_sparse(struct rbt_lda_sampler *sampler, size_t word, size_t k, int32_t by)
{
    struct rbt_topics *t = &sampler->topics;
    float *row = t->word_topics + word * t->topic_count;
    const double alpha = (double)t->alpha;
    const double beta = (double)t->beta;
    const double before = (double)t->inverses[k];
    const double count = (double)t->document[k];
    rbt_topics_count(t, row, k, by);
    const double after = (double)t->inverses[k];
    sampler->smoothing += alpha * beta * (after - before);
    sampler->shared += beta * ((count + by) * after - count * before);
    uint64_t *bits = sampler->word_bits + word * sampler->bit_count;
    if (by > 0) {
        set_bit(bits, k);
        set_bit(sampler->document_bits, k);
        return;
    }
    if (row[k] <= 0) {
        clear_bit(bits, k);
    }
    if (t->document[k] == 0) {
        clear_bit(sampler->document_bits, k);
    }
}

/* The topics whose bits are set, and the running sums of their weights. Returns their number. */
static size_t gather(struct rbt_lda_sampler *sampler, const uint64_t *bits, const float *row,
                     float *sum)
{
    const struct rbt_topics *t = &sampler->topics;
    size_t count = 0;
    float running = 0;
    for (size_t b = 0; b < sampler->bit_count; b++) {
        for (uint64_t mask = bits[b]; mask != 0; mask &= mask - 1) {
            const size_t k = 64 * b + (size_t)__builtin_ctzll(mask);
            running += row[k] * t->weights[k];
            t->scratch[count] = running;
            sampler->found[count++] = (uint16_t)k;
        }
    }
    *sum = running;
    return count;
}

/* Draws among the topics of the document by n_dk b i_k. */
static size_t draw_shared(const struct rbt_lda_sampler *sampler, double wanted)
{
    const struct rbt_topics *t = &sampler->topics;
    size_t last = 0;
    for (size_t b = 0; b < sampler->bit_count; b++) {
        for (uint64_t mask = sampler->document_bits[b]; mask != 0; mask &= mask - 1) {
            last = 64 * b + (size_t)__builtin_ctzll(mask);
            wanted -= (double)t->beta * (double)t->document[last] * (double)t->inverses[last];
            if (wanted < 0) {
                return last;
            }
        }
    }
    return last;
}

/* Draws among all topics by a b i_k. */
static size_t draw_any(const struct rbt_lda_sampler *sampler, double wanted)
{
    const struct rbt_topics *t = &sampler->topics;
    const double factor = (double)t->alpha * (double)t->beta;
    size_t k = 0;
    for (; k + 1 < t->topic_count; k++) {
        wanted -= factor * (double)t->inverses[k];
        if (wanted < 0) {
            break;
        }
    }
    return k;
}

static size_t draw_sparse(struct rbt_lda_sampler *sampler, size_t word)
{
    struct rbt_topics *t = &sampler->topics;
    float own = 0; /* of the topics that the word has */
    const size_t count = gather(sampler, sampler->word_bits + word * sampler->bit_count,
                                t->word_topics + word * t->topic_count, &own);
    const bool has_shared = sampler->shared > 0;
    const double total = (double)own + (has_shared ? sampler->shared : 0.0) + sampler->smoothing;
    const double wanted = (double)rbt_topics_uniform(&t->random) * total;
    if (wanted < (double)own) {
        size_t at = 0;
        while (at + 1 < count && t->scratch[at] <= (float)wanted) {
            at++;
        }
        return sampler->found[at];
    }
    const double rest = wanted - (double)own;
    return has_shared && rest < sampler->shared ? draw_shared(sampler, rest)
                                                : draw_any(sampler, rest - sampler->shared);
}

static void run_sparse(struct rbt_lda_sampler *sampler, size_t first, size_t end)
{
    struct rbt_topics *t = &sampler->topics;
    for (size_t d = first; d < end; d++) {
        rbt_topics_enter(t, d);
        sampler->shared = 0;
        for (uint64_t i = t->offsets[d]; i < t->offsets[d + 1]; i++) {
            const size_t k = t->topics[i];
            set_bit(sampler->document_bits, k);
            sampler->shared += (double)t->beta * (double)t->inverses[k];
        }
        for (uint64_t i = t->offsets[d]; i < t->offsets[d + 1]; i++) {
            const size_t word = t->words[i];
            const size_t old = t->topics[i];
            count_sparse(sampler, word, old, -1);
            const size_t drawn = draw_sparse(sampler, word);
            count_sparse(sampler, word, drawn, 1);
            if (drawn != old) {
                t->topics[i] = (uint16_t)drawn;
                rbt_topics_move(t, word, old, drawn);
            }
        }
        memset(sampler->document_bits, 0, sampler->bit_count * sizeof *sampler->document_bits);
        rbt_topics_leave(t, d);
    }
}

void rbt_lda_sampler_run(struct rbt_lda_sampler *sampler, size_t first, size_t end)
{
    switch (sampler->kind) {
    case RBT_LDA_DENSE:
        rbt_topics_dense(&sampler->topics, first, end);
        return;
    case RBT_LDA_SPARSE:
        run_sparse(sampler, first, end);
        return;
    case RBT_LDA_ALIAS:
        rbt_lda_alias_run(sampler->alias, &sampler->topics, first, end);
        return;
    case RBT_LDA_AUTO:
        break;
    }
    RBT_UNREACHABLE();
}
