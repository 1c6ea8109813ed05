/* proto/lists.h - lists of keys that messages name by their hash, and where the rows are.
 *
 * A list comes once and is named from then on. All connections of a job share it; each says when it
 * begins and ends to use it. With it are kept the slots of its rows, for each table that it was
 * used with, so that a message that names it costs no look-up at all.
 *
 * Threads: a job's at one shard; the shard's thread. */
#ifndef RUBATO_PROTO_LISTS_H
#define RUBATO_PROTO_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/map.h"
#include "core/batch.h"

/* Where a table has the rows of a list. */
struct rbt_list_slots {
    struct rbt_list_slots *next;
    uint32_t table;
    uint32_t *slots;
    uint64_t complete;
};

struct rbt_list {
    uint64_t name; /* 0: it has none and is used once */
    uint32_t references;
    uint32_t count;
    uint32_t capacity;
    uint64_t *keys;
    struct rbt_list_slots *tables; /* only of lists with a name */
    /* Of a list without one: where its rows are in the table at hand, so that a message looks them
     * up once. Made on first use. */
    uint32_t *scratch;
    uint64_t scratch_complete;
};

/* The lists of a job. */
struct rbt_lists {
    struct rbt_map index;
    struct rbt_list **lists;
    uint32_t count;
    uint32_t capacity;
};

RBT_MUST_USE rbt_status rbt_lists_init(struct rbt_lists *lists);
void rbt_lists_deinit(struct rbt_lists *lists);

/* An empty list with room for `capacity` keys and one reference. */
RBT_MUST_USE rbt_status rbt_list_create(uint32_t capacity, struct rbt_list **list);
void rbt_list_unref(struct rbt_list *list);

/* Whether both hold the same keys. */
bool rbt_list_is_same(const struct rbt_list *a, const struct rbt_list *b);

/* Adds a list under its name; if there is one already, that is used instead. Takes over the
 * caller's reference, and returns one to the list that is there: NULL without memory. */
struct rbt_list *rbt_lists_add(struct rbt_lists *lists, struct rbt_list *list);

/* The list with this name, without a reference, or NULL. */
struct rbt_list *rbt_lists_find(const struct rbt_lists *lists, uint64_t name);

/* Forgets the lists that nobody refers to any more. */
void rbt_lists_sweep(struct rbt_lists *lists);

/* The list's keys as a batch for this table, with the slots that are known. */
struct rbt_batch rbt_list_batch(struct rbt_list *list, uint32_t table);

#endif
