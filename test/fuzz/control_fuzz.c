/* test/fuzz/control_fuzz.c - the readers of the coordinator's messages survive any bytes.
 *
 * The first byte says which message the others are read as; or an input is messages
 * (fuzz/script.h), as a simulation has sent them. What is accepted must be written as the same
 * bytes again. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/script.h"
#include "wire/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KINDS = 8, SHARDS = 32, PARTS = 32, ROOM = 1 << 16 };

static _Alignas(8) char again[ROOM];
static char names[SHARDS][RBT_NAME_MAX];
static const char *name_list[SHARDS];

/* What was read becomes what can be written. False if there are too many for this test. */
static bool take_shards(struct rbt_control_shards *shards)
{
    if (shards->count > SHARDS) {
        return false;
    }
    for (uint32_t i = 0; i < shards->count; i++) {
        rbt_control_next_shard(shards, names[i]);
        name_list[i] = names[i];
    }
    shards->texts = name_list;
    return true;
}

static void check_same(struct rbt_wire_cursor body, size_t bytes)
{
    const size_t length = (size_t)(body.end - body.at);
    RBT_ASSERT(bytes == RBT_FRAME_HEADER + length);
    RBT_ASSERT(memcmp(again + RBT_FRAME_HEADER, body.at, length) == 0);
}

static void read_list(struct rbt_wire_cursor body, bool is_join)
{
    struct rbt_control_join join;
    struct rbt_control_plan plan;
    if (is_join && rbt_control_get_join(body, &join) == RBT_OK && take_shards(&join.shards)) {
        check_same(body, rbt_control_put_join(again, &join));
    }
    if (!is_join && rbt_control_get_plan(body, &plan) == RBT_OK && take_shards(&plan.shards)) {
        check_same(body, rbt_control_put_plan(again, &plan));
    }
}

static void read_parts(struct rbt_wire_cursor body)
{
    struct rbt_control_part parts[PARTS];
    struct rbt_wire_cursor list;
    uint32_t count;
    if (rbt_control_get_gathered(body, &list, &count) != RBT_OK || count > PARTS) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        rbt_control_next_part(&list, &parts[i]);
    }
    check_same(body, rbt_control_put_gathered(again, 1, parts, count));
}

static void read_body(uint8_t kind, struct rbt_wire_cursor body)
{
    struct rbt_control_part part;
    struct rbt_control_ending ending;
    struct rbt_control_version version;
    struct rbt_control_job job;
    struct rbt_control_bound bound;
    switch (kind % KINDS) {
    case 0:
    case 1:
        read_list(body, kind % KINDS == 0);
        break;
    case 2:
        if (rbt_control_get_gather(body, &part) == RBT_OK) {
            check_same(body, rbt_control_put_gather(again, 1, &part));
        }
        break;
    case 3:
        read_parts(body);
        break;
    case 4:
        if (rbt_control_get_bound(body, &bound) == RBT_OK) {
            check_same(body, rbt_control_put_bound(again, 1, &bound));
        } else if (rbt_control_get_taken(body, &bound.job) == RBT_OK) {
            check_same(body, rbt_control_put_taken(again, 1, bound.job));
        }
        break;
    case 6:
        if (rbt_control_get_version(body, &version) == RBT_OK) {
            check_same(body, rbt_control_put_version(again, RBT_FRAME_STABLE, 1, &version));
        }
        break;
    case 7:
        if (rbt_control_get_job(body, &job) == RBT_OK) {
            check_same(body, rbt_control_put_job(again, 1, &job));
        }
        break;
    default:
        if (rbt_control_get_ending(body, &ending) == RBT_OK) {
            check_same(body,
                       rbt_control_put_ending(again, RBT_FRAME_FAILED, ending.status, ending.text));
        }
        break;
    }
}

static void read_input(struct script script)
{
    static const uint8_t kinds[] = {
        [RBT_FRAME_JOIN] = 0,     [RBT_FRAME_PLAN] = 1,    [RBT_FRAME_GATHER] = 2,
        [RBT_FRAME_GATHERED] = 3, [RBT_FRAME_BOUND] = 4,   [RBT_FRAME_BOUND_TAKEN] = 4,
        [RBT_FRAME_FAILED] = 5,   [RBT_FRAME_GOODBYE] = 5, [RBT_FRAME_VERSION] = 6,
        [RBT_FRAME_STABLE] = 6,   [RBT_FRAME_JOB] = 7};
    struct script_frame frame;
    while (script_next_frame(&script, &frame)) {
        const uint16_t kind = frame.head.kind;
        read_body(kind < sizeof kinds ? kinds[kind] : 0, script_body(&frame));
        script_drop_frame(&frame);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > ROOM / 2) {
        return 0;
    }
    if (script_is_frames(data, size)) {
        read_input(script_begin(data, size));
        return 0;
    }
    char *bytes = rbt_calloc(size - 1, 1); /* ends where the message does: a sanitizer watches */
    if (bytes != NULL) {
        memcpy(bytes, data + 1, size - 1);
        read_body(data[0], (struct rbt_wire_cursor){.at = bytes, .end = bytes + (size - 1)});
        rbt_free(bytes);
    }
    return 0;
}
