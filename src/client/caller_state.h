/* client/caller_state.h - the inside of client/caller.h, shared by caller.c, caller_early.c and
 * caller_count.c.
 * Threads: the caller's; the mutex is held in all but the first. */
#ifndef RUBATO_CLIENT_CALLER_STATE_H
#define RUBATO_CLIENT_CALLER_STATE_H

#include "client/caller.h"

enum { RBT_CALLER_AHEAD_MAX = 48 }; /* requests ahead of their time, to one shard */

void rbt_caller_lock(struct rbt_caller *caller);
void rbt_caller_unlock(struct rbt_caller *caller);

/* Nothing works from now on; the reason is in the thread's record. And: says it again. */
void rbt_caller_fail(struct rbt_caller *caller, rbt_status status);
rbt_status rbt_caller_refuse(const struct rbt_caller *caller);

/* Gives a call what it has waited for. */
RBT_MUST_USE rbt_status rbt_caller_complete(struct rbt_caller *caller, struct rbt_driver_call *call,
                                            const struct rbt_answer *answer);

/* Asks for rows that nobody waits for; if that fails, nothing is on its way. */
void rbt_caller_request_early(struct rbt_caller *caller, struct rbt_ahead *ahead,
                              const struct rbt_driver_call *call, int64_t need);

/* Takes what has come, without waiting, unless that was done a moment ago. */
void rbt_caller_glance(struct rbt_caller *caller);

/* Tells what has gone over the wire since the last reply. */
void rbt_caller_count_bytes(struct rbt_caller *caller, struct rbt_driver_reply *reply);

/* The same of what filters have made smaller. */
void rbt_caller_count_filtered(struct rbt_caller *caller, struct rbt_driver_reply *reply);

/* The set with this number is gone: what has come early for it is dropped. */
void rbt_caller_forget_early(struct rbt_caller *caller, uint64_t subscription);

#endif
