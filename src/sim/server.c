/* sim/server.c - a simulated server: one shard, and what it does with messages.
 *
 * The shard decides; this file carries. A push that came before its predecessor is kept until that
 * has come. A request that must wait is kept in a slot, whose number is the shard's name for it,
 * and its worker is told that it need not ask again. Everything that a server sends says how far it
 * is: its floor, its version, and how much of the worker's stream has arrived. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "sim/cluster.h"
#include "sim/rack.h"
#include "sim/stable.h"

enum {
    RANGE_MAX = 8,
    PARKED_PER_WORKER = 8,
    PARKED_MIN = 64,
};

static const uint32_t none = UINT32_MAX;

rbt_status rbt_server_init(rbt_sim_cluster *cluster, uint32_t index, uint32_t table_max)
{
    struct rbt_sim_server *server = &cluster->servers[index];
    const uint32_t workers = cluster->worker_count;
    server->index = index;
    server->node = RBT_NODE_SERVERS + index;
    server->parked_max = workers * PARKED_PER_WORKER + PARKED_MIN;
    const struct rbt_shard_options options = {.worker_count = workers,
                                              .table_max = table_max,
                                              .range_max = RANGE_MAX,
                                              .parked_max = server->parked_max};
    rbt_status st = rbt_shard_create(&options, &server->shard);
    if (st != RBT_OK) {
        return st;
    }
    server->effects = rbt_calloc((size_t)server->parked_max + 1, sizeof *server->effects);
    server->ready = rbt_calloc((size_t)server->parked_max + 1, sizeof *server->ready);
    server->parked = rbt_calloc(server->parked_max, sizeof *server->parked);
    server->parked_of = rbt_calloc(workers, sizeof *server->parked_of);
    server->early = rbt_calloc(workers, sizeof(struct rbt_message *));
    server->blank = rbt_calloc(table_max, sizeof *server->blank);
    server->told = rbt_calloc(table_max, sizeof *server->told);
    if (server->effects == NULL || server->ready == NULL || server->parked == NULL ||
        server->parked_of == NULL || server->early == NULL || server->blank == NULL ||
        server->told == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a simulated server");
    }
    const struct rbt_comm_options budget = {.rate = cluster->bandwidth};
    rbt_comm_init(&server->comm, &budget, 0);
    const struct rbt_comm_options far = {.rate = rbt_rack_rate(cluster, server->node),
                                         .above = &server->comm};
    rbt_comm_init(&server->far, &far, 0);
    rbt_server_clear(cluster, server);
    return RBT_OK;
}

void rbt_server_clear(rbt_sim_cluster *cluster, struct rbt_sim_server *server)
{
    for (uint32_t i = 0; server->parked != NULL && i < server->parked_max; i++) {
        rbt_message_unref(server->parked[i].request);
        server->parked[i] = (struct rbt_parked){.next = i + 1 < server->parked_max ? i + 1 : none};
    }
    server->free_slot = 0;
    server->free_count = server->parked_max;
    server->gone_count = 0;
    server->ready_count = 0;
    for (uint32_t i = 0; server->early != NULL && i < cluster->worker_count; i++) {
        while (server->early[i] != NULL) {
            struct rbt_message *message = server->early[i];
            server->early[i] = message->next;
            rbt_message_unref(message);
        }
    }
    for (uint32_t i = 0; server->parked_of != NULL && i < cluster->worker_count; i++) {
        server->parked_of[i] = none;
    }
}

void rbt_server_deinit(rbt_sim_cluster *cluster, struct rbt_sim_server *server)
{
    rbt_server_clear(cluster, server);
    rbt_free(server->told);
    rbt_free(server->blank);
    rbt_free(server->early);
    rbt_free(server->parked_of);
    rbt_free(server->parked);
    rbt_free(server->ready);
    rbt_free(server->effects);
    rbt_shard_destroy(server->shard);
}

/* --- Slots of requests that wait ------------------------------------------------------------- */

/* A slot for the request, or none. The last ones, one for each worker, are kept for requests that
 * somebody waits for. */
static uint32_t take_slot(const rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                          struct rbt_message *request)
{
    const bool has_room = !request->is_ahead || server->free_count > cluster->worker_count;
    const uint32_t slot = has_room ? server->free_slot : none;
    if (slot != none) {
        server->free_count--;
        server->free_slot = server->parked[slot].next;
        server->parked[slot] =
            (struct rbt_parked){.request = request, .next = server->parked_of[request->worker]};
        server->parked_of[request->worker] = slot;
        rbt_message_ref(request);
        request->on_way++;
    }
    return slot;
}

static void free_slot(struct rbt_sim_server *server, uint32_t slot)
{
    struct rbt_message *request = server->parked[slot].request;
    uint32_t *at = &server->parked_of[request->worker];
    while (*at != slot) { /* ends: the slot is in its worker's list, which is short */
        RBT_ASSERT(*at != none);
        at = &server->parked[*at].next;
    }
    *at = server->parked[slot].next;
    server->parked[slot] = (struct rbt_parked){.next = server->free_slot};
    server->free_slot = slot;
    server->free_count++;
    request->on_way--;
    rbt_message_unref(request);
}

/* Whether the request waits already; then it was sent again. */
static bool is_parked(const struct rbt_sim_server *server, const struct rbt_message *request)
{
    for (uint32_t slot = server->parked_of[request->worker]; slot != none;
         slot = server->parked[slot].next) {
        if (server->parked[slot].request->id == request->id) {
            return true;
        }
    }
    return false;
}

/* --- Sending --------------------------------------------------------------------------------- */

static void send_news(rbt_sim_cluster *cluster, const struct rbt_sim_server *server,
                      struct rbt_message *message)
{
    message->from = server->node;
    message->shard = server->index;
    message->floor = server->floor;
    message->version = server->version;
    if (message->worker < cluster->worker_count) {
        const bool is_ack = message->kind == RBT_MESSAGE_ACK;
        message->arrived = RBT_MUTANT(EARLY_ACK) && is_ack
                               ? message->id
                               : rbt_shard_arrived(server->shard, message->worker);
        message->settled = rbt_shard_settled(server->shard, message->worker);
    }
    rbt_sim_cluster_send(cluster, message);
    rbt_message_unref(message);
}

/* The message answers another one. */
static void make_about(struct rbt_message *message, struct rbt_message *request)
{
    rbt_message_ref(request);
    message->about = request;
}

/* A short message back to where another came from. */
static void reply(rbt_sim_cluster *cluster, const struct rbt_sim_server *server,
                  struct rbt_message *to, enum rbt_message_kind kind)
{
    struct rbt_message *message = rbt_message_create(&cluster->pool, kind);
    if (message == NULL) {
        rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate a message"));
        return;
    }
    message->to = to->from;
    message->worker = to->worker;
    message->id = to->id;
    make_about(message, to);
    send_news(cluster, server, message);
}

/* --- Stepping -------------------------------------------------------------------------------- */

/* Steps the shard. Adds slots that are to be answered to server->ready. */
static void step(struct rbt_sim_server *server, const struct rbt_shard_event *event,
                 struct rbt_shard_outbox *out)
{
    *out = (struct rbt_shard_outbox){.effects = server->effects};
    rbt_shard_step(server->shard, event, out);
    server->floor = out->floor;
    server->version = out->version;
    for (size_t i = 0; i < out->count; i++) {
        if (out->effects[i].kind == RBT_SHARD_READY) {
            server->ready[server->ready_count++] = (uint32_t)out->effects[i].request;
        }
    }
    RBT_ASSERT(server->ready_count <= server->parked_max); /* each was parked */
}

rbt_status rbt_server_step_now(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                               const struct rbt_shard_event *event)
{
    struct rbt_shard_outbox out;
    step(server, event, &out);
    RBT_ASSERT(server->ready_count == 0); /* neither a table nor a reset lets anybody go on */
    (void)cluster;
    return out.status;
}

/* Whether rows that nobody waits for yet are not sent, since the shard would have to keep too much
 * for them. */
static bool must_withhold(const struct rbt_sim_server *server, const struct rbt_message *request)
{
    const struct rbt_shard_event *event = &request->event;
    return request->is_ahead && event->is_base && event->need <= server->floor &&
           !rbt_shard_sends_early(server->shard, event->table);
}

/* Says so. */
static void withhold(rbt_sim_cluster *cluster, const struct rbt_sim_server *server,
                     struct rbt_message *request)
{
    struct rbt_message *rows = rbt_message_create(&cluster->pool, RBT_MESSAGE_ROWS);
    if (rows == NULL) {
        rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate an answer"));
        return;
    }
    rows->to = request->from;
    rows->worker = request->worker;
    rows->id = request->id;
    rows->is_withheld = true;
    make_about(rows, request);
    send_news(cluster, server, rows);
}

/* The budget of what goes to this worker. */
static struct rbt_comm *way_to(const rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                               uint32_t worker)
{
    return rbt_rack_is_far(cluster, worker, server->index) ? &server->far : &server->comm;
}

/* No more rows go early than the server's budget has room for. */
static void limit_early(const rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                        struct rbt_message *rows)
{
    const size_t row_bytes = sizeof(uint64_t) + cluster->tables[rows->event.table].row_size;
    struct rbt_comm *comm = way_to(cluster, server, rows->worker);
    const size_t room = rbt_comm_grant(comm, cluster->now) / row_bytes;
    rows->early.room = room < rows->early.room ? (uint32_t)room : rows->early.room;
}

/* Answers a request. If it must wait it is left in its slot; without a slot it is then forgotten,
 * and will be asked for again. Returns true if it was answered. */
static bool answer(rbt_sim_cluster *cluster, struct rbt_sim_server *server, uint32_t slot,
                   struct rbt_message *request)
{
    if (must_withhold(server, request)) {
        withhold(cluster, server, request);
        return true;
    }
    struct rbt_message *rows = rbt_message_answer(request, cluster->tables);
    if (rows == NULL) {
        rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate an answer"));
        return false;
    }
    if (rows->event.early != NULL) {
        limit_early(cluster, server, rows);
    }
    RBT_ASSERT(slot != none || rows->event.need <= server->floor);
    rows->event.request = slot;
    struct rbt_shard_outbox out;
    step(server, &rows->event, &out); /* a request lets nobody go on */
    if (out.status != RBT_OK) {
        rbt_sim_cluster_fail(cluster, out.status);
        rbt_message_unref(rows);
        return false;
    }
    const bool is_answered = out.count > 0;
    const bool is_sparse =
        rows->event.kind == RBT_SHARD_PULL && cluster->tables[rows->event.table].is_sparse;
    if (is_answered && is_sparse && !rows->has_elements) {
        rbt_sim_cluster_fail(cluster, rbt_fail(RBT_E_NOMEM, "could not allocate an answer"));
        rbt_message_unref(rows);
        return false;
    }
    if (is_answered) {
        RBT_ASSERT(out.effects[0].kind == RBT_SHARD_ANSWERED); /* there is room for all slots */
        rows->was_parked = request->was_parked;
        make_about(rows, request);
        rows->answered = cluster->now;
        rbt_message_weigh(rows, cluster->tables);
        rbt_comm_sent(way_to(cluster, server, request->worker), cluster->now, 0, rows->bytes,
                      rows->event.early != NULL ? RBT_COMM_EARLY : RBT_COMM_READ);
        send_news(cluster, server, rows);
    } else {
        request->was_parked = true;
        reply(cluster, server, request, RBT_MESSAGE_PARKED);
        rbt_message_unref(rows);
    }
    return is_answered;
}

static void answer_ready(rbt_sim_cluster *cluster, struct rbt_sim_server *server)
{
    for (size_t i = 0; i < server->ready_count; i++) {
        const uint32_t slot = server->ready[i];
        const bool is_answered = answer(cluster, server, slot, server->parked[slot].request);
        RBT_ASSERT(is_answered || cluster->status != RBT_OK);
        free_slot(server, slot);
    }
    server->ready_count = 0;
}

/* Keeps a message until its predecessor has come, unless it is kept already. */
static void keep_early(struct rbt_sim_server *server, struct rbt_message *message)
{
    struct rbt_message **at = &server->early[message->worker];
    while (*at != NULL && (*at)->id < message->id) {
        at = &(*at)->next;
    }
    if (*at == NULL || (*at)->id != message->id) {
        rbt_message_ref(message);
        message->on_way++;
        message->next = *at;
        *at = message;
    }
}

/* Steps one message of a worker's stream. Returns false if it came too early. */
static bool apply(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                  struct rbt_message *message)
{
    struct rbt_shard_outbox out;
    const bool is_leave = message->event.kind == RBT_SHARD_LEAVE;
    const bool had_left = rbt_shard_clock(server->shard, message->worker) == RBT_CLOCK_GONE;
    step(server, &message->event, &out);
    if (out.count > 0 && out.effects[0].kind == RBT_SHARD_EARLY) {
        return false;
    }
    if (out.status == RBT_E_CLOSED) {
        reply(cluster, server, message, RBT_MESSAGE_REFUSED);
    } else if (out.status != RBT_OK) {
        rbt_sim_cluster_fail(cluster, out.status);
    }
    server->gone_count += is_leave && !had_left;
    answer_ready(cluster, server);
    return true;
}

/* Steps what was waiting for the worker's last message. */
static void apply_early(rbt_sim_cluster *cluster, struct rbt_sim_server *server, uint32_t worker)
{
    struct rbt_message *next = server->early[worker];
    while (next != NULL && apply(cluster, server, next)) { /* ends: one less each time */
        server->early[worker] = next->next;
        next->next = NULL;
        next->on_way--;
        rbt_message_unref(next);
        next = server->early[worker];
    }
}

static void receive_push(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                         struct rbt_message *message)
{
    if (!apply(cluster, server, message)) {
        keep_early(server, message);
        if (RBT_MUTANT(EARLY_ACK)) {
            reply(cluster, server, message, RBT_MESSAGE_ACK);
        }
        return;
    }
    apply_early(cluster, server, message->worker);
    reply(cluster, server, message, RBT_MESSAGE_ACK);
}

/* --- Pushes that were added up --------------------------------------------------------------- */

/* What the shard has of a message with several parts. */
enum standing {
    IS_NEW,   /* none of them, and each is the next of its worker */
    IS_KNOWN, /* all of them */
    IS_MIXED, /* some of them; or a message before one is missing, or its worker was given up */
};

static enum standing standing_of(const struct rbt_sim_server *server,
                                 const struct rbt_message *message)
{
    bool is_new = true;
    bool is_known = true;
    for (uint32_t i = 0; i < message->part_count; i++) {
        const struct rbt_shard_event *part = &message->parts[i]->event;
        const uint64_t arrived = rbt_shard_arrived(server->shard, part->worker);
        is_known = is_known && arrived >= part->sequence;
        is_new = is_new &&
                 (arrived + 1 == part->sequence ||
                  (RBT_MUTANT(HALF_MERGE) && arrived >= part->sequence)) &&
                 rbt_shard_clock(server->shard, part->worker) != RBT_CLOCK_GONE;
    }
    return is_known ? IS_KNOWN : is_new ? IS_NEW : IS_MIXED;
}

/* Batches of the same tables without rows. Returns how many. */
static size_t blank_batches(const struct rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                            const struct rbt_shard_event *sum)
{
    static const uint32_t no_offsets[1] = {0};
    for (size_t i = 0; i < sum->batch_count; i++) {
        const uint32_t table = sum->batches[i].table;
        server->blank[i] = (struct rbt_batch){
            .table = table, .offsets = cluster->tables[table].is_sparse ? no_offsets : NULL};
    }
    return sum->batch_count;
}

/* Steps all parts, and nothing in between: the last one with the sum, the others without rows. All
 * of them complete the same clock, so the sum becomes visible when each of them would. */
static void apply_merged(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                         const struct rbt_message *message)
{
    const size_t count = blank_batches(cluster, server, &message->event);
    for (uint32_t i = 0; i < message->part_count; i++) {
        const struct rbt_shard_event *part = &message->parts[i]->event;
        struct rbt_shard_event event = message->event;
        struct rbt_shard_outbox out;
        RBT_ASSERT(part->clock == event.clock && part->marker == event.marker);
        RBT_ASSERT(event.marker > event.clock);
        event.worker = part->worker;
        event.sequence = part->sequence;
        event.batches = i + 1 < message->part_count ? server->blank : event.batches;
        event.batch_count = count;
        step(server, &event, &out);
        RBT_ASSERT(out.count == 0 || out.effects[0].kind != RBT_SHARD_EARLY);
        if (out.status != RBT_OK) {
            rbt_sim_cluster_fail(cluster, out.status);
        }
    }
    answer_ready(cluster, server);
    for (uint32_t i = 0; i < message->part_count; i++) {
        apply_early(cluster, server, message->parts[i]->worker);
    }
}

static void receive_merged(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                           struct rbt_message *message)
{
    const enum standing standing = standing_of(server, message);
    if (standing == IS_MIXED) {
        reply(cluster, server, message, RBT_MESSAGE_SPLIT);
        return;
    }
    if (standing != IS_KNOWN) {
        apply_merged(cluster, server, message);
    }
    for (uint32_t i = 0; i < message->part_count; i++) {
        reply(cluster, server, message->parts[i], RBT_MESSAGE_ACK);
    }
    reply(cluster, server, message, RBT_MESSAGE_TAKEN);
}

static void receive_pull(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                         struct rbt_message *message)
{
    if (is_parked(server, message)) {
        reply(cluster, server, message, RBT_MESSAGE_PARKED);
        return;
    }
    if (message->event.need <= server->floor) {
        (void)answer(cluster, server, none, message); /* a failure is the run's */
        return;
    }
    const uint32_t slot = take_slot(cluster, server, message);
    if (slot != none && answer(cluster, server, slot, message)) {
        free_slot(server,
                  slot); /* without a slot there is no room to wait: it will be asked again */
    }
}

/* The coordinator says that a worker is gone. */
static void receive_expel(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                          struct rbt_message *message)
{
    const struct rbt_shard_event event = {.kind = RBT_SHARD_LEAVE, .worker = message->event.worker};
    if (rbt_shard_clock(server->shard, event.worker) != RBT_CLOCK_GONE) {
        struct rbt_shard_outbox out;
        step(server, &event, &out);
        if (out.status != RBT_OK) {
            rbt_sim_cluster_fail(cluster, out.status);
        }
        server->gone_count++;
        answer_ready(cluster, server);
    }
    reply(cluster, server, message, RBT_MESSAGE_DONE);
}

void rbt_server_receive(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                        struct rbt_message *message)
{
    switch (message->kind) {
    case RBT_MESSAGE_PUSH:
        receive_push(cluster, server, message);
        break;
    case RBT_MESSAGE_PULL:
        receive_pull(cluster, server, message);
        break;
    case RBT_MESSAGE_MERGED:
        receive_merged(cluster, server, message);
        break;
    case RBT_MESSAGE_EXPEL:
        receive_expel(cluster, server, message);
        break;
    default:
        RBT_UNREACHABLE();
    }
    rbt_stable_report(cluster, server, false);
}
