/* proto/packing.c - filters at work on messages.
 *
 * Writing is exact: updates were selected and rounded when they were made (client/filtering.h).
 *
 * Memory: about four times the largest message that was filtered, and of tables whose filters
 * select what is read, a copy of each set. */
#include "proto/packing.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"

/* A chain is used by one thread at a time, so each caller has its own. */
struct rbt_packing_chains {
    rbt_chain *push;
    rbt_chain *pull;
};

/* --- Tables ---------------------------------------------------------------------------------- */

rbt_status rbt_packing_filters_create(const struct rbt_spec *spec, uint32_t worker_count,
                                      struct rbt_packing_filters **table)
{
    struct rbt_packing_filters *t = rbt_calloc(1, sizeof *t);
    if (t == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the filters of a table");
    }
    t->options = (struct rbt_chain_options){.text = spec->filter,
                                            .direction = RBT_FILTER_PUSH,
                                            .table = spec->name,
                                            .width = spec->width,
                                            .type = spec->type,
                                            .layout = spec->layout,
                                            .merge = spec->merge,
                                            .worker_count = worker_count};
    rbt_status st = rbt_chain_check(&t->options, &t->push);
    t->options.direction = RBT_FILTER_PULL;
    st = st != RBT_OK ? st : rbt_chain_check(&t->options, &t->pull);
    if (st != RBT_OK) {
        rbt_free(t);
        return st;
    }
    const struct rbt_chain_traits *push = &t->push;
    const struct rbt_chain_traits *pull = &t->pull;
    t->has_push = push->has_select || push->has_round || push->has_pack || push->skips_zeros;
    t->has_pull = pull->has_select || pull->has_round || pull->has_pack;
    *table = t;
    return RBT_OK;
}

void rbt_packing_filters_destroy(struct rbt_packing_filters *table)
{
    rbt_free(table);
}

/* The chain of a table, made on first use. */
static rbt_status find_chain(struct rbt_packing *packing, struct rbt_packing_key key,
                             rbt_filter_direction direction, rbt_chain **chain)
{
    RBT_ASSERT(key.filters != NULL);
    if (key.table >= packing->chain_count) {
        const uint32_t count = 2 * key.table + 4;
        struct rbt_packing_chains *grown = rbt_realloc(packing->chains, count, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate the filters of a table");
        }
        memset(grown + packing->chain_count, 0, (count - packing->chain_count) * sizeof *grown);
        packing->chains = grown;
        packing->chain_count = count;
    }
    struct rbt_packing_chains *own = &packing->chains[key.table];
    rbt_chain **made = direction == RBT_FILTER_PUSH ? &own->push : &own->pull;
    struct rbt_chain_options options = key.filters->options;
    options.direction = direction;
    const rbt_status st = *made != NULL ? RBT_OK : rbt_chain_create(&options, made);
    *chain = *made;
    return st;
}

static rbt_status fit(struct rbt_packing *packing, size_t bytes)
{
    if (bytes <= packing->scratch_max) {
        return RBT_OK;
    }
    rbt_free(packing->scratch);
    packing->scratch = rbt_alloc(bytes);
    packing->scratch_max = packing->scratch == NULL ? 0 : bytes;
    return packing->scratch != NULL ? RBT_OK
                                    : rbt_fail(RBT_E_NOMEM, "no memory to filter %zu bytes", bytes);
}

/* --- Life ------------------------------------------------------------------------------------ */

void rbt_packing_clear(struct rbt_packing *packing)
{
    for (size_t i = 0; i < packing->copy_count; i++) {
        rbt_free(packing->copies[i].values);
    }
    packing->copy_count = 0;
}

void rbt_packing_deinit(struct rbt_packing *packing)
{
    rbt_packing_clear(packing);
    for (uint32_t i = 0; i < packing->chain_count; i++) {
        rbt_chain_destroy(packing->chains[i].push);
        rbt_chain_destroy(packing->chains[i].pull);
    }
    rbt_free(packing->chains);
    rbt_free(packing->copies);
    rbt_free(packing->scratch);
    *packing = (struct rbt_packing){0};
}

void rbt_packing_forget(struct rbt_packing *packing, uint64_t asked)
{
    for (size_t i = packing->copy_count; i-- > 0;) {
        if (packing->copies[i].asked == asked) {
            rbt_free(packing->copies[i].values);
            packing->copies[i] = packing->copies[--packing->copy_count];
        }
    }
}

/* --- Elements -------------------------------------------------------------------------------- */

void rbt_packing_count(struct rbt_packing *packing, struct rbt_packing_key key, int kind,
                       const size_t bytes[2])
{
    RBT_ASSERT(kind < RBT_FILTERED_KINDS);
    for (int i = 0; key.filters != NULL && i < 2; i++) {
        packing->filtered[kind][i] += bytes[i];
    }
}

/* What was not selected is an update of zero, and zeros do not go. */
static void list_nonzero(const float *values, size_t count, bool *keep)
{
    for (size_t i = 0; i < count; i++) {
        keep[i] = values[i] != 0; /* not a number is not zero */
    }
}

rbt_status rbt_packing_put(struct rbt_packing *packing, struct rbt_packing_key key,
                           const struct rbt_filter_code *code, struct rbt_wire_rows *rows)
{
    const size_t count = rbt_wire_rows_elements(rows);
    const size_t plain = count * rows->element_size;
    rbt_chain *chain = NULL;
    if (key.filters == NULL || !key.filters->has_push || count == 0) {
        rbt_packing_count(packing, key, RBT_FILTERED_PUSH, (size_t[2]){plain, plain});
        return RBT_OK;
    }
    rbt_status st = find_chain(packing, key, RBT_FILTER_PUSH, &chain);
    const size_t bound = st != RBT_OK ? 0 : rbt_chain_bound(chain, count);
    st = st != RBT_OK ? st : fit(packing, rbt_frame_padded(plain) + count + 3 * bound);
    if (st != RBT_OK) {
        return st;
    }
    char *values = packing->scratch;
    char *keep = values + rbt_frame_padded(plain);
    char *to = keep + count;
    struct rbt_chain_elements elements = {.count = count, .values = values, .code = *code};
    rbt_wire_rows_gather(rows, count, values);
    if (key.filters->push.has_select) {
        elements.keep = (bool *)(void *)keep;
        list_nonzero((const float *)(const void *)values, count, elements.keep);
    }
    rows->packed_bytes = rbt_chain_put(chain, &elements, to, to + bound);
    rows->packed = rbt_wire_can_filter(plain, rows->packed_bytes) ? to : NULL;
    const size_t left = rows->packed == NULL ? plain : rows->packed_bytes;
    rbt_packing_count(packing, key, RBT_FILTERED_PUSH, (size_t[2]){plain, left});
    return RBT_OK;
}

rbt_status rbt_packing_get(struct rbt_packing *packing, struct rbt_packing_key key,
                           const struct rbt_wire_view *view, void *values)
{
    if (view->value_form != RBT_VALUES_FILTERED) {
        return rbt_wire_view_values(view, values);
    }
    rbt_chain *chain = NULL;
    if (key.filters == NULL || !key.filters->has_pull) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed answer: rows are filtered, but their table has no filters");
    }
    const struct rbt_chain_elements elements = {.count = (size_t)view->element_count,
                                                .values = values};
    rbt_status st = find_chain(packing, key, RBT_FILTER_PULL, &chain);
    st = st != RBT_OK ? st : fit(packing, 2 * rbt_chain_bound(chain, elements.count));
    return st != RBT_OK
               ? st
               : rbt_chain_get(chain, view->values, view->value_bytes, &elements, packing->scratch);
}

/* --- Copies ---------------------------------------------------------------------------------- */

static struct rbt_packing_copy *find(const struct rbt_packing *packing, uint64_t asked,
                                     uint32_t shard)
{
    for (size_t i = 0; i < packing->copy_count; i++) {
        struct rbt_packing_copy *copy = &packing->copies[i];
        if (copy->asked == asked && copy->shard == shard) {
            return copy;
        }
    }
    return NULL;
}

bool rbt_packing_has_copies(struct rbt_packing_key key, const struct rbt_shard_event *event)
{
    return key.filters != NULL && key.filters->pull.has_select && event->copy != NULL &&
           event->asked != 0 && event->early == NULL;
}

uint64_t rbt_packing_copy_name(const struct rbt_packing *packing, uint64_t asked, uint32_t shard)
{
    const struct rbt_packing_copy *copy = find(packing, asked, shard);
    return copy == NULL ? 0 : copy->name;
}

bool rbt_packing_can_use(const struct rbt_packing *packing, uint64_t asked, uint32_t shard,
                         const struct rbt_wire_answer *answer)
{
    if (!answer->has_copy || answer->copy_base == 0) {
        return true;
    }
    const uint64_t name = rbt_packing_copy_name(packing, asked, shard);
    return name != 0 && (name == answer->copy_base || name == answer->copy || RBT_MUTANT(ANY_BASE));
}

/* The copy of a set, of so many bytes; NULL without memory. */
static struct rbt_packing_copy *make(struct rbt_packing *packing, uint64_t asked, uint32_t shard,
                                     size_t bytes)
{
    struct rbt_packing_copy *copy = find(packing, asked, shard);
    if (copy == NULL && packing->copy_count == packing->copy_max) {
        const size_t max = packing->copy_max == 0 ? 8 : 2 * packing->copy_max;
        struct rbt_packing_copy *grown = rbt_realloc(packing->copies, max, sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        packing->copies = grown;
        packing->copy_max = max;
    }
    if (copy == NULL) {
        copy = &packing->copies[packing->copy_count++];
        *copy = (struct rbt_packing_copy){.asked = asked, .shard = shard};
    }
    if (copy->bytes != bytes) {
        char *values = rbt_calloc(bytes, 1);
        if (values == NULL) {
            return NULL;
        }
        rbt_free(copy->values);
        copy->values = values;
        copy->bytes = bytes;
        copy->name = 0;
    }
    return copy;
}

rbt_status rbt_packing_take(struct rbt_packing *packing, struct rbt_packing_key key,
                            const struct rbt_packing_answer *answer, const void **values)
{
    const struct rbt_wire_answer *head = answer->head;
    const struct rbt_wire_view *view = answer->view;
    const size_t bytes = (size_t)view->element_count * view->element_size;
    struct rbt_packing_copy *copy = make(packing, answer->asked, answer->shard, bytes);
    if (copy == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a copy of %zu bytes of rows", bytes);
    }
    *values = copy->values;
    if (head->copy != 0 && head->copy == copy->name) {
        return RBT_OK; /* an answer that was kept, and is used again */
    }
    if (head->copy_base != 0 && head->copy_base != copy->name) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed answer: it changes rows that this worker does not have");
    }
    if (head->copy_base == 0) {
        memset(copy->values, 0, bytes);
    }
    copy->name = 0; /* until all is well */
    const rbt_status st = rbt_packing_get(packing, key, view, copy->values);
    copy->name = st == RBT_OK ? head->copy : 0;
    return st;
}
