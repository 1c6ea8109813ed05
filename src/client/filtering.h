/* client/filtering.h - filters at work on updates that go out: a worker's part of one table.
 *
 * What a filter keeps back stays with the set that it came from; what goes is changed before it
 * becomes part of an update, so that the worker's own buffer holds exactly what the shards will
 * get. */
#ifndef RUBATO_CLIENT_FILTERING_H
#define RUBATO_CLIENT_FILTERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/set.h>
#include <rubato/status.h>

#include "client/buffer.h"
#include "client/client.h"
#include "policy/filter/chain.h"

/* What makes the chain of the table; its text is NULL if it has no filters. */
struct rbt_chain_options rbt_table_chain(const rbt_table *table, rbt_filter_direction direction);

struct rbt_filtering {
    rbt_chain *chain;
    bool keeps_rest;
    bool has_round; /* then updates are not added to each other: the sum would have no code */
    uint32_t width;
    uint32_t worker;
    uint64_t seed; /* of the table and the worker */
    uint64_t calls;
    float *values; /* (room): scratch, for callers */
    float *known;  /* (room): the same */
    bool *keep;    /* (room) */
    size_t room;
};

/* If the table's filters neither select nor round updates: *filtering = NULL. */
RBT_MUST_USE rbt_status rbt_filtering_create(const rbt_table *table, uint32_t worker,
                                             struct rbt_filtering **filtering);
void rbt_filtering_destroy(struct rbt_filtering *filtering); /* accepts NULL */

/* Room for so many elements in the scratch arrays. */
RBT_MUST_USE rbt_status rbt_filtering_fit(struct rbt_filtering *filtering, size_t count);

/* Rows of updates. */
struct rbt_filtering_rows {
    const uint64_t *keys; /* (count) */
    size_t count;
    float *values;      /* (count, width); see policy/filter/chain.h for what they are afterwards */
    const float *known; /* (count, width), or NULL */
    uint64_t turn;
    bool is_release; /* what filters hold back goes as well */
};

/* Every so many pushes of a set, all that filters have held back of it goes: an update waits for
 * fewer pushes than this. */
enum { RBT_FILTERING_TURNS = 64 };

/* Whether everything goes in this turn of a set. */
static inline bool rbt_filtering_is_release(const struct rbt_filtering *filtering, uint64_t turn)
{
    return filtering->keeps_rest && turn % RBT_FILTERING_TURNS == RBT_FILTERING_TURNS - 1;
}

/* Applies all filters; filtering->keep says what goes. */
RBT_MUST_USE rbt_status rbt_filtering_apply(struct rbt_filtering *filtering,
                                            const struct rbt_filtering_rows *rows,
                                            struct rbt_filter_code *code);

/* Rounds an update that has its keys and values, if that is what its table does; `filtering` may
 * be NULL. */
RBT_MUST_USE rbt_status rbt_filtering_round(struct rbt_filtering *filtering,
                                            struct rbt_update *update);

/* Moves what goes of a set's changes to an update, which is new or to be added to; the rest stays.
 * On failure all of it does. */
RBT_MUST_USE rbt_status rbt_filtering_take(rbt_set *set, struct rbt_update *update, bool is_new);

/* Whether filters hold back anything of so many rows of a set that has a rest. */
bool rbt_filtering_has_rest(const rbt_set *set, size_t first, size_t count);

#endif
