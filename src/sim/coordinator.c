/* sim/coordinator.c - the coordinator of a simulated cluster: it hears from everybody, and when a
 * process falls silent tells the servers that nobody need wait for its workers. A server that falls
 * silent ends the run: its rows are lost.
 *
 * If it has heard from nobody at all, it is the one that is cut off, or was away, and must not
 * judge the others; when it hears again, their time starts anew. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "sim/cluster.h"

#define BEAT_TIME    rbt_sim_time(0.5)
#define SUSPECT_TIME rbt_sim_time(2.0)
#define DOWN_TIME    rbt_sim_time(5.0)

rbt_status rbt_coordinator_start(rbt_sim_cluster *cluster)
{
    const struct rbt_members_options options = {
        .node_count = cluster->node_count, .suspect_after = SUSPECT_TIME, .down_after = DOWN_TIME};
    rbt_status st = rbt_members_create(&options, cluster->now, &cluster->members);
    if (st != RBT_OK) {
        return st;
    }
    rbt_members_leave(cluster->members, RBT_NODE_COORDINATOR); /* it does not watch itself */
    cluster->heard_last = cluster->now;
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        cluster->coordinator_links[i] = (struct rbt_link){
            .node = RBT_NODE_COORDINATOR, .server = i, .timer_at = RBT_TIME_NEVER};
        rbt_stable_report(cluster, &cluster->servers[i], true); /* of the last run */
    }
    for (uint32_t i = 1; i < cluster->node_count; i++) {
        rbt_sim_cluster_schedule(cluster, cluster->now + BEAT_TIME, RBT_EVENT_BEAT, i, NULL);
    }
    rbt_sim_cluster_schedule(cluster, cluster->now + SUSPECT_TIME, RBT_EVENT_WATCH,
                             RBT_NODE_COORDINATOR, NULL);
    return RBT_OK;
}

void rbt_coordinator_stop(rbt_sim_cluster *cluster)
{
    for (uint32_t i = 0; cluster->coordinator_links != NULL && i < cluster->server_count; i++) {
        rbt_link_abandon(cluster, &cluster->coordinator_links[i]);
        rbt_session_destroy(cluster->coordinator_links[i].session);
        cluster->coordinator_links[i].session = NULL;
    }
    rbt_members_destroy(cluster->members);
    cluster->members = NULL;
}

void rbt_coordinator_beat(rbt_sim_cluster *cluster, uint32_t node)
{
    const uint32_t first_process = RBT_NODE_SERVERS + cluster->server_count;
    if (cluster->nodes[node].is_gone) {
        return;
    }
    if (node >= RBT_NODE_SERVERS && node < first_process) { /* makes good what was lost */
        rbt_stable_report(cluster, &cluster->servers[node - RBT_NODE_SERVERS], true);
    }
    struct rbt_message *message = rbt_message_create(&cluster->pool, RBT_MESSAGE_BEAT);
    if (message == NULL) {
        rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate a message"));
        return;
    }
    message->from = node;
    message->to = RBT_NODE_COORDINATOR;
    rbt_sim_cluster_send(cluster, message);
    rbt_message_unref(message);
    rbt_sim_cluster_schedule(cluster, cluster->now + BEAT_TIME, RBT_EVENT_BEAT, node, NULL);
}

/* Tells a server that a worker is gone, until it has answered. */
static void expel(rbt_sim_cluster *cluster, uint32_t server, uint32_t worker)
{
    struct rbt_link *link = &cluster->coordinator_links[server];
    rbt_session *session = rbt_link_session(cluster, link);
    struct rbt_message *message =
        session == NULL ? NULL : rbt_message_create(&cluster->pool, RBT_MESSAGE_EXPEL);
    if (message == NULL) {
        rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate a message"));
        return;
    }
    message->to = RBT_NODE_SERVERS + server;
    message->worker = UINT32_MAX; /* the answer is not for it */
    message->event.worker = worker;
    message->id = ++cluster->expel_id;
    const struct rbt_session_message record = {
        .is_request = true, .number = message->id, .cookie = (uintptr_t)message};
    const rbt_status st = rbt_session_send(session, &record, cluster->now);
    if (st != RBT_OK) {
        rbt_message_unref(message);
        rbt_sim_cluster_fail(cluster, st);
        return;
    }
    rbt_sim_cluster_send(cluster, message);
    rbt_link_arm(cluster, link);
}

static void give_up(rbt_sim_cluster *cluster, uint32_t node)
{
    if (node < RBT_NODE_SERVERS + cluster->server_count) {
        const rbt_status st =
            rbt_fail(RBT_E_CLOSED, "%s has been silent for too long, and nobody else has its rows",
                     cluster->nodes[node].name);
        rbt_sim_cluster_fail(cluster, st);
        return;
    }
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        for (uint32_t s = 0; cluster->workers[i].node == node && s < cluster->server_count; s++) {
            expel(cluster, s, i);
        }
    }
}

static void note(rbt_sim_cluster *cluster, const struct rbt_members_outbox *out)
{
    static const char *const names[] = {"up", "suspect", "down", "left"};
    const struct rbt_simulation_observer *observer = &cluster->simulation->options.observer;
    for (size_t i = 0; i < out->count; i++) {
        const struct rbt_member_effect *effect = &out->effects[i];
        if (observer->on_node != NULL) {
            observer->on_node(observer->context, (double)(cluster->now - cluster->began) * 1e-9,
                              cluster->nodes[effect->node].name, names[effect->state]);
        }
        if (effect->state == RBT_MEMBER_DOWN) {
            cluster->simulation->totals.nodes_lost++;
            give_up(cluster, effect->node);
        }
    }
}

/* Whether all servers know that the worker has left. */
static bool has_said_so(const rbt_sim_cluster *cluster, const struct rbt_sim_worker *worker)
{
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        const struct rbt_link *link = &worker->links[i];
        if (link->session != NULL && rbt_session_acknowledged(link->session) < link->leave) {
            return false;
        }
    }
    return true;
}

/* Processes are not watched any more when their workers have ended and everybody knows. Until then
 * they may still be lost, with what has not been delivered. */
static void note_ended(rbt_sim_cluster *cluster)
{
    bool is_done = true; /* the process up to here */
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const struct rbt_sim_worker *worker = &cluster->workers[i];
        const bool is_last =
            i + 1 == cluster->worker_count || cluster->workers[i + 1].node != worker->node;
        is_done = is_done && worker->state == RBT_WORKER_ENDED && has_said_so(cluster, worker);
        if (is_last && is_done && !cluster->nodes[worker->node].is_gone) {
            rbt_members_leave(cluster->members, worker->node);
        }
        is_done = is_done || is_last;
    }
}

static bool is_cut_off(const rbt_sim_cluster *cluster)
{
    return cluster->now - cluster->heard_last >= SUSPECT_TIME;
}

void rbt_coordinator_watch(rbt_sim_cluster *cluster)
{
    struct rbt_members_outbox out = {.effects = cluster->member_effects};
    note_ended(cluster);
    if (!is_cut_off(cluster)) {
        rbt_members_expire(cluster->members, cluster->now, &out);
        note(cluster, &out);
    }
    rbt_sim_cluster_schedule(cluster, cluster->now + BEAT_TIME, RBT_EVENT_WATCH,
                             RBT_NODE_COORDINATOR, NULL);
}

/* A node says that it is there. */
static void hear(rbt_sim_cluster *cluster, uint32_t from)
{
    struct rbt_members_outbox heard = {.effects = cluster->member_effects};
    for (uint32_t i = 1; is_cut_off(cluster) && i < cluster->node_count; i++) {
        rbt_members_hear(cluster->members, i, cluster->now, &heard);
    }
    cluster->heard_last = cluster->now;
    rbt_members_hear(cluster->members, from, cluster->now, &heard);
    note(cluster, &heard);
}

void rbt_coordinator_receive(rbt_sim_cluster *cluster, struct rbt_message *message)
{
    if (message->kind == RBT_MESSAGE_BEAT) {
        hear(cluster, message->from);
        rbt_stable_repeat(cluster, message->from);
        return;
    }
    if (message->kind == RBT_MESSAGE_VERSION) {
        rbt_stable_hear_version(cluster, message);
        return;
    }
    RBT_ASSERT(message->kind == RBT_MESSAGE_DONE);
    struct rbt_link *link = &cluster->coordinator_links[message->shard];
    struct rbt_session_outbox out = {.effects = cluster->released};
    if (rbt_session_answered(link->session, message->id, cluster->now, &out)) {
        rbt_link_release(&out);
        rbt_link_arm(cluster, link);
    }
}
