/* data/classes.c - labels that are names of classes. */
#include "data/classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/csv.h"
#include "data/fields.h"

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a list of classes");
}

static rbt_status too_many(void)
{
    const rbt_status st =
        rbt_fail(RBT_E_DATA, "the data has more than %d different labels", RBT_CLASSES_MAX);
    return rbt_fail_hint(st, "If labels are quantities, not classes, use --loss squared.");
}

rbt_status rbt_classes_note(struct rbt_builder_sink *sink, const struct rbt_cell *cell,
                            float *label)
{
    uint32_t number = 0;
    const size_t size = rbt_cell_size(cell);
    const struct rbt_word name = rbt_csv_name(sink->csv, sink->csv->label_column);
    if (rbt_cell_is_missing(cell)) {
        return rbt_fail(RBT_E_DATA, "the label in column %zu%s is missing", sink->csv->label_column,
                        name.text);
    }
    if (size > RBT_WORD_SIZE_MAX || memchr(cell->begin, '\0', size) != NULL) {
        return rbt_fail(RBT_E_DATA, "the label in column %zu%s %s", sink->csv->label_column,
                        name.text,
                        size > RBT_WORD_SIZE_MAX ? "is too long" : "has a zero byte in it");
    }
    const rbt_status st = rbt_vocabulary_add(&sink->classes, cell->begin, size, &number);
    *label = (float)number;
    return st == RBT_OK && number > RBT_CLASSES_MAX ? too_many() : st;
}

rbt_status rbt_classes_merge(struct rbt_builder *builder, struct rbt_builder_sink *sink)
{
    const size_t count = sink->classes.count;
    uint32_t *numbers = rbt_calloc(count, sizeof *numbers);
    rbt_status st = numbers == NULL ? no_memory() : RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        const char *word = rbt_vocabulary_word(&sink->classes, i);
        st = rbt_vocabulary_add(&builder->classes, word, strlen(word), &numbers[i]);
        st = st == RBT_OK && builder->classes.count > RBT_CLASSES_MAX ? too_many() : st;
    }
    for (size_t k = 0; st == RBT_OK && k < sink->count; k++) {
        sink->labels[k] = (float)numbers[(size_t)sink->labels[k]];
    }
    rbt_free(numbers);
    return st;
}

static bool read_number(const char *word, float *value)
{
    const struct rbt_cell cell = {word, word + strlen(word)};
    return rbt_cell_number(&cell, value);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The plan gets the list of all texts in their order. */
static rbt_status list_texts(const struct rbt_vocabulary *classes, struct rbt_titles *titles)
{
    const char **words = rbt_calloc(classes->count, sizeof *words);
    char *bytes = rbt_calloc(classes->size + classes->count, 1);
    if (words == NULL || bytes == NULL) {
        rbt_free(words);
        rbt_free(bytes);
        return no_memory();
    }
    for (size_t i = 0; i < classes->count; i++) {
        words[i] = rbt_vocabulary_word(classes, i);
    }
    qsort(words, classes->count, sizeof *words, compare);
    *titles = (struct rbt_titles){.count = classes->count, .bytes = bytes, .owned = bytes};
    for (size_t i = 0; i < classes->count; i++) {
        const size_t size = strlen(words[i]) + 1;
        memcpy(bytes + titles->size, words[i], size);
        titles->size += size;
    }
    rbt_free(words);
    return RBT_OK;
}

/* What a label's number becomes: its value, or the place of its text in the plan's list. */
static rbt_status translate(const struct rbt_vocabulary *classes,
                            const struct rbt_column_plan *plan, float *labels)
{
    const struct rbt_titles found = {
        .count = classes->count, .size = classes->size, .bytes = classes->bytes};
    size_t *places = NULL;
    rbt_status st =
        plan->classes.count == 0 ? RBT_OK : rbt_titles_match(&found, &plan->classes, &places);
    for (size_t i = 0; st == RBT_OK && i < classes->count; i++) {
        const char *word = rbt_vocabulary_word(classes, i);
        labels[i] = places == NULL ? 0 : (float)places[i];
        if (places == NULL ? !read_number(word, &labels[i]) : places[i] == SIZE_MAX) {
            st = rbt_fail(RBT_E_DATA, "the label \"%s\" does not occur in the training data", word);
        }
    }
    rbt_free(places);
    return st;
}

rbt_status rbt_classes_settle(struct rbt_builder *builder, struct rbt_column_plan *plan)
{
    const struct rbt_vocabulary *classes = &builder->classes;
    bool has_text = false;
    float value = 0;
    for (size_t i = 0; i < classes->count; i++) {
        has_text |= !read_number(rbt_vocabulary_word(classes, i), &value);
    }
    rbt_status st = RBT_OK;
    if (!plan->has_classes && has_text) {
        st = list_texts(classes, &plan->classes);
    }
    plan->has_classes = true;
    float *labels = rbt_calloc(classes->count, sizeof *labels);
    st = st == RBT_OK && labels == NULL ? no_memory() : st;
    st = st != RBT_OK ? st : translate(classes, plan, labels);
    for (size_t i = 0; st == RBT_OK && i < builder->examples.count; i++) {
        builder->examples.labels[i] = labels[(size_t)builder->examples.labels[i]];
    }
    rbt_free(labels);
    return st;
}
