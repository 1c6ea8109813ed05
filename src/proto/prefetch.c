/* proto/prefetch.c - rows that a worker has asked for before it wants them. */
#include "proto/prefetch.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mutant.h"

enum { IDLE_MAX = 4 }; /* clocks for which base rows wait to be used */

rbt_status rbt_prefetches_init(struct rbt_prefetches *prefetches)
{
    return rbt_map_init(&prefetches->index, 0);
}

void rbt_prefetches_clear(struct rbt_prefetches *prefetches)
{
    for (uint32_t i = 0; i < prefetches->count; i++) {
        rbt_free(prefetches->all[i]->answer);
        rbt_free(prefetches->all[i]);
    }
    if (prefetches->count > 0) { /* else there may be no map yet */
        rbt_map_clear(&prefetches->index);
    }
    prefetches->count = 0;
    prefetches->held_count = 0;
}

void rbt_prefetches_deinit(struct rbt_prefetches *prefetches)
{
    rbt_prefetches_clear(prefetches);
    rbt_free(prefetches->all);
    rbt_free(prefetches->held);
    rbt_map_deinit(&prefetches->index);
}

static uint64_t key_of(uint64_t number, uint32_t shard, bool is_once)
{
    return rbt_hash_key(number) + 2 * (uint64_t)shard + is_once;
}

struct rbt_prefetch *rbt_prefetches_find(const struct rbt_prefetches *prefetches, uint64_t number,
                                         uint32_t shard, bool is_once)
{
    const uint32_t found = rbt_map_find(&prefetches->index, key_of(number, shard, is_once));
    return found == RBT_MAP_NONE ? NULL : prefetches->all[found];
}

/* Room for one more. */
static bool grow(struct rbt_prefetches *prefetches)
{
    if (prefetches->count < prefetches->max) {
        return true;
    }
    const uint32_t max = prefetches->max == 0 ? 16 : prefetches->max * 2;
    struct rbt_prefetch **all = rbt_realloc(prefetches->all, max, sizeof *all);
    prefetches->all = all == NULL ? prefetches->all : all;
    struct rbt_prefetch **held =
        all == NULL ? NULL : rbt_realloc(prefetches->held, max, sizeof *held);
    prefetches->held = held == NULL ? prefetches->held : held;
    prefetches->max = held == NULL ? prefetches->max : max;
    return held != NULL;
}

struct rbt_prefetch *rbt_prefetches_get(struct rbt_prefetches *prefetches, uint64_t number,
                                        uint32_t shard, bool is_once)
{
    struct rbt_prefetch *prefetch = rbt_prefetches_find(prefetches, number, shard, is_once);
    if (prefetch != NULL || !grow(prefetches)) {
        return prefetch;
    }
    prefetch = rbt_calloc(1, sizeof *prefetch);
    if (prefetch == NULL || rbt_map_reserve(&prefetches->index, 1) != RBT_OK) {
        rbt_free(prefetch);
        return NULL;
    }
    *prefetch = (struct rbt_prefetch){.shard = shard,
                                      .is_once = is_once,
                                      .answer_stamp = RBT_STAMP_NONE,
                                      .request_stamp = RBT_STAMP_NONE};
    rbt_map_insert(&prefetches->index, key_of(number, shard, is_once), prefetches->count);
    prefetches->all[prefetches->count++] = prefetch;
    return prefetch;
}

static void hold(struct rbt_prefetches *prefetches, struct rbt_prefetch *prefetch)
{
    if (!prefetch->is_held) {
        RBT_ASSERT(prefetches->held_count < prefetches->max);
        prefetch->is_held = true;
        prefetches->held[prefetches->held_count++] = prefetch;
    }
}

rbt_status rbt_prefetches_keep(struct rbt_prefetches *prefetches, struct rbt_prefetch *prefetch,
                               const struct rbt_answer *answer, const struct rbt_body *body)
{
    if (prefetch->answer_bytes != 0 && prefetch->news.version > answer->head.news.version) {
        return RBT_OK;
    }
    if (body->count > prefetch->answer_max) {
        rbt_prefetch_drop(prefetch);
        rbt_free(prefetch->answer);
        prefetch->answer = rbt_alloc(body->count);
        prefetch->answer_max = prefetch->answer == NULL ? 0 : body->count;
        if (prefetch->answer == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for rows sent ahead");
        }
    }
    memcpy(prefetch->answer, body->bytes, body->count);
    prefetch->answer_bytes = body->count;
    prefetch->is_placed = body->is_placed;
    prefetch->news = answer->head.news;
    prefetch->idle = 0;
    prefetch->answer_stamp = RBT_STAMP_NONE;
    if (answer->head.has_stamp) {
        prefetch->answer_stamp = answer->head.stamp;
        prefetch->last_stamp = answer->head.stamp;
        hold(prefetches, prefetch);
    }
    return RBT_OK;
}

void rbt_prefetch_drop(struct rbt_prefetch *prefetch)
{
    prefetch->answer_bytes = 0;
    prefetch->answer_stamp = RBT_STAMP_NONE;
}

void rbt_prefetches_expect(struct rbt_prefetches *prefetches, struct rbt_prefetch *prefetch,
                           uint32_t table, uint64_t stamp)
{
    prefetch->table = table;
    prefetch->request_stamp = stamp == RBT_STAMP_NONE ? 0 : stamp; /* it may be anything */
    hold(prefetches, prefetch);
}

void rbt_prefetch_arrived(struct rbt_prefetch *prefetch)
{
    prefetch->request = NULL;
    prefetch->request_stamp = RBT_STAMP_NONE;
}

uint64_t rbt_prefetches_least(struct rbt_prefetches *prefetches, uint32_t shard, uint32_t table,
                              uint64_t least)
{
    uint64_t lowest = least;
    uint32_t kept = 0;
    if (RBT_MUTANT(HASTY_COPY)) {
        return least;
    }
    for (uint32_t i = 0; i < prefetches->held_count; i++) {
        struct rbt_prefetch *prefetch = prefetches->held[i];
        const uint64_t stamp = prefetch->answer_stamp < prefetch->request_stamp
                                   ? prefetch->answer_stamp
                                   : prefetch->request_stamp;
        prefetch->is_held = stamp != RBT_STAMP_NONE;
        if (!prefetch->is_held) {
            continue;
        }
        prefetches->held[kept++] = prefetch;
        if (prefetch->shard == shard && prefetch->table == table && stamp < lowest) {
            lowest = stamp;
        }
    }
    prefetches->held_count = kept;
    return lowest;
}

void rbt_prefetches_end_clock(struct rbt_prefetches *prefetches, uint32_t shard)
{
    for (uint32_t i = 0; i < prefetches->held_count; i++) {
        struct rbt_prefetch *prefetch = prefetches->held[i];
        if (prefetch->shard == shard && prefetch->answer_stamp != RBT_STAMP_NONE &&
            prefetch->call == NULL && ++prefetch->idle > IDLE_MAX) {
            rbt_prefetch_drop(prefetch);
        }
    }
}
