/* algo/mf/mf_adaptation.h - how far a row moves for a rating: the adaptive steps of mf.
 *
 * AdaGrad divides a row's step by the root of the sum of its squared gradients. Most of that sum is
 * known without looking at the row: a user's gradient is about e q, so after t passes a user with n
 * ratings per pass has gathered about
 *
 *     n A(t),   A(t): the integral over the passes of (mean e^2) (mean of an item's q_j^2)
 *
 * and with it go the steps of factors, for items alike with the users' p:
 *
 *     lr sqrt(s) / sqrt(0.1 s^3 + n A(t))       lr: 0.08 by default
 *
 * where s is the deviation of the ratings, so that their scale makes no difference. Biases
 * are means rather than directions, and noise alone tells how far to trust a rating:
 *
 *     0.1 / (1 + n t / 10)^(3/4)
 *
 * Compared with sums per row this needs no state that could be lost, and no time per rating; on
 * MovieLens and generated ratings it converges as fast.
 *
 * An item is shared by several workers, and n counts the ratings of all of them, so that each
 * rating moves the item as far as it would with one worker. What the workers' moves of a clock
 * count when they are added goes by how far they went. A rating takes a factor a part x of the way
 * to where it wants it,
 *
 *     x = step (mean p_j^2 + l2)       for biases x = step (1 + l2)
 *
 * and m ratings about m x / (1 + m x) of it. A worker with m of the item's ratings of a clock, of
 * which the others have k, therefore sends its move times
 *
 *     (1 + m x) / (1 + (m + (1 + s / 2) k) x)
 *
 * where s is the staleness: a read is on average half as old as it may be, and then the moves of
 * 1 + s / 2 clocks of the others begin from the same values.
 * While steps are small or ratings few, that is 1, and moves add up; where each worker goes all the
 * way, it is their mean. With means alone, 32 workers took twice the passes to find out what items
 * with 20 ratings are like; with sums alone, items with many overshoot.
 *
 * Threads: owned by a worker. */
#ifndef RUBATO_ALGO_MF_MF_ADAPTATION_H
#define RUBATO_ALGO_MF_MF_ADAPTATION_H

#include <rubato/rubato.h>
#include <stddef.h>

#include "math/kernels.h"

/* What belongs to one side, users or items. */
struct rbt_mf_side {
    struct rbt_mf_steps *steps; /* (count) */
    const uint32_t *ratings;    /* (count): of this worker, per pass; borrowed */
    const float *totals;        /* (count): of all workers; NULL: there are no others */
    size_t count;
    double gathered;  /* A */
    double gathering; /* A per pass, at the time */
    double size;      /* mean over the worker's ratings of the mean squared factor of the row */
};

struct rbt_mf_adaptation {
    struct rbt_mf_side users;
    struct rbt_mf_side items;
    double lr;
    double scale;  /* s */
    double passes; /* when the steps were last made; before that below 0 */
    double due;    /* when they are made next */
    double errors; /* sum of e^2 since */
    double ratings;
};

/* What it begins with. */
struct rbt_mf_adaptation_options {
    const uint32_t *user_ratings; /* (user_count), at least one each; borrowed */
    size_t user_count;
    const uint32_t *item_ratings;
    const float *item_totals; /* (item_count): of all workers, at least item_ratings; borrowed */
    size_t item_count;
    double lr;
    double scale; /* above 0 */
};

/* On failure it is empty and may be closed. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_mf_adaptation_open(const struct rbt_mf_adaptation_options *options,
                                               struct rbt_mf_adaptation *adaptation);
void rbt_mf_adaptation_close(struct rbt_mf_adaptation *adaptation);

/* Makes the steps of `run`, which begins after so many passes, and puts them there. They are made
 * anew when the number of passes has grown enough, not on every call. */
void rbt_mf_adaptation_step(struct rbt_mf_adaptation *adaptation, double passes,
                            struct rbt_mf_run *run);

/* What the run has told: its sum of e^2. */
void rbt_mf_adaptation_note(struct rbt_mf_adaptation *adaptation, const struct rbt_mf_run *run,
                            double errors);
/* What a clock of several workers is like. */
struct rbt_mf_clock {
    double passes;    /* over the ratings; above 0 */
    double staleness; /* in clocks */
    double l2;
};

/* What this worker's moves of its items count, after a clock with the steps as they are now: of
 * factors and of biases, (item_count) each. Exactly 1 where the worker has all ratings. */
void rbt_mf_adaptation_shares(const struct rbt_mf_adaptation *adaptation,
                              const struct rbt_mf_clock *clock, float *factors, float *biases);

#endif
