/* sim/network.h - how long messages take, and which get lost: links with bandwidth, latency and
 * queues.
 *
 * Every node has one link out and one link in; each carries one message at a time, in order. A
 * message of n bytes occupies the sender's link for n / bandwidth, is under way for the latency and
 * some jitter, and occupies the receiver's link for n / bandwidth as well; both may overlap, so an
 * undisturbed message takes latency + n / the smaller bandwidth. So ten workers that send to one
 * server at once wait for its link, as they would. A node that sends to itself uses its links, too.
 *
 * Nodes may be in racks. A message between two racks also crosses the up-link of the one and the
 * down-link of the other, which carry one message at a time as well, and may be slower than the
 * nodes of the rack together.
 *
 *     rbt_network_send()     when the message leaves: its fate, and when its first byte arrives;
 *     rbt_network_pass()     at that moment: whether it has another link of a rack to cross, and
 *                            then when its first byte is on it;
 *     rbt_network_receive()  when there is none any more: when its last byte is in.
 *
 * In between the caller waits in its queue of events; the order of arrival is then right.
 * Threads: none. Given the same calls it does the same: randomness comes from the seed. */
#ifndef RUBATO_SIM_NETWORK_H
#define RUBATO_SIM_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"

typedef struct rbt_network rbt_network;

struct rbt_network_options {
    uint32_t node_count;
    uint64_t seed;
    double bandwidth; /* bytes per second, of each link */
    rbt_time latency;
    rbt_time jitter; /* 0 .. jitter is added, evenly spread */
    double loss;     /* chances, 0 .. 1 */
    double duplication;
    double spike_chance; /* that a copy is under way for longer, by `spike` */
    rbt_time spike;
    rbt_time message_cost; /* the receiver's processor per message: they queue for it */
    uint32_t rack_count;   /* 0: there are none */
};

/* Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_network_create(const struct rbt_network_options *options,
                                           rbt_network **network);
void rbt_network_destroy(rbt_network *network);

/* The links of a node have 1 / factor of the options' bandwidth from now on; 1 makes it as fast as
 * the others again. What was sent before is not affected. */
void rbt_network_slow(rbt_network *network, uint32_t node, double factor);

/* Messages pass only between nodes of the same side; at first all are on side 0. What is under way
 * when a side changes is lost, too, when it arrives. */
void rbt_network_set_side(rbt_network *network, uint32_t node, uint32_t side);

/* The node is in this rack from now on; at first all are in rack 0. To be called before anything is
 * sent. */
void rbt_network_set_rack(rbt_network *network, uint32_t node, uint32_t rack);

/* The rack's up-link and its down-link each have so many bytes per second; at first, as much as a
 * node's. */
void rbt_network_set_rack_bandwidth(rbt_network *network, uint32_t rack, double bandwidth);

struct rbt_message_path {
    uint32_t from;
    uint32_t to;
    size_t bytes;
    bool is_urgent; /* passes what is queued, and takes no room on a link: a heartbeat */
};

/* One copy of a message on its way. */
struct rbt_passage {
    rbt_time arrives; /* its first byte */
    rbt_time sent;    /* its last byte has left the sender */
    rbt_time last;    /* its last byte can be in, if the receiver's link is free and fast enough */
    uint32_t racks;   /* links of racks that are yet to be crossed: 2, 1 or 0 */
};

/* Sends a message now. Stores up to two passages and returns how many: 0 if it is lost. A lost
 * message has occupied the sender's link all the same; a second copy follows the first there, and
 * may overtake it later. `now` never decreases from call to call of one sender. */
size_t rbt_network_send(rbt_network *network, const struct rbt_message_path *path, rbt_time now,
                        struct rbt_passage passages[2]);

/* The first byte has arrived. If it is at a link of a rack, crosses that, stores in the passage
 * when the first byte is through, and returns true: it arrives again at that time. To be called in
 * the order in which passages arrive. */
bool rbt_network_pass(rbt_network *network, const struct rbt_message_path *path,
                      struct rbt_passage *passage);

/* The first byte has arrived, and there is nothing left to pass. Stores when the receiver has all
 * of it and is done with it; returns false if the nodes are on different sides now and the message
 * is lost. To be called once for each passage, in the order in which they arrive at the receiver.
 */
bool rbt_network_receive(rbt_network *network, const struct rbt_message_path *path,
                         const struct rbt_passage *passage, rbt_time *delivered);

struct rbt_network_stats {
    uint64_t messages;   /* calls of rbt_network_send() */
    uint64_t bytes;      /* sent by all nodes; second copies and lost ones as well */
    uint64_t lost;       /* messages lost at sending and copies lost at arrival */
    uint64_t duplicated; /* second copies */
};
void rbt_network_stats(const rbt_network *network, struct rbt_network_stats *stats);

/* Bytes of one node; second copies and lost ones are sent, lost ones are not received. */
uint64_t rbt_network_sent(const rbt_network *network, uint32_t node);
uint64_t rbt_network_received(const rbt_network *network, uint32_t node);

/* Bytes that have crossed the rack's up-link, and its down-link; heartbeats as well. */
struct rbt_rack_bytes {
    uint64_t up;
    uint64_t down;
};
struct rbt_rack_bytes rbt_network_rack_bytes(const rbt_network *network, uint32_t rack);

#endif
