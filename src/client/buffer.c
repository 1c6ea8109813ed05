/* client/buffer.c - own updates in a list, oldest first.
 *
 * The list is short: what has been made in this clock, and what the shards hold back, at most a few
 * clocks. An update that shares its key list with the target is added array to array; any other
 * by walking both sorted lists.
 *
 * Invariants:
 *   (1) sequences do not decrease along the list, and sent updates come before unsent ones, so that
 *       a clock looks at what it has to send, however much is held back;
 *   (2) every update in the list has a sequence > dropped.
 *
 * Threads: the worker's own, or under the table's mutex with overlay PROCESS.
 * Memory: updates that are done with are kept and used again. */
#include "client/buffer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { SPARE_LOOKS = 16 };

static void free_update(struct rbt_update *update)
{
    rbt_keylist_unref(update->keys);
    rbt_free(update->bases);
    rbt_free(update->values);
    rbt_free(update->offsets);
    rbt_free(update->elements);
    rbt_free(update);
}

static void free_list(struct rbt_update *update)
{
    while (update != NULL) {
        struct rbt_update *next = update->next;
        free_update(update);
        update = next;
    }
}

void rbt_buffer_deinit(struct rbt_buffer *buffer)
{
    free_list(buffer->first);
    free_list(buffer->spare);
    *buffer = (struct rbt_buffer){0};
}

/* Takes the first spare update whose values have the room, of the first few, else the first one,
 * else NULL. */
static struct rbt_update *take_spare(struct rbt_buffer *buffer, size_t bytes)
{
    struct rbt_update **at = &buffer->spare;
    int looks = 0;
    for (struct rbt_update **i = &buffer->spare; *i != NULL && looks < SPARE_LOOKS;
         i = &(*i)->next, looks++) {
        if ((*i)->values_max >= bytes) {
            at = i;
            break;
        }
    }
    struct rbt_update *update = *at;
    if (update != NULL) {
        *at = update->next;
        update->next = NULL;
    }
    return update;
}

static void keep_spare(struct rbt_buffer *buffer, struct rbt_update *update)
{
    if (update->keys != NULL && update->keys->references > 1) {
        rbt_keylist_unref(update->keys); /* a set's; our own lists stay for the next time */
        update->keys = NULL;
    }
    update->next = buffer->spare;
    buffer->spare = update;
}

/* Gives the update the set's list, or an own one. */
static rbt_status set_keys(struct rbt_buffer *buffer, struct rbt_update *update,
                           struct rbt_keylist *keys)
{
    if (keys != NULL) {
        rbt_keylist_unref(update->keys);
        keys->references++;
        update->keys = keys;
        return RBT_OK;
    }
    return update->keys != NULL ? RBT_OK : rbt_keylist_create(buffer->placement, &update->keys);
}

rbt_status rbt_buffer_append(struct rbt_buffer *buffer, uint64_t sequence, struct rbt_keylist *keys,
                             size_t bytes, struct rbt_update **update)
{
    RBT_ASSERT(sequence > buffer->dropped); /* (2) */
    RBT_ASSERT(buffer->last == NULL || buffer->last->sequence <= sequence);
    struct rbt_update *u = take_spare(buffer, bytes);
    if (u == NULL) {
        u = rbt_calloc(1, sizeof *u);
    }
    if (u == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate an update");
    }
    rbt_status st = set_keys(buffer, u, keys);
    if (st == RBT_OK && buffer->has_bases && u->bases == NULL) {
        u->bases = rbt_calloc(buffer->placement->shard_count, sizeof *u->bases);
        st = u->bases != NULL ? RBT_OK : rbt_fail(RBT_E_NOMEM, "could not allocate an update");
    }
    if (st == RBT_OK && (u->values == NULL || u->values_max < bytes)) { /* also of no bytes */
        rbt_free(u->values);
        u->values = rbt_calloc(bytes, 1);
        u->values_max = u->values == NULL ? 0 : bytes;
        if (u->values == NULL) {
            st = rbt_fail(RBT_E_NOMEM, "could not allocate an update of %zu bytes", bytes);
        }
    }
    if (st != RBT_OK) {
        free_update(u);
        return st;
    }
    u->sequence = sequence;
    u->is_sent = false;
    u->code = (struct rbt_filter_code){0};
    if (buffer->last == NULL) {
        buffer->first = u;
    } else {
        buffer->last->next = u;
    }
    buffer->last = u;
    buffer->unsent = buffer->unsent == NULL ? u : buffer->unsent;
    buffer->unsent_count++;
    *update = u;
    return RBT_OK;
}

void rbt_buffer_take_back(struct rbt_buffer *buffer)
{
    struct rbt_update *last = buffer->last;
    RBT_ASSERT(last != NULL && !last->is_sent);
    struct rbt_update *before = NULL;
    for (struct rbt_update *u = buffer->first; u != last; u = u->next) {
        before = u;
    }
    buffer->last = before;
    if (before == NULL) {
        buffer->first = NULL;
    } else {
        before->next = NULL;
    }
    buffer->unsent = buffer->unsent == last ? NULL : buffer->unsent;
    buffer->unsent_count--;
    keep_spare(buffer, last);
}

/* Whether the update names these stamps wherever it has rows; it goes to the other shards as well,
 * but there it says nothing that would have to be kept apart. */
static bool has_same_bases(const struct rbt_update *update, const uint64_t *bases)
{
    for (uint32_t i = 0; bases != NULL && i < update->keys->shard_count; i++) {
        if (update->bases[i] != bases[i] && rbt_keylist_batch(update->keys, i).count > 0) {
            return false;
        }
    }
    return true;
}

struct rbt_update *rbt_buffer_find_unsent(const struct rbt_buffer *buffer,
                                          const struct rbt_keylist *keys, const uint64_t *bases)
{
    struct rbt_update *u = buffer->unsent;
    while (u != NULL && (u->keys != keys || !has_same_bases(u, bases))) {
        u = u->next;
    }
    return u;
}

uint64_t rbt_buffer_least(const struct rbt_buffer *buffer, uint32_t shard)
{
    RBT_ASSERT(buffer->has_bases);
    uint64_t least = RBT_STAMP_NONE;
    for (const struct rbt_update *u = buffer->unsent; u != NULL; u = u->next) {
        least = u->bases[shard] < least ? u->bases[shard] : least;
    }
    return least;
}

static bool fit_u32(uint32_t **array, size_t *max, size_t count)
{
    if (count <= *max && *array != NULL) {
        return true;
    }
    uint32_t *grown = rbt_calloc(count, sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    rbt_free(*array);
    *array = grown;
    *max = count;
    return true;
}

rbt_status rbt_buffer_reserve_elements(struct rbt_update *update, size_t rows, size_t elements)
{
    if (!fit_u32(&update->offsets, &update->offsets_max, rows + 1) ||
        !fit_u32(&update->elements, &update->elements_max, elements)) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate an update of %zu elements", elements);
    }
    return RBT_OK;
}

struct rbt_batch rbt_buffer_batch(const struct rbt_update *update, uint32_t table, uint32_t shard)
{
    struct rbt_batch batch = rbt_keylist_batch(update->keys, shard);
    batch.table = table;
    batch.values = update->values;
    batch.base = update->bases == NULL ? 0 : update->bases[shard];
    batch.code = update->code;
    batch.offsets = update->offsets;
    batch.elements = update->elements;
    return batch;
}

void rbt_buffer_mark_sent(struct rbt_buffer *buffer, uint64_t sequence, int64_t clock)
{
    for (struct rbt_update *u = buffer->unsent; u != NULL; u = u->next) {
        RBT_ASSERT(!u->is_sent); /* (1) */
        u->is_sent = true;
        u->sequence = sequence;
        u->clock = clock;
    }
    buffer->unsent = NULL;
    buffer->unsent_count = 0;
}

void rbt_buffer_drop(struct rbt_buffer *buffer, int64_t clock, uint64_t sequence)
{
    while (buffer->first != NULL && buffer->first->is_sent && buffer->first->clock < clock &&
           buffer->first->sequence <= sequence) {
        struct rbt_update *done = buffer->first;
        buffer->first = done->next;
        if (buffer->first == NULL) {
            buffer->last = NULL;
        }
        RBT_ASSERT(done->sequence >= buffer->dropped); /* (1) */
        buffer->dropped = done->sequence;
        keep_spare(buffer, done);
    }
}

/* Array to array: the update and the target have the same keys. */
static void overlay_same(const struct rbt_buffer *buffer, const struct rbt_update *update,
                         uint32_t shard, char *values)
{
    const size_t row_size = buffer->width * rbt_merge_size(buffer->kind.type);
    if (buffer->placement->shard_count == 1) {
        rbt_merge_apply(buffer->kind, values, update->values, update->keys->count * buffer->width);
        return;
    }
    const struct rbt_batch batch = rbt_keylist_batch(update->keys, shard);
    for (size_t i = 0; i < batch.count; i++) {
        const size_t at = rbt_batch_position(&batch, i) * row_size;
        rbt_merge_apply(buffer->kind, values + at, update->values + at, buffer->width);
    }
}

/* First position whose key is >= key, from `from` on. */
static size_t lower_bound(const struct rbt_keylist *list, size_t from, uint64_t key)
{
    size_t low = from;
    size_t high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list->keys[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Walks the shorter list and searches the longer one: lists are often of very different lengths. */
static void overlay_other(const struct rbt_buffer *buffer, const struct rbt_update *update,
                          uint32_t shard, const struct rbt_buffer_target *target)
{
    const size_t row_size = buffer->width * rbt_merge_size(buffer->kind.type);
    const bool is_update_shorter = update->keys->count <= target->keys->count;
    const struct rbt_keylist *shorter = is_update_shorter ? update->keys : target->keys;
    const struct rbt_keylist *longer = is_update_shorter ? target->keys : update->keys;
    size_t at = 0;
    for (size_t i = 0; i < shorter->count && at < longer->count; i++) {
        const uint64_t key = shorter->keys[i];
        at = lower_bound(longer, at, key);
        if (at == longer->count || longer->keys[at] != key ||
            rbt_placement_shard(buffer->placement, key) != shard) {
            continue;
        }
        const size_t to = is_update_shorter ? at : i;
        const size_t from = is_update_shorter ? i : at;
        rbt_merge_apply(buffer->kind, target->values + to * row_size,
                        update->values + from * row_size, buffer->width);
    }
}

static rbt_status overlay_sparse(const struct rbt_buffer *buffer, const struct rbt_update *update,
                                 const struct rbt_buffer_target *target)
{
    RBT_ASSERT(target->keys->count == 1);
    const size_t at = lower_bound(update->keys, 0, target->keys->keys[0]);
    if (at == update->keys->count || update->keys->keys[at] != target->keys->keys[0]) {
        return RBT_OK;
    }
    const uint32_t first = update->offsets[at];
    const struct rbt_sparse_view elements = {.index = update->elements + first,
                                             .values = update->values +
                                                       first * rbt_merge_size(buffer->kind.type),
                                             .count = update->offsets[at + 1] - first};
    rbt_status st = rbt_sparse_row_reserve(target->sparse, buffer->kind.type, elements.count);
    if (st == RBT_OK) {
        rbt_sparse_row_merge(target->sparse, buffer->kind, elements);
    }
    return st;
}

rbt_status rbt_buffer_overlay(const struct rbt_buffer *buffer, uint32_t shard, uint64_t applied,
                              const struct rbt_buffer_target *target)
{
    rbt_status st = RBT_OK;
    for (const struct rbt_update *u = buffer->first; u != NULL && st == RBT_OK; u = u->next) {
        if (u->sequence <= applied) {
            continue;
        }
        if (buffer->is_sparse) {
            st = overlay_sparse(buffer, u, target);
        } else if (u->keys == target->keys) {
            overlay_same(buffer, u, shard, target->values);
        } else {
            overlay_other(buffer, u, shard, target);
        }
    }
    return st;
}
