/* fuzz/ratings_fuzz.c - any bytes as ratings. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/lines.h"
#include "fuzz/text_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *copy = rbt_calloc(size + 1, 1);
    RBT_ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    const struct rbt_text text = {.name = "fuzz", .bytes = copy, .size = size, .first_line = 1};
    const struct rbt_data_options options = {.format = RBT_FORMAT_RATINGS, .threads = 1};
    struct rbt_ratings ratings = {0};
    if (rbt_ratings_parse(&options, &text, &ratings) == RBT_OK) {
        RBT_ASSERT(ratings.count > 0);
        RBT_ASSERT(ratings.count <= size);
        for (size_t i = 0; i < ratings.count; i++) {
            RBT_ASSERT(isfinite(ratings.values[i]));
        }
    }
    rbt_ratings_free(&ratings);
    rbt_free(copy);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
