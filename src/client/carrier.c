/* client/carrier.c - one worker's way to the shards: what it wants is said, sent and waited for. */
#include "client/carrier.h"

#include "base/assert.h"
#include "base/error.h"

static void lock(struct rbt_carrier *carrier)
{
    if (carrier->ops->lock != NULL) {
        carrier->ops->lock(carrier);
    }
}

static void unlock(struct rbt_carrier *carrier)
{
    if (carrier->ops->unlock != NULL) {
        carrier->ops->unlock(carrier);
    }
}

/* --- Waiting --------------------------------------------------------------------------------- */

bool rbt_carrier_is_done(const struct rbt_carrier *carrier)
{
    const struct rbt_caller *caller = &carrier->caller;
    switch (carrier->goal) {
    case RBT_CARRIER_ROOM:
        return rbt_caller_may_go_on(caller);
    case RBT_CARRIER_ANSWERS:
        return rbt_caller_is_answered(caller);
    case RBT_CARRIER_ONE:
        return !rbt_caller_is_asking(caller, carrier->asked);
    case RBT_CARRIER_EVERYTHING:
        return rbt_caller_is_drained(caller);
    }
    RBT_UNREACHABLE();
}

void rbt_carrier_publish(const struct rbt_carrier *carrier, uint32_t shard)
{
    const struct rbt_wire_news *news = &carrier->caller.streams[shard].news;
    struct rbt_carrier_heard *heard = &carrier->heard[shard];
    int64_t floor = atomic_load_explicit(&heard->floor, memory_order_relaxed);
    while (news->floor > floor &&
           !atomic_compare_exchange_weak_explicit(&heard->floor, &floor, news->floor,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    uint64_t version = atomic_load_explicit(&heard->version, memory_order_relaxed);
    while (news->version > version &&
           !atomic_compare_exchange_weak_explicit(&heard->version, &version, news->version,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

static void wait_for(struct rbt_carrier *carrier, enum rbt_carrier_goal goal)
{
    carrier->goal = goal;
    carrier->ops->wait(carrier);
    RBT_ASSERT(rbt_carrier_is_done(carrier));
}

rbt_status rbt_carrier_drain(struct rbt_carrier *carrier)
{
    lock(carrier);
    wait_for(carrier, RBT_CARRIER_EVERYTHING);
    unlock(carrier);
    return carrier->caller.status == RBT_OK ? RBT_OK : rbt_caller_refuse(&carrier->caller);
}

void rbt_carrier_look(struct rbt_carrier *carrier)
{
    lock(carrier);
    carrier->ops->look(carrier);
    unlock(carrier);
}

/* --- What workers want ----------------------------------------------------------------------- */

void rbt_carrier_reset(struct rbt_carrier *carrier)
{
    lock(carrier);
    rbt_caller_reset(&carrier->caller);
    carrier->ops->send(carrier);
    unlock(carrier);
}

/* What has gone over the wire since the last reply, or was handed over to go. A connection that was
 * cut has lost some of that: it counts when it is sent again. */
static void count_bytes(struct rbt_carrier *carrier, struct rbt_driver_reply *reply)
{
    uint64_t bytes[2] = {0};
    carrier->ops->count(carrier, bytes);
    reply->bytes_sent = bytes[0] > carrier->counted[0] ? bytes[0] - carrier->counted[0] : 0;
    reply->bytes_received = bytes[1] - carrier->counted[1];
    carrier->counted[0] = bytes[0];
    carrier->counted[1] = bytes[1];
}

void rbt_carrier_step(struct rbt_carrier *carrier, struct rbt_driver_call *calls, size_t count)
{
    lock(carrier);
    rbt_caller_start(&carrier->caller, calls, count);
    carrier->ops->send(carrier);
    wait_for(carrier, RBT_CARRIER_ROOM);
    if (!rbt_caller_is_answered(&carrier->caller)) {
        const rbt_time began = carrier->ops->now(carrier);
        wait_for(carrier, RBT_CARRIER_ANSWERS);
        calls[0].reply.waited = carrier->ops->now(carrier) - began;
    }
    rbt_caller_finish(&carrier->caller, calls, count);
    if (count > 0) {
        count_bytes(carrier, &calls[0].reply);
    }
    unlock(carrier);
}

void rbt_carrier_expect(struct rbt_carrier *carrier, struct rbt_driver_call *calls, size_t count)
{
    lock(carrier);
    rbt_caller_expect(&carrier->caller, calls, count);
    carrier->ops->send(carrier);
    unlock(carrier);
}

void rbt_carrier_forget(struct rbt_carrier *carrier, uint64_t asked)
{
    lock(carrier);
    carrier->asked = asked;
    wait_for(carrier, RBT_CARRIER_ONE);
    rbt_caller_forget(&carrier->caller, asked);
    unlock(carrier);
}

bool rbt_carrier_has_answer(struct rbt_carrier *carrier, uint64_t asked)
{
    rbt_carrier_look(carrier);
    return !rbt_caller_is_asking(&carrier->caller, asked);
}

void rbt_carrier_ask_early(struct rbt_carrier *carrier, struct rbt_driver_call *calls, size_t count)
{
    lock(carrier);
    rbt_caller_ask_early(&carrier->caller, calls, count);
    carrier->ops->send(carrier);
    unlock(carrier);
}

bool rbt_carrier_take_early(struct rbt_carrier *carrier, struct rbt_driver_call *calls,
                            size_t count)
{
    lock(carrier);
    carrier->ops->glance(carrier);
    const bool is_there = rbt_caller_has_early(&carrier->caller, calls, count);
    if (is_there) {
        rbt_caller_take_early(&carrier->caller, calls, count);
    }
    if (is_there && count > 0) {
        count_bytes(carrier, &calls[0].reply);
    }
    unlock(carrier);
    return is_there;
}

uint64_t rbt_carrier_heard(struct rbt_carrier *carrier)
{
    lock(carrier);
    carrier->ops->glance(carrier);
    const uint64_t heard = rbt_caller_heard(&carrier->caller);
    unlock(carrier);
    return heard;
}

rbt_status rbt_carrier_ask(struct rbt_carrier *carrier, uint32_t shard, struct rbt_block *block,
                           struct rbt_frame header, struct rbt_wire_done *done)
{
    lock(carrier);
    rbt_caller_ask(&carrier->caller, shard, block, header, done);
    carrier->ops->send(carrier);
    wait_for(carrier, RBT_CARRIER_ANSWERS);
    rbt_status st = carrier->caller.status;
    if (st != RBT_OK) {
        st = rbt_caller_refuse(&carrier->caller);
    } else if (done->status != RBT_OK) {
        st = rbt_fail((rbt_status)done->status, "%s", done->text);
    }
    unlock(carrier);
    return st;
}
