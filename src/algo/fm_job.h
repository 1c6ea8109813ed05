/* algo/fm_job.h - one training of a factorisation machine, as the files of fm.c share it.
 *
 * fm.c has the options, the tables and the end; fm_part.c a worker's part of the data; fm_step.c
 * what it does in a clock, and fm_tune.c how it finds l2_v; fm_model.c what a model says. Threads:
 * a worker touches its own entry of `workers`; the rest is not changed while workers run, but for
 * `counts`, which worker 0 sets. */
#ifndef RUBATO_ALGO_FM_JOB_H
#define RUBATO_ALGO_FM_JOB_H

#include "algo/fm.h"
#include "algo/replica.h"
#include "algo/rules.h"
#include "algo/training.h"
#include "base/map.h"
#include "data/examples.h"
#include "math/choose.h"

/* What computing costs: of `rbt_fm_costs`. */
enum { RBT_FM_NONZERO, RBT_FM_NONZERO_RANK, RBT_FM_EXAMPLE, RBT_FM_ELEMENT, RBT_FM_COSTS };
extern const struct rbt_algo_cost rbt_fm_costs[RBT_FM_COSTS];

struct rbt_fm_worker {
    struct rbt_share share;
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
    struct rbt_replica tuning; /* one number, fm_tune.c */
    struct rbt_fm_steps steps; /* of a worker that trains its own copy */
    float *l1;                 /* of these: (key_count) */
    float *l2_v;               /* of these: (embedded_count) */
    float *shrinks;            /* what l2_v is multiplied with for them: (embedded_count) */
    double loss;               /* of the final model on this share */
};

/* The model's arrays. */
enum { RBT_FM_WEIGHTS, RBT_FM_EMBEDDINGS, RBT_FM_BIAS };

/* What the data was divided by: fm_scale.c. */
struct rbt_fm_scales {
    struct rbt_map map; /* of features to positions in `units` */
    float *units;       /* NULL: all are 1 */
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
    int64_t epochs;
    int64_t clocks_per_epoch;
    uint64_t seed;
    struct rbt_data_options data; /* how files are read */
    struct rbt_column_plan plan;  /* of tables with text */
    struct rbt_examples examples; /* in units of `scales`; `eval` is as it is */
    struct rbt_fm_scales scales;
    struct rbt_examples eval;
    struct rbt_share eval_share;
    struct rbt_share whole; /* with --exact: all examples */
    uint32_t worker_count;
    struct rbt_fm_worker *workers;
    rbt_table *weights;
    rbt_table *embeddings;
    rbt_table *bias;
    rbt_table *usage;
    rbt_table *tuning;
    struct rbt_rows counts;        /* the usage of all features, once worker 0 knows it */
    const struct rbt_model *model; /* being measured */
    uint32_t measured_parts;       /* by so many threads */
};

/* Of a feature with n_i of n examples, when `batch` of them share a step (Lemma 22):
 * rho_i = 1 - (1 - n_i / n)^batch. */
double rbt_fm_chance(double occurrences, double examples, double batch);

/* How often V_i is shrunk per example: rho_i / b for minibatches of b examples. Workers that train
 * copies of their own shrink it as if there were RBT_FM_BATCHES minibatches in a pass. */
enum { RBT_FM_BATCHES = 100 };
double rbt_fm_shrinks(const struct rbt_fm_job *fm, double occurrences);

/* --- fm_part.c: the callbacks begin, ready and end of training.h, and ---------------------------
 */

rbt_status rbt_fm_begin(void *context, rbt_worker *worker);
rbt_status rbt_fm_ready(void *context, rbt_worker *worker, uint64_t *parameters);
void rbt_fm_end(void *context, rbt_worker *worker);

/* Takes a worker's share of the examples. */
RBT_MUST_USE rbt_status rbt_fm_part_take(struct rbt_fm_job *fm, uint32_t index);

/* Accepts an empty part and leaves one. */
void rbt_fm_part_free(struct rbt_fm_worker *w);

/* --- fm_scale.c ---------------------------------------------------------------------------------
 */

/* Finds units for the examples, and puts these into them. Fails with RBT_E_NOMEM; what there is is
 * to be freed all the same. */
RBT_MUST_USE rbt_status rbt_fm_scale_take(struct rbt_fm_job *fm);
void rbt_fm_scale_free(struct rbt_fm_scales *scales);

/* A model in these units becomes one for the data as it is, or the other way round. Only values of
 * the three arrays change. */
void rbt_fm_scale_model(const struct rbt_fm_scales *scales, struct rbt_model *model,
                        bool is_outward);

/* Makes a copy of a model for the data as it is, in these units. The caller frees it. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fm_scale_copy(const struct rbt_fm_scales *scales,
                                          const struct rbt_model *model, struct rbt_model *inner);

/* --- fm_tune.c ----------------------------------------------------------------------------------
 */

/* How many of the examples of a chunk are kept back. */
size_t rbt_fm_tune_held_out(const struct rbt_fm_job *fm, const struct rbt_training_chunk *chunk,
                            size_t count);

/* What l2_v is multiplied with, given the row of the table. */
double rbt_fm_tune_factor(double row);

/* Moves it by what the examples of the run say, which were kept back. */
RBT_MUST_USE rbt_status rbt_fm_tune_measure(const struct rbt_fm_job *fm, struct rbt_fm_worker *w,
                                            const struct rbt_fm_run *run);

/* --- fm_step.c: the callbacks work, push and penalty --------------------------------------------
 */

rbt_status rbt_fm_work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures);
rbt_status rbt_fm_push(void *context, rbt_worker *worker);
double rbt_fm_penalty(void *context, rbt_worker *worker);

#endif
