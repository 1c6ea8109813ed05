/* client/caller_count.c - what has gone over the wire, for whoever counts it. */
#include <string.h>

#include "client/caller.h"
#include "client/caller_state.h"

/* What has gone over the wire since the last reply, or was handed over to go. A connection that was
 * cut has lost some of that: it counts when it is sent again. */
void rbt_caller_count_bytes(struct rbt_caller *caller, struct rbt_driver_reply *reply)
{
    uint64_t sent = 0;
    uint64_t received = 0;
    memset(reply->traffic_sent, 0, sizeof reply->traffic_sent);
    memset(reply->traffic_received, 0, sizeof reply->traffic_received);
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        struct rbt_channel_stats stats;
        rbt_link_stats(&caller->links[i], &stats);
        sent += stats.bytes_sent + rbt_link_queued(&caller->links[i]);
        received += stats.bytes_received;
        struct rbt_link *link = &caller->links[i];
        for (uint32_t k = 0; k < RBT_TRAFFIC_CLASSES; k++) {
            reply->traffic_sent[k] += link->traffic_sent[k];
            reply->traffic_received[k] += link->traffic_received[k];
        }
        memset(link->traffic_sent, 0, sizeof link->traffic_sent);
        memset(link->traffic_received, 0, sizeof link->traffic_received);
    }
    reply->bytes_sent = sent > caller->counted.bytes_sent ? sent - caller->counted.bytes_sent : 0;
    reply->bytes_received = received - caller->counted.bytes_received;
    caller->counted.bytes_sent = sent;
    caller->counted.bytes_received = received;
}

void rbt_caller_count_filtered(struct rbt_caller *caller, struct rbt_driver_reply *reply)
{
    memcpy(reply->filtered, caller->packing.filtered, sizeof reply->filtered);
    memset(caller->packing.filtered, 0, sizeof caller->packing.filtered);
}
