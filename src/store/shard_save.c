/* store/shard_save.c - a shard as a stream of records, and back.
 *
 *     SHARD, GATE, PARKED, then for each table
 *     TABLE, ROWS..., BIN..., RULING, RULE, LEDGER, VERSION..., SNAPSHOTS, EARLY, OUTGOING
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
    RULING,
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
    NAME_MAX_SIZE = 1024,
};

/* --- What tables are like --------------------------------------------------------------------- */

/* A table as it was opened, with texts that stay where they are. */
struct spec {
    struct rbt_shard_table schema;
    char rule[RBT_RULE_TEXT_MAX];
    char name[NAME_MAX_SIZE];
    char priority[NAME_MAX_SIZE];
    char filter[RBT_FILTER_TEXT_MAX];
    struct rbt_priority_policy policy;
};

/* All but the staleness, which may change. */
static void save_spec(const struct rbt_shard_state *table, struct rbt_sink *sink)
{
    const struct rbt_schema *schema = &table->schema;
    const struct rbt_ruling_spec rule =
        table->ruling == NULL ? (struct rbt_ruling_spec){0} : rbt_ruling_spec(table->ruling);
    RBT_ASSERT(table->is_open);
    RBT_ASSERT(schema->width > 0);
    rbt_sink_put_u32(sink, (uint32_t)schema->kind.type);
    rbt_sink_put_u32(sink, (uint32_t)schema->kind.merge);
    rbt_sink_put_u32(sink, (uint32_t)schema->layout);
    rbt_sink_put_u32(sink, (uint32_t)schema->initial.init);
    rbt_sink_put_u32(sink, (uint32_t)table->partial);
    rbt_sink_put_u8(sink, table->is_synchronised ? 1 : 0);
    rbt_sink_put_u32(sink, schema->width);
    rbt_sink_put_u32(sink, table->ruling == NULL ? schema->state_width : 0);
    rbt_sink_put_f64(sink, schema->initial.a);
    rbt_sink_put_f64(sink, schema->initial.b);
    rbt_sink_put_u64(sink, schema->initial.seed);
    rbt_sink_put_text(sink, rule.rule);
    rbt_sink_put_text(sink, rule.table);
    rbt_sink_put_text(sink, table->early == NULL ? "" : rbt_early_priority(table->early)->name);
    rbt_sink_put_text(sink, table->filter);
}

/* One of an enumeration that ends with `last`. */
static uint32_t get_choice(struct rbt_source *source, uint32_t last)
{
    const uint32_t choice = rbt_source_get_u32(source);
    RBT_ASSERT(last > 0);
    RBT_ASSERT(last < 32);
    if (choice > last) {
        rbt_source_refuse(source, "a table is of a kind that there is not");
        return 0;
    }
    return choice;
}

static void load_spec(struct spec *spec, struct rbt_source *source)
{
    struct rbt_shard_table *schema = &spec->schema;
    RBT_ASSERT(schema->code == NULL);
    RBT_ASSERT(schema->priority == NULL);
    *schema = (struct rbt_shard_table){.name = spec->name};
    schema->type = (rbt_type)get_choice(source, RBT_I64);
    schema->merge = (rbt_merge)get_choice(source, RBT_MERGE_OR);
    schema->layout = (rbt_layout)get_choice(source, RBT_SPARSE);
    schema->init = (rbt_init)get_choice(source, RBT_INIT_NORMAL);
    schema->partial = (rbt_partial)get_choice(source, RBT_PARTIAL_SHOW);
    schema->is_synchronised = rbt_source_get_bool(source);
    schema->width = rbt_source_get_u32(source);
    schema->state_width = rbt_source_get_u32(source);
    schema->a = rbt_source_get_f64(source);
    schema->b = rbt_source_get_f64(source);
    schema->seed = rbt_source_get_u64(source);
    rbt_source_get_text(source, spec->rule, sizeof spec->rule);
    rbt_source_get_text(source, spec->name, sizeof spec->name);
    rbt_source_get_text(source, spec->priority, sizeof spec->priority);
    rbt_source_get_text(source, spec->filter, sizeof spec->filter);
    schema->rule = spec->rule[0] == '\0' ? NULL : spec->rule;
    schema->filter = spec->filter[0] == '\0' ? NULL : spec->filter;
    const bool is_plain = schema->type == RBT_F32 && schema->layout == RBT_DENSE;
    const bool is_float = schema->type == RBT_F32 || schema->type == RBT_F64;
    if (schema->width == 0 || !isfinite(schema->a) || !isfinite(schema->b) ||
        (schema->layout == RBT_SPARSE && schema->init != RBT_INIT_ZERO) ||
        (schema->merge == RBT_MERGE_OR && is_float) ||
        ((schema->rule != NULL || spec->priority[0] != '\0') && !is_plain)) {
        rbt_source_refuse(source, "a table is of a kind that cannot be");
    }
}

/* What all tables are like, as one number. */
static uint64_t hash_spec(const rbt_shard *shard, rbt_status *status)
{
    struct rbt_sink sink = {0};
    rbt_sink_put_u32(&sink, shard->options.worker_count);
    for (uint32_t i = 0; i < shard->table_count; i++) {
        rbt_sink_put_u8(&sink, shard->tables[i].is_open ? 1 : 0);
        if (shard->tables[i].is_open) {
            save_spec(&shard->tables[i], &sink);
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
static void save_ruling(const struct rbt_shard_state *table, struct rbt_sink *sink)
{
    const rbt_ruling *ruling = table->ruling;
    RBT_ASSERT(ruling != NULL);
    RBT_ASSERT(table->schema.layout == RBT_DENSE);
    rbt_sink_open(sink, RULING, RECORD_VERSION);
    rbt_ruling_save(ruling, sink);
    rbt_sink_close(sink);
    rbt_sink_open(sink, RULE, RECORD_VERSION);
    rbt_ruling_save_instance(ruling, sink);
    rbt_sink_close(sink);
    rbt_sink_open(sink, LEDGER, RECORD_VERSION);
    rbt_ruling_save_ledger(ruling, sink);
    rbt_sink_close(sink);
    for (size_t i = 0; i < rbt_ruling_versions(ruling); i++) {
        rbt_sink_open(sink, VERSION, RECORD_VERSION);
        rbt_ruling_save_version(ruling, i, sink);
        rbt_sink_close(sink);
    }
    if (rbt_ruling_has_snapshots(ruling)) {
        rbt_sink_open(sink, SNAPSHOTS, RECORD_VERSION);
        rbt_ruling_save_snapshots(ruling, table->rows, sink);
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
    save_spec(table, sink);
    rbt_sink_put_i64(sink, table->staleness);
    rbt_sink_put_u64(sink, rbt_rows_count(table->rows));
    rbt_sink_put_u64(sink, table->bins.count);
    rbt_sink_put_u64(sink, table->ruling == NULL ? 0 : rbt_ruling_versions(table->ruling));
    rbt_sink_put(sink, table->applied, workers * sizeof *table->applied);
    rbt_sink_close(sink);
    for (uint64_t slot = 0; slot < rbt_rows_count(table->rows);) { /* ends: some each time */
        rbt_sink_open(sink, ROWS, RECORD_VERSION);
        slot = rbt_rows_save(table->rows, &table->schema, slot, sink);
        rbt_sink_close(sink);
    }
    const struct rbt_bin *bin = NULL;
    for (size_t at = 0; (bin = rbt_bins_at(&table->bins, at)) != NULL; at++) {
        rbt_sink_open(sink, BIN, RECORD_VERSION);
        rbt_bins_save(bin, &table->schema, sink);
        rbt_sink_close(sink);
    }
    if (table->ruling != NULL) {
        save_ruling(table, sink);
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
                      struct spec *spec)
{
    RBT_ASSERT(spec->schema.code == NULL);
    if (spec->schema.rule == NULL) {
        return;
    }
    if (before != NULL && before->ruling != NULL &&
        rbt_ruling_has_text(before->ruling, spec->schema.rule)) {
        spec->schema.code = rbt_ruling_spec(before->ruling).code;
    } else if (strchr(spec->schema.rule, '/') != NULL) {
        rbt_source_refuse(l->source, "a table has a rule of a user's: it must be opened before");
    } else if (rbt_rule_find(spec->schema.rule, &spec->schema.code) != RBT_OK) {
        rbt_source_refuse(l->source, "a table has a rule that there is not");
    }
    RBT_ASSERT(spec->schema.code != NULL || !rbt_source_is_good(l->source));
}

static void find_priority(const struct loading *l, const struct rbt_shard_state *before,
                          struct spec *spec)
{
    RBT_ASSERT(spec->schema.priority == NULL);
    if (spec->priority[0] == '\0') {
        return;
    }
    if (before != NULL && before->early != NULL &&
        strcmp(rbt_early_priority(before->early)->name, spec->priority) == 0) {
        spec->policy = *rbt_early_priority(before->early);
    } else if (strchr(spec->priority, '/') != NULL ||
               rbt_priority_find(spec->priority, &spec->policy) != RBT_OK) {
        rbt_source_refuse(l->source, "a table has a priority that there is not");
    }
    spec->schema.priority = &spec->policy;
}

/* Opens the table as its spec says. */
static void open_table(struct loading *l, uint32_t index, struct spec *spec)
{
    const struct rbt_shard_state *before = table_before(l, index);
    RBT_ASSERT(index == l->shard->table_count);
    find_rule(l, before, spec);
    find_priority(l, before, spec);
    const bool is_known = before != NULL && rbt_source_is_good(l->source) &&
                          rbt_shard_has_schema(before, &spec->schema);
    if (!is_known && spec->schema.layout == RBT_DENSE &&
        (spec->schema.width > WIDTH_MAX || spec->schema.state_width > WIDTH_MAX)) {
        rbt_source_refuse(l->source, "a table has wide rows: it must be opened before");
    }
    if (!rbt_source_is_good(l->source)) {
        return;
    }
    struct rbt_shard_state *table = &l->shard->tables[index];
    const rbt_status st = rbt_shard_open_table(l->shard, table, &spec->schema);
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
    const uint32_t rule = 1U << RULING | 1U << RULE | 1U << LEDGER;
    const bool has_snapshots = table->ruling != NULL && rbt_ruling_has_snapshots(table->ruling);
    const uint32_t wanted =
        (table->ruling != NULL ? rule : 0) | (has_snapshots ? 1U << SNAPSHOTS : 0) |
        (table->early != NULL ? 1U << EARLY : 0) | (table->outgoing != NULL ? 1U << OUTGOING : 0);
    const uint32_t once = rule | 1U << SNAPSHOTS | 1U << EARLY | 1U << OUTGOING;
    const uint64_t versions = table->ruling == NULL ? 0 : rbt_ruling_versions(table->ruling);
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
    if (table->ruling != NULL) {
        rbt_ruling_finish_load(table->ruling, &table->bins, l->source);
        const struct rbt_bin_id last = rbt_ruling_last(table->ruling);
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
    struct spec *spec = rbt_calloc(1, sizeof *spec);
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
    l->table->staleness = rbt_source_get_i64(l->source);
    if (l->table->staleness != RBT_STALENESS_ANY &&
        (l->table->staleness < 0 || l->table->staleness > INT64_MAX / 2)) {
        rbt_source_refuse(l->source, "a staleness is out of range");
    }
    l->rows = rbt_source_get_u64(l->source);
    l->bins = rbt_source_get_u64(l->source);
    l->versions = rbt_source_get_u64(l->source);
    load_progress(l);
}

static void load_bin(struct loading *l)
{
    struct rbt_shard_state *table = l->table;
    RBT_ASSERT(table->is_open);
    rbt_bins_load(&table->bins, &table->schema, table->rows, (uint32_t)(table - l->shard->tables),
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
    const bool has_rule = l->table != NULL && l->table->ruling != NULL;
    const bool needs_rule = kind >= RULING && kind <= SNAPSHOTS;
    const bool has_snapshots = has_rule && rbt_ruling_has_snapshots(l->table->ruling);
    /* Others ask what RULING says. */
    const bool is_after = kind <= RULING || !needs_rule || (l->seen & 1U << RULING) != 0;
    return kind > l->last && (kind != GATE || l->last == SHARD) &&
           (kind != PARKED || l->last == GATE) && (!needs_rule || has_rule) && is_after &&
           (kind != SNAPSHOTS || has_snapshots) && (kind != EARLY || l->table->early != NULL) &&
           (kind != OUTGOING || l->table->outgoing != NULL);
}

static void load_record(struct loading *l, uint32_t kind)
{
    struct rbt_shard_state *table = l->table;
    RBT_ASSERT(kind <= TABLE || table != NULL);
    RBT_ASSERT(kind < RULING || kind > SNAPSHOTS || table->ruling != NULL);
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
        rbt_rows_load(table->rows, &table->schema, l->source);
        break;
    case BIN:
        load_bin(l);
        break;
    case RULING:
        rbt_ruling_load(table->ruling, l->source);
        break;
    case RULE:
        rbt_ruling_load_instance(table->ruling, l->source);
        break;
    case LEDGER:
        rbt_ruling_load_ledger(table->ruling, l->source);
        break;
    case VERSION:
        rbt_ruling_load_version(table->ruling, table->rows, l->source);
        break;
    case SNAPSHOTS:
        rbt_ruling_load_snapshots(table->ruling, table->rows, l->source);
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
