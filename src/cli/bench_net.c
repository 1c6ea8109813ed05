/* cli/bench_net.c - what goes between two processes, next to what the bare socket can do.
 *
 * The limit is a plain stream: one process writes messages of the same size, the other reads them,
 * each with as many in memory, used in turn, as there are sets in the benchmark: neither has its
 * data in a cache that the other would not have. It is measured in turn with what is compared with
 * it. */
#include "cli/bench_net.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rubato/rubato.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "net/address.h"

enum {
    IN_TURN = RBT_BENCH_NET_FLIGHT / 2, /* messages in memory: each is pushed and pulled */
    PING = 64,                          /* bytes of a plain round trip */
    TRIPS = 2000,
    SMALL_ROWS = 1024,
};

const size_t rbt_bench_net_sizes[RBT_BENCH_NET_SIZES] = {4096, 65536, 1048576, 16777216};

/* --- The bare socket ------------------------------------------------------------------------- */

/* A connection between this process and a child, which runs `serve` on its end. */
struct pair {
    int socket;
    pid_t child;
};

static void set_blocking(int socket)
{
    struct pollfd ready = {.fd = socket, .events = POLLOUT};
    (void)poll(&ready, 1, 1000); /* until it is connected */
}

/* Reads or writes all of it, waiting as needed. */
static bool transfer(int socket, char *bytes, size_t count, bool is_write)
{
    while (count > 0) {
        const ssize_t done =
            is_write ? send(socket, bytes, count, MSG_NOSIGNAL) : recv(socket, bytes, count, 0);
        if (done > 0) {
            bytes += done;
            count -= (size_t)done;
        } else if (done == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        } else {
            struct pollfd ready = {.fd = socket, .events = is_write ? POLLOUT : POLLIN};
            (void)poll(&ready, 1, -1);
        }
    }
    return true;
}

/* The child of a stream reads until it ends; that of a ping-pong sends everything back. */
static void serve_raw(int listener, size_t size, bool is_ping)
{
    int socket = -1;
    char *buffer = rbt_calloc(size, IN_TURN);
    size_t turn = 0;
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    while (rbt_address_accept(listener, &socket) == RBT_E_BUSY) {
        (void)poll(&ready, 1, -1);
    }
    while (buffer != NULL && socket >= 0 && transfer(socket, buffer + turn * size, size, false) &&
           (!is_ping || transfer(socket, buffer + turn * size, size, true))) {
        turn = (turn + 1) % IN_TURN;
    }
    _exit(0);
}

static rbt_status open_pair(enum rbt_bench_transport transport, size_t size, bool is_ping,
                            struct pair *pair)
{
    struct rbt_sockets sockets;
    char address[RBT_ADDRESS_MAX] = "127.0.0.1:0";
    char actual[RBT_ADDRESS_MAX];
    int listener = -1;
    rbt_status st = rbt_sockets_make(&sockets);
    if (st != RBT_OK) {
        return st;
    }
    if (transport == RBT_BENCH_UNIX) {
        snprintf(address, sizeof address, "unix:%s/raw", sockets.path);
    }
    st = rbt_address_listen(address, actual, &listener);
    if (st == RBT_OK) {
        pair->child = fork();
        if (pair->child == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the worst is a process to be killed */
            serve_raw(listener, size, is_ping);
        }
        (void)close(listener);
        st = pair->child < 0 ? rbt_fail(RBT_E_IO, "could not start a process")
                             : rbt_address_connect(actual, rbt_clock_now() + INT64_C(5000000000),
                                                   -1, &pair->socket);
    }
    if (st == RBT_OK) {
        set_blocking(pair->socket);
    }
    rbt_sockets_remove(&sockets);
    return st;
}

static void close_pair(const struct pair *pair)
{
    (void)close(pair->socket);
    (void)kill(pair->child, SIGKILL);
    (void)waitpid(pair->child, NULL, 0);
}

/* GB/s of a plain stream. */
static rbt_status measure_stream(enum rbt_bench_transport transport, size_t size, double seconds,
                                 double *rate)
{
    char *buffer = rbt_calloc(size, IN_TURN);
    struct pair pair = {.socket = -1};
    if (buffer == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu bytes", size);
    }
    memset(buffer, 1, size * IN_TURN);
    const rbt_status st = open_pair(transport, size, false, &pair);
    if (st == RBT_OK) {
        size_t sent = 0;
        const double start = rbt_clock_seconds();
        double now = start;
        while (now < start + seconds &&
               transfer(pair.socket, buffer + sent % (size * IN_TURN), size, true)) {
            sent += size;
            now = rbt_clock_seconds();
        }
        *rate = (double)sent / (now - start) * 1e-9;
        close_pair(&pair);
    }
    rbt_free(buffer);
    return st;
}

static int compare_reals(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median round trip of a plain message, in microseconds. */
static rbt_status measure_ping(enum rbt_bench_transport transport, double *median)
{
    struct pair pair = {.socket = -1};
    char message[PING] = {0};
    double times[TRIPS];
    const rbt_status st = open_pair(transport, PING, true, &pair);
    if (st != RBT_OK) {
        return st;
    }
    for (int i = 0; i < TRIPS; i++) {
        const rbt_time before = rbt_clock_now();
        (void)(transfer(pair.socket, message, PING, true) &&
               transfer(pair.socket, message, PING, false));
        times[i] = (double)(rbt_clock_now() - before) * 1e-3;
    }
    close_pair(&pair);
    qsort(times, TRIPS, sizeof times[0], compare_reals);
    *median = times[TRIPS / 2];
    return RBT_OK;
}

/* --- Dense rows ------------------------------------------------------------------------------ */

/* What the worker is told, and what it finds out. */
struct task {
    struct rbt_bench_cluster cluster;
    rbt_table *table;
    size_t size;
    double seconds;
    double rate;     /* GB/s */
    double own_cpu;  /* seconds per GB */
    double peer_cpu; /* the same */
    double p50;      /* microseconds */
    double p99;
};

/* Pushes a set, whose clock ends with it, and asks for it again. */
static rbt_status start_one(rbt_worker *worker, rbt_set *set, rbt_ticket *ticket)
{
    float *deltas = rbt_set_deltas(set);
    deltas[0] = 1.0F; /* making the update is the caller's work and not measured */
    rbt_status st = rbt_set_push(set);
    st = st != RBT_OK ? st : rbt_clock(worker);
    return st != RBT_OK ? st : rbt_set_pull_async(set, NULL, ticket);
}

/* Keeps RBT_BENCH_NET_FLIGHT pushes and pulls under way for a while. */
static rbt_status fly(rbt_worker *worker, rbt_set **sets, struct task *task)
{
    rbt_ticket tickets[RBT_BENCH_NET_FLIGHT] = {0};
    rbt_status st = RBT_OK;
    const int warm = 2 * RBT_BENCH_NET_FLIGHT;
    double start = 0;
    double now = 0;
    double own = 0;
    double peer = 0;
    uint64_t done = 0;
    for (int i = 0; st == RBT_OK && (i <= warm || now < start + task->seconds); i++) {
        const int at = i % (RBT_BENCH_NET_FLIGHT / 2); /* a push and a pull each */
        if (i == warm) {
            start = rbt_clock_seconds();
            own = rbt_bench_own_cpu();
            peer = rbt_bench_cluster_server_cpu(&task->cluster);
            done = 0;
        }
        st = tickets[at] != 0 ? rbt_ticket_wait(worker, tickets[at]) : RBT_OK;
        done += tickets[at] != 0;
        st = st != RBT_OK ? st : start_one(worker, sets[at], &tickets[at]);
        now = rbt_clock_seconds();
    }
    for (int i = 0; st == RBT_OK && i < RBT_BENCH_NET_FLIGHT / 2; i++) {
        st = rbt_ticket_wait(worker, tickets[i]);
    }
    const double gigabytes = (double)done * 2 * (double)task->size * 1e-9;
    task->rate = gigabytes / (now - start);
    task->own_cpu = (rbt_bench_own_cpu() - own) / gigabytes;
    task->peer_cpu = (rbt_bench_cluster_server_cpu(&task->cluster) - peer) / gigabytes;
    return st;
}

static rbt_status dense_worker(rbt_worker *worker, void *argument)
{
    struct task *task = argument;
    rbt_set *sets[RBT_BENCH_NET_FLIGHT / 2] = {NULL};
    rbt_status st = RBT_OK;
    for (uint64_t i = 0; st == RBT_OK && i < RBT_BENCH_NET_FLIGHT / 2; i++) {
        st = rbt_set_create(worker, task->table, &i, 1, RBT_SET_DELTAS, &sets[i]);
    }
    st = st != RBT_OK ? st : fly(worker, sets, task);
    for (size_t i = 0; i < RBT_BENCH_NET_FLIGHT / 2; i++) {
        rbt_set_destroy(sets[i]);
    }
    return st;
}

/* --- One key --------------------------------------------------------------------------------- */

static rbt_status ping_worker(rbt_worker *worker, void *argument)
{
    struct task *task = argument;
    double times[TRIPS];
    float value = 1.0F;
    rbt_status st = RBT_OK;
    for (uint64_t key = 0; st == RBT_OK && key < SMALL_ROWS; key++) {
        st = rbt_add(worker, task->table, key, &value);
    }
    st = st != RBT_OK ? st : rbt_clock(worker);
    for (int i = -TRIPS / 10; st == RBT_OK && i < TRIPS; i++) {
        uint64_t key = (uint64_t)(i + TRIPS) % SMALL_ROWS;
        const struct rbt_rows rows = {.keys = &key, .values = &value, .count = 1};
        const rbt_time before = rbt_clock_now();
        st = rbt_pull(worker, task->table, &rows);
        if (i >= 0) {
            times[i] = (double)(rbt_clock_now() - before) * 1e-3;
        }
    }
    if (st == RBT_OK) {
        qsort(times, TRIPS, sizeof times[0], compare_reals);
        task->p50 = times[TRIPS / 2];
        task->p99 = times[TRIPS / 100 * 99];
    }
    return st;
}

/* --- Runs ------------------------------------------------------------------------------------ */

/* A cluster of its own for each figure, so that none inherits anything. */
static rbt_status run_task(enum rbt_bench_transport transport, struct task *task, uint32_t width,
                           rbt_worker_function function)
{
    rbt_status st = rbt_bench_cluster_start(transport, 1, 1, &task->cluster);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .consistency = "asp", .cluster = task->cluster.cluster};
    const struct rbt_table_options table = {
        .struct_size = sizeof table, .type = RBT_F32, .width = width};
    rbt_job *job = NULL;
    st = rbt_job_open(&options, &job);
    st = st != RBT_OK ? st : rbt_table_open(job, "bench", &table, &task->table);
    st = st != RBT_OK ? st : rbt_job_run(job, function, task);
    rbt_job_close(job);
    rbt_bench_cluster_stop(&task->cluster);
    return st;
}

static rbt_status measure_size(struct rbt_bench_net *net, size_t size_index, double seconds,
                               int repetition)
{
    const size_t size = rbt_bench_net_sizes[size_index];
    struct rbt_bench_net_size *figures = &net->sizes[size_index];
    struct task task = {.size = size, .seconds = seconds};
    rbt_status st = measure_stream(net->transport, size, seconds, &figures->raw.values[repetition]);
    st = st != RBT_OK
             ? st
             : run_task(net->transport, &task, (uint32_t)(size / sizeof(float)), dense_worker);
    figures->goodput.values[repetition] = task.rate;
    figures->own_cpu.values[repetition] = task.own_cpu;
    figures->peer_cpu.values[repetition] = task.peer_cpu;
    return st;
}

static rbt_status measure_trips(struct rbt_bench_net *net, bool is_pinned, int repetition)
{
    struct task task = {0};
    rbt_status st = measure_ping(
        net->transport, &(is_pinned ? &net->raw_pinned : &net->raw_free)->values[repetition]);
    st = st != RBT_OK ? st : run_task(net->transport, &task, 1, ping_worker);
    (is_pinned ? &net->pull_pinned : &net->pull_free)->values[repetition] = task.p50;
    (is_pinned ? &net->pull_pinned_p99 : &net->pull_free_p99)->values[repetition] = task.p99;
    return st;
}

rbt_status rbt_bench_net(const struct rbt_bench_net_options *options, struct rbt_bench_net *net)
{
    const double slice = options->seconds / RBT_BENCH_REPETITIONS;
    cpu_set_t all;
    cpu_set_t one;
    rbt_status st = RBT_OK;
    *net = (struct rbt_bench_net){.transport = options->transport};
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    const bool can_pin = sched_getaffinity(0, sizeof all, &all) == 0;
    for (int i = 0; st == RBT_OK && i < RBT_BENCH_REPETITIONS; i++) {
        for (size_t k = 0; st == RBT_OK && k < RBT_BENCH_NET_SIZES; k++) {
            if (options->size == 0 || options->size == rbt_bench_net_sizes[k]) {
                st = measure_size(net, k, slice, i);
            }
        }
        if (options->size != 0) {
            continue;
        }
        st = st != RBT_OK ? st : measure_trips(net, false, i);
        if (st == RBT_OK && can_pin && sched_setaffinity(0, sizeof one, &one) == 0) {
            st = measure_trips(net, true, i);             /* children inherit where they may run */
            (void)sched_setaffinity(0, sizeof all, &all); /* it was allowed before */
        }
    }
    return st;
}
