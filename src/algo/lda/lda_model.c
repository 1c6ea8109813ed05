/* algo/lda/lda_model.c - what topics say about documents.
 *
 * A document's topic shares are the fixed point of
 *
 *     theta_k ~ alpha + sum over its words w of count_w theta_k phi_wk / (theta'phi_w)
 *
 * which is what collapsed variational inference (CVB0) comes to when the topics are held fixed. */
#include "algo/lda/lda_model.h"

#include <math.h>
#include <string.h>

#include "algo/frame/metrics.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/choose.h"

enum { FIT_ROUNDS = 100 };
static const double fit_precision = 1e-4; /* sum of the changes of the shares in a round */

struct rbt_lda_model {
    size_t topic_count;
    size_t word_count;
    double alpha;
    float *phi; /* (words, topics) */
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a model's words");
}

/* The counts of a model, checked. */
static rbt_status find_words(const struct rbt_model *model, const struct rbt_model_array **words)
{
    const struct rbt_model_array *found = rbt_model_array_find(model, "words");
    const double vocabulary = rbt_model_setting(model, "vocabulary", 0);
    const double alpha = rbt_model_setting(model, "alpha", 0);
    const double beta = rbt_model_setting(model, "beta", 0);
    if (found == NULL || !(vocabulary >= 1 && vocabulary <= 0x1p31) || !(alpha > 0) ||
        !(beta > 0) || !isfinite(alpha) || !isfinite(beta)) {
        return rbt_fail(RBT_E_DATA, "the model lacks its words or settings");
    }
    if (found->count > 0 &&
        (found->keys[0] == 0 || found->keys[found->count - 1] > (uint64_t)vocabulary)) {
        return rbt_fail(RBT_E_DATA, "the model has words that are not in its vocabulary");
    }
    for (size_t i = 0; i < found->count * found->width; i++) {
        if (found->values[i] < 0) {
            return rbt_fail(RBT_E_DATA, "the model has a negative count");
        }
    }
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, "words");
    if (texts != NULL && texts->count != (size_t)vocabulary) {
        return rbt_fail(RBT_E_DATA, "the model's list of words is not as long as its vocabulary");
    }
    *words = found;
    return RBT_OK;
}

/* n_k; the caller frees them. */
static double *sum_topics(const struct rbt_model_array *words)
{
    double *sums = rbt_calloc(words->width, sizeof *sums);
    for (size_t i = 0; sums != NULL && i < words->count; i++) {
        for (size_t k = 0; k < words->width; k++) {
            sums[k] += (double)words->values[i * words->width + k];
        }
    }
    return sums;
}

static void fill_phi(rbt_lda_model *scorer, const struct rbt_model_array *words, const double *sums,
                     double beta)
{
    const size_t topic_count = scorer->topic_count;
    const double beta_sum = beta * (double)scorer->word_count;
    for (size_t w = 0; w < scorer->word_count; w++) {
        for (size_t k = 0; k < topic_count; k++) {
            scorer->phi[w * topic_count + k] = (float)beta;
        }
    }
    for (size_t i = 0; i < words->count; i++) {
        float *row = scorer->phi + (size_t)(words->keys[i] - 1) * topic_count;
        for (size_t k = 0; k < topic_count; k++) {
            row[k] += words->values[i * topic_count + k];
        }
    }
    for (size_t w = 0; w < scorer->word_count; w++) {
        for (size_t k = 0; k < topic_count; k++) {
            float *at = &scorer->phi[w * topic_count + k];
            *at = (float)((double)*at / (sums[k] + beta_sum));
        }
    }
}

rbt_status rbt_lda_model_open(const struct rbt_model *model, rbt_lda_model **scorer)
{
    const struct rbt_model_array *words = NULL;
    const rbt_status st = find_words(model, &words);
    if (st != RBT_OK) {
        return st;
    }
    rbt_lda_model *made = rbt_calloc(1, sizeof *made);
    if (made == NULL) {
        return no_memory();
    }
    made->topic_count = words->width;
    made->word_count = (size_t)rbt_model_setting(model, "vocabulary", 0);
    made->alpha = rbt_model_setting(model, "alpha", 0);
    made->phi = rbt_calloc(made->word_count, made->topic_count * sizeof *made->phi);
    double *sums = sum_topics(words);
    if (made->phi == NULL || sums == NULL) {
        rbt_free(sums);
        rbt_lda_model_close(made);
        return no_memory();
    }
    fill_phi(made, words, sums, rbt_model_setting(model, "beta", 0));
    rbt_free(sums);
    *scorer = made;
    return RBT_OK;
}

void rbt_lda_model_close(rbt_lda_model *scorer)
{
    if (scorer != NULL) {
        rbt_free(scorer->phi);
        rbt_free(scorer);
    }
}

/* --- Likelihood of the training data --------------------------------------------------------- */

static double log_gamma(double x)
{
    int sign = 0;
    return lgamma_r(x, &sign); /* lgamma() writes the sign where other threads may, too */
}

void rbt_lda_logs_init(struct rbt_lda_logs *logs, double beta)
{
    logs->beta = beta;
    for (size_t n = 0; n < RBT_LDA_LOGS; n++) {
        logs->values[n] = n == 0 ? 0.0 : logs->values[n - 1] + log((double)(n - 1) + beta);
    }
}

double rbt_lda_logs_row(const struct rbt_lda_logs *logs, const float *row, size_t topic_count)
{
    double sum = 0.0;
    for (size_t k = 0; k < topic_count; k++) {
        if (row[k] > 0) {
            sum += row[k] < RBT_LDA_LOGS
                       ? logs->values[(size_t)row[k]]
                       : log_gamma((double)row[k] + logs->beta) - log_gamma(logs->beta);
        }
    }
    return sum;
}

double rbt_lda_logs_sums(const double *sums, size_t topic_count, double beta_sum)
{
    double sum = (double)topic_count * log_gamma(beta_sum);
    for (size_t k = 0; k < topic_count; k++) {
        sum -= log_gamma(sums[k] + beta_sum);
    }
    return sum;
}

rbt_status rbt_lda_model_objective(const struct rbt_model *model, double *objective)
{
    const struct rbt_model_array *words = NULL;
    const rbt_status st = find_words(model, &words);
    if (st != RBT_OK) {
        return st;
    }
    double *sums = sum_topics(words);
    struct rbt_lda_logs *logs = rbt_calloc(1, sizeof *logs);
    if (sums == NULL || logs == NULL) {
        rbt_free(sums);
        rbt_free(logs);
        return no_memory();
    }
    const double beta = rbt_model_setting(model, "beta", 0);
    rbt_lda_logs_init(logs, beta);
    double tokens = 0.0;
    double sum =
        rbt_model_setting(model, "documents_loglik", 0) +
        rbt_lda_logs_sums(sums, words->width, beta * rbt_model_setting(model, "vocabulary", 0));
    for (size_t k = 0; k < words->width; k++) {
        tokens += sums[k];
    }
    for (size_t i = 0; i < words->count; i++) {
        sum += rbt_lda_logs_row(logs, words->values + i * words->width, words->width);
    }
    rbt_free(logs);
    rbt_free(sums);
    *objective = tokens > 0 ? -sum / tokens : 0.0;
    return RBT_OK;
}

/* --- Shares of topics ------------------------------------------------------------------------ */

/* A document, or half of it, and what is needed to fit its shares. */
struct bag {
    uint32_t *words;
    uint32_t *counts;
    size_t count;
    float *shares; /* (topics) */
    float *sums;   /* (topics) */
};

static void free_bag(struct bag *bag)
{
    rbt_free(bag->words);
    rbt_free(bag->counts);
    rbt_free(bag->shares);
    rbt_free(bag->sums);
}

static rbt_status make_bag(const rbt_lda_model *scorer, const struct rbt_documents *documents,
                           struct bag *bag)
{
    size_t most = 0;
    for (size_t d = 0; d < documents->count; d++) {
        const size_t count = (size_t)(documents->offsets[d + 1] - documents->offsets[d]);
        most = count > most ? count : most;
    }
    bag->words = rbt_calloc(most, sizeof *bag->words);
    bag->counts = rbt_calloc(most, sizeof *bag->counts);
    bag->shares = rbt_calloc(scorer->topic_count, sizeof *bag->shares);
    bag->sums = rbt_calloc(scorer->topic_count, sizeof *bag->sums);
    return bag->words == NULL || bag->counts == NULL || bag->shares == NULL || bag->sums == NULL
               ? no_memory()
               : RBT_OK;
}

/* Takes every `stride`th token of the document, from `first` on. */
static void fill_bag(const struct rbt_documents *documents, size_t d, uint32_t first,
                     uint32_t stride, struct bag *bag)
{
    uint64_t at = 0; /* number of the first token of the word */
    bag->count = 0;
    for (uint64_t k = documents->offsets[d]; k < documents->offsets[d + 1]; k++) {
        const uint64_t end = at + documents->counts[k];
        /* Tokens i of at .. end-1 with i = first modulo stride. */
        const uint64_t taken =
            (end + stride - 1 - first) / stride - (at + stride - 1 - first) / stride;
        if (taken > 0) {
            bag->words[bag->count] = documents->words[k];
            bag->counts[bag->count++] = (uint32_t)taken;
        }
        at = end;
    }
}

/* One round; the sum of the changes. */
static double fit_round(const rbt_lda_model *scorer, struct bag *bag, double total)
{
    const size_t topic_count = scorer->topic_count;
    const struct rbt_kernels *kernels = rbt_choose_kernels();
    memset(bag->sums, 0, topic_count * sizeof *bag->sums);
    for (size_t i = 0; i < bag->count; i++) {
        const float *phi = scorer->phi + bag->words[i] * topic_count;
        const double weight = kernels->dot(bag->shares, phi, topic_count);
        const float factor = (float)((double)bag->counts[i] / weight);
        for (size_t k = 0; k < topic_count; k++) {
            bag->sums[k] += factor * phi[k];
        }
    }
    double change = 0.0;
    const double scale = 1.0 / (total + scorer->alpha * (double)topic_count);
    for (size_t k = 0; k < topic_count; k++) {
        const double share = (double)bag->shares[k];
        const double next = (scorer->alpha + share * (double)bag->sums[k]) * scale;
        change += fabs(next - share);
        bag->shares[k] = (float)next;
    }
    return change;
}

/* Fits the shares to the words of the bag. */
static void fit(const rbt_lda_model *scorer, struct bag *bag)
{
    double total = 0.0;
    for (size_t i = 0; i < bag->count; i++) {
        total += (double)bag->counts[i];
    }
    for (size_t k = 0; k < scorer->topic_count; k++) {
        bag->shares[k] = 1.0F / (float)scorer->topic_count;
    }
    for (int round = 0; round < FIT_ROUNDS && fit_round(scorer, bag, total) > fit_precision;) {
        round++;
    }
}

rbt_status rbt_lda_model_measure(const struct rbt_model *model,
                                 const struct rbt_documents *documents, struct rbt_metrics *metrics)
{
    rbt_lda_model *scorer = NULL;
    struct bag bag = {0};
    rbt_status st = rbt_lda_model_open(model, &scorer);
    st = st != RBT_OK ? st : make_bag(scorer, documents, &bag);
    double sum = 0.0;
    double tokens = 0.0;
    for (size_t d = 0; st == RBT_OK && d < documents->count; d++) {
        fill_bag(documents, d, 0, 2, &bag);
        fit(scorer, &bag);
        fill_bag(documents, d, 1, 2, &bag);
        for (size_t i = 0; i < bag.count; i++) {
            const float *phi = scorer->phi + bag.words[i] * scorer->topic_count;
            const double p = rbt_choose_kernels()->dot(bag.shares, phi, scorer->topic_count);
            sum += (double)bag.counts[i] * log(p);
            tokens += (double)bag.counts[i];
        }
    }
    if (st == RBT_OK && tokens > 0) {
        rbt_metrics_add(metrics, "loglik_per_token", sum / tokens);
        rbt_metrics_add(metrics, "perplexity", exp(-sum / tokens));
    }
    free_bag(&bag);
    rbt_lda_model_close(scorer);
    return st;
}

rbt_status rbt_lda_model_check(const struct rbt_documents *documents)
{
    for (size_t d = 0; d < documents->count; d++) {
        uint64_t tokens = 0;
        for (uint64_t k = documents->offsets[d]; k < documents->offsets[d + 1]; k++) {
            tokens += documents->counts[k];
        }
        if (tokens >= 2) {
            return RBT_OK;
        }
    }
    return documents->tokens == 0
               ? rbt_fail(RBT_E_DATA, "the evaluation data has no word of the model's vocabulary")
               : rbt_fail(RBT_E_DATA, "the evaluation data has no document with two words of the "
                                      "model's vocabulary, one to fit topics and one to score");
}

/* --- For the command line -------------------------------------------------------------------- */

/* The model's words, or none. */
static rbt_status read_vocabulary(const struct rbt_model *model, struct rbt_vocabulary *vocabulary)
{
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, "words");
    const char *at = texts == NULL ? NULL : texts->bytes;
    for (size_t i = 0; texts != NULL && i < texts->count; i++) {
        const size_t length = strlen(at);
        uint32_t number = 0;
        if (length == 0 || length > RBT_WORD_SIZE_MAX) {
            return rbt_fail(RBT_E_DATA, "the model has a word of an impossible length");
        }
        const rbt_status st = rbt_vocabulary_add(vocabulary, at, length, &number);
        if (st != RBT_OK) {
            return st;
        }
        at += length + 1;
    }
    if (texts != NULL && vocabulary->count != texts->count) {
        return rbt_fail(RBT_E_DATA, "the model lists a word twice");
    }
    return RBT_OK;
}

static rbt_status read_documents(const struct rbt_model *model,
                                 const struct rbt_predict_options *options,
                                 struct rbt_documents *documents)
{
    struct rbt_vocabulary vocabulary = {0};
    const struct rbt_model_array *words = NULL;
    rbt_status st = find_words(model, &words);
    st = st != RBT_OK ? st : read_vocabulary(model, &vocabulary);
    if (st == RBT_OK) {
        const struct rbt_document_options data = {
            .paths = options->data.values,
            .path_count = options->data.count,
            .format = (enum rbt_format)options->format,
            .is_zero_based = options->is_zero_based,
            .known = &vocabulary,
            .is_known_by_text = rbt_model_setting(model, "text", 0) != 0,
            .known_count = (size_t)rbt_model_setting(model, "vocabulary", 0)};
        st = rbt_documents_read(&data, documents);
    }
    rbt_vocabulary_free(&vocabulary);
    return st;
}

static void write_shares(FILE *out, const float *shares, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        fprintf(out, k == 0 ? "%.4g" : " %.4g", (double)shares[k]);
    }
    fputs("\n", out);
}

rbt_status rbt_lda_model_predict(const struct rbt_model *model,
                                 const struct rbt_predict_options *options)
{
    struct rbt_documents documents = {0};
    rbt_lda_model *scorer = NULL;
    struct bag bag = {0};
    rbt_status st = read_documents(model, options, &documents);
    if (st != RBT_OK) {
        return st;
    }
    st = rbt_lda_model_open(model, &scorer);
    st = st != RBT_OK ? st : make_bag(scorer, &documents, &bag);
    for (size_t d = 0; st == RBT_OK && d < documents.count; d++) {
        fill_bag(&documents, d, 0, 1, &bag);
        fit(scorer, &bag);
        write_shares(options->out, bag.shares, scorer->topic_count);
    }
    free_bag(&bag);
    rbt_lda_model_close(scorer);
    rbt_documents_free(&documents);
    return st;
}

rbt_status rbt_lda_model_evaluate(const struct rbt_model *model,
                                  const struct rbt_predict_options *options,
                                  struct rbt_metrics *metrics)
{
    struct rbt_documents documents = {0};
    rbt_status st = read_documents(model, options, &documents);
    if (st != RBT_OK) {
        return st;
    }
    *metrics = (struct rbt_metrics){0};
    st = rbt_lda_model_check(&documents);
    st = st != RBT_OK ? st : rbt_lda_model_measure(model, &documents, metrics);
    rbt_documents_free(&documents);
    return st;
}
