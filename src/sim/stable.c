/* sim/stable.c - partition synchronisation: which versions of a table all servers have.
 *
 * A server tells the coordinator whenever its version of such a table has grown; the coordinator
 * tells all processes whenever the lowest one has. So nobody has to ask before a read, as the paper
 * on heterogeneous clusters has it, and what a read takes is old by the way of two messages, not
 * late by that of two others. Both messages may be lost: they only ever say more than the last one
 * did, and are said again with every sign of life.
 *
 * Versions never decrease, over all runs of a job. */
#include "base/assert.h"
#include "base/error.h"
#include "sim/cluster.h"

static uint64_t *version_at(const rbt_sim_cluster *cluster, uint32_t table, uint32_t server)
{
    RBT_ASSERT(table < cluster->table_max);
    RBT_ASSERT(server < cluster->server_count);
    return &cluster->versions[(size_t)table * cluster->server_count + server];
}

/* What a node knows, the coordinator included. */
static uint64_t *stable_at(const rbt_sim_cluster *cluster, uint32_t table, uint32_t node)
{
    RBT_ASSERT(table < cluster->table_max);
    RBT_ASSERT(node < cluster->node_count);
    return &cluster->stable[(size_t)table * cluster->node_count + node];
}

/* One of the two short messages. */
struct news {
    enum rbt_message_kind kind;
    uint32_t from;
    uint32_t to;
    uint32_t table;
    uint64_t version;
};

static void tell(rbt_sim_cluster *cluster, const struct news *news)
{
    struct rbt_message *message = rbt_message_create(&cluster->pool, news->kind);
    if (message == NULL) {
        rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate a message"));
        return;
    }
    message->from = news->from;
    message->to = news->to;
    message->worker = UINT32_MAX;
    message->table = news->table;
    message->version = news->version;
    rbt_sim_cluster_send(cluster, message);
    rbt_message_unref(message);
}

void rbt_stable_report(rbt_sim_cluster *cluster, struct rbt_sim_server *server, bool is_again)
{
    for (uint32_t i = 0; i < cluster->table_count; i++) {
        if (!cluster->tables[i].is_synchronised) {
            continue;
        }
        const uint64_t version = rbt_shard_version(server->shard, i);
        RBT_ASSERT(version >= server->told[i]);
        if (version > server->told[i] || (is_again && version > 0)) {
            server->told[i] = version;
            tell(cluster, &(struct news){.kind = RBT_MESSAGE_VERSION,
                                         .from = server->node,
                                         .to = RBT_NODE_COORDINATOR,
                                         .table = i,
                                         .version = version});
        }
    }
}

static void tell_process(rbt_sim_cluster *cluster, uint32_t table, uint32_t node)
{
    tell(cluster, &(struct news){.kind = RBT_MESSAGE_STABLE,
                                 .from = RBT_NODE_COORDINATOR,
                                 .to = node,
                                 .table = table,
                                 .version = *stable_at(cluster, table, RBT_NODE_COORDINATOR)});
}

void rbt_stable_hear_version(rbt_sim_cluster *cluster, const struct rbt_message *message)
{
    const uint32_t first_process = RBT_NODE_SERVERS + cluster->server_count;
    uint64_t *version = version_at(cluster, message->table, message->from - RBT_NODE_SERVERS);
    uint64_t *stable = stable_at(cluster, message->table, RBT_NODE_COORDINATOR);
    *version = message->version > *version ? message->version : *version; /* one may overtake */
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        const uint64_t other = *version_at(cluster, message->table, i);
        lowest = other < lowest ? other : lowest;
    }
    if (lowest <= *stable) {
        return;
    }
    *stable = lowest;
    for (uint32_t node = first_process; node < cluster->node_count; node++) {
        tell_process(cluster, message->table, node);
    }
}

void rbt_stable_repeat(rbt_sim_cluster *cluster, uint32_t node)
{
    const bool is_process = node >= RBT_NODE_SERVERS + cluster->server_count;
    for (uint32_t i = 0; is_process && i < cluster->table_count; i++) {
        if (cluster->tables[i].is_synchronised &&
            *stable_at(cluster, i, RBT_NODE_COORDINATOR) > 0) {
            tell_process(cluster, i, node);
        }
    }
}

void rbt_stable_hear(rbt_sim_cluster *cluster, const struct rbt_message *message)
{
    uint64_t *stable = stable_at(cluster, message->table, message->to);
    *stable = message->version > *stable ? message->version : *stable;
}

uint64_t rbt_stable_of(const rbt_sim_cluster *cluster, uint32_t worker, uint32_t table)
{
    RBT_ASSERT(worker < cluster->worker_count);
    return *stable_at(cluster, table, cluster->workers[worker].node);
}
