/* test/fuzz/model_fuzz.c - the model decoder survives any bytes, with and without a good checksum.
 *
 * What it accepts must encode to the same bytes again. Columns and their dictionary are read as
 * `predict` does. */
#include <string.h>

#include "algo/frame/column_options.h"
#include "algo/frame/column_words.h"
#include "algo/frame/model.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A dictionary that makes sense is stored as it was. */
static void read_columns(const struct rbt_model *model)
{
    static struct rbt_column_plan plan; /* large */
    struct rbt_data_options data = {0};
    struct rbt_dictionary dictionary = {0};
    rbt_status st = rbt_column_options_load(model, &plan, &data);
    st = st != RBT_OK ? st : rbt_column_words_load(model, &dictionary, &plan);
    if (st == RBT_OK && plan.dictionary != NULL) {
        RBT_ASSERT(dictionary.words.count == rbt_model_texts_find(model, "dictionary")->count);
    }
    rbt_dictionary_free(&dictionary);
}

static void decode(const uint8_t *bytes, size_t size)
{
    struct rbt_model model = {0};
    if (rbt_model_decode(bytes, size, &model) != RBT_OK) {
        return;
    }
    uint8_t *again = NULL;
    size_t again_size = 0;
    if (rbt_model_encode(&model, &again, &again_size) == RBT_OK) {
        RBT_ASSERT(again_size == size);
        RBT_ASSERT(memcmp(again, bytes, size) == 0);
        rbt_free(again);
    }
    read_columns(&model);
    rbt_model_free(&model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(data, size);
    if (size >= sizeof(uint64_t)) { /* once more with the checksum put right */
        uint8_t *copy = rbt_calloc(size, 1);
        if (copy != NULL) {
            const size_t checked = size - sizeof(uint64_t);
            const uint64_t checksum = rbt_hash_bytes(data, checked, 0);
            memcpy(copy, data, checked);
            memcpy(copy + checked, &checksum, sizeof checksum);
            decode(copy, size);
            rbt_free(copy);
        }
    }
    return 0;
}
