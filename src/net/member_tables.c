/* net/member_tables.c - what a server's shards have of tables that are synchronised, and what of
 * that the coordinator has been told.
 *
 * A server says the lowest version of its shards. Jobs have few such tables, so that a list will
 * do; what belongs to a job goes when the job is over.
 *
 * Threads: any, with the member's mutex. */
#include "base/alloc.h"
#include "base/assert.h"
#include "net/member_state.h"

static uint64_t lowest(const rbt_member *member, const struct rbt_member_table *table)
{
    uint64_t version = UINT64_MAX;
    for (uint32_t i = 0; i < member->shard_count; i++) {
        version = table->versions[i] < version ? table->versions[i] : version;
    }
    return version;
}

/* The table, made if it is not there; NULL without memory. */
static struct rbt_member_table *table_at(rbt_member *member, uint64_t job, uint32_t table)
{
    for (uint32_t i = 0; i < member->table_count; i++) {
        if (member->tables[i].job == job && member->tables[i].table == table) {
            return &member->tables[i];
        }
    }
    if (member->table_count == member->table_max) {
        const uint32_t max = member->table_max == 0 ? 4 : 2 * member->table_max;
        struct rbt_member_table *tables = rbt_realloc(member->tables, max, sizeof *tables);
        if (tables == NULL) {
            return NULL;
        }
        member->tables = tables;
        member->table_max = max;
    }
    struct rbt_member_table *t = &member->tables[member->table_count];
    *t = (struct rbt_member_table){
        .job = job,
        .table = table,
        .versions = rbt_calloc(member->shard_count, sizeof *t->versions),
    };
    if (t->versions == NULL) {
        return NULL;
    }
    member->table_count++;
    return t;
}

void rbt_member_tell_version(rbt_member *member, const struct rbt_member_version *version)
{
    RBT_ASSERT(version->shard < member->shard_count);
    RBT_ASSERT(version->table < RBT_CONTROL_TABLES_MAX);
    bool must_wake = false;
    pthread_mutex_lock(&member->mutex);
    struct rbt_member_table *table = table_at(member, version->job, version->table);
    if (table != NULL && version->version > table->versions[version->shard]) {
        table->versions[version->shard] = version->version;
        must_wake = !member->must_version && lowest(member, table) > table->told;
        member->must_version = member->must_version || must_wake;
    }
    pthread_mutex_unlock(&member->mutex);
    if (must_wake) {
        rbt_member_signal(member->wake);
    }
}

const struct rbt_member_table *rbt_member_next_table(rbt_member *member,
                                                     struct rbt_control_version *version)
{
    for (uint32_t i = 0; member->must_version && i < member->table_count; i++) {
        struct rbt_member_table *table = &member->tables[i];
        const uint64_t now = lowest(member, table);
        if (now > table->told) {
            table->told = now;
            *version = (struct rbt_control_version){.table = table->table, .version = now};
            return table;
        }
    }
    member->must_version = false;
    return NULL;
}

void rbt_member_forget_told(rbt_member *member)
{
    for (uint32_t i = 0; i < member->table_count; i++) {
        member->tables[i].told = 0;
    }
    member->must_version = member->table_count > 0;
}

void rbt_member_drop_tables(rbt_member *member, uint64_t job)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < member->table_count; i++) {
        if (member->tables[i].job == job) {
            rbt_free(member->tables[i].versions);
        } else {
            member->tables[kept++] = member->tables[i];
        }
    }
    member->table_count = kept;
}

void rbt_member_free_tables(rbt_member *member)
{
    for (uint32_t i = 0; i < member->table_count; i++) {
        rbt_free(member->tables[i].versions);
    }
    rbt_free(member->tables);
}
