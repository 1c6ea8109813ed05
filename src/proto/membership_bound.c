/* proto/membership_bound.c - a member and the staleness of its job.
 *
 * A process tells the coordinator which staleness it wants, and acts on none but what the
 * coordinator says: there all changes of a job get their order. Every change that is heard is told
 * to the process first, and then the coordinator hears that it was taken. What was told before and
 * is heard again after a cut is taken again: whoever is told looks at its number.
 *
 * There is one change that somebody waits for, and one that nobody does, of which the latest
 * counts.
 *
 * Invariants:
 *   (1) numbers increase from one BOUND to the next, but for what is said again;
 *   (2) what nobody waits for is said only while nobody waits, so that it delays no answer.
 * Of two that were said and not answered, the advised one was therefore the first.
 *
 * Threads and memory: see membership.h. */
#include "proto/membership_bound.h"

#include "base/assert.h"
#include "base/error.h"

void rbt_membership_tell_bound(struct rbt_membership *m, const struct rbt_membership_event *event)
{
    const bool is_awaited = event->bound.is_awaited;
    struct rbt_membership_bound *bound = is_awaited ? &m->awaited : &m->advised;
    RBT_ASSERT(event->bound.staleness >= -1);
    RBT_ASSERT(!is_awaited || bound->say == RBT_MEMBERSHIP_NOTHING);
    const bool is_known = bound->say != RBT_MEMBERSHIP_NOTHING &&
                          bound->table == event->bound.table &&
                          bound->staleness == event->bound.staleness;
    if (m->end == RBT_MEMBERSHIP_AT_WORK && !is_known) {
        *bound = (struct rbt_membership_bound){.say = RBT_MEMBERSHIP_TO_SAY,
                                               .table = event->bound.table,
                                               .staleness = event->bound.staleness};
    }
}

static void say(struct rbt_membership *m, struct rbt_membership_bound *bound,
                struct rbt_membership_out *out)
{
    bound->say = RBT_MEMBERSHIP_SAID;
    bound->number = bound->number == 0 ? ++m->bound_number : bound->number; /* (1) */
    const struct rbt_control_bound told = {
        .job = m->plan.job, .table = bound->table, .staleness = bound->staleness};
    struct rbt_block *block =
        rbt_membership_block(rbt_control_put_bound(NULL, bound->number, &told));
    if (block != NULL) {
        (void)rbt_control_put_bound(block->data, bound->number, &told);
    }
    rbt_membership_send(m, block, out);
}

void rbt_membership_say_bounds(struct rbt_membership *m, struct rbt_membership_out *out)
{
    if (!rbt_membership_has_plan(m)) {
        return;
    }
    if (m->advised.say == RBT_MEMBERSHIP_TO_SAY && m->advised.number > 0) {
        say(m, &m->advised, out); /* again, and before what was said after it */
    }
    if (m->awaited.say == RBT_MEMBERSHIP_TO_SAY) {
        say(m, &m->awaited, out);
    }
    if (m->advised.say == RBT_MEMBERSHIP_TO_SAY && m->awaited.say == RBT_MEMBERSHIP_NOTHING) {
        say(m, &m->advised, out); /* (2) */
    }
}

rbt_status rbt_membership_hear_bound(struct rbt_membership *m, uint64_t number,
                                     struct rbt_wire_cursor body, struct rbt_membership_out *out)
{
    struct rbt_membership_news news = {.kind = RBT_MEMBERSHIP_NEW_BOUND, .number = number};
    const rbt_status st = rbt_control_get_bound(body, &news.bound);
    if (st != RBT_OK) {
        return st;
    }
    if (number == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "the coordinator sent a staleness without a number");
    }
    if (m->options.role != RBT_ROLE_SERVER && news.bound.job != m->plan.job) {
        return rbt_fail(RBT_E_PROTOCOL, "the coordinator sent the staleness of another job");
    }
    out->news = news;
    if (m->goodbye == RBT_MEMBERSHIP_NOTHING || m->goodbye == RBT_MEMBERSHIP_TO_SAY) {
        struct rbt_block *block =
            rbt_membership_block(rbt_control_put_taken(NULL, number, news.bound.job));
        if (block != NULL) {
            (void)rbt_control_put_taken(block->data, number, news.bound.job);
        }
        rbt_membership_send(m, block, out);
    }
    return RBT_OK;
}

rbt_status rbt_membership_hear_taken(struct rbt_membership *m, uint64_t number,
                                     struct rbt_wire_cursor body, struct rbt_membership_out *out)
{
    uint64_t job;
    const rbt_status st = rbt_control_get_taken(body, &job);
    if (st != RBT_OK) {
        return st;
    }
    if (m->awaited.say == RBT_MEMBERSHIP_SAID && m->awaited.number <= number) {
        m->awaited.say = RBT_MEMBERSHIP_NOTHING;
        out->must_wake = true;
    }
    if (m->advised.say == RBT_MEMBERSHIP_SAID && m->advised.number <= number) {
        m->advised.say = RBT_MEMBERSHIP_NOTHING;
    }
    return RBT_OK;
}

bool rbt_membership_is_telling(const struct rbt_membership *m)
{
    return m->awaited.say != RBT_MEMBERSHIP_NOTHING;
}
