/* data/generate_documents.c - documents from topics, as latent Dirichlet allocation imagines them.
 *
 * Word w of topic k has the weight w^-1 exp(s g_wk) with normal g: frequencies fall from word to
 * word as in any language, and every topic has its own favourites. A document's shares of topics
 * are drawn from a Dirichlet distribution, and each token's topic and word from those. Documents
 * are made twice, because a bag of words begins with the number of its lines.
 *
 * Threads: none. Memory: 4 bytes per word and topic. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/generate.h"
#include "data/sort.h"
#include "data/writer.h"

/* Whose random numbers these are. */
enum { STREAM_WORDS = 101, STREAM_SHARES, STREAM_TOKENS, STREAM_SIZES };

enum { TRUTH_WORDS = 20, CELLS_MAX = 1 << 29, WORDS_MAX = 1 << 30 };

static const double word_deviation = 2.0; /* of a word's log-weight between topics */
static const double size_deviation = 0.5; /* of the log of a document's size */
static const double alpha = 0.1;          /* of the shares */

struct maker {
    const struct rbt_generate_documents *options;
    float *ends;      /* (topics, words): running sums of weights, the last is 1 */
    double *shares;   /* (topics): running sums of the document at hand */
    uint64_t *tokens; /* of the document at hand: words, sorted */
    uint64_t *scratch;
    uint64_t *sizes; /* of the documents */
    uint64_t size_max;
};

static rbt_status check(const struct rbt_generate_documents *options)
{
    const char *wrong = NULL;
    if (options->words == 0 || options->words > WORDS_MAX || options->topics == 0 ||
        options->topics > CELLS_MAX / options->words) {
        wrong = "there must be a word and a topic, and words times topics at most 2^29";
    } else if (options->documents == 0 || options->documents > UINT32_MAX) {
        wrong = "there must be 1 to 2^32 - 1 documents";
    } else if (options->tokens < options->documents || options->tokens > UINT32_MAX) {
        wrong = "there must be a token for every document, and at most 2^32 - 1";
    }
    return wrong == NULL
               ? RBT_OK
               : rbt_fail(RBT_E_INVALID, "cannot generate \"%s\": %s", options->path, wrong);
}

/* Sizes that add up to the number of tokens, none zero. */
static void draw_sizes(struct maker *maker)
{
    const struct rbt_generate_documents *options = maker->options;
    double total = 0.0;
    for (uint64_t d = 0; d < options->documents; d++) {
        total += exp(size_deviation * rbt_rng_normal_at(options->seed, STREAM_SIZES, d));
    }
    const double spare = (double)(options->tokens - options->documents); /* one for each */
    double sum = 0.0;
    uint64_t given = 0;
    for (uint64_t d = 0; d < options->documents; d++) {
        sum += exp(size_deviation * rbt_rng_normal_at(options->seed, STREAM_SIZES, d));
        const uint64_t due = d + 1 == options->documents ? options->tokens - options->documents
                                                         : (uint64_t)(spare * (sum / total));
        maker->sizes[d] = 1 + (due > given ? due - given : 0);
        given = due > given ? due : given;
        maker->size_max = maker->sizes[d] > maker->size_max ? maker->sizes[d] : maker->size_max;
    }
}

static void draw_words(struct maker *maker, double *weights)
{
    const uint64_t words = maker->options->words;
    for (uint64_t k = 0; k < maker->options->topics; k++) {
        double sum = 0.0;
        for (uint64_t w = 0; w < words; w++) {
            const double g = rbt_rng_normal_at(maker->options->seed, STREAM_WORDS, k * words + w);
            weights[w] = exp(word_deviation * g) / (double)(w + 1);
            sum += weights[w];
        }
        double running = 0.0;
        for (uint64_t w = 0; w < words; w++) {
            running += weights[w];
            maker->ends[k * words + w] = (float)(running / sum);
        }
        maker->ends[k * words + words - 1] = 1.0F;
    }
}

/* A gamma variate of a shape below 1 (Marsaglia and Tsang). */
static double draw_gamma(struct rbt_rng *rng, double shape)
{
    const double d = shape + 1 - 1.0 / 3;
    const double c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = rbt_rng_normal(rng);
        const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
        const double u = 1 - rbt_rng_uniform(rng);
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v)) {
            return d * v * pow(1 - rbt_rng_uniform(rng), 1 / shape);
        }
    }
}

/* Makes a document; returns how many different words it has. */
static uint64_t make_document(struct maker *maker, uint64_t document)
{
    const struct rbt_generate_documents *options = maker->options;
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, STREAM_SHARES, document);
    double total = 0.0;
    for (uint64_t k = 0; k < options->topics; k++) {
        total += draw_gamma(&rng, alpha);
        maker->shares[k] = total;
    }
    rbt_rng_init(&rng, options->seed, STREAM_TOKENS, document);
    const uint64_t size = maker->sizes[document];
    for (uint64_t i = 0; i < size; i++) {
        const double wanted = rbt_rng_uniform(&rng) * total;
        uint64_t k = 0;
        while (k + 1 < options->topics && maker->shares[k] <= wanted) {
            k++;
        }
        const float *ends = maker->ends + k * options->words;
        const float place = (float)rbt_rng_uniform(&rng);
        uint64_t first = 0;
        for (uint64_t left = options->words - 1; left > 0;) { /* the first that ends above it */
            const uint64_t half = left / 2;
            const int is_below = ends[first + half] <= place;
            first += is_below ? half + 1 : 0;
            left = is_below ? left - half - 1 : half;
        }
        maker->tokens[i] = first;
    }
    rbt_sort_keys(maker->tokens, maker->scratch, size);
    uint64_t different = 1;
    for (uint64_t i = 1; i < size; i++) {
        different += maker->tokens[i] != maker->tokens[i - 1] ? 1 : 0;
    }
    return different;
}

static void write_document(struct maker *maker, uint64_t document, struct rbt_writer *data)
{
    const uint64_t size = maker->sizes[document];
    (void)make_document(maker, document); /* its words are not counted here */
    for (uint64_t i = 0; i < size;) {
        uint64_t end = i + 1;
        while (end < size && maker->tokens[end] == maker->tokens[i]) {
            end++;
        }
        rbt_writer_whole(data, document + 1);
        rbt_writer_text(data, " ");
        rbt_writer_whole(data, maker->tokens[i] + 1);
        rbt_writer_text(data, " ");
        rbt_writer_whole(data, end - i);
        rbt_writer_text(data, "\n");
        i = end;
    }
}

static rbt_status write_documents(struct maker *maker)
{
    const struct rbt_generate_documents *options = maker->options;
    struct rbt_writer data;
    const rbt_status st = rbt_writer_open(options->path, &data);
    if (st != RBT_OK) {
        return st;
    }
    uint64_t lines = 0;
    for (uint64_t d = 0; d < options->documents; d++) {
        lines += make_document(maker, d);
    }
    const uint64_t head[] = {options->documents, options->words, lines};
    for (size_t i = 0; i < 3; i++) {
        rbt_writer_whole(&data, head[i]);
        rbt_writer_text(&data, "\n");
    }
    for (uint64_t d = 0; d < options->documents && rbt_writer_is_well(&data); d++) {
        write_document(maker, d, &data);
    }
    return rbt_writer_close(&data);
}

/* The most likely words of each topic. */
static void write_topic(const struct maker *maker, uint64_t topic, struct rbt_writer *truth)
{
    const uint64_t words = maker->options->words;
    const float *ends = maker->ends + topic * words;
    float weights[TRUTH_WORDS] = {0};
    uint64_t best[TRUTH_WORDS] = {0};
    size_t count = 0;
    for (uint64_t w = 0; w < words; w++) {
        const float weight = w == 0 ? ends[0] : ends[w] - ends[w - 1];
        if (count == TRUTH_WORDS && weight <= weights[count - 1]) {
            continue;
        }
        size_t at = count < TRUTH_WORDS ? count++ : count - 1;
        for (; at > 0 && weights[at - 1] < weight; at--) {
            weights[at] = weights[at - 1];
            best[at] = best[at - 1];
        }
        weights[at] = weight;
        best[at] = w;
    }
    rbt_writer_text(truth, "topic ");
    rbt_writer_whole(truth, topic + 1);
    for (size_t i = 0; i < count; i++) {
        rbt_writer_text(truth, " ");
        rbt_writer_whole(truth, best[i] + 1);
    }
    rbt_writer_text(truth, "\n");
}

static rbt_status write_truth(const struct maker *maker)
{
    const char *path = maker->options->path;
    const size_t size = strlen(path) + sizeof ".truth";
    char *name = rbt_calloc(size, 1);
    if (name == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not write \"%s\": out of memory", path);
    }
    (void)snprintf(name, size, "%s.truth", path); /* it fits */
    struct rbt_writer truth;
    const rbt_status st = rbt_writer_open(name, &truth);
    rbt_free(name);
    if (st != RBT_OK) {
        return st;
    }
    for (uint64_t k = 0; k < maker->options->topics && rbt_writer_is_well(&truth); k++) {
        write_topic(maker, k, &truth);
    }
    return rbt_writer_close(&truth);
}

rbt_status rbt_generate_documents(const struct rbt_generate_documents *options)
{
    struct maker maker = {.options = options};
    rbt_status st = check(options);
    if (st != RBT_OK) {
        return st;
    }
    double *weights = rbt_calloc(options->words, sizeof *weights);
    maker.ends = rbt_calloc(options->words * options->topics, sizeof *maker.ends);
    maker.shares = rbt_calloc(options->topics, sizeof *maker.shares);
    maker.sizes = rbt_calloc(options->documents, sizeof *maker.sizes);
    if (maker.sizes != NULL) {
        draw_sizes(&maker);
        maker.tokens = rbt_calloc(maker.size_max, sizeof *maker.tokens);
        maker.scratch = rbt_calloc(maker.size_max, sizeof *maker.scratch);
    }
    if (weights == NULL || maker.ends == NULL || maker.shares == NULL || maker.sizes == NULL ||
        maker.tokens == NULL || maker.scratch == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "could not write \"%s\": out of memory", options->path);
    } else {
        draw_words(&maker, weights);
        st = write_documents(&maker);
        st = st != RBT_OK ? st : write_truth(&maker);
    }
    rbt_free(weights);
    rbt_free(maker.ends);
    rbt_free(maker.shares);
    rbt_free(maker.sizes);
    rbt_free(maker.tokens);
    rbt_free(maker.scratch);
    return st;
}
