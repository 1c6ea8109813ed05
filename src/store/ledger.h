/* store/ledger.h - which reads of a table updates may still be computed from, worker by worker.
 *
 * A read is known by its stamp: the number of messages that had been applied to the table. A worker
 * holds the stamps of the reads that its copies come from; its messages say which is the lowest
 * that it still has. Updates that have arrived but are not visible yet pin theirs. At first
 * every worker holds 0: what was there before anybody had read. */
#ifndef RUBATO_STORE_LEDGER_H
#define RUBATO_STORE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/rule.h> /* RBT_RULE_NO_VERSION */
#include <rubato/status.h>

#include "base/source.h"
#include "core/batch.h" /* RBT_STAMP_NONE */

struct rbt_hold {
    uint64_t stamp;
    uint64_t tag;     /* what the rule said at the read */
    uint64_t version; /* of the last message from it, RBT_RULE_NO_VERSION: there was none */
    /* The read has overtaken messages up to this sequence, which were sent before and know nothing
     * of it; 0: none, or they have all come. */
    uint64_t overtaken;
    uint32_t pins;   /* updates that wait */
    bool is_limited; /* the read was of some versions only, which the tag then names */
};

struct rbt_ledger_worker {
    struct rbt_hold *holds; /* by stamp */
    uint32_t count;
    uint32_t capacity;
    uint64_t least;    /* below this nothing is kept that is not pinned or ahead of messages */
    bool is_known;     /* has read or updated the table */
    bool has_left;     /* and sends nothing more */
    uint64_t versions; /* its last read saw those below; RBT_RULE_NO_VERSION: all */
    /* Of its last message from a limited read: the read's tag, and the message's version
     * (RBT_RULE_NO_VERSION: there was none). */
    uint64_t limited_tag;
    uint64_t limited_version;
};

struct rbt_ledger {
    struct rbt_ledger_worker *workers;
    uint32_t worker_count;
};

RBT_MUST_USE rbt_status rbt_ledger_init(struct rbt_ledger *ledger, uint32_t worker_count);
void rbt_ledger_deinit(struct rbt_ledger *ledger);

/* A new run begins: every worker holds `stamp`. */
void rbt_ledger_reset(struct rbt_ledger *ledger, uint64_t stamp, uint64_t tag);

/* The worker has read. What it held before goes, but for stamps from `least` on and what is pinned;
 * nothing goes if the read has overtaken messages up to `overtaken` (0: none), which may name it.
 * Stamps must not decrease. Fails with RBT_E_NOMEM, and then nothing has changed. */
struct rbt_ledger_read {
    uint64_t stamp;
    uint64_t tag;
    uint64_t least;
    uint64_t overtaken;
    bool is_limited;
};
RBT_MUST_USE rbt_status rbt_ledger_hold(struct rbt_ledger *ledger, uint32_t worker,
                                        const struct rbt_ledger_read *read);

/* The worker's message `sequence` has come, and after it the worker names nothing below `least` any
 * more (RBT_STAMP_NONE: nothing at all); but for reads that have overtaken the message. */
void rbt_ledger_release(struct rbt_ledger *ledger, uint32_t worker, uint64_t sequence,
                        uint64_t least);

/* The hold that an update with this base belongs to: its own, or if the worker should not have
 * named it, the next one; NULL if the worker holds nothing. */
struct rbt_hold *rbt_ledger_find(struct rbt_ledger *ledger, uint32_t worker, uint64_t base);

/* An update with this base, as found, waits; it waits no more. */
void rbt_ledger_pin(struct rbt_ledger *ledger, uint32_t worker, uint64_t base);
void rbt_ledger_unpin(struct rbt_ledger *ledger, uint32_t worker, uint64_t base);

/* Lowest and highest stamp that anybody holds; RBT_STAMP_NONE and 0 if nobody does. */
uint64_t rbt_ledger_lowest(const struct rbt_ledger *ledger);
uint64_t rbt_ledger_highest(const struct rbt_ledger *ledger);

/* What everybody holds, but for pins, which follow from the updates that wait. Loading into one for
 * as many workers; no stamp may be above `highest`. What makes no sense is refused. */
void rbt_ledger_save(const struct rbt_ledger *ledger, struct rbt_sink *sink);
void rbt_ledger_load(struct rbt_ledger *ledger, struct rbt_source *source, uint64_t highest);

#endif
