/* core/aggregator.c - which updates of neighbours go on together, and when.
 *
 * For each shard there are a few groups: the parts of one clock. A group is open until it is sent,
 * and then kept until the shard has answered, in case it refuses; so that nothing grows, a group
 * that was sent is given up for a new one, and if all are open the one of the lowest clock is sent.
 * Groups of a shard are sent in the order of their clocks: a worker's messages must arrive in
 * order.
 *
 * Who is awaited: every member, until it has kept the others waiting in vain; from then on it is
 * left out until it is in time again. "In time" is judged by the clock of the first part of its
 * group and not by whether the group is still there, or a member that is always the last by a
 * little would be left out for good. So members that are gone, that are slow, or that send straight
 * to the shard cost the others one wait, not one per clock.
 *
 * Invariants:
 *   (1) open groups of a shard have different clocks, all >= the shard's `sent`;
 *   (2) a group that is open or sent has at least one part, and none has two of a member;
 *   (3) no open group of the lowest clock is complete: what can go has gone;
 *   (4) no part waits longer than options.wait, if the driver is on time.
 *
 * Threads: none. Memory: all of it in create. Cost: O(members) per part, O(shards) per deadline. */
#include "core/aggregator.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { GROUPS = 8 }; /* per shard */

enum group_state {
    FREE,
    OPEN,
    SENT, /* and not answered */
};

struct group {
    enum group_state state;
    int64_t clock;
    rbt_time deadline;
    uint64_t id; /* SENT */
    uint32_t count;
    uint64_t *cookies; /* per member; 0: has not come */
};

struct member {
    bool is_awaited;
    int64_t completed; /* clocks whose parts have come, one way or the other */
};

struct shard {
    struct group groups[GROUPS];
    int64_t sent;           /* groups of clocks < this are sent */
    rbt_time sent_deadline; /* of the last of them */
    struct member *members;
};

struct rbt_aggregator {
    struct rbt_aggregator_options options;
    struct shard *shards;
    uint64_t *cookies;      /* (shards, GROUPS, members) */
    struct member *members; /* (shards, members) */
    uint64_t last_id;
};

static void clear_members(const rbt_aggregator *aggregator, struct shard *shard)
{
    RBT_ASSERT(shard->members != NULL);
    RBT_ASSERT(shard->members >= aggregator->members);
    for (uint32_t i = 0; i < aggregator->options.member_count; i++) {
        shard->members[i] = (struct member){.is_awaited = true};
    }
    shard->sent = 0;
    shard->sent_deadline = 0;
}

rbt_status rbt_aggregator_create(const struct rbt_aggregator_options *options,
                                 rbt_aggregator **aggregator)
{
    RBT_ASSERT(options->member_count > 0);
    RBT_ASSERT(options->shard_count > 0);
    RBT_ASSERT(options->wait >= 0);
    const size_t members = options->member_count;
    const size_t shards = options->shard_count;
    rbt_aggregator *a = rbt_calloc(1, sizeof *a);
    if (a == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate an aggregator");
    }
    a->options = *options;
    a->shards = rbt_calloc(shards, sizeof *a->shards);
    a->cookies = rbt_calloc(shards * GROUPS * members, sizeof *a->cookies);
    a->members = rbt_calloc(shards * members, sizeof *a->members);
    if (a->shards == NULL || a->cookies == NULL || a->members == NULL) {
        rbt_aggregator_destroy(a);
        return rbt_fail(RBT_E_NOMEM, "could not allocate an aggregator for %u workers",
                        options->member_count);
    }
    for (size_t i = 0; i < shards; i++) {
        a->shards[i].members = a->members + i * members;
        clear_members(a, &a->shards[i]);
        for (size_t k = 0; k < GROUPS; k++) {
            a->shards[i].groups[k].cookies = a->cookies + (i * GROUPS + k) * members;
        }
    }
    *aggregator = a;
    return RBT_OK;
}

void rbt_aggregator_destroy(rbt_aggregator *aggregator)
{
    if (aggregator == NULL) {
        return;
    }
    RBT_ASSERT(aggregator->options.member_count > 0);
    RBT_ASSERT(aggregator->options.shard_count > 0);
    rbt_free(aggregator->members);
    rbt_free(aggregator->cookies);
    rbt_free(aggregator->shards);
    rbt_free(aggregator);
}

/* Every group may be sent and given up, and one more that was opened in between: TAKE and RELEASE
 * for each part, and SEND. One part is kept or forwarded. */
size_t rbt_aggregator_effects_max(const rbt_aggregator *aggregator)
{
    RBT_ASSERT(aggregator->options.member_count > 0);
    return (GROUPS + 1) * (2 * (size_t)aggregator->options.member_count + 1) + 1;
}

static void emit(struct rbt_aggregator_outbox *out, enum rbt_aggregator_effect_kind kind,
                 uint32_t shard, uint64_t cookie)
{
    RBT_ASSERT(cookie != 0);
    RBT_ASSERT(out->effects != NULL);
    RBT_ASSERT(kind != RBT_AGGREGATOR_SEND);
    out->effects[out->count++] =
        (struct rbt_aggregator_effect){.kind = kind, .shard = shard, .cookie = cookie};
}

/* The same effect for every part of a group, in the order of members. */
static void emit_all(const rbt_aggregator *aggregator, uint32_t shard, const struct group *group,
                     enum rbt_aggregator_effect_kind kind, struct rbt_aggregator_outbox *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < aggregator->options.member_count; i++) {
        if (group->cookies[i] != 0) {
            emit(out, kind, shard, group->cookies[i]);
            count++;
        }
    }
    RBT_ASSERT(count == group->count);
    RBT_ASSERT(count > 0); /* (2) */
}

/* Lets go of a group, which is then free. */
static void release(const rbt_aggregator *aggregator, uint32_t shard, struct group *group,
                    struct rbt_aggregator_outbox *out)
{
    RBT_ASSERT(group->state != FREE);
    RBT_ASSERT(shard < aggregator->options.shard_count);
    emit_all(aggregator, shard, group, RBT_AGGREGATOR_RELEASE, out);
    memset(group->cookies, 0, aggregator->options.member_count * sizeof *group->cookies);
    *group = (struct group){.state = FREE, .cookies = group->cookies};
}

/* Sends a group. There is nobody to ask about a single part: its worker hears from the shard. */
static void send(rbt_aggregator *aggregator, uint32_t index, struct group *group,
                 struct rbt_aggregator_outbox *out)
{
    struct shard *shard = &aggregator->shards[index];
    RBT_ASSERT(group->state == OPEN);
    RBT_ASSERT(group->clock >= shard->sent); /* (1) */
    shard->sent = group->clock + 1;
    shard->sent_deadline = group->deadline;
    group->state = SENT;
    group->id = ++aggregator->last_id;
    emit_all(aggregator, index, group, RBT_AGGREGATOR_TAKE, out);
    out->effects[out->count++] = (struct rbt_aggregator_effect){
        .kind = RBT_AGGREGATOR_SEND, .shard = index, .id = group->id};
    if (group->count == 1) {
        release(aggregator, index, group, out);
    }
}

/* The open group of the lowest clock, or NULL. */
static struct group *first_open(struct shard *shard)
{
    struct group *first = NULL;
    for (size_t i = 0; i < GROUPS; i++) {
        struct group *group = &shard->groups[i];
        if (group->state == OPEN && (first == NULL || group->clock < first->clock)) {
            first = group;
        }
    }
    RBT_ASSERT(first == NULL || first->count > 0);            /* (2) */
    RBT_ASSERT(first == NULL || first->clock >= shard->sent); /* (1) */
    return first;
}

/* The group of the clock in this state, or NULL. */
static struct group *find(struct shard *shard, enum group_state state, int64_t clock)
{
    RBT_ASSERT(state != FREE);
    RBT_ASSERT(clock >= 0);
    for (size_t i = 0; i < GROUPS; i++) {
        if (shard->groups[i].state == state && shard->groups[i].clock == clock) {
            return &shard->groups[i];
        }
    }
    return NULL;
}

/* A member that has sent something later need not be waited for: its part is lost, or took another
 * way. */
static bool is_missing(const struct shard *shard, const struct group *group, uint32_t member)
{
    RBT_ASSERT(group->state == OPEN);
    RBT_ASSERT(group->cookies[member] == 0 || shard->members[member].completed > group->clock);
    return shard->members[member].is_awaited && group->cookies[member] == 0 &&
           shard->members[member].completed <= group->clock;
}

static bool is_complete(const rbt_aggregator *aggregator, const struct shard *shard,
                        const struct group *group)
{
    RBT_ASSERT(group->state == OPEN);
    RBT_ASSERT(group->count > 0); /* (2) */
    for (uint32_t i = 0; i < aggregator->options.member_count; i++) {
        if (is_missing(shard, group, i)) {
            return false;
        }
    }
    return true;
}

/* Sends whatever is complete, lowest clocks first. (3) */
static void settle(rbt_aggregator *aggregator, uint32_t index, struct rbt_aggregator_outbox *out)
{
    struct shard *shard = &aggregator->shards[index];
    struct group *group = first_open(shard);
    while (group != NULL && is_complete(aggregator, shard, group)) { /* ends: one less each time */
        send(aggregator, index, group, out);
        group = first_open(shard);
    }
    RBT_ASSERT(group == NULL || group->clock >= shard->sent); /* (1) */
    RBT_ASSERT(group == NULL || group->count < aggregator->options.member_count);
}

/* A group that can be used: a free one, that which was sent first, or the lowest, which is sent. */
static struct group *make_room(rbt_aggregator *aggregator, uint32_t index,
                               struct rbt_aggregator_outbox *out)
{
    struct shard *shard = &aggregator->shards[index];
    struct group *oldest = NULL;
    for (size_t i = 0; i < GROUPS; i++) {
        struct group *group = &shard->groups[i];
        if (group->state == FREE) {
            return group;
        }
        if (group->state == SENT && (oldest == NULL || group->id < oldest->id)) {
            oldest = group;
        }
    }
    if (oldest == NULL) {
        oldest = first_open(shard);
        send(aggregator, index, oldest, out);
    }
    if (oldest->state == SENT) {
        release(aggregator, index, oldest, out);
    }
    RBT_ASSERT(oldest->state == FREE);
    RBT_ASSERT(oldest->count == 0);
    return oldest;
}

/* Whether the part came before its group had to be sent without it. */
static bool was_in_time(const struct shard *shard, int64_t clock, rbt_time now)
{
    RBT_ASSERT(clock < shard->sent);
    return clock + 1 == shard->sent && now <= shard->sent_deadline;
}

/* The part's group has gone: the part goes by itself, unless it went with the group. */
static void add_late(struct shard *shard, const struct rbt_aggregator_part *part, rbt_time now,
                     struct rbt_aggregator_outbox *out)
{
    RBT_ASSERT(part->clock < shard->sent);
    RBT_ASSERT(find(shard, OPEN, part->clock) == NULL); /* (1) */
    const struct group *sent = find(shard, SENT, part->clock);
    if (sent != NULL && sent->cookies[part->member] != 0) {
        return;
    }
    struct member *member = &shard->members[part->member];
    if (member->completed <= part->clock) { /* no repetition of an earlier one */
        member->is_awaited = was_in_time(shard, part->clock, now);
        member->completed = part->clock + 1;
    }
    emit(out, RBT_AGGREGATOR_FORWARD, part->shard, part->cookie);
}

void rbt_aggregator_add(rbt_aggregator *aggregator, const struct rbt_aggregator_part *part,
                        rbt_time now, struct rbt_aggregator_outbox *out)
{
    RBT_ASSERT(part->shard < aggregator->options.shard_count);
    RBT_ASSERT(part->member < aggregator->options.member_count);
    RBT_ASSERT(part->clock >= 0);
    RBT_ASSERT(part->cookie != 0);
    struct shard *shard = &aggregator->shards[part->shard];
    if (part->clock < shard->sent) {
        add_late(shard, part, now, out);
        return;
    }
    struct group *group = find(shard, OPEN, part->clock);
    if (group != NULL && group->cookies[part->member] != 0) {
        return; /* a repetition */
    }
    if (group == NULL) {
        group = make_room(aggregator, part->shard, out);
        if (part->clock < shard->sent) { /* to make room a later clock was sent */
            add_late(shard, part, now, out);
            return;
        }
        group->state = OPEN;
        group->clock = part->clock;
        group->deadline = now + aggregator->options.wait;
    }
    struct member *member = &shard->members[part->member];
    RBT_ASSERT(group->clock == part->clock);
    RBT_ASSERT(group->deadline - now <= aggregator->options.wait); /* (4) */
    group->cookies[part->member] = part->cookie;
    group->count++;
    member->is_awaited = true;
    member->completed = member->completed > part->clock ? member->completed : part->clock + 1;
    emit(out, RBT_AGGREGATOR_KEEP, part->shard, part->cookie);
    settle(aggregator, part->shard, out);
    RBT_ASSERT(out->count <= rbt_aggregator_effects_max(aggregator));
}

void rbt_aggregator_answered(rbt_aggregator *aggregator, uint32_t shard, uint64_t id,
                             bool is_refused, struct rbt_aggregator_outbox *out)
{
    RBT_ASSERT(shard < aggregator->options.shard_count);
    for (size_t i = 0; i < GROUPS; i++) {
        struct group *group = &aggregator->shards[shard].groups[i];
        if (group->state == SENT && group->id == id) {
            if (is_refused) {
                emit_all(aggregator, shard, group, RBT_AGGREGATOR_FORWARD, out);
            }
            RBT_ASSERT(group->count > 1); /* single ones are not kept */
            release(aggregator, shard, group, out);
            return;
        }
    }
}

/* The open group that is due first, or NULL. */
static struct group *first_due(struct shard *shard)
{
    struct group *due = NULL;
    for (size_t i = 0; i < GROUPS; i++) {
        struct group *group = &shard->groups[i];
        if (group->state == OPEN && (due == NULL || group->deadline < due->deadline)) {
            due = group;
        }
    }
    RBT_ASSERT(due == NULL || due->count > 0); /* (2) */
    RBT_ASSERT(due == NULL || due->clock >= shard->sent);
    return due;
}

rbt_time rbt_aggregator_deadline(const rbt_aggregator *aggregator)
{
    RBT_ASSERT(aggregator->shards != NULL);
    rbt_time deadline = RBT_TIME_NEVER;
    for (uint32_t i = 0; i < aggregator->options.shard_count; i++) {
        const struct group *due = first_due(&aggregator->shards[i]);
        deadline = due != NULL && due->deadline < deadline ? due->deadline : deadline;
    }
    return deadline;
}

/* Sends the shard's groups up to this clock; who is missing is no longer awaited. */
static void send_up_to(rbt_aggregator *aggregator, uint32_t index, int64_t clock,
                       struct rbt_aggregator_outbox *out)
{
    struct shard *shard = &aggregator->shards[index];
    struct group *group = first_open(shard);
    while (group != NULL && group->clock <= clock) { /* ends: one less each time */
        for (uint32_t i = 0; i < aggregator->options.member_count; i++) {
            if (is_missing(shard, group, i)) {
                shard->members[i].is_awaited = false;
            }
        }
        send(aggregator, index, group, out);
        group = first_open(shard);
    }
    RBT_ASSERT(shard->sent > clock);
    RBT_ASSERT(group == NULL || group->clock > clock);
}

void rbt_aggregator_expire(rbt_aggregator *aggregator, rbt_time now,
                           struct rbt_aggregator_outbox *out)
{
    RBT_ASSERT(out->effects != NULL);
    RBT_ASSERT(now >= 0);
    for (uint32_t i = 0; i < aggregator->options.shard_count; i++) {
        const struct group *due = first_due(&aggregator->shards[i]);
        if (due != NULL && due->deadline <= now) {
            send_up_to(aggregator, i, due->clock, out);
            settle(aggregator, i, out);
            RBT_ASSERT(out->count <= rbt_aggregator_effects_max(aggregator));
            return;
        }
    }
}

void rbt_aggregator_forget(rbt_aggregator *aggregator, uint32_t shard,
                           struct rbt_aggregator_outbox *out)
{
    RBT_ASSERT(shard < aggregator->options.shard_count);
    for (size_t i = 0; i < GROUPS; i++) {
        struct group *group = &aggregator->shards[shard].groups[i];
        if (group->state == OPEN) {
            emit_all(aggregator, shard, group, RBT_AGGREGATOR_TAKE, out);
        }
        if (group->state != FREE) {
            release(aggregator, shard, group, out);
        }
    }
    clear_members(aggregator, &aggregator->shards[shard]);
    RBT_ASSERT(first_open(&aggregator->shards[shard]) == NULL);
}
