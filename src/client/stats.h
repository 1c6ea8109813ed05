/* client/stats.h - what a worker counts. */
#ifndef RUBATO_CLIENT_STATS_H
#define RUBATO_CLIENT_STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include <rubato/job.h>

#include "client/driver.h"

/* Counted by the worker alone, read by anybody: relaxed loads and stores. */
struct rbt_worker_stats {
    atomic_uint_least64_t reads;
    atomic_uint_least64_t reads_waited;
    atomic_uint_least64_t fetches;
    atomic_uint_least64_t wait_ns;
    atomic_uint_least64_t lag_sum;
    atomic_uint_least64_t lag_max;
    atomic_uint_least64_t lag_counts[RBT_LAG_COUNTS];
    atomic_uint_least64_t bytes_sent;
    atomic_uint_least64_t bytes_received;
    atomic_uint_least64_t traffic_sent[RBT_TRAFFIC_CLASSES];
    atomic_uint_least64_t traffic_received[RBT_TRAFFIC_CLASSES];
    atomic_uint_least64_t early_sent;     /* rows that were, before the clock ended */
    atomic_uint_least64_t early_received; /* the same */
    atomic_uint_least64_t early_bytes_sent;
    atomic_uint_least64_t early_bytes_received;
    atomic_uint_least64_t early_pauses;
    atomic_uint_least64_t row_sends[RBT_TIMES_COUNTS];
    atomic_uint_least64_t row_receipts[RBT_TIMES_COUNTS];
    atomic_uint_least64_t filtered[RBT_FILTERED_KINDS][2]; /* bytes before filters and after */
};

/* Adds to a counter that only the calling worker writes. */
static inline void rbt_client_count(atomic_uint_least64_t *counter, uint64_t n)
{
    const uint64_t old = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, old + n, memory_order_relaxed);
}

static inline void rbt_client_count_received(struct rbt_worker_stats *stats, uint32_t class,
                                             uint64_t bytes)
{
    rbt_client_count(&stats->bytes_received, bytes);
    rbt_client_count(&stats->traffic_received[class], bytes);
}

#endif
