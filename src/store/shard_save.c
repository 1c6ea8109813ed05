/* store/shard_save.c - a shard as a stream of records, and back.
 *
 *     SHARD, GATE, PARKED, then for each table
 *     TABLE, ROWS..., BIN..., RULE_STATE, RULE, LEDGER, VERSION..., SNAPSHOTS, EARLY, OUTGOING
 *
 * of which a table has what it needs. PARKED is a record of its own and optional: whoever starts a
 * server anew leaves it out, since requests are asked again. Not written down, because it follows
 * from the rest: the index, where updates in bins have their rows, what is promised to them, pins,
 * which messages are not shown yet; and memory that is kept to be used again.
 *
 * A shard is loaded into a new one, which takes the place of the old one when all has gone well.
 * What is read is checked against all that the code asserts, so that no bytes, whoever has made
 * them, can break the shard later. Threads: none; the shard's driver. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sort_u64.h"
#include "policy/filter/chain.h"
#include "policy/priority/priority.h"
#include "policy/rule/rule.h"
#include "store/shard_state.h"

/* Records of a table come in the order of these. */
enum kind {
    SHARD = 1,
    GATE,
    PARKED,
    TABLE,
    ROWS, /* any number of these, and of BIN and VERSION */
    BIN,
    RULE_STATE,
    RULE,
    LEDGER,
    VERSION,
    SNAPSHOTS,
    EARLY,
    OUTGOING,
    KIND_END,
};

enum {
    RECORD_VERSION = 1,
    WIDTH_MAX = 1 << 16, /* of rows of a table that the loading shard does not have */
};

/* --- What tables are like --------------------------------------------------------------------- */

static void load_spec(struct rbt_spec *spec, struct rbt_source *source)
{
    RBT_ASSERT(source != NULL);
    rbt_spec_load(spec, source);
    const bool is_plain = spec->type == RBT_F32 && spec->layout == RBT_DENSE;
    const bool is_float = spec->type == RBT_F32 || spec->type == RBT_F64;
    if (spec->width == 0 || !isfinite(spec->a) || !isfinite(spec->b) ||
        (spec->layout == RBT_SPARSE && spec->init != RBT_INIT_ZERO) ||
        (spec->merge == RBT_MERGE_OR && is_float) ||
        ((rbt_spec_has_rule(spec) || spec->priority[0] != '\0') && !is_plain)) {
        rbt_source_refuse(source, "a table is of a kind that cannot be");
    }
    RBT_ASSERT(spec->code == NULL);
}

/* What all tables are like, as one number. */
static uint64_t hash_spec(const rbt_shard *shard, rbt_status *status)
{
    struct rbt_sink sink = {0};
    rbt_sink_put_u32(&sink, shard->options.worker_count);
    for (uint32_t i = 0; i < shard->table_count; i++) {
        rbt_sink_put_u8(&sink, shard->tables[i].is_open ? 1 : 0);
        if (shard->tables[i].is_open) {
            rbt_spec_save(shard->tables[i].spec, &sink);
        }
    }
    RBT_ASSERT(sink.status != RBT_OK || sink.count > 0);
    *status = sink.status;
    const uint64_t hash = sink.status == RBT_OK ? rbt_hash_bytes(sink.bytes, sink.count, 0) : 0;
    rbt_sink_deinit(&sink);
    return hash;
}

/* --- Saving ----------------------------------------------------------------------------------- */

static void save_head(const rbt_shard *shard, struct rbt_sink *sink)
{
    RBT_ASSERT(shard->table_count <= shard->options.table_max);
    RBT_ASSERT(shard->arrived != NULL);
    rbt_sink_open(sink, SHARD, RECORD_VERSION);
    rbt_sink_put_u32(sink, shard->options.worker_count);
    rbt_sink_put_u32(sink, shard->table_count);
    rbt_sink_put_u64(sink, shard->updates);
    rbt_sink_put_u64(sink, shard->changes);
    rbt_sink_put_u64(sink, shard->duplicates);
    rbt_sink_put(sink, shard->arrived, shard->options.worker_count * sizeof *shard->arrived);
    rbt_sink_close(sink);
    rbt_sink_open(sink, GATE, RECORD_VERSION);
    rbt_gate_save(shard->gate, sink);
    rbt_sink_close(sink);
    rbt_sink_open(sink, PARKED, RECORD_VERSION);
    rbt_gate_save_parked(shard->gate, sink);
    rbt_sink_close(sink);
}

/* What a rule keeps. */
static void save_rule_state(const struct rbt_shard_state *table, struct rbt_sink *sink)
{
    const rbt_rule_state *rule_state = table->rule_state;
    RBT_ASSERT(rule_state != NULL);
    RBT_ASSERT(table->spec->layout == RBT_DENSE);
    rbt_sink_open(sink, RULE_STATE, RECORD_VERSION);
    rbt_rule_state_save(rule_state, sink);
    rbt_sink_close(sink);
    rbt_sink_open(sink, RULE, RECORD_VERSION);
    rbt_rule_state_save_instance(rule_state, sink);
    rbt_sink_close(sink);
    rbt_sink_open(sink, LEDGER, RECORD_VERSION);
    rbt_rule_state_save_ledger(rule_state, sink);
    rbt_sink_close(sink);
    for (size_t i = 0; i < rbt_rule_state_versions(rule_state); i++) {
        rbt_sink_open(sink, VERSION, RECORD_VERSION);
        rbt_rule_state_save_version(rule_state, i, sink);
        rbt_sink_close(sink);
    }
    if (rbt_rule_state_has_snapshots(rule_state)) {
        rbt_sink_open(sink, SNAPSHOTS, RECORD_VERSION);
        rbt_rule_state_save_snapshots(rule_state, table->rows, sink);
        rbt_sink_close(sink);
    }
}

static void save_table(const rbt_shard *shard, uint32_t index, struct rbt_sink *sink)
{
    const struct rbt_shard_state *table = &shard->tables[index];
    const uint32_t workers = shard->options.worker_count;
    RBT_ASSERT(table->is_open);
    RBT_ASSERT(table->pending_missing == 0); /* between two steps */
    rbt_sink_open(sink, TABLE, RECORD_VERSION);
    rbt_sink_put_u32(sink, index);
    rbt_spec_save(table->spec, sink);
    rbt_sink_put_i64(sink, table->spec->staleness);
    rbt_sink_put_u64(sink, rbt_rows_count(table->rows));
    rbt_sink_put_u64(sink, table->bins.count);
    rbt_sink_put_u64(sink,
                     table->rule_state == NULL ? 0 : rbt_rule_state_versions(table->rule_state));
    rbt_sink_put(sink, table->applied, workers * sizeof *table->applied);
    rbt_sink_close(sink);
    for (uint64_t slot = 0; slot < rbt_rows_count(table->rows);) { /* ends: some each time */
        rbt_sink_open(sink, ROWS, RECORD_VERSION);
        slot = rbt_rows_save(table->rows, slot, sink);
        rbt_sink_close(sink);
    }
    const struct rbt_bin *bin = NULL;
    for (size_t at = 0; (bin = rbt_bins_at(&table->bins, at)) != NULL; at++) {
        rbt_sink_open(sink, BIN, RECORD_VERSION);
        rbt_bins_save(bin, table->spec, sink);
        rbt_sink_close(sink);
    }
    if (table->rule_state != NULL) {
        save_rule_state(table, sink);
    }
    if (table->early != NULL) {
        rbt_sink_open(sink, EARLY, RECORD_VERSION);
        rbt_early_save(table->early, sink);
        rbt_sink_close(sink);
    }
    if (table->outgoing != NULL) {
        rbt_sink_open(sink, OUTGOING, RECORD_VERSION);
        rbt_outgoing_save(table->outgoing, sink);
        rbt_sink_close(sink);
    }
}

rbt_status rbt_shard_save(const rbt_shard *shard, struct rbt_sink *sink)
{
    RBT_ASSERT(sink->count == 0);
    RBT_ASSERT(shard->table_count <= shard->options.table_max);
    rbt_status st = RBT_OK;
    const uint64_t spec = hash_spec(shard, &st);
    if (st != RBT_OK) {
        return st;
    }
    rbt_sink_begin(sink, RBT_RECORD_SHARD, spec);
    save_head(shard, sink);
    for (uint32_t i = 0; i < shard->table_count; i++) {
        if (shard->tables[i].is_open) {
            save_table(shard, i, sink);
        }
    }
    return rbt_sink_end(sink);
}

/* --- Loading ---------------------------------------------------------------------------------- */

/* A shard on its way. */
struct loading {
    rbt_shard *shard;        /* new */
    const rbt_shard *before; /* which it will replace: has rules and priorities */
    struct rbt_source *source;
    struct rbt_shard_state *table; /* the one whose records come; NULL: none yet */
    uint32_t last;                 /* kind of the last record */
    uint32_t seen;                 /* kinds of the table's records, or of those before, as bits */
    uint32_t table_count;          /* that there will be */
    uint64_t rows;                 /* that the table will have */
    uint64_t bins;
    uint64_t versions;
    struct rbt_bin_id *newest; /* by worker: its last update in the table's bins so far */
};

static void load_head(struct loading *l)
{
    rbt_shard *shard = l->shard;
    RBT_ASSERT(shard->table_count == 0);
    RBT_ASSERT(shard->arrived != NULL);
    if (rbt_source_get_u32(l->source) != shard->options.worker_count) {
        rbt_source_refuse(l->source, "it is of another number of workers");
    }
    l->table_count = rbt_source_get_u32(l->source);
    if (l->table_count > shard->options.table_max) {
        rbt_source_refuse(l->source, "it has more tables than there may be");
    }
    shard->updates = rbt_source_get_number(l->source);
    shard->changes = rbt_source_get_number(l->source);
    shard->duplicates = rbt_source_get_number(l->source);
    for (uint32_t i = 0; i < shard->options.worker_count && rbt_source_is_good(l->source); i++) {
        shard->arrived[i] = rbt_source_get_number(l->source);
    }
}

/* The table that the old shard has under the same number, if it has one. */
static const struct rbt_shard_state *table_before(const struct loading *l, uint32_t index)
{
    RBT_ASSERT(l->before != NULL);
    RBT_ASSERT(l->before->table_count <= l->before->options.table_max);
    return index < l->before->table_count && l->before->tables[index].is_open
               ? &l->before->tables[index]
               : NULL;
}

/* The table's rule: that of the old shard, or one that comes with Rubato. What is read never makes
 * a process load code. */
static void find_rule(const struct loading *l, const struct rbt_shard_state *before,
                      struct rbt_spec *spec)
{
    RBT_ASSERT(spec->code == NULL);
    if (!rbt_spec_has_rule(spec)) {
        return;
    }
    if (before != NULL && strcmp(before->spec->rule, spec->rule) == 0) {
        spec->code = before->spec->code;
    } else if (strchr(spec->rule, '/') != NULL) {
        rbt_source_refuse(l->source, "a table has a rule of a user's: it must be opened before");
    } else if (rbt_rule_find(spec->rule, &spec->code) != RBT_OK) {
        rbt_source_refuse(l->source, "a table has a rule that there is not");
    }
    RBT_ASSERT(spec->code != NULL || !rbt_source_is_good(l->source));
}

/* The same of its priority; `room` is for one that the old shard does not have. */
static void find_priority(const struct loading *l, const struct rbt_shard_state *before,
                          struct rbt_spec *spec, struct rbt_priority_policy *room)
{
    RBT_ASSERT(spec->policy == NULL);
    if (spec->priority[0] == '\0') {
        return;
    }
    if (before != NULL && strcmp(before->spec->priority, spec->priority) == 0) {
        spec->policy = before->spec->policy;
        return;
    }
    if (strchr(spec->priority, '/') != NULL || rbt_priority_find(spec->priority, room) != RBT_OK) {
        rbt_source_refuse(l->source, "a table has a priority that there is not");
    }
    spec->policy = room;
    RBT_ASSERT(spec->policy != NULL);
}

/* Opens the table as its spec says. */
static void open_table(struct loading *l, uint32_t index, struct rbt_spec *spec)
{
    const struct rbt_shard_state *before = table_before(l, index);
    struct rbt_priority_policy policy = {0};
    RBT_ASSERT(index == l->shard->table_count);
    find_rule(l, before, spec);
    find_priority(l, before, spec, &policy);
    const bool is_known =
        before != NULL && rbt_source_is_good(l->source) && rbt_spec_is_same(spec, before->spec);
    if (!is_known && spec->layout == RBT_DENSE &&
        (spec->width > WIDTH_MAX || spec->state_width > WIDTH_MAX)) {
        rbt_source_refuse(l->source, "a table has wide rows: it must be opened before");
    }
    if (!rbt_source_is_good(l->source)) {
        return;
    }
    struct rbt_shard_state *table = &l->shard->tables[index];
    const rbt_status st = rbt_shard_open_table(l->shard, table, spec);
    l->shard->table_count = index + 1;
    if (st == RBT_E_NOMEM) {
        l->source->status = st;
    } else if (st != RBT_OK) {
        rbt_source_refuse(l->source, "a table is of a kind that cannot be");
    }
    RBT_ASSERT(table->is_open);
    l->table = table;
}

/* What has come from whom, and what of it is shown. */
static void load_progress(struct loading *l)
{
    const struct rbt_shard_state *table = l->table;
    RBT_ASSERT(table->applied != NULL);
    const uint32_t workers = l->shard->options.worker_count;
    for (uint32_t i = 0; i < workers && rbt_source_is_good(l->source); i++) {
        table->applied[i] = rbt_source_get_number(l->source);
    }
    for (uint32_t i = 0; i < workers && rbt_source_is_good(l->source); i++) {
        if (table->applied[i] > l->shard->arrived[i]) { /* (2) of shard.c */
            rbt_source_refuse(l->source, "updates are shown that have not arrived");
        }
    }
    RBT_ASSERT(table->is_open);
}

/* All records of the table have come: checks what they say of each other. */
static void finish_table(struct loading *l)
{
    struct rbt_shard_state *table = l->table;
    if (table == NULL || !rbt_source_is_good(l->source)) {
        return;
    }
    const uint32_t rule = 1U << RULE_STATE | 1U << RULE | 1U << LEDGER;
    const bool has_snapshots =
        table->rule_state != NULL && rbt_rule_state_has_snapshots(table->rule_state);
    const uint32_t wanted =
        (table->rule_state != NULL ? rule : 0) | (has_snapshots ? 1U << SNAPSHOTS : 0) |
        (table->early != NULL ? 1U << EARLY : 0) | (table->outgoing != NULL ? 1U << OUTGOING : 0);
    const uint32_t once = rule | 1U << SNAPSHOTS | 1U << EARLY | 1U << OUTGOING;
    const uint64_t versions =
        table->rule_state == NULL ? 0 : rbt_rule_state_versions(table->rule_state);
    if ((l->seen & once) != wanted || l->rows != rbt_rows_count(table->rows) ||
        l->bins != table->bins.count || l->versions != versions) {
        rbt_source_refuse(l->source, "a part of a table is missing");
        return;
    }
    const rbt_status st = rbt_rows_reserve(table->rows, table->bins.missing); /* (3) of shard.c */
    if (st != RBT_OK) {
        l->source->status = st;
        return;
    }
    if (table->rule_state != NULL) {
        rbt_rule_state_finish_load(table->rule_state, &table->bins, l->source);
        const struct rbt_bin_id last = rbt_rule_state_last(table->rule_state);
        if (last.sequence > l->shard->arrived[last.worker]) {
            rbt_source_refuse(l->source, "an update was applied that has not arrived");
        }
    }
    if (rbt_source_is_good(l->source) && !rbt_shard_is_settled(l->shard, table)) {
        rbt_source_refuse(l->source, "an update waits that need not"); /* (1) of shard.c */
    }
    RBT_ASSERT(table->pending_missing == 0);
}

static void load_table(struct loading *l)
{
    struct rbt_spec *spec = rbt_calloc(1, sizeof *spec);
    finish_table(l);
    l->table = NULL;
    l->seen = 0;
    memset(l->newest, 0, l->shard->options.worker_count * sizeof *l->newest);
    RBT_ASSERT(l->shard->table_count <= l->shard->options.table_max);
    if (spec == NULL) {
        l->source->status = rbt_fail(RBT_E_NOMEM, "could not allocate a table");
        return;
    }
    const uint32_t index = rbt_source_get_u32(l->source);
    if (index != l->shard->table_count || index >= l->table_count) {
        rbt_source_refuse(l->source, "tables are in no order");
    }
    load_spec(spec, l->source);
    if (rbt_source_is_good(l->source)) {
        open_table(l, index, spec);
    }
    rbt_free(spec);
    if (!rbt_source_is_good(l->source)) {
        return;
    }
    RBT_ASSERT(l->table != NULL);
    const int64_t staleness = rbt_source_get_i64(l->source);
    if (staleness < RBT_STALENESS_ANY || staleness > INT64_MAX / 2) {
        rbt_source_refuse(l->source, "a staleness is out of range");
    }
    l->table->spec->staleness = staleness;
    l->rows = rbt_source_get_u64(l->source);
    l->bins = rbt_source_get_u64(l->source);
    l->versions = rbt_source_get_u64(l->source);
    load_progress(l);
}

static void load_bin(struct loading *l)
{
    struct rbt_shard_state *table = l->table;
    RBT_ASSERT(table->is_open);
    rbt_bins_load(&table->bins, table->spec, table->rows, (uint32_t)(table - l->shard->tables),
                  l->source);
    if (!rbt_source_is_good(l->source)) {
        return;
    }
    const struct rbt_bin *bin = rbt_bins_at(&table->bins, table->bins.count - 1);
    RBT_ASSERT(bin != NULL);
    RBT_ASSERT(l->newest != NULL);
    if (bin->id.worker >= l->shard->options.worker_count || bin->id.sequence == 0 ||
        bin->id.sequence > l->shard->arrived[bin->id.worker]) {
        rbt_source_refuse(l->source, "an update waits that has not arrived");
        return;
    }
    /* A worker's clock moves on with its messages, and all of a message is of one clock. */
    struct rbt_bin_id *newest = &l->newest[bin->id.worker];
    if (bin->id.sequence < newest->sequence ||
        (bin->id.sequence == newest->sequence && bin->id.clock != newest->clock)) {
        rbt_source_refuse(l->source, "updates of a worker are in no order");
    }
    *newest = bin->id;
}

/* Whether a record of this kind may come now. */
static bool is_in_order(const struct loading *l, uint32_t kind)
{
    RBT_ASSERT(kind > 0 && kind < KIND_END);
    RBT_ASSERT(l->last < KIND_END);
    if (kind == TABLE) {
        return l->last >= GATE;
    }
    if (kind > TABLE && l->table == NULL) {
        return false;
    }
    if (kind == l->last) {
        return kind == ROWS || kind == BIN || kind == VERSION;
    }
    const bool has_rule = l->table != NULL && l->table->rule_state != NULL;
    const bool needs_rule = kind >= RULE_STATE && kind <= SNAPSHOTS;
    const bool has_snapshots = has_rule && rbt_rule_state_has_snapshots(l->table->rule_state);
    /* Others ask what RULE_STATE says. */
    const bool is_after = kind <= RULE_STATE || !needs_rule || (l->seen & 1U << RULE_STATE) != 0;
    return kind > l->last && (kind != GATE || l->last == SHARD) &&
           (kind != PARKED || l->last == GATE) && (!needs_rule || has_rule) && is_after &&
           (kind != SNAPSHOTS || has_snapshots) && (kind != EARLY || l->table->early != NULL) &&
           (kind != OUTGOING || l->table->outgoing != NULL);
}

static void load_record(struct loading *l, uint32_t kind)
{
    struct rbt_shard_state *table = l->table;
    RBT_ASSERT(kind <= TABLE || table != NULL);
    RBT_ASSERT(kind < RULE_STATE || kind > SNAPSHOTS || table->rule_state != NULL);
    switch ((enum kind)kind) {
    case SHARD:
        load_head(l);
        break;
    case GATE:
        rbt_gate_load(l->shard->gate, l->source);
        break;
    case PARKED:
        rbt_gate_load_parked(l->shard->gate, l->source);
        break;
    case TABLE:
        load_table(l);
        break;
    case ROWS:
        rbt_rows_load(table->rows, l->source);
        break;
    case BIN:
        load_bin(l);
        break;
    case RULE_STATE:
        rbt_rule_state_load(table->rule_state, l->source);
        break;
    case RULE:
        rbt_rule_state_load_instance(table->rule_state, l->source);
        break;
    case LEDGER:
        rbt_rule_state_load_ledger(table->rule_state, l->source);
        break;
    case VERSION:
        rbt_rule_state_load_version(table->rule_state, table->rows, l->source);
        break;
    case SNAPSHOTS:
        rbt_rule_state_load_snapshots(table->rule_state, table->rows, l->source);
        break;
    case EARLY:
        rbt_early_load(table->early, table->rows, l->source);
        break;
    case OUTGOING:
        rbt_outgoing_load(table->outgoing, l->source);
        break;
    case KIND_END:
        RBT_UNREACHABLE();
    }
}

/* Counts the messages of one worker with updates in bins, given their sequences in any order. */
static rbt_status note_unshown(rbt_shard *shard, uint32_t worker, uint64_t *sequences, size_t count)
{
    RBT_ASSERT(worker < shard->options.worker_count);
    rbt_status st = RBT_OK;
    rbt_sort_u64(sequences, count);
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        st = rbt_unshown_reserve(&shard->unshown, worker);
        if (st == RBT_OK) {
            rbt_unshown_add(&shard->unshown, worker, sequences[i]);
        }
    }
    RBT_ASSERT(st != RBT_OK || count == 0 || rbt_unshown_first(&shard->unshown, worker) > 0);
    return st;
}

/* Finds out from the bins of all tables which messages are not shown yet. */
static rbt_status find_unshown(rbt_shard *shard)
{
    const uint32_t workers = shard->options.worker_count;
    RBT_ASSERT(shard->table_count <= shard->options.table_max);
    size_t total = 0;
    for (uint32_t i = 0; i < shard->table_count; i++) {
        total += shard->tables[i].bins.count;
    }
    size_t *ends = rbt_calloc((size_t)workers + 1, sizeof *ends); /* of each worker's, at [w + 1] */
    uint64_t *sequences = rbt_calloc(total, sizeof *sequences);
    rbt_status st = ends != NULL && sequences != NULL
                        ? RBT_OK
                        : rbt_fail(RBT_E_NOMEM, "no memory for %zu updates", total);
    for (int pass = 0; st == RBT_OK && pass < 2; pass++) { /* first how many, then which */
        for (uint32_t i = 0; i < shard->table_count; i++) {
            const struct rbt_bin *bin = NULL;
            for (size_t at = 0; (bin = rbt_bins_at(&shard->tables[i].bins, at)) != NULL; at++) {
                RBT_ASSERT(bin->id.worker < workers);
                if (pass == 0) {
                    ends[bin->id.worker + 1]++;
                } else {
                    sequences[ends[bin->id.worker]++] = bin->id.sequence;
                }
            }
        }
        for (uint32_t w = 0; pass == 0 && w < workers; w++) {
            ends[w + 1] += ends[w];
        }
    }
    for (uint32_t w = 0; st == RBT_OK && w < workers; w++) { /* each has ended where it begins */
        const size_t begin = w == 0 ? 0 : ends[w - 1];
        RBT_ASSERT(ends[w] >= begin);
        st = note_unshown(shard, w, sequences + begin, ends[w] - begin);
    }
    rbt_free(sequences);
    rbt_free(ends);
    return st;
}

/* All records have come. */
static void finish_shard(struct loading *l, uint64_t spec)
{
    finish_table(l);
    RBT_ASSERT(l->last < KIND_END);
    if (rbt_source_is_good(l->source) &&
        (l->last < GATE || l->shard->table_count != l->table_count)) {
        rbt_source_refuse(l->source, "a part of it is missing");
    }
    if (!rbt_source_is_good(l->source)) {
        return;
    }
    rbt_status st = RBT_OK;
    if (hash_spec(l->shard, &st) != spec && st == RBT_OK) {
        rbt_source_refuse(l->source, "its tables are not those that its head says");
        return;
    }
    st = st != RBT_OK ? st : find_unshown(l->shard);
    l->source->status = st;
    RBT_ASSERT(l->shard->table_count <= l->shard->options.table_max);
}

rbt_status rbt_shard_load(rbt_shard *shard, struct rbt_source *source)
{
    rbt_shard *fresh = NULL;
    rbt_status st = rbt_shard_create(&shard->options, &fresh);
    if (st != RBT_OK) {
        return st;
    }
    struct loading l = {.shard = fresh, .before = shard, .source = source};
    l.newest = rbt_calloc(shard->options.worker_count, sizeof *l.newest);
    if (l.newest == NULL) {
        rbt_shard_destroy(fresh);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a shard");
    }
    struct rbt_source_record record;
    uint64_t spec = 0;
    rbt_source_begin(source, RBT_RECORD_SHARD, &spec);
    while (rbt_source_next(source, KIND_END, &record)) {
        if (record.version != RECORD_VERSION) {
            rbt_source_refuse(source, "a part of it is of another version");
        } else if (!is_in_order(&l, record.kind)) {
            rbt_source_refuse(source, "its parts are in no order");
        } else {
            load_record(&l, record.kind);
            rbt_source_finish(source);
        }
        l.last = record.kind;
        l.seen |= 1U << record.kind;
    }
    if (rbt_source_is_good(source)) {
        finish_shard(&l, spec);
    }
    st = source->status;
    if (st == RBT_OK) {
        const rbt_shard before = *shard;
        *shard = *fresh;
        *fresh = before;
    }
    rbt_free(l.newest);
    rbt_shard_destroy(fresh);
    RBT_ASSERT(shard->gate != NULL);
    return st;
}
