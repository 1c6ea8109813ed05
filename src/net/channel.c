/* net/channel.c - frames over a socket.
 *
 * Out: a ring of blocks; one system call takes up to 64 of them.
 *
 * In: one buffer that is filled with as few system calls as possible. A frame that is whole is
 * looked at where it lies. A frame that is not, and is long, moves into a block of its own size,
 * `large`, and what is missing is read directly into that; the same call reads a little of what
 * follows into the buffer, but only a little, because it may have to be moved, too.
 *
 *     buffer: | taken | frame | frame | part of a frame | room |
 *                     begin                             end
 *
 * Invariants:
 * (1) `begin` is a multiple of 8, because all frames are: bodies are aligned.
 * (2) While a long frame is coming, the buffer is empty until the frame is complete.
 * (3) Nothing of a TLS connection is looked at before its handshake is done.
 *
 * A read that gets less than there was room for has emptied the socket: the next call says
 * RBT_E_BUSY without asking the kernel again (`is_dry`). Polling is level-triggered, so nothing is
 * missed.
 *
 * Only receiving reads from the socket. A flush that went on with the handshake of TLS could take
 * the peer's first message out of the socket along with it, and who polls would never hear of that.
 *
 * A write that fails does not end reading: what the peer said before it closed the connection, most
 * likely why, is still there to be read.
 *
 * Threads: a channel belongs to one thread. */
#include "net/channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/tls.h"

enum {
    BUFFER_SIZE = 256 * 1024,
    LONG_MIN = 32 * 1024,            /* frames from this size on get a block of their own */
    PREFETCH_SIZE = 4096,            /* read behind a long frame */
    SPARE_MAX = 64 * 1024 * 1024,    /* a longer block is not kept for the next long frame */
    SPARE_AGE_MAX = 4096,            /* frames without use for it until it is given back */
    WRITE_BLOCKS = 64,               /* in one system call */
    WRITE_PIECES = 2 * WRITE_BLOCKS, /* a block may have a tail elsewhere */
    QUEUE_MIN = 16,                  /* a power of two */
    ROOMS_MAX = 3,                   /* places that one read can fill */
};

struct rbt_channel {
    int socket;
    bool is_ready;
    uint32_t body_max;
    rbt_tls *tls;                  /* or NULL */
    rbt_status status;             /* of the whole channel */
    rbt_status out_status;         /* of its sending half */
    struct rbt_error_record error; /* the sentence for both */
    /* Out. */
    struct rbt_block **queue; /* a ring */
    size_t queue_capacity;    /* a power of two */
    size_t queue_first;
    size_t queue_count;
    size_t first_sent; /* bytes of the first block that are gone */
    size_t queued;     /* bytes that are not */
    /* In. */
    struct rbt_block *buffer;
    size_t begin;
    size_t end;
    bool is_dry;             /* the last read has emptied the socket */
    bool is_idle;            /* the last call said that there was no whole frame */
    struct rbt_block *large; /* the long frame that is coming or was handed out, or a spare one */
    struct rbt_frame large_frame;
    size_t large_size; /* with the header; 0: none is coming */
    size_t large_got;
    size_t large_here; /* how much of it goes into the block; the rest goes to the place */
    struct rbt_frame_place place;
    bool (*on_long)(void *context, const struct rbt_frame *frame, struct rbt_frame_place *place);
    void *on_long_context;
    uint32_t spare_age;
    struct rbt_channel_stats stats;
};

/* Remembers the failure just recorded: it is the answer to all further calls. */
static rbt_status keep(rbt_channel *channel, rbt_status st)
{
    RBT_ASSERT(st != RBT_OK && st != RBT_E_BUSY);
    rbt_error_save(&channel->error);
    channel->status = st;
    return st;
}

static rbt_status repeat(const rbt_channel *channel, rbt_status st)
{
    rbt_error_restore(&channel->error);
    return st;
}

/* Why nothing can be sent. Who is trusted but speaks otherwise than we do can still be told so. */
static rbt_status out_failure(const rbt_channel *channel)
{
    const bool is_understood = channel->status == RBT_E_PROTOCOL && channel->is_ready;
    return channel->status == RBT_OK || is_understood ? channel->out_status : channel->status;
}

rbt_status rbt_channel_open(int socket, const struct rbt_channel_options *options,
                            rbt_channel **channel)
{
    RBT_ASSERT(socket >= 0);
    rbt_channel *created = rbt_calloc(1, sizeof *created);
    if (created == NULL) {
        (void)close(socket);
        return rbt_fail(RBT_E_NOMEM, "could not open a connection: out of memory");
    }
    created->socket = socket;
    created->body_max = options->body_max;
    created->is_ready = options->security == NULL;
    created->buffer = rbt_block_create(BUFFER_SIZE);
    created->queue = rbt_calloc(QUEUE_MIN, sizeof(struct rbt_block *));
    created->queue_capacity = QUEUE_MIN;
    rbt_status st = RBT_OK;
    if (created->buffer == NULL || created->queue == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "could not open a connection: out of memory");
    }
    if (st == RBT_OK && options->security != NULL) {
        st = rbt_tls_open(options->security, socket, options->is_server, &created->tls);
    }
    if (st != RBT_OK) {
        rbt_channel_close(created);
        return st;
    }
    if (created->tls != NULL && !options->is_server) {
        st = rbt_tls_handshake(created->tls); /* the client speaks first */
        if (st != RBT_OK && st != RBT_E_BUSY) {
            (void)keep(created, st); /* for the first call */
        }
    }
    *channel = created;
    return RBT_OK;
}

static void drop_queue(rbt_channel *channel)
{
    for (size_t i = 0; i < channel->queue_count; i++) {
        const size_t at = (channel->queue_first + i) & (channel->queue_capacity - 1);
        rbt_block_unref(channel->queue[at]);
    }
    channel->queue_count = 0;
    channel->first_sent = 0;
    channel->queued = 0;
}

void rbt_channel_close(rbt_channel *channel)
{
    if (channel == NULL) {
        return;
    }
    if (channel->queue != NULL) {
        drop_queue(channel);
    }
    rbt_tls_close(channel->tls);
    (void)close(channel->socket);
    rbt_block_unref(channel->large);
    rbt_block_unref(channel->buffer);
    rbt_free(channel->queue);
    rbt_free(channel);
}

void rbt_channel_set_body_max(rbt_channel *channel, uint32_t body_max)
{
    channel->body_max = body_max;
}

int rbt_channel_socket(const rbt_channel *channel)
{
    return channel->socket;
}

static size_t unsent(const rbt_channel *channel)
{
    return channel->tls != NULL ? rbt_tls_unsent(channel->tls) : 0;
}

short rbt_channel_wants(const rbt_channel *channel)
{
    const bool can_send = out_failure(channel) == RBT_OK;
    const bool has_bytes = unsent(channel) > 0 || (channel->is_ready && channel->queued > 0);
    return can_send && has_bytes ? POLLIN | POLLOUT : POLLIN;
}

bool rbt_channel_is_ready(const rbt_channel *channel)
{
    return channel->is_ready;
}

static rbt_status shake_hands(rbt_channel *channel)
{
    const rbt_status st = rbt_tls_handshake(channel->tls);
    if (st == RBT_OK) {
        channel->is_ready = true;
    }
    return st == RBT_OK || st == RBT_E_BUSY ? st : keep(channel, st);
}

/* Before the first frame, bytes of TLS are easily told apart from ours; better to say so. */
static bool looks_like_tls(const rbt_channel *channel)
{
    enum { ALERT = 0x15, HANDSHAKE = 0x16, MAJOR = 3 };
    const unsigned char *bytes = (const unsigned char *)channel->buffer->data;
    return channel->tls == NULL && channel->stats.frames_received == 0 && channel->begin == 0 &&
           channel->end >= 2 && (bytes[0] == ALERT || bytes[0] == HANDSHAKE) && bytes[1] == MAJOR;
}

static rbt_status fail_frame(const rbt_channel *channel, rbt_status st)
{
    if (looks_like_tls(channel)) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "the peer requires a cluster key, but this process has none");
    }
    return st;
}

static rbt_status fail_closed(const rbt_channel *channel)
{
    const bool is_inside = channel->large_size > 0 || channel->end > channel->begin;
    if (looks_like_tls(channel)) {
        return fail_frame(channel, RBT_E_PROTOCOL);
    }
    return rbt_fail(RBT_E_CLOSED, "the peer closed the connection%s",
                    is_inside ? " in the middle of a message" : "");
}

static rbt_status fail_socket(const char *what)
{
    if (errno == EPIPE || errno == ECONNRESET) {
        return rbt_fail(RBT_E_CLOSED, "the peer closed the connection");
    }
    return rbt_fail(RBT_E_IO, "could not %s the peer", what);
}

void rbt_channel_on_long(rbt_channel *channel,
                         bool (*callback)(void *context, const struct rbt_frame *frame,
                                          struct rbt_frame_place *place),
                         void *context)
{
    channel->on_long = callback;
    channel->on_long_context = context;
}

/* How much of a long frame goes into a block; the rest has a place of its own. */
static size_t find_place(rbt_channel *channel, const struct rbt_frame *frame)
{
    const size_t size = RBT_FRAME_HEADER + (size_t)frame->length;
    channel->place = (struct rbt_frame_place){0};
    if (channel->on_long == NULL ||
        !channel->on_long(channel->on_long_context, frame, &channel->place)) {
        channel->place = (struct rbt_frame_place){0}; /* whatever it has written there */
        return size;
    }
    RBT_ASSERT(channel->place.prefix + channel->place.bytes == frame->length);
    return size - channel->place.bytes;
}

/* Moves the frame that begins in the buffer into a block of its own, or to its place. */
static rbt_status begin_long(rbt_channel *channel, const struct rbt_frame *frame)
{
    const size_t size = RBT_FRAME_HEADER + (size_t)frame->length;
    const size_t here = channel->end - channel->begin;
    const size_t kept = find_place(channel, frame);
    RBT_ASSERT(here < size);
    if (channel->large != NULL && channel->large->capacity < kept) {
        rbt_block_unref(channel->large);
        channel->large = NULL;
    }
    if (channel->large == NULL) {
        channel->large = rbt_block_create(kept);
        if (channel->large == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not receive a message of %zu bytes: out of memory",
                            size);
        }
    }
    if (kept >= channel->large->capacity / 4) {
        channel->spare_age = 0; /* else it is too large for what comes now */
    }
    const char *data = channel->buffer->data + channel->begin;
    const size_t first = here < kept ? here : kept;
    memcpy(channel->large->data, data, first);
    if (here > first) {
        memcpy(channel->place.to, data + first, here - first);
    }
    channel->large_frame = *frame;
    channel->large_size = size;
    channel->large_here = kept;
    channel->large_got = here;
    channel->begin = 0;
    channel->end = 0;
    return RBT_OK;
}

/* What was handed out before is the channel's again. */
static void reclaim(rbt_channel *channel)
{
    if (channel->large != NULL && channel->large_size == 0 &&
        (channel->large->capacity > SPARE_MAX || channel->spare_age > SPARE_AGE_MAX)) {
        rbt_block_unref(channel->large);
        channel->large = NULL;
    }
    channel->spare_age++;
}

static void hand_out_long(rbt_channel *channel, struct rbt_frame *frame, const char **body)
{
    *frame = channel->large_frame;
    *body = channel->large->data + RBT_FRAME_HEADER;
    channel->large_size = 0;
    channel->place = (struct rbt_frame_place){0};
    channel->stats.frames_received++;
}

/* The next frame if the buffer has all of it, else RBT_E_BUSY and the buffer has room for more. */
static rbt_status take_short(rbt_channel *channel, struct rbt_frame *frame, const char **body)
{
    const size_t here = channel->end - channel->begin;
    const char *data = channel->buffer->data + channel->begin;
    if (here >= RBT_FRAME_HEADER) {
        struct rbt_frame next;
        const rbt_status st = rbt_frame_get(data, channel->body_max, &next);
        if (st != RBT_OK) {
            return fail_frame(channel, st);
        }
        const size_t size = RBT_FRAME_HEADER + (size_t)next.length;
        if (size <= here) {
            channel->begin += size;
            channel->stats.frames_received++;
            *frame = next;
            *body = data + RBT_FRAME_HEADER;
            return RBT_OK;
        }
        if (size >= LONG_MIN) {
            const rbt_status begun = begin_long(channel, &next);
            return begun == RBT_OK ? RBT_E_BUSY : begun;
        }
    }
    if (channel->begin > 0) {
        memmove(channel->buffer->data, data, here);
        channel->begin = 0;
        channel->end = here;
    }
    return RBT_E_BUSY;
}

/* Where the next bytes go: the long frame that is coming, in up to two parts, then the buffer. */
static size_t list_room(const rbt_channel *channel, struct iovec room[static ROOMS_MAX])
{
    const size_t free_size = channel->buffer->capacity - channel->end;
    struct iovec rest = {.iov_base = channel->buffer->data + channel->end, .iov_len = free_size};
    RBT_ASSERT(free_size > 0);
    if (channel->large_size == 0) {
        room[0] = rest;
        return 1;
    }
    RBT_ASSERT(channel->end == 0); /* (2) */
    rest.iov_len = PREFETCH_SIZE;
    size_t count = 0;
    if (channel->large_got < channel->large_here) {
        room[count++] = (struct iovec){.iov_base = channel->large->data + channel->large_got,
                                       .iov_len = channel->large_here - channel->large_got};
    }
    if (channel->place.bytes > 0) {
        const size_t placed =
            channel->large_got > channel->large_here ? channel->large_got - channel->large_here : 0;
        room[count++] = (struct iovec){.iov_base = (char *)channel->place.to + placed,
                                       .iov_len = channel->place.bytes - placed};
    }
    room[count++] = rest;
    return count;
}

static void note_read(rbt_channel *channel, size_t size)
{
    channel->stats.bytes_received += size;
    if (channel->large_size > 0) {
        const size_t missing = channel->large_size - channel->large_got;
        const size_t to_large = size < missing ? size : missing;
        channel->large_got += to_large;
        size -= to_large;
    }
    channel->end += size;
    RBT_ASSERT(channel->end <= channel->buffer->capacity);
}

static rbt_status fill_plain(rbt_channel *channel)
{
    struct iovec room[ROOMS_MAX];
    const size_t count = list_room(channel, room);
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        wanted += room[i].iov_len;
    }
    channel->stats.reads++;
    const ssize_t got = readv(channel->socket, room, (int)count);
    if (got > 0) {
        note_read(channel, (size_t)got);
        channel->is_dry = (size_t)got < wanted;
        return RBT_OK;
    }
    if (got == 0 || errno == ECONNRESET) { /* what came before may be the reason */
        return fail_closed(channel);
    }
    return errno == EAGAIN || errno == EINTR ? RBT_E_BUSY : fail_socket("read from");
}

/* TLS gives a record at a time: this fills the first of the places, the buffer or the long frame.
 * It must go on until TLS has nothing more, or who polls would not hear of it. */
static rbt_status fill_tls(rbt_channel *channel)
{
    struct iovec room[ROOMS_MAX];
    (void)list_room(channel, room); /* there is always one */
    size_t filled = 0;
    rbt_status st = RBT_OK;
    while (st == RBT_OK && filled < room[0].iov_len) {
        size_t got = 0;
        st = rbt_tls_read(channel->tls, (char *)room[0].iov_base + filled, room[0].iov_len - filled,
                          &got);
        filled += st == RBT_OK ? got : 0;
    }
    note_read(channel, filled);
    if (filled > 0) {
        channel->is_dry = st == RBT_E_BUSY;
        return RBT_OK; /* an error comes again */
    }
    return st == RBT_E_CLOSED ? fail_closed(channel) : st;
}

/* The next frame; RBT_E_BUSY once the socket is empty. */
static rbt_status receive(rbt_channel *channel, struct rbt_frame *frame, const char **body)
{
    for (;;) { /* ends with a frame, or when the socket is empty */
        rbt_status st = RBT_E_BUSY;
        if (channel->large_size == 0) {
            st = take_short(channel, frame, body);
        } else if (channel->large_got == channel->large_size) {
            hand_out_long(channel, frame, body);
            st = RBT_OK;
        }
        if (st != RBT_E_BUSY || channel->is_dry) {
            channel->is_dry = channel->is_dry && st == RBT_OK;
            return st;
        }
        st = channel->tls != NULL ? fill_tls(channel) : fill_plain(channel);
        if (st != RBT_OK) {
            return st;
        }
    }
}

rbt_status rbt_channel_receive(rbt_channel *channel, struct rbt_frame *frame, const char **body)
{
    if (channel->status != RBT_OK) {
        return repeat(channel, channel->status);
    }
    rbt_status st = channel->is_ready ? RBT_OK : shake_hands(channel);
    if (st != RBT_OK) {
        return st;
    }
    reclaim(channel);
    st = receive(channel, frame, body);
    channel->is_idle = st == RBT_E_BUSY;
    return st == RBT_OK || st == RBT_E_BUSY ? st : keep(channel, st);
}

bool rbt_channel_has_more(const rbt_channel *channel)
{
    if (channel->status != RBT_OK || !channel->is_ready) {
        return false;
    }
    if (channel->large_size > 0) {
        return channel->large_got == channel->large_size;
    }
    const size_t here = channel->end - channel->begin;
    if (here >= RBT_FRAME_HEADER) {
        struct rbt_frame next;
        const char *data = channel->buffer->data + channel->begin;
        if (rbt_frame_get(data, channel->body_max, &next) != RBT_OK ||
            RBT_FRAME_HEADER + (size_t)next.length <= here) {
            return true; /* a frame, or a mistake to be reported */
        }
    }
    return channel->tls != NULL && !channel->is_idle && rbt_tls_has_pending(channel->tls);
}

/* How many frames the block holds; it holds nothing else. */
static uint64_t count_frames(const struct rbt_block *block)
{
    uint64_t count = 0;
    for (size_t at = 0; at < block->bytes; count++) {
        struct rbt_frame frame;
        RBT_ASSERT(block->bytes - at >= RBT_FRAME_HEADER);
        const rbt_status st = rbt_frame_get(block->data + at, RBT_FRAME_BODY_MAX, &frame);
        RBT_ASSERT(st == RBT_OK);
        at += RBT_FRAME_HEADER + (size_t)frame.length;
        RBT_ASSERT(at <= block->bytes);
    }
    return count;
}

static bool grow_queue(rbt_channel *channel)
{
    const size_t capacity = channel->queue_capacity * 2;
    struct rbt_block **queue = rbt_calloc(capacity, sizeof(struct rbt_block *));
    if (queue == NULL) {
        return false;
    }
    for (size_t i = 0; i < channel->queue_count; i++) {
        queue[i] = channel->queue[(channel->queue_first + i) & (channel->queue_capacity - 1)];
    }
    rbt_free(channel->queue);
    channel->queue = queue;
    channel->queue_capacity = capacity;
    channel->queue_first = 0;
    return true;
}

rbt_status rbt_channel_send(rbt_channel *channel, struct rbt_block *block)
{
    RBT_ASSERT(block->bytes > 0);
    if (out_failure(channel) != RBT_OK) {
        return repeat(channel, out_failure(channel));
    }
    if (channel->queue_count == channel->queue_capacity && !grow_queue(channel)) {
        return rbt_fail(RBT_E_NOMEM, "could not send a message: out of memory");
    }
    const size_t at = channel->queue_first + channel->queue_count;
    rbt_block_ref(block);
    channel->queue[at & (channel->queue_capacity - 1)] = block;
    channel->queue_count++;
    channel->queued += block->bytes;
    channel->stats.frames_sent += count_frames(block);
    return RBT_OK;
}

static size_t list_blocks(const rbt_channel *channel, struct iovec pieces[static WRITE_PIECES])
{
    size_t count = 0;
    for (size_t i = 0; i < channel->queue_count && i < WRITE_BLOCKS; i++) {
        struct rbt_block *block =
            channel->queue[(channel->queue_first + i) & (channel->queue_capacity - 1)];
        const size_t gone = i == 0 ? channel->first_sent : 0;
        const size_t here = block->tail == NULL ? block->bytes : block->tail_at;
        if (gone < here) {
            pieces[count++] =
                (struct iovec){.iov_base = block->data + gone, .iov_len = here - gone};
        }
        if (here < block->bytes) {
            const size_t past = gone > here ? gone - here : 0;
            pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)(block->tail + past),
                                             .iov_len = block->bytes - here - past};
        }
    }
    return count;
}

static void note_sent(rbt_channel *channel, size_t size)
{
    RBT_ASSERT(size <= channel->queued);
    channel->stats.bytes_sent += size;
    channel->queued -= size;
    channel->first_sent += size;
    while (channel->queue_count > 0) {
        struct rbt_block *block = channel->queue[channel->queue_first];
        if (channel->first_sent < block->bytes) {
            block->sent = channel->first_sent;
            return;
        }
        block->sent = block->bytes;
        channel->first_sent -= block->bytes;
        channel->queue_first = (channel->queue_first + 1) & (channel->queue_capacity - 1);
        channel->queue_count--;
        rbt_block_unref(block);
    }
}

/* One system call. RBT_E_BUSY when the socket has not taken all. */
static rbt_status write_plain(rbt_channel *channel, struct iovec *pieces, size_t count)
{
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        wanted += pieces[i].iov_len;
    }
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    channel->stats.writes++;
    const ssize_t sent = sendmsg(channel->socket, &message, MSG_NOSIGNAL);
    if (sent >= 0) {
        note_sent(channel, (size_t)sent);
        return (size_t)sent < wanted ? RBT_E_BUSY : RBT_OK;
    }
    return errno == EAGAIN || errno == EINTR ? RBT_E_BUSY : fail_socket("write to");
}

static rbt_status write_tls(rbt_channel *channel, const struct iovec *pieces, size_t count)
{
    size_t taken = 0;
    const rbt_status st = rbt_tls_write(channel->tls, pieces, count, &taken);
    note_sent(channel, taken);
    return st;
}

rbt_status rbt_channel_flush(rbt_channel *channel)
{
    if (out_failure(channel) != RBT_OK) {
        return repeat(channel, out_failure(channel));
    }
    rbt_status st = RBT_OK;
    if (!channel->is_ready) {
        st = write_tls(channel, NULL, 0); /* only what the handshake has to say */
        st = st == RBT_OK && channel->queued > 0 ? RBT_E_BUSY : st;
    } else {
        channel->is_dry = false; /* who writes has polled since, or waits for an answer */
    }
    while (st == RBT_OK && rbt_channel_queued(channel) > 0) {
        struct iovec pieces[WRITE_PIECES];
        const size_t count = list_blocks(channel, pieces);
        st = channel->tls != NULL ? write_tls(channel, pieces, count)
                                  : write_plain(channel, pieces, count);
    }
    if (st != RBT_OK && st != RBT_E_BUSY) {
        rbt_error_save(&channel->error);
        channel->out_status = st;
        drop_queue(channel);
    }
    return st;
}

size_t rbt_channel_queued(const rbt_channel *channel)
{
    return channel->queued + unsent(channel);
}

void rbt_channel_stats(const rbt_channel *channel, struct rbt_channel_stats *stats)
{
    *stats = channel->stats;
    if (channel->tls != NULL) {
        stats->reads = rbt_tls_reads(channel->tls);
        stats->writes = rbt_tls_writes(channel->tls);
    }
}
