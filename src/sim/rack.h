/* sim/rack.h - which rack a node is in, how fast the links between racks are, and what may cross
 * them early. */
#ifndef RUBATO_SIM_RACK_H
#define RUBATO_SIM_RACK_H

#include "sim/cluster.h"

/* Whether the cluster can have the racks and the budget that its options ask for. */
RBT_MUST_USE rbt_status rbt_rack_check(const rbt_sim_cluster *cluster,
                                       const struct rbt_driver_options *options);

/* Puts every node into its rack, and makes the racks' links as fast as they are. */
void rbt_rack_fill(rbt_sim_cluster *cluster);

/* Whether the worker's process and the server are in different racks, and there is a budget for
 * what goes from one to the other. */
bool rbt_rack_is_far(const rbt_sim_cluster *cluster, uint32_t worker, uint32_t shard);

/* The node's part of its rack's budget, in bytes per second: no more than its own budget, since
 * messages would otherwise be made for more than may go. */
uint64_t rbt_rack_rate(const rbt_sim_cluster *cluster, uint32_t node);

#endif
