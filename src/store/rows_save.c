/* store/rows_save.c - rows as a part of a saved shard.
 *
 *     u64 first slot   u64 rows   keys   dense: values, states; sparse: per row its elements
 *
 * A record has about a megabyte, so that a large table is never in memory twice. Slots are kept:
 * what else a shard remembers of rows names them by these. Threads: none. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/rows.h"

enum { BLOCK_SIZE = 1 << 20, BLOCK_ROWS_MAX = 1 << 14 };

/* How many rows from slot `from` on go into one record. */
static uint64_t count_block(const rbt_row_store *rows, uint64_t from)
{
    const uint64_t left = rbt_rows_count(rows) - from;
    const struct rbt_spec *spec = rbt_rows_spec(rows);
    uint64_t most = BLOCK_ROWS_MAX;
    if (spec->layout == RBT_DENSE) {
        const size_t each = sizeof(uint64_t) + rbt_spec_row_size(spec) + rbt_rows_state_size(rows);
        RBT_ASSERT(each > sizeof(uint64_t));
        most = BLOCK_SIZE / each + 1;
    }
    RBT_ASSERT(most > 0);
    return left < most ? left : most;
}

static void save_elements(const rbt_row_store *rows, uint64_t key, struct rbt_sink *sink)
{
    const struct rbt_sparse_view row = rbt_rows_peek_sparse(rows, key);
    RBT_ASSERT(rbt_rows_spec(rows)->layout == RBT_SPARSE);
    RBT_ASSERT(row.count == 0 || row.index != NULL);
    rbt_sink_put_u64(sink, row.count);
    rbt_sink_put(sink, row.index, row.count * sizeof *row.index);
    rbt_sink_put(sink, row.values, row.count * rbt_spec_element_size(rbt_rows_spec(rows)));
}

uint64_t rbt_rows_save(const rbt_row_store *rows, uint64_t from, struct rbt_sink *sink)
{
    const struct rbt_spec *spec = rbt_rows_spec(rows);
    RBT_ASSERT(from < rbt_rows_count(rows));
    const uint64_t count = count_block(rows, from);
    RBT_ASSERT(count > 0);
    rbt_sink_put_u64(sink, from);
    rbt_sink_put_u64(sink, count);
    for (uint64_t i = 0; i < count; i++) {
        rbt_sink_put_u64(sink, rbt_rows_key(rows, (uint32_t)(from + i)));
    }
    if (spec->layout == RBT_DENSE) { /* rows are side by side, and so are their states */
        const uint32_t first = (uint32_t)from;
        rbt_sink_put(sink, rbt_rows_values(rows, first), count * rbt_spec_row_size(spec));
        rbt_sink_put(sink, rbt_rows_state(rows, first), count * rbt_rows_state_size(rows));
        return from + count;
    }
    for (uint64_t i = 0; i < count; i++) {
        save_elements(rows, rbt_rows_key(rows, (uint32_t)(from + i)), sink);
    }
    return from + count;
}

static bool is_increasing(const uint32_t *index, size_t count, uint32_t end)
{
    RBT_ASSERT(count == 0 || index != NULL);
    RBT_ASSERT(end > 0);
    for (size_t i = 0; i < count; i++) {
        if (index[i] >= end || (i > 0 && index[i] <= index[i - 1])) {
            return false;
        }
    }
    return true;
}

/* The elements of one row, which has none yet. */
static rbt_status load_elements(rbt_row_store *rows, uint64_t key, struct rbt_source *source)
{
    const struct rbt_spec *spec = rbt_rows_spec(rows);
    const size_t size = rbt_spec_element_size(spec);
    const uint64_t count = rbt_source_get_count(source, sizeof(uint32_t) + size);
    RBT_ASSERT(spec->layout == RBT_SPARSE);
    RBT_ASSERT(rbt_rows_peek_sparse(rows, key).count == 0);
    if (count == 0 || count > UINT32_MAX / 2) {
        return RBT_OK;
    }
    uint32_t *index = rbt_calloc(count, sizeof *index);
    char *values = rbt_calloc(count, size);
    rbt_status st = index != NULL && values != NULL
                        ? RBT_OK
                        : rbt_fail(RBT_E_NOMEM, "no memory for a sparse row");
    if (st == RBT_OK) {
        const uint32_t offsets[2] = {0, (uint32_t)count};
        const struct rbt_batch batch = {
            .count = 1, .keys = &key, .values = values, .offsets = offsets, .elements = index};
        rbt_source_get(source, index, count * sizeof *index);
        rbt_source_get(source, values, count * size);
        if (!is_increasing(index, count, spec->width)) {
            rbt_source_refuse(source, "the elements of a row are in no order");
        } else {
            st = rbt_rows_promise(rows, &batch);
            if (st == RBT_OK) {
                rbt_rows_merge(rows, &batch);
            }
        }
    }
    rbt_free(values);
    rbt_free(index);
    return st;
}

/* Adds the rows with their keys. */
static rbt_status load_keys(rbt_row_store *rows, uint64_t count, struct rbt_source *source)
{
    const rbt_status st = rbt_rows_reserve(rows, count);
    for (uint64_t i = 0; st == RBT_OK && i < count && rbt_source_is_good(source); i++) {
        if (rbt_rows_add(rows, rbt_source_get_u64(source)) == RBT_SLOT_NONE) {
            rbt_source_refuse(source, "a row is there twice");
        }
    }
    RBT_ASSERT(st != RBT_OK || !rbt_source_is_good(source) || rbt_rows_count(rows) >= count);
    return st;
}

void rbt_rows_load(rbt_row_store *rows, struct rbt_source *source)
{
    const bool is_sparse = rbt_spec_is_sparse(rbt_rows_spec(rows));
    const size_t row = rbt_spec_row_size(rbt_rows_spec(rows));
    const size_t state = rbt_rows_state_size(rows);
    const size_t each = is_sparse ? sizeof(uint64_t) : row + state;
    const uint64_t first = rbt_rows_count(rows);
    RBT_ASSERT(each > 0);
    RBT_ASSERT(row > 0);
    if (rbt_source_get_u64(source) != first) {
        rbt_source_refuse(source, "rows are missing");
    }
    const uint64_t count = rbt_source_get_count(source, sizeof(uint64_t) + each);
    rbt_status st = load_keys(rows, count, source);
    for (uint64_t i = 0; is_sparse && st == RBT_OK && rbt_source_is_good(source) && i < count;
         i++) {
        st = load_elements(rows, rbt_rows_key(rows, (uint32_t)(first + i)), source);
    }
    if (st == RBT_OK && rbt_source_is_good(source) && !is_sparse && count > 0) {
        RBT_ASSERT(rbt_rows_count(rows) == first + count);
        rbt_source_get(source, rbt_rows_row(rows, (uint32_t)first), count * row);
        rbt_source_get(source, rbt_rows_state(rows, (uint32_t)first), count * state);
    }
    source->status = rbt_source_is_good(source) ? st : source->status;
}
