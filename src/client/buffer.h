/* client/buffer.h - a worker's own updates of one table, from the moment they are made until the
 * shards have made them visible.
 *
 * Reads show them on top of what the shards return: whatever a copy of a row does not contain yet
 * is added from here, so that a refill never loses own writes. */
#ifndef RUBATO_CLIENT_BUFFER_H
#define RUBATO_CLIENT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/status.h>

#include "client/keylist.h"
#include "math/merge.h"
#include "math/sparse_row.h"

/* Updates of some rows, all in one message. */
struct rbt_update {
    struct rbt_update *next;
    uint64_t sequence; /* of the message */
    int64_t clock;
    bool is_sent;
    struct rbt_keylist *keys;
    uint64_t *bases; /* tables with a rule: by shard, the stamp that it names; else NULL */
    struct rbt_filter_code code; /* what codes the values have; all zeros: none */
    char *values;                /* dense rows, or the values of elements */
    size_t values_max;           /* bytes */
    uint32_t *offsets;           /* sparse rows: count + 1; NULL for dense */
    uint32_t *elements;
    size_t offsets_max;
    size_t elements_max;
};

struct rbt_buffer {
    struct rbt_merge_kind kind;
    uint32_t width;
    const struct rbt_placement_map *placement; /* of the table */
    bool is_sparse;
    bool has_bases;           /* the table has a rule */
    struct rbt_update *first; /* in the order in which they were made */
    struct rbt_update *last;
    struct rbt_update *unsent; /* the first that has not been sent, or NULL; the rest follow it */
    struct rbt_update *spare;  /* to be used again */
    size_t unsent_count;
    uint64_t dropped; /* highest sequence that was dropped because it is visible, or never shown */
};

/* Where rows are to be completed: dense rows of a key list, or one sparse row. */
struct rbt_buffer_target {
    struct rbt_keylist *keys;
    char *values;
    struct rbt_sparse_row *sparse; /* with `keys` of one key; room for everything is made */
};

void rbt_buffer_deinit(struct rbt_buffer *buffer);

/* A new last update, not sent, for message `sequence`. Its values have room for `bytes`; contents
 * are undefined, those of `bases` as well. With `keys` it shares that list, else it gets an empty
 * one of its own. */
RBT_MUST_USE rbt_status rbt_buffer_append(struct rbt_buffer *buffer, uint64_t sequence,
                                          struct rbt_keylist *keys, size_t bytes,
                                          struct rbt_update **update);

/* Takes back the last update. */
void rbt_buffer_take_back(struct rbt_buffer *buffer);

/* The unsent update that shares this list of keys, or NULL; with `bases`, by shard, one that names
 * them wherever it has rows. */
struct rbt_update *rbt_buffer_find_unsent(const struct rbt_buffer *buffer,
                                          const struct rbt_keylist *keys, const uint64_t *bases);

/* The lowest stamp that unsent updates name at the shard; RBT_STAMP_NONE: there are none. */
uint64_t rbt_buffer_least(const struct rbt_buffer *buffer, uint32_t shard);

/* Room for the elements of a sparse update. */
RBT_MUST_USE rbt_status rbt_buffer_reserve_elements(struct rbt_update *update, size_t rows,
                                                    size_t elements);

/* The rows of an update that belong to a shard. */
struct rbt_batch rbt_buffer_batch(const struct rbt_update *update, uint32_t table, uint32_t shard);

/* Notes that all updates have been sent, in message `sequence` of clock `clock`. */
void rbt_buffer_mark_sent(struct rbt_buffer *buffer, uint64_t sequence, int64_t clock);

/* Drops sent updates of clocks < `clock` in messages up to `sequence`: no read needs them. */
void rbt_buffer_drop(struct rbt_buffer *buffer, int64_t clock, uint64_t sequence);

/* Merges into the target all updates above `applied` whose rows `shard` owns. Fails only for sparse
 * targets, with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_buffer_overlay(const struct rbt_buffer *buffer, uint32_t shard,
                                           uint64_t applied,
                                           const struct rbt_buffer_target *target);

#endif
