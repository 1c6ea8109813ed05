/* rubato/set.h - working sets: the rows that a worker uses again and again, side by side.
 *
 * A worker declares a sorted list of keys once and then works on plain arrays: row i of the set is
 * the row with key keys[i], and its values start at element i * width. Nothing is looked up and
 * nothing is allocated in the loop:
 *
 *     rbt_set *set = NULL;
 *     st = rbt_set_create(worker, weights, keys, count, RBT_SET_IN_PLACE, &set);
 *     float *w = rbt_set_values(set);
 *     for (int pass = 0; pass < 10; pass++) {
 *         st = rbt_set_pull(set);           // waits until fresh enough
 *         ... change w[0 .. count-1] ...
 *         st = rbt_set_push(set);           // sends what was changed
 *         st = rbt_clock(worker);
 *     }
 *     rbt_set_destroy(set);
 *
 * Everything is also there without waiting: a call that ends in _async returns a ticket, may be
 * made to run after other tickets, and is finished when rbt_ticket_wait() says so.
 * Threads: a set belongs to the worker that made it. */
#ifndef RUBATO_SET_H
#define RUBATO_SET_H

#include <stdbool.h>

#include <rubato/table.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rbt_set rbt_set;

typedef enum rbt_set_flags {
    RBT_SET_DELTAS = 0,   /* updates are written to rbt_set_deltas() */
    RBT_SET_IN_PLACE = 1, /* updates are what was changed in rbt_set_values(); merge ADD only, and
                             no rule that takes gradients */
} rbt_set_flags;

/* Sorts `keys` and removes repeated ones, in place; returns how many are left. */
RBT_API size_t rbt_keys_sort(uint64_t *keys, size_t count);

/* Position of `key` in the sorted list, or SIZE_MAX. */
RBT_API size_t rbt_keys_find(const uint64_t *keys, size_t count, uint64_t key);

/* Declares a working set of a dense table. `keys` must increase strictly; they are copied. Values
 * are initial values until the first pull. The caller destroys the set before the worker's
 * function returns. Fails with RBT_E_INVALID (keys out of order, a sparse table) or RBT_E_NOMEM. */
RBT_API RBT_MUST_USE rbt_status rbt_set_create(rbt_worker *worker, rbt_table *table,
                                               const uint64_t *keys, size_t count,
                                               rbt_set_flags flags, rbt_set **set);

/* Accepts NULL. Updates that were pushed are still sent by the next rbt_clock(), and so is what
 * filters hold back of them. */
RBT_API void rbt_set_destroy(rbt_set *set);

RBT_API size_t rbt_set_count(const rbt_set *set);
RBT_API const uint64_t *rbt_set_keys(const rbt_set *set);

/* The values as of the last pull; the caller may use the array as it likes until the next pull. In
 * place, a push leaves them as changed; if the table shows no own updates (RBT_OVERLAY_NONE, the
 * default with a rule), it makes them what was pulled again. */
RBT_API void *rbt_set_values(rbt_set *set);

/* Where the caller puts its updates: all neutral (zero for ADD) after create and after each push.
 * The address changes with every push. NULL for RBT_SET_IN_PLACE.
 * Elements that are tiny (rubato/experiments.h) are still there after a push: add to them.
 * rbt_set_push_range(set, RBT_RANGE_ALL) pushes them as well; what is left when the set is
 * destroyed is lost. */
RBT_API void *rbt_set_deltas(rbt_set *set);

/* Brings the values up to date: as fresh as the table's consistency asks for, or `staleness`. */
RBT_API RBT_MUST_USE rbt_status rbt_set_pull(rbt_set *set);
RBT_API RBT_MUST_USE rbt_status rbt_set_pull_within(rbt_set *set, int64_t staleness);

/* Hands over the updates. Never waits. They carry the current clock and are visible to others when
 * it has ended (or at once, if the table shows partial clocks). */
RBT_API RBT_MUST_USE rbt_status rbt_set_push(rbt_set *set);

/* Hands over what filters hold back of all the worker's sets (docs/filters.md), so that the next
 * rbt_clock() leaves nothing behind. Of use before a result is read: the end of a set and
 * rbt_worker_leave() do the same. */
RBT_API RBT_MUST_USE rbt_status rbt_worker_flush(rbt_worker *worker);

/* Managed communication: with a job's `bandwidth`, rows of this set travel before the clock ends,
 * as far as that allows, the most important first. The worker says which rows it has put deltas
 * into, and between two pieces of work lets rows travel:
 *
 *     st = rbt_set_manage(set);
 *     ...
 *     rbt_set_touch(set, i);       // after adding to row i of rbt_set_deltas(): all such rows
 *     ...
 *     st = rbt_worker_exchange(worker); // now and then: rows of rbt_set_values() may change
 *
 * Rows that were not touched are not pushed. rbt_worker_exchange() never waits. A row that has come
 * is what the shards have, and, if the table shows own updates, these and the row's deltas on top.
 * Without a bandwidth, and for sets of RBT_SET_IN_PLACE and tables that are not dense RBT_F32 that
 * add or have RBT_OVERLAY_PROCESS, none of these does anything. */
RBT_API RBT_MUST_USE rbt_status rbt_set_manage(rbt_set *set);
RBT_API void rbt_set_touch(rbt_set *set, size_t row);
RBT_API void rbt_set_touch_rows(rbt_set *set, const uint32_t *rows, size_t count); /* the same */
RBT_API RBT_MUST_USE rbt_status rbt_worker_exchange(rbt_worker *worker);

/* Whether rbt_worker_exchange() would do anything now. */
RBT_API bool rbt_worker_exchange_is_due(rbt_worker *worker);

/* All updates so far are in the values for clocks < this; -1 before the first pull. */
RBT_API int64_t rbt_set_clock(const rbt_set *set);

/* Access recording: between begin and end, rbt_get() on the table returns initial values without
 * waiting and updates are ignored, but the keys are remembered; end makes them a working set. */
RBT_API RBT_MUST_USE rbt_status rbt_worker_record_begin(rbt_worker *worker, rbt_table *table);
RBT_API RBT_MUST_USE rbt_status rbt_worker_record_end(rbt_worker *worker, rbt_table *table,
                                                      rbt_set_flags flags, rbt_set **set);

/* --- One-time lists of keys, and ranges ------------------------------------------------------ */

/* Keys in increasing order and the rows that belong to them, side by side. */
struct rbt_rows {
    uint64_t *keys;
    void *values; /* count * width */
    size_t count;
};

/* Like a set that is used once: `rows->keys` and `rows->values` are the caller's. With a rule, a
 * push counts as computed from the worker's newest read of the table. Pulls wait like rbt_get() and
 * rbt_get_within(). */
RBT_API RBT_MUST_USE rbt_status rbt_pull(rbt_worker *worker, rbt_table *table,
                                         const struct rbt_rows *rows);
RBT_API RBT_MUST_USE rbt_status rbt_pull_within(rbt_worker *worker, rbt_table *table,
                                                int64_t staleness, const struct rbt_rows *rows);
RBT_API RBT_MUST_USE rbt_status rbt_push(rbt_worker *worker, rbt_table *table,
                                         const struct rbt_rows *rows);

/* Keys first .. last, both included. */
struct rbt_range {
    uint64_t first;
    uint64_t last;
};
#define RBT_RANGE_ALL ((struct rbt_range){0, UINT64_MAX})

/* All rows that exist in the range, as the shards show them, waiting for `staleness`; own updates
 * that the shards do not show yet are not laid on top. The caller frees them with rbt_rows_free().
 * Dense tables only. RBT_STALENESS_OBSERVER is for those who observe a job without taking part, to
 * print an objective or to count: the rows are what the shards have at this moment. Such a read
 * never waits, and in a simulation it is free: it takes no time and no traffic. */
enum { RBT_STALENESS_OBSERVER = -2 };
RBT_API RBT_MUST_USE rbt_status rbt_pull_range(rbt_worker *worker, rbt_table *table,
                                               struct rbt_range range, int64_t staleness,
                                               struct rbt_rows *rows);
RBT_API void rbt_rows_free(struct rbt_rows *rows);

/* Pushes the updates of those rows of the set whose keys are in the range; the others stay. */
RBT_API RBT_MUST_USE rbt_status rbt_set_push_range(rbt_set *set, struct rbt_range range);

/* --- Without waiting ------------------------------------------------------------------------- */

typedef uint64_t rbt_ticket; /* 1, 2, 3, ... in the order of a worker's calls; 0 is none */

/* Tickets that must be finished first; NULL or count 0 for none. At most 8. */
struct rbt_after {
    const rbt_ticket *tickets;
    size_t count;
};

/* Start when everything in `after` is finished and the worker's delay bound allows it. The set must
 * not be touched until the ticket is finished. Fail with RBT_E_BUSY when 64 tickets are open. */
RBT_API RBT_MUST_USE rbt_status rbt_set_pull_async(rbt_set *set, const struct rbt_after *after,
                                                   rbt_ticket *ticket);
/* The same, but how fresh is said now and counts from now: rows of clocks that have ended are read
 * while the worker goes on to others. */
RBT_API RBT_MUST_USE rbt_status rbt_set_pull_within_async(rbt_set *set, int64_t staleness,
                                                          const struct rbt_after *after,
                                                          rbt_ticket *ticket);
RBT_API RBT_MUST_USE rbt_status rbt_set_push_async(rbt_set *set, const struct rbt_after *after,
                                                   rbt_ticket *ticket);

/* Whether the ticket is finished, after doing what can be done without waiting. */
RBT_API bool rbt_ticket_is_finished(rbt_worker *worker, rbt_ticket ticket);

/* Wait for one ticket; for all tickets up to and including `ticket`. Return the first failure. */
RBT_API RBT_MUST_USE rbt_status rbt_ticket_wait(rbt_worker *worker, rbt_ticket ticket);
RBT_API RBT_MUST_USE rbt_status rbt_ticket_wait_through(rbt_worker *worker, rbt_ticket ticket);

/* Bounded delay: ticket t starts when all tickets up to t - delay - 1 are finished. 0 runs one
 * after the other; RBT_STALENESS_ANY, the default, sets no bound. May be changed at any time. */
RBT_API RBT_MUST_USE rbt_status rbt_worker_set_delay(rbt_worker *worker, int64_t delay);

#ifdef __cplusplus
}
#endif

#endif
