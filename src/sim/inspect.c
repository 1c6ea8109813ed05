/* sim/inspect.c - the inside of a running simulation, for tests. */
#include "sim/inspect.h"

#include "base/assert.h"
#include "proto/job_shard_parts.h"
#include "sim/engine.h"
#include "store/shard_state.h"

void rbt_inspect_event(const rbt_simulation *simulation, struct rbt_inspect_event *event)
{
    RBT_ASSERT(simulation->engine != NULL);
    *event = simulation->engine->seen;
}

rbt_shard *rbt_inspect_shard(rbt_simulation *simulation, uint32_t server)
{
    RBT_ASSERT(server < simulation->engine->options.shard_count);
    const rbt_job_shard *job_shard = rbt_engine_job_shard(simulation->engine, server);
    return job_shard == NULL ? NULL : rbt_job_shard_shard(job_shard);
}

static void add_request(struct rbt_inspect_kept *kept, const struct rbt_job_request *request)
{
    const int64_t need = request->is_scan ? request->scan.need : request->pull.need;
    if (request->session == NULL) {
        return;
    }
    kept->requests++;
    kept->need = need < kept->need ? need : kept->need;
    if (request->list != NULL && request->list->name == 0) {
        kept->keys_found += request->list->count;
    }
}

void rbt_inspect_kept(const rbt_simulation *simulation, uint32_t server,
                      struct rbt_inspect_kept *kept)
{
    RBT_ASSERT(server < simulation->engine->options.shard_count);
    const rbt_job_shard *job_shard = rbt_engine_job_shard(simulation->engine, server);
    *kept = (struct rbt_inspect_kept){.need = RBT_CLOCK_GONE};
    if (job_shard == NULL) {
        return;
    }
    for (uint32_t i = 0; i < job_shard->slot_room; i++) {
        add_request(kept, &job_shard->slots[i]);
    }
    for (size_t i = 0; i < job_shard->queue_count; i++) {
        add_request(kept, &job_shard->queue[i]);
    }
    kept->slots = job_shard->parked_count;
    kept->keys = job_shard->waiting_keys;
    kept->lists = job_shard->lists.count;
    for (uint32_t i = 0; i < job_shard->lists.count; i++) {
        kept->lists_idle += job_shard->lists.lists[i]->references == 1;
    }
}

size_t rbt_inspect_copies(const rbt_simulation *simulation, uint32_t server)
{
    const rbt_job_shard *job_shard = rbt_engine_job_shard(simulation->engine, server);
    size_t count = 0;
    for (uint32_t i = 0; job_shard != NULL && i < job_shard->shard->table_count; i++) {
        const struct rbt_shard_state *table = &job_shard->shard->tables[i];
        count += table->outgoing == NULL ? 0 : rbt_outgoing_copies(table->outgoing);
        count += table->early == NULL ? 0 : rbt_early_readers(table->early);
    }
    return count;
}

uint64_t rbt_inspect_resets(const rbt_simulation *simulation)
{
    struct rbt_connections_stats stats;
    rbt_connections_stats(simulation->engine->connections, &stats);
    return stats.cut;
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
