/* test/fuzz/channel_fuzz.c - a channel survives whatever comes over its socket, in whatever pieces.
 *
 * Half of the inputs are the bytes themselves; the other half make frames that are mostly right,
 * short and long, some of which are put where the receiver wants them. What comes out is what was
 * sent, up to the first mistake; nothing is read behind its end, and nothing leaks. */
#include <sys/socket.h>
#include <unistd.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/recipe.h"
#include "net/channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROOM = 1 << 17, PLACE_MAX = 1 << 16, BODY_MAX = 1 << 16, FRAMES = 12 };

static _Alignas(8) char stream[ROOM];

struct receiver {
    rbt_channel *channel;
    char *place; /* as large as was promised, so that a sanitizer guards its end */
    size_t place_bytes;
    bool wants_place;
    uint64_t frames;
};

static bool choose_place(void *context, const struct rbt_frame *frame,
                         struct rbt_frame_place *place)
{
    struct receiver *receiver = context;
    const size_t prefix = 16;
    if (!receiver->wants_place || frame->length < prefix + 8) {
        return false;
    }
    rbt_free(receiver->place);
    receiver->place_bytes = frame->length - prefix;
    receiver->place = rbt_alloc(receiver->place_bytes);
    RBT_ASSERT(receiver->place != NULL && receiver->place_bytes <= PLACE_MAX);
    *place = (struct rbt_frame_place){prefix, receiver->place, receiver->place_bytes};
    return true;
}

/* Takes what is there. Returns false when the connection is over. */
static bool receive(struct receiver *receiver)
{
    struct rbt_frame frame;
    const char *body = NULL;
    for (;;) {
        const rbt_status st = rbt_channel_receive(receiver->channel, &frame, &body);
        if (st == RBT_E_BUSY) {
            return true;
        }
        if (st != RBT_OK) {
            RBT_ASSERT(rbt_last_error()[0] != '\0');
            return false;
        }
        RBT_ASSERT(frame.length <= BODY_MAX);
        volatile char sum = 0; /* everything that is handed out can be read */
        const size_t given = receiver->place != NULL ? 16 : frame.length;
        for (size_t i = 0; i < given && i < frame.length; i++) {
            sum = (char)(sum ^ body[i]);
        }
        rbt_free(receiver->place);
        receiver->place = NULL;
        receiver->frames++;
    }
}

/* Frames that are right, but for some damage. Returns the bytes. */
static size_t write_frames(struct recipe *recipe)
{
    size_t used = 0;
    for (int i = 0; i < FRAMES; i++) {
        const size_t body = recipe_once_in(recipe, 4) ? (size_t)recipe_below(recipe, BODY_MAX / 8)
                                                      : (size_t)recipe_below(recipe, 16);
        const struct rbt_frame frame = {.kind = (uint16_t)(1 + recipe_below(recipe, 60)),
                                        .length = (uint32_t)(body * 8),
                                        .worker = (uint32_t)recipe_below(recipe, 4),
                                        .id = recipe_below(recipe, 100)};
        if (used + RBT_FRAME_HEADER + frame.length > ROOM) {
            break;
        }
        rbt_frame_put(stream + used, &frame);
        memset(stream + used + RBT_FRAME_HEADER, i, frame.length);
        used += RBT_FRAME_HEADER + frame.length;
        if (recipe_once_in(recipe, 12)) {
            recipe_damage(recipe, stream + used - RBT_FRAME_HEADER - frame.length,
                          RBT_FRAME_HEADER);
        }
    }
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct recipe recipe = recipe_begin(data, size);
    int sockets[2];
    RBT_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
    size_t bytes = size < ROOM ? size : ROOM;
    if (size > 0 && data[0] % 2 == 0) {
        memcpy(stream, data, bytes);
    } else {
        bytes = write_frames(&recipe);
    }
    struct receiver receiver = {.wants_place = recipe_once_in(&recipe, 2)};
    const struct rbt_channel_options options = {.is_server = true, .body_max = BODY_MAX};
    RBT_ASSERT(rbt_channel_open(sockets[0], &options, &receiver.channel) == RBT_OK);
    rbt_channel_on_long(receiver.channel, choose_place, &receiver);
    bool is_open = true;
    for (size_t at = 0; is_open && at < bytes;) {
        const size_t piece = 1 + (size_t)recipe_below(&recipe, bytes - at);
        const ssize_t sent = send(sockets[1], stream + at, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        at += sent > 0 ? (size_t)sent : 0;
        is_open = receive(&receiver);
    }
    (void)close(sockets[1]); /* and the channel sees the end */
    RBT_ASSERT(!is_open || !receive(&receiver));
    rbt_channel_close(receiver.channel);
    rbt_free(receiver.place);
    rbt_block_trim();
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
