/* proto/service.c - one shard as its connections see it. */
#include "proto/service.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "proto/admitted.h"
#include "proto/job_shard.h"
#include "proto/strangers.h"
#include "wire/message.h"

_Static_assert((int)RBT_NAME_MAX >= (int)RBT_ADDRESS_MAX, "a peer's name is its address");

enum {
    JOBS_MAX = 1024,  /* at a time */
    DROPPED_MAX = 64, /* jobs that are remembered to be over */
    PORTS_MIN = 16,
};

#define SECOND     INT64_C(1000000000)
#define HELLO_TIME (5 * SECOND) /* for a stranger to say who it is */

struct connection {
    struct rbt_stranger stranger; /* first: it leads back to the connection */
    rbt_service *service;
    uint32_t port;
    struct rbt_session session;
    rbt_job_shard *job_shard; /* NULL: the peer has not said who it is */
    rbt_time since;
    bool is_over;            /* it is cut at the end of the step */
    bool is_down;            /* its carrier knows that it is over */
    bool is_stepped;         /* in the list of those that may be owed something */
    struct connection *next; /* in that list */
    char name[RBT_NAME_MAX]; /* where it comes from, until it has said who it is */
};

struct rbt_service {
    struct rbt_service_options options;
    char address[RBT_ADDRESS_MAX];
    struct rbt_outbox *out; /* of the step at hand */
    bool has_name;
    uint64_t cluster;
    uint32_t shard;
    struct connection **ports; /* by number; NULL: there is none */
    uint32_t port_max;
    struct connection *stepped; /* since their last turn */
    uint32_t over_count;        /* connections that are over and not yet cut */
    struct rbt_strangers strangers;
    struct rbt_admitted admitted;
    rbt_job_shard **job_shards;
    uint32_t job_shard_count;
    uint64_t dropped[DROPPED_MAX];
    uint32_t dropped_count; /* ever */
};

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_service_create(const struct rbt_service_options *options, rbt_service **service)
{
    rbt_service *s = rbt_calloc(1, sizeof *s);
    if (s == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a shard's service");
    }
    s->options = *options;
    (void)snprintf(s->address, sizeof s->address, "%s", options->address);
    s->options.address = s->address;
    *service = s;
    return RBT_OK;
}

/* Forgets what there is of a connection; its carrier is not told. */
static void free_connection(struct connection *connection)
{
    rbt_service *service = connection->service;
    if (connection->is_stepped) {
        struct connection **at = &service->stepped;
        while (*at != connection) { /* ends: it is in the list */
            RBT_ASSERT(*at != NULL);
            at = &(*at)->next;
        }
        *at = connection->next;
    }
    rbt_strangers_remove(&service->strangers, &connection->stranger);
    if (connection->job_shard != NULL) {
        rbt_job_shard_forget(connection->job_shard, &connection->session);
    }
    RBT_ASSERT(service->ports[connection->port] == connection);
    service->ports[connection->port] = NULL;
    rbt_free(connection);
}

void rbt_service_destroy(rbt_service *service)
{
    if (service == NULL) {
        return;
    }
    for (uint32_t i = 0; i < service->port_max; i++) {
        if (service->ports[i] != NULL) {
            free_connection(service->ports[i]);
        }
    }
    for (uint32_t i = 0; i < service->job_shard_count; i++) {
        rbt_job_shard_destroy(service->job_shards[i]);
    }
    rbt_free(service->job_shards);
    rbt_free(service->ports);
    rbt_admitted_deinit(&service->admitted);
    rbt_free(service);
}

/* --- The end of connections ------------------------------------------------------------------ */

static void end(struct connection *connection)
{
    if (!connection->is_over) {
        connection->is_over = true;
        connection->service->over_count++;
    }
}

/* Cuts and forgets connections that are over; without memory for that, in a later step. */
static void reap(rbt_service *service)
{
    for (uint32_t i = 0; service->over_count > 0 && i < service->port_max; i++) {
        struct connection *c = service->ports[i];
        if (c != NULL && c->is_over && (c->is_down || rbt_outbox_cut(service->out, i) == RBT_OK)) {
            service->over_count--;
            free_connection(c);
        }
    }
}

static void note(const rbt_service *service, const char *text)
{
    if (service->options.on_note != NULL) {
        service->options.on_note(service->options.context, text);
    }
}

/* Strangers must not be able to fill the log. */
static void note_refusal(const struct connection *connection, const char *why, rbt_time now)
{
    rbt_service *service = connection->service;
    char text[RBT_ERROR_MAX + RBT_NAME_MAX + 64];
    if (rbt_strangers_may_log(&service->strangers, now)) {
        (void)snprintf(text, sizeof text, "refused a connection from %s: %s", connection->name,
                       why);
        note(service, text);
    }
}

/* Takes a block of the job shard's for the peer of a connection. */
static void send_block(void *context, struct rbt_block *block)
{
    struct connection *connection = context;
    rbt_service *service = connection->service;
    if (!connection->is_over && rbt_outbox_send(service->out, connection->port, block) != RBT_OK) {
        end(connection);
    }
}

/* Says no, in a sentence, and ends the connection. */
static void refuse(struct connection *connection, rbt_status status, const char *why, rbt_time now)
{
    const bool is_failure = rbt_job_shard_is_failure(status) && connection->job_shard != NULL;
    if (status != RBT_E_NOTFOUND && !is_failure) { /* that one comes back */
        note_refusal(connection, why, now);
    }
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    if (block != NULL) {
        const struct rbt_frame header = {.kind = RBT_FRAME_REFUSED,
                                         .flags = status == RBT_E_NOTFOUND ? RBT_FRAME_TRY_AGAIN
                                                  : is_failure             ? RBT_FRAME_FAILURE
                                                                           : 0,
                                         .worker = connection->session.worker,
                                         .id = is_failure ? (uint64_t)-status : 0};
        block->bytes = rbt_wire_put_refused(block->data, why);
        rbt_wire_close(block->data, header, block->bytes);
        send_block(connection, block);
    }
    rbt_block_unref(block);
    end(connection);
}

/* Something was not as it should be: its sender hears why and is not listened to any more. If the
 * job has failed here, nobody can go on, and who waits for others would wait for ever. */
static void refuse_all(struct connection *connection, rbt_status status, const char *why,
                       rbt_time now)
{
    rbt_service *service = connection->service;
    const rbt_job_shard *job_shard = connection->job_shard;
    char text[RBT_ERROR_MAX + 64];
    if (job_shard == NULL || !rbt_job_shard_is_failure(status)) {
        refuse(connection, status, why, now);
        return;
    }
    (void)snprintf(text, sizeof text, "job %llu has failed: %s",
                   (unsigned long long)rbt_job_shard_job(job_shard), why);
    note(service, text);
    for (uint32_t i = 0; i < service->port_max; i++) {
        struct connection *c = service->ports[i];
        if (c != NULL && c->job_shard == job_shard && !c->is_over) {
            refuse(c, status, why, now);
        }
    }
}

/* --- Strangers ------------------------------------------------------------------------------- */

static void turn_away(struct connection *connection, rbt_time now)
{
    note_refusal(connection, "too many connections have not greeted, and it was the oldest of them",
                 now);
    rbt_strangers_remove(&connection->service->strangers, &connection->stranger);
    end(connection);
}

/* Makes room for somebody who comes from there. */
static void make_room(rbt_service *service, const char *who, rbt_time now)
{
    const uint64_t workers = service->admitted.workers; /* all may come at once */
    const struct rbt_strangers_limits limits = {.all = RBT_STRANGERS_MAX + workers,
                                                .per_host = RBT_STRANGERS_PER_HOST_MAX + workers};
    struct rbt_stranger *oldest = rbt_strangers_displaced(&service->strangers, who, &limits);
    if (oldest != NULL) {
        turn_away((struct connection *)oldest, now);
    }
}

static void shed(rbt_service *service, uint32_t count, rbt_time now)
{
    for (uint32_t i = 0; i < count && service->strangers.oldest != NULL; i++) {
        turn_away((struct connection *)service->strangers.oldest, now);
    }
}

/* The oldest stranger, or NULL. */
static struct connection *oldest_of(const rbt_service *service)
{
    return (struct connection *)service->strangers.oldest;
}

rbt_time rbt_service_deadline(const rbt_service *service)
{
    const struct connection *oldest = oldest_of(service);
    return oldest == NULL ? RBT_TIME_NEVER : oldest->since + HELLO_TIME;
}

static void refuse_the_silent(rbt_service *service, rbt_time now)
{
    struct connection *oldest = NULL;
    while ((oldest = oldest_of(service)) != NULL && now - oldest->since >= HELLO_TIME) {
        refuse(oldest, RBT_E_TIMEOUT, "it sent no greeting in time", now);
        rbt_strangers_remove(&service->strangers, &oldest->stranger);
    }
}

uint32_t rbt_service_strangers(const rbt_service *service)
{
    return service->strangers.count;
}

/* --- Who is there ---------------------------------------------------------------------------- */

static rbt_job_shard *find_job_shard(const rbt_service *service, uint64_t job)
{
    for (uint32_t i = 0; i < service->job_shard_count; i++) {
        if (rbt_job_shard_job(service->job_shards[i]) == job) {
            return service->job_shards[i];
        }
    }
    return NULL;
}

static bool is_dropped(const rbt_service *service, uint64_t job)
{
    for (uint32_t i = 0; i < DROPPED_MAX && i < service->dropped_count; i++) {
        if (service->dropped[i] == job) {
            return true;
        }
    }
    return false;
}

static rbt_status make_job_shard(rbt_service *service, const struct rbt_wire_hello *hello,
                                 rbt_job_shard **job_shard)
{
    if (service->job_shard_count >= JOBS_MAX) {
        return rbt_fail(RBT_E_BUSY, "the server already has %d jobs, the most that it allows",
                        JOBS_MAX);
    }
    char name[RBT_NAME_MAX + 32];
    (void)snprintf(name, sizeof name, "shard %u at %s", hello->shard, service->address);
    const struct rbt_job_shard_options options = {.job = hello->job,
                                                  .worker_count = hello->worker_count,
                                                  .table_max = RBT_JOB_TABLES_MAX,
                                                  .name = name,
                                                  .shards_here = service->options.shards_here};
    rbt_job_shard **grown = rbt_realloc(service->job_shards, (size_t)service->job_shard_count + 1,
                                        sizeof *service->job_shards);
    if (grown == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for another job");
    }
    service->job_shards = grown;
    const rbt_status st = rbt_job_shard_create(&options, job_shard);
    if (st != RBT_OK) {
        return st;
    }
    service->job_shards[service->job_shard_count++] = *job_shard;
    const struct rbt_bounds *told = rbt_admitted_bounds(&service->admitted, hello->job);
    for (uint32_t i = 0; told != NULL && i < told->count; i++) {
        rbt_job_shard_bound(*job_shard, &told->list[i]);
    }
    return RBT_OK;
}

/* Whether it is us that the peer means. */
static rbt_status check_hello(const rbt_service *service, const struct rbt_wire_hello *hello)
{
    if (!service->has_name) { /* the others may have heard of the plan before us */
        return rbt_fail(RBT_E_NOTFOUND, "the shard has not joined the cluster yet");
    }
    if (hello->cluster != service->cluster || hello->shard != service->shard) {
        return rbt_fail(RBT_E_PROTOCOL, "%s looks for another cluster or another shard",
                        hello->node);
    }
    if (hello->worker_count == 0 || hello->worker_count > RBT_WIRE_WORKERS_MAX ||
        (hello->worker != RBT_FRAME_NOBODY && hello->worker >= hello->worker_count)) {
        return rbt_fail(RBT_E_PROTOCOL, "worker %u does not exist: the job has %u", hello->worker,
                        hello->worker_count);
    }
    if (is_dropped(service, hello->job)) {
        return rbt_fail(RBT_E_CLOSED, "the job is over");
    }
    return rbt_admitted_check(&service->admitted, hello);
}

static rbt_status find_or_make_job_shard(rbt_service *service, const struct rbt_wire_hello *hello,
                                         rbt_job_shard **job_shard)
{
    *job_shard = find_job_shard(service, hello->job);
    if (*job_shard == NULL && hello->is_reader) {
        return rbt_fail(RBT_E_NOTFOUND, "namespace \"%s\" has no job that trains", hello->space);
    }
    return *job_shard == NULL ? make_job_shard(service, hello, job_shard) : RBT_OK;
}

/* A worker has one connection. The newest is the right one: the other was cut without our noticing.
 */
static void replace_older(const struct connection *connection)
{
    const rbt_service *service = connection->service;
    if (connection->session.worker == RBT_FRAME_NOBODY) {
        return;
    }
    for (uint32_t i = 0; i < service->port_max; i++) {
        struct connection *c = service->ports[i];
        if (c != NULL && c != connection && c->job_shard == connection->job_shard &&
            c->session.worker == connection->session.worker && !c->session.is_reader) {
            end(c);
        }
    }
}

static rbt_status welcome(struct connection *connection)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a connection");
    }
    const struct rbt_session *session = &connection->session;
    const struct rbt_wire_news news =
        rbt_job_shard_news(connection->job_shard, RBT_MUTANT(WRONG_GREETING) ? 0 : session->worker);
    block->bytes = rbt_wire_put_welcome(block->data, &news);
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = RBT_FRAME_WELCOME, .worker = session->worker},
                   block->bytes);
    send_block(connection, block);
    rbt_block_unref(block);
    return RBT_OK;
}

static rbt_status receive_hello(struct connection *connection, const struct rbt_frame *frame,
                                const char *body)
{
    rbt_service *service = connection->service;
    struct rbt_wire_cursor cursor = {body, body + frame->length};
    struct rbt_wire_hello hello;
    rbt_job_shard *job_shard = NULL;
    if (frame->kind != RBT_FRAME_HELLO) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed message: the first is of kind %u instead of a greeting",
                        frame->kind);
    }
    rbt_status st = rbt_wire_get_hello(&cursor, &hello);
    st = st != RBT_OK ? st : check_hello(service, &hello);
    st = st != RBT_OK ? st : find_or_make_job_shard(service, &hello, &job_shard);
    if (st != RBT_OK) {
        return st;
    }
    connection->job_shard = job_shard;
    rbt_strangers_remove(&service->strangers, &connection->stranger);
    memcpy(connection->name, hello.node, sizeof connection->name);
    connection->session.worker = hello.is_reader ? RBT_FRAME_NOBODY : hello.worker;
    connection->session.is_reader = hello.is_reader;
    connection->session.compression = hello.compression;
    replace_older(connection);
    return welcome(connection);
}

bool rbt_service_is_admitted(const rbt_service *service, uint32_t port)
{
    return port < service->port_max && service->ports[port] != NULL &&
           service->ports[port]->job_shard != NULL;
}

/* --- Connections ----------------------------------------------------------------------------- */

static rbt_status reserve_port(rbt_service *service, uint32_t port)
{
    uint32_t max = service->port_max == 0 ? PORTS_MIN : service->port_max;
    while (max <= port) {
        max *= 2;
    }
    if (max == service->port_max) {
        return RBT_OK;
    }
    struct connection **grown = rbt_realloc(service->ports, max, sizeof *grown);
    if (grown == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for %u connections", max);
    }
    memset(grown + service->port_max, 0, (max - service->port_max) * sizeof *grown);
    service->ports = grown;
    service->port_max = max;
    return RBT_OK;
}

/* A connection that there is no memory for is cut at once. */
static void connect_port(rbt_service *service, const struct rbt_port_event *event, rbt_time now)
{
    struct connection *c =
        reserve_port(service, event->port) == RBT_OK ? rbt_calloc(1, sizeof *c) : NULL;
    if (c == NULL) {
        const rbt_status st = rbt_outbox_cut(service->out, event->port);
        (void)st; /* without memory for that, too, the peer's own patience ends it */
        return;
    }
    RBT_ASSERT(service->ports[event->port] == NULL);
    *c = (struct connection){.service = service, .port = event->port, .since = now};
    c->session = (struct rbt_session){
        .worker = RBT_FRAME_NOBODY, .is_near = event->up.is_near, .send = send_block, .context = c};
    (void)snprintf(c->name, sizeof c->name, "%s", event->up.peer);
    service->ports[event->port] = c;
    if (!event->up.is_near) {
        make_room(service, c->name, now);
        rbt_strangers_add(&service->strangers, &c->stranger, c->name);
    }
}

static void receive(struct connection *connection, const struct rbt_port_event *event, rbt_time now)
{
    const struct rbt_frame *head = &event->frame.head;
    const char *body = event->frame.body;
    RBT_ASSERT(event->frame.placed == 0); /* a shard has no places for what comes */
    const rbt_status st =
        connection->job_shard == NULL
            ? receive_hello(connection, head, body)
            : rbt_job_shard_receive(connection->job_shard, &connection->session, head, body, now);
    if (st != RBT_OK) {
        char why[RBT_ERROR_MAX];
        (void)snprintf(why, sizeof why, "%s", rbt_last_error());
        refuse_all(connection, st, why, now);
    } else if (!connection->is_stepped) {
        connection->is_stepped = true;
        connection->next = connection->service->stepped;
        connection->service->stepped = connection;
    }
}

static void step_port(rbt_service *service, const struct rbt_port_event *event, rbt_time now)
{
    if (event->kind == RBT_PORT_UP) {
        connect_port(service, event, now);
        return;
    }
    struct connection *c = event->port < service->port_max ? service->ports[event->port] : NULL;
    if (c == NULL || c->is_over) {
        return; /* there was no memory for it, or none yet to cut it */
    }
    switch (event->kind) {
    case RBT_PORT_FRAME:
        receive(c, event, now);
        break;
    case RBT_PORT_BROKEN:
        refuse_all(c, event->down.status, event->down.why, now);
        break;
    case RBT_PORT_DOWN: /* not worth a word: they come back */
        c->is_down = true;
        end(c);
        break;
    case RBT_PORT_UP:
    case RBT_PORT_ROOM:
        break;
    }
}

/* --- Turns ----------------------------------------------------------------------------------- */

static void report(const rbt_service *service, rbt_job_shard *job_shard)
{
    if (service->options.on_version != NULL) {
        rbt_job_shard_report(job_shard, service->options.on_version, service->options.context);
    }
}

static void settle_all(rbt_service *service)
{
    while (service->stepped != NULL) {
        struct connection *c = service->stepped;
        service->stepped = c->next;
        c->is_stepped = false;
        if (!c->is_over) {
            rbt_job_shard_settle(c->job_shard, &c->session);
        }
    }
    for (uint32_t i = 0; i < service->job_shard_count; i++) {
        report(service, service->job_shards[i]);
    }
}

static void settle(rbt_service *service, uint32_t port)
{
    struct connection *c = port < service->port_max ? service->ports[port] : NULL;
    if (c != NULL && !c->is_over && c->job_shard != NULL) {
        rbt_job_shard_settle(c->job_shard, &c->session);
        report(service, c->job_shard);
    }
}

/* --- Jobs ------------------------------------------------------------------------------------ */

static void drop(rbt_service *service, uint64_t job)
{
    service->dropped[service->dropped_count++ % DROPPED_MAX] = job;
    rbt_admitted_remove(&service->admitted, job);
    rbt_job_shard *job_shard = find_job_shard(service, job);
    if (job_shard == NULL) {
        return;
    }
    for (uint32_t i = 0; i < service->port_max; i++) {
        struct connection *c = service->ports[i];
        if (c != NULL && c->job_shard == job_shard) {
            rbt_job_shard_forget(job_shard, &c->session);
            c->job_shard = NULL;
            end(c);
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < service->job_shard_count; i++) {
        if (service->job_shards[i] != job_shard) {
            service->job_shards[kept++] = service->job_shards[i];
        }
    }
    service->job_shard_count = kept;
    rbt_job_shard_destroy(job_shard);
}

/* A job that nobody has come for yet will be told when somebody does. */
static void change_bound(rbt_service *service, uint64_t job, const struct rbt_bound *bound)
{
    rbt_job_shard *job_shard = find_job_shard(service, job);
    if (job_shard != NULL) {
        rbt_job_shard_bound(job_shard, bound);
    } else {
        rbt_admitted_bound(&service->admitted, job, bound);
    }
}

void rbt_service_step(rbt_service *service, const struct rbt_service_event *event, rbt_time now,
                      struct rbt_outbox *out)
{
    service->out = out;
    switch (event->kind) {
    case RBT_SERVICE_PORT:
        step_port(service, event->port, now);
        break;
    case RBT_SERVICE_NAME:
        service->cluster = event->name.cluster;
        service->shard = event->name.shard;
        service->has_name = true;
        break;
    case RBT_SERVICE_ADMIT:
        rbt_admitted_add(&service->admitted, event->admit.number, event->admit.job);
        break;
    case RBT_SERVICE_BOUND:
        change_bound(service, event->bound.job, &event->bound.bound);
        break;
    case RBT_SERVICE_DROP:
        drop(service, event->drop);
        break;
    case RBT_SERVICE_TURN:
        if (event->turn == RBT_SERVICE_ALL) {
            settle_all(service);
        } else {
            settle(service, event->turn);
        }
        break;
    case RBT_SERVICE_SHED:
        shed(service, event->shed, now);
        break;
    case RBT_SERVICE_TIME:
        refuse_the_silent(service, now);
        break;
    }
    reap(service);
    service->out = NULL;
}

const rbt_job_shard *rbt_service_host(const rbt_service *service, uint64_t job)
{
    for (uint32_t i = 0; i < service->job_shard_count; i++) {
        if (rbt_job_shard_job(service->job_shards[i]) == job) {
            return service->job_shards[i];
        }
    }
    return NULL;
}
