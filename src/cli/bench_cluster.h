/* cli/bench_cluster.h - a coordinator and servers in processes of their own, for benchmarks.
 *
 * Threads: none but the caller's may be running when it is started, because it forks. */
#ifndef RUBATO_CLI_BENCH_CLUSTER_H
#define RUBATO_CLI_BENCH_CLUSTER_H

#include <stdint.h>
#include <sys/types.h>

#include <rubato/cluster.h>
#include <rubato/export.h>
#include <rubato/status.h>

#include "cli/sockets.h"
#include "net/security.h"

enum rbt_bench_transport {
    RBT_BENCH_UNIX,
    RBT_BENCH_TCP,
    RBT_BENCH_TLS, /* over TCP */
    RBT_BENCH_TRANSPORTS,
};
extern const char *const rbt_bench_transports[]; /* their names; ends with NULL */

enum { RBT_BENCH_SERVERS_MAX = 16 };

/* Starts as all zero. */
struct rbt_bench_cluster {
    struct rbt_sockets sockets;
    char key_file[128]; /* or "" */
    pid_t coordinator;
    pid_t servers[RBT_BENCH_SERVERS_MAX];
    uint32_t server_count;
    rbt_cluster *cluster; /* this process as a part of it, with `workers` workers */
};

/* Starts the processes and joins them. On failure nothing is left. */
RBT_MUST_USE rbt_status rbt_bench_cluster_start(enum rbt_bench_transport transport,
                                                uint32_t servers, uint32_t workers,
                                                struct rbt_bench_cluster *cluster);

/* Leaves and ends them. */
void rbt_bench_cluster_stop(struct rbt_bench_cluster *cluster);

/* Bytes in RAM of a process, and of all servers. */
double rbt_bench_memory(pid_t process);
double rbt_bench_cluster_memory(const struct rbt_bench_cluster *cluster);

/* Processor seconds of all servers, and of this process. */
double rbt_bench_cluster_server_cpu(const struct rbt_bench_cluster *cluster);
double rbt_bench_own_cpu(void);

#endif
