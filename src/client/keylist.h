/* client/keylist.h - a sorted list of keys, dealt out to shards once. */
#ifndef RUBATO_CLIENT_KEYLIST_H
#define RUBATO_CLIENT_KEYLIST_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "core/batch.h"
#include "core/placement.h"

/* Shared by a set and by those of its updates that are still under way. */
struct rbt_keylist {
    size_t references;
    size_t count;
    size_t capacity;
    const struct rbt_placement_map *placement; /* of the table; outlives the list */
    uint32_t shard_count;
    uint64_t *keys;           /* strictly increasing */
    uint32_t *positions;      /* grouped by shard, increasing within; NULL for one shard */
    size_t *begins;           /* shard_count + 1: where each shard's positions begin */
    uint32_t *slots;          /* where shards found the rows, by position */
    uint64_t *slots_complete; /* shard_count, see core/batch.h */
    uint64_t *names;          /* shard_count: each shard's keys, see core/batch.h; NULL: none */
};

/* An empty list with one reference, of keys of a table with this placement. */
RBT_MUST_USE rbt_status rbt_keylist_create(const struct rbt_placement_map *placement,
                                           struct rbt_keylist **list);
void rbt_keylist_unref(struct rbt_keylist *list);

/* Replaces the keys; memory is used again if it is large enough. On failure the list is empty. */
RBT_MUST_USE rbt_status rbt_keylist_assign(struct rbt_keylist *list, const uint64_t *keys,
                                           size_t count);

/* Gives the keys names, one for each shard, by which shards that have them already may know them:
 * for lists that are used more than once. */
RBT_MUST_USE rbt_status rbt_keylist_name(struct rbt_keylist *list);

/* The rows of one shard as a batch; values are the caller's to fill in. */
struct rbt_batch rbt_keylist_batch(const struct rbt_keylist *list, uint32_t shard);

#endif
