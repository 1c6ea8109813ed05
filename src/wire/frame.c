/* wire/frame.c - the header in front of every message.
 *
 *      0  4  "RBTO"
 *      4  2  version; it and the four bytes above stay where they are in every version
 *      6  2  kind
 *      8  2  flags
 *     10  2  zero
 *     12  4  length of the body
 *     16  4  worker
 *     20  4  zero
 *     24  8  id */
#include "wire/frame.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"

static const char MAGIC[4] = {'R', 'B', 'T', 'O'};

void rbt_frame_put(char *to, const struct rbt_frame *frame)
{
    RBT_ASSERT(frame->kind != 0);
    RBT_ASSERT(frame->length % RBT_FRAME_ALIGN == 0);
    RBT_ASSERT(frame->length <= RBT_FRAME_BODY_MAX);
    char *at = to;
    rbt_bytes_put(&at, MAGIC, sizeof MAGIC);
    rbt_bytes_put_u16(&at, RBT_WIRE_VERSION);
    rbt_bytes_put_u16(&at, frame->kind);
    rbt_bytes_put_u16(&at, frame->flags);
    rbt_bytes_put_u16(&at, 0);
    rbt_bytes_put_u32(&at, frame->length);
    rbt_bytes_put_u32(&at, frame->worker);
    rbt_bytes_put_u32(&at, 0);
    rbt_bytes_put_u64(&at, frame->id);
    RBT_ASSERT(at == to + RBT_FRAME_HEADER);
}

rbt_status rbt_frame_get(const char *from, uint32_t length_max, struct rbt_frame *frame)
{
    RBT_ASSERT(length_max <= RBT_FRAME_BODY_MAX);
    const char *at = from + sizeof MAGIC;
    if (memcmp(from, MAGIC, sizeof MAGIC) != 0) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer does not speak Rubato's protocol");
    }
    const uint16_t version = rbt_bytes_get_u16(&at);
    if (version != RBT_WIRE_VERSION) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "the peer speaks version %u of the protocol, this is version %u", version,
                        (unsigned)RBT_WIRE_VERSION);
    }
    struct rbt_frame read = {.kind = rbt_bytes_get_u16(&at)};
    read.flags = rbt_bytes_get_u16(&at);
    uint32_t zeros = rbt_bytes_get_u16(&at);
    read.length = rbt_bytes_get_u32(&at);
    read.worker = rbt_bytes_get_u32(&at);
    zeros |= rbt_bytes_get_u32(&at);
    read.id = rbt_bytes_get_u64(&at);
    RBT_ASSERT(at == from + RBT_FRAME_HEADER);
    if (read.kind == 0 || zeros != 0) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent a header with bytes that mean nothing");
    }
    if (read.length % RBT_FRAME_ALIGN != 0) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "the peer sent a message of %u bytes, which is not a multiple of %u",
                        read.length, (unsigned)RBT_FRAME_ALIGN);
    }
    if (read.length > length_max) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent a message of %u bytes; at most %u may come",
                        read.length, length_max);
    }
    *frame = read;
    return RBT_OK;
}
