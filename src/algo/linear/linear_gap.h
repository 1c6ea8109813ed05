/* algo/linear/linear_gap.h - how far an objective is above its minimum, at most: the duality gap.
 *
 * For every u with sum_i u_i = 0 (if there is a bias), and z_j = (1/n) sum_i u_i x_ij,
 *
 *     min P >= -(1/n) sum_i loss*(u_i) - sum_j pen*(z_j)
 *
 *     squared   loss*(u) = u^2 / 2 + u y
 *     logistic  loss*(u) = a log a + (1 - a) log(1 - a),  a = -u y, from 0 to 1
 *     pen*(z) = max(0, |z| - l1)^2 / (2 l2);  without l2: |z| may not be above l1
 *
 * At the minimum u are the slopes of the losses and the two sides are equal. Elsewhere the slopes
 * are made to fit: u_i = s (loss'_i - c loss''_i). The number c makes their sum 0, as a step of
 * Newton's method on the bias would; s is small enough for l1, or, with l2, 1.
 *
 * Workers find this together, in five clocks beside their work: sums of the slopes, which give c;
 * z, of which worker 0 makes s; sums of loss*, which it judges. What was found stays true, so the
 * best bound of all is kept. Without l1 and l2 there is none.
 *
 * With l1 the bound is linear in what the slopes are off by, and the objective is quadratic: in a
 * flat valley numbers are at rest long before the bound says so. Therefore a training is also over
 * when the gains of the last passes, which fall by a factor, leave nothing to be gained.
 *
 * Threads: a part is its worker's; of the gap, worker 0 writes what says so. */
#ifndef RUBATO_ALGO_LINEAR_LINEAR_GAP_H
#define RUBATO_ALGO_LINEAR_LINEAR_GAP_H

#include "algo/linear/linear_job.h"

enum { RBT_LINEAR_GAP_TRIES = 2 }; /* values of s */

/* Of a job, inside what its solver has. */
struct rbt_linear_gap {
    rbt_table *sums; /* one row */
    rbt_table *dual; /* z, by feature */
    struct rbt_train_options *options;
    int64_t epochs;
    int64_t clocks_per_epoch;
    /* Of worker 0, where it is. */
    bool has_root;
    double bound;     /* the minimum is not below it; -INFINITY: nothing is known */
    size_t checks;    /* that were a fixed number of passes apart */
    double values[2]; /* the objective at the last two of these, the newer one first */
    double rests[2];  /* what further passes would gain, as far as gains tell, in this order */
    double penalties[RBT_LINEAR_GAP_TRIES]; /* sum of pen* */
};

/* Of a worker, inside what its solver has; empty at first. */
struct rbt_linear_gap_part {
    struct rbt_linear_gap *gap;
    const struct rbt_share *share;
    size_t first; /* examples that this worker counts, all of them if nobody else has them */
    size_t end;
    int phase;
    bool is_regular; /* the check comes when it always does */
    double shift;    /* c */
    double *slopes;  /* (share->count): the caller's to fill before a check */
};

/* From the solver's callbacks check, settle, open, ready and end. */
void rbt_linear_gap_init(struct rbt_linear_gap *gap, struct rbt_train_options *options);
void rbt_linear_gap_settle(struct rbt_linear_gap *gap, const struct rbt_training *training);
RBT_MUST_USE rbt_status rbt_linear_gap_open(const struct rbt_linear_job *linear,
                                            struct rbt_linear_gap *gap, rbt_job *job);
RBT_MUST_USE rbt_status rbt_linear_gap_ready(struct rbt_linear_gap *gap,
                                             struct rbt_linear_gap_part *part, rbt_worker *worker,
                                             const struct rbt_share *share);
void rbt_linear_gap_end(struct rbt_linear_gap_part *part);

/* Whether a check begins in this clock. */
bool rbt_linear_gap_is_due(const struct rbt_linear_job *linear, struct rbt_linear_gap_part *part,
                           const struct rbt_training_chunk *chunk);

/* Begins one: all workers have filled in the slopes of the losses at one and the same point. `loss`
 * is the sum over the worker's examples, `penalty` its part of the penalty. */
RBT_MUST_USE rbt_status rbt_linear_gap_begin(const struct rbt_linear_job *linear,
                                             struct rbt_linear_gap_part *part, rbt_worker *worker,
                                             double loss, double penalty);

/* In every clock, before a check may begin: does what is next. Ends the training when the gap is
 * small, if the solver is the one to say when it is over. */
RBT_MUST_USE rbt_status rbt_linear_gap_step(const struct rbt_linear_job *linear,
                                            struct rbt_linear_gap_part *part, rbt_worker *worker);

/* After training: says in the summary if the objective may be too far above the minimum. */
void rbt_linear_gap_note(const struct rbt_linear_job *linear, const struct rbt_linear_gap *gap,
                         struct rbt_train_summary *summary);

/* Whether the solver looks for a bound, and penalties make that there is one. */
static inline bool rbt_linear_gap_is_known(const struct rbt_linear_job *linear)
{
    return linear->solver->is_watched && (linear->config.l1 > 0.0 || linear->config.l2 > 0.0);
}

#endif
