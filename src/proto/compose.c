/* proto/compose.c - a worker's events as messages. */
#include "proto/compose.h"

#include "base/error.h"

enum {
    LIST_MIN = 16,        /* keys that are worth a name */
    PLACE_MIN = 32 << 10, /* bytes of rows that are worth being put where they belong */
    STAY_MIN = 64 << 10,  /* bytes of rows that are worth being sent from where they are */
};

static struct rbt_packing_key key_of(const struct rbt_caller *caller, uint32_t table)
{
    return (struct rbt_packing_key){caller->shared->tables[table]->filters, table};
}

/* Rows as the wire has them. */
static struct rbt_wire_rows wire_rows(const struct rbt_caller *caller,
                                      const struct rbt_batch *batch, bool has_values)
{
    static const uint32_t nothing[2] = {0}; /* the values of no rows; their table must fit, too */
    const struct rbt_caller_entry *table = caller->shared->tables[batch->table];
    struct rbt_wire_rows rows = {.table = table->spec.number,
                                 .count = batch->count,
                                 .keys = batch->keys,
                                 .positions = batch->positions,
                                 .values = has_values ? batch->values : NULL,
                                 .element_size = rbt_spec_element_size(&table->spec),
                                 .width = table->spec.width,
                                 .offsets = has_values ? batch->offsets : NULL,
                                 .elements = batch->elements,
                                 .compression = has_values && table->filters == NULL
                                                    ? caller->shared->compression
                                                    : RBT_COMPRESSION_NONE};
    rows.has_base = has_values && rbt_spec_has_rule(&table->spec);
    rows.base = batch->base;
    if (has_values && batch->count == 0) {
        rows.values = nothing;
        rows.offsets = rbt_spec_is_sparse(&table->spec) ? nothing : NULL;
        rows.elements = nothing;
    }
    return rows;
}

/* Whether lists of keys of the table are named: unless it has filters, and none that says so. */
static bool may_name(const struct rbt_caller_entry *table, bool is_push)
{
    const struct rbt_packing_filters *filters = table->filters;
    return filters == NULL || (is_push ? filters->push.names_keys : filters->pull.names_keys);
}

/* Counts the keys of rows that have been written at `at`; a name is 8 bytes. */
static void count_keys(struct rbt_caller *caller, const struct rbt_batch *batch, const char *at)
{
    const size_t written = rbt_wire_rows_key_bytes(at);
    const size_t bytes[2] = {batch->count * sizeof *batch->keys,
                             written == 0 && batch->count > 0 ? sizeof batch->list : written};
    rbt_packing_count(&caller->packing, key_of(caller, batch->table), RBT_FILTERED_KEYS, bytes);
}

/* Sees to it that the shard has the batch's keys under their name, and names them. */
static rbt_status name_keys(struct rbt_caller *caller, struct rbt_stream *stream,
                            const struct rbt_batch *batch, struct rbt_wire_rows *rows)
{
    const bool is_push = rows->values != NULL;
    if (batch->list == 0 || batch->count < LIST_MIN ||
        !may_name(caller->shared->tables[batch->table], is_push)) {
        return RBT_OK;
    }
    if (!rbt_stream_has_list(stream, batch->list)) {
        if (!rbt_stream_can_name(stream, batch->count)) {
            return RBT_OK;
        }
        struct rbt_wire_rows keys = *rows;
        keys.values = NULL;
        keys.has_base = false;
        keys.compression = RBT_COMPRESSION_NONE;
        keys.list = batch->list;
        struct rbt_block *block =
            rbt_block_create(RBT_WIRE_LIST_BYTES + rbt_wire_rows_bound(&keys));
        if (block == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for a list of %zu keys", batch->count);
        }
        block->bytes =
            RBT_WIRE_LIST_BYTES + rbt_wire_rows_put(block->data + RBT_WIRE_LIST_BYTES, &keys, NULL);
        rbt_wire_close(block->data,
                       (struct rbt_frame){.kind = RBT_FRAME_LIST, .worker = caller->worker},
                       block->bytes);
        const rbt_status st = rbt_stream_add_list(stream, batch->list, block, caller->out);
        if (st != RBT_OK) {
            return st;
        }
        stream->list_keys += batch->count;
        rbt_packing_count(&caller->packing, key_of(caller, batch->table), RBT_FILTERED_KEYS,
                          (size_t[2]){0, block->bytes});
    }
    rows->keys = NULL;
    rows->list = batch->list;
    return RBT_OK;
}

bool rbt_compose_is_cheap(const struct rbt_caller *caller, const struct rbt_stream *stream,
                          const struct rbt_shard_event *event)
{
    const struct rbt_batch *batch = &event->batches[0];
    const bool has_names = may_name(caller->shared->tables[batch->table], false);
    return batch->count < LIST_MIN || (has_names && batch->list != 0 &&
                                       (rbt_stream_has_list(stream, batch->list) ||
                                        rbt_stream_can_name(stream, batch->count)));
}

bool rbt_compose_wants_stamp(const struct rbt_caller *caller, const struct rbt_shard_event *event)
{
    return rbt_spec_has_rule(&caller->shared->tables[event->table]->spec) &&
           (event->is_base || event->stamp != NULL);
}

struct rbt_frame_place rbt_compose_place(const struct rbt_caller *caller,
                                         const struct rbt_shard_event *event)
{
    const struct rbt_batch *batch = &event->batches[0];
    const struct rbt_caller_entry *table = caller->shared->tables[batch->table];
    const size_t bytes = batch->count * rbt_spec_row_size(&table->spec);
    const bool is_filtered = table->filters != NULL && table->filters->has_pull;
    if (rbt_spec_is_sparse(&table->spec) || is_filtered || event->early != NULL ||
        batch->positions != NULL || bytes < PLACE_MIN || bytes % RBT_FRAME_ALIGN != 0) {
        return (struct rbt_frame_place){0};
    }
    return (struct rbt_frame_place){
        .prefix =
            RBT_WIRE_ANSWER_BYTES - RBT_FRAME_HEADER +
            (rbt_compose_wants_stamp(caller, event) ? (size_t)RBT_WIRE_ANSWER_STAMP : 0) +
            (event->is_stable && rbt_spec_has_rule(&table->spec) ? (size_t)RBT_WIRE_ANSWER_LIMIT
                                                                 : 0) +
            event->applied_count * sizeof(uint64_t) + RBT_WIRE_ROWS_BYTES,
        .to = batch->values,
        .bytes = bytes};
}

rbt_status rbt_compose_scan(const struct rbt_caller *caller, const struct rbt_shard_event *event,
                            struct rbt_block **block)
{
    struct rbt_block *b = rbt_block_create(RBT_WIRE_SCAN_BYTES);
    if (b == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a request");
    }
    const struct rbt_wire_scan scan = {.need = event->need,
                                       .range_first = event->scan->range.first,
                                       .range_last = event->scan->range.last,
                                       .capacity = event->scan->capacity,
                                       .table = caller->shared->tables[event->table]->spec.number};
    b->bytes = rbt_wire_put_scan(b->data, &scan);
    *block = b;
    return RBT_OK;
}

rbt_status rbt_compose_pull(struct rbt_caller *caller, struct rbt_stream *stream,
                            const struct rbt_shard_event *event, bool is_early,
                            struct rbt_block **block)
{
    struct rbt_wire_rows rows = wire_rows(caller, &event->batches[0], false);
    const rbt_status st = name_keys(caller, stream, &event->batches[0], &rows);
    struct rbt_block *b = st != RBT_OK
                              ? NULL
                              : rbt_block_create(RBT_WIRE_PULL_BYTES + RBT_WIRE_PULL_BASE +
                                                 RBT_WIRE_PULL_STABLE + RBT_WIRE_PULL_EARLY +
                                                 RBT_WIRE_PULL_COPY + rbt_wire_rows_bound(&rows));
    if (b == NULL) {
        return st != RBT_OK ? st : rbt_fail(RBT_E_NOMEM, "no memory for a request");
    }
    const bool has_applied = event->applied_count > 0;
    const bool has_rule = rbt_spec_has_rule(&caller->shared->tables[event->table]->spec);
    const bool is_part = event->early != NULL;
    const bool has_copy = rbt_packing_has_copies(key_of(caller, event->table), event);
    const struct rbt_wire_pull pull = {
        .need = event->need,
        .subscription = event->asked != 0 ? event->asked : event->subscription,
        .applied_first = has_applied ? event->applied_first : 0,
        .applied_count = event->applied_count,
        .wants_stamp = rbt_compose_wants_stamp(caller, event),
        .is_ahead = is_early && !is_part && event->is_base && has_rule,
        .is_base = event->is_base && has_rule,
        .least = event->least,
        .sequence = event->sequence,
        .is_stable = event->is_stable && has_rule,
        .stable = event->stable,
        .is_early = is_part,
        .room = is_part ? event->early->room : 0,
        .has_copy = has_copy,
        .copy = has_copy
                    ? rbt_packing_copy_name(&caller->packing, event->asked, stream->options.shard)
                    : 0};
    b->bytes = rbt_wire_put_pull(b->data, &pull);
    char *at = b->data + b->bytes;
    b->bytes += rbt_wire_rows_put(at, &rows, NULL);
    count_keys(caller, &event->batches[0], at);
    *block = b;
    return RBT_OK;
}

/* Whether the values of the rows may stay where they are until the shard has them: they are many,
 * lie side by side, and travel as they are. */
static bool may_stay(const struct rbt_wire_rows *rows)
{
    const size_t bytes = rows->count * rows->width * rows->element_size;
    return rows->packed == NULL && rows->positions == NULL && rows->offsets == NULL &&
           bytes >= STAY_MIN && bytes % RBT_FRAME_ALIGN == 0 &&
           (rows->compression == RBT_COMPRESSION_NONE ||
            (rows->compression == RBT_COMPRESSION_ZEROS && !rbt_wire_rows_has_zeros(rows)));
}

/* Puts the last rows of a message; returns how many bytes it has then. */
static size_t put_last(struct rbt_block *block, const struct rbt_wire_rows *rows)
{
    void *values = NULL;
    const size_t bytes = rbt_wire_rows_reserve(block->data + block->bytes, rows, &values);
    block->tail = rows->values;
    block->tail_at = (size_t)((char *)values - block->data);
    return block->bytes + bytes;
}

/* Puts all rows of a message. `scratch` is for compression, or NULL. */
static rbt_status put_batches(struct rbt_caller *caller, uint32_t shard,
                              const struct rbt_shard_event *event, struct rbt_block *block,
                              struct rbt_block *scratch)
{
    struct rbt_stream *stream = &caller->streams[shard];
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < event->batch_count; i++) {
        struct rbt_wire_rows rows = wire_rows(caller, &event->batches[i], true);
        if (rows.has_base) {
            rows.least = rbt_prefetches_least(&caller->prefetches, shard, event->batches[i].table,
                                              event->batches[i].least);
        }
        st = name_keys(caller, stream, &event->batches[i], &rows);
        st = st != RBT_OK
                 ? st
                 : rbt_packing_put(&caller->packing, key_of(caller, event->batches[i].table),
                                   &event->batches[i].code, &rows);
        char *at = block->data + block->bytes;
        if (st == RBT_OK && i + 1 == event->batch_count && may_stay(&rows)) {
            block->bytes = put_last(block, &rows);
        } else if (st == RBT_OK) {
            block->bytes += rbt_wire_rows_put(at, &rows, scratch == NULL ? NULL : scratch->data);
        }
        if (st == RBT_OK) {
            count_keys(caller, &event->batches[i], at);
        }
    }
    return st;
}

rbt_status rbt_compose_push(struct rbt_caller *caller, uint32_t shard,
                            const struct rbt_shard_event *event, struct rbt_block **block)
{
    size_t bytes = RBT_WIRE_PUSH_BYTES;
    for (size_t i = 0; i < event->batch_count; i++) {
        const struct rbt_wire_rows rows = wire_rows(caller, &event->batches[i], true);
        bytes += rbt_wire_rows_bound(&rows);
    }
    if (bytes > RBT_FRAME_BODY_MAX) {
        return rbt_fail(RBT_E_INVALID,
                        "the updates of one clock take %zu bytes, more than a message holds (%u)",
                        bytes, RBT_FRAME_BODY_MAX);
    }
    const bool is_packed = caller->shared->compression >= RBT_COMPRESSION_LZ4;
    struct rbt_block *b = rbt_block_create(bytes);
    struct rbt_block *scratch = b != NULL && is_packed ? rbt_block_create(bytes) : NULL;
    if (b == NULL || (is_packed && scratch == NULL)) {
        rbt_block_unref(b);
        return rbt_fail(RBT_E_NOMEM, "no memory for a message of %zu bytes", bytes);
    }
    const struct rbt_wire_push push = {.clock = event->clock,
                                       .marker = event->marker,
                                       .range_last = UINT64_MAX, /* of all keys */
                                       .batch_count = (uint32_t)event->batch_count};
    b->bytes = rbt_wire_put_push(b->data, &push);
    const rbt_status st = put_batches(caller, shard, event, b, scratch);
    rbt_block_unref(scratch);
    if (st != RBT_OK) {
        rbt_block_unref(b);
        return st;
    }
    *block = b;
    return RBT_OK;
}
