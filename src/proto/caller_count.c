/* proto/caller_count.c - what has gone over the wire, and how far the shards are, for whoever
 * counts.
 */
#include <string.h>

#include "proto/caller.h"

uint64_t rbt_caller_heard(const struct rbt_caller *caller)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        const uint64_t arrived = caller->streams[i].news.arrived;
        least = arrived < least ? arrived : least;
    }
    return least;
}

uint64_t rbt_caller_resent(const struct rbt_caller *caller)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; caller->streams != NULL && i < caller->shared->shard_count; i++) {
        sum += caller->streams[i].resent;
    }
    return sum;
}

void rbt_caller_count_traffic(struct rbt_caller *caller, struct rbt_driver_reply *reply)
{
    memset(reply->traffic_sent, 0, sizeof reply->traffic_sent);
    memset(reply->traffic_received, 0, sizeof reply->traffic_received);
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        struct rbt_stream *stream = &caller->streams[i];
        for (uint32_t k = 0; k < RBT_TRAFFIC_CLASSES; k++) {
            reply->traffic_sent[k] += stream->traffic_sent[k];
            reply->traffic_received[k] += stream->traffic_received[k];
        }
        memset(stream->traffic_sent, 0, sizeof stream->traffic_sent);
        memset(stream->traffic_received, 0, sizeof stream->traffic_received);
    }
}

void rbt_caller_count_filtered(struct rbt_caller *caller, struct rbt_driver_reply *reply)
{
    memcpy(reply->filtered, caller->packing.filtered, sizeof reply->filtered);
    memset(caller->packing.filtered, 0, sizeof caller->packing.filtered);
}
