/* test/fuzz/lda_state_fuzz.c - any bytes as a file of topics, with and without good checksums.
 *
 * What is accepted holds topics that exist: training writes through them. */
#include <string.h>

#include "algo/lda/lda_state.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The head, and what follows as one block. */
static void decode(const uint8_t *bytes, size_t size)
{
    struct rbt_lda_state_facts facts = {0};
    if (size < RBT_LDA_STATE_HEAD_SIZE + RBT_LDA_STATE_CHECK_SIZE ||
        rbt_lda_state_decode(bytes, &facts) != RBT_OK) {
        return;
    }
    RBT_ASSERT(facts.topic_count >= 1 && facts.topic_count <= 65536);
    RBT_ASSERT(facts.worker < facts.worker_count);
    const size_t count =
        (size - RBT_LDA_STATE_HEAD_SIZE - RBT_LDA_STATE_CHECK_SIZE) / sizeof(uint16_t);
    const uint8_t *block = bytes + RBT_LDA_STATE_HEAD_SIZE;
    if (rbt_lda_state_check(&facts, 0, block, count)) {
        for (size_t i = 0; i < count; i++) {
            uint16_t topic = 0;
            memcpy(&topic, block + i * sizeof topic, sizeof topic);
            RBT_ASSERT(topic < facts.topic_count);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(data, size);
    if (size >= RBT_LDA_STATE_HEAD_SIZE) { /* once more with the head's checksum put right */
        uint8_t *copy = rbt_calloc(size, 1);
        RBT_ASSERT(copy != NULL);
        memcpy(copy, data, size);
        const size_t checked = RBT_LDA_STATE_HEAD_SIZE - sizeof(uint64_t);
        const uint64_t checksum = rbt_hash_bytes(data, checked, 0);
        memcpy(copy + checked, &checksum, sizeof checksum);
        decode(copy, size);
        rbt_free(copy);
    }
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
