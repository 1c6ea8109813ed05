/* net/spin.h - whether to look again for a moment before going to sleep.
 *
 * Waking a thread on another core costs some 20 us, as long as many answers take. Looking again and
 * again for that time is cheaper, if something comes; if nothing does, it is a waste that others
 * could have used. So it is tried, and tried more seldom the less it pays.
 *
 * Threads: a spin belongs to one thread. */
#ifndef RUBATO_NET_SPIN_H
#define RUBATO_NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* Starts as all zero. */
struct rbt_spin {
    rbt_time budget; /* for one time; 0: not known yet, RBT_TIME_NEVER: this machine has one core */
    uint32_t score;  /* of the last times, 0 .. 256: how often it paid */
    uint32_t skipped; /* since it was last tried */
    rbt_time until;   /* when the one under way ends */
};

/* Whether to look for a while; and, after each look that found nothing, whether to look once more.
 * Lets other threads of this core go first. */
bool rbt_spin_begin(struct rbt_spin *spin);
bool rbt_spin_again(const struct rbt_spin *spin);

/* Whether something came. */
void rbt_spin_end(struct rbt_spin *spin, bool has_paid);

#endif
