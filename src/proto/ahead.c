/* proto/ahead.c - rows that a worker has asked for before it wants them. */
#include "proto/ahead.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mutant.h"

enum { IDLE_MAX = 4 }; /* clocks for which base rows wait to be used */

rbt_status rbt_aheads_init(struct rbt_aheads *aheads)
{
    return rbt_map_init(&aheads->index, 0);
}

void rbt_aheads_clear(struct rbt_aheads *aheads)
{
    for (uint32_t i = 0; i < aheads->count; i++) {
        rbt_free(aheads->all[i]->answer);
        rbt_free(aheads->all[i]);
    }
    if (aheads->count > 0) { /* else there may be no map yet */
        rbt_map_clear(&aheads->index);
    }
    aheads->count = 0;
    aheads->held_count = 0;
}

void rbt_aheads_deinit(struct rbt_aheads *aheads)
{
    rbt_aheads_clear(aheads);
    rbt_free(aheads->all);
    rbt_free(aheads->held);
    rbt_map_deinit(&aheads->index);
}

static uint64_t key_of(uint64_t number, uint32_t shard, bool is_once)
{
    return rbt_hash_key(number) + 2 * (uint64_t)shard + is_once;
}

struct rbt_ahead *rbt_aheads_find(const struct rbt_aheads *aheads, uint64_t number, uint32_t shard,
                                  bool is_once)
{
    const uint32_t found = rbt_map_find(&aheads->index, key_of(number, shard, is_once));
    return found == RBT_MAP_NONE ? NULL : aheads->all[found];
}

/* Room for one more. */
static bool grow(struct rbt_aheads *aheads)
{
    if (aheads->count < aheads->max) {
        return true;
    }
    const uint32_t max = aheads->max == 0 ? 16 : aheads->max * 2;
    struct rbt_ahead **all = rbt_realloc(aheads->all, max, sizeof *all);
    aheads->all = all == NULL ? aheads->all : all;
    struct rbt_ahead **held = all == NULL ? NULL : rbt_realloc(aheads->held, max, sizeof *held);
    aheads->held = held == NULL ? aheads->held : held;
    aheads->max = held == NULL ? aheads->max : max;
    return held != NULL;
}

struct rbt_ahead *rbt_aheads_get(struct rbt_aheads *aheads, uint64_t number, uint32_t shard,
                                 bool is_once)
{
    struct rbt_ahead *ahead = rbt_aheads_find(aheads, number, shard, is_once);
    if (ahead != NULL || !grow(aheads)) {
        return ahead;
    }
    ahead = rbt_calloc(1, sizeof *ahead);
    if (ahead == NULL || rbt_map_reserve(&aheads->index, 1) != RBT_OK) {
        rbt_free(ahead);
        return NULL;
    }
    *ahead = (struct rbt_ahead){.shard = shard,
                                .is_once = is_once,
                                .answer_stamp = RBT_STAMP_NONE,
                                .request_stamp = RBT_STAMP_NONE};
    rbt_map_insert(&aheads->index, key_of(number, shard, is_once), aheads->count);
    aheads->all[aheads->count++] = ahead;
    return ahead;
}

static void hold(struct rbt_aheads *aheads, struct rbt_ahead *ahead)
{
    if (!ahead->is_held) {
        RBT_ASSERT(aheads->held_count < aheads->max);
        ahead->is_held = true;
        aheads->held[aheads->held_count++] = ahead;
    }
}

rbt_status rbt_aheads_keep(struct rbt_aheads *aheads, struct rbt_ahead *ahead,
                           const struct rbt_answer *answer, const struct rbt_body *body)
{
    if (ahead->answer_bytes != 0 && ahead->news.version > answer->head.news.version) {
        return RBT_OK;
    }
    if (body->count > ahead->answer_max) {
        rbt_ahead_drop(ahead);
        rbt_free(ahead->answer);
        ahead->answer = rbt_alloc(body->count);
        ahead->answer_max = ahead->answer == NULL ? 0 : body->count;
        if (ahead->answer == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for rows sent ahead");
        }
    }
    memcpy(ahead->answer, body->bytes, body->count);
    ahead->answer_bytes = body->count;
    ahead->is_placed = body->is_placed;
    ahead->news = answer->head.news;
    ahead->idle = 0;
    ahead->answer_stamp = RBT_STAMP_NONE;
    if (answer->head.has_stamp) {
        ahead->answer_stamp = answer->head.stamp;
        ahead->last_stamp = answer->head.stamp;
        hold(aheads, ahead);
    }
    return RBT_OK;
}

void rbt_ahead_drop(struct rbt_ahead *ahead)
{
    ahead->answer_bytes = 0;
    ahead->answer_stamp = RBT_STAMP_NONE;
}

void rbt_aheads_expect(struct rbt_aheads *aheads, struct rbt_ahead *ahead, uint32_t table,
                       uint64_t stamp)
{
    ahead->table = table;
    ahead->request_stamp = stamp == RBT_STAMP_NONE ? 0 : stamp; /* it may be anything */
    hold(aheads, ahead);
}

void rbt_ahead_arrived(struct rbt_ahead *ahead)
{
    ahead->request = NULL;
    ahead->request_stamp = RBT_STAMP_NONE;
}

uint64_t rbt_aheads_least(struct rbt_aheads *aheads, uint32_t shard, uint32_t table, uint64_t least)
{
    uint64_t lowest = least;
    uint32_t kept = 0;
    if (RBT_MUTANT(HASTY_COPY)) {
        return least;
    }
    for (uint32_t i = 0; i < aheads->held_count; i++) {
        struct rbt_ahead *ahead = aheads->held[i];
        const uint64_t stamp =
            ahead->answer_stamp < ahead->request_stamp ? ahead->answer_stamp : ahead->request_stamp;
        ahead->is_held = stamp != RBT_STAMP_NONE;
        if (!ahead->is_held) {
            continue;
        }
        aheads->held[kept++] = ahead;
        if (ahead->shard == shard && ahead->table == table && stamp < lowest) {
            lowest = stamp;
        }
    }
    aheads->held_count = kept;
    return lowest;
}

void rbt_aheads_end_clock(struct rbt_aheads *aheads, uint32_t shard)
{
    for (uint32_t i = 0; i < aheads->held_count; i++) {
        struct rbt_ahead *ahead = aheads->held[i];
        if (ahead->shard == shard && ahead->answer_stamp != RBT_STAMP_NONE && ahead->call == NULL &&
            ++ahead->idle > IDLE_MAX) {
            rbt_ahead_drop(ahead);
        }
    }
}
