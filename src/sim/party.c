/* sim/party.c - machines at nodes: what happens to their connections, what they want done, and
 * their timers. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/engine.h"

enum {
    PLACE_MIN = 32 * 1024,
    PORTS_MIN = 16
}; /* bytes of a message whose rows go to their place */

rbt_status rbt_party_init(struct rbt_party *party, enum rbt_party_kind kind, rbt_engine *engine,
                          uint32_t node, uint32_t port_max)
{
    *party = (struct rbt_party){.kind = kind,
                                .node = node,
                                .engine = engine,
                                .armed = RBT_TIME_NEVER,
                                .connections = rbt_calloc(port_max, sizeof *party->connections),
                                .port_max = port_max};
    return party->connections != NULL ? RBT_OK
                                      : rbt_fail(RBT_E_NOMEM, "could not allocate a cluster");
}

void rbt_party_deinit(struct rbt_party *party)
{
    rbt_free(party->connections);
    party->connections = NULL;
    party->port_max = 0;
}

void rbt_party_drop(struct rbt_party *party)
{
    party->is_gone = true;
    for (uint32_t i = 0; i < party->port_max; i++) {
        party->connections[i] = NULL;
    }
}

static enum rbt_side side_of(const struct rbt_party *party)
{
    return party->kind == RBT_PARTY_COORDINATOR || party->kind == RBT_PARTY_SERVICE
               ? RBT_SIDE_LISTENER
               : RBT_SIDE_CALLER;
}

/* --- Timers ---------------------------------------------------------------------------------- */

static rbt_time deadline_of(const struct rbt_party *party)
{
    switch (party->kind) {
    case RBT_PARTY_COORDINATOR:
        return rbt_roster_ports_deadline(((const struct rbt_coordinator_party *)party)->ports);
    case RBT_PARTY_SERVICE:
        return rbt_service_deadline(((const struct rbt_service_party *)party)->service);
    case RBT_PARTY_MEMBER:
        return rbt_membership_deadline(&((const struct rbt_member_party *)party)->machine);
    case RBT_PARTY_CARRIER: {
        const struct rbt_caller *caller =
            &((const struct rbt_carrier_party *)party)->carrier.caller;
        return caller->status != RBT_OK ? RBT_TIME_NEVER : rbt_caller_deadline(caller);
    }
    }
    RBT_UNREACHABLE();
}

/* Sees to it that a timer comes at the deadline. One that comes too early arms the next. */
static void arm(struct rbt_party *party)
{
    const rbt_time deadline = deadline_of(party);
    const rbt_time now = party->engine->now;
    if (deadline < party->armed) {
        party->armed = deadline;
        rbt_engine_schedule(party->engine, deadline > now ? deadline : now, RBT_ENGINE_TIMER,
                            party->node, party);
    }
}

static void tick(struct rbt_party *party)
{
    struct rbt_carrier_party *carrier = (struct rbt_carrier_party *)party;
    switch (party->kind) {
    case RBT_PARTY_COORDINATOR:
        rbt_coordinator_party_step((struct rbt_coordinator_party *)party,
                                   &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_TIME});
        break;
    case RBT_PARTY_SERVICE:
        rbt_service_party_step((struct rbt_service_party *)party,
                               &(struct rbt_service_event){.kind = RBT_SERVICE_TIME});
        break;
    case RBT_PARTY_MEMBER:
        rbt_member_party_step((struct rbt_member_party *)party,
                              &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME});
        break;
    case RBT_PARTY_CARRIER:
        rbt_caller_tick(&carrier->carrier.caller, party->engine->now);
        rbt_party_perform(party, &carrier->carrier.out);
        rbt_carrier_party_note(carrier);
        break;
    }
}

void rbt_party_expire(struct rbt_party *party)
{
    if (party->is_gone || party->armed > party->engine->now) {
        return; /* an earlier timer was armed meanwhile */
    }
    party->armed = RBT_TIME_NEVER;
    if (deadline_of(party) <= party->engine->now) {
        tick(party);
    }
    arm(party);
}

/* --- What machines want done ----------------------------------------------------------------- */

/* Shows what happens to a connection to a test, if there is one that looks. */
static void show_line(const struct rbt_party *party, uint32_t port, enum rbt_inspect_line_kind kind)
{
    const rbt_engine *engine = party->engine;
    const struct rbt_inspect_frames *frames = &engine->simulation->frames;
    if (frames->on_line == NULL || side_of(party) != RBT_SIDE_CALLER) {
        return;
    }
    struct rbt_inspect_line line = {.kind = kind,
                                    .route = RBT_INSPECT_TO_MEMBER,
                                    .machine = party,
                                    .port = port,
                                    .node = engine->nodes[party->node].name,
                                    .at = engine->now};
    if (party->kind == RBT_PARTY_CARRIER) {
        const struct rbt_stream *stream =
            &((const struct rbt_carrier_party *)party)->carrier.caller.streams[port];
        line.route = RBT_INSPECT_TO_WORKER;
        line.is_wanted = stream->kept != NULL || stream->requests != NULL;
    }
    frames->on_line(frames->context, &line);
}

/* The node that a port leads to. */
static uint32_t peer_of(const struct rbt_party *party, uint32_t port)
{
    return party->kind == RBT_PARTY_MEMBER ? RBT_NODE_COORDINATOR : RBT_NODE_SERVERS + port;
}

static void connect_to(struct rbt_party *party, uint32_t port)
{
    rbt_engine *engine = party->engine;
    RBT_ASSERT(side_of(party) == RBT_SIDE_CALLER);
    RBT_ASSERT(party->connections[port] == NULL);
    show_line(party, port, RBT_INSPECT_TRIED);
    const struct rbt_connection_end end = {.owner = party, .port = port};
    const rbt_status st =
        rbt_connections_open(engine->connections, party->node, peer_of(party, port), end,
                             engine->now, &party->connections[port]);
    if (st != RBT_OK) {
        rbt_engine_fail(engine, st);
    }
}

static void send_block(struct rbt_party *party, uint32_t port, struct rbt_block *block)
{
    rbt_connection *connection = party->connections[port];
    if (connection == NULL) {
        rbt_block_unref(block); /* the connection was lost meanwhile */
        return;
    }
    party->bytes[0] += block->bytes;
    rbt_connection_send(connection, side_of(party), block, party->engine->now);
}

static void cut(struct rbt_party *party, uint32_t port)
{
    rbt_connection *connection = party->connections[port];
    if (connection != NULL) {
        show_line(party, port, RBT_INSPECT_CUT);
        party->connections[port] = NULL;
        rbt_connection_cut(connection, side_of(party), party->engine->now);
    }
}

void rbt_party_perform(struct rbt_party *party, struct rbt_outbox *out)
{
    for (uint32_t i = 0; i < out->count; i++) {
        const struct rbt_out *item = &out->items[i];
        RBT_ASSERT(item->port < party->port_max);
        switch (item->kind) {
        case RBT_OUT_CONNECT:
            connect_to(party, item->port);
            break;
        case RBT_OUT_SEND:
            send_block(party, item->port, item->block);
            break;
        case RBT_OUT_CUT:
            cut(party, item->port);
            break;
        }
    }
    rbt_outbox_clear(out);
    arm(party);
}

/* --- What happens ---------------------------------------------------------------------------- */

static void tell_carrier(struct rbt_carrier_party *carrier, const struct rbt_port_event *event)
{
    struct rbt_caller *caller = &carrier->carrier.caller;
    if (caller->status != RBT_OK || rbt_caller_is_lost(caller)) {
        return; /* no connection is of interest any more */
    }
    rbt_caller_port(caller, event, carrier->party.engine->now);
    if (event->kind == RBT_PORT_FRAME) {
        rbt_carrier_publish(&carrier->carrier, event->port);
    }
    rbt_party_perform(&carrier->party, &carrier->carrier.out);
    rbt_carrier_party_note(carrier);
}

void rbt_party_port(struct rbt_party *party, const struct rbt_port_event *event)
{
    switch (party->kind) {
    case RBT_PARTY_COORDINATOR:
        rbt_coordinator_party_step(
            (struct rbt_coordinator_party *)party,
            &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_PORT, .port = event});
        break;
    case RBT_PARTY_SERVICE:
        rbt_service_party_step(
            (struct rbt_service_party *)party,
            &(struct rbt_service_event){.kind = RBT_SERVICE_PORT, .port = event});
        break;
    case RBT_PARTY_MEMBER:
        rbt_member_party_step(
            (struct rbt_member_party *)party,
            &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_PORT, .port = event});
        break;
    case RBT_PARTY_CARRIER:
        tell_carrier((struct rbt_carrier_party *)party, event);
        break;
    }
}

/* A port that is free; UINT32_MAX without memory. */
static uint32_t find_port(struct rbt_party *party)
{
    uint32_t port = 0;
    while (port < party->port_max && party->connections[port] != NULL) {
        port++;
    }
    if (port == party->port_max) {
        const uint32_t max = port < PORTS_MIN ? PORTS_MIN : 2 * port;
        rbt_connection **grown = rbt_realloc(party->connections, max, sizeof *grown);
        if (grown == NULL) {
            return UINT32_MAX;
        }
        memset(grown + port, 0, (max - port) * sizeof *grown);
        party->connections = grown;
        party->port_max = max;
    }
    return port;
}

static bool on_accept(void *context, rbt_connection *connection, uint32_t node,
                      struct rbt_connection_end *end)
{
    rbt_engine *engine = context;
    struct rbt_party *party = node == RBT_NODE_COORDINATOR
                                  ? &engine->coordinator.party
                                  : &engine->servers[node - RBT_NODE_SERVERS].service.party;
    RBT_ASSERT(node < RBT_NODE_SERVERS + engine->options.shard_count); /* others do not listen */
    const uint32_t port = party->is_gone ? UINT32_MAX : find_port(party);
    if (port == UINT32_MAX) {
        return false;
    }
    party->connections[port] = connection;
    *end = (struct rbt_connection_end){.owner = party, .port = port};
    const uint32_t from = rbt_connection_node(connection, RBT_SIDE_CALLER);
    rbt_party_port(party, &(struct rbt_port_event){.kind = RBT_PORT_UP,
                                                   .port = port,
                                                   .up = {.peer = engine->nodes[from].name}});
    return true;
}

static void on_up(void *context, rbt_connection *connection)
{
    const struct rbt_connection_end end = rbt_connection_end(connection, RBT_SIDE_CALLER);
    const rbt_engine *engine = context;
    const uint32_t to = rbt_connection_node(connection, RBT_SIDE_LISTENER);
    show_line(end.owner, end.port, RBT_INSPECT_MADE);
    rbt_party_port(end.owner, &(struct rbt_port_event){.kind = RBT_PORT_UP,
                                                       .port = end.port,
                                                       .up = {.peer = engine->nodes[to].name}});
}

/* Puts the rows of a long message where they belong, as a socket would be read. */
static void place_rows(const struct rbt_party *party, struct rbt_port_event *event)
{
    struct rbt_frame_place place;
    if (party->kind == RBT_PARTY_CARRIER && event->frame.head.length >= PLACE_MIN &&
        rbt_caller_place(&((const struct rbt_carrier_party *)party)->carrier.caller, event->port,
                         &event->frame.head, &place)) {
        memcpy(place.to, event->frame.body + place.prefix, place.bytes);
        event->frame.placed = place.bytes;
    }
}

/* Messages by the names that people see. */
static const char *name_of(uint16_t kind)
{
    static const char *const names[] = {
        [RBT_FRAME_HELLO] = "hello",       [RBT_FRAME_WELCOME] = "welcome",
        [RBT_FRAME_REFUSED] = "refused",   [RBT_FRAME_PUSH] = "push",
        [RBT_FRAME_LEAVE] = "leave",       [RBT_FRAME_LIST] = "list",
        [RBT_FRAME_PULL] = "pull",         [RBT_FRAME_SCAN] = "scan",
        [RBT_FRAME_ROWS] = "rows",         [RBT_FRAME_ACK] = "ack",
        [RBT_FRAME_TABLE] = "table",       [RBT_FRAME_RESET] = "reset",
        [RBT_FRAME_STATS] = "stats",       [RBT_FRAME_DONE] = "done",
        [RBT_FRAME_JOIN] = "join",         [RBT_FRAME_PLAN] = "plan",
        [RBT_FRAME_BEAT] = "beat",         [RBT_FRAME_GATHER] = "gather",
        [RBT_FRAME_GATHERED] = "gathered", [RBT_FRAME_BOUND] = "bound",
        [RBT_FRAME_DROP] = "drop",         [RBT_FRAME_FAILED] = "failed",
        [RBT_FRAME_GOODBYE] = "goodbye",   [RBT_FRAME_VERSION] = "version",
        [RBT_FRAME_STABLE] = "stable",     [RBT_FRAME_JOB] = "job",
        [RBT_FRAME_BOUND_TAKEN] = "taken"};
    const char *name = kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
    return name == NULL ? "message" : name;
}

static struct rbt_trace_lane lane_of(const rbt_engine *engine, uint32_t node, uint32_t worker)
{
    const bool is_worker = node >= RBT_NODE_SERVERS + engine->options.shard_count;
    return (struct rbt_trace_lane){
        node, is_worker && worker != RBT_FRAME_NOBODY ? worker % engine->threads : 0};
}

/* Writes the message down, for those who look and for the timeline. */
static void note_message(rbt_engine *engine, const rbt_connection *connection, enum rbt_side side,
                         const struct rbt_frame *head, rbt_time sent)
{
    const enum rbt_side other = side == RBT_SIDE_CALLER ? RBT_SIDE_LISTENER : RBT_SIDE_CALLER;
    const uint32_t from = rbt_connection_node(connection, other);
    const uint32_t to = rbt_connection_node(connection, side);
    const char *name = name_of(head->kind);
    if (engine->simulation->options.observer.on_event != NULL) {
        engine->seen = (struct rbt_inspect_event){.at = engine->now - engine->began,
                                                  .what = "deliver",
                                                  .message = name,
                                                  .from = engine->nodes[from].name,
                                                  .to = engine->nodes[to].name,
                                                  .worker = head->worker,
                                                  .number = head->id};
    }
    if (engine->simulation->trace != NULL && head->kind != RBT_FRAME_BEAT) {
        const struct rbt_trace_message record = {.name = name,
                                                 .from = lane_of(engine, from, head->worker),
                                                 .to = lane_of(engine, to, head->worker),
                                                 .sent = sent,
                                                 .delivered = engine->now,
                                                 .bytes = head->length + RBT_FRAME_HEADER};
        rbt_trace_message(engine->simulation->trace, &record);
    }
}

/* Shows the message to a test, if there is one that looks. */
static void show_message(const rbt_engine *engine, const struct rbt_party *party,
                         const struct rbt_port_event *event, const struct rbt_block *block)
{
    static const enum rbt_inspect_route routes[] = {[RBT_PARTY_COORDINATOR] =
                                                        RBT_INSPECT_TO_COORDINATOR,
                                                    [RBT_PARTY_SERVICE] = RBT_INSPECT_TO_SERVER,
                                                    [RBT_PARTY_MEMBER] = RBT_INSPECT_TO_MEMBER,
                                                    [RBT_PARTY_CARRIER] = RBT_INSPECT_TO_WORKER};
    const struct rbt_inspect_frames *frames = &engine->simulation->frames;
    if (frames->on_frame != NULL) {
        const struct rbt_inspect_frame frame = {.route = routes[party->kind],
                                                .message = name_of(event->frame.head.kind),
                                                .receiver = party,
                                                .node = party->node,
                                                .port = event->port,
                                                .at = engine->now,
                                                .bytes = block->data,
                                                .size = block->bytes};
        frames->on_frame(frames->context, &frame);
    }
}

static void on_frame(void *context, rbt_connection *connection, enum rbt_side side,
                     struct rbt_block *block, rbt_time sent)
{
    const struct rbt_connection_end end = rbt_connection_end(connection, side);
    struct rbt_party *party = end.owner;
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME,
                                   .port = end.port,
                                   .frame = {.body = block->data + RBT_FRAME_HEADER}};
    const rbt_status st = rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &event.frame.head);
    RBT_ASSERT(st == RBT_OK); /* machines send nothing else */
    RBT_ASSERT(event.frame.head.length + RBT_FRAME_HEADER == block->bytes);
    party->bytes[1] += block->bytes;
    note_message(context, connection, side, &event.frame.head, sent);
    show_message(context, party, &event, block);
    if (party->kind == RBT_PARTY_CARRIER) {
        ((struct rbt_carrier_party *)party)->answered = sent;
        place_rows(party, &event);
    }
    rbt_party_port(party, &event);
}

static void on_turn(void *context, rbt_connection *connection, enum rbt_side side)
{
    const struct rbt_connection_end end = rbt_connection_end(connection, side);
    const struct rbt_party *party = end.owner;
    (void)context;
    if (party->kind == RBT_PARTY_SERVICE && party->connections[end.port] == connection) {
        rbt_service_party_step(
            end.owner, &(struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = end.port});
    }
}

static void on_down(void *context, rbt_connection *connection, enum rbt_side side,
                    rbt_status status, const char *why)
{
    const struct rbt_connection_end end = rbt_connection_end(connection, side);
    struct rbt_party *party = end.owner;
    (void)context;
    RBT_ASSERT(party->connections[end.port] == connection);
    party->connections[end.port] = NULL;
    show_line(party, end.port, RBT_INSPECT_LOST);
    rbt_party_port(party, &(struct rbt_port_event){.kind = RBT_PORT_DOWN,
                                                   .port = end.port,
                                                   .down = {.status = status, .why = why}});
}

const struct rbt_connections_events rbt_party_events = {.on_accept = on_accept,
                                                        .on_up = on_up,
                                                        .on_frame = on_frame,
                                                        .on_turn = on_turn,
                                                        .on_down = on_down};
