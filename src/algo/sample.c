/* algo/sample.c - see sample.h. */
#include "algo/sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"

struct entry {
    uint64_t hash;
    uint64_t place;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a sample of the examples");
}

static uint64_t hash_of(const struct rbt_examples *examples, size_t i, uint64_t seed)
{
    const uint64_t first = examples->offsets[i];
    const size_t count = (size_t)(examples->offsets[i + 1] - first);
    uint64_t hash = rbt_hash_bytes(&examples->labels[i], sizeof *examples->labels, seed);
    hash = rbt_hash_bytes(examples->keys + first, count * sizeof *examples->keys, hash);
    hash = rbt_hash_bytes(examples->values + first, count * sizeof *examples->values, hash);
    return rbt_hash_key(hash);
}

static int compare(const void *a, const void *b)
{
    const uint64_t left = ((const struct entry *)a)->hash;
    const uint64_t right = ((const struct entry *)b)->hash;
    return left < right ? -1 : left > right;
}

rbt_status rbt_sample_choose(const struct rbt_examples *examples, uint64_t seed, size_t count_max,
                             struct rbt_sample *sample)
{
    const size_t n = examples->count;
    const uint64_t limit =
        n <= count_max ? UINT64_MAX : (uint64_t)((double)count_max / (double)n * 0x1p64);
    size_t room = 0;
    struct entry *entries = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct entry entry = {hash_of(examples, i, seed), i};
        if (entry.hash > limit) {
            continue;
        }
        if (sample->count == room) {
            room = room == 0 ? 1024 : 2 * room;
            struct entry *more = rbt_realloc(entries, room, sizeof *entries);
            if (more == NULL) {
                rbt_free(entries);
                sample->count = 0;
                return no_memory();
            }
            entries = more;
        }
        entries[sample->count++] = entry;
    }
    sample->places = rbt_calloc(sample->count, sizeof *sample->places);
    if (sample->places != NULL && sample->count > 0) {
        qsort(entries, sample->count, sizeof *entries, compare);
        for (size_t i = 0; i < sample->count; i++) {
            sample->places[i] = entries[i].place;
        }
    }
    rbt_free(entries);
    if (sample->places == NULL) {
        sample->count = 0;
        return no_memory();
    }
    return RBT_OK;
}

rbt_status rbt_sample_take(const struct rbt_examples *examples, const struct rbt_sample *sample,
                           uint64_t seed, struct rbt_share *share)
{
    uint64_t nonzeros = 0;
    for (size_t i = 0; i < sample->count; i++) {
        const uint64_t place = sample->places[i];
        nonzeros += examples->offsets[place + 1] - examples->offsets[place];
    }
    struct rbt_examples chosen = {.offsets = rbt_calloc(sample->count + 1, sizeof *chosen.offsets),
                                  .labels = rbt_calloc(sample->count, sizeof *chosen.labels),
                                  .keys = rbt_calloc((size_t)nonzeros, sizeof *chosen.keys),
                                  .values = rbt_calloc((size_t)nonzeros, sizeof *chosen.values)};
    rbt_status st = RBT_OK;
    if (chosen.offsets == NULL || chosen.labels == NULL || chosen.keys == NULL ||
        chosen.values == NULL) {
        st = no_memory();
    }
    uint64_t next = 0;
    for (size_t i = 0; st == RBT_OK && i < sample->count; i++) {
        const uint64_t place = sample->places[i];
        const uint64_t first = examples->offsets[place];
        const size_t count = (size_t)(examples->offsets[place + 1] - first);
        memcpy(chosen.keys + next, examples->keys + first, count * sizeof *chosen.keys);
        memcpy(chosen.values + next, examples->values + first, count * sizeof *chosen.values);
        chosen.labels[i] = examples->labels[place];
        next += count;
        chosen.offsets[++chosen.count] = next;
    }
    st = st != RBT_OK ? st : rbt_share_take(&chosen, seed, 0, 1, share);
    rbt_examples_free(&chosen);
    return st;
}

void rbt_sample_free(struct rbt_sample *sample)
{
    rbt_free(sample->places);
    *sample = (struct rbt_sample){0};
}
