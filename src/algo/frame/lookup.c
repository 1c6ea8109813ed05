/* algo/frame/lookup.c - a hash table of positions: open addressing, linear probing, at most half
 * full. */
#include "algo/frame/lookup.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

struct rbt_lookup {
    const uint64_t *keys; /* borrowed */
    uint32_t *slots;      /* position + 1, or 0 */
    uint64_t mask;
};

rbt_status rbt_lookup_create(const uint64_t *keys, size_t count, rbt_lookup **lookup)
{
    if (count > (size_t)INT32_MAX) {
        return rbt_fail(RBT_E_INVALID, "%zu keys are too many; the limit is 2^31", count);
    }
    size_t size = 16;
    while (size < 2 * count) {
        size *= 2;
    }
    rbt_lookup *made = rbt_calloc(1, sizeof *made);
    uint32_t *slots = rbt_calloc(size, sizeof *slots);
    if (made == NULL || slots == NULL) {
        rbt_free(slots);
        rbt_free(made);
        return rbt_fail(RBT_E_NOMEM, "no memory to look up %zu keys", count);
    }
    *made = (rbt_lookup){.keys = keys, .slots = slots, .mask = size - 1};
    for (size_t i = 0; i < count; i++) {
        uint64_t at = rbt_hash_key(keys[i]) & made->mask;
        while (slots[at] != 0) { /* ends: at least half of the slots are free */
            RBT_DEBUG_ASSERT(keys[slots[at] - 1] != keys[i]);
            at = (at + 1) & made->mask;
        }
        slots[at] = (uint32_t)i + 1;
    }
    *lookup = made;
    return RBT_OK;
}

void rbt_lookup_destroy(rbt_lookup *lookup)
{
    if (lookup != NULL) {
        rbt_free(lookup->slots);
        rbt_free(lookup);
    }
}

uint32_t rbt_lookup_find(const rbt_lookup *lookup, uint64_t key)
{
    uint64_t at = rbt_hash_key(key) & lookup->mask;
    for (; lookup->slots[at] != 0; at = (at + 1) & lookup->mask) { /* ends: half are free */
        if (lookup->keys[lookup->slots[at] - 1] == key) {
            return lookup->slots[at] - 1;
        }
    }
    return RBT_LOOKUP_MISSING;
}
