/* proto/stream.h - one worker's side of its connection to one shard, without the connection.
 *
 * Updates are numbered and kept until the shard has said that they have arrived, requests are kept
 * until they are answered, lists of keys for good. When the connection is lost the stream asks for
 * a new one, and sends again what the shard lacks, in order: nothing is lost, and nothing counts
 * twice, because shards know updates by their numbers. A stream gives up when it has had no
 * connection for too long.
 *
 * The port of a stream is the number of its shard. Its carrier does what is in the outbox, and says
 * what happens:
 *
 *     st = rbt_stream_step(stream, &event, now, out, &answered);  // UP, FRAME, DOWN, ROOM
 *     st = rbt_stream_tick(stream, now, out);                     // from rbt_stream_deadline() on
 *
 * A failure of either ends the stream for good, with a sentence: the shard is lost, it has refused
 * us, or there is no memory.
 *
 * Invariants:
 * (1) The numbers of kept updates follow each other without gaps, and the last one is `sent`. That
 *     of a LEAVE, which is no update, is higher.
 * (2) No update is kept that has arrived as far as we have heard.
 * (3) What goes over a new connection is, in this order: HELLO, then after the shard's WELCOME all
 *     lists, all kept updates, all requests without an answer.
 * (4) A request is answered at most once.
 * (5) A list is named only after it was sent on the connection that names it.
 * (6) What the shard has told of itself (`news`) only grows, until rbt_stream_reset().
 *
 * Threads: those of its owner, one at a time. Memory: records of updates and requests are used
 * again, so a stream in its steady state allocates only when a list is added. Cost: a message is
 * found by its number or id at once, whatever else is under way. */
#ifndef RUBATO_PROTO_STREAM_H
#define RUBATO_PROTO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/job.h>
#include <rubato/status.h>

#include "base/block.h"
#include "base/clock.h"
#include "base/map.h"
#include "proto/outbox.h"
#include "proto/port.h"
#include "wire/message.h"

struct rbt_prefetch;
struct rbt_driver_call;

enum { RBT_STREAM_BUCKETS = 16 }; /* a power of two; of requests by their ids */

struct rbt_stream_options {
    const char *address; /* of the shard, for people; borrowed for as long as the stream lives */
    const struct rbt_wire_hello *hello; /* but for worker and shard; borrowed likewise */
    uint32_t worker;
    uint32_t shard;
    rbt_time cut_max;     /* without a connection */
    rbt_time silence_max; /* without a word although one is due */
};

enum rbt_stream_state {
    RBT_STREAM_DOWN,       /* until `retry_at`, or until there is something to say */
    RBT_STREAM_CONNECTING, /* the carrier is */
    RBT_STREAM_GREETING,   /* HELLO is on its way */
    RBT_STREAM_UP,
};

/* An update that has not arrived yet, as far as we know. */
struct rbt_stream_kept {
    struct rbt_stream_kept *next;
    uint64_t number;
    bool is_leave;
    bool was_sent; /* on some connection */
    struct rbt_block *block;
};

/* What a request is for: whoever asks finds it again in the answer. The stream does not look. */
struct rbt_stream_purpose {
    struct rbt_driver_call *call;  /* waits for it; or NULL */
    struct rbt_prefetch *prefetch; /* or NULL */
    struct rbt_wire_done *done;    /* or NULL */
    bool is_early;                 /* nobody waits for it yet */
};

/* A request that has not been answered. */
struct rbt_stream_request {
    struct rbt_stream_request *next; /* in the order of asking */
    struct rbt_stream_request *before;
    struct rbt_stream_request *next_alike; /* in the same bucket */
    uint64_t id;
    struct rbt_block *block;
    bool is_probe; /* the stream's own */
    bool was_sent; /* on some connection */
    /* Where the end of the answer may be put if it is as long as it should be; bytes 0: nowhere. */
    struct rbt_frame_place place;
    struct rbt_stream_purpose purpose;
};

/* The same before it is asked. */
struct rbt_stream_question {
    struct rbt_block *block; /* holds everything but the header; the reference goes with it */
    struct rbt_frame header; /* gets an id, if it has none */
    struct rbt_frame_place place;
    struct rbt_stream_purpose purpose;
};

struct rbt_stream {
    struct rbt_stream_options options;
    enum rbt_stream_state state;
    bool is_near;        /* the shard is in this process: it cannot fall silent */
    rbt_time retry_at;   /* DOWN: when to connect again, if there is something to say */
    rbt_time backoff;    /* how long to wait after the next failure */
    rbt_time down_since; /* when the last useful connection ended, or the first was wanted */
    rbt_time heard_at;   /* when something last came, or the connection was made or asked for */
    rbt_time up_at;      /* when the shard has said WELCOME */
    bool was_useful;     /* more than a greeting has come since */
    uint64_t probe;      /* id of the question whether the shard is still there; 0: none */
    rbt_time probed_at;  /* when that was asked */
    struct rbt_stream_kept *kept; /* in the order of numbers */
    struct rbt_stream_kept *kept_last;
    struct rbt_stream_kept *kept_spare; /* records to use again */
    size_t kept_bytes;
    uint64_t sent;                       /* highest number */
    struct rbt_stream_request *requests; /* in the order of asking */
    struct rbt_stream_request *requests_last;
    struct rbt_stream_request *requests_spare;
    struct rbt_stream_request *buckets[RBT_STREAM_BUCKETS];
    uint32_t request_count;
    uint64_t next_id;
    struct rbt_map list_index;
    struct rbt_block **lists;
    uint32_t list_count;
    uint32_t list_max;
    size_t list_bytes;
    size_t list_keys;          /* counted by whoever adds lists */
    struct rbt_wire_news news; /* the highest heard of */
    uint64_t cuts;             /* connections lost so far */
    uint64_t resent;           /* updates and requests that were sent again after that */
    /* Bytes of messages by class (enum rbt_traffic); whoever reads them sets them back. */
    uint64_t traffic_sent[RBT_TRAFFIC_CLASSES];
    uint64_t traffic_received[RBT_TRAFFIC_CLASSES];
    uint32_t looks; /* of its owner, at a floor that it has not asked for; reset by whom asks */
};

RBT_MUST_USE rbt_status rbt_stream_init(struct rbt_stream *stream,
                                        const struct rbt_stream_options *options);
void rbt_stream_deinit(struct rbt_stream *stream);

/* Something has happened to the connection. If it is the answer to a request, `*answered` is that
 * request, else NULL: the frame's body is whatever the shard has answered, which the stream has not
 * looked at. Hand the request back with rbt_stream_release(). */
RBT_MUST_USE rbt_status rbt_stream_step(struct rbt_stream *stream,
                                        const struct rbt_port_event *event, rbt_time now,
                                        struct rbt_outbox *out,
                                        struct rbt_stream_request **answered);
void rbt_stream_release(struct rbt_stream *stream, struct rbt_stream_request *request);

/* Time has passed: connects again, asks whether the shard is still there, or gives up. */
RBT_MUST_USE rbt_status rbt_stream_tick(struct rbt_stream *stream, rbt_time now,
                                        struct rbt_outbox *out);

/* When rbt_stream_tick() has something to do; RBT_TIME_NEVER if only an event can change that. */
rbt_time rbt_stream_deadline(const struct rbt_stream *stream);

/* Where the end of this frame may be put instead of after its beginning. Nothing is written down:
 * the event that brings the frame says whether that was done (`placed`). */
bool rbt_stream_place(const struct rbt_stream *stream, const struct rbt_frame *head,
                      struct rbt_frame_place *place);

/* The rest fails with RBT_E_NOMEM alone. */

/* Sends an update, whose header is complete; takes the reference. Blocks are counted by their
 * class, and so are answers by that of their requests. */
RBT_MUST_USE rbt_status rbt_stream_push(struct rbt_stream *stream, struct rbt_block *block,
                                        uint64_t number, bool is_leave, struct rbt_outbox *out);

/* Sends a request. `request` may be NULL. */
RBT_MUST_USE rbt_status rbt_stream_ask(struct rbt_stream *stream,
                                       const struct rbt_stream_question *question,
                                       struct rbt_outbox *out, struct rbt_stream_request **request);

/* Whether the shard has, or will have, the list of this name; whether one more of so many keys may
 * be named; and sending one, which takes the reference. */
bool rbt_stream_has_list(const struct rbt_stream *stream, uint64_t name);
bool rbt_stream_can_name(const struct rbt_stream *stream, size_t keys);
RBT_MUST_USE rbt_status rbt_stream_add_list(struct rbt_stream *stream, uint64_t name,
                                            struct rbt_block *block, struct rbt_outbox *out);

/* The memory that kept updates still refer to is about to change: they get copies. */
void rbt_stream_own(struct rbt_stream *stream);

/* Forgets all updates and requests, and counts from 0 again: a new run. */
RBT_MUST_USE rbt_status rbt_stream_reset(struct rbt_stream *stream, struct rbt_outbox *out);

/* Whether nothing waits for a connection: it is there, or nobody wants one. */
static inline bool rbt_stream_is_settled(const struct rbt_stream *stream)
{
    return stream->state == RBT_STREAM_UP ||
           (stream->state == RBT_STREAM_DOWN && stream->kept == NULL && stream->requests == NULL);
}

#endif
