/* algo/lda/lda.c - topics of documents: latent Dirichlet allocation by collapsed Gibbs sampling.
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
#include "algo/lda/lda.h"

#include <string.h>

#include "algo/lda/lda_counts.h"
#include "algo/lda/lda_job.h"
#include "algo/lda/lda_words.h"
#include "base/alloc.h"
#include "base/error.h"

static const char *const rows_kinds[] = {"auto", "dense", "sparse", NULL};
enum { EPOCHS_DEFAULT = 100, TOPICS_MAX = 65536 };
enum { CLOCKS_DEFAULT = 4 }; /* in an epoch: costs a tenth more time than 1, and saves epochs */
static const double exact_max = 0x1p24; /* whole numbers up to here are exact floats */

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its documents");
}

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct rbt_lda_job *lda = context;
    struct rbt_table_options words = {.struct_size = sizeof words,
                                      .type = RBT_F32,
                                      .layout =
                                          lda->rows == RBT_LDA_ROWS_SPARSE ? RBT_SPARSE : RBT_DENSE,
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
    struct rbt_table_options by_worker = {
        .struct_size = sizeof by_worker, .type = RBT_F64, .width = lda->worker_count};
    rbt_status st = rbt_table_open(job, "words", &words, &lda->words);
    if (st == RBT_OK) {
        st = rbt_table_open(job, "sums", &sums, &lda->sums);
    }
    st = st != RBT_OK ? st : rbt_table_open(job, "parts", &parts, &lda->parts);
    return st != RBT_OK ? st : rbt_table_open(job, "by_worker", &by_worker, &lda->by_worker);
}

/* --- The end --------------------------------------------------------------------------------- */

static rbt_status wrong_counts(const struct rbt_lda_job *lda, rbt_status st)
{
    return lda->rules.filter[0] == '\0'
               ? st
               : rbt_fail_hint(st, "lda needs exact updates: use keys, zeros, lz4 or zstd, which "
                                   "neither round nor drop them.");
}

/* All tokens must be there. If everybody has finished (`sums` is not NULL), topic k's tokens must
 * also be as many by words as in the row of sums. A training that is stopped early may have workers
 * that are ahead and still send; the rows of the two tables are then not of the same moment, but a
 * word's tokens only move within its row. */
static rbt_status check_counts(const struct rbt_lda_job *lda, const struct rbt_model_array *words,
                               const struct rbt_rows *sums)
{
    const bool is_float = rbt_table_type(lda->sums) == RBT_F32;
    double total = 0.0;
    for (size_t k = 0; k < words->width; k++) {
        double column = 0.0;
        double sum = 0.0;
        for (size_t i = 0; i < words->count; i++) {
            column += (double)words->values[i * words->width + k];
        }
        if (sums != NULL && sums->count > 0) {
            sum = is_float ? (double)((const float *)sums->values)[k]
                           : ((const double *)sums->values)[k];
        }
        if (sums != NULL && sum != column) {
            return wrong_counts(
                lda, rbt_fail(RBT_E_DATA,
                              "the counts are wrong: topic %zu has %.0f tokens by its words, and "
                              "%.0f in sum",
                              k + 1, column, sum));
        }
        total += column;
    }
    if (total != (double)lda->documents.tokens) {
        return wrong_counts(lda, rbt_fail(RBT_E_DATA,
                                          "the counts are wrong: %.0f of %llu tokens have a topic",
                                          total, (unsigned long long)lda->documents.tokens));
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
    const struct rbt_lda_job *lda = context;
    struct rbt_rows sums = {0};
    struct rbt_rows parts = {0};
    model->kind = RBT_MODEL_LDA;
    rbt_model_set(model, "alpha", lda->config.alpha);
    rbt_model_set(model, "beta", lda->config.beta);
    rbt_model_set(model, "vocabulary", (double)lda->documents.word_count);
    rbt_model_set(model, "documents", (double)lda->documents.count);
    rbt_model_set(model, "tokens", (double)lda->documents.tokens);
    rbt_model_set(model, "text", lda->documents.is_own_numbers ? 1.0 : 0.0);
    rbt_status st = rbt_lda_counts_collect(lda, worker, staleness, &model->arrays[0]);
    model->array_count = st == RBT_OK ? 1 : 0;
    st = st != RBT_OK ? st : rbt_pull_range(worker, lda->parts, RBT_RANGE_ALL, staleness, &parts);
    if (st == RBT_OK && staleness == 0) {
        st = rbt_pull_range(worker, lda->sums, RBT_RANGE_ALL, staleness, &sums);
        const bool is_over = rbt_worker_clock(worker) > lda->clock_count; /* one to prepare */
        st = st != RBT_OK ? st : check_counts(lda, &model->arrays[0], is_over ? &sums : NULL);
    }
    if (st == RBT_OK) {
        rbt_model_set(model, "documents_loglik",
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
    const struct rbt_lda_job *lda = context;
    return rbt_lda_model_measure(model, &lda->eval, metrics);
}

static const struct rbt_training_task task = {.open = open_tables,
                                              .begin = rbt_lda_step_begin,
                                              .ready = rbt_lda_step_ready,
                                              .work = rbt_lda_step_work,
                                              .push = rbt_lda_step_push,
                                              .penalty = rbt_lda_step_penalty,
                                              .end = rbt_lda_step_end,
                                              .collect = collect,
                                              .objective = objective,
                                              .evaluate = evaluate,
                                              .note = rbt_lda_step_note,
                                              .compare = rbt_lda_step_compare};

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
            st = rbt_fail_hint(st, "Remove the word from the data: a word in every document says "
                                   "nothing about topics.");
        }
    }
    rbt_free(counts);
    return st;
}

static rbt_status read_data(struct rbt_lda_job *lda, const struct rbt_train_options *options)
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
        st = rbt_fail_hint(st, "Lower --min-count, which leaves out words that occur less often.");
    }
    st = st != RBT_OK ? st : check_words(&lda->documents);
    if (st == RBT_OK && options->eval.count > 0) {
        data.paths = options->eval.values;
        data.path_count = options->eval.count;
        data.vocabulary = NULL;
        data.stop_words = NULL;
        data.is_known_by_text = lda->documents.is_own_numbers;
        data.known = &lda->documents.vocabulary;
        data.known_count = lda->documents.word_count;
        st = rbt_documents_read(&data, &lda->eval);
        st = st != RBT_OK ? st : rbt_lda_model_check(&lda->eval);
    }
    return st;
}

static void free_data(struct rbt_lda_job *lda)
{
    for (uint32_t p = 0; lda->workers != NULL && p < lda->worker_count; p++) {
        rbt_lda_step_free(&lda->workers[p]);
    }
    rbt_free(lda->workers);
    rbt_documents_free(&lda->eval);
    rbt_documents_free(&lda->documents);
}

/* Sparse rows are read one at a time, and cannot do all that working sets can. */
static rbt_status settle_rows(struct rbt_lda_job *lda)
{
    const bool needs_dense =
        lda->is_managed || lda->rules.filter[0] != '\0' || lda->options->is_exact;
    lda->rows = (enum rbt_lda_rows_kind)lda->config.rows;
    if (needs_dense && lda->rows == RBT_LDA_ROWS_SPARSE) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--rows sparse\" excludes --bandwidth, --filter and --exact");
    }
    lda->rows = needs_dense ? RBT_LDA_ROWS_DENSE
                            : rbt_lda_counts_choose(lda->rows, (size_t)lda->config.topics);
    return RBT_OK;
}

/* What the options say about rules and samplers, before data is read. */
static rbt_status settle(struct rbt_lda_job *lda)
{
    const rbt_status st = rbt_rules_read(lda->options, &lda->rules);
    if (st != RBT_OK) {
        return st;
    }
    if (!lda->rules.is_plain) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--rule\" does not apply to lda, whose counts are added");
    }
    if (lda->config.stop_words != NULL && lda->config.vocabulary != NULL) {
        return rbt_fail(RBT_E_INVALID, "options \"--stop-words\" and \"--vocab\" exclude each "
                                       "other: the vocabulary already lists the words to keep");
    }
    lda->is_managed = lda->options->bandwidth > 0;
    lda->kind = (enum rbt_lda_kind)lda->config.sampler;
    if (lda->is_managed && lda->kind != RBT_LDA_AUTO && lda->kind != RBT_LDA_DENSE) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--bandwidth\" needs \"--sampler dense\": the other samplers need "
                        "rows that do not change within a clock");
    }
    lda->kind = lda->is_managed ? RBT_LDA_DENSE
                                : rbt_lda_sampler_choose(lda->kind, (size_t)lda->config.topics);
    return settle_rows(lda);
}

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_lda_config *config = settings;
    struct rbt_training training = rbt_training_of(options, observer, &task, EPOCHS_DEFAULT);
    struct rbt_lda_job lda = {.options = options,
                              .config = *config,
                              .seed = (uint64_t)options->seed,
                              .worker_count = training.workers};
    training.context = &lda;
    training.rules = &lda.rules;
    rbt_status st = settle(&lda);
    if (st != RBT_OK) {
        return st;
    }
    lda.clocks_per_epoch =
        options->clocks_per_epoch > 0 ? options->clocks_per_epoch : CLOCKS_DEFAULT;
    training.clocks_per_epoch = lda.clocks_per_epoch;
    lda.clock_count = training.epochs * lda.clocks_per_epoch;
    lda.workers = rbt_calloc(lda.worker_count, sizeof *lda.workers);
    st = lda.workers == NULL ? no_memory() : read_data(&lda, options);
    if (st == RBT_OK) {
        training.examples = lda.documents.tokens;
        st = rbt_training_run(&training, summary);
    }
    free_data(&lda);
    return st;
}

#define ENTRY(kind, ...) RBT_OPTION_ENTRY(struct rbt_lda_config, kind, __VA_ARGS__)
static const struct rbt_option lda_options[] = {RBT_LDA_OPTIONS(ENTRY)};

static const struct rbt_algo_export exports[] = {
    {"counts", "how often each word has each topic: word topic:count ...",
     rbt_lda_words_write_counts},
    {"topics", "the words of each topic: topic share word ...", rbt_lda_words_write_topics},
    {0}};

/* Shares of topics are probabilities. */
static const char *why_uncertain(const struct rbt_model *model)
{
    (void)model;
    return NULL;
}

const struct rbt_algo rbt_lda = {
    .name = "lda",
    .summary = "Topics of documents: latent Dirichlet allocation by Gibbs sampling.",
    .examples = "  rubato train lda --data articles.txt --topics 50 --model m.rbt\n"
                "  rubato train lda --data docword.kos.txt.zst --vocab vocab.kos.txt.zst\n",
    .model_kind = RBT_MODEL_LDA,
    .options = lda_options,
    .option_count = sizeof lda_options / sizeof lda_options[0],
    .config_size = sizeof(struct rbt_lda_config),
    .costs = rbt_lda_costs,
    .cost_count = RBT_LDA_COST_COUNT,
    .epochs_default = EPOCHS_DEFAULT,
    .train = train,
    .predict = rbt_lda_model_predict,
    .evaluate = rbt_lda_model_evaluate,
    .why_uncertain = why_uncertain,
    .exports = exports,
    .describe = rbt_lda_words_describe,
};
