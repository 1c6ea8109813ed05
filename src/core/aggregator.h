/* core/aggregator.h - which updates of neighbours go on together, and when.
 *
 * An aggregator stands between some workers, its members, and shards that are far from all of them.
 * A member sends it the message that ends a clock, one for each shard: a part. Parts of the same
 * clock for the same shard are kept until all members that are awaited have sent theirs, or until
 * the first of them has waited for long enough; then they go on as one push with their sum.
 *
 * It promises nothing to anybody: whoever has sent a part repeats it, straight to the shard, until
 * the shard has acknowledged it. So it may lose everything at any time. The shard takes a push of
 * several parts only as a whole; if it has some of them already, or lacks a message before one, it
 * refuses, and the parts are sent on one by one.
 *
 *     rbt_aggregator_add(aggregator, &part, now, &out);   // KEEP; or TAKE, TAKE, SEND
 *     rbt_aggregator_answered(aggregator, shard, id, is_refused, &out);
 *     while (rbt_aggregator_deadline(aggregator) <= now) {
 *         rbt_aggregator_expire(aggregator, now, &out);
 *     }
 */
#ifndef RUBATO_CORE_AGGREGATOR_H
#define RUBATO_CORE_AGGREGATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"

typedef struct rbt_aggregator rbt_aggregator;

struct rbt_aggregator_options {
    uint32_t member_count;
    uint32_t shard_count;
    rbt_time wait; /* a part waits no longer than that for those of other members */
};

/* The message with which a member ends a clock, for one shard. */
struct rbt_aggregator_part {
    uint32_t shard;
    uint32_t member;
    int64_t clock;
    uint64_t cookie; /* the driver's name for it; not 0 */
};

enum rbt_aggregator_effect_kind {
    RBT_AGGREGATOR_KEEP,    /* the part waits here; the driver keeps it until RELEASE */
    RBT_AGGREGATOR_TAKE,    /* it no longer waits: it is the next part of what is sent */
    RBT_AGGREGATOR_SEND,    /* send the parts taken since the last SEND, as one push with this id; a
                               single one as it is */
    RBT_AGGREGATOR_FORWARD, /* send this part as it is; it may or may not be kept */
    RBT_AGGREGATOR_RELEASE, /* it is no longer needed */
};

struct rbt_aggregator_effect {
    enum rbt_aggregator_effect_kind kind;
    uint32_t shard;
    uint64_t cookie; /* all but SEND */
    uint64_t id;     /* SEND */
};

struct rbt_aggregator_outbox {
    struct rbt_aggregator_effect *effects; /* room for rbt_aggregator_effects_max() */
    size_t count;                          /* the caller sets it to 0 */
};

/* Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_aggregator_create(const struct rbt_aggregator_options *options,
                                              rbt_aggregator **aggregator);
void rbt_aggregator_destroy(rbt_aggregator *aggregator);

/* The most effects of one call. */
size_t rbt_aggregator_effects_max(const rbt_aggregator *aggregator);

/* A part has come. Without any effect it is a repetition of one that is kept. `now` never
 * decreases. */
void rbt_aggregator_add(rbt_aggregator *aggregator, const struct rbt_aggregator_part *part,
                        rbt_time now, struct rbt_aggregator_outbox *out);

/* The shard has taken the push with this id, or refused it; older news is ignored. */
void rbt_aggregator_answered(rbt_aggregator *aggregator, uint32_t shard, uint64_t id,
                             bool is_refused, struct rbt_aggregator_outbox *out);

/* When a part has waited for long enough, or RBT_TIME_NEVER. */
rbt_time rbt_aggregator_deadline(const rbt_aggregator *aggregator);

/* Sends what is due to one shard; nothing if there is nothing due. */
void rbt_aggregator_expire(rbt_aggregator *aggregator, rbt_time now,
                           struct rbt_aggregator_outbox *out);

/* Everything about the shard is lost: TAKE and RELEASE for what is kept, without a SEND. */
void rbt_aggregator_forget(rbt_aggregator *aggregator, uint32_t shard,
                           struct rbt_aggregator_outbox *out);

#endif
