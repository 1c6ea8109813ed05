/* sim/party.h - machines of src/proto at the nodes of a simulated cluster.
 *
 * A party is a machine, its connections and its timer. It is told of what happens to them, and what
 * it wants done is done. Threads: none. */
#ifndef RUBATO_SIM_PARTY_H
#define RUBATO_SIM_PARTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "client/carrier.h"
#include "client/process.h"
#include "proto/membership.h"
#include "proto/roster_ports.h"
#include "proto/service.h"
#include "sim/connections.h"

typedef struct rbt_engine rbt_engine;

enum rbt_party_kind {
    RBT_PARTY_COORDINATOR,
    RBT_PARTY_SERVICE,
    RBT_PARTY_MEMBER,
    RBT_PARTY_CARRIER,
};

/* A machine at a node. */
struct rbt_party {
    enum rbt_party_kind kind;
    uint32_t node;
    rbt_engine *engine;
    bool is_gone;                 /* its process has crashed, or it never was */
    rbt_time armed;               /* when its next timer comes, or RBT_TIME_NEVER */
    rbt_connection **connections; /* by port; NULL: there is none */
    uint32_t port_max;
    uint64_t bytes[2]; /* sent and received */
};

struct rbt_coordinator_party {
    struct rbt_party party; /* first, as in those below */
    rbt_roster_ports *ports;
    struct rbt_outbox out;
    struct rbt_outcome ending; /* why its work is done, if that was a failure */
};

struct rbt_member_party {
    struct rbt_party party;
    struct rbt_membership machine;
    struct rbt_membership_out out;
    char address[32]; /* a server's; its shard is found there */
    const char *shards[1];
    uint32_t index; /* which server, or which process */
    bool has_plan;
};

struct rbt_service_party {
    struct rbt_party party;
    rbt_service *service;
    struct rbt_outbox out;
};

struct rbt_strand;

/* A worker's way to the shards, or that of a process. */
struct rbt_carrier_party {
    struct rbt_party party;
    struct rbt_carrier carrier;
    bool is_locked;
    struct rbt_strand
        *waiter;       /* who waits for the carrier's goal; NULL: nobody, or the main flow */
    rbt_time answered; /* when the last message was sent that it has heard */
};

RBT_MUST_USE rbt_status rbt_party_init(struct rbt_party *party, enum rbt_party_kind kind,
                                       rbt_engine *engine, uint32_t node, uint32_t port_max);
void rbt_party_deinit(struct rbt_party *party);

/* Something has happened to a connection. */
void rbt_party_port(struct rbt_party *party, const struct rbt_port_event *event);

/* Does what the machine wants done, and sees to its timer. */
void rbt_party_perform(struct rbt_party *party, struct rbt_outbox *out);

/* The timer has come. */
void rbt_party_expire(struct rbt_party *party);

/* Its process is gone: nothing reaches the machine any more. */
void rbt_party_drop(struct rbt_party *party);

extern const struct rbt_connections_events rbt_party_events; /* but for the context, an engine */

#endif
