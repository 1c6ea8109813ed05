/* data/vocabulary.c - words and their numbers: all words in one block, found by their hashes. */
#include "data/vocabulary.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/input.h"

enum { COUNT_FIRST = 1024, SIZE_FIRST = 16 * 1024 };

void rbt_vocabulary_free(struct rbt_vocabulary *vocabulary)
{
    rbt_free(vocabulary->starts);
    rbt_free(vocabulary->bytes);
    if (vocabulary->map.entries != NULL) {
        rbt_map_deinit(&vocabulary->map);
    }
    *vocabulary = (struct rbt_vocabulary){0};
}

const char *rbt_vocabulary_word(const struct rbt_vocabulary *vocabulary, size_t number)
{
    RBT_ASSERT(number < vocabulary->count);
    return vocabulary->bytes + vocabulary->starts[number];
}

static int is_word(const struct rbt_vocabulary *vocabulary, uint32_t number, const char *word,
                   size_t length)
{
    const char *there = rbt_vocabulary_word(vocabulary, number);
    return strncmp(there, word, length) == 0 && there[length] == '\0'; /* words have no zeros */
}

/* Where the word is in the map: its number, or RBT_MAP_NONE and the key that it would get. Words
 * whose hashes are equal take the next key that is free. */
static uint32_t search(const struct rbt_vocabulary *vocabulary, const char *word, size_t length,
                       uint64_t *key)
{
    uint32_t number = RBT_MAP_NONE;
    *key = rbt_hash_bytes(word, length, 0);
    while ((number = rbt_map_find(&vocabulary->map, *key)) != RBT_MAP_NONE &&
           !is_word(vocabulary, number, word, length)) {
        ++*key;
    }
    return number;
}

uint32_t rbt_vocabulary_find(const struct rbt_vocabulary *vocabulary, const char *word,
                             size_t length)
{
    uint64_t key = 0;
    RBT_ASSERT(length > 0);
    if (vocabulary->count == 0) {
        return RBT_WORD_NONE;
    }
    const uint32_t number = search(vocabulary, word, length, &key);
    return number == RBT_MAP_NONE ? RBT_WORD_NONE : number;
}

static rbt_status make_room(struct rbt_vocabulary *vocabulary, size_t length)
{
    rbt_status st = RBT_OK;
    if (vocabulary->map.entries == NULL) {
        st = rbt_map_init(&vocabulary->map, COUNT_FIRST);
    }
    if (st == RBT_OK && vocabulary->count == vocabulary->count_max) {
        const size_t count = vocabulary->count == 0 ? COUNT_FIRST : 2 * vocabulary->count;
        uint64_t *starts = rbt_realloc(vocabulary->starts, count, sizeof *starts);
        if (starts == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for a vocabulary of %zu words", count);
        }
        vocabulary->starts = starts;
        vocabulary->count_max = count;
    }
    if (st == RBT_OK && vocabulary->size_max - vocabulary->size <= length) {
        const size_t size = vocabulary->size == 0 ? SIZE_FIRST : 2 * vocabulary->size_max;
        char *bytes = rbt_realloc(vocabulary->bytes, size, 1);
        if (bytes == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for a vocabulary of %zu bytes", size);
        }
        vocabulary->bytes = bytes;
        vocabulary->size_max = size;
    }
    return st != RBT_OK ? st : rbt_map_reserve(&vocabulary->map, 1);
}

rbt_status rbt_vocabulary_add(struct rbt_vocabulary *vocabulary, const char *word, size_t length,
                              uint32_t *number)
{
    RBT_ASSERT(length > 0 && length <= RBT_WORD_SIZE_MAX);
    const rbt_status st = make_room(vocabulary, length);
    if (st != RBT_OK) {
        return st;
    }
    uint64_t key = 0;
    *number = search(vocabulary, word, length, &key);
    if (*number != RBT_MAP_NONE) {
        return RBT_OK;
    }
    if (vocabulary->count >= INT32_MAX) {
        return rbt_fail(RBT_E_DATA, "there are more than 2^31 different words");
    }
    *number = (uint32_t)vocabulary->count;
    vocabulary->starts[vocabulary->count++] = vocabulary->size;
    memcpy(vocabulary->bytes + vocabulary->size, word, length);
    vocabulary->bytes[vocabulary->size + length] = '\0';
    vocabulary->size += length + 1;
    rbt_map_insert(&vocabulary->map, key, *number);
    return RBT_OK;
}

/* One line of a file of words. */
static rbt_status add_line(struct rbt_vocabulary *vocabulary, const char *line, size_t size,
                           int is_numbered)
{
    size_t length = 0;
    while (length < size && strchr(" \t\r", line[length]) == NULL) {
        length++; /* a zero ends the word as well: strchr finds it */
    }
    if (length == 0 || length > RBT_WORD_SIZE_MAX) {
        return !is_numbered && length == 0
                   ? RBT_OK
                   : rbt_fail(RBT_E_DATA,
                              length == 0 ? "there is no word" : "the word is too long");
    }
    const size_t before = vocabulary->count;
    uint32_t number = 0;
    const rbt_status st = rbt_vocabulary_add(vocabulary, line, length, &number);
    if (st == RBT_OK && is_numbered && vocabulary->count == before) {
        return rbt_fail(RBT_E_DATA, "the word \"%.40s\" occurs twice",
                        rbt_vocabulary_word(vocabulary, number));
    }
    return st;
}

rbt_status rbt_vocabulary_read(const char *path, int is_numbered, struct rbt_vocabulary *vocabulary)
{
    struct rbt_input input = {0};
    struct rbt_vocabulary made = {0};
    rbt_status st = rbt_input_read(path, &input);
    if (st != RBT_OK) {
        return st;
    }
    const char *end = input.bytes + input.size;
    size_t number = 1;
    for (const char *line = input.bytes; line < end && st == RBT_OK; number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop == NULL ? end : stop;
        st = add_line(&made, line, (size_t)(stop - line), is_numbered);
        line = stop + 1;
    }
    rbt_input_free(&input);
    if (st != RBT_OK) {
        rbt_vocabulary_free(&made);
        return rbt_fail_in(st, "cannot read \"%s\", line %zu", path, number - 1);
    }
    *vocabulary = made;
    return RBT_OK;
}
