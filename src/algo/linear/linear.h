/* algo/linear/linear.h - `rubato train linear`. */
#ifndef RUBATO_ALGO_LINEAR_LINEAR_H
#define RUBATO_ALGO_LINEAR_LINEAR_H

#include "algo/frame/algo.h"
#include "algo/frame/column_options.h"
#include "algo/frame/training.h"

extern const struct rbt_algo rbt_linear;

/* The same with other defaults. */
extern const struct rbt_algo rbt_svm;
extern const struct rbt_algo rbt_lasso;

/* Schedules that other algorithms do not have. */
enum rbt_linear_schedule {
    RBT_LINEAR_COOL = RBT_SCHEDULE_DECAY + 1, /* ends at nothing with the last pass */
    RBT_LINEAR_SCHEDULE_AUTO, /* cool; decay with a rule or where the end is not known */
};

/* What the options of `train linear` write into. */
struct rbt_linear_config {
    int32_t loss; /* enum rbt_loss */
    double l1;
    double l2;
    int32_t l1_method; /* proximal, truncate */
    double theta;      /* truncation leaves larger weights alone */
    double lr;         /* NaN: the default */
    int32_t schedule;  /* enum rbt_schedule or rbt_linear_schedule */
    double decay;      /* NaN: the default */
    int32_t scale;     /* features, none, auto */
    int64_t batch;
    int32_t solver; /* of linear.c's list */
    bool has_bias;
    int32_t combine;      /* enum rbt_combine */
    int64_t blocks;       /* of features, with dbpg; 0: the default */
    int32_t blocks_by;    /* hash, range */
    int64_t delay;        /* of dbpg */
    int64_t kkt;          /* passes after which dbpg looks at all features, at least 1 */
    double kkt_margin;    /* share of l1 */
    int64_t minibatch;    /* of emso */
    double gamma;         /* of emso */
    int64_t inner;        /* steps or passes of emso; 0: the default */
    bool is_rebalanced;   /* slow workers hand examples on to fast ones */
    int32_t assign;       /* static, dynamic */
    int64_t parts;        /* of a pass, with dynamic; 0: the default */
    int32_t storage;      /* enum rbt_storage, of the examples */
    int64_t memory_limit; /* bytes of the process; 0: none */
    const char *cache;    /* directory for examples on disk, or NULL */
    int64_t count_min;    /* features that fewer examples have are left out */
    struct rbt_column_config columns; /* of tables with text */
    bool has_dictionary;              /* of their texts, instead of hashes */
};

#endif
