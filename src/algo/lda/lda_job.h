/* algo/lda/lda_job.h - the state of `rubato train lda` and the parts of its training task.
 *
 * Threads: a lda_worker is its worker's; the rest is not changed while workers run. */
#ifndef RUBATO_ALGO_LDA_LDA_JOB_H
#define RUBATO_ALGO_LDA_LDA_JOB_H

#include "algo/frame/room.h"
#include "algo/frame/training.h"
#include "algo/lda/lda.h"
#include "algo/lda/lda_model.h"
#include "algo/lda/lda_sampler.h"
#include "algo/lda/lda_state.h"
#include "data/documents.h"

/* A worker's copy of its words' counts (lda_counts.h). */
struct rbt_lda_counts {
    rbt_set *set;     /* dense rows; NULL: sparse rows, and the rest is used */
    float *copy;      /* (words, topics) */
    uint16_t *before; /* topics of the view before they are drawn again */
    uint64_t *changes;
    size_t change_count;
    size_t changes_max;
    struct rbt_elements elements; /* of one row */
    size_t element_count;         /* of all rows, when they were last pulled */
};

struct rbt_lda_worker {
    struct rbt_room room; /* of all arrays that are its own */
    struct rbt_document_share share;
    rbt_lda_state *state;   /* the topics on disk; NULL: they are in memory */
    bool is_resumed;        /* there was a state to go on with, */
    uint64_t passes;        /* after so many passes */
    uint16_t *topics;       /* z of each token in the view */
    uint64_t *view_offsets; /* of the documents in the view, if it is not all of them */
    size_t view_first;      /* the first of them */
    size_t view_max;        /* tokens that a view has at most, if it is not all */
    uint32_t *word_counts;  /* tokens of each word in the share */
    double *logs;           /* log(n + alpha) */
    double *constants;      /* (documents + 1): sum over the documents before of
                               G(a K) - G(n_d + a K) */
    double *parts;          /* of each clock of an epoch: its documents' log-likelihood */
    double part_change;     /* of the clock that is over, for all to know */
    float *sums;            /* n_k, if the table does not have floats */
    struct rbt_lda_sampler sampler;
    struct rbt_lda_logs word_logs;
    double likelihood; /* its part of the log-likelihood at the end of an epoch, per token of its
                          own, until it is sent; else 0 */
    int64_t epochs;    /* that it has completed */
    struct rbt_lda_counts counts;
    rbt_set *sum_set;
    bool has_counts; /* they have been pulled */
};

struct rbt_lda_job {
    const struct rbt_train_options *options;
    struct rbt_lda_config config;
    enum rbt_lda_kind kind;
    enum rbt_lda_rows_kind rows;
    struct rbt_rules rules;
    uint64_t seed;
    int64_t clocks_per_epoch;
    int64_t clock_count; /* of the whole training, if nobody stops it */
    struct rbt_documents documents;
    struct rbt_documents eval;
    bool is_managed;
    uint32_t worker_count;
    struct rbt_lda_worker *workers;
    rbt_table *words;     /* n_wk */
    rbt_table *sums;      /* n_k: row 0 */
    rbt_table *parts;     /* row 0: the documents' part of the log-likelihood */
    rbt_table *by_worker; /* an element per worker; row 0: whether it has gone on with a state; row
                             e: its log-likelihood per token after e epochs */
};

/* What computing costs (algo.h). */
enum { RBT_LDA_COST_TOKEN, RBT_LDA_COST_TOKEN_TOPIC, RBT_LDA_COST_ELEMENT, RBT_LDA_COST_COUNT };
extern const struct rbt_algo_cost rbt_lda_costs[RBT_LDA_COST_COUNT];

/* Callbacks of the training task; the context is a struct rbt_lda_job. */
rbt_status rbt_lda_step_begin(void *context, rbt_worker *worker);
rbt_status rbt_lda_step_ready(void *context, rbt_worker *worker, uint64_t *parameters);
rbt_status rbt_lda_step_work(void *context, rbt_worker *worker,
                             const struct rbt_training_chunk *chunk,
                             struct rbt_training_figures *figures);
rbt_status rbt_lda_step_push(void *context, rbt_worker *worker);
double rbt_lda_step_penalty(void *context, rbt_worker *worker);
void rbt_lda_step_end(void *context, rbt_worker *worker);
rbt_status rbt_lda_step_compare(void *context, rbt_worker *worker, int64_t epoch, int64_t staleness,
                                struct rbt_metrics *by_worker);
void rbt_lda_step_note(void *context, rbt_worker *worker, char *text, size_t size);

/* Frees what a worker has, when all have ended. */
void rbt_lda_step_free(struct rbt_lda_worker *worker);

#endif
