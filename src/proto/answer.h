/* proto/answer.h - what a shard has answered, and how it comes to where it was wanted.
 *
 * Everything is checked against what was asked: a shard that answers something else has broken the
 * rules. Threads: any; no state. */
#ifndef RUBATO_PROTO_ANSWER_H
#define RUBATO_PROTO_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "core/shard_event.h"
#include "proto/packing.h"
#include "wire/message.h"

/* What callers have of a table. */
struct rbt_caller_entry {
    struct rbt_spec spec; /* its number is the one at the shards: a reader's may differ */
    struct rbt_packing_filters *filters; /* NULL: it has none, or they do not matter to a reader */
};

/* An answer as it came: a body, or what came before rows that were put where they belong. */
struct rbt_body {
    const char *bytes;
    size_t count;
    bool is_placed;
};

/* The same, taken apart. */
struct rbt_answer {
    struct rbt_wire_answer head;
    struct rbt_wire_view view;
    const char *placed; /* NULL, or how rows begin that were put where they belong; no view then */
};

/* RBT_E_PROTOCOL and its sentence. */
rbt_status rbt_answer_wrong(void);

RBT_MUST_USE rbt_status rbt_answer_parse(const struct rbt_body *body, struct rbt_answer *answer);

/* What it takes to read it: the caller's filters, the table, and who has answered. */
struct rbt_answer_reader {
    struct rbt_packing *packing;
    const struct rbt_caller_entry *table;
    uint32_t shard;
};

/* Puts the rows of a PULL where the event wants them. */
RBT_MUST_USE rbt_status rbt_answer_take_rows(const struct rbt_answer_reader *reader,
                                             const struct rbt_answer *answer,
                                             const struct rbt_shard_event *event);

/* The same for an early one: those rows that have come, and which they are. */
RBT_MUST_USE rbt_status rbt_answer_take_early(const struct rbt_answer_reader *reader,
                                              const struct rbt_answer *answer,
                                              const struct rbt_shard_event *event);

/* The same for a SCAN. RBT_E_BUSY: the range holds more than a message can. */
RBT_MUST_USE rbt_status rbt_answer_take_scan(const struct rbt_caller_entry *table,
                                             const struct rbt_answer *answer,
                                             struct rbt_shard_scan *scan);

#endif
