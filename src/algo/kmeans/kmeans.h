/* algo/kmeans/kmeans.h - `rubato train kmeans`. */
#ifndef RUBATO_ALGO_KMEANS_KMEANS_H
#define RUBATO_ALGO_KMEANS_KMEANS_H

#include "algo/frame/algo.h"
#include "algo/frame/column_options.h"

extern const struct rbt_algo rbt_kmeans;

enum rbt_kmeans_init {
    RBT_KMEANS_PLUS,
    RBT_KMEANS_RANDOM,
};

/* What the options of `train kmeans` write into. */
struct rbt_kmeans_config {
    int64_t k;
    int32_t init;     /* enum rbt_kmeans_init */
    int64_t batch;    /* points in a clock, of all workers; 0: Lloyd */
    double tolerance; /* NaN: as the epochs say */
    bool is_labelled;
    struct rbt_column_config columns; /* of tables with text */
};

#endif
