/* data/dictionary.c - numbers for the texts of columns. */
#include "data/dictionary.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

void rbt_dictionary_free(struct rbt_dictionary *dictionary)
{
    rbt_vocabulary_free(&dictionary->words);
    rbt_free(dictionary->is_dropped);
    *dictionary = (struct rbt_dictionary){0};
}

/* The word of a cell; 0: it cannot be one. */
static size_t spell(const struct rbt_dictionary_cell *cell, char *word)
{
    const int prefix = snprintf(word, RBT_WORD_SIZE_MAX + 1, "%zu=", cell->column);
    RBT_ASSERT(prefix > 0 && cell->size > 0);
    const size_t used = (size_t)prefix;
    if (cell->size > RBT_DICTIONARY_TEXT_MAX || used + cell->size > RBT_WORD_SIZE_MAX ||
        memchr(cell->text, '\0', cell->size) != NULL) {
        return 0;
    }
    memcpy(word + used, cell->text, cell->size);
    return used + cell->size;
}

rbt_status rbt_dictionary_add(struct rbt_dictionary *dictionary,
                              const struct rbt_dictionary_cell *cell)
{
    char word[RBT_WORD_SIZE_MAX + 1];
    uint32_t number = 0;
    RBT_ASSERT(!dictionary->is_closed);
    const size_t size = spell(cell, word);
    if (size == 0) {
        const rbt_status st = rbt_fail(
            RBT_E_DATA, "column %zu (from 0) has a text that a dictionary cannot hold: it has %s",
            cell->column,
            cell->size > RBT_DICTIONARY_TEXT_MAX ? "more than 240 bytes" : "a zero byte in it");
        return rbt_fail_hint(st, "Omit --dictionary, or name the column in --skip.");
    }
    return rbt_vocabulary_add(&dictionary->words, word, size, &number);
}

uint32_t rbt_dictionary_find(const struct rbt_dictionary *dictionary,
                             const struct rbt_dictionary_cell *cell)
{
    char word[RBT_WORD_SIZE_MAX + 1];
    const size_t size = spell(cell, word);
    const uint32_t number =
        size == 0 ? RBT_WORD_NONE : rbt_vocabulary_find(&dictionary->words, word, size);
    if (number != RBT_WORD_NONE && dictionary->is_dropped != NULL) {
        return dictionary->is_dropped[number] ? RBT_WORD_NONE : number;
    }
    return number;
}

rbt_status rbt_dictionary_keep(struct rbt_dictionary *dictionary, const uint64_t *keys,
                               size_t count, uint64_t first)
{
    const size_t words = dictionary->words.count;
    RBT_ASSERT(dictionary->is_dropped == NULL);
    bool *is_dropped = rbt_calloc(words, sizeof *is_dropped);
    if (is_dropped == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a dictionary of %zu words", words);
    }
    memset(is_dropped, true, words);
    for (size_t i = 0; i < count; i++) {
        if (keys[i] >= first && keys[i] - first < words) {
            is_dropped[keys[i] - first] = false;
        }
    }
    dictionary->is_dropped = is_dropped;
    return RBT_OK;
}
