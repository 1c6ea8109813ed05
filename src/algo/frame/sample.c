/* algo/frame/sample.c - see sample.h. */
#include "algo/frame/sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sort_u64.h"

/* Takes the copies of equal examples apart. */
static const uint64_t stride = UINT64_C(0x9E3779B97F4A7C15);

struct entry {
    uint64_t hash;
    uint64_t place;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a sample of the examples");
}

uint64_t rbt_sample_hash(const struct rbt_examples *examples, size_t i, uint64_t seed)
{
    const uint64_t first = examples->offsets[i];
    const size_t count = (size_t)(examples->offsets[i + 1] - first);
    uint64_t hash = rbt_hash_bytes(&examples->labels[i], sizeof *examples->labels, seed);
    hash = rbt_hash_bytes(examples->keys + first, count * sizeof *examples->keys, hash);
    hash = rbt_hash_bytes(examples->values + first, count * sizeof *examples->values, hash);
    return rbt_hash_key(hash);
}

/* Hashes up to this one are chosen. */
static uint64_t limit_of(size_t count, size_t count_max)
{
    return count <= count_max ? UINT64_MAX : (uint64_t)((double)count_max / (double)count * 0x1p64);
}

/* How many of `copies` equal examples are chosen. */
static uint32_t count_chosen(uint64_t hash, size_t copies, uint64_t limit)
{
    uint32_t chosen = 0;
    for (size_t k = 0; k < copies; k++) {
        chosen += rbt_hash_key(hash + k * stride) <= limit;
    }
    return chosen;
}

/* Wants so many examples with this hash. */
static rbt_status want(struct rbt_sample *sample, uint64_t hash, uint32_t count, size_t *room)
{
    const size_t at = (size_t)sample->wanted.count;
    if (at == *room) {
        const size_t more = *room == 0 ? 1024 : 2 * *room;
        uint32_t *left = rbt_realloc(sample->left, more, sizeof *left);
        if (left == NULL) {
            return no_memory();
        }
        sample->left = left;
        *room = more;
    }
    const rbt_status st = rbt_map_reserve(&sample->wanted, 1);
    if (st == RBT_OK) {
        sample->left[at] = count;
        rbt_map_insert(&sample->wanted, hash, (uint32_t)at);
    }
    return st;
}

rbt_status rbt_sample_draw(struct rbt_sample *sample, uint64_t *hashes, size_t count,
                           size_t count_max)
{
    const uint64_t limit = limit_of(count, count_max);
    size_t room = 0;
    rbt_status st = rbt_map_init(&sample->wanted, count < count_max ? count : count_max);
    rbt_sort_u64(hashes, count);
    for (size_t first = 0, end = 0; st == RBT_OK && first < count; first = end) {
        while (end < count && hashes[end] == hashes[first]) {
            end++;
        }
        const uint32_t chosen = count_chosen(hashes[first], end - first, limit);
        st = chosen > 0 ? want(sample, hashes[first], chosen, &room) : RBT_OK;
    }
    return st;
}

/* Room for an example with so many features more. */
static rbt_status make_room(struct rbt_sample *sample, size_t nonzeros)
{
    struct rbt_examples *examples = &sample->examples;
    const size_t used = examples->offsets != NULL ? (size_t)examples->offsets[examples->count] : 0;
    if (examples->count == sample->room) {
        const size_t room = sample->room == 0 ? 1024 : 2 * sample->room;
        uint64_t *offsets = rbt_realloc(examples->offsets, room + 1, sizeof *offsets);
        examples->offsets = offsets != NULL ? offsets : examples->offsets;
        float *labels = rbt_realloc(examples->labels, room, sizeof *labels);
        examples->labels = labels != NULL ? labels : examples->labels;
        uint64_t *hashes = rbt_realloc(sample->hashes, room, sizeof *hashes);
        sample->hashes = hashes != NULL ? hashes : sample->hashes;
        if (offsets == NULL || labels == NULL || hashes == NULL) {
            return no_memory();
        }
        offsets[0] = 0;
        sample->room = room;
    }
    if (used + nonzeros > sample->nonzero_room) {
        const size_t room = 2 * (used + nonzeros);
        uint64_t *keys = rbt_realloc(examples->keys, room, sizeof *keys);
        examples->keys = keys != NULL ? keys : examples->keys;
        float *values = rbt_realloc(examples->values, room, sizeof *values);
        examples->values = values != NULL ? values : examples->values;
        if (keys == NULL || values == NULL) {
            return no_memory();
        }
        sample->nonzero_room = room;
    }
    return RBT_OK;
}

/* Adds a copy of example i. */
static void copy(const struct rbt_examples *from, uint64_t i, struct rbt_examples *to)
{
    const uint64_t first = from->offsets[i];
    const size_t count = (size_t)(from->offsets[i + 1] - first);
    const uint64_t next = to->offsets[to->count];
    if (count > 0) {
        memcpy(to->keys + next, from->keys + first, count * sizeof *to->keys);
        memcpy(to->values + next, from->values + first, count * sizeof *to->values);
    }
    to->labels[to->count++] = from->labels[i];
    to->offsets[to->count] = next + count;
}

rbt_status rbt_sample_pick(struct rbt_sample *sample, const struct rbt_examples *part)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < part->count; i++) {
        const uint64_t hash = rbt_sample_hash(part, i, sample->seed);
        const uint32_t place = rbt_map_find(&sample->wanted, hash);
        if (place == RBT_MAP_NONE || sample->left[place] == 0) {
            continue;
        }
        st = make_room(sample, (size_t)(part->offsets[i + 1] - part->offsets[i]));
        if (st == RBT_OK) {
            sample->left[place]--;
            sample->hashes[sample->examples.count] = hash;
            copy(part, i, &sample->examples);
        }
    }
    return st;
}

rbt_status rbt_sample_choose(struct rbt_sample *sample, const struct rbt_examples *examples,
                             size_t count_max)
{
    uint64_t *hashes = rbt_calloc(examples->count, sizeof *hashes);
    if (hashes == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < examples->count; i++) {
        hashes[i] = rbt_sample_hash(examples, i, sample->seed);
    }
    const rbt_status st = rbt_sample_draw(sample, hashes, examples->count, count_max);
    rbt_free(hashes);
    return st != RBT_OK ? st : rbt_sample_pick(sample, examples);
}

static int compare(const void *a, const void *b)
{
    const uint64_t left = ((const struct entry *)a)->hash;
    const uint64_t right = ((const struct entry *)b)->hash;
    return left < right ? -1 : left > right;
}

rbt_status rbt_sample_share(const struct rbt_sample *sample, struct rbt_share *share)
{
    const struct rbt_examples *examples = &sample->examples;
    const size_t count = examples->count;
    const size_t nonzeros = count > 0 ? (size_t)examples->offsets[count] : 0;
    struct entry *entries = rbt_calloc(count, sizeof *entries);
    struct rbt_examples sorted = {.offsets = rbt_calloc(count + 1, sizeof *sorted.offsets),
                                  .labels = rbt_calloc(count, sizeof *sorted.labels),
                                  .keys = rbt_calloc(nonzeros, sizeof *sorted.keys),
                                  .values = rbt_calloc(nonzeros, sizeof *sorted.values)};
    rbt_status st = RBT_OK;
    if (entries == NULL || sorted.offsets == NULL || sorted.labels == NULL || sorted.keys == NULL ||
        sorted.values == NULL) {
        st = no_memory();
    }
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        entries[i] = (struct entry){sample->hashes[i], i};
    }
    if (st == RBT_OK && count > 0) {
        qsort(entries, count, sizeof *entries, compare); /* equal ones cannot be told apart */
    }
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        copy(examples, entries[i].place, &sorted);
    }
    rbt_free(entries);
    st = st != RBT_OK ? st : rbt_share_take(&sorted, sample->seed, 0, 1, share);
    rbt_examples_free(&sorted);
    return st;
}

rbt_status rbt_sample_places(const struct rbt_examples *examples, uint64_t seed, size_t count_max,
                             uint32_t **places, size_t *count)
{
    const size_t n = examples->count;
    const uint64_t limit = limit_of(n, count_max);
    struct entry *entries = NULL;
    size_t chosen = 0;
    size_t room = 0;
    for (size_t i = 0; i < n; i++) {
        const struct entry entry = {rbt_sample_hash(examples, i, seed), i};
        if (entry.hash > limit) {
            continue;
        }
        if (chosen == room) {
            room = room == 0 ? 1024 : 2 * room;
            struct entry *more = rbt_realloc(entries, room, sizeof *entries);
            if (more == NULL) {
                rbt_free(entries);
                return no_memory();
            }
            entries = more;
        }
        entries[chosen++] = entry;
    }
    uint32_t *found = rbt_calloc(chosen, sizeof *found);
    if (found != NULL && chosen > 0) {
        qsort(entries, chosen, sizeof *entries, compare);
        for (size_t i = 0; i < chosen; i++) {
            found[i] = (uint32_t)entries[i].place;
        }
    }
    rbt_free(entries);
    if (found == NULL) {
        return no_memory();
    }
    *places = found;
    *count = chosen;
    return RBT_OK;
}

void rbt_sample_free(struct rbt_sample *sample)
{
    rbt_map_deinit(&sample->wanted);
    rbt_free(sample->left);
    rbt_free(sample->hashes);
    rbt_examples_free(&sample->examples);
    *sample = (struct rbt_sample){.seed = sample->seed};
}
