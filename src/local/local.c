/* local/local.c - the embedded driver: shards in this process, stepped by the caller's own thread.
 *
 * A shard is a state machine behind a mutex. A worker locks it, steps it and unlocks it: no queue,
 * no copy, no other thread. A read that may not be answered yet is parked by the shard; its worker
 * first spins for a moment on the shard's published floor (a wake-up across cores costs some 20 us,
 * more than many waits last), then sleeps on a condition variable of its own until somebody's step
 * makes it ready. So a clock wakes exactly the readers that it was holding back.
 *
 * Threads: any worker; the mutex of a shard guards the shard and the ready flags of its readers.
 * Memory: all of it when the driver is opened; the shards' tables grow. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"
#include "client/driver.h"
#include "store/shard.h"

enum {
    SPIN_MAX = 2000, /* looks at the floor before sleeping, some 20 to 50 us */
};

/* A worker that waits for a shard. */
struct waiter {
    pthread_cond_t wake;
    bool is_ready;
};

struct shard {
    _Alignas(64) atomic_int_least64_t floor; /* release after each step; acquire by spinners */
    atomic_uint_least64_t version;           /* the same */
    _Alignas(64) pthread_mutex_t mutex;      /* rank SHARD; guards all below */
    rbt_shard *core;
    struct rbt_shard_effect *effects; /* worker_count + 1 */
    struct waiter *waiters;           /* one per worker */
};

struct local {
    rbt_driver driver; /* first: a driver is a local */
    uint32_t worker_count;
    uint32_t shard_count;
    bool may_spin;  /* there is a core for everybody */
    rbt_time began; /* the run */
    struct shard *shards;
};

static struct local *local_of(rbt_driver *driver)
{
    return (struct local *)driver;
}

static void lock(struct shard *shard)
{
    const int error = pthread_mutex_lock(&shard->mutex);
    RBT_ASSERT(error == 0);
}

static void unlock(struct shard *shard)
{
    const int error = pthread_mutex_unlock(&shard->mutex);
    RBT_ASSERT(error == 0);
}

/* Steps the core and does what it asks for; the mutex is held. Returns true if `event` was a
 * request that has been answered, or anything else. */
static bool step_locked(struct shard *shard, const struct rbt_shard_event *event,
                        struct rbt_driver_reply *reply)
{
    const bool is_request = event->kind == RBT_SHARD_PULL || event->kind == RBT_SHARD_SCAN;
    struct rbt_shard_outbox out = {.effects = shard->effects};
    rbt_shard_step(shard->core, event, &out);
    bool is_answered = !is_request;
    for (size_t i = 0; i < out.count; i++) {
        switch (out.effects[i].kind) {
        case RBT_SHARD_ANSWERED:
            is_answered = true;
            break;
        case RBT_SHARD_READY:
            shard->waiters[out.effects[i].request].is_ready = true;
            (void)pthread_cond_signal(&shard->waiters[out.effects[i].request].wake);
            break;
        case RBT_SHARD_REFUSED: /* there is room for one request per worker */
        case RBT_SHARD_EARLY:   /* a worker's calls come in order */
            RBT_UNREACHABLE();
        }
    }
    reply->settled =
        event->kind == RBT_SHARD_PUSH ? rbt_shard_settled(shard->core, event->worker) : 0;
    reply->status = out.status;
    reply->floor = out.floor;
    reply->version = out.version;
    atomic_store_explicit(&shard->version, out.version, memory_order_release);
    atomic_store_explicit(&shard->floor, out.floor, memory_order_release);
    return is_answered || out.status != RBT_OK; /* who failed does not wait */
}

/* Looks at the floor for a while; most waits are short. */
static void spin(const struct local *local, const struct shard *shard, int64_t need)
{
    if (!local->may_spin) {
        return;
    }
    for (int i = 0; i < SPIN_MAX; i++) {
        /* acquire: pairs with the release in step_locked(); the mutex is taken afterwards anyway */
        if (atomic_load_explicit(&shard->floor, memory_order_acquire) >= need) {
            return;
        }
        __builtin_ia32_pause();
    }
}

/* Sleeps until the request that the shard has parked may be stepped again; the mutex is held. */
static void sleep_on(struct shard *shard, uint64_t request)
{
    struct waiter *waiter = &shard->waiters[request];
    waiter->is_ready = false;
    while (!waiter->is_ready) {
        const int error = pthread_cond_wait(&waiter->wake, &shard->mutex);
        RBT_ASSERT(error == 0);
    }
}

/* One after the other: no shard is far away. */
static void step(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    const struct local *local = local_of(driver);
    for (size_t i = 0; i < count; i++) {
        RBT_ASSERT(calls[i].shard < local->shard_count);
        struct shard *shard = &local->shards[calls[i].shard];
        const struct rbt_shard_event *event = &calls[i].event;
        struct rbt_driver_reply *reply = &calls[i].reply;
        *reply = (struct rbt_driver_reply){.acknowledged = event->sequence};
        /* Of what is not a request, `need` is 0: it is never late. */
        reply->had_to_wait =
            atomic_load_explicit(&shard->floor, memory_order_acquire) < event->need;
        const rbt_time start = reply->had_to_wait ? rbt_clock_now() : 0;
        if (reply->had_to_wait) {
            spin(local, shard, event->need);
        }
        lock(shard);
        while (!step_locked(shard, event, reply)) { /* at most twice: READY means it is open */
            sleep_on(shard, event->request);
        }
        unlock(shard);
        reply->waited = reply->had_to_wait ? rbt_clock_now() - start : 0;
    }
}

/* Whatever was pushed has arrived. */
static uint64_t heard(rbt_driver *driver, uint32_t worker)
{
    (void)driver;
    (void)worker;
    return UINT64_MAX;
}

static int64_t floor_of(rbt_driver *driver, uint32_t shard)
{
    return atomic_load_explicit(&local_of(driver)->shards[shard].floor, memory_order_acquire);
}

static uint64_t version_of(rbt_driver *driver, uint32_t shard)
{
    return atomic_load_explicit(&local_of(driver)->shards[shard].version, memory_order_acquire);
}

static uint64_t stable(rbt_driver *driver, uint32_t worker, uint32_t table)
{
    struct local *local = local_of(driver);
    uint64_t lowest = UINT64_MAX;
    (void)worker;
    for (uint32_t i = 0; i < local->shard_count; i++) {
        lock(&local->shards[i]);
        const uint64_t version = rbt_shard_version(local->shards[i].core, table);
        unlock(&local->shards[i]);
        lowest = version < lowest ? version : lowest;
    }
    return lowest;
}

static rbt_status run(rbt_driver *driver, rbt_status (*function)(void *argument, uint32_t index),
                      void *argument)
{
    local_of(driver)->began = rbt_clock_now();
    return rbt_thread_run(local_of(driver)->worker_count, function, argument);
}

static rbt_time now(rbt_driver *driver)
{
    return rbt_clock_now() - local_of(driver)->began;
}

/* Time passes by itself here. */
static void spend(rbt_driver *driver, uint32_t worker, double seconds)
{
    (void)driver;
    (void)worker;
    (void)seconds;
}

static void add_stats(rbt_driver *driver, struct rbt_job_stats *stats)
{
    struct local *local = local_of(driver);
    for (uint32_t i = 0; i < local->shard_count; i++) {
        struct rbt_shard_stats shard;
        lock(&local->shards[i]);
        rbt_shard_stats(local->shards[i].core, &shard);
        unlock(&local->shards[i]);
        stats->updates += shard.updates;
        stats->duplicates += shard.duplicates;
        stats->rows += shard.rows;
        stats->server_bytes += shard.bytes;
        stats->rule_bytes += shard.rule_bytes;
        stats->rule_bytes_max += shard.rule_bytes_max;
        stats->versions_max =
            shard.versions_max > stats->versions_max ? shard.versions_max : stats->versions_max;
        stats->snapshots_max =
            shard.snapshots_max > stats->snapshots_max ? shard.snapshots_max : stats->snapshots_max;
    }
}

static void close_shard(const struct local *local, struct shard *shard)
{
    for (uint32_t i = 0; shard->waiters != NULL && i < local->worker_count; i++) {
        (void)pthread_cond_destroy(&shard->waiters[i].wake); /* nobody waits */
    }
    rbt_free(shard->waiters);
    rbt_free(shard->effects);
    rbt_shard_destroy(shard->core);
    (void)pthread_mutex_destroy(&shard->mutex); /* nobody holds it */
}

static void close_local(rbt_driver *driver)
{
    struct local *local = local_of(driver);
    for (uint32_t i = 0; local->shards != NULL && i < local->shard_count; i++) {
        close_shard(local, &local->shards[i]);
    }
    rbt_free(local->shards);
    rbt_free(local);
}

static const struct rbt_driver_ops ops = {.step = step,
                                          .heard = heard,
                                          .floor = floor_of,
                                          .version = version_of,
                                          .stable = stable,
                                          .run = run,
                                          .now = now,
                                          .spend = spend,
                                          .stats = add_stats,
                                          .close = close_local};

static rbt_status open_shard(const struct local *local, const struct rbt_driver_options *options,
                             struct shard *shard)
{
    const struct rbt_shard_options core = {.worker_count = options->worker_count,
                                           .table_max = options->table_max,
                                           .parked_max = options->worker_count};
    rbt_status st = rbt_shard_create(&core, &shard->core);
    if (st != RBT_OK) {
        return st;
    }
    shard->effects = rbt_calloc((size_t)local->worker_count + 1, sizeof *shard->effects);
    shard->waiters = rbt_calloc(local->worker_count, sizeof *shard->waiters);
    if (shard->effects == NULL || shard->waiters == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a shard");
    }
    for (uint32_t i = 0; i < local->worker_count; i++) {
        const int error = pthread_cond_init(&shard->waiters[i].wake, NULL);
        RBT_ASSERT(error == 0);
    }
    return RBT_OK;
}

rbt_status rbt_local_open(const struct rbt_driver_options *options, rbt_driver **driver)
{
    struct local *local = rbt_calloc(1, sizeof *local);
    if (local == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a driver");
    }
    local->driver = (rbt_driver){.ops = &ops,
                                 .process_size = options->worker_count,
                                 .worker_here = options->worker_count,
                                 .place_count = 1,
                                 .has_queues = true}; /* for the mutex */
    local->worker_count = options->worker_count;
    local->may_spin = options->worker_count <= rbt_thread_cores();
    local->shards = rbt_calloc(options->shard_count, sizeof *local->shards);
    rbt_status st = local->shards != NULL ? RBT_OK
                                          : rbt_fail(RBT_E_NOMEM, "could not allocate %u shards",
                                                     options->shard_count);
    for (uint32_t i = 0; st == RBT_OK && i < options->shard_count; i++) {
        const int error = pthread_mutex_init(&local->shards[i].mutex, NULL);
        RBT_ASSERT(error == 0);
        local->shard_count = i + 1;
        st = open_shard(local, options, &local->shards[i]);
    }
    if (st != RBT_OK) {
        close_local(&local->driver);
        return st;
    }
    *driver = &local->driver;
    return RBT_OK;
}
