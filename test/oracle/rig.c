/* oracle/rig.c - gates and the memory of the first broken promise.
 *
 * One mutex and one condition serve all gates: tests have few threads and fewer posts. `broken`
 * holds the first message until rig_run() or rig_job() clears it. */
#include "oracle/rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cluster.h"
#include "coordinator/coordinator.h"
#include "net/nearby.h"
#include "server/server.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all gates and `broken` */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char broken[1024];

void rig_post(struct rig_gate *gate)
{
    pthread_mutex_lock(&mutex);
    gate->posts++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

bool rig_await(struct rig_gate *gate, int posts)
{
    pthread_mutex_lock(&mutex);
    while (gate->posts < posts && broken[0] == '\0') {
        pthread_cond_wait(&changed, &mutex);
    }
    const bool is_open = gate->posts >= posts;
    pthread_mutex_unlock(&mutex);
    return is_open;
}

rbt_status rig_broken(const char *file, int line, const char *what)
{
    pthread_mutex_lock(&mutex);
    if (broken[0] == '\0') {
        (void)snprintf(broken, sizeof broken, "%s:%d: %s", file, line, what); /* may be cut */
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return RBT_E_PROTOCOL;
}

rbt_status rig_failed(const char *file, int line, const char *what, rbt_status st)
{
    char text[768];
    (void)snprintf(text, sizeof text, "%s: %s: %s", what, rbt_status_text(st), rbt_last_error());
    (void)rig_broken(file, line, text); /* the call's own status is passed on */
    return st;
}

static void forget(void)
{
    pthread_mutex_lock(&mutex);
    broken[0] = '\0';
    pthread_mutex_unlock(&mutex);
}

/* --- Over sockets ---------------------------------------------------------------------------- */

#define SECOND INT64_C(1000000000)

/* A coordinator and a server, for one job. */
struct rig_cluster {
    char folder[64];
    char address[128];
    char listen[128];
    struct rbt_coordinator_options coordinator;
    struct rbt_server_options server;
    pthread_t threads[2];
    rbt_cluster *cluster;
    struct rig_cluster *next;
};

static struct rig_cluster *clusters;

size_t rig_plugins(const char *const **paths)
{
    enum { COUNT = 2, PATH_BYTES = 4096 };
    static char folders[COUNT][2 * PATH_BYTES];
    static const char *const list[COUNT] = {folders[0], folders[1]};
    if (folders[1][0] == '\0') { /* once: servers that run read them */
        const ssize_t size = readlink("/proc/self/exe", folders[0], PATH_BYTES - 1);
        assert_true(size > 0);
        folders[0][size] = '\0';
        *strrchr(folders[0], '/') = '\0';
        (void)snprintf(folders[1], sizeof folders[1], "%.*s/../rules", PATH_BYTES, folders[0]);
    }
    *paths = list;
    return COUNT;
}

static void *run_coordinator(void *argument)
{
    const struct rig_cluster *c = argument;
    const rbt_status st = rbt_coordinator_run(&c->coordinator);
    (void)st; /* how the job went is the test's */
    return NULL;
}

static void *run_server(void *argument)
{
    const struct rig_cluster *c = argument;
    const rbt_status st = rbt_server_run(&c->server);
    (void)st;
    return NULL;
}

void rig_end_clusters(void)
{
    struct rig_cluster **at = &clusters;
    while (*at != NULL) {
        struct rig_cluster *c = *at;
        if (c->cluster->is_busy) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        rbt_cluster_leave(c->cluster, RBT_OK, NULL);
        for (int i = 0; i < 2; i++) {
            (void)pthread_join(c->threads[i], NULL);
        }
        (void)rmdir(c->folder);
        free(c);
    }
}

/* A cluster of this process with all workers, and a server with all shards. */
static rbt_cluster *begin_cluster(uint32_t workers, uint32_t shards)
{
    struct rig_cluster *c = calloc(1, sizeof *c);
    assert_non_null(c);
    rig_end_clusters();
    (void)snprintf(c->folder, sizeof c->folder, "/tmp/rubato-rig-XXXXXX");
    assert_non_null(mkdtemp(c->folder));
    (void)snprintf(c->address, sizeof c->address, "unix:%s/c", c->folder);
    (void)snprintf(c->listen, sizeof c->listen, "unix:%s/s", c->folder);
    c->coordinator = (struct rbt_coordinator_options){.listen = c->address,
                                                      .server_count = 1,
                                                      .is_once = true,
                                                      .start_timeout = 60 * SECOND,
                                                      .silence_max = 60 * SECOND,
                                                      .cut_max = 60 * SECOND};
    c->server = (struct rbt_server_options){.coordinator = c->address,
                                            .threads = shards,
                                            .listen = c->listen,
                                            .start_timeout = 60 * SECOND,
                                            .silence_max = 60 * SECOND,
                                            .cut_max = 60 * SECOND};
    c->server.plugin_count = rig_plugins(&c->server.plugins);
    assert_int_equal(pthread_create(&c->threads[0], NULL, run_coordinator, c), 0);
    assert_int_equal(pthread_create(&c->threads[1], NULL, run_server, c), 0);
    const struct rbt_cluster_options options = {.struct_size = sizeof options,
                                                .coordinator = c->address,
                                                .workers = workers,
                                                .threads = workers,
                                                .start_timeout = 60,
                                                .timeout = 60};
    assert_ok(rbt_cluster_join(&options, &c->cluster));
    c->next = clusters;
    clusters = c;
    return c->cluster;
}

rbt_job *rig_job(uint32_t workers, uint32_t shards, const char *consistency)
{
    return rig_job_with(
        (struct rbt_job_options){.workers = workers, .shards = shards, .consistency = consistency});
}

rbt_cluster *rig_cluster(uint32_t workers, uint32_t shards)
{
    static bool is_known;
    const char *how = getenv("RIG_CLUSTER"); /* "sockets" or "calls" */
    if (how == NULL) {
        return NULL;
    }
    rbt_nearby_hide(strcmp(how, "sockets") == 0);
    if (!is_known) {
        is_known = atexit(rig_end_clusters) == 0;
    }
    return begin_cluster(workers, shards);
}

rbt_job *rig_job_with(struct rbt_job_options options)
{
    rbt_job *job = NULL;
    options.struct_size = sizeof options;
    forget();
    options.cluster = rig_cluster(options.workers, options.shards);
    assert_ok(rbt_job_open(&options, &job));
    return job;
}

rbt_table *rig_table(rbt_job *job, const char *name, struct rbt_table_options options)
{
    rbt_table *table = NULL;
    options.struct_size = sizeof options;
    assert_ok(rbt_table_open(job, name, &options, &table));
    return table;
}

rbt_table *rig_counts(rbt_job *job, uint32_t width)
{
    return rig_table(job, "counts", (struct rbt_table_options){.type = RBT_I64, .width = width});
}

void rig_run(rbt_job *job, rbt_worker_function function, void *argument)
{
    forget();
    const rbt_status st = rbt_job_run(job, function, argument);
    if (broken[0] != '\0') {
        fail_msg("%s", broken);
    }
    assert_ok(st);
}

struct rbt_job_stats rig_stats(rbt_job *job)
{
    struct rbt_job_stats stats = {.struct_size = sizeof stats};
    rbt_job_stats(job, &stats);
    return stats;
}

void rig_yield(int turns)
{
    for (int i = 0; i < turns; i++) {
        (void)sched_yield(); /* cannot fail on Linux */
    }
}
