/* test/fuzz/depot_fuzz.c - any data may be kept on disk: it is refused as it is when it is read
 * into memory, or the shares made on disk hold what those made in memory do. The first byte chooses
 * options. */
#include "fuzz/text_fuzz.h"

#include <string.h>
#include <unistd.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/depot.h"

/* A piece of a share on disk is the piece of the share in memory. */
static void compare_piece(const struct rbt_scratch *stored, const void *expected, size_t size)
{
    RBT_ASSERT(stored->size >= size);
    void *found = rbt_alloc(size + 1);
    RBT_ASSERT(found != NULL);
    RBT_ASSERT(size == 0 || rbt_scratch_read(stored, 0, found, size) == RBT_OK);
    RBT_ASSERT(size == 0 || memcmp(found, expected, size) == 0);
    rbt_free(found);
}

static void compare(const struct rbt_examples *examples, rbt_depot *depot, uint32_t count)
{
    for (uint32_t index = 0; index < count; index++) {
        struct rbt_share share = {0};
        struct rbt_stored stored;
        RBT_ASSERT(rbt_share_take(examples, 3, index, count, &share) == RBT_OK);
        RBT_ASSERT(rbt_depot_deal(depot, index, count, &stored) == RBT_OK);
        RBT_ASSERT(stored.count == share.count && stored.key_count == share.key_count);
        RBT_ASSERT(stored.nonzeros == share.offsets[share.count]);
        RBT_ASSERT(share.key_count == 0 ||
                   memcmp(stored.keys, share.keys, share.key_count * sizeof *share.keys) == 0);
        const size_t nonzeros = (size_t)stored.nonzeros;
        compare_piece(&stored.offsets, share.offsets, (share.count + 1) * sizeof *share.offsets);
        compare_piece(&stored.labels, share.labels, share.count * sizeof *share.labels);
        compare_piece(&stored.indices, share.indices, nonzeros * sizeof *share.indices);
        compare_piece(&stored.values, share.values, nonzeros * sizeof *share.values);
        rbt_stored_free(&stored);
        rbt_share_free(&share);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) {
        return 0;
    }
    char path[RBT_TEXT_FUZZ_PATH];
    const char *const paths[] = {path};
    const int fd = rbt_text_fuzz_file(bytes + 1, size - 1, path);
    const struct rbt_data_options data = {.paths = paths,
                                          .path_count = 1,
                                          .threads = 1,
                                          .format = (bytes[0] & 1) != 0 ? RBT_FORMAT_CSV
                                                                        : RBT_FORMAT_LIBSVM,
                                          .has_binary_label = (bytes[0] & 2) != 0};
    const struct rbt_depot_options options = {.data = &data,
                                              .directory = "/dev/shm",
                                              .seed = 3,
                                              .memory = 4096,
                                              .count_min = (bytes[0] & 4) != 0 ? 2 : 0};
    struct rbt_examples examples = {0};
    rbt_depot *depot = NULL;
    const rbt_status st = rbt_examples_read(&data, &examples);
    const rbt_status stored = rbt_depot_open(&options, &depot);
    RBT_ASSERT((st == RBT_OK) == (stored == RBT_OK));
    if (st == RBT_OK) {
        RBT_ASSERT(rbt_examples_drop_rare(&examples, options.count_min) == RBT_OK);
        RBT_ASSERT(rbt_depot_facts(depot).count == examples.count);
        compare(&examples, depot, 1 + (bytes[0] >> 3) % 3);
    } else {
        RBT_ASSERT(depot == NULL && rbt_last_error()[0] != '\0');
    }
    rbt_depot_close(depot);
    rbt_examples_free(&examples);
    (void)close(fd); /* it is gone */
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
