/* data/rare.c - leaves features out that few examples have. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/map.h"
#include "data/examples.h"

enum { LOOKUPS = 1024 }; /* features that are looked up together */

/* How many examples have each feature, by the slot of its key. */
struct counts {
    struct rbt_map map;
    uint64_t *counts;
    size_t capacity;
};

static rbt_status reserve(struct counts *counts, size_t more)
{
    const size_t least = (size_t)counts->map.count + more;
    if (least >= RBT_MAP_NONE) {
        return rbt_fail(RBT_E_INVALID, "there are more than %u different features",
                        RBT_MAP_NONE - 1);
    }
    if (least > counts->capacity) {
        const size_t capacity = least > counts->capacity * 2 ? least : counts->capacity * 2;
        uint64_t *grown = rbt_realloc(counts->counts, capacity, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory to count features");
        }
        counts->counts = grown;
        counts->capacity = capacity;
    }
    return rbt_map_reserve(&counts->map, more);
}

/* Counts a few features. */
static rbt_status count(struct counts *counts, const uint64_t *keys, size_t n)
{
    uint32_t slots[LOOKUPS];
    const rbt_status st = reserve(counts, n);
    if (st != RBT_OK) {
        return st;
    }
    rbt_map_find_batch(&counts->map, keys, n, slots);
    for (size_t i = 0; i < n; i++) {
        if (slots[i] == RBT_MAP_NONE) {
            slots[i] = rbt_map_find(&counts->map, keys[i]); /* it may have come just now */
        }
        if (slots[i] == RBT_MAP_NONE) {
            slots[i] = (uint32_t)counts->map.count;
            rbt_map_insert(&counts->map, keys[i], slots[i]);
        }
        counts->counts[slots[i]]++;
    }
    return RBT_OK;
}

rbt_status rbt_examples_drop_rare(struct rbt_examples *examples, uint64_t count_min)
{
    if (count_min <= 1 || examples->count == 0) {
        return RBT_OK;
    }
    struct counts counts = {0};
    const uint64_t end = examples->offsets[examples->count];
    rbt_status st = rbt_map_init(&counts.map, 0);
    for (uint64_t k = 0; st == RBT_OK && k < end; k += LOOKUPS) {
        st = count(&counts, examples->keys + k, end - k < LOOKUPS ? (size_t)(end - k) : LOOKUPS);
    }
    uint64_t next = 0;
    uint64_t begin = 0;
    for (size_t i = 0; st == RBT_OK && i < examples->count; i++) {
        for (uint64_t k = begin; k < examples->offsets[i + 1]; k++) {
            const uint32_t slot = rbt_map_find(&counts.map, examples->keys[k]);
            examples->keys[next] = examples->keys[k];
            examples->values[next] = examples->values[k];
            next += counts.counts[slot] >= count_min;
        }
        begin = examples->offsets[i + 1];
        examples->offsets[i + 1] = next;
    }
    rbt_map_deinit(&counts.map);
    rbt_free(counts.counts);
    return st;
}
