/* store/shard_table.c - the tables of a shard: opened, compared, counted.
 *
 * Threads: none; one driver owns the shard. */
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
    rbt_early_destroy(table->early);
    rbt_rule_state_destroy(table->rule_state);
    rbt_rows_destroy(table->rows);
    rbt_free(table->spec);
    *table = (struct rbt_shard_state){0};
}

rbt_status rbt_shard_open_table(const rbt_shard *shard, struct rbt_shard_state *table,
                                const struct rbt_spec *spec)
{
    const uint32_t workers = shard->options.worker_count;
    RBT_ASSERT(!table->is_open);
    RBT_ASSERT(spec->width > 0);
    RBT_ASSERT(spec->layout == RBT_DENSE || spec->init == RBT_INIT_ZERO);
    table->is_open = true;
    table->spec = rbt_spec_copy(spec);
    if (table->spec == NULL) {
        return RBT_E_NOMEM;
    }
    spec = table->spec;
    uint32_t state_width = spec->layout == RBT_SPARSE ? 0 : spec->state_width;
    if (spec->code != NULL) {
        const rbt_status st = rbt_rule_state_create(spec, workers, &table->rule_state);
        if (st != RBT_OK) {
            return st;
        }
        state_width = rbt_rule_state_state_width(table->rule_state);
    }
    rbt_status st = RBT_OK;
    if (spec->policy != NULL) {
        const struct rbt_initial initial = rbt_spec_initial(spec);
        st = rbt_early_create(spec->policy, &initial, &table->early);
        table->spec->policy = st == RBT_OK ? rbt_early_priority(table->early) : NULL;
    }
    if (st == RBT_OK && spec->filter[0] != '\0') {
        const struct rbt_outgoing_options options = {.spec = spec, .worker_count = workers};
        st = rbt_outgoing_create(&options, &table->outgoing);
    }
    if (st != RBT_OK) {
        return st;
    }
    table->applied = rbt_calloc(workers, sizeof *table->applied);
    if (spec->layout == RBT_DENSE) {
        table->scratch = rbt_calloc(spec->width, rbt_spec_element_size(spec));
    }
    if (table->applied == NULL || (spec->layout == RBT_DENSE && table->scratch == NULL)) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a table");
    }
    return rbt_rows_create(spec, state_width, &table->rows);
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
        for (size_t i = 0; rbt_bins_unpack(bin, from->spec, i, from->scratch, &held.batch); i++) {
            visit(context, &held);
        }
    }
}

uint64_t rbt_shard_version(const rbt_shard *shard, uint32_t table)
{
    RBT_ASSERT(table < shard->table_count);
    RBT_ASSERT(shard->tables[table].is_open);
    const rbt_rule_state *rule_state = shard->tables[table].rule_state;
    return rule_state == NULL ? 0 : rbt_rule_state_version(rule_state);
}

bool rbt_shard_sends_early(const rbt_shard *shard, uint32_t table)
{
    RBT_ASSERT(table < shard->table_count);
    RBT_ASSERT(shard->tables[table].is_open);
    const rbt_rule_state *rule_state = shard->tables[table].rule_state;
    return rule_state == NULL || rbt_rule_state_sends_early(rule_state);
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
        if (table->rule_state == NULL) {
            continue;
        }
        const struct rbt_rule_state_stats rule = rbt_rule_state_stats(table->rule_state);
        const size_t state = rbt_rows_state_size(table->rows);
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
