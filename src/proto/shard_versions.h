/* proto/shard_versions.h - which versions of synchronised tables a server's shards have, and what
 * of that the coordinator has been told.
 *
 * A server reports the lowest version of its shards, so that a report is one number per table. Jobs
 * have few such tables, so that a list will do; what belongs to a job goes when the job is over.
 *
 * What was told is never above the lowest version of the shards.
 *
 * Threads: those of its owner. Memory: one array per table, taken when the table is first noted. */
#ifndef RUBATO_PROTO_SHARD_VERSIONS_H
#define RUBATO_PROTO_SHARD_VERSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/control.h"

struct rbt_shard_versions_entry {
    uint64_t job;
    uint32_t table;
    uint64_t told;
    uint64_t *versions; /* by shard of this server */
};

/* All zeros, but for `shard_count`, is empty. */
struct rbt_shard_versions {
    uint32_t shard_count;
    struct rbt_shard_versions_entry *tables;
    uint32_t count;
    uint32_t max;
    bool is_due; /* some table has more than was told */
};

void rbt_shard_versions_deinit(struct rbt_shard_versions *versions);

/* The shard has the versions of the job's table below `version`. Versions that decrease are
 * ignored. Out of memory, this is forgotten. */
void rbt_shard_versions_note(struct rbt_shard_versions *versions, uint64_t job, uint32_t shard,
                             const struct rbt_control_version *version);

/* The next table of which the coordinator has to be told, which counts as told then; false if there
 * is none. */
bool rbt_shard_versions_next(struct rbt_shard_versions *versions, uint64_t *job,
                             struct rbt_control_version *version);

/* The coordinator has to be told all of it again. */
void rbt_shard_versions_forget_told(struct rbt_shard_versions *versions);

/* The job is over. */
void rbt_shard_versions_drop(struct rbt_shard_versions *versions, uint64_t job);

#endif
