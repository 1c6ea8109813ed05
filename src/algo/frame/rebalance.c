/* algo/frame/rebalance.c - slow workers hand examples on to fast ones.
 *
 * A gift is one element of the receiver's row: index giver * GIFTS_MAX + how many the giver has
 * given it before, value first * 2^32 + count. Only the giver writes it, once, so that adding is
 * setting. */
#include "algo/frame/rebalance.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { GIFTS_MAX = 64 }; /* of one giver to one receiver */

static const char consistency[] = "ssp:4";
static const double straggler_factor = 1.2;
static const double gift_share = 0.05;
static const double smoothing = 0.5; /* of the times: weight of the newest */

rbt_status rbt_rebalance_open(struct rbt_rebalance *rebalance, rbt_job *job, uint32_t workers)
{
    const struct rbt_table_options times = {
        .struct_size = sizeof times, .type = RBT_F64, .consistency = consistency};
    const struct rbt_table_options gifts = {.struct_size = sizeof gifts,
                                            .type = RBT_I64,
                                            .layout = RBT_SPARSE,
                                            .consistency = consistency,
                                            .width = workers * GIFTS_MAX};
    rebalance->workers = workers;
    const rbt_status st = rbt_table_open(job, "times", &times, &rebalance->times);
    return st != RBT_OK ? st : rbt_table_open(job, "gifts", &gifts, &rebalance->gifts);
}

static rbt_status open_times(const struct rbt_rebalance *rebalance, rbt_worker *worker,
                             struct rbt_hand *hand)
{
    uint64_t *keys = rbt_calloc(rebalance->workers, sizeof *keys);
    if (keys == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to remember %u workers", rebalance->workers);
    }
    for (uint32_t p = 0; p < rebalance->workers; p++) {
        keys[p] = p;
    }
    const rbt_status st = rbt_set_create(worker, rebalance->times, keys, rebalance->workers,
                                         RBT_SET_DELTAS, &hand->times);
    rbt_free(keys);
    return st;
}

rbt_status rbt_rebalance_begin(const struct rbt_rebalance *rebalance, rbt_worker *worker,
                               struct rbt_piece own, struct rbt_hand *hand)
{
    const size_t gifts = (size_t)rebalance->workers * GIFTS_MAX;
    *hand = (struct rbt_hand){.piece_count = 1, .piece_capacity = gifts + 1};
    hand->pieces = rbt_room_take(&hand->room, hand->piece_capacity, sizeof *hand->pieces);
    hand->given = rbt_room_take(&hand->room, rebalance->workers, sizeof *hand->given);
    hand->is_taken = rbt_room_take(&hand->room, gifts, sizeof *hand->is_taken);
    hand->order = rbt_room_take(&hand->room, rebalance->workers, sizeof *hand->order);
    hand->indices = rbt_room_take(&hand->room, gifts, sizeof *hand->indices);
    hand->values = rbt_room_take(&hand->room, gifts, sizeof *hand->values);
    const rbt_status st =
        hand->room.is_short
            ? rbt_fail(RBT_E_NOMEM, "no memory to remember %u workers", rebalance->workers)
            : open_times(rebalance, worker, hand);
    if (st != RBT_OK) {
        rbt_rebalance_end(hand);
        return st;
    }
    hand->pieces[0] = own;
    return RBT_OK;
}

void rbt_rebalance_end(struct rbt_hand *hand)
{
    rbt_set_destroy(hand->times);
    rbt_room_free(&hand->room);
    *hand = (struct rbt_hand){0};
}

/* Takes the gifts in the worker's row that it does not have yet. */
static rbt_status take(const struct rbt_rebalance *rebalance, rbt_worker *worker,
                       struct rbt_hand *hand, bool *has_changed)
{
    struct rbt_elements row = {.index = hand->indices,
                               .values = hand->values,
                               .capacity = (size_t)rebalance->workers * GIFTS_MAX};
    const rbt_status st = rbt_get_sparse(worker, rebalance->gifts, rbt_worker_index(worker), &row);
    for (size_t i = 0; st == RBT_OK && i < row.count; i++) {
        if (!hand->is_taken[hand->indices[i]]) {
            const uint64_t first = (uint64_t)hand->values[i] >> 32;
            const uint64_t count = (uint64_t)hand->values[i] & UINT32_MAX;
            RBT_ASSERT(hand->piece_count < hand->piece_capacity);
            hand->is_taken[hand->indices[i]] = true;
            hand->pieces[hand->piece_count++] = (struct rbt_piece){first, first + count};
            *has_changed = true;
        }
    }
    return st;
}

/* Sorts workers whose times are known from fast to slow, ties by number; returns how many. */
static uint32_t sort(const double *times, uint32_t workers, uint32_t *order)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < workers; p++) {
        uint32_t at = count;
        if (times[p] <= 0.0) {
            continue;
        }
        for (; at > 0 && times[order[at - 1]] > times[p]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = p;
        count++;
    }
    return count;
}

/* Whom the worker should give to: itself if to nobody. */
static uint32_t choose(const double *times, const uint32_t *order, uint32_t count, uint32_t me)
{
    const double limit = count > 0 ? straggler_factor * times[order[0]] : 0.0;
    if (count == 0 || times[me] <= limit) {
        return me;
    }
    uint32_t slower = 0;
    while (order[count - 1 - slower] != me) {
        slower++;
    }
    const uint32_t other = order[slower];
    return times[other] > limit ? order[0] : other;
}

rbt_status rbt_rebalance_step(const struct rbt_rebalance *rebalance, rbt_worker *worker,
                              struct rbt_hand *hand, bool *has_changed)
{
    const uint32_t me = rbt_worker_index(worker);
    *has_changed = false;
    rbt_status st = take(rebalance, worker, hand, has_changed);
    if (st == RBT_OK) {
        st = rbt_set_pull(hand->times);
    }
    if (st != RBT_OK || hand->seconds == 0.0) {
        return st;
    }
    double *times = rbt_set_values(hand->times);
    times[me] = hand->seconds;
    const uint32_t count = sort(times, rebalance->workers, hand->order);
    const uint32_t to = choose(times, hand->order, count, me);
    struct rbt_piece *own = &hand->pieces[0];
    const uint64_t amount = (uint64_t)(gift_share * (double)(own->end - own->first));
    if (to == me || amount == 0 || hand->given[to] == GIFTS_MAX) {
        return RBT_OK;
    }
    own->end -= amount;
    *has_changed = true;
    uint32_t index = me * GIFTS_MAX + hand->given[to]++;
    int64_t value = (int64_t)(own->end << 32 | amount);
    const struct rbt_elements gift = {.index = &index, .values = &value, .count = 1};
    return rbt_add_elements(worker, rebalance->gifts, to, &gift);
}

rbt_status rbt_rebalance_note(const struct rbt_rebalance *rebalance, rbt_worker *worker,
                              struct rbt_hand *hand, double seconds)
{
    const double before = hand->seconds;
    const double now = before == 0.0 ? seconds : before + smoothing * (seconds - before);
    const double change = now - before;
    hand->seconds = now;
    return change == 0.0 ? RBT_OK
                         : rbt_add(worker, rebalance->times, rbt_worker_index(worker), &change);
}
