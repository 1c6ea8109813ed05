/* base/sort_u64_test.c - lists of all kinds come out as qsort() leaves them. */
#include "base/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/sort_u64.h"

enum { COUNT_MAX = 700, KINDS = 7 };

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t draw(struct rbt_rng *rng, int kind, size_t i, size_t count)
{
    switch (kind) {
    case 0:
        return rbt_rng_below(rng, UINT64_MAX);
    case 1:
        return rbt_rng_below(rng, 3); /* many are equal */
    case 2:
        return i; /* sorted */
    case 3:
        return count - i;
    case 4:
        return i < count / 2 ? i : count - i; /* up and down */
    case 5:
        return rbt_rng_below(rng, 2) == 0 ? UINT64_MAX : 0;
    default:
        return i % 2 == 0 ? i : count / 2 + i; /* two lists in one */
    }
}

static void lists_of_all_kinds_are_sorted(void **state)
{
    static uint64_t list[COUNT_MAX], expected[COUNT_MAX];
    struct rbt_rng rng;
    (void)state;
    rbt_rng_init(&rng, 1, 2, 3);
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t count = 0; count <= COUNT_MAX; count += count < 60 ? 1 : 37) {
            for (size_t i = 0; i < count; i++) {
                list[i] = draw(&rng, kind, i, count);
            }
            memcpy(expected, list, sizeof list);
            qsort(expected, count, sizeof *expected, compare);
            rbt_sort_u64(list, count);
            assert_memory_equal(list, expected, count * sizeof *list + sizeof *list * (count == 0));
        }
    }
}

/* What quicksort with the middle of three takes n^2 steps for (Musser 1997). */
static void a_list_that_defeats_quicksort_is_sorted(void **state)
{
    static uint64_t list[100000];
    const size_t count = sizeof list / sizeof list[0];
    (void)state;
    for (size_t i = 0; i < count / 2; i++) {
        list[i] = i % 2 == 0 ? i : count / 2 + i;
        list[count / 2 + i] = 2 * i + 1;
    }
    rbt_sort_u64(list, count);
    for (size_t i = 1; i < count; i++) {
        assert_true(list[i - 1] <= list[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_all_kinds_are_sorted),
        cmocka_unit_test(a_list_that_defeats_quicksort_is_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
