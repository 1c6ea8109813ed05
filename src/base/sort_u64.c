/* base/sort_u64.c - quicksort, with the middle of three as the pivot and insertion for what is
 * short. Lists that defeat it (every split is lopsided) are left to qsort(), which takes
 * O(n log n) always. Threads: any. Memory: the stack, O(log n). */
#include "base/sort_u64.h"

#include <stdlib.h>

#include "base/assert.h"

enum { SHORT = 24 };

static void insert_all(uint64_t *list, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const uint64_t number = list[i];
        size_t at = i;
        for (; at > 0 && list[at - 1] > number; at--) {
            list[at] = list[at - 1];
        }
        list[at] = number;
    }
}

static uint64_t middle_of(uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t low = a < b ? a : b;
    const uint64_t high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns a place, not at an end, so that no number before it is larger than any from it on
 * (Hoare; a pivot that is the only largest one would end at the end, but is not in the middle). */
static size_t split(uint64_t *list, size_t count)
{
    const uint64_t pivot = middle_of(list[0], list[count / 2], list[count - 1]);
    size_t low = 0;
    size_t high = count - 1;
    for (;; low++, high--) {
        while (list[low] < pivot) {
            low++;
        }
        while (list[high] > pivot) {
            high--;
        }
        if (low >= high) {
            break;
        }
        const uint64_t number = list[low];
        list[low] = list[high];
        list[high] = number;
    }
    return high + 1;
}

static void sort(uint64_t *list, size_t count, uint32_t depth)
{
    while (count > SHORT && depth > 0) { /* the longer part in this loop, the shorter one below */
        const size_t at = split(list, count);
        RBT_ASSERT(at > 0 && at < count);
        depth--;
        const size_t rest = count - at;
        sort(at < rest ? list : list + at, at < rest ? at : rest, depth);
        list = at < rest ? list + at : list;
        count = at < rest ? rest : at;
    }
    if (count > SHORT) {
        qsort(list, count, sizeof *list, compare);
    } else {
        insert_all(list, count);
    }
}

void rbt_sort_u64(uint64_t *list, size_t count)
{
    uint32_t depth = 8;
    for (size_t n = count; n > 0; n /= 2) {
        depth += 2;
    }
    sort(list, count, depth);
}
