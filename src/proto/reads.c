/* proto/reads.c - requests for rows: answered at once, or when everybody has got far enough.
 *
 * Rows are copied once, by the shard, to the place in the answer where they belong. A request that
 * waits has a slot, and the shard knows it by the slot's number. When its session is gone the slot
 * stays taken until the shard says that it is ready: shards forget nothing.
 *
 * Memory: slots are made when requests wait, so that a shard that nobody waits at is small however
 * many workers there are. Cost: a session that goes costs the requests of its own that wait. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "proto/job_shard_parts.h"

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
static rbt_status grow(rbt_job_shard *job)
{
    const uint32_t before = job->slot_room;
    const uint32_t wanted = before == 0 ? SLOTS_MIN : 2 * before;
    const uint32_t room = wanted < job->slot_max ? wanted : job->slot_max;
    RBT_ASSERT(job->free_slot == none && before < room);
    struct rbt_job_request *slots = rbt_realloc(job->slots, room, sizeof *slots);
    job->slots = slots != NULL ? slots : job->slots;
    struct rbt_shard_effect *effects = rbt_realloc(job->effects, (size_t)room + 1, sizeof *effects);
    job->effects = effects != NULL ? effects : job->effects;
    uint32_t *ready = rbt_realloc(job->ready, (size_t)room + 1, sizeof *ready);
    job->ready = ready != NULL ? ready : job->ready;
    if (slots == NULL || effects == NULL || ready == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for requests that wait");
    }
    for (uint32_t i = before; i < room; i++) {
        slots[i] = (struct rbt_job_request){.next = i + 1 < room ? i + 1 : none};
    }
    job->free_slot = before;
    job->slot_room = room;
    return RBT_OK;
}

rbt_status rbt_reads_init(rbt_job_shard *job)
{
    job->slot_max = job->options.worker_count * SLOTS_PER_WORKER + SLOTS_MIN;
    job->free_slot = none;
    return grow(job);
}

void rbt_reads_deinit(rbt_job_shard *job)
{
    if (job->slots != NULL) {
        rbt_reads_forget(job, NULL);
    }
    rbt_reads_own_views(job); /* peers may still have to send them */
    rbt_free(job->queue);
    rbt_free(job->slots);
    rbt_free(job->effects);
    rbt_free(job->ready);
}

/* Ends the use of a list by a request that has waited. */
static void drop_list(rbt_job_shard *job, const struct rbt_job_request *request)
{
    if (request->list != NULL && request->list->name == 0 && !RBT_MUTANT(KEPT_KEYS)) {
        job->waiting_keys -= request->list->count;
    }
    rbt_list_unref(request->list);
}

/* Takes a slot from the list of its session. */
static void unlink_slot(rbt_job_shard *job, uint32_t slot)
{
    const struct rbt_job_request *request = &job->slots[slot];
    if (request->next != none) {
        job->slots[request->next].previous = request->previous;
    }
    if (request->previous != none) {
        job->slots[request->previous].next = request->next;
    } else {
        RBT_ASSERT(request->session->waiting == slot + 1);
        request->session->waiting = request->next == none ? 0 : request->next + 1;
    }
}

/* Nobody waits in this slot any more; it is still the shard's. */
static void vacate(rbt_job_shard *job, uint32_t slot)
{
    unlink_slot(job, slot);
    drop_list(job, &job->slots[slot]);
    job->slots[slot] = (struct rbt_job_request){0};
}

void rbt_reads_forget(rbt_job_shard *job, const struct rbt_session *session)
{
    if (RBT_MUTANT(OLD_REQUESTS) && session != NULL) {
        return;
    }
    for (uint32_t i = 0; session == NULL && i < job->slot_room; i++) {
        if (job->slots[i].session != NULL) {
            vacate(job, i);
        }
    }
    while (session != NULL && session->waiting != 0) {
        vacate(job, session->waiting - 1);
    }
    size_t kept = 0;
    for (size_t i = 0; i < job->queue_count; i++) {
        if (session == NULL || job->queue[i].session == session) {
            drop_list(job, &job->queue[i]);
        } else {
            job->queue[kept++] = job->queue[i];
        }
    }
    job->queue_count = kept;
}

/* --- Answers --------------------------------------------------------------------------------- */

/* The event that the shard is stepped with, but for where rows go to. */
static struct rbt_shard_event event_of(rbt_job_shard *job, const struct rbt_job_request *request)
{
    const struct rbt_wire_pull *pull = &request->pull; /* of a SCAN all zero */
    job->copy_known = pull->copy;
    job->copy = pull->copy;
    job->copy_base = 0;
    return (struct rbt_shard_event){.kind = request->is_scan ? RBT_SHARD_SCAN : RBT_SHARD_PULL,
                                    .worker = request->session->worker,
                                    .table = request->table,
                                    .need = request->is_scan ? request->scan.need : pull->need,
                                    .request = none,
                                    .subscription = pull->subscription,
                                    .asked = pull->subscription,
                                    .applied = job->applied,
                                    .applied_first = pull->applied_first,
                                    .applied_count = pull->applied_count,
                                    .is_base = pull->is_base,
                                    .least = pull->least,
                                    .sequence = pull->sequence,
                                    .is_stable = pull->is_stable,
                                    .stable = pull->stable,
                                    .limit = pull->is_stable ? &job->limit : NULL,
                                    .stamp = pull->wants_stamp ? &job->stamp : NULL,
                                    .copy = pull->has_copy ? &job->copy : NULL};
}

/* Steps the shard with a request that need not wait. It fails if the table is of no more use,
 * because its rule has failed. */
static rbt_status step_open(rbt_job_shard *job, const struct rbt_shard_event *event)
{
    struct rbt_shard_outbox out;
    RBT_ASSERT(event->need <= job->floor);
    (void)rbt_job_shard_step(job, event, &out); /* a request lets nobody go on */
    RBT_ASSERT(out.status != RBT_OK ||
               (out.count == 1 && out.effects[0].kind == RBT_SHARD_ANSWERED));
    return out.status;
}

/* Writes what stands in front of the rows; returns its size. */
static size_t put_front(rbt_job_shard *job, const struct rbt_job_request *request, char *to,
                        uint64_t scan_count)
{
    const struct rbt_wire_answer answer = {.news =
                                               rbt_job_shard_news(job, request->session->worker),
                                           .was_parked = request->was_parked,
                                           .has_stamp = request->pull.wants_stamp,
                                           .stamp = job->stamp,
                                           .has_copy = request->pull.has_copy,
                                           .copy_base = job->copy_base,
                                           .copy = job->copy,
                                           .has_limit = request->pull.is_stable,
                                           .limit = job->limit,
                                           .scan_count = scan_count,
                                           .applied_count = request->pull.applied_count,
                                           .applied = job->applied};
    return rbt_wire_put_answer(to, &answer);
}

static size_t front_bytes(const struct rbt_job_request *request)
{
    return RBT_WIRE_ANSWER_BYTES + (request->pull.wants_stamp ? (size_t)RBT_WIRE_ANSWER_STAMP : 0) +
           (request->pull.has_copy ? (size_t)RBT_WIRE_ANSWER_COPY : 0) +
           (request->pull.is_stable ? (size_t)RBT_WIRE_ANSWER_LIMIT : 0) +
           request->pull.applied_count * sizeof(uint64_t);
}

/* Everything that is sent over the network uses up the budget, whether it was asked or not. */
static void note_sent(rbt_job_shard *job, const struct rbt_job_request *request, size_t bytes)
{
    if (job->comm.options.rate > 0 && !request->session->is_near) {
        rbt_comm_sent(&job->comm, job->now, 0, bytes,
                      request->pull.is_early ? RBT_COMM_EARLY : RBT_COMM_READ);
    }
}

static void send_answer(rbt_job_shard *job, const struct rbt_job_request *request,
                        struct rbt_block *block)
{
    const struct rbt_frame header = {.kind = RBT_FRAME_ROWS,
                                     .flags = rbt_job_shard_flags(job, request->session),
                                     .worker = request->session->worker,
                                     .id = request->id};
    rbt_wire_close(block->data, header, block->bytes);
    request->session->owes_ack = false; /* the answer says how far the stream has come */
    note_sent(job, request, block->bytes);
    request->session->send(request->session->context, block);
    rbt_block_unref(block);
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for an answer");
}

/* The same for rows of a table with filters. A reader has none of them. */
static struct rbt_block *filter_rows(rbt_job_shard *job, const struct rbt_job_request *request,
                                     const struct rbt_shard_sent *sent, struct rbt_wire_rows rows)
{
    const struct rbt_job_shard_entry *table = job->tables[request->table];
    const size_t front = front_bytes(request);
    if (request->session->is_reader || !rbt_job_shard_filter(job, table, sent, &rows)) {
        return NULL;
    }
    struct rbt_block *block = rbt_block_create(front + rbt_wire_rows_bound(&rows));
    if (block != NULL) { /* else it is sent as it is */
        block->bytes = front + rbt_wire_rows_put(block->data + front, &rows, NULL);
    }
    return block;
}

/* The rows made smaller, if that pays, by the table's filters or as the peer wants; or NULL. */
static struct rbt_block *pack(rbt_job_shard *job, const struct rbt_job_request *request,
                              const struct rbt_shard_sent *sent, struct rbt_wire_rows rows)
{
    const enum rbt_compression compression = request->session->compression;
    if (job->tables[request->table]->spec.filter[0] != '\0') {
        return filter_rows(job, request, sent, rows);
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
static rbt_status answer_dense(rbt_job_shard *job, const struct rbt_job_request *request)
{
    const struct rbt_job_shard_entry *table = job->tables[request->table];
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
    struct rbt_shard_event event = event_of(job, request);
    const void *view = NULL;
    block->bytes = front + rbt_wire_rows_reserve(block->data + front, &rows, &batch.values);
    event.batches = &batch;
    event.batch_count = 1;
    const size_t bytes = rows.count * rows.width * rows.element_size;
    const bool may_view = bytes >= VIEW_MIN && bytes % RBT_FRAME_ALIGN == 0 &&
                          job->view_count < RBT_JOB_SHARD_VIEWS_MAX && !request->session->is_near;
    event.view = may_view ? &view : NULL;
    struct rbt_shard_sent sent = {.keep = rbt_job_shard_keep(job, table, rows.count * rows.width)};
    event.sent = &sent;
    const rbt_status st = step_open(job, &event);
    if (st != RBT_OK) {
        rbt_block_unref(block);
        return st;
    }
    rows.values = view != NULL ? view : batch.values;
    struct rbt_block *packed = pack(job, request, &sent, rows);
    /* Of the same length it would be taken for rows as they are, and put where they belong. */
    if (packed != NULL && packed->bytes >= block->bytes) {
        rbt_block_unref(packed);
        packed = NULL;
    }
    if (packed != NULL) {
        rbt_block_unref(block);
        block = packed;
        job->copy_base = rbt_job_shard_base(job, &sent, rows.count * rows.width);
    } else if (view != NULL) {
        block->tail = view;
        block->tail_at = front + RBT_WIRE_ROWS_BYTES;
        rbt_block_ref(block);
        job->views[job->view_count++] = block;
    }
    (void)put_front(job, request, block->data, 0);
    send_answer(job, request, block);
    return RBT_OK;
}

void rbt_reads_own_views(rbt_job_shard *job)
{
    for (uint32_t i = 0; i < job->view_count; i++) {
        if (job->views[i]->references > 1) { /* else it has been sent */
            rbt_block_own_rest(job->views[i]);
        }
        rbt_block_unref(job->views[i]);
    }
    job->view_count = 0;
}

/* The elements of a sparse row, while the shard holds them out. */
struct sink {
    rbt_job_shard *job;
    const struct rbt_job_request *request;
    struct rbt_block *block; /* NULL without memory */
};

static void take_elements(void *context, const uint32_t *index, const void *values, size_t count)
{
    struct sink *sink = context;
    const struct rbt_job_shard_entry *table = sink->job->tables[sink->request->table];
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
    if (!sink->request->session->is_reader) {
        (void)rbt_job_shard_filter(sink->job, table, &all, &rows); /* if it pays */
    }
    sink->block = rbt_block_create(front + rbt_wire_rows_bound(&rows));
    if (sink->block != NULL) {
        sink->block->bytes = front + rbt_wire_rows_put(sink->block->data + front, &rows, NULL);
    }
}

static rbt_status answer_sparse(rbt_job_shard *job, const struct rbt_job_request *request)
{
    struct sink sink = {.job = job, .request = request};
    struct rbt_batch batch = rbt_list_batch(request->list, request->table);
    struct rbt_shard_event event = event_of(job, request);
    event.batches = &batch;
    event.batch_count = 1;
    event.on_elements = take_elements;
    event.context = &sink;
    const rbt_status st = step_open(job, &event);
    if (st != RBT_OK || sink.block == NULL) {
        return st != RBT_OK ? st : no_memory();
    }
    (void)put_front(job, request, sink.block->data, 0);
    send_answer(job, request, sink.block);
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
static rbt_status send_scan(rbt_job_shard *job, const struct rbt_job_request *request,
                            struct rbt_shard_scan *scan)
{
    const struct rbt_job_shard_entry *table = job->tables[request->table];
    struct rbt_shard_event event = event_of(job, request);
    event.scan = scan;
    const rbt_status st = step_open(job, &event);
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
            (void)put_front(job, request, block->data, scan->count);
            block->bytes = front + rbt_wire_rows_put(block->data + front, &rows, NULL);
            send_answer(job, request, block);
        }
    }
    rbt_free(found);
    rbt_free(positions);
    return block != NULL ? RBT_OK : no_memory();
}

static rbt_status answer_scan(rbt_job_shard *job, const struct rbt_job_request *request)
{
    const struct rbt_job_shard_entry *table = job->tables[request->table];
    const size_t row_size = rbt_spec_row_size(&table->spec);
    struct rbt_shard_stats stats;
    rbt_shard_stats(job->shard, &stats);
    uint64_t capacity = request->scan.capacity < stats.rows ? request->scan.capacity : stats.rows;
    if (capacity > SCAN_BYTES_MAX / (row_size + sizeof(uint64_t))) {
        capacity = SCAN_BYTES_MAX / (row_size + sizeof(uint64_t));
    }
    struct rbt_shard_scan scan = {.range = {request->scan.range_first, request->scan.range_last},
                                  .capacity = (size_t)capacity,
                                  .keys = rbt_calloc((size_t)capacity + 1, sizeof(uint64_t)),
                                  .values = rbt_calloc((size_t)capacity + 1, row_size)};
    const rbt_status st =
        scan.keys == NULL || scan.values == NULL ? no_memory() : send_scan(job, request, &scan);
    rbt_free(scan.keys);
    rbt_free(scan.values);
    return st;
}

/* How many rows may go early now. */
static uint32_t early_room(rbt_job_shard *job, const struct rbt_job_request *request,
                           size_t row_size)
{
    const size_t front = front_bytes(request) + RBT_WIRE_ROWS_BYTES;
    uint64_t room =
        request->pull.room < request->list->count ? request->pull.room : request->list->count;
    if (!request->session->is_near) {
        const size_t grant = job->comm.options.rate == 0 ? 0 : rbt_comm_grant(&job->comm, job->now);
        const size_t rows = grant <= front ? 0 : (grant - front) / (row_size + sizeof(uint64_t));
        room = rows < room ? rows : room;
    }
    const uint64_t most = EARLY_BYTES_MAX / (row_size + sizeof(uint64_t));
    return (uint32_t)(room < most ? room : most);
}

/* An early read: the shard says which rows, and writes them to scratch. */
static rbt_status answer_early(rbt_job_shard *job, const struct rbt_job_request *request)
{
    const struct rbt_job_shard_entry *table = job->tables[request->table];
    const size_t row_size = rbt_spec_row_size(&table->spec);
    struct rbt_shard_early early = {.room = early_room(job, request, row_size)};
    rbt_status st =
        rbt_job_shard_values(job, (early.room + (size_t)1) * (row_size + sizeof(uint64_t)));
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_batch batch = rbt_list_batch(request->list, request->table);
    struct rbt_shard_event event = event_of(job, request);
    early.keys = (uint64_t *)(void *)job->values;
    batch.values = early.keys + early.room;
    event.batches = &batch;
    event.batch_count = 1;
    event.early = &early;
    struct rbt_shard_sent sent = {0};
    event.sent = &sent;
    st = step_open(job, &event);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_wire_rows rows = {.table = request->table,
                                       .count = early.count,
                                       .keys = early.keys,
                                       .values = batch.values,
                                       .element_size = rbt_spec_element_size(&table->spec),
                                       .width = table->spec.width};
    struct rbt_block *block = pack(job, request, &sent, rows);
    if (block == NULL) {
        const size_t front = front_bytes(request);
        block = rbt_block_create(front + rbt_wire_rows_bound(&rows));
        if (block == NULL) {
            return no_memory();
        }
        block->bytes = front + rbt_wire_rows_put(block->data + front, &rows, NULL);
    }
    (void)put_front(job, request, block->data, 0);
    send_answer(job, request, block);
    return RBT_OK;
}

/* Says that the rows are not sent before somebody wants them. */
static rbt_status withhold(rbt_job_shard *job, const struct rbt_job_request *request)
{
    const struct rbt_wire_answer answer = {.news =
                                               rbt_job_shard_news(job, request->session->worker),
                                           .was_parked = request->was_parked,
                                           .is_withheld = true};
    const struct rbt_wire_rows nothing = {.table = request->table};
    struct rbt_block *block = rbt_block_create(RBT_WIRE_ANSWER_BYTES + RBT_WIRE_ROWS_BYTES);
    if (block == NULL) {
        return no_memory();
    }
    block->bytes = rbt_wire_put_answer(block->data, &answer);
    block->bytes += rbt_wire_rows_put(block->data + block->bytes, &nothing, NULL);
    send_answer(job, request, block);
    return RBT_OK;
}

static rbt_status answer(rbt_job_shard *job, const struct rbt_job_request *request)
{
    if (request->is_scan) {
        return answer_scan(job, request);
    }
    if (request->pull.is_ahead && !rbt_shard_sends_early(job->shard, request->table)) {
        return withhold(job, request);
    }
    if (request->pull.is_early) {
        return answer_early(job, request);
    }
    return rbt_spec_is_sparse(&job->tables[request->table]->spec) ? answer_sparse(job, request)
                                                                  : answer_dense(job, request);
}

/* --- Waiting --------------------------------------------------------------------------------- */

static int64_t need_of(const struct rbt_job_request *request)
{
    return request->is_scan ? request->scan.need : request->pull.need;
}

/* Gives the request to the shard to wait there; it has a reference to its list. */
static void park(rbt_job_shard *job, const struct rbt_job_request *request)
{
    const uint32_t slot = job->free_slot;
    RBT_ASSERT(slot != none);
    job->free_slot = job->slots[slot].next;
    job->parked_count++;
    const uint32_t next = request->session->waiting == 0 ? none : request->session->waiting - 1;
    job->slots[slot] = *request;
    job->slots[slot].was_parked = true;
    job->slots[slot].next = next;
    job->slots[slot].previous = none;
    if (next != none) {
        job->slots[next].previous = slot;
    }
    request->session->waiting = slot + 1;
    struct rbt_shard_event event = event_of(job, request);
    struct rbt_batch batch = {.table = request->table};
    struct rbt_shard_scan nothing = {.range = {1, 0}};
    event.request = slot;
    event.batches = &batch;
    event.batch_count = request->is_scan ? 0 : 1;
    event.scan = request->is_scan ? &nothing : NULL;
    struct rbt_shard_outbox out;
    (void)rbt_job_shard_step(job, &event, &out);
    RBT_ASSERT(out.count == 0); /* it waits: there is room for all slots */
}

/* Keeps a request without a slot. */
static rbt_status enqueue(rbt_job_shard *job, const struct rbt_job_request *request)
{
    if (job->queue_count == QUEUE_MAX) {
        return rbt_fail(RBT_E_PROTOCOL, "more than %d requests are waiting", QUEUE_MAX);
    }
    if (job->queue_count == job->queue_max) {
        const size_t max = job->queue_max == 0 ? 16 : job->queue_max * 2;
        struct rbt_job_request *grown = rbt_realloc(job->queue, max, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for a request");
        }
        job->queue = grown;
        job->queue_max = max;
    }
    job->queue[job->queue_count] = *request;
    job->queue[job->queue_count++].was_parked = true;
    return RBT_OK;
}

/* Makes the request's list its own: scratch is used again, so a copy is made of that. */
static rbt_status keep_list(rbt_job_shard *job, struct rbt_job_request *request)
{
    if (request->is_scan) {
        return RBT_OK;
    }
    if (request->list->name != 0) {
        request->list->references++;
        return RBT_OK;
    }
    if (job->waiting_keys + request->list->count > WAITING_KEYS_MAX) {
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
    job->waiting_keys += copy->count;
    return RBT_OK;
}

/* Answers the request now, or keeps it until it can be answered. */
static rbt_status take(rbt_job_shard *job, struct rbt_job_request *request)
{
    if (need_of(request) <= job->floor) {
        return answer(job, request);
    }
    rbt_status st = keep_list(job, request);
    if (st != RBT_OK) {
        return st;
    }
    if (job->free_slot == none && job->slot_room < job->slot_max) {
        st = grow(job);
    }
    if (st == RBT_OK && job->free_slot != none) {
        park(job, request);
        return RBT_OK;
    }
    st = st != RBT_OK ? st : enqueue(job, request);
    if (st != RBT_OK) {
        drop_list(job, request);
    }
    return st;
}

/* Answers what need not wait any more, and gives free slots to what waits for one. */
static rbt_status serve_queue(rbt_job_shard *job)
{
    rbt_status st = RBT_OK;
    size_t kept = 0;
    for (size_t i = 0; i < job->queue_count; i++) {
        const struct rbt_job_request request = job->queue[i];
        if (need_of(&request) <= job->floor && st == RBT_OK) {
            st = answer(job, &request);
            drop_list(job, &request);
        } else if (need_of(&request) > job->floor && job->free_slot != none) {
            park(job, &request);
        } else {
            job->queue[kept++] = request;
        }
    }
    job->queue_count = kept;
    return st;
}

rbt_status rbt_reads_answer_ready(rbt_job_shard *job, size_t count)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; i < count; i++) {
        const uint32_t slot = job->ready[i];
        struct rbt_job_request request = job->slots[slot];
        if (request.session != NULL) {
            unlink_slot(job, slot);
        }
        job->slots[slot] = (struct rbt_job_request){.next = job->free_slot};
        job->free_slot = slot;
        job->parked_count--;
        if (request.session != NULL) {
            const rbt_status answered = answer(job, &request);
            st = st != RBT_OK ? st : answered;
            drop_list(job, &request);
        }
    }
    return st != RBT_OK || job->queue_count == 0 ? st : serve_queue(job);
}

/* --- Receiving ------------------------------------------------------------------------------- */

/* What is wrong with a PULL, or NULL. */
static const char *find_mistake(const rbt_job_shard *job, const struct rbt_job_request *request,
                                const struct rbt_job_shard_entry *table,
                                const struct rbt_wire_view *view)
{
    const struct rbt_wire_pull *pull = &request->pull;
    const bool is_sparse = rbt_spec_is_sparse(&table->spec);
    const bool has_rule = rbt_spec_has_rule(&table->spec);
    const uint64_t bytes = (uint64_t)view->count * rbt_spec_row_size(&table->spec);
    const uint64_t room = RBT_FRAME_BODY_MAX - front_bytes(request) - RBT_WIRE_SHORT_MAX;
    const bool has_versions = pull->is_base || pull->wants_stamp || pull->is_stable;
    const bool is_worker = request->session->worker < job->options.worker_count;
    const bool may_be_early =
        !is_sparse && !pull->is_stable && is_worker && pull->need == RBT_CLOCK_ANY && job->run > 0;
    const bool may_have_copy = rbt_chain_traits(table->pull).has_select && !pull->is_early &&
                               pull->subscription != 0 && is_worker;
    const bool is_inside =
        (uint64_t)pull->applied_first + pull->applied_count <= job->options.worker_count;
    return view->value_form != RBT_VALUES_NONE ? "it has values"
           : has_versions && !has_rule         ? "it needs versions: the table has no rule"
           : pull->is_early && !may_be_early   ? "its rows cannot be sent early"
           : pull->has_copy && !may_have_copy  ? "it names a copy that cannot exist"
           : pull->is_base && !(is_worker && job->run > 0) ? "it names a base outside of a run"
           : !is_inside                                    ? "it names workers beyond the last"
           : is_sparse && view->count != 1                 ? "it asks for several sparse rows"
           : !is_sparse && bytes > room                    ? "its answer would not fit a message"
           : request->session->is_reader && pull->need > job->floor
               ? "it comes from a reader and names a clock to wait for"
               : NULL;
}

rbt_status rbt_reads_pull(rbt_job_shard *job, struct rbt_session *session,
                          const struct rbt_frame *frame, struct rbt_wire_cursor *body)
{
    struct rbt_job_request request = {.session = session, .id = frame->id};
    const struct rbt_job_shard_entry *table = NULL;
    struct rbt_wire_view view;
    rbt_status st = rbt_wire_get_pull(body, &request.pull);
    st = st != RBT_OK ? st : rbt_wire_rows_get(&body->at, body->end, &view);
    st = st != RBT_OK ? st : rbt_wire_get_end(body);
    st = st != RBT_OK ? st : rbt_job_shard_table(job, view.table, &table);
    if (st != RBT_OK) {
        return st;
    }
    const char *wrong = find_mistake(job, &request, table, &view);
    if (wrong != NULL) {
        return rbt_fail(RBT_E_PROTOCOL, "malformed PULL of table \"%s\": %s", table->spec.name,
                        wrong);
    }
    request.table = view.table;
    st = rbt_job_shard_keys(job, session, &view, 0, &request.list);
    return st != RBT_OK ? st : take(job, &request);
}

rbt_status rbt_reads_scan(rbt_job_shard *job, struct rbt_session *session,
                          const struct rbt_frame *frame, struct rbt_wire_cursor *body)
{
    struct rbt_job_request request = {.session = session, .id = frame->id, .is_scan = true};
    const struct rbt_job_shard_entry *table = NULL;
    rbt_status st = rbt_wire_get_scan(body, &request.scan);
    st = st != RBT_OK ? st : rbt_wire_get_end(body);
    st = st != RBT_OK ? st : rbt_job_shard_table(job, request.scan.table, &table);
    if (st != RBT_OK) {
        return st;
    }
    if (rbt_spec_is_sparse(&table->spec)) {
        return rbt_fail(RBT_E_PROTOCOL, "sparse rows cannot be read by range");
    }
    if (session->is_reader && request.scan.need > job->floor) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed PULL: a reader's request names a clock to wait for");
    }
    request.table = request.scan.table;
    return take(job, &request);
}

static int64_t lower_need(int64_t least, const struct rbt_job_request *request)
{
    const int64_t need = request->is_scan ? request->scan.need : request->pull.need;
    return request->session != NULL && need < least ? need : least;
}

int64_t rbt_job_shard_parked_need(const rbt_job_shard *job)
{
    int64_t least = RBT_CLOCK_GONE;
    for (uint32_t i = 0; i < job->slot_room; i++) {
        least = lower_need(least, &job->slots[i]);
    }
    for (size_t i = 0; i < job->queue_count; i++) {
        least = lower_need(least, &job->queue[i]);
    }
    return least;
}
