/* sim/node.c - messages on their way, nodes that are down or stand still, and links that send
 * again.
 *
 * A message is an event twice: when its first byte arrives, so that the order at the receiver's
 * link is right, and when its last one has; on its way between racks also where it has to queue.
 * What comes to a node that is down is lost; what comes to one that stands still waits. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "sim/aggregator.h"
#include "sim/cluster.h"
#include "sim/worker.h"

enum { SENT, RECEIVED }; /* directions of traffic */

#define TRAFFIC_SLICE rbt_sim_time(0.01) /* for the curves of a trace */
#define RESEND_FIRST  rbt_sim_time(0.2)
#define RESEND_MIN    rbt_sim_time(0.02)
#define RESEND_MAX    rbt_sim_time(10.0)

/* A copy of a message on the network. The path is copied, so that the message itself, which is not
 * in any processor cache, need not be looked at before it is delivered. */
struct rbt_envelope {
    union {
        struct rbt_message *message; /* counted */
        struct rbt_envelope *next;   /* of one that is not used */
    };
    struct rbt_message_path path;
    struct rbt_passage passage;
    rbt_time sent;
};

static struct rbt_envelope *take_envelope(rbt_sim_cluster *cluster)
{
    struct rbt_envelope *envelope = cluster->spare;
    if (envelope == NULL) {
        return rbt_calloc(1, sizeof *envelope);
    }
    cluster->spare = envelope->next;
    return envelope;
}

static void keep_envelope(rbt_sim_cluster *cluster, struct rbt_envelope *envelope)
{
    envelope->next = cluster->spare;
    cluster->spare = envelope;
}

void rbt_sim_cluster_free_spare(rbt_sim_cluster *cluster)
{
    while (cluster->spare != NULL) {
        struct rbt_envelope *envelope = cluster->spare;
        cluster->spare = envelope->next;
        rbt_free(envelope);
    }
}

void rbt_sim_cluster_fail(rbt_sim_cluster *cluster, rbt_status status)
{
    RBT_ASSERT(status != RBT_OK);
    if (cluster->status == RBT_OK) {
        cluster->status = status;
        rbt_error_save(&cluster->error);
    }
}

void rbt_sim_cluster_schedule(rbt_sim_cluster *cluster, rbt_time at,
                              enum rbt_sim_cluster_event kind, uint32_t index, void *what)
{
    RBT_ASSERT(at >= cluster->now);
    const struct rbt_agenda_event event = {.at = at, .kind = kind, .index = index, .what = what};
    const rbt_status st = rbt_agenda_add(&cluster->queue, &event);
    if (st != RBT_OK) {
        rbt_sim_cluster_fail(cluster, st);
    }
}

/* Writes down what the node has sent and received since its slice of time began. */
static void write_traffic(const rbt_sim_cluster *cluster, uint32_t index)
{
    const struct rbt_node *node = &cluster->nodes[index];
    const uint64_t per_s = (uint64_t)(1000000000 / TRAFFIC_SLICE);
    const uint64_t rates[2] = {node->traffic[SENT] * per_s, node->traffic[RECEIVED] * per_s};
    rbt_trace_traffic(cluster->simulation->trace, index, node->traffic_since, rates);
}

/* Adds to the node's curve of traffic, in slices of time. A message counts when its first byte
 * arrives, having waited for the sender's link, and for its receiver when it is delivered. */
static void note_traffic(rbt_sim_cluster *cluster, uint32_t index, int direction, size_t bytes)
{
    struct rbt_node *node = &cluster->nodes[index];
    const rbt_time since = cluster->now / TRAFFIC_SLICE * TRAFFIC_SLICE;
    if (cluster->simulation->trace == NULL) {
        return;
    }
    if (since > node->traffic_since) {
        write_traffic(cluster, index);
        if (since > node->traffic_since + TRAFFIC_SLICE) { /* and then there was nothing */
            rbt_trace_traffic(cluster->simulation->trace, index,
                              node->traffic_since + TRAFFIC_SLICE, (uint64_t[2]){0, 0});
        }
        node->traffic_since = since;
        node->traffic[SENT] = 0;
        node->traffic[RECEIVED] = 0;
    }
    node->traffic[direction] += bytes;
}

void rbt_sim_cluster_end_traffic(rbt_sim_cluster *cluster)
{
    for (uint32_t i = 0; cluster->simulation->trace != NULL && i < cluster->node_count; i++) {
        write_traffic(cluster, i);
    }
}

/* Counts what is on its way of the message and of answers to what it is about. */
static void note_way(struct rbt_message *message, int copies)
{
    message->on_way += (uint32_t)copies;
    if (message->about != NULL) {
        message->about->on_way += (uint32_t)copies;
    }
    for (uint32_t i = 0; i < message->part_count; i++) {
        message->parts[i]->on_way += (uint32_t)copies;
    }
}

void rbt_sim_cluster_send(rbt_sim_cluster *cluster, struct rbt_message *message)
{
    rbt_sim_cluster_send_on(cluster, message, message->from, message->to);
}

void rbt_sim_cluster_send_on(rbt_sim_cluster *cluster, struct rbt_message *message, uint32_t from,
                             uint32_t to)
{
    if (cluster->nodes[from].is_down) {
        return;
    }
    const struct rbt_message_path path = {.from = from,
                                          .to = to,
                                          .bytes = message->bytes,
                                          .is_urgent = message->kind == RBT_MESSAGE_BEAT};
    struct rbt_passage passages[2];
    const size_t count = rbt_network_send(cluster->network, &path, cluster->now, passages);
    for (size_t i = 0; i < count; i++) {
        struct rbt_envelope *envelope = take_envelope(cluster);
        if (envelope == NULL) {
            rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate a message"));
            return;
        }
        *envelope = (struct rbt_envelope){
            .message = message, .path = path, .passage = passages[i], .sent = cluster->now};
        rbt_message_ref(message);
        note_way(message, 1);
        rbt_sim_cluster_schedule(cluster, passages[i].arrives, RBT_EVENT_ARRIVE, 0, envelope);
    }
}

void rbt_sim_cluster_discard(rbt_sim_cluster *cluster, void *what)
{
    struct rbt_envelope *envelope = what;
    note_way(envelope->message, -1);
    rbt_message_unref(envelope->message);
    keep_envelope(cluster, envelope);
}

void rbt_sim_cluster_arrive(rbt_sim_cluster *cluster, void *what)
{
    struct rbt_envelope *envelope = what;
    rbt_time delivered = 0;
    if (rbt_network_pass(cluster->network, &envelope->path, &envelope->passage)) {
        rbt_sim_cluster_schedule(cluster, envelope->passage.arrives, RBT_EVENT_ARRIVE, 0, envelope);
        return;
    }
    if (cluster->nodes[envelope->path.to].is_down ||
        !rbt_network_receive(cluster->network, &envelope->path, &envelope->passage, &delivered)) {
        rbt_sim_cluster_discard(cluster, envelope);
        return;
    }
    note_traffic(cluster, envelope->path.from, SENT, envelope->path.bytes);
    rbt_sim_cluster_schedule(cluster, delivered, RBT_EVENT_DELIVER, 0, envelope);
}

uint32_t rbt_sim_cluster_addressee(const void *envelope)
{
    return ((const struct rbt_envelope *)envelope)->path.to;
}

void rbt_sim_cluster_describe(const rbt_sim_cluster *cluster, const void *envelope,
                              struct rbt_inspect_event *event)
{
    const struct rbt_message *message = ((const struct rbt_envelope *)envelope)->message;
    const bool is_push = message->kind == RBT_MESSAGE_PUSH;
    event->message = rbt_message_names[message->kind];
    event->from = cluster->nodes[((const struct rbt_envelope *)envelope)->path.from].name;
    event->worker = message->kind == RBT_MESSAGE_BEAT ? UINT32_MAX : message->worker;
    event->number = message->id;
    event->clock = is_push ? message->event.clock : message->event.need;
    event->marker = is_push ? message->event.marker : message->floor;
}

/* The lane of a timeline that a message starts from or ends at: a process's workers have one each.
 */
static struct rbt_trace_lane lane_of(const rbt_sim_cluster *cluster, uint32_t node, uint32_t worker)
{
    const bool is_worker = node >= RBT_NODE_SERVERS + cluster->server_count;
    return (struct rbt_trace_lane){node, is_worker ? worker % cluster->threads : 0};
}

static void trace_message(const rbt_sim_cluster *cluster, const struct rbt_envelope *envelope)
{
    const struct rbt_message *message = envelope->message;
    if (cluster->simulation->trace == NULL || message->kind == RBT_MESSAGE_BEAT) {
        return;
    }
    const struct rbt_trace_message record = {
        .name = rbt_message_names[message->kind],
        .from = lane_of(cluster, envelope->path.from, message->worker),
        .to = lane_of(cluster, envelope->path.to, message->worker),
        .sent = envelope->sent,
        .delivered = cluster->now,
        .bytes = message->bytes};
    rbt_trace_message(cluster->simulation->trace, &record);
}

struct rbt_message *rbt_sim_cluster_open(rbt_sim_cluster *cluster, void *what)
{
    struct rbt_envelope *envelope = what;
    struct rbt_message *message = envelope->message;
    if (cluster->nodes[envelope->path.to].is_down) {
        rbt_sim_cluster_discard(cluster, envelope);
        return NULL;
    }
    trace_message(cluster, envelope);
    note_traffic(cluster, envelope->path.to, RECEIVED, envelope->path.bytes);
    note_way(message, -1);
    keep_envelope(cluster, envelope);
    return message;
}

/* --- Links ----------------------------------------------------------------------------------- */

rbt_session *rbt_link_session(rbt_sim_cluster *cluster, struct rbt_link *link)
{
    if (link->session == NULL) {
        const struct rbt_session_options options = {.window = RBT_LINK_WINDOW,
                                                    .resend_first = RESEND_FIRST,
                                                    .resend_min = RESEND_MIN,
                                                    .resend_max = RESEND_MAX};
        const rbt_status st = rbt_session_create(&options, &link->session);
        if (st != RBT_OK) {
            rbt_sim_cluster_fail(cluster, st);
        }
    }
    return link->session;
}

void rbt_link_arm(rbt_sim_cluster *cluster, struct rbt_link *link)
{
    const rbt_time deadline = rbt_session_deadline(link->session);
    if (deadline < link->timer_at) { /* a timer that is too early arms the next one itself */
        link->timer_at = deadline;
        const rbt_time at = deadline > cluster->now ? deadline : cluster->now;
        rbt_sim_cluster_schedule(cluster, at, RBT_EVENT_TIMER, link->node, link);
    }
}

static struct rbt_message *message_of(uint64_t cookie)
{
    return (struct rbt_message *)(uintptr_t)cookie;
}

void rbt_link_expire(rbt_sim_cluster *cluster, struct rbt_link *link)
{
    if (link->session == NULL || link->timer_at > cluster->now) {
        return; /* an old timer: an earlier one was armed meanwhile */
    }
    link->timer_at = RBT_TIME_NEVER;
    struct rbt_session_outbox out = {.effects = cluster->released};
    rbt_session_expire(link->session, cluster->now, &out);
    for (size_t i = 0; i < out.count; i++) {
        struct rbt_message *message = message_of(out.effects[i].cookie);
        RBT_ASSERT(out.effects[i].kind == RBT_SESSION_TRANSMIT);
        if (message->on_way > 0 && !rbt_sim_aggregator_is_stuck(cluster, link, message)) {
            /* a transport would know: its bytes still get through */
            rbt_session_put_off(link->session, out.effects[i].cookie, cluster->now);
            continue;
        }
        cluster->simulation->totals.resent++;
        rbt_sim_aggregator_avoid(cluster, link, message);
        rbt_sim_cluster_send(cluster, message);
    }
    rbt_link_arm(cluster, link);
}

void rbt_link_release(const struct rbt_session_outbox *out)
{
    for (size_t i = 0; i < out->count; i++) {
        RBT_ASSERT(out->effects[i].kind == RBT_SESSION_RELEASE);
        rbt_message_unref(message_of(out->effects[i].cookie));
    }
}

void rbt_link_abandon(const rbt_sim_cluster *cluster, struct rbt_link *link)
{
    if (link->session != NULL) {
        struct rbt_session_outbox out = {.effects = cluster->released};
        rbt_session_abandon(link->session, &out);
        rbt_link_release(&out);
    }
}

/* --- Faults ---------------------------------------------------------------------------------- */

uint32_t rbt_node_find(const rbt_sim_cluster *cluster, const char *name)
{
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        if (strcmp(cluster->nodes[i].name, name) == 0) {
            return i;
        }
    }
    return UINT32_MAX;
}

static uint32_t first_worker(const rbt_sim_cluster *cluster, uint32_t node)
{
    const uint32_t first_process = RBT_NODE_SERVERS + cluster->server_count;
    return node < first_process ? cluster->worker_count : (node - first_process) * cluster->threads;
}

void rbt_sim_cluster_heal(rbt_sim_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        struct rbt_node *node = &cluster->nodes[i];
        node->is_down = false;
        node->is_gone = false;
        node->paused_until = 0;
        rbt_network_set_side(cluster->network, i, 0);
        rbt_network_slow(cluster->network, i, 1.0);
    }
}

/* The node does nothing until then; what its workers compute takes so much longer. If it stands
 * still already, only what is added counts. */
static void pause_node(rbt_sim_cluster *cluster, uint32_t node, rbt_time lasts)
{
    const rbt_time before = cluster->nodes[node].paused_until;
    const rbt_time from = before > cluster->now ? before : cluster->now;
    const rbt_time until = cluster->now + lasts > from ? cluster->now + lasts : from;
    cluster->nodes[node].paused_until = until;
    for (uint32_t i = first_worker(cluster, node);
         i < cluster->worker_count && cluster->workers[i].node == node; i++) {
        cluster->workers[i].wake_at += until - from;
    }
}

static void crash(rbt_sim_cluster *cluster, uint32_t node, rbt_time lasts)
{
    cluster->nodes[node].is_down = true;
    rbt_sim_aggregator_crash(cluster, node);
    if (lasts > 0) {
        pause_node(cluster, node, lasts);
        return;
    }
    cluster->nodes[node].is_gone = true;
    for (uint32_t i = first_worker(cluster, node);
         i < cluster->worker_count && cluster->workers[i].node == node; i++) {
        cluster->workers[i].was_crashed = cluster->workers[i].state != RBT_WORKER_ENDED;
        (void)rbt_fail(RBT_E_CLOSED, "%s has crashed", cluster->nodes[node].name);
        rbt_sim_worker_close(cluster, &cluster->workers[i]);
    }
}

void rbt_fault_begin(rbt_sim_cluster *cluster, uint32_t index)
{
    const struct rbt_fault *fault = &cluster->simulation->faults[index];
    const uint32_t node = rbt_node_find(cluster, fault->node);
    const rbt_time lasts = rbt_sim_time(fault->lasts);
    RBT_ASSERT(node != UINT32_MAX); /* seen to when the job was opened */
    if (cluster->nodes[node].is_gone) {
        return;
    }
    switch (fault->kind) {
    case RBT_FAULT_CRASH:
        crash(cluster, node, lasts);
        break;
    case RBT_FAULT_PAUSE:
        pause_node(cluster, node, lasts);
        break;
    case RBT_FAULT_PARTITION:
        rbt_network_set_side(cluster->network, node, node + 1);
        break;
    case RBT_FAULT_SLOW_LINK:
        rbt_network_slow(cluster->network, node, fault->factor);
        break;
    }
    if (lasts > 0) {
        rbt_sim_cluster_schedule(cluster, cluster->now + lasts, RBT_EVENT_HEAL, index, NULL);
    }
}

/* Another fault of the same kind that is going on at the same node, or NULL. */
static const struct rbt_fault *find_other(const rbt_sim_cluster *cluster,
                                          const struct rbt_fault *fault)
{
    const rbt_simulation *simulation = cluster->simulation;
    const rbt_time now = cluster->now - cluster->began;
    for (size_t i = 0; i < simulation->options.fault_count; i++) {
        const struct rbt_fault *other = &simulation->faults[i];
        const rbt_time at = rbt_sim_time(other->at);
        const bool is_on =
            at <= now && (other->lasts == 0 || at + rbt_sim_time(other->lasts) > now);
        if (other != fault && is_on && other->kind == fault->kind &&
            strcmp(other->node, fault->node) == 0) {
            return other;
        }
    }
    return NULL;
}

void rbt_fault_end(rbt_sim_cluster *cluster, uint32_t index)
{
    const struct rbt_fault *fault = &cluster->simulation->faults[index];
    const uint32_t node = rbt_node_find(cluster, fault->node);
    const struct rbt_fault *other = find_other(cluster, fault);
    if (cluster->nodes[node].is_gone || (other != NULL && fault->kind != RBT_FAULT_SLOW_LINK)) {
        return;
    }
    switch (fault->kind) {
    case RBT_FAULT_CRASH:
        cluster->nodes[node].is_down = false;
        break;
    case RBT_FAULT_PAUSE:
        break; /* its time is over by itself */
    case RBT_FAULT_PARTITION:
        rbt_network_set_side(cluster->network, node, 0);
        break;
    case RBT_FAULT_SLOW_LINK:
        rbt_network_slow(cluster->network, node, other != NULL ? other->factor : 1.0);
        break;
    }
}
