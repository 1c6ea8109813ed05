/* proto/membership_bound.h - a member and the staleness of its job; the inside of membership.c and
 * membership_bound.c. Threads and memory: see membership.h. */
#ifndef RUBATO_PROTO_MEMBERSHIP_BOUND_H
#define RUBATO_PROTO_MEMBERSHIP_BOUND_H

#include "proto/membership.h"

/* --- membership_bound.c ---------------------------------------------------------------------- */

/* BOUND: it is to be said. */
void rbt_membership_tell_bound(struct rbt_membership *m, const struct rbt_membership_event *event);

/* Says what is to be said; somebody is there to hear it. */
void rbt_membership_say_bounds(struct rbt_membership *m, struct rbt_membership_out *out);

/* The coordinator says that the staleness has changed; that all have taken what we have told. */
RBT_MUST_USE rbt_status rbt_membership_hear_bound(struct rbt_membership *m, uint64_t number,
                                                  struct rbt_wire_cursor body,
                                                  struct rbt_membership_out *out);
RBT_MUST_USE rbt_status rbt_membership_hear_taken(struct rbt_membership *m, uint64_t number,
                                                  struct rbt_wire_cursor body,
                                                  struct rbt_membership_out *out);

/* --- membership.c ---------------------------------------------------------------------------- */

/* A block for `bytes`, which it counts as written; NULL without memory. And: sends it, which takes
 * it; NULL makes the membership fail. */
struct rbt_block *rbt_membership_block(size_t bytes);
void rbt_membership_send(struct rbt_membership *m, struct rbt_block *block,
                         struct rbt_membership_out *out);

#endif
