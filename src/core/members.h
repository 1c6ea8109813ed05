/* core/members.h - who is there: nodes that have not been heard of for a while are suspected, then
 * given up.
 *
 * Whoever has been given up stays so: what it sends later is refused elsewhere, so that nobody acts
 * on a node that others have stopped waiting for. Only its place may be taken by somebody new. */
#ifndef RUBATO_CORE_MEMBERS_H
#define RUBATO_CORE_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"

typedef struct rbt_members rbt_members;

enum rbt_member_state {
    RBT_MEMBER_UP,
    RBT_MEMBER_SUSPECT,
    RBT_MEMBER_DOWN,
    RBT_MEMBER_LEFT, /* said goodbye; not watched any more */
};

struct rbt_members_options {
    uint32_t node_count;
    rbt_time suspect_after; /* silence */
    rbt_time down_after;    /* silence; more than suspect_after */
    bool is_empty;          /* nobody is there at first: see rbt_members_enter() */
};

struct rbt_member_effect {
    uint32_t node;
    enum rbt_member_state state; /* its new one */
};

struct rbt_members_outbox {
    struct rbt_member_effect *effects; /* room for 2 * node_count */
    size_t count;                      /* the caller sets it to 0 */
};

/* All nodes are up, heard of at `now`, unless the list is empty at first. */
RBT_MUST_USE rbt_status rbt_members_create(const struct rbt_members_options *options, rbt_time now,
                                           rbt_members **members);
void rbt_members_destroy(rbt_members *members);

/* The node has been heard of; a suspect is up again. Ignored for nodes that are down or left. */
void rbt_members_hear(rbt_members *members, uint32_t node, rbt_time now,
                      struct rbt_members_outbox *out);

/* The node has ended its work. Ignored for nodes that are down: that is final. */
void rbt_members_leave(rbt_members *members, uint32_t node);

/* Somebody new takes the place of a node that is down or left: it is up, heard of at `now`. */
void rbt_members_enter(rbt_members *members, uint32_t node, rbt_time now);

/* Notices silence: SUSPECT, then DOWN, each once per silence; in order of the nodes. If it comes so
 * late that a node is to be suspected and given up, it adds both. */
void rbt_members_expire(rbt_members *members, rbt_time now, struct rbt_members_outbox *out);

/* When the next silence may have to be noticed; RBT_TIME_NEVER if nobody is watched. It may come
 * too early: then an expire finds nothing, and the deadline after it is later. */
rbt_time rbt_members_deadline(const rbt_members *members);

enum rbt_member_state rbt_members_state(const rbt_members *members, uint32_t node);

#endif
