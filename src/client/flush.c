/* client/flush.c - rows updated one at a time become updates in the buffer.
 *
 * Of a table without a rule they all become one update. With a rule an update names one read per
 * shard, so rows of one shard that were read at different times must go apart: the rows of each
 * shard are ranked by their stamps, and those of equal rank become one update.
 *
 * Threads: a worker's own, under the table's mutex with overlay PROCESS.
 * Memory: what updates need, which are used again; with a rule also a list of the rows. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sort_u64.h"
#include "client/client.h"
#include "client/filtering.h"
#include "client/flush.h"

enum { STAMP_BITS = 24 }; /* of how far stamps are apart, for which there is a quicker way */

/* Copies the elements of dirty sparse rows, in order of key, into the update. */
static rbt_status pack_sparse(const struct rbt_rowcache *rows, struct rbt_update *update)
{
    const size_t size = rbt_merge_size(rows->kind.type);
    size_t total = 0;
    for (size_t i = 0; i < rows->dirty_count; i++) {
        total += rows->sparse_deltas[rows->dirty[i]].count;
    }
    RBT_ASSERT(update->values_max >= total * size);
    rbt_status st = rbt_buffer_reserve_elements(update, rows->dirty_count, total);
    if (st != RBT_OK) {
        return st;
    }
    uint32_t at = 0;
    for (size_t i = 0; i < rows->dirty_count; i++) {
        const struct rbt_sparse_view row =
            rbt_sparse_row_peek(&rows->sparse_deltas[rows->dirty[i]]);
        update->offsets[i] = at;
        memcpy(update->elements + at, row.index, row.count * sizeof *row.index);
        memcpy(update->values + at * size, row.values, row.count * size);
        at += (uint32_t)row.count;
    }
    update->offsets[rows->dirty_count] = at;
    return RBT_OK;
}

/* Bytes of values that the dirty rows need. */
static size_t dirty_bytes(const struct rbt_rowcache *rows)
{
    size_t elements = rows->is_sparse ? 0 : rows->dirty_count * rows->width;
    for (size_t i = 0; rows->is_sparse && i < rows->dirty_count; i++) {
        elements += rows->sparse_deltas[rows->dirty[i]].count;
    }
    return elements * rbt_merge_size(rows->kind.type);
}

static rbt_status flush(rbt_worker *worker, struct rbt_worker_table *local)
{
    struct rbt_rowcache *rows = &local->rows;
    struct rbt_update *update = NULL;
    rbt_rowcache_sort_dirty(rows);
    rbt_status st =
        rbt_buffer_append(&local->buffer, worker->sequence, NULL, dirty_bytes(rows), &update);
    if (st != RBT_OK) {
        return st;
    }
    st = rbt_keylist_assign(update->keys, rows->sorted, rows->dirty_count);
    if (st == RBT_OK && rows->is_sparse) {
        st = pack_sparse(rows, update);
    }
    if (st != RBT_OK) {
        rbt_buffer_take_back(&local->buffer);
        return st;
    }
    for (size_t i = 0; !rows->is_sparse && i < rows->dirty_count; i++) {
        memcpy(update->values + i * rows->row_size, rbt_rowcache_deltas(rows, rows->dirty[i]),
               rows->row_size);
    }
    st = rbt_filtering_round(local->filtering, update);
    if (st != RBT_OK) {
        rbt_buffer_take_back(&local->buffer);
        return st;
    }
    rbt_rowcache_clean(rows);
    return RBT_OK;
}

/* --- With a rule ----------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = ((const struct rbt_tagged *)a)->key;
    const uint64_t y = ((const struct rbt_tagged *)b)->key;
    return x < y ? -1 : x > y;
}

static int compare_stamps(const void *a, const void *b)
{
    const struct rbt_tagged *x = a;
    const struct rbt_tagged *y = b;
    if (x->shard != y->shard) {
        return x->shard < y->shard ? -1 : 1;
    }
    if (x->stamp != y->stamp) {
        return x->stamp < y->stamp ? -1 : 1;
    }
    return x->place < y->place ? -1 : x->place > y->place;
}

static bool is_sorted(const struct rbt_tagged *list, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (list[i].key < list[i - 1].key) {
            return false;
        }
    }
    return true;
}

/* Whether all rows of a shard name the same read: mostly, at the end of a clock. */
static bool has_one_rank(const struct rbt_tagged *list, size_t count)
{
    uint64_t stamps[RBT_JOB_SHARDS_MAX];
    bool is_known[RBT_JOB_SHARDS_MAX] = {false};
    for (size_t i = 0; i < count; i++) {
        const uint32_t shard = list[i].shard;
        if (is_known[shard] && stamps[shard] != list[i].stamp) {
            return false;
        }
        is_known[shard] = true;
        stamps[shard] = list[i].stamp;
    }
    return true;
}

/* Puts rows where they belong: the low half of number i says which one becomes the i-th. */
static void move_rows(struct rbt_tagged *list, uint64_t *numbers, size_t count)
{
    for (size_t begin = 0; begin < count; begin++) {
        const struct rbt_tagged row = list[begin];
        size_t at = begin;
        for (size_t from = (uint32_t)numbers[at]; from != begin; from = (uint32_t)numbers[at]) {
            list[at] = list[from];
            numbers[at] = at;
            at = from;
        }
        list[at] = row;
        numbers[at] = at;
    }
}

/* Sorts rows by shard, by stamp, and by place within: with one number for each row, if stamps are
 * as close as they mostly are. Returns whether there is more than one shard. */
static bool sort_by_stamp(struct rbt_tagged *list, uint64_t *numbers, size_t count)
{
    _Static_assert(RBT_JOB_SHARDS_MAX <= 1 << (32 - STAMP_BITS), "shards fit besides stamps");
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    bool is_one = true;
    for (size_t i = 0; i < count; i++) {
        least = list[i].stamp < least ? list[i].stamp : least;
        most = list[i].stamp > most ? list[i].stamp : most;
        is_one = is_one && list[i].shard == list[0].shard;
    }
    if ((most - least) >> STAMP_BITS != 0) {
        qsort(list, count, sizeof *list, compare_stamps);
        return !is_one;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t high = (uint64_t)list[i].shard << STAMP_BITS | (list[i].stamp - least);
        numbers[i] = high << 32 | i;
    }
    rbt_sort_u64(numbers, count);
    move_rows(list, numbers, count);
    return !is_one;
}

/* The same by rank, and by place within. */
static void sort_by_rank(struct rbt_tagged *list, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        numbers[list[i].place] = i;
    }
    move_rows(list, numbers, count);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (uint64_t)list[i].rank << 32 | i;
    }
    rbt_sort_u64(numbers, count);
    move_rows(list, numbers, count);
}

/* Sorts rows by rank, and by key within. */
static void rank_rows(const struct rbt_tagged_rows *rows)
{
    struct rbt_tagged *list = rows->list;
    const size_t count = rows->count;
    if (!is_sorted(list, count)) {
        qsort(list, count, sizeof *list, compare_keys);
    }
    if (has_one_rank(list, count)) {
        return; /* it is zero */
    }
    for (size_t i = 0; i < count; i++) {
        list[i].place = (uint32_t)i;
    }
    const bool has_shards = sort_by_stamp(list, rows->keys, count);
    for (size_t i = 1; i < count; i++) {
        const bool is_other = list[i].stamp != list[i - 1].stamp;
        list[i].rank = list[i].shard != list[i - 1].shard ? 0 : list[i - 1].rank + is_other;
    }
    if (has_shards) {
        sort_by_rank(list, rows->keys, count);
    }
}

/* Says which stamps an update names. */
static void list_bases(const rbt_worker *worker, const struct rbt_worker_table *local,
                       const struct rbt_update *before, struct rbt_update *update)
{
    if (before != NULL) { /* where it has no rows it is no message of its own */
        memcpy(update->bases, before->bases, worker->job->shard_count * sizeof *update->bases);
    } else {
        rbt_worker_list_bases(local, NULL, update->bases);
    }
}

/* Makes an update of rows of one rank; `before` is that of the rank below, or NULL. */
static rbt_status append_rank(rbt_worker *worker, struct rbt_worker_table *local,
                              const struct rbt_tagged_rows *rows, const struct rbt_update *before)
{
    const size_t row_size = local->table->row_size;
    struct rbt_update *update = NULL;
    rbt_status st =
        rbt_buffer_append(&local->buffer, worker->sequence, NULL, rows->count * row_size, &update);
    if (st != RBT_OK) {
        return st;
    }
    for (size_t i = 0; i < rows->count; i++) {
        rows->keys[i] = rows->list[i].key;
    }
    st = rbt_keylist_assign(update->keys, rows->keys, rows->count);
    if (st != RBT_OK) {
        rbt_buffer_take_back(&local->buffer);
        return st;
    }
    if (local->stamps != NULL) {
        list_bases(worker, local, before, update);
    }
    for (size_t i = 0; i < rows->count; i++) {
        const struct rbt_tagged *row = &rows->list[i];
        if (local->stamps != NULL) {
            update->bases[row->shard] = row->stamp;
        }
        memcpy(update->values + i * row_size, rows->values + row->row * row_size, row_size);
    }
    if (rows->code != NULL) {
        update->code = *rows->code;
        return RBT_OK;
    }
    st = rbt_filtering_round(local->filtering, update);
    if (st != RBT_OK) {
        rbt_buffer_take_back(&local->buffer);
    }
    return st;
}

rbt_status rbt_worker_append_tagged(rbt_worker *worker, struct rbt_worker_table *local,
                                    const struct rbt_tagged_rows *rows)
{
    rbt_status st = RBT_OK;
    const struct rbt_update *before = NULL;
    size_t appended = 0;
    rank_rows(rows);
    for (size_t begin = 0; st == RBT_OK && begin < rows->count;) {
        size_t end = begin + 1;
        while (end < rows->count && rows->list[end].rank == rows->list[begin].rank) {
            end++;
        }
        struct rbt_tagged_rows part = *rows;
        part.list = rows->list + begin;
        part.count = end - begin;
        st = append_rank(worker, local, &part, before);
        before = local->buffer.last;
        appended += st == RBT_OK ? 1 : 0;
        begin = end;
    }
    for (; st != RBT_OK && appended > 0; appended--) {
        rbt_buffer_take_back(&local->buffer);
    }
    return st;
}

static rbt_status flush_tagged(rbt_worker *worker, struct rbt_worker_table *local)
{
    struct rbt_rowcache *rows = &local->rows;
    const size_t count = rows->dirty_count;
    RBT_ASSERT(!rows->is_sparse);
    struct rbt_tagged *list = rbt_calloc(count, sizeof *list);
    if (list == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate an update of %zu rows", count);
    }
    for (size_t i = 0; i < count; i++) {
        const struct rbt_rowcache_row *row = &rows->rows[rows->dirty[i]];
        const uint32_t shard = rbt_placement_shard(local->table->placement, row->key);
        list[i] = (struct rbt_tagged){.key = row->key,
                                      .stamp = rbt_stamps_base(local->stamps, shard, row->stamp),
                                      .shard = shard,
                                      .row = rows->dirty[i]};
    }
    const struct rbt_tagged_rows tagged = {
        .list = list, .count = count, .values = rows->deltas, .keys = rows->sorted};
    const rbt_status st = rbt_worker_append_tagged(worker, local, &tagged);
    rbt_free(list);
    if (st == RBT_OK) {
        rbt_rowcache_clean(rows);
    }
    return st;
}

rbt_status rbt_worker_flush_rows(rbt_worker *worker, struct rbt_worker_table *local)
{
    if (local->rows.dirty_count == 0) {
        return RBT_OK;
    }
    /* A message that was sent half-way stays as it is. */
    rbt_status st =
        worker->resend == local || worker->must_resend_all ? rbt_worker_resend(worker) : RBT_OK;
    if (st == RBT_OK) {
        rbt_worker_lock(local);
        st = local->stamps != NULL ? flush_tagged(worker, local) : flush(worker, local);
        rbt_worker_unlock(local);
    }
    return st;
}
