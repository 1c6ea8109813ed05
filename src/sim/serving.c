/* sim/serving.c - the nodes that others connect to: the coordinator, and servers of one shard each.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/engine.h"

/* --- The coordinator ------------------------------------------------------------------------- */

/* What jobs are known by need not be a secret where there is nobody to guess it. */
static rbt_status draw(void *bytes, size_t size)
{
    memset(bytes, 'r', size);
    return RBT_OK;
}

static void on_coordinator_note(void *context, enum rbt_log_level level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
}

static void on_worker(void *context, uint32_t port)
{
    (void)context;
    (void)port;
}

static void on_lost(void *context, const char *node)
{
    rbt_engine *engine = context;
    const struct rbt_simulation_observer *observer = &engine->simulation->options.observer;
    engine->simulation->totals.nodes_lost++;
    if (observer->on_node != NULL) {
        observer->on_node(observer->context, (double)(engine->now - engine->began) * 1e-9, node,
                          "down");
    }
}

/* The job is over; processes hear of it by themselves. */
static void on_end(void *context, rbt_status status, const char *text)
{
    rbt_engine *engine = context;
    if (status != RBT_OK) {
        rbt_outcome_fill(&engine->coordinator.ending, rbt_fail(status, "%s", text));
    }
}

rbt_status rbt_coordinator_party_open(rbt_engine *engine)
{
    struct rbt_coordinator_party *coordinator = &engine->coordinator;
    const struct rbt_roster_ports_options options = {
        .roster = {.cluster = (uint64_t)engine->now + 1,
                   .server_count = engine->options.shard_count,
                   .is_once = true,
                   .start_timeout = RBT_SIM_START_TIME,
                   .silence_max = RBT_SIM_SILENCE_MAX,
                   .cut_max = RBT_SIM_CUT_MAX,
                   .draw = draw},
        .context = engine,
        .note = on_coordinator_note,
        .on_worker = on_worker,
        .on_lost = on_lost,
        .on_end = on_end};
    rbt_status st = rbt_party_init(&coordinator->party, RBT_PARTY_COORDINATOR, engine,
                                   RBT_NODE_COORDINATOR, engine->node_count);
    st = st != RBT_OK ? st : rbt_roster_ports_create(&options, engine->now, &coordinator->ports);
    if (st == RBT_OK) {
        rbt_party_perform(&coordinator->party, &coordinator->out); /* for its timer */
    }
    return st;
}

void rbt_coordinator_party_close(struct rbt_coordinator_party *coordinator)
{
    if (coordinator->ports != NULL) {
        rbt_roster_ports_destroy(coordinator->ports);
        coordinator->ports = NULL;
    }
    rbt_outbox_deinit(&coordinator->out);
    rbt_party_deinit(&coordinator->party);
}

void rbt_coordinator_party_step(struct rbt_coordinator_party *coordinator,
                                const struct rbt_roster_ports_event *event)
{
    rbt_roster_ports_step(coordinator->ports, event, coordinator->party.engine->now,
                          &coordinator->out);
    rbt_party_perform(&coordinator->party, &coordinator->out);
}

/* --- Servers --------------------------------------------------------------------------------- */

static void on_version(void *context, uint64_t job, uint32_t table, uint64_t version)
{
    struct rbt_server_node *server = context;
    if (!server->member.party.is_gone) {
        rbt_member_party_step(&server->member,
                              &(struct rbt_membership_event){
                                  .kind = RBT_MEMBERSHIP_VERSION,
                                  .version = {.job = job, .table = table, .version = version}});
    }
}

rbt_status rbt_server_node_open(rbt_engine *engine, uint32_t index)
{
    struct rbt_server_node *server = &engine->servers[index];
    const uint32_t node = RBT_NODE_SERVERS + index;
    struct rbt_member_party *member = &server->member;
    const struct rbt_service_options service = {
        .address = engine->nodes[node].name, .context = server, .on_version = on_version};
    rbt_status st = rbt_party_init(&member->party, RBT_PARTY_MEMBER, engine, node, 1);
    st = st != RBT_OK ? st
                      : rbt_party_init(&server->service.party, RBT_PARTY_SERVICE, engine, node,
                                       engine->options.worker_count);
    st = st != RBT_OK ? st : rbt_service_create(&service, &server->service.service);
    if (st != RBT_OK) {
        return st;
    }
    member->index = index;
    member->has_plan = false;
    (void)snprintf(member->address, sizeof member->address, "%s", engine->nodes[node].name);
    member->shards[0] = member->address;
    const struct rbt_membership_options options = {.coordinator = "a simulated host",
                                                   .role = RBT_ROLE_SERVER,
                                                   .index = (int32_t)index,
                                                   .start_timeout = RBT_SIM_START_TIME,
                                                   .silence_max = RBT_SIM_SILENCE_MAX,
                                                   .cut_max = RBT_SIM_CUT_MAX,
                                                   .shards = member->shards,
                                                   .shard_count = 1,
                                                   .token = (uint64_t)engine->now + node + 1,
                                                   .host = "a simulated host",
                                                   .pid = node};
    rbt_membership_init(&member->machine, &options, engine->now);
    rbt_member_party_step(member, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME});
    return RBT_OK;
}

void rbt_server_node_close(struct rbt_server_node *server)
{
    if (server->member.party.engine == NULL) {
        return; /* it was never opened */
    }
    rbt_service_destroy(server->service.service);
    server->service.service = NULL;
    rbt_membership_deinit(&server->member.machine);
    rbt_outbox_deinit(&server->member.out.port);
    rbt_outbox_deinit(&server->service.out);
    rbt_party_deinit(&server->member.party);
    rbt_party_deinit(&server->service.party);
}

void rbt_service_party_step(struct rbt_service_party *service,
                            const struct rbt_service_event *event)
{
    rbt_service_step(service->service, event, service->party.engine->now, &service->out);
    rbt_party_perform(&service->party, &service->out);
}

void rbt_server_node_hear(struct rbt_server_node *server, const struct rbt_membership_news *news)
{
    if (server->service.party.is_gone) {
        return;
    }
    if (news->kind == RBT_MEMBERSHIP_JOB) {
        rbt_service_party_step(
            &server->service,
            &(struct rbt_service_event){.kind = RBT_SERVICE_ADMIT,
                                        .admit = {.number = news->number, .job = &news->job}});
    } else if (news->kind == RBT_MEMBERSHIP_DROP) {
        rbt_service_party_step(
            &server->service,
            &(struct rbt_service_event){.kind = RBT_SERVICE_DROP, .drop = news->number});
    } else if (news->kind == RBT_MEMBERSHIP_NEW_BOUND) {
        const struct rbt_bound bound = {
            .number = news->number, .table = news->bound.table, .staleness = news->bound.staleness};
        rbt_service_party_step(
            &server->service,
            &(struct rbt_service_event){.kind = RBT_SERVICE_BOUND,
                                        .bound = {.job = news->bound.job, .bound = bound}});
    }
}

/* The process ends: its connections do, too. */
static void end_server(struct rbt_server_node *server)
{
    struct rbt_party *party = &server->service.party;
    const struct rbt_membership *machine = &server->member.machine;
    if (party->is_gone) {
        return;
    }
    for (uint32_t i = 0; i < party->port_max; i++) {
        if (party->connections[i] != NULL) {
            rbt_connection_cut(party->connections[i], RBT_SIDE_LISTENER, party->engine->now);
        }
    }
    rbt_party_drop(party);
    rbt_member_party_step(
        &server->member,
        &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_LEAVE,
                                       .ending = {machine->failure, machine->failure == RBT_OK
                                                                        ? NULL
                                                                        : machine->failure_text}});
}

void rbt_server_node_wake(struct rbt_server_node *server)
{
    struct rbt_member_party *member = &server->member;
    if (rbt_membership_has_plan(&member->machine) && !member->has_plan) {
        const struct rbt_member_plan *plan = &member->machine.plan;
        uint32_t shard = 0;
        member->has_plan = true;
        while (shard < plan->shard_count && strcmp(plan->shards[shard], member->address) != 0) {
            shard++;
        }
        RBT_ASSERT(shard < plan->shard_count);
        rbt_service_party_step(
            &server->service,
            &(struct rbt_service_event){.kind = RBT_SERVICE_NAME, .name = {plan->cluster, shard}});
    }
    if (member->machine.failure == RBT_E_NOMEM && !member->has_plan) { /* nobody would hear why */
        rbt_engine_fail(member->party.engine,
                        rbt_fail(RBT_E_NOMEM, "%s", member->machine.failure_text));
    }
    if (rbt_membership_has_ended(&member->machine)) {
        end_server(server);
    }
}
