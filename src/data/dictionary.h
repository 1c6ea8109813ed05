/* data/dictionary.h - numbers for the texts of columns, instead of hashes: no two share one.
 *
 * A word is the number of a column, '=', and a text: "3=blue". Words are numbered from 0 in the
 * order in which files have them, so that all who read the same files agree. A dictionary is made
 * while data is read, and then closed: what it does not have is unknown from there on.
 *
 * Threads: any that only look. */
#ifndef RUBATO_DATA_DICTIONARY_H
#define RUBATO_DATA_DICTIONARY_H

#include <stdbool.h>

#include "data/vocabulary.h"

enum { RBT_DICTIONARY_TEXT_MAX = 240 }; /* bytes of a text */

/* All zero is an empty one. */
struct rbt_dictionary {
    struct rbt_vocabulary words;
    bool *is_dropped; /* (words.count), or NULL: none is */
    bool is_closed;
    uint64_t unknown; /* cells that it did not have a number for */
};

/* Accepts an empty one and leaves one. */
void rbt_dictionary_free(struct rbt_dictionary *dictionary);

/* A text of a column. */
struct rbt_dictionary_cell {
    size_t column;
    const char *text;
    size_t size; /* at least 1 */
};

/* Fails with RBT_E_DATA (a text that is too long, or has a zero byte in it) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_dictionary_add(struct rbt_dictionary *dictionary,
                                           const struct rbt_dictionary_cell *cell);

/* Its number, or RBT_WORD_NONE. */
uint32_t rbt_dictionary_find(const struct rbt_dictionary *dictionary,
                             const struct rbt_dictionary_cell *cell);

/* Drops all words but those whose numbers, counted from `first`, are among the keys. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_dictionary_keep(struct rbt_dictionary *dictionary, const uint64_t *keys,
                                            size_t count, uint64_t first);

#endif
