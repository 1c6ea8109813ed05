/* algo/linear_job.h - one training of a linear model, as the files of linear.c share it.
 *
 * linear.c has the options, the tables and the end; linear_part.c a worker's part of the data;
 * linear_step.c what it does in a clock. Threads: a worker touches its own entry of `workers`; the
 * rest is not changed while workers run. */
#ifndef RUBATO_ALGO_LINEAR_JOB_H
#define RUBATO_ALGO_LINEAR_JOB_H

#include "algo/linear.h"
#include "algo/rebalance.h"
#include "algo/replica.h"
#include "algo/rules.h"
#include "algo/training.h"
#include "data/examples.h"

enum { RBT_L1_PROXIMAL, RBT_L1_TRUNCATE };                   /* --l1-method */
enum { RBT_SCALE_FEATURES, RBT_SCALE_NONE, RBT_SCALE_AUTO }; /* --scale */

/* What computing costs: of `rbt_linear_costs`. */
enum { RBT_LINEAR_NONZERO, RBT_LINEAR_EXAMPLE, RBT_LINEAR_WEIGHT, RBT_LINEAR_COSTS };
extern const struct rbt_algo_cost rbt_linear_costs[RBT_LINEAR_COSTS];

struct rbt_linear_worker {
    struct rbt_share share; /* values are scaled */
    float *scales;          /* r: (key_count) */
    float *shares;          /* n_pj / n_j: (key_count) */
    float *pulls;           /* r n n_pj / (n_p n_j), for l1: (key_count) */
    float *decays;          /* r sqrt(n n_pj / (n_p n_j)), for l2: (key_count) */
    double *settled;        /* what `due` was when a feature's penalty was seen to: (key_count) */
    double due;             /* sum of the sizes of all steps, or clocks, so far */
    uint32_t *marks;        /* the clock of the worker that used a feature last: (key_count) */
    uint32_t mark;          /* this one */
    uint32_t *used;         /* features of the examples of this clock: (key_count + 1) */
    size_t used_count;
    float *step_max;     /* (count) */
    float *coefficients; /* (batch) */
    double step_unit;    /* 1 / (L R) */
    size_t sweep;        /* examples between two regularisation steps */
    struct rbt_replica weights;
    struct rbt_replica bias;
    struct rbt_hand hand;             /* with --rebalance */
    struct rbt_linear_source *source; /* of the share and step_max, if they are on disk */
    double loss;                      /* of the final model on this share */
};

/* All examples in the order that workers agree on, with --rebalance or --exact. */
struct rbt_linear_whole {
    struct rbt_share share; /* not scaled */
    double *usage;          /* (key_count, RBT_USAGE_WIDTH) */
};

struct rbt_linear_job {
    const struct rbt_train_options *options;
    struct rbt_linear_config config; /* l2 is a number, scale and combine are not AUTO */
    struct rbt_training_rate rate;
    struct rbt_rules rules;      /* of the weights */
    struct rbt_rules bias_rules; /* of the bias, which is not regularised */
    double l1;                   /* that the worker sees to: 0 if the rule does */
    double l2;                   /* the same */
    double gradient_factor;      /* what gradients of single examples are multiplied with */
    bool is_named; /* weights that are not zero are named in every update, for the rule to shrink */
    int64_t clocks_per_epoch;
    uint64_t seed;
    struct rbt_examples examples;
    struct rbt_data_options data; /* how files are read, but not which */
    struct rbt_column_plan plan;  /* of tables with text */
    struct rbt_examples eval;
    struct rbt_share eval_share;
    struct rbt_linear_whole whole;
    struct rbt_linear_store *store; /* of examples that are on disk, or NULL */
    struct rbt_rebalance rebalance;
    uint32_t worker_count;
    struct rbt_linear_worker *workers;
    rbt_table *weights;
    rbt_table *bias;
    rbt_table *usage;
    const struct rbt_model *model; /* being measured */
    uint32_t measured_parts;       /* by so many threads */
};

/* --- linear_part.c: the callbacks begin, ready and end of training.h, and ------------------------
 */

rbt_status rbt_linear_begin(void *context, rbt_worker *worker);
rbt_status rbt_linear_ready(void *context, rbt_worker *worker, uint64_t *parameters);
void rbt_linear_end(void *context, rbt_worker *worker);

/* Takes a worker's share of the examples, not scaled yet. */
RBT_MUST_USE rbt_status rbt_linear_part_take(struct rbt_linear_job *linear, uint32_t index);

/* Accepts an empty part and leaves one. */
void rbt_linear_part_free(struct rbt_linear_worker *w);

/* For --rebalance and --exact, before workers run; and the end of it, which accepts an empty one.
 */
RBT_MUST_USE rbt_status rbt_linear_whole_take(struct rbt_linear_job *linear);
void rbt_linear_whole_free(struct rbt_linear_whole *whole);

/* With --rebalance, before a clock: takes and gives examples, and makes a new part of them. */
RBT_MUST_USE rbt_status rbt_linear_part_trade(struct rbt_linear_job *linear, rbt_worker *worker);

/* --- linear_step.c: the callbacks work, push and penalty ----------------------------------------
 */

rbt_status rbt_linear_work(void *context, rbt_worker *worker,
                           const struct rbt_training_chunk *chunk,
                           struct rbt_training_figures *figures);
rbt_status rbt_linear_push(void *context, rbt_worker *worker);
double rbt_linear_penalty(void *context, rbt_worker *worker);

#endif
