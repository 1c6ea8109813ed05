/* algo/frame/effort.c - what the processes of a cluster have read, waited and sent, all together.
 */
#include "algo/frame/effort.h"

#include <stddef.h>
#include <stdint.h>

/* Counts that add up, in the order of their elements; before them are the workers, the time that
 * they waited, and the sum of lags. */
enum { WORKERS, WAITED, LAGS, COUNTS };
static const size_t counts[] = {
    offsetof(struct rbt_job_stats, reads),           offsetof(struct rbt_job_stats, reads_waited),
    offsetof(struct rbt_job_stats, fetches),         offsetof(struct rbt_job_stats, bytes_sent),
    offsetof(struct rbt_job_stats, bytes_received),  offsetof(struct rbt_job_stats, filter_keys_in),
    offsetof(struct rbt_job_stats, filter_keys_out), offsetof(struct rbt_job_stats, filter_push_in),
    offsetof(struct rbt_job_stats, filter_push_out), offsetof(struct rbt_job_stats, filter_pull_in),
    offsetof(struct rbt_job_stats, filter_pull_out),
};
enum { COUNT_COUNT = sizeof counts / sizeof counts[0], TRAFFIC = COUNTS + COUNT_COUNT };
enum { RECEIVED = TRAFFIC + RBT_TRAFFIC_CLASSES, HISTOGRAM = RECEIVED + RBT_TRAFFIC_CLASSES };
_Static_assert(HISTOGRAM + RBT_LAG_COUNTS == RBT_EFFORT_WIDTH, "every element has one meaning");

void rbt_effort_pack(const struct rbt_job_stats *stats, double row[RBT_EFFORT_WIDTH])
{
    row[WORKERS] = (double)stats->workers;
    row[WAITED] = stats->wait_seconds;
    row[LAGS] = stats->lag_mean * (double)stats->reads;
    for (size_t i = 0; i < COUNT_COUNT; i++) {
        row[COUNTS + i] = (double)*(const uint64_t *)((const char *)stats + counts[i]);
    }
    for (size_t k = 0; k < RBT_TRAFFIC_CLASSES; k++) {
        row[TRAFFIC + k] = (double)stats->traffic_sent[k];
        row[RECEIVED + k] = (double)stats->traffic_received[k];
    }
    for (size_t k = 0; k < RBT_LAG_COUNTS; k++) {
        row[HISTOGRAM + k] = (double)stats->lag_counts[k];
    }
}

void rbt_effort_unpack(const double row[RBT_EFFORT_WIDTH], struct rbt_job_stats *stats)
{
    stats->workers = (uint32_t)row[WORKERS];
    stats->wait_seconds = row[WAITED];
    for (size_t i = 0; i < COUNT_COUNT; i++) {
        *(uint64_t *)((char *)stats + counts[i]) = (uint64_t)row[COUNTS + i];
    }
    stats->lag_mean = stats->reads > 0 ? row[LAGS] / (double)stats->reads : 0.0;
    for (size_t k = 0; k < RBT_TRAFFIC_CLASSES; k++) {
        stats->traffic_sent[k] = (uint64_t)row[TRAFFIC + k];
        stats->traffic_received[k] = (uint64_t)row[RECEIVED + k];
    }
    for (size_t k = 0; k < RBT_LAG_COUNTS; k++) {
        stats->lag_counts[k] = (uint64_t)row[HISTOGRAM + k];
        if (stats->lag_counts[k] > 0 && stats->lag_max < (int64_t)k) {
            stats->lag_max = (int64_t)k;
        }
    }
}
