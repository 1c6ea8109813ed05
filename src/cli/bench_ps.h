/* cli/bench_ps.h - measures the core of the parameter server against the limits of this machine.
 *
 * Everything is measured several times, limit and measured thing in turn, so that a noisy machine
 * disturbs both alike. Rates are per worker, with all workers at work at once. */
#ifndef RUBATO_CLI_BENCH_PS_H
#define RUBATO_CLI_BENCH_PS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "cli/bench_cluster.h"
#include "cli/bench_limit.h"

enum {
    RBT_BENCH_REPETITIONS = 7,
    RBT_BENCH_SIZES = 5,    /* of dense rows */
    RBT_BENCH_HEADLINE = 3, /* the size whose figures stand for all */
    RBT_BENCH_WORKERS_MAX = 256,
};

/* X(ID, name in the summary, limit that it is compared with or itself, what it is).
 * The unit is the end of the name. */
#define RBT_BENCH_FIGURES(X)                                                                       \
    X(COPY, "limit_copy_gb_s", COPY, "limit: memcpy of the same blocks")                           \
    X(RANDOM, "limit_random_maccess_s", RANDOM, "limit: random 4-byte read-modify-write")          \
    X(PROBE, "limit_probe_mkeys_s", PROBE, "limit: batched probes of a hash table")                \
    X(DENSE_PULL, "dense_pull_gb_s", COPY, "rbt_set_pull of own rows")                             \
    X(DENSE_PUSH, "dense_push_gb_s", COPY, "rbt_set_push and rbt_clock, own rows")                 \
    X(SHARED_PULL, "dense_pull_shared_gb_s", COPY, "rbt_set_pull of rows that all use")            \
    X(SHARED_PUSH, "dense_push_shared_gb_s", COPY, "rbt_set_push and rbt_clock, such rows")        \
    X(SPARSE_PULL, "sparse_pull_mkeys_s", PROBE, "rbt_pull, a new list each time")                 \
    X(SPARSE_PUSH, "sparse_push_mkeys_s", PROBE, "rbt_push and rbt_clock, a new list each time")   \
    X(SET_PULL, "set_pull_mkeys_s", SET_PULL, "rbt_set_pull, declared keys")                       \
    X(SET_PUSH, "set_push_mkeys_s", SET_PUSH, "rbt_set_push and rbt_clock, declared keys")         \
    X(BYTES_PER_KEY, "bytes_per_key", BYTES_PER_KEY, "memory of the sparse table, in RAM")         \
    X(GET, "get_ns", GET, "rbt_get of a row that is cached")                                       \
    X(INC, "inc_ns", INC, "rbt_add to such a row")                                                 \
    X(CLOCK, "clock_us", CLOCK, "rbt_clock with nothing to send")                                  \
    X(PULL_P50, "pull_us_p50", PULL_P50, "rbt_pull of one key, median")                            \
    X(PULL_P99, "pull_us_p99", PULL_P99, "rbt_pull of one key, 99th percentile")

enum rbt_bench_figure {
#define X(id, name, limit, text) RBT_BENCH_##id,
    RBT_BENCH_FIGURES(X)
#undef X
        RBT_BENCH_FIGURE_COUNT
};

struct rbt_bench_figure_info {
    const char *name;
    enum rbt_bench_figure limit;
    const char *text;
};
extern const struct rbt_bench_figure_info rbt_bench_figures[RBT_BENCH_FIGURE_COUNT];

/* One value per repetition, the mean over the workers. */
struct rbt_bench_series {
    double values[RBT_BENCH_REPETITIONS];
};

/* What is measured for each size of dense rows. */
struct rbt_bench_dense {
    size_t row_bytes;
    size_t rows; /* per worker */
    struct rbt_bench_series copy;
    struct rbt_bench_series pull;
    struct rbt_bench_series push;
};

/* The figures with one number of workers. */
struct rbt_bench_run {
    uint32_t workers;
    uint32_t servers;
    struct rbt_bench_series figures[RBT_BENCH_FIGURE_COUNT];
    struct rbt_bench_dense dense[RBT_BENCH_SIZES];
    double set_pull_bytes; /* on the wire per declared key, both ways together; 0 in one process */
    double set_push_bytes;
};

struct rbt_bench_ps_options {
    uint32_t workers;
    uint32_t servers;                   /* shards */
    uint64_t rows;                      /* dense rows of the headline size, per worker */
    uint32_t width;                     /* their elements */
    double seconds;                     /* for each figure */
    bool in_processes;                  /* servers are processes of their own */
    enum rbt_bench_transport transport; /* then */
};

/* Measures everything. `keys` may be used for several runs. */
RBT_MUST_USE rbt_status rbt_bench_ps(const struct rbt_bench_ps_options *options,
                                     struct rbt_limit_keys *keys, struct rbt_bench_run *run);

/* Middle, smallest and largest value; and the middle one of the quotients. */
double rbt_bench_median(const struct rbt_bench_series *series);
double rbt_bench_smallest(const struct rbt_bench_series *series);
double rbt_bench_largest(const struct rbt_bench_series *series);
double rbt_bench_ratio(const struct rbt_bench_series *series, const struct rbt_bench_series *limit);

#endif
