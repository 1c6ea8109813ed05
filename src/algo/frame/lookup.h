/* algo/frame/lookup.h - where a key stands in a list of keys, for lists that are searched very
 * often.
 *
 * Threads: none while it is made, any afterwards. */
#ifndef RUBATO_ALGO_FRAME_LOOKUP_H
#define RUBATO_ALGO_FRAME_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/status.h>

typedef struct rbt_lookup rbt_lookup;

#define RBT_LOOKUP_MISSING UINT32_MAX

/* Remembers the position of each of `count` different keys, which must outlive the lookup.
 * Fails with RBT_E_NOMEM, and RBT_E_INVALID for more than 2^31 keys. */
RBT_MUST_USE rbt_status rbt_lookup_create(const uint64_t *keys, size_t count, rbt_lookup **lookup);

/* Accepts NULL. */
void rbt_lookup_destroy(rbt_lookup *lookup);

/* Position of `key`, or RBT_LOOKUP_MISSING. */
uint32_t rbt_lookup_find(const rbt_lookup *lookup, uint64_t key);

#endif
