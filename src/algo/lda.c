/* algo/lda.c - topics of documents: latent Dirichlet allocation by collapsed Gibbs sampling.
 *
 * Every document d is a mixture of K topics, and every topic a distribution over V words; every
 * token (an occurrence of a word) has a topic z. With the mixtures integrated out, the probability
 * of a token's topic given all others is that of math/topics.h, and sampling goes through all
 * tokens again and again. Maximised, as it were, is the joint likelihood of words and topics,
 *
 *     log P(w, z) = sum over k of [ G(b V) - G(n_k + b V) + sum over w of G(n_wk + b) - G(b) ]
 *                 + sum over d of [ G(a K) - G(n_d + a K) + sum over k of G(n_dk + a) - G(a) ]
 *
 * where G is log Gamma; the objective is minus that, per token.
 *
 * A document is with one worker, and so are its topics z and the counts n_dk, which are computed
 * from z whenever the document's turn comes. The counts n_wk (a row per word) and n_k (one row) are
 * tables. A worker samples on a copy, which its own moves change at once, and sends its moves; they
 * add up, so that at the end all counts are exact, whatever was stale on the way. That is checked.
 *
 * Every worker's part of a count is at no time negative, and so is no sum of such parts. */
#include "algo/lda.h"

#include <math.h>
#include <string.h>

#include "algo/lda_model.h"
#include "algo/lda_sampler.h"
#include "algo/lda_words.h"
#include "algo/replica.h"
#include "algo/training.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/documents.h"

enum { EPOCHS_DEFAULT = 100, TOPICS_MAX = 65536 };
enum { CLOCKS_DEFAULT = 4 };    /* in an epoch: costs a tenth more time than 1, and saves epochs */
enum { EXCHANGE_TOKENS = 256 }; /* after about so many, rows may travel early */
enum { STREAM_INITIAL = 0x6c646169 };   /* "ldai": the first topics */
enum { STREAM_SAMPLING = 0x6c646173 };  /* "ldas" */
static const double exact_max = 0x1p24; /* whole numbers up to here are exact floats */

/* Measured by `rubato bench cost` on one of two cores of an Intel Xeon, with one worker in this
 * process and the dense sampler. */
enum { COST_TOKEN, COST_TOKEN_TOPIC, COST_ELEMENT, COST_COUNT };
static const struct rbt_algo_cost costs[COST_COUNT] = {
    [COST_TOKEN] = {"token", 35.0},
    [COST_TOKEN_TOPIC] = {"token_topic", 0.35},
    [COST_ELEMENT] = {"element", 4.7},
};

struct lda_worker {
    struct rbt_document_share share;
    uint16_t *topics;      /* z of each token */
    uint32_t *word_counts; /* tokens of each word in the share */
    double *logs;          /* log(n + alpha) */
    double *constants;     /* (documents + 1): sum over the documents before of
                              G(a K) - G(n_d + a K) */
    double *parts;         /* of each clock of an epoch: its documents' log-likelihood */
    double part_change;    /* of the clock that is over, for all to know */
    float *sums;           /* n_k, if the table does not have floats */
    struct rbt_lda_sampler sampler;
    struct rbt_lda_logs word_logs;
    rbt_set *word_set;
    rbt_set *sum_set;
};

struct lda {
    const struct rbt_train_options *options;
    struct rbt_lda_config config;
    enum rbt_lda_kind kind;
    struct rbt_rules rules;
    uint64_t seed;
    int64_t clocks_per_epoch;
    struct rbt_documents documents;
    struct rbt_documents eval;
    bool is_managed;
    uint32_t worker_count;
    struct lda_worker *workers;
    rbt_table *words; /* n_wk */
    rbt_table *sums;  /* n_k: row 0 */
    rbt_table *parts; /* row 0: the documents' part of the log-likelihood */
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

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct lda *lda = context;
    struct rbt_table_options words = {.struct_size = sizeof words,
                                      .type = RBT_F32,
                                      .width = (uint32_t)lda->config.topics,
                                      .placement = (rbt_placement)lda->options->placement,
                                      .keys_max = lda->documents.word_count,
                                      .filter = rbt_rules_filter(&lda->rules)};
    /* Only floats can travel early, and only small sums are exact as floats. */
    struct rbt_table_options sums = {.struct_size = sizeof sums,
                                     .type = (double)lda->documents.tokens <= exact_max ? RBT_F32
                                                                                        : RBT_F64,
                                     .width = (uint32_t)lda->config.topics};
    struct rbt_table_options parts = {.struct_size = sizeof parts, .type = RBT_F64};
    rbt_status st = rbt_table_open(job, "words", &words, &lda->words);
    if (st == RBT_OK) {
        st = rbt_table_open(job, "sums", &sums, &lda->sums);
    }
    return st != RBT_OK ? st : rbt_table_open(job, "parts", &parts, &lda->parts);
}

/* --- Before the first clock ------------------------------------------------------------------ */

/* Room for what a worker has of its own. */
static rbt_status make_room(const struct lda *lda, struct lda_worker *w)
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

static rbt_status open_sampler(const struct lda *lda, struct lda_worker *w)
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
static void draw_first(const struct lda *lda, struct lda_worker *w, uint32_t index, float *counts)
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
static void measure_first(const struct lda *lda, struct lda_worker *w)
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
static rbt_status push_sums(const struct lda *lda, rbt_worker *worker, struct lda_worker *w)
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

static rbt_status open_sets(const struct lda *lda, rbt_worker *worker, struct lda_worker *w)
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

static rbt_status begin(void *context, rbt_worker *worker)
{
    struct lda *lda = context;
    const uint32_t index = rbt_worker_index(worker);
    struct lda_worker *w = &lda->workers[index];
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

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct lda *lda = context;
    struct lda_worker *w = &lda->workers[rbt_worker_index(worker)];
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

static void end(void *context, rbt_worker *worker)
{
    struct lda *lda = context;
    struct lda_worker *w = &lda->workers[rbt_worker_index(worker)];
    rbt_set_destroy(w->sum_set);
    rbt_set_destroy(w->word_set);
    w->sum_set = NULL;
    w->word_set = NULL;
}

/* --- A clock --------------------------------------------------------------------------------- */

/* Takes what the sets have now. */
static rbt_status look(const struct lda *lda, struct lda_worker *w)
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
    rbt_spend(worker, 1e-9 * (costs[COST_TOKEN].ns * tokens +
                              costs[COST_TOKEN_TOPIC].ns * tokens * (double)topic_count +
                              costs[COST_ELEMENT].ns * (double)element_count));
}

/* Lets rows travel: says which have changed, and takes those that have come. */
static rbt_status exchange(const struct lda *lda, rbt_worker *worker, struct lda_worker *w)
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
static rbt_status sample_managed(const struct lda *lda, rbt_worker *worker, struct lda_worker *w,
                                 size_t first, size_t end)
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

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct lda *lda = context;
    const uint32_t index = rbt_worker_index(worker);
    struct lda_worker *w = &lda->workers[index];
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

static rbt_status push(void *context, rbt_worker *worker)
{
    struct lda *lda = context;
    struct lda_worker *w = &lda->workers[rbt_worker_index(worker)];
    const rbt_status st = rbt_set_push(w->word_set);
    return st != RBT_OK ? st : push_sums(lda, worker, w);
}

/* The words' part of the likelihood: a word's row counts by the share of its tokens that the worker
 * has, and the row of sums by the number of workers. */
static double penalty(void *context, rbt_worker *worker)
{
    const struct lda *lda = context;
    const struct lda_worker *w = &lda->workers[rbt_worker_index(worker)];
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

/* --- The end --------------------------------------------------------------------------------- */

/* Topic k's tokens, counted by words and in the row of sums, must agree, and all be there. */
static rbt_status check_counts(const struct lda *lda, const struct rbt_model_array *words,
                               const struct rbt_rows *sums)
{
    double total = 0.0;
    for (size_t k = 0; k < words->width; k++) {
        double column = 0.0;
        for (size_t i = 0; i < words->count; i++) {
            column += (double)words->values[i * words->width + k];
        }
        const double sum = sums->count == 0 ? 0.0
                           : rbt_table_type(lda->sums) == RBT_F32
                               ? (double)((const float *)sums->values)[k]
                               : ((const double *)sums->values)[k];
        if (sum != column) {
            return rbt_fail(RBT_E_DATA,
                            "the counts are wrong: topic %zu has %.0f tokens by its words, and "
                            "%.0f in sum",
                            k + 1, column, sum);
        }
        total += column;
    }
    if (total != (double)lda->documents.tokens) {
        return rbt_fail(RBT_E_DATA, "the counts are wrong: %.0f of %llu tokens have a topic", total,
                        (unsigned long long)lda->documents.tokens);
    }
    return RBT_OK;
}

static rbt_status take_vocabulary(const struct rbt_vocabulary *vocabulary, struct rbt_model *model)
{
    struct rbt_model_texts *texts = &model->texts[0];
    if (vocabulary->count == 0) {
        return RBT_OK;
    }
    char *bytes = rbt_calloc(vocabulary->size, 1);
    if (bytes == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the vocabulary");
    }
    memcpy(bytes, vocabulary->bytes, vocabulary->size);
    *texts = (struct rbt_model_texts){
        .name = "words", .count = vocabulary->count, .size = vocabulary->size, .bytes = bytes};
    model->text_count = 1;
    return RBT_OK;
}

static rbt_status collect(void *context, rbt_worker *worker, int64_t staleness,
                          struct rbt_model *model)
{
    const struct lda *lda = context;
    struct rbt_rows sums = {0};
    struct rbt_rows parts = {0};
    model->kind = RBT_MODEL_LDA;
    rbt_model_set(model, "alpha", lda->config.alpha);
    rbt_model_set(model, "beta", lda->config.beta);
    rbt_model_set(model, "vocabulary", (double)lda->documents.word_count);
    rbt_model_set(model, "tokens", (double)lda->documents.tokens);
    rbt_status st = rbt_replica_collect(worker, lda->words, staleness, &model->arrays[0]);
    model->array_count = st == RBT_OK ? 1 : 0;
    st = st != RBT_OK ? st : rbt_pull_range(worker, lda->parts, RBT_RANGE_ALL, staleness, &parts);
    if (st == RBT_OK && staleness == 0) {
        st = rbt_pull_range(worker, lda->sums, RBT_RANGE_ALL, staleness, &sums);
        st = st != RBT_OK ? st : check_counts(lda, &model->arrays[0], &sums);
    }
    if (st == RBT_OK) {
        rbt_model_set(model, "documents",
                      parts.count == 0 ? 0.0 : ((const double *)parts.values)[0]);
        st = take_vocabulary(&lda->documents.vocabulary, model);
    }
    rbt_rows_free(&parts);
    rbt_rows_free(&sums);
    return st;
}

static rbt_status objective(void *context, const struct rbt_model *model, double *objective)
{
    (void)context;
    return rbt_lda_model_objective(model, objective);
}

static rbt_status evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics)
{
    const struct lda *lda = context;
    return rbt_lda_model_measure(model, &lda->eval, metrics);
}

static const struct rbt_training_task task = {.open = open_tables,
                                              .begin = begin,
                                              .ready = ready,
                                              .work = work,
                                              .push = push,
                                              .penalty = penalty,
                                              .end = end,
                                              .collect = collect,
                                              .objective = objective,
                                              .evaluate = evaluate};

/* --- The command ----------------------------------------------------------------------------- */

/* A word that is more frequent than floats can count. */
static rbt_status check_words(const struct rbt_documents *documents)
{
    double *counts = rbt_calloc(documents->word_count, sizeof *counts);
    if (counts == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for %zu words", documents->word_count);
    }
    rbt_status st = RBT_OK;
    const size_t size = (size_t)documents->offsets[documents->count];
    for (size_t k = 0; k < size && st == RBT_OK; k++) {
        const uint32_t word = documents->words[k];
        counts[word] += (double)documents->counts[k];
        if (counts[word] > exact_max) {
            st = rbt_fail(RBT_E_DATA, "word %u occurs more than %.0f times", word + 1, exact_max);
            st = rbt_fail_hint(st, "Leave it out: a word that is everywhere says nothing.");
        }
    }
    rbt_free(counts);
    return st;
}

static rbt_status read_data(struct lda *lda, const struct rbt_train_options *options)
{
    struct rbt_document_options data = {.paths = options->data.values,
                                        .path_count = options->data.count,
                                        .format = (enum rbt_format)options->format,
                                        .is_zero_based = options->is_zero_based,
                                        .vocabulary = lda->config.vocabulary,
                                        .stop_words = lda->config.stop_words,
                                        .min_count = lda->config.min_count};
    rbt_status st = rbt_documents_read(&data, &lda->documents);
    if (st == RBT_OK && lda->documents.tokens == 0) {
        st = rbt_fail(RBT_E_DATA, "the training data has no words");
        st =
            rbt_fail_hint(st, "Words of text that occur less than --min-count times are left out.");
    }
    st = st != RBT_OK ? st : check_words(&lda->documents);
    if (st == RBT_OK && options->eval.count > 0) {
        data.paths = options->eval.values;
        data.path_count = options->eval.count;
        data.vocabulary = NULL;
        data.known = &lda->documents.vocabulary;
        data.known_count = lda->documents.word_count;
        st = rbt_documents_read(&data, &lda->eval);
    }
    return st;
}

static void free_data(struct lda *lda)
{
    for (uint32_t p = 0; lda->workers != NULL && p < lda->worker_count; p++) {
        struct lda_worker *w = &lda->workers[p];
        rbt_lda_sampler_close(&w->sampler);
        rbt_free(w->sums);
        rbt_free(w->parts);
        rbt_free(w->constants);
        rbt_free(w->logs);
        rbt_free(w->word_counts);
        rbt_free(w->topics);
        rbt_document_share_free(&w->share);
    }
    rbt_free(lda->workers);
    rbt_documents_free(&lda->eval);
    rbt_documents_free(&lda->documents);
}

/* What the options say about rules and samplers, before data is read. */
static rbt_status settle(struct lda *lda)
{
    const rbt_status st = rbt_rules_read(lda->options, &lda->rules);
    if (st != RBT_OK) {
        return st;
    }
    if (!lda->rules.is_plain) {
        return rbt_fail(RBT_E_INVALID, "option \"--rule\" does not fit lda: counts can only be "
                                       "added");
    }
    lda->is_managed = lda->options->bandwidth > 0;
    lda->kind = (enum rbt_lda_kind)lda->config.sampler;
    if (lda->is_managed && lda->kind != RBT_LDA_AUTO && lda->kind != RBT_LDA_DENSE) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--bandwidth\" needs --sampler dense: the other samplers keep "
                        "notes on rows, which must not change on the way");
    }
    lda->kind = lda->is_managed ? RBT_LDA_DENSE
                                : rbt_lda_sampler_choose(lda->kind, (size_t)lda->config.topics);
    return RBT_OK;
}

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_lda_config *config = settings;
    struct lda lda = {.options = options,
                      .config = *config,
                      .seed = (uint64_t)options->seed,
                      .worker_count = rbt_training_workers(options)};
    struct rbt_training training = {.options = options,
                                    .observer = observer,
                                    .task = &task,
                                    .context = &lda,
                                    .workers = lda.worker_count,
                                    .epochs =
                                        options->epochs > 0 ? options->epochs : EPOCHS_DEFAULT,
                                    .rules = &lda.rules,
                                    .started = rbt_clock_seconds(),
                                    .has_eval = options->eval.count > 0};
    rbt_status st = settle(&lda);
    if (st != RBT_OK) {
        return st;
    }
    lda.clocks_per_epoch =
        options->clocks_per_epoch > 0 ? options->clocks_per_epoch : CLOCKS_DEFAULT;
    training.clocks_per_epoch = lda.clocks_per_epoch;
    lda.workers = rbt_calloc(lda.worker_count, sizeof *lda.workers);
    st = lda.workers == NULL ? no_memory() : read_data(&lda, options);
    if (st == RBT_OK) {
        training.examples = lda.documents.tokens;
        st = rbt_training_run(&training, summary);
    }
    free_data(&lda);
    return st;
}

#define AT(field) offsetof(struct rbt_lda_config, field)
static const struct rbt_option lda_options[] = {
    {.name = "topics",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = TOPICS_MAX,
     .value = "100",
     .offset = AT(topics),
     .help = "How many topics there are."},
    {.name = "alpha",
     .type = RBT_OPTION_REAL,
     .min = 1e-6,
     .max = 1e6,
     .value = "0.1",
     .offset = AT(alpha),
     .help = "Tokens of each topic that every document is thought to have before it is read: small "
             "for documents that are about few topics."},
    {.name = "beta",
     .type = RBT_OPTION_REAL,
     .min = 1e-6,
     .max = 1e6,
     .value = "0.1",
     .offset = AT(beta),
     .help = "The same of each word in each topic: small for topics of few words."},
    {.name = "sampler",
     .type = RBT_OPTION_CHOICE,
     .choices = rbt_lda_kinds,
     .value = "auto",
     .offset = AT(sampler),
     .help = "How topics are drawn: dense looks at all, sparse at those that the word or the "
             "document has, alias at a few, which suits very many topics. auto takes the one that "
             "is fastest with so many topics."},
    {.name = "vocab",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .offset = AT(vocabulary),
     .help = "The words that numbers in the data stand for, one in a line; of text: the words that "
             "count."},
    {.name = "min-count",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e9,
     .value = "5",
     .offset = AT(min_count),
     .help = "Words of text that occur less often are left out."},
    {.name = "stop-words",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .offset = AT(stop_words),
     .help = "Words of text that are left out, one in a line."},
};
#undef AT

static const struct rbt_algo_export exports[] = {
    {"counts", "how often each word has each topic: word topic:count ...",
     rbt_lda_words_write_counts},
    {"topics", "the most frequent words of each topic: topic share word ...",
     rbt_lda_words_write_topics},
    {0}};

const struct rbt_algo rbt_lda = {
    .name = "lda",
    .summary = "Topics of documents: latent Dirichlet allocation by Gibbs sampling.",
    .examples = "  rubato train lda --data articles.txt --topics 50 --model m.rbt\n"
                "  rubato train lda --data docword.kos.txt.zst --vocab vocab.kos.txt.zst\n",
    .model_kind = RBT_MODEL_LDA,
    .options = lda_options,
    .option_count = sizeof lda_options / sizeof lda_options[0],
    .config_size = sizeof(struct rbt_lda_config),
    .costs = costs,
    .cost_count = COST_COUNT,
    .epochs_default = EPOCHS_DEFAULT,
    .train = train,
    .predict = rbt_lda_model_predict,
    .evaluate = rbt_lda_model_evaluate,
    .exports = exports,
    .describe = rbt_lda_words_describe,
};
