/* sim/worker_process.c - a simulated worker process: a member of the cluster, and what all of its
 * workers share. */
#include "base/alloc.h"
#include "base/assert.h"
#include "sim/engine.h"

/* --- Members --------------------------------------------------------------------------------- */

void rbt_member_party_step(struct rbt_member_party *member,
                           const struct rbt_membership_event *event)
{
    rbt_engine *engine = member->party.engine;
    const bool is_server = member->party.node < RBT_NODE_SERVERS + engine->options.shard_count;
    rbt_membership_step(&member->machine, event, engine->now, &member->out);
    const bool must_wake = member->out.must_wake;
    const struct rbt_membership_news news = member->out.news;
    member->out.must_wake = false;
    member->out.news.kind = RBT_MEMBERSHIP_NO_NEWS;
    if (is_server) { /* news first: what is sent may say that they were heard */
        rbt_server_node_hear(&engine->servers[member->index], &news);
    } else {
        rbt_process_node_hear(&engine->processes[member->index], &news);
    }
    rbt_party_perform(&member->party, &member->out.port);
    if (must_wake && is_server) {
        rbt_server_node_wake(&engine->servers[member->index]);
    } else if (must_wake) {
        rbt_process_node_wake(&engine->processes[member->index]);
    }
}

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_process_node_open(rbt_engine *engine, uint32_t index)
{
    struct rbt_process_node *process = &engine->processes[index];
    struct rbt_member_party *member = &process->member;
    const uint32_t node = RBT_NODE_SERVERS + engine->options.shard_count + index;
    const uint32_t first = index * engine->threads;
    const uint32_t rest = engine->options.worker_count - first;
    process->worker_first = first;
    process->worker_count = rest < engine->threads ? rest : engine->threads;
    process->stable = rbt_calloc(engine->options.table_max, sizeof *process->stable);
    process->outcomes = rbt_calloc(2, sizeof *process->outcomes);
    const rbt_status st = rbt_party_init(&member->party, RBT_PARTY_MEMBER, engine, node, 1);
    if (st != RBT_OK || process->stable == NULL || process->outcomes == NULL) {
        return st != RBT_OK ? st : rbt_fail(RBT_E_NOMEM, "could not allocate a cluster");
    }
    member->index = index;
    const struct rbt_membership_options options = {.coordinator = "a simulated host",
                                                   .role = RBT_ROLE_WORKER,
                                                   .index = (int32_t)index,
                                                   .start_timeout = RBT_SIM_START_TIME,
                                                   .silence_max = RBT_SIM_SILENCE_MAX,
                                                   .cut_max = RBT_SIM_CUT_MAX,
                                                   .space = "main",
                                                   .worker_count = engine->options.worker_count,
                                                   .thread_count = process->worker_count,
                                                   .token = (uint64_t)engine->now + node + 1,
                                                   .host = "a simulated host",
                                                   .pid = node};
    rbt_membership_init(&member->machine, &options, engine->now);
    rbt_member_party_step(member, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME});
    return RBT_OK;
}

rbt_status rbt_process_node_connect(struct rbt_process_node *process)
{
    rbt_engine *engine = process->member.party.engine;
    const struct rbt_process_options options = {.plan = &process->member.machine.plan,
                                                .name_space = "main",
                                                .silence_max = RBT_SIM_SILENCE_MAX,
                                                .cut_max = RBT_SIM_CUT_MAX,
                                                .compression = RBT_COMPRESSION_ZEROS,
                                                .table_max = engine->options.table_max};
    rbt_status st = rbt_process_init(&process->process, &options);
    struct rbt_stream_options *streams =
        st != RBT_OK ? NULL : rbt_process_streams(&process->process);
    if (streams == NULL) {
        return st != RBT_OK ? st : rbt_fail(RBT_E_NOMEM, "no memory for connections");
    }
    st = rbt_carrier_party_init(&process->control, process, RBT_FRAME_NOBODY, streams);
    process->process.control = &process->control.carrier;
    for (uint32_t i = 0; st == RBT_OK && i < process->worker_count; i++) {
        const uint32_t worker = process->worker_first + i;
        st = rbt_carrier_party_init(&engine->strands[worker].carrier, process, worker, streams);
    }
    rbt_free(streams);
    return st;
}

void rbt_process_node_close(struct rbt_process_node *process)
{
    rbt_engine *engine = process->member.party.engine;
    if (engine == NULL) {
        return; /* it was never opened */
    }
    for (uint32_t i = 0; i < process->worker_count; i++) {
        rbt_carrier_party_deinit(&engine->strands[process->worker_first + i].carrier);
    }
    rbt_carrier_party_deinit(&process->control);
    rbt_process_deinit(&process->process);
    rbt_membership_deinit(&process->member.machine);
    rbt_outbox_deinit(&process->member.out.port);
    rbt_party_deinit(&process->member.party);
    rbt_bounds_deinit(&process->bounds);
    rbt_free(process->stable);
    rbt_free(process->outcomes);
}

/* --- What its member has to tell ------------------------------------------------------------- */

void rbt_process_node_hear(struct rbt_process_node *process, const struct rbt_membership_news *news)
{
    const rbt_engine *engine = process->member.party.engine;
    if (news->kind == RBT_MEMBERSHIP_STABLE && news->stable.table < engine->options.table_max &&
        process->stable[news->stable.table] < news->stable.version) {
        process->stable[news->stable.table] = news->stable.version;
    }
    if (news->kind == RBT_MEMBERSHIP_NEW_BOUND) {
        rbt_process_node_take_bound(process, news);
    }
}

/* The job has failed elsewhere. */
static void alarm_all(struct rbt_process_node *process)
{
    const rbt_engine *engine = process->member.party.engine;
    const struct rbt_membership *machine = &process->member.machine;
    for (uint32_t i = 0; i <= process->worker_count; i++) {
        struct rbt_carrier_party *carrier =
            i < process->worker_count ? &engine->strands[process->worker_first + i].carrier
                                      : &process->control;
        if (carrier->carrier.ops != NULL) {
            const rbt_status st = rbt_fail(machine->failure, "%s", machine->failure_text);
            rbt_caller_alarm(&carrier->carrier.caller, st);
            rbt_carrier_party_note(carrier);
        }
    }
}

/* The processes have told each other how the run went, or never will. */
static void end_agreeing(struct rbt_process_node *process)
{
    struct rbt_membership *machine = &process->member.machine;
    struct rbt_outcome *first = &process->outcomes[1];
    struct rbt_block *gathered = rbt_membership_take_gathered(machine);
    process->is_agreeing = false;
    process->member.party.engine->agreed_count++;
    if (gathered != NULL) {
        struct rbt_wire_cursor parts;
        uint32_t count = 0;
        const rbt_status st = rbt_control_get_gathered(
            (struct rbt_wire_cursor){.at = gathered->data, .end = gathered->data + gathered->bytes},
            &parts, &count);
        RBT_ASSERT(st == RBT_OK); /* the machine has looked at it */
        for (uint32_t i = 0; i < count; i++) {
            struct rbt_control_part part;
            rbt_control_next_part(&parts, &part);
            rbt_outcome_take(first, i, part.bytes, part.size);
        }
        rbt_block_unref(gathered);
    } else {
        const rbt_status st = machine->failure != RBT_OK
                                  ? rbt_fail(machine->failure, "%s", machine->failure_text)
                                  : rbt_fail(RBT_E_CLOSED, "the cluster has ended");
        rbt_outcome_fill(first, st);
    }
}

void rbt_process_node_wake(struct rbt_process_node *process)
{
    struct rbt_membership *machine = &process->member.machine;
    rbt_engine *engine = process->member.party.engine;
    if (rbt_membership_has_plan(machine) && !process->member.has_plan) {
        process->member.has_plan = true;
        engine->planned_count++;
    }
    if (rbt_membership_has_ended(machine) && machine->failure != RBT_OK) {
        if (!process->member.has_plan) {
            rbt_engine_fail(engine, rbt_fail(machine->failure, "%s", machine->failure_text));
        } else {
            alarm_all(process);
        }
    }
    if (process->is_agreeing && !rbt_membership_is_gathering(machine)) {
        end_agreeing(process);
    }
    rbt_process_node_note_told(process);
}

void rbt_process_node_leave(struct rbt_process_node *process, rbt_status status, const char *why)
{
    if (process->member.machine.goodbye == RBT_MEMBERSHIP_NOTHING &&
        !process->member.party.is_gone) {
        rbt_member_party_step(
            &process->member,
            &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_LEAVE, .ending = {status, why}});
    }
}

/* --- The end of a run ------------------------------------------------------------------------ */

/* The first failure of its workers, in the thread's record. */
static rbt_status status_of(const struct rbt_process_node *process, bool *is_cut_off)
{
    const rbt_engine *engine = process->member.party.engine;
    rbt_status first = RBT_OK;
    *is_cut_off = false;
    for (uint32_t i = 0; i < process->worker_count; i++) {
        const struct rbt_strand *strand = &engine->strands[process->worker_first + i];
        *is_cut_off = *is_cut_off || strand->carrier.carrier.caller.status != RBT_OK;
        if (first == RBT_OK && strand->status != RBT_OK) {
            first = strand->status;
            if (strand->error != NULL) {
                rbt_error_restore(strand->error);
            }
        }
    }
    return first;
}

void rbt_process_node_note_end(struct rbt_process_node *process)
{
    bool is_cut_off = false;
    process->ended_count++;
    if (process->ended_count < process->worker_count) {
        return;
    }
    const rbt_status st = status_of(process, &is_cut_off);
    rbt_outcome_fill(&process->outcomes[0], st);
    process->outcomes[1] = (struct rbt_outcome){0};
    rbt_engine *engine = process->member.party.engine;
    if (is_cut_off || process->member.party.is_gone || engine->process_count == 1) {
        /* Whoever is cut off cannot agree; whoever is alone need not. */
        process->outcomes[1] = process->outcomes[0];
        engine->agreed_count++;
        if (is_cut_off) { /* the program ends, and says why */
            rbt_process_node_leave(process, st, process->outcomes[0].message);
        }
        return;
    }
    process->is_agreeing = true;
    rbt_member_party_step(
        &process->member,
        &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_GATHER,
                                       .part = {.bytes = (const char *)&process->outcomes[0],
                                                .size = rbt_outcome_size(&process->outcomes[0])}});
}
