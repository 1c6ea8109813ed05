/* algo/frame/rebalance.h - slow workers hand examples on to fast ones, a few at each clock.
 *
 * As FlexRR does it (Jiang et al. 2017, section 7.3, footnote 3): every worker says in a
 * table how long it computes in a clock. Who takes over 20% longer than the fastest is a straggler
 * and gives 5% of its own examples away at each clock: the slowest to the fastest, the next to the
 * next, so that not all give to one. Workers can read any example, so only positions in the order
 * that all agree on (data/share.c) are passed on, in the row of the receiver. A giver stops at
 * once; the receiver starts when it sees the row. So no example is ever with two workers, and is
 * with none for as long as an update is on its way. What was received is kept. Both tables are read
 * a few clocks late, whatever the job's consistency: reading them at every clock would cost more
 * than it is worth.
 *
 *     rbt_rebalance_open(&rebalance, job, worker_count);
 *     each worker: rbt_rebalance_begin(&rebalance, worker, {first, end}, &hand);
 *     each clock:  rbt_rebalance_step(&rebalance, worker, &hand, &has_changed);
 *                  ... work on hand.pieces[0 .. piece_count-1], pieces[0] being its own ...
 *                  rbt_rebalance_note(&rebalance, worker, &hand, seconds);
 *
 * Threads: a hand belongs to its worker; tables are shared. */
#ifndef RUBATO_ALGO_FRAME_REBALANCE_H
#define RUBATO_ALGO_FRAME_REBALANCE_H

#include <stdbool.h>

#include <rubato/rubato.h>

#include "algo/frame/room.h"

struct rbt_rebalance {
    rbt_table *times; /* row p: seconds that worker p computes in a clock */
    rbt_table *gifts; /* row p, sparse: what worker p has been given, see rebalance.c */
    uint32_t workers;
};

/* Examples first .. end-1 of the order. */
struct rbt_piece {
    uint64_t first;
    uint64_t end;
};

/* What a worker has. */
struct rbt_hand {
    struct rbt_room room;     /* of all arrays */
    struct rbt_piece *pieces; /* (piece_count): its own, then what it has been given */
    size_t piece_count;
    size_t piece_capacity;
    double seconds;    /* smoothed; as the table has it */
    uint32_t *given;   /* (workers): gifts to each */
    bool *is_taken;    /* (workers * gifts): elements of its row that it has */
    rbt_set *times;    /* of all workers */
    uint32_t *order;   /* (workers), scratch */
    uint32_t *indices; /* of a read of its row */
    int64_t *values;
};

/* Opens the tables. */
RBT_MUST_USE rbt_status rbt_rebalance_open(struct rbt_rebalance *rebalance, rbt_job *job,
                                           uint32_t workers);

/* Before the first step, and the end of it; the latter accepts an empty hand and leaves one. Fails
 * with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_rebalance_begin(const struct rbt_rebalance *rebalance,
                                            rbt_worker *worker, struct rbt_piece own,
                                            struct rbt_hand *hand);
void rbt_rebalance_end(struct rbt_hand *hand);

/* Takes what has come and gives what is too much; waits like any read. */
RBT_MUST_USE rbt_status rbt_rebalance_step(const struct rbt_rebalance *rebalance,
                                           rbt_worker *worker, struct rbt_hand *hand,
                                           bool *has_changed);

/* The worker has computed for so long in this clock. */
RBT_MUST_USE rbt_status rbt_rebalance_note(const struct rbt_rebalance *rebalance,
                                           rbt_worker *worker, struct rbt_hand *hand,
                                           double seconds);

#endif
