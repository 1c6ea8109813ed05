/* algo/lda/lda_words.c - topics for people and for other programs: their words, and all counts. */
#include <stdlib.h>
#include <string.h>

#include "algo/lda/lda_model.h"
#include "algo/lda/lda_words.h"
#include "base/alloc.h"
#include "base/error.h"

enum { TOP_MAX = 32, LISTED = 20, DESCRIBED = 8, DESCRIBED_TOPICS = 20 };

/* A model's words by number, from 0 on, or NULL if it has no names. The caller frees the list. */
static const char **list_names(const struct rbt_model *model)
{
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, "words");
    const char **names = texts == NULL ? NULL : rbt_calloc(texts->count, sizeof *names);
    const char *at = texts == NULL ? NULL : texts->bytes;
    for (size_t i = 0; names != NULL && i < texts->count; i++) {
        names[i] = at;
        at += strlen(at) + 1;
    }
    return names;
}

size_t rbt_lda_words_top(const struct rbt_lda_rows *rows, size_t topic, size_t count,
                         uint64_t *keys)
{
    float counts[TOP_MAX];
    size_t found = 0;
    count = count < TOP_MAX ? count : TOP_MAX;
    for (size_t i = 0; i < rows->count; i++) {
        const float value = rows->values[i * rows->width + topic];
        if (value <= 0 || (found == count && value <= counts[count - 1])) {
            continue;
        }
        size_t at = found < count ? found++ : count - 1;
        for (; at > 0 && counts[at - 1] < value; at--) {
            counts[at] = counts[at - 1];
            keys[at] = keys[at - 1];
        }
        counts[at] = value;
        keys[at] = rows->keys[i];
    }
    return found;
}

static void write_word(FILE *out, const char **names, uint64_t key)
{
    if (names != NULL) {
        fputs(names[key - 1], out);
    } else {
        fprintf(out, "%llu", (unsigned long long)key);
    }
}

/* The model's array as rows; fails if it is not there. */
static rbt_status find_rows(const struct rbt_model *model, struct rbt_lda_rows *rows)
{
    const struct rbt_model_array *words = rbt_model_array_find(model, "words");
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, "words");
    if (words == NULL || (words->count > 0 && words->keys[0] == 0) ||
        (texts != NULL && words->count > 0 && words->keys[words->count - 1] > texts->count)) {
        return rbt_fail(RBT_E_DATA, "the model lacks its words");
    }
    *rows = (struct rbt_lda_rows){words->keys, words->values, words->count, words->width};
    return RBT_OK;
}

rbt_status rbt_lda_words_write_counts(const struct rbt_model *model, FILE *out)
{
    struct rbt_lda_rows rows = {0};
    const rbt_status st = find_rows(model, &rows);
    if (st != RBT_OK) {
        return st;
    }
    const char **names = list_names(model);
    for (size_t i = 0; i < rows.count; i++) {
        write_word(out, names, rows.keys[i]);
        for (size_t k = 0; k < rows.width; k++) {
            const double value = (double)rows.values[i * rows.width + k];
            if (value != 0) {
                fprintf(out, " %zu:%.0f", k + 1, value);
            }
        }
        fputs("\n", out);
    }
    rbt_free(names);
    return RBT_OK;
}

/* Writes one topic's share of all tokens and its most frequent words. */
static void write_topic(FILE *out, const struct rbt_lda_rows *rows, const char **names,
                        size_t topic, size_t count)
{
    uint64_t keys[TOP_MAX];
    const size_t found = rbt_lda_words_top(rows, topic, count, keys);
    for (size_t i = 0; i < found; i++) {
        fputs(" ", out);
        write_word(out, names, keys[i]);
    }
    fputs("\n", out);
}

/* Shares of the topics in all tokens; the caller frees them. */
static double *find_shares(const struct rbt_lda_rows *rows)
{
    double *shares = rbt_calloc(rows->width, sizeof *shares);
    double total = 0.0;
    for (size_t i = 0; shares != NULL && i < rows->count * rows->width; i++) {
        shares[i % rows->width] += (double)rows->values[i];
        total += (double)rows->values[i];
    }
    for (size_t k = 0; shares != NULL && k < rows->width; k++) {
        shares[k] = total > 0 ? shares[k] / total : 0.0;
    }
    return shares;
}

rbt_status rbt_lda_words_write_topics(const struct rbt_model *model, FILE *out)
{
    struct rbt_lda_rows rows = {0};
    const rbt_status st = find_rows(model, &rows);
    if (st != RBT_OK) {
        return st;
    }
    double *shares = find_shares(&rows);
    if (shares == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the shares of topics");
    }
    const char **names = list_names(model);
    for (size_t k = 0; k < rows.width; k++) {
        fprintf(out, "%zu %.6f", k + 1, shares[k]);
        write_topic(out, &rows, names, k, LISTED);
    }
    rbt_free(names);
    rbt_free(shares);
    return RBT_OK;
}

void rbt_lda_words_describe(const struct rbt_model *model, FILE *out)
{
    struct rbt_lda_rows rows = {0};
    double *shares = find_rows(model, &rows) == RBT_OK ? find_shares(&rows) : NULL;
    if (shares == NULL) {
        return;
    }
    const char **names = list_names(model);
    const size_t shown = rows.width < DESCRIBED_TOPICS ? rows.width : DESCRIBED_TOPICS;
    fprintf(out, shown < rows.width ? "  the %zu largest topics\n" : "  the %zu topics\n", shown);
    for (size_t i = 0; i < shown; i++) {
        size_t best = 0;
        for (size_t k = 1; k < rows.width; k++) {
            best = shares[k] > shares[best] ? k : best;
        }
        fprintf(out, "    %4zu %5.1f%% ", best + 1, 100 * shares[best]);
        write_topic(out, &rows, names, best, DESCRIBED);
        shares[best] = -1;
    }
    rbt_free(names);
    rbt_free(shares);
}
