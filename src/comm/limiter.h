/* comm/limiter.h - how many bytes may be sent when: a bucket that leaks.
 *
 * The bucket holds the bytes that were sent and loses `rate` of them per second; what does not fit
 * must wait. So in any window of d seconds no more than rate * d + burst bytes go. What cannot wait
 * (the end of a clock) goes nevertheless and is noted: the bucket is then over-full, and the rest
 * waits for longer.
 *
 * The bucket is also a picture of the queue in front of a link that has just this rate: a byte that
 * is sent now waits there until the bucket has lost what is in it (rbt_limiter_delay).
 *
 * A machine without I/O: time is an argument, and a time before the last one counts as the last
 * one. Whole bytes and nanoseconds, and what is left over of a division is kept, so that nothing
 * drifts. Threads: none. */
#ifndef RUBATO_COMM_LIMITER_H
#define RUBATO_COMM_LIMITER_H

#include <stdint.h>

#include "base/clock.h"

struct rbt_limiter {
    uint64_t rate;  /* bytes per second; 0: nothing ever leaks */
    uint64_t burst; /* bytes */
    uint64_t level; /* in the bucket at `at`; may be above burst */
    uint64_t rest;  /* of the topmost byte so much has leaked already, in 10^-9 bytes */
    rbt_time at;
};

/* An empty bucket. */
void rbt_limiter_init(struct rbt_limiter *limiter, uint64_t rate, uint64_t burst, rbt_time now);

/* How many bytes may go now. */
uint64_t rbt_limiter_room(struct rbt_limiter *limiter, rbt_time now);

/* So many have gone, whether there was room for them or not. */
void rbt_limiter_note(struct rbt_limiter *limiter, rbt_time now, uint64_t bytes);

/* The first moment at which so many may go, if nothing else does: the next-event form. It may have
 * passed already. RBT_TIME_NEVER if there is none. `bytes` <= burst. */
rbt_time rbt_limiter_when(const struct rbt_limiter *limiter, uint64_t bytes);

/* How long it takes the bucket, as it was when last asked or noted, to become empty;
 * RBT_TIME_NEVER if it does not. */
rbt_time rbt_limiter_delay(const struct rbt_limiter *limiter);

#endif
