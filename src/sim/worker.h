/* sim/worker.h - what a simulated worker does: worker.c, and early.c for early reads. */
#ifndef RUBATO_SIM_WORKER_H
#define RUBATO_SIM_WORKER_H

#include "sim/cluster.h"

RBT_MUST_USE rbt_status rbt_sim_worker_init(rbt_sim_cluster *cluster, uint32_t index);
RBT_MUST_USE rbt_status rbt_sim_worker_start(rbt_sim_cluster *cluster,
                                             struct rbt_sim_worker *worker);
void rbt_sim_worker_clear(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker);
void rbt_sim_worker_deinit(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker);

void rbt_sim_worker_step(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                         struct rbt_driver_call *calls, size_t count);
/* Early reads, and what all servers have acknowledged. */
void rbt_sim_worker_ask_early(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                              struct rbt_driver_call *calls, size_t count);
bool rbt_sim_worker_take_early(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                               struct rbt_driver_call *calls, size_t count);
uint64_t rbt_sim_worker_heard(const rbt_sim_cluster *cluster, const struct rbt_sim_worker *worker);
uint64_t rbt_sim_worker_heard_of(const rbt_sim_cluster *cluster,
                                 const struct rbt_sim_worker *worker, bool is_far);

void rbt_sim_worker_spend(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker, double seconds);
int64_t rbt_sim_worker_floor(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                             uint32_t shard);

void rbt_sim_worker_receive(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                            struct rbt_message *message);

/* The time it slept for is over. */
void rbt_sim_worker_wake(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker);

/* Runs the fiber until it waits or ends. */
void rbt_sim_worker_resume(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker);

/* Every call fails from now on; the fiber runs to its end. */
void rbt_sim_worker_close(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker);

/* --- For early.c ----------------------------------------------------------------------------- */

enum {
    RBT_WORKER_AHEAD_MAX = RBT_LINK_WINDOW / 2
}; /* messages under way before requests that
      nobody waits for are left out */

/* The worker's stash for these rows of this server, made if there is none; NULL without memory. */
struct rbt_stash *rbt_sim_worker_stash(struct rbt_sim_worker *worker, uint64_t subscription,
                                       uint32_t shard);

/* Sends a request, which the session keeps until it is answered. */
RBT_MUST_USE rbt_status rbt_sim_worker_request(rbt_sim_cluster *cluster,
                                               struct rbt_sim_worker *worker, uint32_t shard,
                                               const struct rbt_shard_event *event,
                                               struct rbt_message **sent);

/* Writes the answer to where the call wants it. */
void rbt_sim_worker_complete(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                             struct rbt_driver_call *call, const struct rbt_message *answer);

/* The highest stamp of the table that the worker has seen from the server. */
uint64_t *rbt_sim_worker_newest(const rbt_sim_cluster *cluster, const struct rbt_sim_worker *worker,
                                uint32_t shard, uint32_t table);

/* Why a worker's calls fail: it was closed, or the run has failed and will be over soon. */
rbt_status rbt_sim_worker_refuse(const rbt_sim_cluster *cluster,
                                 const struct rbt_sim_worker *worker);

#endif
