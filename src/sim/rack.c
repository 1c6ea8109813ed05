/* sim/rack.c - which rack a node is in, how fast the links between racks are, and what may cross
 * them early.
 *
 * Server i and worker process i are in rack i modulo the number of racks: all of them have about as
 * many of each, and neighbours are not together, so that nothing depends on luck. The coordinator
 * is in rack 0 and adds nothing to its links, since it has next to nothing to send. */
#include "sim/rack.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

static uint32_t process_count(const rbt_sim_cluster *cluster)
{
    return cluster->node_count - RBT_NODE_SERVERS - cluster->server_count;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

rbt_status rbt_rack_check(const rbt_sim_cluster *cluster, const struct rbt_driver_options *options)
{
    const uint32_t most = larger(cluster->server_count, process_count(cluster));
    if (cluster->rack_count > most) {
        return rbt_fail(RBT_E_INVALID,
                        "of %u racks some would be empty: there %s only %u server%s and %u worker "
                        "process%s",
                        cluster->rack_count, cluster->node_count > 3 ? "are" : "is",
                        cluster->server_count, cluster->server_count == 1 ? "" : "s",
                        process_count(cluster), process_count(cluster) == 1 ? "" : "es");
    }
    if (cluster->simulation->options.rack_budget > 0 && options->bandwidth == 0) {
        return rbt_fail(RBT_E_INVALID,
                        "the budget of a rack is for rows that travel early, but the "
                        "job has no bandwidth for them");
    }
    if (cluster->simulation->options.rack_budget > 0 && options->priority != NULL &&
        strcmp(options->priority, "sweep") == 0) {
        return rbt_fail(RBT_E_INVALID,
                        "a sweep sends all rows in turn, near or far: it cannot keep "
                        "to the budget of a rack");
    }
    if (cluster->simulation->options.aggregate_seconds > 0 && options->bandwidth > 0) {
        return rbt_fail(RBT_E_INVALID,
                        "rows that travel early go by themselves: updates of a job with a "
                        "bandwidth for them cannot be added up in the racks");
    }
    return RBT_OK;
}

/* Servers and worker processes in the rack. */
static uint32_t rack_size(const rbt_sim_cluster *cluster, uint32_t rack)
{
    uint32_t size = 0;
    for (uint32_t i = RBT_NODE_SERVERS; i < cluster->node_count; i++) {
        size += cluster->nodes[i].rack == rack;
    }
    return size;
}

void rbt_rack_fill(rbt_sim_cluster *cluster)
{
    const struct rbt_simulation_options *options = &cluster->simulation->options;
    const uint32_t first_process = RBT_NODE_SERVERS + cluster->server_count;
    if (cluster->rack_count == 1) {
        return;
    }
    for (uint32_t i = RBT_NODE_SERVERS; i < cluster->node_count; i++) {
        const uint32_t index = i < first_process ? i - RBT_NODE_SERVERS : i - first_process;
        cluster->nodes[i].rack = index % cluster->rack_count;
        rbt_network_set_rack(cluster->network, i, cluster->nodes[i].rack);
    }
    for (uint32_t i = 0; i < cluster->rack_count; i++) {
        const double together = rack_size(cluster, i) * options->bandwidth;
        rbt_network_set_rack_bandwidth(cluster->network, i, together / options->oversubscription);
    }
}

bool rbt_rack_is_far(const rbt_sim_cluster *cluster, uint32_t worker, uint32_t shard)
{
    return cluster->simulation->options.rack_budget > 0 &&
           cluster->nodes[cluster->workers[worker].node].rack !=
               cluster->nodes[RBT_NODE_SERVERS + shard].rack;
}

uint64_t rbt_rack_rate(const rbt_sim_cluster *cluster, uint32_t node)
{
    const uint32_t size = rack_size(cluster, cluster->nodes[node].rack);
    RBT_ASSERT(size > 0);
    const uint64_t rate = (uint64_t)(cluster->simulation->options.rack_budget / size);
    return rate < cluster->bandwidth ? rate : cluster->bandwidth;
}
