/* proto/roster_ports.h - the coordinator, without I/O: which connection is whose, what is said on
 * it, and who has to go.
 *
 * The roster (roster.h) decides about processes and jobs; this machine decides about connections. A
 * connection is a stranger's until it has said JOIN, for which it has a few seconds; then it is a
 * peer's; and when the last message was said to it, it is closing: it has a moment to hear that,
 * and nothing that it says counts any more.
 *
 *     st = rbt_roster_ports_create(&options, now, &ports);
 *     rbt_roster_ports_step(ports, &event, now, &out);
 *     ... do out, step every event of every port, and TIME at rbt_roster_ports_deadline() ...
 *
 * Ports are the carrier's numbers for connections that were made to it: small ones, since there is
 * a table; free again after DOWN and after a CUT.
 *
 * Threads: those of its owner. Memory: one record per connection, one block per message. */
#ifndef RUBATO_PROTO_ROSTER_PORTS_H
#define RUBATO_PROTO_ROSTER_PORTS_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "base/log.h"
#include "proto/outbox.h"
#include "proto/port.h"
#include "proto/roster.h"

typedef struct rbt_roster_ports rbt_roster_ports;

struct rbt_roster_ports_options {
    struct rbt_roster_options roster;
    /* What is no message. Called in a step, in order; none of them may step. */
    void *context;
    void (*note)(void *context, enum rbt_log_level level, const char *text); /* a line of the log */
    void (*on_worker)(void *context, uint32_t port);  /* its messages may be long from now on */
    void (*on_lost)(void *context, const char *node); /* it is given up; NULL: nobody asks */
    void (*on_end)(void *context, rbt_status status, const char *text); /* the work is done; once */
};

enum rbt_roster_ports_event_kind {
    RBT_ROSTER_PORTS_PORT,
    RBT_ROSTER_PORTS_NO_ROOM, /* nobody can be accepted: strangers have to go, if there are any */
    RBT_ROSTER_PORTS_STOP,    /* the coordinator is told to stop; may be repeated */
    RBT_ROSTER_PORTS_TIME,    /* all messages that had come were stepped */
};

struct rbt_roster_ports_event {
    enum rbt_roster_ports_event_kind kind;
    union {
        const struct rbt_port_event *port; /* PORT; BROKEN may be repeated */
        const char *why;                   /* STOP: a sentence */
    };
};

RBT_MUST_USE rbt_status rbt_roster_ports_create(const struct rbt_roster_ports_options *options,
                                                rbt_time now, rbt_roster_ports **ports);
void rbt_roster_ports_destroy(rbt_roster_ports *ports);

void rbt_roster_ports_step(rbt_roster_ports *ports, const struct rbt_roster_ports_event *event,
                           rbt_time now, struct rbt_outbox *out);

/* When TIME has to be stepped next, or RBT_TIME_NEVER. */
rbt_time rbt_roster_ports_deadline(const rbt_roster_ports *ports);

#endif
