/* algo/frame/columns.c - the examples of a share by feature. */
#include "algo/frame/columns.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

/* How many entries each feature has, and how many features have any. */
static size_t count_entries(const struct rbt_share *share, size_t first, size_t end,
                            uint64_t *counts)
{
    size_t used = 0;
    for (uint64_t k = share->offsets[first]; k < share->offsets[end]; k++) {
        used += counts[share->indices[k]]++ == 0;
    }
    return used;
}

rbt_status rbt_columns_take(const struct rbt_share *share, size_t first, size_t end,
                            struct rbt_columns *columns)
{
    RBT_ASSERT(first <= end && end <= share->count);
    const uint64_t nonzeros = share->offsets[end] - share->offsets[first];
    uint64_t *next = rbt_calloc(share->key_count, sizeof *next); /* counts, then places */
    const size_t used = next == NULL ? 0 : count_entries(share, first, end, next);
    *columns = (struct rbt_columns){.count = used,
                                    .features = rbt_calloc(used, sizeof *columns->features),
                                    .starts = rbt_calloc(used + 1, sizeof *columns->starts),
                                    .rows = rbt_calloc(nonzeros, sizeof *columns->rows),
                                    .values = rbt_calloc(nonzeros, sizeof *columns->values)};
    if (next == NULL || columns->features == NULL || columns->starts == NULL ||
        columns->rows == NULL || columns->values == NULL) {
        rbt_free(next);
        rbt_columns_free(columns);
        return rbt_fail(RBT_E_NOMEM, "no memory for a worker's examples by feature");
    }
    size_t at = 0;
    for (size_t j = 0; j < share->key_count; j++) {
        const uint64_t count = next[j];
        if (count > 0) {
            columns->features[at] = (uint32_t)j;
            columns->starts[at + 1] = columns->starts[at] + count;
            next[j] = columns->starts[at++];
        }
    }
    for (size_t i = first; i < end; i++) {
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            const uint64_t to = next[share->indices[k]]++;
            columns->rows[to] = (uint32_t)(i - first);
            columns->values[to] = share->values[k];
        }
    }
    rbt_free(next);
    return RBT_OK;
}

void rbt_columns_free(struct rbt_columns *columns)
{
    rbt_free(columns->values);
    rbt_free(columns->rows);
    rbt_free(columns->starts);
    rbt_free(columns->features);
    *columns = (struct rbt_columns){0};
}
