/* proto/job_shard.c - one job at one shard: connections and streams of updates.
 *
 * Whatever a message says is checked here, so that the shard's assertions are never a peer's to
 * break. Rows that lie in the message as they should are handed to the shard where they lie. */
#include "proto/job_shard.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "proto/job_shard_parts.h"

enum {
    SCRATCH_MAX = 1 << 22, /* keys that there is room for from one message to the next */
};

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_job_shard_create(const struct rbt_job_shard_options *options, rbt_job_shard **job)
{
    rbt_job_shard *h = rbt_calloc(1, sizeof *h);
    if (h == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a job's shard");
    }
    h->options = *options;
    h->options.name = h->name;
    snprintf(h->name, sizeof h->name, "%s", options->name == NULL ? "the shard" : options->name);
    rbt_status st = rbt_lists_init(&h->lists);
    st = st != RBT_OK ? st : rbt_reads_init(h);
    if (st == RBT_OK) {
        const struct rbt_shard_options shard = {.worker_count = options->worker_count,
                                                .table_max = options->table_max,
                                                .parked_max = h->slot_max};
        st = rbt_shard_create(&shard, &h->shard);
    }
    h->tables = rbt_calloc(options->table_max, sizeof *h->tables);
    h->applied = rbt_calloc(options->worker_count, sizeof *h->applied);
    if (st == RBT_OK && (h->tables == NULL || h->applied == NULL)) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate a job's shard");
    }
    if (st != RBT_OK) {
        rbt_job_shard_destroy(h);
        return st;
    }
    *job = h;
    return RBT_OK;
}

void rbt_job_shard_destroy(rbt_job_shard *job)
{
    if (job == NULL) {
        return;
    }
    rbt_reads_deinit(job);
    for (size_t i = 0; i < job->key_max; i++) {
        rbt_list_unref(job->keys[i]);
    }
    rbt_free(job->keys);
    rbt_free(job->batches);
    rbt_free(job->values);
    rbt_free(job->applied);
    rbt_free(job->filtered);
    rbt_free(job->keep);
    rbt_lists_deinit(&job->lists);
    for (uint32_t i = 0; job->tables != NULL && i < job->options.table_max; i++) {
        if (job->tables[i] != NULL) {
            rbt_job_shard_close_filters(job->tables[i]);
            rbt_free(job->tables[i]);
        }
    }
    rbt_free(job->tables);
    rbt_bounds_deinit(&job->bounds);
    rbt_shard_destroy(job->shard);
    rbt_free(job);
}

uint32_t rbt_job_shard_worker_count(const rbt_job_shard *job)
{
    return job->options.worker_count;
}

uint64_t rbt_job_shard_job(const rbt_job_shard *job)
{
    return job->options.job;
}

rbt_shard *rbt_job_shard_shard(const rbt_job_shard *job)
{
    return job->shard;
}

struct rbt_wire_news rbt_job_shard_news(const rbt_job_shard *job, uint32_t worker)
{
    const bool is_worker = worker < job->options.worker_count;
    return (struct rbt_wire_news){
        .floor = job->floor,
        .version = job->version,
        .arrived = is_worker ? rbt_shard_arrived(job->shard, worker) + RBT_MUTANT(EARLY_ACK) : 0,
        .settled =
            is_worker ? rbt_shard_settled(job->shard, worker) + RBT_MUTANT(EARLY_SETTLED) : 0};
}

void rbt_job_shard_forget(rbt_job_shard *job, struct rbt_session *session)
{
    rbt_reads_forget(job, session);
    for (uint32_t i = 0; i < session->list_count; i++) {
        rbt_list_unref(session->lists[i]);
    }
    rbt_free(session->lists);
    if (session->has_index) {
        rbt_map_deinit(&session->list_index);
    }
    session->lists = NULL;
    session->list_count = 0;
    session->list_max = 0;
    session->list_keys = 0;
    session->has_index = false;
    if (!RBT_MUTANT(IDLE_LISTS)) {
        rbt_lists_sweep(&job->lists);
    }
}

/* --- What reads.c needs, too ----------------------------------------------------------------- */

size_t rbt_job_shard_step(rbt_job_shard *job, const struct rbt_shard_event *event,
                          struct rbt_shard_outbox *out)
{
    if (job->view_count > 0 && event->kind != RBT_SHARD_PULL && event->kind != RBT_SHARD_SCAN) {
        rbt_reads_own_views(job);
    }
    *out = (struct rbt_shard_outbox){.effects = job->effects};
    rbt_shard_step(job->shard, event, out);
    job->floor = out->floor;
    job->version = out->version;
    size_t ready = 0;
    for (size_t i = 0; i < out->count; i++) {
        if (out->effects[i].kind == RBT_SHARD_READY) {
            job->ready[ready++] = (uint32_t)out->effects[i].request;
        }
    }
    return ready;
}

uint16_t rbt_job_shard_flags(const rbt_job_shard *job, const struct rbt_session *session)
{
    const bool has_left = session->worker < job->options.worker_count &&
                          rbt_shard_clock(job->shard, session->worker) == RBT_CLOCK_GONE;
    return has_left && !RBT_MUTANT(SILENT_END) ? RBT_FRAME_HAS_LEFT : 0;
}

rbt_status rbt_job_shard_table(const rbt_job_shard *job, uint32_t table,
                               const struct rbt_job_shard_entry **found)
{
    if (table >= job->table_count || !job->tables[table]->is_open) {
        return rbt_fail(RBT_E_PROTOCOL, "message names table %u, which does not exist", table);
    }
    *found = job->tables[table];
    return RBT_OK;
}

rbt_status rbt_job_shard_values(rbt_job_shard *job, size_t bytes)
{
    if (bytes <= job->values_max) {
        return RBT_OK;
    }
    rbt_free(job->values); /* what is in it is of no use any more */
    job->values = rbt_calloc(bytes, 1);
    job->values_max = job->values == NULL ? 0 : bytes;
    return job->values != NULL ? RBT_OK
                               : rbt_fail(RBT_E_NOMEM, "no memory for %zu bytes of rows", bytes);
}

/* Gives back what a long message has taken, so that many of them do not add up. */
static void trim_scratch(rbt_job_shard *job)
{
    size_t room = 0;
    for (size_t i = 0; i < job->key_max; i++) {
        room += job->keys[i] == NULL ? 0 : job->keys[i]->capacity;
    }
    for (size_t i = 0; room > SCRATCH_MAX && i < job->key_max; i++) {
        rbt_list_unref(job->keys[i]);
        job->keys[i] = NULL;
    }
}

/* Scratch list number `at`, with room for `count` keys. */
static rbt_status scratch_list(rbt_job_shard *job, size_t at, uint32_t count,
                               struct rbt_list **list)
{
    if (at >= job->key_max) {
        const size_t max = at * 2 + 4;
        struct rbt_list **grown = rbt_realloc(job->keys, max, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for lists of keys");
        }
        memset(grown + job->key_max, 0, (max - job->key_max) * sizeof *grown);
        job->keys = grown;
        job->key_max = max;
    }
    if (job->keys[at] == NULL || job->keys[at]->capacity < count) {
        struct rbt_list *fresh = NULL;
        const rbt_status st = rbt_list_create(count, &fresh);
        if (st != RBT_OK) {
            return st;
        }
        rbt_list_unref(job->keys[at]);
        job->keys[at] = fresh;
    }
    *list = job->keys[at];
    (*list)->count = count;
    return RBT_OK;
}

rbt_status rbt_job_shard_keys(rbt_job_shard *job, const struct rbt_session *session,
                              const struct rbt_wire_view *view, size_t at, struct rbt_list **list)
{
    if (view->key_form != RBT_KEYS_NAMED) {
        const rbt_status st = scratch_list(job, at, view->count, list);
        return st != RBT_OK ? st : rbt_wire_view_keys(view, (*list)->keys);
    }
    const uint32_t found =
        session->has_index ? rbt_map_find(&session->list_index, view->list) : RBT_MAP_NONE;
    if (found == RBT_MAP_NONE) {
        return rbt_fail(RBT_E_NOTFOUND, "key list: it is named before it was sent");
    }
    *list = session->lists[found];
    if ((*list)->count != view->count) {
        return rbt_fail(RBT_E_PROTOCOL, "key list: it has %u keys, but the message says %u",
                        (*list)->count, view->count);
    }
    return RBT_OK;
}

/* --- Lists ----------------------------------------------------------------------------------- */

/* Lets the session name the list; takes over the reference. */
static rbt_status admit_list(struct rbt_session *session, struct rbt_list *list)
{
    rbt_status st = session->has_index ? RBT_OK : rbt_map_init(&session->list_index, 16);
    session->has_index = session->has_index || st == RBT_OK;
    if (st == RBT_OK && rbt_map_find(&session->list_index, list->name) != RBT_MAP_NONE) {
        rbt_list_unref(list);
        return RBT_OK;
    }
    if (st == RBT_OK && session->list_count == session->list_max) {
        const uint32_t max = session->list_max == 0 ? 16 : session->list_max * 2;
        struct rbt_list **grown = rbt_realloc(session->lists, max, sizeof *grown);
        st = grown == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for lists of keys") : RBT_OK;
        if (grown != NULL) {
            session->lists = grown;
            session->list_max = max;
        }
    }
    st = st != RBT_OK ? st : rbt_map_reserve(&session->list_index, 1);
    if (st != RBT_OK) {
        rbt_list_unref(list);
        return st;
    }
    rbt_map_insert(&session->list_index, list->name, session->list_count);
    session->lists[session->list_count++] = list;
    session->list_keys += list->count;
    return RBT_OK;
}

static rbt_status receive_list(rbt_job_shard *job, struct rbt_session *session,
                               struct rbt_wire_cursor *body)
{
    struct rbt_wire_view view;
    struct rbt_list *list = NULL;
    rbt_status st = rbt_wire_rows_get(&body->at, body->end, &view);
    st = st != RBT_OK ? st : rbt_wire_get_end(body);
    if (st == RBT_OK &&
        (session->list_count >= RBT_LISTS_TAKEN_MAX || view.count > RBT_LIST_KEYS_TAKEN_MAX ||
         session->list_keys > RBT_LIST_KEYS_TAKEN_MAX - view.count)) {
        st = rbt_fail(RBT_E_PROTOCOL, "a connection names at most %d lists with %d keys in all",
                      RBT_LISTS_TAKEN_MAX, RBT_LIST_KEYS_TAKEN_MAX);
    }
    st = st != RBT_OK ? st : rbt_list_create(view.count, &list);
    if (st != RBT_OK) {
        return st;
    }
    list->count = view.count;
    st = rbt_wire_view_keys(&view, list->keys);
    if (st == RBT_OK && rbt_wire_list_name(list->keys, NULL, list->count) != view.list) {
        st = rbt_fail(RBT_E_PROTOCOL, "key list: the hash of the keys does not match the name");
    }
    const struct rbt_list *present = rbt_lists_find(&job->lists, view.list);
    if (st == RBT_OK && present != NULL && !rbt_list_is_same(present, list)) {
        st = rbt_fail(RBT_E_PROTOCOL, "key list: its name already belongs to another list");
    }
    if (st != RBT_OK) {
        rbt_list_unref(list);
        return st;
    }
    list->name = view.list;
    list = rbt_lists_add(&job->lists, list);
    return list == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for a list of keys")
                        : admit_list(session, list);
}

/* --- Updates --------------------------------------------------------------------------------- */

/* Whether the values of rows have the table's shape. */
static rbt_status check_shape(const struct rbt_job_shard_entry *table,
                              const struct rbt_wire_view *view)
{
    const bool has_shape = view->value_form != RBT_VALUES_NONE &&
                           view->element_size == rbt_spec_element_size(&table->spec) &&
                           (view->offsets != NULL) == rbt_spec_is_sparse(&table->spec) &&
                           (rbt_spec_is_sparse(&table->spec) ||
                            view->element_count == (uint64_t)view->count * table->spec.width);
    bool fits = has_shape;
    for (uint64_t i = 0; fits && rbt_spec_is_sparse(&table->spec) && i < view->element_count; i++) {
        fits = view->elements[i] < table->spec.width;
    }
    return fits ? RBT_OK
                : rbt_fail(RBT_E_PROTOCOL,
                           "malformed PUSH: rows of table \"%s\" have the wrong type or width",
                           table->spec.name);
}

/* Bytes that the values of the message take once they are unpacked. */
static size_t unpacked_bytes(const struct rbt_wire_view *view)
{
    return rbt_wire_view_raw(view) != NULL
               ? 0
               : rbt_frame_padded((size_t)view->element_count * view->element_size);
}

/* One batch of a message: `spare` is where its values may be unpacked to. */
static rbt_status make_batch(rbt_job_shard *job, const struct rbt_session *session,
                             const struct rbt_wire_view *view, size_t at, char *spare)
{
    const struct rbt_job_shard_entry *table = NULL;
    struct rbt_list *list = NULL;
    rbt_status st = rbt_job_shard_table(job, view->table, &table);
    if (st == RBT_OK && view->has_base != rbt_spec_has_rule(&table->spec)) {
        st = rbt_fail(RBT_E_PROTOCOL, "malformed PUSH: updates of table \"%s\" %s a base",
                      table->spec.name, rbt_spec_has_rule(&table->spec) ? "need" : "cannot have");
    }
    if (st == RBT_OK && view->count == 0) { /* nothing has any shape */
        static const uint32_t offsets[1] = {0};
        static uint64_t zero;
        job->batches[at] =
            (struct rbt_batch){.table = view->table,
                               .keys = &zero,
                               .values = &zero,
                               .base = view->base,
                               .least = view->least,
                               .offsets = rbt_spec_is_sparse(&table->spec) ? offsets : NULL,
                               .elements = offsets};
        return RBT_OK;
    }
    st = st != RBT_OK ? st : check_shape(table, view);
    st = st != RBT_OK ? st : rbt_job_shard_keys(job, session, view, at, &list);
    if (st != RBT_OK) {
        return st;
    }
    job->batches[at] = rbt_list_batch(list, view->table);
    job->batches[at].base = view->base;
    job->batches[at].least = view->least;
    const void *raw = rbt_wire_view_raw(view);
    if (raw == NULL) {
        st = view->value_form == RBT_VALUES_FILTERED
                 ? rbt_job_shard_unfilter(job, table, view, spare)
                 : rbt_wire_view_values(view, spare);
        raw = spare;
    }
    job->batches[at].values = (void *)(uintptr_t)raw; /* a push only reads them */
    job->batches[at].offsets = view->offsets;
    job->batches[at].elements = view->elements;
    return st;
}

static rbt_status fit_batches(rbt_job_shard *job, size_t count)
{
    if (count <= job->batch_max) {
        return RBT_OK;
    }
    struct rbt_batch *grown = rbt_realloc(job->batches, count * 2, sizeof *grown);
    if (grown == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a message of %zu updates", count);
    }
    job->batches = grown;
    job->batch_max = count * 2;
    return RBT_OK;
}

/* All batches of a message. Twice over it: first for how much room the values need. */
static rbt_status make_batches(rbt_job_shard *job, const struct rbt_session *session,
                               const struct rbt_wire_push *push, struct rbt_wire_cursor body)
{
    struct rbt_wire_view view;
    size_t bytes = 0;
    rbt_status st = fit_batches(job, push->batch_count);
    struct rbt_wire_cursor first = body;
    for (uint32_t i = 0; st == RBT_OK && i < push->batch_count; i++) {
        st = rbt_wire_rows_get(&first.at, first.end, &view);
        bytes += st == RBT_OK ? unpacked_bytes(&view) : 0;
        if (bytes > RBT_FRAME_BODY_MAX) {
            st = rbt_fail(RBT_E_PROTOCOL, "a message unpacks to more than %u bytes",
                          RBT_FRAME_BODY_MAX);
        }
    }
    st = st != RBT_OK || bytes == 0 ? st : rbt_job_shard_values(job, bytes);
    size_t used = 0;
    for (uint32_t i = 0; st == RBT_OK && i < push->batch_count; i++) {
        st = rbt_wire_rows_get(&body.at, body.end, &view);
        RBT_ASSERT(st == RBT_OK); /* it was so a moment ago */
        st = make_batch(job, session, &view, i, bytes == 0 ? NULL : job->values + used);
        used += unpacked_bytes(&view);
    }
    return st != RBT_OK ? st : rbt_wire_get_end(&body);
}

/* Whether the numbers of a message are possible at all. */
static rbt_status check_push(const rbt_job_shard *job, const struct rbt_session *session,
                             const struct rbt_frame *frame, const struct rbt_wire_push *push)
{
    const bool is_own = session->worker == frame->worker && session->worker != RBT_FRAME_NOBODY &&
                        !session->is_reader && job->run > 0;
    const bool is_clock = push->clock >= 0 && push->clock < RBT_CLOCK_GONE &&
                          (push->marker == RBT_MARKER_NONE ||
                           (push->marker > push->clock && push->marker < RBT_CLOCK_GONE));
    /* A message is of all keys; other ranges are not used. */
    const bool is_whole = push->range_first == 0 && push->range_last == UINT64_MAX;
    if (!is_own || !is_clock || !is_whole || frame->id == 0) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed PUSH: worker %u, message %llu, clock %lld, marker %lld",
                        frame->worker, (unsigned long long)frame->id, (long long)push->clock,
                        (long long)push->marker);
    }
    const int64_t clock = rbt_shard_clock(job->shard, session->worker);
    const bool is_next = frame->id == rbt_shard_arrived(job->shard, session->worker) + 1;
    if (is_next && clock != RBT_CLOCK_GONE && push->clock < clock) {
        return rbt_fail(RBT_E_PROTOCOL, "an update is of clock %lld, which has ended",
                        (long long)push->clock);
    }
    return RBT_OK;
}

/* Steps the shard with a message of the stream, and lets others go on. */
static rbt_status step_stream(rbt_job_shard *job, struct rbt_session *session,
                              const struct rbt_shard_event *event)
{
    struct rbt_shard_outbox out;
    const size_t ready = rbt_job_shard_step(job, event, &out);
    if (out.count > 0 && out.effects[0].kind == RBT_SHARD_EARLY) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed PUSH: message %llu of worker %u arrived out of order",
                        (unsigned long long)event->sequence, event->worker);
    }
    session->owes_ack = true;
    return out.status != RBT_OK ? out.status : rbt_reads_answer_ready(job, ready);
}

static rbt_status receive_push(rbt_job_shard *job, struct rbt_session *session,
                               const struct rbt_frame *frame, struct rbt_wire_cursor *body)
{
    struct rbt_wire_push push;
    rbt_status st = rbt_wire_get_push(body, &push);
    st = st != RBT_OK ? st : check_push(job, session, frame, &push);
    st = st != RBT_OK ? st : make_batches(job, session, &push, *body);
    if (st != RBT_OK) {
        return st;
    }
    if (frame->id <= rbt_shard_arrived(job->shard, session->worker)) {
        job->duplicates += push.batch_count; /* whatever it says now */
        session->owes_ack = true;
        return RBT_OK;
    }
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = session->worker,
                                          .sequence = frame->id,
                                          .clock = push.clock,
                                          .marker = push.marker,
                                          .batches = job->batches,
                                          .batch_count = push.batch_count};
    return step_stream(job, session, &event);
}

static rbt_status receive_leave(rbt_job_shard *job, struct rbt_session *session,
                                const struct rbt_frame *frame, const struct rbt_wire_cursor *body)
{
    const rbt_status st = rbt_wire_get_end(body);
    if (st != RBT_OK) {
        return st;
    }
    if (session->worker != frame->worker || session->worker == RBT_FRAME_NOBODY ||
        session->is_reader || job->run == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "malformed LEAVE: the sender is not a worker of this run");
    }
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_LEAVE, .worker = session->worker, .sequence = frame->id};
    return step_stream(job, session, &event);
}

void rbt_job_shard_settle(rbt_job_shard *job, struct rbt_session *session)
{
    if (!session->owes_ack) {
        return;
    }
    struct rbt_block *block = rbt_block_create(RBT_WIRE_ACK_BYTES);
    if (block == NULL) {
        return; /* owed until there is memory, or until there is something else to send */
    }
    const struct rbt_wire_news news = rbt_job_shard_news(job, session->worker);
    block->bytes = rbt_wire_put_ack(block->data, &news);
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = RBT_FRAME_ACK,
                                      .flags = rbt_job_shard_flags(job, session),
                                      .worker = session->worker},
                   block->bytes);
    session->owes_ack = false;
    session->send(session->context, block);
    rbt_block_unref(block);
}

/* --- Runs, figures --------------------------------------------------------------------------- */

rbt_status rbt_job_shard_send_done(const rbt_job_shard *job, struct rbt_session *session,
                                   uint64_t id, const struct rbt_wire_done *done)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for an answer");
    }
    block->bytes = rbt_wire_put_done(block->data, done);
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = RBT_FRAME_DONE,
                                      .flags = rbt_job_shard_flags(job, session),
                                      .worker = session->worker,
                                      .id = id},
                   block->bytes);
    session->send(session->context, block);
    rbt_block_unref(block);
    return RBT_OK;
}

/* A run begins: the first process that says so sets the clocks back. The run before has ended
 * everywhere, or nobody would. */
static rbt_status receive_reset(rbt_job_shard *job, struct rbt_session *session,
                                const struct rbt_frame *frame, const struct rbt_wire_cursor *body)
{
    const rbt_status st = rbt_wire_get_end(body);
    if (st != RBT_OK) {
        return st;
    }
    if (session->is_reader || frame->id == 0 || frame->id > job->run + 1) {
        return rbt_fail(RBT_E_PROTOCOL, "malformed RESET: run %llu cannot follow run %llu",
                        (unsigned long long)frame->id, (unsigned long long)job->run);
    }
    if (frame->id > job->run - RBT_MUTANT(SECOND_RESET)) {
        const bool is_over = job->run == 0 || job->floor == RBT_CLOCK_GONE;
        if (!is_over || job->parked_count > 0) {
            return rbt_fail(RBT_E_PROTOCOL, "malformed RESET: another run has not ended");
        }
        struct rbt_shard_outbox out;
        const struct rbt_shard_event event = {.kind = RBT_SHARD_RESET};
        (void)rbt_job_shard_step(job, &event, &out); /* nobody waits */
        job->floor = RBT_MUTANT(KEPT_FLOOR) && job->run > 0 ? RBT_CLOCK_GONE : job->floor;
        job->run = frame->id;
    }
    const struct rbt_wire_done done = {.news = rbt_job_shard_news(job, session->worker)};
    return rbt_job_shard_send_done(job, session, frame->id, &done);
}

static rbt_status receive_stats(rbt_job_shard *job, struct rbt_session *session,
                                const struct rbt_frame *frame, const struct rbt_wire_cursor *body)
{
    const rbt_status st = rbt_wire_get_end(body);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_shard_stats stats;
    rbt_shard_stats(job->shard, &stats);
    const struct rbt_wire_done done = {
        .news = rbt_job_shard_news(job, session->worker),
        .figures = {stats.updates, stats.duplicates + job->duplicates, stats.rows, stats.held,
                    stats.bytes, stats.rule_bytes, stats.versions_max, stats.snapshots_max}};
    return rbt_job_shard_send_done(job, session, frame->id, &done);
}

static rbt_status receive(rbt_job_shard *job, struct rbt_session *session,
                          const struct rbt_frame *frame, struct rbt_wire_cursor cursor)
{
    switch (frame->kind) {
    case RBT_FRAME_PUSH:
        return receive_push(job, session, frame, &cursor);
    case RBT_FRAME_LEAVE:
        return receive_leave(job, session, frame, &cursor);
    case RBT_FRAME_LIST:
        return receive_list(job, session, &cursor);
    case RBT_FRAME_PULL:
        return rbt_reads_pull(job, session, frame, &cursor);
    case RBT_FRAME_SCAN:
        return rbt_reads_scan(job, session, frame, &cursor);
    case RBT_FRAME_TABLE:
        return rbt_job_shard_receive_table(job, session, frame, &cursor);
    case RBT_FRAME_RESET:
        return receive_reset(job, session, frame, &cursor);
    case RBT_FRAME_STATS:
        return receive_stats(job, session, frame, &cursor);
    default:
        return rbt_fail(RBT_E_PROTOCOL, "malformed message: kind %u is not for a shard",
                        frame->kind);
    }
}

rbt_status rbt_job_shard_receive(rbt_job_shard *job, struct rbt_session *session,
                                 const struct rbt_frame *frame, const char *body, rbt_time now)
{
    RBT_ASSERT(now >= job->now);
    job->now = now;
    if (job->failure != RBT_OK) {
        rbt_error_restore(&job->why);
        return job->failure;
    }
    const rbt_status st =
        receive(job, session, frame, (struct rbt_wire_cursor){body, body + frame->length});
    if (rbt_job_shard_is_failure(st)) {
        job->failure = st;
        rbt_error_save(&job->why);
    }
    if (frame->kind == RBT_FRAME_PUSH || frame->kind == RBT_FRAME_PULL) {
        trim_scratch(job);
    }
    return st;
}

void rbt_job_shard_report(rbt_job_shard *job,
                          void (*visit)(void *context, uint64_t job, uint32_t table,
                                        uint64_t version),
                          void *context)
{
    for (uint32_t i = 0; job->has_synchronised && i < job->table_count; i++) {
        struct rbt_job_shard_entry *table = job->tables[i];
        const uint64_t version = table->spec.is_synchronised ? rbt_shard_version(job->shard, i) : 0;
        RBT_ASSERT(!table->spec.is_synchronised || version >= table->reported);
        if (version > table->reported) {
            table->reported = version;
            visit(context, job->options.job, i, version);
        }
    }
}
