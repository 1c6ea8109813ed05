/* sim/early.c - early reads of a simulated worker: rows that come before they are asked for, as far
 * as the server's budget goes.
 *
 * A request that nobody waits for goes out; its answer lies in a stash of its own until the worker
 * takes it, or never comes and is asked for again. */
#include "base/assert.h"
#include "base/error.h"
#include "sim/rack.h"
#include "sim/worker.h"

static const uint64_t early_stash = UINT64_C(1) << 62; /* sets count from 1 */

void rbt_sim_worker_ask_early(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                              struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; !worker->is_closed && i < count; i++) {
        const struct rbt_shard_event *event = &calls[i].event;
        const uint32_t shard = calls[i].shard;
        struct rbt_stash *stash =
            rbt_sim_worker_stash(worker, early_stash | event->subscription, shard);
        const rbt_session *session = worker->links[shard].session;
        if (stash == NULL || stash->request != NULL ||
            (session != NULL && rbt_session_open(session) >= RBT_WORKER_AHEAD_MAX)) {
            continue; /* then nothing comes early */
        }
        rbt_message_unref(stash->answer);
        stash->answer = NULL;
        stash->table = event->table;
        worker->has_bases = worker->has_bases || event->is_base;
        if (rbt_sim_worker_request(cluster, worker, shard, event, &stash->request) != RBT_OK) {
            stash->request = NULL;
            continue;
        }
        stash->request->stash = stash;
        if (event->is_base) { /* stamps grow: what comes is no older than what has been seen */
            stash->request_stamp = *rbt_sim_worker_newest(cluster, worker, shard, event->table);
        }
    }
}

bool rbt_sim_worker_take_early(rbt_sim_cluster *cluster, struct rbt_sim_worker *worker,
                               struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; !worker->is_closed && i < count; i++) {
        const struct rbt_stash *stash =
            rbt_sim_worker_stash(worker, early_stash | calls[i].event.subscription, calls[i].shard);
        if (stash != NULL && stash->request != NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct rbt_driver_call *call = &calls[i];
        struct rbt_stash *stash =
            rbt_sim_worker_stash(worker, early_stash | call->event.subscription, call->shard);
        call->reply = (struct rbt_driver_reply){0};
        call->event.early->count = 0;
        if (worker->is_closed || cluster->status != RBT_OK) {
            call->reply.status = rbt_sim_worker_refuse(cluster, worker);
        } else if (stash != NULL && stash->answer != NULL) {
            rbt_sim_worker_complete(cluster, worker, call, stash->answer);
            rbt_message_unref(stash->answer);
            stash->answer = NULL;
        }
    }
    return true;
}

uint64_t rbt_sim_worker_heard_of(const rbt_sim_cluster *cluster,
                                 const struct rbt_sim_worker *worker, bool is_far)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        const bool is_one = rbt_rack_is_far(cluster, worker->index, i) == is_far;
        least = is_one && worker->links[i].arrived < least ? worker->links[i].arrived : least;
    }
    return least == UINT64_MAX ? 0 : least; /* there may be none */
}

uint64_t rbt_sim_worker_heard(const rbt_sim_cluster *cluster, const struct rbt_sim_worker *worker)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        least = worker->links[i].arrived < least ? worker->links[i].arrived : least;
    }
    return least;
}
