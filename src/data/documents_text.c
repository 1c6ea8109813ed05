/* data/documents_text.c - plain text: a line is a document.
 *
 * A word is a run of letters; bytes of UTF-8 beyond ASCII count as letters, and only ASCII is put
 * into lower case. Single letters are no words. Threads: none. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "data/documents.h"
#include "data/lines.h"

#include <stdlib.h>
#include <string.h>

enum { CONTROL_SHARE = 64 }; /* one control character in so many bytes is too many */

static bool is_letter(unsigned char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte >= 0x80;
}

/* Adds a word of `length` letters at `text`. */
static rbt_status add(struct rbt_document_builder *builder, const char *text, size_t length)
{
    const struct rbt_vocabulary *known = builder->options->known;
    char word[RBT_WORD_SIZE_MAX];
    uint32_t number = RBT_WORD_NONE;
    if (length < 2 || length > RBT_WORD_SIZE_MAX) {
        return RBT_OK;
    }
    for (size_t i = 0; i < length; i++) {
        word[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
    }
    if (known != NULL) {
        number = rbt_vocabulary_find(known, word, length);
    } else if (builder->options->vocabulary != NULL) {
        number = rbt_vocabulary_find(&builder->documents.vocabulary, word, length);
    } else {
        const rbt_status st =
            rbt_vocabulary_add(&builder->documents.vocabulary, word, length, &number);
        if (st != RBT_OK) {
            return st;
        }
    }
    return number == RBT_WORD_NONE ? RBT_OK : rbt_document_builder_word(builder, number, 1);
}

static rbt_status add_line(struct rbt_document_builder *builder, const char *p, const char *end)
{
    while (p < end) {
        const char *first = p;
        while (p < end && is_letter((unsigned char)*p)) {
            p++;
        }
        const rbt_status st = p > first ? add(builder, first, (size_t)(p - first)) : RBT_OK;
        if (st != RBT_OK) {
            return st;
        }
        p += p == first ? 1 : 0;
    }
    return rbt_document_builder_end(builder);
}

/* Texts of old have a stray control character now and then; anything else has zeros or many. */
static bool is_text(const struct rbt_text *text)
{
    size_t count = 0;
    for (size_t i = 0; i < text->size; i++) {
        const unsigned char byte = (unsigned char)text->bytes[i];
        if (byte == 0) {
            return false;
        }
        count += byte < ' ' && !(byte >= '\t' && byte <= '\r');
    }
    return count <= text->size / CONTROL_SHARE;
}

rbt_status rbt_documents_text(struct rbt_document_builder *builder, const struct rbt_text *text)
{
    const struct rbt_vocabulary *known = builder->options->known;
    if (!is_text(text)) {
        return rbt_fail(RBT_E_DATA, "cannot read \"%s\": it is not text", text->name);
    }
    if (known != NULL && known->count == 0) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID,
                     "cannot read \"%s\": it is text, but the model has no vocabulary", text->name);
        return rbt_fail_hint(st, "Train with --vocab FILE, or on text.");
    }
    if (known == NULL && builder->options->vocabulary == NULL && builder->size > 0 &&
        builder->documents.vocabulary.count == 0) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID,
                     "cannot read \"%s\": it is text, but the files before have numbers of words",
                     text->name);
        return rbt_fail_hint(st, "Name the file with the words of the numbers: --vocab FILE.");
    }
    const char *end = text->bytes + text->size;
    rbt_status st = RBT_OK;
    for (const char *line = text->bytes; line < end && st == RBT_OK;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop == NULL ? end : stop;
        st = add_line(builder, line, stop);
        line = stop + 1;
    }
    return st;
}

/* --- The words that stay --------------------------------------------------------------------- */

/* A word and how often it occurs. */
struct entry {
    uint64_t count;
    const char *word;
    uint32_t number;
};

static int compare(const void *a, const void *b)
{
    const struct entry *one = a;
    const struct entry *other = b;
    if (one->count != other->count) {
        return one->count > other->count ? -1 : 1;
    }
    return strcmp(one->word, other->word);
}

/* Lists the words that stay, the most frequent first; how many they are. */
static size_t choose(const struct rbt_document_builder *builder,
                     const struct rbt_vocabulary *stop_words, struct entry *entries)
{
    const struct rbt_documents *documents = &builder->documents;
    const struct rbt_vocabulary *words = &documents->vocabulary;
    for (size_t i = 0; i < words->count; i++) {
        entries[i] = (struct entry){.word = rbt_vocabulary_word(words, i), .number = (uint32_t)i};
    }
    for (size_t k = 0; k < builder->size; k++) {
        entries[documents->words[k]].count += documents->counts[k];
    }
    size_t left = 0;
    for (size_t i = 0; i < words->count; i++) {
        const uint32_t stopped =
            rbt_vocabulary_find(stop_words, entries[i].word, strlen(entries[i].word));
        if ((int64_t)entries[i].count >= builder->options->min_count && stopped == RBT_WORD_NONE) {
            entries[left++] = entries[i];
        }
    }
    qsort(entries, left, sizeof *entries, compare);
    return left;
}

/* Numbers the words anew: numbers[i] is word i's, or RBT_WORD_NONE. */
static rbt_status rename_words(struct rbt_document_builder *builder, const uint32_t *numbers)
{
    const struct rbt_documents old = builder->documents;
    const size_t size = builder->size;
    size_t at = 0;
    rbt_status st = RBT_OK;
    /* The words are written over from the left: what is written was read before. */
    builder->documents.count = 0;
    builder->documents.tokens = 0;
    builder->documents.word_count = 0;
    builder->size = 0;
    for (size_t d = 0; d < old.count && st == RBT_OK; d++) {
        const size_t end = (size_t)old.offsets[d + 1];
        for (; at < end && st == RBT_OK; at++) {
            const uint32_t number = numbers[old.words[at]];
            if (number != RBT_WORD_NONE) {
                st = rbt_document_builder_word(builder, number, old.counts[at]);
            }
        }
        st = st != RBT_OK ? st : rbt_document_builder_end(builder);
    }
    RBT_ASSERT(st != RBT_OK || at == size);
    return st;
}

/* Makes the vocabulary of what is left. */
static rbt_status renumber(struct rbt_document_builder *builder, const struct entry *entries,
                           size_t left)
{
    struct rbt_vocabulary words = {0};
    uint32_t *numbers = rbt_calloc(builder->documents.vocabulary.count, sizeof *numbers);
    if (numbers == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the vocabulary");
    }
    memset(numbers, 0xff, builder->documents.vocabulary.count * sizeof *numbers);
    rbt_status st = RBT_OK;
    for (size_t i = 0; i < left && st == RBT_OK; i++) {
        st = rbt_vocabulary_add(&words, entries[i].word, strlen(entries[i].word),
                                &numbers[entries[i].number]);
    }
    st = st != RBT_OK ? st : rename_words(builder, numbers);
    rbt_free(numbers);
    rbt_vocabulary_free(st == RBT_OK ? &builder->documents.vocabulary : &words);
    if (st == RBT_OK) {
        builder->documents.vocabulary = words;
    }
    return st;
}

rbt_status rbt_documents_settle(struct rbt_document_builder *builder)
{
    struct rbt_vocabulary stop_words = {0};
    if (builder->options->vocabulary != NULL) {
        return RBT_OK; /* it says what the words are */
    }
    rbt_status st = builder->options->stop_words == NULL
                        ? RBT_OK
                        : rbt_vocabulary_read(builder->options->stop_words, 0, &stop_words);
    if (st != RBT_OK) {
        return st;
    }
    struct entry *entries = rbt_calloc(builder->documents.vocabulary.count, sizeof *entries);
    if (entries == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory for the vocabulary");
    } else {
        const size_t left = choose(builder, &stop_words, entries);
        st = renumber(builder, entries, left);
    }
    rbt_free(entries);
    rbt_vocabulary_free(&stop_words);
    return st;
}
