/* comm/touched.c - rows that have changed and have not been looked at since.
 *
 * The list moves through its array as it is used at both ends, and goes back to the beginning when
 * more than half a capacity before it is free: at most two steps per row that was taken. */
#include "comm/touched.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

rbt_status rbt_touched_grow(struct rbt_touched *touched, uint32_t capacity)
{
    if (capacity <= touched->capacity && touched->list != NULL) {
        return RBT_OK;
    }
    RBT_ASSERT(capacity < RBT_TOUCHED_NONE);
    uint32_t *list = rbt_realloc(touched->list, 2 * (size_t)capacity + 1, sizeof *list);
    touched->list = list == NULL ? touched->list : list;
    uint8_t *states = rbt_realloc(touched->states, (size_t)capacity + 1, sizeof *states);
    touched->states = states == NULL ? touched->states : states;
    if (list == NULL || states == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a list of %u changed rows", capacity);
    }
    memset(states + touched->capacity, RBT_TOUCHED_NOT, (size_t)capacity - touched->capacity);
    touched->capacity = capacity;
    return RBT_OK;
}

void rbt_touched_deinit(struct rbt_touched *touched)
{
    rbt_free(touched->list);
    rbt_free(touched->states);
    *touched = (struct rbt_touched){0};
}

uint32_t rbt_touched_take(struct rbt_touched *touched)
{
    uint32_t item = RBT_TOUCHED_NONE;
    RBT_ASSERT(touched->first <= touched->end);
    while (item == RBT_TOUCHED_NONE && touched->first < touched->end) {
        const uint32_t next = touched->list[touched->first++];
        RBT_DEBUG_ASSERT(touched->states[next] != RBT_TOUCHED_NOT);
        item = touched->states[next] == RBT_TOUCHED_YES ? next : RBT_TOUCHED_NONE;
        touched->states[next] = RBT_TOUCHED_NOT;
    }
    const size_t count = touched->end - touched->first;
    if (touched->first > touched->capacity / 2 || count == 0) {
        if (count > 0) {
            memmove(touched->list, touched->list + touched->first, count * sizeof *touched->list);
        }
        touched->first = 0;
        touched->end = count;
    }
    RBT_ASSERT(touched->first <= touched->capacity);
    return item;
}

void rbt_touched_clear(struct rbt_touched *touched)
{
    RBT_ASSERT(touched->first <= touched->end);
    for (size_t i = touched->first; i < touched->end; i++) {
        touched->states[touched->list[i]] = RBT_TOUCHED_NOT;
    }
    touched->first = 0;
    touched->end = 0;
}

size_t rbt_touched_bytes(const struct rbt_touched *touched)
{
    RBT_ASSERT(touched->first <= touched->end);
    return touched->list == NULL ? 0
                                 : (2 * (size_t)touched->capacity + 1) * sizeof *touched->list +
                                       touched->capacity + 1;
}

void rbt_touched_save(const struct rbt_touched *touched, struct rbt_sink *sink)
{
    RBT_ASSERT(touched->first <= touched->end);
    rbt_sink_put_u64(sink, touched->end - touched->first);
    for (size_t i = touched->first; i < touched->end; i++) {
        rbt_sink_put_u32(sink, touched->list[i]);
        rbt_sink_put_u8(sink, touched->states[touched->list[i]]);
    }
}

void rbt_touched_load(struct rbt_touched *touched, struct rbt_source *source, uint32_t item_end)
{
    RBT_ASSERT(touched->first == 0 && touched->end == 0);
    RBT_ASSERT(item_end <= touched->capacity);
    const uint64_t count = rbt_source_get_count(source, sizeof(uint32_t) + 1);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t item = rbt_source_get_u32(source);
        const uint8_t state = rbt_source_get_u8(source);
        if (item >= item_end || (state != RBT_TOUCHED_YES && state != RBT_TOUCHED_LEFT) ||
            touched->states[item] != RBT_TOUCHED_NOT) {
            rbt_source_refuse(source, "a changed row is listed twice, or is not there");
            return;
        }
        touched->states[item] = state;
        touched->list[touched->end++] = item;
    }
}
