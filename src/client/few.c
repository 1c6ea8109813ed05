/* client/few.c - a push of a set of which few rows have changed: only those become an update.
 *
 * With a rule the whole set goes: it is a message for every row's shard, changed or not. Threads: a
 * worker's own, with what the worker's table shares locked. Memory: the lists are the update's,
 * which are used again. */
#include <string.h>

#include "base/assert.h"
#include "client/set.h"

/* Whether the row has a delta; what is not a number is one, too. */
static bool has_delta(const rbt_set *set, size_t row)
{
    const rbt_table *table = set->local->table;
    const char *delta = set->deltas + row * table->row_size;
    if (table->kind.type == RBT_F32 && table->spec.width == 1) {
        return *(const float *)(const void *)delta != 0.0F;
    }
    for (size_t i = 0; i < table->row_size; i++) {
        if (delta[i] != 0) {
            return true;
        }
    }
    return false;
}

/* Lists the rows that have changed, while they are few; returns how many, or one more than few. */
static size_t list_changed(rbt_set *set)
{
    const size_t few = set->keys->count / RBT_SET_FEW;
    size_t count = 0;
    for (size_t row = 0; row < set->keys->count && count <= few; row++) {
        set->changed[count] = (uint32_t)row;
        count += has_delta(set, row);
    }
    return count;
}

/* Moves the rows' deltas to the update, and to what is shown. */
static void move_deltas(rbt_set *set, struct rbt_update *update, size_t count)
{
    const rbt_table *table = set->local->table;
    const bool is_shown = set->base != NULL && table->options.overlay != RBT_OVERLAY_NONE;
    for (size_t i = 0; i < count; i++) {
        const size_t at = set->changed[i] * table->row_size;
        memcpy(update->values + i * table->row_size, set->deltas + at, table->row_size);
        if (is_shown) {
            rbt_merge_apply(table->kind, set->base + at, set->deltas + at, table->spec.width);
        }
        rbt_merge_clear(table->kind, set->deltas + at, table->spec.width);
    }
}

rbt_status rbt_set_push_few(rbt_set *set, bool *is_done)
{
    struct rbt_worker_table *local = set->local;
    const rbt_table *table = local->table;
    *is_done = false;
    const size_t count = set->changed == NULL ? SIZE_MAX : list_changed(set);
    if (count > set->keys->count / RBT_SET_FEW) {
        return RBT_OK;
    }
    for (size_t i = 0; i < count; i++) {
        set->changed_keys[i] = set->keys->keys[set->changed[i]];
    }
    struct rbt_update *update = NULL;
    rbt_status st = rbt_buffer_append(&local->buffer, set->worker->sequence, NULL,
                                      count * table->row_size, &update);
    if (st == RBT_OK) {
        st = rbt_keylist_assign(update->keys, set->changed_keys, count);
        if (st == RBT_OK) {
            move_deltas(set, update, count);
        } else {
            rbt_buffer_take_back(&local->buffer);
        }
    }
    *is_done = st == RBT_OK;
    return st;
}
