/* comm/manager.c - the budget of a node or of one of its links, in one direction.
 *
 * A message is late only if it takes longer than on a link with just the budget's rate: the time
 * that the fullest bucket of the chain needs to become empty is forgiven, so that the end of a
 * clock, which fills it at once, is not taken for a slow network. */
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
    uint32_t levels = 1;
    *comm = (struct rbt_comm){.options = *options};
    fill_in(&comm->options);
    for (const struct rbt_comm *up = options->above; up != NULL; up = up->options.above) {
        levels++;
        RBT_ASSERT(levels <= RBT_COMM_LEVELS_MAX); /* also ends a circle */
    }
    rbt_limiter_init(&comm->limiter, comm->options.rate, comm->options.burst, now);
    rbt_window_init(&comm->window, comm->options.unacknowledged_max, comm->options.slack);
}

/* What a message of the chain should have at least. A budget with small messages does not have to
 * wait for what one with larger ones finds worth its while. */
static uint64_t least_of(const struct rbt_comm *comm)
{
    uint64_t least = 0;
    uint64_t most = UINT64_MAX;
    for (const struct rbt_comm *at = comm; at != NULL; at = at->options.above) {
        least = at_least(least, at->options.message_min);
        most = at_most(most, at->options.message_max);
    }
    return at_most(least, most);
}

size_t rbt_comm_grant(struct rbt_comm *comm, rbt_time now)
{
    uint64_t room = UINT64_MAX;
    for (struct rbt_comm *at = comm; at != NULL; at = at->options.above) {
        if (at->options.rate == 0) {
            return 0;
        }
        room = at_most(room, at_most(rbt_limiter_room(&at->limiter, now), at->options.message_max));
    }
    RBT_ASSERT(room <= comm->options.message_max);
    if (room < least_of(comm) || !rbt_window_is_open(&comm->window, now)) {
        return 0;
    }
    return (size_t)room;
}

void rbt_comm_sent(struct rbt_comm *comm, rbt_time now, uint64_t sequence, size_t bytes,
                   rbt_comm_class class)
{
    rbt_time grace = 0;
    RBT_ASSERT(class < RBT_COMM_CLASSES);
    for (struct rbt_comm *at = comm; at != NULL; at = at->options.above) {
        at->bytes[class] += bytes;
        at->messages[class]++;
        rbt_limiter_note(&at->limiter, now, bytes);
        const rbt_time delay = at->options.rate == 0 ? 0 : rbt_limiter_delay(&at->limiter);
        grace = delay > grace ? delay : grace;
    }
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
    rbt_time when = now;
    const uint64_t least = least_of(comm);
    if (comm->window.is_paused || comm->window.count >= comm->window.count_max) {
        return RBT_TIME_NEVER;
    }
    for (const struct rbt_comm *at = comm; at != NULL; at = at->options.above) {
        const rbt_time at_when =
            at->options.rate == 0 ? RBT_TIME_NEVER : rbt_limiter_when(&at->limiter, least);
        when = at_when > when ? at_when : when;
    }
    RBT_ASSERT(when >= now);
    return when;
}
