/* test/fuzz/address_fuzz.c - any text may be given as an address: it is refused with a sentence, or
 * has a host and a port. Nothing is looked up or connected to. */
#include "fuzz/text_fuzz.h"

#include <string.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "net/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = rbt_text_fuzz_string(bytes, size);
    const bool is_unix = rbt_address_is_unix(text);
    const bool is_local = rbt_address_is_local(text);
    RBT_ASSERT(is_local || !is_unix);
    if (rbt_address_check(text) == RBT_OK) {
        RBT_ASSERT(strlen(text) < RBT_ADDRESS_MAX);
        RBT_ASSERT(is_unix || (strchr(text, ':') != NULL && text[0] != ':'));
    } else {
        RBT_ASSERT(rbt_last_error()[0] != '\0');
        RBT_ASSERT(is_unix || !is_local);
    }
    rbt_free(text);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
