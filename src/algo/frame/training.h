/* algo/frame/training.h - what every algorithm's training has in common: the job and its clocks,
 * figures per epoch, when to stop, and the end.
 *
 * Every worker takes its part of the data (begin), tells the others how often it uses which rows,
 * ends that clock, and learns the sums (ready). Then it does `clocks_per_epoch` chunks of work per
 * epoch, one per clock. At the end of an epoch it adds its figures to row `epoch` of a table;
 * worker 0 reports the epoch when everybody's are there, which under bounded staleness may be some
 * clocks later, and asks all to stop, through another table, when the goal is reached.
 *
 * Time is the job's: real seconds, or virtual ones in a simulation, where reading the data takes
 * none and computing takes what the algorithm says with rbt_worker_spend(). Nothing that happens
 * depends on the time that it takes here.
 *
 * Threads: callbacks with a worker run on that worker's thread, the others on the caller's. */
#ifndef RUBATO_ALGO_FRAME_TRAINING_H
#define RUBATO_ALGO_FRAME_TRAINING_H

#include "algo/frame/algo.h"
#include "algo/frame/rules.h"

/* A worker's part of an epoch. */
struct rbt_training_chunk {
    int64_t epoch;
    int64_t index; /* of `count` chunks in the epoch */
    int64_t count;
};

/* What a chunk of work adds. */
struct rbt_training_figures {
    double loss;    /* sum of the losses of its examples, each just before its step */
    uint64_t count; /* examples */
};

struct rbt_training_task {
    /* Opens the algorithm's tables. */
    rbt_status (*open)(void *context, rbt_job *job);
    /* Takes the worker's share and adds its usage of rows; must not wait for others. May be NULL:
     * there is nothing to tell. */
    rbt_status (*begin)(void *context, rbt_worker *worker);
    /* Gets everybody's usage; worker 0 also stores how many parameters there are. */
    rbt_status (*ready)(void *context, rbt_worker *worker, uint64_t *parameters);
    /* Pulls, works through a chunk; then, if the loss is finite, sends the updates. */
    rbt_status (*work)(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures);
    rbt_status (*push)(void *context, rbt_worker *worker);
    /* The worker's part of the regularisation term; the parts add up to the whole. May be
     * NULL: there is none. */
    double (*penalty)(void *context, rbt_worker *worker);
    /* Undoes what begin and ready did with the worker's tables, also if they failed half-way. */
    void (*end)(void *context, rbt_worker *worker);
    /* The model as it is now, at most `staleness` clocks old, into an empty `model`. */
    rbt_status (*collect)(void *context, rbt_worker *worker, int64_t staleness,
                          struct rbt_model *model);
    /* Exact objective on the training data; metrics on the evaluation data, if there is any. Also
     * called by worker 0 while the others work or get ready. */
    rbt_status (*objective)(void *context, const struct rbt_model *model, double *objective);
    rbt_status (*evaluate)(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics);
    /* Worker 0, if training is watched: looks at the model after so many passes, which it may take
     * away, and says whether going on is of no use; at the end the model becomes the best one. */
    rbt_status (*watch)(void *context, rbt_worker *worker, double passes, struct rbt_model *model,
                        bool *is_over);
    rbt_status (*settle)(void *context, struct rbt_model *model);
    /* Worker 0: a few words about the model as it forms, for those who watch; may leave `text`
     * empty. May be NULL. */
    void (*note)(void *context, rbt_worker *worker, char *text, size_t size);
    /* Worker 0: in what the workers differ, of an epoch that they have completed. May be NULL. */
    rbt_status (*compare)(void *context, rbt_worker *worker, int64_t epoch, int64_t staleness,
                          struct rbt_metrics *by_worker);
};

struct rbt_training {
    const struct rbt_train_options *options;
    const struct rbt_observer *observer;
    const struct rbt_training_task *task;
    void *context;            /* of the callbacks */
    uint64_t examples;        /* in the training data */
    uint32_t workers;         /* at least 1 */
    int64_t epochs;           /* at least 1 */
    int64_t clocks_per_epoch; /* at least 1 */
    const struct rbt_rules *rules;
    double started;  /* rbt_clock_seconds() before the data was read */
    bool has_eval;   /* evaluate may be called */
    bool is_watched; /* watch and settle are called */
    bool is_apart;   /* examples are the workers' alone while they work: objective has to wait */
    /* tolerance: training has converged, and stops, when passes lower the objective by no more than
     * this part of it; 0: it never stops for that. A summary says if it has not within `epochs`.
     * trivial: the objective of a model that knows nothing; 0: not known. A training that ends far
     * above it has diverged and fails, and writes no model. trivial_name: whose objective that is,
     * "a model of all zeros". remedy: what to do about it; NULL: a smaller --lr. */
    double tolerance;
    double trivial;
    const char *trivial_name;
    const char *remedy;
};

/* What the options say about a training. The caller adds what is its own: context, rules, examples
 * and clocks_per_epoch. `epochs` is for options that do not say how many. */
struct rbt_training rbt_training_of(const struct rbt_train_options *options,
                                    const struct rbt_observer *observer,
                                    const struct rbt_training_task *task, int64_t epochs);

/* Trains, measures, and writes the model. */
RBT_MUST_USE rbt_status rbt_training_run(const struct rbt_training *training,
                                         struct rbt_train_summary *summary);

/* How many clocks an epoch has: what the options say, or 1, or for gradients what is good there. */
int64_t rbt_training_clocks(const struct rbt_train_options *options, const struct rbt_rules *rules);

/* Puts the rows of a table where the command line says; `keys` are those that it will have. */
void rbt_training_place(const struct rbt_train_options *options, const uint64_t *keys, size_t count,
                        struct rbt_table_options *table);

/* Step sizes as a function of the number of passes t that the worker has made:
 *     constant  lr          sqrt  lr / sqrt(1 + decay t)          decay  lr / (1 + decay t) */
enum rbt_schedule {
    RBT_SCHEDULE_CONSTANT,
    RBT_SCHEDULE_SQRT,
    RBT_SCHEDULE_DECAY,
};
struct rbt_training_rate {
    enum rbt_schedule schedule;
    double lr;
    double decay;
};
double rbt_training_rate_at(const struct rbt_training_rate *rate, double passes);

/* Names for options, in the order of enum rbt_schedule and of enum rbt_combine; end with NULL. */
extern const char *const rbt_training_schedules[];
extern const char *const rbt_training_combines[];

#endif
