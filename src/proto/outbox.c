/* proto/outbox.c - what a machine wants done: a list that keeps its room. */
#include "proto/outbox.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { ITEMS_MIN = 16 };

void rbt_outbox_deinit(struct rbt_outbox *outbox)
{
    RBT_ASSERT(outbox->count <= outbox->max);
    for (uint32_t i = 0; i < outbox->count; i++) {
        rbt_block_unref(outbox->items[i].block); /* NULL of all but SEND */
    }
    rbt_free(outbox->items);
    *outbox = (struct rbt_outbox){0};
}

static rbt_status add(struct rbt_outbox *outbox, struct rbt_out item)
{
    RBT_ASSERT(outbox->count <= outbox->max);
    RBT_ASSERT((item.kind == RBT_OUT_SEND) == (item.block != NULL));
    if (outbox->count == outbox->max) {
        const uint32_t max = outbox->max == 0 ? ITEMS_MIN : 2 * outbox->max;
        struct rbt_out *grown = rbt_realloc(outbox->items, max, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for %u messages to send", max);
        }
        outbox->items = grown;
        outbox->max = max;
    }
    outbox->items[outbox->count++] = item;
    return RBT_OK;
}

rbt_status rbt_outbox_connect(struct rbt_outbox *outbox, uint32_t port)
{
    return add(outbox, (struct rbt_out){.kind = RBT_OUT_CONNECT, .port = port});
}

rbt_status rbt_outbox_send(struct rbt_outbox *outbox, uint32_t port, struct rbt_block *block)
{
    const rbt_status st =
        add(outbox, (struct rbt_out){.kind = RBT_OUT_SEND, .port = port, .block = block});
    if (st == RBT_OK) {
        rbt_block_ref(block);
    }
    return st;
}

rbt_status rbt_outbox_cut(struct rbt_outbox *outbox, uint32_t port)
{
    return add(outbox, (struct rbt_out){.kind = RBT_OUT_CUT, .port = port});
}
