/* store/index.h - where the row of a key is, in little memory: 9 to 12 bytes per key.
 *
 * The keys themselves are the caller's: an array by slot, which every call is given. The index
 * keeps a byte of each key's hash, so that it looks into that array for hardly any other key. */
#ifndef RUBATO_STORE_INDEX_H
#define RUBATO_STORE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "core/batch.h"

struct rbt_index_line;

/* Zero is an empty index without room. */
struct rbt_index {
    struct rbt_index_line *lines;
    uint64_t line_count;
    uint64_t count; /* keys, which have slots 0 .. count-1 */
};

void rbt_index_deinit(struct rbt_index *index);

/* Makes room for `count` more keys, so that adding them cannot fail. keys[0 .. index->count-1] are
 * those that are there. On failure with RBT_E_NOMEM the index is as before. */
RBT_MUST_USE rbt_status rbt_index_reserve(struct rbt_index *index, const uint64_t *keys,
                                          uint64_t count);

/* Adds a key that is not there, with the next slot; room must have been reserved. */
uint32_t rbt_index_add(struct rbt_index *index, uint64_t key);

size_t rbt_index_bytes(const struct rbt_index *index);

/* Slot of a key, or RBT_SLOT_NONE. */
uint32_t rbt_index_find(const struct rbt_index *index, const uint64_t *keys, uint64_t key);

/* slots[i] of each of `count` keys `wanted`; several look-ups are under way at once. */
void rbt_index_find_batch(const struct rbt_index *index, const uint64_t *keys,
                          const uint64_t *wanted, size_t count, uint32_t *slots);

#endif
