/* fuzz/csv_fuzz.c - any bytes as CSV. */
#include "fuzz/text_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    rbt_text_fuzz_examples(bytes, size, RBT_FORMAT_CSV);
    return 0;
}
