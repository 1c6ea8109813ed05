/* test/fuzz/shard_fuzz.c - a shard survives whatever it is loaded from.
 *
 * An input is a saved shard, whose checksum is made right first: nobody would find it by trying.
 * What is loaded is saved and loaded once more, and must be the same; then it is used, with events
 * as drivers send them. It may be refused with a sentence; nothing may break an assertion, be read
 * behind its end, or leak, and memory follows the size of the input, not what it says. */
#include <string.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "store/save_rig_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    EVENTS = 40,
    BYTES_PER_BYTE = 256,  /* of memory: parts of versions, and copies, have some room at first */
    BYTES_MORE = 64 << 20, /* of shards, tables and rows that are wide */
};

static struct rig rig;
static struct rig_box box;

static rbt_status load(rbt_shard *shard, const char *bytes, size_t size)
{
    struct rbt_source source = {.bytes = bytes, .count = size};
    const rbt_status st = rbt_shard_load(shard, &source);
    RBT_ASSERT(st == RBT_OK || st == RBT_E_DATA);
    RBT_ASSERT(st == RBT_OK || strlen(rbt_last_error()) > 10);
    rbt_source_deinit(&source);
    return st;
}

/* What is saved is what was loaded, and loads again. */
static void save_again(rbt_shard *shard)
{
    struct rbt_sink sinks[2] = {{0}};
    RBT_ASSERT(rbt_shard_save(shard, &sinks[0]) == RBT_OK);
    RBT_ASSERT(load(shard, sinks[0].bytes, sinks[0].count) == RBT_OK);
    RBT_ASSERT(rbt_shard_save(shard, &sinks[1]) == RBT_OK);
    RBT_ASSERT(sinks[0].count == sinks[1].count);
    RBT_ASSERT(memcmp(sinks[0].bytes, sinks[1].bytes, sinks[0].count) == 0);
    rbt_sink_deinit(&sinks[0]);
    rbt_sink_deinit(&sinks[1]);
}

/* What was not quite right from the beginning may become something that is refused. */
static void save(rbt_shard *shard)
{
    struct rbt_sink sink = {0};
    RBT_ASSERT(rbt_shard_save(shard, &sink) == RBT_OK);
    (void)load(shard, sink.bytes, sink.count);
    rbt_sink_deinit(&sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rbt_shard *shard = NULL;
    char *bytes = rbt_calloc(size, 1);
    RBT_ASSERT(bytes != NULL);
    if (size > 0) {
        memcpy(bytes, data, size);
    }
    (void)rig_mend(bytes, size); /* if it has no end, it is refused */
    memset(&rig, 0, sizeof rig);
    rbt_rng_init(&rig.rng, rbt_hash_bytes(data, size, 0), 0, 0);
    RBT_ASSERT(rbt_shard_create(&rig_options, &shard) == RBT_OK);
    if (load(shard, bytes, size) == RBT_OK) {
        RBT_ASSERT(rbt_alloc_live_bytes() <= BYTES_PER_BYTE * size + BYTES_MORE);
        save_again(shard);
        for (int i = 0; i < EVENTS; i++) {
            rig_draw(&rig, shard, &box);
            rig_step(shard, &box);
            rig_note(&rig, &box);
        }
        save(shard);
    }
    rbt_shard_destroy(shard);
    rbt_free(bytes);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
