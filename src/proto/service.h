/* proto/service.h - one shard as its connections see it: who is let in, to which job, and what is
 * done with the messages of each.
 *
 * A peer first says who it is (HELLO). It is welcomed if it means this shard of this cluster and
 * shows the secret of a job that the coordinator has told of; else it hears why not, in a sentence,
 * and its connection is cut. From then on its messages go to the job's part of the shard
 * (proto/job_shard.h). A worker has one connection to a shard, and the newest counts: the older one
 * was cut without our noticing. When a job fails here, all of its peers hear why.
 *
 *     rbt_service_step(service, &event, now, &outbox);
 *     ... perform the outbox: SEND and CUT of ports ...
 *
 * What holds after each step:
 *   - a worker of a job has at most one connection;
 *   - no request of a connection that is over is kept;
 *   - a connection that has not said who it is has been there for at most five seconds, as of the
 *     last step.
 *
 * Threads: none; its owner's. Memory: grows when a connection comes, a job begins, a table is
 * opened or a list of keys is named. */
#ifndef RUBATO_PROTO_SERVICE_H
#define RUBATO_PROTO_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "proto/bounds.h"
#include "proto/job_shard.h"
#include "proto/outbox.h"
#include "proto/port.h"
#include "wire/control.h"

typedef struct rbt_service rbt_service;

struct rbt_service_options {
    const char *address;  /* of the shard, for people */
    uint32_t shards_here; /* that share the node's budget; 0: this is the only one */
    void *context;
    /* A line for the log; may be NULL. At most ten in a second are about strangers. */
    void (*on_note)(void *context, const char *text);
    /* The shard has the versions of the job's table below this one; may be NULL. */
    void (*on_version)(void *context, uint64_t job, uint32_t table, uint64_t version);
};

enum rbt_service_event_kind {
    RBT_SERVICE_PORT,  /* something has happened to a connection */
    RBT_SERVICE_NAME,  /* which shard of which cluster this is */
    RBT_SERVICE_ADMIT, /* a job begins; it may be told again */
    RBT_SERVICE_BOUND, /* how stale reads of a job may be; it may be told again */
    RBT_SERVICE_DROP,  /* a job is over: its connections end, and its rows are freed */
    RBT_SERVICE_TURN,  /* nothing more has come for now: what is owed is sent */
    RBT_SERVICE_SHED,  /* no connection can be taken: the oldest strangers have to go */
    RBT_SERVICE_TIME,  /* the deadline has passed */
};

#define RBT_SERVICE_ALL UINT32_MAX

/* One arm of the union for each kind; TIME has none. */
struct rbt_service_event {
    enum rbt_service_event_kind kind;
    union {
        const struct rbt_port_event *port; /* UP, FRAME, BROKEN or DOWN */
        struct {
            uint64_t cluster;
            uint32_t shard;
        } name;
        struct {
            uint64_t number;
            const struct rbt_control_job *job;
        } admit;
        struct {
            uint64_t job; /* its number */
            struct rbt_bound bound;
        } bound;
        uint64_t drop; /* a job's number */
        uint32_t turn; /* of this port, or RBT_SERVICE_ALL */
        uint32_t shed; /* how many at most */
    };
};

RBT_MUST_USE rbt_status rbt_service_create(const struct rbt_service_options *options,
                                           rbt_service **service);
void rbt_service_destroy(rbt_service *service); /* accepts NULL */

void rbt_service_step(rbt_service *service, const struct rbt_service_event *event, rbt_time now,
                      struct rbt_outbox *out);

/* When a TIME event is due at the latest, or RBT_TIME_NEVER. */
rbt_time rbt_service_deadline(const rbt_service *service);

/* Whether the peer has said who it is and was welcomed: only then long messages may be taken. */
bool rbt_service_is_admitted(const rbt_service *service, uint32_t port);

/* A job's part of the shard, for whoever runs the service itself; NULL: it has none. */
const rbt_job_shard *rbt_service_host(const rbt_service *service, uint64_t job);

/* Connections whose peers have not said who they are. */
uint32_t rbt_service_strangers(const rbt_service *service);

#endif
