/* base/source.c - reads a stream of records and believes nothing of it. */
#include "base/source.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

enum { STEP_MIN = 1 << 16 }; /* bytes that are taken on trust */

void rbt_source_deinit(struct rbt_source *source)
{
    RBT_ASSERT(source->buffer == NULL || source->read != NULL);
    rbt_free(source->buffer);
    *source = (struct rbt_source){0};
}

bool rbt_source_is_good(const struct rbt_source *source)
{
    return source->status == RBT_OK;
}

void rbt_source_refuse(struct rbt_source *source, const char *reason)
{
    RBT_ASSERT(reason != NULL);
    if (source->status == RBT_OK) {
        source->status = rbt_fail(RBT_E_DATA, "the saved state cannot be read: %s", reason);
    }
    source->at = source->end;
}

/* Room for `count` bytes in the buffer. */
static bool make_room(struct rbt_source *source, size_t count)
{
    if (count <= source->capacity) {
        return true;
    }
    char *buffer = rbt_realloc(source->buffer, count, 1);
    if (buffer == NULL) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for %zu bytes of state", count);
        return false;
    }
    source->buffer = buffer;
    source->capacity = count;
    return true;
}

/* Reads so many bytes behind the first `have` of the buffer. The buffer grows with what comes, not
 * with what is said. */
static bool read_on(struct rbt_source *source, size_t have, uint64_t count)
{
    const uint64_t wanted = have + count;
    while (have < wanted && source->status == RBT_OK) { /* ends: more each time, or the end */
        const uint64_t step = 2 * (uint64_t)have + STEP_MIN;
        if (!make_room(source, (size_t)(wanted < step ? wanted : step))) {
            return false;
        }
        const uint64_t room = source->capacity < wanted ? source->capacity : wanted;
        size_t got = 0;
        source->status =
            source->read(source->context, source->buffer + have, (size_t)room - have, &got);
        RBT_ASSERT(source->status != RBT_OK || got <= room - have);
        if (source->status == RBT_OK && got == 0) {
            rbt_source_refuse(source, "it is cut off");
        }
        have += got;
    }
    return source->status == RBT_OK;
}

/* The next `count` bytes of the stream, behind `have` that were fetched together with them; where
 * all of them begin, or NULL. */
static const char *fetch(struct rbt_source *source, size_t have, uint64_t count)
{
    if (source->status != RBT_OK) {
        return NULL;
    }
    if (source->read != NULL) {
        return count <= SIZE_MAX / 4 && read_on(source, have, count) ? source->buffer : NULL;
    }
    if (count > source->count) {
        rbt_source_refuse(source, "it is cut off");
        return NULL;
    }
    const char *from = source->bytes - have;
    source->bytes += count;
    source->count -= (size_t)count;
    return from;
}

void rbt_source_begin(struct rbt_source *source, uint32_t machine, uint64_t *spec)
{
    RBT_ASSERT(source->at == NULL);
    *spec = 0;
    const char *head = fetch(source, 0, RBT_RECORD_STREAM);
    if (head == NULL) {
        return;
    }
    source->hash = rbt_hash_bytes(head, RBT_RECORD_STREAM, 0);
    source->at = head;
    source->end = head + RBT_RECORD_STREAM;
    if (rbt_source_get_u32(source) != RBT_RECORD_MAGIC) {
        rbt_source_refuse(source, "it is something else");
    } else if (rbt_source_get_u32(source) != RBT_RECORD_FORMAT) {
        rbt_source_refuse(source, "it is of another version of Rubato");
    } else if (rbt_source_get_u32(source) != machine) {
        rbt_source_refuse(source, "it is of another kind of machine");
    } else if (rbt_source_get_u32(source) != 0) {
        rbt_source_refuse(source, "its head is damaged");
    }
    *spec = rbt_source_get_u64(source);
}

/* Reads the next record, whatever it is. */
static bool next(struct rbt_source *source, struct rbt_source_record *record)
{
    const char *head = fetch(source, 0, RBT_RECORD_HEAD);
    if (head == NULL) {
        return false;
    }
    source->at = head;
    source->end = head + RBT_RECORD_HEAD;
    record->kind = rbt_source_get_u32(source);
    record->version = rbt_source_get_u32(source);
    record->bytes = rbt_source_get_u64(source);
    if (source->read == NULL && record->bytes > source->count) {
        rbt_source_refuse(source, "it is cut off");
        return false;
    }
    head = fetch(source, RBT_RECORD_HEAD, record->bytes);
    if (head == NULL) {
        rbt_source_refuse(source, "it is cut off");
        return false;
    }
    source->at = head + RBT_RECORD_HEAD;
    source->end = source->at + record->bytes;
    return true;
}

/* The record that ends it all. */
static void check_end(struct rbt_source *source, const struct rbt_source_record *record)
{
    RBT_ASSERT(record->kind == RBT_RECORD_END);
    const uint64_t hash = source->hash;
    if (record->version != 1 || rbt_source_get_u64(source) != hash) {
        rbt_source_refuse(source, "its checksum is wrong");
    }
    rbt_source_finish(source);
    if (source->read == NULL && source->count > 0) {
        rbt_source_refuse(source, "data follows its end");
    }
}

bool rbt_source_next(struct rbt_source *source, uint32_t kind_end, struct rbt_source_record *record)
{
    RBT_ASSERT(kind_end > 0 && kind_end <= RBT_RECORD_OPTIONAL);
    while (next(source, record)) { /* ends: the source does */
        const size_t size = RBT_RECORD_HEAD + (size_t)record->bytes;
        if (record->kind == RBT_RECORD_END) {
            check_end(source, record);
            return false;
        }
        source->hash = rbt_hash_bytes(source->at - RBT_RECORD_HEAD, size, source->hash);
        if (record->kind < kind_end) {
            return true;
        }
        if ((record->kind & RBT_RECORD_OPTIONAL) == 0) {
            rbt_source_refuse(source, "it has a part that this version cannot read");
            return false;
        }
    }
    return false;
}

void rbt_source_finish(struct rbt_source *source)
{
    RBT_ASSERT(source->at <= source->end);
    if (source->at != source->end) {
        rbt_source_refuse(source, "a part of it is longer than it should be");
    }
}

size_t rbt_source_left(const struct rbt_source *source)
{
    RBT_ASSERT(source->at <= source->end);
    return (size_t)(source->end - source->at);
}

const char *rbt_source_take(struct rbt_source *source, size_t count)
{
    if (count > rbt_source_left(source)) {
        rbt_source_refuse(source, "a part of it is too short");
        return NULL;
    }
    const char *from = source->at;
    source->at += count;
    return from;
}

void rbt_source_get(struct rbt_source *source, void *to, size_t count)
{
    const char *from = rbt_source_take(source, count);
    RBT_ASSERT(count == 0 || to != NULL);
    if (from == NULL) {
        memset(to, 0, count);
    } else if (count > 0) {
        memcpy(to, from, count);
    }
}

uint8_t rbt_source_get_u8(struct rbt_source *source)
{
    uint8_t value;
    rbt_source_get(source, &value, sizeof value);
    return value;
}

bool rbt_source_get_bool(struct rbt_source *source)
{
    const uint8_t value = rbt_source_get_u8(source);
    if (value > 1) {
        rbt_source_refuse(source, "yes or no is neither");
    }
    return value == 1;
}

uint32_t rbt_source_get_u32(struct rbt_source *source)
{
    uint32_t value;
    rbt_source_get(source, &value, sizeof value);
    return value;
}

uint64_t rbt_source_get_u64(struct rbt_source *source)
{
    uint64_t value;
    rbt_source_get(source, &value, sizeof value);
    return value;
}

int64_t rbt_source_get_i64(struct rbt_source *source)
{
    int64_t value;
    rbt_source_get(source, &value, sizeof value);
    return value;
}

double rbt_source_get_f64(struct rbt_source *source)
{
    double value;
    rbt_source_get(source, &value, sizeof value);
    return value;
}

uint64_t rbt_source_get_count(struct rbt_source *source, size_t each)
{
    RBT_ASSERT(each > 0);
    const uint64_t count = rbt_source_get_u64(source);
    if (count > rbt_source_left(source) / each) {
        rbt_source_refuse(source, "a part of it is too short");
        return 0;
    }
    return count;
}

uint64_t rbt_source_get_number(struct rbt_source *source)
{
    const uint64_t value = rbt_source_get_u64(source);
    if (value > INT64_MAX / 2) {
        rbt_source_refuse(source, "a number is too large");
        return 0;
    }
    return value;
}

void rbt_source_get_text(struct rbt_source *source, char *to, size_t room)
{
    RBT_ASSERT(room > 0);
    to[0] = '\0';
    const uint32_t size = rbt_source_get_u32(source);
    if (size >= room) {
        rbt_source_refuse(source, "a text is too long");
        return;
    }
    const char *from = rbt_source_take(source, size);
    if (from != NULL && memchr(from, '\0', size) != NULL) {
        rbt_source_refuse(source, "a text has a zero in it");
    } else if (from != NULL) {
        memcpy(to, from, size);
        to[size] = '\0';
    }
}
