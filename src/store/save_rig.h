/* store/save_rig.h - for tests: shards with random tables, random events that keep to what drivers
 * promise, whatever state the shard is in, and streams with their checksum made right.
 *
 * An event is made once and stepped by two shards with room of its own for each answer, so that
 * all that they say can be compared. Threads: the test's. */
#ifndef RUBATO_STORE_SAVE_RIG_H
#define RUBATO_STORE_SAVE_RIG_H

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "comm/priority.h"
#include "rule/rule.h"
#include "store/shard_state.h"

enum {
    RIG_WORKERS = 3,
    RIG_TABLES = 4,
    RIG_PARKED = 4,
    RIG_KEYS = 24,    /* of a table */
    RIG_ROWS = 12,    /* of a batch */
    RIG_WIDTH = 6,    /* of rows, at most */
    RIG_ELEMENTS = 4, /* of a sparse row in an update */
    RIG_BATCHES = 3,
    RIG_SETS = 3, /* lists of keys that a worker asks for again and again */
};

static const struct rbt_shard_options rig_options = {
    .worker_count = RIG_WORKERS, .table_max = RIG_TABLES, .range_max = 4, .parked_max = RIG_PARKED};

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
    struct rbt_shard_table schema;
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

/* --- A rule of a user's, which counts --------------------------------------------------------- */

struct rig_rule {
    uint64_t count;
    double fails; /* at this message; 0: never */
    rbt_status (*fail)(const char *format, ...);
};

static inline rbt_status rig_rule_create(const struct rbt_rule_setup *setup,
                                         struct rbt_rule_needs *needs, void **self)
{
    struct rig_rule *r = rbt_calloc(1, sizeof *r);
    if (r == NULL) {
        return RBT_E_NOMEM;
    }
    r->fails = setup->number(setup, "fails", 0);
    r->fail = setup->fail;
    needs->state_width = 2;
    needs->snapshot_width = 1;
    needs->snapshot_max = 7;
    *self = r;
    return RBT_OK;
}

static inline void rig_rule_destroy(void *self)
{
    rbt_free(self);
}

static inline void rig_rule_begin(void *self, const struct rbt_rule_message *message)
{
    (void)message;
    ((struct rig_rule *)self)->count++;
}

static inline rbt_status rig_rule_apply(void *self, const struct rbt_rule_message *message,
                                        const struct rbt_rule_row *row)
{
    const struct rig_rule *r = self;
    if (r->fails > 0 && (double)r->count >= r->fails) {
        return (r->fail)("that was message %g", r->fails); /* cmocka has a macro of this name */
    }
    row->values[0] += row->delta[0] * (float)(r->count % 5) + row->before[0];
    row->state[0] += (float)message->delay;
    row->state[1] += 1;
    return RBT_OK;
}

static inline rbt_status rig_rule_save(const void *self, struct rbt_rule_sink *sink)
{
    sink->put(sink, &((const struct rig_rule *)self)->count, sizeof(uint64_t));
    return RBT_OK;
}

static inline rbt_status rig_rule_load(void *self, const struct rbt_rule_source *source)
{
    if (source->count != sizeof(uint64_t)) {
        return (source->fail)("that is no count");
    }
    memcpy(&((struct rig_rule *)self)->count, source->bytes, sizeof(uint64_t));
    return RBT_OK;
}

static const struct rbt_rule rig_rule = {.abi = RBT_RULE_ABI,
                                         .struct_size = sizeof rig_rule,
                                         .name = "./counting.so",
                                         .create = rig_rule_create,
                                         .destroy = rig_rule_destroy,
                                         .begin = rig_rule_begin,
                                         .apply = rig_rule_apply,
                                         .save = rig_rule_save,
                                         .load = rig_rule_load,
                                         .state_version = 3};

/* --- Tables ----------------------------------------------------------------------------------- */

static const char *const rig_rules[] = {"add",
                                        "consgd",
                                        "dynsgd",
                                        "dynsgd:max=3",
                                        "sgd:average=1",
                                        "sgd:sqrt=1",
                                        "adagrad",
                                        "adagrad:trust",
                                        "adarev",
                                        "adarev:max=5",
                                        "adarev:trust=1.5",
                                        "adadelay:gamma=0.75",
                                        "ftrl:l1=0.2",
                                        "adam",
                                        "prox:l1=0.1,scale=1",
                                        "add:aggregate=1",
                                        "adarev:aggregate=1",
                                        "sgd:average=1,aggregate=1",
                                        "./counting.so",
                                        "./counting.so:fails=9"};
enum { RIG_RULES = sizeof rig_rules / sizeof rig_rules[0], RIG_OWN = RIG_RULES - 2 };

static const char *const rig_filters[] = {"significant:0.5", "fixed:8", "changed,f16",
                                          "pull.fixed:4,changed", "changed"};
static const char *const rig_priorities[] = {"oldest", "walk",      "sweep",
                                             "random", "magnitude", "relative"};

static inline int64_t rig_staleness(struct rig *rig)
{
    return (int64_t)rig_below(rig, 5) - 1; /* RBT_STALENESS_ANY is -1 */
}

/* A random table; `policy` stays for as long as it is used. Nobody's own rules if they cannot be
 * found by their text. */
static inline struct rbt_shard_table rig_table(struct rig *rig, bool has_own,
                                               struct rbt_priority_policy *policy)
{
    struct rbt_shard_table t = {.width = 1 + (uint32_t)rig_below(rig, RIG_WIDTH),
                                .staleness = rig_staleness(rig),
                                .name = "main/table",
                                .seed = rig_below(rig, 100)};
    t.partial = rig_once_in(rig, 3) ? RBT_PARTIAL_SHOW : RBT_PARTIAL_HIDE;
    const uint64_t kind = rig_below(rig, 5);
    if (kind >= 3) { /* with a rule */
        const uint64_t which = rig_below(rig, has_own ? RIG_RULES : RIG_OWN);
        t.rule = rig_rules[which];
        t.code = &rig_rule;
        if (which < RIG_OWN && rbt_rule_find(t.rule, &t.code) != RBT_OK) {
            RBT_UNREACHABLE();
        }
        t.is_synchronised = rig_once_in(rig, 2);
    } else {
        t.type = (rbt_type)rig_below(rig, 4);
        t.merge = (rbt_merge)rig_below(rig, t.type == RBT_F32 || t.type == RBT_F64 ? 3 : 4);
        t.layout = kind == 0 ? RBT_SPARSE : RBT_DENSE;
        t.width = t.layout == RBT_SPARSE ? 100 : t.width;
        t.state_width = t.layout == RBT_DENSE && rig_once_in(rig, 3) ? 2 : 0;
    }
    if (t.layout == RBT_DENSE && rig_once_in(rig, 2)) {
        t.init = (rbt_init)rig_below(rig, 4);
        t.a = 0.5;
        t.b = 1.5;
    }
    const bool is_plain = t.type == RBT_F32 && t.layout == RBT_DENSE;
    if (is_plain && rig_once_in(rig, 2)) {
        if (rbt_priority_find(rig_priorities[rig_below(rig, 6)], policy) != RBT_OK) {
            RBT_UNREACHABLE();
        }
        t.priority = policy;
    }
    if (is_plain && t.merge == RBT_MERGE_ADD && rig_once_in(rig, 2)) {
        t.filter = rig_filters[rig_below(rig, 5)];
    }
    return t;
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
    box->event.schema = &box->schema;
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

/* --- Random events ---------------------------------------------------------------------------- */

static inline uint64_t rig_value(struct rig *rig, rbt_type type)
{
    const int32_t small = (int32_t)rig_below(rig, 9) - 4;
    uint64_t bits = 0;
    const float f = (float)small / 4;
    const double d = (double)small / 4;
    const int64_t whole = small;
    memcpy(&bits,
           type == RBT_F32   ? (const void *)&f
           : type == RBT_F64 ? (const void *)&d
           : type == RBT_I32 ? (const void *)&small
                             : (const void *)&whole,
           rbt_merge_size(type));
    return bits;
}

/* Some keys, in order. */
static inline size_t rig_keys(struct rig *rig, uint64_t *keys, size_t most)
{
    size_t count = 0;
    for (uint64_t key = 0; key < RIG_KEYS && count < most; key++) {
        if (rig_once_in(rig, 4)) {
            keys[count++] = key * key * 1001;
        }
    }
    return count;
}

/* Keys that are the same whenever they are asked for under this number. */
static inline size_t rig_set(uint64_t set, uint64_t *keys)
{
    size_t count = 0;
    for (uint64_t key = 0; key < RIG_KEYS && count < RIG_ROWS; key++) {
        if ((key * 7 + set) % 3 != 0) {
            keys[count++] = key * key * 1001;
        }
    }
    return count;
}

/* A table that the boxes have room for, or RIG_TABLES. */
static inline uint32_t rig_choose(struct rig *rig, const rbt_shard *shard)
{
    if (shard->table_count == 0) {
        return RIG_TABLES;
    }
    const uint32_t table = (uint32_t)rig_below(rig, shard->table_count);
    const struct rbt_schema *schema = &shard->tables[table].schema;
    return schema->layout == RBT_SPARSE || schema->width <= RIG_WIDTH ? table : RIG_TABLES;
}

static inline void rig_fill_batch(struct rig *rig, const rbt_shard *shard, struct rig_box *box,
                                  size_t at, uint32_t table)
{
    const struct rbt_schema *schema = &shard->tables[table].schema;
    const size_t size = rbt_merge_size(schema->kind.type);
    const size_t count = rig_keys(rig, box->keys[at], RIG_ROWS);
    const uint32_t worker = box->event.worker;
    const uint64_t stamp = rig->stamps[worker][table];
    box->is_sparse[at] = schema->layout == RBT_SPARSE;
    box->batches[at] =
        (struct rbt_batch){.table = table,
                           .count = count,
                           .base = rig_once_in(rig, 5) ? rig_below(rig, stamp + 2) : stamp,
                           .least = rig_once_in(rig, 3) ? RBT_STAMP_NONE : stamp};
    char *to = (char *)box->values[at];
    size_t values = count * schema->width;
    if (box->is_sparse[at]) {
        values = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t n = (size_t)rig_below(rig, schema->width < 8 ? 2 : RIG_ELEMENTS + 1);
            for (uint32_t k = 0; k < n; k++) {
                box->elements[at][values + k] = k * (schema->width / RIG_ELEMENTS) +
                                                (uint32_t)rig_below(rig, schema->width < 8 ? 1 : 3);
            }
            values += n;
            box->offsets[at][i + 1] = (uint32_t)values;
        }
    }
    const bool is_thin = rig_once_in(rig, 2); /* so that bins are packed */
    for (size_t i = 0; i < values; i++) {
        const bool is_zero = is_thin && !rig_once_in(rig, 4);
        const uint64_t value = is_zero ? 0 : rig_value(rig, schema->kind.type);
        memcpy(to + i * size, &value, size);
    }
}

static inline void rig_push(struct rig *rig, const rbt_shard *shard, struct rig_box *box)
{
    const uint32_t worker = (uint32_t)rig_below(rig, RIG_WORKERS);
    const int64_t clock = rbt_shard_clock(shard, worker);
    if (rig->has_last[worker] && rig_once_in(rig, 12)) { /* comes again */
        *box = rig->last[worker];
        return;
    }
    box->event = (struct rbt_shard_event){.kind = RBT_SHARD_PUSH,
                                          .worker = worker,
                                          .sequence = rbt_shard_arrived(shard, worker) + 1,
                                          .range = RBT_RANGE_ALL,
                                          .clock = clock == RBT_CLOCK_GONE ? 0 : clock,
                                          .marker = RBT_MARKER_NONE};
    if (clock != RBT_CLOCK_GONE && rig_below(rig, 10) < 6) {
        box->event.marker = clock + 1;
    }
    const size_t count = (size_t)rig_below(rig, RIG_BATCHES + 1);
    for (size_t i = 0; i < count; i++) {
        const uint32_t table = rig_choose(rig, shard);
        if (table < RIG_TABLES) {
            rig_fill_batch(rig, shard, box, box->event.batch_count, table);
            box->event.batch_count++;
        }
    }
    if (rig_once_in(rig, 15)) {
        box->event.sequence++; /* too early: one is missing */
    } else if (clock != RBT_CLOCK_GONE) {
        rig->last[worker] = *box;
        rig->has_last[worker] = true;
    }
}

static inline void rig_pull(struct rig *rig, const rbt_shard *shard, struct rig_box *box,
                            uint32_t table)
{
    const struct rbt_shard_state *from = &shard->tables[table];
    const uint32_t worker = (uint32_t)rig_below(rig, RIG_WORKERS);
    const int64_t floor = rbt_gate_floor(shard->gate);
    const uint64_t set = rig_below(rig, RIG_SETS);
    const uint64_t stamp = rig->stamps[worker][table];
    box->event = (struct rbt_shard_event){.kind = RBT_SHARD_PULL,
                                          .worker = worker,
                                          .table = table,
                                          .need = RBT_CLOCK_ANY,
                                          .request = ++rig->requests,
                                          .sequence = rbt_shard_arrived(shard, worker),
                                          .batch_count = 1,
                                          .least = rig_once_in(rig, 2) ? RBT_STAMP_NONE : stamp};
    if (floor < INT64_MAX / 2 && rig_once_in(rig, 4)) {
        box->event.need = floor + (int64_t)rig_below(rig, 3);
    }
    box->is_sparse[0] = false;
    box->batches[0] = (struct rbt_batch){.table = table, .count = rig_set(set, box->keys[0])};
    if (from->schema.layout == RBT_SPARSE) {
        box->keys[0][0] = box->keys[0][rig_below(rig, box->batches[0].count)];
        box->batches[0].count = 1;
        return;
    }
    box->event.is_base = rig_below(rig, 3) > 0;
    box->event.sequence += rig_once_in(rig, 6) ? 1 : 0; /* has overtaken the next update */
    if (from->ruling != NULL && from->is_synchronised && rig_once_in(rig, 2)) {
        const uint64_t version = rbt_shard_version(shard, table);
        const uint64_t less = rig_below(rig, 2);
        const uint64_t stable = version < less ? 0 : version - less;
        uint64_t *known = &rig->stables[worker][table];
        *known = stable > *known ? stable : *known;
        box->event.is_stable = true;
        box->event.stable = *known;
    }
    box->event.asked = rig_once_in(rig, 4) ? 0 : set + 1;
    box->is_early = rig_once_in(rig, 3);
    if (box->is_early) {
        box->event.subscription = set + 1;
        box->early.room = 1 + (uint32_t)rig_below(rig, 5);
    } else {
        box->has_copy = true;
        box->copy = rig_once_in(rig, 6) ? 0 : rig->copies[worker][table][set];
    }
}

static inline bool rig_have_all_left(const rbt_shard *shard)
{
    return rbt_gate_floor(shard->gate) == RBT_CLOCK_GONE;
}

/* Something that can happen to the shard now. */
static inline void rig_draw(struct rig *rig, const rbt_shard *shard, struct rig_box *box)
{
    const uint64_t what = rig_below(rig, 100);
    const uint32_t table = rig_choose(rig, shard);
    memset(box, 0, sizeof *box);
    if (rig_have_all_left(shard) && what < 30) {
        box->event.kind = RBT_SHARD_RESET;
    } else if (what < 45 || table == RIG_TABLES) {
        rig_push(rig, shard, box);
    } else if (what < 88) {
        rig_pull(rig, shard, box, table);
    } else if (what < 94 && shard->tables[table].schema.layout == RBT_DENSE) {
        box->event =
            (struct rbt_shard_event){.kind = RBT_SHARD_SCAN, .table = table, .need = RBT_CLOCK_ANY};
        box->scan =
            (struct rbt_shard_scan){.range = {0, rig_below(rig, 100000)}, .capacity = RIG_KEYS};
    } else if (what < 96) {
        box->event = (struct rbt_shard_event){.kind = RBT_SHARD_LEAVE,
                                              .worker = (uint32_t)rig_below(rig, RIG_WORKERS)};
    } else {
        rig_push(rig, shard, box);
    }
}

/* What workers learn from an answer. */
static inline void rig_note(struct rig *rig, const struct rig_box *box)
{
    const struct rbt_shard_event *event = &box->event;
    if (event->kind == RBT_SHARD_RESET) {
        memset(rig->has_last, 0, sizeof rig->has_last);
        memset(rig->stables, 0, sizeof rig->stables);
    }
    if (event->kind != RBT_SHARD_PULL || box->out.count != 1 ||
        box->effects[0].kind != RBT_SHARD_ANSWERED) {
        return;
    }
    if (event->is_base) {
        rig->stamps[event->worker][event->table] = box->stamp;
    }
    if (box->has_copy && event->asked > 0) {
        rig->copies[event->worker][event->table][event->asked - 1] = box->copy;
    }
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
