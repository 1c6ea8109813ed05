/* base/clock.h - time as a number: nanoseconds since some fixed moment. */
#ifndef RUBATO_BASE_CLOCK_H
#define RUBATO_BASE_CLOCK_H

#include <stdint.h>

typedef int64_t rbt_time; /* nanoseconds */

#define RBT_TIME_NEVER INT64_MAX

/* Monotonic time. Cores never call this; they are given the time. */
rbt_time rbt_clock_now(void);

/* The same in seconds, for people. */
double rbt_clock_seconds(void);

#endif
