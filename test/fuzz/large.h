/* fuzz/large.h - which messages take much memory by right: targets leave them out, so that what
 * takes much memory beside them is a mistake. */
#ifndef RUBATO_FUZZ_LARGE_H
#define RUBATO_FUZZ_LARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/message.h"

/* Keys, elements or rows that are not asked for: blocks of answers stay below what threads keep to
 * use again. */
enum { LARGE = 1 << 11 };

static inline bool large_rows(struct rbt_wire_cursor *cursor)
{
    struct rbt_wire_view view;
    return rbt_wire_rows_get(&cursor->at, cursor->end, &view) == RBT_OK &&
           (view.count > LARGE || view.element_count > LARGE);
}

static inline bool large_push(struct rbt_wire_cursor cursor)
{
    struct rbt_wire_push push;
    if (rbt_wire_get_push(&cursor, &push) != RBT_OK) {
        return false;
    }
    for (uint32_t i = 0; i < push.batch_count; i++) {
        if (large_rows(&cursor)) {
            return true;
        }
    }
    return false;
}

/* Whether this message to a shard is one of them. */
static inline bool large_message(const struct rbt_frame *frame, struct rbt_wire_cursor cursor)
{
    struct rbt_wire_pull pull;
    struct rbt_spec table;
    struct rbt_wire_hello hello;
    switch (frame->kind) {
    case RBT_FRAME_HELLO:
        return rbt_wire_get_hello(&cursor, &hello) == RBT_OK && hello.worker_count > 64;
    case RBT_FRAME_PUSH:
        return large_push(cursor);
    case RBT_FRAME_PULL:
        return rbt_wire_get_pull(&cursor, &pull) == RBT_OK && large_rows(&cursor);
    case RBT_FRAME_LIST:
        return large_rows(&cursor);
    case RBT_FRAME_TABLE:
        return rbt_wire_get_table(&cursor, &table) == RBT_OK &&
               (table.width > 256 || table.state_width > 256 || table.rows_expected > LARGE);
    default:
        return false;
    }
}

#endif
