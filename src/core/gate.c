/* core/gate.c - the staleness gate of a shard.
 *
 * A read with staleness s at worker clock c may be answered once every worker has completed c - s
 * clocks, that is, once the smallest worker clock ("floor") has reached need = c - s. Until then
 * the read is parked here. The gate holds no rows: the shard asks it what may happen.
 *
 * Invariants:
 *   (1) floor == min(clocks[0 .. worker_count)), and it never decreases between two resets.
 *   (2) Every parked read has need > floor: whatever can be answered has been answered.
 *   (3) Parked reads are in arrival order, so that equal schedules give equal runs.
 *
 * Threads: none; owned by the shard. Memory: all of it in create.
 * Cost: O(worker_count + parked) per CLOCK that moves the floor, O(1) per READ. */
#include "core/gate.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"

struct parked_read {
    uint64_t request;
    int64_t need; /* answer when floor >= need */
};

struct rbt_gate {
    int64_t floor;
    uint32_t at_floor; /* workers whose clock is the floor: it rises when the last one does */
    int64_t *clocks;   /* worker_count entries */
    uint32_t worker_count;
    struct parked_read *parked; /* parked_max entries, parked_count in use */
    uint32_t parked_count;
    uint32_t parked_max;
};

rbt_status rbt_gate_create(const struct rbt_gate_options *options, rbt_gate **gate)
{
    RBT_ASSERT(options->worker_count > 0);
    RBT_ASSERT(options->parked_max > 0);
    rbt_gate *g = rbt_calloc(1, sizeof *g);
    if (g == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a gate");
    }
    g->worker_count = options->worker_count;
    g->at_floor = options->worker_count;
    g->parked_max = options->parked_max;
    g->clocks = rbt_calloc(g->worker_count, sizeof *g->clocks);
    g->parked = rbt_calloc(g->parked_max, sizeof *g->parked);
    if (g->clocks == NULL || g->parked == NULL) {
        rbt_gate_destroy(g);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a gate for %u workers",
                        options->worker_count);
    }
    *gate = g;
    return RBT_OK;
}

void rbt_gate_destroy(rbt_gate *gate)
{
    if (gate == NULL) {
        return;
    }
    rbt_free(gate->parked);
    rbt_free(gate->clocks);
    rbt_free(gate);
}

/* By looking at every clock. */
static int64_t min_clock(const rbt_gate *gate)
{
    RBT_DEBUG_ASSERT(gate->worker_count > 0);
    int64_t min = RBT_CLOCK_GONE;
    for (uint32_t i = 0; i < gate->worker_count; i++) {
        RBT_DEBUG_ASSERT(gate->clocks[i] >= 0);
        min = gate->clocks[i] < min ? gate->clocks[i] : min;
    }
    return min;
}

static uint32_t count_at(const rbt_gate *gate, int64_t clock)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gate->worker_count; i++) {
        count += gate->clocks[i] == clock;
    }
    RBT_ASSERT(count > 0);
    RBT_ASSERT(count <= gate->worker_count);
    return count;
}

static void emit(struct rbt_gate_outbox *out, uint64_t request, rbt_status status)
{
    RBT_ASSERT(status == RBT_OK || status == RBT_E_BUSY);
    RBT_ASSERT(out->effects != NULL);
    out->effects[out->count++] = (struct rbt_gate_effect){.request = request, .status = status};
}

/* Answers every parked read whose time has come, keeping the others in order. */
static void settle(rbt_gate *gate, struct rbt_gate_outbox *out)
{
    RBT_ASSERT(gate->floor >= 0);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < gate->parked_count; i++) {
        const struct parked_read read = gate->parked[i];
        if (read.need <= gate->floor && !RBT_MUTANT(NO_WAKING)) {
            emit(out, read.request, RBT_OK);
        } else {
            gate->parked[kept++] = read;
        }
    }
    RBT_ASSERT(kept <= gate->parked_count);
    gate->parked_count = kept;
}

static void advance(rbt_gate *gate, uint32_t worker, int64_t clock, struct rbt_gate_outbox *out)
{
    RBT_ASSERT(worker < gate->worker_count);
    if (clock <= gate->clocks[worker]) {
        return; /* a repeated message */
    }
    const bool was_at_floor = gate->clocks[worker] == gate->floor;
    gate->clocks[worker] = clock;
    gate->at_floor -= was_at_floor;
    if (gate->at_floor > 0) {
        return;
    }
    const int64_t floor = min_clock(gate); /* once per floor, not per clock */
    RBT_ASSERT(floor > gate->floor);       /* (1) */
    gate->floor = floor;
    gate->at_floor = count_at(gate, floor);
    settle(gate, out);
}

static void park(rbt_gate *gate, const struct rbt_gate_event *read, struct rbt_gate_outbox *out)
{
    RBT_ASSERT(read->need > gate->floor);
    if (gate->parked_count == gate->parked_max) {
        emit(out, read->request, RBT_E_BUSY);
        return;
    }
    gate->parked[gate->parked_count++] =
        (struct parked_read){.request = read->request, .need = read->need};
    RBT_ASSERT(gate->parked_count <= gate->parked_max);
}

/* (1) and (2). */
static bool invariants_hold(const rbt_gate *gate)
{
    for (uint32_t i = 0; i < gate->parked_count; i++) {
        if (gate->parked[i].need <= gate->floor) {
            return false;
        }
    }
    return gate->floor == min_clock(gate) && gate->at_floor == count_at(gate, gate->floor);
}

void rbt_gate_step(rbt_gate *gate, const struct rbt_gate_event *event, struct rbt_gate_outbox *out)
{
    RBT_ASSERT(gate->parked_count <= gate->parked_max);
    RBT_ASSERT(event->kind != RBT_GATE_CLOCK || event->clock >= 0);
    switch (event->kind) {
    case RBT_GATE_READ:
        if (event->need <= gate->floor + RBT_MUTANT(NO_WAITING)) {
            emit(out, event->request, RBT_OK);
        } else {
            park(gate, event, out);
        }
        break;
    case RBT_GATE_CLOCK:
        advance(gate, event->worker, event->clock, out);
        break;
    case RBT_GATE_RESET:
        RBT_ASSERT(gate->parked_count == 0); /* nobody is running */
        memset(gate->clocks, 0, gate->worker_count * sizeof *gate->clocks);
        gate->floor = 0;
        gate->at_floor = gate->worker_count;
        break;
    }
    RBT_DEBUG_ASSERT(invariants_hold(gate));
    (void)invariants_hold; /* used by debug builds */
    RBT_ASSERT(out->count <= gate->parked_max + 1);
}

int64_t rbt_gate_floor(const rbt_gate *gate)
{
    RBT_DEBUG_ASSERT(gate->floor == min_clock(gate));
    RBT_ASSERT(gate->floor >= 0);
    return gate->floor;
}

int64_t rbt_gate_floor_if(const rbt_gate *gate, uint32_t worker, int64_t clock)
{
    RBT_ASSERT(clock >= 0);
    RBT_ASSERT(worker < gate->worker_count);
    if (gate->clocks[worker] > gate->floor || gate->at_floor > 1) {
        return gate->floor; /* somebody else holds it */
    }
    int64_t min = clock > gate->clocks[worker] ? clock : gate->clocks[worker];
    for (uint32_t i = 0; i < gate->worker_count; i++) {
        if (i != worker && gate->clocks[i] < min) {
            min = gate->clocks[i];
        }
    }
    RBT_ASSERT(min >= gate->floor);
    return min;
}

int64_t rbt_gate_clock(const rbt_gate *gate, uint32_t worker)
{
    RBT_ASSERT(worker < gate->worker_count);
    RBT_DEBUG_ASSERT(gate->clocks[worker] >= gate->floor);
    return gate->clocks[worker];
}

uint32_t rbt_gate_parked(const rbt_gate *gate)
{
    RBT_ASSERT(gate->parked_max > 0);
    RBT_ASSERT(gate->parked_count <= gate->parked_max);
    return gate->parked_count;
}

void rbt_gate_save(const rbt_gate *gate, struct rbt_sink *sink)
{
    RBT_ASSERT(gate->worker_count > 0);
    RBT_ASSERT(gate->floor == min_clock(gate)); /* (1) */
    rbt_sink_put_u32(sink, gate->worker_count);
    rbt_sink_put(sink, gate->clocks, gate->worker_count * sizeof *gate->clocks);
}

void rbt_gate_load(rbt_gate *gate, struct rbt_source *source)
{
    RBT_ASSERT(gate->parked_count == 0);
    if (rbt_source_get_u32(source) != gate->worker_count) {
        rbt_source_refuse(source, "it is of another number of workers");
    }
    for (uint32_t i = 0; i < gate->worker_count && rbt_source_is_good(source); i++) {
        const int64_t clock = rbt_source_get_i64(source);
        if (clock < 0 || (clock > INT64_MAX / 2 && clock != RBT_CLOCK_GONE)) {
            rbt_source_refuse(source, "a clock is out of range");
            return;
        }
        gate->clocks[i] = clock;
    }
    gate->floor = min_clock(gate);
    gate->at_floor = count_at(gate, gate->floor);
    RBT_ASSERT(gate->at_floor > 0);
}

void rbt_gate_save_parked(const rbt_gate *gate, struct rbt_sink *sink)
{
    RBT_ASSERT(gate->parked_count <= gate->parked_max);
    rbt_sink_put_u64(sink, gate->parked_count);
    for (uint32_t i = 0; i < gate->parked_count; i++) {
        RBT_ASSERT(gate->parked[i].need > gate->floor); /* (2) */
        rbt_sink_put_u64(sink, gate->parked[i].request);
        rbt_sink_put_i64(sink, gate->parked[i].need);
    }
}

void rbt_gate_load_parked(rbt_gate *gate, struct rbt_source *source)
{
    RBT_ASSERT(gate->parked_count == 0);
    const uint64_t count = rbt_source_get_count(source, 2 * sizeof(uint64_t));
    if (count > gate->parked_max) {
        rbt_source_refuse(source, "more requests wait than may");
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t request = rbt_source_get_u64(source);
        const int64_t need = rbt_source_get_i64(source);
        if (need <= gate->floor) { /* (2) */
            rbt_source_refuse(source, "a request waits for nothing");
            return;
        }
        gate->parked[gate->parked_count++] = (struct parked_read){.request = request, .need = need};
    }
    RBT_ASSERT(gate->parked_count <= gate->parked_max);
}
