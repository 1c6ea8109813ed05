/* proto/stream.c - one worker's side of its connection to one shard, without the connection.
 *
 * Invariants, threads and memory: see the header. */
#include "proto/stream.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mutant.h"

enum { MILLISECOND = 1000000 };

#define BACKOFF_MIN    (INT64_C(10) * MILLISECOND)
#define LIST_BYTES_MAX (SIZE_MAX >> 34) /* 1 GiB of lists: what comes later is written out */

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_stream_init(struct rbt_stream *stream, const struct rbt_stream_options *options)
{
    *stream = (struct rbt_stream){
        .options = *options, .backoff = BACKOFF_MIN, .down_since = RBT_TIME_NEVER};
    return rbt_map_init(&stream->list_index, 0);
}

/* The first of the kept updates has arrived, or is of no use any more. */
static void drop_kept(struct rbt_stream *stream)
{
    struct rbt_stream_kept *kept = stream->kept;
    stream->kept = kept->next;
    stream->kept_last = stream->kept == NULL ? NULL : stream->kept_last;
    stream->kept_bytes -= kept->block->bytes;
    rbt_block_unref(kept->block);
    kept->block = NULL;
    kept->next = stream->kept_spare;
    stream->kept_spare = kept;
}

static struct rbt_stream_request **bucket_of(struct rbt_stream *stream, uint64_t id)
{
    return &stream->buckets[id % RBT_STREAM_BUCKETS];
}

/* Takes a request out of the list and out of its bucket. */
static void unlink_request(struct rbt_stream *stream, struct rbt_stream_request *request)
{
    struct rbt_stream_request **at = bucket_of(stream, request->id);
    while (*at != request) { /* ends: it is there */
        at = &(*at)->next_alike;
    }
    *at = request->next_alike;
    if (request->before == NULL) {
        stream->requests = request->next;
    } else {
        request->before->next = request->next;
    }
    if (request->next == NULL) {
        stream->requests_last = request->before;
    } else {
        request->next->before = request->before;
    }
    stream->request_count--;
}

void rbt_stream_release(struct rbt_stream *stream, struct rbt_stream_request *request)
{
    rbt_block_unref(request->block);
    *request = (struct rbt_stream_request){.next = stream->requests_spare};
    stream->requests_spare = request;
}

/* Forgets what is under way. */
static void forget(struct rbt_stream *stream)
{
    while (stream->kept != NULL) {
        drop_kept(stream);
    }
    while (stream->requests != NULL) {
        struct rbt_stream_request *request = stream->requests;
        unlink_request(stream, request);
        rbt_stream_release(stream, request);
    }
    stream->sent = 0;
    stream->probe = 0;
    stream->news = (struct rbt_wire_news){0};
}

rbt_status rbt_stream_reset(struct rbt_stream *stream, struct rbt_outbox *out)
{
    forget(stream);
    if (stream->state != RBT_STREAM_GREETING) {
        return RBT_OK;
    }
    stream->state = RBT_STREAM_DOWN; /* the answer may tell of the run that is over */
    stream->retry_at = 0;
    return rbt_outbox_cut(out, stream->options.shard);
}

void rbt_stream_deinit(struct rbt_stream *stream)
{
    forget(stream);
    while (stream->kept_spare != NULL) {
        struct rbt_stream_kept *kept = stream->kept_spare;
        stream->kept_spare = kept->next;
        rbt_free(kept);
    }
    while (stream->requests_spare != NULL) {
        struct rbt_stream_request *request = stream->requests_spare;
        stream->requests_spare = request->next;
        rbt_free(request);
    }
    for (uint32_t i = 0; i < stream->list_count; i++) {
        rbt_block_unref(stream->lists[i]);
    }
    rbt_free(stream->lists);
    rbt_map_deinit(&stream->list_index);
}

/* --- Losing and making connections ----------------------------------------------------------- */

/* The connection is over; another will be tried: at once, unless this one was of no use. A shard
 * that greets and then hangs up every time is no better than one that is not there. */
static void lose(struct rbt_stream *stream, rbt_time now)
{
    const bool was_up = stream->state == RBT_STREAM_UP;
    const bool was_useful =
        was_up && (stream->was_useful || now - stream->up_at >= RBT_ATTEMPT_WAIT_MAX);
    stream->state = RBT_STREAM_DOWN;
    stream->probe = 0;
    stream->cuts += was_up;
    if (was_useful) {
        const bool is_first = stream->down_since == RBT_TIME_NEVER || !RBT_MUTANT(OLD_GRUDGE);
        stream->down_since = is_first ? now : stream->down_since;
        stream->backoff = RBT_MUTANT(KEPT_BACKOFF) ? stream->backoff : BACKOFF_MIN;
        stream->retry_at = now;
        return;
    }
    stream->retry_at = now + stream->backoff;
    stream->backoff =
        stream->backoff * 2 < RBT_ATTEMPT_WAIT_MAX ? stream->backoff * 2 : RBT_ATTEMPT_WAIT_MAX;
}

/* Fails if it has been tried for long enough; `why` is the last reason. */
static rbt_status judge(const struct rbt_stream *stream, rbt_time now, const char *why)
{
    if (stream->down_since == RBT_TIME_NEVER ||
        now - stream->down_since < stream->options.cut_max) {
        return RBT_OK;
    }
    return rbt_fail(RBT_E_CLOSED, "lost shard %u at %s: no connection for %.3gs (%s)",
                    stream->options.shard, stream->options.address,
                    (double)(now - stream->down_since) * 1e-9, why);
}

/* Ends the connection for the reason that the thread's record has. */
static rbt_status cut(struct rbt_stream *stream, rbt_time now, struct rbt_outbox *out)
{
    char why[RBT_ERROR_MAX];
    memcpy(why, rbt_last_error(), sizeof why);
    lose(stream, now);
    const rbt_status st = rbt_outbox_cut(out, stream->options.shard);
    return st != RBT_OK ? st : judge(stream, now, why);
}

static rbt_status send_block(struct rbt_stream *stream, struct rbt_block *block,
                             struct rbt_outbox *out)
{
    RBT_ASSERT(block->class < RBT_TRAFFIC_CLASSES);
    if (!stream->is_near) {
        stream->traffic_sent[block->class] += block->bytes;
    }
    return rbt_outbox_send(out, stream->options.shard, block);
}

/* The connection is there. */
static rbt_status greet(struct rbt_stream *stream, bool is_near, rbt_time now,
                        struct rbt_outbox *out)
{
    RBT_ASSERT(stream->state == RBT_STREAM_CONNECTING);
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a connection");
    }
    stream->is_near = is_near;
    stream->state = RBT_STREAM_GREETING;
    stream->heard_at = now;
    struct rbt_wire_hello hello = *stream->options.hello;
    hello.worker = stream->options.worker;
    hello.shard = stream->options.shard;
    block->bytes = rbt_wire_put_hello(block->data, &hello);
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = RBT_FRAME_HELLO, .worker = stream->options.worker},
                   block->bytes);
    const rbt_status st = send_block(stream, block, out);
    rbt_block_unref(block);
    return st;
}

/* The shard has said how far it has come: what it lacks is sent again. */
static rbt_status send_again(struct rbt_stream *stream, struct rbt_outbox *out)
{
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < stream->list_count && !RBT_MUTANT(KEPT_LISTS); i++) {
        st = send_block(stream, stream->lists[i], out);
    }
    for (struct rbt_stream_kept *kept = stream->kept;
         st == RBT_OK && kept != NULL && !RBT_MUTANT(NO_RESEND) &&
         (!RBT_MUTANT(ONE_RESEND) || stream->cuts < 2);
         kept = kept->next) {
        st = send_block(stream, kept->block, out);
        stream->resent += kept->was_sent;
        kept->was_sent = true;
    }
    for (struct rbt_stream_request *request = stream->requests;
         st == RBT_OK && request != NULL && !RBT_MUTANT(NO_ASKING_AGAIN); request = request->next) {
        st = send_block(stream, request->block, out);
        stream->resent += request->was_sent;
        request->was_sent = true;
    }
    return st;
}

/* --- Sending --------------------------------------------------------------------------------- */

/* Sends a block now if there is a connection; else it goes out when there is one. */
static rbt_status transmit(struct rbt_stream *stream, struct rbt_block *block,
                           struct rbt_outbox *out)
{
    return stream->state == RBT_STREAM_UP ? send_block(stream, block, out) : RBT_OK;
}

/* Something is about to be sent: a connection that nobody has wanted was not lost for long. */
static void note_wanted(struct rbt_stream *stream)
{
    if (stream->state == RBT_STREAM_DOWN && stream->kept == NULL && stream->requests == NULL) {
        stream->down_since = RBT_TIME_NEVER;
    }
}

rbt_status rbt_stream_push(struct rbt_stream *stream, struct rbt_block *block, uint64_t number,
                           bool is_leave, struct rbt_outbox *out)
{
    RBT_ASSERT(number > stream->sent);
    RBT_DEBUG_ASSERT(is_leave || number == stream->sent + 1); /* (1) */
    note_wanted(stream);
    struct rbt_stream_kept *kept = stream->kept_spare;
    if (kept != NULL) {
        stream->kept_spare = kept->next;
    } else {
        kept = rbt_calloc(1, sizeof *kept);
    }
    if (kept == NULL) {
        rbt_block_unref(block);
        return rbt_fail(RBT_E_NOMEM, "no memory for a message");
    }
    *kept = (struct rbt_stream_kept){.number = number,
                                     .is_leave = is_leave,
                                     .was_sent = stream->state == RBT_STREAM_UP,
                                     .block = block};
    if (stream->kept_last == NULL) {
        stream->kept = kept;
    } else {
        stream->kept_last->next = kept;
    }
    stream->kept_last = kept;
    stream->kept_bytes += block->bytes;
    stream->sent = number;
    return transmit(stream, block, out);
}

/* Adds a request to the list and to its bucket. */
static void link_request(struct rbt_stream *stream, struct rbt_stream_request *request)
{
    struct rbt_stream_request **bucket = bucket_of(stream, request->id);
    request->next_alike = *bucket;
    *bucket = request;
    request->before = stream->requests_last;
    if (stream->requests_last == NULL) {
        stream->requests = request;
    } else {
        stream->requests_last->next = request;
    }
    stream->requests_last = request;
    stream->request_count++;
}

rbt_status rbt_stream_ask(struct rbt_stream *stream, const struct rbt_stream_question *question,
                          struct rbt_outbox *out, struct rbt_stream_request **request)
{
    struct rbt_block *block = question->block;
    struct rbt_frame header = question->header;
    note_wanted(stream);
    struct rbt_stream_request *r = stream->requests_spare;
    if (r != NULL) {
        stream->requests_spare = r->next;
    } else {
        r = rbt_calloc(1, sizeof *r);
    }
    if (r == NULL) {
        rbt_block_unref(block);
        return rbt_fail(RBT_E_NOMEM, "no memory for a request");
    }
    header.id = header.id != 0 ? header.id : ++stream->next_id;
    rbt_wire_close(block->data, header, block->bytes);
    *r = (struct rbt_stream_request){.id = header.id,
                                     .block = block,
                                     .was_sent = stream->state == RBT_STREAM_UP,
                                     .place = question->place,
                                     .purpose = question->purpose};
    link_request(stream, r);
    if (request != NULL) {
        *request = r;
    }
    return transmit(stream, block, out);
}

void rbt_stream_own(struct rbt_stream *stream)
{
    for (struct rbt_stream_kept *kept = stream->kept; kept != NULL; kept = kept->next) {
        rbt_block_own(kept->block);
    }
}

bool rbt_stream_has_list(const struct rbt_stream *stream, uint64_t name)
{
    return rbt_map_find(&stream->list_index, name) != RBT_MAP_NONE;
}

bool rbt_stream_can_name(const struct rbt_stream *stream, size_t keys)
{
    return stream->list_count < RBT_LISTS_MAX && stream->list_bytes < LIST_BYTES_MAX &&
           keys <= RBT_LIST_KEYS_MAX && stream->list_keys <= RBT_LIST_KEYS_MAX - keys;
}

rbt_status rbt_stream_add_list(struct rbt_stream *stream, uint64_t name, struct rbt_block *block,
                               struct rbt_outbox *out)
{
    rbt_status st = rbt_map_reserve(&stream->list_index, 1);
    if (st == RBT_OK && stream->list_count == stream->list_max) {
        const uint32_t max = stream->list_max == 0 ? 16 : stream->list_max * 2;
        struct rbt_block **grown = rbt_realloc(stream->lists, max, sizeof *grown);
        st = grown == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for lists of keys") : RBT_OK;
        if (grown != NULL) {
            stream->lists = grown;
            stream->list_max = max;
        }
    }
    if (st != RBT_OK) {
        rbt_block_unref(block);
        return st;
    }
    rbt_map_insert(&stream->list_index, name, stream->list_count);
    stream->lists[stream->list_count++] = block;
    stream->list_bytes += block->bytes;
    return transmit(stream, block, out);
}

/* --- Receiving ------------------------------------------------------------------------------- */

/* The request with this id; NULL if there is none. */
static struct rbt_stream_request *find_request(const struct rbt_stream *stream, uint64_t id)
{
    struct rbt_stream_request *request = stream->buckets[id % RBT_STREAM_BUCKETS];
    while (request != NULL && request->id != id) {
        request = request->next_alike;
    }
    return request;
}

bool rbt_stream_place(const struct rbt_stream *stream, const struct rbt_frame *head,
                      struct rbt_frame_place *place)
{
    const struct rbt_stream_request *request = find_request(stream, head->id);
    if (request == NULL || head->kind != RBT_FRAME_ROWS || request->place.bytes == 0 ||
        request->place.prefix + request->place.bytes != head->length) {
        return false;
    }
    *place = request->place;
    return true;
}

static void take_news(struct rbt_stream *stream, const struct rbt_wire_news *told, bool has_left)
{
    struct rbt_wire_news *news = &stream->news;
    news->floor = told->floor > news->floor ? told->floor : news->floor; /* (6) */
    news->version = told->version > news->version ? told->version : news->version;
    news->arrived = told->arrived > news->arrived ? told->arrived : news->arrived;
    news->settled = told->settled > news->settled ? told->settled : news->settled;
    while (stream->kept != NULL &&
           (stream->kept->number <= news->arrived + RBT_MUTANT(EARLY_RELEASE) ||
            (has_left && stream->kept->is_leave))) {
        drop_kept(stream); /* (2) */
    }
}

/* A message has come over the network. */
static void count_received(struct rbt_stream *stream, const struct rbt_frame *frame)
{
    const struct rbt_stream_request *request =
        frame->kind == RBT_FRAME_ROWS ? find_request(stream, frame->id) : NULL;
    const uint32_t class = request == NULL ? RBT_TRAFFIC_OTHER : request->block->class;
    stream->traffic_received[class] += RBT_FRAME_HEADER + rbt_frame_padded(frame->length);
}

/* The news that the body of WELCOME, ACK, ROWS and DONE begins with. What was placed elsewhere is
 * behind them. */
static rbt_status read_news(const struct rbt_port_event *event, struct rbt_wire_news *news)
{
    const char *body = event->frame.body;
    struct rbt_wire_cursor cursor = {body, body + event->frame.head.length - event->frame.placed};
    return rbt_wire_get_news(&cursor, news);
}

static rbt_status receive_answer(struct rbt_stream *stream, const struct rbt_port_event *event,
                                 struct rbt_stream_request **answered)
{
    const struct rbt_frame *frame = &event->frame.head;
    struct rbt_wire_news news;
    const rbt_status st = read_news(event, &news);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_stream_request *request =
        RBT_MUTANT(WRONG_REQUEST) ? stream->requests : find_request(stream, frame->id);
    if (request == NULL) {
        return RBT_OK; /* asked for in a run that is over: its news are, too */
    }
    unlink_request(stream, request); /* (4) */
    take_news(stream, &news, (frame->flags & RBT_FRAME_HAS_LEFT) != 0);
    if (!request->is_probe) {
        *answered = request;
        return RBT_OK;
    }
    stream->probe =
        request->id == stream->probe ? 0 : stream->probe; /* else of a connection before */
    rbt_stream_release(stream, request);
    return RBT_OK;
}

/* The shard does not want us: for good, unless it says that we may try again. If the job has failed
 * there, the reason is what it is, and not that we were refused. */
static rbt_status receive_refusal(struct rbt_stream *stream, const struct rbt_port_event *event,
                                  rbt_time now, struct rbt_outbox *out)
{
    const struct rbt_frame *frame = &event->frame.head;
    struct rbt_wire_cursor cursor = {event->frame.body, event->frame.body + frame->length};
    char text[RBT_WIRE_TEXT_MAX];
    if (rbt_wire_get_text(&cursor, text) != RBT_OK) {
        text[0] = '\0';
    }
    const bool is_failure = (frame->flags & RBT_FRAME_FAILURE) != 0 && frame->id > 0 &&
                            frame->id <= (uint64_t)-RBT_E_TOO_SMALL;
    const rbt_status st = is_failure
                              ? rbt_fail((rbt_status) - (int64_t)frame->id, "shard %u at %s: %s",
                                         stream->options.shard, stream->options.address, text)
                              : rbt_fail(RBT_E_CLOSED, "shard %u at %s refused the connection: %s",
                                         stream->options.shard, stream->options.address, text);
    if ((frame->flags & RBT_FRAME_TRY_AGAIN) != 0) {
        return cut(stream, now, out);
    }
    stream->state = RBT_STREAM_DOWN;
    stream->probe = 0;
    const rbt_status told = rbt_outbox_cut(out, stream->options.shard);
    return told != RBT_OK ? told : st;
}

static rbt_status receive_greeting(struct rbt_stream *stream, const struct rbt_port_event *event,
                                   struct rbt_outbox *out)
{
    const struct rbt_frame *frame = &event->frame.head;
    struct rbt_wire_news news;
    const rbt_status st =
        frame->kind == RBT_FRAME_WELCOME
            ? read_news(event, &news)
            : rbt_fail(RBT_E_PROTOCOL, "it answers a greeting with a message of kind %u",
                       frame->kind);
    if (st != RBT_OK) {
        return st;
    }
    take_news(stream, &news, false);
    stream->state = RBT_STREAM_UP;
    stream->up_at = stream->heard_at;
    stream->was_useful = false;
    return send_again(stream, out); /* (3), (5) */
}

/* A message after the greeting. */
static rbt_status receive_one(struct rbt_stream *stream, const struct rbt_port_event *event,
                              struct rbt_stream_request **answered)
{
    const struct rbt_frame *frame = &event->frame.head;
    struct rbt_wire_news news;
    stream->was_useful = true;
    switch (frame->kind) {
    case RBT_FRAME_ACK: {
        const rbt_status st = read_news(event, &news);
        if (st == RBT_OK) {
            take_news(stream, &news, (frame->flags & RBT_FRAME_HAS_LEFT) != 0);
        }
        return st;
    }
    case RBT_FRAME_ROWS:
    case RBT_FRAME_DONE:
        return receive_answer(stream, event, answered);
    default:
        return rbt_fail(RBT_E_PROTOCOL, "malformed message: kind %u is not for a worker",
                        frame->kind);
    }
}

static rbt_status receive(struct rbt_stream *stream, const struct rbt_port_event *event,
                          rbt_time now, struct rbt_outbox *out,
                          struct rbt_stream_request **answered)
{
    RBT_ASSERT(stream->state == RBT_STREAM_UP || stream->state == RBT_STREAM_GREETING);
    if (!stream->is_near) {
        count_received(stream, &event->frame.head);
    }
    if (event->frame.head.kind == RBT_FRAME_REFUSED) {
        return receive_refusal(stream, event, now, out);
    }
    stream->heard_at = now;
    const rbt_status st = stream->state == RBT_STREAM_GREETING
                              ? receive_greeting(stream, event, out)
                              : receive_one(stream, event, answered);
    return st == RBT_OK || st == RBT_E_NOMEM ? st : cut(stream, now, out);
}

/* The carrier has lost the connection, or could not make it. */
static rbt_status go_down(struct rbt_stream *stream, const struct rbt_port_event *event,
                          rbt_time now)
{
    RBT_ASSERT(stream->state != RBT_STREAM_DOWN);
    lose(stream, now);
    return event->down.status == RBT_E_NOMEM ? rbt_fail(RBT_E_NOMEM, "%s", event->down.why)
                                             : judge(stream, now, event->down.why);
}

rbt_status rbt_stream_step(struct rbt_stream *stream, const struct rbt_port_event *event,
                           rbt_time now, struct rbt_outbox *out,
                           struct rbt_stream_request **answered)
{
    RBT_ASSERT(event->port == stream->options.shard);
    *answered = NULL;
    switch (event->kind) {
    case RBT_PORT_UP:
        return greet(stream, event->up.is_near, now, out);
    case RBT_PORT_FRAME:
        return receive(stream, event, now, out, answered);
    case RBT_PORT_BROKEN:
        (void)rbt_fail(event->down.status, "%s", event->down.why);
        return cut(stream, now, out);
    case RBT_PORT_DOWN:
        return go_down(stream, event, now);
    case RBT_PORT_ROOM:
        break; /* what may be sent is bounded by what is kept, not by a queue */
    }
    return RBT_OK;
}

/* --- Time ------------------------------------------------------------------------------------ */

/* Whether a word is due from the shard. */
static bool is_owed(const struct rbt_stream *stream)
{
    return stream->state == RBT_STREAM_GREETING || stream->requests != NULL || stream->kept != NULL;
}

/* When the shard has been silent for too long: it was asked, unless it is a greeting that is due.
 * The worker may have been busy elsewhere for hours, so what counts is the time since the question.
 */
static rbt_time silence_end(const struct rbt_stream *stream)
{
    const rbt_time silence_max = stream->options.silence_max;
    if (stream->state == RBT_STREAM_GREETING) {
        return stream->heard_at + silence_max;
    }
    return stream->probe == 0 ? RBT_TIME_NEVER : stream->probed_at + silence_max - silence_max / 4;
}

rbt_time rbt_stream_deadline(const struct rbt_stream *stream)
{
    switch (stream->state) {
    case RBT_STREAM_DOWN:
        return rbt_stream_is_settled(stream) ? RBT_TIME_NEVER : stream->retry_at;
    case RBT_STREAM_CONNECTING:
        return stream->heard_at + stream->options.cut_max;
    case RBT_STREAM_GREETING:
    case RBT_STREAM_UP:
        break;
    }
    if (stream->is_near || !is_owed(stream)) {
        return RBT_TIME_NEVER;
    }
    const rbt_time quiet_at = stream->heard_at + stream->options.silence_max / 4;
    if (stream->probe == 0 && stream->state == RBT_STREAM_UP) {
        return quiet_at;
    }
    const rbt_time end = silence_end(stream); /* it may say other things before it answers */
    return end > quiet_at ? end : quiet_at;
}

/* Asks whether the shard is still there. */
static rbt_status ask_probe(struct rbt_stream *stream, rbt_time now, struct rbt_outbox *out)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_RESET_BYTES);
    if (block == NULL) {
        return RBT_OK; /* there will be another time */
    }
    block->bytes = RBT_WIRE_RESET_BYTES;
    const struct rbt_stream_question question = {
        .block = block, .header = {.kind = RBT_FRAME_STATS, .worker = stream->options.worker}};
    struct rbt_stream_request *request = NULL;
    const rbt_status st = rbt_stream_ask(stream, &question, out, &request);
    if (st == RBT_OK) {
        request->is_probe = true;
        stream->probe = request->id;
        stream->probed_at = now;
    }
    return st;
}

rbt_status rbt_stream_tick(struct rbt_stream *stream, rbt_time now, struct rbt_outbox *out)
{
    if (now < rbt_stream_deadline(stream)) {
        return RBT_OK;
    }
    switch (stream->state) {
    case RBT_STREAM_DOWN:
        stream->down_since = stream->down_since == RBT_TIME_NEVER ? now : stream->down_since;
        stream->state = RBT_STREAM_CONNECTING;
        stream->heard_at = now;
        return rbt_outbox_connect(out, stream->options.shard);
    case RBT_STREAM_CONNECTING:
        (void)rbt_fail(RBT_E_TIMEOUT, "it does not answer");
        return cut(stream, now, out);
    case RBT_STREAM_GREETING:
    case RBT_STREAM_UP:
        break;
    }
    if (now >= silence_end(stream)) {
        (void)rbt_fail(RBT_E_TIMEOUT, "silent for %.3gs", (double)(now - stream->heard_at) * 1e-9);
        return cut(stream, now, out); /* or it might be greeted in vain for ever */
    }
    return ask_probe(stream, now, out);
}
