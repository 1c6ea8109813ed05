/* sim/connection_loss.h - which packets of a connection are lost or doubled, and what TCP does
 * then: it notices after a while, and sends at a lower rate. For connection_path.c. */
#ifndef RUBATO_SIM_CONNECTION_LOSS_H
#define RUBATO_SIM_CONNECTION_LOSS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "sim/connection_path.h"

enum { RBT_PACKET_BYTES = 1448 }; /* of messages, in a packet */

/* The first time-out of a SYN. */
extern const rbt_time rbt_loss_syn_time_out;

rbt_time rbt_loss_round_trip(const rbt_connections *all);

/* The first retransmission time-out. */
rbt_time rbt_loss_time_out(const rbt_connections *all);

/* How many of the endpoint's next `bytes` leave before the next lost packet; and whether the first
 * packet is lost. */
size_t rbt_loss_draw(struct rbt_endpoint *end, size_t bytes, bool *is_lost);

/* Bytes of packets that come twice, of so many. */
size_t rbt_loss_draw_doubles(rbt_connections *all, size_t bytes);

/* Jitter and spikes of one piece. */
rbt_time rbt_loss_draw_delay(rbt_connections *all);

/* How long TCP needs to get the first packet of a piece across that was lost; `behind`: bytes that
 * leave after it. */
rbt_time rbt_loss_recover(rbt_connections *all, size_t behind);

/* How much later a packet of the handshake comes, because it is lost: mostly 0. */
rbt_time rbt_loss_recover_handshake(rbt_connections *all);

/* Halves the endpoint's congestion window, at most once per round trip: what is lost together is
 * noticed together. */
void rbt_loss_halve(struct rbt_endpoint *end, rbt_time now);

/* The endpoint sends so many bytes. Returns by how much their last byte leaves later than it could,
 * because of the rate. */
rbt_time rbt_loss_pace(struct rbt_endpoint *end, size_t bytes, rbt_time now);

#endif
