/* client/exchange_set.c - working sets whose rows travel early: what they need besides, and which
 * rows have changed.
 *
 * Threads: a worker's own. Memory: all of it when a set is managed. */
#include "base/alloc.h"
#include "base/error.h"
#include "client/exchange.h"
#include "client/flush.h"
#include "client/set.h"

enum { KEY_BYTES = 8 }; /* of a row, at most */

static void *room_for(size_t count, size_t size, bool *has_failed)
{
    void *room = rbt_calloc(count, size);
    *has_failed = *has_failed || room == NULL;
    return room;
}

static rbt_status make_managed(rbt_set *set, struct rbt_managed *m)
{
    const rbt_table *table = set->local->table;
    const size_t rows = set->keys->count;
    const size_t row_bytes = table->row_size + KEY_BYTES;
    const size_t room = set->worker->out.options.message_max / row_bytes + 1;
    bool has_failed = false;
    m->set = set;
    m->room_max = (uint32_t)(room < rows ? room : rows);
    m->chosen = room_for(rows, sizeof *m->chosen, &has_failed);
    m->keys = room_for(rows, sizeof *m->keys, &has_failed);
    m->stamps = room_for(rows, sizeof *m->stamps, &has_failed);
    m->fresh = room_for(rows, sizeof *m->fresh, &has_failed);
    m->tagged = room_for(rows, sizeof *m->tagged, &has_failed);
    m->sends = room_for(rows, sizeof *m->sends, &has_failed);
    m->receipts = room_for(rows, sizeof *m->receipts, &has_failed);
    m->kept = room_for(rows, table->row_size, &has_failed);
    m->aside = room_for(rows, sizeof *m->aside, &has_failed);
    m->read.keys = room_for(m->room_max, sizeof *m->read.keys, &has_failed);
    m->read.values = room_for(m->room_max, table->row_size, &has_failed);
    if (has_failed) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate what sends %zu rows early", rows);
    }
    for (size_t i = 0; i < rows; i++) {
        m->stamps[i] = RBT_STAMP_NONE;
        m->aside[i] = RBT_STAMP_NONE;
    }
    m->row_count = rows; /* from here on there are stamps to let go of */
    const rbt_status st = rbt_touched_grow(&m->touched, (uint32_t)rows);
    return st != RBT_OK ? st
                        : rbt_queue_create(table->priority.order, (uint32_t)rows, set->subscription,
                                           &m->queue);
}

rbt_status rbt_set_manage(rbt_set *set)
{
    rbt_worker *worker = set->worker;
    if (!set->local->table->is_managed || set->is_in_place || set->managed != NULL) {
        return RBT_OK;
    }
    struct rbt_managed *managed = rbt_calloc(1, sizeof *managed);
    if (managed == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate what sends rows early");
    }
    const rbt_status st = make_managed(set, managed);
    if (st != RBT_OK) {
        rbt_managed_free(managed);
        return st;
    }
    managed->next = worker->managed;
    worker->managed = managed;
    set->managed = managed;
    return RBT_OK;
}

static uint32_t shard_of(const struct rbt_managed *m, uint32_t row)
{
    return rbt_placement_shard(m->set->local->table->placement, m->set->keys->keys[row]);
}

/* Rows do not hold stamps of their own any more. */
static void let_go(struct rbt_managed *m)
{
    struct rbt_stamps *stamps = m->set->local->stamps;
    for (size_t i = 0; i < m->fresh_count; i++) {
        const uint32_t row = m->fresh[i];
        rbt_stamps_replace(stamps, shard_of(m, row), &m->stamps[row], RBT_STAMP_NONE);
    }
    for (uint32_t row = 0; stamps != NULL && row < m->row_count; row++) {
        rbt_stamps_replace(stamps, shard_of(m, row), &m->aside[row], RBT_STAMP_NONE);
    }
    m->fresh_count = 0;
}

size_t rbt_times_bin(uint32_t times)
{
    if (times < 16) {
        return times;
    }
    uint32_t octave = 4;
    while (octave < 31 && times >> (octave + 1) != 0) {
        octave++;
    }
    const size_t bin = 16 + (size_t)(octave - 4) * 4 + ((times >> (octave - 2)) & 3);
    return bin < RBT_TIMES_COUNTS ? bin : RBT_TIMES_COUNTS - 1;
}

static void tell_times(const struct rbt_managed *m)
{
    struct rbt_worker_stats *stats = m->set->worker->stats;
    for (size_t i = 0; m->receipts != NULL && i < m->row_count; i++) {
        rbt_client_count(&stats->row_sends[rbt_times_bin(m->sends[i])], 1);
        rbt_client_count(&stats->row_receipts[rbt_times_bin(m->receipts[i])], 1);
    }
}

void rbt_managed_free(struct rbt_managed *managed)
{
    if (managed == NULL) {
        return;
    }
    if (managed->queue != NULL) { /* else it was never in use */
        tell_times(managed);
    }
    struct rbt_managed **at = &managed->set->worker->managed;
    while (*at != NULL && *at != managed) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = managed->next;
    }
    managed->set->worker->turn = NULL;
    let_go(managed);
    rbt_queue_destroy(managed->queue);
    rbt_free(managed->read.keys);
    rbt_free(managed->read.values);
    rbt_touched_deinit(&managed->touched);
    rbt_free(managed->chosen);
    rbt_free(managed->keys);
    rbt_free(managed->stamps);
    rbt_free(managed->fresh);
    rbt_free(managed->tagged);
    rbt_free(managed->sends);
    rbt_free(managed->receipts);
    rbt_free(managed->kept);
    rbt_free(managed->aside);
    rbt_free(managed);
}

void rbt_set_touch(rbt_set *set, size_t row)
{
    if (set->managed != NULL) {
        rbt_touched_add(&set->managed->touched, (uint32_t)row);
    }
}

void rbt_set_touch_rows(rbt_set *set, const uint32_t *rows, size_t count)
{
    if (set->managed == NULL) {
        return;
    }
    struct rbt_touched touched = set->managed->touched; /* its places stay in registers */
    for (size_t i = 0; i < count; i++) {
        rbt_touched_add(&touched, rows[i]);
    }
    set->managed->touched.end = touched.end;
}
