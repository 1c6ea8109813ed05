/* comm/limiter.h - how many bytes may be sent when: a bucket that leaks.
 *
 * The bucket holds the bytes that were sent and loses `rate` of them per second; what does not fit
 * must wait. So in any window of d seconds no more than rate * d + burst bytes go. What cannot wait
 * (the end of a clock) goes nevertheless and is noted: the bucket is then over-full, and the rest
 * waits for longer.
 *
 * A machine without I/O: time is an argument. Whole bytes and nanoseconds, so that nothing drifts. */
#ifndef RUBATO_COMM_LIMITER_H
#define RUBATO_COMM_LIMITER_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct rbt_limiter {
    uint64_t rate;  /* bytes per second */
    uint64_t burst; /* bytes */
    uint64_t level; /* in the bucket at `at`; may be above burst */
    uint64_t rest;  /* of a byte that has leaked, in byte * nanoseconds */
    rbt_time at;
};

void rbt_limiter_init(struct rbt_limiter *limiter, uint64_t rate, uint64_t burst, rbt_time now);

/* How many bytes may go now. */
uint64_t rbt_limiter_room(struct rbt_limiter *limiter, rbt_time now);

/* So many have gone. */
void rbt_limiter_note(struct rbt_limiter *limiter, rbt_time now, uint64_t bytes);

/* When so many may go, if nothing else does: the next-event form. `bytes` <= burst. */
rbt_time rbt_limiter_when(const struct rbt_limiter *limiter, uint64_t bytes);

#endif
