/* client/remote.c - the driver for processes: workers are threads here, shards are elsewhere.
 *
 * Each worker has connections of its own to all shards and drives them itself (client/carrier.h).
 * One more carrier, behind a mutex, is for what concerns the whole process: tables, new runs,
 * figures.
 *
 * A run ends when all processes have ended it: they meet at the coordinator, say how it went, and
 * take the first failure as everybody's. So clocks can be set back for the next run.
 *
 * Threads: any worker steps its own carrier. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/thread.h"
#include "client/carrier.h"
#include "client/cluster.h"
#include "client/driver.h"
#include "client/sender.h"
#include "math/merge.h"

enum { FLOOR_LOOKS = 64 }; /* at a floor that does not move, before it is asked for */

struct remote {
    rbt_driver driver; /* first: a driver is a remote */
    rbt_cluster *cluster;
    const struct rbt_member_plan *plan;
    uint64_t bandwidth;
    const char *priority; /* the job's */
    struct rbt_carrier_shared shared;
    struct rbt_carrier *carriers; /* one per worker of this process */
    uint32_t carrier_count;
    uint32_t table_max;
    uint64_t run; /* its number */
    rbt_time began;
    rbt_status (*function)(void *argument, uint32_t index);
    void *argument;
    pthread_mutex_t mutex; /* rank SHARD; guards the carrier below */
    struct rbt_carrier control;
    bool has_control;
};

/* The carrier of the worker that this thread runs, for questions without a worker in them. */
static _Thread_local struct rbt_carrier *current;
static _Thread_local uint32_t floor_looks;

static struct remote *remote_of(rbt_driver *driver)
{
    return (struct remote *)driver;
}

static void lock(struct remote *remote)
{
    const int error = pthread_mutex_lock(&remote->mutex);
    RBT_ASSERT(error == 0);
}

static void unlock(struct remote *remote)
{
    const int error = pthread_mutex_unlock(&remote->mutex);
    RBT_ASSERT(error == 0);
}

/* --- What concerns the whole process --------------------------------------------------------- */

/* Asks a shard with a short message; `bytes` of the block are written. */
static rbt_status ask(struct remote *remote, uint32_t shard, struct rbt_block *block,
                      struct rbt_frame header, struct rbt_wire_done *done)
{
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a message");
    }
    header.worker = RBT_FRAME_NOBODY;
    lock(remote);
    const rbt_status st = rbt_carrier_ask(&remote->control, shard, block, header, done);
    unlock(remote);
    return st;
}

/* Whether a table at the servers is what a reader takes it for. */
static rbt_status check_read(const struct rbt_wire_table *mine, const struct rbt_wire_table *theirs)
{
    if (mine->type != theirs->type || mine->layout != theirs->layout ||
        mine->width != theirs->width) {
        return rbt_fail(RBT_E_INVALID, "table \"%s\" has another type or width than expected",
                        mine->name);
    }
    return RBT_OK;
}

/* Notes what callers must know of a table. One that is only told of another staleness may be in use
 * by other workers. */
static rbt_status note_table(struct remote *remote, const struct rbt_shard_event *event,
                             const struct rbt_wire_table *theirs)
{
    const struct rbt_shard_table *schema = event->schema;
    const bool has_filter = schema->filter != NULL && !remote->driver.is_reader;
    struct rbt_packing_table *filters = NULL;
    if (remote->shared.caller.tables[event->table].element_size != 0) {
        return RBT_OK;
    }
    const rbt_status st =
        has_filter ? rbt_packing_table_create(schema, remote->plan->worker_count, &filters)
                   : RBT_OK;
    if (st == RBT_OK) {
        remote->shared.caller.tables[event->table] = (struct rbt_caller_table){
            .element_size = (uint32_t)rbt_merge_size(schema->type),
            .width = schema->width,
            .is_sparse = schema->layout == RBT_SPARSE,
            .has_rule = theirs->rule[0] != '\0',
            .number = remote->driver.is_reader ? theirs->table : event->table,
            .filters = filters};
    }
    return st;
}

static rbt_status set_table(struct remote *remote, const struct rbt_driver_call *call)
{
    const struct rbt_shard_table *schema = call->event.schema;
    struct rbt_wire_table told = {.table = call->event.table,
                                  .type = schema->type,
                                  .layout = schema->layout,
                                  .width = schema->width,
                                  .state_width = schema->state_width,
                                  .merge = schema->merge,
                                  .init = schema->init,
                                  .partial = schema->partial,
                                  .a = schema->a,
                                  .b = schema->b,
                                  .seed = schema->seed,
                                  .staleness = schema->staleness,
                                  .follows_job = schema->follows_job,
                                  .rows_expected = schema->rows_expected,
                                  .is_synchronised = schema->is_synchronised,
                                  .bandwidth = schema->priority == NULL ? 0 : remote->bandwidth,
                                  .must_exist = remote->driver.is_reader};
    struct rbt_wire_done *done = rbt_calloc(1, sizeof *done);
    struct rbt_block *block = done == NULL ? NULL : rbt_block_create(RBT_WIRE_SHORT_MAX);
    snprintf(told.name, sizeof told.name, "%s", call->event.name);
    snprintf(told.rule, sizeof told.rule, "%s", schema->rule == NULL ? "" : schema->rule);
    snprintf(told.priority, sizeof told.priority, "%s",
             schema->priority == NULL ? "" : remote->priority);
    snprintf(told.filter, sizeof told.filter, "%s", schema->filter == NULL ? "" : schema->filter);
    if (block != NULL) {
        block->bytes = rbt_wire_put_table(block->data, &told);
    }
    rbt_status st =
        ask(remote, call->shard, block, (struct rbt_frame){.kind = RBT_FRAME_TABLE}, done);
    st = st == RBT_OK && remote->driver.is_reader ? check_read(&told, &done->table) : st;
    st = st != RBT_OK ? st : note_table(remote, &call->event, &done->table);
    rbt_free(done);
    return st;
}

/* Sets the clocks of a shard back; whoever comes first does it for all. */
static rbt_status reset_shard(struct remote *remote, uint32_t shard)
{
    if (shard == 0) {
        remote->run++;
        for (uint32_t i = 0; i < remote->carrier_count; i++) {
            rbt_carrier_reset(&remote->carriers[i]);
        }
        lock(remote); /* this one may have heard how the last run ended */
        rbt_carrier_reset(&remote->control);
        unlock(remote);
        for (uint32_t i = 0; i < remote->shared.caller.shard_count; i++) {
            atomic_store_explicit(&remote->shared.floors[i], 0, memory_order_relaxed);
        }
    }
    if (remote->driver.is_reader) {
        return RBT_OK;
    }
    struct rbt_wire_done *done = rbt_calloc(1, sizeof *done);
    struct rbt_block *block = done == NULL ? NULL : rbt_block_create(RBT_WIRE_RESET_BYTES);
    if (block != NULL) {
        block->bytes = RBT_WIRE_RESET_BYTES;
    }
    const struct rbt_frame header = {.kind = RBT_FRAME_RESET, .id = remote->run};
    const rbt_status st = ask(remote, shard, block, header, done);
    rbt_free(done);
    return st;
}

static void step_control(struct remote *remote, struct rbt_driver_call *call)
{
    call->reply = (struct rbt_driver_reply){0};
    call->reply.status = call->event.kind == RBT_SHARD_TABLE ? set_table(remote, call)
                                                             : reset_shard(remote, call->shard);
}

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_stats(rbt_driver *driver, struct rbt_job_stats *stats)
{
    struct remote *remote = remote_of(driver);
    struct rbt_wire_done *done = rbt_calloc(1, sizeof *done);
    for (uint32_t i = 0; done != NULL && i < remote->shared.caller.shard_count; i++) {
        struct rbt_block *block = rbt_block_create(RBT_WIRE_RESET_BYTES);
        if (block != NULL) {
            block->bytes = RBT_WIRE_RESET_BYTES;
        }
        if (ask(remote, i, block, (struct rbt_frame){.kind = RBT_FRAME_STATS}, done) == RBT_OK) {
            stats->updates += done->figures[0];
            stats->duplicates += done->figures[1];
            stats->rows += done->figures[2];
            stats->server_bytes += done->figures[4];
            stats->rule_bytes += done->figures[5];
            stats->rule_bytes_max += done->figures[5]; /* more is not told */
            stats->versions_max = higher(stats->versions_max, done->figures[6]);
            stats->snapshots_max = higher(stats->snapshots_max, done->figures[7]);
        } /* else the job has failed, and says so elsewhere */
    }
    rbt_free(done);
}

/* --- Workers --------------------------------------------------------------------------------- */

static struct rbt_carrier *carrier_of(rbt_driver *driver, uint32_t worker)
{
    RBT_ASSERT(worker - driver->worker_first < remote_of(driver)->carrier_count);
    return &remote_of(driver)->carriers[worker - driver->worker_first];
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

/* Whoever looks again and again must take what has come, and ask, or nothing would ever change. */
static int64_t floor_of(rbt_driver *driver, uint32_t shard)
{
    struct remote *remote = remote_of(driver);
    if (current != NULL) {
        const struct rbt_stream *stream = &current->caller.streams[shard];
        rbt_carrier_look(current);
        floor_looks = stream->requests == NULL ? floor_looks + 1 : 0;
        if (floor_looks >= FLOOR_LOOKS && current->caller.status == RBT_OK) {
            struct rbt_wire_done done;
            struct rbt_block *block = rbt_block_create(RBT_WIRE_RESET_BYTES);
            floor_looks = 0;
            if (block != NULL) {
                block->bytes = RBT_WIRE_RESET_BYTES;
                const struct rbt_frame header = {.kind = RBT_FRAME_STATS,
                                                 .worker = current->caller.worker};
                const rbt_status st = rbt_carrier_ask(current, shard, block, header, &done);
                (void)st; /* a failure shows in the next step */
            }
        }
        if (current->caller.status != RBT_OK) {
            return RBT_CLOCK_GONE; /* it need not wait for anything */
        }
    }
    return atomic_load_explicit(&remote->shared.floors[shard], memory_order_relaxed);
}

static uint64_t version_of(rbt_driver *driver, uint32_t shard)
{
    return atomic_load_explicit(&remote_of(driver)->shared.versions[shard], memory_order_relaxed);
}

static uint64_t stable_of(rbt_driver *driver, uint32_t worker, uint32_t table)
{
    (void)worker;
    RBT_ASSERT(table < RBT_CONTROL_TABLES_MAX);
    return atomic_load_explicit(&remote_of(driver)->cluster->stable[table], memory_order_relaxed);
}

/* What each thread runs. */
static rbt_status run_one(void *argument, uint32_t index)
{
    struct remote *remote = argument;
    current = &remote->carriers[index];
    rbt_status st = remote->function(remote->argument, remote->driver.worker_first + index);
    current = NULL;
    struct rbt_error_record record;
    rbt_error_save(&record);
    const rbt_status drained =
        remote->driver.is_reader ? RBT_OK : rbt_carrier_drain(&remote->carriers[index]);
    if (st != RBT_OK) {
        rbt_error_restore(&record);
    }
    st = st != RBT_OK ? st : drained;
    if (remote->carriers[index].caller.status != RBT_OK && st != RBT_OK &&
        !remote->driver.is_reader) {
        /* It could not tell the shards that it has left: the others here would wait for ever. */
        rbt_member_give_up(remote->cluster->member, st, rbt_last_error());
    }
    return st;
}

/* How a run went in a process. */
struct outcome {
    int64_t status;
    char message[RBT_ERROR_MAX];
    char hint[RBT_ERROR_MAX];
};

static void take_outcome(void *context, uint32_t process, const char *bytes, size_t size)
{
    struct outcome *first = context;
    (void)process;
    if (first->status == RBT_OK && size == sizeof *first) {
        memcpy(first, bytes, sizeof *first);
        first->message[RBT_ERROR_MAX - 1] = '\0';
        first->hint[RBT_ERROR_MAX - 1] = '\0';
    }
}

/* Waits for the other processes; the first failure is everybody's. */
static rbt_status agree(struct remote *remote, rbt_status st)
{
    struct rbt_error_record record = {0};
    struct outcome *own = rbt_calloc(2, sizeof *own);
    if (own == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to end a run");
    }
    if (st != RBT_OK) {
        rbt_error_save(&record);
    }
    own[0].status = st;
    memcpy(own[0].message, record.message, sizeof own[0].message);
    memcpy(own[0].hint, record.hint, sizeof own[0].hint);
    const rbt_status met =
        rbt_member_gather(remote->cluster->member, &own[0], sizeof own[0], take_outcome, &own[1]);
    rbt_status first = (rbt_status)own[1].status;
    if (met == RBT_OK && first != RBT_OK) {
        memcpy(record.message, own[1].message, sizeof record.message);
        memcpy(record.hint, own[1].hint, sizeof record.hint);
        rbt_error_restore(&record);
    } else if (met != RBT_OK) {
        first = met;
    }
    rbt_free(own);
    return first;
}

/* Whether a worker could not tell the shards that it has left. Others wait there for its clocks,
 * and would never come to agree: they hear of it when this process leaves the cluster. */
static bool is_cut_off(const struct remote *remote)
{
    for (uint32_t i = 0; i < remote->carrier_count; i++) {
        if (remote->carriers[i].caller.status != RBT_OK) {
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

static int64_t bound_of(rbt_driver *driver, uint32_t table, bool follows_job, int64_t staleness)
{
    return rbt_cluster_bound(remote_of(driver)->cluster, table, follows_job, staleness);
}

/* --- Opening and closing --------------------------------------------------------------------- */

static void listen_to(rbt_cluster *cluster, void *context,
                      void (*on_staleness)(void *context, uint32_t table, int64_t staleness))
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
        rbt_carrier_deinit(&remote->carriers[i]);
    }
    if (remote->has_control) {
        rbt_carrier_deinit(&remote->control);
    }
    rbt_free(remote->carriers);
    for (uint32_t i = 0; remote->shared.caller.tables != NULL && i < remote->table_max; i++) {
        rbt_packing_table_destroy(remote->shared.caller.tables[i].filters);
    }
    rbt_free(remote->shared.caller.tables);
    rbt_free(remote->shared.floors);
    rbt_free(remote->shared.versions);
    (void)pthread_mutex_destroy(&remote->mutex); /* nobody holds it */
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

/* How to reach each shard. */
static struct rbt_stream_options *make_streams(const struct remote *remote)
{
    const rbt_cluster *cluster = remote->cluster;
    const struct rbt_member_plan *plan = remote->plan;
    struct rbt_stream_options *streams = rbt_calloc(plan->shard_count, sizeof *streams);
    for (uint32_t i = 0; streams != NULL && i < plan->shard_count; i++) {
        streams[i] = (struct rbt_stream_options){.address = plan->shards[i],
                                                 .cut_max = cluster->cut_max,
                                                 .silence_max = cluster->silence_max,
                                                 .hello = {.cluster = plan->cluster,
                                                           .job = plan->job,
                                                           .secret = plan->secret,
                                                           .worker_count = plan->worker_count,
                                                           .shard = i,
                                                           .is_reader = cluster->is_reader,
                                                           .compression = compression_of(remote)}};
        struct rbt_wire_hello *hello = &streams[i].hello;
        snprintf(hello->space, sizeof hello->space, "%s", cluster->name_space);
        snprintf(hello->node, sizeof hello->node, "%s/%u", cluster->is_reader ? "reader" : "worker",
                 plan->index);
    }
    return streams;
}

static rbt_status open_carriers(struct remote *remote, uint32_t count)
{
    struct rbt_stream_options *streams = make_streams(remote);
    if (streams == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for connections");
    }
    remote->has_control = true;
    rbt_status st = rbt_carrier_init(&remote->control, &remote->shared, RBT_FRAME_NOBODY, streams);
    for (uint32_t i = 0; st == RBT_OK && i < count; i++) {
        remote->carrier_count = i + 1;
        st = rbt_carrier_init(&remote->carriers[i], &remote->shared,
                              remote->driver.worker_first + i, streams);
    }
    rbt_free(streams);
    return st;
}

static rbt_status fill(struct remote *remote, const struct rbt_remote_options *options)
{
    const struct rbt_member_plan *plan = remote->plan;
    remote->driver = (rbt_driver){.ops = remote->cluster->is_reader ? &reader_ops : &ops,
                                  .process_size = plan->process_size,
                                  .worker_first = plan->worker_first,
                                  .worker_here = plan->thread_count,
                                  .sends_ahead = true,
                                  .counts_bytes = true,
                                  .is_reader = remote->cluster->is_reader};
    remote->table_max = options->driver.table_max;
    remote->bandwidth = options->driver.bandwidth;
    remote->priority = options->driver.priority;
    remote->shared = (struct rbt_carrier_shared){
        .caller = {.shard_count = plan->shard_count,
                   .tables =
                       rbt_calloc(options->driver.table_max, sizeof *remote->shared.caller.tables),
                   .compression = compression_of(remote)},
        .member = remote->cluster->member,
        .security = remote->cluster->security,
        .floors = rbt_calloc(plan->shard_count, sizeof *remote->shared.floors),
        .versions = rbt_calloc(plan->shard_count, sizeof *remote->shared.versions)};
    remote->carriers = rbt_calloc(plan->thread_count, sizeof *remote->carriers);
    if (remote->shared.caller.tables == NULL || remote->shared.floors == NULL ||
        remote->shared.versions == NULL || remote->carriers == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for connections");
    }
    const rbt_status st = open_carriers(remote, plan->thread_count);
    return st != RBT_OK ? st
                        : rbt_sender_start(remote->carriers, remote->carrier_count,
                                           plan->shard_count, &remote->shared.sender);
}

rbt_status rbt_remote_open(const struct rbt_remote_options *options, rbt_driver **driver)
{
    rbt_cluster *cluster = options->cluster;
    if (cluster->is_busy) {
        return rbt_fail(RBT_E_BUSY, "a cluster handle runs one job at a time");
    }
    struct remote *remote = rbt_calloc(1, sizeof *remote);
    if (remote == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a driver");
    }
    const int error = pthread_mutex_init(&remote->mutex, NULL);
    RBT_ASSERT(error == 0);
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
