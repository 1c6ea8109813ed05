/* proto/reads.c - requests for rows: answered at once, or when everybody has got far enough.
 *
 * Rows are copied once, by the shard, to the place in the answer where they belong.
 *
 * A request that waits has a slot, and the shard knows it by the slot's number. When its guest is
 * gone the slot stays taken until the shard says that it is ready: shards forget nothing.
 *
 * Memory: slots are made when requests wait, so that a shard that nobody waits at is small however
 * many workers there are. Cost: a guest that goes costs the requests of its own that wait. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "proto/desk.h"

enum {
    SLOTS_PER_WORKER = 64,
    SLOTS_MIN = 64,
    PACK_MIN = 64,              /* values that are worth being made smaller */
    VIEW_MIN = 64 << 10,        /* bytes of rows that are worth being sent from where they lie */
    QUEUE_MAX = 1 << 16,        /* requests without a slot */
    SCAN_BYTES_MAX = 512 << 20, /* of rows in an answer */
    EARLY_BYTES_MAX = 16 << 20, /* the same, of those that nobody waits for */
    WAITING_KEYS_MAX = 1 << 27, /* written out, of all requests that wait */
};

static const uint32_t none = UINT32_MAX;

/* Makes slots, and room for as many effects. All are taken. */
static rbt_status grow(rbt_host *host)
{
    const uint32_t before = host->slot_room;
    const uint32_t wanted = before == 0 ? SLOTS_MIN : 2 * before;
    const uint32_t room = wanted < host->slot_max ? wanted : host->slot_max;
    RBT_ASSERT(host->free_slot == none && before < room);
    struct rbt_desk_request *slots = rbt_realloc(host->slots, room, sizeof *slots);
    host->slots = slots != NULL ? slots : host->slots;
    struct rbt_shard_effect *effects =
        rbt_realloc(host->effects, (size_t)room + 1, sizeof *effects);
    host->effects = effects != NULL ? effects : host->effects;
    uint32_t *ready = rbt_realloc(host->ready, (size_t)room + 1, sizeof *ready);
    host->ready = ready != NULL ? ready : host->ready;
    if (slots == NULL || effects == NULL || ready == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for requests that wait");
    }
    for (uint32_t i = before; i < room; i++) {
        slots[i] = (struct rbt_desk_request){.next = i + 1 < room ? i + 1 : none};
    }
    host->free_slot = before;
    host->slot_room = room;
    return RBT_OK;
}

rbt_status rbt_reads_init(rbt_host *host)
{
    host->slot_max = host->options.worker_count * SLOTS_PER_WORKER + SLOTS_MIN;
    host->free_slot = none;
    return grow(host);
}

void rbt_reads_deinit(rbt_host *host)
{
    if (host->slots != NULL) {
        rbt_reads_forget(host, NULL);
    }
    rbt_reads_own_views(host); /* peers may still have to send them */
    rbt_free(host->queue);
    rbt_free(host->slots);
    rbt_free(host->effects);
    rbt_free(host->ready);
}

/* Ends the use of a list by a request that has waited. */
static void drop_list(rbt_host *host, const struct rbt_desk_request *request)
{
    if (request->list != NULL && request->list->name == 0 && !RBT_MUTANT(KEPT_KEYS)) {
        host->waiting_keys -= request->list->count;
    }
    rbt_list_unref(request->list);
}

/* Takes a slot from the list of its guest. */
static void unlink_slot(rbt_host *host, uint32_t slot)
{
    const struct rbt_desk_request *request = &host->slots[slot];
    if (request->next != none) {
        host->slots[request->next].previous = request->previous;
    }
    if (request->previous != none) {
        host->slots[request->previous].next = request->next;
    } else {
        RBT_ASSERT(request->guest->waiting == slot + 1);
        request->guest->waiting = request->next == none ? 0 : request->next + 1;
    }
}

/* Nobody waits in this slot any more; it is still the shard's. */
static void vacate(rbt_host *host, uint32_t slot)
{
    unlink_slot(host, slot);
    drop_list(host, &host->slots[slot]);
    host->slots[slot] = (struct rbt_desk_request){0};
}

void rbt_reads_forget(rbt_host *host, const struct rbt_guest *guest)
{
    if (RBT_MUTANT(OLD_REQUESTS) && guest != NULL) {
        return;
    }
    for (uint32_t i = 0; guest == NULL && i < host->slot_room; i++) {
        if (host->slots[i].guest != NULL) {
            vacate(host, i);
        }
    }
    while (guest != NULL && guest->waiting != 0) {
        vacate(host, guest->waiting - 1);
    }
    size_t kept = 0;
    for (size_t i = 0; i < host->queue_count; i++) {
        if (guest == NULL || host->queue[i].guest == guest) {
            drop_list(host, &host->queue[i]);
        } else {
            host->queue[kept++] = host->queue[i];
        }
    }
    host->queue_count = kept;
}

/* --- Answers --------------------------------------------------------------------------------- */

/* The event that the shard is stepped with, but for where rows go to. */
static struct rbt_shard_event event_of(rbt_host *host, const struct rbt_desk_request *request)
{
    const struct rbt_wire_pull *pull = &request->pull; /* of a SCAN all zero */
    host->copy_known = pull->copy;
    host->copy = pull->copy;
    host->copy_base = 0;
    return (struct rbt_shard_event){.kind = request->is_scan ? RBT_SHARD_SCAN : RBT_SHARD_PULL,
                                    .worker = request->guest->worker,
                                    .table = request->table,
                                    .need = request->is_scan ? request->scan.need : pull->need,
                                    .request = none,
                                    .subscription = pull->subscription,
                                    .asked = pull->subscription,
                                    .applied = host->applied,
                                    .applied_first = pull->applied_first,
                                    .applied_count = pull->applied_count,
                                    .is_base = pull->is_base,
                                    .least = pull->least,
                                    .sequence = pull->sequence,
                                    .is_stable = pull->is_stable,
                                    .stable = pull->stable,
                                    .limit = pull->is_stable ? &host->limit : NULL,
                                    .stamp = pull->wants_stamp ? &host->stamp : NULL,
                                    .copy = pull->has_copy ? &host->copy : NULL};
}

/* Steps the shard with a request that need not wait. It fails if the table is of no more use,
 * because its rule has failed. */
static rbt_status step_open(rbt_host *host, const struct rbt_shard_event *event)
{
    struct rbt_shard_outbox out;
    RBT_ASSERT(event->need <= host->floor);
    (void)rbt_desk_step(host, event, &out); /* a request lets nobody go on */
    RBT_ASSERT(out.status != RBT_OK ||
               (out.count == 1 && out.effects[0].kind == RBT_SHARD_ANSWERED));
    return out.status;
}

/* Writes what stands in front of the rows; returns its size. */
static size_t put_front(rbt_host *host, const struct rbt_desk_request *request, char *to,
                        uint64_t scan_count)
{
    const struct rbt_wire_answer answer = {.news = rbt_host_news(host, request->guest->worker),
                                           .was_parked = request->was_parked,
                                           .has_stamp = request->pull.wants_stamp,
                                           .stamp = host->stamp,
                                           .has_copy = request->pull.has_copy,
                                           .copy_base = host->copy_base,
                                           .copy = host->copy,
                                           .has_limit = request->pull.is_stable,
                                           .limit = host->limit,
                                           .scan_count = scan_count,
                                           .applied_count = request->pull.applied_count,
                                           .applied = host->applied};
    return rbt_wire_put_answer(to, &answer);
}

static size_t front_bytes(const struct rbt_desk_request *request)
{
    return RBT_WIRE_ANSWER_BYTES + (request->pull.wants_stamp ? (size_t)RBT_WIRE_ANSWER_STAMP : 0) +
           (request->pull.has_copy ? (size_t)RBT_WIRE_ANSWER_COPY : 0) +
           (request->pull.is_stable ? (size_t)RBT_WIRE_ANSWER_LIMIT : 0) +
           request->pull.applied_count * sizeof(uint64_t);
}

/* Everything that is sent over the network uses up the budget, whether it was asked or not. */
static void note_sent(rbt_host *host, const struct rbt_desk_request *request, size_t bytes)
{
    if (host->comm.options.rate > 0 && !request->guest->is_near) {
        rbt_comm_sent(&host->comm, host->now, 0, bytes,
                      request->pull.is_early ? RBT_COMM_EARLY : RBT_COMM_READ);
    }
}

static void send_answer(rbt_host *host, const struct rbt_desk_request *request,
                        struct rbt_block *block)
{
    const struct rbt_frame header = {.kind = RBT_FRAME_ROWS,
                                     .flags = rbt_desk_flags(host, request->guest),
                                     .worker = request->guest->worker,
                                     .id = request->id};
    rbt_wire_close(block->data, header, block->bytes);
    request->guest->owes_ack = false; /* the answer says how far the stream has come */
    note_sent(host, request, block->bytes);
    request->guest->send(request->guest->context, block);
    rbt_block_unref(block);
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for an answer");
}

/* The same for rows of a table with filters. A reader has none of them. */
static struct rbt_block *filter_rows(rbt_host *host, const struct rbt_desk_request *request,
                                     const struct rbt_shard_sent *sent, struct rbt_wire_rows rows)
{
    const struct rbt_desk_entry *table = host->tables[request->table];
    const size_t front = front_bytes(request);
    if (request->guest->is_reader || !rbt_desk_filter(host, table, sent, &rows)) {
        return NULL;
    }
    struct rbt_block *block = rbt_block_create(front + rbt_wire_rows_bound(&rows));
    if (block != NULL) { /* else it is sent as it is */
        block->bytes = front + rbt_wire_rows_put(block->data + front, &rows, NULL);
    }
    return block;
}

/* The rows made smaller, if that pays, as the table's filters do it or the guest wants: a block of
 * their own, or NULL. */
static struct rbt_block *pack(rbt_host *host, const struct rbt_desk_request *request,
                              const struct rbt_shard_sent *sent, struct rbt_wire_rows rows)
{
    const enum rbt_compression compression = request->guest->compression;
    if (host->tables[request->table]->spec.filter[0] != '\0') {
        return filter_rows(host, request, sent, rows);
    }
    rows.compression = compression;
    if (compression == RBT_COMPRESSION_NONE || rows.count * rows.width < PACK_MIN ||
        (compression == RBT_COMPRESSION_ZEROS && !rbt_wire_rows_has_zeros(&rows))) {
        return NULL;
    }
    const size_t front = front_bytes(request);
    const size_t bound = rbt_wire_rows_bound(&rows);
    struct rbt_block *block = rbt_block_create(front + bound);
    struct rbt_block *scratch = rbt_block_create(bound);
    if (block != NULL && scratch != NULL) {
        block->bytes = front + rbt_wire_rows_put(block->data + front, &rows, scratch->data);
    } else { /* then it is sent as it is */
        rbt_block_unref(block);
        block = NULL;
    }
    rbt_block_unref(scratch);
    return block;
}

/* Dense rows: the shard writes them into the answer. */
static rbt_status answer_dense(rbt_host *host, const struct rbt_desk_request *request)
{
    const struct rbt_desk_entry *table = host->tables[request->table];
    struct rbt_wire_rows rows = {.table = request->table,
                                 .count = request->list->count,
                                 .list = request->list->name,
                                 .element_size = rbt_spec_element_size(&table->spec),
                                 .width = table->spec.width};
    const size_t front = front_bytes(request);
    struct rbt_block *block = rbt_block_create(front + rbt_wire_rows_reserve_bytes(&rows));
    if (block == NULL) {
        return no_memory();
    }
    struct rbt_batch batch = rbt_list_batch(request->list, request->table);
    struct rbt_shard_event event = event_of(host, request);
    const void *view = NULL;
    block->bytes = front + rbt_wire_rows_reserve(block->data + front, &rows, &batch.values);
    event.batches = &batch;
    event.batch_count = 1;
    const size_t bytes = rows.count * rows.width * rows.element_size;
    const bool may_view = bytes >= VIEW_MIN && bytes % RBT_FRAME_ALIGN == 0 &&
                          host->view_count < RBT_DESK_VIEWS_MAX && !request->guest->is_near;
    event.view = may_view ? &view : NULL;
    struct rbt_shard_sent sent = {.keep = rbt_desk_keep(host, table, rows.count * rows.width)};
    event.sent = &sent;
    const rbt_status st = step_open(host, &event);
    if (st != RBT_OK) {
        rbt_block_unref(block);
        return st;
    }
    rows.values = view != NULL ? view : batch.values;
    struct rbt_block *packed = pack(host, request, &sent, rows);
    /* Of the same length it would be taken for rows as they are, and put where they belong. */
    if (packed != NULL && packed->bytes >= block->bytes) {
        rbt_block_unref(packed);
        packed = NULL;
    }
    if (packed != NULL) {
        rbt_block_unref(block);
        block = packed;
        host->copy_base = rbt_desk_base(host, &sent, rows.count * rows.width);
    } else if (view != NULL) {
        block->tail = view;
        block->tail_at = front + RBT_WIRE_ROWS_BYTES;
        rbt_block_ref(block);
        host->views[host->view_count++] = block;
    }
    (void)put_front(host, request, block->data, 0);
    send_answer(host, request, block);
    return RBT_OK;
}

void rbt_reads_own_views(rbt_host *host)
{
    for (uint32_t i = 0; i < host->view_count; i++) {
        if (host->views[i]->references > 1) { /* else it has been sent */
            rbt_block_own_rest(host->views[i]);
        }
        rbt_block_unref(host->views[i]);
    }
    host->view_count = 0;
}

/* The elements of a sparse row, while the shard holds them out. */
struct sink {
    rbt_host *host;
    const struct rbt_desk_request *request;
    struct rbt_block *block; /* NULL without memory */
};

static void take_elements(void *context, const uint32_t *index, const void *values, size_t count)
{
    struct sink *sink = context;
    const struct rbt_desk_entry *table = sink->host->tables[sink->request->table];
    const uint32_t offsets[2] = {0, (uint32_t)count};
    static const uint64_t zero = 0;
    struct rbt_wire_rows rows = {.table = sink->request->table,
                                 .count = 1,
                                 .list = sink->request->list->name,
                                 .values = count == 0 ? &zero : values,
                                 .element_size = rbt_spec_element_size(&table->spec),
                                 .width = table->spec.width,
                                 .offsets = offsets,
                                 .elements = index};
    const size_t front = front_bytes(sink->request);
    const struct rbt_shard_sent all = {0};
    if (!sink->request->guest->is_reader) {
        (void)rbt_desk_filter(sink->host, table, &all, &rows); /* if it pays */
    }
    sink->block = rbt_block_create(front + rbt_wire_rows_bound(&rows));
    if (sink->block != NULL) {
        sink->block->bytes = front + rbt_wire_rows_put(sink->block->data + front, &rows, NULL);
    }
}

static rbt_status answer_sparse(rbt_host *host, const struct rbt_desk_request *request)
{
    struct sink sink = {.host = host, .request = request};
    struct rbt_batch batch = rbt_list_batch(request->list, request->table);
    struct rbt_shard_event event = event_of(host, request);
    event.batches = &batch;
    event.batch_count = 1;
    event.on_elements = take_elements;
    event.context = &sink;
    const rbt_status st = step_open(host, &event);
    if (st != RBT_OK || sink.block == NULL) {
        return st != RBT_OK ? st : no_memory();
    }
    (void)put_front(host, request, sink.block->data, 0);
    send_answer(host, request, sink.block);
    return RBT_OK;
}

/* A row of a range, for sorting. */
struct found {
    uint64_t key;
    uint32_t position;
};

static int compare(const void *a, const void *b)
{
    const uint64_t x = ((const struct found *)a)->key;
    const uint64_t y = ((const struct found *)b)->key;
    return x < y ? -1 : x > y;
}

/* Puts rows into the order of their keys; messages hold no other. */
static void sort_rows(struct found *found, uint64_t *keys, uint32_t *positions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        found[i] = (struct found){keys[i], (uint32_t)i};
    }
    qsort(found, count, sizeof *found, compare);
    for (size_t i = 0; i < count; i++) {
        positions[i] = found[i].position;
    }
}

/* Scans into `scan`, whose arrays have room for its capacity, and sends what there is. */
static rbt_status send_scan(rbt_host *host, const struct rbt_desk_request *request,
                            struct rbt_shard_scan *scan)
{
    const struct rbt_desk_entry *table = host->tables[request->table];
    struct rbt_shard_event event = event_of(host, request);
    event.scan = scan;
    const rbt_status st = step_open(host, &event);
    if (st != RBT_OK) {
        return st;
    }
    const size_t count = scan->count < scan->capacity ? scan->count : scan->capacity;
    struct found *found = rbt_calloc(count + 1, sizeof *found);
    uint32_t *positions = rbt_calloc(count + 1, sizeof *positions);
    struct rbt_block *block = NULL;
    if (found != NULL && positions != NULL) {
        sort_rows(found, scan->keys, positions, count);
        const struct rbt_wire_rows rows = {.table = request->table,
                                           .count = count,
                                           .keys = scan->keys,
                                           .positions = positions,
                                           .values = scan->values,
                                           .element_size = rbt_spec_element_size(&table->spec),
                                           .width = table->spec.width};
        const size_t front = front_bytes(request);
        block = rbt_block_create(front + rbt_wire_rows_bound(&rows));
        if (block != NULL) {
            (void)put_front(host, request, block->data, scan->count);
            block->bytes = front + rbt_wire_rows_put(block->data + front, &rows, NULL);
            send_answer(host, request, block);
        }
    }
    rbt_free(found);
    rbt_free(positions);
    return block != NULL ? RBT_OK : no_memory();
}

static rbt_status answer_scan(rbt_host *host, const struct rbt_desk_request *request)
{
    const struct rbt_desk_entry *table = host->tables[request->table];
    const size_t row_size = rbt_spec_row_size(&table->spec);
    struct rbt_shard_stats stats;
    rbt_shard_stats(host->shard, &stats);
    uint64_t capacity = request->scan.capacity < stats.rows ? request->scan.capacity : stats.rows;
    if (capacity > SCAN_BYTES_MAX / (row_size + sizeof(uint64_t))) {
        capacity = SCAN_BYTES_MAX / (row_size + sizeof(uint64_t));
    }
    struct rbt_shard_scan scan = {.range = {request->scan.range_first, request->scan.range_last},
                                  .capacity = (size_t)capacity,
                                  .keys = rbt_calloc((size_t)capacity + 1, sizeof(uint64_t)),
                                  .values = rbt_calloc((size_t)capacity + 1, row_size)};
    const rbt_status st =
        scan.keys == NULL || scan.values == NULL ? no_memory() : send_scan(host, request, &scan);
    rbt_free(scan.keys);
    rbt_free(scan.values);
    return st;
}

/* How many rows may go early now. */
static uint32_t early_room(rbt_host *host, const struct rbt_desk_request *request, size_t row_size)
{
    const size_t front = front_bytes(request) + RBT_WIRE_ROWS_BYTES;
    uint64_t room =
        request->pull.room < request->list->count ? request->pull.room : request->list->count;
    if (!request->guest->is_near) {
        const size_t grant =
            host->comm.options.rate == 0 ? 0 : rbt_comm_grant(&host->comm, host->now);
        const size_t rows = grant <= front ? 0 : (grant - front) / (row_size + sizeof(uint64_t));
        room = rows < room ? rows : room;
    }
    const uint64_t most = EARLY_BYTES_MAX / (row_size + sizeof(uint64_t));
    return (uint32_t)(room < most ? room : most);
}

/* An early read: the shard says which rows, and writes them to scratch. */
static rbt_status answer_early(rbt_host *host, const struct rbt_desk_request *request)
{
    const struct rbt_desk_entry *table = host->tables[request->table];
    const size_t row_size = rbt_spec_row_size(&table->spec);
    struct rbt_shard_early early = {.room = early_room(host, request, row_size)};
    rbt_status st = rbt_desk_values(host, (early.room + (size_t)1) * (row_size + sizeof(uint64_t)));
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_batch batch = rbt_list_batch(request->list, request->table);
    struct rbt_shard_event event = event_of(host, request);
    early.keys = (uint64_t *)(void *)host->values;
    batch.values = early.keys + early.room;
    event.batches = &batch;
    event.batch_count = 1;
    event.early = &early;
    struct rbt_shard_sent sent = {0};
    event.sent = &sent;
    st = step_open(host, &event);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_wire_rows rows = {.table = request->table,
                                       .count = early.count,
                                       .keys = early.keys,
                                       .values = batch.values,
                                       .element_size = rbt_spec_element_size(&table->spec),
                                       .width = table->spec.width};
    struct rbt_block *block = pack(host, request, &sent, rows);
    if (block == NULL) {
        const size_t front = front_bytes(request);
        block = rbt_block_create(front + rbt_wire_rows_bound(&rows));
        if (block == NULL) {
            return no_memory();
        }
        block->bytes = front + rbt_wire_rows_put(block->data + front, &rows, NULL);
    }
    (void)put_front(host, request, block->data, 0);
    send_answer(host, request, block);
    return RBT_OK;
}

/* Says that the rows are not sent before somebody wants them. */
static rbt_status withhold(rbt_host *host, const struct rbt_desk_request *request)
{
    const struct rbt_wire_answer answer = {.news = rbt_host_news(host, request->guest->worker),
                                           .was_parked = request->was_parked,
                                           .is_withheld = true};
    const struct rbt_wire_rows nothing = {.table = request->table};
    struct rbt_block *block = rbt_block_create(RBT_WIRE_ANSWER_BYTES + RBT_WIRE_ROWS_BYTES);
    if (block == NULL) {
        return no_memory();
    }
    block->bytes = rbt_wire_put_answer(block->data, &answer);
    block->bytes += rbt_wire_rows_put(block->data + block->bytes, &nothing, NULL);
    send_answer(host, request, block);
    return RBT_OK;
}

static rbt_status answer(rbt_host *host, const struct rbt_desk_request *request)
{
    if (request->is_scan) {
        return answer_scan(host, request);
    }
    if (request->pull.is_ahead && !rbt_shard_sends_early(host->shard, request->table)) {
        return withhold(host, request);
    }
    if (request->pull.is_early) {
        return answer_early(host, request);
    }
    return rbt_spec_is_sparse(&host->tables[request->table]->spec) ? answer_sparse(host, request)
                                                                   : answer_dense(host, request);
}

/* --- Waiting --------------------------------------------------------------------------------- */

static int64_t need_of(const struct rbt_desk_request *request)
{
    return request->is_scan ? request->scan.need : request->pull.need;
}

/* Gives the request to the shard to wait there; it has a reference to its list. */
static void park(rbt_host *host, const struct rbt_desk_request *request)
{
    const uint32_t slot = host->free_slot;
    RBT_ASSERT(slot != none);
    host->free_slot = host->slots[slot].next;
    host->parked_count++;
    const uint32_t next = request->guest->waiting == 0 ? none : request->guest->waiting - 1;
    host->slots[slot] = *request;
    host->slots[slot].was_parked = true;
    host->slots[slot].next = next;
    host->slots[slot].previous = none;
    if (next != none) {
        host->slots[next].previous = slot;
    }
    request->guest->waiting = slot + 1;
    struct rbt_shard_event event = event_of(host, request);
    struct rbt_batch batch = {.table = request->table};
    struct rbt_shard_scan nothing = {.range = {1, 0}};
    event.request = slot;
    event.batches = &batch;
    event.batch_count = request->is_scan ? 0 : 1;
    event.scan = request->is_scan ? &nothing : NULL;
    struct rbt_shard_outbox out;
    (void)rbt_desk_step(host, &event, &out);
    RBT_ASSERT(out.count == 0); /* it waits: there is room for all slots */
}

/* Keeps a request without a slot. */
static rbt_status enqueue(rbt_host *host, const struct rbt_desk_request *request)
{
    if (host->queue_count == QUEUE_MAX) {
        return rbt_fail(RBT_E_PROTOCOL, "more than %d requests are waiting", QUEUE_MAX);
    }
    if (host->queue_count == host->queue_max) {
        const size_t max = host->queue_max == 0 ? 16 : host->queue_max * 2;
        struct rbt_desk_request *grown = rbt_realloc(host->queue, max, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for a request");
        }
        host->queue = grown;
        host->queue_max = max;
    }
    host->queue[host->queue_count] = *request;
    host->queue[host->queue_count++].was_parked = true;
    return RBT_OK;
}

/* Makes the request's list its own: scratch is used again, so a copy is made of that. */
static rbt_status keep_list(rbt_host *host, struct rbt_desk_request *request)
{
    if (request->is_scan) {
        return RBT_OK;
    }
    if (request->list->name != 0) {
        request->list->references++;
        return RBT_OK;
    }
    if (host->waiting_keys + request->list->count > WAITING_KEYS_MAX) {
        return rbt_fail(RBT_E_PROTOCOL, "requests for more than %d keys are waiting",
                        WAITING_KEYS_MAX);
    }
    struct rbt_list *copy = NULL;
    const rbt_status st = rbt_list_create(request->list->count, &copy);
    if (st != RBT_OK) {
        return st;
    }
    copy->count = request->list->count;
    memcpy(copy->keys, request->list->keys, copy->count * sizeof *copy->keys);
    request->list = copy;
    host->waiting_keys += copy->count;
    return RBT_OK;
}

/* Answers the request now, or keeps it until it can be answered. */
static rbt_status take(rbt_host *host, struct rbt_desk_request *request)
{
    if (need_of(request) <= host->floor) {
        return answer(host, request);
    }
    rbt_status st = keep_list(host, request);
    if (st != RBT_OK) {
        return st;
    }
    if (host->free_slot == none && host->slot_room < host->slot_max) {
        st = grow(host);
    }
    if (st == RBT_OK && host->free_slot != none) {
        park(host, request);
        return RBT_OK;
    }
    st = st != RBT_OK ? st : enqueue(host, request);
    if (st != RBT_OK) {
        drop_list(host, request);
    }
    return st;
}

/* Answers what need not wait any more, and gives free slots to what waits for one. */
static rbt_status serve_queue(rbt_host *host)
{
    rbt_status st = RBT_OK;
    size_t kept = 0;
    for (size_t i = 0; i < host->queue_count; i++) {
        const struct rbt_desk_request request = host->queue[i];
        if (need_of(&request) <= host->floor && st == RBT_OK) {
            st = answer(host, &request);
            drop_list(host, &request);
        } else if (need_of(&request) > host->floor && host->free_slot != none) {
            park(host, &request);
        } else {
            host->queue[kept++] = request;
        }
    }
    host->queue_count = kept;
    return st;
}

rbt_status rbt_reads_answer_ready(rbt_host *host, size_t count)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = host->ready[i];
        struct rbt_desk_request request = host->slots[slot];
        if (request.guest != NULL) {
            unlink_slot(host, slot);
        }
        host->slots[slot] = (struct rbt_desk_request){.next = host->free_slot};
        host->free_slot = slot;
        host->parked_count--;
        if (request.guest != NULL) {
            const rbt_status answered = answer(host, &request);
            st = st != RBT_OK ? st : answered;
            drop_list(host, &request);
        }
    }
    return st != RBT_OK || host->queue_count == 0 ? st : serve_queue(host);
}

/* --- Receiving ------------------------------------------------------------------------------- */

/* What is wrong with a PULL, or NULL. */
static const char *find_mistake(const rbt_host *host, const struct rbt_desk_request *request,
                                const struct rbt_desk_entry *table,
                                const struct rbt_wire_view *view)
{
    const struct rbt_wire_pull *pull = &request->pull;
    const bool is_sparse = rbt_spec_is_sparse(&table->spec);
    const bool has_rule = rbt_spec_has_rule(&table->spec);
    const uint64_t bytes = (uint64_t)view->count * rbt_spec_row_size(&table->spec);
    const uint64_t room = RBT_FRAME_BODY_MAX - front_bytes(request) - RBT_WIRE_SHORT_MAX;
    const bool has_versions = pull->is_base || pull->wants_stamp || pull->is_stable;
    const bool is_worker = request->guest->worker < host->options.worker_count;
    const bool may_be_early =
        !is_sparse && !pull->is_stable && is_worker && pull->need == RBT_CLOCK_ANY && host->run > 0;
    const bool may_have_copy = rbt_chain_traits(table->pull).has_select && !pull->is_early &&
                               pull->subscription != 0 && is_worker;
    const bool is_inside =
        (uint64_t)pull->applied_first + pull->applied_count <= host->options.worker_count;
    return view->value_form != RBT_VALUES_NONE ? "it has values"
           : has_versions && !has_rule         ? "it needs versions: the table has no rule"
           : pull->is_early && !may_be_early   ? "its rows cannot be sent early"
           : pull->has_copy && !may_have_copy  ? "it names a copy that cannot exist"
           : pull->is_base && !(is_worker && host->run > 0) ? "it names a base outside of a run"
           : !is_inside                                     ? "it names workers beyond the last"
           : is_sparse && view->count != 1                  ? "it asks for several sparse rows"
           : !is_sparse && bytes > room                     ? "its answer would not fit a message"
           : request->guest->is_reader && pull->need > host->floor
               ? "it comes from a reader and names a clock to wait for"
               : NULL;
}

rbt_status rbt_reads_pull(rbt_host *host, struct rbt_guest *guest, const struct rbt_frame *frame,
                          struct rbt_wire_cursor *body)
{
    struct rbt_desk_request request = {.guest = guest, .id = frame->id};
    const struct rbt_desk_entry *table = NULL;
    struct rbt_wire_view view;
    rbt_status st = rbt_wire_get_pull(body, &request.pull);
    st = st != RBT_OK ? st : rbt_wire_rows_get(&body->at, body->end, &view);
    st = st != RBT_OK ? st : rbt_wire_get_end(body);
    st = st != RBT_OK ? st : rbt_desk_table(host, view.table, &table);
    if (st != RBT_OK) {
        return st;
    }
    const char *wrong = find_mistake(host, &request, table, &view);
    if (wrong != NULL) {
        return rbt_fail(RBT_E_PROTOCOL, "malformed PULL of table \"%s\": %s", table->spec.name,
                        wrong);
    }
    request.table = view.table;
    st = rbt_desk_keys(host, guest, &view, 0, &request.list);
    return st != RBT_OK ? st : take(host, &request);
}

rbt_status rbt_reads_scan(rbt_host *host, struct rbt_guest *guest, const struct rbt_frame *frame,
                          struct rbt_wire_cursor *body)
{
    struct rbt_desk_request request = {.guest = guest, .id = frame->id, .is_scan = true};
    const struct rbt_desk_entry *table = NULL;
    rbt_status st = rbt_wire_get_scan(body, &request.scan);
    st = st != RBT_OK ? st : rbt_wire_get_end(body);
    st = st != RBT_OK ? st : rbt_desk_table(host, request.scan.table, &table);
    if (st != RBT_OK) {
        return st;
    }
    if (rbt_spec_is_sparse(&table->spec)) {
        return rbt_fail(RBT_E_PROTOCOL, "sparse rows cannot be read by range");
    }
    if (guest->is_reader && request.scan.need > host->floor) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed PULL: a reader's request names a clock to wait for");
    }
    request.table = request.scan.table;
    return take(host, &request);
}

static int64_t lower_need(int64_t least, const struct rbt_desk_request *request)
{
    const int64_t need = request->is_scan ? request->scan.need : request->pull.need;
    return request->guest != NULL && need < least ? need : least;
}

int64_t rbt_host_parked_need(const rbt_host *host)
{
    int64_t least = RBT_CLOCK_GONE;
    for (uint32_t i = 0; i < host->slot_room; i++) {
        least = lower_need(least, &host->slots[i]);
    }
    for (size_t i = 0; i < host->queue_count; i++) {
        least = lower_need(least, &host->queue[i]);
    }
    return least;
}
