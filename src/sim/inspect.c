/* sim/inspect.c - the inside of a running simulation, for tests. */
#include "sim/inspect.h"

#include "base/assert.h"
#include "sim/engine.h"

void rbt_inspect_event(const rbt_simulation *simulation, struct rbt_inspect_event *event)
{
    RBT_ASSERT(simulation->engine != NULL);
    *event = simulation->engine->seen;
}

rbt_shard *rbt_inspect_shard(rbt_simulation *simulation, uint32_t server)
{
    RBT_ASSERT(server < simulation->engine->options.shard_count);
    const rbt_host *host = rbt_engine_host(simulation->engine, server);
    return host == NULL ? NULL : rbt_host_shard(host);
}

int64_t rbt_inspect_parked_need(const rbt_simulation *simulation, uint32_t server)
{
    RBT_ASSERT(server < simulation->engine->options.shard_count);
    const rbt_host *host = rbt_engine_host(simulation->engine, server);
    return host == NULL ? RBT_CLOCK_GONE : rbt_host_parked_need(host);
}

/* What the worker has heard of the server. */
static const struct rbt_wire_news *news_of(const rbt_simulation *simulation, uint32_t worker,
                                           uint32_t server)
{
    RBT_ASSERT(worker < simulation->engine->options.worker_count);
    RBT_ASSERT(server < simulation->engine->options.shard_count);
    return &simulation->engine->strands[worker].carrier.carrier.caller.streams[server].news;
}

int64_t rbt_inspect_heard_floor(const rbt_simulation *simulation, uint32_t worker, uint32_t server)
{
    return news_of(simulation, worker, server)->floor;
}

uint64_t rbt_inspect_heard_arrived(const rbt_simulation *simulation, uint32_t worker,
                                   uint32_t server)
{
    return news_of(simulation, worker, server)->arrived;
}

void rbt_inspect_frames(rbt_simulation *simulation, const struct rbt_inspect_frames *frames)
{
    RBT_ASSERT(simulation->engine == NULL);
    simulation->frames = *frames;
}
