/* store/rule_state_save.c - a rule at work, as parts of a saved shard.
 *
 * Pins are not written down: a read is pinned once for each update in the bins that names it. The
 * highest stamp follows from the ledger. Threads: none; owned by the shard. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/rule_state_parts.h"

static bool has_parts(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    RBT_ASSERT(rule_state->spec->width > 0);
    return rule_state->instance.needs.parts != RBT_PARTS_NONE;
}

struct rbt_bin_id rbt_rule_state_last(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->last.worker < rule_state->ledger.worker_count);
    RBT_ASSERT(rule_state->last.clock >= 0);
    return rule_state->last;
}

size_t rbt_rule_state_versions(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->versions.count <= rule_state->versions.capacity);
    RBT_ASSERT(rule_state->versions.count == 0 || has_parts(rule_state));
    return rule_state->versions.count;
}

bool rbt_rule_state_has_snapshots(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    RBT_ASSERT(rule_state->instance.needs.snapshot_width <= rule_state->instance.needs.state_width);
    return rule_state->instance.needs.snapshot_width > 0;
}

static void save_message(const struct rbt_rule_message *message, struct rbt_sink *sink)
{
    RBT_ASSERT(message->delay <= message->count);
    RBT_ASSERT(message->clock >= 0);
    rbt_sink_put_u32(sink, message->worker);
    rbt_sink_put_i64(sink, message->clock);
    rbt_sink_put_u64(sink, message->count);
    rbt_sink_put_u64(sink, message->delay);
    rbt_sink_put_u64(sink, message->tag);
    rbt_sink_put_u64(sink, message->previous);
    rbt_sink_put_u64(sink, message->version);
}

void rbt_rule_state_save(const rbt_rule_state *rule_state, struct rbt_sink *sink)
{
    RBT_ASSERT(rule_state->gone <= rule_state->newest);
    RBT_ASSERT((rule_state->status == RBT_OK) == (rule_state->error->message[0] == '\0'));
    RBT_ASSERT(rule_state->clock_offset >= 0 && rule_state->clock_offset <= rule_state->clock_end);
    RBT_ASSERT(rule_state->last.sequence == 0 || rule_state->count > 0);
    rbt_sink_put_u64(sink, rule_state->count);
    rbt_sink_put_u64(sink, rule_state->aggregates);
    rbt_sink_put_u64(sink, rule_state->newest);
    rbt_sink_put_u64(sink, rule_state->gone);
    rbt_sink_put_i64(sink, rule_state->clock_offset);
    rbt_sink_put_i64(sink, rule_state->clock_end);
    rbt_sink_put_i64(sink, rule_state->last.clock);
    rbt_sink_put_u32(sink, rule_state->last.worker);
    rbt_sink_put_u64(sink, rule_state->last.sequence);
    rbt_sink_put_u64(sink, rule_state->last_base);
    save_message(&rule_state->message, sink);
    rbt_sink_put_u64(sink, rule_state->versions.count_max);
    rbt_sink_put_u32(sink, (uint32_t)rule_state->status);
    rbt_sink_put_text(sink, rule_state->error->message);
    rbt_sink_put_text(sink, rule_state->error->hint);
}

static void load_message(rbt_rule_state *rule_state, struct rbt_source *source)
{
    struct rbt_rule_message *message = &rule_state->message;
    RBT_ASSERT(message->count == 0);
    message->worker = rbt_source_get_u32(source);
    message->clock = (int64_t)rbt_source_get_number(source);
    message->count = rbt_source_get_number(source);
    message->delay = rbt_source_get_number(source);
    message->tag = rbt_source_get_u64(source);
    message->previous = rbt_source_get_u64(source);
    message->version = rbt_source_get_u64(source);
    if (message->delay > message->count || message->count > rule_state->count) {
        rbt_source_refuse(source, "an update was later than late");
        *message = (struct rbt_rule_message){0};
    }
    RBT_ASSERT(message->delay <= message->count);
}

/* Why the rule has failed, if it has. */
static void load_failure(rbt_rule_state *rule_state, struct rbt_source *source)
{
    RBT_ASSERT(rule_state->error != NULL);
    RBT_ASSERT(rule_state->status == RBT_OK);
    const int32_t status = (int32_t)rbt_source_get_u32(source);
    rbt_source_get_text(source, rule_state->error->message, sizeof rule_state->error->message);
    rbt_source_get_text(source, rule_state->error->hint, sizeof rule_state->error->hint);
    const bool has_failed = status == RBT_E_NOMEM || status == RBT_E_DATA;
    if ((!has_failed && status != RBT_OK) ||
        has_failed != (rule_state->error->message[0] != '\0')) {
        rbt_source_refuse(source, "a rule has failed without a reason");
        return;
    }
    rule_state->status = (rbt_status)status;
}

void rbt_rule_state_load(rbt_rule_state *rule_state, struct rbt_source *source)
{
    RBT_ASSERT(rule_state->count == 0);
    RBT_ASSERT(rule_state->versions.count == 0);
    rule_state->count = rbt_source_get_number(source);
    rule_state->aggregates = rbt_source_get_number(source);
    rule_state->newest = rbt_source_get_u64(source);
    rule_state->gone = rbt_source_get_u64(source);
    rule_state->clock_offset = (int64_t)rbt_source_get_number(source);
    rule_state->clock_end = (int64_t)rbt_source_get_number(source);
    rule_state->last.clock = (int64_t)rbt_source_get_number(source);
    rule_state->last.worker = rbt_source_get_u32(source);
    rule_state->last.sequence = rbt_source_get_number(source);
    rule_state->last_base = rbt_source_get_u64(source);
    load_message(rule_state, source);
    rule_state->versions.count_max = (size_t)rbt_source_get_number(source);
    if (rule_state->gone > rule_state->newest ||
        rule_state->last.worker >= rule_state->ledger.worker_count ||
        rule_state->clock_offset > rule_state->clock_end ||
        (rule_state->last.sequence > 0 && rule_state->count == 0)) {
        rbt_source_refuse(source, "the counters of a rule make no sense");
        rule_state->last = (struct rbt_bin_id){0};
        rule_state->gone = 0;
    }
    load_failure(rule_state, source);
}

void rbt_rule_state_save_instance(const rbt_rule_state *rule_state, struct rbt_sink *sink)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    RBT_ASSERT(rule_state->instance.rule->apply != NULL);
    rbt_rule_save(&rule_state->instance, sink);
}

void rbt_rule_state_load_instance(rbt_rule_state *rule_state, struct rbt_source *source)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    RBT_ASSERT(rule_state->versions.count == 0); /* they come behind it */
    rbt_rule_load(&rule_state->instance, source);
}

void rbt_rule_state_save_ledger(const rbt_rule_state *rule_state, struct rbt_sink *sink)
{
    RBT_ASSERT(rule_state->ledger.worker_count > 0);
    RBT_ASSERT(rbt_ledger_highest(&rule_state->ledger) <= rule_state->count);
    rbt_ledger_save(&rule_state->ledger, sink);
}

void rbt_rule_state_load_ledger(rbt_rule_state *rule_state, struct rbt_source *source)
{
    RBT_ASSERT(rule_state->ledger.worker_count > 0);
    rbt_ledger_load(&rule_state->ledger, source, rule_state->count);
    rule_state->highest = rbt_rule_state_has_snapshots(rule_state) && rbt_source_is_good(source)
                              ? rbt_ledger_highest(&rule_state->ledger)
                              : 0;
    RBT_ASSERT(rule_state->highest <= rule_state->count);
}

void rbt_rule_state_save_version(const rbt_rule_state *rule_state, size_t at, struct rbt_sink *sink)
{
    RBT_ASSERT(at < rule_state->versions.count);
    RBT_ASSERT(has_parts(rule_state));
    rbt_versions_save(&rule_state->versions, at, sink);
}

void rbt_rule_state_load_version(rbt_rule_state *rule_state, const rbt_row_store *rows,
                                 struct rbt_source *source)
{
    struct rbt_versions *versions = &rule_state->versions;
    RBT_ASSERT(versions->count <= versions->capacity);
    if (!has_parts(rule_state)) {
        rbt_source_refuse(source, "a rule has versions that wants none");
        return;
    }
    rbt_versions_load(versions, source, rbt_rows_count(rows));
    if (!rbt_source_is_good(source)) {
        return;
    }
    RBT_ASSERT(versions->count > 0);
    const uint64_t id = versions->live[versions->count - 1].id;
    if (id < rule_state->gone || id >= rule_state->newest) {
        rbt_source_refuse(source, "a version has gone, or has not come");
    }
}

void rbt_rule_state_save_snapshots(const rbt_rule_state *rule_state, const rbt_row_store *rows,
                                   struct rbt_sink *sink)
{
    RBT_ASSERT(rbt_rule_state_has_snapshots(rule_state));
    RBT_ASSERT(rule_state->snapshots.count <= rule_state->snapshots.max);
    rbt_snapshots_save(&rule_state->snapshots, rbt_rows_count(rows), sink);
}

void rbt_rule_state_load_snapshots(rbt_rule_state *rule_state, const rbt_row_store *rows,
                                   struct rbt_source *source)
{
    RBT_ASSERT(rbt_rule_state_has_snapshots(rule_state));
    RBT_ASSERT(rule_state->snapshots.count == 0);
    rbt_snapshots_load(&rule_state->snapshots, rbt_rows_count(rows), rule_state->count, source);
}

void rbt_rule_state_finish_load(rbt_rule_state *rule_state, const struct rbt_bins *bins,
                                struct rbt_source *source)
{
    const struct rbt_bin *bin = NULL;
    RBT_ASSERT(rbt_source_is_good(source));
    RBT_ASSERT(rbt_ledger_highest(&rule_state->ledger) <= rule_state->count);
    for (size_t at = 0; (bin = rbt_bins_at(bins, at)) != NULL; at++) {
        RBT_ASSERT(bin->id.worker < rule_state->ledger.worker_count);
        if (bin->id.worker == rule_state->last.worker &&
            bin->id.sequence == rule_state->last.sequence) {
            rbt_source_refuse(source, "an update waits that was applied");
            return;
        }
        if (!rule_state->ledger.workers[bin->id.worker].is_known) {
            rbt_source_refuse(source, "an update waits of a worker that has sent none");
            return;
        }
        if (bin->batch.base == RBT_STAMP_NONE) {
            continue;
        }
        const struct rbt_hold *hold =
            rbt_ledger_find(&rule_state->ledger, bin->id.worker, bin->batch.base);
        if (hold == NULL || hold->stamp != bin->batch.base) {
            rbt_source_refuse(source, "an update comes from a read that nobody holds");
            return;
        }
        rbt_ledger_pin(&rule_state->ledger, bin->id.worker, bin->batch.base);
    }
}
