/* fuzz/sketch_fuzz.c - any bytes as a stream of keys. */
#include <string.h>

#include "algo/sketch/sketch_stream.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/text_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *copy = rbt_calloc(size + 1, 1);
    RBT_ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    const struct rbt_text text = {.name = "fuzz", .bytes = copy, .size = size, .first_line = 1};
    struct rbt_sketch_stream stream = {0};
    if (rbt_sketch_stream_parse(&text, 1, &stream) == RBT_OK) {
        uint64_t total = 0;
        RBT_ASSERT(stream.count <= size);
        for (size_t i = 0; i < stream.count; i++) {
            total += stream.counts == NULL ? 1 : stream.counts[i];
        }
        RBT_ASSERT(total == stream.total);
    }
    rbt_sketch_stream_free(&stream);
    rbt_free(copy);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
