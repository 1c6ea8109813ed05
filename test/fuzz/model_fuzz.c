/* test/fuzz/model_fuzz.c - the model decoder survives any bytes, with and without a good checksum.
 *
 * What it accepts must encode to the same bytes again. */
#include <string.h>

#include "algo/model.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
