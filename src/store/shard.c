/* store/shard.c - what is visible when.
 *
 * An update stamped with clock t of worker p may be shown, in a table with staleness s, when
 *
 *     p has completed t (its clock is > t), unless the table shows partial clocks, and
 *     t < floor + s, or s is unbounded,          floor = the smallest clock of any worker.
 *
 * Until then it is held in a bin. A reader at clock c has c >= floor, so it never sees an update of
 * clock c + s or later, however far its worker has run ahead; and because a read waits for
 * floor >= c - s, it sees every update of clocks <= c - s - 1. For s = 0 both together say that a
 * clock becomes visible when everybody has completed it, and bins are applied in the order (clock,
 * worker, sequence): BSP, exactly, with the same bits on every run. See docs/consistency.md.
 *
 * Exactly once: a message is known by (worker, sequence), and is applied to all of its tables or to
 * none. What is not above the highest sequence that has arrived from the worker is dropped.
 *
 * In order: sequences of a worker have no gaps, so a message that comes before its predecessor is
 * noticed and sent back to the driver, which steps it again later. Otherwise its marker would say
 * that updates are in which are not. A worker that was given up is refused: others have gone on.
 *
 * Invariants:
 *   (1) no held update may be shown: whatever may be shown has been applied;
 *   (2) applied[worker] of a table <= arrived[worker];
 *   (3) there is room in the rows for everything that is held, so that releasing cannot fail.
 *
 * Threads: none; one driver owns the shard. Memory: tables grow when an update brings new rows. */
#include "store/shard.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "store/shard_state.h"

rbt_status rbt_shard_create(const struct rbt_shard_options *options, rbt_shard **shard)
{
    RBT_ASSERT(options->worker_count > 0);
    RBT_ASSERT(options->table_max > 0);
    rbt_shard *s = rbt_calloc(1, sizeof *s);
    if (s == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a shard");
    }
    s->options = *options;
    const struct rbt_gate_options gate = {.worker_count = options->worker_count,
                                          .parked_max = options->parked_max};
    rbt_status st = rbt_gate_create(&gate, &s->gate);
    st = st != RBT_OK ? st : rbt_unshown_init(&s->unshown, options->worker_count);
    if (st == RBT_OK) {
        s->ready = rbt_calloc((size_t)options->parked_max + 1, sizeof *s->ready);
        s->tables = rbt_calloc(options->table_max, sizeof *s->tables);
        s->arrived = rbt_calloc(options->worker_count, sizeof *s->arrived);
        if (s->ready == NULL || s->tables == NULL || s->arrived == NULL) {
            st = rbt_fail(RBT_E_NOMEM, "could not allocate a shard for %u tables",
                          options->table_max);
        }
    }
    if (st != RBT_OK) {
        rbt_shard_destroy(s);
        return st;
    }
    *shard = s;
    return RBT_OK;
}

void rbt_shard_destroy(rbt_shard *shard)
{
    if (shard == NULL) {
        return;
    }
    for (uint32_t i = 0; i < shard->table_count; i++) {
        rbt_shard_close_table(&shard->tables[i]);
    }
    rbt_unshown_deinit(&shard->unshown);
    rbt_free(shard->arrived);
    rbt_free(shard->tables);
    rbt_free(shard->ready);
    rbt_gate_destroy(shard->gate);
    rbt_free(shard);
}

static struct rbt_shard_state *table_at(rbt_shard *shard, uint32_t index)
{
    RBT_ASSERT(index < shard->table_count);
    RBT_ASSERT(shard->tables[index].is_open);
    return &shard->tables[index];
}

/* Whether the staleness keeps updates of this clock back: clock >= floor + s. */
static bool is_beyond(const struct rbt_shard_state *table, int64_t clock, int64_t floor)
{
    RBT_ASSERT(clock >= 0);
    RBT_ASSERT(floor >= 0);
    return table->spec->staleness != RBT_STALENESS_ANY && clock - table->spec->staleness >= floor &&
           !RBT_MUTANT(NO_HOLDING);
}

/* Whether updates stamped `id` may be shown, given the worker's clock and the floor. */
static bool may_show(const struct rbt_shard_state *table, const struct rbt_bin_id *id,
                     int64_t worker_clock, int64_t floor)
{
    RBT_ASSERT(id->clock >= 0);
    RBT_ASSERT(floor <= worker_clock);
    const bool is_complete = table->spec->partial == RBT_PARTIAL_SHOW || worker_clock > id->clock;
    return is_complete && !is_beyond(table, id->clock, floor);
}

static void note_applied(rbt_shard *shard, struct rbt_shard_state *table,
                         const struct rbt_bin_id *id, size_t row_count)
{
    RBT_ASSERT(id->worker < shard->options.worker_count);
    if (id->sequence > table->applied[id->worker]) {
        table->applied[id->worker] = id->sequence;
    }
    shard->updates += row_count > 0 || table->rule_state != NULL;
    RBT_ASSERT(table->applied[id->worker] >= id->sequence);
}

/* Changes rows as the table's rule says, or by merging. */
static void apply(struct rbt_shard_state *table, const struct rbt_bin_id *id,
                  const struct rbt_batch *batch)
{
    RBT_ASSERT(table->is_open);
    if (table->rule_state != NULL) {
        rbt_rule_state_apply(table->rule_state, table->rows, id, batch);
    } else {
        rbt_rows_merge(table->rows, batch);
    }
    if (table->early != NULL) {
        rbt_early_note(table->early, table->rows, batch);
    }
}

/* The same with a held bin. */
static void apply_bin(struct rbt_shard_state *table, const struct rbt_bin *bin)
{
    struct rbt_batch batch;
    size_t i = 0;
    while (rbt_bins_unpack(bin, table->spec, i, table->scratch, &batch)) {
        apply(table, &bin->id, &batch);
        i++;
    }
    RBT_ASSERT(i > 0 || bin->batch.count == 0);
    if (table->rule_state != NULL) {
        rbt_rule_state_unpin(table->rule_state, bin->id.worker, bin->batch.base);
    }
}

/* Applies held bins that may be shown, in their order; only those before `limit`, if it is given.
 * One that must wait does not hold up those behind it: its worker may be slow within its clock. */
static void release(rbt_shard *shard, struct rbt_shard_state *table, const struct rbt_bin_id *limit)
{
    RBT_ASSERT(table->is_open);
    RBT_ASSERT(limit == NULL || limit->worker < shard->options.worker_count);
    const int64_t floor = rbt_gate_floor(shard->gate);
    const struct rbt_bin *bin = NULL;
    size_t at = 0;
    while ((bin = rbt_bins_at(&table->bins, at)) != NULL) { /* ends: one less, or one further */
        if ((limit != NULL && rbt_bins_compare(&bin->id, limit) > 0) ||
            is_beyond(table, bin->id.clock, floor)) {
            return; /* and so are all behind it, however many are held */
        }
        if (!may_show(table, &bin->id, rbt_gate_clock(shard->gate, bin->id.worker), floor)) {
            at++;
            continue;
        }
        RBT_DEBUG_ASSERT(bin->id.worker < shard->options.worker_count);
        apply_bin(table, bin);
        note_applied(shard, table, &bin->id, bin->batch.count);
        rbt_unshown_remove(&shard->unshown, bin->id.worker, bin->id.sequence);
        rbt_bins_drop(&table->bins, at);
    }
}

bool rbt_shard_is_settled(const rbt_shard *shard, const struct rbt_shard_state *table)
{
    RBT_ASSERT(table->is_open);
    const int64_t floor = rbt_gate_floor(shard->gate);
    const struct rbt_bin *bin = NULL;
    for (size_t at = 0; (bin = rbt_bins_at(&table->bins, at)) != NULL; at++) {
        if (may_show(table, &bin->id, rbt_gate_clock(shard->gate, bin->id.worker), floor)) {
            return false;
        }
    }
    return true;
}

static void release_all(rbt_shard *shard)
{
    RBT_ASSERT(shard->table_count <= shard->options.table_max);
    for (uint32_t i = 0; i < shard->table_count; i++) {
        if (shard->tables[i].bins.count > 0) {
            release(shard, &shard->tables[i], NULL);
            RBT_DEBUG_ASSERT(rbt_shard_is_settled(shard, &shard->tables[i])); /* (1) */
        }
    }
}

/* Lets go what rules keep for nobody any more. */
static void settle_rules(rbt_shard *shard)
{
    const int64_t floor = rbt_gate_floor(shard->gate);
    RBT_ASSERT(floor >= 0);
    for (uint32_t i = 0; i < shard->table_count; i++) {
        struct rbt_shard_state *table = &shard->tables[i];
        if (table->rule_state != NULL) {
            shard->changes += rbt_rule_state_expire(table->rule_state, table->rows, floor) ? 1 : 0;
        }
    }
}

/* The first rule that has failed: its table is of no more use, and neither is the job. */
static rbt_status rules_status(const rbt_shard *shard)
{
    rbt_status st = RBT_OK;
    RBT_ASSERT(shard->table_count <= shard->options.table_max);
    for (uint32_t i = 0; st == RBT_OK && i < shard->table_count; i++) {
        if (shard->tables[i].rule_state != NULL) {
            st = rbt_rule_state_status(shard->tables[i].rule_state);
        }
    }
    return st;
}

/* Adds what the gate has let through to the outbox. */
static void report_ready(const rbt_shard *shard, const struct rbt_gate_outbox *ready,
                         struct rbt_shard_outbox *out)
{
    RBT_ASSERT(out->effects != NULL);
    RBT_ASSERT(ready->count <= shard->options.parked_max + 1);
    for (uint32_t i = 0; i < ready->count; i++) {
        out->effects[out->count++] = (struct rbt_shard_effect){
            .kind = ready->effects[i].status == RBT_OK ? RBT_SHARD_READY : RBT_SHARD_REFUSED,
            .request = ready->effects[i].request};
    }
}

/* Whether the message has come before. */
static bool is_duplicate(const rbt_shard *shard, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->worker < shard->options.worker_count);
    RBT_ASSERT(event->kind == RBT_SHARD_PUSH);
    return event->sequence <= shard->arrived[event->worker];
}

/* What the worker's clock will be once the event's marker has been noted. */
static int64_t clock_after(const rbt_shard *shard, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->worker < shard->options.worker_count);
    const int64_t clock = rbt_gate_clock(shard->gate, event->worker);
    RBT_ASSERT(clock >= 0);
    return event->marker > clock ? event->marker : clock;
}

/* Does all that can fail for one batch: makes room, or a held copy. Room is made for what is held
 * and for earlier batches of the message as well, since neither is in the rows yet. */
static rbt_status prepare(rbt_shard *shard, const struct rbt_shard_event *event,
                          struct rbt_batch *batch)
{
    struct rbt_shard_state *table = table_at(shard, batch->table);
    if (table->rule_state != NULL) {
        batch->base = rbt_rule_state_base(table->rule_state, event->worker, batch->base);
    }
    const struct rbt_bin_id id = {event->clock, event->worker, event->sequence};
    const int64_t clock = clock_after(shard, event);
    const int64_t floor = rbt_gate_floor_if(shard->gate, event->worker, clock);
    const bool is_sparse = table->spec->layout == RBT_SPARSE;
    RBT_ASSERT((batch->offsets != NULL) == is_sparse);
    RBT_ASSERT(floor <= clock);
    RBT_ASSERT(event->clock >= 0);
    const size_t missing = rbt_rows_find(table->rows, batch);
    const size_t rows = table->bins.missing + table->pending_missing;
    rbt_status st = rbt_rows_reserve(table->rows, rows + missing); /* (3) */
    if (st == RBT_OK && is_sparse) {
        st = rbt_rows_promise(table->rows, batch); /* (3) */
    }
    if (st != RBT_OK) {
        return st;
    }
    if (may_show(table, &id, clock, floor)) {
        table->pending_missing += missing;
        return RBT_OK;
    }
    st = rbt_unshown_reserve(&shard->unshown, event->worker);
    st = st != RBT_OK ? st : rbt_bins_hold(&table->bins, table->spec, &id, batch, missing);
    if (st == RBT_OK) {
        rbt_unshown_add(&shard->unshown, event->worker, event->sequence);
    } else if (is_sparse) {
        rbt_rows_take_back(table->rows, batch);
    }
    return st;
}

/* Takes back what prepare() has done for the first `count` batches. */
static void undo(rbt_shard *shard, const struct rbt_shard_event *event, size_t count)
{
    RBT_ASSERT(event->kind == RBT_SHARD_PUSH);
    const struct rbt_bin_id id = {event->clock, event->worker, event->sequence};
    RBT_ASSERT(count <= event->batch_count);
    for (size_t i = 0; i < count; i++) {
        struct rbt_shard_state *table = table_at(shard, event->batches[i].table);
        for (size_t k = rbt_bins_remove(&table->bins, &id); k > 0; k--) {
            rbt_unshown_remove(&shard->unshown, id.worker, id.sequence);
        }
        if (table->spec->layout == RBT_SPARSE) {
            rbt_rows_take_back(table->rows, &event->batches[i]);
        }
    }
}

/* Prepares all batches of the message, or none. */
static rbt_status prepare_all(rbt_shard *shard, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->batch_count == 0 || event->batches != NULL);
    rbt_status st = RBT_OK;
    size_t count = 0;
    while (st == RBT_OK && count < event->batch_count) {
        st = prepare(shard, event, &event->batches[count]);
        count += st == RBT_OK;
    }
    if (st != RBT_OK) {
        undo(shard, event, count);
    }
    RBT_ASSERT((st == RBT_OK) == (count == event->batch_count));
    for (size_t i = 0; i < count; i++) {
        table_at(shard, event->batches[i].table)->pending_missing = 0;
    }
    return st;
}

/* Shows the batch if it is not held. Cannot fail. */
static void commit(rbt_shard *shard, const struct rbt_shard_event *event,
                   const struct rbt_batch *batch)
{
    struct rbt_shard_state *table = table_at(shard, batch->table);
    const struct rbt_bin_id id = {event->clock, event->worker, event->sequence};
    const int64_t clock = rbt_gate_clock(shard->gate, event->worker);
    RBT_ASSERT(event->marker == RBT_MARKER_NONE || clock >= event->marker); /* noted before */
    RBT_ASSERT(table->pending_missing == 0);
    if (may_show(table, &id, clock, rbt_gate_floor(shard->gate))) {
        release(shard, table, &id);
        apply(table, &id, batch);
        note_applied(shard, table, &id, batch->count);
        if (table->rule_state != NULL) {
            rbt_rule_state_unpin(table->rule_state, event->worker, batch->base);
        }
    }
}

/* Keeps the reads that new batches name until these are applied: what is shown on the way may have
 * been the last to keep them. */
static void pin_bases(rbt_shard *shard, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->worker < shard->options.worker_count);
    for (size_t i = 0; i < event->batch_count; i++) {
        const struct rbt_shard_state *table = table_at(shard, event->batches[i].table);
        if (table->rule_state != NULL) {
            rbt_rule_state_pin(table->rule_state, event->worker, event->batches[i].base);
        }
    }
    RBT_ASSERT(event->kind == RBT_SHARD_PUSH);
}

/* Notes which reads the worker still has, once its updates are in. */
static void note_reads(rbt_shard *shard, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->kind == RBT_SHARD_PUSH);
    for (size_t i = 0; i < event->batch_count; i++) {
        struct rbt_shard_state *table = table_at(shard, event->batches[i].table);
        if (table->rule_state != NULL) {
            rbt_rule_state_release(table->rule_state, event->worker, event->sequence,
                                   event->batches[i].least);
        }
    }
    for (uint32_t i = 0; event->marker != RBT_MARKER_NONE && i < shard->table_count; i++) {
        if (shard->tables[i].rule_state != NULL) {
            rbt_rule_state_end_clock(shard->tables[i].rule_state, event->worker, event->sequence);
        }
    }
    RBT_ASSERT(event->worker < shard->options.worker_count);
}

/* Shows or has held all batches, and notes that they have arrived. Cannot fail. */
static void commit_all(rbt_shard *shard, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->sequence == shard->arrived[event->worker] + 1);
    pin_bases(shard, event);
    for (size_t i = 0; i < event->batch_count; i++) {
        commit(shard, event, &event->batches[i]);
    }
    shard->arrived[event->worker] = event->sequence;
    for (size_t i = 0; i < event->batch_count; i++) {
        RBT_ASSERT(table_at(shard, event->batches[i].table)->applied[event->worker] <=
                   event->sequence); /* (2) */
    }
}

/* Whether a message before this one is missing. */
static bool is_early(const rbt_shard *shard, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->worker < shard->options.worker_count);
    RBT_ASSERT(event->kind == RBT_SHARD_PUSH || event->kind == RBT_SHARD_LEAVE);
    return event->sequence > shard->arrived[event->worker] + 1;
}

static void report_early(struct rbt_shard_outbox *out)
{
    RBT_ASSERT(out->count == 0);
    RBT_ASSERT(out->status == RBT_OK);
    out->effects[out->count++] = (struct rbt_shard_effect){.kind = RBT_SHARD_EARLY};
}

/* Whether the worker was given up before it sent this. */
static bool is_refused(const rbt_shard *shard, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->worker < shard->options.worker_count);
    RBT_ASSERT(event->kind == RBT_SHARD_PUSH);
    return rbt_gate_clock(shard->gate, event->worker) == RBT_CLOCK_GONE;
}

static void push(rbt_shard *shard, const struct rbt_shard_event *event,
                 struct rbt_shard_outbox *out)
{
    if (is_duplicate(shard, event)) {
        shard->duplicates += event->batch_count > 0;
        out->status = rules_status(shard);
        return;
    }
    if (is_refused(shard, event)) {
        out->status = rbt_fail(RBT_E_CLOSED, "worker %u was given up", event->worker);
        return;
    }
    if (is_early(shard, event)) {
        report_early(out);
        return;
    }
    RBT_ASSERT(event->worker < shard->options.worker_count);
    RBT_ASSERT(event->marker == RBT_MARKER_NONE || event->marker > event->clock ||
               event->batch_count == 0);
    RBT_ASSERT(out->count == 0);
    out->status = prepare_all(shard, event);
    if (out->status != RBT_OK) {
        return;
    }
    struct rbt_gate_outbox ready = {.effects = shard->ready};
    if (event->marker != RBT_MARKER_NONE) {
        const struct rbt_gate_event clock = {
            .kind = RBT_GATE_CLOCK, .worker = event->worker, .clock = event->marker};
        rbt_gate_step(shard->gate, &clock, &ready);
    }
    commit_all(shard, event);
    note_reads(shard, event);
    if (event->marker != RBT_MARKER_NONE) {
        release_all(shard); /* (1) */
    }
    settle_rules(shard);
    report_ready(shard, &ready, out);
    out->status = rules_status(shard);
}

static void scan(const struct rbt_shard_state *table, struct rbt_shard_scan *scan)
{
    RBT_ASSERT(scan->capacity == 0 || scan->keys != NULL);
    RBT_ASSERT(scan->capacity == 0 || scan->values != NULL);
    const size_t row_size = rbt_spec_row_size(table->spec);
    const uint64_t count = rbt_rows_count(table->rows);
    scan->count = 0;
    if (scan->range.first > scan->range.last) {
        return; /* an empty range: somebody only wants to wait */
    }
    RBT_ASSERT(table->spec->layout == RBT_DENSE);
    for (uint32_t slot = 0; slot < count; slot++) {
        const uint64_t key = rbt_rows_key(table->rows, slot);
        if (key < scan->range.first || key > scan->range.last) {
            continue;
        }
        if (scan->count < scan->capacity) {
            scan->keys[scan->count] = key;
            char *to = scan->values + scan->count * row_size;
            if (table->rule_state != NULL) {
                rbt_rule_state_read_result(table->rule_state, table->rows, slot, (float *)to);
            } else {
                memcpy(to, rbt_rows_values(table->rows, slot), row_size);
            }
        }
        scan->count++;
    }
}

/* Which versions a PULL wants: those below. */
static uint64_t versions_of(const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->kind == RBT_SHARD_PULL);
    return event->is_stable ? event->stable : RBT_RULE_NO_VERSION;
}

/* Writes what was asked for: rows, elements of a sparse row, or a range. */
static void answer(struct rbt_shard_state *table, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->kind == RBT_SHARD_SCAN || event->batch_count == 1);
    RBT_ASSERT(event->kind == RBT_SHARD_PULL || event->scan != NULL);
    RBT_ASSERT(event->applied_count == 0 || event->applied != NULL);
    RBT_ASSERT(event->kind == RBT_SHARD_PULL || event->kind == RBT_SHARD_SCAN);
    if (event->kind == RBT_SHARD_SCAN) {
        scan(table, event->scan);
    } else if (table->spec->layout == RBT_SPARSE) {
        const struct rbt_sparse_view row =
            rbt_rows_peek_sparse(table->rows, event->batches[0].keys[0]);
        event->on_elements(event->context, row.index, row.values, row.count);
    } else {
        const void *view =
            event->view == NULL || table->rule_state != NULL || table->outgoing != NULL
                ? NULL
                : rbt_rows_view(table->rows, &event->batches[0]);
        if (table->rule_state != NULL) {
            rbt_rule_state_read(table->rule_state, table->rows, &event->batches[0],
                                versions_of(event));
        } else if (view == NULL) {
            rbt_rows_read(table->rows, &event->batches[0]);
        }
        if (event->view != NULL) {
            *event->view = view;
        }
    }
    for (uint32_t i = 0; i < event->applied_count; i++) {
        event->applied[i] = table->applied[event->applied_first + i];
    }
}

/* A read of a table with a rule: its stamp, and whether updates will name it. A read that has
 * overtaken updates of its worker must not let go what these name, and one that is answered when
 * its worker is gone holds nothing. */
static rbt_status note_read(rbt_shard *shard, const struct rbt_shard_state *table,
                            const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->kind == RBT_SHARD_PULL || event->kind == RBT_SHARD_SCAN);
    rbt_status st = rbt_rule_state_status(table->rule_state);
    uint64_t stamp = rbt_rule_state_stamp(table->rule_state);
    if (st == RBT_OK && event->kind == RBT_SHARD_PULL && event->is_base &&
        rbt_gate_clock(shard->gate, event->worker) != RBT_CLOCK_GONE) {
        RBT_ASSERT(event->worker < shard->options.worker_count);
        const bool is_after = event->sequence <= shard->arrived[event->worker];
        const struct rbt_rule_state_read read = {.least = event->least,
                                                 .overtaken = is_after ? 0 : event->sequence,
                                                 .versions = versions_of(event)};
        st = rbt_rule_state_hold(table->rule_state, event->worker, &read, &stamp);
        settle_rules(shard);
    }
    if (st == RBT_OK && event->stamp != NULL) {
        *event->stamp = stamp;
    }
    return st;
}

/* Answers a PULL whose time has come. */
static rbt_status answer_pull(rbt_shard *shard, struct rbt_shard_state *table,
                              const struct rbt_shard_event *asked)
{
    const struct rbt_shard_event *event = asked;
    struct rbt_shard_event limited;
    if (table->rule_state != NULL && asked->is_stable && asked->limit != NULL) {
        const uint64_t needed = rbt_rule_state_needed(table->rule_state, asked->need);
        limited = *asked;
        limited.stable = needed > asked->stable ? needed : asked->stable;
        *asked->limit = limited.stable;
        event = &limited;
    }
    rbt_status st = table->rule_state == NULL ? RBT_OK : note_read(shard, table, event);
    if (st == RBT_OK) {
        RBT_ASSERT(table->is_open);
        answer(table, event);
        if (table->outgoing != NULL && event->kind == RBT_SHARD_PULL) {
            st = rbt_outgoing_filter(table->outgoing, event);
            if (event->copy != NULL && !RBT_MUTANT(LATE_COPY) &&
                rbt_gate_clock(shard->gate, event->worker) == RBT_CLOCK_GONE) {
                rbt_outgoing_leave(table->outgoing, event->worker); /* what it asked for before */
            }
        }
        if (table->early != NULL && event->kind == RBT_SHARD_PULL && event->early == NULL) {
            rbt_early_take_all(table->early, event->worker, event->asked);
        }
    }
    return st;
}

/* The same with those of its rows that have changed most. If the rule keeps too much for reads
 * already, none go. */
static rbt_status answer_early(rbt_shard *shard, struct rbt_shard_state *table,
                               const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->early->keys != NULL);
    event->early->count = 0;
    if (table->early != NULL && rbt_shard_sends_early(shard, event->table) &&
        rbt_gate_clock(shard->gate, event->worker) != RBT_CLOCK_GONE) {
        rbt_early_choose(table->early, table->rows, event);
    }
    struct rbt_batch chosen = {.table = event->table,
                               .count = event->early->count,
                               .keys = event->early->keys,
                               .values = event->batches[0].values};
    struct rbt_shard_event part = *event;
    part.batches = &chosen;
    part.is_base = event->is_base && chosen.count > 0;
    RBT_ASSERT(chosen.count <= event->early->room);
    return answer_pull(shard, table, &part);
}

static void pull(rbt_shard *shard, const struct rbt_shard_event *event,
                 struct rbt_shard_outbox *out)
{
    RBT_ASSERT(out->count == 0);
    struct rbt_shard_state *table = table_at(shard, event->table);
    RBT_ASSERT(event->applied_first + event->applied_count <= shard->options.worker_count);
    struct rbt_gate_outbox ready = {.effects = shard->ready};
    const struct rbt_gate_event read = {
        .kind = RBT_GATE_READ, .need = event->need, .request = event->request};
    rbt_gate_step(shard->gate, &read, &ready);
    RBT_ASSERT(ready.count <= 1); /* a read moves no clock */
    if (ready.count == 1 && ready.effects[0].status == RBT_OK) {
        out->status = event->early != NULL ? answer_early(shard, table, event)
                                           : answer_pull(shard, table, event);
        if (out->status != RBT_OK) {
            return;
        }
        out->effects[out->count++] =
            (struct rbt_shard_effect){.kind = RBT_SHARD_ANSWERED, .request = event->request};
    } else {
        report_ready(shard, &ready, out);
    }
}

static void leave(rbt_shard *shard, const struct rbt_shard_event *event,
                  struct rbt_shard_outbox *out)
{
    const uint32_t worker = event->worker;
    RBT_ASSERT(worker < shard->options.worker_count);
    if (is_early(shard, event)) {
        report_early(out);
        return;
    }
    struct rbt_gate_outbox ready = {.effects = shard->ready};
    const struct rbt_gate_event gone = {
        .kind = RBT_GATE_CLOCK, .worker = worker, .clock = RBT_CLOCK_GONE};
    rbt_gate_step(shard->gate, &gone, &ready);
    RBT_ASSERT(rbt_gate_clock(shard->gate, worker) == RBT_CLOCK_GONE);
    struct rbt_error_record why; /* who leaves because it has failed still has to say so */
    rbt_error_save(&why);
    release_all(shard); /* (1) */
    for (uint32_t i = 0; i < shard->table_count; i++) {
        if (shard->tables[i].rule_state != NULL) {
            rbt_rule_state_release(shard->tables[i].rule_state, worker, UINT64_MAX, RBT_STAMP_NONE);
        }
        if (shard->tables[i].early != NULL) {
            rbt_early_leave(shard->tables[i].early, worker);
        }
        if (shard->tables[i].outgoing != NULL) {
            rbt_outgoing_leave(shard->tables[i].outgoing, worker);
        }
    }
    settle_rules(shard);
    rbt_error_restore(&why);
    report_ready(shard, &ready, out);
    out->status = rules_status(shard);
}

/* Whoever has left before the table was there names none of its reads. */
static void release_gone(const rbt_shard *shard, const struct rbt_shard_state *table)
{
    RBT_ASSERT(table->is_open);
    for (uint32_t i = 0; table->rule_state != NULL && i < shard->options.worker_count; i++) {
        if (rbt_gate_clock(shard->gate, i) == RBT_CLOCK_GONE) {
            rbt_rule_state_release(table->rule_state, i, UINT64_MAX, RBT_STAMP_NONE);
        }
    }
    RBT_ASSERT(shard->table_count <= shard->options.table_max);
}

/* Opens the table; if it is open already, takes over the new staleness. A table that is open with
 * another spec was never used: opening it had failed at another shard. */
static void set_table(rbt_shard *shard, const struct rbt_shard_event *event,
                      struct rbt_shard_outbox *out)
{
    RBT_ASSERT(event->table < shard->options.table_max);
    RBT_ASSERT(event->spec != NULL);
    struct rbt_shard_state *table = &shard->tables[event->table];
    if (!table->is_open || !rbt_spec_is_same(event->spec, table->spec)) {
        struct rbt_shard_state fresh = {0};
        out->status = rbt_shard_open_table(shard, &fresh, event->spec);
        if (out->status != RBT_OK) {
            rbt_shard_close_table(&fresh);
            return;
        }
        RBT_ASSERT(!table->is_open || rbt_rows_count(table->rows) == 0);
        rbt_shard_close_table(table);
        *table = fresh;
        release_gone(shard, table);
        if (event->table >= shard->table_count) {
            shard->table_count = event->table + 1;
        }
    }
    RBT_ASSERT(table->is_open);
    table->spec->staleness = event->spec->staleness;
    release(shard, table, NULL); /* (1) */
}

static void reset(rbt_shard *shard)
{
    struct rbt_gate_outbox ready = {.effects = shard->ready};
    const struct rbt_gate_event event = {.kind = RBT_GATE_RESET};
    rbt_gate_step(shard->gate, &event, &ready);
    RBT_ASSERT(ready.count == 0);
    RBT_ASSERT(rbt_gate_floor(shard->gate) == 0);
    memset(shard->arrived, 0, shard->options.worker_count * sizeof *shard->arrived);
    for (uint32_t i = 0; i < shard->table_count; i++) {
        struct rbt_shard_state *table = table_at(shard, i);
        RBT_ASSERT(table->bins.count == 0); /* everybody had left */
        RBT_ASSERT(table->bins.missing == 0);
        memset(table->applied, 0, shard->options.worker_count * sizeof *table->applied);
        if (table->rule_state != NULL) {
            rbt_rule_state_reset(table->rule_state);
        }
        if (table->early != NULL) {
            rbt_early_reset(table->early);
        }
        if (table->outgoing != NULL) {
            rbt_outgoing_reset(table->outgoing);
        }
    }
}

void rbt_shard_step(rbt_shard *shard, const struct rbt_shard_event *event,
                    struct rbt_shard_outbox *out)
{
    RBT_ASSERT(shard->table_count <= shard->options.table_max);
    RBT_ASSERT(out->effects != NULL);
    out->count = 0;
    out->status = RBT_OK;
    switch (event->kind) {
    case RBT_SHARD_PUSH:
        push(shard, event, out);
        break;
    case RBT_SHARD_PULL:
    case RBT_SHARD_SCAN:
        pull(shard, event, out);
        break;
    case RBT_SHARD_LEAVE:
        leave(shard, event, out);
        break;
    case RBT_SHARD_TABLE:
        set_table(shard, event, out);
        break;
    case RBT_SHARD_RESET:
        reset(shard);
        break;
    }
    out->floor = rbt_gate_floor(shard->gate);
    out->version = shard->updates + shard->changes;
    RBT_ASSERT(out->count <= (size_t)shard->options.parked_max + 1);
}
