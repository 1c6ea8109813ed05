/* algo/fm/fm.h - `rubato train fm`. */
#ifndef RUBATO_ALGO_FM_FM_H
#define RUBATO_ALGO_FM_FM_H

#include "algo/frame/algo.h"
#include "algo/frame/column_options.h"

extern const struct rbt_algo rbt_fm;

/* What the options of `train fm` write into. */
struct rbt_fm_config {
    int32_t loss; /* index of the list of --loss; not an enum rbt_loss */
    int64_t rank;
    int64_t min_count; /* 0: twice the rank */
    bool is_shrunk;    /* no embedding where the weight is zero */
    double l1;         /* NaN: the default */
    double l2;         /* NaN: the default */
    double l2_v;       /* NaN: the default */
    double lr;         /* NaN: the default */
    double lr_v;       /* NaN: the default */
    bool stops_early;  /* when held-out examples say so, unless --epochs is given */
    int64_t batch;     /* 0: as fits the data */
    bool has_bias;
    int32_t combine;                  /* enum rbt_combine */
    struct rbt_column_config columns; /* of tables with text */
};

#endif
