/* store/ruling_save.c - a rule at work, as parts of a saved shard.
 *
 * Pins are not written down: a read is pinned once for each update in the bins that names it. The
 * highest stamp follows from the ledger. Threads: none; owned by the shard. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/ruling_state.h"

static bool has_parts(const rbt_ruling *ruling)
{
    RBT_ASSERT(ruling->instance.rule != NULL);
    RBT_ASSERT(ruling->spec->width > 0);
    return ruling->instance.needs.parts != RBT_PARTS_NONE;
}

struct rbt_bin_id rbt_ruling_last(const rbt_ruling *ruling)
{
    RBT_ASSERT(ruling->last.worker < ruling->ledger.worker_count);
    RBT_ASSERT(ruling->last.clock >= 0);
    return ruling->last;
}

size_t rbt_ruling_versions(const rbt_ruling *ruling)
{
    RBT_ASSERT(ruling->versions.count <= ruling->versions.capacity);
    RBT_ASSERT(ruling->versions.count == 0 || has_parts(ruling));
    return ruling->versions.count;
}

bool rbt_ruling_has_snapshots(const rbt_ruling *ruling)
{
    RBT_ASSERT(ruling->instance.rule != NULL);
    RBT_ASSERT(ruling->instance.needs.snapshot_width <= ruling->instance.needs.state_width);
    return ruling->instance.needs.snapshot_width > 0;
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

void rbt_ruling_save(const rbt_ruling *ruling, struct rbt_sink *sink)
{
    RBT_ASSERT(ruling->gone <= ruling->newest);
    RBT_ASSERT((ruling->status == RBT_OK) == (ruling->error->message[0] == '\0'));
    RBT_ASSERT(ruling->clock_offset >= 0 && ruling->clock_offset <= ruling->clock_end);
    RBT_ASSERT(ruling->last.sequence == 0 || ruling->count > 0);
    rbt_sink_put_u64(sink, ruling->count);
    rbt_sink_put_u64(sink, ruling->aggregates);
    rbt_sink_put_u64(sink, ruling->newest);
    rbt_sink_put_u64(sink, ruling->gone);
    rbt_sink_put_i64(sink, ruling->clock_offset);
    rbt_sink_put_i64(sink, ruling->clock_end);
    rbt_sink_put_i64(sink, ruling->last.clock);
    rbt_sink_put_u32(sink, ruling->last.worker);
    rbt_sink_put_u64(sink, ruling->last.sequence);
    rbt_sink_put_u64(sink, ruling->last_base);
    save_message(&ruling->message, sink);
    rbt_sink_put_u64(sink, ruling->versions.count_max);
    rbt_sink_put_u32(sink, (uint32_t)ruling->status);
    rbt_sink_put_text(sink, ruling->error->message);
    rbt_sink_put_text(sink, ruling->error->hint);
}

static void load_message(rbt_ruling *ruling, struct rbt_source *source)
{
    struct rbt_rule_message *message = &ruling->message;
    RBT_ASSERT(message->count == 0);
    message->worker = rbt_source_get_u32(source);
    message->clock = (int64_t)rbt_source_get_number(source);
    message->count = rbt_source_get_number(source);
    message->delay = rbt_source_get_number(source);
    message->tag = rbt_source_get_u64(source);
    message->previous = rbt_source_get_u64(source);
    message->version = rbt_source_get_u64(source);
    if (message->delay > message->count || message->count > ruling->count) {
        rbt_source_refuse(source, "an update was later than late");
        *message = (struct rbt_rule_message){0};
    }
    RBT_ASSERT(message->delay <= message->count);
}

/* Why the rule has failed, if it has. */
static void load_failure(rbt_ruling *ruling, struct rbt_source *source)
{
    RBT_ASSERT(ruling->error != NULL);
    RBT_ASSERT(ruling->status == RBT_OK);
    const int32_t status = (int32_t)rbt_source_get_u32(source);
    rbt_source_get_text(source, ruling->error->message, sizeof ruling->error->message);
    rbt_source_get_text(source, ruling->error->hint, sizeof ruling->error->hint);
    const bool has_failed = status == RBT_E_NOMEM || status == RBT_E_DATA;
    if ((!has_failed && status != RBT_OK) || has_failed != (ruling->error->message[0] != '\0')) {
        rbt_source_refuse(source, "a rule has failed without a reason");
        return;
    }
    ruling->status = (rbt_status)status;
}

void rbt_ruling_load(rbt_ruling *ruling, struct rbt_source *source)
{
    RBT_ASSERT(ruling->count == 0);
    RBT_ASSERT(ruling->versions.count == 0);
    ruling->count = rbt_source_get_number(source);
    ruling->aggregates = rbt_source_get_number(source);
    ruling->newest = rbt_source_get_u64(source);
    ruling->gone = rbt_source_get_u64(source);
    ruling->clock_offset = (int64_t)rbt_source_get_number(source);
    ruling->clock_end = (int64_t)rbt_source_get_number(source);
    ruling->last.clock = (int64_t)rbt_source_get_number(source);
    ruling->last.worker = rbt_source_get_u32(source);
    ruling->last.sequence = rbt_source_get_number(source);
    ruling->last_base = rbt_source_get_u64(source);
    load_message(ruling, source);
    ruling->versions.count_max = (size_t)rbt_source_get_number(source);
    if (ruling->gone > ruling->newest || ruling->last.worker >= ruling->ledger.worker_count ||
        ruling->clock_offset > ruling->clock_end ||
        (ruling->last.sequence > 0 && ruling->count == 0)) {
        rbt_source_refuse(source, "the counters of a rule make no sense");
        ruling->last = (struct rbt_bin_id){0};
        ruling->gone = 0;
    }
    load_failure(ruling, source);
}

void rbt_ruling_save_instance(const rbt_ruling *ruling, struct rbt_sink *sink)
{
    RBT_ASSERT(ruling->instance.rule != NULL);
    RBT_ASSERT(ruling->instance.rule->apply != NULL);
    rbt_rule_save(&ruling->instance, sink);
}

void rbt_ruling_load_instance(rbt_ruling *ruling, struct rbt_source *source)
{
    RBT_ASSERT(ruling->instance.rule != NULL);
    RBT_ASSERT(ruling->versions.count == 0); /* they come behind it */
    rbt_rule_load(&ruling->instance, source);
}

void rbt_ruling_save_ledger(const rbt_ruling *ruling, struct rbt_sink *sink)
{
    RBT_ASSERT(ruling->ledger.worker_count > 0);
    RBT_ASSERT(rbt_ledger_highest(&ruling->ledger) <= ruling->count);
    rbt_ledger_save(&ruling->ledger, sink);
}

void rbt_ruling_load_ledger(rbt_ruling *ruling, struct rbt_source *source)
{
    RBT_ASSERT(ruling->ledger.worker_count > 0);
    rbt_ledger_load(&ruling->ledger, source, ruling->count);
    ruling->highest = rbt_ruling_has_snapshots(ruling) && rbt_source_is_good(source)
                          ? rbt_ledger_highest(&ruling->ledger)
                          : 0;
    RBT_ASSERT(ruling->highest <= ruling->count);
}

void rbt_ruling_save_version(const rbt_ruling *ruling, size_t at, struct rbt_sink *sink)
{
    RBT_ASSERT(at < ruling->versions.count);
    RBT_ASSERT(has_parts(ruling));
    rbt_versions_save(&ruling->versions, at, sink);
}

void rbt_ruling_load_version(rbt_ruling *ruling, const rbt_row_store *rows,
                             struct rbt_source *source)
{
    struct rbt_versions *versions = &ruling->versions;
    RBT_ASSERT(versions->count <= versions->capacity);
    if (!has_parts(ruling)) {
        rbt_source_refuse(source, "a rule has versions that wants none");
        return;
    }
    rbt_versions_load(versions, source, rbt_rows_count(rows));
    if (!rbt_source_is_good(source)) {
        return;
    }
    RBT_ASSERT(versions->count > 0);
    const uint64_t id = versions->live[versions->count - 1].id;
    if (id < ruling->gone || id >= ruling->newest) {
        rbt_source_refuse(source, "a version has gone, or has not come");
    }
}

void rbt_ruling_save_snapshots(const rbt_ruling *ruling, const rbt_row_store *rows,
                               struct rbt_sink *sink)
{
    RBT_ASSERT(rbt_ruling_has_snapshots(ruling));
    RBT_ASSERT(ruling->snapshots.count <= ruling->snapshots.max);
    rbt_snapshots_save(&ruling->snapshots, rbt_rows_count(rows), sink);
}

void rbt_ruling_load_snapshots(rbt_ruling *ruling, const rbt_row_store *rows,
                               struct rbt_source *source)
{
    RBT_ASSERT(rbt_ruling_has_snapshots(ruling));
    RBT_ASSERT(ruling->snapshots.count == 0);
    rbt_snapshots_load(&ruling->snapshots, rbt_rows_count(rows), ruling->count, source);
}

void rbt_ruling_finish_load(rbt_ruling *ruling, const struct rbt_bins *bins,
                            struct rbt_source *source)
{
    const struct rbt_bin *bin = NULL;
    RBT_ASSERT(rbt_source_is_good(source));
    RBT_ASSERT(rbt_ledger_highest(&ruling->ledger) <= ruling->count);
    for (size_t at = 0; (bin = rbt_bins_at(bins, at)) != NULL; at++) {
        RBT_ASSERT(bin->id.worker < ruling->ledger.worker_count);
        if (bin->id.worker == ruling->last.worker && bin->id.sequence == ruling->last.sequence) {
            rbt_source_refuse(source, "an update waits that was applied");
            return;
        }
        if (!ruling->ledger.workers[bin->id.worker].is_known) {
            rbt_source_refuse(source, "an update waits of a worker that has sent none");
            return;
        }
        if (bin->batch.base == RBT_STAMP_NONE) {
            continue;
        }
        const struct rbt_hold *hold =
            rbt_ledger_find(&ruling->ledger, bin->id.worker, bin->batch.base);
        if (hold == NULL || hold->stamp != bin->batch.base) {
            rbt_source_refuse(source, "an update comes from a read that nobody holds");
            return;
        }
        rbt_ledger_pin(&ruling->ledger, bin->id.worker, bin->batch.base);
    }
}
