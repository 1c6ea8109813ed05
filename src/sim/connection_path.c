/* sim/connection_path.c - how the bytes of a connection get across: in pieces, by turns, in order.
 *
 *     queue of messages -> piece -> link out -> (links of racks) -> link in -> processor -> heard
 *                 LEAVE            ARRIVE       ARRIVE              ARRIVE     DELIVER
 *
 * Endpoints that have something to send wait in the queue of their node's link. Whenever the link
 * is free, it takes one piece of each in turn, until they are together as long as one piece may be:
 * one event sends short messages to many peers. An endpoint that has sent and has more goes behind
 * those that have come meanwhile, so that a short message waits for one piece of a long one.
 *
 * sim/network.h has the links and their times. It is used without faults; connection_loss.c draws
 * those of packets. A lost packet begins a piece of its own, which arrives later by the time that
 * TCP needs to notice. No later piece arrives before, so the whole direction is late.
 *
 * A piece that finds the path closed, or finds that an earlier piece did, is put aside (`again`).
 * The direction stalls until a retransmission time-out that finds the path open.
 *
 * Cost: O(1) per piece and message; O(packets) with loss or duplication. No memory is allocated
 * once the lists of records are long enough, except for copies of tails. */
#include "sim/connection_path.h"

#include <string.h>

#include "base/assert.h"
#include "sim/connection_loss.h"

enum {
    PIECE_MAX = 64 << 10,
    PACKET_HEADER = 66, /* Ethernet, IP, TCP */
    CACHE_LINE = 64,
};

_Static_assert(sizeof(struct rbt_connection_piece) == 2 * CACHE_LINE, "all of it is fetched");

#define RESET_AGAIN INT64_C(200000000)   /* ns, before a reset is said again */
#define RESET_LAST  INT64_C(60000000000) /* and for how long */

static const rbt_time rto_max = 120000000000;

void rbt_path_schedule(rbt_connections *all, enum rbt_connections_stage stage, void *what,
                       rbt_time at)
{
    RBT_ASSERT(what != NULL);
    RBT_ASSERT(at >= 0);
    const struct rbt_agenda_event event = {
        .at = at, .kind = all->options.kind, .index = stage, .what = what};
    const rbt_status st = rbt_agenda_add(all->options.agenda, &event);
    if (st != RBT_OK && all->status == RBT_OK) {
        all->status = st;
    }
}

/* The piece is handled soon: has the cache fetch what that needs, and where the next one is. */
static void prefetch_piece(const struct rbt_connection_piece *piece)
{
    const void *const lines[] = {piece->from, piece->to, piece->next};
    __builtin_prefetch(piece->messages.first);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (lines[i] != NULL) {
            __builtin_prefetch(lines[i]);
            __builtin_prefetch((const char *)lines[i] + CACHE_LINE);
        }
    }
}

/* The agenda should be short: it is slow if it does not fit the cache. Pieces mostly become due in
 * the order in which they leave a node, or get in; so only the first of them has an event. A piece
 * that is due before the last of the list has an event of its own; if it is due together with its
 * predecessor on the connection, which may be in the list, then it is a nanosecond later.
 * Returns when it is due. */
static rbt_time add_due(struct rbt_connection_piece *piece, enum rbt_connections_stage stage,
                        rbt_time at, rbt_time predecessor)
{
    rbt_connections *all = piece->from->connection->all;
    const bool is_arrival = stage == RBT_STAGE_ARRIVE;
    struct rbt_connection_node *node =
        &all->nodes[is_arrival ? piece->from->node : piece->to->node];
    struct rbt_piece_list *list = is_arrival ? &node->arriving : &node->delivering;
    if (list->first != NULL && at < list->last->due && at == predecessor) {
        at++;
    }
    piece->due = at;
    piece->next = NULL;
    if (list->first != NULL && at < list->last->due) {
        rbt_path_schedule(all, stage, piece, at);
        return at;
    }
    if (list->first == NULL) {
        list->first = piece;
        stage = is_arrival ? RBT_STAGE_ARRIVE_NEXT : RBT_STAGE_DELIVER_NEXT;
        rbt_path_schedule(all, stage, node, at);
    } else {
        list->last->next = piece;
    }
    list->last = piece;
    return at;
}

struct rbt_connection_piece *rbt_path_next(rbt_connections *all, struct rbt_connection_node *node,
                                           enum rbt_connections_stage stage)
{
    struct rbt_piece_list *list =
        stage == RBT_STAGE_ARRIVE_NEXT ? &node->arriving : &node->delivering;
    struct rbt_connection_piece *piece = list->first;
    RBT_ASSERT(piece != NULL);
    list->first = piece->next;
    if (list->first != NULL) {
        rbt_path_schedule(all, stage, node, list->first->due);
        prefetch_piece(list->first);
    }
    return piece;
}

/* --- Time-outs ------------------------------------------------------------------------------- */

/* The first of the time-outs that is not over; each is twice as long as the one before it. */
static rbt_time next_retry(const struct rbt_endpoint *end, rbt_time now)
{
    const struct rbt_connection_piece *first = end->again.first;
    RBT_ASSERT(first != NULL);
    const bool is_handshake = first->kind != RBT_PIECE_BYTES;
    rbt_time step = is_handshake ? rbt_loss_syn_time_out : rbt_loss_time_out(end->connection->all);
    rbt_time at = rbt_time_plus(end->stalled_since, step);
    while (at < now) {
        step = step < rto_max / 2 ? 2 * step : rto_max;
        at = rbt_time_plus(at, step);
    }
    return at;
}

bool rbt_path_is_open(const struct rbt_endpoint *end)
{
    const struct rbt_connection_node *nodes = end->connection->all->nodes;
    return nodes[end->node].side == nodes[rbt_endpoint_other(end)->node].side;
}

static void set_retry(struct rbt_endpoint *end, rbt_time now)
{
    RBT_ASSERT(end->is_stalled);
    if (!end->has_retry && rbt_path_is_open(end)) {
        end->has_retry = true;
        end->connection->references++;
        rbt_path_schedule(end->connection->all, RBT_STAGE_RETRY, end, next_retry(end, now));
    }
}

void rbt_path_reopen(rbt_connections *all, rbt_time now)
{
    for (struct rbt_endpoint *end = all->stalled; end != NULL; end = end->stalled_next) {
        set_retry(end, now);
    }
}

static void link_stalled(struct rbt_endpoint *end)
{
    rbt_connections *all = end->connection->all;
    RBT_ASSERT(!end->is_stalled);
    end->is_stalled = true;
    end->stalled_before = NULL;
    end->stalled_next = all->stalled;
    if (all->stalled != NULL) {
        all->stalled->stalled_before = end;
    }
    all->stalled = end;
}

static void unlink_stalled(struct rbt_endpoint *end)
{
    rbt_connections *all = end->connection->all;
    RBT_ASSERT(end->is_stalled);
    end->is_stalled = false;
    if (end->stalled_next != NULL) {
        end->stalled_next->stalled_before = end->stalled_before;
    }
    if (end->stalled_before != NULL) {
        end->stalled_before->stalled_next = end->stalled_next;
    } else {
        RBT_ASSERT(all->stalled == end);
        all->stalled = end->stalled_next;
    }
}

/* Puts the piece into the list by its number: mostly at the end. */
static void insert(struct rbt_piece_list *list, struct rbt_connection_piece *piece)
{
    struct rbt_connection_piece **at = &list->first;
    if (list->last != NULL && list->last->number < piece->number) {
        at = &list->last->next;
    }
    while (*at != NULL && (*at)->number < piece->number) {
        at = &(*at)->next;
    }
    piece->next = *at;
    *at = piece;
    if (piece->next == NULL) {
        list->last = piece;
    }
}

/* The piece could not pass, or came before one that could not. */
static void stall(struct rbt_connection_piece *piece, rbt_time now)
{
    struct rbt_endpoint *end = piece->from;
    RBT_ASSERT(piece->kind != RBT_PIECE_RESET);
    insert(&end->again, piece);
    if (!end->is_stalled) {
        end->stalled_since = piece->left;
        link_stalled(end);
    }
    set_retry(end, now);
}

void rbt_path_retry(struct rbt_endpoint *end, rbt_time now)
{
    RBT_ASSERT(end->has_retry);
    end->has_retry = false;
    if (end->is_stalled && rbt_path_is_open(end)) {
        unlink_stalled(end);
        rbt_path_wake(end, now);
    }
    rbt_connection_unref(end->connection);
}

void rbt_path_drop(struct rbt_endpoint *end)
{
    rbt_connections *all = end->connection->all;
    struct rbt_queued_message *message = NULL;
    while ((message = rbt_message_list_take(&end->queue)) != NULL) {
        rbt_block_unref(message->block);
        message->block = NULL;
        rbt_records_give(&all->message_records, message);
    }
    rbt_block_unref(end->copy);
    end->copy = NULL;
    end->queued = 0;
    end->gone = 0;
    if (end->is_stalled) {
        unlink_stalled(end);
    }
    while (end->again.first != NULL) {
        struct rbt_connection_piece *piece = end->again.first;
        end->again.first = piece->next;
        rbt_piece_release(piece);
    }
    end->again.last = NULL;
}

/* --- Pieces ---------------------------------------------------------------------------------- */

static size_t with_headers(size_t bytes)
{
    return bytes + (bytes * PACKET_HEADER + RBT_PACKET_BYTES / 2) / RBT_PACKET_BYTES;
}

struct rbt_connection_piece *rbt_path_make(struct rbt_endpoint *end, enum rbt_piece_kind kind)
{
    rbt_connections *all = end->connection->all;
    struct rbt_connection_piece *piece = rbt_records_take(&all->piece_records);
    if (piece == NULL) {
        all->status = all->status == RBT_OK ? RBT_E_NOMEM : all->status;
        return NULL;
    }
    end->connection->references++;
    piece->from = end;
    piece->to = rbt_endpoint_other(end);
    piece->kind = kind;
    if (kind != RBT_PIECE_RESET) {
        piece->number = end->left_count++; /* (1) */
    }
    return piece;
}

/* The next `bytes` of a message leave: takes those that lie outside of its block now, as a system
 * call would. A block that nobody else has needs no copy if it leaves as a whole. */
static void take_tail(struct rbt_endpoint *end, struct rbt_block *block, size_t bytes)
{
    const size_t from = end->gone;
    const size_t to = from + bytes;
    if (end->copy == NULL) {
        if (block->tail == NULL) {
            return;
        }
        const bool is_shared = atomic_load_explicit(&block->references, memory_order_relaxed) > 1;
        if (is_shared || bytes < block->bytes) {
            end->copy = rbt_block_create(block->bytes);
        }
        if (end->copy == NULL) { /* or there is no memory; the block itself has room */
            rbt_block_own(block);
            return;
        }
        end->copy->bytes = block->bytes;
        end->copy->class = block->class;
    }
    const size_t here = block->tail == NULL ? block->bytes : block->tail_at;
    if (from < here) {
        memcpy(end->copy->data + from, block->data + from, (to < here ? to : here) - from);
    }
    if (to > here) {
        const size_t first = from > here ? from : here;
        memcpy(end->copy->data + first, block->tail + (first - here), to - first);
    }
}

/* Moves the next `bytes` of the queue into the piece. */
static void take_bytes(struct rbt_endpoint *end, struct rbt_connection_piece *piece, size_t bytes)
{
    RBT_ASSERT(bytes <= end->queued);
    end->queued -= bytes;
    piece->bytes = bytes;
    while (bytes > 0) {
        struct rbt_queued_message *message = end->queue.first;
        struct rbt_block *block = message->block;
        RBT_ASSERT(end->gone < block->bytes);
        const size_t rest = block->bytes - end->gone;
        const size_t taken = rest < bytes ? rest : bytes;
        take_tail(end, block, taken);
        end->gone += taken;
        bytes -= taken;
        block->sent = end->gone;
        if (taken < rest) {
            break;
        }
        if (end->copy != NULL) {
            rbt_block_unref(block);
            message->block = end->copy;
            end->copy = NULL;
        }
        end->gone = 0;
        rbt_message_list_add(&piece->messages, rbt_message_list_take(&end->queue));
        piece->message_count++;
    }
    RBT_ASSERT(bytes == 0);
}

static void count_left(struct rbt_connection_piece *piece)
{
    rbt_connections *all = piece->from->connection->all;
    if (!piece->has_left) {
        piece->has_left = true;
        all->stats.bytes += piece->bytes;
        all->stats.messages += piece->message_count;
        all->nodes[piece->from->node].sent_bytes += piece->bytes;
    }
}

static struct rbt_message_path path_of(const struct rbt_connection_piece *piece)
{
    return (struct rbt_message_path){
        .from = piece->from->node, .to = piece->to->node, .bytes = piece->wire};
}

/* Puts the piece on the link out; it arrives `delay` later than without faults, and its last byte
 * `trickle` later than that. */
static void put_on_link(struct rbt_connection_piece *piece, rbt_time now, rbt_time delay,
                        rbt_time trickle)
{
    struct rbt_endpoint *end = piece->from;
    rbt_connections *all = end->connection->all;
    const rbt_time before = end->arrives_last;
    piece->left = now;
    count_left(piece);
    if (!rbt_path_is_open(end)) {
        if (piece->kind == RBT_PIECE_RESET) { /* it is lost at once; see rbt_path_arrive() */
            piece->passage = (struct rbt_passage){
                .sent = now, .arrives = now + RESET_AGAIN, .last = now + RESET_AGAIN};
            rbt_path_schedule(all, RBT_STAGE_ARRIVE, piece, piece->passage.arrives);
        } else {
            stall(piece, now);
        }
        return;
    }
    const struct rbt_message_path path = path_of(piece);
    struct rbt_passage passages[2];
    const size_t count = rbt_network_send(all->network, &path, now, passages);
    RBT_ASSERT(count == 1);
    struct rbt_passage passage = passages[0];
    all->nodes[end->node].link_free = passage.sent;
    delay = rbt_time_plus(delay, rbt_loss_draw_delay(all));
    passage.arrives = rbt_time_later(rbt_time_plus(passage.arrives, delay), end->arrives_last);
    passage.last = rbt_time_plus(rbt_time_plus(passage.last, delay), trickle);
    piece->passage = passage;
    const rbt_time arrives = add_due(piece, RBT_STAGE_ARRIVE, passage.arrives, before);
    piece->passage.arrives = arrives;
    piece->passage.last = rbt_time_later(passage.last, arrives);
    end->arrives_last = arrives;
}

void rbt_path_launch(struct rbt_connection_piece *piece, rbt_time now)
{
    const bool is_handshake = piece->kind != RBT_PIECE_BYTES && piece->kind != RBT_PIECE_RESET;
    rbt_connections *all = piece->from->connection->all;
    put_on_link(piece, now, is_handshake ? rbt_loss_recover_handshake(all) : 0, 0);
}

/* A lost packet has occupied the link out. */
static void waste_packet(struct rbt_endpoint *end, size_t bytes, rbt_time now)
{
    rbt_connections *all = end->connection->all;
    const struct rbt_message_path path = {
        .from = end->node,
        .to = rbt_endpoint_other(end)->node,
        .bytes = with_headers(bytes < RBT_PACKET_BYTES ? bytes : RBT_PACKET_BYTES)};
    struct rbt_passage passages[2];
    if (rbt_network_send(all->network, &path, now, passages) > 0) {
        all->nodes[end->node].link_free = passages[0].sent;
    }
}

/* How long the next new piece is, if nothing is lost. */
static size_t room_for(const struct rbt_endpoint *end)
{
    const size_t window = end->connection->all->options.window;
    RBT_ASSERT(end->outstanding <= window); /* (2) */
    const size_t room = window - end->outstanding;
    const size_t most = room < PIECE_MAX ? room : PIECE_MAX;
    return end->queued < most ? end->queued : most;
}

static size_t send_new(struct rbt_endpoint *end, rbt_time now)
{
    rbt_connections *all = end->connection->all;
    struct rbt_connection_piece *piece = rbt_path_make(end, RBT_PIECE_BYTES);
    if (piece == NULL) {
        return 0;
    }
    bool is_lost = false;
    const size_t bytes = rbt_loss_draw(end, room_for(end), &is_lost);
    const size_t behind = end->queued > RBT_PACKET_BYTES ? end->queued - RBT_PACKET_BYTES : 0;
    take_bytes(end, piece, bytes);
    end->outstanding += bytes;
    piece->wire = with_headers(bytes + rbt_loss_draw_doubles(all, bytes));
    if (end->queued == 0 && end->is_cut) {
        piece->is_last = true;
        end->is_fin_sent = true;
    }
    rbt_time delay = 0;
    if (is_lost) {
        delay = rbt_loss_recover(all, behind);
        rbt_loss_halve(end, now);
        waste_packet(end, bytes, now);
    }
    put_on_link(piece, now, delay, rbt_loss_pace(end, bytes, now));
    return bytes;
}

static size_t send_again(struct rbt_endpoint *end, rbt_time now)
{
    struct rbt_connection_piece *piece = end->again.first;
    const size_t bytes = piece->bytes;
    end->again.first = piece->next;
    if (end->again.first == NULL) {
        end->again.last = NULL;
    }
    rbt_path_launch(piece, now);
    return bytes;
}

/* --- The queue for the link out -------------------------------------------------------------- */

static void set_timer(struct rbt_endpoint *end, rbt_time at)
{
    if (!end->has_timer) {
        end->has_timer = true;
        end->connection->references++;
        rbt_path_schedule(end->connection->all, RBT_STAGE_TIMER, end, at);
    }
}

/* If it may not only because of the windows, sees to it that it is woken. */
static bool may_leave(struct rbt_endpoint *end, rbt_time now)
{
    const rbt_connections *all = end->connection->all;
    if (end->connection->is_dead || end->is_stalled) {
        return false;
    }
    if (end->again.first != NULL) {
        return true;
    }
    if (!end->is_up || (end->queued == 0 && (!end->is_cut || end->is_fin_sent))) {
        return false;
    }
    if (end->queued > 0 && end->outstanding >= all->options.window) {
        end->is_blocked = true;
        return false;
    }
    const rbt_time free = end->paced - rbt_loss_round_trip(all);
    if (free > now) {
        set_timer(end, free);
        return false;
    }
    return true;
}

/* Puts it into a list of its node. */
static void enqueue(struct rbt_ready_list *list, struct rbt_endpoint *end)
{
    RBT_ASSERT(!end->is_ready);
    end->is_ready = true;
    end->ready_next = NULL;
    end->connection->references++;
    if (list->first == NULL) {
        list->first = end;
    } else {
        list->last->ready_next = end;
    }
    list->last = end;
}

/* Moves all of one list behind those of the other. */
static void append(struct rbt_ready_list *list, struct rbt_ready_list *others)
{
    if (others->first == NULL) {
        return;
    }
    if (list->first == NULL) {
        list->first = others->first;
    } else {
        list->last->ready_next = others->first;
    }
    list->last = others->last;
    *others = (struct rbt_ready_list){0};
}

void rbt_path_wake(struct rbt_endpoint *end, rbt_time now)
{
    rbt_connections *all = end->connection->all;
    struct rbt_connection_node *node = &all->nodes[end->node];
    if (end->is_ready || !may_leave(end, now)) {
        return;
    }
    enqueue(&node->ready, end);
    if (!node->is_leaving) {
        node->is_leaving = true;
        rbt_path_schedule(all, RBT_STAGE_LEAVE, node, rbt_time_later(now, node->link_free));
    }
}

/* Bytes that its next piece will have. */
static size_t next_size(struct rbt_endpoint *end, rbt_time now)
{
    if (!may_leave(end, now)) {
        return 0;
    }
    return end->again.first != NULL ? end->again.first->bytes : room_for(end);
}

/* The first of the list sends one piece, and is `served`. Returns its bytes. */
static size_t serve_first(struct rbt_connection_node *node, rbt_time now)
{
    struct rbt_endpoint *end = node->ready.first;
    size_t bytes = 0;
    node->ready.first = end->ready_next;
    end->is_ready = false;
    if (may_leave(end, now)) {
        bytes = end->again.first != NULL ? send_again(end, now) : send_new(end, now);
        if (may_leave(end, now)) {
            enqueue(&node->served, end);
        }
    }
    rbt_connection_unref(end->connection);
    return bytes;
}

void rbt_path_leave(rbt_connections *all, struct rbt_connection_node *node, rbt_time now)
{
    RBT_ASSERT(node->is_leaving);
    append(&node->ready, &node->served);
    size_t bytes = 0;
    while (node->ready.first != NULL &&
           (bytes == 0 || bytes + next_size(node->ready.first, now) <= PIECE_MAX)) {
        bytes += serve_first(node, now);
    }
    node->is_leaving = node->ready.first != NULL || node->served.first != NULL;
    if (node->is_leaving && all->status == RBT_OK) { /* without memory this would not end */
        rbt_path_schedule(all, RBT_STAGE_LEAVE, node, rbt_time_later(now, node->link_free));
    }
}

void rbt_path_timer(struct rbt_endpoint *end, rbt_time now)
{
    RBT_ASSERT(end->has_timer);
    end->has_timer = false;
    rbt_path_wake(end, now);
    rbt_connection_unref(end->connection);
}

void rbt_path_read(struct rbt_endpoint *end, size_t bytes, rbt_time now)
{
    RBT_ASSERT(bytes <= end->outstanding);
    end->outstanding -= bytes;
    if (end->is_blocked && bytes > 0) {
        end->is_blocked = false;
        set_timer(end, rbt_time_plus(now, end->connection->all->options.latency));
    }
}

/* --- Arrival --------------------------------------------------------------------------------- */

/* Takes the piece in; returns when it can be heard. The link in and the processor are occupied only
 * for as long as they are needed, also if the last byte comes much later than the first one. */
static rbt_time take_in(struct rbt_connection_piece *piece, const struct rbt_message_path *path)
{
    const struct rbt_endpoint *end = piece->from;
    rbt_connections *all = end->connection->all;
    struct rbt_connection_node *node = &all->nodes[path->to];
    struct rbt_passage passage = piece->passage;
    passage.last = passage.arrives;
    rbt_time heard = 0;
    const bool is_in = rbt_network_receive(all->network, path, &passage, &heard);
    RBT_ASSERT(is_in);
    const rbt_time cost = all->options.message_cost * (rbt_time)piece->message_count;
    if (cost > 0) {
        node->cpu_free = rbt_time_plus(rbt_time_later(heard, node->cpu_free), cost);
        heard = node->cpu_free;
    }
    node->received_bytes += piece->bytes;
    heard = rbt_time_later(heard, rbt_time_plus(piece->passage.last, cost));
    return rbt_time_later(heard, end->delivered_last); /* (1) */
}

/* It has crossed a link of a rack: first up, then down. */
static void count_rack(const struct rbt_connection_piece *piece)
{
    const rbt_connections *all = piece->from->connection->all;
    if (piece->passage.racks == 1) {
        all->rack_bytes[all->nodes[piece->from->node].rack].up += piece->bytes;
    } else {
        all->rack_bytes[all->nodes[piece->to->node].rack].down += piece->bytes;
    }
}

void rbt_path_arrive(struct rbt_connection_piece *piece, rbt_time now)
{
    struct rbt_endpoint *end = piece->from;
    rbt_connections *all = end->connection->all;
    const bool is_reset = piece->kind == RBT_PIECE_RESET;
    const struct rbt_message_path path = path_of(piece);
    RBT_ASSERT(piece->passage.arrives == now);
    if (end->connection->is_dead && !is_reset) {
        rbt_piece_release(piece);
        return;
    }
    if (rbt_network_pass(all->network, &path, &piece->passage)) {
        count_rack(piece);
        rbt_path_schedule(all, RBT_STAGE_ARRIVE, piece, piece->passage.arrives);
        return;
    }
    if (is_reset && !rbt_path_is_open(end)) {
        /* What the other side sends is answered so, too; it does not try for ever. */
        const rbt_time since = now - piece->passage.sent;
        if (since > RESET_LAST) {
            rbt_piece_release(piece);
            return;
        }
        piece->passage.arrives = now + (since > RESET_AGAIN ? since : RESET_AGAIN);
        rbt_path_schedule(all, RBT_STAGE_ARRIVE, piece, piece->passage.arrives);
        return;
    }
    if (!is_reset) {
        if (!rbt_path_is_open(end) || piece->number != end->arrived_count) {
            stall(piece, now);
            return;
        }
        end->arrived_count++; /* (1) */
    }
    const rbt_time heard = take_in(piece, &path);
    end->delivered_last = add_due(piece, RBT_STAGE_DELIVER, heard, end->delivered_last);
}
