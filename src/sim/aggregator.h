/* sim/aggregator.h - worker processes that add up what their rack pushes to servers in others. */
#ifndef RUBATO_SIM_AGGREGATOR_H
#define RUBATO_SIM_AGGREGATOR_H

#include "sim/cluster.h"

/* Whether updates of this table can be added up on their way, if they are to be. */
RBT_MUST_USE rbt_status rbt_sim_aggregator_check(const rbt_sim_cluster *cluster, uint32_t table,
                                                 const char *name);

/* Makes one for each worker process, if there are to be any; when nodes are in their racks. */
RBT_MUST_USE rbt_status rbt_sim_aggregator_fill(rbt_sim_cluster *cluster);
void rbt_sim_aggregator_empty(rbt_sim_cluster *cluster);

/* Forgets everything that belongs to a run. */
void rbt_sim_aggregator_clear(rbt_sim_cluster *cluster);

/* A message has come to the node; parts may have waited for long enough there. */
void rbt_sim_aggregator_receive(rbt_sim_cluster *cluster, uint32_t node,
                                struct rbt_message *message);
void rbt_sim_aggregator_expire(rbt_sim_cluster *cluster, uint32_t node);

/* The node to which the message of a worker's link goes first: a process of its rack, or the
 * server. */
uint32_t rbt_sim_aggregator_first_stop(const rbt_sim_cluster *cluster, const struct rbt_link *link,
                                       const struct rbt_message *message);

/* Whether the message may be at a process that stands still: it should take the other way. */
bool rbt_sim_aggregator_is_stuck(const rbt_sim_cluster *cluster, const struct rbt_link *link,
                                 const struct rbt_message *message);

/* The message was not acknowledged in time: for a while nothing of the link goes that way. */
void rbt_sim_aggregator_avoid(const rbt_sim_cluster *cluster, struct rbt_link *link,
                              const struct rbt_message *message);

/* The node has crashed: what it had to add up is lost. */
void rbt_sim_aggregator_crash(rbt_sim_cluster *cluster, uint32_t node);

#endif
