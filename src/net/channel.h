/* net/channel.h - frames over a socket: a queue out, a buffer in, TLS in between if wanted.
 *
 * A channel never waits. Whoever owns it polls its descriptor, alone or in a loop:
 *
 *     poll for rbt_channel_wants(channel) on rbt_channel_socket(channel)
 *     while ((st = rbt_channel_receive(channel, &frame, &body)) == RBT_OK) { ... }
 *     RBT_E_BUSY: nothing more for now; anything else: the connection is over
 *     rbt_channel_send(channel, block); ...; st = rbt_channel_flush(channel);
 *
 * Many blocks leave in one system call. What comes is read into the channel's buffer, or, if it is
 * long, into a block of its own size, and looked at where it lies: no copy. With TLS nothing is
 * handed out before the peer has proved that it has the key.
 *
 * After a failure every further call returns it; but a failed write does not keep back what had
 * come before, which may be the peer's reason, and a peer that breaks the protocol can still be
 * told so.
 *
 * Threads: a channel belongs to one thread. */
#ifndef RUBATO_NET_CHANNEL_H
#define RUBATO_NET_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/block.h"
#include "net/security.h"
#include "wire/frame.h"

typedef struct rbt_channel rbt_channel;

struct rbt_channel_options {
    const rbt_security *security; /* NULL: plain */
    bool is_server;               /* accepted the connection */
    uint32_t body_max; /* longest body that is accepted; may be raised when the peer is known */
};

struct rbt_channel_stats {
    uint64_t bytes_sent; /* on the socket, or into TLS */
    uint64_t bytes_received;
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t writes; /* system calls */
    uint64_t reads;
};

/* Takes the socket, which is closed with the channel, and also if this fails. */
RBT_MUST_USE rbt_status rbt_channel_open(int socket, const struct rbt_channel_options *options,
                                         rbt_channel **channel);
void rbt_channel_close(rbt_channel *channel);

void rbt_channel_set_body_max(rbt_channel *channel, uint32_t body_max);

int rbt_channel_socket(const rbt_channel *channel);

/* POLLIN, and POLLOUT when something waits to be sent. */
short rbt_channel_wants(const rbt_channel *channel);

/* Whether the other side is trusted: at once without TLS. */
bool rbt_channel_is_ready(const rbt_channel *channel);

/* The next frame; its body is valid until the next call. RBT_E_BUSY: there is no whole frame yet.
 * RBT_E_CLOSED: the peer closed the connection. RBT_E_PROTOCOL, RBT_E_IO: it is of no use any more;
 * the sentence says why (for TLS: that the peer does not have the key). */
RBT_MUST_USE rbt_status rbt_channel_receive(rbt_channel *channel, struct rbt_frame *frame,
                                            const char **body);

/* Called when a long frame begins to come. If it returns true, `place` is where the rest of its
 * body goes; rbt_channel_receive() then hands out the prefix alone. The place must stay until then,
 * or until the channel is closed. NULL: nobody is asked. */
void rbt_channel_on_long(rbt_channel *channel,
                         bool (*callback)(void *context, const struct rbt_frame *frame,
                                          struct rbt_frame_place *place),
                         void *context);

/* Whether rbt_channel_receive() would find something without a system call. */
bool rbt_channel_has_more(const rbt_channel *channel);

/* Queues a block that holds one frame or several; the channel takes its own reference. */
RBT_MUST_USE rbt_status rbt_channel_send(rbt_channel *channel, struct rbt_block *block);

/* Writes what is queued until it is all gone (RBT_OK) or the socket is full (RBT_E_BUSY). */
RBT_MUST_USE rbt_status rbt_channel_flush(rbt_channel *channel);

/* Bytes that wait to be sent. */
size_t rbt_channel_queued(const rbt_channel *channel);

void rbt_channel_stats(const rbt_channel *channel, struct rbt_channel_stats *stats);

#endif
