/* fuzz/script.h - an input as what happens to a machine: messages, and whatever else, in order.
 *
 * Where the input has the beginning of a message (wire/frame.h), it is one, header included, as
 * long as it says or as the input is; every other byte is a number that the target draws. So a
 * message that a simulation has sent is an input as it is, and messages one after the other are a
 * conversation (test/sim/frames.h); bytes between them are other events. When the input has come to
 * its end, numbers come from a generator. */
#ifndef RUBATO_FUZZ_SCRIPT_H
#define RUBATO_FUZZ_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"
#include "wire/message.h"

enum {
    SCRIPT_PORT = 0x80
}; /* an event of at least this: what follows is about port (event - it) */

struct script {
    const uint8_t *at;
    size_t left;
    struct rbt_rng rng;
};

static inline struct script script_begin(const uint8_t *bytes, size_t size)
{
    struct script script = {.at = bytes, .left = size};
    rbt_rng_init(&script.rng, size > 0 ? bytes[0] : 0, size, 0);
    return script;
}

/* Bounds above 256 are reached by the generator only. */
static inline uint64_t script_below(struct script *script, uint64_t bound)
{
    uint64_t number = 0;
    if (script->left > 0) {
        number = *script->at++;
        script->left--;
    } else {
        number = rbt_rng_next(&script->rng);
    }
    return number % bound;
}

/* True once in so many times. */
static inline bool script_once_in(struct script *script, uint64_t times)
{
    return script_below(script, times) == 0;
}

static inline bool script_has_frame(const struct script *script)
{
    return script->left >= RBT_FRAME_HEADER && memcmp(script->at, "RBTO", 4) == 0;
}

/* Whether the input is messages: it begins with one, or with the choice of a port and then one. For
 * targets that take something else, too. */
static inline bool script_is_frames(const uint8_t *bytes, size_t size)
{
    struct script script = {.at = bytes, .left = size};
    if (size > 0 && bytes[0] >= SCRIPT_PORT) {
        script.at++;
        script.left--;
    }
    return script_has_frame(&script);
}

/* A message of the input. */
struct script_frame {
    bool is_broken; /* its header is not right: a channel would say so, and there is no body */
    struct rbt_frame head;
    char *body; /* a block that ends where it does, so that a sanitizer guards its end */
};

static inline struct script_frame script_take_frame(struct script *script)
{
    struct script_frame frame = {0};
    _Alignas(8) char header[RBT_FRAME_HEADER];
    memcpy(header, script->at, sizeof header);
    script->at += sizeof header;
    script->left -= sizeof header;
    frame.is_broken = rbt_frame_get(header, RBT_FRAME_BODY_MAX, &frame.head) != RBT_OK;
    if (frame.is_broken) {
        return frame;
    }
    if (frame.head.length > script->left) {
        frame.head.length = (uint32_t)(script->left / RBT_FRAME_ALIGN * RBT_FRAME_ALIGN);
    }
    frame.body = rbt_calloc(frame.head.length, 1);
    RBT_ASSERT(frame.body != NULL);
    memcpy(frame.body, script->at, frame.head.length);
    script->at += frame.head.length;
    script->left -= frame.head.length;
    return frame;
}

/* A message that the target has made, as one of the input; damaged in so many places. */
static inline struct script_frame script_make_frame(struct script *script, const char *message,
                                                    uint64_t damages)
{
    struct script_frame frame = {0};
    RBT_ASSERT(rbt_frame_get(message, RBT_FRAME_BODY_MAX, &frame.head) == RBT_OK);
    frame.body = rbt_calloc(frame.head.length, 1);
    RBT_ASSERT(frame.body != NULL);
    memcpy(frame.body, message + RBT_FRAME_HEADER, frame.head.length);
    for (; damages > 0; damages--) {
        const uint64_t number = (UINT64_C(1) << script_below(script, 64)) + script_below(script, 3);
        const uint64_t how = script_below(script, 8);
        const size_t words = frame.head.length / RBT_FRAME_ALIGN;
        if (how == 0) {
            frame.head.id = number - 1;
        } else if (how == 1) {
            frame.head.worker = (uint32_t)(number - 1);
        } else if (how == 2) {
            frame.head.length = (uint32_t)(script_below(script, words + 1) * RBT_FRAME_ALIGN);
        } else if (how == 3) {
            frame.head.kind = (uint16_t)(1 + script_below(script, RBT_FRAME_BOUND_TAKEN));
        } else if (words > 0 && how < 6) {
            char *at = frame.body + script_below(script, words) * RBT_FRAME_ALIGN;
            const uint64_t value = number - 1;
            memcpy(at + (how == 4 ? 4 * script_below(script, 2) : 0), &value, how == 4 ? 4 : 8);
        } else if (words > 0) {
            char *at = frame.body + script_below(script, words) * RBT_FRAME_ALIGN;
            at += script_below(script, RBT_FRAME_ALIGN);
            *at = (char)script_below(script, 256);
        }
    }
    return frame;
}

static inline struct rbt_wire_cursor script_body(const struct script_frame *frame)
{
    RBT_ASSERT(!frame->is_broken);
    return (struct rbt_wire_cursor){frame->body, frame->body + frame->head.length};
}

static inline void script_drop_frame(struct script_frame *frame)
{
    rbt_free(frame->body);
    frame->body = NULL;
}

/* Takes the next message whose header is right, whatever comes before it. False: there is none. */
static inline bool script_next_frame(struct script *script, struct script_frame *frame)
{
    while (script->left > 0) {
        if (!script_has_frame(script)) {
            script->at++;
            script->left--;
            continue;
        }
        *frame = script_take_frame(script);
        if (!frame->is_broken) {
            return true;
        }
    }
    return false;
}

#endif
