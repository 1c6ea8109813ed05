/* proto/caller.c - one worker's way to all shards, without connections.
 *
 * Invariants, threads and memory: see the header. */
#include "proto/caller.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutant.h"
#include "proto/caller_state.h"
#include "proto/compose.h"

enum { KEPT_MAX = 64 << 20 }; /* bytes that a shard may owe an acknowledgement for */

#define WHY_TIME INT64_C(1000000000) /* for the coordinator to say what has happened */

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_caller_init(struct rbt_caller *caller, const struct rbt_caller_options *options)
{
    const uint32_t count = options->shared->shard_count;
    *caller = (struct rbt_caller){
        .shared = options->shared, .worker = options->worker, .out = options->out};
    caller->streams = rbt_calloc(count, sizeof *caller->streams);
    caller->error = rbt_calloc(1, sizeof *caller->error);
    if (caller->streams == NULL || caller->error == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for connections to %u shards", count);
    }
    rbt_status st = rbt_prefetches_init(&caller->prefetches);
    for (uint32_t i = 0; i < count; i++) { /* all, so that all can be ended */
        const rbt_status made = rbt_stream_init(&caller->streams[i], &options->streams[i]);
        RBT_ASSERT(options->streams[i].shard == i);
        caller->streams[i].options.worker = caller->worker;
        st = st != RBT_OK ? st : made;
    }
    caller->due = RBT_TIME_NEVER; /* nothing is wanted of them yet */
    return st;
}

/* A stream was stepped: its deadline may be the first one now. One that has become later is found
 * by the next tick, so that a message costs the same however many shards there are. */
static void note_due(struct rbt_caller *caller, uint32_t shard)
{
    const rbt_time due = rbt_stream_deadline(&caller->streams[shard]);
    caller->due = due < caller->due ? due : caller->due;
}

void rbt_caller_reset(struct rbt_caller *caller)
{
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        const rbt_status st = rbt_stream_reset(&caller->streams[i], caller->out);
        if (st != RBT_OK) {
            rbt_caller_fail(caller, st);
        }
        note_due(caller, i);
    }
    if (!RBT_MUTANT(KEPT_COPIES)) {
        rbt_prefetches_clear(&caller->prefetches);
    }
    rbt_packing_clear(&caller->packing);
    caller->unanswered = 0;
}

void rbt_caller_deinit(struct rbt_caller *caller)
{
    for (uint32_t i = 0; caller->streams != NULL && i < caller->shared->shard_count; i++) {
        rbt_stream_deinit(&caller->streams[i]);
    }
    rbt_prefetches_deinit(&caller->prefetches);
    rbt_packing_deinit(&caller->packing);
    rbt_free(caller->streams);
    rbt_free(caller->error);
}

/* Nothing works from now on; the reason is in the thread's record. */
void rbt_caller_fail(struct rbt_caller *caller, rbt_status status)
{
    if (caller->status == RBT_OK) {
        caller->status = status;
        rbt_error_save(caller->error);
    }
    caller->unanswered = 0;
}

rbt_status rbt_caller_refuse(const struct rbt_caller *caller)
{
    rbt_error_restore(caller->error);
    return caller->status;
}

/* --- Answers --------------------------------------------------------------------------------- */

/* How many workers' sequences are asked for: a reader's numbers are not those of the job's workers,
 * and it has no updates of its own. */
static uint32_t applied_asked(const struct rbt_caller *caller, uint32_t shard,
                              const struct rbt_shard_event *event)
{
    return caller->streams[shard].options.hello->is_reader ? 0 : event->applied_count;
}

/* Gives a call what it has waited for. */
/* Rows of a set have been read: what is kept of its rows and older is of no use any more, since no
 * worker may see less than it has seen. */
static void drop_older(struct rbt_caller *caller, const struct rbt_driver_call *call,
                       uint64_t version)
{
    const uint64_t number = call->event.asked;
    for (int is_once = 0; number != 0 && is_once < 2 && !RBT_MUTANT(OLDER_COPY); is_once++) {
        struct rbt_prefetch *prefetch =
            rbt_prefetches_find(&caller->prefetches, number, call->shard, is_once != 0);
        if (prefetch != NULL && prefetch->answer_bytes > 0 && prefetch->news.version < version) {
            rbt_prefetch_drop(prefetch);
        }
    }
}

rbt_status rbt_caller_complete(struct rbt_caller *caller, struct rbt_driver_call *call,
                               const struct rbt_answer *answer)
{
    struct rbt_shard_event *event = &call->event;
    const struct rbt_caller_entry *table = caller->shared->tables[event->table];
    const struct rbt_answer_reader reader = {&caller->packing, table, call->shard};
    rbt_status st = event->kind == RBT_SHARD_SCAN ? rbt_answer_take_scan(table, answer, event->scan)
                    : event->early != NULL        ? rbt_answer_take_early(&reader, answer, event)
                                                  : rbt_answer_take_rows(&reader, answer, event);
    if (st == RBT_OK && event->kind == RBT_SHARD_PULL) {
        const uint32_t asked = applied_asked(caller, call->shard, event);
        const bool lacks_stamp =
            event->stamp != NULL && rbt_spec_has_rule(&table->spec) && !answer->head.has_stamp;
        const bool has_limit = event->is_stable && rbt_spec_has_rule(&table->spec);
        if (answer->head.applied_count != asked || lacks_stamp ||
            answer->head.has_limit != has_limit ||
            (has_limit && answer->head.limit < event->stable)) {
            return rbt_answer_wrong();
        }
        if (has_limit && event->limit != NULL) {
            *event->limit = answer->head.limit;
        }
        if (event->stamp != NULL) {
            *event->stamp = answer->head.stamp; /* 0 of tables that have none */
        }
        for (uint32_t i = 0; i < event->applied_count; i++) {
            event->applied[i] = i < asked ? answer->head.applied[i] : 0;
        }
        drop_older(caller, call, answer->head.news.version);
    }
    call->reply =
        (struct rbt_driver_reply){.status = st == RBT_E_BUSY ? st : RBT_OK,
                                  .version = answer->head.news.version,
                                  .floor = answer->head.news.floor,
                                  .acknowledged = caller->streams[call->shard].news.arrived,
                                  .settled = caller->streams[call->shard].news.settled,
                                  .had_to_wait = answer->head.was_parked && caller->had_to_wait};
    return st == RBT_E_BUSY ? RBT_OK : st;
}

/* --- Requests -------------------------------------------------------------------------------- */

/* Asks for what the event wants, with this need. */
static rbt_status request(struct rbt_caller *caller, uint32_t shard,
                          const struct rbt_shard_event *event, int64_t need,
                          const struct rbt_stream_purpose *purpose,
                          struct rbt_stream_request **sent)
{
    struct rbt_stream *stream = &caller->streams[shard];
    const bool is_scan = event->kind == RBT_SHARD_SCAN;
    const bool has_place = !is_scan && (purpose->prefetch == NULL || purpose->prefetch->is_once);
    struct rbt_block *block = NULL;
    struct rbt_shard_event asking = *event;
    asking.need = need - RBT_MUTANT(LOW_NEED);
    asking.applied_count = is_scan ? 0 : applied_asked(caller, shard, event);
    asking.is_base = event->is_base && !stream->options.hello->is_reader;
    asking.least = rbt_prefetches_least(&caller->prefetches, shard, event->table, event->least);
    rbt_status st = is_scan ? rbt_compose_scan(caller, &asking, &block)
                            : rbt_compose_pull(caller, stream, &asking, purpose->is_early, &block);
    if (st != RBT_OK) {
        return st;
    }
    block->class = event->early != NULL ? RBT_TRAFFIC_EARLY
                   : event->is_aside    ? RBT_TRAFFIC_OTHER
                                        : RBT_TRAFFIC_READ;
    const struct rbt_stream_question question = {
        .block = block,
        .header = {.kind = is_scan ? RBT_FRAME_SCAN : RBT_FRAME_PULL, .worker = caller->worker},
        .place = has_place ? rbt_compose_place(caller, &asking) : (struct rbt_frame_place){0},
        .purpose = *purpose};
    st = rbt_stream_ask(stream, &question, caller->out, sent);
    note_due(caller, stream->options.shard);
    return st;
}

/* --- Rows asked for ahead -------------------------------------------------------------------- */

/* Asks for rows that nobody waits for; if that fails they are asked for when they are wanted. */
void rbt_caller_request_early(struct rbt_caller *caller, struct rbt_prefetch *prefetch,
                              const struct rbt_driver_call *call, int64_t need)
{
    const struct rbt_shard_event *event = &call->event;
    const struct rbt_stream_purpose what = {.prefetch = prefetch, .is_early = true};
    struct rbt_stream_request *sent = NULL;
    if (request(caller, call->shard, event, need, &what, &sent) != RBT_OK) {
        return;
    }
    prefetch->request = sent;
    if (event->is_base) { /* stamps grow: it will be no older than what has been used */
        uint64_t known =
            prefetch->answer_stamp != RBT_STAMP_NONE ? prefetch->answer_stamp : event->least;
        if (event->early != NULL && (known == RBT_STAMP_NONE || known < prefetch->last_stamp)) {
            known = prefetch->last_stamp;
        }
        rbt_prefetches_expect(&caller->prefetches, prefetch, event->table, known);
    }
}

/* Asks for the rows as they will be once everybody has got further. */
static void ask_ahead(struct rbt_caller *caller, struct rbt_prefetch *prefetch,
                      const struct rbt_driver_call *call)
{
    const int64_t floor = prefetch->news.floor;
    prefetch->idle = 0;
    if (prefetch->is_once) {
        rbt_prefetch_drop(prefetch); /* used up */
        return;
    }
    if (prefetch->request != NULL || floor == RBT_CLOCK_GONE ||
        caller->streams[call->shard].request_count >= RBT_CALLER_PREFETCH_MAX) {
        return;
    }
    const int64_t need = floor > call->event.need ? floor + 1 : call->event.need + 1;
    rbt_caller_request_early(caller, prefetch, call, need);
}

/* Whether the answer has all that the reader relies on, and what it is a change of is there. */
static bool is_enough(const struct rbt_caller *caller, const struct rbt_driver_call *call,
                      const struct rbt_answer *answer)
{
    const struct rbt_shard_event *event = &call->event;
    const uint32_t asked = applied_asked(caller, call->shard, event);
    if (answer->head.applied_count != asked ||
        !rbt_packing_can_use(&caller->packing, event->asked, call->shard, &answer->head)) {
        return false;
    }
    for (uint32_t i = 0; event->applied_least != NULL && i < asked; i++) {
        if (answer->head.applied[i] < event->applied_least[i] && !RBT_MUTANT(FORGETFUL_COPY)) {
            return false;
        }
    }
    return true;
}

/* Whether the kept answer will do: of the right clock, and with all that the reader relies on. */
static bool is_fresh(const struct rbt_caller *caller, const struct rbt_prefetch *prefetch,
                     const struct rbt_driver_call *call, struct rbt_answer *answer)
{
    const struct rbt_body kept = {prefetch->answer, prefetch->answer_bytes, prefetch->is_placed};
    return prefetch->answer_bytes > 0 &&
           (prefetch->news.floor >= call->event.need || RBT_MUTANT(STALE_COPY)) &&
           rbt_answer_parse(&kept, answer) == RBT_OK && is_enough(caller, call, answer);
}

/* Serves a waiting call from the kept answer, or asks again. */
static rbt_status serve_waiting(struct rbt_caller *caller, struct rbt_prefetch *prefetch)
{
    struct rbt_driver_call *call = prefetch->call;
    struct rbt_answer kept;
    if (is_fresh(caller, prefetch, call, &kept)) {
        prefetch->call = NULL;
        caller->unanswered--;
        const rbt_status st = rbt_caller_complete(caller, call, &kept);
        ask_ahead(caller, prefetch, call);
        return st;
    }
    if (prefetch->request != NULL) {
        return RBT_OK;
    }
    const struct rbt_stream_purpose what = {.prefetch = prefetch};
    struct rbt_stream_request *sent = NULL;
    const rbt_status st =
        request(caller, call->shard, &call->event, call->event.need, &what, &sent);
    prefetch->request = sent;
    return st;
}

static rbt_status pull_eagerly(struct rbt_caller *caller, struct rbt_driver_call *call)
{
    struct rbt_prefetch *prefetch =
        rbt_prefetches_get(&caller->prefetches, call->event.subscription, call->shard, false);
    if (prefetch == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for rows sent ahead");
    }
    RBT_ASSERT(prefetch->call == NULL); /* a worker has one step under way */
    RBT_ASSERT(!call->event.is_stable); /* a copy would be of other versions at each shard */
    prefetch->table = call->event.table;
    prefetch->call = call;
    caller->unanswered++;
    /* A copy of the right clock that lacks something: what is asked for ahead may have to wait for
     * this very worker, so the rows are asked for as they are now. */
    struct rbt_answer kept;
    if (prefetch->request != NULL && prefetch->news.floor >= call->event.need &&
        !is_fresh(caller, prefetch, call, &kept)) {
        prefetch->call = NULL;
        const struct rbt_stream_purpose what = {.call = call, .prefetch = prefetch};
        return request(caller, call->shard, &call->event, call->event.need, &what, NULL);
    }
    return serve_waiting(caller, prefetch);
}

/* What has been asked for under the call's number and not been used; or NULL. */
static struct rbt_prefetch *find_asked(const struct rbt_caller *caller,
                                       const struct rbt_driver_call *call)
{
    if (call->event.kind != RBT_SHARD_PULL || call->event.asked == 0 || RBT_MUTANT(ASKED_AGAIN)) {
        return NULL;
    }
    struct rbt_prefetch *prefetch =
        rbt_prefetches_find(&caller->prefetches, call->event.asked, call->shard, true);
    return prefetch != NULL && (prefetch->request != NULL || prefetch->answer_bytes > 0) ? prefetch
                                                                                         : NULL;
}

static rbt_status pull(struct rbt_caller *caller, struct rbt_driver_call *call)
{
    struct rbt_prefetch *asked = find_asked(caller, call);
    if (asked != NULL) {
        asked->call = call;
        caller->unanswered++;
        return serve_waiting(caller, asked);
    }
    if (call->event.kind == RBT_SHARD_PULL && call->event.subscription != 0 &&
        call->event.need != RBT_CLOCK_ANY) {
        return pull_eagerly(caller, call);
    }
    const struct rbt_stream_purpose what = {.call = call};
    caller->unanswered++;
    return request(caller, call->shard, &call->event, call->event.need, &what, NULL);
}

/* --- Receiving ------------------------------------------------------------------------------- */

/* The shard does not send rows before they are wanted, since it has to keep too much for them. */
static rbt_status receive_nothing(struct rbt_caller *caller, const struct rbt_stream_request *asked)
{
    struct rbt_prefetch *prefetch = asked->purpose.prefetch;
    if (!asked->purpose.is_early || prefetch == NULL) {
        return rbt_answer_wrong();
    }
    if (prefetch->request == asked) {
        rbt_prefetch_arrived(prefetch);
    }
    return prefetch->call != NULL ? serve_waiting(caller, prefetch) : RBT_OK;
}

/* Gives a call its answer. If that is a change of rows that have been replaced meanwhile, it is
 * asked again, and then all of them come. */
static rbt_status finish(struct rbt_caller *caller, const struct rbt_stream_purpose *purpose,
                         const struct rbt_answer *answer)
{
    struct rbt_driver_call *call = purpose->call;
    if (!rbt_packing_can_use(&caller->packing, call->event.asked, call->shard, &answer->head)) {
        return request(caller, call->shard, &call->event, call->event.need, purpose, NULL);
    }
    caller->unanswered--;
    return rbt_caller_complete(caller, call, answer);
}

static rbt_status receive_rows(struct rbt_caller *caller, const struct rbt_stream_request *asked,
                               const struct rbt_body *body)
{
    struct rbt_prefetch *prefetch = asked->purpose.prefetch;
    struct rbt_answer answer;
    rbt_status st = rbt_answer_parse(body, &answer);
    if (st == RBT_OK && answer.head.is_withheld) {
        return receive_nothing(caller, asked);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (prefetch != NULL && prefetch->is_once && prefetch->call != NULL &&
        prefetch->request == asked && answer.head.news.floor >= prefetch->call->event.need &&
        is_enough(caller, prefetch->call, &answer)) { /* no need to keep it, or what came before */
        struct rbt_driver_call *call = prefetch->call;
        rbt_prefetch_drop(prefetch);
        rbt_prefetch_arrived(prefetch);
        prefetch->call = NULL;
        caller->unanswered--;
        return rbt_caller_complete(caller, call, &answer);
    }
    if (prefetch != NULL) {
        if (prefetch->request == asked) {
            rbt_prefetch_arrived(prefetch);
        }
        st = rbt_prefetches_keep(&caller->prefetches, prefetch, &answer, body);
    }
    if (st == RBT_OK && asked->purpose.call != NULL) {
        return finish(caller, &asked->purpose, &answer);
    }
    return st == RBT_OK && prefetch != NULL && prefetch->call != NULL
               ? serve_waiting(caller, prefetch)
               : st;
}

/* What a shard has answered to a request. */
static rbt_status receive(struct rbt_caller *caller, const struct rbt_stream_request *asked,
                          const struct rbt_port_event *event)
{
    const struct rbt_frame *head = &event->frame.head;
    const struct rbt_stream_purpose *purpose = &asked->purpose;
    if (head->kind == RBT_FRAME_ROWS && purpose->done == NULL) {
        const struct rbt_body body = {.bytes = event->frame.body,
                                      .count = head->length - event->frame.placed,
                                      .is_placed = event->frame.placed > 0};
        return receive_rows(caller, asked, &body);
    }
    if (head->kind == RBT_FRAME_DONE && purpose->done != NULL) {
        struct rbt_wire_cursor cursor = {event->frame.body, event->frame.body + head->length};
        caller->unanswered--;
        return rbt_wire_get_done(&cursor, purpose->done);
    }
    return rbt_answer_wrong();
}

/* --- What happens ---------------------------------------------------------------------------- */

/* A stream is of no more use, for the reason that the thread's record has. If a shard is gone, or
 * has no more to do with us, the coordinator may know more. */
static void lose(struct rbt_caller *caller, rbt_status status, rbt_time now)
{
    if (status != RBT_E_CLOSED) {
        rbt_caller_fail(caller, status);
    } else if (caller->status == RBT_OK && caller->lost == RBT_OK) {
        caller->lost = status;
        caller->lost_until = now + WHY_TIME;
        rbt_error_save(caller->error);
    }
}

void rbt_caller_port(struct rbt_caller *caller, const struct rbt_port_event *event, rbt_time now)
{
    RBT_ASSERT(event->port < caller->shared->shard_count);
    if (caller->status != RBT_OK || caller->lost != RBT_OK) {
        return; /* it makes no difference any more */
    }
    struct rbt_stream *stream = &caller->streams[event->port];
    struct rbt_stream_request *answered = NULL;
    const rbt_status st = rbt_stream_step(stream, event, now, caller->out, &answered);
    note_due(caller, event->port);
    if (st != RBT_OK) {
        lose(caller, st, now);
    }
    if (answered != NULL) {
        const rbt_status taken = receive(caller, answered, event);
        rbt_stream_release(stream, answered);
        if (taken != RBT_OK) {
            rbt_caller_fail(caller, taken); /* asking again would bring the same */
        }
    }
}

void rbt_caller_tick(struct rbt_caller *caller, rbt_time now)
{
    for (uint32_t i = 0;
         caller->status == RBT_OK && caller->lost == RBT_OK && i < caller->shared->shard_count;
         i++) {
        const rbt_status st = rbt_stream_tick(&caller->streams[i], now, caller->out);
        if (st != RBT_OK) {
            lose(caller, st, now);
        }
    }
    caller->due = RBT_TIME_NEVER;
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        note_due(caller, i);
    }
    if (rbt_caller_is_lost(caller) && now >= caller->lost_until) {
        caller->status = caller->lost; /* nobody has said more */
        caller->unanswered = 0;
    }
}

rbt_time rbt_caller_deadline(const struct rbt_caller *caller)
{
    if (rbt_caller_is_lost(caller)) {
        return caller->lost_until;
    }
    return caller->status == RBT_OK ? caller->due : RBT_TIME_NEVER;
}

void rbt_caller_alarm(struct rbt_caller *caller, rbt_status status)
{
    if (status != RBT_OK) {
        rbt_caller_fail(caller, status);
    }
}

/* --- How far it is --------------------------------------------------------------------------- */

bool rbt_caller_may_go_on(const struct rbt_caller *caller)
{
    bool may = caller->lost == RBT_OK;
    for (uint32_t i = 0; may && i < caller->shared->shard_count; i++) {
        const struct rbt_stream *stream = &caller->streams[i];
        may = rbt_stream_is_settled(stream) && stream->kept_bytes <= KEPT_MAX;
    }
    return caller->status != RBT_OK || may;
}

bool rbt_caller_is_drained(const struct rbt_caller *caller)
{
    bool is_drained = true;
    for (uint32_t i = 0; is_drained && i < caller->shared->shard_count; i++) {
        is_drained = caller->streams[i].kept == NULL;
    }
    return caller->status != RBT_OK || is_drained;
}

/* --- Calls ----------------------------------------------------------------------------------- */

static rbt_status push(struct rbt_caller *caller, const struct rbt_driver_call *call)
{
    const struct rbt_shard_event *event = &call->event;
    struct rbt_stream *stream = &caller->streams[call->shard];
    const bool is_leave = event->kind == RBT_SHARD_LEAVE;
    if (!is_leave && event->sequence <= stream->sent) {
        return RBT_OK; /* another shard's copy could not be sent, and so all are sent again */
    }
    struct rbt_block *block = NULL;
    rbt_status st = RBT_OK;
    if (is_leave) {
        block = rbt_block_create(RBT_WIRE_LEAVE_BYTES);
        st = block == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for a message") : RBT_OK;
    } else {
        st = rbt_compose_push(caller, call->shard, event, &block);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (event->marker != RBT_MARKER_NONE) {
        rbt_prefetches_end_clock(&caller->prefetches, call->shard);
    }
    const uint64_t number = event->sequence > stream->sent ? event->sequence : stream->sent + 1;
    block->bytes = is_leave ? RBT_WIRE_LEAVE_BYTES : block->bytes;
    block->class = call->is_early ? RBT_TRAFFIC_EARLY : RBT_TRAFFIC_CLOCK;
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = is_leave ? RBT_FRAME_LEAVE : RBT_FRAME_PUSH,
                                      .worker = caller->worker,
                                      .id = number},
                   block->bytes);
    st = rbt_stream_push(stream, block, number, is_leave, caller->out);
    note_due(caller, call->shard);
    return st;
}

static void start(struct rbt_caller *caller, struct rbt_driver_call *call)
{
    const struct rbt_stream *stream = &caller->streams[call->shard];
    const bool is_request =
        call->event.kind == RBT_SHARD_PULL || call->event.kind == RBT_SHARD_SCAN;
    call->reply = (struct rbt_driver_reply){.floor = stream->news.floor,
                                            .version = stream->news.version,
                                            .acknowledged = stream->news.arrived,
                                            .settled = stream->news.settled};
    const rbt_status st = is_request ? pull(caller, call) : push(caller, call);
    const bool is_last = call->event.kind == RBT_SHARD_LEAVE; /* or others would wait for ever */
    if (st == RBT_E_CLOSED || st == RBT_E_PROTOCOL || (st != RBT_OK && (is_request || is_last))) {
        rbt_caller_fail(caller, st); /* calls of this step may be on their way */
    }
    call->reply.status = st != RBT_OK ? st : call->reply.status;
    /* A clock that did not reach every shard may be taken back; what has been sent of it stays. */
    for (uint32_t i = 0; st != RBT_OK && !is_request && i < caller->shared->shard_count; i++) {
        rbt_stream_own(&caller->streams[i]);
    }
}

void rbt_caller_start(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    bool is_late = false;
    for (size_t i = 0; i < count; i++) {
        is_late = is_late || calls[i].event.need > caller->streams[calls[i].shard].news.floor;
    }
    caller->had_to_wait = is_late;
    for (size_t i = 0; caller->status == RBT_OK && i < count; i++) {
        start(caller, &calls[i]);
    }
}

void rbt_caller_finish(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; caller->status != RBT_OK && i < count; i++) {
        calls[i].reply.status = rbt_caller_refuse(caller);
    }
    for (uint32_t i = 0; caller->status != RBT_OK && i < caller->prefetches.count; i++) {
        caller->prefetches.all[i]->call = NULL; /* on a stack that is about to be left */
    }
    if (count > 0) {
        rbt_caller_count_traffic(caller, &calls[0].reply);
        rbt_caller_count_filtered(caller, &calls[0].reply);
    }
}

void rbt_caller_ask(struct rbt_caller *caller, uint32_t shard, struct rbt_block *block,
                    struct rbt_frame header, struct rbt_wire_done *done)
{
    const struct rbt_stream_question question = {
        .block = block, .header = header, .purpose = {.done = done}};
    if (caller->status != RBT_OK) {
        rbt_block_unref(block);
        return;
    }
    caller->unanswered++;
    const rbt_status st = rbt_stream_ask(&caller->streams[shard], &question, caller->out, NULL);
    note_due(caller, shard);
    if (st != RBT_OK) {
        rbt_caller_fail(caller, st);
    }
}

void rbt_caller_expect(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; caller->status == RBT_OK && i < count; i++) {
        struct rbt_driver_call *call = &calls[i];
        struct rbt_prefetch *prefetch =
            rbt_prefetches_get(&caller->prefetches, call->event.asked, call->shard, true);
        if (prefetch == NULL || prefetch->request != NULL ||
            caller->streams[call->shard].request_count >= RBT_CALLER_PREFETCH_MAX) {
            continue; /* it is asked for when it is wanted, or it is on its way */
        }
        rbt_prefetch_drop(prefetch);
        rbt_caller_request_early(caller, prefetch, call, call->event.need);
    }
}

bool rbt_caller_is_asking(const struct rbt_caller *caller, uint64_t asked)
{
    for (uint32_t i = 0; caller->status == RBT_OK && i < caller->shared->shard_count; i++) {
        const struct rbt_prefetch *prefetch =
            rbt_prefetches_find(&caller->prefetches, asked, i, true);
        if (prefetch != NULL && prefetch->request != NULL) {
            return true;
        }
    }
    return false;
}

void rbt_caller_forget(struct rbt_caller *caller, uint64_t asked)
{
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        struct rbt_prefetch *prefetch = rbt_prefetches_find(&caller->prefetches, asked, i, true);
        RBT_ASSERT(prefetch == NULL || prefetch->request == NULL || caller->status != RBT_OK);
        if (prefetch != NULL) {
            rbt_prefetch_drop(prefetch);
            rbt_free(prefetch->answer);
            prefetch->answer = NULL;
            prefetch->answer_max = 0;
        }
    }
    rbt_packing_forget(&caller->packing, asked);
    rbt_caller_forget_early(caller, asked);
}
