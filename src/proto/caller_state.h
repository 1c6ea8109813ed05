/* proto/caller_state.h - the inside of proto/caller.h, shared by caller.c and caller_early.c.
 * Threads: the caller's. */
#ifndef RUBATO_PROTO_CALLER_STATE_H
#define RUBATO_PROTO_CALLER_STATE_H

#include "proto/caller.h"

enum { RBT_CALLER_PREFETCH_MAX = 48 }; /* requests ahead of their time, to one shard */

/* Gives a call what it has waited for. */
RBT_MUST_USE rbt_status rbt_caller_complete(struct rbt_caller *caller, struct rbt_driver_call *call,
                                            const struct rbt_answer *answer);

/* Asks for rows that nobody waits for; if that fails, nothing is on its way. */
void rbt_caller_request_early(struct rbt_caller *caller, struct rbt_prefetch *prefetch,
                              const struct rbt_driver_call *call, int64_t need);

/* The set with this number is gone: what has come early for it is dropped. */
void rbt_caller_forget_early(struct rbt_caller *caller, uint64_t subscription);

#endif
