/* sim/engine_faults.c - what goes wrong at nodes of a simulated cluster, and its figures.
 *
 * A crash forgets: a process that comes back starts from nothing, and joins as a new one. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/engine.h"

/* --- Faults ---------------------------------------------------------------------------------- */

static uint32_t find_node(const rbt_engine *engine, const char *name)
{
    for (uint32_t i = 0; i < engine->node_count; i++) {
        if (strcmp(engine->nodes[i].name, name) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

rbt_status rbt_engine_check_faults(const rbt_engine *engine)
{
    const rbt_simulation *simulation = engine->simulation;
    const uint32_t servers = engine->options.shard_count;
    for (size_t i = 0; i < simulation->options.fault_count; i++) {
        if (find_node(engine, simulation->faults[i].node) == UINT32_MAX) {
            return rbt_fail(RBT_E_INVALID,
                            "there is no node \"%s\" in a cluster of %u server%s and %u worker "
                            "process%s",
                            simulation->faults[i].node, servers, servers == 1 ? "" : "s",
                            engine->process_count, engine->process_count == 1 ? "" : "es");
        }
    }
    return RBT_OK;
}

/* The node does nothing until then; what its workers compute takes so much longer. If it stands
 * still already, only what is added counts. */
static void pause_node(rbt_engine *engine, uint32_t node, rbt_time lasts)
{
    const rbt_time before = engine->nodes[node].paused_until;
    const rbt_time from = before > engine->now ? before : engine->now;
    const rbt_time until = engine->now + lasts > from ? engine->now + lasts : from;
    engine->nodes[node].paused_until = until;
    rbt_connections_pause(engine->connections, node, until);
    for (uint32_t i = 0; i < engine->options.worker_count; i++) {
        if (engine->strands[i].carrier.party.node == node) {
            engine->strands[i].wake_at += until - from;
        }
    }
}

static void crash_process(rbt_engine *engine, struct rbt_process_node *process)
{
    const char *name = engine->nodes[process->member.party.node].name;
    rbt_party_drop(&process->member.party);
    rbt_party_drop(&process->control.party);
    rbt_carrier_party_fail(&process->control, rbt_fail(RBT_E_CLOSED, "%s has crashed", name));
    rbt_process_node_note_told(process);
    if (process->is_agreeing) {
        process->is_agreeing = false;
        engine->agreed_count++;
        process->outcomes[1] = process->outcomes[0];
    }
    for (uint32_t i = 0; i < process->worker_count; i++) {
        struct rbt_strand *strand = &engine->strands[process->worker_first + i];
        rbt_party_drop(&strand->carrier.party);
        rbt_carrier_party_fail(&strand->carrier, rbt_fail(RBT_E_CLOSED, "%s has crashed", name));
        if (strand->state == RBT_STRAND_COMPUTING) {
            rbt_strand_resume(strand);
        }
    }
}

static void crash(rbt_engine *engine, uint32_t node)
{
    const uint32_t first_process = RBT_NODE_SERVERS + engine->options.shard_count;
    rbt_connections_crash(engine->connections, node, engine->now);
    engine->nodes[node].is_gone = true;
    if (node == RBT_NODE_COORDINATOR) {
        rbt_party_drop(&engine->coordinator.party);
    } else if (node < first_process) {
        struct rbt_server_node *server = &engine->servers[node - RBT_NODE_SERVERS];
        rbt_party_drop(&server->member.party);
        rbt_party_drop(&server->service.party);
    } else {
        crash_process(engine, &engine->processes[node - first_process]);
    }
}

/* A process starts from nothing where another one was. That of a worker has nobody to run its
 * function for: the job has lost it. */
static void restart(rbt_engine *engine, uint32_t node)
{
    const uint32_t first_process = RBT_NODE_SERVERS + engine->options.shard_count;
    rbt_status st = RBT_OK;
    if (node == RBT_NODE_COORDINATOR) {
        rbt_coordinator_party_close(&engine->coordinator);
        st = rbt_coordinator_party_open(engine);
    } else if (node < first_process) {
        rbt_server_node_close(&engine->servers[node - RBT_NODE_SERVERS]);
        st = rbt_server_node_open(engine, node - RBT_NODE_SERVERS);
    } else {
        return;
    }
    engine->nodes[node].is_gone = false;
    if (st != RBT_OK) {
        rbt_engine_fail(engine, st);
    }
}

void rbt_engine_fault_begin(rbt_engine *engine, uint32_t index)
{
    const struct rbt_fault *fault = &engine->simulation->faults[index];
    const uint32_t node = find_node(engine, fault->node);
    const rbt_time lasts = rbt_sim_time(fault->lasts);
    RBT_ASSERT(node != UINT32_MAX); /* seen to when the job was opened */
    if (engine->nodes[node].is_gone) {
        return;
    }
    switch (fault->kind) {
    case RBT_FAULT_CRASH:
        crash(engine, node);
        break;
    case RBT_FAULT_PAUSE:
        pause_node(engine, node, lasts);
        break;
    case RBT_FAULT_PARTITION:
        rbt_connections_set_side(engine->connections, node, node + 1, engine->now);
        break;
    case RBT_FAULT_SLOW_LINK:
        rbt_connections_slow(engine->connections, node, fault->factor);
        break;
    case RBT_FAULT_CUT:
        rbt_connections_reset_node(engine->connections, node, engine->now);
        return;
    }
    if (lasts > 0) {
        rbt_engine_schedule(engine, engine->now + lasts, RBT_ENGINE_HEAL, index, NULL);
    }
}

/* Another fault of that kind that is going on at that node, or NULL. */
static const struct rbt_fault *find_other(const rbt_engine *engine, const struct rbt_fault *fault)
{
    const rbt_simulation *simulation = engine->simulation;
    const rbt_time now = engine->now - engine->began;
    for (size_t i = 0; i < simulation->options.fault_count; i++) {
        const struct rbt_fault *other = &simulation->faults[i];
        const rbt_time at = rbt_sim_time(other->at);
        const bool is_on =
            at <= now && (other->lasts == 0 || at + rbt_sim_time(other->lasts) > now);
        if (other != fault && is_on && other->kind == fault->kind &&
            strcmp(other->node, fault->node) == 0) {
            return other;
        }
    }
    return NULL;
}

void rbt_engine_fault_end(rbt_engine *engine, uint32_t index)
{
    const struct rbt_fault *fault = &engine->simulation->faults[index];
    const uint32_t node = find_node(engine, fault->node);
    const struct rbt_fault *other = find_other(engine, fault);
    if (other != NULL && fault->kind != RBT_FAULT_SLOW_LINK) {
        return;
    }
    switch (fault->kind) {
    case RBT_FAULT_CRASH:
        restart(engine, node);
        break;
    case RBT_FAULT_PAUSE:
        break; /* its time is over by itself */
    case RBT_FAULT_PARTITION:
        rbt_connections_set_side(engine->connections, node, 0, engine->now);
        break;
    case RBT_FAULT_SLOW_LINK:
        rbt_connections_slow(engine->connections, node, other != NULL ? other->factor : 1.0);
        break;
    case RBT_FAULT_CUT:
        RBT_UNREACHABLE();
    }
}

void rbt_engine_plan_cut(rbt_engine *engine, uint32_t node)
{
    const double pause = -log1p(-rbt_rng_uniform(&engine->rng)) / engine->simulation->options.cuts;
    rbt_engine_schedule(engine, engine->now + rbt_sim_time(pause), RBT_ENGINE_CUT, node, NULL);
}

void rbt_engine_cut(rbt_engine *engine, uint32_t node)
{
    if (engine->is_running) {
        rbt_connections_reset_node(engine->connections, node, engine->now);
        rbt_engine_plan_cut(engine, node);
    }
}

/* --- Figures --------------------------------------------------------------------------------- */

rbt_status rbt_engine_attach(rbt_engine *engine)
{
    rbt_simulation *simulation = engine->simulation;
    const uint32_t worker_count = engine->options.worker_count;
    struct rbt_simulation_worker *workers = rbt_calloc(worker_count, sizeof *workers);
    struct rbt_simulation_node *nodes = rbt_calloc(engine->node_count, sizeof *nodes);
    struct rbt_simulation_rack *racks = rbt_calloc(simulation->options.racks, sizeof *racks);
    if (workers == NULL || nodes == NULL || racks == NULL) {
        rbt_free(workers);
        rbt_free(nodes);
        rbt_free(racks);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a simulation");
    }
    rbt_free(simulation->workers);
    rbt_free(simulation->nodes);
    rbt_free(simulation->racks);
    simulation->workers = workers;
    simulation->worker_count = worker_count;
    simulation->nodes = nodes;
    simulation->node_count = engine->node_count;
    simulation->racks = racks;
    simulation->rack_count = simulation->options.racks > 1 ? simulation->options.racks : 0;
    simulation->totals = (struct rbt_simulation_stats){0}; /* those of an earlier job are over */
    for (uint32_t i = 0; i < worker_count; i++) {
        workers[i].factor = engine->strands[i].factor;
    }
    for (uint32_t i = 0; i < engine->node_count; i++) {
        memcpy(nodes[i].name, engine->nodes[i].name, sizeof nodes[i].name);
    }
    return RBT_OK;
}

void rbt_engine_note(rbt_engine *engine)
{
    struct rbt_simulation_stats *totals = &engine->simulation->totals;
    struct rbt_connections_stats network;
    rbt_connections_stats(engine->connections, &network);
    totals->seconds = (double)(engine->now - engine->started) * 1e-9;
    totals->messages = network.messages;
    totals->bytes = network.bytes;
    totals->lost = network.lost;
    totals->duplicated = network.duplicated;
    totals->resent = 0;
    for (uint32_t i = 0; i < engine->process_count; i++) {
        totals->resent += rbt_caller_resent(&engine->processes[i].control.carrier.caller);
    }
    for (uint32_t i = 0; i < engine->options.worker_count; i++) {
        totals->resent += rbt_caller_resent(&engine->strands[i].carrier.carrier.caller);
    }
    for (uint32_t i = 0; i < engine->node_count; i++) {
        engine->simulation->nodes[i].bytes_sent = rbt_connections_sent(engine->connections, i);
        engine->simulation->nodes[i].bytes_received =
            rbt_connections_received(engine->connections, i);
    }
    for (uint32_t i = 0; i < engine->simulation->rack_count; i++) {
        const struct rbt_rack_bytes bytes = rbt_connections_rack_bytes(engine->connections, i);
        engine->simulation->racks[i] =
            (struct rbt_simulation_rack){.bytes_sent = bytes.up, .bytes_received = bytes.down};
    }
}
