/* algo/frame/standard.h - features that are far from zero, or of different units, made alike for
 * solvers.
 *
 * Feature j of an example becomes (x - mean_j) scale_j, in examples and thereby in all that is made
 * of them; what was not there, because it was 0, is then there. Weights that were found so are
 * folded back into the units of the file:
 *
 *     w_j <- w_j scale_j,   b <- b + label - sum_j mean_j w_j
 *
 * with the w_j of the file in the sum, as they are rounded, so that nothing is lost but what a bias
 * of type float cannot hold. Since the bias is not penalised, a shift changes neither the minimum
 * nor its value. A scale does: the penalty is on the scaled feature's weight. Therefore only
 * columns of tables have one, 1 / standard deviation, because these have units of measurement; the
 * values of other formats stay as they are.
 *
 * Features that are 0 or 1 alone are left alone, and so are means of less than a standard
 * deviation, or two outside of tables, where a shift is little help and makes sparse data dense.
 *
 * Threads: none; what was found may be read by several. */
#ifndef RUBATO_ALGO_FRAME_STANDARD_H
#define RUBATO_ALGO_FRAME_STANDARD_H

#include "algo/frame/model.h"
#include "data/examples.h"

struct rbt_standard {
    size_t count;   /* features that change; 0: none */
    uint64_t *keys; /* (count), increasing */
    double *means;  /* (count); 0: stays where it is */
    double *scales; /* (count) */
    double label;   /* what is taken from every label */
};

struct rbt_standard_options {
    bool has_shift; /* there is a bias, which takes it up */
    bool has_label; /* labels are quantities, and are made to have the mean 0 */
    bool has_scale; /* examples are rows of tables */
};

/* Finds out what becomes of features when examples come part by part, all of them twice and in the
 * same order:
 *
 *     struct rbt_standard_finder finder = {.options = options, .count = examples in all};
 *     st = rbt_standard_list(&finder, &part), for all of them;
 *     st = rbt_standard_listed(&finder);
 *     rbt_standard_look(&finder, &part), for all of them again;
 *     st = rbt_standard_make(&finder, &standard);
 *     rbt_standard_finder_free(&finder);
 *
 * Functions that fail do so with RBT_E_NOMEM. */
struct rbt_standard_moments;
struct rbt_standard_finder {
    struct rbt_standard_options options;
    size_t count;   /* examples in all */
    size_t listed;  /* of these have been listed */
    uint64_t *keys; /* of features that may change: (room) */
    size_t key_count;
    size_t room;
    uint64_t *drawn; /* of a sample of the examples: (drawn_room) */
    size_t drawn_count;
    size_t drawn_room;
    size_t sampled;                       /* examples in it */
    struct rbt_standard_moments *moments; /* (key_count), since rbt_standard_listed() */
    double labels;                        /* sum */
};
RBT_MUST_USE rbt_status rbt_standard_list(struct rbt_standard_finder *finder,
                                          const struct rbt_examples *part);
RBT_MUST_USE rbt_status rbt_standard_listed(struct rbt_standard_finder *finder);
void rbt_standard_look(struct rbt_standard_finder *finder, const struct rbt_examples *part);

/* `standard` is empty at first, and on failure again. */
RBT_MUST_USE rbt_status rbt_standard_make(const struct rbt_standard_finder *finder,
                                          struct rbt_standard *standard);

/* Accepts an empty one and leaves one. */
void rbt_standard_finder_free(struct rbt_standard_finder *finder);

/* All of that for examples that are in memory. `standard` is empty at first, and on failure again.
 * Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_standard_find(const struct rbt_examples *examples,
                                          const struct rbt_standard_options *options,
                                          struct rbt_standard *standard);

/* Changes the examples. On failure, RBT_E_NOMEM, they are as they were. */
RBT_MUST_USE rbt_status rbt_standard_apply(const struct rbt_standard *standard,
                                           struct rbt_examples *examples);

/* The weights, and the bias unless it is NULL, of a model that was trained on changed examples, in
 * the units of the file; and the other way round. Arrays of width classes. Fail with RBT_E_NOMEM.
 */
RBT_MUST_USE rbt_status rbt_standard_fold(const struct rbt_standard *standard,
                                          struct rbt_model_array *weights,
                                          struct rbt_model_array *bias);
RBT_MUST_USE rbt_status rbt_standard_unfold(const struct rbt_standard *standard,
                                            struct rbt_model_array *weights,
                                            struct rbt_model_array *bias);

/* Accepts an empty one and leaves one. */
void rbt_standard_free(struct rbt_standard *standard);

#endif
