/* wire/frame.c - the header in front of every message. A stand-in until branch wire is merged. */
#include "wire/frame.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

#define MAGIC UINT32_C(0x00746272)

void rbt_frame_put(char *to, const struct rbt_frame *frame)
{
    RBT_ASSERT(frame->length % RBT_FRAME_ALIGN == 0);
    const uint32_t magic = MAGIC;
    const uint16_t version = RBT_WIRE_VERSION;
    memset(to, 0, RBT_FRAME_HEADER);
    memcpy(to, &magic, 4);
    memcpy(to + 4, &version, 2);
    memcpy(to + 6, &frame->kind, 2);
    memcpy(to + 8, &frame->flags, 2);
    memcpy(to + 12, &frame->length, 4);
    memcpy(to + 16, &frame->worker, 4);
    memcpy(to + 24, &frame->id, 8);
}

rbt_status rbt_frame_get(const char *from, uint32_t length_max, struct rbt_frame *frame)
{
    uint32_t magic = 0;
    uint16_t version = 0;
    struct rbt_frame got = {0};
    memcpy(&magic, from, 4);
    memcpy(&version, from + 4, 2);
    memcpy(&got.kind, from + 6, 2);
    memcpy(&got.flags, from + 8, 2);
    memcpy(&got.length, from + 12, 4);
    memcpy(&got.worker, from + 16, 4);
    memcpy(&got.id, from + 24, 8);
    if (magic != MAGIC) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer does not speak Rubato's protocol");
    }
    if (version != RBT_WIRE_VERSION) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer speaks version %u, we speak %u", version,
                        RBT_WIRE_VERSION);
    }
    if (got.length % RBT_FRAME_ALIGN != 0 || got.length > length_max) {
        return rbt_fail(RBT_E_PROTOCOL, "a message of %u bytes is not allowed", got.length);
    }
    RBT_ASSERT(got.length <= length_max);
    *frame = got;
    return RBT_OK;
}
