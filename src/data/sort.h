/* data/sort.h - sorts 64-bit keys, and replaces keys by their positions in a sorted list. */
#ifndef RUBATO_DATA_SORT_H
#define RUBATO_DATA_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* Sorts `keys` with the help of `scratch`, which has room for as many. */
void rbt_sort_keys(uint64_t *keys, uint64_t *scratch, size_t count);

/* Different keys in increasing order. */
struct rbt_sorted {
    uint64_t *keys;
    size_t count;
};

/* Lists the different keys among `keys`, and stores in `positions` where each is in the list. The
 * caller frees sorted->keys with rbt_free(). Fails with RBT_E_INVALID (more than 2^32 - 1 different
 * keys) and RBT_E_NOMEM; `positions` is then undefined. Takes time in proportion to `count`. */
RBT_MUST_USE rbt_status rbt_sort_positions(const uint64_t *keys, size_t count, uint32_t *positions,
                                           struct rbt_sorted *sorted);

/* The same for keys below 2^32, of which `max` is the largest: they become positions where they
 * are. Only if rbt_sort_is_dense(), or it takes too much memory. */
RBT_MUST_USE rbt_status rbt_sort_in_place(uint32_t *keys, size_t count, uint64_t max,
                                          struct rbt_sorted *sorted);
bool rbt_sort_is_dense(size_t count, uint64_t max);

#endif
