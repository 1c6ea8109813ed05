/* comm/sum.c - several batches of a table as one.
 *
 * Keys of every batch increase, so all batches are read once, side by side: the lowest key that is
 * next anywhere becomes the next row, and every batch whose next key it is adds to it. Elements of
 * sparse rows are done in the same way, within a row.
 *
 * Cost: O(rows * batches): racks are small, and looking at a number in a cache is cheap compared
 * with adding a row. */
#include "comm/sum.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

void rbt_sum_deinit(struct rbt_sum *sum)
{
    rbt_free(sum->at);
    rbt_free(sum->keys);
    rbt_free(sum->offsets);
    rbt_free(sum->elements);
    rbt_free(sum->values);
    *sum = (struct rbt_sum){0};
}

/* Makes room for so many; false without memory, and then all is as it was. */
static bool grow(void **array, size_t *max, size_t count, size_t size)
{
    if (count <= *max) {
        return true;
    }
    void *larger = rbt_realloc(*array, count, size);
    if (larger == NULL) {
        return false;
    }
    *array = larger;
    *max = count;
    return true;
}

static bool grow_words(uint32_t **array, size_t *max, size_t count)
{
    void *words = *array;
    const bool has_grown = grow(&words, max, count, sizeof **array);
    *array = words;
    return has_grown;
}

/* What is read: batches, and where in each. */
struct reader {
    const struct rbt_batch *const *batches;
    size_t count;
    size_t *rows;     /* per batch: the next row */
    size_t *elements; /* per batch: the next element of that row */
};

static bool has_row(const struct reader *reader, size_t batch)
{
    return reader->rows[batch] < reader->batches[batch]->count;
}

static size_t position_of(const struct reader *reader, size_t batch)
{
    return rbt_batch_position(reader->batches[batch], reader->rows[batch]);
}

static uint64_t key_of(const struct reader *reader, size_t batch)
{
    return reader->batches[batch]->keys[position_of(reader, batch)];
}

/* The lowest key that is next in some batch; false if all are at their ends. */
static bool next_key(const struct reader *reader, uint64_t *key)
{
    bool has_any = false;
    for (size_t i = 0; i < reader->count; i++) {
        if (has_row(reader, i) && (!has_any || key_of(reader, i) < *key)) {
            *key = key_of(reader, i);
            has_any = true;
        }
    }
    return has_any;
}

static bool is_next(const struct reader *reader, size_t batch, uint64_t key)
{
    return has_row(reader, batch) && key_of(reader, batch) == key;
}

/* Leaves the row of this key behind, in all batches. */
static void pass_key(const struct reader *reader, uint64_t key)
{
    for (size_t i = 0; i < reader->count; i++) {
        reader->rows[i] += is_next(reader, i, key);
        RBT_ASSERT(!has_row(reader, i) || key_of(reader, i) > key); /* keys increase */
    }
}

static void rewind_all(const struct reader *reader)
{
    memset(reader->rows, 0, reader->count * sizeof *reader->rows);
}

/* How many different keys there are. */
static size_t count_keys(const struct reader *reader)
{
    size_t count = 0;
    uint64_t key = 0;
    rewind_all(reader);
    while (next_key(reader, &key)) { /* ends: every key is passed once */
        pass_key(reader, key);
        count++;
    }
    rewind_all(reader);
    return count;
}

/* Elements of all batches, which are sparse. */
static size_t count_elements(const struct reader *reader)
{
    size_t count = 0;
    for (size_t i = 0; i < reader->count; i++) {
        const struct rbt_batch *batch = reader->batches[i];
        for (size_t row = 0; row < batch->count; row++) {
            const size_t at = rbt_batch_position(batch, row);
            count += batch->offsets[at + 1] - batch->offsets[at];
        }
    }
    return count;
}

static void add_dense(const struct reader *reader, const struct rbt_sum_kind *kind, uint64_t key,
                      char *to)
{
    const size_t row_size = kind->width * rbt_merge_size(kind->merge.type);
    bool is_first = true;
    for (size_t i = 0; i < reader->count; i++) {
        if (is_next(reader, i, key)) {
            const char *from =
                (const char *)reader->batches[i]->values + position_of(reader, i) * row_size;
            if (is_first) {
                memcpy(to, from, row_size);
            } else {
                rbt_merge_apply(kind->merge, to, from, kind->width);
            }
            is_first = false;
        }
    }
    RBT_ASSERT(!is_first);
}

/* Whether the batch has another element of the row, and which. */
static bool peek_element(const struct reader *reader, size_t batch, uint64_t key, uint32_t *index)
{
    const struct rbt_batch *b = reader->batches[batch];
    if (!is_next(reader, batch, key) ||
        reader->elements[batch] >= b->offsets[position_of(reader, batch) + 1]) {
        return false;
    }
    *index = b->elements[reader->elements[batch]];
    return true;
}

/* The lowest element of the row that is next in some batch. */
static bool next_element(const struct reader *reader, uint64_t key, uint32_t *index)
{
    bool has_any = false;
    for (size_t i = 0; i < reader->count; i++) {
        uint32_t next = 0;
        if (peek_element(reader, i, key, &next) && (!has_any || next < *index)) {
            *index = next;
            has_any = true;
        }
    }
    return has_any;
}

/* Merges one element of the row, and leaves it behind. */
static void add_element(const struct reader *reader, struct rbt_merge_kind kind, uint64_t key,
                        uint32_t index, char *to)
{
    const size_t size = rbt_merge_size(kind.type);
    bool is_first = true;
    for (size_t i = 0; i < reader->count; i++) {
        uint32_t next = 0;
        if (peek_element(reader, i, key, &next) && next == index) {
            const char *from =
                (const char *)reader->batches[i]->values + reader->elements[i] * size;
            if (is_first) {
                memcpy(to, from, size);
            } else {
                rbt_merge_apply(kind, to, from, 1);
            }
            is_first = false;
            reader->elements[i]++;
        }
    }
}

/* Merges a sparse row behind `count` elements. Returns how many there are then. */
static size_t add_sparse(const struct reader *reader, const struct rbt_sum_kind *kind, uint64_t key,
                         struct rbt_sum *sum, size_t count)
{
    const size_t size = rbt_merge_size(kind->merge.type);
    uint32_t index = 0;
    for (size_t i = 0; i < reader->count; i++) {
        if (is_next(reader, i, key)) {
            reader->elements[i] = reader->batches[i]->offsets[position_of(reader, i)];
        }
    }
    while (next_element(reader, key, &index)) { /* ends: every element is passed once */
        sum->elements[count] = index;
        add_element(reader, kind->merge, key, index, sum->values + count * size);
        count++;
    }
    return count;
}

static bool reserve(struct rbt_sum *sum, const struct rbt_sum_kind *kind, size_t keys,
                    size_t elements)
{
    void *key_array = sum->keys;
    void *values = sum->values;
    const size_t size = rbt_merge_size(kind->merge.type);
    const size_t bytes = (kind->is_sparse ? elements : keys * kind->width) * size;
    bool is_done = grow(&key_array, &sum->keys_max, keys + 1, sizeof *sum->keys);
    sum->keys = key_array;
    is_done = is_done && grow(&values, &sum->values_max, bytes + 1, 1);
    sum->values = values;
    return is_done &&
           (!kind->is_sparse || (grow_words(&sum->offsets, &sum->offsets_max, keys + 1) &&
                                 grow_words(&sum->elements, &sum->elements_max, elements + 1)));
}

/* The name of the keys, if all batches have the same. */
static uint64_t common_list(const struct reader *reader)
{
    const uint64_t list = reader->batches[0]->list;
    for (size_t i = 1; i < reader->count; i++) {
        if (reader->batches[i]->list != list) {
            return 0;
        }
    }
    return list;
}

rbt_status rbt_sum_batches(struct rbt_sum *sum, const struct rbt_sum_kind *kind,
                           const struct rbt_batch *const *batches, size_t count,
                           struct rbt_batch *result)
{
    RBT_ASSERT(count > 0);
    void *at = sum->at;
    const bool has_room = grow(&at, &sum->at_max, 2 * count, sizeof *sum->at);
    sum->at = at;
    if (!has_room) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a sum of %zu updates", count);
    }
    const struct reader reader = {batches, count, sum->at, sum->at + count};
    const size_t keys = count_keys(&reader);
    if (!reserve(sum, kind, keys, kind->is_sparse ? count_elements(&reader) : 0)) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a sum of %zu rows", keys);
    }
    const size_t row_size = kind->width * rbt_merge_size(kind->merge.type);
    size_t rows = 0;
    size_t elements = 0;
    uint64_t key = 0;
    while (next_key(&reader, &key)) { /* ends: every key is passed once */
        sum->keys[rows] = key;
        if (kind->is_sparse) {
            sum->offsets[rows] = (uint32_t)elements;
            elements = add_sparse(&reader, kind, key, sum, elements);
        } else {
            add_dense(&reader, kind, key, sum->values + rows * row_size);
        }
        pass_key(&reader, key);
        rows++;
    }
    RBT_ASSERT(rows == keys);
    if (kind->is_sparse) {
        sum->offsets[rows] = (uint32_t)elements;
    }
    *result = (struct rbt_batch){.table = batches[0]->table,
                                 .count = rows,
                                 .keys = sum->keys,
                                 .list = common_list(&reader),
                                 .values = sum->values,
                                 .offsets = kind->is_sparse ? sum->offsets : NULL,
                                 .elements = kind->is_sparse ? sum->elements : NULL};
    return RBT_OK;
}
