/* client/exchange.h - working sets whose rows travel before the clock ends.
 *
 * The rows that a worker has changed are in a queue; when the budget allows, the first of them are
 * sent. The same way the other way round: shards are asked for the rows that have changed most
 * there. What has not gone early goes at the end of the clock, as always, so nothing depends on any
 * of this but speed. */
#ifndef RUBATO_CLIENT_EXCHANGE_H
#define RUBATO_CLIENT_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/filter.h>
#include <rubato/set.h>

#include "client/client.h"
#include "comm/queue.h"
#include "comm/touched.h"

/* What messages have besides their rows, about; only budgets know of it. */
enum {
    RBT_CLIENT_MESSAGE_BYTES = 64,
    RBT_CLIENT_BATCH_BYTES = 16,
};

/* An early read. Shards are asked in turn, one at a time: a request to each would cost more than
 * the few rows that each has. */
struct rbt_early_read {
    struct rbt_driver_call call;
    struct rbt_batch batch;
    struct rbt_shard_early early;
    uint64_t applied;
    uint64_t answer_stamp;
    uint64_t *keys; /* (room_max) */
    char *values;   /* (room_max) rows */
    size_t turn;    /* of the set's shards, the one that is asked next */
    size_t asked_bytes;
    bool is_asked;
    bool is_overtaken; /* the set has been pulled since: what comes may be older */
};

struct rbt_managed {
    struct rbt_managed *next; /* of the worker's */
    rbt_set *set;
    size_t row_count;
    rbt_change_queue *queue;    /* rows with changes that have not been sent */
    struct rbt_touched touched; /* rows that have changed since their priority was looked at */
    uint64_t pushes;            /* of the whole set */
    bool is_release;            /* in this one, what filters hold back goes as well */
    uint32_t sweep;             /* with "sweep": the row that goes next, changed or not */
    uint32_t *chosen;           /* (row_count): scratch */
    uint64_t *keys;             /* (row_count): the same */
    /* Tables with a rule: rows that have come early hold a stamp of their own. */
    uint64_t *stamps; /* (row_count); RBT_STAMP_NONE: the set's */
    uint32_t *fresh;  /* those that do */
    size_t fresh_count;
    char *kept; /* (row_count) rows: what came early; a pull may bring older ones */
    /* Rows that came while there were changes computed from older ones: they are in `kept`, and
     * are put into the set when the changes become an update. */
    uint64_t *aside;            /* (row_count): the stamps; RBT_STAMP_NONE: there is nothing */
    struct rbt_tagged *tagged;  /* (row_count): scratch */
    uint32_t *sends;            /* (row_count): how often each has been sent early */
    uint32_t *receipts;         /* the same the other way */
    struct rbt_early_read read; /* under way */
    uint32_t room_max;          /* of rows that a read may bring */
};

void rbt_managed_free(struct rbt_managed *managed); /* accepts NULL */

/* Which of the counts is that of rows that were sent so often. */
RBT_MUST_USE size_t rbt_times_bin(uint32_t times);

/* The row that goes next in turn, changed or not, for the sweep; `taken` of them go in the same
 * message. RBT_QUEUE_NONE: it has all. */
RBT_MUST_USE uint32_t rbt_managed_sweep(struct rbt_managed *managed, size_t taken);

/* Makes updates of all rows that have changed: what a push of such a set is. */
RBT_MUST_USE rbt_status rbt_managed_push(struct rbt_managed *managed);

/* Applies the table's filters to the chosen rows, which are in order of `m->tagged`: what goes is
 * in filtering->values, a row of zeros for what does not, and the rest in filtering->known. */
RBT_MUST_USE rbt_status rbt_managed_filter(struct rbt_managed *m, size_t count,
                                           struct rbt_filter_code *code);

/* After their update has been made, of a row that is number `i` of the chosen ones: what went is
 * part of the copy, and the rest waits until the row changes again. */
void rbt_managed_settle(const struct rbt_managed *m, uint32_t row, size_t i);

/* All rows of the set have been read. */
void rbt_managed_pulled(struct rbt_managed *managed);

#endif
