/* test/fuzz/numbers_fuzz.c - any text may be given as a number, a time or a rate: it is refused, or
 * gives a value that can be printed and, where that is promised, reads back as itself. */
#include "fuzz/text_fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

/* What people get to see of a value always fits. */
static void show(double value)
{
    char text[RBT_TEXT_SHORT];
    rbt_text_from_count(value, text);
    RBT_ASSERT(strnlen(text, sizeof text) < sizeof text);
    rbt_text_from_bytes(value, text);
    RBT_ASSERT(strnlen(text, sizeof text) < sizeof text);
    rbt_text_from_seconds(value, text);
    RBT_ASSERT(strnlen(text, sizeof text) < sizeof text);
}

static void check_real(const char *text)
{
    double value = 0;
    double again = 0;
    char printed[RBT_TEXT_SHORT];
    if (rbt_text_to_real(text, &value)) {
        show(value);
        rbt_text_from_real(value, printed);
        RBT_ASSERT(rbt_text_to_real(printed, &again));
        RBT_ASSERT(again == value || (isnan(again) && isnan(value)));
    }
}

static void check_whole(const char *text)
{
    int64_t value = 0;
    int64_t again = 0;
    char printed[RBT_TEXT_SHORT];
    if (rbt_text_to_int(text, &value)) {
        (void)snprintf(printed, sizeof printed, "%lld", (long long)value); /* fits */
        RBT_ASSERT(rbt_text_to_int(printed, &again) && again == value);
        show((double)value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    double value = 0;
    char *text = rbt_text_fuzz_string(bytes, size);
    check_whole(text);
    check_real(text);
    if (rbt_text_to_seconds(text, &value)) {
        RBT_ASSERT(isfinite(value));
        show(value);
    }
    if (rbt_text_to_rate(text, &value)) {
        RBT_ASSERT(isfinite(value));
        show(value);
    }
    for (size_t i = 0, length = strlen(text); i < length; i++) {
        const size_t character = rbt_text_utf8(text + i, length - i);
        const size_t shown = rbt_text_shown(text + i, length - i);
        RBT_ASSERT(character <= length - i && (shown == 0 || shown == character));
    }
    rbt_free(text);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
