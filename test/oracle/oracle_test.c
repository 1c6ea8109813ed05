/* oracle/oracle_test.c - the visible-set oracle over consistencies, paths, caches and workers.
 *
 * Each test takes one consistency through all paths, all caches where there are caches, and 1 to 8
 * workers; shards, element type and uneven ends rotate. Half of the seeds are fixed, half are new
 * in every run and follow from the number printed first; RUBATO_ORACLE_SEED repeats a run.
 * RUBATO_ORACLE_SCALE (percent, default 100) thins the grid out for sanitizers. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "oracle/oracle.h"

static uint64_t base_seed; /* of the seeds that are new in every run */
static uint64_t scale = 100;

/* One consistency; what the tests are called with. */
struct mode {
    int64_t staleness;
    bool is_eager;
};

static uint64_t draw_seed(uint64_t index)
{
    struct rbt_rng rng;
    rbt_rng_init(&rng, index % 2 == 0 ? 1 : base_seed, index, 0);
    return rbt_rng_next(&rng) >> 32;
}

/* Runs one point of the grid, or skips it if the grid is thinned out. */
static void run_point(struct oracle_config config, uint64_t index, struct oracle_report *report)
{
    static const uint32_t shards[] = {1, 2, 5};
    if (index * scale / 100 == (index + 1) * scale / 100) {
        return;
    }
    config.seed = draw_seed(index);
    config.shards = config.shards != 0 ? config.shards : shards[index % 3];
    config.type = index / 3 % 2 == 0 ? RBT_I64 : RBT_F64;
    config.has_uneven_ends = index / 2 % 3 == 0;
    config.clocks = config.clocks != 0 ? config.clocks : 24;
    oracle_run(&config, report);
    if (report->violations != 0) {
        fail_msg("%llu violations; the first: %s", (unsigned long long)report->violations,
                 report->first);
    }
}

static bool has_cache(enum oracle_path path)
{
    return path == ORACLE_GET || path == ORACLE_ROW || path == ORACLE_SPARSE;
}

/* All paths, all caches, 1 to 8 workers. */
static void run_grid(struct oracle_config config, struct oracle_report *report)
{
    uint64_t index = (uint64_t)config.staleness * 8191;
    for (int path = 0; path < ORACLE_PATHS; path++) {
        const int caches = has_cache((enum oracle_path)path) ? RBT_CACHE_NONE + 1 : 1;
        for (int cache = 0; cache < caches; cache++) {
            for (uint32_t workers = 1; workers <= 8; workers++) {
                config.path = (enum oracle_path)path;
                config.cache = (rbt_cache)cache;
                config.workers = workers;
                run_point(config, index++, report);
            }
        }
    }
}

static void print_lags(const char *what, const struct oracle_report *report)
{
    printf("# %s: %llu reads; by lag:", what, (unsigned long long)report->reads);
    for (int lag = 0; lag < ORACLE_LAGS; lag++) {
        if (report->lag[lag] != 0) {
            printf(" %d:%.1f%%", lag, 100.0 * (double)report->lag[lag] / (double)report->reads);
        }
    }
    printf("\n");
}

/* All rules of the oracle for the mode; the lag is reported. */
static void reads_see_what_they_must_and_nothing_else(void **state)
{
    const struct mode *mode = *state;
    struct oracle_report report = {0};
    const struct oracle_config config = {.staleness = mode->staleness, .is_eager = mode->is_eager};
    run_grid(config, &report);
    char what[32];
    (void)snprintf(what, sizeof what, "%s:%d", mode->is_eager ? "essp" : "ssp",
                   (int)mode->staleness);
    print_lags(mode->staleness == RBT_STALENESS_ANY ? "asp" : what, &report);
    assert_true(report.reads > 0);
}

/* Reads that name 0, S or no bound force refills while updates are held back. */
static void reads_that_name_a_staleness_obey_it_and_lose_nothing(void **state)
{
    (void)state;
    struct oracle_report report = {0};
    for (int64_t s = 0; s <= 2; s++) {
        const struct oracle_config config = {
            .staleness = s, .mixes_staleness = true, .reads_every_time = true};
        run_grid(config, &report);
    }
    print_lags("mixed", &report);
}

/* Without an overlay the own updates obey the shards' rules, and nothing else changes. */
static void reads_without_overlay_obey_the_same_bounds(void **state)
{
    (void)state;
    struct oracle_report report = {0};
    const int64_t bounds[] = {0, 2, RBT_STALENESS_ANY};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        run_grid((struct oracle_config){.staleness = bounds[i], .overlay = RBT_OVERLAY_NONE},
                 &report);
    }
    print_lags("overlay none", &report);
}

/* "Show" mode: old updates are all there, whatever else may be. */
static void reads_that_show_partial_clocks_still_see_all_old_updates(void **state)
{
    (void)state;
    struct oracle_report report = {0};
    const int64_t bounds[] = {1, 3, RBT_STALENESS_ANY};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const struct oracle_config config = {
            .staleness = bounds[i], .partial = RBT_PARTIAL_SHOW, .is_eager = i == 1};
        run_grid(config, &report);
    }
    print_lags("partial show", &report);
}

/* Worker 0 ends all its clocks before anybody else begins. It never blocks (the test
 * would hang), and the others see nothing of clock c+s or later of it. */
static void a_worker_that_never_reads_runs_ahead_and_is_not_seen_ahead(void **state)
{
    (void)state;
    struct oracle_report report = {0};
    uint64_t index = 0;
    for (int64_t s = 0; s <= 10; s = s == 0 ? 1 : s * 3 + 1) {
        for (int path = 0; path < ORACLE_PATHS; path++) {
            const bool is_long = path == ORACLE_GET || path == ORACLE_SET_DELTAS;
            const struct oracle_config config = {.staleness = s,
                                                 .path = (enum oracle_path)path,
                                                 .workers = 2 + (uint32_t)(index % 2),
                                                 .clocks = is_long && s == 1 ? 1000 : 60,
                                                 .has_runaway = true,
                                                 .is_eager = index % 4 == 3};
            run_point(config, index++, &report);
        }
    }
    print_lags("runaway", &report);
}

static const struct mode modes[] = {
    {0, false}, {1, false}, {2, false}, {3, false}, {10, false}, {RBT_STALENESS_ANY, false},
    {0, true},  {1, true},  {2, true},  {3, true},  {10, true},
};

#define MODE(text, number)                                                                         \
    {                                                                                              \
        .name = text "_reads_see_what_they_must_and_nothing_else",                                 \
        .test_func = reads_see_what_they_must_and_nothing_else,                                    \
        .initial_state = (void *)(uintptr_t)&modes[number]                                         \
    }

int main(void)
{
    const char *seed = getenv("RUBATO_ORACLE_SEED");
    const char *percent = getenv("RUBATO_ORACLE_SCALE");
    base_seed = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)rbt_clock_now() % 1000000007U;
    scale = percent != NULL ? strtoull(percent, NULL, 10) : 100;
    scale = scale > 100 ? 100 : scale;
    printf("# RUBATO_ORACLE_SEED=%llu RUBATO_ORACLE_SCALE=%llu\n", (unsigned long long)base_seed,
           (unsigned long long)scale);
    const struct CMUnitTest tests[] = {
        MODE("bsp", 0),
        MODE("ssp_1", 1),
        MODE("ssp_2", 2),
        MODE("ssp_3", 3),
        MODE("ssp_10", 4),
        MODE("asp", 5),
        MODE("essp_0", 6),
        MODE("essp_1", 7),
        MODE("essp_2", 8),
        MODE("essp_3", 9),
        MODE("essp_10", 10),
        cmocka_unit_test(reads_that_name_a_staleness_obey_it_and_lose_nothing),
        cmocka_unit_test(reads_without_overlay_obey_the_same_bounds),
        cmocka_unit_test(reads_that_show_partial_clocks_still_see_all_old_updates),
        cmocka_unit_test(a_worker_that_never_reads_runs_ahead_and_is_not_seen_ahead),
    };
    return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
