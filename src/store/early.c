/* store/early.c - which rows of a table are sent to workers before they ask.
 *
 * For every row the shard keeps a copy as it was when it was last chosen; the difference is what
 * the row's priority is made of, whatever a rule has done with the updates. A queue orders the rows
 * that differ. Each reader, that is, each working set of a worker that has asked for early rows,
 * has a queue of its own with the rows that were chosen and have not been sent to it.
 *
 * Threads: none; the shard owns it. Memory: a copy of the rows, and for each reader about as many
 * numbers as there are rows. */
#include "store/early.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sort_u64.h"
#include "comm/touched.h"

enum { READERS_MAX = 1 << 16 }; /* what a peer that breaks the rules can cost */

#define NOT_WANTED UINT64_MAX /* the row is not in the reader's set */

struct reader {
    uint32_t worker;
    uint64_t subscription;
    uint64_t rows_known; /* rows of the table when it was last asked which it wants */
    uint64_t taken_at;   /* the tick of its last complete read */
    uint32_t sweep;      /* the slot whose turn it is, if all rows go round and round */
    uint64_t *got_at;    /* (slot_max): the tick when the row was last sent to it; NOT_WANTED */
    rbt_change_queue *due;
};

struct rbt_early {
    struct rbt_priority_policy priority;
    struct rbt_initial initial;
    uint32_t width;
    uint32_t slot_max;          /* rows that there is room for */
    uint32_t slot_count;        /* rows that `sent` knows */
    uint64_t tick;              /* grows with every change */
    uint64_t *changed_at;       /* (slot_max): the tick of the last change */
    float *sent;                /* (slot_max, width): as last chosen; at first initial values */
    float *change;              /* (width): scratch */
    struct rbt_touched touched; /* rows that have changed and are not in the queue as they are */
    rbt_change_queue *changed;
    struct reader *readers;
    uint32_t reader_count;
    uint32_t reader_max;
};

rbt_status rbt_early_create(const struct rbt_priority_policy *priority,
                            const struct rbt_initial *initial, rbt_early **early)
{
    RBT_ASSERT(initial->width > 0);
    RBT_ASSERT(initial->type == RBT_F32);
    rbt_early *e = rbt_calloc(1, sizeof *e);
    if (e == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a queue of changed rows");
    }
    *e = (rbt_early){.priority = *priority, .initial = *initial, .width = initial->width};
    e->change = rbt_calloc(e->width, sizeof *e->change);
    rbt_status st = e->change != NULL
                        ? rbt_queue_create(priority->order, 0, initial->seed, &e->changed)
                        : rbt_fail(RBT_E_NOMEM, "could not allocate a queue of changed rows");
    if (st != RBT_OK) {
        rbt_early_destroy(e);
        return st;
    }
    *early = e;
    return RBT_OK;
}

static void close_reader(struct reader *reader)
{
    RBT_ASSERT(reader != NULL);
    rbt_queue_destroy(reader->due);
    rbt_free(reader->got_at);
}

void rbt_early_destroy(rbt_early *early)
{
    if (early == NULL) {
        return;
    }
    RBT_ASSERT(early->reader_count <= early->reader_max);
    for (uint32_t i = 0; i < early->reader_count; i++) {
        close_reader(&early->readers[i]);
    }
    rbt_free(early->readers);
    rbt_queue_destroy(early->changed);
    rbt_touched_deinit(&early->touched);
    rbt_free(early->change);
    rbt_free(early->sent);
    rbt_free(early->changed_at);
    rbt_free(early);
}

/* Room for the reader's rows. */
static rbt_status fit_reader(struct reader *reader, uint32_t old_max, uint32_t slot_max)
{
    RBT_ASSERT(old_max <= slot_max);
    RBT_ASSERT(reader->due != NULL);
    rbt_status st = rbt_queue_grow(reader->due, slot_max);
    uint64_t *got_at = st != RBT_OK ? NULL : rbt_realloc(reader->got_at, slot_max, sizeof *got_at);
    if (got_at == NULL) {
        return st != RBT_OK ? st : rbt_fail(RBT_E_NOMEM, "no memory for rows to be sent early");
    }
    memset(got_at + old_max, 0xff, (slot_max - old_max) * sizeof *got_at); /* NOT_WANTED */
    reader->got_at = got_at;
    return RBT_OK;
}

/* Room for so many rows. */
static rbt_status grow(rbt_early *early, uint32_t slot_max)
{
    RBT_ASSERT(slot_max > early->slot_max);
    RBT_ASSERT(early->changed != NULL);
    rbt_status st = rbt_queue_grow(early->changed, slot_max);
    st = st != RBT_OK ? st : rbt_touched_grow(&early->touched, slot_max);
    for (uint32_t i = 0; st == RBT_OK && i < early->reader_count; i++) {
        st = fit_reader(&early->readers[i], early->slot_max, slot_max);
    }
    if (st != RBT_OK) {
        return st;
    }
    float *sent = rbt_realloc(early->sent, (size_t)slot_max * early->width, sizeof *sent);
    early->sent = sent == NULL ? early->sent : sent;
    uint64_t *changed_at = rbt_realloc(early->changed_at, slot_max, sizeof *changed_at);
    early->changed_at = changed_at == NULL ? early->changed_at : changed_at;
    if (sent == NULL || changed_at == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for rows to be sent early");
    }
    early->slot_max = slot_max;
    return RBT_OK;
}

/* How many rows to make room for when there are `count`. */
static uint32_t room_for(uint64_t count)
{
    const uint64_t wanted = count + count / 2 + 64;
    RBT_ASSERT(count < RBT_SLOT_NONE);
    RBT_ASSERT(wanted > count);
    return wanted < RBT_SLOT_NONE ? (uint32_t)wanted : RBT_SLOT_NONE - 1;
}

/* Knows all rows that exist. */
static rbt_status fit(rbt_early *early, const rbt_row_store *rows)
{
    const uint64_t count = rbt_rows_count(rows);
    RBT_ASSERT(count < RBT_SLOT_NONE);
    RBT_ASSERT(early->slot_count <= count);
    if (count > early->slot_max) {
        const rbt_status st = grow(early, room_for(count));
        if (st != RBT_OK) {
            return st;
        }
    }
    for (; early->slot_count < count; early->slot_count++) {
        const uint32_t slot = early->slot_count;
        rbt_initial_values(&early->initial, rbt_rows_key(rows, slot),
                           early->sent + (size_t)slot * early->width);
        early->changed_at[slot] = 0;
    }
    return RBT_OK;
}

static void note_row(void *context, uint32_t slot, void *values, size_t position, void *state)
{
    rbt_early *early = context;
    (void)position;
    (void)values;
    (void)state;
    RBT_ASSERT(early->slot_count <= early->slot_max);
    RBT_ASSERT(early->slot_max <= early->touched.capacity || early->slot_count == 0);
    if (slot >= early->slot_count) {
        return; /* there was no memory for it */
    }
    early->changed_at[slot] = early->tick;
    rbt_touched_add(&early->touched, slot);
}

void rbt_early_note(rbt_early *early, const rbt_row_store *rows, const struct rbt_batch *batch)
{
    const rbt_status st = fit(early, rows);
    (void)st; /* rows beyond what fits come when they are asked for */
    RBT_ASSERT(early->change != NULL);
    RBT_ASSERT(early->changed != NULL);
    early->tick++;
    rbt_rows_visit(rows, batch, note_row, early);
    RBT_ASSERT(rbt_touched_count(&early->touched) <= early->slot_max);
}

/* How much it matters that the row is sent. */
static float score_of(rbt_early *early, const rbt_row_store *rows, uint32_t slot)
{
    RBT_ASSERT(slot < early->slot_count);
    RBT_ASSERT(early->change != NULL);
    if (early->priority.score == NULL) {
        return 0;
    }
    const float *restrict now = rbt_rows_values(rows, slot);
    const float *restrict sent = early->sent + (size_t)slot * early->width;
    float *restrict change = early->change;
    for (uint32_t i = 0; i < early->width; i++) {
        change[i] = now[i] - sent[i];
    }
    const struct rbt_priority_row row = {
        .key = rbt_rows_key(rows, slot), .width = early->width, .change = change, .value = now};
    return early->priority.score(&row);
}

/* Looks at rows that have changed, for `room` that may be sent. Returns whether there were any. If
 * all of them may be sent, it does not matter which of them matter. */
static bool look(rbt_early *early, const rbt_row_store *rows, uint32_t room)
{
    const size_t limit = rbt_touched_looks(room);
    const bool is_enough =
        rbt_touched_count(&early->touched) + rbt_queue_count(early->changed) <= room;
    size_t count = 0;
    RBT_ASSERT(room > 0);
    for (; count < limit; count++) {
        const uint32_t slot = rbt_touched_take(&early->touched);
        if (slot == RBT_TOUCHED_NONE) {
            break;
        }
        rbt_queue_mark(early->changed, slot, is_enough ? 0 : score_of(early, rows, slot));
    }
    RBT_ASSERT(rbt_queue_count(early->changed) <= early->slot_max);
    return count > 0;
}

/* A new reader; NULL without memory, or if there are too many. */
static struct reader *add_reader(rbt_early *early, uint32_t worker, uint64_t subscription)
{
    RBT_ASSERT(early->reader_count <= early->reader_max);
    RBT_ASSERT(early->changed != NULL);
    if (early->reader_count == READERS_MAX) {
        return NULL;
    }
    if (early->reader_count == early->reader_max) {
        const uint32_t max = early->reader_max == 0 ? 8 : early->reader_max * 2;
        struct reader *readers = rbt_realloc(early->readers, max, sizeof *readers);
        if (readers == NULL) {
            return NULL;
        }
        early->readers = readers;
        early->reader_max = max;
    }
    struct reader reader = {.worker = worker, .subscription = subscription};
    rbt_status st = rbt_queue_create(RBT_ORDER_OLDEST, 0, 0, &reader.due);
    st = st != RBT_OK ? st : fit_reader(&reader, 0, early->slot_max);
    if (st != RBT_OK) {
        close_reader(&reader);
        return NULL;
    }
    early->readers[early->reader_count] = reader;
    return &early->readers[early->reader_count++];
}

/* The reader that the event is of, made if there is none; NULL without memory. */
static struct reader *find_reader(rbt_early *early, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->early != NULL);
    RBT_ASSERT(early->reader_count <= early->reader_max);
    for (uint32_t i = 0; i < early->reader_count; i++) {
        if (early->readers[i].worker == event->worker &&
            early->readers[i].subscription == event->subscription) {
            return &early->readers[i];
        }
    }
    return add_reader(early, event->worker, event->subscription);
}

static void want_row(void *context, uint32_t slot, void *values, size_t position, void *state)
{
    struct reader *reader = context;
    (void)position;
    (void)values;
    (void)state;
    RBT_ASSERT(slot != RBT_SLOT_NONE);
    RBT_ASSERT(reader->got_at != NULL);
    if (reader->got_at[slot] == NOT_WANTED) {
        reader->got_at[slot] = 0;
    }
}

/* Puts rows on the lists of all readers that have them, until this one has `room` or there are no
 * more. */
static void choose_more(rbt_early *early, const rbt_row_store *rows, const struct reader *reader,
                        uint32_t room)
{
    RBT_ASSERT(early->slot_count <= early->slot_max);
    RBT_ASSERT(reader->due != NULL);
    const uint32_t due = rbt_queue_count(reader->due);
    bool has_more = due < room && look(early, rows, room - due);
    while (rbt_queue_count(reader->due) < room) {
        const uint32_t slot = rbt_queue_take(early->changed);
        if (slot == RBT_QUEUE_NONE && has_more) {
            has_more = look(early, rows, room - due);
            continue;
        }
        if (slot == RBT_QUEUE_NONE) {
            return;
        }
        rbt_touched_leave(&early->touched, slot);
        RBT_ASSERT(slot < early->slot_count);
        RBT_ASSERT(early->changed_at[slot] <= early->tick);
        memcpy(early->sent + (size_t)slot * early->width, rbt_rows_values(rows, slot),
               early->width * sizeof *early->sent);
        for (uint32_t i = 0; i < early->reader_count; i++) {
            const struct reader *other = &early->readers[i];
            if (early->changed_at[slot] > other->got_at[slot] &&
                early->changed_at[slot] > other->taken_at) {
                rbt_queue_mark(other->due, slot, 0);
            }
        }
    }
}

/* The next of the reader's rows, whether they have changed or not; none twice. */
static void sweep(const rbt_early *early, struct reader *reader, const rbt_row_store *rows,
                  struct rbt_shard_early *wanted)
{
    RBT_ASSERT(early->priority.is_sweep);
    RBT_ASSERT(reader->sweep <= early->slot_count);
    for (uint32_t i = 0; i < early->slot_count && wanted->count < wanted->room; i++) {
        const uint32_t slot = reader->sweep < early->slot_count ? reader->sweep : 0;
        reader->sweep = slot + 1;
        if (reader->got_at[slot] != NOT_WANTED) {
            reader->got_at[slot] = early->tick;
            wanted->keys[wanted->count++] = rbt_rows_key(rows, slot);
        }
    }
}

void rbt_early_choose(rbt_early *early, const rbt_row_store *rows,
                      const struct rbt_shard_event *event)
{
    struct rbt_shard_early *wanted = event->early;
    RBT_ASSERT(wanted != NULL);
    RBT_ASSERT(event->batch_count == 1);
    wanted->count = 0;
    struct reader *reader = fit(early, rows) == RBT_OK ? find_reader(early, event) : NULL;
    if (reader == NULL) {
        return; /* no memory: nothing goes early */
    }
    if (reader->rows_known != rbt_rows_count(rows)) {
        rbt_rows_visit(rows, &event->batches[0], want_row, reader);
        reader->rows_known = rbt_rows_count(rows);
    }
    RBT_ASSERT(wanted->keys != NULL || wanted->room == 0);
    if (early->priority.is_sweep) {
        sweep(early, reader, rows, wanted);
    } else {
        choose_more(early, rows, reader, wanted->room);
    }
    while (wanted->count < wanted->room) {
        const uint32_t slot = rbt_queue_take(reader->due);
        if (slot == RBT_QUEUE_NONE) {
            break;
        }
        RBT_ASSERT(reader->got_at[slot] != NOT_WANTED);
        reader->got_at[slot] = early->tick;
        wanted->keys[wanted->count++] = rbt_rows_key(rows, slot);
    }
    RBT_ASSERT(wanted->count <= wanted->room);
    rbt_sort_u64(wanted->keys, wanted->count);
}

void rbt_early_take_all(rbt_early *early, uint32_t worker, uint64_t subscription)
{
    RBT_ASSERT(early->reader_count <= early->reader_max);
    for (uint32_t i = 0; i < early->reader_count; i++) {
        struct reader *reader = &early->readers[i];
        if (reader->worker == worker && reader->subscription == subscription) {
            reader->taken_at = early->tick;
            while (rbt_queue_take(reader->due) != RBT_QUEUE_NONE) {
            }
        }
    }
}

void rbt_early_leave(rbt_early *early, uint32_t worker)
{
    uint32_t kept = 0;
    RBT_ASSERT(early->reader_count <= early->reader_max);
    for (uint32_t i = 0; i < early->reader_count; i++) {
        if (early->readers[i].worker == worker) {
            close_reader(&early->readers[i]);
        } else {
            early->readers[kept++] = early->readers[i];
        }
    }
    RBT_ASSERT(kept <= early->reader_count);
    RBT_ASSERT(early->readers != NULL || kept == 0);
    early->reader_count = kept;
}

void rbt_early_reset(rbt_early *early)
{
    RBT_ASSERT(early->reader_count <= early->reader_max);
    for (uint32_t i = 0; i < early->reader_count; i++) {
        close_reader(&early->readers[i]);
    }
    early->reader_count = 0;
}

uint32_t rbt_early_readers(const rbt_early *early)
{
    RBT_ASSERT(early != NULL);
    RBT_ASSERT(early->reader_count <= early->reader_max);
    return early->reader_count;
}

size_t rbt_early_bytes(const rbt_early *early)
{
    size_t bytes = (size_t)early->slot_max * early->width * sizeof *early->sent +
                   early->slot_max * sizeof *early->changed_at +
                   rbt_touched_bytes(&early->touched) + rbt_queue_bytes(early->changed);
    RBT_ASSERT(early->reader_count <= early->reader_max);
    for (uint32_t i = 0; i < early->reader_count; i++) {
        bytes += early->slot_max * sizeof *early->readers[i].got_at +
                 rbt_queue_bytes(early->readers[i].due);
    }
    return bytes;
}

/* --- State ------------------------------------------------------------------------------------ */

const struct rbt_priority_policy *rbt_early_priority(const rbt_early *early)
{
    RBT_ASSERT(early->priority.name != NULL);
    RBT_ASSERT(early->changed != NULL);
    return &early->priority;
}

void rbt_early_save(const rbt_early *early, struct rbt_sink *sink)
{
    const size_t count = early->slot_count;
    RBT_ASSERT(early->slot_count <= early->slot_max);
    RBT_ASSERT(early->reader_count <= early->reader_max);
    rbt_sink_put_u64(sink, early->tick);
    rbt_sink_put_u64(sink, count);
    rbt_sink_put(sink, early->changed_at, count * sizeof *early->changed_at);
    rbt_sink_put(sink, early->sent, count * early->width * sizeof *early->sent);
    rbt_touched_save(&early->touched, sink);
    rbt_queue_save(early->changed, sink);
    rbt_sink_put_u64(sink, early->reader_count);
    for (uint32_t i = 0; i < early->reader_count; i++) {
        const struct reader *reader = &early->readers[i];
        RBT_ASSERT(reader->sweep <= early->slot_count);
        rbt_sink_put_u32(sink, reader->worker);
        rbt_sink_put_u64(sink, reader->subscription);
        rbt_sink_put_u64(sink, reader->rows_known);
        rbt_sink_put_u64(sink, reader->taken_at);
        rbt_sink_put_u32(sink, reader->sweep);
        rbt_sink_put(sink, reader->got_at, count * sizeof *reader->got_at);
        rbt_queue_save(reader->due, sink);
    }
}

/* What is known of rows. */
static void load_rows(rbt_early *early, const rbt_row_store *rows, struct rbt_source *source)
{
    RBT_ASSERT(early->slot_max == 0);
    RBT_ASSERT(early->width > 0);
    early->tick = rbt_source_get_number(source);
    const size_t each = sizeof *early->changed_at + early->width * sizeof *early->sent;
    const uint64_t count = rbt_source_get_count(source, each);
    if (count > rbt_rows_count(rows)) {
        rbt_source_refuse(source, "rows were sent that are not there");
        return;
    }
    if (count > 0) {
        const rbt_status st = grow(early, room_for(count));
        if (st != RBT_OK) {
            source->status = st;
            return;
        }
        rbt_source_get(source, early->changed_at, count * sizeof *early->changed_at);
        rbt_source_get(source, early->sent, count * early->width * sizeof *early->sent);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (early->changed_at[i] > early->tick) {
            rbt_source_refuse(source, "a row has changed in the future");
            return;
        }
    }
    early->slot_count = (uint32_t)count;
}

static void load_reader(rbt_early *early, struct rbt_source *source)
{
    const uint32_t worker = rbt_source_get_u32(source);
    const uint64_t subscription = rbt_source_get_u64(source);
    RBT_ASSERT(early->slot_count <= early->slot_max);
    if (early->reader_count == READERS_MAX ||
        rbt_source_left(source) / sizeof(uint64_t) < early->slot_count) {
        rbt_source_refuse(source, "there are too many readers");
        return;
    }
    struct reader *reader = add_reader(early, worker, subscription);
    if (reader == NULL) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for rows to be sent early");
        return;
    }
    reader->rows_known = rbt_source_get_u64(source);
    reader->taken_at = rbt_source_get_u64(source);
    reader->sweep = rbt_source_get_u32(source);
    if (reader->sweep > early->slot_count) {
        rbt_source_refuse(source, "a reader is behind the last row");
    }
    rbt_source_get(source, reader->got_at, early->slot_count * sizeof *reader->got_at);
    rbt_queue_load(reader->due, source, early->slot_count);
    for (uint32_t i = 0; i < early->slot_count && rbt_source_is_good(source); i++) {
        if (reader->got_at[i] == NOT_WANTED && rbt_queue_is_marked(reader->due, i)) {
            rbt_source_refuse(source, "a row is due to a reader that does not want it");
        }
    }
    RBT_ASSERT(early->reader_count <= early->reader_max);
}

void rbt_early_load(rbt_early *early, const rbt_row_store *rows, struct rbt_source *source)
{
    enum { READER_SIZE = 2 * sizeof(uint32_t) + 3 * sizeof(uint64_t) };
    RBT_ASSERT(early->reader_count == 0);
    RBT_ASSERT(early->slot_count == 0);
    load_rows(early, rows, source);
    if (rbt_source_is_good(source)) {
        rbt_touched_load(&early->touched, source, early->slot_count);
        rbt_queue_load(early->changed, source, early->slot_count);
    }
    const uint64_t readers = rbt_source_get_count(source, READER_SIZE);
    for (uint64_t i = 0; i < readers && rbt_source_is_good(source); i++) {
        load_reader(early, source);
    }
}
