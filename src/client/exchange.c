/* client/exchange.c - rows that travel before the clock ends: as many as the budget allows, the
 * most important ones first.
 *
 * With a rule, an update names the read that it was computed from. A row that comes early is a read
 * of its own, so it has a stamp of its own; if it has changes that have not been sent, these were
 * computed from the old one and become an update first.
 *
 * Threads: a worker's own. Memory: all of it when a set is managed, but for what updates need. */
#include "client/exchange.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "base/sort_u64.h"
#include "client/filtering.h"
#include "client/flush.h"
#include "client/set.h"

enum {
    KEY_BYTES = 8,     /* of a row, at most */
    ASK_BYTES = 80,    /* of a request for early rows, about */
    ANSWER_BYTES = 72, /* of its answer besides the rows */
    ANSWER_MIN = 128,  /* bytes that a request should bring */
    ASKS_MAX = 8,      /* requests that go together */
    SHARE_MIN = 1024,  /* bytes for each shard that make it worth to send to all of them */
    LOOKS_MAX = 64,    /* times that one may ask whether rows may travel before the clock is read */
};

static const rbt_time look_pause = 1000 * 1000;  /* ns: at the latest, look again after this */
static const rbt_time ask_pause = 2000 * 1000;   /* ns: to ask wakes a shard, which takes 10 us */
static const rbt_time answer_pause = 100 * 1000; /* ns: the same if an answer is to come */

static uint32_t shard_of(const struct rbt_managed *m, uint32_t row)
{
    return rbt_placement_shard(m->set->local->table->placement, m->set->keys->keys[row]);
}

/* Whether the row has changes that have not become an update. */
static bool is_changed(const struct rbt_managed *m, uint32_t row)
{
    return rbt_touched_has(&m->touched, row) || rbt_queue_is_marked(m->queue, row);
}

/* --- Sending --------------------------------------------------------------------------------- */

/* Into the cache: the beginning, the rest follows by itself. */
static void fetch_row(const float *row, uint32_t width)
{
    enum { LINE = 16, LINES = 8 };
    for (uint32_t i = 0; i < width && i < LINE * LINES; i += LINE) {
        __builtin_prefetch(row + i);
    }
}

/* Rows that have changed, at most: a row may be touched and in the queue. */
static size_t changed_count(const struct rbt_managed *m)
{
    return rbt_touched_count(&m->touched) + rbt_queue_count(m->queue);
}

/* Looks at the priorities of rows that were touched, for as many as may go. If all of them may, it
 * does not matter which of them matter. */
static void queue_touched(struct rbt_managed *m, size_t room)
{
    const size_t limit = rbt_touched_looks(room);
    const bool is_enough = changed_count(m) <= room;
    const rbt_set *set = m->set;
    const rbt_table *table = set->local->table;
    const uint32_t width = table->spec.width;
    const float *deltas = (const float *)set->deltas;
    const float *values = (const float *)(set->base != NULL ? set->base : set->values);
    for (size_t i = 0; room > 0 && i < limit; i++) {
        const uint32_t row = rbt_touched_take(&m->touched);
        if (row == RBT_TOUCHED_NONE) {
            break;
        }
        if (!is_enough) {
            const size_t next = (size_t)rbt_touched_peek(&m->touched, 1, row) * width;
            fetch_row(deltas + next, width);
            fetch_row(values + next, width);
        }
        const struct rbt_priority_row subject = {.key = set->keys->keys[row],
                                                 .width = width,
                                                 .change = deltas + (size_t)row * width,
                                                 .value = values + (size_t)row * width};
        const bool has_score = table->priority.score != NULL && !is_enough;
        const float score = has_score ? table->priority.score(&subject) : 0;
        rbt_queue_mark(m->queue, row, score);
    }
}

/* The stamp that an update of the row names. */
static uint64_t base_of(const struct rbt_managed *m, uint32_t row, uint32_t shard)
{
    const rbt_set *set = m->set;
    const uint64_t held = m->stamps[row] != RBT_STAMP_NONE ? m->stamps[row] : set->stamps[shard];
    return rbt_stamps_base(set->local->stamps, shard, held);
}

/* Puts a row that has come into the set. */
static void put_row(const struct rbt_managed *m, size_t row)
{
    const rbt_set *set = m->set;
    const rbt_table *table = set->local->table;
    const size_t at = row * table->row_size;
    memcpy(set->values + at, m->kept + at, table->row_size);
    if (set->base != NULL) {
        memcpy(set->base + at, m->kept + at, table->row_size);
    }
    if (table->options.overlay != RBT_OVERLAY_NONE) {
        rbt_merge_apply(table->kind, set->values + at, set->deltas + at, table->spec.width);
    }
    if (table->options.overlay != RBT_OVERLAY_NONE && set->rest != NULL) {
        rbt_merge_apply(table->kind, set->values + at, set->rest + at, table->spec.width);
    }
}

static void stamp_row(struct rbt_managed *m, uint32_t shard, uint32_t row, uint64_t stamp)
{
    if (m->stamps[row] == RBT_STAMP_NONE) {
        m->fresh[m->fresh_count++] = row;
    }
    rbt_stamps_replace(m->set->local->stamps, shard, &m->stamps[row], stamp);
}

/* After their updates have been made: the rows' deltas are part of the copy, and gone. */
static void settle_row(const rbt_set *set, uint32_t row)
{
    const rbt_table *table = set->local->table;
    char *delta = set->deltas + (size_t)row * table->row_size;
    if (set->base != NULL && table->options.overlay != RBT_OVERLAY_NONE) {
        rbt_merge_apply(table->kind, set->base + (size_t)row * table->row_size, delta,
                        table->spec.width);
    }
    if (!RBT_MUTANT(EARLY_TWICE)) {
        rbt_merge_clear(table->kind, delta, table->spec.width);
    }
}

/* Makes updates of the chosen rows, one for each read that they name. */
static rbt_status emit(struct rbt_managed *m, size_t count)
{
    rbt_set *set = m->set;
    struct rbt_worker_table *local = set->local;
    for (size_t i = 0; i < count; i++) {
        const uint32_t row = m->chosen[i];
        const uint64_t key = set->keys->keys[row];
        const uint32_t shard = rbt_placement_shard(local->table->placement, key);
        const uint64_t stamp = local->stamps == NULL ? 0 : base_of(m, row, shard);
        m->tagged[i] = (struct rbt_tagged){.key = key, .stamp = stamp, .shard = shard, .row = row};
    }
    struct rbt_tagged_rows rows = {
        .list = m->tagged, .count = count, .values = set->deltas, .keys = m->keys};
    const bool is_current = set->push_seen == local->push_count;
    const bool is_filtered = local->filtering != NULL && count > 0;
    struct rbt_filter_code code = {0};
    rbt_worker_lock(local);
    rbt_status st = is_filtered ? rbt_managed_filter(m, count, &code) : RBT_OK;
    if (is_filtered) {
        rows.values = (const char *)local->filtering->values;
        rows.code = &code;
    }
    st = st != RBT_OK ? st : rbt_worker_append_tagged(set->worker, local, &rows);
    rbt_worker_unlock(local);
    for (size_t i = 0; st != RBT_OK && i < count; i++) {
        rbt_set_touch(set, m->chosen[i]); /* they still have to go */
    }
    if (st != RBT_OK) {
        return st;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t row = m->chosen[i];
        if (is_filtered) {
            rbt_managed_settle(m, row, i);
        } else {
            settle_row(set, row);
        }
        if (m->aside[row] != RBT_STAMP_NONE) {
            const uint32_t shard = shard_of(m, row);
            stamp_row(m, shard, row, m->aside[row]);
            rbt_stamps_replace(local->stamps, shard, &m->aside[row], RBT_STAMP_NONE);
            if (!set->is_asked) { /* else see rbt_managed_pulled() */
                put_row(m, row);
            }
        }
    }
    set->turn += is_filtered;
    local->push_count++;
    set->push_seen = is_current ? local->push_count : set->push_seen;
    return RBT_OK;
}

/* Takes rows from the queue, no more than there is room for, and puts them in order. */
static size_t choose(struct rbt_managed *m, size_t room)
{
    const bool is_sweep = m->set->local->table->priority.is_sweep;
    size_t count = 0;
    while (count < room) {
        const uint32_t row = is_sweep ? rbt_managed_sweep(m, count) : rbt_queue_take(m->queue);
        if (row == RBT_QUEUE_NONE) {
            break;
        }
        rbt_touched_leave(&m->touched, row);
        m->keys[count++] = row;
    }
    rbt_sort_u64(m->keys, count);
    for (size_t i = 0; i < count; i++) {
        m->chosen[i] = (uint32_t)m->keys[i];
    }
    return count;
}

/* In order of key, because all go: there is no need to look for the most important ones. */
rbt_status rbt_managed_push(struct rbt_managed *managed)
{
    const rbt_set *set = managed->set;
    size_t count = 0;
    managed->is_release =
        set->rest != NULL &&
        (set->is_released || rbt_filtering_is_release(set->local->filtering, managed->pushes));
    managed->pushes++;
    for (uint32_t row = 0; row < managed->row_count; row++) {
        if (is_changed(managed, row) ||
            (managed->is_release && rbt_filtering_has_rest(set, row, 1))) {
            rbt_queue_unmark(managed->queue, row);
            managed->chosen[count++] = row;
        }
    }
    rbt_touched_clear(&managed->touched);
    const rbt_status st = emit(managed, count);
    managed->is_release = false;
    return st;
}

/* Makes updates of the most important rows of one set; returns about how many bytes they take. */
static rbt_status emit_best(struct rbt_managed *m, size_t bytes, size_t *taken)
{
    const size_t row_bytes = m->set->local->table->row_size + KEY_BYTES;
    queue_touched(m, bytes / row_bytes);
    const size_t count = choose(m, bytes / row_bytes);
    const rbt_status st = count == 0 ? RBT_OK : emit(m, count);
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        m->sends[m->chosen[i]]++;
    }
    rbt_client_count(&m->set->worker->stats->early_sent, st == RBT_OK ? count : 0);
    *taken = count * row_bytes;
    return st;
}

/* Bytes sent since this was last asked; and received. */
static size_t take_sent(rbt_worker *worker)
{
    const uint64_t now = atomic_load_explicit(&worker->stats->bytes_sent, memory_order_relaxed);
    uint64_t bytes = now - worker->noted_sent;
    if (!worker->job->driver->counts_bytes) {
        bytes += worker->headers_sent - worker->noted_headers;
    }
    worker->noted_sent = now;
    worker->noted_headers = worker->headers_sent;
    return (size_t)bytes;
}

static size_t take_received(rbt_worker *worker)
{
    const uint64_t now = atomic_load_explicit(&worker->stats->bytes_received, memory_order_relaxed);
    const uint64_t before = worker->noted_received;
    worker->noted_received = now;
    return (size_t)(now - before);
}

/* Tells the budgets what has gone since they were last told, and what has come; `sequence` and
 * `class` are as for rbt_comm_sent(). */
static void note_sent(rbt_worker *worker, rbt_time now, uint64_t sequence, size_t bytes,
                      rbt_comm_class class)
{
    if (bytes > 0 || sequence != 0) {
        rbt_comm_sent(&worker->out, now, sequence, bytes, class);
    }
}

static void note_received(rbt_worker *worker, rbt_time now, size_t bytes, rbt_comm_class class)
{
    if (bytes > 0) {
        rbt_comm_sent(&worker->in, now, 0, bytes, class);
    }
}

/* Bytes of one set's rows that have changed; and of those that are updates already, because newer
 * ones have come, but have not gone. */
static size_t waiting_bytes(const struct rbt_managed *m)
{
    const rbt_table *table = m->set->local->table;
    const size_t rows = table->priority.is_sweep ? m->row_count : changed_count(m);
    return rows * (table->row_size + KEY_BYTES);
}

static size_t unsent_bytes(const struct rbt_managed *m)
{
    size_t rows = 0;
    for (const struct rbt_update *u = m->set->local->buffer.unsent; u != NULL; u = u->next) {
        rows += u->keys->count;
    }
    return rows * (m->set->local->table->row_size + KEY_BYTES);
}

static size_t minus(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

/* A message goes to every shard, so that a small one is mostly headers: how many bytes make it
 * worth to send. */
static size_t worth_sending(const rbt_worker *worker)
{
    const size_t wanted = (size_t)worker->job->shard_count * SHARE_MIN;
    const size_t most = worker->out.options.message_max / 2;
    return wanted < most ? wanted : most;
}

/* The set's part of the room: sets share it by how much they have. */
static size_t share_of(const struct rbt_managed *m, size_t room, size_t waiting)
{
    const double part = waiting <= room ? 1.0 : (double)waiting_bytes(m) / (double)waiting;
    return (size_t)((double)room * part);
}

/* Sends what the budget allows, if that is worth a message. */
static rbt_status send_best(rbt_worker *worker, rbt_time now)
{
    const size_t headers = (size_t)worker->job->shard_count * RBT_CLIENT_MESSAGE_BYTES;
    const size_t grant = rbt_comm_grant(&worker->out, now);
    if (grant < worth_sending(worker) || grant <= headers) {
        return RBT_OK;
    }
    size_t waiting = 0;
    size_t sent = 0;
    for (const struct rbt_managed *m = worker->managed; m != NULL; m = m->next) {
        sent += unsent_bytes(m);
        waiting += waiting_bytes(m);
    }
    const size_t room = minus(grant, headers + sent);
    rbt_status st = RBT_OK;
    for (struct rbt_managed *m = worker->managed; st == RBT_OK && m != NULL; m = m->next) {
        size_t taken = 0;
        st = emit_best(m, share_of(m, room, waiting), &taken);
        sent += taken;
    }
    if (st == RBT_OK && sent > 0) {
        const uint64_t sequence = worker->sequence;
        rbt_worker_send_early(worker);
        const size_t bytes = take_sent(worker);
        note_sent(worker, now, sequence, bytes, RBT_COMM_EARLY);
        rbt_client_count(&worker->stats->early_bytes_sent, bytes);
    }
    return st;
}

/* --- Reading --------------------------------------------------------------------------------- */

/* Makes a request to the shard whose turn it is for the rows that have changed most; no more than
 * fit the budget. Returns about how many bytes may come; 0: there is nothing to ask for. */
static size_t prepare_ask(struct rbt_managed *m, size_t bytes)
{
    rbt_set *set = m->set;
    rbt_worker *worker = set->worker;
    struct rbt_early_read *read = &m->read;
    const size_t row_bytes = set->local->table->row_size + KEY_BYTES;
    const size_t count = rbt_set_list_calls(set);
    if (count == 0) {
        return 0;
    }
    const size_t at = read->turn++ % count;
    size_t room = (bytes - ANSWER_BYTES) / row_bytes;
    room = room > worker->pulls[at].count ? worker->pulls[at].count : room;
    room = room > m->room_max ? m->room_max : room;
    read->call = worker->calls[at];
    read->batch = worker->pulls[at];
    read->batch.values = read->values;
    read->early = (struct rbt_shard_early){.room = (uint32_t)room, .keys = read->keys};
    struct rbt_shard_event *event = &read->call.event;
    event->batches = &read->batch;
    event->early = &read->early;
    event->need = RBT_CLOCK_ANY;
    event->subscription = set->subscription;
    event->applied = &read->applied;
    event->applied_least = NULL;
    event->copy = NULL;
    event->stamp = set->stamps == NULL ? NULL : &read->answer_stamp;
    read->is_asked = true;
    read->is_overtaken = false;
    read->asked_bytes = ANSWER_BYTES + room * row_bytes;
    worker->headers_sent += ASK_BYTES;
    return read->asked_bytes;
}

/* Whether the shard has answered. */
static rbt_status take(rbt_worker *worker, struct rbt_driver_call *call, bool *is_there)
{
    rbt_driver *driver = worker->job->driver;
    if (driver->ops->ask_early == NULL) {
        *is_there = true;
        return rbt_worker_step(worker, call, 1);
    }
    *is_there = driver->ops->take_early(driver, call, 1);
    if (*is_there) {
        rbt_worker_count_reply(worker, &call->reply);
    }
    return *is_there ? call->reply.status : RBT_OK;
}

/* Whether what the shard has answered is no newer than what the set has. */
static bool is_old(const rbt_set *set, const struct rbt_early_read *read)
{
    if (set->local->table->options.overlay != RBT_OVERLAY_NONE &&
        read->applied < set->local->buffer.dropped) {
        return true; /* own updates would vanish */
    }
    if (set->local->stamps == NULL) {
        return read->is_overtaken;
    }
    const uint64_t held = set->stamps[read->call.shard]; /* early rows are older than this */
    return read->is_overtaken && held != RBT_STAMP_NONE && read->answer_stamp <= held;
}

/* Takes over what the shard has answered. */
static rbt_status integrate(struct rbt_managed *m, struct rbt_early_read *read)
{
    rbt_set *set = m->set;
    struct rbt_worker_table *local = set->local;
    const struct rbt_shard_early *early = &read->early;
    const uint32_t shard = read->call.shard;
    if (early->count == 0 || is_old(set, read)) {
        return RBT_OK;
    }
    rbt_status st = RBT_OK;
    if (local->stamps != NULL) {
        st = rbt_stamps_reserve(local->stamps, shard);
    }
    st = st != RBT_OK ? st : rbt_keylist_assign(local->list, early->keys, early->count);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_buffer_target target = {.keys = local->list, .values = read->values};
    rbt_worker_lock(local);
    st = rbt_worker_overlay(set->worker, local, shard, &read->applied, &target);
    rbt_worker_unlock(local);
    for (uint32_t i = 0; st == RBT_OK && i < early->count; i++) {
        const size_t row = rbt_keys_find(set->keys->keys, set->keys->count, early->keys[i]);
        if (row == SIZE_MAX) {
            return rbt_fail(RBT_E_PROTOCOL, "a shard has sent a row that was not asked for");
        }
        m->receipts[row]++;
        memcpy(m->kept + row * local->table->row_size, read->values + i * local->table->row_size,
               local->table->row_size);
        if (local->stamps != NULL && is_changed(m, (uint32_t)row)) {
            rbt_stamps_replace(local->stamps, shard, &m->aside[row], read->answer_stamp);
            continue;
        }
        put_row(m, row);
        if (local->stamps != NULL) {
            stamp_row(m, shard, (uint32_t)row, read->answer_stamp);
        }
    }
    if (st == RBT_OK && local->stamps != NULL) {
        rbt_stamps_note(local->stamps, shard, read->answer_stamp);
    }
    return st;
}

/* Where answers are small, changes are left to gather for as long as the missing bytes would take:
 * else most of the budget would go to requests and headers. */
static void pace(rbt_worker *worker, rbt_time now, size_t bytes)
{
    const double missing = bytes < ANSWER_MIN ? (double)(ANSWER_MIN - bytes) : 0.0;
    const rbt_time pause = (rbt_time)(missing / (double)worker->in.options.rate * 1e9);
    const rbt_time from = worker->ask_at > now ? worker->ask_at : now;
    worker->ask_at = from + pause;
}

/* Takes what has come, if anything. */
static rbt_status take_best(struct rbt_managed *m, struct rbt_early_read *read, rbt_time now)
{
    rbt_worker *worker = m->set->worker;
    bool is_there = false;
    /* What the set has asked for may be in its values already, and is not to be mixed with this. */
    const bool may_take = read->is_asked && !m->set->is_asked;
    rbt_status st = may_take ? take(worker, &read->call, &is_there) : RBT_OK;
    if (st != RBT_OK || !is_there) {
        return st;
    }
    const size_t rows = read->early.count;
    const rbt_driver *driver = worker->job->driver;
    st = integrate(m, read);
    read->is_asked = false;
    rbt_client_count(&worker->stats->early_received, rows);
    const size_t bytes = rows * (m->set->local->table->row_size + KEY_BYTES);
    pace(worker, now, bytes);
    if (driver->ops->ask_early != NULL && !driver->counts_bytes) {
        rbt_client_count_received(worker->stats, RBT_TRAFFIC_EARLY, bytes);
    }
    const size_t headers = driver->counts_bytes ? 0 : ANSWER_BYTES;
    note_received(worker, now, headers + take_received(worker), RBT_COMM_EARLY);
    rbt_client_count(&worker->stats->early_bytes_received, bytes);
    return st;
}

/* Bytes that have been asked for and are on their way. */
static size_t on_way(const rbt_worker *worker)
{
    size_t bytes = 0;
    for (const struct rbt_managed *m = worker->managed; m != NULL; m = m->next) {
        bytes += m->read.is_asked ? m->read.asked_bytes : 0;
    }
    return bytes;
}

/* Asks for more, as long as there is budget. The sets take turns at being the first. */
static void ask_best(rbt_worker *worker, rbt_time now)
{
    rbt_driver *driver = worker->job->driver;
    struct rbt_driver_call calls[ASKS_MAX];
    size_t count = 0;
    size_t on = on_way(worker);
    struct rbt_managed *first = worker->turn != NULL ? worker->turn : worker->managed;
    struct rbt_managed *m = first;
    if (now < worker->ask_at) {
        return;
    }
    do {
        const size_t room = minus(rbt_comm_grant(&worker->in, now), on);
        if (room < worker->in.options.message_min || count == ASKS_MAX) {
            break;
        }
        const size_t asked = m->read.is_asked ? 0 : prepare_ask(m, room);
        if (asked > 0) {
            calls[count++] = m->read.call;
            on += asked;
        }
        m = m->next != NULL ? m->next : worker->managed;
    } while (m != first);
    worker->turn = m;
    worker->ask_at = count > 0 ? now + ask_pause : now;
    if (count > 0 && driver->ops->ask_early != NULL) {
        driver->ops->ask_early(driver, calls, count);
    }
}

/* After a pull: what was put aside is gone if it is not newer, and if the row is to stay, it is
 * what stays. */
static void drop_aside(struct rbt_managed *m)
{
    const rbt_set *set = m->set;
    for (uint32_t row = 0; set->stamps != NULL && row < m->row_count; row++) {
        if (m->aside[row] == RBT_STAMP_NONE) {
            continue;
        }
        const uint32_t shard = shard_of(m, row);
        const uint64_t pulled = set->stamps[shard];
        const bool is_old = pulled != RBT_STAMP_NONE && m->aside[row] <= pulled;
        if (!is_old && m->stamps[row] != RBT_STAMP_NONE) {
            stamp_row(m, shard, row, m->aside[row]);
        }
        if (is_old || m->stamps[row] != RBT_STAMP_NONE) {
            rbt_stamps_replace(set->local->stamps, shard, &m->aside[row], RBT_STAMP_NONE);
        }
    }
}

/* Rows that came early and are newer than what has been pulled stay. */
void rbt_managed_pulled(struct rbt_managed *m)
{
    const rbt_set *set = m->set;
    const rbt_table *table = set->local->table;
    size_t kept = 0;
    m->read.is_overtaken = true;
    drop_aside(m);
    for (size_t i = 0; set->stamps != NULL && i < m->fresh_count; i++) {
        const uint32_t row = m->fresh[i];
        const uint32_t shard = rbt_placement_shard(table->placement, set->keys->keys[row]);
        const uint64_t pulled = set->stamps[shard];
        if (table->options.overlay == RBT_OVERLAY_NONE && pulled != RBT_STAMP_NONE &&
            m->stamps[row] > pulled) {
            memcpy(set->values + row * table->row_size, m->kept + row * table->row_size,
                   table->row_size);
            m->fresh[kept++] = row;
        } else {
            rbt_stamps_replace(set->local->stamps, shard, &m->stamps[row], RBT_STAMP_NONE);
        }
    }
    m->fresh_count = kept;
}

/* Lets rows travel, both ways. */
static rbt_status exchange(rbt_worker *worker, rbt_time now)
{
    rbt_driver *driver = worker->job->driver;
    note_sent(worker, now, 0, take_sent(worker), RBT_COMM_CLOCK); /* has gone anyway */
    note_received(worker, now, take_received(worker), RBT_COMM_READ);
    const uint64_t pauses = worker->out.window.pauses;
    const uint64_t heard = driver->ops->heard(driver, worker->index);
    if (heard > 0) { /* numbers start at 1 */
        rbt_comm_acknowledged(&worker->out, now, heard);
    }
    rbt_status st = RBT_OK;
    for (struct rbt_managed *m = worker->managed; st == RBT_OK && m != NULL; m = m->next) {
        st = take_best(m, &m->read, now);
    }
    st = st != RBT_OK ? st : send_best(worker, now);
    if (st == RBT_OK) { /* after what was sent: rows come with it */
        ask_best(worker, now);
    }
    rbt_client_count(&worker->stats->early_pauses, worker->out.window.pauses - pauses);
    return st;
}

/* When there may be something to do: soon if rows have been asked for, else when the budget has
 * room again. */
static rbt_time next_time(const rbt_worker *worker, rbt_time now)
{
    for (const struct rbt_managed *m = worker->managed; m != NULL; m = m->next) {
        if (m->read.is_asked && !m->set->is_asked) {
            return worker->job->driver->ops->ask_early == NULL ? now : now + answer_pause;
        }
    }
    const rbt_time out = rbt_comm_when(&worker->out, now);
    const rbt_time in = rbt_comm_when(&worker->in, now);
    const rbt_time ask = in > worker->ask_at ? in : worker->ask_at;
    const rbt_time next = out < ask ? out : ask;
    const rbt_time most = now + look_pause; /* acknowledgements may change it */
    return next < most ? next : most;
}

/* Asked after every few steps of the work, so it does not look at the clock every time: after half
 * of the times that it will be asked until then, as far as one can tell. */
bool rbt_worker_exchange_is_due(rbt_worker *worker)
{
    rbt_driver *driver = worker->job->driver;
    if (worker->looks_left > 0) {
        worker->looks_left--;
        return false;
    }
    if (worker->managed == NULL || driver->is_reader) {
        return false;
    }
    const rbt_time now = driver->ops->now(driver);
    const rbt_time left = worker->exchange_at - now;
    const rbt_time passed = now - worker->looked_at; /* in `looks` times */
    if (left > 0 && passed > 0) {
        const double times = (double)left / (double)passed * worker->looks / 2;
        worker->looks_left = times < LOOKS_MAX ? (uint32_t)times : LOOKS_MAX;
    }
    worker->looked_at = now;
    worker->looks = worker->looks_left + 1;
    return left <= 0;
}

/* A budget that the processor cannot keep up with must not hold up the work: early rows get at most
 * half of the time. */
rbt_status rbt_worker_exchange(rbt_worker *worker)
{
    rbt_driver *driver = worker->job->driver;
    if (worker->managed == NULL || driver->is_reader) {
        return RBT_OK;
    }
    const rbt_time now = driver->ops->now(driver);
    if (now < worker->exchange_at) {
        return RBT_OK;
    }
    const uint64_t before = worker->headers_sent;
    rbt_status st = rbt_worker_may_update(worker);
    st = st != RBT_OK ? st : rbt_worker_resend(worker);
    st = st != RBT_OK ? st : exchange(worker, now);
    worker->exchange_at = next_time(worker, now);
    if (worker->headers_sent != before) { /* else it took no time to speak of */
        const rbt_time end = driver->ops->now(driver);
        const rbt_time own = end + (end - now);
        worker->exchange_at = own > worker->exchange_at ? own : worker->exchange_at;
    }
    return st;
}
