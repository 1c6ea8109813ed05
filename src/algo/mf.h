/* algo/mf.h - `rubato train mf`. */
#ifndef RUBATO_ALGO_MF_H
#define RUBATO_ALGO_MF_H

#include "algo/algo.h"

extern const struct rbt_algo rbt_mf;

/* What the options of `train mf` write into. */
struct rbt_mf_config {
    int64_t rank;
    double l2;
    double lr;        /* NaN: the default */
    int32_t schedule; /* enum rbt_schedule */
    double decay;
    bool has_bias;
    bool is_nonnegative; /* then there are no biases */
    int32_t combine;     /* enum rbt_combine */
};

#endif
