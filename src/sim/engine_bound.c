/* sim/engine_bound.c - how stale reads may be: a simulated process tells the coordinator by its
 * member what it wants, as net/member.c does, and acts on what comes back.
 *
 * Whoever waits does so in virtual time. One at a time does in a process; the others wait for their
 * turn. */
#include "base/assert.h"
#include "sim/engine.h"

static bool may_tell(const void *awaited)
{
    return !((const struct rbt_process_node *)awaited)->is_telling;
}

/* All have taken it, or that will never be so. */
static bool is_told(const void *awaited)
{
    const struct rbt_process_node *process = awaited;
    return process->member.party.is_gone || process->member.party.engine->status != RBT_OK ||
           !rbt_membership_is_telling(&process->member.machine);
}

/* Why it cannot go on, or RBT_OK. */
static rbt_status status_of(const struct rbt_process_node *process)
{
    const struct rbt_member_party *member = &process->member;
    const rbt_engine *engine = member->party.engine;
    if (engine->status != RBT_OK) {
        rbt_error_restore(&engine->error);
        return engine->status;
    }
    if (member->party.is_gone) {
        return rbt_fail(RBT_E_CLOSED, "%s has crashed", engine->nodes[member->party.node].name);
    }
    return member->machine.failure == RBT_OK
               ? RBT_OK
               : rbt_fail(member->machine.failure, "%s", member->machine.failure_text);
}

rbt_status rbt_engine_tell_staleness(rbt_driver *driver, uint32_t table, int64_t staleness,
                                     bool is_awaited)
{
    rbt_engine *engine = (rbt_engine *)driver;
    struct rbt_process_node *process = &engine->processes[driver->place];
    const struct rbt_membership_event event = {
        .kind = RBT_MEMBERSHIP_BOUND,
        .bound = {.table = table, .staleness = staleness, .is_awaited = is_awaited}};
    if (engine->running != NULL) {
        rbt_strand_charge(engine->running);
    }
    if (is_awaited) {
        rbt_strand_await(engine, may_tell, process);
    }
    rbt_status st = status_of(process);
    if (st != RBT_OK) {
        return st;
    }
    process->is_telling = process->is_telling || is_awaited;
    rbt_member_party_step(&process->member, &event);
    if (is_awaited) {
        rbt_strand_await(engine, is_told, process);
        process->is_telling = false;
        rbt_strand_tell(engine, process);
        st = status_of(process);
    }
    return st;
}

int64_t rbt_engine_bound(rbt_driver *driver, uint32_t place, const struct rbt_driver_bound *wanted)
{
    const rbt_engine *engine = (const rbt_engine *)driver;
    RBT_ASSERT(place < engine->process_count);
    return rbt_bounds_find(&engine->processes[place].bounds, wanted->table, wanted->follows_job,
                           wanted->staleness);
}

void rbt_process_node_take_bound(struct rbt_process_node *process,
                                 const struct rbt_membership_news *news)
{
    const rbt_engine *engine = process->member.party.engine;
    const struct rbt_bound bound = {
        .number = news->number, .table = news->bound.table, .staleness = news->bound.staleness};
    const bool is_new = news->number > process->bounds.last;
    const rbt_status st = rbt_bounds_note(&process->bounds, &bound);
    if (st != RBT_OK) {
        rbt_member_party_step(&process->member,
                              &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_GIVE_UP,
                                                             .ending = {st, rbt_last_error()}});
    } else if (is_new) {
        engine->options.on_staleness(engine->options.context, process->member.index, bound.table,
                                     bound.staleness);
    }
}

void rbt_process_node_note_told(struct rbt_process_node *process)
{
    if (is_told(process)) {
        rbt_strand_tell(process->member.party.engine, process);
    }
}
