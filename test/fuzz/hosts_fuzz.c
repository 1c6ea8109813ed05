/* test/fuzz/hosts_fuzz.c - any text may be given as a hosts file: it is refused with a sentence, or
 * gives hosts of which every process finds its own, and command lines that a shell reads back. */
#include "fuzz/text_fuzz.h"

#include <string.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "launch/hosts.h"

static void use(const struct rbt_hosts *hosts)
{
    char program[] = "rubato";
    char odd[] = "it's $HOME";
    char *const argv[] = {program, odd, NULL};
    int64_t slots = 0;
    RBT_ASSERT(hosts->count > 0 && hosts->count <= RBT_HOSTS_MAX);
    for (size_t i = 0; i < hosts->count; i++) {
        const struct rbt_host *host = &hosts->items[i];
        RBT_ASSERT(strnlen(host->name, RBT_HOST_NAME) < RBT_HOST_NAME);
        RBT_ASSERT(strnlen(host->address, RBT_HOST_NAME) < RBT_HOST_NAME);
        RBT_ASSERT(host->name[0] != '\0' && host->name[0] != '-');
        RBT_ASSERT(host->slots >= 1 && host->slots <= RBT_HOST_SLOTS_MAX);
        slots += host->slots;
        if (i < 8) {
            char address[2 * RBT_HOST_NAME];
            struct rbt_argv words = {0};
            rbt_host_listen(host, address, sizeof address);
            RBT_ASSERT(strlen(address) > 2);
            rbt_host_command(host, "ssh -x", argv, &words);
            RBT_ASSERT(words.count == 4 && !words.has_failed);
            RBT_ASSERT(words.items[2][0] != '-');
            rbt_argv_deinit(&words);
        }
    }
    RBT_ASSERT(rbt_hosts_slots(hosts) == slots);
    for (uint64_t i = 0; i < 5; i++) {
        RBT_ASSERT(rbt_hosts_of_server(hosts, i * 1001) != NULL);
        RBT_ASSERT(rbt_hosts_of_worker(hosts, i * 1001) != NULL);
    }
    RBT_ASSERT(rbt_hosts_of_worker(hosts, (uint64_t)slots) == &hosts->items[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct rbt_hosts hosts = {0};
    char *text = rbt_text_fuzz_string(bytes, size);
    if (rbt_hosts_parse(text, "hosts.txt", "me", &hosts) == RBT_OK) {
        use(&hosts);
    } else {
        RBT_ASSERT(hosts.items == NULL && rbt_last_error()[0] != '\0');
    }
    rbt_hosts_deinit(&hosts);
    rbt_free(text);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
