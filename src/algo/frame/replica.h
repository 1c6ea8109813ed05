/* algo/frame/replica.h - a worker's own copy of rows of one table, which it changes as it likes.
 *
 * Between pull and push the worker works on a plain array; push sends how far it has moved. When
 * several workers start from the same values and each moves all the way, the sum of their moves is
 * too far. Therefore moves are averaged: row j of worker p is sent with the rate
 *
 *     mean   n_pj / n_j    n_pj: how often the worker's examples use the row, n_j: how often all do
 *     sum    1
 *
 * so a row that only one worker uses moves all the way, and a shared row by a weighted mean.
 *
 * The worker may see row j in scaled coordinates, u = w / r_j: values are divided by r_j after a
 * pull, and moves multiplied by it before a push.
 *
 * With a rule that takes moves, all rates are 1, and the copy may serve for several clocks: then a
 * pull gives what was last fetched with all moves since on top (RBT_OVERLAY_REPLICA), so that a
 * move is always counted from where the worker itself has got to.
 *
 * Threads: owned by the worker that opened it. */
#ifndef RUBATO_ALGO_FRAME_REPLICA_H
#define RUBATO_ALGO_FRAME_REPLICA_H

#include <rubato/rubato.h>

enum rbt_combine {
    RBT_COMBINE_MEAN, /* rates n_pj / n_j */
    RBT_COMBINE_SUM,  /* rates 1 */
    RBT_COMBINE_AUTO, /* as fits the rule */
};

struct rbt_replica {
    rbt_set *set;
    size_t count;
    size_t width;
    float *values;   /* (count, width): the caller's to change */
    float *before;   /* (count, width): values as of the last pull */
    float *rates;    /* (count): times scale, what a move is multiplied with */
    float *scales;   /* (count): r, or NULL for 1 */
    float *inverses; /* (count): 1 / r, or NULL */
};

/* Which rows: `keys` increase strictly and are borrowed. */
struct rbt_replica_rows {
    rbt_table *table; /* RBT_F32 */
    const uint64_t *keys;
    size_t count;
};

/* All rates are 1 and there are no scales. On failure the replica is empty and may be closed.
 * Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_replica_open(rbt_worker *worker, const struct rbt_replica_rows *rows,
                                         struct rbt_replica *replica);

/* Before the worker's function returns. Accepts an empty replica and leaves one. */
void rbt_replica_close(struct rbt_replica *replica);

/* Row i's rate becomes shares[i] and its scale scales[i]; either may be NULL for 1. `scales` are
 * copied. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_replica_tune(struct rbt_replica *replica, const float *shares,
                                         const float *scales);

/* Waits like rbt_set_pull(). */
RBT_MUST_USE rbt_status rbt_replica_pull(struct rbt_replica *replica);

/* Never waits. Others see the move after rbt_clock(). */
RBT_MUST_USE rbt_status rbt_replica_push(struct rbt_replica *replica);

/* For rules that take gradients: where they are gathered, (count, width), zero after each push; and
 * what pushes them as they are. */
float *rbt_replica_gradient(struct rbt_replica *replica);
RBT_MUST_USE rbt_status rbt_replica_push_gradient(struct rbt_replica *replica);

/* --- How often rows are used ----------------------------------------------------------------- */

/* What is known of a feature: its rows in a table of RBT_F64 with this width. */
enum rbt_usage {
    RBT_USAGE_COUNT,   /* how many examples use it */
    RBT_USAGE_SQUARES, /* sum of its squared values */
    RBT_USAGE_WIDTH,
};

/* The worker's own usage of `rows`, whose table holds usage: mine is (count, RBT_USAGE_WIDTH). */
RBT_MUST_USE rbt_status rbt_replica_add_usage(rbt_worker *worker,
                                              const struct rbt_replica_rows *rows, double *mine);

/* Everybody's usage, once all have ended the clock in which they added theirs. */
RBT_MUST_USE rbt_status rbt_replica_get_usage(rbt_worker *worker,
                                              const struct rbt_replica_rows *rows, double *all);

/* --- The end --------------------------------------------------------------------------------- */

/* All rows of the table at most `staleness` clocks old. The caller frees them. */
struct rbt_model_array;
RBT_MUST_USE rbt_status rbt_replica_collect(rbt_worker *worker, rbt_table *table, int64_t staleness,
                                            struct rbt_model_array *array);

#endif
