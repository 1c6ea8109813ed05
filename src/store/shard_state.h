/* store/shard_state.h - what the parts of a shard share: shard.c decides what is visible when,
 * shard_table.c opens tables and counts. */
#ifndef RUBATO_STORE_SHARD_STATE_H
#define RUBATO_STORE_SHARD_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/gate.h"
#include "store/bins.h"
#include "store/early.h"
#include "store/outgoing.h"
#include "store/rule_state.h"
#include "store/shard.h"
#include "store/unshown.h"

struct rbt_shard_state {
    bool is_open;
    struct rbt_spec *spec; /* as it was opened, with the staleness that it has now */
    rbt_row_store *rows;
    rbt_rule_state *rule_state; /* NULL: updates are merged */
    rbt_early *early;           /* NULL: nothing is sent early */
    rbt_outgoing *outgoing;     /* NULL: rows go as they are */
    uint64_t *applied;          /* per worker: highest sequence that is visible */
    struct rbt_bins bins;
    void *scratch;          /* one row, for bins that are packed */
    size_t pending_missing; /* within a PUSH: rows that the batches prepared so far will create,
                               unless they are held; else 0 */
};

struct rbt_shard {
    struct rbt_shard_options options;
    rbt_gate *gate;
    struct rbt_gate_effect *ready;  /* the gate's outbox */
    struct rbt_shard_state *tables; /* table_max */
    uint32_t table_count;           /* one past the last one open */
    uint64_t *arrived;              /* per worker: all messages up to this sequence have come */
    struct rbt_unshown unshown;     /* messages that the bins of all tables hold something of */
    uint64_t updates;
    uint64_t changes; /* of rows without an update: versions that have gone */
    uint64_t duplicates;
};

/* Opens a table that is not open. On failure it may be half open and is to be closed. */
RBT_MUST_USE rbt_status rbt_shard_open_table(const rbt_shard *shard, struct rbt_shard_state *table,
                                             const struct rbt_spec *spec);
void rbt_shard_close_table(struct rbt_shard_state *table);

/* Whether no update that the table holds may be shown. */
bool rbt_shard_is_settled(const rbt_shard *shard, const struct rbt_shard_state *table);

#endif
