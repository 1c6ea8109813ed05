/* core/members.c - failure detection by silence.
 *
 * Each node has the time at which it was last heard of. A silence is noticed in expire, and only
 * there: a node that speaks before anybody has looked was not silent.
 *
 * Most nodes are heard of often, and each time their silence ends later. So next_due is not kept
 * exact but early enough: it is computed when somebody looks, and only brought forward in between.
 * A look that comes too early finds nothing and computes it again.
 *
 * Invariants:
 *   (1) next_due <= the time at which the next silence is to be noticed;
 *   (2) watched_count is how many nodes are up or suspect;
 *   (3) down and left are final, until somebody new takes the place.
 *
 * Threads: none; owned by the coordinator. Memory: all of it in create.
 * Cost: O(node_count) for an expire that is due, O(1) for everything else. */
#include "core/members.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

#define SILENCE_LIMIT (RBT_TIME_NEVER / 4) /* times plus silences do not overflow */

struct node {
    rbt_time heard;
    enum rbt_member_state state;
};

struct rbt_members {
    struct node *nodes; /* node_count */
    uint32_t node_count;
    uint32_t watched_count; /* (2) */
    rbt_time suspect_after; /* as in the options */
    rbt_time down_after;    /* as in the options */
    rbt_time next_due;      /* (1) */
};

rbt_status rbt_members_create(const struct rbt_members_options *options, rbt_time now,
                              rbt_members **members)
{
    RBT_ASSERT(options->node_count > 0);
    RBT_ASSERT(options->suspect_after > 0);
    RBT_ASSERT(options->suspect_after < options->down_after);
    RBT_ASSERT(options->down_after <= SILENCE_LIMIT);
    RBT_ASSERT(now >= 0);
    RBT_ASSERT(now <= SILENCE_LIMIT);
    rbt_members *m = rbt_calloc(1, sizeof *m);
    if (m == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a list of members");
    }
    m->node_count = options->node_count;
    m->watched_count = options->is_empty ? 0 : options->node_count;
    m->suspect_after = options->suspect_after;
    m->down_after = options->down_after;
    m->next_due = now + options->suspect_after;
    m->nodes = rbt_calloc(m->node_count, sizeof *m->nodes);
    if (m->nodes == NULL) {
        rbt_members_destroy(m);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a list of %u members",
                        options->node_count);
    }
    for (uint32_t i = 0; i < m->node_count; i++) {
        m->nodes[i] = (struct node){.heard = now,
                                    .state = options->is_empty ? RBT_MEMBER_LEFT : RBT_MEMBER_UP};
    }
    *members = m;
    return RBT_OK;
}

void rbt_members_destroy(rbt_members *members)
{
    if (members == NULL) {
        return;
    }
    rbt_free(members->nodes);
    rbt_free(members);
}

static bool is_watched(const struct node *node)
{
    RBT_DEBUG_ASSERT(node->heard >= 0);
    return node->state == RBT_MEMBER_UP || node->state == RBT_MEMBER_SUSPECT;
}

/* When the silence of the node has to be noticed. */
static rbt_time due(const rbt_members *members, const struct node *node)
{
    RBT_ASSERT(node->heard <= SILENCE_LIMIT);
    switch (node->state) {
    case RBT_MEMBER_UP:
        return node->heard + members->suspect_after;
    case RBT_MEMBER_SUSPECT:
        return node->heard + members->down_after;
    case RBT_MEMBER_DOWN:
    case RBT_MEMBER_LEFT:
        return RBT_TIME_NEVER;
    }
    RBT_UNREACHABLE();
}

/* (1) and (2). */
static bool invariants_hold(const rbt_members *members)
{
    uint32_t watched = 0;
    for (uint32_t i = 0; i < members->node_count; i++) {
        watched += is_watched(&members->nodes[i]);
        if (due(members, &members->nodes[i]) < members->next_due) {
            return false;
        }
    }
    return watched == members->watched_count;
}

static void emit(const rbt_members *members, uint32_t node, struct rbt_members_outbox *out)
{
    RBT_ASSERT(out->effects != NULL);
    RBT_ASSERT(out->count < 2 * (size_t)members->node_count);
    out->effects[out->count++] =
        (struct rbt_member_effect){.node = node, .state = members->nodes[node].state};
}

void rbt_members_hear(rbt_members *members, uint32_t node, rbt_time now,
                      struct rbt_members_outbox *out)
{
    RBT_ASSERT(node < members->node_count);
    RBT_ASSERT(now <= SILENCE_LIMIT);
    struct node *n = &members->nodes[node];
    if (!is_watched(n)) {
        return; /* (3) */
    }
    RBT_ASSERT(now >= n->heard); /* time does not go back */
    n->heard = now;
    if (n->state == RBT_MEMBER_SUSPECT) {
        n->state = RBT_MEMBER_UP;
        emit(members, node, out);
        /* It may be suspected again before the others: a suspect is looked at later. */
        const rbt_time next = due(members, n);
        members->next_due = next < members->next_due ? next : members->next_due;
    }
    RBT_ASSERT(members->next_due <= due(members, n)); /* (1) */
}

void rbt_members_leave(rbt_members *members, uint32_t node)
{
    RBT_ASSERT(node < members->node_count);
    struct node *n = &members->nodes[node];
    if (!is_watched(n)) {
        return; /* (3) */
    }
    RBT_ASSERT(members->watched_count > 0);
    n->state = RBT_MEMBER_LEFT;
    members->watched_count--;
    RBT_DEBUG_ASSERT(invariants_hold(members));
    (void)invariants_hold; /* used by debug builds */
}

void rbt_members_enter(rbt_members *members, uint32_t node, rbt_time now)
{
    RBT_ASSERT(node < members->node_count);
    RBT_ASSERT(now >= 0);
    RBT_ASSERT(now <= SILENCE_LIMIT);
    struct node *n = &members->nodes[node];
    RBT_ASSERT(!is_watched(n));
    *n = (struct node){.heard = now, .state = RBT_MEMBER_UP};
    members->watched_count++;
    const rbt_time next = due(members, n);
    members->next_due = next < members->next_due ? next : members->next_due;
    RBT_DEBUG_ASSERT(invariants_hold(members));
}

/* A silence that was noticed late may have two stages at once; both are told. */
static void look(rbt_members *members, uint32_t node, rbt_time now, struct rbt_members_outbox *out)
{
    struct node *n = &members->nodes[node];
    if (n->state == RBT_MEMBER_UP && due(members, n) <= now) {
        n->state = RBT_MEMBER_SUSPECT;
        emit(members, node, out);
    }
    if (n->state == RBT_MEMBER_SUSPECT && due(members, n) <= now) {
        n->state = RBT_MEMBER_DOWN;
        RBT_ASSERT(members->watched_count > 0);
        members->watched_count--;
        emit(members, node, out);
    }
    RBT_ASSERT(due(members, n) > now);
}

void rbt_members_expire(rbt_members *members, rbt_time now, struct rbt_members_outbox *out)
{
    RBT_ASSERT(now >= 0);
    if (now < members->next_due) {
        return;
    }
    rbt_time next_due = RBT_TIME_NEVER;
    for (uint32_t i = 0; i < members->node_count; i++) {
        look(members, i, now, out);
        const rbt_time next = due(members, &members->nodes[i]);
        next_due = next < next_due ? next : next_due;
    }
    members->next_due = next_due;
    RBT_ASSERT(now < members->next_due);
    RBT_DEBUG_ASSERT(invariants_hold(members));
}

rbt_time rbt_members_deadline(const rbt_members *members)
{
    RBT_ASSERT(members->watched_count <= members->node_count);
    RBT_DEBUG_ASSERT(invariants_hold(members));
    return members->watched_count == 0 ? RBT_TIME_NEVER : members->next_due;
}

enum rbt_member_state rbt_members_state(const rbt_members *members, uint32_t node)
{
    RBT_ASSERT(node < members->node_count);
    return members->nodes[node].state;
}
