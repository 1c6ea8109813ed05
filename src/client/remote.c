/* client/remote.c - the driver for processes: workers are threads here, shards are elsewhere.
 *
 * Each worker has connections of its own to all shards and drives them itself (client/sockets.h).
 * One more carrier is for what concerns the whole process (client/process.h): tables, new runs,
 * figures.
 *
 * A run ends when all processes have ended it: they meet at the coordinator, say how it went, and
 * take the first failure as everybody's. So clocks can be set back for the next run.
 *
 * Threads: any worker steps its own carrier. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/thread.h"
#include "client/cluster.h"
#include "client/driver.h"
#include "client/process.h"
#include "client/sender.h"
#include "client/sockets.h"

struct remote {
    rbt_driver driver; /* first: a driver is a remote */
    rbt_cluster *cluster;
    const struct rbt_member_plan *plan;
    struct rbt_process process;
    struct rbt_sockets_shared shared;
    struct rbt_sockets *carriers; /* one per worker of this process */
    uint32_t carrier_count;
    struct rbt_sockets control;
    rbt_time began;
    rbt_status (*function)(void *argument, uint32_t index);
    void *argument;
};

/* The carrier of the worker that this thread runs, for questions without a worker in them. */
static _Thread_local struct rbt_sockets *current;

static struct remote *remote_of(rbt_driver *driver)
{
    return (struct remote *)driver;
}

static void step_control(struct remote *remote, struct rbt_driver_call *call)
{
    call->reply = (struct rbt_driver_reply){0};
    if (call->event.kind == RBT_SHARD_TABLE) {
        call->reply.status = rbt_process_set_table(&remote->process, call);
        return;
    }
    if (call->shard == 0) {
        for (uint32_t i = 0; i < remote->carrier_count; i++) {
            rbt_carrier_reset(&remote->carriers[i].carrier);
        }
        rbt_process_begin(&remote->process);
    }
    call->reply.status = rbt_process_reset(&remote->process, call->shard);
}

static void add_stats(rbt_driver *driver, struct rbt_job_stats *stats)
{
    rbt_process_add_stats(&remote_of(driver)->process, stats);
}

/* --- Workers --------------------------------------------------------------------------------- */

static struct rbt_carrier *carrier_of(rbt_driver *driver, uint32_t worker)
{
    RBT_ASSERT(worker - driver->worker_first < remote_of(driver)->carrier_count);
    return &remote_of(driver)->carriers[worker - driver->worker_first].carrier;
}

static void step(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    struct remote *remote = remote_of(driver);
    if (count == 0) {
        return;
    }
    if (calls[0].event.kind == RBT_SHARD_TABLE || calls[0].event.kind == RBT_SHARD_RESET) {
        RBT_ASSERT(count == 1);
        step_control(remote, &calls[0]);
        return;
    }
    rbt_carrier_step(carrier_of(driver, calls[0].event.worker), calls, count);
}

static void expect(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    if (count > 0) {
        rbt_carrier_expect(carrier_of(driver, calls[0].event.worker), calls, count);
    }
}

static bool has_answer(rbt_driver *driver, uint32_t worker, uint64_t asked)
{
    return rbt_carrier_has_answer(carrier_of(driver, worker), asked);
}

static void forget(rbt_driver *driver, uint32_t worker, uint64_t asked)
{
    rbt_carrier_forget(carrier_of(driver, worker), asked);
}

static void ask_early(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    if (count > 0) {
        rbt_carrier_ask_early(carrier_of(driver, calls[0].event.worker), calls, count);
    }
}

static bool take_early(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    return count == 0 ||
           rbt_carrier_take_early(carrier_of(driver, calls[0].event.worker), calls, count);
}

static uint64_t heard(rbt_driver *driver, uint32_t worker)
{
    return rbt_carrier_heard(carrier_of(driver, worker));
}

static int64_t floor_of(rbt_driver *driver, uint32_t shard)
{
    return rbt_process_floor(&remote_of(driver)->process,
                             current == NULL ? NULL : &current->carrier, shard);
}

static uint64_t version_of(rbt_driver *driver, uint32_t shard)
{
    return atomic_load_explicit(&remote_of(driver)->process.heard[shard].version,
                                memory_order_relaxed);
}

static uint64_t stable_of(rbt_driver *driver, uint32_t worker, uint32_t table)
{
    (void)worker;
    RBT_ASSERT(table < RBT_JOB_TABLES_MAX);
    return atomic_load_explicit(&remote_of(driver)->cluster->stable[table], memory_order_relaxed);
}

/* What each thread runs. */
static rbt_status run_one(void *argument, uint32_t index)
{
    struct remote *remote = argument;
    current = &remote->carriers[index];
    struct rbt_carrier *carrier = &remote->carriers[index].carrier;
    rbt_status st = remote->function(remote->argument, remote->driver.worker_first + index);
    current = NULL;
    st = rbt_process_finish(&remote->process, carrier, st);
    if (carrier->caller.status != RBT_OK && st != RBT_OK && !remote->driver.is_reader) {
        /* It could not tell the shards that it has left: the others here would wait for ever. */
        rbt_member_give_up(remote->cluster->member, st, rbt_last_error());
    }
    return st;
}

/* Waits for the other processes; the first failure is everybody's. */
static rbt_status agree(struct remote *remote, rbt_status st)
{
    struct rbt_outcome *own = rbt_calloc(2, sizeof *own);
    if (own == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to end a run");
    }
    rbt_outcome_fill(&own[0], st);
    rbt_status first = rbt_member_gather(remote->cluster->member, &own[0],
                                         rbt_outcome_size(&own[0]), rbt_outcome_take, &own[1]);
    if (first == RBT_OK && own[1].status != RBT_OK) {
        first = rbt_outcome_fail(&own[1]);
    }
    rbt_free(own);
    return first;
}

/* Whether a worker could not tell the shards that it has left. Others wait there for its clocks,
 * and would never come to agree: they hear of it when this process leaves the cluster. */
static bool is_cut_off(const struct remote *remote)
{
    for (uint32_t i = 0; i < remote->carrier_count; i++) {
        if (remote->carriers[i].carrier.caller.status != RBT_OK) {
            return true;
        }
    }
    return false;
}

static rbt_status run(rbt_driver *driver, rbt_status (*function)(void *argument, uint32_t index),
                      void *argument)
{
    struct remote *remote = remote_of(driver);
    remote->began = rbt_clock_now();
    remote->function = function;
    remote->argument = argument;
    const rbt_status st = rbt_thread_run(remote->carrier_count, run_one, remote);
    return remote->driver.is_reader || is_cut_off(remote) ? st : agree(remote, st);
}

static rbt_time now(rbt_driver *driver)
{
    return rbt_clock_now() - remote_of(driver)->began;
}

/* Time passes by itself here. */
static void spend(rbt_driver *driver, uint32_t worker, double seconds)
{
    (void)driver;
    (void)worker;
    (void)seconds;
}

/* Where the records of all workers go. */
struct sharing {
    const struct rbt_member_plan *plan;
    char *records;
    size_t size;
};

static void take_records(void *context, uint32_t process, const char *bytes, size_t size)
{
    const struct sharing *sharing = context;
    const size_t first = (size_t)process * sharing->plan->process_size;
    if (size % sharing->size == 0 && first + size / sharing->size <= sharing->plan->worker_count) {
        memcpy(sharing->records + first * sharing->size, bytes, size);
    }
}

static rbt_status share(rbt_driver *driver, void *records, size_t size)
{
    struct remote *remote = remote_of(driver);
    struct sharing sharing = {.plan = remote->plan, .records = records, .size = size};
    return rbt_member_gather(remote->cluster->member,
                             (const char *)records + driver->worker_first * size,
                             driver->worker_here * size, take_records, &sharing);
}

static rbt_status tell_staleness(rbt_driver *driver, uint32_t table, int64_t staleness,
                                 bool is_awaited)
{
    rbt_member *member = remote_of(driver)->cluster->member;
    if (is_awaited) {
        return rbt_member_set_bound(member, table, staleness);
    }
    rbt_member_advise_bound(member, table, staleness);
    return RBT_OK;
}

static int64_t bound_of(rbt_driver *driver, uint32_t place, const struct rbt_driver_bound *wanted)
{
    RBT_ASSERT(place == 0);
    return rbt_cluster_bound(remote_of(driver)->cluster, wanted->table, wanted->follows_job,
                             wanted->staleness);
}

/* --- Opening and closing --------------------------------------------------------------------- */

static void listen_to(rbt_cluster *cluster, void *context,
                      void (*on_staleness)(void *context, uint32_t place, uint32_t table,
                                           int64_t staleness))
{
    pthread_mutex_lock(&cluster->mutex);
    cluster->context = context;
    cluster->on_staleness = on_staleness;
    pthread_mutex_unlock(&cluster->mutex);
}

static void close_remote(rbt_driver *driver)
{
    struct remote *remote = remote_of(driver);
    listen_to(remote->cluster, NULL, NULL);
    rbt_sender_stop(remote->shared.sender);
    for (uint32_t i = 0; i < remote->carrier_count; i++) {
        rbt_sockets_deinit(&remote->carriers[i]);
    }
    rbt_sockets_deinit(&remote->control);
    rbt_free(remote->carriers);
    if (remote->process.run > remote->cluster->runs) { /* it is 0 if opening has failed */
        remote->cluster->runs = remote->process.run;
    }
    rbt_process_deinit(&remote->process);
    remote->cluster->is_busy = false;
    rbt_free(remote);
}

static const struct rbt_driver_ops ops = {.step = step,
                                          .ask = expect,
                                          .has_answer = has_answer,
                                          .forget = forget,
                                          .ask_early = ask_early,
                                          .take_early = take_early,
                                          .heard = heard,
                                          .floor = floor_of,
                                          .version = version_of,
                                          .stable = stable_of,
                                          .run = run,
                                          .now = now,
                                          .spend = spend,
                                          .stats = add_stats,
                                          .share = share,
                                          .tell_staleness = tell_staleness,
                                          .bound = bound_of,
                                          .close = close_remote};

static const struct rbt_driver_ops reader_ops = {.step = step,
                                                 .ask = expect,
                                                 .has_answer = has_answer,
                                                 .forget = forget,
                                                 .floor = floor_of,
                                                 .version = version_of,
                                                 .stable = stable_of,
                                                 .run = run,
                                                 .now = now,
                                                 .spend = spend,
                                                 .stats = add_stats,
                                                 .close = close_remote};

/* What was asked for, or what suits the way: over TCP zeros are left out. */
static enum rbt_compression compression_of(const struct remote *remote)
{
    const bool is_unix = rbt_address_is_unix(remote->plan->shards[0]);
    return remote->cluster->compression >= 0
               ? (enum rbt_compression)remote->cluster->compression
               : (is_unix ? RBT_COMPRESSION_NONE : RBT_COMPRESSION_ZEROS);
}

static rbt_status open_carriers(struct remote *remote, uint32_t count)
{
    struct rbt_stream_options *streams = rbt_process_streams(&remote->process);
    if (streams == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for connections");
    }
    rbt_status st = rbt_sockets_init(&remote->control, &remote->shared, RBT_FRAME_NOBODY, streams);
    remote->process.control = &remote->control.carrier;
    for (uint32_t i = 0; st == RBT_OK && i < count; i++) {
        remote->carrier_count = i + 1;
        st = rbt_sockets_init(&remote->carriers[i], &remote->shared,
                              remote->driver.worker_first + i, streams);
    }
    rbt_free(streams);
    return st;
}

static rbt_status fill(struct remote *remote, const struct rbt_driver_options *options)
{
    const struct rbt_member_plan *plan = remote->plan;
    remote->driver = (rbt_driver){.ops = remote->cluster->is_reader ? &reader_ops : &ops,
                                  .process_size = plan->process_size,
                                  .worker_first = plan->worker_first,
                                  .worker_here = plan->thread_count,
                                  .place_count = 1,
                                  .sends_ahead = true,
                                  .counts_bytes = true,
                                  .is_reader = remote->cluster->is_reader};
    const rbt_cluster *cluster = remote->cluster;
    const struct rbt_process_options process = {.plan = plan,
                                                .name_space = cluster->name_space,
                                                .is_reader = cluster->is_reader,
                                                .silence_max = cluster->silence_max,
                                                .cut_max = cluster->cut_max,
                                                .compression = compression_of(remote),
                                                .table_max = options->table_max,
                                                .runs = cluster->runs};
    rbt_status st = rbt_process_init(&remote->process, &process);
    if (st != RBT_OK) {
        return st;
    }
    remote->shared = (struct rbt_sockets_shared){.caller = &remote->process.shared,
                                                 .member = cluster->member,
                                                 .security = cluster->security,
                                                 .heard = remote->process.heard};
    remote->carriers = rbt_calloc(plan->thread_count, sizeof *remote->carriers);
    if (remote->carriers == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for connections");
    }
    st = open_carriers(remote, plan->thread_count);
    return st != RBT_OK ? st
                        : rbt_sender_start(remote->carriers, remote->carrier_count,
                                           plan->shard_count, &remote->shared.sender);
}

rbt_status rbt_remote_open(rbt_cluster *cluster, const struct rbt_driver_options *options,
                           rbt_driver **driver)
{
    if (cluster->is_busy) {
        return rbt_fail(RBT_E_BUSY, "a cluster handle runs one job at a time");
    }
    struct remote *remote = rbt_calloc(1, sizeof *remote);
    if (remote == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a driver");
    }
    cluster->is_busy = true;
    remote->cluster = cluster;
    remote->plan = rbt_member_plan(cluster->member);
    const rbt_status st = fill(remote, options);
    if (st != RBT_OK) {
        close_remote(&remote->driver);
        return st;
    }
    listen_to(cluster, options->context, options->on_staleness);
    *driver = &remote->driver;
    return RBT_OK;
}
