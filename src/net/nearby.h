/* net/nearby.h - shards in this very process, reached by function call instead of a socket.
 *
 * A server that shares its process with workers says here where its shards are; whoever is about to
 * connect to such an address looks here first. The frames are the same, and so is everything that
 * is decided by them; only the kernel is left out.
 *
 * Threads: any. */
#ifndef RUBATO_NET_NEARBY_H
#define RUBATO_NET_NEARBY_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/block.h"

/* Where answers go: called on any thread, which then has nothing to do with the block any more. */
struct rbt_nearby_inbox {
    void *context;
    void (*deliver)(void *context, struct rbt_block *block);
};

struct rbt_nearby_ops {
    /* A connection for whoever sends answers to the inbox; frames sent on it are worked on at once,
     * by the calling thread: a HELLO first, like on any connection. A failure ends the connection;
     * it must be closed all the same. */
    rbt_status (*open)(void *shard, const struct rbt_nearby_inbox *inbox, void **connection);
    rbt_status (*send)(void *connection, const struct rbt_block *block);
    void (*close)(void *connection);
};

struct rbt_nearby {
    const struct rbt_nearby_ops *ops;
    void *shard;
};

/* Says where a shard is; and that it is there no more: afterwards nobody uses it. Fails with
 * RBT_E_BUSY if there are too many. */
RBT_MUST_USE rbt_status rbt_nearby_add(const char *address, const struct rbt_nearby *nearby);
void rbt_nearby_remove(const char *address);

/* For tests: nobody is found from now on, so that sockets are used within a process, too. */
void rbt_nearby_hide(bool is_hidden);

/* Opens a connection to the shard at this address: RBT_E_NOTFOUND if it is not in this process. */
struct rbt_nearby_connection {
    const struct rbt_nearby_ops *ops;
    void *connection;
};
RBT_MUST_USE rbt_status rbt_nearby_open(const char *address, const struct rbt_nearby_inbox *inbox,
                                        struct rbt_nearby_connection *connection);

#endif
