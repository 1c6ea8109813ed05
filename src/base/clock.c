/* base/clock.c - monotonic time of the operating system.
 *
 * It counts from an hour before this process first looks, and not from when the system says that
 * its clock began: so it is far from the end of its range wherever that is. */
#include "base/clock.h"

#include <pthread.h>
#include <time.h>

#define SECOND INT64_C(1000000000)
#define BEFORE (3600 * SECOND) /* nobody takes the first times for none */

static struct timespec first;

static void look(void)
{
    (void)clock_gettime(CLOCK_MONOTONIC, &first); /* cannot fail for this clock */
}

rbt_time rbt_clock_now(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct timespec now;
    (void)pthread_once(&once, look);            /* cannot fail */
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return BEFORE + (rbt_time)(now.tv_sec - first.tv_sec) * SECOND + (now.tv_nsec - first.tv_nsec);
}

double rbt_clock_seconds(void)
{
    return (double)rbt_clock_now() * 1e-9;
}
