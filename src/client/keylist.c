/* client/keylist.c - keys and where they live.
 *
 * With several shards the positions of the keys are sorted by shard once, so that each message to a
 * shard is a slice. The shards' answer to "where is this row" is remembered per position: later
 * pulls and pushes look nothing up.
 *
 * Threads: a list belongs to one worker. Memory: in create and assign only. */
#include "client/keylist.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "wire/rows.h"

rbt_status rbt_keylist_create(const struct rbt_placement_map *placement, struct rbt_keylist **list)
{
    const uint32_t shard_count = placement->shard_count;
    RBT_ASSERT(shard_count > 0);
    struct rbt_keylist *l = rbt_calloc(1, sizeof *l);
    if (l == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a list of keys");
    }
    l->references = 1;
    l->placement = placement;
    l->shard_count = shard_count;
    l->begins = rbt_calloc((size_t)shard_count + 1, sizeof *l->begins);
    l->slots_complete = rbt_calloc(shard_count, sizeof *l->slots_complete);
    if (l->begins == NULL || l->slots_complete == NULL) {
        rbt_keylist_unref(l);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a list of keys");
    }
    *list = l;
    return RBT_OK;
}

/* Frees what grows with the number of keys. */
static void free_room(struct rbt_keylist *list)
{
    rbt_free(list->keys);
    rbt_free(list->slots);
    rbt_free(list->positions);
    list->keys = NULL;
    list->slots = NULL;
    list->positions = NULL;
    list->capacity = 0;
}

void rbt_keylist_unref(struct rbt_keylist *list)
{
    if (list == NULL || --list->references > 0) {
        return;
    }
    free_room(list);
    rbt_free(list->begins);
    rbt_free(list->slots_complete);
    rbt_free(list->names);
    rbt_free(list);
}

static rbt_status make_room(struct rbt_keylist *list, size_t count)
{
    free_room(list);
    list->keys = rbt_calloc(count, sizeof *list->keys);
    list->slots = rbt_calloc(count, sizeof *list->slots);
    list->positions = list->shard_count > 1 ? rbt_calloc(count, sizeof *list->positions) : NULL;
    if (list->keys == NULL || list->slots == NULL ||
        (list->shard_count > 1 && list->positions == NULL)) {
        free_room(list);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a list of %zu keys", count);
    }
    list->capacity = count;
    return RBT_OK;
}

/* A counting sort of the positions by shard; stable, so that positions increase within a shard. */
static void deal_out(struct rbt_keylist *list)
{
    size_t *begins = list->begins;
    for (size_t i = 0; i < list->count; i++) {
        begins[rbt_placement_shard(list->placement, list->keys[i]) + 1]++;
    }
    for (uint32_t shard = 0; shard < list->shard_count; shard++) {
        begins[shard + 1] += begins[shard];
    }
    for (size_t i = 0; i < list->count; i++) { /* leaves begins[s] at the end of shard s */
        const uint32_t shard = rbt_placement_shard(list->placement, list->keys[i]);
        list->positions[begins[shard]++] = (uint32_t)i;
    }
    memmove(begins + 1, begins, list->shard_count * sizeof *begins);
    begins[0] = 0;
    RBT_ASSERT(begins[list->shard_count] == list->count);
}

rbt_status rbt_keylist_assign(struct rbt_keylist *list, const uint64_t *keys, size_t count)
{
    list->count = 0;
    if (list->names != NULL) { /* it was a set's, which is gone */
        rbt_free(list->names);
        list->names = NULL;
    }
    memset(list->begins, 0, ((size_t)list->shard_count + 1) * sizeof *list->begins);
    if (count > UINT32_MAX - 1) {
        return rbt_fail(RBT_E_INVALID, "a list holds at most %u keys, not %zu", UINT32_MAX - 1,
                        count);
    }
    if (count > list->capacity || list->keys == NULL) {
        const rbt_status st = make_room(list, count);
        if (st != RBT_OK) {
            return st;
        }
    }
    list->count = count;
    if (count > 0) {
        memcpy(list->keys, keys, count * sizeof *keys);
    }
    memset(list->slots, 0xff, count * sizeof *list->slots); /* RBT_SLOT_NONE */
    memset(list->slots_complete, 0, list->shard_count * sizeof *list->slots_complete);
    if (list->shard_count > 1) {
        deal_out(list);
    } else {
        list->begins[1] = count;
    }
    return RBT_OK;
}

rbt_status rbt_keylist_name(struct rbt_keylist *list)
{
    rbt_free(list->names);
    list->names = rbt_calloc(list->shard_count, sizeof *list->names);
    if (list->names == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a list of keys");
    }
    for (uint32_t shard = 0; shard < list->shard_count; shard++) {
        const struct rbt_batch batch = rbt_keylist_batch(list, shard);
        list->names[shard] = rbt_wire_list_name(batch.keys, batch.positions, batch.count);
    }
    return RBT_OK;
}

struct rbt_batch rbt_keylist_batch(const struct rbt_keylist *list, uint32_t shard)
{
    RBT_ASSERT(shard < list->shard_count);
    const size_t begin = list->begins[shard];
    return (struct rbt_batch){.count = list->begins[shard + 1] - begin,
                              .keys = list->keys,
                              .positions = list->positions == NULL ? NULL : list->positions + begin,
                              .list = list->names == NULL ? 0 : list->names[shard],
                              .slots = list->slots,
                              .slots_complete =
                                  list->slots != NULL ? &list->slots_complete[shard] : NULL};
}
