/* core/tuner.c - finds the staleness that is worth its price. */
#include "core/tuner.h"

#include "base/assert.h"

enum {
    WINDOW = 6,       /* clocks that are timed */
    WINDOW_SHORT = 3, /* the same when there is little doubt */
    SETTLE_MAX = 6,   /* clocks that a smaller bound is given to take effect */
    HOLD_TIME = 96,   /* clocks until it looks again */
    CLIMB_FROM = 3,   /* a start up to here is first tried upwards */
};

/* A larger bound must be faster by this much, a smaller one may be slower by that much. */
static const double gain_min = 1.02;
static const double gain_clear = 1.25;
static const double loss_max = 0.97;

/* Measures from a little later on: `change` is by how much the bound has changed. Who may run
 * further ahead does so at once; who may not any more stops when the others are near enough. */
static void measure(struct rbt_tuner *tuner, int64_t floor, int64_t change)
{
    RBT_ASSERT(floor >= 0);
    RBT_ASSERT(change <= RBT_TUNER_BOUND_MAX);
    const int64_t by = change < 0 ? -change : change;
    const int64_t settle = by < SETTLE_MAX ? by : SETTLE_MAX;
    tuner->from = floor + 1 + settle;
    tuner->first = -1;
}

void rbt_tuner_init(struct rbt_tuner *tuner, int64_t start)
{
    RBT_ASSERT(start >= 0);
    *tuner =
        (struct rbt_tuner){.phase = RBT_TUNER_BASE,
                           .goes_up = start <= CLIMB_FROM,
                           .advice = -1,
                           .accepted = start <= RBT_TUNER_BOUND_MAX ? start : RBT_TUNER_BOUND_MAX};
    measure(tuner, 0, 0);
    RBT_ASSERT(tuner->accepted <= RBT_TUNER_BOUND_MAX);
}

/* The next bound on the way up. */
static int64_t above(int64_t bound, int64_t max)
{
    RBT_ASSERT(bound >= 0);
    RBT_ASSERT(max >= 0);
    return 2 * bound + 1 < max ? 2 * bound + 1 : max;
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
    RBT_ASSERT(floor >= 0);
    tuner->phase = RBT_TUNER_BASE;
    measure(tuner, floor, change);
}

/* Tries the next bound in its direction, if there is one. */
static bool start_try(struct rbt_tuner *tuner, int64_t floor)
{
    const int64_t s = tuner->accepted;
    const int64_t next = tuner->goes_up ? above(s, RBT_TUNER_BOUND_MAX) : s / 2;
    RBT_ASSERT(s >= 0 && s <= RBT_TUNER_BOUND_MAX);
    RBT_ASSERT(next >= 0);
    if (next == s) {
        return false;
    }
    tuner->phase = RBT_TUNER_TRY;
    tuner->tried = next;
    measure(tuner, floor, next - s);
    return true;
}

/* The next try does not go on; the other direction gets a chance unless this one has led here. */
static void give_up(struct rbt_tuner *tuner, int64_t floor, int64_t change)
{
    RBT_ASSERT(floor >= 0);
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
    RBT_ASSERT(tuner->phase == RBT_TUNER_TRY);
    RBT_ASSERT(tuner->tried != tuner->accepted);
    const bool is_good = speed >= tuner->speed * (tuner->goes_up ? gain_min : loss_max);
    if (!is_good) {
        give_up(tuner, floor, tuner->accepted - tuner->tried);
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

/* Whether enough clocks have been timed. */
static bool is_enough(const struct rbt_tuner *tuner, int64_t count, double speed)
{
    RBT_ASSERT(count >= 0);
    RBT_ASSERT(speed >= 0);
    const bool is_first = tuner->phase == RBT_TUNER_BASE && tuner->goes_up;
    const bool is_clear =
        tuner->phase == RBT_TUNER_TRY && tuner->goes_up && speed >= tuner->speed * gain_clear;
    return count >= (is_first || is_clear ? WINDOW_SHORT : WINDOW);
}

/* A bound that nobody has come near can as well be smaller; nothing need be measured for that. */
static void tighten(struct rbt_tuner *tuner, int64_t lag)
{
    RBT_ASSERT(lag >= 0);
    RBT_ASSERT(tuner->accepted >= 0);
    const int64_t enough = 2 * lag + 1;
    if (tuner->phase == RBT_TUNER_BASE && !tuner->goes_up && enough < tuner->accepted) {
        tuner->accepted = enough;
    }
}

void rbt_tuner_advise(struct rbt_tuner *tuner, int64_t bound)
{
    RBT_ASSERT(bound >= 0);
    tuner->advice = bound < RBT_TUNER_BOUND_MAX ? bound : RBT_TUNER_BOUND_MAX;
    RBT_ASSERT(tuner->advice >= 0);
}

int64_t rbt_tuner_step(struct rbt_tuner *tuner, const struct rbt_tuner_news *news)
{
    const int64_t floor = news->floor;
    const rbt_time now = news->now;
    RBT_ASSERT(now >= 0);
    RBT_ASSERT(floor >= 0);
    if (tuner->advice >= 0) {
        tuner->accepted = above(tuner->accepted, tuner->advice);
        return tuner->accepted;
    }
    tighten(tuner, news->lag);
    if (floor >= tuner->from) {
        if (tuner->phase == RBT_TUNER_HOLD) {
            tuner->steps = 0;
            tuner->failures = 0;
            start_base(tuner, floor, 0);
        } else if (tuner->first < 0) {
            tuner->first = floor;
            tuner->began = now;
        } else if (now > tuner->began) {
            const int64_t count = floor - tuner->first;
            const double speed = (double)count / ((double)(now - tuner->began) * 1e-9);
            if (is_enough(tuner, count, speed)) {
                finish_window(tuner, floor, speed);
            }
        }
    }
    return tuner->phase == RBT_TUNER_TRY ? tuner->tried : tuner->accepted;
}
