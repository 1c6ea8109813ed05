/* bench/yardstick.c - threads that start each pass together, and one line that says how it went.
 *
 * Threads: started here, one barrier before and one after each pass; thread 0 keeps the time. */
#include "bench/yardstick.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

struct crew {
    const struct rbt_yardstick *yardstick;
    pthread_barrier_t barrier;
    double seconds[RBT_YARDSTICK_PASSES_MAX];
};

static rbt_status work(void *argument, uint32_t index)
{
    struct crew *crew = argument;
    const struct rbt_yardstick *yardstick = crew->yardstick;
    for (uint32_t pass = 0; pass < yardstick->passes; pass++) {
        (void)pthread_barrier_wait(&crew->barrier); /* cannot fail once it is initialised */
        const double start = rbt_clock_seconds();
        yardstick->run(yardstick->context, index, pass);
        (void)pthread_barrier_wait(&crew->barrier);
        if (index == 0) {
            crew->seconds[pass] = rbt_clock_seconds() - start;
        }
    }
    return RBT_OK;
}

static int compare_reals(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

rbt_status rbt_yardstick_run(const struct rbt_yardstick *yardstick)
{
    RBT_ASSERT(yardstick->threads > 0 && yardstick->threads <= RBT_YARDSTICK_THREADS_MAX);
    RBT_ASSERT(yardstick->passes > 0 && yardstick->passes <= RBT_YARDSTICK_PASSES_MAX);
    struct crew crew = {.yardstick = yardstick};
    if (pthread_barrier_init(&crew.barrier, NULL, yardstick->threads) != 0) {
        return rbt_fail(RBT_E_IO, "could not create a barrier");
    }
    const rbt_status st = rbt_thread_run(yardstick->threads, work, &crew);
    (void)pthread_barrier_destroy(&crew.barrier); /* nobody waits at it */
    if (st != RBT_OK) {
        return st;
    }
    qsort(crew.seconds, yardstick->passes, sizeof crew.seconds[0], compare_reals);
    const double count = (double)yardstick->count;
    printf("{\"program\":\"%s\",\"flags\":\"%s\",\"threads\":%u,\"passes\":%u,\"%s\":%zu,"
           "\"%s_per_s\":%.0f,\"%s_per_s_best\":%.0f,\"%s\":%.5f}\n",
           yardstick->name, yardstick->flags, yardstick->threads, yardstick->passes,
           yardstick->unit, yardstick->count, yardstick->unit,
           count / crew.seconds[yardstick->passes / 2], yardstick->unit, count / crew.seconds[0],
           yardstick->metric, yardstick->judge(yardstick->context));
    return RBT_OK;
}

uint32_t rbt_yardstick_argument(int argc, char **argv, int index, uint32_t otherwise)
{
    return index < argc ? (uint32_t)strtoul(argv[index], NULL, 10) : otherwise;
}
