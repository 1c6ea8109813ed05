/* comm/manager.c - the budget of a node or of a link, in one direction.
 *
 * A message is late only if it takes longer than on a link with just the budget's rate: the time
 * that the bucket needs to become empty is forgiven, so that the end of a clock, which fills it at
 * once, is not taken for a slow network. */
#include "comm/manager.h"

#include "base/assert.h"

enum {
    BURST_PER_SECOND = 50, /* 20 ms */
    MESSAGE_MAX = 64 * 1024,
    MESSAGE_MAX_FAST = 1024 * 1024, /* where 64 KiB go in less than 10 ms */
    MESSAGE_MIN = 1024,
    UNACKNOWLEDGED_MAX = 64,
    SLACK = 50 * 1000 * 1000,
};

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void fill_in(struct rbt_comm_options *options)
{
    const uint64_t share = options->rate / BURST_PER_SECOND;
    if (options->message_max == 0) {
        const uint64_t most = at_most(at_least(share / 2, MESSAGE_MAX), MESSAGE_MAX_FAST);
        options->message_max = (size_t)at_least(most, options->message_min);
    }
    if (options->message_min == 0) {
        const uint64_t most = at_least(options->message_max / 2, 1);
        options->message_min = (size_t)at_most(at_least(share, MESSAGE_MIN), most);
    }
    if (options->burst == 0) {
        options->burst = at_least(share, 2 * (uint64_t)options->message_max);
    }
    if (options->unacknowledged_max == 0) {
        const uint64_t larger = at_least(options->message_max / MESSAGE_MAX, 1);
        options->unacknowledged_max = (uint32_t)at_least(UNACKNOWLEDGED_MAX / larger, 8);
    }
    if (options->slack == 0) {
        options->slack = SLACK;
    }
    RBT_ASSERT(options->message_min > 0);
    RBT_ASSERT(options->message_min <= options->message_max);
    RBT_ASSERT(options->message_max <= options->burst);
}

void rbt_comm_init(struct rbt_comm *comm, const struct rbt_comm_options *options, rbt_time now)
{
    *comm = (struct rbt_comm){.options = *options};
    fill_in(&comm->options);
    rbt_limiter_init(&comm->limiter, comm->options.rate, comm->options.burst, now);
    rbt_window_init(&comm->window, comm->options.unacknowledged_max, comm->options.slack);
}

size_t rbt_comm_grant(struct rbt_comm *comm, rbt_time now)
{
    if (comm->options.rate == 0) {
        return 0;
    }
    const uint64_t room = at_most(rbt_limiter_room(&comm->limiter, now), comm->options.message_max);
    if (room < comm->options.message_min || !rbt_window_is_open(&comm->window, now)) {
        return 0;
    }
    return (size_t)room;
}

void rbt_comm_sent(struct rbt_comm *comm, rbt_time now, uint64_t sequence, size_t bytes,
                   rbt_comm_class class)
{
    RBT_ASSERT(class < RBT_COMM_CLASSES);
    comm->bytes[class] += bytes;
    comm->messages[class]++;
    rbt_limiter_note(&comm->limiter, now, bytes);
    const rbt_time grace = comm->options.rate == 0 ? 0 : rbt_limiter_delay(&comm->limiter);
    if (sequence != 0) {
        rbt_window_sent(&comm->window, sequence, bytes, now, grace);
    }
    RBT_ASSERT(grace >= 0);
}

void rbt_comm_acknowledged(struct rbt_comm *comm, rbt_time now, uint64_t sequence)
{
    RBT_ASSERT(sequence > 0);
    rbt_window_acknowledged(&comm->window, sequence, now);
}

rbt_time rbt_comm_when(const struct rbt_comm *comm, rbt_time now)
{
    if (comm->options.rate == 0 || comm->window.is_paused ||
        comm->window.count >= comm->window.count_max) {
        return RBT_TIME_NEVER;
    }
    const rbt_time when = rbt_limiter_when(&comm->limiter, comm->options.message_min);
    return when > now ? when : now;
}
