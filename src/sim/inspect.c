/* sim/inspect.c - the inside of a running simulation, for tests. */
#include "sim/inspect.h"

#include "base/assert.h"
#include "sim/cluster.h"

void rbt_inspect_event(const rbt_simulation *simulation, struct rbt_inspect_event *event)
{
    RBT_ASSERT(simulation->cluster != NULL);
    *event = simulation->cluster->seen;
}

rbt_shard *rbt_inspect_shard(rbt_simulation *simulation, uint32_t server)
{
    RBT_ASSERT(server < simulation->cluster->server_count);
    return simulation->cluster->servers[server].shard;
}

int64_t rbt_inspect_parked_need(const rbt_simulation *simulation, uint32_t server)
{
    RBT_ASSERT(server < simulation->cluster->server_count);
    const struct rbt_sim_server *s = &simulation->cluster->servers[server];
    int64_t least = RBT_CLOCK_GONE;
    for (uint32_t worker = 0; worker < simulation->cluster->worker_count; worker++) {
        for (uint32_t slot = s->parked_of[worker]; slot != UINT32_MAX;
             slot = s->parked[slot].next) {
            const int64_t need = s->parked[slot].request->event.need;
            least = need < least ? need : least;
        }
    }
    return least;
}

static const struct rbt_link *link_of(const rbt_simulation *simulation, uint32_t worker,
                                      uint32_t server)
{
    RBT_ASSERT(worker < simulation->cluster->worker_count);
    RBT_ASSERT(server < simulation->cluster->server_count);
    return &simulation->cluster->workers[worker].links[server];
}

int64_t rbt_inspect_heard_floor(const rbt_simulation *simulation, uint32_t worker, uint32_t server)
{
    return link_of(simulation, worker, server)->floor;
}

uint64_t rbt_inspect_heard_arrived(const rbt_simulation *simulation, uint32_t worker,
                                   uint32_t server)
{
    return link_of(simulation, worker, server)->arrived;
}
