/* data/vocabulary.h - words and their numbers.
 *
 * Words are numbered from 0 in the order in which they are added. Threads: any that only look. */
#ifndef RUBATO_DATA_VOCABULARY_H
#define RUBATO_DATA_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/map.h"

enum { RBT_WORD_SIZE_MAX = 255 }; /* bytes of a word; what is longer is no word */

#define RBT_WORD_NONE UINT32_MAX

/* All zero is an empty one. */
struct rbt_vocabulary {
    size_t count;
    uint64_t *starts; /* of each word in `bytes`, which ends with a zero */
    char *bytes;
    size_t size; /* of what is in `bytes` */
    size_t count_max;
    size_t size_max;
    struct rbt_map map; /* from hashes to numbers */
};

void rbt_vocabulary_free(struct rbt_vocabulary *vocabulary);

/* The word with this number. */
const char *rbt_vocabulary_word(const struct rbt_vocabulary *vocabulary, size_t number);

/* The number of a word, or RBT_WORD_NONE; length is at least 1. */
uint32_t rbt_vocabulary_find(const struct rbt_vocabulary *vocabulary, const char *word,
                             size_t length);

/* The same, after adding it if it is new. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_vocabulary_add(struct rbt_vocabulary *vocabulary, const char *word,
                                           size_t length, uint32_t *number);

/* Reads a file of words, one in a line; what follows a blank or tab is not looked at. The caller
 * frees the result. A word that is there twice is wrong in a vocabulary (RBT_E_DATA), since numbers
 * would shift, and not in other lists (`is_numbered` false). Fails like rbt_input_read() too. */
RBT_MUST_USE rbt_status rbt_vocabulary_read(const char *path, int is_numbered,
                                            struct rbt_vocabulary *vocabulary);

#endif
