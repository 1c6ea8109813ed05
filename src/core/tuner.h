/* core/tuner.h - finds the staleness that is worth its price.
 *
 * A larger bound lets workers wait less, until waiting no longer matters; beyond that it only makes
 * reads staler. What counts is how fast the slowest worker gets on: the floor. So the tuner
 * measures the floor's speed and keeps the smallest bound that is nearly as fast as any larger one:
 * it climbs (s, 2s + 1, ...) as long as that makes the floor clearly faster, and comes down (s, s /
 * 2, ...) as long as that costs next to nothing. Then it holds still, and looks again from time to
 * time.
 *
 * The floor's speed says nothing about how much a clock is worth. Who knows that, because there is
 * an objective to look at, advises the tuner, and from then on it does as it is told.
 *
 *     rbt_tuner_init(&tuner, start);
 *     after each clock: s = rbt_tuner_step(&tuner, &news);  // the bound from now on */
#ifndef RUBATO_CORE_TUNER_H
#define RUBATO_CORE_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { RBT_TUNER_BOUND_MAX = 127 }; /* more than this is as good as none */

enum rbt_tuner_phase {
    RBT_TUNER_BASE, /* measures the bound that it has */
    RBT_TUNER_TRY,  /* measures another one */
    RBT_TUNER_HOLD, /* has decided */
};

struct rbt_tuner {
    enum rbt_tuner_phase phase;
    bool goes_up;      /* where it tries next */
    int64_t advice;    /* the bound to use; < 0: it finds one itself */
    int64_t accepted;  /* the best bound so far */
    int64_t tried;     /* in TRY: the one that is on */
    double speed;      /* clocks per second with the accepted one */
    uint32_t steps;    /* tries that were accepted since it last held still */
    uint32_t failures; /* and those that were not */
    int64_t from;      /* the floor at which measuring, or the next look, begins */
    int64_t first;     /* floor and time when it did; first < 0: it has not begun */
    rbt_time began;
};

void rbt_tuner_init(struct rbt_tuner *tuner, int64_t start);

/* How far everybody is; floor and time are never less than before. */
struct rbt_tuner_news {
    int64_t floor;
    int64_t lag; /* how far the one who asks is ahead of the floor */
    rbt_time now;
};

/* Returns the bound to use from now on. */
int64_t rbt_tuner_step(struct rbt_tuner *tuner, const struct rbt_tuner_news *news);

/* Measures no more: goes to `bound`, down at once and up (s, 2s + 1, ...) step by step. */
void rbt_tuner_advise(struct rbt_tuner *tuner, int64_t bound);

#endif
