/* math/sparse_row.c - sparse rows as two sorted arrays.
 *
 * Merging goes through both lists from the back, so that it needs no second copy: after room has
 * been made, each element moves at most once. Elements whose value has become zero stay for a
 * while, since a count that was one is likely to be so again; readers leave them out. When they are
 * the greater part of a row its owner has it compacted, so that a row takes no more than about
 * three times what it needs.
 *
 * Threads: none; owned by whoever owns the row. */
#include "math/sparse_row.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { CAPACITY_MIN = 4 };

void rbt_sparse_row_deinit(struct rbt_sparse_row *row)
{
    rbt_free(row->index);
    rbt_free(row->values);
    *row = (struct rbt_sparse_row){0};
}

void rbt_sparse_row_clear(struct rbt_sparse_row *row)
{
    RBT_ASSERT(row->count <= row->capacity);
    row->count = 0;
    row->zeros = 0;
}

static bool is_zero(const char *value, size_t size)
{
    static const char zeros[sizeof(uint64_t)] = {0};
    RBT_DEBUG_ASSERT(size == sizeof(uint32_t) || size == sizeof(uint64_t));
    return size == sizeof(uint32_t) ? memcmp(value, zeros, sizeof(uint32_t)) == 0
                                    : memcmp(value, zeros, sizeof(uint64_t)) == 0;
}

rbt_status rbt_sparse_row_reserve(struct rbt_sparse_row *row, rbt_type type, size_t count)
{
    const size_t needed = row->count + count;
    RBT_ASSERT(row->count <= row->capacity);
    if (needed <= row->capacity) {
        return RBT_OK;
    }
    if (needed > UINT32_MAX / 2) {
        return rbt_fail(RBT_E_INVALID, "a sparse row cannot have %zu elements", needed);
    }
    const size_t capacity = needed < CAPACITY_MIN ? CAPACITY_MIN : needed + needed / 2;
    uint32_t *index = rbt_realloc(row->index, capacity, sizeof *index);
    if (index == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a sparse row of %zu elements", capacity);
    }
    row->index = index;
    char *values = rbt_realloc(row->values, capacity, rbt_merge_size(type));
    if (values == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a sparse row of %zu elements", capacity);
    }
    row->values = values;
    row->capacity = (uint32_t)capacity;
    return RBT_OK;
}

/* How many of the elements the row does not have yet. */
static size_t count_new(const struct rbt_sparse_row *row, struct rbt_sparse_view elements)
{
    size_t fresh = 0;
    size_t r = 0;
    for (size_t e = 0; e < elements.count; e++) {
        RBT_DEBUG_ASSERT(e == 0 || elements.index[e] > elements.index[e - 1]);
        while (r < row->count && row->index[r] < elements.index[e]) {
            r++;
        }
        fresh += r == row->count || row->index[r] != elements.index[e];
    }
    return fresh;
}

void rbt_sparse_row_merge(struct rbt_sparse_row *row, struct rbt_merge_kind kind,
                          struct rbt_sparse_view elements)
{
    const size_t size = rbt_merge_size(kind.type);
    const size_t fresh = count_new(row, elements);
    RBT_ASSERT(row->count + fresh <= row->capacity);
    const char *from = elements.values;
    size_t to = row->count + fresh; /* one past the place to fill next */
    size_t r = row->count;          /* elements of the row still to be placed */
    size_t e = elements.count;      /* and of the update */
    while (e > 0) {
        const bool is_old = r > 0 && row->index[r - 1] >= elements.index[e - 1];
        const bool is_met = is_old && row->index[r - 1] == elements.index[e - 1];
        to--;
        if (is_old) {
            r--;
            row->index[to] = row->index[r];
            memmove(row->values + to * size, row->values + r * size, size);
        }
        if (is_met) {
            e--;
            row->zeros -= is_zero(row->values + to * size, size);
            rbt_merge_apply(kind, row->values + to * size, from + e * size, 1);
            row->zeros += is_zero(row->values + to * size, size);
        } else if (!is_old) {
            e--;
            row->index[to] = elements.index[e];
            memcpy(row->values + to * size, from + e * size, size);
            row->zeros += is_zero(from + e * size, size);
        }
    }
    RBT_ASSERT(to == r); /* what is left of the row is in place already */
    row->count += (uint32_t)fresh;
}

/* Gives back room; if that fails, it stays. */
static void shrink(struct rbt_sparse_row *row, size_t size)
{
    const size_t wanted = row->count + (size_t)row->promised;
    const size_t capacity = wanted < CAPACITY_MIN ? CAPACITY_MIN : wanted;
    if (capacity >= row->capacity) {
        return;
    }
    uint32_t *index = rbt_realloc(row->index, capacity, sizeof *index);
    row->index = index != NULL ? index : row->index;
    char *values = index == NULL ? NULL : rbt_realloc(row->values, capacity, size);
    row->values = values != NULL ? values : row->values;
    row->capacity = index == NULL ? row->capacity : (uint32_t)capacity;
}

void rbt_sparse_row_compact(struct rbt_sparse_row *row, struct rbt_merge_kind kind)
{
    const size_t size = rbt_merge_size(kind.type);
    const bool may_drop = kind.merge == RBT_MERGE_ADD || kind.merge == RBT_MERGE_OR;
    if (!may_drop || row->zeros < CAPACITY_MIN || row->zeros <= row->count / 2) {
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < row->count; i++) {
        if (!is_zero(row->values + i * size, size)) {
            row->index[kept] = row->index[i];
            memmove(row->values + kept * size, row->values + i * size, size);
            kept++;
        }
    }
    RBT_ASSERT(kept + row->zeros == row->count);
    row->count = kept;
    row->zeros = 0;
    shrink(row, size);
}

size_t rbt_sparse_row_bytes(const struct rbt_sparse_row *row, rbt_type type)
{
    RBT_ASSERT(row->count <= row->capacity);
    return row->capacity * (sizeof *row->index + rbt_merge_size(type));
}

struct rbt_sparse_view rbt_sparse_row_peek(const struct rbt_sparse_row *row)
{
    RBT_ASSERT(row->count <= row->capacity);
    return (struct rbt_sparse_view){row->index, row->values, row->count};
}
