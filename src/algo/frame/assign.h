/* algo/frame/assign.h - parts of the data for whoever has nothing to do (--assign dynamic).
 *
 * As the scheduler of DiFacto does it (Li's thesis, algorithm 14): a pass over the data is a number
 * of parts. A worker that is idle gets the next one, so that fast workers do more of them. A part
 * that a worker has had for much longer than others take is given to another one as well: it may
 * be gone, or stand still. So without failures every part is worked on exactly once in a pass, and
 * with them at least once.
 *
 * A clock of training has its own parts of the pass: the worker works on one after the other until
 * all have been dealt, and then ends the clock, with or without having had any. So clocks mean what
 * they always do, and so does the consistency; only how much a worker does in one is open. In the
 * very last clock workers stay until all parts are finished.
 *
 *     st = rbt_assign_open(&assign, &options, job);
 *     each worker, in clock `chunk`:
 *         while ((st = rbt_assign_next(&assign, worker, &turn)) == RBT_OK && turn.has_part) {
 *             ... work on part turn.part of options.parts ...
 *             // after the next call, turn.is_first says whether it was the first to finish it
 *         }
 *     the last worker there: rbt_assign_count(&assign, worker)
 *
 * What is behind it is a table with the rule "parts" (policy/rule/parts.c). Threads: tables are
 * shared; a turn belongs to its worker. */
#ifndef RUBATO_ALGO_FRAME_ASSIGN_H
#define RUBATO_ALGO_FRAME_ASSIGN_H

#include <stdbool.h>

#include <rubato/rubato.h>

#include "base/limits.h"

struct rbt_assign_options {
    uint32_t parts; /* of a pass; at least 1, at most a million */
    uint32_t workers;
    bool is_simulated; /* time is virtual, and exact */
};

struct rbt_assign {
    struct rbt_assign_options options;
    rbt_table *table;                       /* row p: worker p's last question and its answer */
    uint64_t returned;                      /* parts that were dealt again */
    uint32_t finished[RBT_JOB_WORKERS_MAX]; /* by each worker, before others */
};

/* A worker's place. All zero at first; the caller sets the first three. */
struct rbt_assign_turn {
    uint64_t pass;
    uint32_t limit; /* parts below it belong to this clock or earlier ones */
    bool is_last;   /* nothing comes after this clock */
    bool has_part;
    bool is_first; /* whether the part that was finished with this call counts */
    uint32_t part;
    uint64_t part_pass; /* maybe an earlier one */
    uint32_t count;     /* of questions */
};

/* Opens the table. */
RBT_MUST_USE rbt_status rbt_assign_open(struct rbt_assign *assign,
                                        const struct rbt_assign_options *options, rbt_job *job);

/* Says that the part is finished, if the worker has one, and asks for the next. Waits for the
 * answer alone, but in the last clock until all parts are finished. */
RBT_MUST_USE rbt_status rbt_assign_next(const struct rbt_assign *assign, rbt_worker *worker,
                                        struct rbt_assign_turn *turn);

/* Reads the figures, when training is over. */
RBT_MUST_USE rbt_status rbt_assign_count(struct rbt_assign *assign, rbt_worker *worker);

#endif
