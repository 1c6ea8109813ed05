/* comm/queue.h - rows that have changed, and which of them go first.
 *
 * Items are numbers 0 .. capacity-1 (positions of a working set, slots of a shard). Marking one,
 * changing its score, and taking the next all cost the same however many items there are and
 * however many of them are marked.
 *
 *   OLDEST     in the order in which they were first marked                 (Wei et al. 2015)
 *   WALK       round and round in the order of their numbers                (Wei's thesis)
 *   RANDOM     any marked one, all alike
 *   SCORE      the highest score first: within an eighth of an octave, then the oldest
 *
 * The magnitudes that scores are made of are not known here (policy/priority/priority.h). What is
 * taken follows from the calls and the seed alone. Threads: none. Memory: at most 12 bytes per item
 * (SCORE and OLDEST 12, RANDOM 8, WALK about an eighth), and 16 KiB for SCORE. */
#ifndef RUBATO_COMM_QUEUE_H
#define RUBATO_COMM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/source.h"

typedef struct rbt_change_queue rbt_change_queue;

typedef enum rbt_queue_order {
    RBT_ORDER_OLDEST,
    RBT_ORDER_WALK,
    RBT_ORDER_RANDOM,
    RBT_ORDER_SCORE,
} rbt_queue_order;

#define RBT_QUEUE_NONE UINT32_MAX

/* Room for so many items, which may be none; below RBT_QUEUE_NONE. The seed is for RANDOM. Fails
 * with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_queue_create(rbt_queue_order order, uint32_t capacity, uint64_t seed,
                                         rbt_change_queue **queue);
void rbt_queue_destroy(rbt_change_queue *queue); /* accepts NULL */

/* Room for more items; those that are marked stay so. A smaller capacity changes nothing. Fails
 * with RBT_E_NOMEM, and then all is as before. */
RBT_MUST_USE rbt_status rbt_queue_grow(rbt_change_queue *queue, uint32_t capacity);

/* Marks the item, or gives it another score, which keeps its place if the scores are about equal.
 * Scores are not negative; what is not a number counts as infinite: it must not stay behind. Orders
 * other than SCORE do not look at it. */
void rbt_queue_mark(rbt_change_queue *queue, uint32_t item, float score);
void rbt_queue_unmark(rbt_change_queue *queue, uint32_t item); /* whether marked or not */
bool rbt_queue_is_marked(const rbt_change_queue *queue, uint32_t item);
uint32_t rbt_queue_count(const rbt_change_queue *queue); /* how many are marked */

/* The next one, which is then not marked any more; RBT_QUEUE_NONE if there is none. */
uint32_t rbt_queue_take(rbt_change_queue *queue);

size_t rbt_queue_bytes(const rbt_change_queue *queue); /* of memory */

/* What is marked, in which order it would be taken, and what chance comes next. Loading into a
 * queue of the same order with nothing marked and room for items below `item_end`; others are
 * refused. */
void rbt_queue_save(const rbt_change_queue *queue, struct rbt_sink *sink);
void rbt_queue_load(rbt_change_queue *queue, struct rbt_source *source, uint32_t item_end);

#endif
