/* launch/argv.c - command lines, word by word. */
#include "launch/argv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { CAPACITY_MIN = 16, WORD_MAX = 1024 };

void rbt_argv_add_word(struct rbt_argv *words, const char *word)
{
    if (words->count + 1 >= words->capacity) {
        const size_t capacity = words->capacity > 0 ? 2 * words->capacity : CAPACITY_MIN;
        char **items = rbt_realloc(words->items, capacity, sizeof *items);
        if (items == NULL) {
            words->has_failed = true;
            return;
        }
        words->items = items;
        words->capacity = capacity;
    }
    char *copy = rbt_strdup(word);
    if (copy == NULL) {
        words->has_failed = true;
        return;
    }
    words->items[words->count++] = copy;
    words->items[words->count] = NULL;
}

void rbt_argv_add(struct rbt_argv *words, const char *format, ...)
{
    char word[WORD_MAX];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(word, sizeof word, format, args);
    va_end(args);
    if (length < 0 || length >= WORD_MAX) {
        words->has_failed = true;
        return;
    }
    rbt_argv_add_word(words, word);
}

void rbt_argv_add_split(struct rbt_argv *words, const char *text)
{
    while (*(text += strspn(text, " ")) != '\0') {
        const size_t length = strcspn(text, " ");
        rbt_argv_add(words, "%.*s", (int)(length < WORD_MAX ? length : WORD_MAX), text);
        text += length;
    }
}

void rbt_argv_add_all(struct rbt_argv *words, char *const *argv)
{
    for (; *argv != NULL; argv++) {
        rbt_argv_add_word(words, *argv);
    }
}

void rbt_argv_quote(struct rbt_text_buffer *text, const char *word)
{
    rbt_text_add(text, "'");
    for (const char *c = word; *c != '\0'; c++) {
        if (*c == '\'') {
            rbt_text_add(text, "'\\''");
        } else {
            rbt_text_add_bytes(text, c, 1);
        }
    }
    rbt_text_add(text, "'");
}

void rbt_argv_deinit(struct rbt_argv *words)
{
    for (size_t i = 0; i < words->count; i++) {
        rbt_free(words->items[i]);
    }
    rbt_free(words->items);
    *words = (struct rbt_argv){0};
}
