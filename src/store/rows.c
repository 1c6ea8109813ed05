/* store/rows.c - rows in one contiguous block, found through an index.
 *
 * The block holds `stride` bytes per slot: the values; for sparse tables a small header that owns
 * the elements. The states of rules have a block of their own, so that reads do not drag them
 * through the cache. Blocks grow by remapping, so they are never copied when they are large. A row
 * of one f32 takes 12 bytes with its key, and 9 to 12 in the index. A batch is worked off in three
 * waves that overlap: index entries are fetched while earlier keys are compared, and rows are
 * fetched while earlier rows are read or updated. One row is looked up by itself.
 *
 * Invariants:
 *   (1) index, keys and block agree: index[keys[slot]] == slot for slot < count.
 *   (2) count <= capacity <= RBT_SLOT_NONE.
 *
 * Threads: none; owned by the shard. Memory: grows in reserve and reserve_elements only. */
#include "store/rows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/index.h"

enum {
    WAVE =
        512, /* keys looked up before their rows are touched; the slots of a wave fit the stack */
    AHEAD = 16, /* rows fetched ahead */
    NEAR = 2,   /* and those all of whose lines are, with their states */
    LINE_SIZE = 64,
    FETCH_MAX = 4096, /* bytes of one row: what the first cache has room for besides */
};

struct rbt_row_store {
    const struct rbt_spec *spec;
    struct rbt_merge_kind kind;
    struct rbt_initial initial;
    struct rbt_index index;
    uint64_t *keys; /* by slot */
    char *block;    /* by slot, stride bytes each */
    char *states;   /* by slot, state_size bytes each; NULL if that is 0 */
    size_t stride;
    size_t row_size;      /* bytes of the values */
    size_t element_bytes; /* of all sparse rows' elements */
    size_t state_size;
    uint64_t count;
    uint64_t capacity;
};

rbt_status rbt_rows_create(const struct rbt_spec *spec, uint32_t state_width, rbt_row_store **rows)
{
    RBT_ASSERT(spec->width > 0);
    RBT_ASSERT(state_width == 0 || spec->layout == RBT_DENSE);
    rbt_row_store *r = rbt_calloc(1, sizeof *r);
    if (r == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a table");
    }
    r->spec = spec;
    r->kind = rbt_spec_kind(spec);
    r->initial = rbt_spec_initial(spec);
    r->row_size = rbt_spec_row_size(spec);
    r->state_size = (size_t)state_width * rbt_spec_element_size(spec);
    r->stride = rbt_spec_is_sparse(spec) ? sizeof(struct rbt_sparse_row) : r->row_size;
    const rbt_status st =
        spec->rows_expected == 0 ? RBT_OK : rbt_rows_reserve(r, spec->rows_expected);
    if (st != RBT_OK) {
        rbt_rows_destroy(r);
        return st;
    }
    RBT_ASSERT(r->capacity >= spec->rows_expected);
    *rows = r;
    return RBT_OK;
}

void rbt_rows_destroy(rbt_row_store *rows)
{
    if (rows == NULL) {
        return;
    }
    if (rows->spec->layout == RBT_SPARSE) {
        for (uint64_t slot = 0; slot < rows->count; slot++) {
            rbt_sparse_row_deinit((struct rbt_sparse_row *)(rows->block + slot * rows->stride));
        }
    }
    rbt_free(rows->states);
    rbt_free(rows->block);
    rbt_free(rows->keys);
    rbt_index_deinit(&rows->index);
    rbt_free(rows);
}

const struct rbt_spec *rbt_rows_spec(const rbt_row_store *rows)
{
    RBT_ASSERT(rows->spec != NULL);
    return rows->spec;
}

size_t rbt_rows_state_size(const rbt_row_store *rows)
{
    RBT_ASSERT(rows->state_size == 0 || rows->spec->layout == RBT_DENSE);
    return rows->state_size;
}

uint64_t rbt_rows_count(const rbt_row_store *rows)
{
    RBT_DEBUG_ASSERT(rows->count == rows->index.count); /* (1) */
    RBT_ASSERT(rows->count <= rows->capacity);
    return rows->count;
}

/* NULL: there was no memory, which has been recorded, and the array is as it was. */
static void *grow_array(void *array, uint64_t count, size_t size, const char *what)
{
    RBT_ASSERT(count < RBT_SLOT_NONE); /* (2) */
    RBT_ASSERT(size > 0);
    void *grown = rbt_realloc(array, count, size);
    if (grown == NULL) {
        (void)rbt_fail(RBT_E_NOMEM, "could not allocate %llu %s of %zu bytes",
                       (unsigned long long)count, what, size);
    }
    return grown;
}

/* The arrays by slot. If one fails, those before it have room that nobody knows of. */
static rbt_status grow_arrays(rbt_row_store *rows, uint64_t capacity)
{
    RBT_ASSERT(capacity > rows->capacity);
    uint64_t *keys = grow_array(rows->keys, capacity, sizeof *keys, "keys");
    if (keys == NULL) {
        return RBT_E_NOMEM;
    }
    rows->keys = keys;
    char *block = grow_array(rows->block, capacity, rows->stride, "rows");
    if (block == NULL) {
        return RBT_E_NOMEM;
    }
    rows->block = block;
    if (rows->state_size > 0) {
        char *states = grow_array(rows->states, capacity, rows->state_size, "states");
        if (states == NULL) {
            return RBT_E_NOMEM;
        }
        rows->states = states;
    }
    rows->capacity = capacity;
    RBT_ASSERT((rows->states != NULL) == (rows->state_size > 0));
    return RBT_OK;
}

rbt_status rbt_rows_reserve(rbt_row_store *rows, uint64_t count)
{
    RBT_ASSERT(rows->count <= rows->capacity);
    const uint64_t needed = rows->count + count;
    if (needed >= RBT_SLOT_NONE) {
        return rbt_fail(RBT_E_BUSY, "a shard holds at most %u rows of a table", RBT_SLOT_NONE - 1);
    }
    rbt_status st = rbt_index_reserve(&rows->index, rows->keys, count);
    if (st != RBT_OK || needed <= rows->capacity) {
        return st;
    }
    uint64_t capacity = needed + needed / 2;
    capacity = capacity >= RBT_SLOT_NONE ? RBT_SLOT_NONE - 1 : capacity; /* (2) */
    st = grow_arrays(rows, capacity);
    if (st != RBT_OK) {
        return st;
    }
    RBT_ASSERT(rows->capacity >= needed);
    RBT_ASSERT(rows->capacity < RBT_SLOT_NONE); /* (2) */
    return RBT_OK;
}

/* Looks up rows begin .. begin+count-1 of the batch; uses and fills the batch's own slots if it has
 * any. */
static void find_slots(const rbt_row_store *rows, const struct rbt_batch *batch, size_t begin,
                       size_t count, uint32_t *slots)
{
    RBT_ASSERT(begin + count <= batch->count);
    RBT_ASSERT(count <= WAVE);
    uint64_t keys[WAVE];
    keys[0] = 0; /* gcc 12 cannot see that it is written before it is read */
    if (batch->slots == NULL || *batch->slots_complete == 0) { /* nothing is known */
        const uint64_t *wanted = batch->keys + begin;
        if (batch->positions != NULL) {
            for (size_t i = 0; i < count; i++) {
                keys[i] = batch->keys[batch->positions[begin + i]];
            }
            wanted = keys;
        }
        rbt_index_find_batch(&rows->index, rows->keys, wanted, count, slots);
        for (size_t i = 0; batch->slots != NULL && i < count; i++) {
            batch->slots[rbt_batch_position(batch, begin + i)] = slots[i];
        }
        return;
    }
    uint16_t missing[WAVE];
    size_t missing_count = 0;
    const bool is_complete =
        batch->slots != NULL && *batch->slots_complete == rows->count + 1; /* 0: never looked up */
    for (size_t i = 0; i < count; i++) {
        const size_t position = rbt_batch_position(batch, begin + i);
        slots[i] = batch->slots == NULL ? RBT_SLOT_NONE : batch->slots[position];
        RBT_DEBUG_ASSERT(slots[i] == RBT_SLOT_NONE || slots[i] < rows->count);
        if (slots[i] == RBT_SLOT_NONE && !is_complete) {
            keys[missing_count] = batch->keys[position];
            missing[missing_count++] = (uint16_t)i;
        }
    }
    if (missing_count == 0) {
        return;
    }
    uint32_t found[WAVE];
    rbt_index_find_batch(&rows->index, rows->keys, keys, missing_count, found);
    for (size_t i = 0; i < missing_count; i++) {
        RBT_DEBUG_ASSERT(found[i] == RBT_SLOT_NONE || rows->keys[found[i]] == keys[i]); /* (1) */
        slots[missing[i]] = found[i];
        if (batch->slots != NULL) {
            batch->slots[rbt_batch_position(batch, begin + missing[i])] = found[i];
        }
    }
}

static void fetch_row(const rbt_row_store *rows, uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot == RBT_SLOT_NONE || slot < rows->count);
    if (slot != RBT_SLOT_NONE) {
        __builtin_prefetch(rows->block + slot * rows->stride);
    }
}

/* What is to be called for rows. */
struct visit {
    rbt_rows_visitor function;
    void *context;
    size_t begin;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void fetch_lines(const char *begin, size_t size)
{
    RBT_DEBUG_ASSERT(begin != NULL);
    RBT_DEBUG_ASSERT(size > 0);
    const char *end = begin + smaller(size, FETCH_MAX);
    for (const char *at = begin; at < end; at += LINE_SIZE) {
        __builtin_prefetch(at, 1);
    }
    __builtin_prefetch(end - 1, 1); /* rows need not begin where a line does */
}

/* A row with its state is many short arrays, too short for the processor to see where they lead:
 * without this AdaRevision waits for most of them. */
static void fetch_whole_row(const rbt_row_store *rows, uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot == RBT_SLOT_NONE || slot < rows->count);
    if (slot != RBT_SLOT_NONE) {
        fetch_lines(rows->block + slot * rows->stride, rows->stride);
    }
    if (slot != RBT_SLOT_NONE && rows->state_size > 0) {
        fetch_lines(rows->states + slot * rows->state_size, rows->state_size);
    }
}

/* The most frequent case, width 1 and four bytes: a row is one element. */
static void read_wave_4(const rbt_row_store *rows, const struct rbt_batch *batch, size_t begin,
                        size_t count, const uint32_t *slots)
{
    RBT_ASSERT(begin + count <= batch->count);
    RBT_ASSERT(batch->values != NULL);
    uint32_t *to = batch->values;
    RBT_DEBUG_ASSERT(rows->row_size == sizeof *to);
    for (size_t i = 0; i < count; i++) {
        fetch_row(rows, slots[smaller(i + AHEAD, count - 1)]);
        const size_t position = rbt_batch_position(batch, begin + i);
        if (slots[i] == RBT_SLOT_NONE) {
            rbt_initial_values(&rows->initial, batch->keys[position], &to[position]);
        } else {
            memcpy(&to[position], rows->block + slots[i] * rows->stride, sizeof *to);
        }
    }
}

/* Copies the row in a slot to the batch's `position`, or the values of a row that does not exist.
 */
static void copy_row(const rbt_row_store *rows, const struct rbt_batch *batch, size_t position,
                     uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot == RBT_SLOT_NONE || slot < rows->count);
    RBT_DEBUG_ASSERT(batch->values != NULL);
    char *to = (char *)batch->values + position * rows->row_size;
    if (slot == RBT_SLOT_NONE) {
        rbt_initial_values(&rows->initial, batch->keys[position], to);
    } else {
        memcpy(to, rows->block + slot * rows->stride, rows->row_size);
    }
}

static void read_wave(const rbt_row_store *rows, const struct rbt_batch *batch, size_t begin,
                      size_t count, const uint32_t *slots)
{
    RBT_ASSERT(begin + count <= batch->count);
    RBT_ASSERT(batch->values != NULL);
    for (size_t i = 0; i < count; i++) {
        fetch_row(rows, slots[smaller(i + AHEAD, count - 1)]);
        copy_row(rows, batch, rbt_batch_position(batch, begin + i), slots[i]);
    }
}

static void read_waves(const rbt_row_store *rows, const struct rbt_batch *batch)
{
    uint32_t slots[WAVE];
    RBT_ASSERT(batch->count == 0 || batch->values != NULL);
    for (size_t begin = 0; begin < batch->count; begin += WAVE) {
        const size_t count = smaller(batch->count - begin, WAVE);
        find_slots(rows, batch, begin, count, slots);
        if (rows->row_size == 4) {
            read_wave_4(rows, batch, begin, count, slots);
        } else {
            read_wave(rows, batch, begin, count, slots);
        }
    }
}

void rbt_rows_read(const rbt_row_store *rows, const struct rbt_batch *batch)
{
    RBT_ASSERT(batch->count == 0 || batch->keys != NULL);
    RBT_ASSERT(rows->spec->layout == RBT_DENSE);
    RBT_ASSERT((batch->slots == NULL) == (batch->slots_complete == NULL));
    const bool is_known = batch->slots != NULL && *batch->slots_complete != 0;
    if (batch->count == 1 && !is_known) { /* nothing would overlap */
        const size_t position = rbt_batch_position(batch, 0);
        const uint32_t slot = rbt_index_find(&rows->index, rows->keys, batch->keys[position]);
        copy_row(rows, batch, position, slot);
        if (batch->slots != NULL) {
            batch->slots[position] = slot;
        }
    } else {
        read_waves(rows, batch);
    }
    if (batch->slots != NULL) {
        *batch->slots_complete = rows->count + 1;
    }
}

const void *rbt_rows_view(const rbt_row_store *rows, const struct rbt_batch *batch)
{
    RBT_ASSERT(rows->spec->layout == RBT_DENSE);
    RBT_ASSERT((batch->slots == NULL) == (batch->slots_complete == NULL));
    uint32_t slots[WAVE];
    if (batch->count == 0 || batch->count > WAVE || batch->positions != NULL) {
        return NULL;
    }
    find_slots(rows, batch, 0, batch->count, slots);
    for (size_t i = 0; i < batch->count; i++) {
        if (slots[i] == RBT_SLOT_NONE || slots[i] != slots[0] + i) {
            return NULL;
        }
    }
    return rows->block + slots[0] * rows->stride;
}

/* Whether merging the batch's row at `position` into a row that does not exist creates it. */
static bool creates(const rbt_row_store *rows, const struct rbt_batch *batch, size_t position)
{
    if (rows->spec->layout == RBT_SPARSE) {
        return true;
    }
    const char *update = (const char *)batch->values + position * rows->row_size;
    return !rbt_merge_is_neutral(rows->kind, update, rows->spec->width);
}

size_t rbt_rows_find(const rbt_row_store *rows, const struct rbt_batch *batch)
{
    RBT_ASSERT((batch->slots == NULL) == (batch->slots_complete == NULL));
    size_t missing = 0;
    uint32_t slots[WAVE];
    for (size_t begin = 0; begin < batch->count; begin += WAVE) {
        const size_t count = smaller(batch->count - begin, WAVE);
        find_slots(rows, batch, begin, count, slots);
        for (size_t i = 0; i < count; i++) {
            missing += slots[i] == RBT_SLOT_NONE &&
                       creates(rows, batch, rbt_batch_position(batch, begin + i));
        }
    }
    if (batch->slots != NULL) {
        *batch->slots_complete = rows->count + 1;
    }
    return missing;
}

/* Adds a row with its initial values; returns its slot. */
static uint32_t create_row(rbt_row_store *rows, uint64_t key)
{
    RBT_DEBUG_ASSERT(rbt_index_find(&rows->index, rows->keys, key) == RBT_SLOT_NONE);
    RBT_ASSERT(rows->count < rows->capacity); /* room was reserved */
    const uint32_t slot = rbt_index_add(&rows->index, key);
    rows->count++;
    char *row = rows->block + slot * rows->stride;
    rows->keys[slot] = key;
    if (rows->spec->layout == RBT_DENSE) {
        rbt_initial_values(&rows->initial, key, row);
    }
    if (rows->state_size > 0) {
        memset(rows->states + slot * rows->state_size, 0, rows->state_size);
    }
    RBT_ASSERT(rows->count == rows->index.count); /* (1) */
    return slot;
}

uint32_t rbt_rows_add(rbt_row_store *rows, uint64_t key)
{
    RBT_ASSERT(rows->count < rows->capacity);
    RBT_ASSERT(rows->count == rows->index.count); /* (1) */
    const bool is_there = rbt_index_find(&rows->index, rows->keys, key) != RBT_SLOT_NONE;
    return is_there ? RBT_SLOT_NONE : create_row(rows, key);
}

size_t rbt_rows_missing(const rbt_row_store *rows, const uint64_t *keys, size_t count)
{
    size_t missing = 0;
    RBT_ASSERT(count == 0 || keys != NULL);
    for (size_t i = 0; i < count; i++) {
        missing += rbt_index_find(&rows->index, rows->keys, keys[i]) == RBT_SLOT_NONE;
    }
    RBT_ASSERT(missing <= count);
    return missing;
}

/* Creates the rows of the wave that are missing and whose update changes something. */
static void create_missing(rbt_row_store *rows, const struct rbt_batch *batch, size_t begin,
                           size_t count, uint32_t *slots)
{
    RBT_ASSERT(begin + count <= batch->count);
    RBT_DEBUG_ASSERT(rows->spec->layout == RBT_DENSE);
    for (size_t i = 0; i < count; i++) {
        if (slots[i] != RBT_SLOT_NONE) {
            continue;
        }
        const size_t position = rbt_batch_position(batch, begin + i);
        if (!creates(rows, batch, position)) {
            continue;
        }
        slots[i] = create_row(rows, batch->keys[position]);
        RBT_DEBUG_ASSERT(slots[i] < rows->count);
        if (batch->slots != NULL) {
            batch->slots[position] = slots[i];
        }
    }
}

/* Width 1, f32, add: no call per row. */
static void add_wave_f32(rbt_row_store *rows, const struct rbt_batch *batch, size_t begin,
                         size_t count, const uint32_t *slots)
{
    RBT_ASSERT(begin + count <= batch->count);
    RBT_DEBUG_ASSERT(rows->row_size == sizeof(float));
    const float *from = batch->values;
    RBT_DEBUG_ASSERT(rows->kind.type == RBT_F32);
    for (size_t i = 0; i < count; i++) {
        fetch_row(rows, slots[smaller(i + AHEAD, count - 1)]);
        if (slots[i] != RBT_SLOT_NONE) {
            float *row = (float *)(rows->block + slots[i] * rows->stride);
            *row += from[rbt_batch_position(batch, begin + i)];
        }
    }
}

static void merge_wave(rbt_row_store *rows, const struct rbt_batch *batch, size_t begin,
                       size_t count, const uint32_t *slots)
{
    RBT_ASSERT(begin + count <= batch->count);
    RBT_ASSERT(rows->spec->layout == RBT_DENSE);
    for (size_t i = 0; i < count; i++) {
        fetch_row(rows, slots[smaller(i + AHEAD, count - 1)]);
        if (slots[i] != RBT_SLOT_NONE) {
            const size_t position = rbt_batch_position(batch, begin + i);
            rbt_merge_apply(rows->kind, rows->block + slots[i] * rows->stride,
                            (const char *)batch->values + position * rows->row_size,
                            rows->spec->width);
        }
    }
}

static void merge_dense(rbt_row_store *rows, const struct rbt_batch *batch)
{
    RBT_ASSERT(rows->spec->layout == RBT_DENSE);
    RBT_ASSERT(batch->offsets == NULL);
    const bool is_f32_add =
        rows->spec->width == 1 && rows->kind.type == RBT_F32 && rows->kind.merge == RBT_MERGE_ADD;
    uint32_t slots[WAVE];
    for (size_t begin = 0; begin < batch->count; begin += WAVE) {
        const size_t count = smaller(batch->count - begin, WAVE);
        find_slots(rows, batch, begin, count, slots);
        create_missing(rows, batch, begin, count, slots);
        if (is_f32_add) {
            add_wave_f32(rows, batch, begin, count, slots);
        } else {
            merge_wave(rows, batch, begin, count, slots);
        }
    }
    /* Rows that were created on the way may be missing from waves before: look again next time. */
    RBT_ASSERT(rows->count <= rows->capacity);
}

/* Where rows have no state, a place behind the values that nothing is at: rules may compute with
 * it, as with any array of no length. */
static void *state_at(const rbt_row_store *rows, uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot < rows->count);
    RBT_DEBUG_ASSERT((rows->states != NULL) == (rows->state_size > 0));
    return rows->state_size == 0 ? rows->block + (slot + UINT64_C(1)) * rows->stride
                                 : rows->states + slot * rows->state_size;
}

/* The wave starts at row visit->begin of the batch. */
static void visit_wave(const rbt_row_store *rows, const struct rbt_batch *batch, size_t count,
                       const uint32_t *slots, const struct visit *visit)
{
    RBT_ASSERT(visit->begin + count <= batch->count);
    RBT_ASSERT(visit->function != NULL);
    for (size_t i = 0; i < count; i++) {
        fetch_row(rows, slots[smaller(i + AHEAD, count - 1)]);
        fetch_whole_row(rows, slots[smaller(i + NEAR, count - 1)]);
        if (slots[i] != RBT_SLOT_NONE) {
            visit->function(visit->context, slots[i], rows->block + slots[i] * rows->stride,
                            rbt_batch_position(batch, visit->begin + i), state_at(rows, slots[i]));
        }
    }
}

/* Calls the function for the rows of the batch; those that do not exist are created in `creating`,
 * which is `rows`, or if it is NULL left out. */
static void visit_rows(const rbt_row_store *rows, const struct rbt_batch *batch,
                       rbt_row_store *creating, struct visit visit)
{
    RBT_ASSERT(rows->spec->layout == RBT_DENSE);
    RBT_ASSERT(batch->offsets == NULL);
    uint32_t slots[WAVE];
    for (visit.begin = 0; visit.begin < batch->count; visit.begin += WAVE) {
        const size_t count = smaller(batch->count - visit.begin, WAVE);
        find_slots(rows, batch, visit.begin, count, slots);
        if (creating != NULL) {
            create_missing(creating, batch, visit.begin, count, slots);
        }
        visit_wave(rows, batch, count, slots, &visit);
    }
}

void rbt_rows_update(rbt_row_store *rows, const struct rbt_batch *batch, rbt_rows_visitor visit,
                     void *context)
{
    RBT_ASSERT(visit != NULL);
    RBT_ASSERT(batch->count == 0 || batch->keys != NULL);
    visit_rows(rows, batch, rows, (struct visit){visit, context, 0});
}

void rbt_rows_visit(const rbt_row_store *rows, const struct rbt_batch *batch,
                    rbt_rows_visitor visit, void *context)
{
    RBT_ASSERT(visit != NULL);
    RBT_ASSERT(batch->count == 0 || batch->keys != NULL);
    visit_rows(rows, batch, NULL, (struct visit){visit, context, 0});
}

static struct rbt_sparse_row *sparse_row(const rbt_row_store *rows, uint32_t slot)
{
    RBT_ASSERT(rows->spec->layout == RBT_SPARSE);
    RBT_ASSERT(slot < rows->count);
    return (struct rbt_sparse_row *)(rows->block + slot * rows->stride);
}

static struct rbt_sparse_view elements_at(const rbt_row_store *rows, const struct rbt_batch *batch,
                                          size_t position)
{
    RBT_ASSERT(batch->offsets != NULL);
    const uint32_t first = batch->offsets[position];
    const size_t size = rbt_merge_size(rows->kind.type);
    RBT_ASSERT(first <= batch->offsets[position + 1]);
    return (struct rbt_sparse_view){.index = batch->elements + first,
                                    .values = (const char *)batch->values + first * size,
                                    .count = batch->offsets[position + 1] - first};
}

/* Takes back what was promised to the first `count` rows of the batch. */
static void break_promises(const rbt_row_store *rows, const struct rbt_batch *batch, size_t count)
{
    RBT_ASSERT(rows->spec->layout == RBT_SPARSE);
    for (size_t i = 0; i < count; i++) {
        const size_t position = rbt_batch_position(batch, i);
        const uint32_t slot = rbt_index_find(&rows->index, rows->keys, batch->keys[position]);
        struct rbt_sparse_row *row = sparse_row(rows, slot);
        RBT_ASSERT(row->promised >= elements_at(rows, batch, position).count);
        row->promised -= (uint32_t)elements_at(rows, batch, position).count;
    }
}

rbt_status rbt_rows_promise(rbt_row_store *rows, const struct rbt_batch *batch)
{
    RBT_ASSERT(rows->spec->layout == RBT_SPARSE);
    RBT_ASSERT(batch->count == 0 || batch->offsets != NULL);
    rbt_status st = rbt_rows_reserve(rows, batch->count);
    for (size_t i = 0; st == RBT_OK && i < batch->count; i++) {
        const size_t position = rbt_batch_position(batch, i);
        uint32_t slot = rbt_index_find(&rows->index, rows->keys, batch->keys[position]);
        if (slot == RBT_SLOT_NONE) {
            slot = create_row(rows, batch->keys[position]);
        }
        struct rbt_sparse_row *row = sparse_row(rows, slot);
        const size_t count = elements_at(rows, batch, position).count;
        const size_t before = rbt_sparse_row_bytes(row, rows->kind.type);
        st = rbt_sparse_row_reserve(row, rows->kind.type, row->promised + count);
        rows->element_bytes += rbt_sparse_row_bytes(row, rows->kind.type) - before;
        if (st == RBT_OK) {
            row->promised += (uint32_t)count;
        } else {
            break_promises(rows, batch, i);
        }
    }
    return st;
}

void rbt_rows_take_back(rbt_row_store *rows, const struct rbt_batch *batch)
{
    RBT_ASSERT(rows->spec->layout == RBT_SPARSE);
    break_promises(rows, batch, batch->count);
}

static void merge_sparse(rbt_row_store *rows, const struct rbt_batch *batch)
{
    RBT_ASSERT(batch->count == 0 || batch->offsets != NULL);
    for (size_t i = 0; i < batch->count; i++) {
        const size_t position = rbt_batch_position(batch, i);
        const uint32_t slot = rbt_index_find(&rows->index, rows->keys, batch->keys[position]);
        const struct rbt_sparse_view elements = elements_at(rows, batch, position);
        RBT_ASSERT(slot != RBT_SLOT_NONE); /* created when room was promised */
        struct rbt_sparse_row *row = sparse_row(rows, slot);
        RBT_ASSERT(row->promised >= elements.count);
        row->promised -= (uint32_t)elements.count;
        rbt_sparse_row_merge(row, rows->kind, elements);
        const size_t before = rbt_sparse_row_bytes(row, rows->kind.type);
        rbt_sparse_row_compact(row, rows->kind);
        rows->element_bytes -= before - rbt_sparse_row_bytes(row, rows->kind.type);
    }
}

void rbt_rows_merge(rbt_row_store *rows, const struct rbt_batch *batch)
{
    RBT_ASSERT(batch->count == 0 || batch->keys != NULL);
    RBT_ASSERT((batch->offsets != NULL) == (rows->spec->layout == RBT_SPARSE));
    RBT_ASSERT((batch->slots == NULL) == (batch->slots_complete == NULL));
    if (rows->spec->layout == RBT_SPARSE) {
        merge_sparse(rows, batch);
    } else {
        merge_dense(rows, batch);
    }
}

struct rbt_sparse_view rbt_rows_peek_sparse(const rbt_row_store *rows, uint64_t key)
{
    RBT_ASSERT(rows->spec->layout == RBT_SPARSE);
    const uint32_t slot = rbt_index_find(&rows->index, rows->keys, key);
    RBT_ASSERT(slot == RBT_SLOT_NONE || rows->keys[slot] == key); /* (1) */
    return slot == RBT_SLOT_NONE ? (struct rbt_sparse_view){0}
                                 : rbt_sparse_row_peek(sparse_row(rows, slot));
}

uint64_t rbt_rows_key(const rbt_row_store *rows, uint32_t slot)
{
    RBT_ASSERT(rows->keys != NULL);
    RBT_ASSERT(slot < rows->count);
    RBT_DEBUG_ASSERT(rbt_index_find(&rows->index, rows->keys, rows->keys[slot]) == slot); /* (1) */
    return rows->keys[slot];
}

const void *rbt_rows_values(const rbt_row_store *rows, uint32_t slot)
{
    RBT_ASSERT(rows->block != NULL);
    RBT_ASSERT(slot < rows->count);
    return rows->block + slot * rows->stride;
}

void *rbt_rows_row(rbt_row_store *rows, uint32_t slot)
{
    RBT_ASSERT(rows->block != NULL);
    RBT_ASSERT(slot < rows->count);
    return rows->block + slot * rows->stride;
}

void *rbt_rows_state(const rbt_row_store *rows, uint32_t slot)
{
    RBT_ASSERT((rows->states != NULL) == (rows->state_size > 0));
    RBT_ASSERT(slot < rows->count);
    return state_at(rows, slot);
}

size_t rbt_rows_bytes(const rbt_row_store *rows)
{
    RBT_ASSERT(rows->count <= rows->capacity);
    return rows->count * (sizeof *rows->keys + rows->stride + rows->state_size) +
           rows->element_bytes + rbt_index_bytes(&rows->index);
}
