/* cli/bench_cluster.c - a coordinator and servers in processes of their own, for benchmarks. */
#include "cli/bench_cluster.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/option.h"
#include "coordinator/coordinator.h"
#include "net/member.h"
#include "server/server.h"

#define SECOND INT64_C(1000000000)

const char *const rbt_bench_transports[] = {"unix", "tcp", "tls", NULL};

/* Everything that the processes agree on. */
struct plan {
    char coordinator[128];
    char listen[128];
    rbt_security *security;
};

static rbt_status run_coordinator(const struct plan *plan, uint32_t servers)
{
    const struct rbt_coordinator_options options = {.listen = plan->coordinator,
                                                    .security = plan->security,
                                                    .server_count = servers,
                                                    .is_once = true,
                                                    .start_timeout = 10 * SECOND,
                                                    .silence_max = 10 * SECOND,
                                                    .cut_max = 3 * SECOND};
    return rbt_coordinator_run(&options);
}

static rbt_status run_server(const struct plan *plan)
{
    const struct rbt_server_options options = {.coordinator = plan->coordinator,
                                               .security = plan->security,
                                               .index = RBT_INDEX_ANY,
                                               .threads = 1,
                                               .listen = plan->listen,
                                               .start_timeout = 10 * SECOND,
                                               .silence_max = 10 * SECOND,
                                               .cut_max = 3 * SECOND};
    return rbt_server_run(&options);
}

/* A child that dies with us; 0 in the child. */
static pid_t start_child(void)
{
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the worst is a process that must be killed */
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return child;
}

static rbt_status start_all(struct rbt_bench_cluster *cluster, struct plan *plan,
                            enum rbt_bench_transport transport, uint32_t servers)
{
    const char *directory = cluster->sockets.path;
    snprintf(plan->coordinator, sizeof plan->coordinator, "unix:%s/coordinator", directory);
    cluster->coordinator = start_child();
    if (cluster->coordinator == 0) {
        _exit(run_coordinator(plan, servers) == RBT_OK ? 0 : 1);
    }
    for (uint32_t i = 0; i < servers; i++) {
        if (transport == RBT_BENCH_UNIX) {
            snprintf(plan->listen, sizeof plan->listen, "unix:%s/server-%u", directory, i);
        } else {
            snprintf(plan->listen, sizeof plan->listen, "127.0.0.1:0");
        }
        cluster->servers[i] = start_child();
        if (cluster->servers[i] == 0) {
            _exit(run_server(plan) == RBT_OK ? 0 : 1);
        }
        cluster->server_count = i + 1;
    }
    return cluster->coordinator > 0 && cluster->servers[servers - 1] > 0
               ? RBT_OK
               : rbt_fail(RBT_E_IO, "could not start a process");
}

static rbt_status make_key(struct rbt_bench_cluster *cluster, struct plan *plan)
{
    char key[RBT_KEY_TEXT];
    snprintf(cluster->key_file, sizeof cluster->key_file, "%s/key", cluster->sockets.path);
    rbt_status st = rbt_key_generate(key);
    st = st != RBT_OK ? st : rbt_key_write(cluster->key_file, key);
    return st != RBT_OK ? st : rbt_security_open(key, &plan->security);
}

rbt_status rbt_bench_cluster_start(enum rbt_bench_transport transport, uint32_t servers,
                                   uint32_t workers, struct rbt_bench_cluster *cluster)
{
    struct plan plan = {0};
    *cluster = (struct rbt_bench_cluster){0};
    if (servers == 0 || servers > RBT_BENCH_SERVERS_MAX) {
        return rbt_fail(RBT_E_INVALID, "from 1 to %d servers can be measured, not %u",
                        RBT_BENCH_SERVERS_MAX, servers);
    }
    rbt_status st = rbt_sockets_make(&cluster->sockets);
    if (st == RBT_OK && transport == RBT_BENCH_TLS) {
        st = make_key(cluster, &plan);
    }
    st = st != RBT_OK ? st : start_all(cluster, &plan, transport, servers);
    if (st == RBT_OK) {
        const struct rbt_cluster_options options = {
            .struct_size = sizeof options,
            .coordinator = plan.coordinator,
            .key_file = transport == RBT_BENCH_TLS ? cluster->key_file : NULL,
            .workers = workers,
            .threads = workers,
            .compression = "none", /* what is measured are bytes */
            .index = 1};
        st = rbt_cluster_join(&options, &cluster->cluster);
    }
    rbt_security_close(plan.security);
    if (st != RBT_OK) {
        rbt_bench_cluster_stop(cluster);
    }
    return st;
}

static void end_child(pid_t child)
{
    if (child > 0) {
        (void)kill(child, SIGKILL); /* it holds nothing that would be lost */
        (void)waitpid(child, NULL, 0);
    }
}

void rbt_bench_cluster_stop(struct rbt_bench_cluster *cluster)
{
    rbt_cluster_leave(cluster->cluster, RBT_OK, NULL);
    struct rbt_error_record record;
    rbt_error_save(&record);
    end_child(cluster->coordinator);
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        end_child(cluster->servers[i]);
    }
    if (cluster->key_file[0] != '\0') {
        (void)unlink(cluster->key_file);
    }
    rbt_sockets_remove(&cluster->sockets);
    rbt_error_restore(&record);
    *cluster = (struct rbt_bench_cluster){0};
}

/* Processor seconds of a process, all its threads. */
static double cpu_of(pid_t process)
{
    char path[64];
    char text[1024];
    unsigned long user = 0;
    unsigned long system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    const size_t length = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    if (file != NULL) {
        (void)fclose(file); /* only read */
    }
    text[length] = '\0';
    const char *after = strrchr(text, ')'); /* behind the name, which may hold anything */
    if (after == NULL || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                                &user, &system) != 2) {
        return 0;
    }
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double rbt_bench_memory(pid_t process)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%*s %ld", &pages) != 1) {
        pages = 0;
    }
    (void)fclose(file); /* only read */
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

double rbt_bench_cluster_memory(const struct rbt_bench_cluster *cluster)
{
    double sum = 0;
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        sum += rbt_bench_memory(cluster->servers[i]);
    }
    return sum;
}

double rbt_bench_cluster_server_cpu(const struct rbt_bench_cluster *cluster)
{
    double sum = 0;
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        sum += cpu_of(cluster->servers[i]);
    }
    return sum;
}

double rbt_bench_own_cpu(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail */
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}
