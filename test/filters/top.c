/* test/filters/top.c - a user's filter: the tenth of the elements that are largest goes, and the
 * others wait, however long that takes. */
#include <math.h>
#include <rubato/rubato.h> /* has all that users write */
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a;
    const float y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static rbt_status select_top(void *self, const struct rbt_filter_rows *rows)
{
    const size_t count = rows->row_count * rows->width;
    (void)self;
    float *sizes = malloc((count + 1) * sizeof *sizes); /* tidy: allow heap, because users do */
    if (sizes == NULL) {
        return RBT_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        sizes[i] = fabsf(rows->values[i]);
    }
    qsort(sizes, count, sizeof *sizes, compare);
    const float least = sizes[count / 10];
    for (size_t i = 0; i < count; i++) {
        rows->keep[i] &= fabsf(rows->values[i]) > least;
    }
    free(sizes); /* tidy: allow heap, because users do */
    return RBT_OK;
}

RBT_FILTER_EXPORT const struct rbt_filter rbt_filter = {.abi = RBT_FILTER_ABI,
                                                        .struct_size = sizeof rbt_filter,
                                                        .name = "top",
                                                        .summary = "The largest tenth goes.",
                                                        .kind = RBT_FILTER_SELECT,
                                                        .use = RBT_FILTER_FOR_PUSH,
                                                        .keeps_rest = true,
                                                        .select = select_top};
