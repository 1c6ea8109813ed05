/* test/fuzz/key_fuzz.c - any file may be given as a key: it is refused with a sentence, or holds 64
 * hexadecimal digits with which a connection can be secured. */
#include "fuzz/text_fuzz.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "net/security.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[RBT_TEXT_FUZZ_PATH];
    char text[RBT_KEY_TEXT] = "";
    const int fd = rbt_text_fuzz_file(bytes, size, path);
    RBT_ASSERT(fchmod(fd, 0600) == 0);
    if (rbt_key_read(path, text) == RBT_OK) {
        rbt_security *security = NULL;
        RBT_ASSERT(strspn(text, "0123456789abcdefABCDEF") == RBT_KEY_TEXT - 1);
        RBT_ASSERT(strlen(text) == RBT_KEY_TEXT - 1);
        RBT_ASSERT(rbt_security_open(text, &security) == RBT_OK);
        rbt_security_close(security);
    } else {
        RBT_ASSERT(rbt_last_error()[0] != '\0');
    }
    (void)close(fd); /* it is gone */
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
