/* proto/bounds.c - which staleness holds for the tables of a job: a list of the latest changes. */
#include "proto/bounds.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { ROOM_MIN = 4 };

void rbt_bounds_deinit(struct rbt_bounds *bounds)
{
    RBT_ASSERT(bounds->count <= bounds->max);
    rbt_free(bounds->list);
    *bounds = (struct rbt_bounds){0};
}

/* Forgets the table's change, which a later one replaces. */
static void forget(struct rbt_bounds *bounds, uint32_t table)
{
    for (uint32_t i = 0; i < bounds->count; i++) {
        if (bounds->list[i].table == table) {
            bounds->count--;
            memmove(bounds->list + i, bounds->list + i + 1,
                    (bounds->count - i) * sizeof *bounds->list);
            return;
        }
    }
}

rbt_status rbt_bounds_note(struct rbt_bounds *bounds, const struct rbt_bound *bound)
{
    RBT_ASSERT(bound->number > 0);
    RBT_ASSERT(bound->staleness >= -1);
    RBT_ASSERT(bounds->count <= bounds->max);
    if (bound->number <= bounds->last) {
        return RBT_OK;
    }
    if (bounds->count == bounds->max) {
        const uint32_t max = bounds->max == 0 ? ROOM_MIN : 2 * bounds->max;
        struct rbt_bound *grown = rbt_realloc(bounds->list, max, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate the staleness of a table");
        }
        bounds->list = grown;
        bounds->max = max;
    }
    forget(bounds, bound->table);
    bounds->list[bounds->count++] = *bound;
    bounds->last = bound->number;
    return RBT_OK;
}

int64_t rbt_bounds_find(const struct rbt_bounds *bounds, uint32_t table, bool follows_job,
                        int64_t staleness)
{
    RBT_ASSERT(bounds->count <= bounds->max);
    for (uint32_t i = bounds->count; i > 0; i--) {
        const struct rbt_bound *bound = &bounds->list[i - 1];
        if (bound->table == table || (bound->table == RBT_CONTROL_ALL && follows_job)) {
            return bound->staleness;
        }
    }
    return staleness;
}
