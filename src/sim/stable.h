/* sim/stable.h - partition synchronisation in a simulated cluster: which versions of a table all
 * servers have, as the coordinator knows it and the processes have been told. */
#ifndef RUBATO_SIM_STABLE_H
#define RUBATO_SIM_STABLE_H

#include "sim/cluster.h"

/* After a step: tells the coordinator what has grown; or says all of it again. */
void rbt_stable_report(rbt_sim_cluster *cluster, struct rbt_sim_server *server, bool is_again);

/* A VERSION at the coordinator, a STABLE at a process; the coordinator says all of it again to a
 * process. */
void rbt_stable_hear_version(rbt_sim_cluster *cluster, const struct rbt_message *message);
void rbt_stable_hear(rbt_sim_cluster *cluster, const struct rbt_message *message);
void rbt_stable_repeat(rbt_sim_cluster *cluster, uint32_t node);

/* What a worker knows. */
uint64_t rbt_stable_of(const rbt_sim_cluster *cluster, uint32_t worker, uint32_t table);

#endif
