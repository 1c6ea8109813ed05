/* net/spin.c - whether to look again for a moment before going to sleep. */
#include "net/spin.h"

#include <sched.h>

#include "base/thread.h"

enum {
    SPIN_TIME = 50000, /* ns: twice what a wake-up costs */
    SCORE_MAX = 256,
    SCORE_FIRST = 128,
    SCORE_LOW = 64, /* below this it is tried once in a while */
    SKIP_MAX = 31,  /* times that it is then left out */
    WEIGHT = 8,     /* of the past */
};

bool rbt_spin_begin(struct rbt_spin *spin)
{
    if (spin->budget == 0) {
        spin->budget = rbt_thread_cores() > 1 ? SPIN_TIME : RBT_TIME_NEVER;
        spin->score = SCORE_FIRST;
    }
    if (spin->budget == RBT_TIME_NEVER) {
        return false;
    }
    if (spin->score < SCORE_LOW && spin->skipped < SKIP_MAX) {
        spin->skipped++;
        return false;
    }
    spin->skipped = 0;
    spin->until = rbt_clock_now() + spin->budget;
    return true;
}

bool rbt_spin_again(const struct rbt_spin *spin)
{
    (void)sched_yield(); /* cannot fail */
    return rbt_clock_now() < spin->until;
}

void rbt_spin_end(struct rbt_spin *spin, bool has_paid)
{
    spin->score = (spin->score * (WEIGHT - 1) + (has_paid ? SCORE_MAX : 0)) / WEIGHT;
}
