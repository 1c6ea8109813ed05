/* algo/kmeans/kmeans.h - `rubato train kmeans`. */
#ifndef RUBATO_ALGO_KMEANS_KMEANS_H
#define RUBATO_ALGO_KMEANS_KMEANS_H

#include "algo/frame/algo.h"
#include "algo/frame/column_options.h"

extern const struct rbt_algo rbt_kmeans;

enum { RBT_MODEL_KMEANS = 5 }; /* the kind of its models */

enum rbt_kmeans_init {
    RBT_KMEANS_PLUS,
    RBT_KMEANS_RANDOM,
};

/* The options of `train kmeans`, and what they write into. */
#define RBT_KMEANS_OPTIONS(OPTION)                                                                 \
    OPTION(INT, k, "k", .min = 1, .max = 1e6, .value = "8", .help = "Clusters.")                   \
    OPTION(CHOICE, init, "init", .choices = init_names, .value = "kmeans++",                       \
           .help = "Initial centres: points far from each other, or random points.")               \
    OPTION(INT, batch, "batch", .min = 0, .max = 1e9, .value = "0",                                \
           .help = "Points of a minibatch, all workers together; every clock has one. 0 is "       \
                   "Lloyd's algorithm, which uses all points in every step.")                      \
    OPTION(REAL, tolerance, "tol", .min = 0, .max = 1, .value = "nan",                             \
           .help = "Stop when a pass lowers the objective by at most this fraction. By default "   \
                   "1e-5, with --batch 1e-4, and at most 300 passes; with --epochs 0, which "      \
                   "makes exactly N passes.")                                                      \
    OPTION(FLAG, is_labelled, "labelled", .value = "false",                                        \
           .help = "Csv files have a label in --label-column, which is ignored; without it every " \
                   "column is a coordinate.")

struct rbt_kmeans_config {
    RBT_KMEANS_OPTIONS(RBT_OPTION_FIELD)
    struct rbt_column_config columns; /* of tables with text */
};

#endif
