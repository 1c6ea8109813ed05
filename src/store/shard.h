/* store/shard.h - a shard: the rows it owns, the clocks of the workers, and what is visible when.
 *
 * A state machine: the driver hands it events and does what the outbox says. It never waits and
 * touches neither locks nor time.
 *
 * PUSH: updates of one worker and one clock and, with them, a marker that says how many clocks the
 * worker has completed. Never waits. What has come before is dropped; what comes before its
 * predecessor is EARLY; what a worker sends that was given up fails with RBT_E_CLOSED.
 *
 * PULL: rows, as soon as all updates of clocks < need are in. If they are not, the request is
 * parked; READY says later that it may be stepped again.
 *
 * SCAN: like PULL, for all rows that exist in a range.
 *
 * LEAVE: the worker will send nothing more.
 *
 * TABLE: a table is new, or its staleness has changed.
 *
 * RESET: a new run begins; clocks are 0 again, rows stay. */
#ifndef RUBATO_STORE_SHARD_H
#define RUBATO_STORE_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/set.h>
#include <rubato/status.h>

#include "base/source.h"
#include "core/batch.h"
#include "core/shard_event.h"
#include "store/rows.h"

typedef struct rbt_shard rbt_shard;

struct rbt_shard_options {
    uint32_t worker_count;
    uint32_t table_max;
    uint32_t parked_max; /* requests that can wait at a time; outboxes have room for one more */
};

RBT_MUST_USE rbt_status rbt_shard_create(const struct rbt_shard_options *options,
                                         rbt_shard **shard);
void rbt_shard_destroy(rbt_shard *shard);

/* One event. Failures are in out->status and leave the shard as it was. */
void rbt_shard_step(rbt_shard *shard, const struct rbt_shard_event *event,
                    struct rbt_shard_outbox *out);

/* All messages of the worker up to this sequence have come; all up to this one are shown in all
 * tables, and stay so; and how many clocks the worker has completed, as the shard knows. */
uint64_t rbt_shard_arrived(const rbt_shard *shard, uint32_t worker);
uint64_t rbt_shard_settled(const rbt_shard *shard, uint32_t worker);
int64_t rbt_shard_clock(const rbt_shard *shard, uint32_t worker);

/* Writes the whole shard down, between any two steps: a stream of records (base/sink.h), of which
 * the shard's spec is the number of workers and its tables. The sink is new. Fails with
 * RBT_E_NOMEM, with what the sink's own function said, or with what a rule did.
 *
 * Loading makes the shard what the saved one was: equal steps then have equal effects and answers.
 * It has the same number of workers; whatever it held before goes. Tables that it has with the same
 * spec keep their rules, which may be users'; others are opened, if their rules and priorities come
 * with Rubato, and rows are not wider than 65536 elements. Fails with RBT_E_DATA and a sentence
 * if this is not a shard's state or makes no sense, or with RBT_E_NOMEM, and then the shard is as
 * it was. Figures of memory (rbt_shard_stats()) are of this process and may differ. */
RBT_MUST_USE rbt_status rbt_shard_save(const rbt_shard *shard, struct rbt_sink *sink);
RBT_MUST_USE rbt_status rbt_shard_load(rbt_shard *shard, struct rbt_source *source);

/* For tests: hands over every batch of the table that has arrived and is not visible yet. What
 * `batch` points to is the shard's. */
struct rbt_shard_held {
    uint32_t worker;
    int64_t clock;
    struct rbt_batch batch;
};
void rbt_shard_visit_held(const rbt_shard *shard, uint32_t table,
                          void (*visit)(void *context, const struct rbt_shard_held *held),
                          void *context);

/* One above the highest version that an update of the table has been mapped to, at most one above
 * the highest clock of one; 0 without a rule. Never decreases. */
uint64_t rbt_shard_version(const rbt_shard *shard, uint32_t table);

/* Whether rows of the table may be sent before somebody asks: not when its rule keeps too many
 * snapshots already. */
bool rbt_shard_sends_early(const rbt_shard *shard, uint32_t table);

/* Figures for rbt_job_stats(). */
struct rbt_shard_stats {
    uint64_t updates;    /* update messages applied: one per table and message */
    uint64_t duplicates; /* dropped */
    uint64_t rows;
    size_t held;       /* updates that are not visible yet */
    size_t bytes;      /* memory of all rows and held updates, with all that follows */
    size_t rule_bytes; /* of that: state, snapshots and versions of rules; and most at a time */
    size_t rule_bytes_max;
    uint64_t snapshots;     /* now */
    uint64_t versions_max;  /* most that a table had at a time */
    uint64_t snapshots_max; /* the same */
};
void rbt_shard_stats(const rbt_shard *shard, struct rbt_shard_stats *stats);

#endif
