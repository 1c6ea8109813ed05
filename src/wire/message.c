/* wire/message.c - what workers and shards say to each other, as bytes and back.
 *
 * A reader first asks for the bytes of the fixed part, then takes the numbers off, then looks at
 * them. Texts end with a zero and are filled up with zeros to a multiple of 8. */
#include "wire/message.h"

#include <string.h>

#include <rubato/table.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"

enum {
    HELLO_BYTES = 32 + RBT_WIRE_SECRET,
    NEWS_BYTES = 32,
    PUSH_BYTES = RBT_WIRE_PUSH_BYTES - RBT_FRAME_HEADER,
    PULL_BYTES = RBT_WIRE_PULL_BYTES - RBT_FRAME_HEADER,
    SCAN_BYTES = RBT_WIRE_SCAN_BYTES - RBT_FRAME_HEADER,
    ANSWER_BYTES = RBT_WIRE_ANSWER_BYTES - RBT_FRAME_HEADER,
    TABLE_BYTES = 96,
    DONE_BYTES = NEWS_BYTES + 8 + 64,
    STATUS_MIN = RBT_E_INTERRUPTED,
};

/* Flags of a PULL, in the byte behind the number of workers, and of ROWS. */
enum {
    PULL_STAMP = 1,
    PULL_BASE = 2,
    PULL_AHEAD = 4,
    PULL_STABLE = 8,
    PULL_EARLY = 16,
    PULL_COPY = 32,
    PULL_FLAGS = PULL_STAMP | PULL_BASE | PULL_AHEAD | PULL_STABLE | PULL_EARLY | PULL_COPY,
    PULL_FLAGS_AT = 24, /* bits */
    ROWS_PARKED = 1,
    ROWS_STAMP = 2,
    ROWS_WITHHELD = 4,
    ROWS_COPY = 8,
    ROWS_LIMIT = 16,
    ROWS_FLAGS = ROWS_PARKED | ROWS_STAMP | ROWS_WITHHELD | ROWS_COPY | ROWS_LIMIT,
};

_Static_assert(RBT_WIRE_WORKERS_MAX < 1 << PULL_FLAGS_AT, "there is room for the flags of a PULL");

_Static_assert(RBT_FRAME_HEADER + HELLO_BYTES + 2 * RBT_NAME_MAX <= RBT_WIRE_SHORT_MAX,
               "HELLO is short");
_Static_assert(RBT_FRAME_HEADER + DONE_BYTES + TABLE_BYTES + RBT_NAME_MAX + 3 * RBT_TEXT_MAX +
                       RBT_WIRE_TEXT_MAX <=
                   RBT_WIRE_SHORT_MAX,
               "DONE is short");

bool rbt_wire_is_secret(const struct rbt_wire_secret *a, const struct rbt_wire_secret *b)
{
    volatile unsigned char difference = 0; /* volatile: so that the loop is not ended early */
    for (size_t i = 0; i < sizeof a->bytes; i++) {
        difference = (unsigned char)(difference | (a->bytes[i] ^ b->bytes[i]));
    }
    return difference == 0;
}

/* --- Writing --------------------------------------------------------------------------------- */

/* What does not fit into `size_max` bytes with the zero is cut off. */
static void put_text(char **to, const char *text, size_t size_max)
{
    RBT_ASSERT(text != NULL);
    RBT_ASSERT(size_max % RBT_FRAME_ALIGN == 0);
    const size_t length = strnlen(text, size_max - 1);
    const size_t padded = rbt_frame_padded(length + 1);
    RBT_ASSERT(padded <= size_max);
    memcpy(*to, text, length);
    memset(*to + length, 0, padded - length);
    *to += padded;
}

static void put_news(char **to, const struct rbt_wire_news *news)
{
    const char *start = *to;
    rbt_bytes_put_u64(to, (uint64_t)news->floor);
    rbt_bytes_put_u64(to, news->version);
    rbt_bytes_put_u64(to, news->arrived);
    rbt_bytes_put_u64(to, news->settled);
    RBT_ASSERT(*to == start + NEWS_BYTES);
}

static size_t written(const char *to, const char *at)
{
    const size_t size = (size_t)(at - to);
    RBT_ASSERT(at >= to + RBT_FRAME_HEADER);
    RBT_ASSERT(size % RBT_FRAME_ALIGN == 0);
    return size;
}

size_t rbt_wire_put_hello(char *to, const struct rbt_wire_hello *hello)
{
    RBT_ASSERT(hello->worker == RBT_FRAME_NOBODY || hello->worker < RBT_WIRE_WORKERS_MAX);
    RBT_ASSERT(hello->worker_count <= RBT_WIRE_WORKERS_MAX);
    char *at = to + RBT_FRAME_HEADER;
    rbt_bytes_put_u64(&at, hello->cluster);
    rbt_bytes_put_u64(&at, hello->job);
    rbt_bytes_put_u32(&at, hello->worker);
    rbt_bytes_put_u32(&at, hello->worker_count);
    rbt_bytes_put_u32(&at, hello->shard);
    rbt_bytes_put_u32(&at, (uint32_t)hello->is_reader | (uint32_t)hello->compression << 8);
    memcpy(at, hello->secret.bytes, sizeof hello->secret.bytes);
    at += sizeof hello->secret.bytes;
    RBT_ASSERT(at == to + RBT_FRAME_HEADER + HELLO_BYTES);
    put_text(&at, hello->space, RBT_NAME_MAX);
    put_text(&at, hello->node, RBT_NAME_MAX);
    return written(to, at);
}

size_t rbt_wire_put_welcome(char *to, const struct rbt_wire_news *news)
{
    RBT_ASSERT(to != NULL);
    char *at = to + RBT_FRAME_HEADER;
    put_news(&at, news);
    RBT_ASSERT(at == to + RBT_WIRE_ACK_BYTES); /* the two are the same */
    return written(to, at);
}

size_t rbt_wire_put_refused(char *to, const char *text)
{
    RBT_ASSERT(to != NULL);
    char *at = to + RBT_FRAME_HEADER;
    put_text(&at, text, RBT_WIRE_TEXT_MAX);
    return written(to, at);
}

size_t rbt_wire_put_push(char *to, const struct rbt_wire_push *push)
{
    RBT_ASSERT(push->clock >= 0);
    RBT_ASSERT(push->marker >= -1);
    RBT_ASSERT(push->range_first <= push->range_last);
    RBT_ASSERT(push->batch_count <= RBT_WIRE_BATCHES_MAX);
    char *at = to + RBT_FRAME_HEADER;
    rbt_bytes_put_u64(&at, (uint64_t)push->clock);
    rbt_bytes_put_u64(&at, (uint64_t)push->marker);
    rbt_bytes_put_u64(&at, push->range_first);
    rbt_bytes_put_u64(&at, push->range_last);
    rbt_bytes_put_u32(&at, push->batch_count);
    rbt_bytes_put_u32(&at, 0);
    RBT_ASSERT(at == to + RBT_WIRE_PUSH_BYTES);
    return written(to, at);
}

size_t rbt_wire_put_pull(char *to, const struct rbt_wire_pull *pull)
{
    RBT_ASSERT(pull->applied_count <= RBT_WIRE_WORKERS_MAX);
    RBT_ASSERT(pull->applied_first <= RBT_WIRE_WORKERS_MAX - pull->applied_count);
    const uint32_t flags = (pull->wants_stamp ? PULL_STAMP : 0U) |
                           (pull->is_base ? PULL_BASE : 0U) | (pull->is_ahead ? PULL_AHEAD : 0U) |
                           (pull->is_stable ? PULL_STABLE : 0U) |
                           (pull->is_early ? PULL_EARLY : 0U) | (pull->has_copy ? PULL_COPY : 0U);
    char *at = to + RBT_FRAME_HEADER;
    rbt_bytes_put_u64(&at, (uint64_t)pull->need);
    rbt_bytes_put_u64(&at, pull->subscription);
    rbt_bytes_put_u32(&at, pull->applied_first);
    rbt_bytes_put_u32(&at, pull->applied_count | flags << PULL_FLAGS_AT);
    RBT_ASSERT(at == to + RBT_WIRE_PULL_BYTES);
    if (pull->is_base) {
        rbt_bytes_put_u64(&at, pull->least);
        rbt_bytes_put_u64(&at, pull->sequence);
    }
    if (pull->is_stable) {
        rbt_bytes_put_u64(&at, pull->stable);
    }
    if (pull->is_early) {
        rbt_bytes_put_u32(&at, pull->room);
        rbt_bytes_put_u32(&at, 0);
    }
    if (pull->has_copy) {
        rbt_bytes_put_u64(&at, pull->copy);
    }
    return written(to, at);
}

size_t rbt_wire_put_scan(char *to, const struct rbt_wire_scan *scan)
{
    RBT_ASSERT(scan->range_first <= scan->range_last);
    char *at = to + RBT_FRAME_HEADER;
    rbt_bytes_put_u64(&at, (uint64_t)scan->need);
    rbt_bytes_put_u64(&at, scan->range_first);
    rbt_bytes_put_u64(&at, scan->range_last);
    rbt_bytes_put_u64(&at, scan->capacity);
    rbt_bytes_put_u32(&at, scan->table);
    rbt_bytes_put_u32(&at, 0);
    RBT_ASSERT(at == to + RBT_WIRE_SCAN_BYTES);
    return written(to, at);
}

size_t rbt_wire_put_answer(char *to, const struct rbt_wire_answer *answer)
{
    RBT_ASSERT(answer->applied_count <= RBT_WIRE_WORKERS_MAX);
    RBT_ASSERT(answer->applied_count == 0 || answer->applied != NULL);
    const uint32_t flags =
        (answer->was_parked ? ROWS_PARKED : 0U) | (answer->has_stamp ? ROWS_STAMP : 0U) |
        (answer->is_withheld ? ROWS_WITHHELD : 0U) | (answer->has_copy ? ROWS_COPY : 0U) |
        (answer->has_limit ? ROWS_LIMIT : 0U);
    char *at = to + RBT_FRAME_HEADER;
    put_news(&at, &answer->news);
    rbt_bytes_put_u64(&at, answer->scan_count);
    rbt_bytes_put_u32(&at, answer->applied_count);
    rbt_bytes_put_u32(&at, flags);
    RBT_ASSERT(at == to + RBT_WIRE_ANSWER_BYTES);
    if (answer->has_stamp) {
        rbt_bytes_put_u64(&at, answer->stamp);
    }
    if (answer->has_copy) {
        rbt_bytes_put_u64(&at, answer->copy_base);
        rbt_bytes_put_u64(&at, answer->copy);
    }
    if (answer->has_limit) {
        rbt_bytes_put_u64(&at, answer->limit);
    }
    if (answer->applied_count > 0) {
        rbt_bytes_put(&at, answer->applied, answer->applied_count * sizeof *answer->applied);
    }
    return written(to, at);
}

size_t rbt_wire_put_ack(char *to, const struct rbt_wire_news *news)
{
    const size_t size = rbt_wire_put_welcome(to, news);
    RBT_ASSERT(size == RBT_WIRE_ACK_BYTES);
    return size;
}

static void put_field(char **to, const struct rbt_spec_field *field, const char *at)
{
    const bool is_flag = field->sort == RBT_SPEC_FLAG;
    RBT_ASSERT(field->sort != RBT_SPEC_CHOICE ||
               *(const uint32_t *)(const void *)at <= field->limit);
    RBT_ASSERT(field->sort != RBT_SPEC_BOUND || *(const int64_t *)(const void *)at >= -1);
    RBT_ASSERT(field->sort != RBT_SPEC_TEXT || memchr(at, 0, field->size) != NULL);
    if (field->sort == RBT_SPEC_TEXT) {
        put_text(to, at, field->size);
    } else if (is_flag || field->sort == RBT_SPEC_NOTHING) {
        rbt_bytes_put_u32(to, is_flag && *(const bool *)at);
    } else {
        rbt_bytes_put(to, at, field->size);
    }
}

static void put_table(char **to, const struct rbt_spec *table)
{
    const char *start = *to;
    for (size_t i = 0; i < RBT_SPEC_FIELDS; i++) {
        const struct rbt_spec_field *field = &rbt_spec_fields[i];
        RBT_ASSERT(field->sort != RBT_SPEC_TEXT || *to >= start + TABLE_BYTES);
        put_field(to, field, (const char *)table + field->at);
    }
    RBT_ASSERT(*to > start + TABLE_BYTES);
}

size_t rbt_wire_put_table(char *to, const struct rbt_spec *table)
{
    RBT_ASSERT(table != NULL);
    char *at = to + RBT_FRAME_HEADER;
    put_table(&at, table);
    return written(to, at);
}

size_t rbt_wire_put_done(char *to, const struct rbt_wire_done *done)
{
    RBT_ASSERT(done->status <= RBT_OK);
    RBT_ASSERT(done->status >= STATUS_MIN);
    char *at = to + RBT_FRAME_HEADER;
    put_news(&at, &done->news);
    rbt_bytes_put_u32(&at, (uint32_t)done->status);
    rbt_bytes_put_u32(&at, 0);
    rbt_bytes_put(&at, done->figures, sizeof done->figures);
    RBT_ASSERT(at == to + RBT_FRAME_HEADER + DONE_BYTES);
    put_table(&at, &done->table);
    put_text(&at, done->text, RBT_WIRE_TEXT_MAX);
    return written(to, at);
}

void rbt_wire_close(char *frame, struct rbt_frame header, size_t bytes)
{
    RBT_ASSERT(bytes >= RBT_FRAME_HEADER);
    RBT_ASSERT(bytes - RBT_FRAME_HEADER <= RBT_FRAME_BODY_MAX);
    RBT_ASSERT(bytes % RBT_FRAME_ALIGN == 0);
    header.length = (uint32_t)(bytes - RBT_FRAME_HEADER);
    rbt_frame_put(frame, &header);
}

/* --- Reading --------------------------------------------------------------------------------- */

/* Whether so many bytes are left. */
static rbt_status need(const struct rbt_wire_cursor *from, size_t bytes, const char *kind)
{
    RBT_ASSERT(from->at <= from->end);
    const size_t left = (size_t)(from->end - from->at);
    if (left < bytes) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent a %s that ends too early", kind);
    }
    return RBT_OK;
}

static rbt_status wrong(const char *kind, const char *what)
{
    RBT_ASSERT(kind != NULL);
    RBT_ASSERT(what != NULL);
    return rbt_fail(RBT_E_PROTOCOL, "the peer sent a %s with %s", kind, what);
}

/* A text of at most `size_max` bytes with its zero. */
static rbt_status get_text(struct rbt_wire_cursor *from, char *text, size_t size_max)
{
    RBT_ASSERT(from->at <= from->end);
    RBT_ASSERT(size_max % RBT_FRAME_ALIGN == 0);
    const size_t left = (size_t)(from->end - from->at);
    const char *zero = memchr(from->at, 0, left < size_max ? left : size_max);
    if (zero == NULL) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent a text that does not end");
    }
    const size_t size = (size_t)(zero - from->at) + 1;
    const size_t padded = rbt_frame_padded(size);
    if (padded > left) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent a text that ends too early");
    }
    for (size_t i = size; i < padded; i++) {
        if (from->at[i] != 0) {
            return rbt_fail(RBT_E_PROTOCOL, "the peer sent a text with something behind its end");
        }
    }
    memcpy(text, from->at, size);
    from->at += padded;
    RBT_ASSERT(from->at <= from->end);
    RBT_ASSERT(text[size - 1] == 0);
    return RBT_OK;
}

rbt_status rbt_wire_get_text(struct rbt_wire_cursor *from, char text[static RBT_WIRE_TEXT_MAX])
{
    RBT_ASSERT(text != NULL);
    return get_text(from, text, RBT_WIRE_TEXT_MAX);
}

rbt_status rbt_wire_get_end(const struct rbt_wire_cursor *from)
{
    RBT_ASSERT(from->at <= from->end);
    if (from->at != from->end) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent a message with something behind its end");
    }
    return RBT_OK;
}

static struct rbt_wire_news take_news(const char **at)
{
    struct rbt_wire_news news = {.floor = (int64_t)rbt_bytes_get_u64(at)};
    news.version = rbt_bytes_get_u64(at);
    news.arrived = rbt_bytes_get_u64(at);
    news.settled = rbt_bytes_get_u64(at);
    return news;
}

rbt_status rbt_wire_get_news(struct rbt_wire_cursor *from, struct rbt_wire_news *news)
{
    const rbt_status st = need(from, NEWS_BYTES, "greeting or acknowledgement");
    if (st != RBT_OK) {
        return st;
    }
    RBT_ASSERT(news != NULL);
    *news = take_news(&from->at);
    RBT_ASSERT(from->at <= from->end);
    return RBT_OK;
}

rbt_status rbt_wire_get_hello(struct rbt_wire_cursor *from, struct rbt_wire_hello *hello)
{
    rbt_status st = need(from, HELLO_BYTES, "HELLO");
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_wire_cursor cursor = *from;
    struct rbt_wire_hello read = {.cluster = rbt_bytes_get_u64(&cursor.at)};
    read.job = rbt_bytes_get_u64(&cursor.at);
    read.worker = rbt_bytes_get_u32(&cursor.at);
    read.worker_count = rbt_bytes_get_u32(&cursor.at);
    read.shard = rbt_bytes_get_u32(&cursor.at);
    const uint32_t flags = rbt_bytes_get_u32(&cursor.at);
    read.is_reader = (flags & 1) != 0;
    read.compression = (enum rbt_compression)(flags >> 8);
    memcpy(read.secret.bytes, cursor.at, sizeof read.secret.bytes);
    cursor.at += sizeof read.secret.bytes;
    RBT_ASSERT(cursor.at == from->at + HELLO_BYTES);
    if (read.worker_count > RBT_WIRE_WORKERS_MAX) {
        return wrong("HELLO", "too many workers");
    }
    if (read.worker != RBT_FRAME_NOBODY && read.worker >= RBT_WIRE_WORKERS_MAX) {
        return wrong("HELLO", "a worker out of range");
    }
    if ((flags & 0xfe) != 0 || flags >> 8 > RBT_COMPRESSION_ZSTD) {
        return wrong("HELLO", "flags that mean nothing");
    }
    st = get_text(&cursor, read.space, sizeof read.space);
    if (st == RBT_OK) {
        st = get_text(&cursor, read.node, sizeof read.node);
    }
    if (st != RBT_OK) {
        return st;
    }
    RBT_ASSERT(read.worker_count <= RBT_WIRE_WORKERS_MAX);
    RBT_ASSERT(cursor.at <= from->end);
    *hello = read;
    *from = cursor;
    return RBT_OK;
}

rbt_status rbt_wire_get_push(struct rbt_wire_cursor *from, struct rbt_wire_push *push)
{
    const rbt_status st = need(from, PUSH_BYTES, "PUSH");
    if (st != RBT_OK) {
        return st;
    }
    const char *at = from->at;
    struct rbt_wire_push read = {.clock = (int64_t)rbt_bytes_get_u64(&at)};
    read.marker = (int64_t)rbt_bytes_get_u64(&at);
    read.range_first = rbt_bytes_get_u64(&at);
    read.range_last = rbt_bytes_get_u64(&at);
    read.batch_count = rbt_bytes_get_u32(&at);
    const uint32_t zero = rbt_bytes_get_u32(&at);
    RBT_ASSERT(at == from->at + PUSH_BYTES);
    if (read.clock < 0 || read.marker < -1) {
        return wrong("PUSH", "a clock below 0");
    }
    if (read.range_first > read.range_last) {
        return wrong("PUSH", "a range that ends before it begins");
    }
    if (read.batch_count > RBT_WIRE_BATCHES_MAX ||
        read.batch_count > (size_t)(from->end - at) / RBT_WIRE_ROWS_BYTES) {
        return wrong("PUSH", "more batches than it can hold");
    }
    if (zero != 0) {
        return wrong("PUSH", "bytes that mean nothing");
    }
    RBT_ASSERT(read.batch_count <= RBT_WIRE_BATCHES_MAX);
    RBT_ASSERT(read.range_first <= read.range_last);
    *push = read;
    from->at = at;
    return RBT_OK;
}

rbt_status rbt_wire_get_pull(struct rbt_wire_cursor *from, struct rbt_wire_pull *pull)
{
    const rbt_status st = need(from, PULL_BYTES, "PULL");
    if (st != RBT_OK) {
        return st;
    }
    const char *at = from->at;
    struct rbt_wire_pull read = {.need = (int64_t)rbt_bytes_get_u64(&at)};
    read.subscription = rbt_bytes_get_u64(&at);
    read.applied_first = rbt_bytes_get_u32(&at);
    const uint32_t counted = rbt_bytes_get_u32(&at);
    const uint32_t flags = counted >> PULL_FLAGS_AT;
    read.applied_count = counted & ((1U << PULL_FLAGS_AT) - 1);
    read.wants_stamp = (flags & PULL_STAMP) != 0;
    read.is_base = (flags & PULL_BASE) != 0;
    read.is_ahead = (flags & PULL_AHEAD) != 0;
    read.is_stable = (flags & PULL_STABLE) != 0;
    read.is_early = (flags & PULL_EARLY) != 0;
    read.has_copy = (flags & PULL_COPY) != 0;
    RBT_ASSERT(at == from->at + PULL_BYTES);
    if (read.applied_first > RBT_WIRE_WORKERS_MAX ||
        read.applied_count > RBT_WIRE_WORKERS_MAX - read.applied_first) {
        return wrong("PULL", "workers out of range");
    }
    if ((flags & ~(uint32_t)PULL_FLAGS) != 0) {
        return wrong("PULL", "flags that mean nothing");
    }
    const int more =
        (read.is_base ? RBT_WIRE_PULL_BASE : 0) + (read.is_stable ? RBT_WIRE_PULL_STABLE : 0) +
        (read.is_early ? RBT_WIRE_PULL_EARLY : 0) + (read.has_copy ? RBT_WIRE_PULL_COPY : 0);
    if (from->end - at < more) {
        return wrong("PULL", "too few bytes");
    }
    if (read.is_base) {
        read.least = rbt_bytes_get_u64(&at);
        read.sequence = rbt_bytes_get_u64(&at);
    }
    read.stable = read.is_stable ? rbt_bytes_get_u64(&at) : 0;
    read.room = read.is_early ? rbt_bytes_get_u32(&at) : 0;
    if (read.is_early && rbt_bytes_get_u32(&at) != 0) {
        return wrong("PULL", "bytes that mean nothing");
    }
    read.copy = read.has_copy ? rbt_bytes_get_u64(&at) : 0;
    RBT_ASSERT(read.applied_first <= RBT_WIRE_WORKERS_MAX - read.applied_count);
    *pull = read;
    from->at = at;
    return RBT_OK;
}

rbt_status rbt_wire_get_scan(struct rbt_wire_cursor *from, struct rbt_wire_scan *scan)
{
    const rbt_status st = need(from, SCAN_BYTES, "SCAN");
    if (st != RBT_OK) {
        return st;
    }
    const char *at = from->at;
    struct rbt_wire_scan read = {.need = (int64_t)rbt_bytes_get_u64(&at)};
    read.range_first = rbt_bytes_get_u64(&at);
    read.range_last = rbt_bytes_get_u64(&at);
    read.capacity = rbt_bytes_get_u64(&at);
    read.table = rbt_bytes_get_u32(&at);
    const uint32_t zero = rbt_bytes_get_u32(&at);
    RBT_ASSERT(at == from->at + SCAN_BYTES);
    if (read.range_first > read.range_last) {
        return wrong("SCAN", "a range that ends before it begins");
    }
    if (zero != 0) {
        return wrong("SCAN", "bytes that mean nothing");
    }
    RBT_ASSERT(read.range_first <= read.range_last);
    *scan = read;
    from->at = at;
    return RBT_OK;
}

rbt_status rbt_wire_get_answer(struct rbt_wire_cursor *from, struct rbt_wire_answer *answer)
{
    const rbt_status st = need(from, ANSWER_BYTES, "ROWS");
    if (st != RBT_OK) {
        return st;
    }
    const char *at = from->at;
    struct rbt_wire_answer read = {.news = take_news(&at)};
    read.scan_count = rbt_bytes_get_u64(&at);
    read.applied_count = rbt_bytes_get_u32(&at);
    const uint32_t flags = rbt_bytes_get_u32(&at);
    read.was_parked = (flags & ROWS_PARKED) != 0;
    read.has_stamp = (flags & ROWS_STAMP) != 0;
    read.is_withheld = (flags & ROWS_WITHHELD) != 0;
    read.has_copy = (flags & ROWS_COPY) != 0;
    read.has_limit = (flags & ROWS_LIMIT) != 0;
    RBT_ASSERT(at == from->at + ANSWER_BYTES);
    RBT_ASSERT((uintptr_t)at % RBT_FRAME_ALIGN == 0);
    if ((flags & ~(uint32_t)ROWS_FLAGS) != 0) {
        return wrong("ROWS", "flags that mean nothing");
    }
    const int more = (read.has_stamp ? RBT_WIRE_ANSWER_STAMP : 0) +
                     (read.has_copy ? RBT_WIRE_ANSWER_COPY : 0) +
                     (read.has_limit ? RBT_WIRE_ANSWER_LIMIT : 0);
    if (from->end - at < more) {
        return wrong("ROWS", "too few bytes");
    }
    read.stamp = read.has_stamp ? rbt_bytes_get_u64(&at) : 0;
    read.copy_base = read.has_copy ? rbt_bytes_get_u64(&at) : 0;
    read.copy = read.has_copy ? rbt_bytes_get_u64(&at) : 0;
    read.limit = read.has_limit ? rbt_bytes_get_u64(&at) : 0;
    if (read.applied_count > RBT_WIRE_WORKERS_MAX ||
        read.applied_count > (size_t)(from->end - at) / sizeof(uint64_t)) {
        return wrong("ROWS", "more workers than it can hold");
    }
    read.applied = (const uint64_t *)(const void *)at;
    *answer = read;
    from->at = at + read.applied_count * sizeof(uint64_t);
    RBT_ASSERT(from->at <= from->end);
    return RBT_OK;
}

static rbt_status get_field(struct rbt_wire_cursor *from, const struct rbt_spec_field *field,
                            char *to)
{
    RBT_ASSERT(from->at <= from->end);
    if (field->sort == RBT_SPEC_TEXT) {
        return get_text(from, to, field->size);
    }
    if (field->size == sizeof(int64_t)) {
        int64_t bound = 0;
        memcpy(&bound, from->at, sizeof bound);
        rbt_bytes_get(&from->at, to, sizeof bound);
        const bool is_below = field->sort == RBT_SPEC_BOUND && bound < RBT_STALENESS_ANY;
        return is_below ? wrong("TABLE", "a staleness below 0") : RBT_OK;
    }
    const uint32_t number = rbt_bytes_get_u32(&from->at);
    if (field->sort == RBT_SPEC_CHOICE && number > field->limit) {
        return wrong("TABLE", "a kind that does not exist");
    }
    if (field->sort == RBT_SPEC_FLAG || field->sort == RBT_SPEC_NOTHING) {
        if (number > (field->sort == RBT_SPEC_FLAG ? 1 : 0)) {
            return wrong("TABLE", "bytes that mean nothing");
        }
    }
    memcpy(to, &number, field->size); /* of a flag, the low byte */
    return RBT_OK;
}

/* A reader's TABLE, and the DONE of another message, leave most fields zero: that is in range. */
static rbt_status get_table(struct rbt_wire_cursor *from, struct rbt_spec *table)
{
    rbt_status st = need(from, TABLE_BYTES, "TABLE"); /* all but the texts */
    struct rbt_wire_cursor cursor = *from;
    struct rbt_spec read = {0};
    for (size_t i = 0; st == RBT_OK && i < RBT_SPEC_FIELDS; i++) {
        const struct rbt_spec_field *field = &rbt_spec_fields[i];
        RBT_ASSERT(field->sort != RBT_SPEC_TEXT || cursor.at >= from->at + TABLE_BYTES);
        st = get_field(&cursor, field, (char *)&read + field->at);
    }
    if (st != RBT_OK) {
        return st;
    }
    RBT_ASSERT(cursor.at <= from->end);
    *table = read;
    *from = cursor;
    return RBT_OK;
}

rbt_status rbt_wire_get_table(struct rbt_wire_cursor *from, struct rbt_spec *table)
{
    RBT_ASSERT(table != NULL);
    return get_table(from, table);
}

rbt_status rbt_wire_get_done(struct rbt_wire_cursor *from, struct rbt_wire_done *done)
{
    rbt_status st = need(from, DONE_BYTES, "DONE");
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_wire_cursor cursor = *from;
    const struct rbt_wire_news news = take_news(&cursor.at);
    const int32_t status = (int32_t)rbt_bytes_get_u32(&cursor.at);
    const uint32_t zero = rbt_bytes_get_u32(&cursor.at);
    if (status > RBT_OK || status < STATUS_MIN || zero != 0) {
        return wrong("DONE", "a status that does not exist");
    }
    struct rbt_wire_done read = {.news = news, .status = status};
    rbt_bytes_get(&cursor.at, read.figures, sizeof read.figures);
    RBT_ASSERT(cursor.at == from->at + DONE_BYTES);
    st = get_table(&cursor, &read.table);
    if (st == RBT_OK) {
        st = rbt_wire_get_text(&cursor, read.text);
    }
    if (st != RBT_OK) {
        return st;
    }
    RBT_ASSERT(read.status <= RBT_OK);
    RBT_ASSERT(cursor.at <= from->end);
    *done = read;
    *from = cursor;
    return RBT_OK;
}
