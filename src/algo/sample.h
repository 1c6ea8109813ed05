/* algo/sample.h - a random sample of examples that does not depend on their order in the files.
 *
 * Examples are chosen, and put in order, by a hash of the seed, their label and their features. So
 * a file that is sorted gives the sample of one that is shuffled, and equal examples stand
 * together.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_SAMPLE_H
#define RUBATO_ALGO_SAMPLE_H

#include "data/examples.h"

struct rbt_sample {
    size_t count;
    uint64_t *places; /* of examples, in the order of the sample: (count) */
};

/* Chooses about `count_max` examples if there are more, else takes all. `sample` is empty at first.
 * Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_sample_choose(const struct rbt_examples *examples, uint64_t seed,
                                          size_t count_max, struct rbt_sample *sample);

/* A share of the chosen examples, in a random order that depends on the seed alone. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_sample_take(const struct rbt_examples *examples,
                                        const struct rbt_sample *sample, uint64_t seed,
                                        struct rbt_share *share);

/* Accepts an empty one and leaves one. */
void rbt_sample_free(struct rbt_sample *sample);

#endif
