/* algo/mf/mf.h - `rubato train mf`. */
#ifndef RUBATO_ALGO_MF_MF_H
#define RUBATO_ALGO_MF_MF_H

#include "algo/frame/training.h"

extern const struct rbt_algo rbt_mf;

enum { RBT_MODEL_MF = 2 }; /* the kind of its models */

/* Schedules that other algorithms do not have. */
enum rbt_mf_schedule {
    RBT_MF_SCHEDULE_ADAPTIVE = RBT_SCHEDULE_DECAY + 1, /* steps by row: mf_adaptation.h */
    /* Adaptive; decay if there is a step size, no bias, or another rule than a mean. */
    RBT_MF_SCHEDULE_AUTO,
};

/* The options of `train mf`, and what they write into. */
#define RBT_MF_OPTIONS(OPTION)                                                                     \
    OPTION(INT, rank, "rank", .min = 1, .max = 65536, .value = "16",                               \
           .help = "Factors per user and item; multiples of 8 are fastest.")                       \
    OPTION(REAL, l2, "l2", .min = 0, .max = 1e6, .value = "0.1",                                   \
           .help = "Weight of the squared factors and biases, per rating.")                        \
    OPTION(REAL, lr, "lr", .min = 0, .max = 1e6, .value = "nan",                                   \
           .help = "Initial step size. By default 0.08. With a rule that takes gradients it sets " \
                   "the rule's lr and has the rule's default.")                                    \
    OPTION(CHOICE, schedule, "schedule", .choices = schedules, .value = "auto",                    \
           .help = "Step size after t passes. constant: lr. sqrt: lr / sqrt(1 + decay t). decay: " \
                   "lr / (1 + decay t). adaptive: smaller for rows with many ratings or large "    \
                   "errors, at any scale of ratings. auto: adaptive, or decay with --lr, "         \
                   "--combine sum, --no-bias or a rule other than add.")                           \
    OPTION(REAL, decay, "decay", .min = 0, .max = 1e6, .value = "0.3",                             \
           .help = "Decay of the step size per pass; constant and adaptive ignore it.")            \
    OPTION(FLAG, has_bias, "bias", .value = "true",                                                \
           .help = "Learn an offset from the mean rating for every user and every item.")          \
    OPTION(FLAG, is_nonnegative, "non-negative",                                                   \
           .help = "Keep all factors at or above 0, so that every factor describes one part of a " \
                   "taste; there are no biases and no mean. Not for rules that take gradients.")   \
    OPTION(CHOICE, combine, "combine", .choices = rbt_training_combines, .value = "auto",          \
           .help =                                                                                 \
               "How the updates of several workers to an item become one: their mean, weighted "   \
               "by each worker's number of ratings of the item, or their sum. auto is the mean, "  \
               "or the sum for rules that weigh moves. Not for rules that take gradients.")

struct rbt_mf_config {
    RBT_MF_OPTIONS(RBT_OPTION_FIELD)
};

#endif
