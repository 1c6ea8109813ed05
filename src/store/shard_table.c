/* store/shard_table.c - the tables of a shard: opened, compared, counted.
 *
 * Threads: none; one driver owns the shard. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/shard_state.h"

void rbt_shard_close_table(struct rbt_shard_state *table)
{
    RBT_ASSERT(table->pending_missing == 0);
    RBT_ASSERT(table->is_open || table->rows == NULL);
    rbt_free(table->scratch);
    rbt_bins_deinit(&table->bins);
    rbt_free(table->applied);
    rbt_outgoing_destroy(table->outgoing);
    rbt_free(table->filter);
    rbt_early_destroy(table->early);
    rbt_ruling_destroy(table->ruling);
    rbt_rows_destroy(table->rows);
    *table = (struct rbt_shard_state){0};
}

/* Puts the table's filters to work, if it has any. */
static rbt_status open_filter(const rbt_shard *shard, struct rbt_shard_state *table,
                              const struct rbt_shard_table *schema)
{
    RBT_ASSERT(table->is_open);
    RBT_ASSERT(table->filter == NULL);
    if (schema->filter == NULL || schema->filter[0] == '\0') {
        return RBT_OK;
    }
    const size_t size = strlen(schema->filter) + 1;
    table->filter = rbt_calloc(size, 1);
    if (table->filter == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a table");
    }
    memcpy(table->filter, schema->filter, size);
    const struct rbt_outgoing_options options = {.schema = schema,
                                                 .worker_count = shard->options.worker_count};
    return rbt_outgoing_create(&options, &table->outgoing);
}

/* Whether the table has this text. */
static bool has_filter(const struct rbt_shard_state *table, const char *text)
{
    RBT_ASSERT(table->is_open);
    RBT_ASSERT(table->filter == NULL || table->filter[0] != '\0');
    return strcmp(table->filter == NULL ? "" : table->filter, text == NULL ? "" : text) == 0;
}

rbt_status rbt_shard_open_table(const rbt_shard *shard, struct rbt_shard_state *table,
                                const struct rbt_shard_table *schema)
{
    RBT_ASSERT(!table->is_open);
    RBT_ASSERT(schema->width > 0);
    RBT_ASSERT(schema->layout == RBT_DENSE || schema->init == RBT_INIT_ZERO);
    table->is_open = true;
    table->partial = schema->partial;
    table->is_synchronised = schema->is_synchronised;
    table->schema = (struct rbt_schema){.kind = {schema->type, schema->merge},
                                        .layout = schema->layout,
                                        .width = schema->width,
                                        .state_width = schema->state_width,
                                        .initial = {.type = schema->type,
                                                    .init = schema->init,
                                                    .width = schema->width,
                                                    .a = schema->a,
                                                    .b = schema->b,
                                                    .seed = schema->seed}};
    rbt_status st = RBT_OK;
    if (schema->code != NULL) {
        st = rbt_ruling_create(schema, shard->options.worker_count, &table->ruling);
        if (st != RBT_OK) {
            return st;
        }
        table->schema.state_width = rbt_ruling_state_width(table->ruling);
    }
    if (schema->priority != NULL) {
        st = rbt_early_create(schema->priority, &table->schema.initial, &table->early);
        if (st != RBT_OK) {
            return st;
        }
    }
    st = open_filter(shard, table, schema);
    if (st != RBT_OK) {
        return st;
    }
    table->applied = rbt_calloc(shard->options.worker_count, sizeof *table->applied);
    if (schema->layout == RBT_DENSE) {
        table->scratch = rbt_calloc(schema->width, rbt_merge_size(schema->type));
    }
    if (table->applied == NULL || (schema->layout == RBT_DENSE && table->scratch == NULL)) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a table");
    }
    return rbt_rows_create(&table->schema, schema->rows_expected, &table->rows);
}

bool rbt_shard_has_schema(const struct rbt_shard_state *table, const struct rbt_shard_table *schema)
{
    const struct rbt_schema *own = &table->schema;
    const struct rbt_initial *initial = &own->initial;
    RBT_ASSERT(table->is_open);
    const bool has_rule = table->ruling != NULL;
    if (has_rule != (schema->code != NULL) ||
        (has_rule && !rbt_ruling_has_text(table->ruling, schema->rule)) ||
        !has_filter(table, schema->filter)) {
        return false;
    }
    return own->kind.type == schema->type && own->kind.merge == schema->merge &&
           own->layout == schema->layout && own->width == schema->width &&
           (has_rule || own->state_width == schema->state_width) &&
           (table->early != NULL) == (schema->priority != NULL) &&
           table->partial == schema->partial && table->is_synchronised == schema->is_synchronised &&
           initial->init == schema->init && initial->a == schema->a && initial->b == schema->b &&
           initial->seed == schema->seed;
}

uint64_t rbt_shard_arrived(const rbt_shard *shard, uint32_t worker)
{
    RBT_ASSERT(worker < shard->options.worker_count);
    RBT_ASSERT(shard->arrived != NULL);
    return shard->arrived[worker];
}

uint64_t rbt_shard_settled(const rbt_shard *shard, uint32_t worker)
{
    const uint64_t first = rbt_unshown_first(&shard->unshown, worker);
    RBT_ASSERT(first <= shard->arrived[worker]); /* what is held has arrived */
    return first == 0 ? shard->arrived[worker] : first - 1;
}

int64_t rbt_shard_clock(const rbt_shard *shard, uint32_t worker)
{
    RBT_ASSERT(worker < shard->options.worker_count);
    RBT_ASSERT(shard->gate != NULL);
    return rbt_gate_clock(shard->gate, worker);
}

void rbt_shard_visit_held(const rbt_shard *shard, uint32_t table,
                          void (*visit)(void *context, const struct rbt_shard_held *held),
                          void *context)
{
    RBT_ASSERT(table < shard->table_count);
    RBT_ASSERT(shard->tables[table].is_open);
    const struct rbt_shard_state *from = &shard->tables[table];
    const struct rbt_bin *bin = NULL;
    for (size_t at = 0; (bin = rbt_bins_at(&from->bins, at)) != NULL; at++) {
        struct rbt_shard_held held = {.worker = bin->id.worker, .clock = bin->id.clock};
        for (size_t i = 0; rbt_bins_unpack(bin, &from->schema, i, from->scratch, &held.batch);
             i++) {
            visit(context, &held);
        }
    }
}

uint64_t rbt_shard_version(const rbt_shard *shard, uint32_t table)
{
    RBT_ASSERT(table < shard->table_count);
    RBT_ASSERT(shard->tables[table].is_open);
    const rbt_ruling *ruling = shard->tables[table].ruling;
    return ruling == NULL ? 0 : rbt_ruling_version(ruling);
}

bool rbt_shard_sends_early(const rbt_shard *shard, uint32_t table)
{
    RBT_ASSERT(table < shard->table_count);
    RBT_ASSERT(shard->tables[table].is_open);
    const rbt_ruling *ruling = shard->tables[table].ruling;
    return ruling == NULL || rbt_ruling_sends_early(ruling);
}

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void rbt_shard_stats(const rbt_shard *shard, struct rbt_shard_stats *stats)
{
    RBT_ASSERT(shard->table_count <= shard->options.table_max);
    *stats = (struct rbt_shard_stats){.updates = shard->updates, .duplicates = shard->duplicates};
    for (uint32_t i = 0; i < shard->table_count; i++) {
        const struct rbt_shard_state *table = &shard->tables[i];
        stats->rows += rbt_rows_count(table->rows);
        stats->held += table->bins.count;
        stats->bytes += rbt_rows_bytes(table->rows) + rbt_bins_bytes(&table->bins);
        stats->bytes += table->early == NULL ? 0 : rbt_early_bytes(table->early);
        stats->bytes += table->outgoing == NULL ? 0 : rbt_outgoing_bytes(table->outgoing);
        if (table->ruling == NULL) {
            continue;
        }
        const struct rbt_ruling_stats rule = rbt_ruling_stats(table->ruling);
        const size_t state = table->schema.state_width * sizeof(float);
        RBT_ASSERT(rule.snapshots <= rule.snapshots_max);
        RBT_ASSERT(rule.versions <= rule.versions_max);
        stats->bytes += rule.bytes;
        stats->rule_bytes += rule.bytes + rbt_rows_count(table->rows) * state;
        stats->rule_bytes_max += rule.bytes_max + rbt_rows_count(table->rows) * state;
        stats->snapshots += rule.snapshots;
        stats->versions_max = higher(stats->versions_max, rule.versions_max);
        stats->snapshots_max = higher(stats->snapshots_max, rule.snapshots_max);
    }
}
