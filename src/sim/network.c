/* sim/network.c - how long messages take, and which get lost.
 *
 * A link is a number: the time at which it is free again. Whoever wants it waits until then and
 * moves it on by what he needs. That is all there is to queueing, as long as the calls come in
 * order of time, which the caller's queue of events sees to.
 *
 *     sender's link      [start ------------ sent]
 *                            \ latency + jitter   \
 *     receiver's link          [arrives -- ]       last        n / its own bandwidth, if free
 *     receiver's processor                 [ cost ]            after the link
 *
 *
 * Between racks the first byte waits for the up-link and then for the down-link before it goes on;
 * the last byte is delayed by whichever link of the way is the last to let it through.
 *
 * A message from a slow link trickles in. It takes of the receiver's link and processor only what
 * it needs of them, since on a real network others are served in between; it is delivered when its
 * last byte is in and the cost has been paid. So one slow worker does not clog a server.
 *
 * Random numbers are drawn in a fixed order: loss, duplication, then jitter and spike of each copy.
 * What has no chance of happening draws none, so that to switch something on changes nothing else
 * than it must.
 *
 * Invariants:
 *   (1) The time at which a link or a processor is free never decreases.
 *   (2) arrives >= start + latency and last >= arrives, for every copy.
 *
 * Threads: none. Memory: all of it in create. Cost: O(1) per message. */
#include "sim/network.h"

#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/rng.h"

enum { STREAM = 0x6e6574 }; /* "net": the caller's own random numbers have the same seed */

struct node {
    rbt_time out_free; /* of the link out */
    rbt_time in_free;  /* of the link in */
    rbt_time cpu_free; /* of the processor */
    double slowness;   /* the links have 1 / slowness of the bandwidth */
    uint32_t side;
    uint32_t rack;
    uint64_t sent_bytes;
    uint64_t received_bytes;
};

/* A link that a rack has to the others, in one direction. */
struct trunk {
    rbt_time free;
    uint64_t bytes;
};

struct rack {
    double bandwidth;
    struct trunk up;
    struct trunk down;
};

struct rbt_network {
    struct rbt_network_options options;
    struct rbt_rng rng;
    struct rbt_network_stats stats;
    struct node *nodes; /* options.node_count entries */
    struct rack *racks; /* options.rack_count entries; NULL: none */
};

static bool is_chance(double chance)
{
    return chance >= 0.0 && chance <= 1.0;
}

rbt_status rbt_network_create(const struct rbt_network_options *options, rbt_network **network)
{
    RBT_ASSERT(options->node_count > 0);
    RBT_ASSERT(options->bandwidth > 0.0);
    RBT_ASSERT(options->latency >= 0);
    RBT_ASSERT(options->jitter >= 0);
    RBT_ASSERT(options->spike >= 0);
    RBT_ASSERT(options->message_cost >= 0);
    RBT_ASSERT(is_chance(options->loss));
    RBT_ASSERT(is_chance(options->duplication));
    RBT_ASSERT(is_chance(options->spike_chance));
    rbt_network *n = rbt_calloc(1, sizeof *n);
    if (n == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a network");
    }
    n->options = *options;
    n->nodes = rbt_calloc(options->node_count, sizeof *n->nodes);
    n->racks = options->rack_count == 0 ? NULL : rbt_calloc(options->rack_count, sizeof *n->racks);
    if (n->nodes == NULL || (n->racks == NULL && options->rack_count > 0)) {
        rbt_network_destroy(n);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a network of %u nodes",
                        options->node_count);
    }
    for (uint32_t i = 0; i < options->node_count; i++) {
        n->nodes[i].slowness = 1.0;
    }
    for (uint32_t i = 0; i < options->rack_count; i++) {
        n->racks[i].bandwidth = options->bandwidth;
    }
    rbt_rng_init(&n->rng, options->seed, STREAM, 0);
    *network = n;
    return RBT_OK;
}

void rbt_network_destroy(rbt_network *network)
{
    if (network == NULL) {
        return;
    }
    rbt_free(network->racks);
    rbt_free(network->nodes);
    rbt_free(network);
}

static struct node *node_at(const rbt_network *network, uint32_t node)
{
    RBT_ASSERT(node < network->options.node_count);
    return &network->nodes[node];
}

void rbt_network_slow(rbt_network *network, uint32_t node, double factor)
{
    RBT_ASSERT(factor > 0.0);
    RBT_ASSERT(isfinite(factor));
    node_at(network, node)->slowness = factor;
}

void rbt_network_set_side(rbt_network *network, uint32_t node, uint32_t side)
{
    node_at(network, node)->side = side;
}

static struct rack *rack_at(const rbt_network *network, uint32_t rack)
{
    RBT_ASSERT(rack < network->options.rack_count);
    return &network->racks[rack];
}

void rbt_network_set_rack(rbt_network *network, uint32_t node, uint32_t rack)
{
    RBT_ASSERT(rack < network->options.rack_count);
    RBT_ASSERT(network->stats.messages == 0);
    node_at(network, node)->rack = rack;
}

void rbt_network_set_rack_bandwidth(rbt_network *network, uint32_t rack, double bandwidth)
{
    RBT_ASSERT(bandwidth > 0.0);
    RBT_ASSERT(isfinite(bandwidth));
    rack_at(network, rack)->bandwidth = bandwidth;
}

/* The sum, or RBT_TIME_NEVER if there is no such time: links may be absurdly slow. */
static rbt_time plus(rbt_time time, rbt_time duration)
{
    RBT_ASSERT(time >= 0);
    RBT_ASSERT(duration >= 0);
    return duration > RBT_TIME_NEVER - time ? RBT_TIME_NEVER : time + duration;
}

static rbt_time later(rbt_time a, rbt_time b)
{
    return a > b ? a : b;
}

static rbt_time whole(double nanoseconds)
{
    RBT_ASSERT(nanoseconds >= 0.0);
    return nanoseconds < 0x1p62 ? (rbt_time)llround(nanoseconds) : RBT_TIME_NEVER;
}

/* How long the links of a node are busy with so many bytes. */
static rbt_time busy(const rbt_network *network, const struct node *node, size_t bytes)
{
    return whole((double)bytes * 1e9 / network->options.bandwidth * node->slowness);
}

/* Draws only if there is a chance. */
static bool happens(rbt_network *network, double chance)
{
    return chance > 0.0 && rbt_rng_uniform(&network->rng) < chance;
}

/* How long a copy is under way. */
static rbt_time travel(rbt_network *network)
{
    const struct rbt_network_options *options = &network->options;
    rbt_time time = options->latency;
    if (options->jitter > 0) {
        const uint64_t bound = (uint64_t)options->jitter + 1;
        time = plus(time, (rbt_time)rbt_rng_below(&network->rng, bound));
    }
    if (happens(network, options->spike_chance)) {
        time = plus(time, options->spike);
    }
    RBT_ASSERT(time >= options->latency); /* (2) */
    return time;
}

/* When a message is on a link. */
struct stay {
    rbt_time start;
    rbt_time end;
};

/* Puts one copy on the sender's link. Returns when it starts there. */
static struct stay occupy_out(rbt_network *network, const struct rbt_message_path *path,
                              rbt_time now)
{
    struct node *from = node_at(network, path->from);
    const rbt_time start = path->is_urgent ? now : later(now, from->out_free);
    const rbt_time end = plus(start, busy(network, from, path->bytes));
    if (!path->is_urgent) {
        from->out_free = end;
    }
    from->sent_bytes += path->bytes;
    network->stats.bytes += path->bytes;
    RBT_ASSERT(end >= start); /* (1) */
    return (struct stay){start, end};
}

size_t rbt_network_send(rbt_network *network, const struct rbt_message_path *path, rbt_time now,
                        struct rbt_passage passages[2])
{
    const struct node *from = node_at(network, path->from);
    const struct node *to = node_at(network, path->to);
    RBT_ASSERT(now >= 0);
    network->stats.messages++;
    if (from->side != to->side || happens(network, network->options.loss)) {
        (void)occupy_out(network, path, now);
        network->stats.lost++;
        return 0;
    }
    const size_t count = happens(network, network->options.duplication) ? 2 : 1;
    const uint32_t racks = from->rack != to->rack ? 2 : 0;
    network->stats.duplicated += count - 1;
    for (size_t i = 0; i < count; i++) {
        const struct stay stay = occupy_out(network, path, now);
        const rbt_time way = travel(network);
        passages[i] = (struct rbt_passage){.arrives = plus(stay.start, way),
                                           .sent = stay.end,
                                           .last = plus(stay.end, way),
                                           .racks = racks};
        RBT_ASSERT(passages[i].last >= passages[i].arrives); /* (2) */
    }
    return count;
}

bool rbt_network_pass(rbt_network *network, const struct rbt_message_path *path,
                      struct rbt_passage *passage)
{
    if (passage->racks == 0) {
        return false;
    }
    const bool is_up = passage->racks == 2;
    struct rack *rack = rack_at(network, node_at(network, is_up ? path->from : path->to)->rack);
    struct trunk *trunk = is_up ? &rack->up : &rack->down;
    passage->racks--;
    trunk->bytes += path->bytes;
    if (path->is_urgent) {
        return true;
    }
    const rbt_time start = later(passage->arrives, trunk->free);
    trunk->free = plus(start, whole((double)path->bytes * 1e9 / rack->bandwidth));
    passage->arrives = start;
    passage->last = later(passage->last, trunk->free);
    RBT_ASSERT(passage->last >= passage->arrives); /* (2) */
    return true;
}

bool rbt_network_receive(rbt_network *network, const struct rbt_message_path *path,
                         const struct rbt_passage *passage, rbt_time *delivered)
{
    struct node *to = node_at(network, path->to);
    RBT_ASSERT(passage->arrives >= 0);
    RBT_ASSERT(passage->racks == 0);
    RBT_ASSERT(passage->last >= passage->arrives); /* as rbt_network_send() stored it */
    if (node_at(network, path->from)->side != to->side) {
        network->stats.lost++;
        return false;
    }
    const rbt_time cost = network->options.message_cost;
    if (path->is_urgent) {
        to->received_bytes += path->bytes;
        *delivered = plus(passage->last, cost);
        return true;
    }
    to->in_free = plus(later(passage->arrives, to->in_free), busy(network, to, path->bytes));
    to->cpu_free = plus(later(to->in_free, to->cpu_free), cost);
    to->received_bytes += path->bytes;
    *delivered = later(to->cpu_free, plus(passage->last, cost));
    RBT_ASSERT(*delivered >= passage->last);
    return true;
}

void rbt_network_stats(const rbt_network *network, struct rbt_network_stats *stats)
{
    RBT_ASSERT(network->stats.duplicated <= network->stats.messages);
    *stats = network->stats;
}

uint64_t rbt_network_sent(const rbt_network *network, uint32_t node)
{
    RBT_ASSERT(node_at(network, node)->sent_bytes <= network->stats.bytes);
    return node_at(network, node)->sent_bytes;
}

uint64_t rbt_network_received(const rbt_network *network, uint32_t node)
{
    RBT_ASSERT(node_at(network, node)->received_bytes <= network->stats.bytes);
    return node_at(network, node)->received_bytes;
}

struct rbt_rack_bytes rbt_network_rack_bytes(const rbt_network *network, uint32_t rack)
{
    const struct rack *at = rack_at(network, rack);
    RBT_ASSERT(at->up.bytes <= network->stats.bytes);
    RBT_ASSERT(at->down.bytes <= network->stats.bytes);
    return (struct rbt_rack_bytes){.up = at->up.bytes, .down = at->down.bytes};
}
