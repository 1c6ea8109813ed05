/* examples/filter.c - a filter of your own: rows wait until one of their updates is large enough.
 *
 * Rows of embeddings are used as a whole; a server that gets a row's updates one by one has a row
 * that nobody has computed. So all elements of a row go together, or wait together.
 *
 *     cc -O2 -shared -fPIC -o rows.so filter.c $(pkg-config --cflags rubato)
 *     rubato train mf ... --filter ./rows.so:0.01,lz4
 *
 * docs/filters.md explains what else a filter can do. */
#include <math.h>
#include <rubato/filter.h>
#include <stdlib.h>
#include <string.h>

static rbt_status create(const struct rbt_filter_setup *setup, void **self)
{
    if (setup->argument_count != 1 || !(setup->arguments[0] > 0)) {
        return setup->fail("one positive number is needed, the threshold");
    }
    float *threshold =
        malloc(sizeof *threshold); /* tidy: allow heap, because users have no other */
    if (threshold == NULL) {
        return RBT_E_NOMEM;
    }
    *threshold = (float)setup->arguments[0];
    *self = threshold;
    return RBT_OK;
}

static rbt_status select_rows(void *self, const struct rbt_filter_rows *rows)
{
    const float threshold = *(const float *)self;
    for (size_t r = 0; r < rows->row_count; r++) {
        const float *row = rows->values + r * rows->width;
        float largest = 0;
        for (uint32_t i = 0; i < rows->width; i++) {
            largest = fmaxf(largest, fabsf(row[i]));
        }
        if (largest < threshold) {
            memset(rows->keep + r * rows->width, 0, rows->width * sizeof *rows->keep);
        }
    }
    return RBT_OK;
}

RBT_FILTER_EXPORT const struct rbt_filter rbt_filter = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof rbt_filter,
    .name = "rows",
    .summary = "Rows wait until one of their updates has reached a threshold.",
    .kind = RBT_FILTER_SELECT,
    .use = RBT_FILTER_FOR_PUSH,
    .keeps_rest = true, /* what waits is added to the next update of the row */
    .create = create,
    .destroy = free,
    .select = select_rows};
