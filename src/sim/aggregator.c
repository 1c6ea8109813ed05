/* sim/aggregator.c - worker processes that add up what their rack pushes to servers in others.
 *
 * core/aggregator.c decides what goes together and when; this file carries. The message with which
 * a worker ends a clock goes to a process of its own rack, if its server is in another one;
 * whatever else the worker has to say goes straight there. The server answers the workers itself,
 * so that to them nothing is different: what is not acknowledged in time they send again, straight
 * to the server, and for a while so everything else.
 *
 * The servers of other racks are dealt out to the processes of a rack in turn. So nobody's link
 * carries more than a server's would, if there are no more servers than workers, and a cluster
 * needs no further nodes.
 *
 * Parts that wait here count as on their way: a worker does not repeat them because others are
 * late. Once they are sent on, only the message that they are in does. */
#include "sim/aggregator.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "comm/sum.h"
#include "core/aggregator.h"
#include "sim/weigh.h"

enum { DETOUR = 32 }; /* times of a session's patience: looking for it again costs little */

/* What a worker process adds up. */
struct aggregator {
    uint32_t node;
    rbt_aggregator *core;
    struct rbt_aggregator_effect *effects;
    struct rbt_message **taken; /* parts of what is to be sent: one per worker at most */
    uint32_t taken_count;
    rbt_time timer_at; /* of the event under way, or RBT_TIME_NEVER */
};

struct rbt_aggregation {
    struct aggregator *nodes;       /* per worker process */
    uint32_t count;                 /* of them */
    uint32_t *members;              /* per worker: its number in its rack */
    struct rbt_sum *sums;           /* per table: scratch */
    const struct rbt_batch **terms; /* what is added up: scratch */
    size_t term_max;
};

static uint32_t first_process(const rbt_sim_cluster *cluster)
{
    return RBT_NODE_SERVERS + cluster->server_count;
}

static struct aggregator *aggregator_at(const rbt_sim_cluster *cluster, uint32_t node)
{
    RBT_ASSERT(node >= first_process(cluster));
    return &cluster->aggregation->nodes[node - first_process(cluster)];
}

/* --- Who adds up what ------------------------------------------------------------------------ */

/* Worker processes of the rack: rack, rack + racks, and so on. */
static uint32_t processes_of(const rbt_sim_cluster *cluster, uint32_t rack)
{
    return (cluster->aggregation->count + cluster->rack_count - 1 - rack) / cluster->rack_count;
}

/* The number of a server among those of other racks, as seen from this one. */
static uint32_t far_number(const rbt_sim_cluster *cluster, uint32_t rack, uint32_t server)
{
    const uint32_t racks = cluster->rack_count;
    const uint32_t behind = (server % racks + racks - rack) % racks;
    RBT_ASSERT(behind > 0); /* it is in another rack */
    return server / racks * (racks - 1) + behind - 1;
}

/* More than the highest such number. */
static uint32_t far_count(const rbt_sim_cluster *cluster)
{
    const uint32_t racks = cluster->rack_count;
    return (cluster->server_count + racks - 1) / racks * (racks - 1);
}

/* The node of the rack that adds up for this server, and the server's number there. */
static uint32_t node_for(const rbt_sim_cluster *cluster, uint32_t rack, uint32_t server)
{
    const uint32_t turn = far_number(cluster, rack, server) % processes_of(cluster, rack);
    return first_process(cluster) + rack + turn * cluster->rack_count;
}

static uint32_t shard_at(const rbt_sim_cluster *cluster, uint32_t node, uint32_t server)
{
    const uint32_t rack = cluster->nodes[node].rack;
    return far_number(cluster, rack, server) / processes_of(cluster, rack);
}

/* How many servers there are at most for one process. */
static uint32_t shards_at(const rbt_sim_cluster *cluster, uint32_t node)
{
    const uint32_t processes = processes_of(cluster, cluster->nodes[node].rack);
    return (far_count(cluster) + processes - 1) / processes;
}

/* Numbers the workers of the rack. Returns how many it has. */
static uint32_t number_members(const rbt_sim_cluster *cluster, uint32_t rack)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        if (cluster->nodes[cluster->workers[i].node].rack == rack) {
            cluster->aggregation->members[i] = count++;
        }
    }
    return count;
}

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_sim_aggregator_check(const rbt_sim_cluster *cluster, uint32_t table,
                                    const char *name)
{
    const struct rbt_message_table *schema = &cluster->tables[table];
    const bool is_altered = schema->weigher != NULL && rbt_weigher_alters(schema->weigher);
    if (cluster->aggregation == NULL || (!schema->has_rule && !is_altered)) {
        return RBT_OK;
    }
    return rbt_fail(RBT_E_INVALID, "updates cannot be added up in the racks: table \"%s\" has %s",
                    name,
                    schema->has_rule ? "a rule, which takes them one by one"
                                     : "filters that leave some out or round them");
}

static rbt_status init(rbt_sim_cluster *cluster, uint32_t process)
{
    struct aggregator *aggregator = &cluster->aggregation->nodes[process];
    aggregator->node = first_process(cluster) + process;
    aggregator->timer_at = RBT_TIME_NEVER;
    const struct rbt_aggregator_options options = {
        .member_count = number_members(cluster, cluster->nodes[aggregator->node].rack),
        .shard_count = shards_at(cluster, aggregator->node),
        .wait = rbt_sim_time(cluster->simulation->options.aggregate_seconds)};
    const rbt_status st = rbt_aggregator_create(&options, &aggregator->core);
    if (st != RBT_OK) {
        return st;
    }
    aggregator->effects =
        rbt_calloc(rbt_aggregator_effects_max(aggregator->core), sizeof *aggregator->effects);
    aggregator->taken = rbt_calloc(options.member_count, sizeof(struct rbt_message *));
    return aggregator->effects != NULL && aggregator->taken != NULL
               ? RBT_OK
               : rbt_fail(RBT_E_NOMEM, "could not allocate a simulated aggregator");
}

rbt_status rbt_sim_aggregator_fill(rbt_sim_cluster *cluster)
{
    if (cluster->simulation->options.aggregate_seconds == 0) {
        return RBT_OK;
    }
    struct rbt_aggregation *all = rbt_calloc(1, sizeof *all);
    cluster->aggregation = all;
    if (all != NULL) {
        all->count = cluster->node_count - first_process(cluster);
        all->nodes = rbt_calloc(all->count, sizeof *all->nodes);
        all->members = rbt_calloc(cluster->worker_count, sizeof *all->members);
        all->sums = rbt_calloc(cluster->table_max, sizeof *all->sums);
    }
    if (all == NULL || all->nodes == NULL || all->members == NULL || all->sums == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate simulated aggregators");
    }
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < all->count; i++) {
        st = init(cluster, i);
    }
    return st;
}

void rbt_sim_aggregator_empty(rbt_sim_cluster *cluster)
{
    struct rbt_aggregation *all = cluster->aggregation;
    if (all == NULL) {
        return;
    }
    for (uint32_t i = 0; all->nodes != NULL && i < all->count; i++) {
        rbt_aggregator_destroy(all->nodes[i].core);
        rbt_free(all->nodes[i].effects);
        rbt_free(all->nodes[i].taken);
    }
    for (uint32_t i = 0; all->sums != NULL && i < cluster->table_max; i++) {
        rbt_sum_deinit(&all->sums[i]);
    }
    rbt_free(all->terms);
    rbt_free(all->sums);
    rbt_free(all->members);
    rbt_free(all->nodes);
    rbt_free(all);
    cluster->aggregation = NULL;
}

/* --- Adding up ------------------------------------------------------------------------------- */

/* Makes room for one more term; false without memory. */
static bool grow_terms(struct rbt_aggregation *all, size_t count)
{
    if (count < all->term_max) {
        return true;
    }
    const size_t max = all->term_max == 0 ? 16 : all->term_max * 2;
    const struct rbt_batch **terms = rbt_realloc(all->terms, max, sizeof(const struct rbt_batch *));
    if (terms == NULL) {
        return false;
    }
    all->terms = terms;
    all->term_max = max;
    return true;
}

/* Finds what the parts have for a table, in their order. */
static rbt_status find_terms(struct rbt_aggregation *all, const struct aggregator *aggregator,
                             uint32_t table, size_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < aggregator->taken_count; i++) {
        const struct rbt_shard_event *event = &aggregator->taken[i]->event;
        for (size_t k = 0; k < event->batch_count; k++) {
            if (event->batches[k].table != table) {
                continue;
            }
            if (!grow_terms(all, *count)) {
                return rbt_fail(RBT_E_NOMEM, "could not allocate a sum of updates");
            }
            all->terms[(*count)++] = &event->batches[k];
        }
    }
    return RBT_OK;
}

/* Adds up the parts that were taken, one batch per table that has any. */
static rbt_status add_up(rbt_sim_cluster *cluster, const struct aggregator *aggregator,
                         struct rbt_batch *sums, size_t *sum_count)
{
    *sum_count = 0;
    for (uint32_t table = 0; table < cluster->table_count; table++) {
        const struct rbt_message_table *schema = &cluster->tables[table];
        size_t count = 0;
        rbt_status st = find_terms(cluster->aggregation, aggregator, table, &count);
        if (st == RBT_OK && count > 0) {
            const struct rbt_sum_kind kind = {
                .merge = schema->kind,
                .width = (uint32_t)(schema->row_size / schema->element_size),
                .is_sparse = schema->is_sparse};
            st = rbt_sum_batches(&cluster->aggregation->sums[table], &kind,
                                 cluster->aggregation->terms, count, &sums[*sum_count]);
            *sum_count += 1;
        }
        if (st != RBT_OK) {
            return st;
        }
    }
    return RBT_OK;
}

/* One message with the sum of all parts that were taken; NULL, and the run fails, without memory.
 */
static struct rbt_message *merge_taken(rbt_sim_cluster *cluster,
                                       const struct aggregator *aggregator)
{
    const struct rbt_message *first = aggregator->taken[0];
    struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                    .worker = UINT32_MAX, /* the answer is not for one of them */
                                    .range = first->event.range,
                                    .clock = first->event.clock,
                                    .marker = first->event.marker};
    struct rbt_message *message = NULL;
    event.batches = rbt_calloc(cluster->table_count + 1, sizeof *event.batches);
    rbt_status st = event.batches == NULL
                        ? rbt_fail(RBT_E_NOMEM, "could not allocate a sum of updates")
                        : add_up(cluster, aggregator, event.batches, &event.batch_count);
    if (st == RBT_OK) {
        message =
            rbt_message_merge(&event, aggregator->taken, aggregator->taken_count, cluster->tables);
        st = message != NULL ? RBT_OK : rbt_fail(RBT_E_NOMEM, "could not allocate a message");
    }
    rbt_free(event.batches);
    if (st != RBT_OK) {
        rbt_sim_cluster_fail(cluster, st);
    }
    return message;
}

/* --- Carrying -------------------------------------------------------------------------------- */

static struct rbt_message *message_of(const struct rbt_aggregator_effect *effect)
{
    return (struct rbt_message *)(uintptr_t)effect->cookie;
}

static void send_taken(rbt_sim_cluster *cluster, struct aggregator *aggregator, uint64_t id)
{
    RBT_ASSERT(aggregator->taken_count > 0);
    struct rbt_message *first = aggregator->taken[0];
    if (aggregator->taken_count == 1) {
        rbt_sim_cluster_send_on(cluster, first, aggregator->node, first->to);
    } else {
        struct rbt_message *message = merge_taken(cluster, aggregator);
        if (message != NULL) {
            message->from = aggregator->node;
            message->to = first->to;
            message->shard = first->shard;
            message->id = id;
            rbt_sim_cluster_send(cluster, message);
            rbt_message_unref(message);
        }
    }
    aggregator->taken_count = 0;
}

static void perform(rbt_sim_cluster *cluster, struct aggregator *aggregator,
                    const struct rbt_aggregator_outbox *out)
{
    for (size_t i = 0; i < out->count; i++) {
        const struct rbt_aggregator_effect *effect = &out->effects[i];
        struct rbt_message *message = message_of(effect);
        switch (effect->kind) {
        case RBT_AGGREGATOR_KEEP:
            rbt_message_ref(message);
            message->on_way++;
            break;
        case RBT_AGGREGATOR_TAKE:
            message->on_way--;
            aggregator->taken[aggregator->taken_count++] = message;
            break;
        case RBT_AGGREGATOR_SEND:
            send_taken(cluster, aggregator, effect->id);
            break;
        case RBT_AGGREGATOR_FORWARD:
            rbt_sim_cluster_send_on(cluster, message, aggregator->node, message->to);
            break;
        case RBT_AGGREGATOR_RELEASE:
            rbt_message_unref(message);
            break;
        }
    }
    RBT_ASSERT(aggregator->taken_count == 0);
}

static void arm(rbt_sim_cluster *cluster, struct aggregator *aggregator)
{
    const rbt_time deadline = rbt_aggregator_deadline(aggregator->core);
    if (deadline < aggregator->timer_at) { /* one that is too early arms the next one itself */
        aggregator->timer_at = deadline;
        rbt_sim_cluster_schedule(cluster, deadline > cluster->now ? deadline : cluster->now,
                                 RBT_EVENT_EXPIRE, aggregator->node, NULL);
    }
}

void rbt_sim_aggregator_receive(rbt_sim_cluster *cluster, uint32_t node,
                                struct rbt_message *message)
{
    struct aggregator *aggregator = aggregator_at(cluster, node);
    struct rbt_aggregator_outbox out = {.effects = aggregator->effects};
    const uint32_t shard = shard_at(cluster, node, message->shard);
    if (message->kind == RBT_MESSAGE_PUSH) {
        const struct rbt_aggregator_part part = {.shard = shard,
                                                 .member =
                                                     cluster->aggregation->members[message->worker],
                                                 .clock = message->event.clock,
                                                 .cookie = (uintptr_t)message};
        rbt_aggregator_add(aggregator->core, &part, cluster->now, &out);
    } else {
        RBT_ASSERT(message->kind == RBT_MESSAGE_TAKEN || message->kind == RBT_MESSAGE_SPLIT);
        rbt_aggregator_answered(aggregator->core, shard, message->id,
                                message->kind == RBT_MESSAGE_SPLIT, &out);
    }
    perform(cluster, aggregator, &out);
    arm(cluster, aggregator);
}

void rbt_sim_aggregator_expire(rbt_sim_cluster *cluster, uint32_t node)
{
    struct aggregator *aggregator = aggregator_at(cluster, node);
    if (aggregator->timer_at > cluster->now) {
        return; /* an old timer: its parts have gone */
    }
    aggregator->timer_at = RBT_TIME_NEVER;
    while (rbt_aggregator_deadline(aggregator->core) <= cluster->now) { /* ends: one shard less */
        struct rbt_aggregator_outbox out = {.effects = aggregator->effects};
        rbt_aggregator_expire(aggregator->core, cluster->now, &out);
        perform(cluster, aggregator, &out);
    }
    arm(cluster, aggregator);
}

/* --- Which way ------------------------------------------------------------------------------- */

/* Whether the message ends a clock and has to cross between racks. */
static bool is_routed(const rbt_sim_cluster *cluster, const struct rbt_link *link,
                      const struct rbt_message *message)
{
    return cluster->aggregation != NULL && message->kind == RBT_MESSAGE_PUSH &&
           message->event.kind == RBT_SHARD_PUSH && message->event.marker != RBT_MARKER_NONE &&
           cluster->nodes[link->node].rack != cluster->nodes[message->to].rack;
}

static uint32_t node_of(const rbt_sim_cluster *cluster, const struct rbt_link *link)
{
    return node_for(cluster, cluster->nodes[link->node].rack, link->server);
}

uint32_t rbt_sim_aggregator_first_stop(const rbt_sim_cluster *cluster, const struct rbt_link *link,
                                       const struct rbt_message *message)
{
    return is_routed(cluster, link, message) && cluster->now >= link->detour_until
               ? node_of(cluster, link)
               : message->to;
}

bool rbt_sim_aggregator_is_stuck(const rbt_sim_cluster *cluster, const struct rbt_link *link,
                                 const struct rbt_message *message)
{
    return is_routed(cluster, link, message) && cluster->now >= link->detour_until &&
           cluster->nodes[node_of(cluster, link)].paused_until > cluster->now;
}

void rbt_sim_aggregator_avoid(const rbt_sim_cluster *cluster, struct rbt_link *link,
                              const struct rbt_message *message)
{
    if (is_routed(cluster, link, message)) {
        link->detour_until = cluster->now + DETOUR * rbt_session_patience(link->session);
    }
}

/* --- Forgetting ------------------------------------------------------------------------------ */

static void forget(rbt_sim_cluster *cluster, struct aggregator *aggregator)
{
    const uint32_t shards = shards_at(cluster, aggregator->node);
    for (uint32_t i = 0; i < shards; i++) {
        struct rbt_aggregator_outbox out = {.effects = aggregator->effects};
        rbt_aggregator_forget(aggregator->core, i, &out);
        for (size_t k = 0; k < out.count; k++) {
            struct rbt_message *message = message_of(&out.effects[k]);
            if (out.effects[k].kind == RBT_AGGREGATOR_TAKE) {
                message->on_way--;
            } else {
                RBT_ASSERT(out.effects[k].kind == RBT_AGGREGATOR_RELEASE);
                rbt_message_unref(message);
            }
        }
    }
    aggregator->timer_at = RBT_TIME_NEVER;
}

void rbt_sim_aggregator_clear(rbt_sim_cluster *cluster)
{
    for (uint32_t i = 0; cluster->aggregation != NULL && i < cluster->aggregation->count; i++) {
        forget(cluster, &cluster->aggregation->nodes[i]);
    }
}

void rbt_sim_aggregator_crash(rbt_sim_cluster *cluster, uint32_t node)
{
    if (cluster->aggregation != NULL && node >= first_process(cluster)) {
        forget(cluster, aggregator_at(cluster, node));
    }
}
