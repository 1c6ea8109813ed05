/* algo/mf/mf.h - `rubato train mf`. */
#ifndef RUBATO_ALGO_MF_MF_H
#define RUBATO_ALGO_MF_MF_H

#include "algo/frame/training.h"

extern const struct rbt_algo rbt_mf;

/* Schedules that other algorithms do not have. */
enum rbt_mf_schedule {
    RBT_MF_SCHEDULE_ADAPTIVE = RBT_SCHEDULE_DECAY + 1, /* steps by row: mf_adaptation.h */
    /* Adaptive; decay if there is a step size, no bias, or another rule than a mean. */
    RBT_MF_SCHEDULE_AUTO,
};

/* What the options of `train mf` write into. */
struct rbt_mf_config {
    int64_t rank;
    double l2;
    double lr;        /* NaN: the default */
    int32_t schedule; /* enum rbt_schedule or rbt_mf_schedule */
    double decay;
    bool has_bias;
    bool is_nonnegative; /* then there are no biases */
    int32_t combine;     /* enum rbt_combine */
};

#endif
