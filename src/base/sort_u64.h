/* base/sort_u64.h - sorts numbers: a few times as fast as qsort(), which calls a function for every
 * comparison. */
#ifndef RUBATO_BASE_SORT_U64_H
#define RUBATO_BASE_SORT_U64_H

#include <stddef.h>
#include <stdint.h>

/* In place, in increasing order. */
void rbt_sort_u64(uint64_t *list, size_t count);

#endif
