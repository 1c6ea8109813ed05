/* algo/frame/sample.h - a random sample of examples that does not depend on their order in the
 * files.
 *
 * Examples are chosen, and put in order, by a hash of the seed, their label and their features. So
 * a file that is sorted gives the sample of one that is shuffled. Of equal examples, which cannot
 * be told apart, as large a part is chosen as of all: it is counted first how many of each there
 * are. A sample is a copy of its examples, so that they may come part by part:
 *
 *     hashes[i] = rbt_sample_hash(...) of all examples;
 *     st = rbt_sample_draw(&sample, hashes, n, count_max);
 *     st = rbt_sample_pick(&sample, &part), and again until there is no part left;
 *     ... change sample.examples, not their number ...
 *     st = rbt_sample_share(&sample, &share);
 *     rbt_sample_free(&sample);
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_FRAME_SAMPLE_H
#define RUBATO_ALGO_FRAME_SAMPLE_H

#include "base/map.h"
#include "data/examples.h"

struct rbt_sample {
    uint64_t seed;                /* the caller's to set; else empty at first */
    struct rbt_map wanted;        /* places in `left`, by hash */
    uint32_t *left;               /* how many more of these are chosen */
    struct rbt_examples examples; /* in the order in which they came */
    uint64_t *hashes;             /* of these: (room) */
    size_t room;
    size_t nonzero_room;
};

uint64_t rbt_sample_hash(const struct rbt_examples *examples, size_t i, uint64_t seed);

/* Decides which examples are chosen: about `count_max` if there are more, else all. Sorts the
 * hashes, of all examples. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_sample_draw(struct rbt_sample *sample, uint64_t *hashes, size_t count,
                                        size_t count_max);

/* Takes what is chosen of some examples. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_sample_pick(struct rbt_sample *sample, const struct rbt_examples *part);

/* All of that for examples that are in memory. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_sample_choose(struct rbt_sample *sample,
                                          const struct rbt_examples *examples, size_t count_max);

/* A share of the chosen examples, in a random order that depends on the seed alone. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_sample_share(const struct rbt_sample *sample, struct rbt_share *share);

/* The places of about `count_max` of at most 2^32 - 1 examples that are held out of training, in
 * the order of their hashes. Equal examples stay together: what is held out is nowhere trained on.
 * The caller frees them with rbt_free(). Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_sample_places(const struct rbt_examples *examples, uint64_t seed,
                                          size_t count_max, uint32_t **places, size_t *count);

/* Accepts an empty one and leaves one. */
void rbt_sample_free(struct rbt_sample *sample);

#endif
