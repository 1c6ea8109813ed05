/* store/early.h - which rows of a table are sent to workers before they ask: those that have
 * changed most since they were last sent.
 *
 * All workers that take part get the same rows: a row that is chosen is put on every worker's list,
 * and comes, as it is by then, with that worker's next early read. So a change costs the same
 * however many workers there are. */
#ifndef RUBATO_STORE_EARLY_H
#define RUBATO_STORE_EARLY_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/source.h"
#include "core/batch.h"
#include "core/shard_event.h"
#include "math/initial.h"
#include "policy/priority/priority.h"
#include "store/rows.h"

typedef struct rbt_early rbt_early;

/* For a dense table of RBT_F32. */
RBT_MUST_USE rbt_status rbt_early_create(const struct rbt_priority_policy *priority,
                                         const struct rbt_initial *initial, rbt_early **early);
void rbt_early_destroy(rbt_early *early); /* accepts NULL */

/* Rows have changed. Without memory they are sent late, not early. */
void rbt_early_note(rbt_early *early, const rbt_row_store *rows, const struct rbt_batch *batch);

/* An early read of the worker: which rows of those that it names go now. Writes their keys, in
 * order, to event->early; those are then not due any more. */
void rbt_early_choose(rbt_early *early, const rbt_row_store *rows,
                      const struct rbt_shard_event *event);

/* The worker has read all rows of the set with this subscription: none of them is due to it. */
void rbt_early_take_all(rbt_early *early, uint32_t worker, uint64_t subscription);

/* The worker has gone: nothing is put on its lists any more. */
void rbt_early_leave(rbt_early *early, uint32_t worker);

/* A new run begins: nobody reads. */
void rbt_early_reset(rbt_early *early);

/* Sets of workers that rows are sent to. */
uint32_t rbt_early_readers(const rbt_early *early);

size_t rbt_early_bytes(const rbt_early *early);

/* What it was made with. */
const struct rbt_priority_policy *rbt_early_priority(const rbt_early *early);

/* All of it as a part of a saved shard. Loading into a new one with the same priority, for rows
 * that are there already. What makes no sense is refused. */
void rbt_early_save(const rbt_early *early, struct rbt_sink *sink);
void rbt_early_load(rbt_early *early, const rbt_row_store *rows, struct rbt_source *source);

#endif
