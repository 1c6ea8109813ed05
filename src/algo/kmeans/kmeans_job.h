/* algo/kmeans/kmeans_job.h - one training of k-means, as the files of kmeans.c share it.
 *
 * kmeans.c has the options, the table and the end; kmeans_step.c what a worker does in a clock.
 * Threads: a worker touches its own entry of `workers`, and `nearest` and `lower` of its own
 * points; the rest is not changed while workers run. */
#ifndef RUBATO_ALGO_KMEANS_KMEANS_JOB_H
#define RUBATO_ALGO_KMEANS_KMEANS_JOB_H

#include "algo/frame/rules.h"
#include "algo/kmeans/kmeans.h"
#include "algo/kmeans/kmeans_points.h"

enum { RBT_KMEANS_BLOCK = 1024 };        /* points that a worker looks at together */
enum { RBT_KMEANS_STREAM = 0x6b6d6e73 }; /* "kmns": whose random numbers these are */
#define RBT_KMEANS_NO_CENTRE UINT32_MAX

struct rbt_kmeans_worker {
    rbt_set *set;
    struct rbt_kmeans_centres centres; /* of the last clock */
    float *before;                     /* (k, dims): of the clock before it */
    bool has_before;
    double drift; /* m: sum of the largest moves of a centre so far */
    float *scratch;
    /* Of a block: points to search, what was found, and distances of all points of the block. */
    uint32_t rows[RBT_KMEANS_BLOCK];
    uint32_t nearest[RBT_KMEANS_BLOCK];
    float first[RBT_KMEANS_BLOCK];
    float second[RBT_KMEANS_BLOCK];
    float distances[RBT_KMEANS_BLOCK];
};

struct rbt_kmeans_job {
    const struct rbt_train_options *options;
    struct rbt_kmeans_config config;
    struct rbt_rules rules;
    size_t k;
    size_t width;        /* of a row: dims, then the sum of squares, then the number of points */
    size_t column_count; /* of the data, if it is CSV; else 0 */
    struct rbt_data_options data; /* how files are read */
    struct rbt_column_plan plan;  /* of tables with text */
    struct rbt_kmeans_space space;
    struct rbt_kmeans_points points; /* in random order */
    struct rbt_kmeans_centres initial;
    uint32_t *nearest; /* of each point, or RBT_KMEANS_NO_CENTRE */
    float *lower;      /* d + m at the time of its last search; of Lloyd only */
    uint32_t worker_count;
    struct rbt_kmeans_worker *workers;
    struct rbt_examples eval;
    rbt_table *sums;
};

/* The number of points of centre c; the rows are (k, width). */
double rbt_kmeans_step_count(const struct rbt_kmeans_job *job, const double *rows, size_t c);

/* Adds point i to the update of a centre's row (sign 1), or takes it off (-1): its coordinates, its
 * square and itself. */
void rbt_kmeans_step_count_in(const struct rbt_kmeans_job *job, double *deltas, size_t i,
                              uint32_t centre, double sign);

/* values (k, dims) become the centres of the rows. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_kmeans_step_settle(const struct rbt_kmeans_job *job, const double *rows,
                                               float *values);

/* Gets the centres of this clock. Waits like rbt_set_pull(). */
RBT_MUST_USE rbt_status rbt_kmeans_step_pull(const struct rbt_kmeans_job *job,
                                             struct rbt_kmeans_worker *worker);

/* Assigns points begin .. end-1, puts the change into the worker's updates, adds the squared
 * distances to `loss`; returns how many points were searched. */
size_t rbt_kmeans_step_assign(struct rbt_kmeans_job *job, struct rbt_kmeans_worker *worker,
                              size_t begin, size_t end, double *loss);

#endif
