/* sim/connection_loss.c - which packets of a connection are lost or doubled, and what TCP does
 * then.
 *
 * After the first loss a direction keeps to the rate cwnd / RTT: `paced` is when everything that it
 * has sent would have left at this rate. It may be one RTT ahead, which is a burst of cwnd packets.
 * The RTT is twice the latency; queues are not in it.
 *
 * Random numbers are drawn per piece in a fixed order: loss, duplication, repeated loss, jitter,
 * spike. A fault that has no chance draws none.
 *
 * Threads: none. Cost: O(packets) with loss or duplication, else O(1). */
#include "sim/connection_loss.h"

#include <math.h>

#include "base/assert.h"

enum {
    FAST_PACKETS = 3,    /* so many packets behind a lost one: noticed after a round trip */
    REPEATS_MAX = 8,     /* how often one packet is lost */
    CWND_MIN = 2,        /* packets */
    CWND_FIRST_MIN = 10, /* packets before the first loss, at least */
};

const rbt_time rbt_loss_syn_time_out = 1000000000;
static const rbt_time rto_min = 200000000;

rbt_time rbt_loss_round_trip(const rbt_connections *all)
{
    return rbt_time_plus(all->options.latency, all->options.latency);
}

rbt_time rbt_loss_time_out(const rbt_connections *all)
{
    const rbt_time trip = rbt_loss_round_trip(all);
    return rbt_time_later(rto_min, rbt_time_plus(trip, trip));
}

static bool happens(rbt_connections *all, double chance)
{
    return chance > 0.0 && rbt_rng_uniform(&all->rng) < chance;
}

static size_t packets(size_t bytes)
{
    return bytes <= RBT_PACKET_BYTES ? 1 : (bytes + RBT_PACKET_BYTES - 1) / RBT_PACKET_BYTES;
}

size_t rbt_loss_draw(struct rbt_endpoint *end, size_t bytes, bool *is_lost)
{
    rbt_connections *all = end->connection->all;
    const double loss = all->options.loss;
    *is_lost = false;
    if (loss <= 0.0) {
        return bytes;
    }
    *is_lost = end->is_next_lost || happens(all, loss);
    end->is_next_lost = false;
    for (size_t at = RBT_PACKET_BYTES; at < bytes; at += RBT_PACKET_BYTES) {
        if (happens(all, loss)) {
            end->is_next_lost = true;
            return at;
        }
    }
    return bytes;
}

size_t rbt_loss_draw_doubles(rbt_connections *all, size_t bytes)
{
    size_t doubled = 0;
    if (all->options.duplication > 0.0) {
        for (size_t at = 0; at < bytes; at += RBT_PACKET_BYTES) {
            if (happens(all, all->options.duplication)) {
                all->stats.duplicated++;
                doubled += bytes - at < RBT_PACKET_BYTES ? bytes - at : RBT_PACKET_BYTES;
            }
        }
    }
    return doubled;
}

/* The window of congestion in packets, before the first loss: what fits on the path. */
static double first_cwnd(const rbt_connections *all)
{
    const double trip = (double)rbt_loss_round_trip(all) / 1e9;
    const double fits = fmin(all->options.bandwidth * trip, (double)all->options.window);
    return fmax(fits / RBT_PACKET_BYTES, CWND_FIRST_MIN);
}

void rbt_loss_halve(struct rbt_endpoint *end, rbt_time now)
{
    const rbt_connections *all = end->connection->all;
    if (end->cwnd > 0.0 && now < rbt_time_plus(end->halved, rbt_loss_round_trip(all))) {
        return;
    }
    RBT_ASSERT(all->options.loss > 0.0);
    const double cwnd = end->cwnd > 0.0 ? end->cwnd : first_cwnd(all);
    end->cwnd = fmax(cwnd / 2.0, CWND_MIN);
    end->cwnd_at = now;
    end->halved = now;
}

rbt_time rbt_loss_pace(struct rbt_endpoint *end, size_t bytes, rbt_time now)
{
    const rbt_connections *all = end->connection->all;
    const rbt_time trip = rbt_loss_round_trip(all);
    if (end->cwnd <= 0.0 || trip <= 0) {
        return 0;
    }
    const double most = fmax((double)all->options.window / RBT_PACKET_BYTES, CWND_FIRST_MIN);
    end->cwnd = fmin(end->cwnd + (double)(now - end->cwnd_at) / (double)trip, most);
    end->cwnd_at = now;
    RBT_ASSERT(end->cwnd >= CWND_MIN);
    const double takes = (double)packets(bytes) * (double)trip / end->cwnd;
    end->paced = rbt_time_plus(rbt_time_later(end->paced, now), llround(takes));
    return rbt_time_later(0, end->paced - rbt_time_plus(now, trip));
}

rbt_time rbt_loss_recover(rbt_connections *all, size_t behind)
{
    rbt_time step = rbt_loss_time_out(all);
    const bool is_fast = behind > (FAST_PACKETS - 1) * RBT_PACKET_BYTES;
    rbt_time delay = is_fast ? rbt_loss_round_trip(all) : step;
    step = is_fast ? step : 2 * step;
    all->stats.lost++;
    for (int i = 0; i < REPEATS_MAX && happens(all, all->options.loss); i++) {
        all->stats.lost++;
        delay = rbt_time_plus(delay, step);
        step *= 2;
    }
    return delay;
}

rbt_time rbt_loss_recover_handshake(rbt_connections *all)
{
    rbt_time delay = 0;
    rbt_time step = rbt_loss_syn_time_out;
    for (int i = 0; i < REPEATS_MAX && happens(all, all->options.loss); i++) {
        all->stats.lost++;
        delay = rbt_time_plus(delay, step);
        step *= 2;
    }
    return delay;
}

rbt_time rbt_loss_draw_delay(rbt_connections *all)
{
    rbt_time delay = 0;
    if (all->options.jitter > 0) {
        delay = (rbt_time)rbt_rng_below(&all->rng, (uint64_t)all->options.jitter + 1);
    }
    if (happens(all, all->options.spike_chance)) {
        delay = rbt_time_plus(delay, all->options.spike);
    }
    return delay;
}
