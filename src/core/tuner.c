/* core/tuner.c - finds the staleness that is worth its price. */
#include "core/tuner.h"

#include "base/assert.h"

enum {
    WINDOW = 6,      /* clocks that are timed */
    SETTLE_MAX = 6,  /* clocks that a change is given to take effect */
    HOLD_TIME = 96,  /* clocks until it looks again */
    BOUND_MAX = 127, /* more than this is as good as none */
    CLIMB_FROM = 3,  /* a start up to here is first tried upwards */
};

/* A larger bound must be faster by this much, a smaller one may be slower by that much. */
static const double gain_min = 1.08;
static const double loss_max = 0.95;

/* Measures from a little later on: `change` is by how much the bound has changed. */
static void measure(struct rbt_tuner *tuner, int64_t floor, int64_t change)
{
    RBT_ASSERT(floor >= 0);
    RBT_ASSERT(change >= 0);
    tuner->from = floor + 1 + (change < SETTLE_MAX ? change : SETTLE_MAX);
    tuner->first = -1;
}

void rbt_tuner_init(struct rbt_tuner *tuner, int64_t start)
{
    RBT_ASSERT(start >= 0);
    *tuner = (struct rbt_tuner){.phase = RBT_TUNER_BASE,
                                .goes_up = start <= CLIMB_FROM,
                                .accepted = start <= BOUND_MAX ? start : BOUND_MAX};
    measure(tuner, 0, 0);
    RBT_ASSERT(tuner->accepted <= BOUND_MAX);
}

static void hold(struct rbt_tuner *tuner, int64_t floor)
{
    RBT_ASSERT(floor >= tuner->from);
    RBT_ASSERT(tuner->accepted >= 0);
    tuner->phase = RBT_TUNER_HOLD;
    tuner->from = floor + HOLD_TIME;
    tuner->goes_up = !tuner->goes_up; /* the other way next time */
}

static void start_base(struct rbt_tuner *tuner, int64_t floor, int64_t change)
{
    RBT_ASSERT(tuner->accepted >= 0);
    RBT_ASSERT(change >= 0);
    tuner->phase = RBT_TUNER_BASE;
    measure(tuner, floor, change);
}

/* Tries the next bound in its direction, if there is one. */
static bool start_try(struct rbt_tuner *tuner, int64_t floor)
{
    const int64_t s = tuner->accepted;
    const int64_t next = tuner->goes_up ? 2 * s + 1 : s / 2;
    RBT_ASSERT(s >= 0 && s <= BOUND_MAX);
    RBT_ASSERT(next >= 0);
    if (next == s || next > BOUND_MAX) {
        return false;
    }
    tuner->phase = RBT_TUNER_TRY;
    tuner->tried = next;
    measure(tuner, floor, next > s ? next - s : s - next);
    return true;
}

/* The next try does not go on; the other direction gets a chance unless this one has led here. */
static void give_up(struct rbt_tuner *tuner, int64_t floor, int64_t change)
{
    RBT_ASSERT(change >= 0);
    RBT_ASSERT(tuner->failures < 2);
    tuner->failures++;
    if (tuner->steps > 0 || tuner->failures == 2) {
        hold(tuner, floor);
    } else {
        tuner->goes_up = !tuner->goes_up;
        start_base(tuner, floor, change);
    }
}

static void judge(struct rbt_tuner *tuner, int64_t floor, double speed)
{
    const int64_t change = tuner->tried > tuner->accepted ? tuner->tried - tuner->accepted
                                                          : tuner->accepted - tuner->tried;
    RBT_ASSERT(tuner->phase == RBT_TUNER_TRY);
    RBT_ASSERT(tuner->tried != tuner->accepted);
    const bool is_good = speed >= tuner->speed * (tuner->goes_up ? gain_min : loss_max);
    if (!is_good) {
        give_up(tuner, floor, change);
        return;
    }
    tuner->accepted = tuner->tried;
    tuner->steps++;
    if (speed > tuner->speed) { /* coming down, small losses must not add up */
        tuner->speed = speed;
    }
    if (!start_try(tuner, floor)) {
        hold(tuner, floor);
    }
}

static void finish_window(struct rbt_tuner *tuner, int64_t floor, double speed)
{
    RBT_ASSERT(speed >= 0);
    RBT_ASSERT(tuner->phase != RBT_TUNER_HOLD);
    if (tuner->phase == RBT_TUNER_TRY) {
        judge(tuner, floor, speed);
        return;
    }
    tuner->speed = speed;
    if (!start_try(tuner, floor)) {
        give_up(tuner, floor, 0);
    }
}

int64_t rbt_tuner_step(struct rbt_tuner *tuner, int64_t floor, rbt_time now)
{
    RBT_ASSERT(now >= 0);
    RBT_ASSERT(floor >= 0);
    if (floor >= tuner->from) {
        if (tuner->phase == RBT_TUNER_HOLD) {
            tuner->steps = 0;
            tuner->failures = 0;
            start_base(tuner, floor, 0);
        } else if (tuner->first < 0) {
            tuner->first = floor;
            tuner->began = now;
        } else if (floor >= tuner->first + WINDOW && now > tuner->began) {
            finish_window(tuner, floor,
                          (double)(floor - tuner->first) / ((double)(now - tuner->began) * 1e-9));
        }
    }
    return tuner->phase == RBT_TUNER_TRY ? tuner->tried : tuner->accepted;
}
