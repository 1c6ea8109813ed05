/* algo/frame/algo.h - what a ready-to-run algorithm looks like to the command line.
 *
 * An algorithm has a name, a table of options, and functions to train, predict and evaluate. It is
 * written on the public API alone and never prints: progress goes to an observer, results into a
 * summary, failures into a status. */
#ifndef RUBATO_ALGO_FRAME_ALGO_H
#define RUBATO_ALGO_FRAME_ALGO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/rubato.h>

#include "algo/frame/model.h"
#include "algo/frame/train_options.h"
#include "base/limits.h"
#include "data/examples.h"

/* Named figures in the order in which they are shown: "logloss", "accuracy", "auc", "rmse", ... */
enum { RBT_METRICS_MAX = 16 };
struct rbt_metrics {
    const char *names[RBT_METRICS_MAX]; /* constant strings */
    double values[RBT_METRICS_MAX];
    size_t count;
};

enum { RBT_TRAIN_WORDS_MAX = 240 }; /* bytes of a sentence about a training */

/* Said about once per epoch, when all workers' figures for it are in. */
struct rbt_train_event {
    double t;     /* seconds since training began; virtual time in a simulation */
    double epoch; /* passes completed */
    int64_t clock;
    uint64_t examples; /* processed so far, all workers */
    double objective;  /* training objective per example, with regularisation: mean over the pass of
                          the loss just before each step; exact in the last event, or if asked for
                        */
    struct rbt_metrics eval;      /* on the evaluation data; count 0 without */
    struct rbt_metrics by_worker; /* in what the workers differ in this epoch; count 0 if the
                                     algorithm does not tell */
    double lag_mean;
    int64_t lag_max;
    int64_t clock_min; /* of all workers: the slowest and the fastest */
    int64_t clock_max;
    int64_t staleness; /* of the job: the bound that is in force; RBT_STALENESS_ANY: none */
    uint64_t bytes;
    const struct rbt_job_stats *stats; /* all figures so far, or NULL; only during the call */
    const char *note; /* something to read of the model as it forms, or NULL; the same */
};

struct rbt_observer {
    void *context;
    void (*on_loaded)(void *context, double load_seconds, uint64_t examples, uint64_t parameters);
    void (*on_event)(void *context, const struct rbt_train_event *event);
    bool (*is_interrupted)(void *context); /* polled at least once per clock by every
                                               worker, on its own thread */
};

struct rbt_train_summary {
    double objective; /* exact, on the whole training data, with the final model */
    struct rbt_metrics eval;
    struct rbt_metrics by_worker; /* of the last whole epoch, as in events */
    double objective_mean5; /* mean and variance of the last five that events told, or fewer */
    double objective_var5;
    double seconds;         /* training only, real time */
    double virtual_seconds; /* in a simulation: virtual time at the end of training; else 0 */
    double load_seconds;
    uint64_t examples;
    double examples_per_s;     /* per virtual second in a simulation */
    double seconds_per_update; /* the same; 0 without updates */
    double epochs;
    int64_t clocks;
    struct rbt_job_stats stats;
    char rule[RBT_TEXT_MAX];   /* with the parameters that it was given; "" for none */
    char filter[RBT_TEXT_MAX]; /* the same */
    uint64_t digest;
    uint64_t parts_returned;                    /* with --assign dynamic: parts dealt again */
    uint32_t worker_count;                      /* the same: whose parts follow; 0: without */
    uint32_t worker_parts[RBT_JOB_WORKERS_MAX]; /* parts that each worker has finished */
    double inactive; /* share of the weights that a solver leaves alone at the end; 0: none */
    char chosen[RBT_TRAIN_WORDS_MAX];      /* what nobody has asked for, and why: "solver newton";
                                              "" for nothing */
    char unconverged[RBT_TRAIN_WORDS_MAX]; /* in what the model is not what was asked for, with what
                                              to do: "the last step still gained 1%; ..."; "" if it
                                              is, or nobody can tell */
    bool is_interrupted;                   /* stopped early by the observer; no model was written */
};

/* Where predict and evaluate read from and write to. */
struct rbt_predict_options {
    struct rbt_option_list data;
    RBT_INPUT_OPTIONS(RBT_OPTION_FIELD)
    int64_t label_column;   /* where label_name is NULL */
    char *note;             /* of RBT_NOTE_SIZE bytes, for a remark on the data; or NULL */
    FILE *out;              /* one value per line */
    bool has_probabilities; /* a line is the probabilities of all classes, where there are some */
};

/* What computing costs, as the algorithm tells it to a simulation (rbt_worker_spend). `rubato bench
 * cost` measures it. */
struct rbt_algo_cost {
    const char *name; /* "nonzero", for linear_ns_per_nonzero */
    double ns;        /* on one core of full speed */
};

/* A format of other programs that a model can be written in (`rubato export`). */
struct rbt_algo_export {
    const char *name;    /* "liblinear" */
    const char *summary; /* one line for --help */
    /* Text to `out`, whose errors the caller looks for. Fails with RBT_E_INVALID if the format
     * cannot hold this model. */
    rbt_status (*write)(const struct rbt_model *model, FILE *out);
};

/* What an algorithm that shares the options of another one has as a default instead of it. */
struct rbt_algo_default {
    const char *name;
    const char *value;
};

struct rbt_algo {
    const char *name;     /* "linear" */
    const char *summary;  /* one line for `rubato train --list` */
    const char *examples; /* two command lines for --help */
    uint32_t model_kind;  /* of its models, in their files; another number than all others have */
    const struct rbt_option *options;
    size_t option_count;
    const char *const *groups; /* its own headings of options, ends with NULL; NULL: none */
    const struct rbt_algo_default *defaults; /* ends with a name of NULL; NULL: none */
    size_t config_size;                      /* of the struct that options write into */
    const struct rbt_algo_cost *costs;
    size_t cost_count;
    int64_t epochs_default;                   /* when --epochs is not given */
    int64_t (*epochs_of)(const void *config); /* the same if it depends on options; NULL: no */
    /* May fail with RBT_E_INVALID when options contradict each other. Writes the model file itself,
     * atomically, unless interrupted. */
    rbt_status (*train)(const struct rbt_train_options *options, const void *config,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary);
    /* Whether all could be written is the caller's to find out. */
    rbt_status (*predict)(const struct rbt_model *model, const struct rbt_predict_options *options);
    rbt_status (*evaluate)(const struct rbt_model *model, const struct rbt_predict_options *options,
                           struct rbt_metrics *metrics);
    /* For `predict --probabilities`: what this model is, if what it predicts is no probabilities,
     * else NULL. No function: no model has any. */
    const char *(*why_uncertain)(const struct rbt_model *model);
    const struct rbt_algo_export *exports; /* ends with a name of NULL; NULL: none */
    /* What `rubato info` tells of a model besides its arrays; NULL: nothing. */
    void (*describe)(const struct rbt_model *model, FILE *out);
};

#endif
