/* sim/connections.c - connections between simulated nodes: what their two sides do and hear.
 *
 * connection_path.c gets pieces from one node to the other; here they are heard. All that a side
 * can hear is a piece: the SYN, its answer, messages, the FIN behind them, a reset. So a pause is a
 * list of pieces that are heard later, and what is heard is always in order.
 *
 * A callback may send, cut, open and reset: also the connection that it is called for. The piece
 * that is being heard holds a reference, and what happens is looked at again after each call.
 *
 * A reset marks the connection as dead at once. Pieces of a dead connection are dropped wherever
 * they turn up next; only the notices of the reset itself are still heard.
 *
 * Threads: none. Memory: records of connections, pieces and messages are used again. */
#include "sim/connections.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "sim/connection_path.h"

enum {
    STREAM = 0x636f6e, /* "con": the caller's own random numbers have the same seed */
    WINDOW_DEFAULT = 4 << 20,
};

/* --- Lists and lifetimes --------------------------------------------------------------------- */

void rbt_message_list_add(struct rbt_message_list *list, struct rbt_queued_message *message)
{
    RBT_ASSERT(message != NULL);
    message->next = NULL;
    if (list->first == NULL) {
        list->first = message;
    } else {
        list->last->next = message;
    }
    list->last = message;
}

struct rbt_queued_message *rbt_message_list_take(struct rbt_message_list *list)
{
    struct rbt_queued_message *message = list->first;
    if (message != NULL) {
        list->first = message->next;
    }
    return message;
}

static void free_message(rbt_connections *all, struct rbt_queued_message *message)
{
    rbt_block_unref(message->block);
    message->block = NULL;
    rbt_records_give(&all->message_records, message);
}

/* Into the list of its node, behind the others: a reset takes them in this order. */
static void enlist(struct rbt_endpoint *end)
{
    struct rbt_connection_node *node = &end->connection->all->nodes[end->node];
    RBT_ASSERT(!end->is_listed);
    end->is_listed = true;
    end->listed_next = NULL;
    end->listed_before = node->listed_last;
    if (node->listed_last != NULL) {
        node->listed_last->listed_next = end;
    } else {
        node->listed_first = end;
    }
    node->listed_last = end;
}

static void delist(struct rbt_endpoint *end)
{
    struct rbt_connection_node *node = &end->connection->all->nodes[end->node];
    if (!end->is_listed) {
        return;
    }
    end->is_listed = false;
    if (end->listed_next != NULL) {
        end->listed_next->listed_before = end->listed_before;
    } else {
        node->listed_last = end->listed_before;
    }
    if (end->listed_before != NULL) {
        end->listed_before->listed_next = end->listed_next;
    } else {
        node->listed_first = end->listed_next;
    }
}

void rbt_connection_unref(rbt_connection *connection)
{
    RBT_ASSERT(connection->references > 0);
    connection->references--;
    const bool is_done = connection->ends[0].is_done && connection->ends[1].is_done;
    if (connection->references == 0 && is_done) { /* (3) */
        RBT_ASSERT(connection->is_dead);
        RBT_ASSERT(connection->ends[0].queue.first == NULL);
        RBT_ASSERT(connection->ends[1].queue.first == NULL);
        rbt_records_give(&connection->all->connection_records, connection);
    }
}

/* Nothing of it is heard any more, except that it was reset. Its caller holds a reference. */
static void kill_connection(rbt_connection *connection)
{
    RBT_ASSERT(connection->references > 0);
    connection->is_dead = true;
    for (int i = 0; i < 2; i++) {
        rbt_path_drop(&connection->ends[i]);
        if (connection->ends[i].is_done) {
            delist(&connection->ends[i]);
        }
    }
}

/* The side neither sends nor hears any more. Its caller holds a reference. */
static void finish(struct rbt_endpoint *end)
{
    end->is_done = true;
    if (end->connection->is_dead) {
        delist(end);
    } else if (rbt_endpoint_other(end)->is_done) {
        kill_connection(end->connection);
    }
}

void rbt_piece_release(struct rbt_connection_piece *piece)
{
    rbt_connection *connection = piece->from->connection;
    rbt_connections *all = connection->all;
    struct rbt_queued_message *message = NULL;
    while ((message = rbt_message_list_take(&piece->messages)) != NULL) {
        free_message(all, message);
    }
    rbt_records_give(&all->piece_records, piece);
    rbt_connection_unref(connection);
}

/* --- Create and destroy ---------------------------------------------------------------------- */

static bool is_chance(double chance)
{
    return chance >= 0.0 && chance <= 1.0;
}

static rbt_status create_network(const struct rbt_connections_options *options,
                                 rbt_network **network)
{
    return rbt_network_create(&(struct rbt_network_options){.node_count = options->node_count,
                                                            .bandwidth = options->bandwidth,
                                                            .latency = options->latency,
                                                            .rack_count = options->rack_count},
                              network);
}

rbt_status rbt_connections_create(const struct rbt_connections_options *options,
                                  rbt_connections **connections)
{
    RBT_ASSERT(options->agenda != NULL);
    RBT_ASSERT(options->jitter >= 0 && options->spike >= 0 && options->message_cost >= 0);
    RBT_ASSERT(is_chance(options->loss));
    RBT_ASSERT(is_chance(options->duplication));
    RBT_ASSERT(is_chance(options->spike_chance));
    rbt_connections *all = rbt_calloc(1, sizeof *all);
    if (all == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a network of connections");
    }
    all->options = *options;
    all->options.window = options->window > 0 ? options->window : WINDOW_DEFAULT;
    all->connection_records.size = sizeof(struct rbt_connection);
    all->piece_records.size = sizeof(struct rbt_connection_piece);
    all->message_records.size = sizeof(struct rbt_queued_message);
    rbt_rng_init(&all->rng, options->seed, STREAM, 0);
    rbt_status st = create_network(options, &all->network);
    if (st == RBT_OK) {
        all->nodes = rbt_calloc(options->node_count, sizeof *all->nodes);
        all->rack_bytes = rbt_calloc(options->rack_count, sizeof *all->rack_bytes);
        if (all->nodes == NULL || all->rack_bytes == NULL) {
            st = rbt_fail(RBT_E_NOMEM, "could not allocate %u nodes", options->node_count);
        }
    }
    if (st != RBT_OK) {
        rbt_connections_destroy(all);
        return st;
    }
    *connections = all;
    return RBT_OK;
}

static void visit_message(void *record)
{
    rbt_block_unref(((struct rbt_queued_message *)record)->block);
}

static void visit_connection(void *record)
{
    struct rbt_connection *connection = record;
    rbt_block_unref(connection->ends[0].copy);
    rbt_block_unref(connection->ends[1].copy);
}

void rbt_connections_destroy(rbt_connections *connections)
{
    if (connections == NULL) {
        return;
    }
    rbt_records_visit(&connections->message_records, visit_message);
    rbt_records_visit(&connections->connection_records, visit_connection);
    rbt_records_deinit(&connections->message_records);
    rbt_records_deinit(&connections->piece_records);
    rbt_records_deinit(&connections->connection_records);
    rbt_free(connections->rack_bytes);
    rbt_free(connections->nodes);
    rbt_network_destroy(connections->network);
    rbt_free(connections);
}

rbt_status rbt_connections_status(const rbt_connections *connections)
{
    return connections->status;
}

static struct rbt_connection_node *node_at(const rbt_connections *all, uint32_t node)
{
    RBT_ASSERT(node < all->options.node_count);
    return &all->nodes[node];
}

/* --- What a side does ------------------------------------------------------------------------ */

rbt_status rbt_connections_open(rbt_connections *connections, uint32_t from, uint32_t to,
                                struct rbt_connection_end end, rbt_time now,
                                rbt_connection **connection)
{
    RBT_ASSERT(from < connections->options.node_count);
    RBT_ASSERT(to < connections->options.node_count);
    rbt_connection *opened = rbt_records_take(&connections->connection_records);
    if (opened == NULL) {
        return RBT_E_NOMEM;
    }
    opened->all = connections;
    opened->ends[0].connection = opened;
    opened->ends[1].connection = opened;
    struct rbt_endpoint *caller = &opened->ends[RBT_SIDE_CALLER];
    struct rbt_endpoint *listener = &opened->ends[RBT_SIDE_LISTENER];
    caller->end = end;
    caller->node = from;
    listener->node = to;
    listener->is_done = true; /* until somebody accepts */
    struct rbt_connection_piece *syn = rbt_path_make(caller, RBT_PIECE_SYN);
    if (syn == NULL) {
        rbt_records_give(&connections->connection_records, opened);
        return RBT_E_NOMEM;
    }
    enlist(caller);
    rbt_path_launch(syn, now);
    *connection = opened;
    return connections->status;
}

void rbt_connection_send(rbt_connection *connection, enum rbt_side side, struct rbt_block *block,
                         rbt_time now)
{
    rbt_connections *all = connection->all;
    struct rbt_endpoint *end = &connection->ends[side];
    RBT_ASSERT(block->bytes > 0);
    if (connection->is_dead || end->is_done) {
        rbt_block_unref(block);
        return;
    }
    struct rbt_queued_message *message = rbt_records_take(&all->message_records);
    if (message == NULL) {
        all->status = all->status == RBT_OK ? RBT_E_NOMEM : all->status;
        rbt_block_unref(block);
        return;
    }
    message->block = block;
    message->sent = now;
    rbt_message_list_add(&end->queue, message);
    end->queued += block->bytes;
    rbt_path_wake(end, now);
}

void rbt_connection_cut(rbt_connection *connection, enum rbt_side side, rbt_time now)
{
    struct rbt_endpoint *end = &connection->ends[side];
    if (end->is_done) {
        return;
    }
    connection->references++;
    if (!end->is_up && !connection->is_dead) { /* the SYN may stay: it finds nobody to answer */
        struct rbt_message_list *queue = &end->queue;
        struct rbt_queued_message *message = NULL;
        while ((message = rbt_message_list_take(queue)) != NULL) {
            free_message(connection->all, message);
        }
        end->queued = 0;
    }
    end->is_cut = true;
    finish(end);
    rbt_path_wake(end, now);
    rbt_connection_unref(connection);
}

size_t rbt_connection_queued(const rbt_connection *connection, enum rbt_side side)
{
    return connection->ends[side].queued;
}

struct rbt_connection_end rbt_connection_end(const rbt_connection *connection, enum rbt_side side)
{
    return connection->ends[side].end;
}

uint32_t rbt_connection_node(const rbt_connection *connection, enum rbt_side side)
{
    return connection->ends[side].node;
}

/* --- What a side hears ----------------------------------------------------------------------- */

static enum rbt_side side_of(const struct rbt_endpoint *end)
{
    return end == &end->connection->ends[RBT_SIDE_CALLER] ? RBT_SIDE_CALLER : RBT_SIDE_LISTENER;
}

static void hear_down(struct rbt_endpoint *end, const char *why)
{
    const struct rbt_connections_events *events = &end->connection->all->options.events;
    RBT_ASSERT(end->connection->references > 0);
    if (!end->is_done) {
        finish(end);
        events->on_down(events->context, end->connection, side_of(end), RBT_E_CLOSED, why);
    }
}

static void hear_syn(struct rbt_endpoint *listener, rbt_time now)
{
    rbt_connection *connection = listener->connection;
    const struct rbt_connections_events *events = &connection->all->options.events;
    RBT_ASSERT(listener->is_done);
    RBT_ASSERT(!listener->is_up);
    listener->is_done = false;
    listener->is_up = true;
    enlist(listener);
    const bool is_accepted =
        events->on_accept(events->context, connection, listener->node, &listener->end);
    if (!is_accepted) {
        listener->is_up = false;
        delist(listener);
        rbt_path_drop(listener);
        finish(listener);
    }
    struct rbt_connection_piece *answer =
        rbt_path_make(listener, is_accepted ? RBT_PIECE_UP : RBT_PIECE_REFUSED);
    if (answer != NULL) {
        rbt_path_launch(answer, now);
    }
}

static void hear_up(struct rbt_endpoint *caller, rbt_time now)
{
    const struct rbt_connections_events *events = &caller->connection->all->options.events;
    RBT_ASSERT(!caller->is_up);
    caller->is_up = true;
    if (!caller->is_done) {
        events->on_up(events->context, caller->connection);
    }
    rbt_path_wake(caller, now);
}

static bool can_hear(const struct rbt_endpoint *end)
{
    return !end->is_done && !end->connection->is_dead;
}

static void hear_bytes(struct rbt_endpoint *to, struct rbt_connection_piece *piece, rbt_time now)
{
    rbt_connections *all = to->connection->all;
    const struct rbt_connections_events *events = &all->options.events;
    const enum rbt_side side = side_of(to);
    rbt_path_read(piece->from, piece->bytes, now);
    struct rbt_queued_message *message = NULL;
    while (can_hear(to) && (message = rbt_message_list_take(&piece->messages)) != NULL) {
        RBT_ASSERT(message->block->tail == NULL);
        events->on_frame(events->context, to->connection, side, message->block, message->sent);
        free_message(all, message);
    }
    if (can_hear(to) && piece->message_count > 0) {
        events->on_turn(events->context, to->connection, side);
    }
    if (can_hear(to) && piece->is_last) {
        hear_down(to, "the other side closed the connection");
    }
}

static void hear(struct rbt_connection_piece *piece, rbt_time now)
{
    struct rbt_endpoint *to = piece->to;
    if (piece->kind == RBT_PIECE_RESET) {
        hear_down(to, "the connection was reset");
    } else if (!to->connection->is_dead) {
        switch (piece->kind) {
        case RBT_PIECE_BYTES:
            hear_bytes(to, piece, now);
            break;
        case RBT_PIECE_SYN:
            hear_syn(to, now);
            break;
        case RBT_PIECE_UP:
            hear_up(to, now);
            break;
        case RBT_PIECE_REFUSED:
            hear_down(to, "connection refused");
            break;
        case RBT_PIECE_RESET:
            RBT_UNREACHABLE();
        }
    }
    rbt_piece_release(piece);
}

static void set_resume(rbt_connections *all, struct rbt_connection_node *node)
{
    if (!node->is_resuming && node->paused < RBT_TIME_NEVER) {
        node->is_resuming = true;
        rbt_path_schedule(all, RBT_STAGE_RESUME, node, node->paused);
    }
}

static void deliver(struct rbt_connection_piece *piece, rbt_time now)
{
    rbt_connections *all = piece->from->connection->all;
    struct rbt_connection_node *node = &all->nodes[piece->to->node];
    if (node->paused <= now && node->waiting.first == NULL) {
        hear(piece, now);
        return;
    }
    piece->next = NULL;
    if (node->waiting.first == NULL) {
        node->waiting.first = piece;
    } else {
        node->waiting.last->next = piece;
    }
    node->waiting.last = piece;
    set_resume(all, node);
}

static void resume(rbt_connections *all, struct rbt_connection_node *node, rbt_time now)
{
    RBT_ASSERT(node->is_resuming);
    node->is_resuming = false;
    while (node->waiting.first != NULL && node->paused <= now) { /* it may be paused again */
        struct rbt_connection_piece *piece = node->waiting.first;
        node->waiting.first = piece->next;
        hear(piece, now);
    }
    if (node->waiting.first != NULL) {
        set_resume(all, node);
    }
}

void rbt_connections_handle(rbt_connections *connections, const struct rbt_agenda_event *event)
{
    RBT_ASSERT(event->kind == connections->options.kind);
    const enum rbt_connections_stage stage = (enum rbt_connections_stage)event->index;
    switch (stage) {
    case RBT_STAGE_LEAVE:
        rbt_path_leave(connections, event->what, event->at);
        break;
    case RBT_STAGE_ARRIVE:
        rbt_path_arrive(event->what, event->at);
        break;
    case RBT_STAGE_ARRIVE_NEXT:
        rbt_path_arrive(rbt_path_next(connections, event->what, stage), event->at);
        break;
    case RBT_STAGE_DELIVER:
        deliver(event->what, event->at);
        break;
    case RBT_STAGE_DELIVER_NEXT:
        deliver(rbt_path_next(connections, event->what, stage), event->at);
        break;
    case RBT_STAGE_RESUME:
        resume(connections, event->what, event->at);
        break;
    case RBT_STAGE_TIMER:
        rbt_path_timer(event->what, event->at);
        break;
    case RBT_STAGE_RETRY:
        rbt_path_retry(event->what, event->at);
        break;
    }
}

/* --- Faults ---------------------------------------------------------------------------------- */

void rbt_connections_slow(rbt_connections *connections, uint32_t node, double factor)
{
    rbt_network_slow(connections->network, node, factor);
}

void rbt_connections_set_side(rbt_connections *connections, uint32_t node, uint32_t side,
                              rbt_time now)
{
    node_at(connections, node)->side = side;
    rbt_network_set_side(connections->network, node, side);
    rbt_path_reopen(connections, now);
}

void rbt_connections_pause(rbt_connections *connections, uint32_t node, rbt_time until)
{
    struct rbt_connection_node *paused = node_at(connections, node);
    paused->paused = rbt_time_later(paused->paused, until);
}

/* Ends the connection of this side. */
static void reset(struct rbt_endpoint *own, rbt_time now)
{
    rbt_connection *connection = own->connection;
    rbt_connections *all = connection->all;
    struct rbt_endpoint *other = rbt_endpoint_other(own);
    RBT_ASSERT(!connection->is_dead);
    all->stats.cut++;
    connection->references++;
    kill_connection(connection);
    struct rbt_connection_piece *notice =
        own->is_done ? NULL : rbt_path_make(other, RBT_PIECE_RESET);
    if (notice != NULL) {
        rbt_path_schedule(all, RBT_STAGE_DELIVER, notice, now);
    }
    notice = other->is_done ? NULL : rbt_path_make(own, RBT_PIECE_RESET);
    if (notice != NULL) {
        rbt_path_launch(notice, now);
    }
    rbt_connection_unref(connection);
}

void rbt_connection_reset(rbt_connection *connection, rbt_time now)
{
    if (!connection->is_dead) {
        reset(&connection->ends[RBT_SIDE_CALLER], now);
    }
}

void rbt_connections_reset_node(rbt_connections *connections, uint32_t node, rbt_time now)
{
    struct rbt_endpoint *next = NULL;
    for (struct rbt_endpoint *end = node_at(connections, node)->listed_first; end != NULL;
         end = next) {
        next = end->listed_next;
        if (next == rbt_endpoint_other(end)) {
            next = next->listed_next; /* a connection of the node with itself */
        }
        if (!end->connection->is_dead) {
            reset(end, now);
        }
    }
}

void rbt_connections_crash(rbt_connections *connections, uint32_t node, rbt_time now)
{
    struct rbt_connection_node *at = node_at(connections, node);
    while (at->listed_first != NULL) { /* each is taken off the list */
        struct rbt_endpoint *end = at->listed_first;
        rbt_connection *connection = end->connection;
        connection->references++;
        end->is_done = true;
        if (connection->is_dead) {
            delist(end); /* it was about to hear of a reset */
        } else {
            reset(end, now);
        }
        RBT_ASSERT(!end->is_listed);
        rbt_connection_unref(connection);
    }
}

/* --- Racks and figures ----------------------------------------------------------------------- */

void rbt_connections_set_rack(rbt_connections *connections, uint32_t node, uint32_t rack)
{
    rbt_network_set_rack(connections->network, node, rack);
    node_at(connections, node)->rack = rack;
}

void rbt_connections_set_rack_bandwidth(rbt_connections *connections, uint32_t rack,
                                        double bandwidth)
{
    rbt_network_set_rack_bandwidth(connections->network, rack, bandwidth);
}

void rbt_connections_stats(const rbt_connections *connections, struct rbt_connections_stats *stats)
{
    *stats = connections->stats;
}

uint64_t rbt_connections_sent(const rbt_connections *connections, uint32_t node)
{
    return node_at(connections, node)->sent_bytes;
}

uint64_t rbt_connections_received(const rbt_connections *connections, uint32_t node)
{
    return node_at(connections, node)->received_bytes;
}

struct rbt_rack_bytes rbt_connections_rack_bytes(const rbt_connections *connections, uint32_t rack)
{
    RBT_ASSERT(rack < connections->options.rack_count);
    return connections->rack_bytes[rack];
}
