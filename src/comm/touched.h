/* comm/touched.h - rows that have changed and have not been looked at since.
 *
 * A row changes far more often than it is sent, and a look at it (its score,
 * policy/priority/priority.h) costs as much as sending it. So a change only puts the row on a list,
 * first come, first served, and whoever sends some rows looks at a few times as many before
 * (rbt_touched_looks()): all rows are looked at in turn, and the cost follows what is sent.
 *
 * Items are numbers 0 .. capacity-1, each on the list once at most. Threads: none. Memory: 9 bytes
 * per item. */
#ifndef RUBATO_COMM_TOUCHED_H
#define RUBATO_COMM_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/assert.h"
#include "base/source.h"

enum {
    RBT_TOUCHED_LOOKS = 4,      /* for each row that is sent */
    RBT_TOUCHED_LOOKS_MIN = 64, /* so that the best of a few rows are the best */
};

#define RBT_TOUCHED_NONE UINT32_MAX

enum rbt_touched_state {
    RBT_TOUCHED_NOT,
    RBT_TOUCHED_YES,
    RBT_TOUCHED_LEFT, /* is on the list, but there is nothing to look at any more */
};

struct rbt_touched {
    uint32_t capacity;
    uint8_t *states; /* (capacity): enum rbt_touched_state */
    uint32_t *list;  /* (2 capacity + 1): those that are not NOT are from `first` to `end` */
    size_t first;    /* at most capacity */
    size_t end;
};

/* Room for so many items; what is there stays. Begin with zeros. Fails with RBT_E_NOMEM, and then
 * all is as before. */
RBT_MUST_USE rbt_status rbt_touched_grow(struct rbt_touched *touched, uint32_t capacity);
void rbt_touched_deinit(struct rbt_touched *touched);

/* The next one to look at, which is then not touched any more; RBT_TOUCHED_NONE if there is none.
 */
uint32_t rbt_touched_take(struct rbt_touched *touched);

/* None is touched any more. */
void rbt_touched_clear(struct rbt_touched *touched);

/* The list. Loading into an empty one with room for items below `item_end`; others are refused. */
void rbt_touched_save(const struct rbt_touched *touched, struct rbt_sink *sink);
void rbt_touched_load(struct rbt_touched *touched, struct rbt_source *source, uint32_t item_end);

size_t rbt_touched_bytes(const struct rbt_touched *touched); /* of memory */

/* How many rows to look at before so many are sent. */
static inline size_t rbt_touched_looks(size_t sent)
{
    const size_t looks = sent * RBT_TOUCHED_LOOKS;
    return looks > RBT_TOUCHED_LOOKS_MIN ? looks : RBT_TOUCHED_LOOKS_MIN;
}

/* The one after the next `ahead`, to be fetched into the cache; the item itself if there is none.
 */
static inline uint32_t rbt_touched_peek(const struct rbt_touched *touched, size_t prefetch,
                                        uint32_t item)
{
    return touched->first + prefetch < touched->end ? touched->list[touched->first + prefetch]
                                                    : item;
}

/* No fewer than are touched; some may have been left. */
static inline size_t rbt_touched_count(const struct rbt_touched *touched)
{
    return touched->end - touched->first;
}

static inline bool rbt_touched_has(const struct rbt_touched *touched, uint32_t item)
{
    RBT_DEBUG_ASSERT(item < touched->capacity);
    return touched->states[item] == RBT_TOUCHED_YES;
}

/* Without a branch that nobody can foresee. */
static inline void rbt_touched_add(struct rbt_touched *touched, uint32_t item)
{
    RBT_DEBUG_ASSERT(item < touched->capacity);
    touched->list[touched->end] = item;
    touched->end += touched->states[item] == RBT_TOUCHED_NOT;
    touched->states[item] = RBT_TOUCHED_YES;
}

/* There is nothing to look at in this one any more. */
static inline void rbt_touched_leave(struct rbt_touched *touched, uint32_t item)
{
    RBT_DEBUG_ASSERT(item < touched->capacity);
    if (touched->states[item] == RBT_TOUCHED_YES) {
        touched->states[item] = RBT_TOUCHED_LEFT;
    }
}

#endif
