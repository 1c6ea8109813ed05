/* base/sink.c - a stream of records in memory, or handed on one by one.
 *
 * A record says how long it is before its body, so it is put together in memory first and its
 * length filled in when it is closed. */
#include "base/sink.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers are written as they lie in memory: this needs a little-endian machine"
#endif

enum { ROOM_MIN = 256 };

void rbt_sink_deinit(struct rbt_sink *sink)
{
    RBT_ASSERT(sink->count <= sink->capacity);
    rbt_free(sink->bytes);
    *sink = (struct rbt_sink){0};
}

static bool make_room(struct rbt_sink *sink, size_t count)
{
    if (count <= sink->capacity - sink->count) {
        return true;
    }
    const size_t needed = sink->count + count;
    RBT_ASSERT(needed > count || sink->count == 0);
    size_t capacity = sink->capacity + sink->capacity / 2;
    capacity = capacity < needed ? needed : capacity;
    capacity = capacity < ROOM_MIN ? ROOM_MIN : capacity;
    char *bytes = rbt_realloc(sink->bytes, capacity, 1);
    if (bytes == NULL) {
        sink->status = rbt_fail(RBT_E_NOMEM, "no memory for %zu bytes of state", capacity);
        return false;
    }
    sink->bytes = bytes;
    sink->capacity = capacity;
    return true;
}

void rbt_sink_put(struct rbt_sink *sink, const void *bytes, size_t count)
{
    RBT_ASSERT(count == 0 || bytes != NULL);
    if (sink->status == RBT_OK && count > 0 && make_room(sink, count)) {
        memcpy(sink->bytes + sink->count, bytes, count);
        sink->count += count;
    }
    RBT_ASSERT(sink->count <= sink->capacity);
}

void rbt_sink_put_u8(struct rbt_sink *sink, uint8_t value)
{
    rbt_sink_put(sink, &value, sizeof value);
}

void rbt_sink_put_u32(struct rbt_sink *sink, uint32_t value)
{
    rbt_sink_put(sink, &value, sizeof value);
}

void rbt_sink_put_u64(struct rbt_sink *sink, uint64_t value)
{
    rbt_sink_put(sink, &value, sizeof value);
}

void rbt_sink_put_i64(struct rbt_sink *sink, int64_t value)
{
    rbt_sink_put(sink, &value, sizeof value);
}

void rbt_sink_put_f64(struct rbt_sink *sink, double value)
{
    rbt_sink_put(sink, &value, sizeof value);
}

void rbt_sink_put_text(struct rbt_sink *sink, const char *text)
{
    const size_t size = text == NULL ? 0 : strlen(text);
    RBT_ASSERT(size <= UINT32_MAX);
    rbt_sink_put_u32(sink, (uint32_t)size);
    rbt_sink_put(sink, text, size);
}

/* What was put since the last time is complete. */
static void hand_over(struct rbt_sink *sink)
{
    if (sink->status != RBT_OK) {
        return;
    }
    RBT_ASSERT(sink->record < sink->count);
    sink->hash = rbt_hash_bytes(sink->bytes + sink->record, sink->count - sink->record, sink->hash);
    if (sink->write != NULL) {
        sink->status = sink->write(sink->context, sink->bytes, sink->count);
        sink->count = 0;
    }
    sink->record = sink->count;
}

void rbt_sink_begin(struct rbt_sink *sink, uint32_t machine, uint64_t spec)
{
    RBT_ASSERT(sink->count == 0);
    RBT_ASSERT(machine != 0);
    sink->hash = 0;
    sink->record = 0;
    rbt_sink_put_u32(sink, RBT_RECORD_MAGIC);
    rbt_sink_put_u32(sink, RBT_RECORD_FORMAT);
    rbt_sink_put_u32(sink, machine);
    rbt_sink_put_u32(sink, 0);
    rbt_sink_put_u64(sink, spec);
    hand_over(sink);
}

void rbt_sink_open(struct rbt_sink *sink, uint32_t kind, uint32_t version)
{
    RBT_ASSERT(sink->status != RBT_OK || sink->count == sink->record); /* none is open */
    rbt_sink_put_u32(sink, kind);
    rbt_sink_put_u32(sink, version);
    rbt_sink_put_u64(sink, 0); /* filled in when it is closed */
}

void rbt_sink_close(struct rbt_sink *sink)
{
    if (sink->status != RBT_OK) {
        return;
    }
    RBT_ASSERT(sink->count - sink->record >= RBT_RECORD_HEAD);
    const uint64_t bytes = sink->count - sink->record - RBT_RECORD_HEAD;
    memcpy(sink->bytes + sink->record + RBT_RECORD_HEAD - sizeof bytes, &bytes, sizeof bytes);
    hand_over(sink);
}

rbt_status rbt_sink_end(struct rbt_sink *sink)
{
    const uint64_t hash = sink->hash;
    rbt_sink_open(sink, RBT_RECORD_END, 1);
    rbt_sink_put_u64(sink, hash);
    rbt_sink_close(sink);
    return sink->status;
}
