/* algo/frame/guide.h - how stale training may be, judged by its objective.
 *
 * A larger bound lets workers wait less, but what they learn from stale parameters may be worth
 * less, or do harm; the most at first, when steps are large. So the bound starts with half a pass
 * over the data, but at most 2 clocks, and grows after every pass (s, 2s + 1, ...) up to three
 * quarters of a pass, or 3 clocks if that is more. An objective that rises from one pass to the
 * next says that this was too much: the bound falls to a quarter and grows no more. It may have to
 * fall again, but what was done under the larger bound shows for another two passes, so those are
 * not judged. bench/experiments/auto.py measures what this is worth.
 *
 *     rbt_guide_init(&guide, clocks_per_pass);              // guide.bound is the first
 *     after each pass: s = rbt_guide_step(&guide, objective);  // the bound from now on */
#ifndef RUBATO_ALGO_FRAME_GUIDE_H
#define RUBATO_ALGO_FRAME_GUIDE_H

#include <stdbool.h>
#include <stdint.h>

struct rbt_guide {
    int64_t bound;
    int64_t max;      /* it grows up to here */
    int64_t pardoned; /* passes that are not to be judged */
    double objective; /* of the pass before */
    double highest;   /* of all passes */
};

void rbt_guide_init(struct rbt_guide *guide, int64_t clocks_per_pass);

/* A pass is over, and its objective, which is to fall, was this. Returns the bound to use now. */
int64_t rbt_guide_step(struct rbt_guide *guide, double objective);

#endif
