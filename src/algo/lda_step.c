/* algo/lda_step.c - a worker's part of `rubato train lda`: its documents, and a clock of sampling.
 *
 * The worker pulls the rows of its words and the row of sums, samples its documents, and pushes how
 * the counts have changed. Its random numbers follow from the seed, the worker and the clock. */
#include "algo/lda_job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/lda_words.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"

enum { NOTE_WORDS = 8, NOTE_WIDTH = 72 };
enum { EXCHANGE_TOKENS = 256 };        /* after about so many, rows may travel early */
enum { STREAM_INITIAL = 0x6c646169 };  /* "ldai": the first topics */
enum { STREAM_SAMPLING = 0x6c646173 }; /* "ldas" */

/* Estimates for one core and the dense sampler; `rubato bench cost` does not measure lda. */
const struct rbt_algo_cost rbt_lda_costs[RBT_LDA_COST_COUNT] = {
    [RBT_LDA_COST_TOKEN] = {"token", 35.0},
    [RBT_LDA_COST_TOKEN_TOPIC] = {"token_topic", 0.35},
    [RBT_LDA_COST_ELEMENT] = {"element", 4.7},
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its documents");
}

static double log_gamma(double x)
{
    int sign = 0;
    return lgamma_r(x, &sign); /* lgamma() writes the sign where other threads may, too */
}

/* --- Before the first clock ------------------------------------------------------------------ */

/* Room for what a worker has of its own. */
static rbt_status make_room(const struct rbt_lda_job *lda, struct rbt_lda_worker *w)
{
    const struct rbt_document_share *share = &w->share;
    uint64_t longest = 0;
    for (size_t d = 0; d < share->count; d++) {
        const uint64_t size = share->offsets[d + 1] - share->offsets[d];
        longest = size > longest ? size : longest;
    }
    w->topics = rbt_calloc(share->offsets[share->count], sizeof *w->topics);
    w->word_counts = rbt_calloc(share->key_count, sizeof *w->word_counts);
    w->logs = rbt_calloc(longest + 1, sizeof *w->logs);
    w->constants = rbt_calloc(share->count + 1, sizeof *w->constants);
    w->parts = rbt_calloc((size_t)lda->clocks_per_epoch, sizeof *w->parts);
    w->sums = rbt_calloc((size_t)lda->config.topics, sizeof *w->sums);
    if (w->topics == NULL || w->word_counts == NULL || w->logs == NULL || w->constants == NULL ||
        w->parts == NULL || w->sums == NULL) {
        return no_memory();
    }
    const double alpha_sum = lda->config.alpha * (double)lda->config.topics;
    for (size_t d = 0; d < share->count; d++) {
        const uint64_t size = share->offsets[d + 1] - share->offsets[d];
        w->constants[d + 1] =
            w->constants[d] + log_gamma(alpha_sum) - log_gamma((double)size + alpha_sum);
    }
    for (uint64_t n = 0; n <= longest; n++) {
        w->logs[n] = log((double)n + lda->config.alpha);
    }
    rbt_lda_logs_init(&w->word_logs, lda->config.beta);
    return RBT_OK;
}

static rbt_status open_sampler(const struct rbt_lda_job *lda, struct rbt_lda_worker *w)
{
    struct rbt_topics *topics = &w->sampler.topics;
    const double beta_sum = lda->config.beta * (double)lda->documents.word_count;
    *topics = (struct rbt_topics){.alpha = (float)lda->config.alpha,
                                  .beta = (float)lda->config.beta,
                                  .beta_sum = (float)beta_sum,
                                  .offsets = w->share.offsets,
                                  .words = w->share.tokens,
                                  .topics = w->topics,
                                  .logs = w->logs};
    return rbt_lda_sampler_open(&w->sampler, lda->kind, (size_t)lda->config.topics,
                                w->share.key_count);
}

/* Which documents of the share a chunk has: those that begin in its part of the tokens. */
static size_t first_document(const struct rbt_document_share *share, int64_t index, int64_t count)
{
    const uint64_t tokens = share->offsets[share->count];
    const uint64_t wanted = tokens * (uint64_t)index / (uint64_t)count;
    size_t first = 0;
    for (size_t left = share->count; left > 0;) { /* of offsets[0 .. count-1] */
        const size_t half = left / 2;
        const bool is_below = share->offsets[first + half] < wanted;
        first += is_below ? half + 1 : 0;
        left = is_below ? left - half - 1 : half;
    }
    return first;
}

/* Gives every token a random topic, and counts. */
static void draw_first(const struct rbt_lda_job *lda, struct rbt_lda_worker *w, uint32_t index,
                       float *counts)
{
    struct rbt_topics *t = &w->sampler.topics;
    struct rbt_rng rng;
    rbt_rng_init(&rng, lda->seed, STREAM_INITIAL, index);
    for (uint64_t i = 0; i < w->share.offsets[w->share.count]; i++) {
        const uint64_t k = rbt_rng_below(&rng, t->topic_count);
        const uint32_t word = w->share.tokens[i];
        w->topics[i] = (uint16_t)k;
        w->word_counts[word]++;
        counts[word * t->topic_count + k] += 1.0F;
        t->sum_moves[k]++;
    }
}

/* The documents' part of the log-likelihood at the beginning. */
static void measure_first(const struct rbt_lda_job *lda, struct rbt_lda_worker *w)
{
    struct rbt_topics *t = &w->sampler.topics;
    for (int64_t c = 0; c < lda->clocks_per_epoch; c++) {
        const size_t first = first_document(&w->share, c, lda->clocks_per_epoch);
        const size_t end = first_document(&w->share, c + 1, lda->clocks_per_epoch);
        t->log_documents = w->constants[end] - w->constants[first];
        for (size_t d = first; d < end; d++) {
            rbt_topics_enter(t, d);
            rbt_topics_leave(t, d);
        }
        w->parts[c] = t->log_documents;
        w->part_change += w->parts[c];
    }
}

/* Sends the moves between topics, and how the documents' likelihood has changed. */
static rbt_status push_sums(const struct rbt_lda_job *lda, rbt_worker *worker,
                            struct rbt_lda_worker *w)
{
    struct rbt_topics *t = &w->sampler.topics;
    void *deltas = rbt_set_deltas(w->sum_set);
    for (size_t k = 0; k < t->topic_count; k++) {
        if (rbt_table_type(lda->sums) == RBT_F32) {
            ((float *)deltas)[k] += (float)t->sum_moves[k];
        } else {
            ((double *)deltas)[k] += (double)t->sum_moves[k];
        }
        t->sum_moves[k] = 0;
    }
    const double change = w->part_change;
    w->part_change = 0.0;
    rbt_set_touch(w->sum_set, 0);
    const rbt_status st = rbt_set_push(w->sum_set);
    return st != RBT_OK ? st : rbt_add(worker, lda->parts, 0, &change);
}

static rbt_status open_sets(const struct rbt_lda_job *lda, rbt_worker *worker,
                            struct rbt_lda_worker *w)
{
    const uint64_t zero = 0;
    rbt_status st =
        rbt_set_create(worker, lda->words, w->share.keys, w->share.key_count,
                       lda->is_managed ? RBT_SET_DELTAS : RBT_SET_IN_PLACE, &w->word_set);
    if (st == RBT_OK) {
        st = rbt_set_create(worker, lda->sums, &zero, 1, RBT_SET_DELTAS, &w->sum_set);
    }
    return st;
}

rbt_status rbt_lda_step_begin(void *context, rbt_worker *worker)
{
    struct rbt_lda_job *lda = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_lda_worker *w = &lda->workers[index];
    rbt_status st =
        rbt_document_share_take(&lda->documents, lda->seed, index, lda->worker_count, &w->share);
    st = st != RBT_OK ? st : make_room(lda, w);
    st = st != RBT_OK ? st : open_sampler(lda, w);
    st = st != RBT_OK ? st : open_sets(lda, worker, w);
    if (st != RBT_OK) {
        return st;
    }
    draw_first(lda, w, index,
               lda->is_managed ? rbt_set_deltas(w->word_set) : rbt_set_values(w->word_set));
    measure_first(lda, w);
    st = rbt_set_push(w->word_set);
    return st != RBT_OK ? st : push_sums(lda, worker, w);
}

rbt_status rbt_lda_step_ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_lda_job *lda = context;
    struct rbt_lda_worker *w = &lda->workers[rbt_worker_index(worker)];
    rbt_status st = RBT_OK;
    if (lda->is_managed) {
        st = rbt_set_manage(w->word_set);
        st = st != RBT_OK ? st : rbt_set_manage(w->sum_set);
    }
    if (rbt_worker_index(worker) == 0) {
        *parameters = (lda->documents.word_count + 1) * (uint64_t)lda->config.topics;
    }
    return st;
}

void rbt_lda_step_end(void *context, rbt_worker *worker)
{
    struct rbt_lda_job *lda = context;
    struct rbt_lda_worker *w = &lda->workers[rbt_worker_index(worker)];
    rbt_set_destroy(w->sum_set);
    rbt_set_destroy(w->word_set);
    w->sum_set = NULL;
    w->word_set = NULL;
}

/* --- A clock --------------------------------------------------------------------------------- */

/* Takes what the sets have now. */
static rbt_status look(const struct rbt_lda_job *lda, struct rbt_lda_worker *w)
{
    struct rbt_topics *t = &w->sampler.topics;
    void *sums = rbt_set_values(w->sum_set);
    t->word_topics = rbt_set_values(w->word_set);
    t->word_moves = lda->is_managed ? rbt_set_deltas(w->word_set) : NULL;
    t->sums = w->sums;
    for (size_t k = 0; k < t->topic_count; k++) {
        w->sums[k] = rbt_table_type(lda->sums) == RBT_F32 ? ((const float *)sums)[k]
                                                          : (float)((const double *)sums)[k];
    }
    return rbt_lda_sampler_refresh(&w->sampler);
}

static void spend(rbt_worker *worker, uint64_t token_count, size_t topic_count,
                  size_t element_count)
{
    const double tokens = (double)token_count;
    rbt_spend(worker,
              1e-9 * (rbt_lda_costs[RBT_LDA_COST_TOKEN].ns * tokens +
                      rbt_lda_costs[RBT_LDA_COST_TOKEN_TOPIC].ns * tokens * (double)topic_count +
                      rbt_lda_costs[RBT_LDA_COST_ELEMENT].ns * (double)element_count));
}

/* Lets rows travel: says which have changed, and takes those that have come. */
static rbt_status exchange(const struct rbt_lda_job *lda, rbt_worker *worker,
                           struct rbt_lda_worker *w)
{
    struct rbt_topics *t = &w->sampler.topics;
    float *deltas = rbt_set_deltas(w->sum_set);
    float *values = rbt_set_values(w->sum_set);
    for (size_t k = 0; k < t->topic_count && rbt_table_type(lda->sums) == RBT_F32; k++) {
        deltas[k] += (float)t->sum_moves[k];
        values[k] += (float)t->sum_moves[k];
        t->sum_moves[k] = 0;
    }
    rbt_set_touch(w->sum_set, 0);
    const rbt_status st = rbt_exchange(worker);
    return st != RBT_OK ? st : look(lda, w);
}

/* Samples documents first .. end-1 with rows that come and go on the way. */
static rbt_status sample_managed(const struct rbt_lda_job *lda, rbt_worker *worker,
                                 struct rbt_lda_worker *w, size_t first, size_t end)
{
    const struct rbt_document_share *share = &w->share;
    uint64_t touched = share->offsets[first]; /* the tokens before */
    rbt_status st = RBT_OK;
    while (st == RBT_OK && first < end) {
        size_t next = first + 1;
        while (next < end && share->offsets[next] - share->offsets[first] < EXCHANGE_TOKENS) {
            next++;
        }
        rbt_lda_sampler_run(&w->sampler, first, next);
        spend(worker, share->offsets[next] - share->offsets[first], (size_t)lda->config.topics, 0);
        first = next;
        if (rbt_exchange_is_due(worker)) {
            rbt_set_touch_rows(w->word_set, share->tokens + touched,
                               (size_t)(share->offsets[first] - touched));
            touched = share->offsets[first];
            st = exchange(lda, worker, w);
        }
    }
    rbt_set_touch_rows(w->word_set, share->tokens + touched,
                       (size_t)(share->offsets[end] - touched));
    return st;
}

rbt_status rbt_lda_step_work(void *context, rbt_worker *worker,
                             const struct rbt_training_chunk *chunk,
                             struct rbt_training_figures *figures)
{
    struct rbt_lda_job *lda = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_lda_worker *w = &lda->workers[index];
    struct rbt_topics *t = &w->sampler.topics;
    rbt_status st = rbt_set_pull(w->word_set);
    st = st != RBT_OK ? st : rbt_set_pull(w->sum_set);
    st = st != RBT_OK ? st : look(lda, w);
    if (st != RBT_OK) {
        return st;
    }
    const size_t first = first_document(&w->share, chunk->index, chunk->count);
    const size_t end = first_document(&w->share, chunk->index + 1, chunk->count);
    const uint64_t tokens = w->share.offsets[end] - w->share.offsets[first];
    struct rbt_rng rng;
    rbt_rng_init(&rng, lda->seed ^ STREAM_SAMPLING, index,
                 (uint64_t)(chunk->epoch * chunk->count + chunk->index));
    t->random = rbt_rng_next(&rng);
    t->log_documents = w->constants[end] - w->constants[first];
    if (lda->is_managed) {
        st = sample_managed(lda, worker, w, first, end);
    } else {
        rbt_lda_sampler_run(&w->sampler, first, end);
    }
    w->part_change += t->log_documents - w->parts[chunk->index];
    w->parts[chunk->index] = t->log_documents;
    figures->loss -= t->log_documents;
    figures->count += tokens;
    spend(worker, lda->is_managed ? 0 : tokens, t->topic_count,
          w->share.key_count * t->topic_count);
    return st;
}

rbt_status rbt_lda_step_push(void *context, rbt_worker *worker)
{
    struct rbt_lda_job *lda = context;
    struct rbt_lda_worker *w = &lda->workers[rbt_worker_index(worker)];
    const rbt_status st = rbt_set_push(w->word_set);
    return st != RBT_OK ? st : push_sums(lda, worker, w);
}

/* The words' part of the likelihood: a word's row counts by the share of its tokens that the worker
 * has, and the row of sums by the number of workers. */
double rbt_lda_step_penalty(void *context, rbt_worker *worker)
{
    const struct rbt_lda_job *lda = context;
    const struct rbt_lda_worker *w = &lda->workers[rbt_worker_index(worker)];
    const struct rbt_topics *t = &w->sampler.topics;
    double sum = 0.0;
    for (size_t i = 0; i < w->share.key_count; i++) {
        const float *row = t->word_topics + i * t->topic_count;
        double all = 0.0;
        for (size_t k = 0; k < t->topic_count; k++) {
            all += (double)row[k];
        }
        const double part = (double)w->word_counts[i] / (all > 0 ? all : 1.0);
        sum += part * rbt_lda_logs_row(&w->word_logs, row, t->topic_count);
    }
    double topics = (double)t->topic_count * log_gamma((double)t->beta_sum);
    for (size_t k = 0; k < t->topic_count; k++) {
        topics -= log_gamma((double)t->sums[k] + (double)t->beta_sum);
    }
    sum += topics / (double)lda->worker_count;
    return -sum / (double)lda->documents.tokens;
}

/* The words of one topic after the other, as the worker sees them. */
void rbt_lda_step_note(void *context, rbt_worker *worker, char *text, size_t size)
{
    const struct rbt_lda_job *lda = context;
    const struct rbt_lda_worker *w = &lda->workers[rbt_worker_index(worker)];
    const struct rbt_topics *t = &w->sampler.topics;
    const struct rbt_lda_rows rows = {w->share.keys, t->word_topics, w->share.key_count,
                                      t->topic_count};
    const size_t topic =
        (size_t)(rbt_worker_clock(worker) / lda->clocks_per_epoch) % t->topic_count;
    uint64_t keys[NOTE_WORDS];
    if (lda->documents.vocabulary.count == 0 || t->word_topics == NULL) {
        return;
    }
    const size_t count = rbt_lda_words_top(&rows, topic, NOTE_WORDS, keys);
    int at = snprintf(text, size, "topic %zu:", topic + 1);
    for (size_t i = 0; i < count && at > 0; i++) {
        const char *word = rbt_vocabulary_word(&lda->documents.vocabulary, (size_t)keys[i] - 1);
        const int length = snprintf(text + at, size - (size_t)at, " %s", word);
        if (at + length > NOTE_WIDTH) {
            text[at] = '\0';
            return;
        }
        at += length;
    }
}

void rbt_lda_step_free(struct rbt_lda_worker *w)
{
    rbt_lda_sampler_close(&w->sampler);
    rbt_free(w->sums);
    rbt_free(w->parts);
    rbt_free(w->constants);
    rbt_free(w->logs);
    rbt_free(w->word_counts);
    rbt_free(w->topics);
    rbt_document_share_free(&w->share);
}
