/* client/stamps.h - which reads of a table with a rule a worker may still name, shard by shard.
 *
 * Whoever keeps a copy holds the stamp of the read that brought it (core/batch.h): a set one per
 * shard, a row of the cache its own. The lowest stamp held is what shards are told, so that they
 * can forget what belongs to older reads. */
#ifndef RUBATO_CLIENT_STAMPS_H
#define RUBATO_CLIENT_STAMPS_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "core/batch.h"

struct rbt_stamps_entry {
    uint64_t stamp;
    uint64_t holders;
};

struct rbt_stamps_shard {
    struct rbt_stamps_entry *entries; /* stamps increase */
    size_t first;                     /* all before it have no holders */
    size_t count;
    size_t capacity;
    uint64_t newest; /* of all reads; RBT_STAMP_NONE: there was none */
};

struct rbt_stamps {
    uint32_t shard_count;
    struct rbt_stamps_shard *shards;
};

RBT_MUST_USE rbt_status rbt_stamps_create(uint32_t shard_count, struct rbt_stamps **stamps);
void rbt_stamps_destroy(struct rbt_stamps *stamps);

/* Makes room for one more stamp of the shard. */
RBT_MUST_USE rbt_status rbt_stamps_reserve(struct rbt_stamps *stamps, uint32_t shard);

/* A read with this stamp is the newest, unless a newer one has been noted. */
void rbt_stamps_note(struct rbt_stamps *stamps, uint32_t shard, uint64_t stamp);

/* The copy that held *held (RBT_STAMP_NONE: there was none) now holds `stamp`, for which there is
 * room. With RBT_STAMP_NONE the copy is gone. */
void rbt_stamps_replace(struct rbt_stamps *stamps, uint32_t shard, uint64_t *held, uint64_t stamp);

/* The lowest stamp held, by others than one copy that holds `except`; RBT_STAMP_NONE: there is
 * none. */
uint64_t rbt_stamps_least(const struct rbt_stamps *stamps, uint32_t shard, uint64_t except);

/* What an update names that was computed from a copy with the stamp `held`: if there is no such
 * copy, the worker's newest read, and 0 if it has never read. */
uint64_t rbt_stamps_base(const struct rbt_stamps *stamps, uint32_t shard, uint64_t held);

#endif
