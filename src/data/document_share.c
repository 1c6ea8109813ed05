/* data/document_share.c - deals documents out to the workers.
 *
 * The documents that are not empty stand in a random order, one behind the other; the sequence of
 * their tokens is cut into equal parts, at the next border of a document. All workers compute the
 * same order, so they agree without talking.
 *
 * Threads: any, at the same time, on the same documents. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/documents.h"
#include "data/sort.h"

enum { STREAM_DOCUMENTS = 0x646f6373 }; /* "docs" */

void rbt_document_share_free(struct rbt_document_share *share)
{
    rbt_free(share->offsets);
    rbt_free(share->tokens);
    rbt_free(share->keys);
    *share = (struct rbt_document_share){0};
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its documents");
}

static uint64_t tokens_of(const struct rbt_documents *documents, size_t d)
{
    uint64_t tokens = 0;
    for (uint64_t k = documents->offsets[d]; k < documents->offsets[d + 1]; k++) {
        tokens += documents->counts[k];
    }
    return tokens;
}

/* Which documents of the order are in the share: those whose first token is in the part. */
struct part {
    size_t first;
    size_t end;
    uint64_t tokens;
    size_t words;
    size_t count; /* that are not empty */
};

static struct part find_part(const struct rbt_documents *documents, const uint32_t *order,
                             uint32_t index, uint32_t count)
{
    const uint64_t begin = documents->tokens * index / count;
    const uint64_t end = documents->tokens * (index + 1) / count;
    struct part part = {.first = SIZE_MAX};
    uint64_t at = 0;
    for (size_t i = 0; i < documents->count; i++) {
        const uint64_t tokens = tokens_of(documents, order[i]);
        if (tokens > 0 && at >= begin && at < end) {
            part.first = part.first == SIZE_MAX ? i : part.first;
            part.end = i + 1;
            part.tokens += tokens;
            part.words += (size_t)(documents->offsets[order[i] + 1] - documents->offsets[order[i]]);
            part.count++;
        }
        at += tokens;
    }
    part.first = part.first == SIZE_MAX ? 0 : part.first;
    return part;
}

/* Writes the tokens of the part, as numbers of words, one for each occurrence. */
static void write_tokens(const struct rbt_documents *documents, const uint32_t *order,
                         const struct part *part, struct rbt_document_share *share)
{
    uint64_t at = 0;
    for (size_t i = part->first; i < part->end; i++) {
        const size_t d = order[i];
        for (uint64_t k = documents->offsets[d]; k < documents->offsets[d + 1]; k++) {
            for (uint32_t n = 0; n < documents->counts[k]; n++) {
                share->tokens[at++] = documents->words[k];
            }
        }
        if (documents->offsets[d + 1] > documents->offsets[d]) {
            share->offsets[++share->count] = at;
        }
    }
    RBT_ASSERT(at == part->tokens);
    RBT_ASSERT(share->count == part->count);
}

/* Lists the words of the share and makes tokens positions in the list. */
static rbt_status number_words(const struct part *part, size_t word_count,
                               struct rbt_document_share *share)
{
    uint32_t *positions = rbt_calloc(word_count, sizeof *positions);
    if (positions == NULL) {
        return no_memory();
    }
    for (uint64_t i = 0; i < part->tokens; i++) {
        positions[share->tokens[i]] = 1;
    }
    size_t count = 0;
    for (size_t w = 0; w < word_count; w++) {
        count += positions[w];
    }
    share->keys = rbt_calloc(count, sizeof *share->keys);
    if (share->keys == NULL) {
        rbt_free(positions);
        return no_memory();
    }
    for (size_t w = 0; w < word_count; w++) {
        if (positions[w] != 0) {
            positions[w] = (uint32_t)share->key_count;
            share->keys[share->key_count++] = w + 1;
        }
    }
    for (uint64_t i = 0; i < part->tokens; i++) {
        share->tokens[i] = positions[share->tokens[i]];
    }
    rbt_free(positions);
    return RBT_OK;
}

rbt_status rbt_document_share_take(const struct rbt_documents *documents, uint64_t seed,
                                   uint32_t index, uint32_t count, struct rbt_document_share *share)
{
    RBT_ASSERT(index < count);
    struct rbt_document_share made = {0};
    struct rbt_rng rng;
    if (documents->count > UINT32_MAX) {
        return rbt_fail(RBT_E_INVALID, "there are more than %u documents", UINT32_MAX);
    }
    uint32_t *order = rbt_calloc(documents->count, sizeof *order);
    if (order == NULL) {
        return no_memory();
    }
    rbt_rng_init(&rng, seed, STREAM_DOCUMENTS, 0);
    rbt_rng_permutation(&rng, order, documents->count);
    const struct part part = find_part(documents, order, index, count);
    made.offsets = rbt_calloc(part.count + 1, sizeof *made.offsets);
    made.tokens = rbt_calloc(part.tokens, sizeof *made.tokens);
    rbt_status st = made.offsets == NULL || made.tokens == NULL ? no_memory() : RBT_OK;
    if (st == RBT_OK) {
        write_tokens(documents, order, &part, &made);
        st = number_words(&part, documents->word_count, &made);
    }
    rbt_free(order);
    if (st != RBT_OK) {
        rbt_document_share_free(&made);
        return st;
    }
    *share = made;
    return RBT_OK;
}
