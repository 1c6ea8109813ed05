/* client/sender.h - the thread that writes what the kernel would not take at once.
 *
 * Workers drive their connections themselves. Only when a socket is full and a worker has nothing
 * to wait for is the rest left to this thread, so that the worker can compute while it is sent. As
 * soon as the worker calls again, it is the one who drives.
 *
 * Threads: one of its own; waking it is for any. */
#ifndef RUBATO_CLIENT_SENDER_H
#define RUBATO_CLIENT_SENDER_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

struct rbt_sockets;
typedef struct rbt_sender rbt_sender;

/* For these carriers, which must stay until it is stopped. */
RBT_MUST_USE rbt_status rbt_sender_start(struct rbt_sockets *carriers, uint32_t carrier_count,
                                         uint32_t shard_count, rbt_sender **sender);
void rbt_sender_stop(rbt_sender *sender);

/* A carrier has something to be written. */
void rbt_sender_wake(rbt_sender *sender);

#endif
