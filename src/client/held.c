/* client/held.c - what filters hold back of a worker's sets, and when it goes at the latest.
 *
 * A set's rest goes bit by bit, as the filters allow, and all of it every RBT_FILTERING_TURNS
 * pushes; here it goes because the worker has done its work: rbt_worker_flush(), the end of the
 * set, and rbt_worker_leave(). Rows of which nothing waits are not named, since rules count
 * updates.
 *
 * Threads: a worker's own. Memory: a list of the rows that wait, while they become an update. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "client/exchange.h"
#include "client/filtering.h"
#include "client/set.h"

/* Copies the rows of which something waits. */
static void list_rows(const rbt_set *set, struct rbt_rows *rows)
{
    const uint32_t width = set->local->table->spec.width;
    const float *rest = (const float *)set->rest;
    float *values = rows->values;
    rows->count = 0;
    for (size_t row = 0; row < set->keys->count; row++) {
        if (rbt_filtering_has_rest(set, row, 1)) {
            rows->keys[rows->count] = set->keys->keys[row];
            memcpy(values + rows->count * width, rest + row * width, width * sizeof *values);
            rows->count++;
        }
    }
}

/* The rest has become an update: it is shown as any other. Values have it already, unless nothing
 * of the worker's own is shown. */
static void settle(rbt_set *set)
{
    const rbt_table *table = set->local->table;
    if (table->options.overlay != RBT_OVERLAY_NONE && set->base != NULL) {
        rbt_merge_apply(table->kind, set->base, set->rest, set->elements);
    } else if (set->is_in_place) {
        rbt_merge_subtract(table->kind.type, set->values, set->rest, set->elements);
    }
    memset(set->rest, 0, set->bytes);
    set->clock = -1; /* the update may have been rounded: the next pull asks for the rows */
}

/* Makes an update of all that waits. */
static rbt_status push_rest(rbt_set *set)
{
    if (set->managed != NULL) {
        set->is_released = true;
        const rbt_status st = rbt_managed_push(set->managed);
        set->is_released = false;
        return st;
    }
    struct rbt_rows rows = {.keys = rbt_calloc(set->keys->count, sizeof *rows.keys),
                            .values = rbt_calloc(set->bytes, 1)};
    rbt_status st = RBT_E_NOMEM;
    if (rows.keys == NULL || rows.values == NULL) {
        (void)rbt_fail(st, "no memory to send what filters hold back of %zu rows",
                       set->keys->count);
    } else {
        list_rows(set, &rows);
        st = rbt_set_push_rows(set->worker, set->local, &rows, set->stamps);
    }
    rbt_rows_free(&rows);
    if (st == RBT_OK) {
        settle(set);
    }
    return st;
}

rbt_status rbt_worker_flush(rbt_worker *worker)
{
    rbt_status st = rbt_worker_may_update(worker);
    st = st != RBT_OK ? st : rbt_worker_resend(worker);
    for (rbt_set *set = worker->held; st == RBT_OK && set != NULL; set = set->next_held) {
        st = rbt_filtering_has_rest(set, 0, set->keys->count) ? push_rest(set) : RBT_OK;
    }
    return st;
}

void rbt_set_let_go(rbt_set *set)
{
    rbt_worker *worker = set->worker;
    rbt_set **at = &worker->held;
    while (*at != NULL && *at != set) {
        at = &(*at)->next_held;
    }
    if (*at == NULL) {
        return; /* nothing of it is ever held back, or it was never whole */
    }
    *at = set->next_held;
    struct rbt_error_record record;
    rbt_error_save(&record);
    if (rbt_filtering_has_rest(set, 0, set->keys->count) &&
        rbt_worker_may_update(worker) == RBT_OK && rbt_worker_resend(worker) == RBT_OK) {
        const rbt_status st = push_rest(set);
        (void)st; /* there is nobody to tell, and a job that fails here has no result */
    }
    rbt_error_restore(&record);
}
