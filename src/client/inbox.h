/* client/inbox.h - blocks that other threads of this process have for one thread. */
#ifndef RUBATO_CLIENT_INBOX_H
#define RUBATO_CLIENT_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/block.h"

struct rbt_inbox {
    int event;               /* readable when somebody else has put something in */
    pthread_t owner;         /* who empties it; made it, or was the last to wait for it */
    pthread_mutex_t mutex;   /* rank LEAF; guards all below */
    struct rbt_block **ring; /* grows when it is full, and stays that long */
    uint32_t first;          /* where the oldest block is */
    uint32_t count;
    uint32_t capacity; /* a power of two, or 0 */
    bool is_full;      /* something was lost for lack of memory */
};

RBT_MUST_USE rbt_status rbt_inbox_init(struct rbt_inbox *inbox);
void rbt_inbox_deinit(struct rbt_inbox *inbox);

/* Puts a block in, with its reference; `inbox` is a struct rbt_inbox. Any thread. */
void rbt_inbox_deliver(void *inbox, struct rbt_block *block);

/* The oldest block, with its reference: RBT_E_BUSY if there is none, RBT_E_NOMEM if one was lost.
 */
RBT_MUST_USE rbt_status rbt_inbox_take(struct rbt_inbox *inbox, struct rbt_block **block);
bool rbt_inbox_is_empty(struct rbt_inbox *inbox);

#endif
