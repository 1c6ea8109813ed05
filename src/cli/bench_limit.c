/* cli/bench_limit.c - bare loops: copying, probing, changing things at random places.
 *
 * The loops know nothing of Rubato on purpose: they are the yardstick, so they must not become
 * faster or slower with it. Only the hash function is shared, because its cost is not the question.
 *
 * Threads: see the header. Memory: in init only. */
#include "cli/bench_limit.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

enum {
    AHEAD = 32, /* accesses under way at once; 16 to 64 measured alike, batches apart are slower */
    LIST_LENGTH_MAX = 100000 /* keys of a list, when there are ten times as many or more */
};

struct rbt_limit_slot {
    uint64_t key;
    uint32_t number; /* UINT32_MAX: empty */
    atomic_uint counter;
};
_Static_assert(sizeof(struct rbt_limit_slot) == 16, "slots are as large as those of base/map.h");

rbt_status rbt_limit_copy_init(struct rbt_limit_copy *copy, size_t bytes, size_t block)
{
    RBT_ASSERT(block > 0);
    *copy = (struct rbt_limit_copy){.bytes = bytes / block * block, .block = block};
    copy->from = rbt_calloc(copy->bytes, 1);
    copy->to = rbt_calloc(copy->bytes, 1);
    if (copy->from == NULL || copy->to == NULL) {
        rbt_limit_copy_deinit(copy);
        return rbt_fail(RBT_E_NOMEM, "could not allocate two buffers of %zu bytes", bytes);
    }
    memset(copy->from, 1, copy->bytes); /* pages of its own, not the page of zeros */
    memset(copy->to, 2, copy->bytes);
    return RBT_OK;
}

void rbt_limit_copy_deinit(struct rbt_limit_copy *copy)
{
    rbt_free(copy->from);
    rbt_free(copy->to);
    *copy = (struct rbt_limit_copy){0};
}

void rbt_limit_copy_run(struct rbt_limit_copy *copy)
{
    for (size_t at = 0; at < copy->bytes; at += copy->block) {
        memcpy(copy->to + at, copy->from + at, copy->block);
    }
}

uint64_t rbt_limit_key(const struct rbt_limit_keys *keys, uint64_t number)
{
    const uint64_t piece = UINT64_MAX / keys->count;
    return number * piece + rbt_hash_key(number + 1) % piece;
}

static void insert_all(struct rbt_limit_keys *keys)
{
    for (uint64_t i = 0; i <= keys->mask; i++) {
        keys->slots[i].number = UINT32_MAX;
    }
    for (uint64_t i = 0; i < keys->count; i++) {
        const uint64_t key = rbt_limit_key(keys, i);
        uint64_t at = rbt_hash_key(key) & keys->mask;
        while (keys->slots[at].number != UINT32_MAX) { /* ends: half of the slots are empty */
            at = (at + 1) & keys->mask;
        }
        keys->slots[at].key = key;
        keys->slots[at].number = (uint32_t)i;
    }
}

rbt_status rbt_limit_keys_init(struct rbt_limit_keys *keys, uint64_t count, uint32_t list_count)
{
    RBT_ASSERT(count >= 10);
    RBT_ASSERT(count < UINT32_MAX);
    const uint64_t length = count / 10 < LIST_LENGTH_MAX ? count / 10 : LIST_LENGTH_MAX;
    *keys = (struct rbt_limit_keys){.count = count / length * length,
                                    .group = count / length,
                                    .list_count = list_count,
                                    .list_length = (uint32_t)length};
    keys->mask = 15;
    while (keys->mask + 1 < keys->count * 2) {
        keys->mask = keys->mask * 2 + 1;
    }
    keys->lists = rbt_calloc(list_count * length, sizeof *keys->lists);
    keys->slots = rbt_calloc(keys->mask + 1, sizeof *keys->slots);
    keys->order = rbt_calloc(keys->count, sizeof *keys->order);
    if (keys->lists == NULL || keys->slots == NULL || keys->order == NULL) {
        rbt_limit_keys_deinit(keys);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a hash table of %llu keys",
                        (unsigned long long)count);
    }
    insert_all(keys);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    rbt_rng_permutation(&rng, keys->order, keys->count);
    for (uint32_t list = 0; list < list_count; list++) {
        for (uint64_t i = 0; i < length; i++) {
            const uint64_t number = i * keys->group + rbt_rng_below(&rng, keys->group);
            keys->lists[list * length + i] = rbt_limit_key(keys, number);
        }
    }
    return RBT_OK;
}

void rbt_limit_keys_deinit(struct rbt_limit_keys *keys)
{
    rbt_free(keys->lists);
    rbt_free(keys->slots);
    rbt_free(keys->order);
    *keys = (struct rbt_limit_keys){0};
}

static uint32_t probe(const struct rbt_limit_keys *keys, uint64_t key, uint64_t at)
{
    while (keys->slots[at].key != key) { /* ends: the key is there */
        at = (at + 1) & keys->mask;
    }
    return keys->slots[at].number;
}

uint64_t rbt_limit_probe(const struct rbt_limit_keys *keys, uint32_t list)
{
    RBT_ASSERT(list < keys->list_count);
    const uint64_t *wanted = keys->lists + (size_t)list * keys->list_length;
    uint64_t homes[AHEAD] = {0}; /* of the next keys, at their number modulo AHEAD */
    uint64_t sum = 0;
    for (size_t i = 0; i < keys->list_length + AHEAD; i++) {
        const uint64_t home = homes[i % AHEAD];
        if (i < keys->list_length) {
            homes[i % AHEAD] = rbt_hash_key(wanted[i]) & keys->mask;
            __builtin_prefetch(&keys->slots[homes[i % AHEAD]]);
        }
        if (i >= AHEAD) {
            sum += probe(keys, wanted[i - AHEAD], home);
        }
    }
    return sum;
}

void rbt_limit_random(struct rbt_limit_keys *keys, uint64_t *turn, size_t count)
{
    const uint64_t first = *turn;
    uint64_t places[AHEAD] = {0};
    for (size_t i = 0; i < count + AHEAD; i++) {
        const uint64_t place = places[i % AHEAD];
        if (i < count) {
            places[i % AHEAD] = rbt_hash_key(first + i) & keys->mask;
            __builtin_prefetch(&keys->slots[places[i % AHEAD]], 1);
        }
        if (i >= AHEAD) {
            atomic_uint *counter = &keys->slots[place].counter;
            /* Relaxed, and two operations: a lost addition harms nobody, see the header. */
            const unsigned old = atomic_load_explicit(counter, memory_order_relaxed);
            atomic_store_explicit(counter, old + 1, memory_order_relaxed);
        }
    }
    *turn = first + count;
}
