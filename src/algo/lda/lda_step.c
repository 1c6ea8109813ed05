/* algo/lda/lda_step.c - a worker's part of `rubato train lda`: its documents, and a clock of
 * sampling.
 *
 * The worker pulls the rows of its words and the row of sums, samples its documents, and pushes how
 * the counts have changed. Its random numbers follow from the seed, the worker and the clock.
 *
 * The sampler sees a view of the documents: all of them, or, if their topics are on disk
 * (lda_state.h), those of a few at a time, which it numbers from 0. */
#include "algo/lda/lda_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/lda/lda_counts.h"
#include "algo/lda/lda_words.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

enum { NOTE_WORDS = 8, NOTE_WIDTH = 72 };
enum { EXCHANGE_TOKENS = 256 };        /* after about so many, rows may travel early */
enum { VIEW_TOKENS = 65536 };          /* of a view, if topics are on disk; or one document's */
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
    uint64_t viewed = share->offsets[share->count];
    w->view_max = longest > VIEW_TOKENS ? (size_t)longest : VIEW_TOKENS;
    if (w->state != NULL) {
        viewed = w->view_max;
        w->view_offsets = rbt_room_take(&w->room, VIEW_TOKENS + 1, sizeof *w->view_offsets);
    }
    w->topics = rbt_room_take(&w->room, viewed, sizeof *w->topics);
    w->word_counts = rbt_room_take(&w->room, share->key_count, sizeof *w->word_counts);
    w->logs = rbt_room_take(&w->room, longest + 1, sizeof *w->logs);
    w->constants = rbt_room_take(&w->room, share->count + 1, sizeof *w->constants);
    w->parts = rbt_room_take(&w->room, (size_t)lda->clocks_per_epoch, sizeof *w->parts);
    w->sums = rbt_room_take(&w->room, (size_t)lda->config.topics, sizeof *w->sums);
    if (w->room.is_short) {
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

/* Makes documents from `first` on the view, at most up to `end`; returns where it ends. Of topics
 * in memory all documents are in view, and the end is where it is time for a pause. */
static size_t view(struct rbt_lda_worker *w, size_t first, size_t end)
{
    const uint64_t *offsets = w->share.offsets;
    struct rbt_topics *t = &w->sampler.topics;
    if (w->state == NULL && w->counts.set != NULL) {
        return end;
    }
    size_t next = first + 1;
    while (next < end && offsets[next + 1] - offsets[first] <= VIEW_TOKENS) {
        next++;
    }
    if (w->state != NULL) {
        for (size_t d = first; d <= next; d++) {
            w->view_offsets[d - first] = offsets[d] - offsets[first];
        }
        t->offsets = w->view_offsets;
        t->words = w->share.tokens + offsets[first];
        w->view_first = first;
    }
    return next;
}

/* Where the tokens of a document begin in the view. */
static size_t place_of(const struct rbt_lda_worker *w, size_t document)
{
    return (size_t)(w->share.offsets[document] - w->share.offsets[w->view_first]);
}

/* Gives the tokens of the view, which begins with document `first`, their first topics: random
 * ones, or those on disk. */
static rbt_status begin_topics(struct rbt_lda_worker *w, size_t first, size_t end,
                               struct rbt_rng *rng)
{
    const size_t topic_count = w->sampler.topics.topic_count;
    uint16_t *topics = w->topics + place_of(w, first);
    const size_t count = (size_t)(w->share.offsets[end] - w->share.offsets[first]);
    if (w->is_resumed) {
        return rbt_lda_state_read(w->state, topics, count);
    }
    for (size_t i = 0; i < count; i++) {
        topics[i] = (uint16_t)rbt_rng_below(rng, topic_count);
    }
    return w->state == NULL ? RBT_OK : rbt_lda_state_write(w->state, topics, count);
}

/* Counts the tokens of documents first .. end-1, which are in the view, and measures them. */
static void count_topics(struct rbt_lda_worker *w, size_t first, size_t end, float *counts)
{
    struct rbt_topics *t = &w->sampler.topics;
    for (size_t d = first - w->view_first; d < end - w->view_first; d++) {
        for (uint64_t i = t->offsets[d]; i < t->offsets[d + 1]; i++) {
            const uint32_t word = t->words[i];
            const size_t k = w->topics[i];
            w->word_counts[word]++;
            counts[word * t->topic_count + k] += 1.0F;
            t->sum_moves[k]++;
        }
        rbt_topics_enter(t, d);
        rbt_topics_leave(t, d);
    }
}

/* The topics of all tokens at the beginning, their counts, and the documents' part of the
 * log-likelihood. */
static rbt_status begin_documents(const struct rbt_lda_job *lda, rbt_worker *worker,
                                  struct rbt_lda_worker *w)
{
    struct rbt_topics *t = &w->sampler.topics;
    float *counts = rbt_lda_counts_first(lda, w);
    struct rbt_rng rng;
    rbt_rng_init(&rng, lda->seed, STREAM_INITIAL, rbt_worker_index(worker));
    rbt_status st = w->state != NULL && !w->is_resumed ? rbt_lda_state_start(w->state) : RBT_OK;
    for (int64_t c = 0; c < lda->clocks_per_epoch && st == RBT_OK; c++) {
        size_t first = first_document(&w->share, c, lda->clocks_per_epoch);
        const size_t end = first_document(&w->share, c + 1, lda->clocks_per_epoch);
        t->log_documents = w->constants[end] - w->constants[first];
        while (first < end && st == RBT_OK) {
            const size_t next = view(w, first, end);
            st = begin_topics(w, first, next, &rng);
            if (st == RBT_OK) {
                count_topics(w, first, next, counts);
                st = rbt_lda_counts_add(lda, worker, w, place_of(w, first),
                                        (size_t)(w->share.offsets[next] - w->share.offsets[first]));
            }
            first = next;
        }
        w->parts[c] = t->log_documents;
        w->part_change += w->parts[c];
    }
    return st;
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
    const rbt_status st = rbt_lda_counts_open(lda, worker, w);
    return st != RBT_OK ? st
                        : rbt_set_create(worker, lda->sums, &zero, 1, RBT_SET_DELTAS, &w->sum_set);
}

/* What the state is of: a hash of the words of the documents, and where these end. */
static rbt_status open_state(const struct rbt_lda_job *lda, struct rbt_lda_worker *w,
                             uint32_t index)
{
    const struct rbt_document_share *share = &w->share;
    if (lda->config.state == NULL) {
        return RBT_OK;
    }
    uint64_t hash = rbt_hash_bytes(share->keys, share->key_count * sizeof *share->keys, 0);
    hash = rbt_hash_bytes(share->offsets, (share->count + 1) * sizeof *share->offsets, hash);
    hash = rbt_hash_bytes(share->tokens,
                          (size_t)share->offsets[share->count] * sizeof *share->tokens, hash);
    const struct rbt_lda_state_facts facts = {.topic_count = (uint32_t)lda->config.topics,
                                              .worker = index,
                                              .worker_count = lda->worker_count,
                                              .seed = lda->seed,
                                              .tokens = share->offsets[share->count],
                                              .data = hash};
    const rbt_status st = rbt_lda_state_open(lda->config.state, &facts, &w->state);
    if (st == RBT_OK) {
        w->is_resumed = rbt_lda_state_is_found(w->state);
        w->passes = rbt_lda_state_passes(w->state);
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
    st = st != RBT_OK ? st : open_state(lda, w, index);
    st = st != RBT_OK ? st : make_room(lda, w);
    st = st != RBT_OK ? st : open_sampler(lda, w);
    st = st != RBT_OK ? st : open_sets(lda, worker, w);
    if (st != RBT_OK) {
        return st;
    }
    st = begin_documents(lda, worker, w);
    st = st != RBT_OK ? st : rbt_lda_counts_push(lda, worker, w);
    st = st != RBT_OK ? st : push_sums(lda, worker, w);
    const double resumed = 1.0;
    return st != RBT_OK || !w->is_resumed ? st
                                          : rbt_add_at(worker, lda->by_worker, 0, index, &resumed);
}

/* If some go on and some begin, files are missing. Only now that this is known the first topics
 * become the state. */
static rbt_status agree(const struct rbt_lda_job *lda, rbt_worker *worker,
                        const struct rbt_lda_worker *w)
{
    double *row = rbt_calloc(lda->worker_count, sizeof *row);
    if (row == NULL) {
        return no_memory();
    }
    uint32_t count = 0;
    rbt_status st = rbt_get_within(worker, lda->by_worker, 0, 0, row);
    for (uint32_t p = 0; p < lda->worker_count; p++) {
        count += row[p] > 0 ? 1 : 0;
    }
    rbt_free(row);
    if (st == RBT_OK && count > 0 && count < lda->worker_count) {
        st = rbt_fail(RBT_E_DATA, "the state in \"%s\" has the topics of %u of %u workers",
                      lda->config.state, count, lda->worker_count);
        return rbt_fail_hint(st, "Remove it to start anew.");
    }
    return st != RBT_OK || w->is_resumed ? st : rbt_lda_state_commit(w->state);
}

rbt_status rbt_lda_step_ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_lda_job *lda = context;
    struct rbt_lda_worker *w = &lda->workers[rbt_worker_index(worker)];
    rbt_status st = RBT_OK;
    if (lda->is_managed) {
        st = rbt_set_manage(w->counts.set);
        st = st != RBT_OK ? st : rbt_set_manage(w->sum_set);
    }
    if (st == RBT_OK && lda->config.state != NULL) {
        st = agree(lda, worker, w);
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
    rbt_lda_counts_close(w);
    w->sum_set = NULL;
    rbt_lda_state_close(w->state);
    w->state = NULL;
}

/* --- A clock --------------------------------------------------------------------------------- */

/* Takes what the sets have now. */
static rbt_status look(const struct rbt_lda_job *lda, struct rbt_lda_worker *w)
{
    struct rbt_topics *t = &w->sampler.topics;
    void *sums = rbt_set_values(w->sum_set);
    t->word_topics = rbt_lda_counts_values(w);
    t->word_moves = lda->is_managed ? rbt_set_deltas(w->counts.set) : NULL;
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
    rbt_worker_spend(
        worker, 1e-9 * (rbt_lda_costs[RBT_LDA_COST_TOKEN].ns * tokens +
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
    const rbt_status st = rbt_worker_exchange(worker);
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
        rbt_lda_sampler_run(&w->sampler, first - w->view_first, next - w->view_first);
        spend(worker, share->offsets[next] - share->offsets[first], (size_t)lda->config.topics, 0);
        first = next;
        if (rbt_worker_exchange_is_due(worker)) {
            rbt_set_touch_rows(w->counts.set, share->tokens + touched,
                               (size_t)(share->offsets[first] - touched));
            touched = share->offsets[first];
            st = exchange(lda, worker, w);
        }
    }
    rbt_set_touch_rows(w->counts.set, share->tokens + touched,
                       (size_t)(share->offsets[end] - touched));
    return st;
}

/* Draws the topics of documents first .. end-1, view by view. */
static rbt_status sample(const struct rbt_lda_job *lda, rbt_worker *worker,
                         struct rbt_lda_worker *w, size_t first, size_t end)
{
    rbt_status st = RBT_OK;
    while (st == RBT_OK && first < end) {
        const size_t next = view(w, first, end);
        const size_t count = (size_t)(w->share.offsets[next] - w->share.offsets[first]);
        const size_t place = place_of(w, first);
        if (w->state != NULL) {
            st = rbt_lda_state_read(w->state, w->topics, count);
        }
        rbt_lda_counts_before(w, place, count);
        if (st == RBT_OK && lda->is_managed) {
            st = sample_managed(lda, worker, w, first, next);
        } else if (st == RBT_OK) {
            rbt_lda_sampler_run(&w->sampler, first - w->view_first, next - w->view_first);
        }
        st = st != RBT_OK ? st : rbt_lda_counts_after(lda, worker, w, place, count);
        if (st == RBT_OK && w->state != NULL) {
            st = rbt_lda_state_write(w->state, w->topics, count);
        }
        first = next;
    }
    return st;
}

/* Gets the counts. The first time they are those of all tokens: with some missing, the likelihood
 * of the rest would look far better than it is, and words would seem rare that are not. */
static rbt_status pull(const struct rbt_lda_job *lda, rbt_worker *worker, struct rbt_lda_worker *w)
{
    const int64_t staleness = w->has_counts ? rbt_table_staleness(lda->words) : 0;
    rbt_status st = rbt_lda_counts_pull(lda, worker, w, staleness);
    st = st != RBT_OK ? st : rbt_set_pull_within(w->sum_set, staleness);
    w->has_counts = st == RBT_OK;
    return st != RBT_OK ? st : look(lda, w);
}

rbt_status rbt_lda_step_work(void *context, rbt_worker *worker,
                             const struct rbt_training_chunk *chunk,
                             struct rbt_training_figures *figures)
{
    struct rbt_lda_job *lda = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_lda_worker *w = &lda->workers[index];
    struct rbt_topics *t = &w->sampler.topics;
    rbt_status st = pull(lda, worker, w);
    if (st != RBT_OK) {
        return st;
    }
    const size_t first = first_document(&w->share, chunk->index, chunk->count);
    const size_t end = first_document(&w->share, chunk->index + 1, chunk->count);
    const uint64_t tokens = w->share.offsets[end] - w->share.offsets[first];
    struct rbt_rng rng;
    rbt_rng_init(&rng, lda->seed ^ STREAM_SAMPLING, index,
                 (w->passes + (uint64_t)chunk->epoch) * (uint64_t)chunk->count +
                     (uint64_t)chunk->index);
    t->random = rbt_rng_next(&rng);
    t->log_documents = w->constants[end] - w->constants[first];
    if (w->state != NULL && chunk->index == 0) {
        st = rbt_lda_state_start(w->state);
    }
    st = st != RBT_OK ? st : sample(lda, worker, w, first, end);
    if (st == RBT_OK && w->state != NULL && chunk->index + 1 == chunk->count) {
        st = rbt_lda_state_commit(w->state);
    }
    w->part_change += t->log_documents - w->parts[chunk->index];
    w->parts[chunk->index] = t->log_documents;
    figures->loss -= t->log_documents;
    figures->count += tokens;
    spend(worker, lda->is_managed ? 0 : tokens, t->topic_count, w->counts.element_count);
    return st;
}

rbt_status rbt_lda_step_push(void *context, rbt_worker *worker)
{
    struct rbt_lda_job *lda = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_lda_worker *w = &lda->workers[index];
    const double likelihood = w->likelihood;
    rbt_status st = rbt_lda_counts_push(lda, worker, w);
    st = st != RBT_OK ? st : push_sums(lda, worker, w);
    w->likelihood = 0.0;
    return st != RBT_OK || likelihood == 0.0
               ? st
               : rbt_add_at(worker, lda->by_worker, (uint64_t)w->epochs, index, &likelihood);
}

/* The words' part of the likelihood: a word's row counts by the share of its tokens that the worker
 * has, and the row of sums by the number of workers. */
double rbt_lda_step_penalty(void *context, rbt_worker *worker)
{
    const struct rbt_lda_job *lda = context;
    struct rbt_lda_worker *w = &lda->workers[rbt_worker_index(worker)];
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
    double documents = 0.0;
    for (int64_t c = 0; c < lda->clocks_per_epoch; c++) {
        documents += w->parts[c];
    }
    const uint64_t tokens = w->share.offsets[w->share.count];
    w->likelihood = tokens > 0 ? (documents + sum) / (double)tokens : 0.0;
    w->epochs++;
    return -sum / (double)lda->documents.tokens;
}

static int ascending(const void *a, const void *b)
{
    const double first = *(const double *)a;
    const double second = *(const double *)b;
    return (first > second) - (first < second);
}

/* How well the topics suit the documents of each worker: a worker that is far below the others has
 * other documents, or copies of the counts that are too old. */
rbt_status rbt_lda_step_compare(void *context, rbt_worker *worker, int64_t epoch, int64_t staleness,
                                struct rbt_metrics *by_worker)
{
    const struct rbt_lda_job *lda = context;
    double *row = rbt_calloc(lda->worker_count, sizeof *row);
    if (row == NULL) {
        return no_memory();
    }
    const rbt_status st =
        rbt_get_within(worker, lda->by_worker, (uint64_t)epoch + 1, staleness, row);
    size_t count = 0;
    for (uint32_t p = 0; p < lda->worker_count && st == RBT_OK; p++) {
        if (row[p] < 0) { /* it has documents, and its figure has come */
            row[count++] = row[p];
        }
    }
    qsort(row, count, sizeof *row, ascending);
    if (count > 0) {
        *by_worker = (struct rbt_metrics){
            .names = {"loglik_per_token_min", "loglik_per_token_median", "loglik_per_token_max"},
            .values = {row[0], (row[(count - 1) / 2] + row[count / 2]) / 2, row[count - 1]},
            .count = 3};
    }
    rbt_free(row);
    return st;
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
    rbt_lda_state_close(w->state); /* of a worker that never began */
    rbt_lda_sampler_close(&w->sampler);
    rbt_room_free(&w->room);
    rbt_document_share_free(&w->share);
}
