/* store/bins.c - held updates, sorted, and their memory, which is used again.
 *
 * A bin waits for the clock that makes it visible. There are at most a few per worker (as many as
 * it runs clocks ahead), so a sorted array with insertion is enough. In a steady state no memory is
 * allocated: a bin that has been applied becomes a spare one, with its arrays.
 *
 * Threads: none; owned by the shard. */
#include "store/bins.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sort_u64.h"

static void free_bin(struct rbt_bin *bin)
{
    if (bin == NULL) {
        return;
    }
    rbt_free(bin->keys);
    rbt_free(bin->slots);
    rbt_free(bin->values);
    rbt_free(bin->offsets);
    rbt_free(bin->elements);
    rbt_free(bin);
}

void rbt_bins_deinit(struct rbt_bins *bins)
{
    RBT_ASSERT(bins->count <= bins->capacity);
    RBT_ASSERT(bins->spare_count <= bins->capacity);
    for (size_t i = 0; i < bins->count; i++) {
        free_bin(bins->held[i]);
    }
    for (size_t i = 0; i < bins->spare_count; i++) {
        free_bin(bins->spare[i]);
    }
    rbt_free(bins->held);
    rbt_free(bins->spare);
    *bins = (struct rbt_bins){0};
}

int rbt_bins_compare(const struct rbt_bin_id *a, const struct rbt_bin_id *b)
{
    RBT_DEBUG_ASSERT(a->clock >= 0);
    RBT_DEBUG_ASSERT(b->clock >= 0);
    if (a->clock != b->clock) {
        return a->clock < b->clock ? -1 : 1;
    }
    if (a->worker != b->worker) {
        return a->worker < b->worker ? -1 : 1;
    }
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Room for one more held bin; spare has the same capacity, so that dropping cannot fail. */
static rbt_status grow(struct rbt_bins *bins)
{
    RBT_ASSERT(bins->count + bins->spare_count <= bins->capacity);
    if (bins->count + bins->spare_count < bins->capacity || bins->spare_count > 0) {
        return RBT_OK;
    }
    const size_t capacity = bins->capacity == 0 ? 8 : bins->capacity * 2;
    struct rbt_bin **held = rbt_realloc(bins->held, capacity, sizeof(struct rbt_bin *));
    if (held != NULL) {
        bins->held = held;
    }
    struct rbt_bin **spare = rbt_realloc(bins->spare, capacity, sizeof(struct rbt_bin *));
    if (spare != NULL) {
        bins->spare = spare;
    }
    if (held == NULL || spare == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate room for %zu held updates", capacity);
    }
    RBT_ASSERT(capacity > bins->capacity);
    bins->capacity = capacity;
    return RBT_OK;
}

/* A spare bin, or a new one. The caller owns it. */
static struct rbt_bin *take_spare(struct rbt_bins *bins)
{
    RBT_ASSERT(bins->count + bins->spare_count <= bins->capacity);
    RBT_ASSERT(bins->spare_count <= bins->capacity);
    if (bins->spare_count > 0) {
        return bins->spare[--bins->spare_count];
    }
    return rbt_calloc(1, sizeof(struct rbt_bin));
}

/* Makes *array hold `count` elements; contents are lost. */
static bool fit(void **array, size_t *max, size_t count, size_t size)
{
    RBT_ASSERT(*array != NULL || *max == 0);
    RBT_ASSERT(size > 0);
    if (count <= *max && *array != NULL) {
        return true;
    }
    const size_t wanted = count + count / 4;
    void *grown = rbt_calloc(wanted, size);
    if (grown == NULL) {
        return false;
    }
    rbt_free(*array);
    *array = grown;
    *max = wanted;
    RBT_ASSERT(*max >= count);
    return true;
}

/* Sizes of what a batch needs in a bin. */
struct measure {
    size_t elements; /* values that say something (dense) or elements given (sparse) */
    bool is_packed;
};

static struct measure measure_batch(const struct rbt_spec *spec, const struct rbt_batch *batch)
{
    RBT_ASSERT(spec->width > 0);
    RBT_ASSERT((batch->offsets != NULL) == (spec->layout == RBT_SPARSE) || batch->count == 0);
    const size_t size = rbt_spec_element_size(spec);
    struct measure m = {0};
    for (size_t i = 0; i < batch->count; i++) {
        const size_t position = rbt_batch_position(batch, i);
        if (batch->offsets != NULL) {
            m.elements += batch->offsets[position + 1] - batch->offsets[position];
            continue;
        }
        const char *row = (const char *)batch->values + position * spec->width * size;
        m.elements += spec->width > 1 ? rbt_merge_count(rbt_spec_kind(spec), row, spec->width) : 0;
    }
    m.is_packed = batch->offsets == NULL && spec->width > 1 &&
                  2 * m.elements < batch->count * (size_t)spec->width;
    RBT_ASSERT(!m.is_packed || spec->layout == RBT_DENSE);
    return m;
}

static bool make_room(struct rbt_bin *bin, const struct rbt_spec *spec,
                      const struct rbt_batch *batch, const struct measure *m)
{
    RBT_ASSERT(!m->is_packed || batch->offsets == NULL);
    RBT_ASSERT(m->is_packed || batch->offsets != NULL || m->elements <= batch->count * spec->width);
    const size_t size = rbt_spec_element_size(spec);
    const bool has_elements = m->is_packed || batch->offsets != NULL;
    const size_t values = has_elements ? m->elements * size : batch->count * spec->width * size;
    return fit((void **)&bin->keys, &bin->keys_max, batch->count, sizeof *bin->keys) &&
           fit((void **)&bin->slots, &bin->slots_max, batch->count, sizeof *bin->slots) &&
           fit((void **)&bin->values, &bin->values_max, values, 1) &&
           (!has_elements ||
            (fit((void **)&bin->offsets, &bin->offsets_max, batch->count + 1,
                 sizeof *bin->offsets) &&
             fit((void **)&bin->elements, &bin->elements_max, m->elements, sizeof *bin->elements)));
}

/* Copies the elements of one dense row that say something; returns how many there are now. */
static uint32_t pack_row(struct rbt_bin *bin, const struct rbt_spec *spec, const char *row,
                         uint32_t count)
{
    RBT_ASSERT(bin->is_packed);
    const size_t size = rbt_spec_element_size(spec);
    RBT_ASSERT(bin->elements != NULL);
    for (uint32_t k = 0; k < spec->width; k++) {
        if (!rbt_merge_is_neutral(rbt_spec_kind(spec), row + k * size, 1)) {
            bin->elements[count] = k;
            memcpy(bin->values + count * size, row + k * size, size);
            count++;
        }
    }
    RBT_ASSERT(count <= bin->elements_max);
    return count;
}

static void copy_batch(struct rbt_bin *bin, const struct rbt_spec *spec,
                       const struct rbt_batch *batch)
{
    const size_t size = rbt_spec_element_size(spec);
    const size_t row_size = spec->width * size;
    uint32_t count = 0; /* of elements */
    RBT_ASSERT(batch->count <= bin->keys_max);
    for (size_t i = 0; i < batch->count; i++) {
        const size_t position = rbt_batch_position(batch, i);
        const char *values = batch->values;
        bin->keys[i] = batch->keys[position];
        bin->slots[i] = batch->slots == NULL ? RBT_SLOT_NONE : batch->slots[position];
        if (batch->offsets != NULL) {
            const uint32_t first = batch->offsets[position];
            const uint32_t n = batch->offsets[position + 1] - first;
            bin->offsets[i] = count;
            memcpy(bin->elements + count, batch->elements + first, n * sizeof *bin->elements);
            memcpy(bin->values + count * size, values + first * size, n * size);
            count += n;
        } else if (bin->is_packed) {
            bin->offsets[i] = count;
            count = pack_row(bin, spec, values + position * row_size, count);
        } else {
            memcpy(bin->values + i * row_size, values + position * row_size, row_size);
        }
    }
    const bool has_elements = batch->offsets != NULL || bin->is_packed;
    if (has_elements) {
        RBT_ASSERT(count <= bin->elements_max);
        bin->offsets[batch->count] = count;
    }
    bin->batch = (struct rbt_batch){.table = batch->table,
                                    .count = batch->count,
                                    .base = batch->base,
                                    .keys = bin->keys,
                                    .values = bin->values,
                                    .slots = bin->slots,
                                    .slots_complete = &bin->slots_complete,
                                    .offsets = has_elements ? bin->offsets : NULL,
                                    .elements = has_elements ? bin->elements : NULL};
}

/* Bins are in the order of their ids, and what is dropped has a place among the spare ones. */
static bool invariants_hold(const struct rbt_bins *bins)
{
    for (size_t i = 1; i < bins->count; i++) {
        if (rbt_bins_compare(&bins->held[i - 1]->id, &bins->held[i]->id) > 0) {
            return false;
        }
    }
    return bins->count + bins->spare_count <= bins->capacity;
}

static void insert(struct rbt_bins *bins, struct rbt_bin *bin)
{
    RBT_ASSERT(bin->batch.keys == bin->keys);
    RBT_ASSERT(bins->count < bins->capacity);
    size_t at = bins->count;
    while (at > 0 && rbt_bins_compare(&bins->held[at - 1]->id, &bin->id) > 0) {
        bins->held[at] = bins->held[at - 1];
        at--;
    }
    bins->held[at] = bin;
    bins->count++;
    RBT_DEBUG_ASSERT(invariants_hold(bins));
    (void)invariants_hold; /* used by debug builds */
}

rbt_status rbt_bins_hold(struct rbt_bins *bins, const struct rbt_spec *spec,
                         const struct rbt_bin_id *id, const struct rbt_batch *batch, size_t missing)
{
    RBT_ASSERT(id->clock >= 0);
    rbt_status st = grow(bins);
    if (st != RBT_OK) {
        return st;
    }
    const struct measure m = measure_batch(spec, batch);
    struct rbt_bin *bin = take_spare(bins);
    if (bin == NULL || !make_room(bin, spec, batch, &m)) {
        free_bin(bin);
        return rbt_fail(RBT_E_NOMEM, "could not hold an update of %zu rows", batch->count);
    }
    bin->id = *id;
    bin->missing = missing;
    bin->is_packed = m.is_packed;
    copy_batch(bin, spec, batch);
    insert(bins, bin);
    bins->missing += missing;
    RBT_ASSERT(bin->batch.count == batch->count);
    return RBT_OK;
}

static size_t bin_bytes(const struct rbt_bin *bin)
{
    RBT_ASSERT(bin->keys != NULL || bin->keys_max == 0);
    RBT_ASSERT(bin->values != NULL || bin->values_max == 0);
    RBT_ASSERT(bin->elements != NULL || bin->elements_max == 0);
    return sizeof *bin + bin->keys_max * sizeof *bin->keys + bin->slots_max * sizeof *bin->slots +
           bin->values_max + bin->offsets_max * sizeof *bin->offsets +
           bin->elements_max * sizeof *bin->elements;
}

size_t rbt_bins_bytes(const struct rbt_bins *bins)
{
    RBT_ASSERT(bins->count + bins->spare_count <= bins->capacity);
    size_t bytes = 2 * bins->capacity * sizeof(struct rbt_bin *);
    for (size_t i = 0; i < bins->count; i++) {
        bytes += bin_bytes(bins->held[i]);
    }
    for (size_t i = 0; i < bins->spare_count; i++) {
        bytes += bin_bytes(bins->spare[i]);
    }
    return bytes;
}

const struct rbt_bin *rbt_bins_at(const struct rbt_bins *bins, size_t at)
{
    RBT_DEBUG_ASSERT(at >= bins->count || bins->held[at] != NULL);
    RBT_ASSERT(bins->count <= bins->capacity);
    return at < bins->count ? bins->held[at] : NULL;
}

void rbt_bins_drop(struct rbt_bins *bins, size_t at)
{
    RBT_ASSERT(at < bins->count);
    struct rbt_bin *bin = bins->held[at];
    bins->count--;
    memmove(bins->held + at, bins->held + at + 1, (bins->count - at) * sizeof(struct rbt_bin *));
    RBT_ASSERT(bins->missing >= bin->missing);
    bins->missing -= bin->missing;
    RBT_ASSERT(bins->count + bins->spare_count < bins->capacity);
    bins->spare[bins->spare_count++] = bin; /* its memory is kept */
}

size_t rbt_bins_remove(struct rbt_bins *bins, const struct rbt_bin_id *id)
{
    const size_t before = bins->count;
    RBT_ASSERT(id->clock >= 0);
    RBT_ASSERT(bins->count <= bins->capacity);
    for (size_t i = bins->count; i > 0; i--) {
        if (rbt_bins_compare(&bins->held[i - 1]->id, id) == 0) {
            rbt_bins_drop(bins, i - 1);
        }
    }
    RBT_ASSERT(bins->count <= before);
    return before - bins->count;
}

bool rbt_bins_unpack(const struct rbt_bin *bin, const struct rbt_spec *spec, size_t i,
                     void *scratch, struct rbt_batch *batch)
{
    if (!bin->is_packed) {
        *batch = bin->batch;
        return i == 0;
    }
    if (i == bin->batch.count) {
        return false;
    }
    const size_t size = rbt_spec_element_size(spec);
    RBT_ASSERT(i < bin->batch.count);
    RBT_ASSERT(scratch != NULL);
    RBT_ASSERT(bin->offsets[i] <= bin->offsets[i + 1]);
    rbt_merge_clear(rbt_spec_kind(spec), scratch, spec->width);
    for (uint32_t k = bin->offsets[i]; k < bin->offsets[i + 1]; k++) {
        RBT_DEBUG_ASSERT(bin->elements[k] < spec->width);
        memcpy((char *)scratch + bin->elements[k] * size, bin->values + k * size, size);
    }
    *batch = (struct rbt_batch){.table = bin->batch.table,
                                .count = 1,
                                .base = bin->batch.base,
                                .keys = bin->keys + i,
                                .values = scratch,
                                .slots = bin->slots + i,
                                .slots_complete = bin->batch.slots_complete};
    return true;
}

/* --- State ------------------------------------------------------------------------------------ */

void rbt_bins_save(const struct rbt_bin *bin, const struct rbt_spec *spec, struct rbt_sink *sink)
{
    const size_t size = rbt_spec_element_size(spec);
    const size_t count = bin->batch.count;
    RBT_ASSERT(bin->batch.positions == NULL);
    RBT_ASSERT(!bin->is_packed || bin->batch.offsets != NULL);
    rbt_sink_put_i64(sink, bin->id.clock);
    rbt_sink_put_u32(sink, bin->id.worker);
    rbt_sink_put_u64(sink, bin->id.sequence);
    rbt_sink_put_u64(sink, bin->batch.base);
    rbt_sink_put_u8(sink, bin->is_packed ? 1 : 0);
    rbt_sink_put_u64(sink, count);
    rbt_sink_put(sink, bin->keys, count * sizeof *bin->keys);
    if (bin->batch.offsets == NULL) {
        rbt_sink_put(sink, bin->values, count * spec->width * size);
        return;
    }
    const uint64_t elements = bin->offsets[count];
    rbt_sink_put_u64(sink, elements);
    rbt_sink_put(sink, bin->offsets, (count + 1) * sizeof *bin->offsets);
    rbt_sink_put(sink, bin->elements, elements * sizeof *bin->elements);
    rbt_sink_put(sink, bin->values, elements * size);
}

/* Whether the elements of each row are where the offsets say, in order. */
static bool has_order(const struct rbt_bin *bin, size_t count, uint64_t elements, uint32_t width)
{
    RBT_ASSERT(bin->offsets != NULL);
    RBT_ASSERT(count < bin->offsets_max);
    if (bin->offsets[0] != 0 || bin->offsets[count] != elements) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (bin->offsets[i] > bin->offsets[i + 1] || bin->offsets[i + 1] > elements) {
            return false;
        }
        for (uint32_t k = bin->offsets[i]; k < bin->offsets[i + 1]; k++) {
            if (bin->elements[k] >= width ||
                (k > bin->offsets[i] && bin->elements[k] <= bin->elements[k - 1])) {
                return false;
            }
        }
    }
    return true;
}

/* Keys and values; false: no memory. */
static bool load_batch(struct rbt_bin *bin, const struct rbt_spec *spec, struct rbt_source *source)
{
    const size_t size = rbt_spec_element_size(spec);
    const bool has_elements = bin->is_packed || spec->layout == RBT_SPARSE;
    RBT_ASSERT(spec->width > 0);
    const size_t row = has_elements ? sizeof *bin->offsets : spec->width * size;
    const size_t count = (size_t)rbt_source_get_count(source, sizeof *bin->keys + row);
    RBT_ASSERT(!bin->is_packed || spec->layout == RBT_DENSE);
    if (!fit((void **)&bin->keys, &bin->keys_max, count, sizeof *bin->keys) ||
        !fit((void **)&bin->slots, &bin->slots_max, count, sizeof *bin->slots)) {
        return false;
    }
    rbt_source_get(source, bin->keys, count * sizeof *bin->keys);
    memset(bin->slots, 0xff, count * sizeof *bin->slots); /* RBT_SLOT_NONE */
    uint64_t elements = 0;
    size_t values = count * spec->width * size;
    if (has_elements) {
        elements = rbt_source_get_count(source, sizeof *bin->elements + size);
        values = elements * size;
        if (!fit((void **)&bin->offsets, &bin->offsets_max, count + 1, sizeof *bin->offsets) ||
            !fit((void **)&bin->elements, &bin->elements_max, elements, sizeof *bin->elements)) {
            return false;
        }
        rbt_source_get(source, bin->offsets, (count + 1) * sizeof *bin->offsets);
        rbt_source_get(source, bin->elements, elements * sizeof *bin->elements);
        if (rbt_source_is_good(source) && !has_order(bin, count, elements, spec->width)) {
            rbt_source_refuse(source, "the elements of an update are in no order");
        }
    }
    if (!rbt_source_is_good(source)) {
        return true;
    }
    if (!fit((void **)&bin->values, &bin->values_max, values, 1)) {
        return false;
    }
    rbt_source_get(source, bin->values, values);
    bin->batch.count = count;
    return true;
}

/* Refuses an update that would create a row twice. */
static void check_keys(const struct rbt_bin *bin, struct rbt_source *source)
{
    const size_t count = bin->batch.count;
    bool is_increasing = true;
    RBT_ASSERT(count == 0 || bin->keys != NULL);
    RBT_ASSERT(count <= bin->keys_max);
    for (size_t i = 1; i < count; i++) {
        is_increasing = is_increasing && bin->keys[i - 1] < bin->keys[i];
    }
    if (is_increasing) { /* as workers send them */
        return;
    }
    uint64_t *sorted = rbt_calloc(count, sizeof *sorted);
    if (sorted == NULL) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for an update that waits");
        return;
    }
    memcpy(sorted, bin->keys, count * sizeof *sorted);
    rbt_sort_u64(sorted, count);
    for (size_t i = 1; i < count && bin->missing > 0; i++) {
        if (sorted[i - 1] == sorted[i]) {
            rbt_source_refuse(source, "an update has a row twice");
            break;
        }
    }
    rbt_free(sorted);
}

void rbt_bins_load(struct rbt_bins *bins, const struct rbt_spec *spec, rbt_row_store *rows,
                   uint32_t table, struct rbt_source *source)
{
    RBT_ASSERT(bins->spare_count == 0);
    RBT_ASSERT(spec->width > 0);
    rbt_status st = grow(bins);
    struct rbt_bin *bin = st == RBT_OK ? take_spare(bins) : NULL;
    bool has_memory = bin != NULL;
    if (has_memory) {
        bin->id.clock = (int64_t)rbt_source_get_number(source);
        bin->id.worker = rbt_source_get_u32(source);
        bin->id.sequence = rbt_source_get_number(source);
        bin->batch = (struct rbt_batch){.table = table, .base = rbt_source_get_u64(source)};
        bin->is_packed = rbt_source_get_bool(source);
        if (bin->is_packed && spec->layout == RBT_SPARSE) {
            rbt_source_refuse(source, "an update of sparse rows is packed");
            bin->is_packed = false;
        }
        has_memory = load_batch(bin, spec, source);
    }
    if (has_memory && rbt_source_is_good(source) && bins->count > 0 &&
        rbt_bins_compare(&bins->held[bins->count - 1]->id, &bin->id) > 0) {
        rbt_source_refuse(source, "updates are in no order");
    }
    if (!has_memory || !rbt_source_is_good(source)) {
        free_bin(bin);
        source->status = has_memory ? source->status
                                    : rbt_fail(RBT_E_NOMEM, "no memory for an update that waits");
        return;
    }
    const bool has_elements = bin->is_packed || spec->layout == RBT_SPARSE;
    bin->batch.keys = bin->keys;
    bin->batch.values = bin->values;
    bin->batch.slots = bin->slots;
    bin->batch.slots_complete = &bin->slots_complete;
    bin->batch.offsets = has_elements ? bin->offsets : NULL;
    bin->batch.elements = has_elements ? bin->elements : NULL;
    if (spec->layout == RBT_SPARSE) {
        source->status = rbt_rows_promise(rows, &bin->batch);
    } else {
        bin->missing = rbt_rows_missing(rows, bin->keys, bin->batch.count);
        check_keys(bin, source);
    }
    insert(bins, bin);
    bins->missing += bin->missing;
}
