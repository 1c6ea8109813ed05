/* sim/simulation.c - a simulation as its user sees it: options, figures, the trace file. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sized.h"
#include "sim/engine.h"

#define BANDWIDTH_DEFAULT 1.25e8 /* 1 Gbit/s */
#define LATENCY_DEFAULT   1e-4

static bool is_chance(double x)
{
    return x >= 0.0 && x <= 1.0;
}

static bool is_time(double x)
{
    return x >= 0.0 && x <= 1e9;
}

/* What is wrong with the options, or NULL. */
static const char *find_mistake(const struct rbt_simulation_options *o)
{
    const struct {
        bool is_right;
        const char *text;
    } rules[] = {
        {o->threads >= 1, "a process has at least one worker"},
        {o->bandwidth > 0 && isfinite(o->bandwidth), "the bandwidth must be more than 0"},
        {is_time(o->latency < 0 ? 0 : o->latency), "the latency is a number of seconds"},
        {is_time(o->jitter), "the jitter is a number of seconds, 0 or more"},
        {is_chance(o->loss) && o->loss < 1.0, "the chance of loss is at least 0 and less than 1"},
        {is_chance(o->duplication), "the chance of duplication is between 0 and 1"},
        {is_chance(o->spike_chance), "the chance of a spike is between 0 and 1"},
        {is_time(o->spike_seconds), "a spike is a number of seconds, 0 or more"},
        {o->cuts >= 0 && o->cuts <= 1e6, "a node's connections are cut 0 times a second or more"},
        {is_chance(o->straggler_share), "the share of stragglers is between 0 and 1"},
        {o->straggler_share == 0 || o->straggler_factor >= 1.0,
         "stragglers are slow by a factor of 1 or more"},
        {isfinite(o->straggler_factor) && isfinite(o->straggler_factor_max),
         "stragglers are slow by a finite factor"},
        {is_chance(o->slowdown_chance), "the chance of a slowdown is between 0 and 1"},
        {o->slowdown_chance == 0 || (o->slowdown_factor >= 1.0 && isfinite(o->slowdown_factor)),
         "a slowdown is by a factor of 1 or more"},
        {o->oversubscription >= 1.0 && isfinite(o->oversubscription),
         "the oversubscription is a factor of 1 or more"},
        {o->oversubscription == 1.0 || o->racks > 1,
         "oversubscribed links need at least two racks"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!rules[i].is_right) {
            return rules[i].text;
        }
    }
    return NULL;
}

static rbt_status check_fault(const struct rbt_fault *fault)
{
    const bool must_end = fault->kind == RBT_FAULT_PAUSE || fault->kind == RBT_FAULT_PARTITION;
    if (fault->node == NULL) {
        return rbt_fail(RBT_E_INVALID, "a fault needs the name of a node");
    }
    if (!is_time(fault->at) || !is_time(fault->lasts)) {
        return rbt_fail(RBT_E_INVALID, "the fault of \"%s\" begins and lasts 0 seconds or more",
                        fault->node);
    }
    if (must_end && fault->lasts == 0) {
        return rbt_fail(RBT_E_INVALID, "the pause or partition of \"%s\" must end some time",
                        fault->node);
    }
    if (fault->kind == RBT_FAULT_SLOW_LINK && !(fault->factor >= 1.0 && isfinite(fault->factor))) {
        return rbt_fail(RBT_E_INVALID, "the link of \"%s\" is slow by a factor of 1 or more",
                        fault->node);
    }
    return RBT_OK;
}

static rbt_status copy_faults(rbt_simulation *simulation)
{
    const struct rbt_simulation_options *options = &simulation->options;
    simulation->faults = rbt_calloc(options->fault_count + 1, sizeof *simulation->faults);
    if (simulation->faults == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a simulation");
    }
    for (size_t i = 0; i < options->fault_count; i++) {
        const rbt_status st = check_fault(&options->faults[i]);
        if (st != RBT_OK) {
            return st;
        }
        simulation->faults[i] = options->faults[i];
        simulation->faults[i].node = rbt_strdup(options->faults[i].node);
        if (simulation->faults[i].node == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate a simulation");
        }
    }
    return RBT_OK;
}

static void fill_defaults(struct rbt_simulation_options *options)
{
    options->threads = options->threads == 0 ? 1 : options->threads;
    options->bandwidth = options->bandwidth == 0 ? BANDWIDTH_DEFAULT : options->bandwidth;
    options->latency = options->latency == 0 ? LATENCY_DEFAULT : options->latency;
    options->racks = options->racks == 0 ? 1 : options->racks;
    options->oversubscription = options->oversubscription == 0 ? 1 : options->oversubscription;
}

rbt_status rbt_simulation_open(const struct rbt_simulation_options *options,
                               rbt_simulation **simulation)
{
    struct rbt_simulation_options full = {.struct_size = sizeof full};
    const rbt_status taken = rbt_sized_take(&full, options, sizeof full);
    if (taken != RBT_OK) {
        return taken;
    }
    rbt_simulation *s = rbt_calloc(1, sizeof *s);
    if (s == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a simulation");
    }
    s->options = full;
    fill_defaults(&s->options);
    const char *mistake = find_mistake(&s->options);
    rbt_status st = mistake != NULL ? rbt_fail(RBT_E_INVALID, "%s", mistake) : copy_faults(s);
    if (st == RBT_OK && s->options.trace != NULL) {
        st = rbt_trace_open(s->options.trace, &s->trace);
    }
    if (st != RBT_OK) {
        (void)rbt_simulation_close(s); /* the first failure is the one to tell */
        return st;
    }
    *simulation = s;
    return RBT_OK;
}

rbt_status rbt_simulation_close(rbt_simulation *simulation)
{
    if (simulation == NULL) {
        return RBT_OK;
    }
    RBT_ASSERT(simulation->engine == NULL); /* jobs are closed first */
    for (size_t i = 0; simulation->faults != NULL && i < simulation->options.fault_count; i++) {
        rbt_free((char *)(uintptr_t)simulation->faults[i].node); /* our own copy */
    }
    rbt_free(simulation->faults);
    rbt_free(simulation->workers);
    rbt_free(simulation->nodes);
    rbt_free(simulation->racks);
    rbt_status st = simulation->trace != NULL ? rbt_trace_close(simulation->trace) : RBT_OK;
    if (st == RBT_OK && simulation->status != RBT_OK) {
        rbt_error_restore(&simulation->error);
        st = simulation->status;
    }
    rbt_free(simulation);
    return st;
}

rbt_status rbt_simulation_stats(const rbt_simulation *simulation,
                                struct rbt_simulation_stats *stats)
{
    struct rbt_simulation_stats full = simulation->totals;
    for (uint32_t i = 0; i < simulation->worker_count; i++) {
        full.compute_seconds += simulation->workers[i].compute_seconds;
        full.transmit_seconds += simulation->workers[i].transmit_seconds;
        full.wait_seconds += simulation->workers[i].wait_seconds;
        full.idle_seconds += simulation->workers[i].idle_seconds;
    }
    return rbt_sized_give(stats, &full, sizeof full);
}

static rbt_status not_found(const char *what, uint32_t index, uint32_t count)
{
    return rbt_fail(RBT_E_NOTFOUND, "there is no %s %u: there are %u", what, index, count);
}

rbt_status rbt_simulation_worker(const rbt_simulation *simulation, uint32_t index,
                                 struct rbt_simulation_worker *worker)
{
    const struct rbt_simulation_worker *workers = simulation->workers;
    return index < simulation->worker_count
               ? rbt_sized_give(worker, &workers[index], sizeof workers[index])
               : not_found("worker", index, simulation->worker_count);
}

rbt_status rbt_simulation_node(const rbt_simulation *simulation, uint32_t index,
                               struct rbt_simulation_node *node)
{
    const struct rbt_simulation_node *nodes = simulation->nodes;
    return index < simulation->node_count ? rbt_sized_give(node, &nodes[index], sizeof nodes[index])
                                          : not_found("node", index, simulation->node_count);
}

rbt_status rbt_simulation_rack(const rbt_simulation *simulation, uint32_t index,
                               struct rbt_simulation_rack *rack)
{
    const struct rbt_simulation_rack *racks = simulation->racks;
    return index < simulation->rack_count ? rbt_sized_give(rack, &racks[index], sizeof racks[index])
                                          : not_found("rack", index, simulation->rack_count);
}
