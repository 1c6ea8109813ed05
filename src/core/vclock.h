/* core/vclock.h - range vector clocks: what has arrived from whom, per range of keys.
 *
 * For each node the whole key space is cut into ranges with one time each; at the start it is one
 * range with time 0. Setting a time for a range splits the ranges that it cuts, and equal
 * neighbours are joined again, so that nodes that always send whole ranges cost one entry
 * (Li, thesis, 2017, section 3.3.1). */
#ifndef RUBATO_CORE_VCLOCK_H
#define RUBATO_CORE_VCLOCK_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/set.h>
#include <rubato/status.h>

#include "base/source.h"

typedef struct rbt_vclock rbt_vclock;

struct rbt_vclock_options {
    uint32_t node_count;
    uint32_t range_max; /* ranges kept per node; one set adds at most two */
};

RBT_MUST_USE rbt_status rbt_vclock_create(const struct rbt_vclock_options *options,
                                          rbt_vclock **vclock);
void rbt_vclock_destroy(rbt_vclock *vclock);

/* All times 0 again. */
void rbt_vclock_reset(rbt_vclock *vclock);

/* Sets the node's time for all keys of `range`. Fails with RBT_E_BUSY, and changes nothing, when
 * the node has too many ranges already. */
RBT_MUST_USE rbt_status rbt_vclock_set(rbt_vclock *vclock, uint32_t node, struct rbt_range range,
                                       uint64_t time);

/* The node's time for one key; its smallest and its largest time in a range; the number of ranges
 * kept for it. */
uint64_t rbt_vclock_get(const rbt_vclock *vclock, uint32_t node, uint64_t key);
uint64_t rbt_vclock_min(const rbt_vclock *vclock, uint32_t node, struct rbt_range range);
uint64_t rbt_vclock_max(const rbt_vclock *vclock, uint32_t node, struct rbt_range range);
uint32_t rbt_vclock_ranges(const rbt_vclock *vclock, uint32_t node);

/* All ranges with their times. Loading into one for as many nodes; what makes no sense is refused.
 */
void rbt_vclock_save(const rbt_vclock *vclock, struct rbt_sink *sink);
void rbt_vclock_load(rbt_vclock *vclock, struct rbt_source *source);

#endif
