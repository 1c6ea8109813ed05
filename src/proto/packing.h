/* proto/packing.h - filters at work on messages: updates become bytes as the table's filters make
 * them, and rows that are read are put together from what has come and what was there before.
 *
 * Where filters select what is read, a shard sends what has changed since it last answered the same
 * set (store/outgoing.h). So a copy is kept here of what each shard has sent for each such set,
 * under the name that the shard gave it: what the set's own values are is the worker's business.
 *
 * Threads: a caller's. */
#ifndef RUBATO_PROTO_PACKING_H
#define RUBATO_PROTO_PACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "core/shard_event.h"
#include "policy/filter/chain.h"
#include "proto/call.h"
#include "wire/message.h"

/* The filters of a table: all callers of a process share it, and nobody changes it. */
struct rbt_packing_table {
    struct rbt_chain_options options; /* of either direction */
    struct rbt_chain_traits push;
    struct rbt_chain_traits pull;
    bool has_push; /* updates become bytes */
    bool has_pull; /* rows that are read do */
    char name[RBT_WIRE_NAME_MAX];
    char text[RBT_FILTER_TEXT_MAX];
};

/* `schema` has filters. Fails with RBT_E_INVALID and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_packing_table_create(const struct rbt_shard_table *schema,
                                                 uint32_t worker_count,
                                                 struct rbt_packing_table **table);
void rbt_packing_table_destroy(struct rbt_packing_table *table); /* accepts NULL */

/* What a shard has sent for a set. */
struct rbt_packing_copy {
    uint64_t asked;
    uint32_t shard;
    uint64_t name; /* 0: it is of no use */
    size_t bytes;
    char *values; /* (bytes), in the order of the shard's rows */
};

/* A caller's. Starts as all zero. */
struct rbt_packing {
    struct rbt_packing_chains *chains; /* by number of the table */
    uint32_t chain_count;
    struct rbt_packing_copy *copies;
    size_t copy_count;
    size_t copy_max;
    char *scratch;
    size_t scratch_max;
    uint64_t filtered[RBT_FILTERED_KINDS][2]; /* bytes before and after, not yet told of */
};

void rbt_packing_deinit(struct rbt_packing *packing);

/* No set has anything any more; or this one has not. */
void rbt_packing_clear(struct rbt_packing *packing);
void rbt_packing_forget(struct rbt_packing *packing, uint64_t asked);

/* A table, for what follows: its filters and its number. */
struct rbt_packing_key {
    const struct rbt_packing_table *filters; /* NULL: it has none */
    uint32_t table;
};

/* Counts bytes of a table with filters, of others nothing. */
void rbt_packing_count(struct rbt_packing *packing, struct rbt_packing_key key, int kind,
                       const size_t bytes[2]);

/* Makes bytes of an update: rows->packed, valid until the next call, if they are fewer. */
RBT_MUST_USE rbt_status rbt_packing_put(struct rbt_packing *packing, struct rbt_packing_key key,
                                        const struct rbt_filter_code *code,
                                        struct rbt_wire_rows *rows);

/* Reads rows; those elements of `values` that are not there stay. Fails with RBT_E_PROTOCOL. */
RBT_MUST_USE rbt_status rbt_packing_get(struct rbt_packing *packing, struct rbt_packing_key key,
                                        const struct rbt_wire_view *view, void *values);

/* Whether the reads of this event are answered with changes of a copy, and the name of the one
 * that there is, or 0. */
bool rbt_packing_has_copies(struct rbt_packing_key key, const struct rbt_shard_event *event);
uint64_t rbt_packing_copy_name(const struct rbt_packing *packing, uint64_t asked, uint32_t shard);

/* Whether an answer can be used: it is whole, or a change of the copy that is there. */
bool rbt_packing_can_use(const struct rbt_packing *packing, uint64_t asked, uint32_t shard,
                         const struct rbt_wire_answer *answer);

/* An answer to a read whose set has copies. */
struct rbt_packing_answer {
    uint64_t asked; /* the set's number */
    uint32_t shard;
    const struct rbt_wire_answer *head;
    const struct rbt_wire_view *view;
};

/* Brings the copy up to date with an answer that can be used; *values is what the reader has now.
 * Fails with RBT_E_PROTOCOL and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_packing_take(struct rbt_packing *packing, struct rbt_packing_key key,
                                         const struct rbt_packing_answer *answer,
                                         const void **values);

#endif
