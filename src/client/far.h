/* client/far.h - shards that are far away: the way to them has a budget of its own.
 *
 * Such as those in another rack. What goes to them early must fit into that budget and into the
 * worker's; what goes to the others only into the worker's. Each side has a window of its own, so
 * that a way that is full does not hold up what need not go there.
 *
 * Threads: a worker's own. */
#ifndef RUBATO_CLIENT_FAR_H
#define RUBATO_CLIENT_FAR_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

struct rbt_far {
    struct rbt_comm out; /* below the worker's, which are above them */
    struct rbt_comm in;
    bool *shards;                        /* (shard_count): whether each is far */
    uint32_t count;                      /* how many are */
    uint64_t sent, received;             /* bytes so far, headers included */
    uint64_t noted_sent, noted_received; /* of these, `out` and `in` know */
    rbt_time lonely_at; /* not before this do messages go that bring far shards no rows */
};

/* Makes the worker's, if some shards are far from it; its own budgets are there. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_far_create(rbt_worker *worker);
void rbt_far_destroy(struct rbt_far *far); /* accepts NULL */

/* Which side of a worker a shard is on. */
static inline enum rbt_side rbt_far_side(const rbt_worker *worker, uint32_t shard)
{
    return worker->far != NULL && worker->far->shards[shard] ? RBT_SIDE_FAR : RBT_SIDE_NEAR;
}

/* How many shards are on that side. */
uint32_t rbt_far_shards(const rbt_worker *worker, enum rbt_side side);

/* The budgets of what goes to that side, and of what comes from there. */
struct rbt_comm *rbt_far_out(rbt_worker *worker, enum rbt_side side);
struct rbt_comm *rbt_far_in(rbt_worker *worker, enum rbt_side side);

/* So many bytes have gone to the shard, or come from it. */
void rbt_far_count_sent(rbt_worker *worker, uint32_t shard, uint64_t bytes);
void rbt_far_count_received(rbt_worker *worker, uint32_t shard, uint64_t bytes);

/* Tells the budgets what has gone since they were last told, `bytes` in all. `sequence` and `class`
 * are as for rbt_comm_sent(). */
void rbt_far_note_sent(rbt_worker *worker, rbt_time now, uint64_t sequence, uint64_t bytes,
                       rbt_comm_class class);
void rbt_far_note_received(rbt_worker *worker, rbt_time now, uint64_t bytes, rbt_comm_class class);

/* What goes now, and has not been noted yet, has no rows for far shards: such messages get an
 * eighth of the budget. */
void rbt_far_note_lonely(rbt_worker *worker, rbt_time now);

/* How much may go, by where it goes: rows or bytes. */
struct rbt_room {
    size_t of[RBT_SIDES];
};

/* What the budgets allow to go, besides headers and `unsent` bytes that go with it; false if that
 * is not worth a message. `waiting` is how much there is to go. */
bool rbt_far_find_room(rbt_worker *worker, rbt_time now, const struct rbt_room *waiting,
                       size_t unsent, struct rbt_room *room);

/* Tells them what has been acknowledged. */
void rbt_far_hear(rbt_worker *worker, rbt_time now);

#endif
