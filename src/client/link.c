/* client/link.c - what one worker has on its way to one shard, and the connection that carries it.
 */
#include "client/link.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum {
    LISTS_MAX = 4096,
    LIST_KEYS_MAX = 1 << 27, /* shards take twice as many, each 8 bytes there, however packed */
    MILLISECOND = 1000000,
};

#define BACKOFF_MIN    (INT64_C(10) * MILLISECOND)
#define BACKOFF_MAX    (INT64_C(500) * MILLISECOND)
#define LIST_BYTES_MAX (SIZE_MAX >> 34) /* 1 GiB of lists: what comes later is written out */

rbt_status rbt_link_init(struct rbt_link *link, const struct rbt_link_options *options)
{
    *link = (struct rbt_link){.options = *options, .socket = -1, .backoff = BACKOFF_MIN};
    return rbt_map_init(&link->list_index, 0);
}

static void close_connection(struct rbt_link *link)
{
    if (link->channel != NULL) {
        struct rbt_channel_stats stats;
        rbt_channel_stats(link->channel, &stats);
        link->past.bytes_sent += stats.bytes_sent;
        link->past.bytes_received += stats.bytes_received;
        link->past.frames_sent += stats.frames_sent;
        link->past.frames_received += stats.frames_received;
        link->past.writes += stats.writes;
        link->past.reads += stats.reads;
        struct rbt_error_record why; /* the link may be about to say it */
        rbt_error_save(&why);
        rbt_channel_close(link->channel);
        rbt_error_restore(&why);
    }
    if (link->socket >= 0) {
        (void)close(link->socket);
    }
    if (link->is_near) {
        link->near.ops->close(link->near.connection);
        rbt_inbox_deinit(&link->inbox);
        link->is_near = false;
    }
    link->channel = NULL;
    link->socket = -1;
    link->state = RBT_LINK_DOWN;
    link->probe = 0;
}

static void free_kept(struct rbt_link *link)
{
    struct rbt_link_kept *kept = link->kept;
    link->kept = kept->next;
    link->kept_last = link->kept == NULL ? NULL : link->kept_last;
    link->kept_bytes -= kept->block->bytes;
    rbt_block_unref(kept->block);
    rbt_free(kept);
}

static void free_request(struct rbt_link_request *request)
{
    rbt_block_unref(request->block);
    rbt_free(request);
}

void rbt_link_reset(struct rbt_link *link)
{
    while (link->kept != NULL) {
        free_kept(link);
    }
    while (link->requests != NULL) {
        struct rbt_link_request *request = link->requests;
        link->requests = request->next;
        free_request(request);
    }
    link->requests_last = NULL;
    link->request_count = 0;
    link->sent = 0;
    link->probe = 0;
    link->news = (struct rbt_wire_news){0};
    if (link->state == RBT_LINK_GREETING) { /* the answer may tell of the run that is over */
        close_connection(link);
        link->retry_at = 0;
    }
}

void rbt_link_deinit(struct rbt_link *link)
{
    rbt_link_reset(link);
    close_connection(link);
    for (uint32_t i = 0; i < link->list_count; i++) {
        rbt_block_unref(link->lists[i]);
    }
    rbt_free(link->lists);
    rbt_map_deinit(&link->list_index);
}

size_t rbt_link_queued(const struct rbt_link *link)
{
    return link->channel == NULL ? 0 : rbt_channel_queued(link->channel);
}

void rbt_link_stats(const struct rbt_link *link, struct rbt_channel_stats *stats)
{
    *stats = (struct rbt_channel_stats){0};
    if (link->channel != NULL) {
        rbt_channel_stats(link->channel, stats);
    }
    stats->bytes_sent += link->past.bytes_sent;
    stats->bytes_received += link->past.bytes_received;
    stats->frames_sent += link->past.frames_sent;
    stats->frames_received += link->past.frames_received;
    stats->writes += link->past.writes;
    stats->reads += link->past.reads;
}

/* --- Losing and making connections ----------------------------------------------------------- */

/* The connection is over; another will be tried: at once, unless this one was of no use. A shard
 * that greets and then hangs up every time is no better than one that is not there. */
static void cut(struct rbt_link *link, rbt_time now)
{
    const bool was_up = link->state == RBT_LINK_UP;
    const bool was_useful = was_up && (link->was_useful || now - link->up_at >= BACKOFF_MAX);
    close_connection(link);
    link->cuts += was_up;
    if (was_useful) {
        link->down_since = now;
        link->backoff = BACKOFF_MIN;
        link->retry_at = now;
        return;
    }
    link->retry_at = now + link->backoff;
    link->backoff = link->backoff * 2 < BACKOFF_MAX ? link->backoff * 2 : BACKOFF_MAX;
}

/* Whether it has been tried for long enough; the last reason is in the thread's record. */
static rbt_status judge(const struct rbt_link *link, rbt_time now)
{
    if (link->down_since == 0 || now - link->down_since < link->options.cut_max) {
        return RBT_OK;
    }
    char why[RBT_ERROR_MAX];
    memcpy(why, rbt_last_error(), sizeof why);
    return rbt_fail(RBT_E_CLOSED, "lost shard %u at %s: no connection for %.3gs (%s)",
                    link->options.hello.shard, link->options.address,
                    (double)(now - link->down_since) * 1e-9, why);
}

/* Sends a block on whatever connection there is. */
static rbt_status send_block(struct rbt_link *link, struct rbt_block *block)
{
    if (link->is_near) {
        rbt_block_own(block); /* it is looked at where it lies */
        return link->near.ops->send(link->near.connection, block);
    }
    RBT_ASSERT(block->class < RBT_TRAFFIC_CLASSES);
    link->traffic_sent[block->class] += block->bytes;
    return rbt_channel_send(link->channel, block);
}

static rbt_status send_hello(struct rbt_link *link)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a connection");
    }
    block->bytes = rbt_wire_put_hello(block->data, &link->options.hello);
    rbt_wire_close(
        block->data,
        (struct rbt_frame){.kind = RBT_FRAME_HELLO, .worker = link->options.hello.worker},
        block->bytes);
    const rbt_status st = send_block(link, block);
    rbt_block_unref(block);
    return st;
}

/* Connects to a shard of this process: RBT_E_NOTFOUND if it is not. */
static rbt_status connect_near(struct rbt_link *link, rbt_time now)
{
    rbt_status st = rbt_inbox_init(&link->inbox);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_nearby_inbox inbox = {.context = &link->inbox, .deliver = rbt_inbox_deliver};
    st = rbt_nearby_open(link->options.address, &inbox, &link->near);
    if (st != RBT_OK) {
        rbt_inbox_deinit(&link->inbox);
        return st;
    }
    link->is_near = true;
    link->state = RBT_LINK_GREETING;
    link->heard_at = now;
    return send_hello(link);
}

/* Starts to connect. */
static rbt_status connect_link(struct rbt_link *link, rbt_time now)
{
    link->down_since = link->down_since == 0 ? now : link->down_since;
    const rbt_status near = connect_near(link, now);
    if (near == RBT_OK || near == RBT_E_NOMEM || link->is_near) {
        return near == RBT_E_NOMEM ? near : RBT_OK; /* what else went wrong shows when it is read */
    }
    if (near != RBT_E_NOTFOUND ||
        rbt_address_begin(link->options.address, &link->socket) != RBT_OK) {
        link->socket = -1;
        cut(link, now);
        return judge(link, now);
    }
    link->state = RBT_LINK_CONNECTING;
    link->heard_at = now;
    return RBT_OK;
}

/* An answer begins to come: where its rows belong. */
static bool find_place(void *context, const struct rbt_frame *frame, struct rbt_frame_place *place)
{
    const struct rbt_link *link = context;
    for (struct rbt_link_request *r = link->requests; r != NULL; r = r->next) {
        if (r->id == frame->id) {
            r->is_placed = frame->kind == RBT_FRAME_ROWS && r->place.bytes > 0 &&
                           r->place.prefix + r->place.bytes == frame->length;
            *place = r->place;
            return r->is_placed;
        }
    }
    return false;
}

/* The socket is connected, or not. */
static rbt_status finish_connecting(struct rbt_link *link, rbt_time now)
{
    struct pollfd poll_one = {.fd = link->socket, .events = POLLOUT};
    if (poll(&poll_one, 1, 0) <= 0) {
        if (now - link->heard_at < link->options.cut_max) {
            return RBT_OK; /* it takes its time */
        }
        (void)rbt_fail(RBT_E_TIMEOUT, "it does not answer");
        cut(link, now);
        return judge(link, now);
    }
    const struct rbt_channel_options options = {.security = link->options.security,
                                                .body_max = RBT_FRAME_BODY_MAX};
    rbt_status st = rbt_address_finish(link->options.address, link->socket);
    if (st == RBT_OK) {
        const int socket = link->socket;
        link->socket = -1; /* the channel's now */
        st = rbt_channel_open(socket, &options, &link->channel);
    }
    if (st == RBT_OK) {
        rbt_channel_on_long(link->channel, find_place, link);
    }
    st = st != RBT_OK ? st : send_hello(link);
    if (st == RBT_E_NOMEM) {
        return st;
    }
    if (st != RBT_OK) {
        cut(link, now);
        return judge(link, now);
    }
    link->state = RBT_LINK_GREETING;
    link->heard_at = now;
    return RBT_OK;
}

/* The shard has said how far it has come: what it lacks is sent again. */
static rbt_status send_again(struct rbt_link *link)
{
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < link->list_count; i++) {
        st = send_block(link, link->lists[i]);
    }
    for (struct rbt_link_kept *kept = link->kept; st == RBT_OK && kept != NULL; kept = kept->next) {
        st = send_block(link, kept->block);
    }
    for (struct rbt_link_request *request = link->requests; st == RBT_OK && request != NULL;
         request = request->next) {
        request->is_placed = false;
        st = send_block(link, request->block);
    }
    return st;
}

/* --- Sending --------------------------------------------------------------------------------- */

/* Sends a block now if there is a connection; else it goes out when there is one. */
static rbt_status transmit(struct rbt_link *link, struct rbt_block *block)
{
    const rbt_status st = link->state == RBT_LINK_UP ? send_block(link, block) : RBT_OK;
    return st == RBT_E_NOMEM ? st : RBT_OK; /* a broken connection shows when it is worked on */
}

/* Something is about to be sent: a connection that nobody has wanted was not lost for long. */
static void note_wanted(struct rbt_link *link)
{
    if (link->state == RBT_LINK_DOWN && link->kept == NULL && link->requests == NULL) {
        link->down_since = 0;
    }
}

rbt_status rbt_link_push(struct rbt_link *link, struct rbt_block *block, uint64_t number,
                         bool is_leave)
{
    RBT_ASSERT(number > link->sent);
    note_wanted(link);
    struct rbt_link_kept *kept = rbt_calloc(1, sizeof *kept);
    if (kept == NULL) {
        rbt_block_unref(block);
        return rbt_fail(RBT_E_NOMEM, "no memory for a message");
    }
    *kept = (struct rbt_link_kept){.number = number, .is_leave = is_leave, .block = block};
    if (link->kept_last == NULL) {
        link->kept = kept;
    } else {
        link->kept_last->next = kept;
    }
    link->kept_last = kept;
    link->kept_bytes += block->bytes;
    link->sent = number;
    return transmit(link, block);
}

rbt_status rbt_link_ask(struct rbt_link *link, struct rbt_block *block, struct rbt_frame header,
                        void *owner, struct rbt_link_request **request)
{
    note_wanted(link);
    struct rbt_link_request *r = rbt_calloc(1, sizeof *r);
    if (r == NULL) {
        rbt_block_unref(block);
        return rbt_fail(RBT_E_NOMEM, "no memory for a request");
    }
    header.id = header.id != 0 ? header.id : ++link->next_id;
    rbt_wire_close(block->data, header, block->bytes);
    *r = (struct rbt_link_request){.id = header.id, .block = block, .owner = owner};
    if (link->requests_last == NULL) {
        link->requests = r;
    } else {
        link->requests_last->next = r;
    }
    link->requests_last = r;
    link->request_count++;
    if (request != NULL) {
        *request = r;
    }
    return transmit(link, block);
}

void rbt_link_own(struct rbt_link *link)
{
    for (struct rbt_link_kept *kept = link->kept; kept != NULL; kept = kept->next) {
        rbt_block_own(kept->block);
    }
}

bool rbt_link_has_list(const struct rbt_link *link, uint64_t name)
{
    return rbt_map_find(&link->list_index, name) != RBT_MAP_NONE;
}

bool rbt_link_can_name(const struct rbt_link *link, size_t keys)
{
    return link->list_count < LISTS_MAX && link->list_bytes < LIST_BYTES_MAX &&
           keys <= LIST_KEYS_MAX && link->list_keys <= LIST_KEYS_MAX - keys;
}

rbt_status rbt_link_add_list(struct rbt_link *link, uint64_t name, struct rbt_block *block)
{
    rbt_status st = rbt_map_reserve(&link->list_index, 1);
    if (st == RBT_OK && link->list_count == link->list_max) {
        const uint32_t max = link->list_max == 0 ? 16 : link->list_max * 2;
        struct rbt_block **grown = rbt_realloc(link->lists, max, sizeof *grown);
        st = grown == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for lists of keys") : RBT_OK;
        if (grown != NULL) {
            link->lists = grown;
            link->list_max = max;
        }
    }
    if (st != RBT_OK) {
        rbt_block_unref(block);
        return st;
    }
    rbt_map_insert(&link->list_index, name, link->list_count);
    link->lists[link->list_count++] = block;
    link->list_bytes += block->bytes;
    return transmit(link, block);
}

bool rbt_link_is_flushed(const struct rbt_link *link)
{
    const bool has_work =
        link->kept != NULL || link->requests != NULL || link->state != RBT_LINK_DOWN;
    return link->state == RBT_LINK_UP ? link->is_near || rbt_channel_queued(link->channel) == 0
                                      : !has_work;
}

void rbt_link_flush(struct rbt_link *link)
{
    if (link->state == RBT_LINK_UP && !link->is_near) {
        const rbt_status flushed = rbt_channel_flush(link->channel);
        (void)flushed; /* an error shows again when it is worked on */
    }
}

/* --- Receiving ------------------------------------------------------------------------------- */

static void take_news(struct rbt_link *link, const struct rbt_wire_news *news, bool has_left)
{
    link->news.floor = news->floor > link->news.floor ? news->floor : link->news.floor;
    link->news.version = news->version > link->news.version ? news->version : link->news.version;
    link->news.arrived = news->arrived > link->news.arrived ? news->arrived : link->news.arrived;
    link->news.settled = news->settled > link->news.settled ? news->settled : link->news.settled;
    while (link->kept != NULL &&
           (link->kept->number <= link->news.arrived || (has_left && link->kept->is_leave))) {
        free_kept(link);
    }
}

/* A message has come over the network. */
static void count_received(struct rbt_link *link, const struct rbt_frame *frame)
{
    uint32_t class = RBT_TRAFFIC_OTHER;
    for (const struct rbt_link_request *r = link->requests;
         frame->kind == RBT_FRAME_ROWS && r != NULL; r = r->next) {
        if (r->id == frame->id) {
            class = r->block->class;
            break;
        }
    }
    link->traffic_received[class] += RBT_FRAME_HEADER + rbt_frame_padded(frame->length);
}

/* Takes the request with this id out of the list; NULL if there is none. */
static struct rbt_link_request *take_request(struct rbt_link *link, uint64_t id)
{
    struct rbt_link_request *before = NULL;
    for (struct rbt_link_request *r = link->requests; r != NULL; before = r, r = r->next) {
        if (r->id != id) {
            continue;
        }
        if (before == NULL) {
            link->requests = r->next;
        } else {
            before->next = r->next;
        }
        link->requests_last = link->requests_last == r ? before : link->requests_last;
        link->request_count--;
        return r;
    }
    return NULL;
}

static rbt_status receive_answer(struct rbt_link *link, const struct rbt_frame *frame,
                                 const char *body, const struct rbt_link_handler *handler)
{
    struct rbt_wire_cursor cursor = {body, body + frame->length};
    struct rbt_wire_news news;
    rbt_status st = rbt_wire_get_news(&cursor, &news); /* both kinds begin with it */
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_link_request *request = take_request(link, frame->id);
    if (request == NULL) {
        return RBT_OK; /* asked for in a run that is over: its news are, too */
    }
    take_news(link, &news, (frame->flags & RBT_FRAME_HAS_LEFT) != 0);
    if (request->id == link->probe && request->owner == NULL) {
        link->probe = 0;
    } else {
        st = handler->on_answer(handler->context, link, request, frame, body);
    }
    free_request(request);
    return st;
}

/* The shard does not want us: for good, unless it says that we may try again. If the job has failed
 * there, the reason is what it is, and not that we were refused. */
static rbt_status receive_refusal(struct rbt_link *link, const struct rbt_frame *frame,
                                  const char *body, rbt_time now)
{
    struct rbt_wire_cursor cursor = {body, body + frame->length};
    char text[RBT_WIRE_TEXT_MAX];
    if (rbt_wire_get_text(&cursor, text) != RBT_OK) {
        text[0] = '\0';
    }
    const bool is_failure = (frame->flags & RBT_FRAME_FAILURE) != 0 && frame->id > 0 &&
                            frame->id <= (uint64_t)-RBT_E_INTERRUPTED;
    const rbt_status st = is_failure
                              ? rbt_fail((rbt_status) - (int64_t)frame->id, "shard %u at %s: %s",
                                         link->options.hello.shard, link->options.address, text)
                              : rbt_fail(RBT_E_CLOSED, "shard %u at %s refused us: %s",
                                         link->options.hello.shard, link->options.address, text);
    if ((frame->flags & RBT_FRAME_TRY_AGAIN) != 0) {
        cut(link, now);
        return judge(link, now);
    }
    close_connection(link);
    return st;
}

static rbt_status receive_greeting(struct rbt_link *link, const struct rbt_frame *frame,
                                   const char *body)
{
    struct rbt_wire_cursor cursor = {body, body + frame->length};
    struct rbt_wire_news news;
    rbt_status st =
        frame->kind == RBT_FRAME_WELCOME
            ? rbt_wire_get_news(&cursor, &news)
            : rbt_fail(RBT_E_PROTOCOL, "it answers a greeting with message %u", frame->kind);
    if (st != RBT_OK) {
        return st;
    }
    take_news(link, &news, false);
    link->state = RBT_LINK_UP;
    link->up_at = link->heard_at;
    link->was_useful = false;
    st = send_again(link);
    /* A shard of this process says at once what it has against a message, and why in its answer. */
    return link->is_near && st != RBT_E_NOMEM ? RBT_OK : st;
}

/* One frame. */
static rbt_status receive_one(struct rbt_link *link, const struct rbt_frame *frame,
                              const char *body, const struct rbt_link_handler *handler)
{
    struct rbt_wire_cursor cursor = {body, body + frame->length};
    struct rbt_wire_news news;
    if (link->state == RBT_LINK_GREETING) {
        return receive_greeting(link, frame, body);
    }
    link->was_useful = true;
    switch (frame->kind) {
    case RBT_FRAME_ACK: {
        const rbt_status st = rbt_wire_get_news(&cursor, &news);
        if (st == RBT_OK) {
            take_news(link, &news, (frame->flags & RBT_FRAME_HAS_LEFT) != 0);
        }
        return st;
    }
    case RBT_FRAME_ROWS:
    case RBT_FRAME_DONE:
        return receive_answer(link, frame, body, handler);
    default:
        return rbt_fail(RBT_E_PROTOCOL, "message %u is not for a worker", frame->kind);
    }
}

/* The next frame; the block, if there is one, is to be freed when it has been looked at. */
static rbt_status next_frame(struct rbt_link *link, struct rbt_frame *frame, const char **body,
                             struct rbt_block **block)
{
    *block = NULL;
    if (!link->is_near) {
        return rbt_channel_receive(link->channel, frame, body);
    }
    const rbt_status st = rbt_inbox_take(&link->inbox, block);
    if (st != RBT_OK) {
        return st;
    }
    *body = (*block)->data + RBT_FRAME_HEADER;
    return rbt_frame_get((*block)->data, RBT_FRAME_BODY_MAX, frame);
}

/* Reads all there is. */
static rbt_status receive(struct rbt_link *link, rbt_time now,
                          const struct rbt_link_handler *handler)
{
    struct rbt_frame frame;
    const char *body = NULL;
    for (;;) { /* ends: what has come is finite, and is read once */
        struct rbt_block *block = NULL;
        rbt_status st = next_frame(link, &frame, &body, &block);
        if (st == RBT_E_BUSY) {
            return RBT_OK;
        }
        if (st == RBT_OK && !link->is_near) {
            count_received(link, &frame);
        }
        if (st == RBT_OK && frame.kind == RBT_FRAME_REFUSED) {
            st = receive_refusal(link, &frame, body, now);
            rbt_block_unref(block);
            return st;
        }
        link->heard_at = st == RBT_OK ? now : link->heard_at;
        st = st != RBT_OK ? st : receive_one(link, &frame, body, handler);
        rbt_block_unref(block);
        if (st == RBT_E_NOMEM) {
            return st;
        }
        if (st != RBT_OK) {
            cut(link, now);
            return judge(link, now);
        }
        handler->on_news(handler->context, link);
    }
}

/* --- Working --------------------------------------------------------------------------------- */

/* Whether a word is due from the shard. */
static bool is_owed(const struct rbt_link *link)
{
    return link->state == RBT_LINK_GREETING || link->requests != NULL || link->kept != NULL;
}

/* When the shard has been silent for too long: it was asked, unless it is a greeting that is due.
 * Its owner may have been busy elsewhere for hours, so what counts is the time since the question.
 */
static rbt_time silence_end(const struct rbt_link *link)
{
    const rbt_time silence_max = link->options.silence_max;
    if (link->state == RBT_LINK_GREETING) {
        return link->heard_at + silence_max;
    }
    return link->probe == 0 ? RBT_TIME_NEVER : link->probed_at + silence_max - silence_max / 4;
}

/* Asks whether the shard is still there when it has said nothing for a while, and cuts the
 * connection when it does not answer that, either. */
static rbt_status watch_silence(struct rbt_link *link, rbt_time now)
{
    const rbt_time silent = now - link->heard_at;
    if (link->is_near || !is_owed(link) || silent < link->options.silence_max / 4) {
        return RBT_OK;
    }
    if (now >= silence_end(link)) {
        (void)rbt_fail(RBT_E_TIMEOUT, "no word for %.3gs", (double)silent * 1e-9);
        cut(link, now);
        return judge(link, now); /* or it might be greeted in vain for ever */
    }
    if (link->state != RBT_LINK_UP || link->probe != 0) {
        return RBT_OK;
    }
    struct rbt_block *block = rbt_block_create(RBT_WIRE_RESET_BYTES);
    if (block == NULL) {
        return RBT_OK; /* there will be another time */
    }
    struct rbt_link_request *request = NULL;
    block->bytes = RBT_WIRE_RESET_BYTES;
    const struct rbt_frame header = {.kind = RBT_FRAME_STATS, .worker = link->options.hello.worker};
    const rbt_status st = rbt_link_ask(link, block, header, NULL, &request);
    link->probe = st == RBT_OK ? request->id : 0;
    link->probed_at = now;
    return st;
}

rbt_time rbt_link_prepare(const struct rbt_link *link, struct pollfd *poll)
{
    *poll = (struct pollfd){.fd = -1};
    switch (link->state) {
    case RBT_LINK_DOWN:
        return rbt_link_is_flushed(link) ? RBT_TIME_NEVER : link->retry_at;
    case RBT_LINK_CONNECTING:
        *poll = (struct pollfd){.fd = link->socket, .events = POLLOUT};
        return link->heard_at + link->options.cut_max;
    case RBT_LINK_GREETING:
    case RBT_LINK_UP:
        break;
    }
    if (link->is_near) {
        struct rbt_inbox *inbox = (struct rbt_inbox *)(uintptr_t)&link->inbox; /* only locked */
        *poll = (struct pollfd){.fd = link->inbox.event, .events = POLLIN};
        return rbt_inbox_is_empty(inbox) ? RBT_TIME_NEVER : 0;
    }
    poll->fd = rbt_channel_socket(link->channel);
    poll->events = rbt_channel_wants(link->channel);
    if (!is_owed(link)) {
        return RBT_TIME_NEVER;
    }
    return link->probe == 0 && link->state == RBT_LINK_UP
               ? link->heard_at + link->options.silence_max / 4
               : silence_end(link);
}

rbt_status rbt_link_work(struct rbt_link *link, rbt_time now,
                         const struct rbt_link_handler *handler)
{
    rbt_status st = RBT_OK;
    if (link->state == RBT_LINK_DOWN && now >= link->retry_at && !rbt_link_is_flushed(link)) {
        st = connect_link(link, now);
    }
    if (st == RBT_OK && link->state == RBT_LINK_CONNECTING) {
        st = finish_connecting(link, now);
    }
    if (st == RBT_OK && (link->state == RBT_LINK_UP || link->state == RBT_LINK_GREETING)) {
        st = receive(link, now, handler);
    }
    if (st == RBT_OK && (link->state == RBT_LINK_UP || link->state == RBT_LINK_GREETING)) {
        st = watch_silence(link, now);
    }
    if (st == RBT_OK && !link->is_near &&
        (link->state == RBT_LINK_UP || link->state == RBT_LINK_GREETING)) {
        const rbt_status flushed = rbt_channel_flush(link->channel);
        if (flushed != RBT_OK && flushed != RBT_E_BUSY) {
            cut(link, now);
            st = judge(link, now);
        } else if (rbt_channel_has_more(link->channel)) {
            st = receive(link, now, handler); /* flushing has read ahead: polling would not tell */
        }
    }
    return st;
}
