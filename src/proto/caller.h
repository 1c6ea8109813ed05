/* proto/caller.h - one worker's way to all shards, without connections: a stream to each, calls
 * that wait for answers, and rows that were asked for ahead of their time.
 *
 * Updates are sent and not waited for, but when too much is unacknowledged the worker is told to
 * wait (rbt_caller_may_go_on()): a slow server slows its senders. Requests go out to all shards at
 * once.
 *
 * Rows of eager tables are asked for ahead: when an answer has been used, the next request for the
 * same rows leaves at once and asks for more than there is. The shard answers when everybody has
 * finished another clock, and usually the rows are there before they are wanted.
 *
 * Whatever a function wants done is in the outbox when it returns; ports are numbers of shards. Its
 * carrier does that, says what happens, and waits until the caller says that it need not:
 *
 *     rbt_caller_start(caller, calls, count);
 *     until rbt_caller_may_go_on(caller) and rbt_caller_is_answered(caller):
 *         rbt_caller_port(caller, &event, now);  or  rbt_caller_tick(caller, now);
 *     rbt_caller_finish(caller, calls, count);
 *
 * When a shard is lost, that is seldom all: the coordinator knows who was lost, and says so in a
 * moment. So the caller waits a second for rbt_caller_alarm() before it fails with what it knows.
 *
 * Invariants:
 * (1) A call is completed with a floor that is at least what it needs, and with at least the
 *     updates that its reader relies on.
 * (2) An answer belongs to the request with its id.
 * (3) The least stamp that a shard is told of is at most every stamp that is kept or under way.
 * (4) A kept answer never gets older.
 * (5) A change is applied only to the copy that it names.
 *
 * Threads: those of its owner, one at a time. Memory: calls stay where they are until they are
 * finished; answers that were asked for ahead are kept here. */
#ifndef RUBATO_PROTO_CALLER_H
#define RUBATO_PROTO_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/error.h"
#include "proto/answer.h"
#include "proto/call.h"
#include "proto/outbox.h"
#include "proto/packing.h"
#include "proto/port.h"
#include "proto/prefetch.h"
#include "proto/stream.h"

/* What all callers of a process share. */
struct rbt_caller_shared {
    uint32_t shard_count;
    struct rbt_caller_entry **tables; /* each written before the table is used; NULL: not yet */
    enum rbt_compression compression;
};

struct rbt_caller_options {
    const struct rbt_caller_shared *shared; /* borrowed for as long as the caller lives */
    const struct rbt_stream_options *streams;
    uint32_t worker;        /* or RBT_FRAME_NOBODY */
    struct rbt_outbox *out; /* like `shared` */
};

/* All zeros may be deinitialised. */
struct rbt_caller {
    const struct rbt_caller_shared *shared;
    uint32_t worker;
    struct rbt_outbox *out;
    struct rbt_stream *streams;
    struct rbt_prefetches prefetches;
    struct rbt_packing packing;
    uint32_t unanswered; /* calls under way */
    bool had_to_wait;    /* one of them, for other workers */
    rbt_status status;   /* why nothing works any more */
    rbt_status lost;     /* the same, unless an alarm says more until then: */
    rbt_time lost_until;
    rbt_time due;                   /* no stream has a deadline before it; exact after a tick */
    struct rbt_error_record *error; /* the sentence of either */
};

RBT_MUST_USE rbt_status rbt_caller_init(struct rbt_caller *caller,
                                        const struct rbt_caller_options *options);
void rbt_caller_deinit(struct rbt_caller *caller);

/* A new run. */
void rbt_caller_reset(struct rbt_caller *caller);

/* --- What happens ---------------------------------------------------------------------------- */

void rbt_caller_port(struct rbt_caller *caller, const struct rbt_port_event *event, rbt_time now);

/* Time has passed; and when it matters: not after the least deadline of its streams. It may be
 * earlier, if a shard has been heard meanwhile: the tick then finds nothing to do, and looks again.
 */
void rbt_caller_tick(struct rbt_caller *caller, rbt_time now);
rbt_time rbt_caller_deadline(const struct rbt_caller *caller);

/* The job has failed elsewhere; the reason is in the thread's record. RBT_OK: it has not. */
void rbt_caller_alarm(struct rbt_caller *caller, rbt_status status);

/* Nothing works from now on; the reason is in the thread's record. And: says it again. */
void rbt_caller_fail(struct rbt_caller *caller, rbt_status status);
rbt_status rbt_caller_refuse(const struct rbt_caller *caller);

/* Where the end of a long frame from this shard belongs. */
static inline bool rbt_caller_place(const struct rbt_caller *caller, uint32_t port,
                                    const struct rbt_frame *head, struct rbt_frame_place *place)
{
    return rbt_stream_place(&caller->streams[port], head, place);
}

/* --- What is wanted -------------------------------------------------------------------------- */

/* PUSH, LEAVE, PULL and SCAN; see struct rbt_driver_ops. Each of start() is ended by a finish(),
 * which completes the replies, but for bytes and times, which are the carrier's. */
void rbt_caller_start(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);
void rbt_caller_finish(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);

/* Sends a message that is answered with DONE, which is awaited like a call. The block holds
 * everything but the header. */
void rbt_caller_ask(struct rbt_caller *caller, uint32_t shard, struct rbt_block *block,
                    struct rbt_frame header, struct rbt_wire_done *done);

/* These PULLs will be started soon, each with its `asked` number. Whether one with this number is
 * under way; and: none will be started: what is kept for it is dropped. */
void rbt_caller_expect(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);
bool rbt_caller_is_asking(const struct rbt_caller *caller, uint64_t asked);
void rbt_caller_forget(struct rbt_caller *caller, uint64_t asked);

/* Early reads. Nothing of the calls is used after any of these has returned. */
void rbt_caller_ask_early(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);
bool rbt_caller_has_early(const struct rbt_caller *caller, const struct rbt_driver_call *calls,
                          size_t count);
void rbt_caller_take_early(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);

/* --- How far it is --------------------------------------------------------------------------- */

/* Nothing is awaited: all is answered, or nothing works any more. */
static inline bool rbt_caller_is_answered(const struct rbt_caller *caller)
{
    return caller->status != RBT_OK || caller->unanswered == 0;
}

/* Updates and requests that were sent again because a connection was lost; since it began. */
uint64_t rbt_caller_resent(const struct rbt_caller *caller);

/* Whether it waits to hear why a shard is lost: then no connection is of interest. */
static inline bool rbt_caller_is_lost(const struct rbt_caller *caller)
{
    return caller->status == RBT_OK && caller->lost != RBT_OK;
}

/* Whether the worker may go on while the rest is sent: all messages have a connection, and no shard
 * owes too many acknowledgements. Or nothing works any more. */
bool rbt_caller_may_go_on(const struct rbt_caller *caller);

/* Whether the shards have everything, the last message of the run included. The same. */
bool rbt_caller_is_drained(const struct rbt_caller *caller);

/* All shards have the updates up to this number, as far as it is known. */
uint64_t rbt_caller_heard(const struct rbt_caller *caller);

/* Adds up what has been sent and received since the last time, by class; and what filters have made
 * smaller. */
void rbt_caller_count_traffic(struct rbt_caller *caller, struct rbt_driver_reply *reply);
void rbt_caller_count_filtered(struct rbt_caller *caller, struct rbt_driver_reply *reply);

#endif
