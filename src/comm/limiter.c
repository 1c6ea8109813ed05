/* comm/limiter.c - how many bytes may be sent when: a bucket that leaks.
 *
 * What is in the bucket is level - rest / 10^9 bytes, exactly, and never negative (1): what an
 * empty bucket might have lost is not saved up. Products of a rate and a time have 127 bits. */
#include "comm/limiter.h"

#include "base/assert.h"

enum { SECOND = 1000000000 };

__extension__ typedef unsigned __int128 wide;

void rbt_limiter_init(struct rbt_limiter *limiter, uint64_t rate, uint64_t burst, rbt_time now)
{
    RBT_ASSERT(burst > 0);
    RBT_ASSERT(now >= 0);
    *limiter = (struct rbt_limiter){.rate = rate, .burst = burst, .at = now};
}

/* Lets the bucket leak until now. */
static void leak(struct rbt_limiter *limiter, rbt_time now)
{
    RBT_ASSERT(limiter->rest < SECOND);
    if (now <= limiter->at) {
        return;
    }
    const wide lost =
        (wide)limiter->rate * (uint64_t)(now - limiter->at) + limiter->rest; /* 10^-9 bytes */
    limiter->at = now;
    if (lost >= (wide)limiter->level * SECOND) { /* (1) */
        limiter->level = 0;
        limiter->rest = 0;
        return;
    }
    limiter->level -= (uint64_t)(lost / SECOND);
    limiter->rest = (uint64_t)(lost % SECOND);
    RBT_ASSERT(limiter->level > 0);
}

uint64_t rbt_limiter_room(struct rbt_limiter *limiter, rbt_time now)
{
    leak(limiter, now);
    RBT_ASSERT(limiter->at >= now);
    /* The rest is less than a byte, and parts of a byte are not sent. */
    return limiter->level < limiter->burst ? limiter->burst - limiter->level : 0;
}

void rbt_limiter_note(struct rbt_limiter *limiter, rbt_time now, uint64_t bytes)
{
    leak(limiter, now);
    RBT_ASSERT(limiter->level > 0 || limiter->rest == 0);
    const uint64_t most = UINT64_MAX - limiter->level;
    limiter->level += bytes < most ? bytes : most;
    RBT_ASSERT(limiter->level >= bytes || bytes > most);
}

/* The time from `at` until `bytes` more have leaked. */
static rbt_time time_to_lose(const struct rbt_limiter *limiter, wide bytes)
{
    RBT_ASSERT(bytes <= limiter->level);
    if (bytes == 0) {
        return 0;
    }
    if (limiter->rate == 0) {
        return RBT_TIME_NEVER;
    }
    const wide needed = bytes * SECOND - limiter->rest;
    const wide time = (needed + limiter->rate - 1) / limiter->rate;
    RBT_ASSERT(time > 0);
    return time < (wide)RBT_TIME_NEVER ? (rbt_time)time : RBT_TIME_NEVER;
}

rbt_time rbt_limiter_when(const struct rbt_limiter *limiter, uint64_t bytes)
{
    RBT_ASSERT(bytes <= limiter->burst);
    const wide filled = (wide)limiter->level + bytes;
    const wide excess = filled > limiter->burst ? filled - limiter->burst : 0;
    const rbt_time time = time_to_lose(limiter, excess);
    RBT_ASSERT(time >= 0);
    return time < RBT_TIME_NEVER - limiter->at ? limiter->at + time : RBT_TIME_NEVER;
}

rbt_time rbt_limiter_delay(const struct rbt_limiter *limiter)
{
    RBT_ASSERT(limiter->rest < SECOND);
    return time_to_lose(limiter, limiter->level);
}
