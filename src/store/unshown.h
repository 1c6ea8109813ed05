/* store/unshown.h - which messages of a worker have updates that a shard holds and does not show
 * yet.
 *
 * All messages up to the one before the first of these are shown in all tables: the worker may
 * forget them, and may not forget others. Only the shard knows; how stale reads may be can change
 * while a worker has not heard of it.
 *
 * Invariants, for each worker: sequences increase from the first to the last; each has a count
 * above zero, but for some between the first and the last.
 *
 * Threads: none; the shard's. Memory: grows with what one worker has held at a time, and stays.
 * Cost: O(1) to add and for the first; O(log n) to remove one of n. */
#ifndef RUBATO_STORE_UNSHOWN_H
#define RUBATO_STORE_UNSHOWN_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

struct rbt_unshown_message {
    uint64_t sequence;
    uint64_t count; /* of held updates */
};

struct rbt_unshown_worker {
    struct rbt_unshown_message *messages;
    size_t first;
    size_t end; /* behind the last */
    size_t max;
};

struct rbt_unshown {
    struct rbt_unshown_worker *workers; /* (worker_count) */
    uint32_t worker_count;
};

/* Fails with RBT_E_NOMEM. What has failed, or is all zeros, may be given to deinit. */
RBT_MUST_USE rbt_status rbt_unshown_init(struct rbt_unshown *unshown, uint32_t worker_count);
void rbt_unshown_deinit(struct rbt_unshown *unshown);

/* Makes room, so that the next rbt_unshown_add() of the worker cannot fail. Fails with
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_unshown_reserve(struct rbt_unshown *unshown, uint32_t worker);

/* One more update of the message is held; no later message of the worker has one. */
void rbt_unshown_add(struct rbt_unshown *unshown, uint32_t worker, uint64_t sequence);

/* One update of the message that was held is not held any more. */
void rbt_unshown_remove(struct rbt_unshown *unshown, uint32_t worker, uint64_t sequence);

/* The first message with an update that is held; 0: there is none. */
uint64_t rbt_unshown_first(const struct rbt_unshown *unshown, uint32_t worker);

#endif
