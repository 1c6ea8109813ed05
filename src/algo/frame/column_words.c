/* algo/frame/column_words.c - the dictionary of text columns in a model. */
#include "algo/frame/column_words.h"

#include <string.h>

#include "algo/frame/column_options.h"
#include "base/alloc.h"
#include "base/error.h"

static const char list_name[] = "dictionary";

rbt_status rbt_column_words_store(const struct rbt_column_plan *plan, struct rbt_model *model)
{
    const struct rbt_dictionary *dictionary = plan->dictionary;
    if (dictionary == NULL || model->text_count == RBT_MODEL_TEXTS_MAX) {
        return RBT_OK;
    }
    const size_t count = dictionary->words.count;
    struct rbt_model_texts *texts = &model->texts[model->text_count];
    char *bytes = rbt_calloc(dictionary->words.size + 1, 1);
    if (bytes == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the dictionary of a model");
    }
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_dropped = dictionary->is_dropped != NULL && dictionary->is_dropped[i];
        const char *word = is_dropped ? "" : rbt_vocabulary_word(&dictionary->words, i);
        const size_t length = strlen(word) + 1;
        memcpy(bytes + size, word, length);
        size += length;
    }
    *texts = (struct rbt_model_texts){.count = count, .size = size, .bytes = bytes};
    (void)snprintf(texts->name, sizeof texts->name, "%s", list_name);
    model->text_count++;
    return RBT_OK;
}

/* Takes a word apart: the number of a column that may have texts, '=', and a text. */
static bool read_word(const struct rbt_column_plan *plan, const char *word,
                      struct rbt_dictionary_cell *cell)
{
    size_t column = 0;
    size_t digits = 0;
    for (; word[digits] >= '0' && word[digits] <= '9' && column < plan->count; digits++) {
        column = column * 10 + (size_t)(word[digits] - '0');
    }
    if (digits == 0 || word[digits] != '=' || column >= plan->count ||
        plan->kinds[column] == RBT_COLUMN_NUMBER || plan->kinds[column] == RBT_COLUMN_SKIPPED) {
        return false;
    }
    const char *text = word + digits + 1;
    *cell = (struct rbt_dictionary_cell){.column = column, .text = text, .size = strlen(text)};
    return cell->size > 0 && cell->size <= RBT_DICTIONARY_TEXT_MAX;
}

/* A place for a word that was dropped, which nobody can ask for: a column never has this number. */
static rbt_status add_dropped(struct rbt_dictionary *dictionary, size_t number)
{
    char text[RBT_DICTIONARY_TEXT_MAX];
    const int size = snprintf(text, sizeof text, "%zu", number);
    const struct rbt_dictionary_cell cell = {
        .column = RBT_FIELDS_MAX, .text = text, .size = (size_t)size};
    return rbt_dictionary_add(dictionary, &cell);
}

rbt_status rbt_column_words_load(const struct rbt_model *model, struct rbt_dictionary *dictionary,
                                 struct rbt_column_plan *plan)
{
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, list_name);
    if (texts == NULL) {
        return RBT_OK;
    }
    const char *word = texts->bytes;
    for (size_t i = 0; i < texts->count; i++) {
        struct rbt_dictionary_cell cell = {0};
        const bool is_dropped = word[0] == '\0';
        const bool is_good = is_dropped || read_word(plan, word, &cell);
        rbt_status st = !is_good ? RBT_E_DATA : RBT_OK;
        if (st == RBT_OK) {
            st = is_dropped ? add_dropped(dictionary, i) : rbt_dictionary_add(dictionary, &cell);
        }
        if (st == RBT_E_NOMEM) {
            return st;
        }
        if (st != RBT_OK || dictionary->words.count != i + 1) { /* or it was there before */
            return rbt_fail(RBT_E_DATA, "the model's dictionary is damaged at word %zu", i + 1);
        }
        word += strlen(word) + 1;
    }
    dictionary->is_closed = true;
    plan->dictionary = dictionary;
    return RBT_OK;
}

rbt_status rbt_column_words_export(const struct rbt_model *model, FILE *out)
{
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, list_name);
    if (texts == NULL) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "the model has no dictionary");
        return rbt_fail_hint(st, "Train on columns of text with --dictionary.");
    }
    const size_t first = rbt_column_options_count(model) + 1;
    const char *word = texts->bytes;
    for (size_t i = 0; i < texts->count; i++) {
        if (word[0] != '\0') {
            fprintf(out, "%zu %s\n", first + i, word);
        }
        word += strlen(word) + 1;
    }
    return RBT_OK;
}
