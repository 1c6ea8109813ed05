/* sim/driver.c - the simulated driver: a whole cluster on one thread, one event after the other.
 *
 * Virtual time stands still while a fiber runs or a server works on a message; it moves on when the
 * next event is taken out of the queue. Everything random comes from the seed, and events of the
 * same moment happen in the order in which they were scheduled: so a run can be repeated, bit for
 * bit.
 *
 * What is not simulated: opening tables and changing their staleness happen at once, everywhere. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "rule/rule.h"
#include "sim/aggregator.h"
#include "sim/cluster.h"
#include "sim/rack.h"
#include "sim/stable.h"
#include "sim/weigh.h"
#include "sim/worker.h"

#define MESSAGE_COST rbt_sim_time(2e-6)   /* of a receiver's processor, per message */
#define STUCK_TIME   rbt_sim_time(3600.0) /* see stuck_after; plus 1000 times the way */

static rbt_sim_cluster *cluster_of(rbt_driver *driver)
{
    return (rbt_sim_cluster *)driver;
}

/* --- Steps ----------------------------------------------------------------------------------- */

static rbt_status note_table(rbt_sim_cluster *cluster, const struct rbt_shard_event *event)
{
    const struct rbt_shard_table *schema = event->schema;
    struct rbt_message_table *table = &cluster->tables[event->table];
    table->element_size = rbt_merge_size(schema->type);
    table->row_size = table->element_size * schema->width;
    table->kind = (struct rbt_merge_kind){schema->type, schema->merge};
    table->is_sparse = schema->layout == RBT_SPARSE;
    table->has_rule = schema->rule != NULL && schema->rule[0] != '\0';
    table->is_synchronised = table->has_rule && schema->is_synchronised;
    if (cluster->table_count <= event->table) {
        cluster->table_count = event->table + 1;
    }
    const char *filter = schema->filter == NULL ? "" : schema->filter;
    if (table->weigher != NULL && rbt_weigher_has_text(table->weigher, filter)) {
        return RBT_OK;
    }
    rbt_weigher_destroy(table->weigher); /* of a table that could not be opened */
    table->weigher = NULL;
    if (filter[0] == '\0') {
        return RBT_OK;
    }
    cluster->has_filters = true;
    return rbt_weigher_create(schema, cluster->worker_count, &table->weigher);
}

/* Opens a table at a server, or changes its staleness. */
static rbt_status step_table(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                             const struct rbt_shard_event *event)
{
    struct rbt_shard_table schema = *event->schema;
    struct rbt_shard_event found = *event;
    found.schema = &schema;
    rbt_status st = note_table(cluster, event);
    st = st != RBT_OK ? st : rbt_sim_aggregator_check(cluster, event->table, schema.name);
    if (st == RBT_OK && cluster->tables[event->table].has_rule) {
        st = rbt_rule_find(schema.rule, &schema.code);
    }
    return st != RBT_OK ? st : rbt_server_step_now(cluster, server, &found);
}

static void step(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    rbt_sim_cluster *cluster = cluster_of(driver);
    const enum rbt_shard_kind kind = count == 0 ? RBT_SHARD_RESET : calls[0].event.kind;
    const bool is_aside = kind == RBT_SHARD_SCAN && calls[0].event.is_aside;
    if (cluster->running != NULL && kind != RBT_SHARD_TABLE && kind != RBT_SHARD_RESET &&
        !is_aside) {
        rbt_sim_worker_step(cluster, cluster->running, calls, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct rbt_sim_server *server = &cluster->servers[calls[i].shard];
        RBT_ASSERT(calls[i].event.kind == RBT_SHARD_TABLE ||
                   calls[i].event.kind == RBT_SHARD_RESET || is_aside);
        const rbt_status st = calls[i].event.kind == RBT_SHARD_TABLE
                                  ? step_table(cluster, server, &calls[i].event)
                                  : rbt_server_step_now(cluster, server, &calls[i].event);
        calls[i].reply = (struct rbt_driver_reply){
            .status = st, .floor = server->floor, .version = server->version};
    }
}

static int64_t floor_of(rbt_driver *driver, uint32_t shard)
{
    rbt_sim_cluster *cluster = cluster_of(driver);
    return cluster->running != NULL ? rbt_sim_worker_floor(cluster, cluster->running, shard)
                                    : cluster->servers[shard].floor;
}

static uint64_t version_of(rbt_driver *driver, uint32_t shard)
{
    const rbt_sim_cluster *cluster = cluster_of(driver);
    return cluster->running != NULL ? cluster->running->links[shard].version
                                    : cluster->servers[shard].version;
}

static uint64_t stable_of(rbt_driver *driver, uint32_t worker, uint32_t table)
{
    return rbt_stable_of(cluster_of(driver), worker, table);
}

static rbt_time now(rbt_driver *driver)
{
    return cluster_of(driver)->now - cluster_of(driver)->began;
}

static void spend(rbt_driver *driver, uint32_t index, double seconds)
{
    rbt_sim_cluster *cluster = cluster_of(driver);
    RBT_ASSERT(cluster->running == &cluster->workers[index]);
    rbt_sim_worker_spend(cluster, cluster->running, seconds);
}

/* The worker whose fiber it is; the calls are all of one worker. */
static void ask_early(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    rbt_sim_cluster *cluster = cluster_of(driver);
    RBT_ASSERT(cluster->running == &cluster->workers[calls[0].event.worker]);
    rbt_sim_worker_ask_early(cluster, cluster->running, calls, count);
}

static bool take_early(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    rbt_sim_cluster *cluster = cluster_of(driver);
    RBT_ASSERT(cluster->running == &cluster->workers[calls[0].event.worker]);
    return rbt_sim_worker_take_early(cluster, cluster->running, calls, count);
}

static uint64_t heard(rbt_driver *driver, uint32_t worker)
{
    const rbt_sim_cluster *cluster = cluster_of(driver);
    return rbt_sim_worker_heard(cluster, &cluster->workers[worker]);
}

static bool is_far(rbt_driver *driver, uint32_t worker, uint32_t shard)
{
    return rbt_rack_is_far(cluster_of(driver), worker, shard);
}

static uint64_t far_rate(rbt_driver *driver, uint32_t worker)
{
    const rbt_sim_cluster *cluster = cluster_of(driver);
    return rbt_rack_rate(cluster, cluster->workers[worker].node);
}

static uint64_t heard_of(rbt_driver *driver, uint32_t worker, bool is_far_one)
{
    const rbt_sim_cluster *cluster = cluster_of(driver);
    return rbt_sim_worker_heard_of(cluster, &cluster->workers[worker], is_far_one);
}

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_stats(rbt_driver *driver, struct rbt_job_stats *stats)
{
    rbt_sim_cluster *cluster = cluster_of(driver);
    if (cluster->running != NULL) { /* whoever asks may want to know of nodes as well */
        rbt_simulation_note(cluster);
    }
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        struct rbt_shard_stats shard;
        rbt_shard_stats(cluster->servers[i].shard, &shard);
        stats->updates += shard.updates;
        stats->duplicates += shard.duplicates;
        stats->rows += shard.rows;
        stats->server_bytes += shard.bytes;
        stats->rule_bytes += shard.rule_bytes;
        stats->rule_bytes_max += shard.rule_bytes_max;
        stats->versions_max = higher(stats->versions_max, shard.versions_max);
        stats->snapshots_max = higher(stats->snapshots_max, shard.snapshots_max);
    }
    for (uint32_t i = 0; i < cluster->table_count; i++) {
        if (cluster->tables[i].weigher != NULL) {
            rbt_weigher_stats(cluster->tables[i].weigher, stats);
        }
    }
}

/* --- Events ---------------------------------------------------------------------------------- */

/* The node that the event happens at; it may stand still. */
static uint32_t node_of(const rbt_sim_cluster *cluster, const struct rbt_agenda_event *event)
{
    switch ((enum rbt_sim_cluster_event)event->kind) {
    case RBT_EVENT_DELIVER:
        return rbt_sim_cluster_addressee(event->what);
    case RBT_EVENT_WAKE:
        return cluster->workers[event->index].node;
    case RBT_EVENT_TIMER:
    case RBT_EVENT_BEAT:
    case RBT_EVENT_WATCH:
    case RBT_EVENT_EXPIRE:
        return event->index;
    case RBT_EVENT_ARRIVE:
    case RBT_EVENT_FAULT:
    case RBT_EVENT_HEAL:
        break; /* happen whether somebody is there or not */
    }
    return UINT32_MAX;
}

static void deliver(rbt_sim_cluster *cluster, void *envelope)
{
    const uint32_t to = rbt_sim_cluster_addressee(envelope);
    struct rbt_message *message = rbt_sim_cluster_open(cluster, envelope);
    if (message == NULL) {
        return;
    }
    const uint32_t first_process = RBT_NODE_SERVERS + cluster->server_count;
    if (to == RBT_NODE_COORDINATOR) {
        rbt_coordinator_receive(cluster, message);
    } else if (message->kind == RBT_MESSAGE_STABLE) {
        rbt_stable_hear(cluster, message);
    } else if (to < first_process) {
        rbt_server_receive(cluster, &cluster->servers[to - RBT_NODE_SERVERS], message);
    } else if (message->kind == RBT_MESSAGE_PUSH || message->kind == RBT_MESSAGE_TAKEN ||
               message->kind == RBT_MESSAGE_SPLIT) {
        rbt_sim_aggregator_receive(cluster, to, message);
    } else {
        rbt_sim_worker_receive(cluster, &cluster->workers[message->worker], message);
    }
    rbt_message_unref(message);
}

static void handle(rbt_sim_cluster *cluster, const struct rbt_agenda_event *event)
{
    const uint32_t node = node_of(cluster, event);
    if (node != UINT32_MAX && cluster->nodes[node].paused_until > cluster->now) {
        rbt_sim_cluster_schedule(cluster, cluster->nodes[node].paused_until,
                                 (enum rbt_sim_cluster_event)event->kind, event->index,
                                 event->what);
        return;
    }
    switch ((enum rbt_sim_cluster_event)event->kind) {
    case RBT_EVENT_ARRIVE:
        rbt_sim_cluster_arrive(cluster, event->what);
        break;
    case RBT_EVENT_DELIVER:
        deliver(cluster, event->what);
        break;
    case RBT_EVENT_WAKE:
        rbt_sim_worker_wake(cluster, &cluster->workers[event->index]);
        break;
    case RBT_EVENT_TIMER:
        rbt_link_expire(cluster, event->what);
        break;
    case RBT_EVENT_FAULT:
        rbt_fault_begin(cluster, event->index);
        break;
    case RBT_EVENT_HEAL:
        rbt_fault_end(cluster, event->index);
        break;
    case RBT_EVENT_BEAT:
        rbt_coordinator_beat(cluster, event->index);
        break;
    case RBT_EVENT_WATCH:
        rbt_coordinator_watch(cluster);
        break;
    case RBT_EVENT_EXPIRE:
        rbt_sim_aggregator_expire(cluster, event->index);
        break;
    }
}

/* Writes down what is about to happen, for whoever looks. */
static void describe(rbt_sim_cluster *cluster, const struct rbt_agenda_event *event)
{
    static const char *const names[] = {"arrive", "deliver", "wake",  "timer", "fault",
                                        "heal",   "beat",    "watch", "expire"};
    const uint32_t node = node_of(cluster, event);
    cluster->seen = (struct rbt_inspect_event){
        .at = event->at - cluster->began,
        .what = names[event->kind],
        .message = "",
        .from = "",
        .to = node == UINT32_MAX ? "" : cluster->nodes[node].name,
        .worker = event->kind == RBT_EVENT_WAKE ? event->index : UINT32_MAX};
    if (event->kind == RBT_EVENT_FAULT || event->kind == RBT_EVENT_HEAL) {
        cluster->seen.to = cluster->simulation->faults[event->index].node;
    }
    if (event->kind == RBT_EVENT_DELIVER) {
        rbt_sim_cluster_describe(cluster, event->what, &cluster->seen);
    }
    if (node != UINT32_MAX && cluster->nodes[node].paused_until > cluster->now) {
        cluster->seen.what = "postponed";
    } else if (event->kind == RBT_EVENT_DELIVER && cluster->nodes[node].is_down) {
        cluster->seen.what = "dropped";
    }
}

/* Whether all workers have ended and all servers know. */
static bool is_over(const rbt_sim_cluster *cluster)
{
    if (cluster->ended_count < cluster->worker_count) {
        return false;
    }
    for (uint32_t i = 0; cluster->status == RBT_OK && i < cluster->server_count; i++) {
        if (cluster->servers[i].gone_count < cluster->worker_count) {
            return false;
        }
    }
    return true;
}

/* Ends all workers, because the run has failed. */
static void close_all(rbt_sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        rbt_error_restore(&cluster->error);
        rbt_sim_worker_close(cluster, &cluster->workers[i]);
    }
}

static void look_whether_stuck(rbt_sim_cluster *cluster)
{
    if (cluster->now - cluster->last_step < cluster->stuck_after) {
        return;
    }
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        if (cluster->workers[i].state == RBT_WORKER_COMPUTING) {
            return;
        }
    }
    rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_CLOSED,
                                           "the workers have waited in vain for %.0f "
                                           "virtual seconds",
                                           (double)cluster->stuck_after * 1e-9));
}

/* Takes events until everything is over. */
static void run_events(rbt_sim_cluster *cluster)
{
    const struct rbt_simulation_observer *observer = &cluster->simulation->options.observer;
    struct rbt_agenda_event event;
    while (!is_over(cluster)) {
        const bool has_event = rbt_agenda_take(&cluster->queue, &event);
        RBT_ASSERT(has_event); /* the coordinator never stops watching */
        cluster->now = event.at;
        cluster->simulation->totals.events++;
        if (observer->on_event != NULL) {
            describe(cluster, &event);
        }
        handle(cluster, &event);
        if (observer->on_event != NULL &&
            !observer->on_event(observer->context, cluster->simulation)) {
            rbt_sim_cluster_fail(cluster, RBT_E_CLOSED);
        }
        look_whether_stuck(cluster);
        if (cluster->status != RBT_OK) {
            close_all(cluster);
        }
    }
}

/* --- Runs ------------------------------------------------------------------------------------ */

static rbt_status start_run(rbt_sim_cluster *cluster)
{
    const rbt_simulation *simulation = cluster->simulation;
    for (uint32_t i = 0; i < cluster->table_count; i++) {
        if (cluster->tables[i].weigher != NULL) {
            rbt_weigher_reset(cluster->tables[i].weigher);
        }
    }
    rbt_sim_cluster_heal(cluster); /* the last run may have ended in the middle of a fault */
    rbt_status st = rbt_coordinator_start(cluster);
    for (uint32_t i = 0; st == RBT_OK && i < cluster->worker_count; i++) {
        rbt_sim_worker_clear(cluster, &cluster->workers[i]);
        st = rbt_sim_worker_start(cluster, &cluster->workers[i]);
    }
    for (uint32_t i = 0; i < simulation->options.fault_count; i++) {
        rbt_sim_cluster_schedule(cluster, cluster->now + rbt_sim_time(simulation->faults[i].at),
                                 RBT_EVENT_FAULT, i, NULL);
    }
    return st;
}

/* Starts every fiber at time 0 and runs what follows from that. */
static void run_workers(rbt_sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        rbt_sim_worker_resume(cluster, &cluster->workers[i]);
    }
    run_events(cluster);
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        cluster->simulation->workers[i].idle_seconds +=
            (double)(cluster->now - cluster->workers[i].ended_at) * 1e-9;
    }
}

/* The first failure by number; a process that crashed is not one. */
static rbt_status collect_status(const rbt_sim_cluster *cluster)
{
    if (cluster->status != RBT_OK) {
        rbt_error_restore(&cluster->error);
        return cluster->status;
    }
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const struct rbt_sim_worker *worker = &cluster->workers[i];
        if (worker->status != RBT_OK && !worker->was_crashed) {
            if (worker->error != NULL) {
                rbt_error_restore(worker->error);
            }
            return worker->status;
        }
    }
    return RBT_OK;
}

/* Forgets what was still on its way when everything was over. */
static void end_run(rbt_sim_cluster *cluster)
{
    struct rbt_agenda_event event;
    while (rbt_agenda_take(&cluster->queue, &event)) {
        if (event.kind == RBT_EVENT_ARRIVE || event.kind == RBT_EVENT_DELIVER) {
            rbt_sim_cluster_discard(cluster, event.what);
        }
    }
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        rbt_server_clear(cluster, &cluster->servers[i]);
    }
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        rbt_sim_worker_clear(cluster, &cluster->workers[i]);
    }
    rbt_sim_aggregator_clear(cluster);
    rbt_coordinator_stop(cluster);
}

static rbt_status run(rbt_driver *driver, rbt_status (*function)(void *argument, uint32_t index),
                      void *argument)
{
    rbt_sim_cluster *cluster = cluster_of(driver);
    cluster->function = function;
    cluster->argument = argument;
    cluster->began = cluster->now;
    cluster->last_step = cluster->now;
    cluster->ended_count = 0;
    cluster->status = RBT_OK;
    rbt_status st = start_run(cluster);
    if (st == RBT_OK) {
        run_workers(cluster);
        st = collect_status(cluster);
    }
    rbt_simulation_note(cluster);
    rbt_sim_cluster_end_traffic(cluster);
    end_run(cluster);
    return st;
}

/* --- Opening and closing --------------------------------------------------------------------- */

static void close_cluster(rbt_driver *driver)
{
    rbt_sim_cluster *cluster = cluster_of(driver);
    for (uint32_t i = 0; cluster->workers != NULL && i < cluster->worker_count; i++) {
        rbt_sim_worker_deinit(cluster, &cluster->workers[i]);
    }
    for (uint32_t i = 0; cluster->servers != NULL && i < cluster->server_count; i++) {
        rbt_server_deinit(cluster, &cluster->servers[i]);
    }
    for (uint32_t i = 0; cluster->tables != NULL && i < cluster->table_max; i++) {
        rbt_weigher_destroy(cluster->tables[i].weigher);
    }
    rbt_sim_aggregator_empty(cluster);
    rbt_coordinator_stop(cluster);
    rbt_sim_cluster_free_spare(cluster);
    rbt_message_free_pool(&cluster->pool);
    rbt_free(cluster->stable);
    rbt_free(cluster->versions);
    rbt_free(cluster->coordinator_links);
    rbt_free(cluster->member_effects);
    rbt_free(cluster->released);
    rbt_free(cluster->tables);
    rbt_free(cluster->workers);
    rbt_free(cluster->servers);
    rbt_free(cluster->nodes);
    rbt_network_destroy(cluster->network);
    rbt_agenda_deinit(&cluster->queue);
    cluster->simulation->cluster = NULL;
    rbt_free(cluster);
}

static const struct rbt_driver_ops ops = {.step = step,
                                          .ask_early = ask_early,
                                          .take_early = take_early,
                                          .heard = heard,
                                          .is_far = is_far,
                                          .far_rate = far_rate,
                                          .heard_of = heard_of,
                                          .floor = floor_of,
                                          .version = version_of,
                                          .stable = stable_of,
                                          .run = run,
                                          .now = now,
                                          .spend = spend,
                                          .stats = add_stats,
                                          .close = close_cluster};

static rbt_status allocate(rbt_sim_cluster *cluster, uint32_t table_max)
{
    cluster->nodes = rbt_calloc(cluster->node_count, sizeof *cluster->nodes);
    cluster->servers = rbt_calloc(cluster->server_count, sizeof *cluster->servers);
    cluster->workers = rbt_calloc(cluster->worker_count, sizeof *cluster->workers);
    cluster->tables = rbt_calloc(table_max, sizeof *cluster->tables);
    cluster->released = rbt_calloc(RBT_LINK_WINDOW, sizeof *cluster->released);
    cluster->member_effects =
        rbt_calloc(2 * (size_t)cluster->node_count, sizeof *cluster->member_effects);
    cluster->coordinator_links =
        rbt_calloc(cluster->server_count, sizeof *cluster->coordinator_links);
    cluster->versions =
        rbt_calloc((size_t)table_max * cluster->server_count, sizeof *cluster->versions);
    cluster->stable = rbt_calloc((size_t)table_max * cluster->node_count, sizeof *cluster->stable);
    if (cluster->nodes == NULL || cluster->servers == NULL || cluster->workers == NULL ||
        cluster->tables == NULL || cluster->released == NULL || cluster->member_effects == NULL ||
        cluster->coordinator_links == NULL || cluster->versions == NULL ||
        cluster->stable == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a cluster of %u nodes",
                        cluster->node_count);
    }
    return RBT_OK;
}

static void name_nodes(rbt_sim_cluster *cluster)
{
    rbt_trace *trace = cluster->simulation->trace;
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        char *name = cluster->nodes[i].name;
        const size_t size = sizeof cluster->nodes[i].name;
        const uint32_t first_process = RBT_NODE_SERVERS + cluster->server_count;
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
    for (uint32_t i = 0; trace != NULL && i < cluster->worker_count; i++) {
        char name[32];
        snprintf(name, sizeof name, "worker %u", i);
        const uint32_t node = RBT_NODE_SERVERS + cluster->server_count + i / cluster->threads;
        rbt_trace_name_lane(trace, (struct rbt_trace_lane){node, i % cluster->threads}, name);
    }
}

/* Chooses the slow workers, and how slow they are. */
static rbt_status draw_stragglers(rbt_sim_cluster *cluster)
{
    const struct rbt_simulation_options *options = &cluster->simulation->options;
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, 1, 0);
    uint32_t *order = rbt_calloc(cluster->worker_count, sizeof *order);
    if (order == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a cluster");
    }
    rbt_rng_permutation(&rng, order, cluster->worker_count);
    const double share = options->straggler_share * (double)cluster->worker_count;
    const uint32_t count = (uint32_t)(share + 0.5);
    const double low = options->straggler_factor;
    const double high = options->straggler_factor_max > low ? options->straggler_factor_max : low;
    for (uint32_t i = 0; i < count; i++) {
        cluster->workers[order[i]].factor = low + (high - low) * rbt_rng_uniform(&rng);
    }
    rbt_free(order);
    return RBT_OK;
}

static rbt_status check_faults(const rbt_sim_cluster *cluster)
{
    const rbt_simulation *simulation = cluster->simulation;
    for (size_t i = 0; i < simulation->options.fault_count; i++) {
        if (rbt_node_find(cluster, simulation->faults[i].node) == UINT32_MAX) {
            return rbt_fail(
                RBT_E_INVALID,
                "there is no node \"%s\" in a cluster of %u server%s "
                "and %u worker process%s",
                simulation->faults[i].node, cluster->server_count,
                cluster->server_count == 1 ? "" : "s",
                cluster->node_count - RBT_NODE_SERVERS - cluster->server_count,
                cluster->node_count - RBT_NODE_SERVERS - cluster->server_count == 1 ? "" : "es");
        }
    }
    return RBT_OK;
}

static rbt_status fill(rbt_sim_cluster *cluster, uint32_t table_max)
{
    const struct rbt_simulation_options *options = &cluster->simulation->options;
    const struct rbt_network_options network = {
        .node_count = cluster->node_count,
        .seed = options->seed,
        .bandwidth = options->bandwidth,
        .latency = options->latency < 0 ? 0 : rbt_sim_time(options->latency),
        .jitter = rbt_sim_time(options->jitter),
        .loss = options->loss,
        .duplication = options->duplication,
        .spike_chance = options->spike_chance,
        .spike = rbt_sim_time(options->spike_seconds),
        .message_cost = MESSAGE_COST,
        .rack_count = cluster->rack_count > 1 ? cluster->rack_count : 0};
    rbt_status st = allocate(cluster, table_max);
    if (st != RBT_OK) {
        return st;
    }
    name_nodes(cluster);
    st = check_faults(cluster);
    st = st != RBT_OK ? st : rbt_network_create(&network, &cluster->network);
    if (st == RBT_OK) {
        rbt_rack_fill(cluster);
    }
    for (uint32_t i = 0; st == RBT_OK && i < cluster->server_count; i++) {
        st = rbt_server_init(cluster, i, table_max);
    }
    for (uint32_t i = 0; st == RBT_OK && i < cluster->worker_count; i++) {
        st = rbt_sim_worker_init(cluster, i);
    }
    st = st != RBT_OK ? st : rbt_sim_aggregator_fill(cluster);
    st = st != RBT_OK ? st : draw_stragglers(cluster);
    return st != RBT_OK ? st : rbt_simulation_attach(cluster);
}

rbt_status rbt_sim_open(rbt_simulation *simulation, const struct rbt_driver_options *options,
                        rbt_driver **driver)
{
    if (simulation->cluster != NULL) {
        return rbt_fail(RBT_E_BUSY, "a simulation runs one job at a time");
    }
    rbt_sim_cluster *cluster = rbt_calloc(1, sizeof *cluster);
    if (cluster == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a cluster");
    }
    const uint32_t threads = simulation->options.threads;
    cluster->driver = (rbt_driver){.ops = &ops,
                                   .process_size = threads,
                                   .worker_here = options->worker_count,
                                   .sends_ahead = true};
    cluster->simulation = simulation;
    cluster->worker_count = options->worker_count;
    cluster->server_count = options->shard_count;
    cluster->bandwidth = options->bandwidth;
    cluster->table_max = options->table_max;
    cluster->threads = threads;
    cluster->rack_count = simulation->options.racks;
    cluster->node_count =
        RBT_NODE_SERVERS + options->shard_count + (options->worker_count + threads - 1) / threads;
    simulation->cluster = cluster;
    const struct rbt_simulation_options *o = &simulation->options;
    cluster->stuck_after =
        STUCK_TIME + rbt_sim_time(1000 * (fabs(o->latency) + o->jitter + o->spike_seconds));
    rbt_status st = rbt_rack_check(cluster, options);
    st = st != RBT_OK ? st : fill(cluster, options->table_max);
    if (st != RBT_OK) {
        close_cluster(&cluster->driver);
        return st;
    }
    *driver = &cluster->driver;
    return RBT_OK;
}
