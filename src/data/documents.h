/* data/documents.h - documents as bags of words.
 *
 * A document is a list of words, by number, and how often each occurs. Files are bags of words as
 * the UCI repository has them, examples of LIBSVM whose values are counts, or plain text. */
#ifndef RUBATO_DATA_DOCUMENTS_H
#define RUBATO_DATA_DOCUMENTS_H

#include <stdbool.h>

#include "data/examples.h"
#include "data/vocabulary.h"

/* Document d has the words words[k], counts[k] times, k = offsets[d] .. offsets[d+1]-1; numbers
 * increase, counts are from 1. A document may be empty. */
struct rbt_documents {
    size_t count;
    uint64_t *offsets; /* count + 1 */
    uint32_t *words;
    uint32_t *counts;
    uint64_t tokens;   /* sum of all counts */
    size_t word_count; /* words are below it: what the vocabulary or a file's head says, or else the
                          largest number and one */
    struct rbt_vocabulary vocabulary; /* empty if nobody says what the words are */
    bool is_own_numbers; /* there was text and no file of words: numbers mean nothing elsewhere */
};

struct rbt_document_options {
    const char *const *paths; /* as in rbt_data_options */
    size_t path_count;
    enum rbt_format format; /* AUTO, BOW, LIBSVM or TEXT */
    bool is_zero_based;
    const char *vocabulary; /* a file of words, or NULL */
    const char *stop_words; /* the same; words that are left out; refused if it is not text */
    int64_t min_count;      /* of text without a vocabulary: rarer words are left out */
    /* The words of a model, or NULL; words that it does not know are left out. */
    const struct rbt_vocabulary *known;
    size_t known_count;    /* the same for words without names: those below; 0: all */
    bool is_known_by_text; /* the model's numbers are its own: AUTO is TEXT, numbers are refused */
};

/* Reads all files in the order given. On success the caller frees the result. Fails as
 * rbt_examples_read() does. */
RBT_MUST_USE rbt_status rbt_documents_read(const struct rbt_document_options *options,
                                           struct rbt_documents *documents);

/* The same for one text in memory; paths are not looked at. */
RBT_MUST_USE rbt_status rbt_documents_parse(const struct rbt_document_options *options,
                                            const struct rbt_text *text,
                                            struct rbt_documents *documents);
void rbt_documents_free(struct rbt_documents *documents);

/* What worker `index` of `count` works on: its share of a random order of the documents that
 * depends on `seed` alone; shares differ by less than a document's tokens. Every occurrence of a
 * word is a token. */
struct rbt_document_share {
    size_t count;      /* documents, none empty */
    uint64_t *offsets; /* count + 1 */
    uint32_t *tokens;  /* positions in `keys` */
    uint64_t *keys;    /* numbers of words from 1 on, sorted, unique */
    size_t key_count;
};

RBT_MUST_USE rbt_status rbt_document_share_take(const struct rbt_documents *documents,
                                                uint64_t seed, uint32_t index, uint32_t count,
                                                struct rbt_document_share *share);
void rbt_document_share_free(struct rbt_document_share *share);

/* --- For the readers ------------------------------------------------------------------------- */

/* Collects documents word by word. */
struct rbt_document_builder {
    const struct rbt_document_options *options;
    struct rbt_documents documents;
    size_t size;      /* words so far, all documents */
    size_t size_max;  /* room for so many */
    size_t count_max; /* the same of documents */
    uint64_t *scratch;
    size_t scratch_max;
};

/* Adds a word to the open document; ends it: words are sorted, and those given twice added up. */
RBT_MUST_USE rbt_status rbt_document_builder_word(struct rbt_document_builder *builder,
                                                  uint32_t word, uint32_t count);
RBT_MUST_USE rbt_status rbt_document_builder_end(struct rbt_document_builder *builder);

/* Parses plain text: a line is a document, a word is what is made of letters, in lower case, and of
 * at least two. Words are numbered in the order in which they come, or by the vocabulary. Bytes
 * that are no text are refused. */
RBT_MUST_USE rbt_status rbt_documents_text(struct rbt_document_builder *builder,
                                           const struct rbt_text *text);

/* After all text: leaves out rare words and stop words, and numbers words by how frequent they are,
 * the most frequent first. */
RBT_MUST_USE rbt_status rbt_documents_settle(struct rbt_document_builder *builder);

#endif
