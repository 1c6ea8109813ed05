/* fuzz/documents_fuzz.c - any bytes as documents; the first byte chooses the format. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/documents.h"
#include "data/lines.h"
#include "fuzz/text_fuzz.h"

static void check(const struct rbt_documents *documents)
{
    uint64_t tokens = 0;
    RBT_ASSERT(documents->offsets[0] == 0);
    for (size_t d = 0; d < documents->count; d++) {
        RBT_ASSERT(documents->offsets[d] <= documents->offsets[d + 1]);
        for (uint64_t k = documents->offsets[d]; k < documents->offsets[d + 1]; k++) {
            RBT_ASSERT(documents->counts[k] > 0);
            RBT_ASSERT(documents->words[k] < documents->word_count);
            RBT_ASSERT(k == documents->offsets[d] || documents->words[k] > documents->words[k - 1]);
            tokens += documents->counts[k];
        }
    }
    RBT_ASSERT(tokens == documents->tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const enum rbt_format formats[] = {RBT_FORMAT_AUTO, RBT_FORMAT_BOW, RBT_FORMAT_LIBSVM,
                                              RBT_FORMAT_TEXT};
    if (size < 1) {
        return 0;
    }
    const enum rbt_format format = formats[bytes[0] % 4];
    char *copy = rbt_calloc(size, 1);
    RBT_ASSERT(copy != NULL);
    memcpy(copy, bytes + 1, size - 1);
    const struct rbt_text text = {.name = "fuzz", .bytes = copy, .size = size - 1, .first_line = 1};
    const struct rbt_document_options options = {
        .format = format, .min_count = 1 + bytes[0] / 4 % 2, .is_zero_based = bytes[0] > 127};
    struct rbt_documents documents = {0};
    if (rbt_documents_parse(&options, &text, &documents) == RBT_OK) {
        check(&documents);
    }
    rbt_documents_free(&documents);
    rbt_free(copy);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
