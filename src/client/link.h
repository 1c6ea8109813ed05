/* client/link.h - what one worker has on its way to one shard, and the connection that carries it.
 *
 * Updates are kept until the shard has said that they have arrived, requests until they are
 * answered, lists of keys for good. When the connection is cut a new one is made, and what the
 * shard lacks is sent again, in order: nothing is lost, and nothing counts twice, because shards
 * know messages by their numbers. A link gives up when it has had no connection for too long.
 *
 * A link never waits: its owner polls.
 *
 *     struct pollfd poll;  rbt_time deadline = rbt_link_prepare(link, now, &poll);
 *     ... poll ...
 *     st = rbt_link_work(link, now, &handler);   // reads, writes, connects again
 *
 * Threads: a link belongs to one thread. */
#ifndef RUBATO_CLIENT_LINK_H
#define RUBATO_CLIENT_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/job.h>
#include <rubato/status.h>

#include "base/block.h"
#include "base/clock.h"
#include "base/map.h"
#include "client/inbox.h"
#include "net/address.h"
#include "net/channel.h"
#include "net/nearby.h"
#include "wire/message.h"

struct rbt_link_options {
    char address[RBT_ADDRESS_MAX];
    const rbt_security *security; /* NULL: plain */
    struct rbt_wire_hello hello;
    rbt_time cut_max;     /* without a connection */
    rbt_time silence_max; /* without a word although one is due */
};

enum rbt_link_state {
    RBT_LINK_DOWN,       /* until `retry_at` */
    RBT_LINK_CONNECTING, /* the socket is */
    RBT_LINK_GREETING,   /* HELLO is on its way */
    RBT_LINK_UP,
};

/* A message of the stream that has not arrived yet, as far as we know. */
struct rbt_link_kept {
    struct rbt_link_kept *next;
    uint64_t number;
    bool is_leave;
    struct rbt_block *block;
};

/* A request that has not been answered. */
struct rbt_link_request {
    struct rbt_link_request *next;
    uint64_t id;
    struct rbt_block *block;
    void *owner; /* whoever asked; the handler gets it back */
    /* Where the end of the answer may be put if it is as long as it should be; bytes 0: nowhere. */
    struct rbt_frame_place place;
    bool is_placed; /* it was */
};

struct rbt_link {
    struct rbt_link_options options;
    enum rbt_link_state state;
    /* The shard is in this process: then there is no channel. */
    bool is_near;
    struct rbt_nearby_connection near;
    struct rbt_inbox inbox;
    rbt_channel *channel; /* GREETING and UP */
    int socket;           /* CONNECTING */
    rbt_time retry_at;
    rbt_time backoff;
    rbt_time down_since;        /* when the last useful connection ended, or the first was wanted */
    rbt_time heard_at;          /* when something last came */
    uint64_t probe;             /* id of the question whether it is still there; 0: none */
    rbt_time probed_at;         /* when that was asked */
    rbt_time up_at;             /* when the connection was made */
    bool was_useful;            /* more than a greeting has come over it */
    struct rbt_link_kept *kept; /* in the order of numbers */
    struct rbt_link_kept *kept_last;
    size_t kept_bytes;
    struct rbt_link_request *requests; /* in the order of asking */
    struct rbt_link_request *requests_last;
    uint32_t request_count;
    uint64_t next_id;
    uint64_t sent; /* highest number of the stream */
    struct rbt_map list_index;
    struct rbt_block **lists;
    uint32_t list_count;
    uint32_t list_max;
    size_t list_bytes;
    size_t list_keys;              /* counted by whoever adds lists */
    struct rbt_wire_news news;     /* the latest */
    uint64_t cuts;                 /* connections lost so far */
    struct rbt_channel_stats past; /* of connections that are over */
    /* Bytes of messages by class (enum rbt_traffic); whoever reads them sets them back. */
    uint64_t traffic_sent[RBT_TRAFFIC_CLASSES];
    uint64_t traffic_received[RBT_TRAFFIC_CLASSES];
};

struct rbt_link_handler {
    void *context;
    /* ROWS or DONE for a request, which is freed afterwards. RBT_E_PROTOCOL cuts the connection. */
    rbt_status (*on_answer)(void *context, struct rbt_link *link, struct rbt_link_request *request,
                            const struct rbt_frame *frame, const char *body);
    /* The shard has said how far it is. */
    void (*on_news)(void *context, struct rbt_link *link);
};

RBT_MUST_USE rbt_status rbt_link_init(struct rbt_link *link,
                                      const struct rbt_link_options *options);
void rbt_link_deinit(struct rbt_link *link);

/* Forgets everything that is on its way, and starts to count from 0 again: a new run. */
void rbt_link_reset(struct rbt_link *link);

/* Sends a message of the stream; takes over the reference. Blocks are counted by their class, and
 * so are answers by that of their requests. */
RBT_MUST_USE rbt_status rbt_link_push(struct rbt_link *link, struct rbt_block *block,
                                      uint64_t number, bool is_leave);

/* Sends a request, whose header is completed with its id; takes over the reference. */
RBT_MUST_USE rbt_status rbt_link_ask(struct rbt_link *link, struct rbt_block *block,
                                     struct rbt_frame header, void *owner,
                                     struct rbt_link_request **request);

/* The memory that messages of the stream still refer to is about to change: they get copies. */
void rbt_link_own(struct rbt_link *link);

/* Whether the shard has, or will have, the list of this name; and sending one. */
bool rbt_link_has_list(const struct rbt_link *link, uint64_t name);
RBT_MUST_USE rbt_status rbt_link_add_list(struct rbt_link *link, uint64_t name,
                                          struct rbt_block *block);
bool rbt_link_can_name(const struct rbt_link *link, size_t keys);

/* Whether everything has been handed to the kernel. */
bool rbt_link_is_flushed(const struct rbt_link *link);

/* What to poll for (descriptor -1: nothing), and when to call rbt_link_work() at the latest. */
rbt_time rbt_link_prepare(const struct rbt_link *link, struct pollfd *poll);

/* Does what can be done now. Fails when the link is of no use any more, with a sentence. */
RBT_MUST_USE rbt_status rbt_link_work(struct rbt_link *link, rbt_time now,
                                      const struct rbt_link_handler *handler);

/* Writes what is queued, as far as it goes. */
void rbt_link_flush(struct rbt_link *link);

/* Bytes that the kernel has not taken yet. */
size_t rbt_link_queued(const struct rbt_link *link);

void rbt_link_stats(const struct rbt_link *link, struct rbt_channel_stats *stats);

#endif
