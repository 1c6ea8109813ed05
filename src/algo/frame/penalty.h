/* algo/frame/penalty.h - how strong an L2 penalty should be, found on examples that are held out.
 *
 * A penalty of `total` / 2 ||w||^2 beside the sum of the losses is a prior belief about the
 * weights, whatever the number of examples; so what is right for a sample is right for all. Weights
 * are trained with penalties from strong to weak, each starting from the last one's (descent.h),
 * and the losses of the examples that are held out tell which is best. Few examples are held out in
 * turn, all of them.
 *
 * The result depends on the share alone, to the last bit. Threads: some of its own. */
#ifndef RUBATO_ALGO_FRAME_PENALTY_H
#define RUBATO_ALGO_FRAME_PENALTY_H

#include "data/examples.h"
#include "math/loss.h"

enum {
    RBT_PENALTY_EXAMPLES_MIN = 50,      /* fewer tell nothing */
    RBT_PENALTY_EXAMPLES_MAX = 30000,   /* more are not looked at */
    RBT_PENALTY_PRODUCTS_MAX = 1500000, /* nor more nonzeros; with classes, fewer */
};

struct rbt_penalty_options {
    enum rbt_loss loss;
    size_t classes; /* 1, or of softmax how many */
    bool has_bias;  /* which is not penalised */
};

struct rbt_penalty {
    double total;    /* penalty of all examples together: l2 times their number */
    size_t examples; /* that were looked at */
    size_t held_out; /* of which so many were held out */
    double loss;     /* their mean loss with it */
};

/* How many examples of `count` are worth a place in a sample: more would not be looked at. */
size_t rbt_penalty_examples(size_t count, uint64_t nonzeros, size_t classes);

/* Finds out from the first examples of the share, which are in random order. With fewer than
 * RBT_PENALTY_EXAMPLES_MIN, `total` is 1. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_penalty_find(const struct rbt_share *share,
                                         const struct rbt_penalty_options *options,
                                         struct rbt_penalty *found);

/* About how many bytes that takes. */
double rbt_penalty_bytes(const struct rbt_share *share, const struct rbt_penalty_options *options);

#endif
