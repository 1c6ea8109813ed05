/* oracle/remote_rig.h - for tests: a job in several processes, which are threads here: a
 * coordinator, two servers and worker processes, over Unix sockets.
 *
 * cmocka's assertions belong to the test's thread: processes and workers return a status, and the
 * test looks at that. Nothing sleeps; where an order matters it is made with semaphores. */
#ifndef RUBATO_ORACLE_REMOTE_RIG_H
#define RUBATO_ORACLE_REMOTE_RIG_H

#include "base/test.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rubato/rubato.h>

#include "base/error.h"
#include "coordinator/coordinator.h"
#include "net/nearby.h"
#include "oracle/cutter.h"
#include "oracle/rig.h"
#include "server/server.h"

#define SECOND INT64_C(1000000000)

/* A test may say how many processes there are; they have four workers in all. */
#ifndef RIG_PROCESSES
#define RIG_PROCESSES 2
#endif

enum { SERVERS = 2, PROCESSES = RIG_PROCESSES, WORKERS = 4, THREADS = WORKERS / PROCESSES };
enum { CLOCKS = 12, KEYS = 40, WIDTH = 3 };
enum { WIDE = 40000 }; /* elements of a row that is sent from, and read to, where it belongs */

/* What workers leave behind, each in its own part. */
struct results {
    float last[WORKERS][KEYS * WIDTH];
    int64_t sums[WORKERS];
    int64_t elements[WORKERS];
    int64_t floors[WORKERS];
};

struct process;

/* One test: what each process does with its job. */
struct scenario {
    rbt_status (*body)(struct process *process);
    const char *consistency;
    uint64_t bandwidth; /* for rows that travel early */
    const char *filter; /* of the dense rows and the wide one; or NULL */
    const char *pack;   /* of the others */
    rbt_worker_function work;
    uint32_t more_jobs; /* that each process opens, one after the other, when the first is closed */
    sem_t gates[2];
    struct results *results;
};

struct process {
    struct scenario *scenario;
    const char *coordinator;
    bool is_reader;
    pthread_t thread;
    uint32_t index;
    rbt_job *job;
    rbt_table *dense;
    rbt_table *sparse;
    rbt_table *counts;
    rbt_table *wide;
    rbt_table *versions; /* the test's own */
    rbt_table *touched;  /* with the rule that TOUCHED_RULE names, see rules/touched.c */
    rbt_status status;
    char text[RBT_ERROR_MAX];
};

struct server {
    struct rbt_server_options options;
    char listen[128];
    pthread_t thread;
    rbt_status status;
    struct cutter cutter; /* between it and the workers, if there is one */
    bool has_cutter;
};

struct fixture {
    char folder[64];
    char address[128];
    struct rbt_coordinator_options options;
    pthread_t thread;
    rbt_status status;
    uint32_t cut_bytes; /* what a connection to a server carries before it is cut; 0: all */
    struct server servers[SERVERS];
    struct process processes[PROCESSES + 1];
    struct scenario scenario;
    struct results results;
};

static inline void *run_coordinator(void *argument)
{
    struct fixture *f = argument;
    f->status = rbt_coordinator_run(&f->options);
    return NULL;
}

static inline void *run_server(void *argument)
{
    struct server *server = argument;
    server->status = rbt_server_run(&server->options);
    return NULL;
}

static inline void start_server(struct fixture *f, int index)
{
    const uint32_t cut_bytes = f->cut_bytes;
    struct server *server = &f->servers[index];
    struct cutter *cutter = &server->cutter;
    (void)snprintf(server->listen, sizeof server->listen, "unix:%s/s%d", f->folder, index);
    server->options = (struct rbt_server_options){.coordinator = f->address,
                                                  .index = index,
                                                  .threads = index == 0 && cut_bytes == 0 ? 2 : 1,
                                                  .listen = server->listen,
                                                  .start_timeout = 40 * SECOND,
                                                  .silence_max = 40 * SECOND,
                                                  .cut_max = 20 * SECOND};
    server->options.plugin_count = rig_plugins(&server->options.plugins);
    if (cut_bytes > 0) {
        (void)snprintf(cutter->address, sizeof cutter->address, "unix:%s/x%d", f->folder, index);
        (void)snprintf(cutter->target, sizeof cutter->target, "%s", server->listen);
        cutter->cuts_left = 150;
        cutter->bytes_max = cut_bytes;
        cutter_start(cutter, (uint64_t)index);
        server->has_cutter = true;
        server->options.advertise = cutter->address;
    }
    assert_int_equal(pthread_create(&server->thread, NULL, run_server, server), 0);
}

static inline int set_up(void **state, uint32_t cut_bytes)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    f->cut_bytes = cut_bytes;
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/rubato-remote-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->address, sizeof f->address, "unix:%s/c", f->folder);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sem_init(&f->scenario.gates[i], 0, 0), 0);
    }
    f->scenario.results = &f->results;
    *state = f;
    return 0;
}

static inline int setup(void **state)
{
    return set_up(state, 0);
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        (void)sem_destroy(&f->scenario.gates[i]);
    }
    (void)rmdir(f->folder);
    test_free(f);
    return 0;
}

static inline rbt_status open_tables(struct process *p)
{
    const struct rbt_table_options dense = {.struct_size = sizeof dense,
                                            .width = WIDTH,
                                            .init = RBT_INIT_UNIFORM,
                                            .init_high = 1,
                                            .seed = 3,
                                            .filter = p->is_reader ? NULL : p->scenario->filter};
    const struct rbt_table_options sparse = {.struct_size = sizeof sparse,
                                             .type = RBT_I64,
                                             .layout = RBT_SPARSE,
                                             .width = 1000,
                                             .filter = p->scenario->pack};
    const struct rbt_table_options counts = {
        .struct_size = sizeof counts, .type = RBT_I64, .filter = p->scenario->pack};
    rbt_status st = rbt_table_open(p->job, "dense", &dense, &p->dense);
    st = st != RBT_OK ? st : rbt_table_open(p->job, "sparse", &sparse, &p->sparse);
    const struct rbt_table_options wide = {
        .struct_size = sizeof wide, .width = WIDE, .filter = p->scenario->filter};
    st = st != RBT_OK ? st : rbt_table_open(p->job, "counts", &counts, &p->counts);
    st = st != RBT_OK ? st : rbt_table_open(p->job, "wide", &wide, &p->wide);
    const struct rbt_table_options touched = {
        .struct_size = sizeof touched, .width = 2, .rule = getenv("TOUCHED_RULE")};
    return st != RBT_OK ? st : rbt_table_open(p->job, "touched", &touched, &p->touched);
}

/* Opens the job, in a cluster or here, and does what the scenario says. */
static inline rbt_status run_job(struct process *p, rbt_cluster *cluster)
{
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = cluster == NULL ? WORKERS : 0,
                                            .shards = cluster == NULL ? 3 : 0,
                                            .consistency = p->scenario->consistency,
                                            .bandwidth = p->scenario->bandwidth,
                                            .cluster = cluster};
    rbt_status st = rbt_job_open(&options, &p->job);
    st = st != RBT_OK ? st : open_tables(p);
    st = st != RBT_OK ? st : p->scenario->body(p);
    (void)snprintf(p->text, sizeof p->text, "%s", st == RBT_OK ? "" : rbt_last_error());
    rbt_job_close(p->job);
    return st;
}

static inline void *run_process(void *argument)
{
    struct process *p = argument;
    const struct rbt_cluster_options options = {.struct_size = sizeof options,
                                                .coordinator = p->coordinator,
                                                .workers = WORKERS,
                                                .threads = p->is_reader ? WORKERS + 2 : THREADS,
                                                .index = p->is_reader ? 0 : (int)p->index + 1,
                                                .is_reader = p->is_reader,
                                                .start_timeout = 40,
                                                .timeout = 40};
    rbt_cluster *cluster = NULL;
    p->status = rbt_cluster_join(&options, &cluster);
    (void)snprintf(p->text, sizeof p->text, "%s", p->status == RBT_OK ? "" : rbt_last_error());
    for (uint32_t i = 0; p->is_reader && i < PROCESSES; i++) {
        (void)sem_wait(&p->scenario->gates[0]); /* until there is something to read */
    }
    for (uint32_t i = 0; p->status == RBT_OK && i <= p->scenario->more_jobs; i++) {
        p->status = run_job(p, cluster);
    }
    for (uint32_t i = 0; p->is_reader && i < PROCESSES; i++) {
        (void)sem_post(&p->scenario->gates[1]);
    }
    rbt_cluster_leave(cluster, RBT_OK, NULL);
    return NULL;
}

static inline void start_cluster(struct fixture *f)
{
    f->options = (struct rbt_coordinator_options){.listen = f->address,
                                                  .server_count = SERVERS,
                                                  .is_once = true,
                                                  .start_timeout = 40 * SECOND,
                                                  .silence_max = 40 * SECOND,
                                                  .cut_max = 20 * SECOND};
    assert_int_equal(pthread_create(&f->thread, NULL, run_coordinator, f), 0);
    for (int i = 0; i < SERVERS; i++) {
        start_server(f, i);
    }
}

/* Runs the scenario in `count` processes, the last of them a reader if there is one more. Its
 * threads start and end here, with no assertion between that only a test could fail: no test leaves
 * some behind that use its fixture. */
static inline void run_all(struct fixture *f, uint32_t count)
{
    start_cluster(f);
    for (uint32_t i = 0; i < count; i++) {
        f->processes[i] = (struct process){.scenario = &f->scenario,
                                           .coordinator = f->address,
                                           .is_reader = i == PROCESSES,
                                           .index = i};
        assert_int_equal(
            pthread_create(&f->processes[i].thread, NULL, run_process, &f->processes[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(f->processes[i].thread, NULL), 0);
    }
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    for (int i = 0; i < SERVERS; i++) {
        assert_int_equal(pthread_join(f->servers[i].thread, NULL), 0);
        if (f->servers[i].has_cutter) {
            cutter_stop(&f->servers[i].cutter);
        }
    }
}

static inline void expect_well(const struct fixture *f, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (f->processes[i].status != RBT_OK) {
            fail_msg("process %u: %s", i, f->processes[i].text);
        }
    }
    assert_int_equal(f->status, RBT_OK);
    for (int i = 0; i < SERVERS; i++) {
        assert_int_equal(f->servers[i].status, RBT_OK);
    }
}

/* A scenario's body that is one run of its workers. */
static inline rbt_status run_once(struct process *p)
{
    return rbt_job_run(p->job, p->scenario->work, p);
}

#endif
