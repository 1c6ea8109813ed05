/* store/rows.h - the rows of one table in one shard, side by side in memory behind an index.
 *
 * A row that nobody has updated does not exist: it reads as its initial values, which depend on its
 * key alone. Slots number the rows that do exist; they never change. */
#ifndef RUBATO_STORE_ROWS_H
#define RUBATO_STORE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>
#include <rubato/table.h>

#include "base/source.h"
#include "core/batch.h"
#include "core/spec.h"
#include "math/sparse_row.h"

typedef struct rbt_row_store rbt_row_store;

/* Rows as `spec` says, which is borrowed, with `state_width` values each for the use of a rule. */
RBT_MUST_USE rbt_status rbt_rows_create(const struct rbt_spec *spec, uint32_t state_width,
                                        rbt_row_store **rows);
void rbt_rows_destroy(rbt_row_store *rows);

uint64_t rbt_rows_count(const rbt_row_store *rows);

/* Makes room for `count` more rows, so that creating them cannot fail. */
RBT_MUST_USE rbt_status rbt_rows_reserve(rbt_row_store *rows, uint64_t count);

/* Copies the rows of a batch into its values; rows that do not exist read as initial values. */
void rbt_rows_read(const rbt_row_store *rows, const struct rbt_batch *batch);

/* Where the rows of a batch lie side by side, in its order, until the next update; NULL if they do
 * not, some do not exist, or there are too many to look. */
const void *rbt_rows_view(const rbt_row_store *rows, const struct rbt_batch *batch);

/* Looks the rows of a batch up, remembers their slots in it, and returns how many would be created
 * by merging it. */
size_t rbt_rows_find(const rbt_row_store *rows, const struct rbt_batch *batch);

/* Merges the batch's values into the rows; creates those that do not exist, unless their update
 * changes nothing. Room for all of them must have been reserved. */
void rbt_rows_merge(rbt_row_store *rows, const struct rbt_batch *batch);

/* The same with a function that is called for every row instead of a merge, with its slot, its
 * values, its position in the batch, and its state. Dense rows only. */
typedef void (*rbt_rows_visitor)(void *context, uint32_t slot, void *values, size_t position,
                                 void *state);
void rbt_rows_update(rbt_row_store *rows, const struct rbt_batch *batch, rbt_rows_visitor visit,
                     void *context);

/* Calls the function for the rows of the batch that exist. */
void rbt_rows_visit(const rbt_row_store *rows, const struct rbt_batch *batch,
                    rbt_rows_visitor visit, void *context);

/* The elements of a sparse row, valid until the next update; empty if it does not exist. */
struct rbt_sparse_view rbt_rows_peek_sparse(const rbt_row_store *rows, uint64_t key);

/* For sparse rows: promises room for the elements of the batch, on top of what has been promised to
 * others, so that merging it cannot fail. Creates the rows. The promise is kept by merging the
 * batch, or taken back. */
RBT_MUST_USE rbt_status rbt_rows_promise(rbt_row_store *rows, const struct rbt_batch *batch);
void rbt_rows_take_back(rbt_row_store *rows, const struct rbt_batch *batch);

/* Adds a row, with its initial values; room must have been reserved. Its slot is the next one;
 * RBT_SLOT_NONE: it is there already. */
uint32_t rbt_rows_add(rbt_row_store *rows, uint64_t key);

/* How many of the keys have no row. */
size_t rbt_rows_missing(const rbt_row_store *rows, const uint64_t *keys, size_t count);

/* Rows as a part of a saved shard, in rows_save.c: those from slot `from` on, about a megabyte of
 * them. Returns the slot after them. Loading adds rows that are the next ones. What
 * makes no sense is refused. */
uint64_t rbt_rows_save(const rbt_row_store *rows, uint64_t from, struct rbt_sink *sink);
void rbt_rows_load(rbt_row_store *rows, struct rbt_source *source);

/* What they were made with; and bytes of a row's state. */
const struct rbt_spec *rbt_rows_spec(const rbt_row_store *rows);
size_t rbt_rows_state_size(const rbt_row_store *rows);

/* Row number `slot`: its key, its values, and its state, which is never NULL. */
uint64_t rbt_rows_key(const rbt_row_store *rows, uint32_t slot);
const void *rbt_rows_values(const rbt_row_store *rows, uint32_t slot);
void *rbt_rows_row(rbt_row_store *rows, uint32_t slot); /* the same, to be changed */
void *rbt_rows_state(const rbt_row_store *rows, uint32_t slot);

/* Memory in use: keys, index, values and states. Elements of sparse rows are not counted. */
size_t rbt_rows_bytes(const rbt_row_store *rows);

#endif
