/* proto/host.c - one job at one shard: connections and streams of updates.
 *
 * Whatever a message says is checked here, so that the shard's assertions are never a peer's to
 * break. Rows that lie in the message as they should are handed to the shard where they lie. */
#include "proto/host.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "proto/desk.h"

enum {
    SCRATCH_MAX = 1 << 22, /* keys that there is room for from one message to the next */
};

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_host_create(const struct rbt_host_options *options, rbt_host **host)
{
    rbt_host *h = rbt_calloc(1, sizeof *h);
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
        rbt_host_destroy(h);
        return st;
    }
    *host = h;
    return RBT_OK;
}

void rbt_host_destroy(rbt_host *host)
{
    if (host == NULL) {
        return;
    }
    rbt_reads_deinit(host);
    for (size_t i = 0; i < host->key_max; i++) {
        rbt_list_unref(host->keys[i]);
    }
    rbt_free(host->keys);
    rbt_free(host->batches);
    rbt_free(host->values);
    rbt_free(host->applied);
    rbt_free(host->filtered);
    rbt_free(host->keep);
    rbt_lists_deinit(&host->lists);
    for (uint32_t i = 0; host->tables != NULL && i < host->options.table_max; i++) {
        if (host->tables[i] != NULL) {
            rbt_desk_close_filters(host->tables[i]);
            rbt_free(host->tables[i]);
        }
    }
    rbt_free(host->tables);
    rbt_bounds_deinit(&host->bounds);
    rbt_shard_destroy(host->shard);
    rbt_free(host);
}

uint32_t rbt_host_worker_count(const rbt_host *host)
{
    return host->options.worker_count;
}

uint64_t rbt_host_job(const rbt_host *host)
{
    return host->options.job;
}

rbt_shard *rbt_host_shard(const rbt_host *host)
{
    return host->shard;
}

struct rbt_wire_news rbt_host_news(const rbt_host *host, uint32_t worker)
{
    const bool is_worker = worker < host->options.worker_count;
    return (struct rbt_wire_news){
        .floor = host->floor,
        .version = host->version,
        .arrived = is_worker ? rbt_shard_arrived(host->shard, worker) + RBT_MUTANT(EARLY_ACK) : 0,
        .settled =
            is_worker ? rbt_shard_settled(host->shard, worker) + RBT_MUTANT(EARLY_SETTLED) : 0};
}

void rbt_host_forget(rbt_host *host, struct rbt_guest *guest)
{
    rbt_reads_forget(host, guest);
    for (uint32_t i = 0; i < guest->list_count; i++) {
        rbt_list_unref(guest->lists[i]);
    }
    rbt_free(guest->lists);
    if (guest->has_index) {
        rbt_map_deinit(&guest->list_index);
    }
    guest->lists = NULL;
    guest->list_count = 0;
    guest->list_max = 0;
    guest->list_keys = 0;
    guest->has_index = false;
    if (!RBT_MUTANT(IDLE_LISTS)) {
        rbt_lists_sweep(&host->lists);
    }
}

/* --- What reads.c needs, too ----------------------------------------------------------------- */

size_t rbt_desk_step(rbt_host *host, const struct rbt_shard_event *event,
                     struct rbt_shard_outbox *out)
{
    if (host->view_count > 0 && event->kind != RBT_SHARD_PULL && event->kind != RBT_SHARD_SCAN) {
        rbt_reads_own_views(host);
    }
    *out = (struct rbt_shard_outbox){.effects = host->effects};
    rbt_shard_step(host->shard, event, out);
    host->floor = out->floor;
    host->version = out->version;
    size_t ready = 0;
    for (size_t i = 0; i < out->count; i++) {
        if (out->effects[i].kind == RBT_SHARD_READY) {
            host->ready[ready++] = (uint32_t)out->effects[i].request;
        }
    }
    return ready;
}

uint16_t rbt_desk_flags(const rbt_host *host, const struct rbt_guest *guest)
{
    const bool has_left = guest->worker < host->options.worker_count &&
                          rbt_shard_clock(host->shard, guest->worker) == RBT_CLOCK_GONE;
    return has_left && !RBT_MUTANT(SILENT_END) ? RBT_FRAME_HAS_LEFT : 0;
}

rbt_status rbt_desk_table(const rbt_host *host, uint32_t table, const struct rbt_desk_entry **found)
{
    if (table >= host->table_count || !host->tables[table]->is_open) {
        return rbt_fail(RBT_E_PROTOCOL, "message names table %u, which does not exist", table);
    }
    *found = host->tables[table];
    return RBT_OK;
}

rbt_status rbt_desk_values(rbt_host *host, size_t bytes)
{
    if (bytes <= host->values_max) {
        return RBT_OK;
    }
    rbt_free(host->values); /* what is in it is of no use any more */
    host->values = rbt_calloc(bytes, 1);
    host->values_max = host->values == NULL ? 0 : bytes;
    return host->values != NULL ? RBT_OK
                                : rbt_fail(RBT_E_NOMEM, "no memory for %zu bytes of rows", bytes);
}

/* Gives back what a long message has taken, so that many of them do not add up. */
static void trim_scratch(rbt_host *host)
{
    size_t room = 0;
    for (size_t i = 0; i < host->key_max; i++) {
        room += host->keys[i] == NULL ? 0 : host->keys[i]->capacity;
    }
    for (size_t i = 0; room > SCRATCH_MAX && i < host->key_max; i++) {
        rbt_list_unref(host->keys[i]);
        host->keys[i] = NULL;
    }
}

/* Scratch list number `at`, with room for `count` keys. */
static rbt_status scratch_list(rbt_host *host, size_t at, uint32_t count, struct rbt_list **list)
{
    if (at >= host->key_max) {
        const size_t max = at * 2 + 4;
        struct rbt_list **grown = rbt_realloc(host->keys, max, sizeof *grown);
        if (grown == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for lists of keys");
        }
        memset(grown + host->key_max, 0, (max - host->key_max) * sizeof *grown);
        host->keys = grown;
        host->key_max = max;
    }
    if (host->keys[at] == NULL || host->keys[at]->capacity < count) {
        struct rbt_list *fresh = NULL;
        const rbt_status st = rbt_list_create(count, &fresh);
        if (st != RBT_OK) {
            return st;
        }
        rbt_list_unref(host->keys[at]);
        host->keys[at] = fresh;
    }
    *list = host->keys[at];
    (*list)->count = count;
    return RBT_OK;
}

rbt_status rbt_desk_keys(rbt_host *host, const struct rbt_guest *guest,
                         const struct rbt_wire_view *view, size_t at, struct rbt_list **list)
{
    if (view->key_form != RBT_KEYS_NAMED) {
        const rbt_status st = scratch_list(host, at, view->count, list);
        return st != RBT_OK ? st : rbt_wire_view_keys(view, (*list)->keys);
    }
    const uint32_t found =
        guest->has_index ? rbt_map_find(&guest->list_index, view->list) : RBT_MAP_NONE;
    if (found == RBT_MAP_NONE) {
        return rbt_fail(RBT_E_NOTFOUND, "key list: it is named before it was sent");
    }
    *list = guest->lists[found];
    if ((*list)->count != view->count) {
        return rbt_fail(RBT_E_PROTOCOL, "key list: it has %u keys, but the message says %u",
                        (*list)->count, view->count);
    }
    return RBT_OK;
}

/* --- Lists ----------------------------------------------------------------------------------- */

/* Lets the guest name the list; takes over the reference. */
static rbt_status admit_list(struct rbt_guest *guest, struct rbt_list *list)
{
    rbt_status st = guest->has_index ? RBT_OK : rbt_map_init(&guest->list_index, 16);
    guest->has_index = guest->has_index || st == RBT_OK;
    if (st == RBT_OK && rbt_map_find(&guest->list_index, list->name) != RBT_MAP_NONE) {
        rbt_list_unref(list);
        return RBT_OK;
    }
    if (st == RBT_OK && guest->list_count == guest->list_max) {
        const uint32_t max = guest->list_max == 0 ? 16 : guest->list_max * 2;
        struct rbt_list **grown = rbt_realloc(guest->lists, max, sizeof *grown);
        st = grown == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for lists of keys") : RBT_OK;
        if (grown != NULL) {
            guest->lists = grown;
            guest->list_max = max;
        }
    }
    st = st != RBT_OK ? st : rbt_map_reserve(&guest->list_index, 1);
    if (st != RBT_OK) {
        rbt_list_unref(list);
        return st;
    }
    rbt_map_insert(&guest->list_index, list->name, guest->list_count);
    guest->lists[guest->list_count++] = list;
    guest->list_keys += list->count;
    return RBT_OK;
}

static rbt_status receive_list(rbt_host *host, struct rbt_guest *guest,
                               struct rbt_wire_cursor *body)
{
    struct rbt_wire_view view;
    struct rbt_list *list = NULL;
    rbt_status st = rbt_wire_rows_get(&body->at, body->end, &view);
    st = st != RBT_OK ? st : rbt_wire_get_end(body);
    if (st == RBT_OK &&
        (guest->list_count >= RBT_LISTS_TAKEN_MAX || view.count > RBT_LIST_KEYS_TAKEN_MAX ||
         guest->list_keys > RBT_LIST_KEYS_TAKEN_MAX - view.count)) {
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
    const struct rbt_list *present = rbt_lists_find(&host->lists, view.list);
    if (st == RBT_OK && present != NULL && !rbt_list_is_same(present, list)) {
        st = rbt_fail(RBT_E_PROTOCOL, "key list: its name already belongs to another list");
    }
    if (st != RBT_OK) {
        rbt_list_unref(list);
        return st;
    }
    list->name = view.list;
    list = rbt_lists_add(&host->lists, list);
    return list == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for a list of keys")
                        : admit_list(guest, list);
}

/* --- Updates --------------------------------------------------------------------------------- */

/* Whether the values of rows have the table's shape. */
static rbt_status check_shape(const struct rbt_desk_entry *table, const struct rbt_wire_view *view)
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
static rbt_status make_batch(rbt_host *host, const struct rbt_guest *guest,
                             const struct rbt_wire_view *view, size_t at, char *spare)
{
    const struct rbt_desk_entry *table = NULL;
    struct rbt_list *list = NULL;
    rbt_status st = rbt_desk_table(host, view->table, &table);
    if (st == RBT_OK && view->has_base != rbt_spec_has_rule(&table->spec)) {
        st = rbt_fail(RBT_E_PROTOCOL, "malformed PUSH: updates of table \"%s\" %s a base",
                      table->spec.name, rbt_spec_has_rule(&table->spec) ? "need" : "cannot have");
    }
    if (st == RBT_OK && view->count == 0) { /* nothing has any shape */
        static const uint32_t offsets[1] = {0};
        static uint64_t zero;
        host->batches[at] =
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
    st = st != RBT_OK ? st : rbt_desk_keys(host, guest, view, at, &list);
    if (st != RBT_OK) {
        return st;
    }
    host->batches[at] = rbt_list_batch(list, view->table);
    host->batches[at].base = view->base;
    host->batches[at].least = view->least;
    const void *raw = rbt_wire_view_raw(view);
    if (raw == NULL) {
        st = view->value_form == RBT_VALUES_FILTERED ? rbt_desk_unfilter(host, table, view, spare)
                                                     : rbt_wire_view_values(view, spare);
        raw = spare;
    }
    host->batches[at].values = (void *)(uintptr_t)raw; /* a push only reads them */
    host->batches[at].offsets = view->offsets;
    host->batches[at].elements = view->elements;
    return st;
}

static rbt_status fit_batches(rbt_host *host, size_t count)
{
    if (count <= host->batch_max) {
        return RBT_OK;
    }
    struct rbt_batch *grown = rbt_realloc(host->batches, count * 2, sizeof *grown);
    if (grown == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a message of %zu updates", count);
    }
    host->batches = grown;
    host->batch_max = count * 2;
    return RBT_OK;
}

/* All batches of a message. Twice over it: first for how much room the values need. */
static rbt_status make_batches(rbt_host *host, const struct rbt_guest *guest,
                               const struct rbt_wire_push *push, struct rbt_wire_cursor body)
{
    struct rbt_wire_view view;
    size_t bytes = 0;
    rbt_status st = fit_batches(host, push->batch_count);
    struct rbt_wire_cursor first = body;
    for (uint32_t i = 0; st == RBT_OK && i < push->batch_count; i++) {
        st = rbt_wire_rows_get(&first.at, first.end, &view);
        bytes += st == RBT_OK ? unpacked_bytes(&view) : 0;
        if (bytes > RBT_FRAME_BODY_MAX) {
            st = rbt_fail(RBT_E_PROTOCOL, "a message unpacks to more than %u bytes",
                          RBT_FRAME_BODY_MAX);
        }
    }
    st = st != RBT_OK || bytes == 0 ? st : rbt_desk_values(host, bytes);
    size_t used = 0;
    for (uint32_t i = 0; st == RBT_OK && i < push->batch_count; i++) {
        st = rbt_wire_rows_get(&body.at, body.end, &view);
        RBT_ASSERT(st == RBT_OK); /* it was so a moment ago */
        st = make_batch(host, guest, &view, i, bytes == 0 ? NULL : host->values + used);
        used += unpacked_bytes(&view);
    }
    return st != RBT_OK ? st : rbt_wire_get_end(&body);
}

/* Whether the numbers of a message are possible at all. */
static rbt_status check_push(const rbt_host *host, const struct rbt_guest *guest,
                             const struct rbt_frame *frame, const struct rbt_wire_push *push)
{
    const bool is_own = guest->worker == frame->worker && guest->worker != RBT_FRAME_NOBODY &&
                        !guest->is_reader && host->run > 0;
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
    const int64_t clock = rbt_shard_clock(host->shard, guest->worker);
    const bool is_next = frame->id == rbt_shard_arrived(host->shard, guest->worker) + 1;
    if (is_next && clock != RBT_CLOCK_GONE && push->clock < clock) {
        return rbt_fail(RBT_E_PROTOCOL, "an update is of clock %lld, which has ended",
                        (long long)push->clock);
    }
    return RBT_OK;
}

/* Steps the shard with a message of the stream, and lets others go on. */
static rbt_status step_stream(rbt_host *host, struct rbt_guest *guest,
                              const struct rbt_shard_event *event)
{
    struct rbt_shard_outbox out;
    const size_t ready = rbt_desk_step(host, event, &out);
    if (out.count > 0 && out.effects[0].kind == RBT_SHARD_EARLY) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed PUSH: message %llu of worker %u arrived out of order",
                        (unsigned long long)event->sequence, event->worker);
    }
    guest->owes_ack = true;
    return out.status != RBT_OK ? out.status : rbt_reads_answer_ready(host, ready);
}

static rbt_status receive_push(rbt_host *host, struct rbt_guest *guest,
                               const struct rbt_frame *frame, struct rbt_wire_cursor *body)
{
    struct rbt_wire_push push;
    rbt_status st = rbt_wire_get_push(body, &push);
    st = st != RBT_OK ? st : check_push(host, guest, frame, &push);
    st = st != RBT_OK ? st : make_batches(host, guest, &push, *body);
    if (st != RBT_OK) {
        return st;
    }
    if (frame->id <= rbt_shard_arrived(host->shard, guest->worker)) {
        host->duplicates += push.batch_count; /* whatever it says now */
        guest->owes_ack = true;
        return RBT_OK;
    }
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = guest->worker,
                                          .sequence = frame->id,
                                          .clock = push.clock,
                                          .marker = push.marker,
                                          .batches = host->batches,
                                          .batch_count = push.batch_count};
    return step_stream(host, guest, &event);
}

static rbt_status receive_leave(rbt_host *host, struct rbt_guest *guest,
                                const struct rbt_frame *frame, const struct rbt_wire_cursor *body)
{
    const rbt_status st = rbt_wire_get_end(body);
    if (st != RBT_OK) {
        return st;
    }
    if (guest->worker != frame->worker || guest->worker == RBT_FRAME_NOBODY || guest->is_reader ||
        host->run == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "malformed LEAVE: the sender is not a worker of this run");
    }
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_LEAVE, .worker = guest->worker, .sequence = frame->id};
    return step_stream(host, guest, &event);
}

void rbt_host_settle(rbt_host *host, struct rbt_guest *guest)
{
    if (!guest->owes_ack) {
        return;
    }
    struct rbt_block *block = rbt_block_create(RBT_WIRE_ACK_BYTES);
    if (block == NULL) {
        return; /* owed until there is memory, or until there is something else to send */
    }
    const struct rbt_wire_news news = rbt_host_news(host, guest->worker);
    block->bytes = rbt_wire_put_ack(block->data, &news);
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = RBT_FRAME_ACK,
                                      .flags = rbt_desk_flags(host, guest),
                                      .worker = guest->worker},
                   block->bytes);
    guest->owes_ack = false;
    guest->send(guest->context, block);
    rbt_block_unref(block);
}

/* --- Runs, figures --------------------------------------------------------------------------- */

rbt_status rbt_desk_send_done(const rbt_host *host, struct rbt_guest *guest, uint64_t id,
                              const struct rbt_wire_done *done)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for an answer");
    }
    block->bytes = rbt_wire_put_done(block->data, done);
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = RBT_FRAME_DONE,
                                      .flags = rbt_desk_flags(host, guest),
                                      .worker = guest->worker,
                                      .id = id},
                   block->bytes);
    guest->send(guest->context, block);
    rbt_block_unref(block);
    return RBT_OK;
}

/* A run begins: the first process that says so sets the clocks back. The run before has ended
 * everywhere, or nobody would. */
static rbt_status receive_reset(rbt_host *host, struct rbt_guest *guest,
                                const struct rbt_frame *frame, const struct rbt_wire_cursor *body)
{
    const rbt_status st = rbt_wire_get_end(body);
    if (st != RBT_OK) {
        return st;
    }
    if (guest->is_reader || frame->id == 0 || frame->id > host->run + 1) {
        return rbt_fail(RBT_E_PROTOCOL, "malformed RESET: run %llu cannot follow run %llu",
                        (unsigned long long)frame->id, (unsigned long long)host->run);
    }
    if (frame->id > host->run - RBT_MUTANT(SECOND_RESET)) {
        const bool is_over = host->run == 0 || host->floor == RBT_CLOCK_GONE;
        if (!is_over || host->parked_count > 0) {
            return rbt_fail(RBT_E_PROTOCOL, "malformed RESET: another run has not ended");
        }
        struct rbt_shard_outbox out;
        const struct rbt_shard_event event = {.kind = RBT_SHARD_RESET};
        (void)rbt_desk_step(host, &event, &out); /* nobody waits */
        host->floor = RBT_MUTANT(KEPT_FLOOR) && host->run > 0 ? RBT_CLOCK_GONE : host->floor;
        host->run = frame->id;
    }
    const struct rbt_wire_done done = {.news = rbt_host_news(host, guest->worker)};
    return rbt_desk_send_done(host, guest, frame->id, &done);
}

static rbt_status receive_stats(rbt_host *host, struct rbt_guest *guest,
                                const struct rbt_frame *frame, const struct rbt_wire_cursor *body)
{
    const rbt_status st = rbt_wire_get_end(body);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_shard_stats stats;
    rbt_shard_stats(host->shard, &stats);
    const struct rbt_wire_done done = {
        .news = rbt_host_news(host, guest->worker),
        .figures = {stats.updates, stats.duplicates + host->duplicates, stats.rows, stats.held,
                    stats.bytes, stats.rule_bytes, stats.versions_max, stats.snapshots_max}};
    return rbt_desk_send_done(host, guest, frame->id, &done);
}

static rbt_status receive(rbt_host *host, struct rbt_guest *guest, const struct rbt_frame *frame,
                          struct rbt_wire_cursor cursor)
{
    switch (frame->kind) {
    case RBT_FRAME_PUSH:
        return receive_push(host, guest, frame, &cursor);
    case RBT_FRAME_LEAVE:
        return receive_leave(host, guest, frame, &cursor);
    case RBT_FRAME_LIST:
        return receive_list(host, guest, &cursor);
    case RBT_FRAME_PULL:
        return rbt_reads_pull(host, guest, frame, &cursor);
    case RBT_FRAME_SCAN:
        return rbt_reads_scan(host, guest, frame, &cursor);
    case RBT_FRAME_TABLE:
        return rbt_desk_receive_table(host, guest, frame, &cursor);
    case RBT_FRAME_RESET:
        return receive_reset(host, guest, frame, &cursor);
    case RBT_FRAME_STATS:
        return receive_stats(host, guest, frame, &cursor);
    default:
        return rbt_fail(RBT_E_PROTOCOL, "malformed message: kind %u is not for a shard",
                        frame->kind);
    }
}

rbt_status rbt_host_receive(rbt_host *host, struct rbt_guest *guest, const struct rbt_frame *frame,
                            const char *body, rbt_time now)
{
    RBT_ASSERT(now >= host->now);
    host->now = now;
    if (host->failure != RBT_OK) {
        rbt_error_restore(&host->why);
        return host->failure;
    }
    const rbt_status st =
        receive(host, guest, frame, (struct rbt_wire_cursor){body, body + frame->length});
    if (rbt_host_is_failure(st)) {
        host->failure = st;
        rbt_error_save(&host->why);
    }
    if (frame->kind == RBT_FRAME_PUSH || frame->kind == RBT_FRAME_PULL) {
        trim_scratch(host);
    }
    return st;
}

void rbt_host_report(rbt_host *host,
                     void (*visit)(void *context, uint64_t job, uint32_t table, uint64_t version),
                     void *context)
{
    for (uint32_t i = 0; host->has_synchronised && i < host->table_count; i++) {
        struct rbt_desk_entry *table = host->tables[i];
        const uint64_t version =
            table->spec.is_synchronised ? rbt_shard_version(host->shard, i) : 0;
        RBT_ASSERT(!table->spec.is_synchronised || version >= table->reported);
        if (version > table->reported) {
            table->reported = version;
            visit(context, host->options.job, i, version);
        }
    }
}
