/* algo/frame/guide.c - how stale training may be, judged by its objective. */
#include "algo/frame/guide.h"

#include <math.h>

#include "base/assert.h"

enum {
    FIRST_MAX = 2, /* clocks; the first bound is not larger */
    TOP_MIN = 3,   /* clocks; nor is the last one smaller, if nothing goes wrong */
    PARDON = 2,    /* passes that show what was done under a bound that has been given up */
};

/* What the objective may rise from pass to pass, as a part of all that it has fallen. */
static const double rise_max = 0.005;

static int64_t between(int64_t low, int64_t value, int64_t high)
{
    RBT_ASSERT(low <= high);
    return value < low ? low : value > high ? high : value;
}

void rbt_guide_init(struct rbt_guide *guide, int64_t clocks_per_pass)
{
    RBT_ASSERT(clocks_per_pass >= 1);
    const int64_t most = clocks_per_pass - clocks_per_pass / 4;
    *guide = (struct rbt_guide){.bound = between(1, clocks_per_pass / 2, FIRST_MAX),
                                .max = most > TOP_MIN ? most : TOP_MIN,
                                .objective = INFINITY,
                                .highest = -INFINITY};
    RBT_ASSERT(guide->bound <= guide->max);
}

int64_t rbt_guide_step(struct rbt_guide *guide, double objective)
{
    RBT_ASSERT(guide->bound >= 1 && guide->bound <= guide->max);
    guide->highest = fmax(guide->highest, objective);
    const double allowed = rise_max * (guide->highest - objective);
    const bool is_good = objective - guide->objective <= allowed; /* what is no number is not */
    guide->objective = objective;
    if (guide->pardoned > 0) {
        guide->pardoned--;
    } else if (!is_good) {
        guide->bound = between(1, guide->bound / 4, guide->max);
        guide->max = guide->bound;
        guide->pardoned = PARDON;
    } else {
        guide->bound = between(1, 2 * guide->bound + 1, guide->max);
    }
    RBT_ASSERT(guide->bound >= 1 && guide->bound <= guide->max);
    return guide->bound;
}
