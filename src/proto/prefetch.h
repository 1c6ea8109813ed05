/* proto/prefetch.h - rows that a worker has asked for before it wants them: answers that wait to be
 * used, requests that are on their way, and what both mean for the versions of rules.
 *
 * Updates may yet be computed from such rows, so the worker must not let go of their stamps: what
 * it tells the shard is the lowest that is needed, here or by the worker itself. Rows that were
 * not used for some clocks are dropped, or what the shard keeps for them would stay for ever.
 *
 * Threads: a caller's. */
#ifndef RUBATO_PROTO_PREFETCH_H
#define RUBATO_PROTO_PREFETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/map.h"
#include "proto/answer.h"
#include "proto/call.h"

struct rbt_stream_request;

struct rbt_prefetch {
    uint32_t shard;
    char *answer; /* a body; or NULL */
    size_t answer_bytes;
    size_t answer_max;
    struct rbt_wire_news news;                /* of the answer */
    const struct rbt_stream_request *request; /* on its way; or NULL */
    struct rbt_driver_call *call;             /* waits for it; or NULL */
    bool is_once;   /* asked for by somebody who will want it once, not again and again */
    bool is_placed; /* the answer's rows are where they belong already; it is the rest of it */

    uint32_t table;        /* of base rows: */
    uint64_t answer_stamp; /* of the answer; RBT_STAMP_NONE: there is none, or it does not matter */
    uint64_t request_stamp; /* what comes will be no older; or RBT_STAMP_NONE */
    uint64_t last_stamp;    /* of the last answer that was kept: what comes later is no older */
    uint32_t idle;          /* clocks since the answer came or was used */
    bool is_held;           /* in the list of those with a stamp */
};

/* Starts as all zero, but for the map. */
struct rbt_prefetches {
    struct rbt_map index;
    struct rbt_prefetch **all;
    uint32_t count;
    uint32_t max;
    struct rbt_prefetch **held; /* room for all */
    uint32_t held_count;
};

RBT_MUST_USE rbt_status rbt_prefetches_init(struct rbt_prefetches *prefetches);
void rbt_prefetches_clear(struct rbt_prefetches *prefetches);
void rbt_prefetches_deinit(struct rbt_prefetches *prefetches);

/* What is known under a number: of rows that are asked for again and again, or once. The first
 * makes it, and is NULL without memory; the second is NULL if there is nothing. */
struct rbt_prefetch *rbt_prefetches_get(struct rbt_prefetches *prefetches, uint64_t number,
                                        uint32_t shard, bool is_once);
struct rbt_prefetch *rbt_prefetches_find(const struct rbt_prefetches *prefetches, uint64_t number,
                                         uint32_t shard, bool is_once);

/* Keeps the answer, unless what is there is newer: copies never get older. `is_base`: updates may
 * be computed from it. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_prefetches_keep(struct rbt_prefetches *prefetches,
                                            struct rbt_prefetch *prefetch,
                                            const struct rbt_answer *answer,
                                            const struct rbt_body *body);

/* The answer is of no more use. */
void rbt_prefetch_drop(struct rbt_prefetch *prefetch);

/* Base rows of this table are on their way, and will be no older than `stamp`; or have come. */
void rbt_prefetches_expect(struct rbt_prefetches *prefetches, struct rbt_prefetch *prefetch,
                           uint32_t table, uint64_t stamp);
void rbt_prefetch_arrived(struct rbt_prefetch *prefetch);

/* The lowest stamp that the worker must not let go of, if it says `least` itself. */
uint64_t rbt_prefetches_least(struct rbt_prefetches *prefetches, uint32_t shard, uint32_t table,
                              uint64_t least);

/* The worker has ended a clock, and the shard will hear of it. */
void rbt_prefetches_end_clock(struct rbt_prefetches *prefetches, uint32_t shard);

#endif
