/* core/dealer.h - deals the parts (core/parts.h) of one pass after the other out to workers.
 *
 * Workers need not be in the same pass: those ahead get parts of a later one while others finish
 * the one before. A part that came back from a worker that was too slow, or is gone, goes to the
 * next one who asks, also if that one is in a later pass already. Too slow is who has had its part
 * for longer than a multiple of the median of the last parts; a worker that is gone is just that.
 *
 * Time is a number of any unit; where it falls, because workers' clocks differ, it stands still.
 * Threads: none; whoever owns it. */
#ifndef RUBATO_CORE_DEALER_H
#define RUBATO_CORE_DEALER_H

#include "core/parts.h"

struct rbt_dealer_options {
    uint32_t part_count;   /* of a pass; at least 1 */
    uint32_t worker_count; /* at least 1 */
    uint32_t patience;     /* how many medians a worker may have a part; at least 1 */
    uint64_t least;        /* but always so long */
    uint64_t first;        /* before any part has been finished, so long */
};

/* A part of a pass. */
struct rbt_dealt {
    uint64_t pass;
    uint32_t part;
};

/* What a worker wants: a part of this pass, of those below `limit` or that came back. */
struct rbt_dealer_ask {
    uint32_t worker;
    uint64_t pass;
    uint32_t limit; /* at most part_count */
    uint64_t now;
};

typedef struct rbt_dealer rbt_dealer;

/* Fails with RBT_E_NOMEM. Pass 0 has begun. */
RBT_MUST_USE rbt_status rbt_dealer_create(const struct rbt_dealer_options *options,
                                          rbt_dealer **dealer);

/* Accepts NULL. */
void rbt_dealer_destroy(rbt_dealer *dealer);

/* The worker has none: one that it did not finish counts as come back. The first one who asks for
 * the pass after the newest begins it. WAIT: others have parts up to that pass that are not
 * finished. Fails with RBT_E_INVALID (no such pass yet) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_dealer_take(rbt_dealer *dealer, const struct rbt_dealer_ask *ask,
                                        enum rbt_parts_answer *answer, struct rbt_dealt *dealt);

/* The worker has finished what it was dealt last; *is_first says whether before others. Fails with
 * RBT_E_INVALID if it does not have that. */
RBT_MUST_USE rbt_status rbt_dealer_finish(rbt_dealer *dealer, uint32_t worker,
                                          const struct rbt_dealt *dealt, uint64_t now,
                                          bool *is_first);

/* How many parts came back so far; and how many a worker has finished before others. */
uint64_t rbt_dealer_returned(const rbt_dealer *dealer);
uint64_t rbt_dealer_finished(const rbt_dealer *dealer, uint32_t worker);

/* Everything but the options, which must be the same where it is loaded. What makes no sense is
 * refused, and the dealer is then to be destroyed. */
void rbt_dealer_save(const rbt_dealer *dealer, struct rbt_sink *sink);
void rbt_dealer_load(rbt_dealer *dealer, struct rbt_source *source);

#endif
