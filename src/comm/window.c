/* comm/window.c - whether the network keeps up: what is sent and not yet acknowledged.
 *
 * Only the oldest message on its way is judged: those behind it are in the same queue, and what has
 * arrived already, however late, waits in no queue any more. With a link of rate c and a sender of
 * rate r, the delay is noticed when the queue has reached the slack, after the quickest time and
 * the slack, during which r - c more has come per second. So the time in the queue stays below
 * slack + (quickest + slack) (r / c - 1) and two messages; the grace counts as slack, and if a
 * burst alone takes longer than that, it takes the place of the first slack.
 *
 * A pause ends when everything that was sent before it has arrived (1): the queue is then empty but
 * for what did not ask. As long as that is late, the pause goes on. */
#include "comm/window.h"

#include "base/assert.h"

static const rbt_time quickest_age_max = (rbt_time)10 * 1000 * 1000 * 1000;

void rbt_window_init(struct rbt_window *window, uint32_t count_max, rbt_time slack)
{
    RBT_ASSERT(count_max > 0);
    RBT_ASSERT(count_max <= RBT_WINDOW_MESSAGES);
    RBT_ASSERT(slack > 0);
    *window =
        (struct rbt_window){.count_max = count_max, .slack = slack, .quickest = RBT_TIME_NEVER};
}

/* The i-th oldest. */
static struct rbt_window_message *message_at(struct rbt_window *window, uint32_t i)
{
    RBT_ASSERT(i < window->count);
    RBT_ASSERT(window->first < RBT_WINDOW_MESSAGES);
    return &window->messages[(window->first + i) % RBT_WINDOW_MESSAGES];
}

void rbt_window_sent(struct rbt_window *window, uint64_t sequence, uint64_t bytes, rbt_time now,
                     rbt_time grace)
{
    RBT_ASSERT(grace >= 0);
    RBT_ASSERT(window->count == 0 || message_at(window, window->count - 1)->sequence < sequence);
    uint64_t joined = 0;
    if (window->count < RBT_WINDOW_MESSAGES) {
        window->count++;
    } else {
        joined = message_at(window, window->count - 1)->bytes;
    }
    *message_at(window, window->count - 1) = (struct rbt_window_message){
        .sequence = sequence, .bytes = joined + bytes, .sent_at = now, .grace = grace};
    window->bytes += bytes;
}

static bool is_late(struct rbt_window *window, rbt_time now)
{
    if (window->count == 0 || window->quickest == RBT_TIME_NEVER) {
        return false;
    }
    const struct rbt_window_message *oldest = message_at(window, 0);
    const rbt_time age = now - oldest->sent_at;
    RBT_ASSERT(window->quickest >= 0);
    return age - window->quickest - window->slack > oldest->grace;
}

/* Whether the quickest may be no more what it was. */
static bool is_old(const struct rbt_window *window, rbt_time now)
{
    return window->quickest != RBT_TIME_NEVER && now - window->met_at > quickest_age_max;
}

/* Ends the pause if it may. */
static void settle(struct rbt_window *window, rbt_time now)
{
    const bool has_drained =
        window->count == 0 || message_at(window, 0)->sequence > window->until; /* (1) */
    if (window->is_paused && has_drained) {
        if (is_old(window, now)) {
            window->quickest = RBT_TIME_NEVER; /* the next to arrive sets it */
        }
        window->is_paused = is_late(window, now);
    }
}

void rbt_window_acknowledged(struct rbt_window *window, uint64_t sequence, rbt_time now)
{
    rbt_time sent_at = RBT_TIME_NEVER;
    while (window->count > 0 && message_at(window, 0)->sequence <= sequence) {
        const struct rbt_window_message *oldest = message_at(window, 0);
        RBT_ASSERT(window->bytes >= oldest->bytes);
        sent_at = oldest->sent_at;
        window->bytes -= oldest->bytes;
        window->first = (window->first + 1) % RBT_WINDOW_MESSAGES;
        window->count--;
    }
    if (sent_at == RBT_TIME_NEVER) {
        return; /* known already */
    }
    /* Of several that arrive together, the last one has waited for no other. */
    const rbt_time way = now > sent_at ? now - sent_at : 0;
    if (window->quickest == RBT_TIME_NEVER || way <= window->quickest + window->slack / 8) {
        window->met_at = now;
    }
    window->quickest = way < window->quickest ? way : window->quickest;
    settle(window, now);
}

bool rbt_window_is_open(struct rbt_window *window, rbt_time now)
{
    settle(window, now);
    if (!window->is_paused && window->count > 0) {
        const bool has_late = is_late(window, now);
        const bool must_probe = !has_late && is_old(window, now);
        window->pauses += has_late;
        window->probes += must_probe;
        window->is_paused = has_late || must_probe;
        window->until = message_at(window, window->count - 1)->sequence;
    }
    RBT_ASSERT(window->count <= RBT_WINDOW_MESSAGES);
    return !window->is_paused && window->count < window->count_max;
}
