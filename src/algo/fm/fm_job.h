/* algo/fm/fm_job.h - one training of a factorisation machine, as the files of fm.c share it.
 *
 * fm.c has the options, the tables and the end; fm_part.c a worker's part of the data; fm_step.c
 * what it does in a clock, and fm_tune.c how it finds penalties; fm_watch.c when it has learnt
 * enough, fm_linear.c what it must be better than; fm_measure.c how good a model is, and fm_model.c
 * what it says. Threads: a worker touches its own entry of `workers`; the rest is not changed while
 * workers run, but for `counts`, `passes` and `is_over`, which worker 0 sets. */
#ifndef RUBATO_ALGO_FM_FM_JOB_H
#define RUBATO_ALGO_FM_FM_JOB_H

#include "algo/fm/fm.h"
#include "algo/fm/fm_linear.h"
#include "algo/frame/replica.h"
#include "algo/frame/room.h"
#include "algo/frame/rules.h"
#include "algo/frame/standard.h"
#include "algo/frame/training.h"
#include "base/map.h"
#include "data/examples.h"
#include "math/choose.h"

#define RBT_FM_DIVERGED_HINT                                                                       \
    "Try smaller step sizes, --lr and --lr-v, fewer workers, or --consistency bsp."

/* What computing costs: of `rbt_fm_costs`. */
enum { RBT_FM_NONZERO, RBT_FM_NONZERO_RANK, RBT_FM_EXAMPLE, RBT_FM_ELEMENT, RBT_FM_COSTS };
extern const struct rbt_algo_cost rbt_fm_costs[RBT_FM_COSTS];

/* What is known of embeddings that several workers move: fm_combine.c. */
struct rbt_fm_combine {
    bool is_fitted;
    float *times_v; /* 1 / share, or 1: (embedded_count) */
    float *uses;    /* in a clock, by all workers: (embedded_count) */
    float *squares; /* sums of x_j^2 of the worker's examples: (key_count) */
    double all;     /* the sum of these */
    double seen;    /* x^2 of all steps so far */
    double grown;   /* by so much they have made n of all weights grow */
    double start;   /* n of all weights at the beginning of the clock */
};

/* Elements of the row of the table of tuning: logarithms of what penalties are multiplied with,
 * behind each the sum of the squares of what moved it, and how many examples were looked at. */
enum {
    RBT_FM_TUNE_L2,
    RBT_FM_TUNE_L2_SQUARES,
    RBT_FM_TUNE_L2_V,
    RBT_FM_TUNE_L2_V_SQUARES,
    RBT_FM_TUNE_COUNT,
    RBT_FM_TUNE_WIDTH,
};

/* The penalties that stand against the gradients of a weight, as of the worker's last step of it:
 * fm_step.c. */
struct rbt_fm_paid {
    float l1;
    float l2;
};

struct rbt_fm_worker {
    struct rbt_room room; /* of all arrays that are its own */
    struct rbt_share share;
    size_t held_out;    /* examples of it, at the ends of the chunks */
    uint32_t *rows;     /* (key_count): which embedding a feature has, or RBT_FM_NONE */
    uint64_t *embedded; /* keys of features that have one */
    size_t embedded_count;
    float *shares;       /* n_pj / n_j: (key_count) */
    double *occurrences; /* n_j: (key_count) */
    size_t entries_max;  /* of an example */
    uint32_t *row_room;  /* (entries_max) */
    float *value_room;   /* (entries_max) */
    float *sum_room;     /* (rank) */
    struct rbt_replica weights;
    struct rbt_replica embeddings;
    struct rbt_replica bias;
    struct rbt_replica tuning;      /* one row, fm_tune.c */
    float tuned[RBT_FM_TUNE_WIDTH]; /* the row as it was seen in the clock before */
    struct rbt_fm_steps steps;      /* of a worker that trains its own copy */
    struct rbt_fm_combine combine;
    struct rbt_fm_paid *paid; /* (key_count) */
    float *l2_v;              /* of these: (embedded_count) */
    float *shrinks;           /* what l2_v is multiplied with for them: (embedded_count) */
    double loss;              /* of the final model on this share */
};

/* The best model so far, on examples that are held out: fm_watch.c. Worker 0's. */
struct rbt_fm_watch {
    struct rbt_share held; /* in units of `scales`; empty: training is not watched */
    int64_t patience;      /* so many passes may bring nothing */
    int64_t since;         /* as many have */
    struct rbt_model best;
    double loss;          /* of it, as it is kept: the sum over the examples */
    float *best_losses;   /* of them, each; (held.count) */
    float *losses;        /* of the model that is looked at; (held.count) */
    float *whole_losses;  /* the same with all of its pairs; (held.count) */
    double best_passes;   /* after which it was found */
    double best_strength; /* of its pairs, as a part of what was learnt */
    double strength;      /* the same of the model that was looked at last */
    bool is_over;         /* the best is the result, not the last */
    float *linear_losses; /* of the linear model; (held.count) */
    double linear_loss;   /* their sum */
    bool is_linear;       /* the linear model is the result */
};

/* The model's arrays. */
enum { RBT_FM_WEIGHTS, RBT_FM_EMBEDDINGS, RBT_FM_BIAS };

/* What the data was divided by, and before it what columns were shifted by: fm_scale.c. */
struct rbt_fm_scales {
    struct rbt_standard standard;
    double common;      /* the unit of features that have none of their own */
    struct rbt_map map; /* of features to positions in `units` */
    float *units;       /* NULL: all are `common` */
    float label_shift;
    double label_unit;
};

struct rbt_fm_job {
    struct rbt_train_options options; /* with the rule that is in force */
    struct rbt_fm_config config;      /* min_count, lr and lr_v are numbers, combine is not AUTO */
    enum rbt_loss loss;
    struct rbt_rules rules;           /* of the weights */
    struct rbt_rules embedding_rules; /* of the embeddings */
    struct rbt_rules bias_rules;      /* of the bias, which is not regularised */
    bool is_tuned;                    /* l2_v is found out on the way */
    bool is_l2_tuned;                 /* and l2 */
    bool is_l2_found;                 /* or l2 was found for the linear model */
    bool is_dense;                    /* features are few */
    bool is_fitted;                   /* moves are neither a mean nor a sum: fm_combine.c */
    int64_t epochs;
    int64_t clocks_per_epoch;
    uint64_t seed;
    struct rbt_data_options data; /* how files are read */
    struct rbt_column_plan plan;  /* of tables with text */
    struct rbt_examples examples; /* in units of `scales`; `eval` is as it is */
    uint32_t *order;              /* of the examples, those that are held out last; (count) */
    size_t held_out;              /* how many are, but for the last passes */
    struct rbt_fm_scales scales;
    struct rbt_examples eval;
    struct rbt_share eval_share;
    struct rbt_fm_watch watch;
    struct rbt_fm_linear linear;
    double start_passes;    /* that the weights have as good as made before the first */
    struct rbt_share whole; /* with --exact: all examples */
    uint32_t worker_count;
    uint32_t movers; /* so many of them, the first, have examples */
    struct rbt_fm_worker *workers;
    rbt_table *weights;
    rbt_table *embeddings;
    rbt_table *bias;
    rbt_table *usage;
    rbt_table *tuning;
    struct rbt_rows counts;        /* the usage of all features, once worker 0 knows it */
    const struct rbt_model *model; /* being measured */
    uint32_t measured_parts;       /* by so many threads */
    double passes;                 /* of worker 0 */
    double found_l2;               /* of the model that was measured last */
    double found_l2_v;
    bool is_over; /* worker 0 has left: what is measured now is the final model */
};

static inline bool rbt_fm_is_tuned(const struct rbt_fm_job *fm)
{
    return fm->is_tuned || fm->is_l2_tuned;
}

/* Of a feature with n_i of n examples, when `batch` of them share a step (Lemma 22):
 * rho_i = 1 - (1 - n_i / n)^batch. */
double rbt_fm_chance(double occurrences, double examples, double batch);

/* How often V_i is shrunk per example: rho_i / b for minibatches of b examples. Workers that train
 * copies of their own shrink it as if there were RBT_FM_BATCHES minibatches in a pass. */
enum { RBT_FM_BATCHES = 100 };
double rbt_fm_shrinks(const struct rbt_fm_job *fm, double occurrences);

/* --- fm_part.c: the callbacks begin, ready and end of training.h, and ------------------------- */

rbt_status rbt_fm_begin(void *context, rbt_worker *worker);
rbt_status rbt_fm_ready(void *context, rbt_worker *worker, uint64_t *parameters);
void rbt_fm_end(void *context, rbt_worker *worker);

/* Draws the order of the examples: those at `places` come last, and are held out. Fails with
 * RBT_E_NOMEM, and with RBT_E_INVALID if there are too many. */
RBT_MUST_USE rbt_status rbt_fm_part_draw(struct rbt_fm_job *fm, const uint32_t *places,
                                         size_t count);

/* Where the worker's examples of a chunk are, and how many of them, the last, are held out. */
struct rbt_fm_chunk {
    size_t begin;
    size_t end;
    size_t held_out;
};
struct rbt_fm_chunk rbt_fm_part_chunk(const struct rbt_fm_worker *w, int64_t index, int64_t count);

/* Takes a worker's share of the examples. */
RBT_MUST_USE rbt_status rbt_fm_part_take(struct rbt_fm_job *fm, uint32_t index);

/* Accepts an empty part and leaves one. */
void rbt_fm_part_free(struct rbt_fm_worker *w);

/* --- fm_scale.c ------------------------------------------------------------------------------- */

/* Finds units for the examples, and puts these into them. Fails with RBT_E_NOMEM; what there is is
 * to be freed all the same. */
RBT_MUST_USE rbt_status rbt_fm_scale_take(struct rbt_fm_job *fm);
void rbt_fm_scale_free(struct rbt_fm_scales *scales);

/* What values of a feature were divided by, at last. */
float rbt_fm_scale_unit(const struct rbt_fm_scales *scales, uint64_t key);
/* A model in these units becomes one for the data as it is, or the other way round. Only values of
 * the three arrays change. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fm_scale_model(const struct rbt_fm_scales *scales,
                                           struct rbt_model *model, bool is_outward);

/* Makes a copy of a model for the data as it is, in these units. The caller frees it. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fm_scale_copy(const struct rbt_fm_scales *scales,
                                          const struct rbt_model *model, struct rbt_model *inner);

/* --- fm_measure.c: the callbacks objective and evaluate --------------------------------------- */

/* The final model must be of use: fails with RBT_E_DATA if training has diverged. */
rbt_status rbt_fm_objective(void *context, const struct rbt_model *model, double *objective);
rbt_status rbt_fm_evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics);

/* --- fm_combine.c ----------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_fm_combine_open(const struct rbt_fm_job *fm, struct rbt_fm_worker *w);
void rbt_fm_combine_free(struct rbt_fm_combine *combine);

/* Before the steps of a clock, after so many passes. */
void rbt_fm_combine_start(const struct rbt_fm_job *fm, struct rbt_fm_worker *w, double passes);

/* After the steps of a clock, the worker's last of so many passes: moves are multiplied with what
 * is right for them, but for the share of the worker. `error` is the mean squared error of the
 * clock's examples, for the squared loss. */
void rbt_fm_combine_end(const struct rbt_fm_job *fm, struct rbt_fm_worker *w, int64_t staleness,
                        double passes, double error);

/* What the move of a worker is multiplied with, when rate times curvature of all workers' examples
 * is `step` and the worker has one of `times` parts of them. */
float rbt_fm_combine_factor(float step, float times, float staleness);

/* --- fm_tune.c -------------------------------------------------------------------------------- */

/* So many of so many examples are to be held out. */
size_t rbt_fm_tune_held_out(size_t count);

/* For so many passes, of all. */
int64_t rbt_fm_tune_passes(int64_t epochs);

/* The penalties that are in force, given the row of the table. */
double rbt_fm_tune_l2(const struct rbt_fm_job *fm, const float *row);
double rbt_fm_tune_l2_v(const struct rbt_fm_job *fm, const float *row);

/* Moves them, if they are looked for, by what the examples of the run say, which were kept back.
 * `loss` becomes the sum of their losses. */
RBT_MUST_USE rbt_status rbt_fm_tune_measure(const struct rbt_fm_job *fm, struct rbt_fm_worker *w,
                                            const struct rbt_fm_run *run, double *loss);

/* --- fm_watch.c: the callbacks watch and settle ----------------------------------------------- */

/* Whether options ask for it. */
bool rbt_fm_watch_is_wanted(const struct rbt_fm_job *fm);

/* Begins, if it is wanted and enough examples, those at `places`, are held out. The examples are in
 * units of `scales`. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fm_watch_take(struct rbt_fm_job *fm, const uint32_t *places,
                                          size_t count);
void rbt_fm_watch_free(struct rbt_fm_watch *watch);

/* Measures the linear model, which others are compared with. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fm_watch_take_linear(struct rbt_fm_job *fm);

rbt_status rbt_fm_watch(void *context, rbt_worker *worker, double passes, struct rbt_model *model,
                        bool *is_over);
rbt_status rbt_fm_watch_settle(void *context, struct rbt_model *model);

/* Whether losses of examples are lower than others, by more than chance makes them. */
bool rbt_fm_watch_is_better(const float *losses, const float *others, size_t count);

/* What became of it after so many passes, for the summary; nothing if nothing did. */
void rbt_fm_watch_say(const struct rbt_fm_job *fm, double passes, char *text, size_t size);

/* --- fm_step.c: the callbacks work, push and penalty ------------------------------------------ */

rbt_status rbt_fm_work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures);
rbt_status rbt_fm_push(void *context, rbt_worker *worker);
double rbt_fm_penalty(void *context, rbt_worker *worker);

/* The time that it takes to measure examples. */
void rbt_fm_spend(const struct rbt_fm_job *fm, rbt_worker *worker, const struct rbt_share *share);

#endif
