/* data/sort.c - radix sort, and two ways to number keys.
 *
 * Keys that are not much larger than their number (as in most files) are looked up in an array with
 * an entry per possible key. Others go through an open-addressing table, in which each gets a
 * number when it is first met; afterwards only the different keys are sorted, and the numbers are
 * translated to positions.
 *
 * Threads: any; nothing is shared. Memory: 4 bytes per possible key, or 24 to 48 per different key.
 * Cost: 12 million keys of which 1 million differ take 0.1 s (array) or 0.4 s (table). */
#include "data/sort.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

enum {
    RADIX_BITS = 8,
    RADIX = 1 << RADIX_BITS,
    DENSE_FACTOR = 4,      /* an array may have as many entries per key ... */
    DENSE_EXTRA = 1 << 20, /* ... and as many more */
    CAPACITY_MIN = 1 << 10,
};

/* One pass by the byte at `shift`; false when all keys have the same and nothing was done. */
static bool distribute(const uint64_t *keys, uint64_t *out, size_t count, unsigned shift)
{
    size_t places[RADIX] = {0};
    for (size_t i = 0; i < count; i++) {
        places[(keys[i] >> shift) % RADIX]++;
    }
    size_t sum = 0;
    for (size_t i = 0; i < RADIX; i++) {
        const size_t size = places[i];
        if (size == count) {
            return false;
        }
        places[i] = sum;
        sum += size;
    }
    for (size_t i = 0; i < count; i++) {
        out[places[(keys[i] >> shift) % RADIX]++] = keys[i];
    }
    return true;
}

void rbt_sort_keys(uint64_t *keys, uint64_t *scratch, size_t count)
{
    uint64_t *from = keys;
    uint64_t *to = scratch;
    for (unsigned shift = 0; shift < 64 && count > 1; shift += RADIX_BITS) {
        if (distribute(from, to, count, shift)) {
            uint64_t *other = from;
            from = to;
            to = other;
        }
    }
    if (from != keys) {
        memcpy(keys, from, count * sizeof *keys);
    }
}

static rbt_status out_of_memory(size_t count)
{
    return rbt_fail(RBT_E_NOMEM, "could not number %zu keys: out of memory", count);
}

bool rbt_sort_is_dense(size_t count, uint64_t max)
{
    return max < (uint64_t)count * DENSE_FACTOR + DENSE_EXTRA && max < UINT32_MAX;
}

/* Marks the keys that occur, then counts the marks. */
rbt_status rbt_sort_in_place(uint32_t *keys, size_t count, uint64_t max, struct rbt_sorted *sorted)
{
    RBT_ASSERT(max < UINT32_MAX);
    const size_t range = (size_t)max + 1;
    uint32_t *places = rbt_calloc(range, sizeof *places);
    if (places == NULL) {
        return out_of_memory(count);
    }
    size_t different = 0;
    for (size_t i = 0; i < count; i++) {
        RBT_DEBUG_ASSERT(keys[i] <= max);
        different += places[keys[i]] == 0;
        places[keys[i]] = 1;
    }
    uint64_t *list = rbt_calloc(different, sizeof *list);
    if (list == NULL) {
        rbt_free(places);
        return out_of_memory(count);
    }
    uint32_t position = 0;
    for (size_t key = 0; key < range; key++) {
        if (places[key] != 0) {
            places[key] = position;
            list[position++] = key;
        }
    }
    RBT_ASSERT(position == different);
    for (size_t i = 0; i < count; i++) {
        keys[i] = places[keys[i]];
    }
    rbt_free(places);
    *sorted = (struct rbt_sorted){.keys = list, .count = different};
    return RBT_OK;
}

struct slot {
    uint64_t key;
    uint64_t number; /* from 1; 0 is an empty slot */
};

/* Open addressing with linear probing, at most half full. */
struct table {
    struct slot *slots;
    size_t capacity; /* a power of two */
    size_t count;
};

static struct slot *find(const struct table *table, uint64_t key)
{
    const size_t mask = table->capacity - 1;
    size_t i = (size_t)rbt_hash_key(key) & mask;
    while (table->slots[i].number != 0 && table->slots[i].key != key) { /* ends: half are empty */
        i = (i + 1) & mask;
    }
    return &table->slots[i];
}

static bool enlarge(struct table *table)
{
    struct table larger = {.capacity = table->capacity * 2, .count = table->count};
    larger.capacity = larger.capacity < CAPACITY_MIN ? CAPACITY_MIN : larger.capacity;
    larger.slots = rbt_calloc(larger.capacity, sizeof *larger.slots);
    if (larger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].number != 0) {
            *find(&larger, table->slots[i].key) = table->slots[i];
        }
    }
    rbt_free(table->slots);
    *table = larger;
    return true;
}

/* Gives every key a number, from 0 in the order in which they are met. */
static rbt_status number_keys(struct table *table, const uint64_t *keys, size_t count,
                              uint32_t *numbers)
{
    for (size_t i = 0; i < count; i++) {
        if (table->count * 2 >= table->capacity && !enlarge(table)) {
            return out_of_memory(count);
        }
        struct slot *slot = find(table, keys[i]);
        if (slot->number == 0) {
            *slot = (struct slot){.key = keys[i], .number = ++table->count};
        }
        if (slot->number > UINT32_MAX) {
            return rbt_fail(RBT_E_INVALID, "there are more than %u different keys", UINT32_MAX);
        }
        numbers[i] = (uint32_t)(slot->number - 1);
    }
    return RBT_OK;
}

/* Sorts the keys of the table into `list` and stores where number n went in `places[n]`. */
static bool rank(const struct table *table, uint64_t *list, uint32_t *places)
{
    uint64_t *scratch = rbt_calloc(table->count, sizeof *scratch);
    if (scratch == NULL) {
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].number != 0) {
            list[count++] = table->slots[i].key;
        }
    }
    RBT_ASSERT(count == table->count);
    rbt_sort_keys(list, scratch, count);
    rbt_free(scratch);
    for (size_t i = 0; i < count; i++) {
        places[find(table, list[i])->number - 1] = (uint32_t)i;
    }
    return true;
}

static rbt_status number_sparse(const uint64_t *keys, size_t count, uint32_t *positions,
                                struct rbt_sorted *sorted)
{
    struct table table = {0};
    uint64_t *list = NULL;
    uint32_t *places = NULL;
    rbt_status st = number_keys(&table, keys, count, positions);
    if (st != RBT_OK) {
        goto done;
    }
    list = rbt_calloc(table.count, sizeof *list);
    places = rbt_calloc(table.count, sizeof *places);
    if (list == NULL || places == NULL || !rank(&table, list, places)) {
        st = out_of_memory(count);
        goto done;
    }
    for (size_t i = 0; i < count; i++) {
        positions[i] = places[positions[i]];
    }
    *sorted = (struct rbt_sorted){.keys = list, .count = table.count};
    list = NULL; /* it is the caller's */
done:
    rbt_free(places);
    rbt_free(list);
    rbt_free(table.slots);
    return st;
}

rbt_status rbt_sort_positions(const uint64_t *keys, size_t count, uint32_t *positions,
                              struct rbt_sorted *sorted)
{
    uint64_t max = 0;
    for (size_t i = 0; i < count; i++) {
        max = keys[i] > max ? keys[i] : max;
    }
    if (!rbt_sort_is_dense(count, max)) {
        return number_sparse(keys, count, positions, sorted);
    }
    for (size_t i = 0; i < count; i++) {
        positions[i] = (uint32_t)keys[i];
    }
    return rbt_sort_in_place(positions, count, max, sorted);
}
