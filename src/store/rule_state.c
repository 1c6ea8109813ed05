/* store/rule_state.c - what happens around a rule's functions.
 *
 * A message is applied in three steps: it is mapped to a version; the rule is told that it begins;
 * then row by row, the state is kept for reads that are still held, the state at the message's own
 * read is found, and the rule applies the row's update, to the row itself or to the version's part.
 *
 * Invariants:
 *   (1) reading a row and folding its versions into it for good, in their order, give the same
 * bits; (2) no version that a worker's next message can be mapped to has gone, unless the rule said
 * so.
 *
 * What fails here fails the table for good: the update is half applied, and others build on it.
 *
 * Threads: none; owned by the shard. */
#include "store/rule_state.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "store/rule_state_parts.h"

static bool has_parts(const rbt_rule_state *rule_state)
{
    RBT_DEBUG_ASSERT(rule_state->instance.rule != NULL);
    return rule_state->instance.needs.parts != RBT_PARTS_NONE;
}

static bool has_snapshots(const rbt_rule_state *rule_state)
{
    RBT_DEBUG_ASSERT(rule_state->instance.needs.snapshot_width <=
                     rule_state->instance.needs.state_width);
    return rule_state->instance.needs.snapshot_width > 0;
}

rbt_status rbt_rule_state_create(const struct rbt_spec *spec, uint32_t worker_count,
                                 rbt_rule_state **rule_state)
{
    RBT_ASSERT(spec->code != NULL && spec->rule[0] != '\0');
    RBT_ASSERT(spec->type == RBT_F32 && spec->layout == RBT_DENSE);
    rbt_rule_state *r = rbt_calloc(1, sizeof *r);
    if (r == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a rule");
    }
    const struct rbt_rule_table about = {
        .name = spec->name, .width = spec->width, .worker_count = worker_count};
    rbt_status st = rbt_rule_create(spec->code, spec->rule, &about, &r->instance);
    if (st == RBT_OK) {
        st = rbt_ledger_init(&r->ledger, worker_count);
    }
    if (st == RBT_OK) {
        const struct rbt_rule_needs *needs = &r->instance.needs;
        r->spec = spec;
        r->error = rbt_calloc(1, sizeof *r->error);
        r->scratch = rbt_calloc((size_t)needs->snapshot_width + spec->width, sizeof *r->scratch);
        rbt_versions_init(&r->versions, spec->width);
        if (has_snapshots(r)) {
            rbt_snapshots_init(&r->snapshots, needs->snapshot_width, needs->snapshot_max);
        }
        if (r->error == NULL || r->scratch == NULL) {
            st = rbt_fail(RBT_E_NOMEM, "could not allocate a rule");
        }
    }
    if (st != RBT_OK) {
        rbt_rule_state_destroy(r);
        return st;
    }
    RBT_ASSERT(spec->width > 0);
    RBT_ASSERT(r->ledger.worker_count == worker_count);
    *rule_state = r;
    return RBT_OK;
}

void rbt_rule_state_destroy(rbt_rule_state *rule_state)
{
    if (rule_state == NULL) {
        return;
    }
    RBT_ASSERT(rule_state->versions.count <= rule_state->versions.capacity);
    rbt_versions_deinit(&rule_state->versions);
    rbt_snapshots_deinit(&rule_state->snapshots);
    rbt_ledger_deinit(&rule_state->ledger);
    rbt_rule_destroy(&rule_state->instance);
    rbt_free(rule_state->scratch);
    rbt_free(rule_state->error);
    rbt_free(rule_state);
}

uint32_t rbt_rule_state_state_width(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    RBT_ASSERT(rule_state->instance.needs.snapshot_width <= rule_state->instance.needs.state_width);
    return rule_state->instance.needs.state_width;
}

/* --- Failure ---------------------------------------------------------------------------------- */

/* Before the rule is called: if it fails and says nothing, nobody else's words are taken for its
 * own. */
static void forget_failure(void)
{
    static const struct rbt_error_record none = {.message = ""};
    if (rbt_last_error()[0] != '\0') {
        rbt_error_restore(&none);
    }
    RBT_ASSERT(rbt_last_error()[0] == '\0');
}

/* Notes the first failure, which has been recorded. */
static void break_down(rbt_rule_state *rule_state, rbt_status st, uint64_t key)
{
    RBT_ASSERT(st != RBT_OK);
    if (rule_state->status == RBT_OK) {
        if (rbt_last_error()[0] == '\0') {
            (void)rbt_fail(st, "%s", rbt_status_text(st)); /* the rule had nothing to say */
        }
        /* Whatever the rule calls it: neither a wrong argument, which the command line would take
         * for its own, nor anything that drivers would see to, such as a worker that is gone. */
        rule_state->status = rbt_fail_in(
            st == RBT_E_NOMEM ? st : RBT_E_DATA, "rule \"%s\" failed at row %llu of table \"%s\"",
            rule_state->instance.rule->name, (unsigned long long)key, rule_state->spec->name);
        rbt_error_save(rule_state->error);
    }
    RBT_ASSERT(rule_state->error->message[0] != '\0');
    RBT_ASSERT(rule_state->status != RBT_OK);
}

rbt_status rbt_rule_state_status(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->error != NULL);
    RBT_ASSERT((rule_state->status == RBT_OK) == (rule_state->error->message[0] == '\0'));
    if (rule_state->status != RBT_OK) {
        rbt_error_restore(rule_state->error);
    }
    return rule_state->status;
}

/* --- Reads that are held ---------------------------------------------------------------------- */

/* After holds have changed. */
static void forget_snapshots(rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->ledger.worker_count > 0);
    if (has_snapshots(rule_state)) {
        rule_state->highest = rbt_ledger_highest(&rule_state->ledger);
        rbt_snapshots_release(&rule_state->snapshots, rbt_ledger_lowest(&rule_state->ledger));
    }
    RBT_ASSERT(rule_state->highest <= rule_state->count);
}

uint64_t rbt_rule_state_base(rbt_rule_state *rule_state, uint32_t worker, uint64_t base)
{
    struct rbt_hold *hold = rbt_ledger_find(&rule_state->ledger, worker, base);
    RBT_ASSERT(hold == NULL || hold->stamp <= rule_state->count);
    RBT_ASSERT(worker < rule_state->ledger.worker_count);
    return hold == NULL ? RBT_STAMP_NONE : hold->stamp;
}

void rbt_rule_state_pin(rbt_rule_state *rule_state, uint32_t worker, uint64_t base)
{
    RBT_ASSERT(base <= rule_state->count || base == RBT_STAMP_NONE);
    RBT_ASSERT(worker < rule_state->ledger.worker_count);
    rule_state->ledger.workers[worker].is_known =
        true; /* also if its message came before, without */
    if (base != RBT_STAMP_NONE) {
        rbt_ledger_pin(&rule_state->ledger, worker, base);
    }
}

void rbt_rule_state_unpin(rbt_rule_state *rule_state, uint32_t worker, uint64_t base)
{
    RBT_ASSERT(base <= rule_state->count || base == RBT_STAMP_NONE);
    RBT_ASSERT(worker < rule_state->ledger.worker_count);
    if (base != RBT_STAMP_NONE) {
        rbt_ledger_unpin(&rule_state->ledger, worker, base);
    }
    forget_snapshots(rule_state);
}

/* What the rule says if the worker reads now. */
static uint64_t tag_now(const rbt_rule_state *rule_state, uint32_t worker, uint64_t versions)
{
    const struct rbt_rule *rule = rule_state->instance.rule;
    const struct rbt_rule_send send = {
        .worker = worker, .count = rule_state->count, .versions = versions};
    RBT_ASSERT(rule != NULL);
    RBT_ASSERT(worker == RBT_RULE_NO_WORKER || worker < rule_state->ledger.worker_count);
    return rule->send == NULL ? 0 : rule->send(rule_state->instance.self, &send);
}

rbt_status rbt_rule_state_hold(rbt_rule_state *rule_state, uint32_t worker,
                               const struct rbt_rule_state_read *read, uint64_t *stamp)
{
    RBT_ASSERT(worker < rule_state->ledger.worker_count);
    const uint64_t tag = tag_now(rule_state, worker, read->versions);
    const bool is_limited = read->versions != RBT_RULE_NO_VERSION;
    const struct rbt_ledger_worker *w = &rule_state->ledger.workers[worker];
    const struct rbt_hold *newest = w->count == 0 ? NULL : &w->holds[w->count - 1];
    const bool is_special = is_limited || (newest != NULL && newest->is_limited);
    if (newest != NULL && newest->stamp == rule_state->count && is_special &&
        (newest->tag != tag || newest->is_limited != is_limited)) {
        rule_state->count++; /* what comes from the last read must still be told from it */
    }
    const struct rbt_ledger_read entry = {.stamp = rule_state->count,
                                          .tag = tag,
                                          .least = read->least,
                                          .overtaken = read->overtaken,
                                          .is_limited = is_limited};
    const rbt_status st = rbt_ledger_hold(&rule_state->ledger, worker, &entry);
    if (st == RBT_OK) {
        *stamp = rule_state->count;
        rule_state->ledger.workers[worker].versions = read->versions;
        RBT_ASSERT(rbt_ledger_lowest(&rule_state->ledger) <= rule_state->count);
        forget_snapshots(rule_state);
    }
    return st;
}

uint64_t rbt_rule_state_version(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    RBT_ASSERT(rule_state->gone <= rule_state->newest);
    RBT_ASSERT(rule_state->clock_end >= 0);
    const uint64_t clocks = (uint64_t)rule_state->clock_end;
    const uint64_t begun = rule_state->newest < clocks ? rule_state->newest : clocks;
    return begun < rule_state->gone ? rule_state->gone : begun;
}

uint64_t rbt_rule_state_needed(const rbt_rule_state *rule_state, int64_t need)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    uint64_t end = 0;
    for (size_t i = rule_state->versions.count; end == 0 && need > 0 && i > 0; i--) {
        const struct rbt_version *version = &rule_state->versions.live[i - 1];
        RBT_ASSERT(version->first <= version->clock);
        end = version->first < rule_state->clock_offset + need ? version->id + 1 : 0;
    }
    return end;
}

uint64_t rbt_rule_state_stamp(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    RBT_ASSERT(rule_state->count != RBT_STAMP_NONE);
    return rule_state->count;
}

void rbt_rule_state_release(rbt_rule_state *rule_state, uint32_t worker, uint64_t sequence,
                            uint64_t least)
{
    RBT_ASSERT(worker < rule_state->ledger.worker_count);
    RBT_ASSERT(rule_state->ledger.workers != NULL);
    rule_state->ledger.workers[worker].is_known = true;
    rule_state->ledger.workers[worker].has_left = sequence == UINT64_MAX;
    rbt_ledger_release(&rule_state->ledger, worker, sequence, least);
    forget_snapshots(rule_state);
}

void rbt_rule_state_end_clock(rbt_rule_state *rule_state, uint32_t worker, uint64_t sequence)
{
    RBT_ASSERT(worker < rule_state->ledger.worker_count);
    if (!rule_state->ledger.workers[worker].is_known) {
        rbt_rule_state_release(rule_state, worker, sequence, RBT_STAMP_NONE);
        rule_state->ledger.workers[worker].is_known = false;
        RBT_ASSERT(rule_state->ledger.workers[worker].count == 0);
    }
}

/* --- Memory ----------------------------------------------------------------------------------- */

static size_t bytes_now(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    RBT_ASSERT(rule_state->versions.count <= rule_state->versions.capacity);
    return rbt_versions_bytes(&rule_state->versions) + rbt_snapshots_bytes(&rule_state->snapshots);
}

/* After each batch: only then is there more. */
static void note_bytes(rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->instance.rule != NULL);
    const size_t bytes =
        has_parts(rule_state) || has_snapshots(rule_state) ? bytes_now(rule_state) : 0;
    rule_state->bytes_max = bytes > rule_state->bytes_max ? bytes : rule_state->bytes_max;
    RBT_ASSERT(rule_state->bytes_max >= bytes);
}

/* --- Applying --------------------------------------------------------------------------------- */

static uint64_t map(const rbt_rule_state *rule_state, const struct rbt_rule_message *message)
{
    const struct rbt_rule *rule = rule_state->instance.rule;
    RBT_ASSERT(message->clock >= 0);
    RBT_ASSERT(message->version == RBT_RULE_NO_VERSION);
    const bool is_mapped =
        rule->map != NULL && rule_state->instance.needs.parts != RBT_PARTS_HIDDEN;
    const uint64_t version =
        is_mapped ? rule->map(rule_state->instance.self, message) : (uint64_t)message->clock;
    return version < rule_state->gone ? rule_state->gone : version;
}

/* The version of the worker's last message from the same read. Limited reads of the same versions
 * are one and the same: whether there were two, as far as stamps can tell, depends on what came in
 * between, which may differ from shard to shard; and an update must get the same version in all of
 * them. */
static uint64_t previous_of(const rbt_rule_state *rule_state, uint32_t worker,
                            const struct rbt_hold *hold)
{
    const struct rbt_ledger_worker *w = &rule_state->ledger.workers[worker];
    RBT_ASSERT(worker < rule_state->ledger.worker_count);
    RBT_ASSERT(hold == NULL || hold->stamp <= rule_state->count);
    if (hold == NULL || !hold->is_limited) {
        return hold == NULL ? RBT_RULE_NO_VERSION : hold->version;
    }
    return w->limited_tag == hold->tag ? w->limited_version : RBT_RULE_NO_VERSION;
}

/* The message that a worker's update would be, computed from what it holds. */
static struct rbt_rule_message message_from(const rbt_rule_state *rule_state, uint32_t worker,
                                            const struct rbt_hold *hold)
{
    RBT_ASSERT(worker < rule_state->ledger.worker_count);
    RBT_ASSERT(hold == NULL || hold->stamp <= rule_state->count);
    /* A worker that holds nothing must have read just now. */
    const uint64_t base = hold == NULL ? rule_state->count : hold->stamp;
    return (struct rbt_rule_message){
        .worker = worker,
        .count = rule_state->count,
        .delay = rule_state->count - base,
        .tag = hold == NULL ? tag_now(rule_state, worker, RBT_RULE_NO_VERSION) : hold->tag,
        .previous = previous_of(rule_state, worker, hold),
        .version = RBT_RULE_NO_VERSION};
}

/* After a message from this read. */
static void note_limited(struct rbt_ledger_worker *w, const struct rbt_hold *hold)
{
    RBT_ASSERT(hold->version != RBT_RULE_NO_VERSION);
    RBT_ASSERT(!hold->is_limited || hold->tag != RBT_RULE_NO_VERSION);
    if (hold->is_limited) {
        w->limited_tag = hold->tag;
        w->limited_version = hold->version;
    }
}

/* A new message begins: it is counted, mapped and announced. */
static rbt_status begin_message(rbt_rule_state *rule_state, const struct rbt_bin_id *id,
                                uint64_t base)
{
    const struct rbt_rule *rule = rule_state->instance.rule;
    forget_failure();
    struct rbt_hold *hold =
        base == RBT_STAMP_NONE ? NULL : rbt_ledger_find(&rule_state->ledger, id->worker, base);
    struct rbt_rule_message message = message_from(rule_state, id->worker, hold);
    message.clock = rule_state->clock_offset + id->clock;
    message.version = map(rule_state, &message);
    if (message.version == RBT_RULE_NO_VERSION) {
        return rbt_fail(RBT_E_INVALID, "map() must say a version");
    }
    if (hold != NULL) {
        hold->version = message.version;
        note_limited(&rule_state->ledger.workers[id->worker], hold);
    }
    rule_state->message = message;
    rule_state->last = *id;
    rule_state->last_base = base;
    rule_state->count++;
    rule_state->newest =
        message.version >= rule_state->newest ? message.version + 1 : rule_state->newest;
    rule_state->clock_end =
        message.clock >= rule_state->clock_end ? message.clock + 1 : rule_state->clock_end;
    if (has_parts(rule_state)) {
        struct rbt_version *version = NULL;
        const rbt_status st = rbt_versions_at(&rule_state->versions, message.version, &version);
        if (st != RBT_OK) {
            return st;
        }
        version->first = version->messages == 0 || message.clock < version->first ? message.clock
                                                                                  : version->first;
        version->messages++;
        version->clock = message.clock > version->clock ? message.clock : version->clock;
    }
    if (rule->begin != NULL && rule_state->instance.needs.parts != RBT_PARTS_HIDDEN) {
        rule->begin(rule_state->instance.self, &rule_state->message);
    }
    RBT_ASSERT(rule_state->count == rule_state->message.count + 1);
    RBT_ASSERT(rule_state->newest > rule_state->message.version);
    return RBT_OK;
}

/* A batch being applied. */
struct work {
    rbt_rule_state *rule_state;
    rbt_row_store *rows;
    const struct rbt_batch *batch;
    struct rbt_version *version; /* NULL without parts */
};

static bool is_zero(const float *delta, uint32_t width)
{
    RBT_DEBUG_ASSERT(delta != NULL);
    RBT_DEBUG_ASSERT(width > 0);
    for (uint32_t i = 0; i < width; i++) {
        if (delta[i] != 0.0F) {
            return false;
        }
    }
    return true;
}

/* Keeps the row's state for those who hold it, and finds the one that the update was computed from;
 * never in the row itself, which the rule is about to change. */
static const float *before_of(rbt_rule_state *rule_state, uint32_t slot, const float *state)
{
    RBT_ASSERT(has_snapshots(rule_state));
    const uint64_t count = rule_state->message.count;
    const struct rbt_snapshot_cause cause = {
        .count = count, .base = count - rule_state->message.delay, .highest = rule_state->highest};
    const float *before = rbt_snapshots_keep(&rule_state->snapshots, slot, state, &cause);
    if (before == state) {
        memcpy(rule_state->scratch, state, rule_state->snapshots.width * sizeof *state);
        before = rule_state->scratch;
    }
    RBT_ASSERT(before != NULL);
    return before;
}

/* The version's part of the row. */
static bool take_part(const struct work *work, uint32_t slot, struct rbt_rule_row *row)
{
    rbt_rule_state *rule_state = work->rule_state;
    RBT_DEBUG_ASSERT(work->version != NULL);
    row->part =
        rbt_versions_part(&rule_state->versions, work->version, slot, rbt_rows_count(work->rows));
    if (row->part == NULL) {
        break_down(rule_state, rbt_fail(RBT_E_NOMEM, "no memory for a version"), row->key);
    }
    RBT_DEBUG_ASSERT(row->part != NULL || rule_state->status != RBT_OK);
    return row->part != NULL;
}

static void apply_row(void *context, uint32_t slot, void *values, size_t position, void *state)
{
    const struct work *work = context;
    rbt_rule_state *rule_state = work->rule_state;
    const uint32_t width = rule_state->spec->width;
    const float *delta = (const float *)work->batch->values + position * width;
    RBT_DEBUG_ASSERT(slot < rbt_rows_count(work->rows));
    RBT_DEBUG_ASSERT((work->version != NULL) == has_parts(rule_state));
    if (rule_state->status != RBT_OK || is_zero(delta, width)) {
        return;
    }
    struct rbt_rule_row row = {.key = work->batch->keys[position],
                               .width = width,
                               .values = values,
                               .state = state,
                               .delta = delta};
    if (work->version != NULL && !take_part(work, slot, &row)) {
        return;
    }
    if (rule_state->instance.needs.parts == RBT_PARTS_HIDDEN) {
        for (uint32_t i = 0; i < width; i++) {
            row.part[i] += delta[i];
        }
        return;
    }
    rbt_status st = RBT_OK;
    if (has_snapshots(rule_state)) {
        if (slot >= rule_state->snapshots.slot_capacity) {
            st = rbt_snapshots_fit(&rule_state->snapshots, rbt_rows_count(work->rows));
        }
        row.before = st == RBT_OK ? before_of(rule_state, slot, row.state) : NULL;
    }
    if (st == RBT_OK) {
        st =
            rule_state->instance.rule->apply(rule_state->instance.self, &rule_state->message, &row);
    }
    if (st != RBT_OK) {
        break_down(rule_state, st, row.key);
    }
}

void rbt_rule_state_apply(rbt_rule_state *rule_state, rbt_row_store *rows,
                          const struct rbt_bin_id *id, const struct rbt_batch *batch)
{
    RBT_ASSERT(id->worker < rule_state->ledger.worker_count);
    RBT_ASSERT(batch->offsets == NULL);
    if (rule_state->status != RBT_OK) {
        return;
    }
    const bool is_new = rule_state->last_base != batch->base ||
                        rule_state->last.worker != id->worker ||
                        rule_state->last.sequence != id->sequence;
    rbt_status st = is_new ? begin_message(rule_state, id, batch->base) : RBT_OK;
    struct work work = {.rule_state = rule_state, .rows = rows, .batch = batch};
    if (st == RBT_OK && has_parts(rule_state)) {
        st = rbt_versions_at(&rule_state->versions, rule_state->message.version, &work.version);
    }
    if (st != RBT_OK) {
        break_down(rule_state, st,
                   batch->count > 0 ? batch->keys[rbt_batch_position(batch, 0)] : 0);
        return;
    }
    rbt_rows_update(rows, batch, apply_row, &work);
    note_bytes(rule_state);
}

/* --- Reading ---------------------------------------------------------------------------------- */

/* Whether what workers read is not simply the values. */
static bool is_computed(const rbt_rule_state *rule_state)
{
    RBT_DEBUG_ASSERT(rule_state->instance.rule != NULL);
    return rule_state->instance.needs.parts == RBT_PARTS_SHOWN ||
           (rule_state->instance.rule->read != NULL &&
            !rule_state->instance.needs.reads_results_only);
}

/* What a reader wants, and where it goes. */
struct view {
    rbt_rule_purpose purpose;
    uint64_t versions; /* only those below */
    float *values;     /* the row's own at first */
};

/* Adds what the versions mean for the row. */
static void fold_versions(const rbt_rule_state *rule_state, const rbt_row_store *rows,
                          uint32_t slot, const struct view *view)
{
    RBT_ASSERT(rule_state->instance.needs.parts == RBT_PARTS_SHOWN);
    RBT_DEBUG_ASSERT(slot < rbt_rows_count(rows));
    struct rbt_rule_row row = {.key = rbt_rows_key(rows, slot),
                               .width = rule_state->spec->width,
                               .values = view->values,
                               .state = rbt_rows_state(rows, slot)};
    for (size_t i = 0; i < rule_state->versions.count; i++) {
        const struct rbt_version *live = &rule_state->versions.live[i];
        if (live->id >= view->versions) {
            break;
        }
        const float *part = rbt_versions_peek(&rule_state->versions, live, slot);
        if (part != NULL && !is_zero(part, rule_state->spec->width)) {
            const struct rbt_rule_version version = {live->id, live->messages};
            row.part = (float *)part; /* fold() only reads it */
            rule_state->instance.rule->fold(rule_state->instance.self, &version, &row);
        }
    }
}

static void read_row(const rbt_rule_state *rule_state, const rbt_row_store *rows, uint32_t slot,
                     const struct view *view)
{
    const struct rbt_rule *rule = rule_state->instance.rule;
    if (rule_state->instance.needs.parts == RBT_PARTS_SHOWN) {
        fold_versions(rule_state, rows, slot, view); /* (1) */
    }
    if (rule->read != NULL &&
        (view->purpose == RBT_READ_RESULT || !rule_state->instance.needs.reads_results_only)) {
        const struct rbt_rule_row row = {.key = rbt_rows_key(rows, slot),
                                         .width = rule_state->spec->width,
                                         .values = rule_state->scratch,
                                         .state = rbt_rows_state(rows, slot)};
        /* A copy: the rule may look at the values when it has begun to write. */
        memcpy(row.values, view->values, rule_state->spec->width * sizeof *row.values);
        rule->read(rule_state->instance.self, &row, view->purpose, view->values);
    }
    RBT_DEBUG_ASSERT(rule->fold != NULL || rule_state->instance.needs.parts != RBT_PARTS_SHOWN);
}

struct reading {
    const rbt_rule_state *rule_state;
    const rbt_row_store *rows;
    const struct rbt_batch *batch;
    uint64_t versions;
};

static void read_for_work(void *context, uint32_t slot, void *values, size_t position, void *state)
{
    (void)values;
    (void)state;
    const struct reading *reading = context;
    RBT_DEBUG_ASSERT(slot < rbt_rows_count(reading->rows));
    RBT_DEBUG_ASSERT(reading->batch->values != NULL);
    const struct view view = {.purpose = RBT_READ_WORK,
                              .versions = reading->versions,
                              .values = (float *)reading->batch->values +
                                        position * reading->rule_state->spec->width};
    read_row(reading->rule_state, reading->rows, slot, &view);
}

void rbt_rule_state_read(rbt_rule_state *rule_state, const rbt_row_store *rows,
                         const struct rbt_batch *batch, uint64_t versions)
{
    RBT_ASSERT(batch->count == 0 || batch->values != NULL);
    RBT_ASSERT(batch->offsets == NULL);
    rbt_rows_read(rows, batch);
    if (is_computed(rule_state)) {
        struct reading reading = {rule_state, rows, batch, versions};
        rbt_rows_visit(rows, batch, read_for_work, &reading);
    }
}

void rbt_rule_state_read_result(rbt_rule_state *rule_state, const rbt_row_store *rows,
                                uint32_t slot, float *values)
{
    RBT_ASSERT(values != NULL);
    RBT_ASSERT(slot < rbt_rows_count(rows));
    memcpy(values, rbt_rows_values(rows, slot), rule_state->spec->width * sizeof *values);
    const struct view view = {RBT_READ_RESULT, RBT_RULE_NO_VERSION, values};
    read_row(rule_state, rows, slot, &view);
}

/* --- Versions that are over ------------------------------------------------------------------- */

/* The version of a worker's next message if it is computed from this read, or NULL: from none. */
static uint64_t next_version(const rbt_rule_state *rule_state, uint32_t worker,
                             const struct rbt_hold *hold, int64_t floor)
{
    struct rbt_rule_message message = message_from(rule_state, worker, hold);
    RBT_DEBUG_ASSERT(floor >= 0);
    message.clock = floor; /* or later */
    return map(rule_state, &message);
}

/* The lowest version that any worker's next message can be mapped to, or that a worker's reads do
 * not show yet: nothing can be hidden any more that has been folded for good. */
static uint64_t lowest_version(const rbt_rule_state *rule_state, int64_t floor)
{
    uint64_t lowest = RBT_RULE_NO_VERSION;
    for (uint32_t i = 0; i < rule_state->ledger.worker_count; i++) {
        const struct rbt_ledger_worker *w = &rule_state->ledger.workers[i];
        RBT_DEBUG_ASSERT(w->count <= w->capacity);
        for (uint32_t k = 0; k < w->count; k++) {
            const uint64_t version = next_version(rule_state, i, &w->holds[k], floor);
            lowest = version < lowest ? version : lowest;
        }
        if (w->count == 0 && w->is_known && !w->has_left) { /* it updates and never reads */
            const uint64_t version = next_version(rule_state, i, NULL, floor);
            lowest = version < lowest ? version : lowest;
        }
        lowest = w->count > 0 && w->versions < lowest ? w->versions : lowest;
    }
    return lowest;
}

static bool is_over(const rbt_rule_state *rule_state, const struct rbt_rule_age *age)
{
    const struct rbt_rule *rule = rule_state->instance.rule;
    const bool is_hidden = rule_state->instance.needs.parts == RBT_PARTS_HIDDEN;
    RBT_ASSERT(age->version.version < age->newest);
    RBT_ASSERT(has_parts(rule_state));
    if (rule->expire != NULL && !is_hidden) {
        return rule->expire(rule_state->instance.self, age);
    }
    return is_hidden ? (int64_t)age->version.version < age->floor
                     : age->lowest > age->version.version; /* (2); NO_VERSION is above all */
}

/* Folds the first version into its rows. */
static void retire(rbt_rule_state *rule_state, rbt_row_store *rows)
{
    RBT_ASSERT(rule_state->versions.count > 0);
    const struct rbt_version *first = &rule_state->versions.live[0];
    RBT_ASSERT(first->messages > 0);
    const struct rbt_rule *rule = rule_state->instance.rule;
    const bool is_hidden = rule_state->instance.needs.parts == RBT_PARTS_HIDDEN;
    const struct rbt_rule_version version = {first->id, first->messages};
    const struct rbt_rule_message message = {.worker = RBT_RULE_NO_WORKER,
                                             .clock = first->clock,
                                             .count = rule_state->aggregates,
                                             .previous = RBT_RULE_NO_VERSION,
                                             .version = first->id};
    if (is_hidden) {
        forget_failure();
    }
    if (is_hidden && rule->begin != NULL) {
        rule->begin(rule_state->instance.self, &message);
    }
    rule_state->aggregates += is_hidden ? 1 : 0;
    uint64_t place = 0;
    uint32_t slot = 0;
    const float *part = NULL;
    while (rule_state->status == RBT_OK &&
           (part = rbt_versions_next(&rule_state->versions, first, &place, &slot)) != NULL) {
        if (is_zero(part, rule_state->spec->width)) {
            continue;
        }
        struct rbt_rule_row row = {.key = rbt_rows_key(rows, slot),
                                   .width = rule_state->spec->width,
                                   .values = rbt_rows_row(rows, slot),
                                   .state = rbt_rows_state(rows, slot)};
        if (!is_hidden) {
            row.part = (float *)part; /* fold() only reads it */
            rule->fold(rule_state->instance.self, &version, &row);
            continue;
        }
        row.delta = part;
        if (has_snapshots(rule_state)) {
            memcpy(rule_state->scratch, row.state,
                   rule_state->instance.needs.snapshot_width * sizeof *row.state);
            row.before = rule_state->scratch;
        }
        const rbt_status st = rule->apply(rule_state->instance.self, &message, &row);
        if (st != RBT_OK) {
            break_down(rule_state, st, row.key);
        }
    }
    rule_state->gone = first->id + 1;
    rbt_versions_drop(&rule_state->versions);
}

bool rbt_rule_state_expire(rbt_rule_state *rule_state, rbt_row_store *rows, int64_t floor)
{
    RBT_ASSERT(floor >= 0);
    RBT_ASSERT(rule_state->versions.count == 0 || has_parts(rule_state));
    bool has_changed = false;
    const int64_t clock = floor == RBT_CLOCK_GONE ? floor : rule_state->clock_offset + floor;
    const uint64_t lowest = rule_state->versions.count == 0 ? 0 : lowest_version(rule_state, clock);
    while (rule_state->versions.count > 0 && rule_state->status == RBT_OK) { /* ends: one less */
        const struct rbt_version *first = &rule_state->versions.live[0];
        const struct rbt_rule_age age = {.version = {first->id, first->messages},
                                         .lowest = lowest,
                                         .newest = rule_state->newest,
                                         .floor = clock};
        if (!is_over(rule_state, &age)) {
            break;
        }
        retire(rule_state, rows);
        has_changed = has_changed || rule_state->instance.needs.parts == RBT_PARTS_HIDDEN;
    }
    return has_changed;
}

void rbt_rule_state_reset(rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->status != RBT_OK || rule_state->snapshots.count == 0);
    /* Versions may have run ahead of clocks, and all have gone: those of this run come after them,
     * or the first clocks would share one. */
    const bool is_ahead = rule_state->gone > (uint64_t)rule_state->clock_end &&
                          rule_state->gone <= (uint64_t)INT64_MAX / 2;
    rule_state->clock_end = is_ahead ? (int64_t)rule_state->gone : rule_state->clock_end;
    rule_state->clock_offset = rule_state->clock_end;
    rule_state->last = (struct rbt_bin_id){0}; /* sequences start at 1 */
    rbt_ledger_reset(&rule_state->ledger, rule_state->count,
                     tag_now(rule_state, RBT_RULE_NO_WORKER, RBT_RULE_NO_VERSION));
    forget_snapshots(rule_state);
    RBT_ASSERT(rbt_ledger_lowest(&rule_state->ledger) == rule_state->count);
}

/* --- Figures ---------------------------------------------------------------------------------- */

bool rbt_rule_state_sends_early(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->snapshots.count <= rule_state->snapshots.max);
    RBT_ASSERT(rule_state->instance.rule != NULL);
    return !has_snapshots(rule_state) ||
           rule_state->snapshots.count < rule_state->snapshots.max - rule_state->snapshots.max / 4;
}

struct rbt_rule_state_stats rbt_rule_state_stats(const rbt_rule_state *rule_state)
{
    RBT_ASSERT(rule_state->versions.count <= rule_state->versions.count_max);
    RBT_ASSERT(rule_state->instance.rule != NULL);
    const size_t bytes = bytes_now(rule_state);
    return (struct rbt_rule_state_stats){
        .bytes = bytes,
        .bytes_max = bytes > rule_state->bytes_max ? bytes : rule_state->bytes_max,
        .versions = rule_state->versions.count,
        .versions_max = rule_state->versions.count_max,
        .snapshots = rule_state->snapshots.count,
        .snapshots_max = rule_state->snapshots.count_max};
}
