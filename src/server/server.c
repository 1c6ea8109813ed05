/* server/server.c - a server process: threads that own shards, and its line to the coordinator. */
#include "server/server.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "net/address.h"
#include "net/member.h"
#include "policy/plugin.h"
#include "server/shard_thread.h"

#define PATIENCE (INT64_C(2) * 1000000000) /* for a thread that works on something long */

struct server {
    const struct rbt_server_options *options;
    rbt_shard_thread **threads;
    const char **addresses; /* where others find them */
    uint32_t count;
    pthread_mutex_t mutex; /* rank SERVER; guards the member for on_version() */
    rbt_member *member;
};

/* The address of one thread: its own socket file, or the next port. */
static rbt_status thread_address(const struct rbt_server_options *options, uint32_t index,
                                 char address[static RBT_ADDRESS_MAX])
{
    const char *colon = strrchr(options->listen, ':');
    int64_t port = 0;
    if (options->threads == 1) {
        snprintf(address, RBT_ADDRESS_MAX, "%s", options->listen);
    } else if (rbt_address_is_unix(options->listen)) {
        snprintf(address, RBT_ADDRESS_MAX, "%s.%u", options->listen, index);
    } else if (colon == NULL || !rbt_text_to_int(colon + 1, &port) || port < 0 || port > 65535) {
        return rbt_fail(RBT_E_INVALID, "\"%s\" is not an address", options->listen);
    } else {
        snprintf(address, RBT_ADDRESS_MAX, "%.*s:%lld", (int)(colon - options->listen),
                 options->listen, port == 0 ? 0LL : (long long)port + index);
    }
    return RBT_OK;
}

static bool is_everywhere(const char *address)
{
    return strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0;
}

/* A shard has a new version of a table; it may be that we are leaving already. */
static void on_version(void *context, const struct rbt_member_version *version)
{
    struct server *server = context;
    pthread_mutex_lock(&server->mutex);
    if (server->member != NULL) {
        rbt_member_tell_version(server->member, version);
    }
    pthread_mutex_unlock(&server->mutex);
}

static rbt_status start_thread(struct server *server, uint32_t index)
{
    const struct rbt_server_options *options = server->options;
    char address[RBT_ADDRESS_MAX];
    rbt_status st = thread_address(options, index, address);
    const struct rbt_shard_thread_options thread = {.listen = address,
                                                    .security = options->security,
                                                    .log = options->log,
                                                    .on_version = on_version,
                                                    .context = server,
                                                    .index = index,
                                                    .shards_here = options->threads};
    st = st != RBT_OK ? st : rbt_shard_thread_create(&thread, &server->threads[index]);
    if (st != RBT_OK) {
        return st;
    }
    server->count = index + 1;
    const char *actual = rbt_shard_thread_address(server->threads[index]);
    server->addresses[index] = options->advertise != NULL ? options->advertise : actual;
    if (options->advertise == NULL && is_everywhere(actual)) {
        st = rbt_fail(RBT_E_INVALID, "other processes cannot connect to \"%s\"", actual);
        return rbt_fail_hint(st, "Give an address that they can reach: --advertise HOST:PORT.");
    }
    rbt_log(options->log, RBT_LOG_INFO, "server", "listening address=%s", actual);
    return RBT_OK;
}

/* A process whose shards stand still is not alive. */
static bool is_alive(void *context)
{
    const struct server *server = context;
    const rbt_time half = server->options->silence_max / 2;
    const rbt_time patience = half > PATIENCE ? half : PATIENCE;
    for (uint32_t i = 0; i < server->count; i++) {
        if (rbt_clock_now() - rbt_shard_thread_seen(server->threads[i]) > patience) {
            return false;
        }
    }
    return true;
}

static void on_drop(void *context, uint64_t job)
{
    const struct server *server = context;
    for (uint32_t i = 0; i < server->count; i++) {
        rbt_shard_thread_drop(server->threads[i], job);
    }
}

static rbt_status on_bound(void *context, uint64_t number, const struct rbt_control_bound *told)
{
    const struct server *server = context;
    const struct rbt_bound bound = {
        .number = number, .table = told->table, .staleness = told->staleness};
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < server->count; i++) {
        st = rbt_shard_thread_bound(server->threads[i], told->job, &bound);
    }
    return st;
}

static void on_job(void *context, uint64_t number, const struct rbt_control_job *job)
{
    const struct server *server = context;
    for (uint32_t i = 0; i < server->count; i++) {
        rbt_shard_thread_admit(server->threads[i], number, job);
    }
}

/* The number of our first shard among all. */
static uint32_t first_shard(const struct server *server, const struct rbt_member_plan *plan)
{
    for (uint32_t i = 0; i < plan->shard_count; i++) {
        if (strcmp(plan->shards[i], server->addresses[0]) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

static void set_member(struct server *server, rbt_member *member)
{
    pthread_mutex_lock(&server->mutex);
    server->member = member;
    pthread_mutex_unlock(&server->mutex);
}

static rbt_status join(struct server *server)
{
    const struct rbt_server_options *options = server->options;
    const struct rbt_member_options member = {.coordinator = options->coordinator,
                                              .security = options->security,
                                              .role = RBT_ROLE_SERVER,
                                              .index = options->index,
                                              .start_timeout = options->start_timeout,
                                              .silence_max = options->silence_max,
                                              .cut_max = options->cut_max,
                                              .shards = server->addresses,
                                              .shard_count = server->count,
                                              .should_stop = options->should_stop,
                                              .context = server,
                                              .is_alive = is_alive,
                                              .on_drop = on_drop,
                                              .on_job = on_job,
                                              .on_bound = on_bound};
    rbt_member *joined = NULL;
    const rbt_status st = rbt_member_join(&member, &joined);
    if (st != RBT_OK) {
        return st;
    }
    set_member(server, joined);
    const struct rbt_member_plan *plan = rbt_member_plan(server->member);
    const uint32_t first = first_shard(server, plan);
    if (first == UINT32_MAX) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "the coordinator does not have the address %s of this server",
                        server->addresses[0]);
    }
    for (uint32_t i = 0; i < server->count; i++) {
        rbt_shard_thread_name(server->threads[i], plan->cluster, first + i);
    }
    rbt_log(options->log, RBT_LOG_INFO, "server", "joined server=%u shards=%u", plan->index,
            server->count);
    return RBT_OK;
}

static rbt_status serve(struct server *server)
{
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < server->options->threads; i++) {
        st = start_thread(server, i);
    }
    st = st != RBT_OK ? st : join(server);
    st = st != RBT_OK ? st : rbt_member_wait(server->member);
    rbt_member *member = server->member;
    if (member != NULL) {
        struct rbt_error_record record;
        rbt_error_save(&record);
        set_member(server, NULL); /* shards still run */
        rbt_member_leave(member, st, st == RBT_OK ? NULL : record.message);
        rbt_error_restore(&record);
    }
    return st;
}

/* What the messages of others may make us load. Nobody can send one yet, and other threads of this
 * process may load what is admitted, so that the walls stand last. */
static rbt_status confine(const struct rbt_server_options *options)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < options->plugin_count; i++) {
        st = rbt_plugin_admit(options->plugins[i]);
    }
    rbt_plugin_confine();
    return st;
}

rbt_status rbt_server_run(const struct rbt_server_options *options)
{
    RBT_ASSERT(options->threads >= 1);
    if (options->advertise != NULL && options->threads > 1) {
        return rbt_fail(RBT_E_INVALID, "option \"--advertise\" needs one shard per server, not %u",
                        options->threads);
    }
    const rbt_status confined = confine(options);
    if (confined != RBT_OK) {
        return confined;
    }
    struct server server = {.options = options};
    const int error = pthread_mutex_init(&server.mutex, NULL);
    RBT_ASSERT(error == 0);
    server.threads = rbt_calloc(options->threads, sizeof(rbt_shard_thread *));
    server.addresses = rbt_calloc(options->threads, sizeof(char *));
    const rbt_status st = server.threads == NULL || server.addresses == NULL
                              ? rbt_fail(RBT_E_NOMEM, "could not allocate a server")
                              : serve(&server);
    for (uint32_t i = 0; i < server.count; i++) {
        rbt_shard_thread_destroy(server.threads[i]);
    }
    (void)pthread_mutex_destroy(&server.mutex); /* nobody holds it */
    rbt_free(server.threads);
    rbt_free(server.addresses);
    return st;
}
