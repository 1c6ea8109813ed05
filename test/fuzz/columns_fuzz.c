/* fuzz/columns_fuzz.c - any bytes as a table with text. The first byte chooses what is said about
 * the columns; what comes out is judged, and read once more by the plan that it has left, then as
 * for predictions. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/examples.h"
#include "data/fields.h"
#include "data/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(const struct rbt_examples *examples)
{
    RBT_ASSERT(examples->offsets[0] == 0);
    for (size_t i = 0; i < examples->count; i++) {
        RBT_ASSERT(examples->offsets[i] <= examples->offsets[i + 1]);
        RBT_ASSERT(isfinite(examples->labels[i]));
        for (uint64_t k = examples->offsets[i]; k < examples->offsets[i + 1]; k++) {
            RBT_ASSERT(k == examples->offsets[i] || examples->keys[k - 1] < examples->keys[k]);
            RBT_ASSERT(isfinite(examples->values[k]));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const enum rbt_format formats[] = {RBT_FORMAT_CSV, RBT_FORMAT_TSV, RBT_FORMAT_CRITEO,
                                              RBT_FORMAT_AVAZU};
    static const char *const lists[] = {"auto", "0,2-3", "auto,a,b", NULL};
    if (size == 0) {
        return 0;
    }
    const unsigned choice = bytes[0];
    static struct rbt_column_plan plan;
    plan = (struct rbt_column_plan){.categorical = lists[choice >> 2 & 3],
                                    .skipped = (choice & 16) != 0 ? "1" : NULL,
                                    .positive =
                                        (choice & 32) != 0 ? rbt_fields_positive("yes", 3) : 0};
    struct rbt_data_options options = {.format = formats[choice & 3],
                                       .threads = 1,
                                       .label_column = (choice & 64) != 0 ? 0 : -1,
                                       .has_binary_label = (choice & 32) != 0,
                                       .hash_bits = (choice & 128) != 0 ? 4 : 0,
                                       .plan = &plan};
    char *copy = rbt_calloc(size, 1); /* the text without the first byte, and a zero */
    RBT_ASSERT(copy != NULL);
    memcpy(copy, bytes + 1, size - 1);
    const struct rbt_text text = {.name = "fuzz", .bytes = copy, .size = size - 1, .first_line = 1};
    char note[RBT_NOTE_SIZE];
    options.has_classes = (choice & 32) == 0 && size % 2 == 0;
    for (int pass = 0; pass < 3; pass++) {
        struct rbt_examples examples = {0};
        if (pass == 2) { /* as predictions are made */
            options.ignores_label = true;
            options.has_binary_label = false;
            options.note = note;
            plan.is_loaded = true;
        }
        if (rbt_examples_parse(&options, &text, &examples) == RBT_OK) {
            check(&examples);
        }
        rbt_examples_free(&examples);
    }
    rbt_fields_free(&plan);
    rbt_free(copy);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
