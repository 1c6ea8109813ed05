/* launch/argv.h - command lines, word by word.
 *
 *     struct rbt_argv words = {0};
 *     rbt_argv_add(&words, "%s/rubato", folder);
 *     rbt_argv_add(&words, "server");
 *     if (words.has_failed) { ... }
 *     execv(words.items[0], words.items);
 *     rbt_argv_deinit(&words);
 *
 * As with texts, adding never fails on the spot. Threads: none. */
#ifndef RUBATO_LAUNCH_ARGV_H
#define RUBATO_LAUNCH_ARGV_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>

#include "base/text.h"

/* All zeros is empty. */
struct rbt_argv {
    char **items; /* ends with NULL once something was added; owned */
    size_t count;
    size_t capacity;
    bool has_failed; /* memory ran out; what is there is incomplete */
};

void rbt_argv_add(struct rbt_argv *words, const char *format, ...) RBT_PRINTF(2, 3);

/* Adds a word as it is; every word of a text that is separated by spaces; the words of an array
 * that ends with NULL. */
void rbt_argv_add_word(struct rbt_argv *words, const char *word);
void rbt_argv_add_split(struct rbt_argv *words, const char *text);
void rbt_argv_add_all(struct rbt_argv *words, char *const *argv);

/* Adds the word to a text so that a shell reads it back as it is. */
void rbt_argv_quote(struct rbt_text_buffer *text, const char *word);

void rbt_argv_deinit(struct rbt_argv *words);

#endif
