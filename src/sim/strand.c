/* sim/strand.c - a simulated worker: its fiber, its time, and the waiting of its carrier.
 *
 * Machines are told of what comes without switching to the fiber. It goes on when what it waits for
 * is there, after the event at hand. */
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/engine.h"

enum { STACK_BYTES = 1 << 20 };

#define POLL_TIME rbt_sim_time(1e-6) /* what a look at what has come costs */

static struct rbt_carrier_party *party_of(struct rbt_carrier *carrier)
{
    return (struct rbt_carrier_party *)((char *)carrier -
                                        offsetof(struct rbt_carrier_party, carrier));
}

static struct rbt_simulation_worker *figures_of(const struct rbt_strand *strand)
{
    return &strand->engine->simulation->workers[strand->index];
}

/* --- Who goes on ----------------------------------------------------------------------------- */

/* It goes on after the event at hand, if it may then. */
static void make_ready(struct rbt_strand *strand)
{
    rbt_engine *engine = strand->engine;
    if (strand->is_ready) {
        return;
    }
    strand->is_ready = true;
    strand->next_ready = NULL;
    if (engine->ready == NULL) {
        engine->ready = strand;
    } else {
        engine->ready_last->next_ready = strand;
    }
    engine->ready_last = strand;
}

void rbt_carrier_party_note(struct rbt_carrier_party *carrier)
{
    if (carrier->waiter != NULL && rbt_carrier_is_done(&carrier->carrier)) {
        make_ready(carrier->waiter);
    }
}

void rbt_strand_tell(rbt_engine *engine, const void *awaited)
{
    for (uint32_t i = 0; i < engine->options.worker_count; i++) {
        if (engine->strands[i].awaited == awaited) {
            make_ready(&engine->strands[i]);
        }
    }
}

void rbt_strand_resume_ready(rbt_engine *engine)
{
    while (engine->ready !=
           NULL) { /* ends: whoever goes on lets virtual time pass before the next */
        struct rbt_strand *strand = engine->ready;
        engine->ready = strand->next_ready;
        strand->is_ready = false;
        if (strand->state == RBT_STRAND_WAITING && strand->is_done(strand->awaited)) {
            rbt_strand_resume(strand);
        }
    }
}

static rbt_time cpu_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* cannot fail for this clock */
    return (rbt_time)now.tv_sec * 1000000000 + now.tv_nsec;
}

void rbt_strand_resume(struct rbt_strand *strand)
{
    rbt_engine *engine = strand->engine;
    RBT_ASSERT(engine->running == NULL);
    RBT_ASSERT(strand->state != RBT_STRAND_ENDED);
    strand->state = RBT_STRAND_RUNNING;
    engine->last_step = engine->now;
    engine->running = strand;
    engine->driver.place = strand->process->member.index;
    strand->cpu_mark = engine->simulation->options.is_measured ? cpu_now() : 0;
    rbt_fiber_resume(strand->fiber);
    engine->running = NULL;
    engine->driver.place = 0;
    if (rbt_fiber_has_ended(strand->fiber)) {
        strand->state = RBT_STRAND_ENDED;
        strand->ended_at = engine->now;
        rbt_process_node_note_end(strand->process);
    }
}

/* --- Time ------------------------------------------------------------------------------------ */

static void trace(const struct rbt_strand *strand, const char *name, rbt_time start)
{
    const rbt_engine *engine = strand->engine;
    if (engine->simulation->trace != NULL && engine->now > start) {
        rbt_trace_span(
            engine->simulation->trace,
            (struct rbt_trace_lane){strand->carrier.party.node, strand->index % engine->threads},
            name, start, engine->now);
    }
}

static void sleep_for(struct rbt_strand *strand, rbt_time time)
{
    rbt_engine *engine = strand->engine;
    strand->wake_at = engine->now + time;
    strand->state = RBT_STRAND_COMPUTING;
    rbt_engine_schedule(engine, strand->wake_at, RBT_ENGINE_WAKE, strand->index, NULL);
    rbt_fiber_yield();
}

/* Whether its process is gone, or everything has failed: then it hurries to its end. */
static bool is_over(const struct rbt_strand *strand)
{
    return strand->carrier.party.is_gone || strand->engine->status != RBT_OK;
}

static void compute(struct rbt_strand *strand, double seconds)
{
    const rbt_time start = strand->engine->now;
    if (is_over(strand)) {
        return;
    }
    sleep_for(strand, rbt_sim_time(seconds * strand->factor * strand->slowdown));
    figures_of(strand)->compute_seconds += (double)(strand->engine->now - start) * 1e-9;
    trace(strand, "compute", start);
}

void rbt_strand_spend(struct rbt_strand *strand, double seconds)
{
    if (!strand->engine->simulation->options.is_measured) {
        compute(strand, seconds);
    }
}

void rbt_strand_charge(struct rbt_strand *strand)
{
    if (strand->engine->simulation->options.is_measured) {
        compute(strand, (double)(cpu_now() - strand->cpu_mark) * 1e-9);
    }
}

void rbt_strand_wake(struct rbt_strand *strand)
{
    if (strand->state != RBT_STRAND_COMPUTING) {
        return; /* it was ended meanwhile */
    }
    if (strand->wake_at > strand->engine->now) { /* its process stood still for a while */
        rbt_engine_schedule(strand->engine, strand->wake_at, RBT_ENGINE_WAKE, strand->index, NULL);
        return;
    }
    rbt_strand_resume(strand);
}

void rbt_strand_draw(struct rbt_strand *strand)
{
    const struct rbt_simulation_options *options = &strand->engine->simulation->options;
    if (options->slowdown_chance > 0) {
        const bool is_slow = rbt_rng_uniform(&strand->rng) < options->slowdown_chance;
        strand->slowdown = is_slow ? options->slowdown_factor : 1.0;
    }
}

/* --- Carriers -------------------------------------------------------------------------------- */

/* Stops the running fiber until it may go on. */
static void stop_until(struct rbt_strand *strand, bool (*is_done)(const void *awaited),
                       const void *awaited)
{
    strand->is_done = is_done;
    strand->awaited = awaited;
    strand->state = RBT_STRAND_WAITING;
    rbt_fiber_yield();
    strand->awaited = NULL;
}

static bool is_unlocked(const void *argument)
{
    return !((const struct rbt_carrier_party *)argument)->is_locked;
}

static void lock(struct rbt_carrier *c)
{
    struct rbt_carrier_party *carrier = party_of(c);
    rbt_engine *engine = carrier->party.engine;
    while (carrier->is_locked && engine->running != NULL) {
        stop_until(engine->running, is_unlocked, carrier);
    }
    if (carrier->is_locked) {
        rbt_engine_run_until(engine, is_unlocked, carrier);
    }
    carrier->is_locked = true;
}

static void unlock(struct rbt_carrier *c)
{
    struct rbt_carrier_party *carrier = party_of(c);
    carrier->is_locked = false;
    rbt_strand_tell(carrier->party.engine, carrier);
}

static void send_all(struct rbt_carrier *c)
{
    struct rbt_carrier_party *carrier = party_of(c);
    if (carrier->party.is_gone) {
        for (uint32_t i = 0; i < c->out.count; i++) { /* nobody hears it */
            rbt_block_unref(c->out.items[i].block);
        }
        rbt_outbox_clear(&c->out);
        return;
    }
    rbt_party_perform(&carrier->party, &c->out);
}

static bool is_done(const void *argument)
{
    return rbt_carrier_is_done(argument);
}

/* Accounts for a wait of the worker; whether it was for others is known when the step is over. */
static void account(struct rbt_strand *strand, const struct rbt_carrier_party *carrier,
                    rbt_time start)
{
    const rbt_time waited = strand->engine->now - start;
    figures_of(strand)->transmit_seconds += (double)waited * 1e-9;
    if (carrier->carrier.goal == RBT_CARRIER_ANSWERS) {
        strand->waited_from = start;
    } else {
        trace(strand, "transmit", start);
    }
}

void rbt_strand_note_step(struct rbt_strand *strand, bool had_to_wait)
{
    const rbt_time start = strand->waited_from;
    const rbt_time answered = strand->carrier.answered;
    struct rbt_simulation_worker *figures = figures_of(strand);
    if (start == RBT_TIME_NEVER) {
        return; /* it did not wait */
    }
    strand->waited_from = RBT_TIME_NEVER;
    const bool is_for_others = had_to_wait && answered > start;
    if (is_for_others) {
        figures->transmit_seconds -= (double)(answered - start) * 1e-9;
        figures->wait_seconds += (double)(answered - start) * 1e-9;
    }
    trace(strand, is_for_others ? "wait" : "transmit", start);
}

static void wait(struct rbt_carrier *c)
{
    struct rbt_carrier_party *carrier = party_of(c);
    rbt_engine *engine = carrier->party.engine;
    struct rbt_strand *strand = engine->running;
    if (rbt_carrier_is_done(c)) {
        return;
    }
    if (strand == NULL) {
        rbt_engine_run_until(engine, is_done, c);
        if (!rbt_carrier_is_done(c)) { /* everything has failed */
            rbt_error_restore(&engine->error);
            rbt_caller_fail(&c->caller, engine->status);
        }
        return;
    }
    const rbt_time start = engine->now;
    carrier->waiter = strand;
    stop_until(strand, is_done, c);
    carrier->waiter = NULL;
    account(strand, carrier, start);
}

void rbt_strand_await(rbt_engine *engine, bool (*has_come)(const void *awaited),
                      const void *awaited)
{
    struct rbt_strand *strand = engine->running;
    if (strand == NULL) {
        rbt_engine_run_until(engine, has_come, awaited);
        return;
    }
    const rbt_time start = engine->now;
    while (!has_come(awaited)) {
        stop_until(strand, has_come, awaited);
    }
    figures_of(strand)->transmit_seconds += (double)(engine->now - start) * 1e-9;
    trace(strand, "transmit", start);
}

/* Machines hear of things when they happen; but whoever looks again and again must let time pass,
 * or nothing would ever happen. */
static void look(struct rbt_carrier *c)
{
    struct rbt_strand *strand = party_of(c)->party.engine->running;
    if (strand != NULL && !is_over(strand)) {
        const rbt_time start = strand->engine->now;
        sleep_for(strand, POLL_TIME);
        figures_of(strand)->compute_seconds += (double)(strand->engine->now - start) * 1e-9;
    }
}

static void glance(struct rbt_carrier *c)
{
    (void)c;
}

static rbt_time now_of(const struct rbt_carrier *c)
{
    return ((const struct rbt_carrier_party *)((const char *)c -
                                               offsetof(struct rbt_carrier_party, carrier)))
        ->party.engine->now;
}

static void count(const struct rbt_carrier *c, uint64_t bytes[2])
{
    const struct rbt_carrier_party *carrier =
        (const struct rbt_carrier_party *)((const char *)c -
                                           offsetof(struct rbt_carrier_party, carrier));
    bytes[0] = carrier->party.bytes[0];
    bytes[1] = carrier->party.bytes[1];
}

static const struct rbt_carrier_ops worker_ops = {
    .send = send_all, .wait = wait, .look = look, .glance = glance, .now = now_of, .count = count};

static const struct rbt_carrier_ops control_ops = {.lock = lock,
                                                   .unlock = unlock,
                                                   .send = send_all,
                                                   .wait = wait,
                                                   .look = look,
                                                   .glance = glance,
                                                   .now = now_of,
                                                   .count = count};

rbt_status rbt_carrier_party_init(struct rbt_carrier_party *carrier,
                                  struct rbt_process_node *process, uint32_t worker,
                                  const struct rbt_stream_options *streams)
{
    rbt_engine *engine = process->member.party.engine;
    const struct rbt_caller_options options = {.shared = &process->process.shared,
                                               .streams = streams,
                                               .worker = worker,
                                               .out = &carrier->carrier.out};
    rbt_status st = rbt_party_init(&carrier->party, RBT_PARTY_CARRIER, engine,
                                   process->member.party.node, engine->options.shard_count);
    st = st != RBT_OK ? st : rbt_caller_init(&carrier->carrier.caller, &options);
    carrier->carrier.ops = worker == RBT_FRAME_NOBODY ? &control_ops : &worker_ops;
    carrier->carrier.heard = process->process.heard;
    return st;
}

void rbt_carrier_party_deinit(struct rbt_carrier_party *carrier)
{
    rbt_caller_deinit(&carrier->carrier.caller);
    rbt_outbox_deinit(&carrier->carrier.out);
    rbt_party_deinit(&carrier->party);
}

void rbt_carrier_party_fail(struct rbt_carrier_party *carrier, rbt_status status)
{
    if (carrier->carrier.ops != NULL && carrier->carrier.caller.status == RBT_OK) {
        rbt_caller_fail(&carrier->carrier.caller, status);
        rbt_carrier_party_note(carrier);
    }
}

/* --- Life ------------------------------------------------------------------------------------ */

/* What the fiber runs. */
static void run_fiber(void *argument)
{
    struct rbt_strand *strand = argument;
    rbt_engine *engine = strand->engine;
    struct rbt_process_node *process = strand->process;
    const struct rbt_caller *caller = &strand->carrier.carrier.caller;
    const rbt_status st = engine->function(engine->argument, strand->index);
    strand->status = rbt_process_finish(&process->process, &strand->carrier.carrier, st);
    if (strand->status == RBT_OK) {
        return;
    }
    if (caller->status != RBT_OK && !process->member.party.is_gone) {
        rbt_member_party_step(&process->member, &(struct rbt_membership_event){
                                                    .kind = RBT_MEMBERSHIP_GIVE_UP,
                                                    .ending = {strand->status, rbt_last_error()}});
    }
    strand->error = strand->error != NULL ? strand->error : rbt_calloc(1, sizeof *strand->error);
    if (strand->error != NULL) {
        rbt_error_save(strand->error);
    }
}

rbt_status rbt_strand_start(struct rbt_strand *strand)
{
    rbt_strand_clear(strand);
    strand->state = RBT_STRAND_RUNNING;
    strand->waited_from = RBT_TIME_NEVER;
    rbt_rng_init(&strand->rng, strand->engine->simulation->options.seed, 2, strand->index);
    rbt_strand_draw(strand);
    return rbt_fiber_create(run_fiber, strand, STACK_BYTES, &strand->fiber);
}

void rbt_strand_clear(struct rbt_strand *strand)
{
    rbt_fiber_destroy(strand->fiber);
    rbt_free(strand->error);
    strand->fiber = NULL;
    strand->error = NULL;
    strand->status = RBT_OK;
    strand->slowdown = 1.0;
    strand->state = RBT_STRAND_ENDED;
}
