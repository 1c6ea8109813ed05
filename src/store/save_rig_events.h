/* store/save_rig_events.h - for tests: random events that keep to what drivers promise, whatever
 * state the shard is in. Threads: the test's. */
#ifndef RUBATO_STORE_SAVE_RIG_EVENTS_H
#define RUBATO_STORE_SAVE_RIG_EVENTS_H

#include <stdbool.h>
#include <string.h>

#include "store/save_rig.h"

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
    const uint64_t often = 1 + rig_below(rig, 8);
    for (uint64_t key = rig_below(rig, RIG_KEYS); key < RIG_KEYS && count < most; key++) {
        if (rig_once_in(rig, often)) {
            keys[count++] = key * key * 1001;
        }
    }
    return count;
}

/* Keys that are the same whenever they are asked for under this number. */
static inline size_t rig_set(uint64_t set, uint64_t *keys)
{
    size_t count = 0;
    for (uint64_t key = set * 20; key < RIG_KEYS && count < RIG_ROWS; key++) {
        if ((key * 7 + set) % 4 != 0) {
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
    const struct rbt_spec *spec = shard->tables[table].spec;
    return spec->layout == RBT_SPARSE || spec->width <= RIG_WIDTH ? table : RIG_TABLES;
}

static inline void rig_fill_batch(struct rig *rig, const rbt_shard *shard, struct rig_box *box,
                                  size_t at, uint32_t table)
{
    const struct rbt_spec *spec = shard->tables[table].spec;
    const size_t size = rbt_spec_element_size(spec);
    const size_t count = rig_keys(rig, box->keys[at], RIG_ROWS);
    const uint32_t worker = box->event.worker;
    const uint64_t stamp = rig->stamps[worker][table];
    box->is_sparse[at] = spec->layout == RBT_SPARSE;
    box->batches[at] =
        (struct rbt_batch){.table = table,
                           .count = count,
                           .base = rig_once_in(rig, 5) ? rig_below(rig, stamp + 2) : stamp,
                           .least = rig_once_in(rig, 3) ? RBT_STAMP_NONE : stamp};
    char *to = (char *)box->values[at];
    size_t values = count * spec->width;
    if (box->is_sparse[at]) {
        values = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t n = (size_t)rig_below(rig, spec->width < 8 ? 2 : RIG_ELEMENTS + 1);
            for (uint32_t k = 0; k < n; k++) {
                box->elements[at][values + k] = k * (spec->width / RIG_ELEMENTS) +
                                                (uint32_t)rig_below(rig, spec->width < 8 ? 1 : 3);
            }
            values += n;
            box->offsets[at][i + 1] = (uint32_t)values;
        }
    }
    const bool is_thin = rig_once_in(rig, 2); /* so that bins are packed */
    for (size_t i = 0; i < values; i++) {
        const bool is_zero = is_thin && !rig_once_in(rig, 4);
        const uint64_t value = is_zero ? 0 : rig_value(rig, spec->type);
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
    if (from->spec->layout == RBT_SPARSE) {
        box->keys[0][0] = box->keys[0][rig_below(rig, box->batches[0].count)];
        box->batches[0].count = 1;
        return;
    }
    box->event.is_base = rig_below(rig, 3) > 0;
    box->event.sequence += rig_once_in(rig, 6) ? 1 : 0; /* has overtaken the next update */
    if (from->rule_state != NULL && from->spec->is_synchronised && rig_once_in(rig, 2)) {
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
    } else if (what < 94 && shard->tables[table].spec->layout == RBT_DENSE) {
        box->event =
            (struct rbt_shard_event){.kind = RBT_SHARD_SCAN, .table = table, .need = RBT_CLOCK_ANY};
        box->scan =
            (struct rbt_shard_scan){.range = {0, rig_below(rig, 10000000)}, .capacity = RIG_KEYS};
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

#endif
