/* algo/frame/effort_test.c - figures of processes add up. */
#include "base/test.h"

#include "algo/frame/effort.h"

static struct rbt_job_stats stats_of(uint64_t n)
{
    struct rbt_job_stats stats = {.workers = (uint32_t)n,
                                  .reads = 4 * n,
                                  .reads_waited = 2 * n,
                                  .fetches = 3 * n,
                                  .wait_seconds = 0.25 * (double)n,
                                  .lag_mean = 1.5,
                                  .lag_max = 1,
                                  .bytes_sent = 1000 * n,
                                  .bytes_received = 2000 * n,
                                  .filter_keys_in = 11 * n,
                                  .filter_keys_out = 12 * n,
                                  .filter_push_in = 13 * n,
                                  .filter_push_out = 14 * n,
                                  .filter_pull_in = 15 * n,
                                  .filter_pull_out = 16 * n,
                                  .rows = 7};
    for (size_t k = 0; k < RBT_TRAFFIC_CLASSES; k++) {
        stats.traffic_sent[k] = (k + 20) * n;
        stats.traffic_received[k] = (k + 30) * n;
    }
    for (size_t k = 0; k < RBT_LAG_COUNTS; k++) {
        stats.lag_counts[k] = k < 4 ? (k + 1) * n : 0;
    }
    return stats;
}

static void figures_add_up(void **state)
{
    (void)state;
    double sums[RBT_EFFORT_WIDTH] = {0};
    for (uint64_t n = 1; n <= 3; n++) {
        const struct rbt_job_stats mine = stats_of(n);
        double row[RBT_EFFORT_WIDTH];
        rbt_effort_pack(&mine, row);
        for (size_t i = 0; i < RBT_EFFORT_WIDTH; i++) {
            sums[i] += row[i];
        }
    }
    struct rbt_job_stats found = stats_of(1);
    struct rbt_job_stats wanted = stats_of(6);
    wanted.lag_max = 3; /* as the counts tell */
    rbt_effort_unpack(sums, &found);
    assert_memory_equal(&found, &wanted, sizeof found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_add_up)};
    return cmocka_run_group_tests_name("algo/effort", tests, NULL, NULL);
}
