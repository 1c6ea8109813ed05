/* client/job.c - opening, running and closing a job. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/thread.h"
#include "client/client.h"
#include "client/cluster.h"
#include "client/staleness.h"

static const char default_consistency[] = "essp:2";
static const char default_space[] = "main";
static const char default_priority[] = "relative";

static rbt_status check_counts(const struct rbt_job_options *options)
{
    if (options->workers > RBT_JOB_WORKERS_MAX) {
        return rbt_fail(RBT_E_INVALID, "a job has at most %d workers, not %u", RBT_JOB_WORKERS_MAX,
                        options->workers);
    }
    if (options->shards > RBT_JOB_SHARDS_MAX) {
        return rbt_fail(RBT_E_INVALID, "a job has at most %d shards, not %u", RBT_JOB_SHARDS_MAX,
                        options->shards);
    }
    if (options->name_space != NULL &&
        (options->name_space[0] == '\0' || strchr(options->name_space, '/') != NULL ||
         strlen(options->name_space) >= RBT_NAME_MAX / 2)) {
        return rbt_fail(RBT_E_INVALID, "\"%s\" cannot be a namespace", options->name_space);
    }
    return RBT_OK;
}

/* What a job says of itself must be what its cluster has. */
static rbt_status check_against(const struct rbt_job_options *options,
                                const struct rbt_member_plan *plan)
{
    const char *space = options->cluster->name_space;
    if (plan->worker_count > RBT_JOB_WORKERS_MAX || plan->shard_count > RBT_JOB_SHARDS_MAX) {
        return rbt_fail(
            RBT_E_INVALID, "a job has at most %d workers and %d shards; the cluster has %u and %u",
            RBT_JOB_WORKERS_MAX, RBT_JOB_SHARDS_MAX, plan->worker_count, plan->shard_count);
    }
    if (options->workers != 0 && options->workers != plan->worker_count) {
        return rbt_fail(RBT_E_INVALID, "the cluster has %u workers for this job, not %u",
                        plan->worker_count, options->workers);
    }
    if (options->shards != 0 && options->shards != plan->shard_count) {
        return rbt_fail(RBT_E_INVALID, "the servers of the cluster have %u shards, not %u",
                        plan->shard_count, options->shards);
    }
    if (options->name_space != NULL && strcmp(options->name_space, space) != 0) {
        return rbt_fail(RBT_E_INVALID, "the cluster was joined in namespace \"%s\", not \"%s\"",
                        space, options->name_space);
    }
    return RBT_OK;
}

/* How many workers and shards there are, and where tables live. A cluster knows all of it. */
static rbt_status count(rbt_job *job, const struct rbt_job_options *options)
{
    const char *space = options->name_space == NULL ? default_space : options->name_space;
    job->worker_count = options->workers == 0 ? rbt_thread_cores() : options->workers;
    job->shard_count = options->shards == 0 ? 1 : options->shards;
    if (options->cluster != NULL) {
        const struct rbt_member_plan *plan = rbt_member_plan(options->cluster->member);
        if (options->simulation != NULL) {
            return rbt_fail(RBT_E_INVALID, "a job runs on a cluster or on a simulated one");
        }
        const rbt_status st = check_against(options, plan);
        if (st != RBT_OK) {
            return st;
        }
        job->is_in_cluster = true;
        job->worker_count = plan->worker_count;
        job->shard_count = plan->shard_count;
        space = options->cluster->name_space;
    }
    snprintf(job->name_space, sizeof job->name_space, "%s", space);
    return RBT_OK;
}

/* A process has changed the staleness of a table, or of all that follow the job. */
static void on_staleness(void *context, uint32_t place, uint32_t table, int64_t staleness)
{
    rbt_job *job = context;
    pthread_mutex_lock(&job->mutex);
    rbt_job_follow_staleness(job, place, table, staleness);
    pthread_mutex_unlock(&job->mutex);
}

/* The same in a simulation, which has one thread: a table that is being made asks when it is. */
static void on_simulated_staleness(void *context, uint32_t place, uint32_t table, int64_t staleness)
{
    rbt_job_follow_staleness(context, place, table, staleness);
}

static rbt_status open_driver(rbt_job *job, const struct rbt_job_options *options)
{
    const struct rbt_driver_options driver = {
        .worker_count = job->worker_count,
        .shard_count = job->shard_count,
        .table_max = RBT_JOB_TABLES_MAX,
        .context = job,
        .on_staleness = options->simulation != NULL ? on_simulated_staleness : on_staleness};
    if (options->cluster != NULL) {
        return rbt_remote_open(options->cluster, &driver, &job->driver);
    }
    return options->simulation != NULL ? rbt_sim_open(options->simulation, &driver, &job->driver)
                                       : rbt_local_open(&driver, &job->driver);
}

/* How much may travel early, and what first. */
static rbt_status take_budget(rbt_job *job, const struct rbt_job_options *options)
{
    struct rbt_priority_policy priority;
    const char *text = options->priority == NULL ? default_priority : options->priority;
    if (strlen(text) >= sizeof job->priority) {
        return rbt_fail(RBT_E_INVALID, "the path of a priority has at most %zu bytes",
                        sizeof job->priority - 1);
    }
    job->bandwidth = options->bandwidth;
    snprintf(job->priority, sizeof job->priority, "%s", text);
    return rbt_priority_find(text, &priority);
}

/* Begins with the consistency's staleness, unless others have changed it. */
static rbt_status take_staleness(rbt_job *job)
{
    const rbt_driver *driver = job->driver;
    const struct rbt_driver_bound wanted = {RBT_CONTROL_ALL, true, job->consistency.staleness};
    atomic_int_least64_t *places = rbt_calloc(driver->place_count, sizeof *places);
    if (places == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a job of %u workers", job->worker_count);
    }
    pthread_mutex_lock(&job->mutex); /* who is told of another one waits */
    for (uint32_t i = 0; i < driver->place_count; i++) {
        atomic_init(&places[i], driver->ops->bound == NULL
                                    ? wanted.staleness
                                    : driver->ops->bound(job->driver, i, &wanted));
    }
    job->consistency.staleness = atomic_load_explicit(&places[0], memory_order_relaxed);
    job->staleness = places;
    pthread_mutex_unlock(&job->mutex);
    return RBT_OK;
}

static rbt_status fill_job(rbt_job *job, const struct rbt_job_options *options)
{
    rbt_status counted = count(job, options);
    counted = counted != RBT_OK ? counted : take_budget(job, options);
    if (counted != RBT_OK) {
        return counted;
    }
    rbt_status st = rbt_consistency_parse(options->consistency == NULL ? default_consistency
                                                                       : options->consistency,
                                          &job->consistency);
    if (st != RBT_OK) {
        return st;
    }
    rbt_tuner_init(&job->tuner, 0);
    job->stats = rbt_calloc(job->worker_count, sizeof *job->stats);
    job->tables = rbt_calloc(RBT_JOB_TABLES_MAX, sizeof(rbt_table *));
    if (job->stats == NULL || job->tables == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a job of %u workers", job->worker_count);
    }
    st = open_driver(job, options);
    if (st == RBT_OK) {
        const uint32_t size = job->driver->process_size;
        job->process_count = (job->worker_count + size - 1) / size;
    }
    return st != RBT_OK ? st : take_staleness(job);
}

rbt_status rbt_job_open(const struct rbt_job_options *options, rbt_job **job)
{
    struct rbt_job_options complete = {.struct_size = sizeof complete};
    if (options != NULL) {
        const rbt_status taken = rbt_sized_take(&complete, options, sizeof complete);
        if (taken != RBT_OK) {
            return taken;
        }
    }
    rbt_status st = check_counts(&complete);
    rbt_job *j = st != RBT_OK ? NULL : rbt_calloc(1, sizeof *j);
    if (j == NULL) {
        return st != RBT_OK ? st : rbt_fail(RBT_E_NOMEM, "could not allocate a job");
    }
    const int error = pthread_mutex_init(&j->mutex, NULL);
    RBT_ASSERT(error == 0);
    st = fill_job(j, &complete);
    if (st != RBT_OK) {
        rbt_job_close(j);
        return st;
    }
    *job = j;
    return RBT_OK;
}

void rbt_job_close(rbt_job *job)
{
    if (job == NULL) {
        return;
    }
    RBT_ASSERT(job->workers == NULL); /* not while it runs */
    for (uint32_t i = 0; i < job->table_count; i++) {
        rbt_table_free(job->tables[i]);
    }
    if (job->driver != NULL) {
        job->driver->ops->close(job->driver);
    }
    rbt_free(job->tables);
    rbt_free(job->stats);
    rbt_free(job->staleness);
    (void)pthread_mutex_destroy(&job->mutex); /* nobody holds it */
    rbt_free(job);
}

static void free_worker(rbt_worker *worker)
{
    for (uint32_t i = 0; worker->locals != NULL && i < worker->table_count; i++) {
        rbt_worker_free_table(worker->locals[i]);
    }
    rbt_free(worker->locals);
    rbt_free(worker->batches);
    rbt_free(worker->work);
    rbt_free(worker->applied);
    rbt_free(worker->pulls);
    rbt_free(worker->stamps);
    rbt_free(worker->calls);
}

static void free_workers(rbt_job *job)
{
    for (uint32_t i = 0; job->workers != NULL && i < job->worker_count; i++) {
        free_worker(&job->workers[i]);
    }
    rbt_free(job->workers);
    job->workers = NULL;
}

static rbt_status make_workers(rbt_job *job)
{
    job->workers = rbt_calloc(job->worker_count, sizeof *job->workers);
    for (uint32_t i = 0; job->workers != NULL && i < job->worker_count; i++) {
        rbt_worker *worker = &job->workers[i];
        worker->job = job;
        worker->index = i;
        worker->process_first = i / job->driver->process_size * job->driver->process_size;
        worker->process_size = job->worker_count - worker->process_first;
        if (worker->process_size > job->driver->process_size) {
            worker->process_size = job->driver->process_size;
        }
        worker->shard_first = job->driver->has_queues ? i % job->shard_count : 0;
        worker->sequence = 1;
        const struct rbt_comm_options budget = {.rate = job->bandwidth / worker->process_size};
        rbt_comm_init(&worker->out, &budget, 0);
        rbt_comm_init(&worker->in, &budget, 0);
        worker->stats = &job->stats[i];
        if (i - job->driver->worker_first >= job->driver->worker_here) {
            continue; /* it runs elsewhere */
        }
        rbt_task_init(&worker->tasks);
        worker->locals = rbt_calloc(RBT_JOB_TABLES_MAX, sizeof(struct rbt_worker_table *));
        worker->work = rbt_calloc(RBT_TASK_OPEN_MAX, sizeof *worker->work);
        worker->calls = rbt_calloc(job->shard_count, sizeof *worker->calls);
        worker->pulls = rbt_calloc(job->shard_count, sizeof *worker->pulls);
        worker->stamps = rbt_calloc(job->shard_count, sizeof *worker->stamps);
        if (worker->locals == NULL || worker->work == NULL || worker->calls == NULL ||
            worker->pulls == NULL || worker->stamps == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate worker %u", i);
        }
    }
    return job->workers != NULL ? RBT_OK : rbt_fail(RBT_E_NOMEM, "could not allocate workers");
}

/* What each thread runs: the user's function, then the worker leaves, whatever happened. */
static rbt_status run_worker(void *argument, uint32_t index)
{
    rbt_job *job = argument;
    rbt_worker *worker = &job->workers[index];
    rbt_status st = job->function(worker, job->argument);
    if (st == RBT_OK) {
        st = rbt_worker_leave(worker);
    }
    if (st != RBT_OK) {
        rbt_worker_abandon(worker);
    }
    rbt_worker_retire(worker);
    return st;
}

/* Clocks back to 0; rows stay. */
static rbt_status reset(rbt_job *job)
{
    rbt_status st = RBT_OK;
    for (uint32_t shard = 0; st == RBT_OK && shard < job->shard_count; shard++) {
        struct rbt_driver_call call = {.shard = shard, .event = {.kind = RBT_SHARD_RESET}};
        job->driver->ops->step(job->driver, &call, 1);
        st = call.reply.status;
    }
    for (uint32_t i = 0; st == RBT_OK && i < job->table_count; i++) {
        st = rbt_table_reset(job->tables[i]);
    }
    return st;
}

rbt_status rbt_job_run(rbt_job *job, rbt_worker_function function, void *argument)
{
    if (job->workers != NULL) {
        return rbt_fail(RBT_E_BUSY, "the job is running already");
    }
    rbt_status st = reset(job);
    if (job->consistency.is_tuned) { /* starts from what it has found, but not from its measures */
        const int64_t advice = job->tuner.advice;
        rbt_tuner_init(&job->tuner, job->consistency.staleness);
        job->tuner.advice = advice;
    }
    st = st != RBT_OK ? st : make_workers(job);
    if (st == RBT_OK) {
        job->is_shared = job->is_shared && job->driver->ops->share == NULL;
        job->function = function;
        job->argument = argument;
        st = job->driver->ops->run(job->driver, run_worker, job);
        st = st != RBT_OK || job->driver->ops->share == NULL
                 ? st
                 : job->driver->ops->share(job->driver, job->stats, sizeof *job->stats);
        job->is_shared = st == RBT_OK;
    }
    free_workers(job);
    return st;
}

void rbt_job_advise_staleness(rbt_job *job, int64_t staleness)
{
    if (job->consistency.is_tuned && staleness >= 0) {
        rbt_tuner_advise(&job->tuner, staleness);
    }
}

int64_t rbt_job_staleness(const rbt_job *job)
{
    return atomic_load_explicit(&job->staleness[job->driver->place], memory_order_relaxed);
}

bool rbt_job_is_here(const rbt_job *job, uint32_t worker)
{
    return worker - job->driver->worker_first < job->driver->worker_here;
}

static uint64_t load(const atomic_uint_least64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* How far apart the workers are that have not left. */
static void add_clocks(const rbt_job *job, struct rbt_job_stats *stats)
{
    int64_t min = RBT_CLOCK_GONE;
    for (uint32_t i = 0; job->workers != NULL && i < job->worker_count; i++) {
        const rbt_worker *worker = &job->workers[i];
        if (!atomic_load_explicit(&worker->has_left, memory_order_relaxed)) {
            const int64_t clock = rbt_client_clock(worker);
            min = clock < min ? clock : min;
            stats->clock_max = clock > stats->clock_max ? clock : stats->clock_max;
        }
    }
    stats->clock_min = min == RBT_CLOCK_GONE ? 0 : min;
}

static void sum_stats(rbt_job *job, struct rbt_job_stats *stats)
{
    *stats = (struct rbt_job_stats){.workers = job->is_shared ? job->worker_count
                                                              : job->driver->worker_here};
    uint64_t lag_sum = 0;
    uint64_t wait_ns = 0;
    for (uint32_t i = 0; i < job->worker_count; i++) {
        const struct rbt_worker_stats *worker = &job->stats[i];
        stats->reads += load(&worker->reads);
        stats->reads_waited += load(&worker->reads_waited);
        stats->fetches += load(&worker->fetches);
        stats->bytes_sent += load(&worker->bytes_sent);
        stats->bytes_received += load(&worker->bytes_received);
        for (size_t k = 0; k < RBT_TRAFFIC_CLASSES; k++) {
            stats->traffic_sent[k] += load(&worker->traffic_sent[k]);
            stats->traffic_received[k] += load(&worker->traffic_received[k]);
        }
        stats->early_sent += load(&worker->early_sent);
        stats->early_received += load(&worker->early_received);
        stats->early_bytes_sent += load(&worker->early_bytes_sent);
        stats->early_bytes_received += load(&worker->early_bytes_received);
        stats->early_pauses += load(&worker->early_pauses);
        stats->filter_keys_in += load(&worker->filtered[RBT_FILTERED_KEYS][0]);
        stats->filter_keys_out += load(&worker->filtered[RBT_FILTERED_KEYS][1]);
        stats->filter_push_in += load(&worker->filtered[RBT_FILTERED_PUSH][0]);
        stats->filter_push_out += load(&worker->filtered[RBT_FILTERED_PUSH][1]);
        stats->filter_pull_in += load(&worker->filtered[RBT_FILTERED_PULL][0]);
        stats->filter_pull_out += load(&worker->filtered[RBT_FILTERED_PULL][1]);
        lag_sum += load(&worker->lag_sum);
        wait_ns += load(&worker->wait_ns);
        const int64_t lag_max = (int64_t)load(&worker->lag_max);
        stats->lag_max = lag_max > stats->lag_max ? lag_max : stats->lag_max;
        for (size_t k = 0; k < RBT_LAG_COUNTS; k++) {
            stats->lag_counts[k] += load(&worker->lag_counts[k]);
        }
        for (size_t k = 0; k < RBT_TIMES_COUNTS; k++) {
            stats->row_sends[k] += load(&worker->row_sends[k]);
            stats->row_receipts[k] += load(&worker->row_receipts[k]);
        }
    }
    stats->wait_seconds = (double)wait_ns * 1e-9;
    stats->lag_mean = stats->reads == 0 ? 0.0 : (double)lag_sum / (double)stats->reads;
    add_clocks(job, stats);
    job->driver->ops->stats(job->driver, stats);
}

rbt_status rbt_job_stats(rbt_job *job, struct rbt_job_stats *stats)
{
    struct rbt_job_stats full;
    sum_stats(job, &full);
    return rbt_sized_give(stats, &full, sizeof full);
}
