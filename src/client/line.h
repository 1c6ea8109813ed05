/* client/line.h - the connection of one port (proto/port.h): a socket, with TLS or without, or a
 * call of a shard in this very process.
 *
 * A line does what an outbox says and tells what happens; it decides nothing, and never waits: its
 * owner polls.
 *
 *     for (...) rbt_line_perform(line, &outbox.items[i]);
 *     while (rbt_line_next(line, &event, why)) { ... step, and perform what follows ... }
 *     rbt_line_flush(line);
 *     rbt_line_prepare(line, &poll);  ... poll ...
 *
 * Threads: one at a time. Memory: that of a channel, and of blocks that other threads deliver. */
#ifndef RUBATO_CLIENT_LINE_H
#define RUBATO_CLIENT_LINE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/block.h"
#include "base/error.h"
#include "client/inbox.h"
#include "net/address.h"
#include "net/channel.h"
#include "net/nearby.h"
#include "proto/outbox.h"
#include "proto/port.h"

struct rbt_line_options {
    uint32_t port;
    const char *address;          /* borrowed for as long as the line lives */
    const rbt_security *security; /* NULL: plain */
    /* Where the end of a long frame of this port belongs; see rbt_channel_on_long(). */
    void *context;
    bool (*find_place)(void *context, const struct rbt_frame *head, struct rbt_frame_place *place);
};

enum rbt_line_state {
    RBT_LINE_CLOSED,
    RBT_LINE_WANTED,     /* a connection is to be made */
    RBT_LINE_CONNECTING, /* the socket is */
    RBT_LINE_OPEN,       /* there is a channel */
    RBT_LINE_NEAR,       /* the shard is in this process: there is an inbox */
};

struct rbt_line {
    struct rbt_line_options options;
    enum rbt_line_state state;
    int socket; /* CONNECTING */
    rbt_channel *channel;
    struct rbt_nearby_connection near;
    struct rbt_inbox inbox;
    struct rbt_block *block;       /* NEAR: what was handed out last; or NULL */
    size_t placed;                 /* bytes of the frame that is coming which go to their place */
    bool is_touched;               /* something was done with it since it was last flushed */
    bool lacks_memory;             /* something could not be sent */
    bool is_broken;                /* nothing can be sent any more */
    struct rbt_channel_stats past; /* of connections that are over */
};

void rbt_line_init(struct rbt_line *line, const struct rbt_line_options *options);
void rbt_line_deinit(struct rbt_line *line);

/* Does what a machine wants done with this port; takes the reference of a block. */
void rbt_line_perform(struct rbt_line *line, const struct rbt_out *item);

/* What has happened next: false if nothing has, or not yet. What the event points to is valid until
 * the line is used again; `why` holds the reason of a DOWN. */
bool rbt_line_next(struct rbt_line *line, struct rbt_port_event *event,
                   char why[static RBT_ERROR_MAX]);

/* Writes what is queued, as far as it goes. Whether rbt_line_next() may have something of which
 * polling would not tell. */
bool rbt_line_flush(struct rbt_line *line);

/* What to poll for (descriptor -1: nothing). Whether something is there already, of which polling
 * would not tell. */
bool rbt_line_prepare(struct rbt_line *line, struct pollfd *poll);

/* Bytes that the kernel has not taken yet. */
size_t rbt_line_queued(const struct rbt_line *line);

void rbt_line_stats(const struct rbt_line *line, struct rbt_channel_stats *stats);

#endif
