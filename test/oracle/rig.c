/* oracle/rig.c - gates and the memory of the first broken promise.
 *
 * One mutex and one condition serve all gates: tests have few threads and fewer posts. `broken`
 * holds the first message until rig_run() or rig_job() clears it. */
#include "oracle/rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

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

rbt_job *rig_job(uint32_t workers, uint32_t shards, const char *consistency)
{
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = workers,
                                            .shards = shards,
                                            .consistency = consistency};
    rbt_job *job = NULL;
    forget();
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
    struct rbt_job_stats stats = {0};
    rbt_job_stats(job, &stats);
    return stats;
}

void rig_yield(int turns)
{
    for (int i = 0; i < turns; i++) {
        (void)sched_yield(); /* cannot fail on Linux */
    }
}
