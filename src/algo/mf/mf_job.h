/* algo/mf/mf_job.h - one training of a factorisation, as the files of mf.c share it.
 *
 * mf.c has the options, the tables, the beginning and the end; mf_step.c what a worker does in a
 * clock. Threads: a worker touches its own entry of `workers`; the rest is not changed while
 * workers run. */
#ifndef RUBATO_ALGO_MF_MF_JOB_H
#define RUBATO_ALGO_MF_MF_JOB_H

#include "algo/frame/replica.h"
#include "algo/frame/rules.h"
#include "algo/frame/training.h"
#include "algo/mf/mf.h"
#include "algo/mf/mf_adaptation.h"
#include "algo/mf/mf_model.h"

enum { RBT_MF_COST_RATING, RBT_MF_COST_RATING_RANK, RBT_MF_COST_ELEMENT, RBT_MF_COST_COUNT };
extern const struct rbt_algo_cost rbt_mf_costs[RBT_MF_COST_COUNT];

struct rbt_mf_worker {
    struct rbt_rating_share share;
    uint32_t *user_counts; /* ratings of each user in the share */
    uint32_t *item_counts;
    float *item_totals; /* ratings of each of the items in all shares */
    struct rbt_replica users;
    struct rbt_replica items;
    struct rbt_replica user_biases;
    struct rbt_replica item_biases;
    struct rbt_mf_adaptation adaptation; /* empty if steps are the same for all rows */
    double clock_passes;                 /* the part of a pass that the clock is */
    struct rbt_mf_sums sums; /* of the final model, over this worker's part of the ratings */
};

struct rbt_mf_job {
    const struct rbt_train_options *options;
    struct rbt_mf_config config; /* combine is not AUTO */
    struct rbt_training_rate rate;
    bool is_adaptive; /* steps are by row, and of the rate only lr counts */
    struct rbt_rules rules;
    uint64_t seed;
    struct rbt_ratings ratings;
    struct rbt_ratings eval;
    double level; /* mean of all ratings, those below 0 counting as 0 */
    double mean;  /* of all ratings, or 0 without biases */
    double scale; /* their deviation from the mean; above 0 */
    uint32_t worker_count;
    struct rbt_mf_worker *workers;
    rbt_table *users;
    rbt_table *items;
    rbt_table *user_biases;
    rbt_table *item_biases;
    rbt_table *usage;           /* of items */
    rbt_table *sizes;           /* row 0: users in all shares */
    const rbt_mf_model *scorer; /* being measured */
};

/* Parts of the task; the context is the job. */
RBT_MUST_USE rbt_status rbt_mf_step_work(void *context, rbt_worker *worker,
                                         const struct rbt_training_chunk *chunk,
                                         struct rbt_training_figures *figures);
RBT_MUST_USE rbt_status rbt_mf_step_push(void *context, rbt_worker *worker);
double rbt_mf_step_penalty(void *context, rbt_worker *worker);

/* What is below zero becomes zero. */
void rbt_mf_keep_nonnegative(float *values, size_t count);

#endif
