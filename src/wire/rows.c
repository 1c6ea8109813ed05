/* wire/rows.c - rows in a message: a head of 32 bytes, keys, places of sparse rows, values.
 *
 *      0  4  table
 *      4  4  count of rows
 *      8  8  list: the name of the keys, or 0
 *     16  1  form of the keys
 *     17  1  form of the values
 *     18  1  size of an element: 4, 8, or 0 without values
 *     19  1  0: dense rows, 1: sparse, 2: dense, computed from an earlier read
 *     20  4  count of elements
 *     24  4  bytes of the keys
 *     28  4  bytes of the values
 *
 * Then, of updates that say what they were computed from, 16 bytes: base and least. Then, each
 * filled up with zeros to a multiple of 8: the keys; of sparse rows count + 1 offsets of 4 bytes
 * and as many indices as there are elements; the values. */
#include "wire/rows.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/keys.h"
#include "wire/values.h"

enum {
    NAMED_KEYS = 1024, /* hashed at a time */
    BASE_BYTES = 16,
    KEY_BYTES_AT = 24, /* in the head */
};

/* Byte 19 of the head. */
enum { SHAPE_DENSE, SHAPE_SPARSE, SHAPE_BASED };

static size_t position_of(const struct rbt_wire_rows *rows, size_t i)
{
    RBT_DEBUG_ASSERT(i < rows->count);
    return rows->positions == NULL ? i : rows->positions[i];
}

size_t rbt_wire_rows_elements(const struct rbt_wire_rows *rows)
{
    RBT_ASSERT(rows->count <= RBT_WIRE_COUNT_MAX);
    if (rows->values == NULL || rows->count == 0) {
        return 0;
    }
    if (rows->offsets == NULL) {
        return rows->count * rows->width;
    }
    if (rows->positions == NULL) {
        return rows->offsets[rows->count] - rows->offsets[0];
    }
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const size_t p = rows->positions[i];
        RBT_DEBUG_ASSERT(rows->offsets[p] <= rows->offsets[p + 1]);
        count += rows->offsets[p + 1] - rows->offsets[p];
    }
    return count;
}

static size_t bound_of(const struct rbt_wire_rows *rows, size_t element_count)
{
    RBT_ASSERT(rows->values != NULL || element_count == 0);
    size_t bytes = RBT_WIRE_ROWS_BYTES + (rows->has_base ? BASE_BYTES : 0);
    if (rows->keys != NULL) {
        bytes += rows->count * sizeof(uint64_t);
    }
    if (rows->values != NULL) {
        RBT_ASSERT(rows->element_size == 4 || rows->element_size == 8);
        bytes += rbt_frame_padded(element_count * rows->element_size);
        if (rows->offsets != NULL) {
            bytes += rbt_frame_padded((rows->count + 1) * sizeof(uint32_t));
            bytes += rbt_frame_padded(element_count * sizeof(uint32_t));
        }
    }
    return bytes;
}

size_t rbt_wire_rows_bound(const struct rbt_wire_rows *rows)
{
    RBT_ASSERT(rows->values == NULL || rows->offsets != NULL || rows->width > 0);
    const size_t bytes = bound_of(rows, rbt_wire_rows_elements(rows));
    RBT_ASSERT(bytes % RBT_FRAME_ALIGN == 0);
    return bytes;
}

/* Zeros up to the next multiple of 8. */
static char *pad(char *to, size_t bytes)
{
    const size_t padded = rbt_frame_padded(bytes);
    RBT_DEBUG_ASSERT(padded - bytes < RBT_FRAME_ALIGN);
    memset(to + bytes, 0, padded - bytes);
    return to + padded;
}

/* The offsets of sparse rows, from 0, and their indices. */
static char *put_places(char *to, const struct rbt_wire_rows *rows, size_t element_count)
{
    RBT_ASSERT((uintptr_t)to % RBT_FRAME_ALIGN == 0);
    uint32_t *offsets = (uint32_t *)(void *)to;
    char *at = pad(to, (rows->count + 1) * sizeof *offsets);
    uint32_t *elements = (uint32_t *)(void *)at;
    uint32_t taken = 0;
    offsets[0] = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const size_t p = position_of(rows, i);
        const uint32_t size = rows->offsets[p + 1] - rows->offsets[p];
        for (uint32_t k = 0; k < size; k++) {
            elements[taken + k] = rows->elements[rows->offsets[p] + k];
        }
        taken += size;
        offsets[i + 1] = taken;
    }
    RBT_ASSERT(taken == element_count);
    return pad(at, element_count * sizeof *elements);
}

/* What stands in the head besides what the rows say. */
struct head {
    uint32_t forms; /* without the shape */
    size_t element_count;
    size_t key_bytes;
    size_t value_bytes;
};

static void put_head(char *to, const struct rbt_wire_rows *rows, const struct head *head)
{
    const bool is_sparse = rows->values != NULL && rows->offsets != NULL;
    const uint32_t shape = rows->has_base ? SHAPE_BASED : (is_sparse ? SHAPE_SPARSE : SHAPE_DENSE);
    char *at = to;
    rbt_bytes_put_u32(&at, rows->table);
    rbt_bytes_put_u32(&at, (uint32_t)rows->count);
    rbt_bytes_put_u64(&at, rows->list);
    rbt_bytes_put_u32(&at, head->forms | shape << 24);
    rbt_bytes_put_u32(&at, (uint32_t)head->element_count);
    rbt_bytes_put_u32(&at, (uint32_t)head->key_bytes);
    rbt_bytes_put_u32(&at, (uint32_t)head->value_bytes);
    RBT_ASSERT(at == to + RBT_WIRE_ROWS_BYTES);
    RBT_ASSERT(head->value_bytes <= RBT_FRAME_BODY_MAX);
}

/* What the rows were computed from, if they say so; returns where the keys begin. */
static char *put_base(char *to, const struct rbt_wire_rows *rows)
{
    RBT_ASSERT(!rows->has_base || (rows->values != NULL && rows->offsets == NULL));
    char *at = to;
    if (rows->has_base) {
        rbt_bytes_put_u64(&at, rows->base);
        rbt_bytes_put_u64(&at, rows->least);
        RBT_ASSERT(at == to + BASE_BYTES);
    }
    return at;
}

size_t rbt_wire_rows_put(char *to, const struct rbt_wire_rows *rows, char *scratch)
{
    RBT_ASSERT((uintptr_t)to % RBT_FRAME_ALIGN == 0);
    RBT_ASSERT(scratch != NULL || rows->compression <= RBT_COMPRESSION_ZEROS);
    const bool has_values = rows->values != NULL;
    const bool is_sparse = has_values && rows->offsets != NULL;
    const size_t element_count = rbt_wire_rows_elements(rows);
    const uint32_t element_size = has_values ? rows->element_size : 0;
    RBT_ASSERT(!has_values || is_sparse || rows->width > 0);
    RBT_ASSERT(element_count * element_size <= RBT_FRAME_BODY_MAX);
    enum rbt_key_form key_form;
    enum rbt_value_form value_form = RBT_VALUES_NONE;
    char *at = put_base(to + RBT_WIRE_ROWS_BYTES, rows);
    const size_t key_bytes = rbt_keys_put(at, rows, &key_form);
    at = pad(at, key_bytes);
    if (is_sparse) {
        at = put_places(at, rows, element_count);
    }
    size_t value_bytes = 0;
    if (has_values) {
        value_bytes = rbt_values_put(at, rows, element_count, scratch, &value_form);
        at = pad(at, value_bytes);
    }
    const struct head head = {.forms = (uint32_t)key_form | (uint32_t)value_form << 8 |
                                       element_size << 16,
                              .element_count = element_count,
                              .key_bytes = key_bytes,
                              .value_bytes = value_bytes};
    put_head(to, rows, &head);
    RBT_ASSERT((size_t)(at - to) <= bound_of(rows, element_count));
    return (size_t)(at - to);
}

size_t rbt_wire_rows_key_bytes(const char *rows)
{
    const char *at = rows + KEY_BYTES_AT;
    const uint32_t bytes = rbt_bytes_get_u32(&at);
    RBT_ASSERT((uintptr_t)rows % RBT_FRAME_ALIGN == 0);
    RBT_ASSERT(bytes <= RBT_FRAME_BODY_MAX);
    return bytes;
}

size_t rbt_wire_rows_reserve_bytes(const struct rbt_wire_rows *rows)
{
    RBT_ASSERT(rows->offsets == NULL);
    RBT_ASSERT(rows->element_size == 4 || rows->element_size == 8);
    return RBT_WIRE_ROWS_BYTES + (rows->has_base ? (size_t)BASE_BYTES : 0) +
           (rows->keys == NULL ? 0 : rows->count * sizeof(uint64_t)) +
           rbt_frame_padded(rows->count * rows->width * rows->element_size);
}

/* The head of dense rows whose values come as they are. */
static void put_raw_head(char *to, const struct rbt_wire_rows *rows, enum rbt_key_form key_form,
                         size_t key_bytes)
{
    RBT_ASSERT(rows->offsets == NULL);
    RBT_ASSERT(rows->keys != NULL || key_form == RBT_KEYS_NAMED);
    const struct head head = {.forms = (uint32_t)key_form | (uint32_t)RBT_VALUES_RAW << 8 |
                                       rows->element_size << 16,
                              .element_count = rows->count * rows->width,
                              .key_bytes = key_bytes,
                              .value_bytes = rows->count * rows->width * rows->element_size};
    put_head(to, rows, &head);
}

void rbt_wire_rows_reserve_head(char *to, const struct rbt_wire_rows *rows)
{
    RBT_ASSERT(rows->keys == NULL && !rows->has_base);
    RBT_ASSERT(rows->element_size == 4 || rows->element_size == 8);
    put_raw_head(to, rows, RBT_KEYS_NAMED, 0);
}

size_t rbt_wire_rows_reserve(char *to, const struct rbt_wire_rows *rows, void **values)
{
    RBT_ASSERT((uintptr_t)to % RBT_FRAME_ALIGN == 0);
    RBT_ASSERT(rbt_wire_rows_reserve_bytes(rows) <= RBT_FRAME_BODY_MAX);
    enum rbt_key_form key_form = RBT_KEYS_NAMED;
    char *at = put_base(to + RBT_WIRE_ROWS_BYTES, rows);
    const size_t key_bytes = rows->keys == NULL ? 0 : rbt_keys_put(at, rows, &key_form);
    at = pad(at, key_bytes);
    put_raw_head(to, rows, key_form, key_bytes);
    *values = at;
    at = pad(at, rows->count * rows->width * rows->element_size);
    return (size_t)(at - to);
}

static rbt_status wrong(const char *what)
{
    RBT_ASSERT(what != NULL);
    return rbt_fail(RBT_E_PROTOCOL, "the peer sent rows with %s", what);
}

/* Takes `bytes` and what fills them up off the front, or returns NULL. */
static const char *take(const char **at, const char *end, uint64_t bytes)
{
    RBT_ASSERT(*at <= end);
    const char *start = *at;
    const uint64_t left = (uint64_t)(end - start);
    if (bytes > left || rbt_frame_padded(bytes) > left) {
        return NULL;
    }
    for (uint64_t i = bytes; i < rbt_frame_padded(bytes); i++) {
        if (start[i] != 0) {
            return NULL;
        }
    }
    *at = start + rbt_frame_padded(bytes);
    RBT_ASSERT(*at <= end);
    return start;
}

/* Offsets begin at 0, do not decrease and end with the elements, which increase within a row. */
static bool places_hold(const struct rbt_wire_view *view)
{
    RBT_ASSERT(view->offsets != NULL);
    RBT_ASSERT(view->elements != NULL);
    const uint32_t *offsets = view->offsets;
    if (offsets[0] != 0 || offsets[view->count] != view->element_count) {
        return false;
    }
    for (uint32_t i = 0; i < view->count; i++) {
        if (offsets[i] > offsets[i + 1]) {
            return false;
        }
    }
    for (uint32_t i = 0; i < view->count; i++) {
        for (uint32_t k = offsets[i]; k + 1 < offsets[i + 1]; k++) {
            if (view->elements[k] >= view->elements[k + 1]) {
                return false;
            }
        }
    }
    return true;
}

/* What the head says about the values can be true. */
static rbt_status check_head(const struct rbt_wire_view *view, unsigned forms)
{
    const bool is_sparse = forms >> 24 == SHAPE_SPARSE;
    if (forms >> 24 > SHAPE_BASED || view->key_form > RBT_KEYS_RAW ||
        view->value_form > RBT_VALUES_FILTERED) {
        return wrong("a form that does not exist");
    }
    if (view->count > RBT_WIRE_COUNT_MAX) {
        return wrong("more keys than a message can be about");
    }
    if (view->value_form == RBT_VALUES_NONE) {
        return forms >> 16 == 0 && view->element_count == 0 && view->value_bytes == 0
                   ? RBT_OK
                   : wrong("values that they should not have");
    }
    if (view->element_size != 4 && view->element_size != 8) {
        return wrong("elements of neither 4 nor 8 bytes");
    }
    RBT_ASSERT(view->element_count <= UINT32_MAX); /* it had 4 bytes */
    if (view->element_count * view->element_size > RBT_FRAME_BODY_MAX) {
        return wrong("more values than a message can hold");
    }
    if (!is_sparse &&
        (view->count == 0 ? view->element_count != 0
                          : view->element_count == 0 || view->element_count % view->count != 0)) {
        return wrong("values whose number differs from key to key");
    }
    RBT_ASSERT(!is_sparse || view->value_form != RBT_VALUES_NONE);
    return RBT_OK;
}

rbt_status rbt_wire_rows_get(const char **from, const char *end, struct rbt_wire_view *view)
{
    RBT_ASSERT((uintptr_t)*from % RBT_FRAME_ALIGN == 0);
    const char *at = *from;
    const char *head = take(&at, end, RBT_WIRE_ROWS_BYTES);
    if (head == NULL) {
        return wrong("too few bytes");
    }
    struct rbt_wire_view read = {.table = rbt_bytes_get_u32(&head)};
    read.count = rbt_bytes_get_u32(&head);
    read.list = rbt_bytes_get_u64(&head);
    const uint32_t forms = rbt_bytes_get_u32(&head);
    read.key_form = (enum rbt_key_form)(forms & 0xff);
    read.value_form = (enum rbt_value_form)(forms >> 8 & 0xff);
    read.element_size = forms >> 16 & 0xff;
    read.element_count = rbt_bytes_get_u32(&head);
    read.key_bytes = rbt_bytes_get_u32(&head);
    read.value_bytes = rbt_bytes_get_u32(&head);
    rbt_status st = check_head(&read, forms);
    if (st != RBT_OK) {
        return st;
    }
    if (forms >> 24 == SHAPE_BASED) {
        const char *base = take(&at, end, BASE_BYTES);
        if (base == NULL) {
            return wrong("too few bytes");
        }
        read.has_base = true;
        read.base = rbt_bytes_get_u64(&base);
        read.least = rbt_bytes_get_u64(&base);
    }
    read.keys = take(&at, end, read.key_bytes);
    if (read.keys == NULL) {
        return wrong("keys that end too early");
    }
    if (forms >> 24 == SHAPE_SPARSE) {
        const char *offsets = take(&at, end, (read.count + UINT64_C(1)) * sizeof(uint32_t));
        const char *elements =
            offsets == NULL ? NULL : take(&at, end, read.element_count * sizeof(uint32_t));
        if (elements == NULL) {
            return wrong("elements that end too early");
        }
        read.offsets = (const uint32_t *)(const void *)offsets;
        read.elements = (const uint32_t *)(const void *)elements;
        if (!places_hold(&read)) {
            return wrong("elements out of order");
        }
    }
    read.values = take(&at, end, read.value_bytes);
    if (read.values == NULL) {
        return wrong("values that end too early");
    }
    st = rbt_keys_check(&read);
    if (st == RBT_OK) {
        st = rbt_values_check(&read);
    }
    if (st != RBT_OK) {
        return st;
    }
    RBT_ASSERT(at <= end);
    RBT_ASSERT((at - *from) % RBT_FRAME_ALIGN == 0);
    *view = read;
    *from = at;
    return RBT_OK;
}

rbt_status rbt_wire_view_keys(const struct rbt_wire_view *view, uint64_t *keys)
{
    RBT_ASSERT(keys != NULL);
    RBT_ASSERT(view->keys != NULL);
    return rbt_keys_get(view, keys);
}

const void *rbt_wire_view_raw(const struct rbt_wire_view *view)
{
    RBT_ASSERT(view->values != NULL);
    RBT_ASSERT((uintptr_t)view->values % RBT_FRAME_ALIGN == 0);
    return view->value_form == RBT_VALUES_RAW ? view->values : NULL;
}

rbt_status rbt_wire_view_values(const struct rbt_wire_view *view, void *values)
{
    RBT_ASSERT(view->values != NULL);
    RBT_ASSERT(values != NULL || view->element_count == 0);
    return rbt_values_get(view, values);
}

uint64_t rbt_wire_list_name(const uint64_t *keys, const uint32_t *positions, size_t count)
{
    RBT_ASSERT(keys != NULL || count == 0);
    uint64_t gathered[NAMED_KEYS];
    uint64_t name = count;
    for (size_t start = 0; start < count; start += NAMED_KEYS) {
        const size_t size = count - start < NAMED_KEYS ? count - start : NAMED_KEYS;
        const uint64_t *from = keys + start;
        if (positions != NULL) {
            for (size_t i = 0; i < size; i++) {
                gathered[i] = keys[positions[start + i]];
            }
            from = gathered;
        }
        name = rbt_hash_bytes(from, size * sizeof *from, name);
    }
    RBT_ASSERT(count > 0 || name == 0);
    return name == 0 ? 1 : name;
}
