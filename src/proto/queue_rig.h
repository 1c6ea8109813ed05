/* proto/queue_rig.h - for tests: messages on their way over a connection in memory, in order. */
#ifndef RUBATO_PROTO_QUEUE_RIG_H
#define RUBATO_PROTO_QUEUE_RIG_H

#include "base/test.h"

#include "base/block.h"
#include "proto/port.h"
#include "wire/frame.h"

enum { QUEUE_MAX = 64 };

struct queue {
    struct rbt_block *blocks[QUEUE_MAX];
    uint32_t count;
};

static inline void push(struct queue *queue, struct rbt_block *block)
{
    assert_in_range(queue->count, 0, QUEUE_MAX - 1);
    queue->blocks[queue->count++] = block;
}

static inline void clear(struct queue *queue)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        rbt_block_unref(queue->blocks[i]);
    }
    queue->count = 0;
}

/* The first message of the queue as an event; the caller unreferences it after the step. */
static inline struct rbt_block *pop(struct queue *queue, struct rbt_port_event *event)
{
    struct rbt_block *block = queue->blocks[0];
    memmove(queue->blocks, queue->blocks + 1, --queue->count * sizeof *queue->blocks);
    event->kind = RBT_PORT_FRAME;
    assert_ok(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &event->frame.head));
    event->frame.body = block->data + RBT_FRAME_HEADER;
    return block;
}

static inline void set_down(struct rbt_port_event *event)
{
    event->kind = RBT_PORT_DOWN;
    event->down.status = RBT_E_CLOSED;
    event->down.why = "it was cut";
}

#endif
