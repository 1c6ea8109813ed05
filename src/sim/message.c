/* sim/message.c - what travels between simulated nodes: copies of events, and their answers. */
#include "sim/message.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/weigh.h"

enum {
    HEADER_BYTES = 64,
    BASE_BYTES = 16, /* of updates that say what they were computed from, and of such a read */
    STAMP_BYTES = 8, /* of its answer */
    STABLE_BYTES = 8,
    PART_BYTES = 16, /* of a push with a sum: the worker and its number */
};

const char *const rbt_message_names[] = {"push",    "pull",   "rows",  "ack",  "parked",
                                         "refused", "beat",   "expel", "done", "version",
                                         "stable",  "merged", "taken", "split"};

struct rbt_message *rbt_message_create(struct rbt_message_pool *pool, enum rbt_message_kind kind)
{
    struct rbt_message *message = pool->first;
    if (message != NULL) {
        pool->first = message->next;
    } else {
        message = rbt_calloc(1, sizeof *message);
    }
    if (message != NULL) {
        *message = (struct rbt_message){
            .kind = kind, .references = 1, .bytes = HEADER_BYTES, .pool = pool};
    }
    return message;
}

void rbt_message_free_pool(struct rbt_message_pool *pool)
{
    while (pool->first != NULL) {
        struct rbt_message *message = pool->first;
        pool->first = message->next;
        rbt_free(message);
    }
}

/* Cuts pieces off a block, all of them aligned. */
struct cutter {
    char *next;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static void *cut(struct cutter *cutter, size_t bytes)
{
    void *piece = cutter->next;
    cutter->next += aligned(bytes);
    return piece;
}

/* Elements of the batch's rows, which are sparse. */
static size_t count_elements(const struct rbt_batch *batch)
{
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const size_t at = rbt_batch_position(batch, i);
        count += batch->offsets[at + 1] - batch->offsets[at];
    }
    return count;
}

/* Room for a packed copy of the batch; without its values when they are only asked for. */
static size_t batch_room(const struct rbt_batch *batch, const struct rbt_message_table *table,
                         bool has_values)
{
    size_t bytes = aligned(batch->count * sizeof *batch->keys);
    if (has_values && table->is_sparse) {
        const size_t count = count_elements(batch);
        bytes += aligned((batch->count + 1) * sizeof *batch->offsets) +
                 aligned(count * sizeof *batch->elements) + aligned(count * table->element_size);
    } else if (has_values) {
        bytes += aligned(batch->count * table->row_size);
    }
    return bytes;
}

static void copy_elements(struct cutter *cutter, const struct rbt_batch *batch,
                          const struct rbt_message_table *table, struct rbt_batch *copy)
{
    const size_t total = count_elements(batch);
    uint32_t *offsets = cut(cutter, (batch->count + 1) * sizeof *offsets);
    uint32_t *elements = cut(cutter, total * sizeof *elements);
    char *values = cut(cutter, total * table->element_size);
    uint32_t at = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const size_t position = rbt_batch_position(batch, i);
        const uint32_t first = batch->offsets[position];
        const uint32_t count = batch->offsets[position + 1] - first;
        offsets[i] = at;
        memcpy(elements + at, batch->elements + first, count * sizeof *elements);
        memcpy(values + at * table->element_size,
               (const char *)batch->values + first * table->element_size,
               count * table->element_size);
        at += count;
    }
    offsets[batch->count] = at;
    copy->offsets = offsets;
    copy->elements = elements;
    copy->values = values;
}

/* Packs the batch: row i of the copy is at position i. Returns its size on the network. */
static size_t copy_batch(struct cutter *cutter, const struct rbt_batch *batch,
                         const struct rbt_message_table *table, struct rbt_batch *copy)
{
    *copy = (struct rbt_batch){.table = batch->table,
                               .count = batch->count,
                               .list = batch->list,
                               .base = batch->base,
                               .least = batch->least,
                               .code = batch->code};
    uint64_t *keys = cut(cutter, batch->count * sizeof *keys);
    for (size_t i = 0; i < batch->count; i++) {
        keys[i] = batch->keys[rbt_batch_position(batch, i)];
    }
    copy->keys = keys;
    const size_t key_bytes = batch->count * sizeof *keys;
    if (table == NULL) { /* a request: only the keys */
        return key_bytes;
    }
    if (table->is_sparse) {
        copy_elements(cutter, batch, table, copy);
        return key_bytes + copy->offsets[batch->count] * (sizeof(uint32_t) + table->element_size);
    }
    char *values = cut(cutter, batch->count * table->row_size);
    for (size_t i = 0; i < batch->count; i++) {
        memcpy(values + i * table->row_size,
               (const char *)batch->values + rbt_batch_position(batch, i) * table->row_size,
               table->row_size);
    }
    copy->values = values;
    return key_bytes + batch->count * table->row_size + (table->has_rule ? (size_t)BASE_BYTES : 0);
}

struct rbt_message *rbt_message_copy(const struct rbt_shard_event *event,
                                     const struct rbt_message_table *tables)
{
    const bool is_push = event->kind == RBT_SHARD_PUSH || event->kind == RBT_SHARD_LEAVE;
    RBT_ASSERT(is_push || event->kind == RBT_SHARD_PULL || event->kind == RBT_SHARD_SCAN);
    size_t room =
        aligned(sizeof(struct rbt_message)) + aligned(event->batch_count * sizeof *event->batches);
    for (size_t i = 0; i < event->batch_count; i++) {
        room += batch_room(&event->batches[i], &tables[event->batches[i].table], is_push);
    }
    struct cutter cutter = {rbt_realloc(NULL, room, 1)};
    if (cutter.next == NULL) {
        return NULL;
    }
    struct rbt_message *message = cut(&cutter, sizeof *message);
    *message = (struct rbt_message){.kind = is_push ? RBT_MESSAGE_PUSH : RBT_MESSAGE_PULL,
                                    .references = 1,
                                    .worker = event->worker,
                                    .bytes = HEADER_BYTES,
                                    .event = *event};
    message->event.batches = cut(&cutter, event->batch_count * sizeof *event->batches);
    for (size_t i = 0; i < event->batch_count; i++) {
        const struct rbt_message_table *table = &tables[event->batches[i].table];
        message->bytes += copy_batch(&cutter, &event->batches[i], is_push ? table : NULL,
                                     &message->event.batches[i]);
    }
    message->bytes += event->is_base && tables[event->table].has_rule ? (size_t)BASE_BYTES : 0;
    message->bytes += event->is_stable && tables[event->table].has_rule ? (size_t)STABLE_BYTES : 0;
    message->event.stamp = NULL; /* the worker's own */
    if (event->copy != NULL) {
        message->copy = *event->copy;
        message->event.copy = &message->copy;
    }
    if (event->early != NULL) { /* of a set that the server knows by its name */
        message->early = (struct rbt_shard_early){.room = event->early->room};
        message->event.early = &message->early;
        message->bytes = HEADER_BYTES + BASE_BYTES;
    }
    if (event->kind == RBT_SHARD_SCAN) {
        message->scan = *event->scan;
        message->event.scan = &message->scan;
    }
    return message;
}

struct rbt_message *rbt_message_merge(const struct rbt_shard_event *event,
                                      struct rbt_message *const *parts, uint32_t part_count,
                                      const struct rbt_message_table *tables)
{
    struct rbt_message *message = rbt_message_copy(event, tables);
    struct rbt_message **list = rbt_calloc(part_count, sizeof(struct rbt_message *));
    if (message == NULL || list == NULL) {
        rbt_message_unref(message);
        rbt_free(list);
        return NULL;
    }
    rbt_weigh_request(message, parts[0]->shard, tables);
    message->kind = RBT_MESSAGE_MERGED;
    message->bytes += (size_t)part_count * PART_BYTES;
    message->parts = list;
    message->part_count = part_count;
    for (uint32_t i = 0; i < part_count; i++) {
        list[i] = parts[i];
        rbt_message_ref(parts[i]);
    }
    return message;
}

/* Takes the elements of a sparse row out of the shard. */
static void take_elements(void *context, const uint32_t *index, const void *values, size_t count)
{
    struct rbt_message *answer = context;
    const size_t size = answer->element_size;
    answer->elements = rbt_realloc(NULL, count + 1, sizeof *answer->elements);
    answer->values = rbt_realloc(NULL, count + 1, size);
    if (answer->elements != NULL && answer->values != NULL) {
        if (count > 0) { /* an empty row has no arrays */
            memcpy(answer->elements, index, count * sizeof *index);
            memcpy(answer->values, values, count * size);
        }
        answer->element_count = count;
        answer->has_elements = true;
    }
}

struct rbt_message *rbt_message_answer(const struct rbt_message *request,
                                       const struct rbt_message_table *tables)
{
    const struct rbt_shard_event *event = &request->event;
    const struct rbt_message_table *table = &tables[event->table];
    const bool is_scan = event->kind == RBT_SHARD_SCAN;
    const bool is_early = event->early != NULL;
    const size_t rows = is_scan    ? event->scan->capacity /* and there is no batch */
                        : is_early ? event->early->room
                                   : event->batches[0].count;
    const size_t keys = rows * sizeof(uint64_t);
    const size_t values = table->is_sparse ? 0 : rows * table->row_size;
    const size_t applied = event->applied_count * sizeof(uint64_t);
    const bool has_keep = table->weigher != NULL && rbt_weigher_selects(table->weigher);
    const size_t keep = has_keep ? values / table->element_size * sizeof(bool) : 0;
    struct cutter cutter = {rbt_realloc(NULL,
                                        aligned(sizeof *request) + aligned(keys) + aligned(values) +
                                            aligned(applied) + aligned(keep),
                                        1)};
    if (cutter.next == NULL) {
        return NULL;
    }
    struct rbt_message *answer = cut(&cutter, sizeof *answer);
    *answer = (struct rbt_message){.kind = RBT_MESSAGE_ROWS,
                                   .references = 1,
                                   .from = request->to,
                                   .to = request->from,
                                   .worker = request->worker,
                                   .shard = request->shard,
                                   .id = request->id,
                                   .element_size = table->element_size,
                                   .event = *event};
    uint64_t *own_keys = cut(&cutter, keys);
    char *own_values = cut(&cutter, values);
    answer->event.applied = cut(&cutter, applied);
    answer->sent.keep = has_keep ? cut(&cutter, keep) : NULL;
    answer->event.sent = table->weigher != NULL ? &answer->sent : NULL;
    answer->copy = request->copy;
    answer->event.copy = event->copy != NULL ? &answer->copy : NULL;
    if (is_scan) {
        answer->scan = (struct rbt_shard_scan){.range = event->scan->range,
                                               .keys = own_keys,
                                               .values = own_values,
                                               .capacity = event->scan->capacity};
        answer->event.scan = &answer->scan;
        return answer;
    }
    answer->event.stamp = table->has_rule ? &answer->stamp : NULL;
    answer->batch = event->batches[0];
    answer->batch.values = own_values;
    if (is_early) {
        answer->early = (struct rbt_shard_early){.room = event->early->room, .keys = own_keys};
        answer->event.early = &answer->early;
    } else {
        memcpy(own_keys, event->batches[0].keys, keys);
        answer->batch.keys = own_keys;
    }
    answer->event.batches = &answer->batch;
    answer->event.on_elements = take_elements;
    answer->event.context = answer;
    return answer;
}

void rbt_message_weigh(struct rbt_message *answer, const struct rbt_message_table *tables)
{
    const struct rbt_message_table *table = &tables[answer->event.table];
    answer->bytes = HEADER_BYTES + answer->event.applied_count * sizeof(uint64_t) +
                    (answer->event.stamp != NULL ? (size_t)STAMP_BYTES : 0);
    if (answer->event.kind == RBT_SHARD_SCAN) {
        const size_t found = answer->scan.count;
        const size_t rows = found < answer->scan.capacity ? found : answer->scan.capacity;
        answer->bytes += rows * (sizeof(uint64_t) + table->row_size);
    } else if (answer->event.early != NULL) {
        answer->bytes += answer->early.count * (sizeof(uint64_t) + table->row_size);
    } else if (table->is_sparse) {
        answer->bytes += answer->element_count * (sizeof(uint32_t) + table->element_size);
    } else {
        answer->bytes += answer->batch.count * table->row_size; /* the worker knows the keys */
    }
    rbt_weigh_answer(answer, tables);
}

bool rbt_message_fits(const struct rbt_message *answer, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->kind == RBT_SHARD_PULL);
    const struct rbt_batch *batch = &event->batches[0];
    return answer->event.table == event->table && answer->batch.count == batch->count &&
           answer->event.applied_first == event->applied_first &&
           answer->event.applied_count == event->applied_count && batch->count > 0 &&
           answer->batch.keys[0] == batch->keys[rbt_batch_position(batch, 0)] &&
           answer->batch.keys[batch->count - 1] ==
               batch->keys[rbt_batch_position(batch, batch->count - 1)];
}

static void unpack_scan(const struct rbt_message *answer, struct rbt_shard_scan *scan,
                        const struct rbt_message_table *table)
{
    const size_t found = answer->scan.count;
    const size_t rows = found < answer->scan.capacity ? found : answer->scan.capacity;
    RBT_ASSERT(rows <= scan->capacity);
    if (rows > 0) {
        memcpy(scan->keys, answer->scan.keys, rows * sizeof *scan->keys);
        memcpy(scan->values, answer->scan.values, rows * table->row_size);
    }
    scan->count = found;
}

static void unpack_early(const struct rbt_message *answer, const struct rbt_shard_event *event,
                         const struct rbt_message_table *table)
{
    struct rbt_shard_early *early = event->early;
    RBT_ASSERT(answer->early.count <= early->room);
    early->count = answer->early.count;
    if (early->count > 0) {
        memcpy(early->keys, answer->early.keys, early->count * sizeof *early->keys);
        memcpy(event->batches[0].values, answer->batch.values, early->count * table->row_size);
    }
}

void rbt_message_unpack(const struct rbt_message *answer, const struct rbt_shard_event *event,
                        const struct rbt_message_table *tables)
{
    const struct rbt_message_table *table = &tables[event->table];
    RBT_ASSERT(answer->event.kind == event->kind);
    if (event->kind == RBT_SHARD_SCAN) {
        unpack_scan(answer, event->scan, table);
    } else if (event->early != NULL) {
        unpack_early(answer, event, table);
    } else if (table->is_sparse) {
        event->on_elements(event->context, answer->elements, answer->values, answer->element_count);
    } else {
        const struct rbt_batch *batch = &event->batches[0];
        const char *from = answer->batch.values;
        RBT_ASSERT(answer->batch.count == batch->count);
        for (size_t i = 0; i < batch->count; i++) {
            memcpy((char *)batch->values + rbt_batch_position(batch, i) * table->row_size,
                   from + i * table->row_size, table->row_size);
        }
    }
    if (event->stamp != NULL) {
        *event->stamp = answer->stamp;
    }
    if (event->copy != NULL) {
        *event->copy = answer->copy;
    }
    if (event->applied_count > 0) {
        memcpy(event->applied, answer->event.applied, event->applied_count * sizeof(uint64_t));
    }
}

void rbt_message_ref(struct rbt_message *message)
{
    RBT_ASSERT(message->references > 0);
    message->references++;
}

void rbt_message_unref(struct rbt_message *message)
{
    if (message == NULL) {
        return;
    }
    RBT_ASSERT(message->references > 0);
    if (--message->references > 0) {
        return;
    }
    rbt_message_unref(message->about);
    for (uint32_t i = 0; i < message->part_count; i++) {
        rbt_message_unref(message->parts[i]);
    }
    if (message->pool != NULL) {
        message->next = message->pool->first;
        message->pool->first = message;
    } else {
        rbt_free(message->parts);
        rbt_free(message->elements);
        rbt_free(message->values);
        rbt_free(message);
    }
}
