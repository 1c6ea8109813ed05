/* algo/linear/linear_job.h - one training of a linear model, as the files of linear.c share it.
 *
 * linear.c has the options, the tables and the end; linear_part.c a worker's part of the data;
 * linear_step.c what it does in a clock; linear_class.c the classes of softmax. Those are
 * stochastic gradient descent, "sgd"; every other solver (--solver) is a file of its own,
 * linear_NAME.c, that replaces some of it. Threads: a worker touches its own entry of `workers`;
 * the rest is not changed while workers run. */
#ifndef RUBATO_ALGO_LINEAR_LINEAR_JOB_H
#define RUBATO_ALGO_LINEAR_LINEAR_JOB_H

#include "algo/frame/assign.h"
#include "algo/frame/rebalance.h"
#include "algo/frame/replica.h"
#include "algo/frame/rules.h"
#include "algo/frame/sample.h"
#include "algo/frame/standard.h"
#include "algo/frame/training.h"
#include "algo/linear/linear.h"
#include "data/dictionary.h"
#include "data/examples.h"

enum { RBT_L1_PROXIMAL, RBT_L1_TRUNCATE };                   /* --l1-method */
enum { RBT_ASSIGN_STATIC, RBT_ASSIGN_DYNAMIC };              /* --assign */
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
    float *step_max;        /* (count) */
    float *coefficients;    /* (batch, width) */
    double step_unit;       /* 1 / (L R) */
    double progress;        /* how far a clock goes, of what its steps would one by one */
    size_t sweep;           /* examples between two regularisation steps */
    struct rbt_replica weights;
    struct rbt_replica bias;
    struct rbt_hand hand;             /* with --rebalance */
    struct rbt_linear_lazy *lazy;     /* if penalties can wait, or NULL */
    bool is_borrowed;                 /* share and step_max are the whole's: --assign dynamic */
    struct rbt_linear_source *source; /* of the share and step_max, if they are on disk */
    void *own;                        /* of a solver, from begin to end */
    double loss;                      /* of the final model on this share */
};

/* All examples in the order that workers agree on, with --rebalance, --assign dynamic or --exact.
 */
struct rbt_linear_whole {
    struct rbt_share share; /* not scaled */
    double *usage;          /* (key_count, RBT_USAGE_WIDTH) */
};

struct rbt_linear_assign;

struct rbt_linear_job;

/* A way to minimise the objective. */
struct rbt_linear_solver {
    const char *name;
    int64_t epochs_default;
    bool is_watched; /* it stops by itself under BSP, and the default is the most that it does */
    /* Before data is read: refuses options that cannot be, and fills in those that were not given.
     * `options` is the job's own copy. */
    rbt_status (*check)(struct rbt_linear_job *linear, struct rbt_train_options *options);
    /* When the data is there: what follows from its size. Also the clocks of an epoch. */
    rbt_status (*settle)(struct rbt_linear_job *linear, struct rbt_training *training);
    /* After training, if not NULL: its own figures. */
    void (*summarise)(const struct rbt_linear_job *linear, struct rbt_train_summary *summary);
    /* At the end, if not NULL, also if `settle` was never called: what `own` has. */
    void (*free)(struct rbt_linear_job *linear);
    /* NULL: the same as of sgd. `objective` and `evaluate` always are. */
    struct rbt_training_task task;
};

struct rbt_linear_job {
    const struct rbt_linear_solver *solver;
    const struct rbt_train_options *options;
    struct rbt_linear_config config; /* l2 is a number, scale and combine are not AUTO */
    struct rbt_training_rate rate;
    double cool_passes;          /* after so many the step is 0; 0: it does not cool */
    struct rbt_rules rules;      /* of the weights */
    struct rbt_rules bias_rules; /* of the bias, which is not regularised */
    double l1;                   /* that the worker sees to: 0 if the rule does */
    double l2;                   /* the same */
    uint32_t row_width;          /* of weights and bias; the weight comes first; 0: 1 */
    const char *consistency;     /* of weights and bias; NULL: the job's */
    double gradient_factor;      /* what gradients of single examples are multiplied with */
    bool is_blended;             /* moves have rates between those of mean and sum */
    bool is_managed;             /* rows travel before the clock ends */
    bool is_named; /* weights that are not zero are named in every update, for the rule to shrink */
    int64_t clocks_per_epoch;
    bool is_lazy; /* a clock regularises only the features of its examples */
    uint64_t seed;
    size_t width;   /* of a feature's row of weights: 1, or the number of classes */
    float *classes; /* (width), increasing: labels of softmax, whose examples have their index */
    struct rbt_examples examples;     /* as `standard` has made them */
    double nonzeros;                  /* of all examples, as they were read */
    double squares;                   /* of how many nonzeros each of them has: sum */
    struct rbt_standard standard;     /* how examples are changed for solvers */
    struct rbt_sample sample;         /* that tells a penalty, if one is looked for */
    struct rbt_data_options data;     /* how files are read, but not which */
    struct rbt_column_plan plan;      /* of tables with text */
    struct rbt_dictionary dictionary; /* of these, with --dictionary */
    struct rbt_examples eval;
    struct rbt_share eval_share;
    struct rbt_linear_whole whole;
    struct rbt_linear_store *store; /* of examples that are on disk, or NULL */
    struct rbt_rebalance rebalance;
    struct rbt_linear_assign *assign; /* with --assign dynamic, or NULL */
    uint32_t worker_count;
    struct rbt_linear_worker *workers;
    rbt_table *weights;
    rbt_table *bias;
    rbt_table *usage;
    void *own;                        /* of the solver, from settle on; freed with the job */
    const struct rbt_model *model;    /* being measured */
    uint32_t measured_parts;          /* by so many threads */
    char chosen[RBT_TRAIN_WORDS_MAX]; /* for the summary */
    bool is_noted;                    /* by worker 0: what there is to say of the labels is said */
};

/* --- linear.c: what options and solvers build on ------------------------------------------------
 */

enum { RBT_LINEAR_EPOCHS = 10 }; /* unless they are given, of sgd */

/* What is in struct rbt_algo; `settings` is a struct rbt_linear_config. */
int64_t rbt_linear_epochs(const void *config);
rbt_status rbt_linear_train(const struct rbt_train_options *options, const void *settings,
                            const struct rbt_observer *observer, struct rbt_train_summary *summary);

/* The tables of sgd; and the model that they hold. */
rbt_status rbt_linear_open(void *context, rbt_job *job);
rbt_status rbt_linear_collect(void *context, rbt_worker *worker, int64_t staleness,
                              struct rbt_model *model);

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

/* Room for what belongs to the worker's share; scaled values and the steps that follow from them;
 * how often to regularise. */
RBT_MUST_USE rbt_status rbt_linear_part_room(const struct rbt_linear_job *linear,
                                             struct rbt_linear_worker *w);
void rbt_linear_part_scale(const struct rbt_linear_job *linear, struct rbt_linear_worker *w);
void rbt_linear_part_sweep(const struct rbt_linear_job *linear, struct rbt_linear_worker *w);

/* With --rebalance, before a clock: takes and gives examples, and makes a new part of them. */
RBT_MUST_USE rbt_status rbt_linear_part_trade(struct rbt_linear_job *linear, rbt_worker *worker);

/* --- linear_rates.c -----------------------------------------------------------------------------
 */

/* If moves are blended, when the share is scaled: the rates of a worker's features (key_count), and
 * its progress. `all` is everybody's usage. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_linear_rates(const struct rbt_linear_job *linear,
                                         struct rbt_linear_worker *w, const double *all,
                                         float *rates);

/* --- linear_assign.c: parts for whoever is idle; all but the first only with --assign dynamic ----
 */

/* Before data is read, and after: refuses what cannot be; takes over some of the task. */
RBT_MUST_USE rbt_status rbt_linear_assign_check(const struct rbt_linear_job *linear);
RBT_MUST_USE rbt_status rbt_linear_assign_settle(struct rbt_linear_job *linear, int64_t epochs);
void rbt_linear_assign_take(struct rbt_training_task *task);
void rbt_linear_assign_summarise(const struct rbt_linear_job *linear,
                                 struct rbt_train_summary *summary);
/* Accepts a job without. */
void rbt_linear_assign_free(struct rbt_linear_job *linear);

/* --- linear_class.c: for softmax, after training data has been read ------------------------------
 */

/* Lists the labels that occur and puts their places in the list in their stead. Fails with
 * RBT_E_DATA if there are fewer than two, or so many that they are no classes. */
RBT_MUST_USE rbt_status rbt_linear_class_take(struct rbt_linear_job *linear);

/* The callback `note`: says once if all labels of two are the same. */
void rbt_linear_class_note(void *context, rbt_worker *worker, char *text, size_t size);

/* --- linear_step.c: the callbacks work, push and penalty ----------------------------------------
 */

rbt_status rbt_linear_work(void *context, rbt_worker *worker,
                           const struct rbt_training_chunk *chunk,
                           struct rbt_training_figures *figures);
rbt_status rbt_linear_push(void *context, rbt_worker *worker);

/* What work is made of: some examples of the share; and the end of a clock. */
RBT_MUST_USE rbt_status rbt_linear_walk(const struct rbt_linear_job *linear, rbt_worker *worker,
                                        const struct rbt_piece *piece, int64_t epoch, double *loss);
void rbt_linear_walk_end(const struct rbt_linear_job *linear, rbt_worker *worker);
double rbt_linear_penalty(void *context, rbt_worker *worker);

/* One regularisation step of feature j that stands for steps whose sizes have this sum; and the
 * size above which truncation leaves a weight alone. */
void rbt_linear_shrink_one(const struct rbt_linear_config *config, struct rbt_linear_worker *w,
                           size_t j, double amount);
float rbt_linear_theta(const struct rbt_linear_config *config);

#endif
