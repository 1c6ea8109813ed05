/* data/share.c - deals the examples out to the workers.
 *
 * All workers draw the same random order from the seed and take neighbouring pieces of it. So they
 * agree without talking, and a worker's share does not depend on who else asks.
 *
 * Threads: any, at the same time, on the same examples. Memory: 4 bytes per example of the whole
 * while the share is made, and if keys are far apart 8 per feature of the share. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/examples.h"
#include "data/sort.h"

enum { STREAM = 0x73686172 }; /* "shar": whose random numbers these are */

void rbt_share_free(struct rbt_share *share)
{
    rbt_free(share->offsets);
    rbt_free(share->labels);
    rbt_free(share->indices);
    rbt_free(share->values);
    rbt_free(share->keys);
    *share = (struct rbt_share){0};
}

static rbt_status out_of_memory(size_t count)
{
    return rbt_fail(RBT_E_NOMEM, "could not make a share of %zu examples: out of memory", count);
}

static uint64_t count_nonzeros(const struct rbt_examples *examples, const uint32_t *order,
                               size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += examples->offsets[order[i] + 1] - examples->offsets[order[i]];
    }
    return sum;
}

/* Lays the examples out in the given order; returns their largest key. Indices are the keys, as far
 * as there is room for them. */
static uint64_t copy_examples(const struct rbt_examples *examples, const uint32_t *order,
                              struct rbt_share *share)
{
    uint64_t next = 0;
    uint64_t max = 0;
    for (size_t i = 0; i < share->count; i++) {
        const size_t from = order[i];
        share->labels[i] = examples->labels[from];
        for (uint64_t k = examples->offsets[from]; k < examples->offsets[from + 1]; k++) {
            max = examples->keys[k] > max ? examples->keys[k] : max;
            share->indices[next] = (uint32_t)examples->keys[k];
            share->values[next] = examples->values[k];
            next++;
        }
        share->offsets[i + 1] = next;
    }
    return max;
}

/* Replaces keys by their positions where they are few enough for their range, or else by way of a
 * list of them: only then is there another copy. */
static rbt_status number_keys(const struct rbt_examples *examples, const uint32_t *order,
                              uint64_t max, struct rbt_share *share)
{
    struct rbt_sorted sorted = {0};
    const uint64_t nonzeros = share->offsets[share->count];
    rbt_status st = RBT_OK;
    if (rbt_sort_is_dense(nonzeros, max)) {
        st = rbt_sort_in_place(share->indices, nonzeros, max, &sorted);
    } else {
        uint64_t *keys = rbt_calloc(nonzeros, sizeof *keys);
        if (keys == NULL) {
            return out_of_memory(share->count);
        }
        for (size_t i = 0; i < share->count; i++) {
            const uint64_t first = examples->offsets[order[i]];
            const uint64_t count = examples->offsets[order[i] + 1] - first;
            memcpy(keys + share->offsets[i], examples->keys + first, count * sizeof *keys);
        }
        st = rbt_sort_positions(keys, nonzeros, share->indices, &sorted);
        rbt_free(keys);
    }
    share->keys = sorted.keys;
    share->key_count = sorted.count;
    return st;
}

/* Makes the share of the examples listed in `order`. */
static rbt_status build(const struct rbt_examples *examples, const uint32_t *order,
                        struct rbt_share *share)
{
    const uint64_t nonzeros = count_nonzeros(examples, order, share->count);
    share->offsets = rbt_calloc(share->count + 1, sizeof *share->offsets);
    share->labels = rbt_calloc(share->count, sizeof *share->labels);
    share->indices = rbt_calloc(nonzeros, sizeof *share->indices);
    share->values = rbt_calloc(nonzeros, sizeof *share->values);
    if (share->offsets == NULL || share->labels == NULL || share->indices == NULL ||
        share->values == NULL) {
        return out_of_memory(share->count);
    }
    const uint64_t max = copy_examples(examples, order, share);
    RBT_ASSERT(share->offsets[share->count] == nonzeros);
    return number_keys(examples, order, max, share);
}

rbt_status rbt_share_order(uint64_t seed, size_t count, uint32_t **order)
{
    if (count > UINT32_MAX) {
        return rbt_fail(RBT_E_INVALID, "there are more than %u examples", UINT32_MAX);
    }
    uint32_t *drawn = rbt_calloc(count, sizeof *drawn);
    if (drawn == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not order %zu examples: out of memory", count);
    }
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, STREAM, 0);
    rbt_rng_permutation(&rng, drawn, count);
    *order = drawn;
    return RBT_OK;
}

rbt_status rbt_share_of(const struct rbt_examples *examples, const uint32_t *places, size_t count,
                        struct rbt_share *share)
{
    struct rbt_share result = {.count = count};
    const rbt_status st = build(examples, places, &result);
    if (st != RBT_OK) {
        rbt_share_free(&result);
        return st;
    }
    *share = result;
    return RBT_OK;
}

rbt_status rbt_share_take(const struct rbt_examples *examples, uint64_t seed, uint32_t index,
                          uint32_t count, struct rbt_share *share)
{
    RBT_ASSERT(index < count);
    const uint64_t total = examples->count;
    uint32_t *order = NULL;
    rbt_status st = rbt_share_order(seed, examples->count, &order);
    if (st != RBT_OK) {
        return st;
    }
    const uint64_t first = total * index / count;
    const uint64_t limit = total * (index + UINT64_C(1)) / count;
    st = rbt_share_of(examples, order + first, (size_t)(limit - first), share);
    rbt_free(order);
    return st;
}
