/* proto/answer.c - what a shard has answered, and how it comes to where it was wanted. */
#include "proto/answer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

rbt_status rbt_answer_wrong(void)
{
    return rbt_fail(RBT_E_PROTOCOL, "malformed answer: it does not match its request");
}

rbt_status rbt_answer_parse(const struct rbt_body *body, struct rbt_answer *answer)
{
    struct rbt_wire_cursor cursor = {body->bytes, body->bytes + body->count};
    const rbt_status st = rbt_wire_get_answer(&cursor, &answer->head);
    answer->placed = body->is_placed ? cursor.at : NULL;
    if (st != RBT_OK || !body->is_placed) {
        return st != RBT_OK ? st : rbt_wire_rows_get(&cursor.at, cursor.end, &answer->view);
    }
    return cursor.end - cursor.at == RBT_WIRE_ROWS_BYTES ? RBT_OK : rbt_answer_wrong();
}

/* Whether rows that were put where they belong are what was asked for, as they are. */
static rbt_status check_placed(const struct rbt_caller_entry *table,
                               const struct rbt_answer *answer, const struct rbt_batch *batch)
{
    char expected[RBT_WIRE_ROWS_BYTES];
    struct rbt_wire_rows rows = {.table = table->spec.number,
                                 .count = batch->count,
                                 .element_size = rbt_spec_element_size(&table->spec),
                                 .width = table->spec.width};
    memcpy(&rows.list, answer->placed + 2 * sizeof(uint32_t),
           sizeof rows.list); /* either will do */
    rbt_wire_rows_reserve_head(expected, &rows);
    return memcmp(expected, answer->placed, sizeof expected) == 0 ? RBT_OK : rbt_answer_wrong();
}

/* Copies rows that lie side by side to where the batch wants them. */
static void spread(const struct rbt_batch *batch, const char *from, size_t row_size)
{
    char *to = batch->values;
    if (batch->positions == NULL) {
        memcpy(to, from, batch->count * row_size);
        return;
    }
    if (row_size == sizeof(uint32_t)) { /* the commonest: one float */
        for (size_t i = 0; i < batch->count; i++) {
            memcpy(to + (size_t)batch->positions[i] * sizeof(uint32_t), from + i * sizeof(uint32_t),
                   sizeof(uint32_t));
        }
        return;
    }
    for (size_t i = 0; i < batch->count; i++) {
        memcpy(to + batch->positions[i] * row_size, from + i * row_size, row_size);
    }
}

static struct rbt_packing_key key_of(const struct rbt_answer_reader *reader,
                                     const struct rbt_shard_event *event)
{
    return (struct rbt_packing_key){reader->table->filters, event->table};
}

/* Rows as they came, or unpacked into memory that the caller of this frees. */
static rbt_status values_of(struct rbt_packing *packing, struct rbt_packing_key key,
                            const struct rbt_wire_view *view, const void **values, void **unpacked)
{
    *unpacked = NULL;
    *values = rbt_wire_view_raw(view);
    if (*values != NULL || view->element_count == 0) {
        return RBT_OK;
    }
    *unpacked = rbt_calloc((size_t)view->element_count, view->element_size);
    if (*unpacked == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for %llu values",
                        (unsigned long long)view->element_count);
    }
    *values = *unpacked;
    return rbt_packing_get(packing, key, view, *unpacked);
}

/* The same for a set that keeps a copy, of which the answer may be a change. */
static rbt_status update_copy(const struct rbt_answer_reader *reader,
                              const struct rbt_shard_event *event, const struct rbt_answer *answer,
                              const void **values)
{
    const struct rbt_packing_answer come = {.asked = event->asked,
                                            .shard = reader->shard,
                                            .head = &answer->head,
                                            .view = &answer->view};
    if (!answer->head.has_copy) {
        return rbt_answer_wrong();
    }
    const rbt_status st = rbt_packing_take(reader->packing, key_of(reader, event), &come, values);
    if (st == RBT_OK) {
        *event->copy = answer->head.copy;
    }
    return st;
}

rbt_status rbt_answer_take_rows(const struct rbt_answer_reader *reader,
                                const struct rbt_answer *answer,
                                const struct rbt_shard_event *event)
{
    const struct rbt_caller_entry *table = reader->table;
    const struct rbt_batch *batch = &event->batches[0];
    const struct rbt_wire_view *view = &answer->view;
    const size_t row_size = rbt_spec_row_size(&table->spec);
    if (answer->placed != NULL) {
        const size_t whole = batch->count * row_size;
        rbt_packing_count(reader->packing, key_of(reader, event), RBT_FILTERED_PULL,
                          (size_t[2]){whole, whole});
        return check_placed(table, answer, batch);
    }
    const bool fits = view->count == batch->count && !view->has_base &&
                      (view->offsets != NULL) == rbt_spec_is_sparse(&table->spec) &&
                      view->element_size == rbt_spec_element_size(&table->spec) &&
                      (rbt_spec_is_sparse(&table->spec) ||
                       view->element_count == (uint64_t)view->count * table->spec.width);
    bool is_within = fits;
    for (uint64_t i = 0; is_within && rbt_spec_is_sparse(&table->spec) && i < view->element_count;
         i++) {
        is_within = view->elements[i] < table->spec.width;
    }
    if (!is_within) {
        return rbt_answer_wrong();
    }
    const void *values = NULL;
    void *unpacked = NULL;
    const size_t plain = (size_t)view->element_count * view->element_size;
    rbt_packing_count(reader->packing, key_of(reader, event), RBT_FILTERED_PULL,
                      (size_t[2]){plain, view->value_bytes});
    const rbt_status st =
        rbt_packing_has_copies(key_of(reader, event), event)
            ? update_copy(reader, event, answer, &values)
            : values_of(reader->packing, key_of(reader, event), view, &values, &unpacked);
    if (st == RBT_OK && rbt_spec_is_sparse(&table->spec)) {
        event->on_elements(event->context, view->elements, values, (size_t)view->element_count);
    } else if (st == RBT_OK) {
        spread(batch, values, row_size);
    }
    rbt_free(unpacked);
    return st;
}

rbt_status rbt_answer_take_early(const struct rbt_answer_reader *reader,
                                 const struct rbt_answer *answer,
                                 const struct rbt_shard_event *event)
{
    const struct rbt_caller_entry *table = reader->table;
    const struct rbt_wire_view *view = &answer->view;
    struct rbt_shard_early *early = event->early;
    early->count = 0;
    if (answer->placed != NULL || view->count > early->room || view->has_base) {
        return rbt_answer_wrong();
    }
    if (view->count == 0) {
        return RBT_OK;
    }
    if (view->offsets != NULL || view->element_size != rbt_spec_element_size(&table->spec) ||
        view->element_count != (uint64_t)view->count * table->spec.width) {
        return rbt_answer_wrong();
    }
    const void *values = NULL;
    void *unpacked = NULL;
    const size_t plain = (size_t)view->element_count * view->element_size;
    rbt_packing_count(reader->packing, key_of(reader, event), RBT_FILTERED_PULL,
                      (size_t[2]){plain, view->value_bytes});
    rbt_status st = rbt_wire_view_keys(view, early->keys);
    st = st != RBT_OK ? st
                      : values_of(reader->packing, key_of(reader, event), view, &values, &unpacked);
    if (st == RBT_OK) {
        memcpy(event->batches[0].values, values,
               (size_t)view->count * rbt_spec_row_size(&table->spec));
        early->count = view->count;
    }
    rbt_free(unpacked);
    return st;
}

rbt_status rbt_answer_take_scan(const struct rbt_caller_entry *table,
                                const struct rbt_answer *answer, struct rbt_shard_scan *scan)
{
    const struct rbt_wire_view *view = &answer->view;
    const size_t row_size = rbt_spec_row_size(&table->spec);
    scan->count = (size_t)answer->head.scan_count;
    if (view->count > scan->capacity || view->count > answer->head.scan_count ||
        answer->head.is_withheld || view->has_base) {
        return rbt_answer_wrong();
    }
    if (view->count == 0) {
        return RBT_OK;
    }
    if (view->element_size != rbt_spec_element_size(&table->spec) ||
        view->element_count != (uint64_t)view->count * table->spec.width) {
        return rbt_answer_wrong();
    }
    const void *values = NULL;
    void *unpacked = NULL;
    rbt_status st = rbt_wire_view_keys(view, scan->keys);
    st = st != RBT_OK ? st : values_of(NULL, (struct rbt_packing_key){0}, view, &values, &unpacked);
    if (st == RBT_OK) {
        memcpy(scan->values, values, view->count * row_size);
    }
    rbt_free(unpacked);
    if (st == RBT_OK && view->count < answer->head.scan_count &&
        view->count < scan->capacity) { /* there was room, but not in a message */
        return rbt_fail(RBT_E_BUSY, "the range has %zu rows, more than a message can hold",
                        scan->count);
    }
    return st;
}
