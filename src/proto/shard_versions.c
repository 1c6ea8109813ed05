/* proto/shard_versions.c - which versions of synchronised tables a server's shards have, and what
 * of that the coordinator has been told.
 *
 * Invariant: told <= the lowest version of the shards. Both only grow, but for what was told, which
 * a new connection sets to 0.
 *
 * Threads and memory: see shard_versions.h. */
#include "proto/shard_versions.h"

#include "base/alloc.h"
#include "base/assert.h"

static uint64_t lowest(const struct rbt_shard_versions *versions,
                       const struct rbt_shard_versions_entry *table)
{
    uint64_t version = UINT64_MAX;
    for (uint32_t i = 0; i < versions->shard_count; i++) {
        version = table->versions[i] < version ? table->versions[i] : version;
    }
    RBT_DEBUG_ASSERT(table->told <= version);
    return version;
}

/* The table, made if it is not there; NULL without memory. */
static struct rbt_shard_versions_entry *table_at(struct rbt_shard_versions *versions, uint64_t job,
                                                 uint32_t table)
{
    for (uint32_t i = 0; i < versions->count; i++) {
        if (versions->tables[i].job == job && versions->tables[i].table == table) {
            return &versions->tables[i];
        }
    }
    if (versions->count == versions->max) {
        const uint32_t max = versions->max == 0 ? 4 : 2 * versions->max;
        struct rbt_shard_versions_entry *tables =
            rbt_realloc(versions->tables, max, sizeof *tables);
        if (tables == NULL) {
            return NULL;
        }
        versions->tables = tables;
        versions->max = max;
    }
    struct rbt_shard_versions_entry *t = &versions->tables[versions->count];
    *t = (struct rbt_shard_versions_entry){
        .job = job,
        .table = table,
        .versions = rbt_calloc(versions->shard_count, sizeof *t->versions),
    };
    if (t->versions == NULL) {
        return NULL;
    }
    versions->count++;
    return t;
}

void rbt_shard_versions_note(struct rbt_shard_versions *versions, uint64_t job, uint32_t shard,
                             const struct rbt_control_version *version)
{
    RBT_ASSERT(shard < versions->shard_count);
    RBT_ASSERT(version->table < RBT_JOB_TABLES_MAX);
    struct rbt_shard_versions_entry *table = table_at(versions, job, version->table);
    if (table != NULL && version->version > table->versions[shard]) {
        table->versions[shard] = version->version;
        versions->is_due = versions->is_due || lowest(versions, table) > table->told;
    }
}

bool rbt_shard_versions_next(struct rbt_shard_versions *versions, uint64_t *job,
                             struct rbt_control_version *version)
{
    for (uint32_t i = 0; versions->is_due && i < versions->count; i++) {
        struct rbt_shard_versions_entry *table = &versions->tables[i];
        const uint64_t now = lowest(versions, table);
        if (now > table->told) {
            table->told = now;
            *job = table->job;
            *version = (struct rbt_control_version){.table = table->table, .version = now};
            return true;
        }
    }
    versions->is_due = false;
    return false;
}

void rbt_shard_versions_forget_told(struct rbt_shard_versions *versions)
{
    for (uint32_t i = 0; i < versions->count; i++) {
        versions->tables[i].told = 0;
    }
    versions->is_due = versions->count > 0;
}

void rbt_shard_versions_drop(struct rbt_shard_versions *versions, uint64_t job)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < versions->count; i++) {
        if (versions->tables[i].job == job) {
            rbt_free(versions->tables[i].versions);
        } else {
            versions->tables[kept++] = versions->tables[i];
        }
    }
    versions->count = kept;
}

void rbt_shard_versions_deinit(struct rbt_shard_versions *versions)
{
    for (uint32_t i = 0; i < versions->count; i++) {
        rbt_free(versions->tables[i].versions);
    }
    rbt_free(versions->tables);
    *versions = (struct rbt_shard_versions){0};
}
