/* sim/engine.c - the simulated driver: a whole cluster on one thread, one event after the other.
 *
 * Virtual time stands still while a fiber runs or a machine is stepped; it moves on when the next
 * event is taken out of the agenda. Everything random comes from the seed, and events of one moment
 * happen in the order in which they were scheduled: so a run can be repeated, bit for bit. */
#include "sim/engine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define MESSAGE_COST rbt_sim_time(2e-6)   /* of a receiver's processor, per message */
#define STUCK_TIME   rbt_sim_time(3600.0) /* see stuck_after; plus 1000 times the way */

static rbt_engine *engine_of(rbt_driver *driver)
{
    return (rbt_engine *)driver;
}

/* --- Events ---------------------------------------------------------------------------------- */

void rbt_engine_fail(rbt_engine *engine, rbt_status status)
{
    RBT_ASSERT(status != RBT_OK);
    if (engine->status == RBT_OK) {
        engine->status = status;
        rbt_error_save(&engine->error);
    }
}

void rbt_engine_schedule(rbt_engine *engine, rbt_time at, enum rbt_engine_event kind,
                         uint32_t index, void *what)
{
    RBT_ASSERT(at >= engine->now);
    const struct rbt_agenda_event event = {.at = at, .kind = kind, .index = index, .what = what};
    const rbt_status st = rbt_agenda_add(&engine->agenda, &event);
    if (st != RBT_OK) {
        rbt_engine_fail(engine, st);
    }
}

/* The node whose processor the event needs; it may stand still. */
static uint32_t node_of(const rbt_engine *engine, const struct rbt_agenda_event *event)
{
    if (event->kind == RBT_ENGINE_WAKE) {
        return engine->strands[event->index].carrier.party.node;
    }
    return event->kind == RBT_ENGINE_TIMER ? event->index : UINT32_MAX;
}

static void handle(rbt_engine *engine, const struct rbt_agenda_event *event)
{
    const uint32_t node = node_of(engine, event);
    if (node != UINT32_MAX && engine->nodes[node].paused_until > engine->now) {
        rbt_engine_schedule(engine, engine->nodes[node].paused_until,
                            (enum rbt_engine_event)event->kind, event->index, event->what);
        return;
    }
    switch ((enum rbt_engine_event)event->kind) {
    case RBT_ENGINE_NETWORK:
        rbt_connections_handle(engine->connections, event);
        break;
    case RBT_ENGINE_WAKE:
        rbt_strand_wake(&engine->strands[event->index]);
        break;
    case RBT_ENGINE_TIMER:
        rbt_party_expire(event->what);
        break;
    case RBT_ENGINE_FAULT:
        rbt_engine_fault_begin(engine, event->index);
        break;
    case RBT_ENGINE_HEAL:
        rbt_engine_fault_end(engine, event->index);
        break;
    case RBT_ENGINE_CUT:
        rbt_engine_cut(engine, event->index);
        break;
    }
}

/* Everything has failed: nobody waits any more. */
static void fail_all(rbt_engine *engine)
{
    for (uint32_t i = 0; i < engine->process_count; i++) {
        rbt_error_restore(&engine->error);
        rbt_carrier_party_fail(&engine->processes[i].control, engine->status);
        rbt_process_node_note_told(&engine->processes[i]);
    }
    for (uint32_t i = 0; i < engine->options.worker_count; i++) {
        struct rbt_strand *strand = &engine->strands[i];
        rbt_error_restore(&engine->error);
        rbt_carrier_party_fail(&strand->carrier, engine->status);
        if (strand->state == RBT_STRAND_COMPUTING) {
            rbt_strand_resume(strand);
        }
    }
    rbt_strand_resume_ready(engine);
}

static void look_whether_stuck(rbt_engine *engine)
{
    if (engine->now - engine->last_step < engine->stuck_after) {
        return;
    }
    for (uint32_t i = 0; engine->is_running && i < engine->options.worker_count; i++) {
        if (engine->strands[i].state == RBT_STRAND_COMPUTING) {
            return;
        }
    }
    rbt_engine_fail(engine, rbt_fail(RBT_E_CLOSED,
                                     "the workers have waited in vain for %.0f virtual seconds",
                                     (double)engine->stuck_after * 1e-9));
}

/* Writes down what is about to happen, for whoever looks; messages say more when they are heard. */
static void describe(rbt_engine *engine, const struct rbt_agenda_event *event)
{
    static const char *const names[] = {"network", "wake", "timer", "fault", "heal", "cut"};
    const uint32_t node = node_of(engine, event);
    const bool is_fault = event->kind == RBT_ENGINE_FAULT || event->kind == RBT_ENGINE_HEAL;
    engine->seen = (struct rbt_inspect_event){
        .at = event->at - engine->began,
        .what = names[event->kind],
        .message = "",
        .from = "",
        .to = is_fault             ? engine->simulation->faults[event->index].node
              : node == UINT32_MAX ? ""
                                   : engine->nodes[node].name,
        .worker = event->kind == RBT_ENGINE_WAKE ? event->index : UINT32_MAX};
}

static void take_event(rbt_engine *engine)
{
    struct rbt_agenda_event event;
    const struct rbt_simulation_observer *observer = &engine->simulation->options.observer;
    if (!rbt_agenda_take(&engine->agenda, &event)) {
        rbt_engine_fail(engine, rbt_fail(RBT_E_CLOSED, "nothing will ever happen any more"));
        return;
    }
    RBT_ASSERT(event.at >= engine->now);
    engine->now = event.at;
    engine->simulation->totals.events += engine->is_running ? 1 : 0;
    if (observer->on_event != NULL) {
        describe(engine, &event);
    }
    handle(engine, &event);
    rbt_strand_resume_ready(engine);
    if (rbt_connections_status(engine->connections) != RBT_OK) {
        rbt_engine_fail(engine, rbt_connections_status(engine->connections));
    }
    if (observer->on_event != NULL && engine->is_running &&
        !observer->on_event(observer->context, engine->simulation)) {
        rbt_engine_fail(engine, RBT_E_CLOSED);
    }
    look_whether_stuck(engine);
}

void rbt_engine_run_until(rbt_engine *engine, bool (*is_done)(const void *argument),
                          const void *argument)
{
    RBT_ASSERT(engine->running == NULL);
    engine->last_step = engine->now;
    while (engine->status == RBT_OK && !is_done(argument)) {
        take_event(engine);
    }
}

/* --- The driver: steps ----------------------------------------------------------------------- */

static struct rbt_carrier *carrier_of(rbt_engine *engine, uint32_t worker)
{
    RBT_ASSERT(worker < engine->options.worker_count);
    RBT_ASSERT(engine->running == NULL || engine->running->index == worker);
    return &engine->strands[worker].carrier.carrier;
}

static rbt_status refuse(const rbt_engine *engine)
{
    rbt_error_restore(&engine->error);
    return engine->status;
}

const rbt_job_shard *rbt_engine_job_shard(const rbt_engine *engine, uint32_t server)
{
    const struct rbt_service_party *service = &engine->servers[server].service;
    const uint64_t job = engine->processes[0].member.machine.plan.job;
    return service->service == NULL ? NULL : rbt_service_host(service->service, job);
}

static rbt_shard *shard_of(const rbt_engine *engine, uint32_t server)
{
    const rbt_job_shard *job_shard = rbt_engine_job_shard(engine, server);
    return job_shard == NULL ? NULL : rbt_job_shard_shard(job_shard);
}

/* Every process opens the table, or begins the run, at the shard. */
static rbt_status step_control(rbt_engine *engine, const struct rbt_driver_call *call)
{
    rbt_status st = RBT_OK;
    const bool is_table = call->event.kind == RBT_SHARD_TABLE;
    for (uint32_t i = 0; st == RBT_OK && i < engine->process_count; i++) {
        struct rbt_process_node *process = &engine->processes[i];
        if (is_table) {
            st = rbt_process_set_table(&process->process, call);
            continue;
        }
        if (call->shard == 0) {
            for (uint32_t k = 0; k < process->worker_count; k++) {
                rbt_carrier_reset(&engine->strands[process->worker_first + k].carrier.carrier);
            }
            rbt_process_begin(&process->process);
        }
        st = rbt_process_reset(&process->process, call->shard);
    }
    return st;
}

/* Reads what the shard has at this moment: nobody is kept from work by it, and no byte is sent. */
static rbt_status step_aside(const rbt_engine *engine, const struct rbt_driver_call *call)
{
    rbt_shard *shard = shard_of(engine, call->shard);
    struct rbt_shard_effect effects[2];
    struct rbt_shard_outbox out = {.effects = effects};
    if (shard == NULL) {
        return rbt_fail(RBT_E_CLOSED, "server/%u has crashed", call->shard);
    }
    rbt_shard_step(shard, &call->event, &out);
    RBT_ASSERT(out.count <= 1); /* it is answered at once, or has failed */
    return out.status;
}

static void note_clock(struct rbt_strand *strand, const struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (calls[i].event.kind == RBT_SHARD_PUSH && calls[i].event.marker != RBT_MARKER_NONE &&
            calls[i].shard == 0) {
            strand->engine->simulation->workers[strand->index].clocks = calls[i].event.marker;
            rbt_strand_draw(strand);
        }
    }
}

static void step(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    rbt_engine *engine = engine_of(driver);
    const enum rbt_shard_kind kind = count == 0 ? RBT_SHARD_RESET : calls[0].event.kind;
    const bool is_aside = kind == RBT_SHARD_SCAN && calls[0].event.is_aside;
    const bool is_control = kind == RBT_SHARD_TABLE || kind == RBT_SHARD_RESET;
    if (is_control || is_aside) {
        for (size_t i = 0; i < count; i++) {
            calls[i].reply = (struct rbt_driver_reply){0};
            calls[i].reply.status = engine->status != RBT_OK ? refuse(engine)
                                    : is_aside               ? step_aside(engine, &calls[i])
                                                             : step_control(engine, &calls[i]);
        }
        return;
    }
    if (engine->running != NULL) {
        rbt_strand_charge(engine->running);
        note_clock(engine->running, calls, count);
    }
    rbt_carrier_step(carrier_of(engine, calls[0].event.worker), calls, count);
    if (engine->running != NULL) {
        bool had_to_wait = false;
        for (size_t i = 0; i < count; i++) {
            had_to_wait = had_to_wait || calls[i].reply.had_to_wait;
        }
        rbt_strand_note_step(engine->running, had_to_wait);
    }
}

static void expect(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    if (count > 0) {
        rbt_carrier_expect(carrier_of(engine_of(driver), calls[0].event.worker), calls, count);
    }
}

static bool has_answer(rbt_driver *driver, uint32_t worker, uint64_t asked)
{
    return rbt_carrier_has_answer(carrier_of(engine_of(driver), worker), asked);
}

static void forget(rbt_driver *driver, uint32_t worker, uint64_t asked)
{
    rbt_carrier_forget(carrier_of(engine_of(driver), worker), asked);
}

static void ask_early(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    if (count > 0) {
        rbt_carrier_ask_early(carrier_of(engine_of(driver), calls[0].event.worker), calls, count);
    }
}

static bool take_early(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    return count == 0 || rbt_carrier_take_early(
                             carrier_of(engine_of(driver), calls[0].event.worker), calls, count);
}

static uint64_t heard(rbt_driver *driver, uint32_t worker)
{
    return rbt_carrier_heard(carrier_of(engine_of(driver), worker));
}

static int64_t floor_of(rbt_driver *driver, uint32_t shard)
{
    rbt_engine *engine = engine_of(driver);
    struct rbt_strand *strand = engine->running;
    if (strand == NULL) {
        return rbt_process_floor(&engine->processes[0].process, NULL, shard);
    }
    return rbt_process_floor(&strand->process->process, &strand->carrier.carrier, shard);
}

static uint64_t version_of(rbt_driver *driver, uint32_t shard)
{
    const rbt_engine *engine = engine_of(driver);
    const struct rbt_process_node *process =
        engine->running != NULL ? engine->running->process : &engine->processes[0];
    return atomic_load_explicit(&process->process.heard[shard].version, memory_order_relaxed);
}

static uint64_t stable_of(rbt_driver *driver, uint32_t worker, uint32_t table)
{
    return engine_of(driver)->strands[worker].process->stable[table];
}

static rbt_time now(rbt_driver *driver)
{
    return engine_of(driver)->now - engine_of(driver)->began;
}

static void spend(rbt_driver *driver, uint32_t index, double seconds)
{
    rbt_engine *engine = engine_of(driver);
    RBT_ASSERT(engine->running == &engine->strands[index]);
    rbt_strand_spend(engine->running, seconds);
}

static bool is_unlocked(const void *awaited)
{
    return !((const rbt_engine *)awaited)->is_locked;
}

static void lock(rbt_driver *driver)
{
    rbt_engine *engine = engine_of(driver);
    rbt_strand_await(engine, is_unlocked, engine);
    RBT_ASSERT(!engine->is_locked); /* without fibers nobody has it */
    engine->is_locked = true;
}

static void unlock(rbt_driver *driver)
{
    rbt_engine *engine = engine_of(driver);
    engine->is_locked = false;
    rbt_strand_tell(engine, engine);
}

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_stats(rbt_driver *driver, struct rbt_job_stats *stats)
{
    rbt_engine *engine = engine_of(driver);
    if (engine->running != NULL) { /* whoever asks may want to know of nodes as well */
        rbt_engine_note(engine);
    }
    for (uint32_t i = 0; i < engine->options.shard_count; i++) {
        const rbt_shard *shard = shard_of(engine, i);
        struct rbt_shard_stats figures = {0};
        if (shard != NULL) {
            rbt_shard_stats(shard, &figures);
        }
        stats->updates += figures.updates;
        stats->duplicates += figures.duplicates;
        stats->rows += figures.rows;
        stats->server_bytes += figures.bytes;
        stats->rule_bytes += figures.rule_bytes;
        stats->rule_bytes_max += figures.rule_bytes_max;
        stats->versions_max = higher(stats->versions_max, figures.versions_max);
        stats->snapshots_max = higher(stats->snapshots_max, figures.snapshots_max);
    }
}

/* --- Runs ------------------------------------------------------------------------------------ */

static bool is_over(const void *argument)
{
    const rbt_engine *engine = argument;
    return engine->agreed_count == engine->process_count;
}

static rbt_status start_run(rbt_engine *engine)
{
    const rbt_simulation *simulation = engine->simulation;
    rbt_status st = engine->status != RBT_OK ? refuse(engine) : RBT_OK;
    engine->agreed_count = 0;
    for (uint32_t i = 0; i < engine->process_count; i++) {
        engine->processes[i].ended_count = 0;
        engine->processes[i].is_agreeing = false;
    }
    for (uint32_t i = 0; st == RBT_OK && i < engine->options.worker_count; i++) {
        st = rbt_strand_start(&engine->strands[i]);
    }
    for (uint32_t i = 0; st == RBT_OK && i < simulation->options.fault_count; i++) {
        rbt_engine_schedule(engine, engine->now + rbt_sim_time(simulation->faults[i].at),
                            RBT_ENGINE_FAULT, i, NULL);
    }
    rbt_rng_init(&engine->rng, simulation->options.seed, 3, 0);
    for (uint32_t i = 0; simulation->options.cuts > 0 && i < engine->node_count; i++) {
        rbt_engine_plan_cut(engine, i);
    }
    return st;
}

/* The first failure by number. Who was cut off knows less than the coordinator: what that has said
 * counts more, if anybody has heard it. */
static rbt_status collect_status(const rbt_engine *engine)
{
    const struct rbt_outcome *ending = &engine->coordinator.ending;
    const struct rbt_outcome *found = NULL;
    bool is_heard = false;
    if (engine->status != RBT_OK) {
        return refuse(engine);
    }
    for (uint32_t i = engine->process_count; i > 0; i--) {
        const struct rbt_outcome *outcome = &engine->processes[i - 1].outcomes[1];
        const bool is_better =
            found == NULL || found->status == RBT_E_CLOSED || outcome->status != RBT_E_CLOSED;
        found = outcome->status != RBT_OK && is_better ? outcome : found;
        is_heard = is_heard || strcmp(outcome->message, ending->message) == 0;
    }
    if (found == NULL) {
        return RBT_OK;
    }
    const bool is_told = found->status == RBT_E_CLOSED && ending->status != RBT_OK && is_heard;
    return rbt_outcome_fail(is_told ? ending : found);
}

static rbt_status run(rbt_driver *driver, rbt_status (*function)(void *argument, uint32_t index),
                      void *argument)
{
    rbt_engine *engine = engine_of(driver);
    engine->function = function;
    engine->argument = argument;
    engine->began = engine->now;
    engine->started = engine->started < engine->now ? engine->started : engine->now;
    rbt_status st = start_run(engine);
    if (st != RBT_OK) {
        return st;
    }
    engine->is_running = true;
    for (uint32_t i = 0; i < engine->options.worker_count; i++) {
        rbt_strand_resume(&engine->strands[i]);
    }
    rbt_strand_resume_ready(engine);
    rbt_engine_run_until(engine, is_over, engine);
    if (engine->status != RBT_OK) {
        fail_all(engine);
    }
    for (uint32_t i = 0; i < engine->options.worker_count; i++) {
        engine->simulation->workers[i].idle_seconds +=
            (double)(engine->now - engine->strands[i].ended_at) * 1e-9;
    }
    engine->is_running = false;
    st = collect_status(engine);
    engine->has_failed = engine->has_failed || st != RBT_OK;
    rbt_engine_note(engine);
    return st;
}

/* --- Opening and closing --------------------------------------------------------------------- */

static bool have_all_left(const void *argument)
{
    const rbt_engine *engine = argument;
    for (uint32_t i = 0; i < engine->process_count; i++) {
        const struct rbt_member_party *member = &engine->processes[i].member;
        if (!member->party.is_gone && !rbt_membership_has_left(&member->machine)) {
            return false;
        }
    }
    return true;
}

/* The processes say goodbye. A job that is lost by that has no run any more whose status could say
 * so. */
static void leave(rbt_engine *engine)
{
    const struct rbt_outcome *ending = &engine->coordinator.ending;
    for (uint32_t i = 0; i < engine->process_count; i++) {
        rbt_process_node_leave(&engine->processes[i], RBT_OK, NULL);
    }
    rbt_engine_run_until(engine, have_all_left, engine);
    if (!engine->has_failed && ending->status != RBT_OK) {
        engine->simulation->status = rbt_outcome_fail(ending);
        rbt_error_save(&engine->simulation->error);
    }
}

static void close_engine(rbt_driver *driver)
{
    rbt_engine *engine = engine_of(driver);
    if (engine->status == RBT_OK && engine->planned_count == engine->process_count &&
        engine->processes != NULL) {
        leave(engine);
    }
    rbt_connections_destroy(engine->connections);
    for (uint32_t i = 0; engine->processes != NULL && i < engine->process_count; i++) {
        rbt_process_node_close(&engine->processes[i]);
    }
    for (uint32_t i = 0; engine->strands != NULL && i < engine->options.worker_count; i++) {
        rbt_strand_clear(&engine->strands[i]);
    }
    for (uint32_t i = 0; engine->servers != NULL && i < engine->options.shard_count; i++) {
        rbt_server_node_close(&engine->servers[i]);
    }
    rbt_coordinator_party_close(&engine->coordinator);
    rbt_agenda_deinit(&engine->agenda);
    rbt_free(engine->strands);
    rbt_free(engine->processes);
    rbt_free(engine->servers);
    rbt_free(engine->nodes);
    rbt_block_trim();
    engine->simulation->engine = NULL;
    rbt_free(engine);
}

static const struct rbt_driver_ops ops = {.step = step,
                                          .ask = expect,
                                          .has_answer = has_answer,
                                          .forget = forget,
                                          .ask_early = ask_early,
                                          .take_early = take_early,
                                          .heard = heard,
                                          .floor = floor_of,
                                          .version = version_of,
                                          .stable = stable_of,
                                          .run = run,
                                          .now = now,
                                          .spend = spend,
                                          .stats = add_stats,
                                          .tell_staleness = rbt_engine_tell_staleness,
                                          .bound = rbt_engine_bound,
                                          .lock = lock,
                                          .unlock = unlock,
                                          .close = close_engine};

static void name_nodes(rbt_engine *engine)
{
    rbt_trace *trace = engine->simulation->trace;
    const uint32_t first_process = RBT_NODE_SERVERS + engine->options.shard_count;
    for (uint32_t i = 0; i < engine->node_count; i++) {
        char *name = engine->nodes[i].name;
        const size_t size = sizeof engine->nodes[i].name;
        if (i == RBT_NODE_COORDINATOR) {
            snprintf(name, size, "coordinator");
        } else if (i < first_process) {
            snprintf(name, size, "server/%u", i - RBT_NODE_SERVERS);
        } else {
            snprintf(name, size, "worker/%u", i - first_process);
        }
        if (trace != NULL) {
            rbt_trace_name_node(trace, i, name);
        }
    }
    for (uint32_t i = 0; trace != NULL && i < engine->options.worker_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %u", i);
        const uint32_t node = first_process + i / engine->threads;
        rbt_trace_name_lane(trace, (struct rbt_trace_lane){node, i % engine->threads}, name);
    }
}

/* Chooses the slow workers, and how slow they are. */
static rbt_status draw_stragglers(rbt_engine *engine)
{
    const struct rbt_simulation_options *options = &engine->simulation->options;
    const uint32_t worker_count = engine->options.worker_count;
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, 1, 0);
    uint32_t *order = rbt_calloc(worker_count, sizeof *order);
    if (order == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a cluster");
    }
    rbt_rng_permutation(&rng, order, worker_count);
    const double share = options->straggler_share * (double)worker_count;
    const uint32_t slow_count = (uint32_t)(share + 0.5);
    const double low = options->straggler_factor;
    const double high = options->straggler_factor_max > low ? options->straggler_factor_max : low;
    for (uint32_t i = 0; i < slow_count; i++) {
        engine->strands[order[i]].factor = low + (high - low) * rbt_rng_uniform(&rng);
    }
    rbt_free(order);
    return RBT_OK;
}

/* Servers and worker processes are dealt out to racks, whose links have their bandwidth together,
 * divided by the oversubscription. */
static void place_in_racks(rbt_engine *engine)
{
    const struct rbt_simulation_options *options = &engine->simulation->options;
    const uint32_t servers = engine->options.shard_count;
    for (uint32_t i = 0; i < servers; i++) {
        rbt_connections_set_rack(engine->connections, RBT_NODE_SERVERS + i, i % options->racks);
    }
    for (uint32_t i = 0; i < engine->process_count; i++) {
        rbt_connections_set_rack(engine->connections, RBT_NODE_SERVERS + servers + i,
                                 i % options->racks);
    }
    for (uint32_t rack = 0; rack < options->racks; rack++) {
        const uint32_t in_it = (servers + options->racks - 1 - rack) / options->racks +
                               (engine->process_count + options->racks - 1 - rack) / options->racks;
        rbt_connections_set_rack_bandwidth(engine->connections, rack,
                                           fmax(in_it, 1) * options->bandwidth /
                                               options->oversubscription);
    }
}

static rbt_status open_network(rbt_engine *engine)
{
    const struct rbt_simulation_options *options = &engine->simulation->options;
    struct rbt_connections_options network = {
        .node_count = engine->node_count,
        .seed = options->seed,
        .bandwidth = options->bandwidth,
        .latency = options->latency < 0 ? 0 : rbt_sim_time(options->latency),
        .jitter = rbt_sim_time(options->jitter),
        .loss = options->loss,
        .duplication = options->duplication,
        .spike_chance = options->spike_chance,
        .spike = rbt_sim_time(options->spike_seconds),
        .message_cost = MESSAGE_COST,
        .rack_count = options->racks > 1 ? options->racks : 0,
        .agenda = &engine->agenda,
        .kind = RBT_ENGINE_NETWORK,
        .events = rbt_party_events};
    network.events.context = engine;
    const rbt_status st = rbt_connections_create(&network, &engine->connections);
    if (st == RBT_OK && options->racks > 1) {
        place_in_racks(engine);
    }
    return st;
}

static bool has_everybody(const void *argument)
{
    const rbt_engine *engine = argument;
    return engine->planned_count == engine->process_count;
}

/* Everybody joins, and gets to know the others. */
static rbt_status gather_all(rbt_engine *engine)
{
    rbt_status st = rbt_coordinator_party_open(engine);
    for (uint32_t i = 0; st == RBT_OK && i < engine->options.shard_count; i++) {
        st = rbt_server_node_open(engine, i);
    }
    for (uint32_t i = 0; st == RBT_OK && i < engine->process_count; i++) {
        st = rbt_process_node_open(engine, i);
    }
    if (st != RBT_OK) {
        return st;
    }
    rbt_engine_run_until(engine, has_everybody, engine);
    st = engine->status != RBT_OK ? refuse(engine) : RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < engine->process_count; i++) {
        st = rbt_process_node_connect(&engine->processes[i]);
    }
    return st;
}

static rbt_status fill(rbt_engine *engine)
{
    const uint32_t worker_count = engine->options.worker_count;
    engine->nodes = rbt_calloc(engine->node_count, sizeof *engine->nodes);
    engine->servers = rbt_calloc(engine->options.shard_count, sizeof *engine->servers);
    engine->processes = rbt_calloc(engine->process_count, sizeof *engine->processes);
    engine->strands = rbt_calloc(worker_count, sizeof *engine->strands);
    if (engine->nodes == NULL || engine->servers == NULL || engine->processes == NULL ||
        engine->strands == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a cluster of %u nodes",
                        engine->node_count);
    }
    for (uint32_t i = 0; i < worker_count; i++) {
        engine->strands[i] = (struct rbt_strand){.engine = engine,
                                                 .index = i,
                                                 .process = &engine->processes[i / engine->threads],
                                                 .factor = 1.0,
                                                 .slowdown = 1.0,
                                                 .state = RBT_STRAND_ENDED};
    }
    name_nodes(engine);
    rbt_status st = rbt_engine_check_faults(engine);
    st = st != RBT_OK ? st : draw_stragglers(engine);
    st = st != RBT_OK ? st : rbt_engine_attach(engine);
    st = st != RBT_OK ? st : open_network(engine);
    return st != RBT_OK ? st : gather_all(engine);
}

rbt_status rbt_sim_open(rbt_simulation *simulation, const struct rbt_driver_options *options,
                        rbt_driver **driver)
{
    if (simulation->engine != NULL) {
        return rbt_fail(RBT_E_BUSY, "a simulation runs one job at a time");
    }
    rbt_engine *engine = rbt_calloc(1, sizeof *engine);
    if (engine == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a cluster");
    }
    const struct rbt_simulation_options *o = &simulation->options;
    engine->driver =
        (rbt_driver){.ops = &ops,
                     .process_size = o->threads,
                     .worker_here = options->worker_count,
                     .place_count = (options->worker_count + o->threads - 1) / o->threads,
                     .sends_ahead = true,
                     .counts_bytes = true};
    engine->simulation = simulation;
    engine->options = *options;
    engine->threads = o->threads;
    engine->process_count = engine->driver.place_count;
    engine->node_count = RBT_NODE_SERVERS + options->shard_count + engine->process_count;
    engine->started = RBT_TIME_NEVER;
    engine->stuck_after =
        STUCK_TIME + rbt_sim_time(1000 * (fabs(o->latency) + o->jitter + o->spike_seconds));
    simulation->engine = engine;
    const rbt_status st = fill(engine);
    if (st != RBT_OK) {
        struct rbt_error_record record;
        rbt_error_save(&record);
        close_engine(&engine->driver);
        rbt_error_restore(&record);
        return st;
    }
    *driver = &engine->driver;
    return RBT_OK;
}
