/* proto/outbox.h - what a machine wants done, in order.
 *
 * A machine never connects, sends or waits. Its step writes down what is to be done, and its
 * carrier does that afterwards, in order:
 *
 *     rbt_x_step(x, &event, now, &outbox);
 *     for (i = 0; i < outbox.count; i++) { ... perform outbox.items[i] ... }
 *     rbt_outbox_clear(&outbox);
 *
 * Threads: those of its owner. Memory: an outbox grows and then stays as large as it was, so a
 * machine in its steady state allocates nothing here. */
#ifndef RUBATO_PROTO_OUTBOX_H
#define RUBATO_PROTO_OUTBOX_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/block.h"

enum rbt_out_kind {
    RBT_OUT_CONNECT, /* make a connection: answered by an UP or a DOWN of the port */
    RBT_OUT_SEND,    /* send the block; the carrier unreferences it when it has gone */
    RBT_OUT_CUT,     /* close the connection, after what was sent before; nobody hears of it */
};

struct rbt_out {
    enum rbt_out_kind kind;
    uint32_t port;
    struct rbt_block *block; /* SEND: a reference of its own */
};

/* All zeros is empty. */
struct rbt_outbox {
    struct rbt_out *items;
    uint32_t count;
    uint32_t max;
};

/* Frees what was not done, too. */
void rbt_outbox_deinit(struct rbt_outbox *outbox);

/* Forgets all items. The blocks in them are the carrier's by now. */
static inline void rbt_outbox_clear(struct rbt_outbox *outbox)
{
    outbox->count = 0;
}

/* Each fails with RBT_E_NOMEM, and then nothing was added. A block that is sent gets one more
 * reference. */
RBT_MUST_USE rbt_status rbt_outbox_connect(struct rbt_outbox *outbox, uint32_t port);
RBT_MUST_USE rbt_status rbt_outbox_send(struct rbt_outbox *outbox, uint32_t port,
                                        struct rbt_block *block);
RBT_MUST_USE rbt_status rbt_outbox_cut(struct rbt_outbox *outbox, uint32_t port);

#endif
