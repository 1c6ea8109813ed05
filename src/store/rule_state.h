/* store/rule_state.h - a rule at work on one table of a shard: its instance, and all that the shard
 * keeps for it. What a rule may do and is told: rubato/rule.h. */
#ifndef RUBATO_STORE_RULE_STATE_H
#define RUBATO_STORE_RULE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/rule.h>
#include <rubato/status.h>

#include "core/batch.h"
#include "core/shard_event.h"
#include "store/bins.h"
#include "store/rows.h"

typedef struct rbt_rule_state rbt_rule_state;

/* Makes an instance of the rule of a table; borrows its spec. Fails with RBT_E_INVALID if it
 * refuses its parameters. */
RBT_MUST_USE rbt_status rbt_rule_state_create(const struct rbt_spec *spec, uint32_t worker_count,
                                              rbt_rule_state **rule_state);
void rbt_rule_state_destroy(rbt_rule_state *rule_state);

/* Values that the rule keeps with each row. */
uint32_t rbt_rule_state_state_width(const rbt_rule_state *rule_state);

/* The base that an update of the worker is taken to have: its own, if the worker may name it;
 * RBT_STAMP_NONE, if the worker holds nothing: then it counts as computed when it is applied. */
uint64_t rbt_rule_state_base(rbt_rule_state *rule_state, uint32_t worker, uint64_t base);

/* An update has arrived and waits; it waits no more. */
void rbt_rule_state_pin(rbt_rule_state *rule_state, uint32_t worker, uint64_t base);
void rbt_rule_state_unpin(rbt_rule_state *rule_state, uint32_t worker, uint64_t base);

/* Applies an update; room for its rows must have been reserved. All batches of a message with one
 * base are one message to the rule. `id` may be of a batch without rows. */
void rbt_rule_state_apply(rbt_rule_state *rule_state, rbt_row_store *rows,
                          const struct rbt_bin_id *id, const struct rbt_batch *batch);

/* Reads rows: the batch's, to compute with, of which only versions below `versions` are wanted
 * (RBT_RULE_NO_VERSION: all); or one, for the model. */
void rbt_rule_state_read(rbt_rule_state *rule_state, const rbt_row_store *rows,
                         const struct rbt_batch *batch, uint64_t versions);
void rbt_rule_state_read_result(rbt_rule_state *rule_state, const rbt_row_store *rows,
                                uint32_t slot, float *values);

/* The worker has read rows, with versions as above, and will compute updates from them; it names no
 * stamp below `least` any more, unless in messages up to `overtaken` (0: none) that are still to
 * come. Returns in `stamp` that of this read. Fails with RBT_E_NOMEM. */
struct rbt_rule_state_read {
    uint64_t least;
    uint64_t overtaken;
    uint64_t versions;
};
RBT_MUST_USE rbt_status rbt_rule_state_hold(rbt_rule_state *rule_state, uint32_t worker,
                                            const struct rbt_rule_state_read *read,
                                            uint64_t *stamp);
uint64_t rbt_rule_state_stamp(const rbt_rule_state *rule_state);

/* Reads of all shards may be limited to versions below the lowest of these: one above the highest
 * version so far, but not above the clocks that have begun. Beyond these a worker with an old read
 * may have put some alone; a read that showed them would be a different version at each shard. */
uint64_t rbt_rule_state_version(const rbt_rule_state *rule_state);

/* One above the highest version that has an update of a clock below `need`; 0: none has that can be
 * left out. All those updates have arrived, so that this does not grow any more. */
uint64_t rbt_rule_state_needed(const rbt_rule_state *rule_state, int64_t need);

/* What the worker holds as of its message `sequence` (UINT64_MAX: it has left), RBT_STAMP_NONE:
 * nothing. */
void rbt_rule_state_release(rbt_rule_state *rule_state, uint32_t worker, uint64_t sequence,
                            uint64_t least);

/* The worker has ended a clock with this message: if it has never touched the table, nobody waits
 * for it here. */
void rbt_rule_state_end_clock(rbt_rule_state *rule_state, uint32_t worker, uint64_t sequence);

/* Lets versions go that are over; all workers have completed the clocks below `floor`. Returns
 * whether rows have changed by that. */
bool rbt_rule_state_expire(rbt_rule_state *rule_state, rbt_row_store *rows, int64_t floor);

/* Everybody has left, and a new run begins. */
void rbt_rule_state_reset(rbt_rule_state *rule_state);

/* RBT_OK, or why the table is of no more use, with the message recorded again. */
rbt_status rbt_rule_state_status(const rbt_rule_state *rule_state);

bool rbt_rule_state_sends_early(const rbt_rule_state *rule_state);

struct rbt_rule_state_stats {
    size_t bytes;     /* without the states, which are in the rows */
    size_t bytes_max; /* the same, most at a time */
    uint64_t versions;
    uint64_t versions_max;
    uint64_t snapshots;
    uint64_t snapshots_max;
};
struct rbt_rule_state_stats rbt_rule_state_stats(const rbt_rule_state *rule_state);

/* --- Saved shards (rule_state_save.c)
 * ------------------------------------------------------------- */

/* Parts of a saved shard: counters, what the instance has learnt, who holds which reads, versions
 * one by one, and snapshots. They are loaded in this order, into a new rule state with the same
 * spec. What makes no sense is refused. */
void rbt_rule_state_save(const rbt_rule_state *rule_state, struct rbt_sink *sink);
void rbt_rule_state_load(rbt_rule_state *rule_state, struct rbt_source *source);
void rbt_rule_state_save_instance(const rbt_rule_state *rule_state, struct rbt_sink *sink);
void rbt_rule_state_load_instance(rbt_rule_state *rule_state, struct rbt_source *source);
void rbt_rule_state_save_ledger(const rbt_rule_state *rule_state, struct rbt_sink *sink);
void rbt_rule_state_load_ledger(rbt_rule_state *rule_state, struct rbt_source *source);
size_t rbt_rule_state_versions(const rbt_rule_state *rule_state); /* how many there are */
void rbt_rule_state_save_version(const rbt_rule_state *rule_state, size_t at,
                                 struct rbt_sink *sink);
void rbt_rule_state_load_version(rbt_rule_state *rule_state, const rbt_row_store *rows,
                                 struct rbt_source *source);
bool rbt_rule_state_has_snapshots(const rbt_rule_state *rule_state);
void rbt_rule_state_save_snapshots(const rbt_rule_state *rule_state, const rbt_row_store *rows,
                                   struct rbt_sink *sink);
void rbt_rule_state_load_snapshots(rbt_rule_state *rule_state, const rbt_row_store *rows,
                                   struct rbt_source *source);

/* All parts are there: pins the reads that the updates in bins come from, and checks what the parts
 * say of each other. */
void rbt_rule_state_finish_load(rbt_rule_state *rule_state, const struct rbt_bins *bins,
                                struct rbt_source *source);

/* The message that was applied last; a sequence of 0: none in this run. */
struct rbt_bin_id rbt_rule_state_last(const rbt_rule_state *rule_state);

#endif
