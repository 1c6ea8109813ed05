/* algo/linear/linear.h - `rubato train linear`. */
#ifndef RUBATO_ALGO_LINEAR_LINEAR_H
#define RUBATO_ALGO_LINEAR_LINEAR_H

#include "algo/frame/algo.h"
#include "algo/frame/column_options.h"
#include "algo/frame/training.h"

extern const struct rbt_algo rbt_linear;

enum { RBT_MODEL_LINEAR = 1 }; /* the kind of its models */

/* The same with other defaults. */
extern const struct rbt_algo rbt_svm;
extern const struct rbt_algo rbt_lasso;

/* Schedules that other algorithms do not have. */
enum rbt_linear_schedule {
    RBT_LINEAR_COOL = RBT_SCHEDULE_DECAY + 1, /* ends at nothing with the last pass */
    RBT_LINEAR_SCHEDULE_AUTO, /* cool; decay with a rule or where the end is not known */
};

/* Headings of options. */
#define RBT_GROUP_SGD  "Solver sgd"
#define RBT_GROUP_DBPG "Solver dbpg"
#define RBT_GROUP_EMSO "Solvers emso-gd and emso-cd"

/* The options of `train linear`, and what they write into. */
#define RBT_LINEAR_OPTIONS(OPTION)                                                                 \
    OPTION(CHOICE, loss, "loss", .group = RBT_GROUP_MODEL, .choices = losses, .value = "logistic", \
           .help =                                                                                 \
               "Loss to minimise. logistic and hinge need two labels; softmax takes any number "   \
               "of classes, whose labels may be numbers or texts; squared predicts a number.")     \
    OPTION(REAL, l2, "l2", .min = 0, .max = 1e6, .value = "nan",                                   \
           .help = "Weight of ||w||^2 / 2 in the objective per example. By default training "      \
                   "chooses it on held-out examples and the summary reports it.")                  \
    OPTION(REAL, l1, "l1", .min = 0, .max = 1e6, .value = "0",                                     \
           .help = "Weight of ||w||_1 in the objective; makes weights exactly zero.")              \
    OPTION(FLAG, has_bias, "bias", .value = "true",                                                \
           .help = "Learn a constant term, which is not regularised.")                             \
    OPTION(                                                                                        \
        CHOICE, solver, "solver", .choices = solver_names, .value = "auto",                        \
        .help =                                                                                    \
            "Method of minimisation. sgd: stochastic gradient descent. dbpg: delayed block "       \
            "proximal gradient, for --l1; finds the exact minimum and exact zeros. emso-gd, "      \
            "emso-cd: workers minimise large minibatches and average the results. cd: coordinate " \
            "descent, for --loss squared. lbfgs: limited memory BFGS, for --l2. newton: Newton's " \
            "method, exact, for up to some hundred features. cd, lbfgs and newton need no "        \
            "options of their own. auto: newton for few features, lbfgs for more features in "     \
            "dense examples, otherwise sgd; always sgd if another option needs it, such as "       \
            "--epochs, --rule, --lr, --l1 or a --consistency other than bsp.")                     \
    OPTION(REAL, lr, "lr", .group = RBT_GROUP_SGD, .min = 0, .max = 1e6, .value = "nan",           \
           .help =                                                                                 \
               "Initial step size. With --scale features it is relative: 1 is a full step; with "  \
               "--scale none it is absolute. By default 2; dbpg, emso and cd take 1. With a rule " \
               "that takes gradients it sets the rule's lr and has the rule's default.")           \
    OPTION(CHOICE, schedule, "schedule", .choices = schedules, .value = "auto",                    \
           .help = "Step size after t passes. constant: lr. sqrt: lr / sqrt(1 + decay t). decay: " \
                   "lr / (1 + decay t). cool: that of decay times 1 - t / epochs, which ends at "  \
                   "zero. auto: cool, or decay with a rule, --target or --patience.")              \
    OPTION(REAL, decay, "decay", .min = 0, .max = 1e6, .value = "nan",                             \
           .help =                                                                                 \
               "Decay of the step size per pass. By default 4; with cool 2 / number of workers.")  \
    OPTION(                                                                                        \
        CHOICE, scale, "scale", .choices = scales, .value = "auto",                                \
        .help =                                                                                    \
            "Scaling of steps by feature. features: larger steps for rare and small features and " \
            "a limit on every step, so that raw counts need no tuning. none: textbook gradient "   \
            "descent. auto: none for rules that adapt to gradients, otherwise features.")          \
    OPTION(INT, batch, "batch", .min = 1, .max = 1e6, .value = "1", .unit = "examples",            \
           .help = "Examples whose mean gradient makes one step.")                                 \
    OPTION(CHOICE, combine, "combine", .choices = rbt_training_combines, .value = "auto",          \
           .help = "How the updates of several workers become one. mean: their mean, weighted by " \
                   "how often each worker uses the feature. sum: their sum, which moves further "  \
                   "and needs short clocks. auto: the sum for rare features, closer to the mean "  \
                   "the more examples of a clock have the feature; the sum for rules that weigh "  \
                   "moves. Not for rules that take gradients.")                                    \
    OPTION(INT, blocks, "blocks", .group = RBT_GROUP_DBPG, .min = 0, .max = 1e6, .value = "0",     \
           .help = "Number of blocks of features; every clock updates one. 0 is 64, or 32 times "  \
                   "--delay if that is more.")                                                     \
    OPTION(INT, delay, "delay", .min = 0, .max = 60, .value = "0", .unit = "clocks",               \
           .help = "Blocks that a worker may start before it knows the step of an earlier one. "   \
                   "dbpg uses it in place of --consistency.")                                      \
    OPTION(INT, kkt, "kkt", .min = 1, .max = 1e6, .value = "8", .unit = "passes",                  \
           .help = "Skip weights that are zero and whose gradient is below --l1, except in every " \
                   "Nth pass; 1 skips none.")                                                      \
    OPTION(INT, minibatch, "minibatch", .group = RBT_GROUP_EMSO, .min = 1, .max = 1e12,            \
           .value = "100k", .unit = "examples",                                                    \
           .help =                                                                                 \
               "Examples of a clock, all workers together, unless --clocks-per-epoch is given.")   \
    OPTION(REAL, gamma, "gamma", .min = 0, .max = 1e6, .value = "0.01",                            \
           .help = "Penalty on the distance between a worker's weights and the common weights, "   \
                   "in the objective per example.")                                                \
    OPTION(INT, inner, "inner", .min = 0, .max = 1e6, .value = "0",                                \
           .help = "Steps per minibatch, or with emso-cd passes over its features. 0 is 5 steps "  \
                   "or 2 passes.")                                                                 \
    OPTION(CHOICE, assign, "assign", .group = RBT_GROUP_CLUSTER, .choices = assigns,               \
           .value = "static",                                                                      \
           .help = "Assignment of examples to workers. static: every worker has its share before " \
                   "training starts. dynamic: a pass is cut into parts and every idle worker "     \
                   "takes the next one, so that fast workers do more; parts of slow workers are "  \
                   "assigned again. With dynamic every worker holds all weights.")                 \
    OPTION(INT, parts, "parts", .min = 0, .max = 1e6, .value = "0",                                \
           .help = "Parts of a pass with --assign dynamic. 0 is 8 per worker and clock.")          \
    OPTION(FLAG, is_rebalanced, "rebalance",                                                       \
           .help = "At each clock, workers that are over 20% slower than the fastest give away "   \
                   "5% of their examples.")

#define RBT_LINEAR_MORE_OPTIONS(OPTION)                                                            \
    OPTION(FLAG, has_dictionary, "dictionary",                                                     \
           .help = "Number the texts of columns in order of appearance and store the list in the " \
                   "model, instead of hashing them: no two texts share a feature, features have "  \
                   "small numbers, and predict counts unknown texts.")                             \
    OPTION(INT, count_min, "min-count", .min = 0, .max = 1e9, .value = "0", .unit = "examples",    \
           .help = "Leave out features that occur in fewer training examples.")                    \
    OPTION(                                                                                        \
        INT, memory_limit, "memory-limit", .min = 1 << 24, .max = 9e18, .unit = "bytes",           \
        .help =                                                                                    \
            "Memory limit of the process, such as 500M or 4Gi. Examples that do not fit are kept " \
            "on disk and read again in every pass; results equal those of --storage memory.")      \
    OPTION(CHOICE, storage, "storage", .choices = storages, .value = "auto",                       \
           .help = "Where examples are kept. memory-and-disk moves to disk what memory cannot "    \
                   "hold. auto: memory, or memory-and-disk with --memory-limit.")                  \
    OPTION(TEXT, cache, "cache", .unit = "DIR",                                                    \
           .help = "Directory for examples on disk; needs about the size of the text and is "      \
                   "emptied at the end. By default $TMPDIR or /var/tmp.")                          \
    OPTION(CHOICE, l1_method, "l1-method", .group = RBT_GROUP_EXPERIMENTS, .choices = methods,     \
           .value = "proximal",                                                                    \
           .help = "How sgd applies --l1: proximal shrinks all weights, truncate only those of "   \
                   "at most --theta.")                                                             \
    OPTION(REAL, theta, "theta", .min = 0, .max = 1e30, .value = "1",                              \
           .help = "Largest weight that --l1-method truncate shrinks.")                            \
    OPTION(CHOICE, blocks_by, "blocks-by", .choices = blocks_by, .value = "hash",                  \
           .help = "How dbpg assigns features to blocks. hash mixes them, so that the features "   \
                   "of a block are nearly independent; range takes neighbours.")                   \
    OPTION(REAL, kkt_margin, "kkt-margin", .min = 0, .max = 1, .value = "0.1",                     \
           .help = "How far below --l1 the gradient of a weight must be before dbpg skips it, as " \
                   "a fraction of --l1.")

struct rbt_linear_config {
    RBT_LINEAR_OPTIONS(RBT_OPTION_FIELD)
    struct rbt_column_config columns; /* of tables with text */
    RBT_LINEAR_MORE_OPTIONS(RBT_OPTION_FIELD)
};

#endif
