/* math/merge.h - element-wise updates of arrays whose type is known only at run time. */
#ifndef RUBATO_MATH_MERGE_H
#define RUBATO_MATH_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/table.h>

/* The kind of the elements and of the updates; small, passed by value. */
struct rbt_merge_kind {
    rbt_type type;
    rbt_merge merge;
};

/* Bytes of an element: 4 or 8. */
size_t rbt_merge_size(rbt_type type);

/* to[i] <- to[i] (+) from[i], i = 0 .. count-1, with the kind's operation for (+). */
void rbt_merge_apply(struct rbt_merge_kind kind, void *restrict to, const void *restrict from,
                     size_t count);

/* to[i] <- to[i] - from[i]; meaningful for ADD only. */
void rbt_merge_subtract(rbt_type type, void *restrict to, const void *restrict from, size_t count);

/* Sets all elements to the update that changes nothing: 0 for ADD and OR, the smallest value for
 * MAX, the largest for MIN. */
void rbt_merge_clear(struct rbt_merge_kind kind, void *to, size_t count);

/* How many of the elements are not such updates. */
size_t rbt_merge_count(struct rbt_merge_kind kind, const void *from, size_t count);

/* True if all elements are such updates. */
bool rbt_merge_is_neutral(struct rbt_merge_kind kind, const void *from, size_t count);

/* Stores a real number as an element; integers are rounded to the nearest. */
void rbt_merge_store(rbt_type type, void *to, double value);

#endif
