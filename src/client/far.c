/* client/far.c - shards that are far away: the way to them has a budget of its own.
 *
 * A message has the same sequence for all shards, so both windows know of it, each with the bytes
 * that went to its side.
 *
 * A message goes to every shard. One that has rows only for near ones still costs headers on the
 * way to the others, so such messages are rare. */
#include "client/far.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "client/exchange.h"

enum {
    LONELY_PARTS = 8, /* of the budget, of which one is for messages without rows */
    SHARE_MIN = 1024, /* bytes for each shard that make it worth to send to all of them */
};

/* Whether some shard is far; fills in which. */
static bool look(const rbt_worker *worker, struct rbt_far *far)
{
    rbt_driver *driver = worker->job->driver;
    for (uint32_t i = 0; i < worker->job->shard_count; i++) {
        far->shards[i] = driver->ops->is_far(driver, worker->index, i);
        far->count += far->shards[i];
    }
    return far->count > 0;
}

rbt_status rbt_far_create(rbt_worker *worker)
{
    const rbt_job *job = worker->job;
    if (job->driver->ops->is_far == NULL || job->bandwidth == 0) {
        return RBT_OK;
    }
    struct rbt_far *far = rbt_calloc(1, sizeof *far);
    bool *shards = rbt_calloc(job->shard_count, sizeof *shards);
    if (far == NULL || shards == NULL) {
        rbt_free(far);
        rbt_free(shards);
        return rbt_fail(RBT_E_NOMEM, "could not allocate the budgets of a worker");
    }
    far->shards = shards;
    if (!look(worker, far)) {
        rbt_far_destroy(far);
        return RBT_OK;
    }
    const uint64_t rate = job->driver->ops->far_rate(job->driver, worker->index);
    struct rbt_comm_options budget = {.rate = rate / worker->process_size, .above = &worker->out};
    rbt_comm_init(&far->out, &budget, 0);
    budget.above = &worker->in;
    rbt_comm_init(&far->in, &budget, 0);
    worker->far = far;
    return RBT_OK;
}

void rbt_far_destroy(struct rbt_far *far)
{
    if (far != NULL) {
        rbt_free(far->shards);
        rbt_free(far);
    }
}

uint32_t rbt_far_shards(const rbt_worker *worker, enum rbt_side side)
{
    const uint32_t count = worker->far == NULL ? 0 : worker->far->count;
    return side == RBT_SIDE_FAR ? count : worker->job->shard_count - count;
}

struct rbt_comm *rbt_far_out(rbt_worker *worker, enum rbt_side side)
{
    return side == RBT_SIDE_FAR ? &worker->far->out : &worker->out;
}

struct rbt_comm *rbt_far_in(rbt_worker *worker, enum rbt_side side)
{
    return side == RBT_SIDE_FAR ? &worker->far->in : &worker->in;
}

void rbt_far_count_sent(rbt_worker *worker, uint32_t shard, uint64_t bytes)
{
    if (rbt_far_side(worker, shard) == RBT_SIDE_FAR) {
        worker->far->sent += bytes;
    }
}

void rbt_far_count_received(rbt_worker *worker, uint32_t shard, uint64_t bytes)
{
    if (rbt_far_side(worker, shard) == RBT_SIDE_FAR) {
        worker->far->received += bytes;
    }
}

/* Tells a chain of budgets, if there is something to tell. */
static void note(struct rbt_comm *comm, rbt_time now, uint64_t sequence, uint64_t bytes,
                 rbt_comm_class class)
{
    if (bytes > 0 || sequence != 0) {
        rbt_comm_sent(comm, now, sequence, (size_t)bytes, class);
    }
}

void rbt_far_note_sent(rbt_worker *worker, rbt_time now, uint64_t sequence, uint64_t bytes,
                       rbt_comm_class class)
{
    struct rbt_far *far = worker->far;
    if (far == NULL) {
        note(&worker->out, now, sequence, bytes, class);
        return;
    }
    const uint64_t there = far->sent - far->noted_sent;
    RBT_ASSERT(there <= bytes);
    far->noted_sent = far->sent;
    const bool has_near = far->count < worker->job->shard_count; /* else nobody acknowledges */
    note(&worker->out, now, has_near ? sequence : 0, bytes - there, class);
    note(&far->out, now, sequence, there, class);
}

void rbt_far_note_lonely(rbt_worker *worker, rbt_time now)
{
    struct rbt_far *far = worker->far;
    if (far != NULL) {
        const double bytes = (double)(far->sent - far->noted_sent);
        const double rate = far->out.options.rate > 0 ? (double)far->out.options.rate : 1.0;
        far->lonely_at = now + (rbt_time)(bytes * LONELY_PARTS / rate * 1e9);
    }
}

void rbt_far_note_received(rbt_worker *worker, rbt_time now, uint64_t bytes, rbt_comm_class class)
{
    struct rbt_far *far = worker->far;
    if (far == NULL) {
        note(&worker->in, now, 0, bytes, class);
        return;
    }
    const uint64_t there = far->received - far->noted_received;
    RBT_ASSERT(there <= bytes);
    far->noted_received = far->received;
    note(&worker->in, now, 0, bytes - there, class);
    note(&far->in, now, 0, there, class);
}

/* Numbers start at 1. */
static void acknowledge(struct rbt_comm *comm, rbt_time now, uint64_t heard)
{
    if (heard > 0) {
        rbt_comm_acknowledged(comm, now, heard);
    }
}

void rbt_far_hear(rbt_worker *worker, rbt_time now)
{
    rbt_driver *driver = worker->job->driver;
    if (worker->far == NULL) {
        acknowledge(&worker->out, now, driver->ops->heard(driver, worker->index));
        return;
    }
    acknowledge(&worker->out, now, driver->ops->heard_of(driver, worker->index, false));
    acknowledge(&worker->far->out, now, driver->ops->heard_of(driver, worker->index, true));
}

/* --- Room ------------------------------------------------------------------------------------ */

static size_t minus(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

/* A message goes to every shard, so that a small one is mostly headers: how many bytes make it
 * worth to send to so many shards. */
static size_t worth_sending(const rbt_worker *worker, size_t shards)
{
    const size_t wanted = shards * SHARE_MIN;
    const size_t most = worker->out.options.message_max / 2;
    return wanted < most ? wanted : most;
}

/* Of so many bytes, those that go far: as much of them as of what waits, so that without a limit of
 * its own a row would go when it matters, wherever it goes. */
static size_t far_part(size_t bytes, const struct rbt_room *waiting)
{
    const double far = (double)waiting->of[RBT_SIDE_FAR];
    const double all = far + (double)waiting->of[RBT_SIDE_NEAR];
    return all > 0 ? (size_t)((double)bytes * (far / all)) : 0;
}

/* What may go if some shards are far. If their budget is used up, or little waits for it, near rows
 * go alone: not if they are few, nor often, since headers without rows are an expense on a way that
 * is precious. */
static void find_room_far(rbt_worker *worker, rbt_time now, const struct rbt_room *waiting,
                          struct rbt_room *room)
{
    struct rbt_far *far = worker->far;
    const size_t least = worth_sending(worker, far->count);
    const size_t limit = rbt_comm_grant(&far->out, now);
    const size_t near = room->of[RBT_SIDE_NEAR];
    if (limit >= least && waiting->of[RBT_SIDE_FAR] >= least) {
        const size_t part = far_part(near > 0 ? near : limit, waiting);
        room->of[RBT_SIDE_FAR] = part < limit ? part : limit;
        room->of[RBT_SIDE_NEAR] = minus(near, room->of[RBT_SIDE_FAR]);
    } else if (waiting->of[RBT_SIDE_NEAR] < least || now < far->lonely_at) {
        room->of[RBT_SIDE_NEAR] = 0;
    }
}

bool rbt_far_find_room(rbt_worker *worker, rbt_time now, const struct rbt_room *waiting,
                       size_t unsent, struct rbt_room *room)
{
    const size_t headers = (size_t)worker->job->shard_count * RBT_CLIENT_MESSAGE_BYTES;
    const size_t grant = rbt_comm_grant(&worker->out, now);
    const bool is_worth_it =
        grant >= worth_sending(worker, worker->job->shard_count) && grant > headers;
    *room = (struct rbt_room){{is_worth_it ? grant : 0, 0}};
    if (worker->far != NULL && (is_worth_it || grant == 0)) { /* 0: near ones may have to wait */
        find_room_far(worker, now, waiting, room);
    }
    const bool is_some = room->of[RBT_SIDE_NEAR] + room->of[RBT_SIDE_FAR] > 0;
    room->of[RBT_SIDE_NEAR] = minus(room->of[RBT_SIDE_NEAR], headers + unsent);
    return is_some;
}
