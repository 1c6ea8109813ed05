/* base/clock.c - monotonic time of the operating system. */
#include "base/clock.h"

#include <time.h>

rbt_time rbt_clock_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (rbt_time)now.tv_sec * 1000000000 + now.tv_nsec;
}

double rbt_clock_seconds(void)
{
    return (double)rbt_clock_now() * 1e-9;
}
