/* algo/fm/fm.h - `rubato train fm`. */
#ifndef RUBATO_ALGO_FM_FM_H
#define RUBATO_ALGO_FM_FM_H

#include "algo/frame/algo.h"
#include "algo/frame/column_options.h"

extern const struct rbt_algo rbt_fm;

enum { RBT_MODEL_FM = 4 }; /* the kind of its models */

/* The options of `train fm`, and what they write into. */
#define RBT_FM_OPTIONS(OPTION)                                                                     \
    OPTION(CHOICE, loss, "loss", .choices = loss_names, .value = "logistic",                       \
           .help = "Loss to minimise. logistic needs two labels; squared predicts a number.")      \
    OPTION(INT, rank, "rank", .min = 1, .max = 4096, .value = "16",                                \
           .help = "Length of an embedding; multiples of 8 are fastest.")                          \
    OPTION(INT, min_count, "min-count", .min = 0, .max = 1e15, .value = "0", .unit = "examples",   \
           .help = "Features that occur in fewer examples get no embedding. 0 is twice the rank; " \
                   "1 is no limit.")                                                               \
    OPTION(FLAG, is_shrunk, "shrink-v", .value = "true",                                           \
           .help = "Give no embedding to features whose weight is zero.")                          \
    OPTION(REAL, l1, "l1", .min = 0, .max = 1e6, .value = "nan",                                   \
           .help = "Weight of ||w||_1 against the sum of losses; makes weights exactly zero. By "  \
                   "default 1, which the sum of a feature's gradients in a pass must exceed; "     \
                   "less if the values of an example add up to more than 40.")                     \
    OPTION(REAL, l2, "l2", .min = 0, .max = 1e6, .value = "nan",                                   \
           .help = "Weight of ||w||^2 / 2 against the sum of losses. By default training chooses " \
                   "it; with a rule that takes gradients it is 0.")                                \
    OPTION(REAL, l2_v, "l2-v", .min = 0, .max = 1e6, .value = "nan",                               \
           .help = "Weight of ||V_i||^2 / 2 for each minibatch that has the feature; workers "     \
                   "that train their own copies count 100 minibatches per pass. By default "       \
                   "training chooses it; with a rule that takes gradients it is 0.04.")            \
    OPTION(REAL, lr, "lr", .min = 0, .max = 1e6, .value = "nan",                                   \
           .help = "Step size of the weights. By default 0.3, or less if the values of an "        \
                   "example add up to more than 40. With a rule that takes gradients it sets the " \
                   "rule's lr; ftrl has 0.1 by default.")                                          \
    OPTION(REAL, lr_v, "lr-v", .min = 0, .max = 1e6, .value = "nan",                               \
           .help = "Step size of the embeddings; it falls to a tenth by the end. By default 0.2, " \
                   "reduced like --lr. With rule ftrl 0.2 divided by the number of workers, but "  \
                   "at most 0.1.")                                                                 \
    OPTION(FLAG, stops_early, "early-stop", .value = "true",                                       \
           .help = "Evaluate the model after every pass on 5% of the examples, held out until "    \
                   "the last passes. If it has got worse by then, or has not improved for "        \
                   "--patience passes, return the best model. Off if --epochs, --target or "       \
                   "--until is given without --patience.")                                         \
    OPTION(INT, batch, "batch", .min = 0, .max = 1e9, .value = "0", .unit = "examples",            \
           .help = "Examples of a clock, all workers together, unless --clocks-per-epoch is "      \
                   "given. 0 is a quarter of the data; with a rule that takes gradients a "        \
                   "hundredth, from 100 to 10000.")                                                \
    OPTION(FLAG, has_bias, "bias", .value = "true",                                                \
           .help = "Learn a constant term, which is not regularised.")                             \
    OPTION(CHOICE, combine, "combine", .choices = rbt_training_combines, .value = "auto",          \
           .help =                                                                                 \
               "How the updates of several workers become one, with a rule that takes moves: "     \
               "their mean, weighted by how often each worker uses the feature, or their sum. "    \
               "auto chooses between the two, as far as one worker with all examples would move.")

struct rbt_fm_config {
    RBT_FM_OPTIONS(RBT_OPTION_FIELD)
    struct rbt_column_config columns; /* of tables with text */
};

#endif
