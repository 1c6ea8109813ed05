/* core/batch.h - rows in an event: some keys of one table and the values that belong to them.
 *
 * A batch borrows everything. Its rows are a selection out of arrays: row i of the batch is at
 * position positions[i] of keys, slots and values (at position i itself when positions is NULL), so
 * that one working set can be dealt out to several shards without being copied. */
#ifndef RUBATO_CORE_BATCH_H
#define RUBATO_CORE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/filter.h>

#define RBT_SLOT_NONE  UINT32_MAX /* the row does not exist */
#define RBT_STAMP_NONE UINT64_MAX

struct rbt_batch {
    uint32_t table;
    size_t count; /* rows */
    const uint64_t *keys;
    const uint32_t *positions;
    uint64_t list; /* a name for the selected keys, for whoever has them already; 0: none */
    void *values;  /* dense: at position * width; a push reads them, a pull writes them */

    /* Where the shard found the rows, by position, so that it need not look again; both NULL or
     * both given. `slots_complete` is the number of rows in the table when all slots were last
     * looked up: as long as it has not changed, a missing row is still missing. */
    uint32_t *slots;
    uint64_t *slots_complete;

    /* Pushes to tables with a rule: the stamp of the read that the update was computed from, and
     * the lowest that later updates of the worker may name (RBT_STAMP_NONE: it keeps none). The
     * stamp of a read is the number of messages that the shard had applied to the table. An empty
     * batch counts as a message as well. */
    uint64_t base;
    uint64_t least;

    /* Pushes to tables with filters: what codes the values have; all zeros: none. */
    struct rbt_filter_code code;

    /* Sparse rows: the elements of position p are offsets[p] .. offsets[p+1]-1 of elements and of
     * values. NULL for dense rows. */
    const uint32_t *offsets;
    const uint32_t *elements;
};

static inline size_t rbt_batch_position(const struct rbt_batch *batch, size_t i)
{
    return batch->positions == NULL ? i : batch->positions[i];
}

#endif
