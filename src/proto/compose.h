/* proto/compose.h - a worker's events as messages: blocks that lack nothing but their header.
 *
 * Keys of lists that are used again and again are sent once on each stream, before the first
 * message that needs them, and named from then on. Threads: the caller's. */
#ifndef RUBATO_PROTO_COMPOSE_H
#define RUBATO_PROTO_COMPOSE_H

#include <rubato/export.h>
#include <rubato/status.h>

#include "proto/caller.h"

/* Each makes a block with one reference. Fail with RBT_E_NOMEM, and with RBT_E_INVALID if it is
 * more than a message holds. */
/* The values of a push may stay where the event has them: they must not change until the block has
 * been let go, or rbt_block_own() was called. */
RBT_MUST_USE rbt_status rbt_compose_push(struct rbt_caller *caller, uint32_t shard,
                                         const struct rbt_shard_event *event,
                                         struct rbt_block **block);
/* `is_early`: nobody waits for it yet. */
RBT_MUST_USE rbt_status rbt_compose_pull(struct rbt_caller *caller, struct rbt_stream *stream,
                                         const struct rbt_shard_event *event, bool is_early,
                                         struct rbt_block **block);
RBT_MUST_USE rbt_status rbt_compose_scan(const struct rbt_caller *caller,
                                         const struct rbt_shard_event *event,
                                         struct rbt_block **block);

/* Whether the keys of a PULL need not be sent again every time, or are few. */
bool rbt_compose_is_cheap(const struct rbt_caller *caller, const struct rbt_stream *stream,
                          const struct rbt_shard_event *event);

/* Whether the answer to a PULL has a stamp. */
bool rbt_compose_wants_stamp(const struct rbt_caller *caller, const struct rbt_shard_event *event);

/* Where the rows of a PULL may be put as they come: if they are many and lie side by side. */
struct rbt_frame_place rbt_compose_place(const struct rbt_caller *caller,
                                         const struct rbt_shard_event *event);

#endif
