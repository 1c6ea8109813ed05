/* cli/bench_net.h - measures what goes between a worker process and a server process, next to what
 * the bare socket can do in the same run.
 *
 * One worker, one server. Dense rows of several sizes are pushed and pulled with several operations
 * under way; one key is pulled at a time. Threads: none but the caller's may be running. */
#ifndef RUBATO_CLI_BENCH_NET_H
#define RUBATO_CLI_BENCH_NET_H

#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "cli/bench_cluster.h"
#include "cli/bench_ps.h"

enum { RBT_BENCH_NET_SIZES = 4, RBT_BENCH_NET_FLIGHT = 8 };
extern const size_t rbt_bench_net_sizes[RBT_BENCH_NET_SIZES]; /* bytes of a row */

struct rbt_bench_net_size {
    struct rbt_bench_series raw;      /* GB/s: a plain stream through such a socket */
    struct rbt_bench_series goodput;  /* GB/s: pushed plus pulled */
    struct rbt_bench_series own_cpu;  /* seconds per GB */
    struct rbt_bench_series peer_cpu; /* the same, of the server */
};

struct rbt_bench_net {
    enum rbt_bench_transport transport;
    struct rbt_bench_net_size sizes[RBT_BENCH_NET_SIZES];
    /* Round trips in microseconds: of the bare socket, and of a pull of one key; with both sides on
     * one core, and wherever they happen to run. */
    struct rbt_bench_series raw_pinned;
    struct rbt_bench_series pull_pinned;
    struct rbt_bench_series pull_pinned_p99;
    struct rbt_bench_series raw_free;
    struct rbt_bench_series pull_free;
    struct rbt_bench_series pull_free_p99;
};

struct rbt_bench_net_options {
    enum rbt_bench_transport transport;
    double seconds; /* for each figure */
    size_t size;    /* only rows of this size, and no round trips; 0: everything */
};

RBT_MUST_USE rbt_status rbt_bench_net(const struct rbt_bench_net_options *options,
                                      struct rbt_bench_net *net);

#endif
