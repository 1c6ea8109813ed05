/* store/save_rig.h - for tests: events that two shards step, whether these say the same, and
 * streams with their checksum made right. Random tables are in save_rig_tables.h, random events in
 * save_rig_events.h.
 *
 * An event is made once and stepped by two shards with room of its own for each answer, so that
 * all that they say can be compared. Threads: the test's. */
#ifndef RUBATO_STORE_SAVE_RIG_H
#define RUBATO_STORE_SAVE_RIG_H

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "store/shard_state.h"

enum {
    RIG_WORKERS = 3,
    RIG_TABLES = 4,
    RIG_PARKED = 4,
    RIG_KEYS = 96,    /* of a table: more than versions have without pages */
    RIG_ROWS = 32,    /* of a batch */
    RIG_WIDTH = 6,    /* of rows, at most */
    RIG_ELEMENTS = 4, /* of a sparse row in an update */
    RIG_BATCHES = 3,
    RIG_SETS = 3, /* lists of keys that a worker asks for again and again */
};

static const struct rbt_shard_options rig_options = {
    .worker_count = RIG_WORKERS, .table_max = RIG_TABLES, .parked_max = RIG_PARKED};

/* An event, with room for what it points to and for what it is answered. */
struct rig_box {
    struct rbt_shard_event event;
    struct rbt_batch batches[RIG_BATCHES];
    uint64_t keys[RIG_BATCHES][RIG_KEYS];
    uint64_t values[RIG_BATCHES][RIG_KEYS * RIG_WIDTH];
    uint32_t offsets[RIG_BATCHES][RIG_KEYS + 1];
    uint32_t elements[RIG_BATCHES][RIG_KEYS * RIG_ELEMENTS];
    bool is_sparse[RIG_BATCHES];
    bool is_early;
    bool has_copy;
    struct rbt_shard_early early;
    uint64_t early_keys[RIG_KEYS];
    struct rbt_shard_scan scan;
    uint64_t scan_keys[RIG_KEYS];
    uint64_t scan_values[RIG_KEYS * RIG_WIDTH];
    uint64_t stamp;
    uint64_t copy;
    uint64_t applied[RIG_WORKERS];
    struct rbt_shard_sent sent;
    bool keep[RIG_KEYS * RIG_WIDTH];
    uint64_t seen; /* hash of the elements of a sparse row */
    struct rbt_spec spec;
    struct rbt_shard_effect effects[RIG_PARKED + 1];
    struct rbt_shard_outbox out;
    char error[RBT_ERROR_MAX];
};

/* What workers remember. */
struct rig {
    struct rbt_rng rng;
    uint64_t stamps[RIG_WORKERS][RIG_TABLES];
    uint64_t stables[RIG_WORKERS][RIG_TABLES];
    uint64_t copies[RIG_WORKERS][RIG_TABLES][RIG_SETS];
    struct rig_box last[RIG_WORKERS]; /* pushes, which come again */
    bool has_last[RIG_WORKERS];
    uint64_t requests;
};

static inline uint64_t rig_below(struct rig *rig, uint64_t bound)
{
    return rbt_rng_below(&rig->rng, bound);
}

static inline bool rig_once_in(struct rig *rig, uint64_t times)
{
    return rig_below(rig, times) == 0;
}

/* --- Stepping --------------------------------------------------------------------------------- */

static inline void rig_see(void *context, const uint32_t *index, const void *values, size_t count)
{
    struct rig_box *box = context;
    box->seen = rbt_hash_bytes(index, count * sizeof *index, 1);
    box->seen = rbt_hash_bytes(values, count * 4, box->seen); /* the least that a value has */
}

/* Makes the event point into its own box. */
static inline void rig_wire(struct rig_box *box)
{
    for (size_t i = 0; i < RIG_BATCHES; i++) {
        box->batches[i].keys = box->keys[i];
        box->batches[i].values = box->values[i];
        box->batches[i].offsets = box->is_sparse[i] ? box->offsets[i] : NULL;
        box->batches[i].elements = box->is_sparse[i] ? box->elements[i] : NULL;
    }
    box->event.batches = box->batches;
    box->event.early = box->is_early ? &box->early : NULL;
    box->early.keys = box->early_keys;
    box->event.scan = box->event.kind == RBT_SHARD_SCAN ? &box->scan : NULL;
    box->scan.keys = box->scan_keys;
    box->scan.values = (char *)box->scan_values;
    box->event.stamp = &box->stamp;
    box->event.copy = box->has_copy ? &box->copy : NULL;
    box->event.sent = &box->sent;
    box->sent.keep = box->is_early ? NULL : box->keep;
    box->event.applied = box->applied;
    box->event.applied_count = box->event.kind == RBT_SHARD_PULL ? RIG_WORKERS : 0;
    box->event.on_elements = rig_see;
    box->event.context = box;
    box->event.spec = &box->spec;
    box->out.effects = box->effects;
}

static inline void rig_step(rbt_shard *shard, struct rig_box *box)
{
    rig_wire(box);
    rbt_shard_step(shard, &box->event, &box->out);
    const char *text = box->out.status == RBT_OK ? "" : rbt_last_error();
    const size_t size = strlen(text);
    RBT_ASSERT(size < sizeof box->error);
    memcpy(box->error, text, size + 1);
}

static inline bool rig_has_equal_effects(const struct rig_box *a, const struct rig_box *b)
{
    for (size_t i = 0; i < a->out.count && i < b->out.count; i++) {
        if (a->effects[i].kind != b->effects[i].kind ||
            a->effects[i].request != b->effects[i].request) {
            return false;
        }
    }
    return a->out.count == b->out.count;
}

/* Whether two shards have said the same. */
static inline bool rig_is_equal(const struct rig_box *a, const struct rig_box *b)
{
    return rig_has_equal_effects(a, b) && a->out.floor == b->out.floor &&
           a->out.version == b->out.version && a->out.status == b->out.status &&
           strcmp(a->error, b->error) == 0 && memcmp(a->values, b->values, sizeof a->values) == 0 &&
           a->early.count == b->early.count &&
           memcmp(a->early_keys, b->early_keys, a->early.count * sizeof(uint64_t)) == 0 &&
           a->scan.count == b->scan.count &&
           memcmp(a->scan_keys, b->scan_keys, sizeof a->scan_keys) == 0 &&
           memcmp(a->scan_values, b->scan_values, sizeof a->scan_values) == 0 &&
           a->stamp == b->stamp && a->copy == b->copy && a->seen == b->seen &&
           memcmp(a->applied, b->applied, sizeof a->applied) == 0 &&
           memcmp(a->keep, b->keep, sizeof a->keep) == 0 &&
           memcmp(&a->sent.code, &b->sent.code, sizeof a->sent.code) == 0;
}

/* --- Streams ---------------------------------------------------------------------------------- */

/* Makes the checksum right, as far as the stream has records; false if it has no end. */
static inline bool rig_mend(char *bytes, size_t count)
{
    uint64_t hash = count < RBT_RECORD_STREAM ? 0 : rbt_hash_bytes(bytes, RBT_RECORD_STREAM, 0);
    size_t at = RBT_RECORD_STREAM;
    while (at + RBT_RECORD_HEAD <= count) {
        uint32_t kind = 0;
        uint64_t size = 0;
        memcpy(&kind, bytes + at, sizeof kind);
        memcpy(&size, bytes + at + 8, sizeof size);
        if (size > count - at - RBT_RECORD_HEAD) {
            return false;
        }
        if (kind == RBT_RECORD_END) {
            memcpy(bytes + at + RBT_RECORD_HEAD, &hash, size < sizeof hash ? 0 : sizeof hash);
            return true;
        }
        hash = rbt_hash_bytes(bytes + at, RBT_RECORD_HEAD + (size_t)size, hash);
        at += RBT_RECORD_HEAD + (size_t)size;
    }
    return false;
}

#endif
