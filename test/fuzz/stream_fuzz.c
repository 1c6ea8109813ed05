/* test/fuzz/stream_fuzz.c - the worker's side of a connection survives whatever a shard answers.
 *
 * An input is a recipe for a conversation: a stream that sends updates and requests, and a peer
 * that welcomes, acknowledges, answers, refuses, hangs up, and damages some of what it says.
 * Answers are taken apart and put where they were wanted, in blocks whose ends a sanitizer guards.
 * The stream may give up with a sentence; nothing may break an assertion or leak. */
#include <string.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "fuzz/recipe.h"
#include "proto/answer.h"
#include "proto/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)

enum { STEPS = 60, KEYS = 12, WIDTH = 3, ROOM = 1 << 14, ELEMENTS_MAX = 1 << 12 };
enum asked_for { PULL, SPARSE, EARLY, SCAN, STATS, KINDS };

struct talk {
    struct recipe recipe;
    struct rbt_stream stream;
    struct rbt_outbox out;
    bool is_wanted; /* a connection is */
    bool is_open;
    rbt_time now;
    uint64_t number; /* of the last update */
    uint64_t last_id;
};

static _Alignas(8) char message[ROOM];
static struct rbt_driver_call purposes[KINDS]; /* a request's purpose says what was asked for */

/* --- The worker ------------------------------------------------------------------------------ */

static void see_elements(void *context, const uint32_t *index, const void *values, size_t count)
{
    volatile uint32_t sum = 0;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        sum = sum + index[i] + ((const uint32_t *)values)[i];
        RBT_ASSERT(index[i] < WIDTH * 100);
    }
}

/* Puts an answer where it was wanted. */
static rbt_status take(enum asked_for kind, const struct rbt_answer *answer)
{
    struct rbt_packing packing = {0};
    const struct rbt_caller_entry table = {
        .spec = {.layout = kind == SPARSE ? RBT_SPARSE : RBT_DENSE,
                 .width = kind == SPARSE ? WIDTH * 100 : WIDTH}};
    const struct rbt_answer_reader reader = {.packing = &packing, .table = &table};
    const size_t count = kind == SPARSE ? 1 : KEYS;
    uint64_t *keys = rbt_calloc(KEYS, sizeof *keys);
    char *values = rbt_calloc(KEYS * WIDTH, sizeof(float));
    RBT_ASSERT(keys != NULL && values != NULL);
    struct rbt_batch batch = {.count = count, .keys = keys, .values = values};
    struct rbt_shard_early early = {.room = KEYS, .keys = keys};
    struct rbt_shard_scan scan = {.keys = keys, .values = values, .capacity = KEYS};
    const struct rbt_shard_event event = {.batches = &batch,
                                          .batch_count = 1,
                                          .early = kind == EARLY ? &early : NULL,
                                          .on_elements = see_elements};
    rbt_status st = RBT_OK;
    if (kind == SCAN) {
        st = rbt_answer_take_scan(&table, answer, &scan);
    } else if (kind == EARLY) {
        st = rbt_answer_take_early(&reader, answer, &event);
    } else {
        st = rbt_answer_take_rows(&reader, answer, &event);
    }
    rbt_packing_deinit(&packing);
    rbt_free(values);
    rbt_free(keys);
    return st;
}

static rbt_status receive(const struct rbt_stream_request *request,
                          const struct rbt_port_event *event)
{
    const struct rbt_frame *frame = &event->frame.head;
    const char *body = event->frame.body;
    const enum asked_for kind = (enum asked_for)(request->purpose.call - purposes);
    if (frame->kind == RBT_FRAME_DONE && kind == STATS) {
        struct rbt_wire_done done;
        struct rbt_wire_cursor cursor = {body, body + frame->length};
        return rbt_wire_get_done(&cursor, &done);
    }
    if (frame->kind != RBT_FRAME_ROWS || kind == STATS) {
        return rbt_answer_wrong();
    }
    struct rbt_answer answer = {0};
    const struct rbt_body whole = {.bytes = body, .count = frame->length};
    const rbt_status st = rbt_answer_parse(&whole, &answer);
    if (st != RBT_OK || answer.head.is_withheld || answer.view.element_count > ELEMENTS_MAX) {
        return st; /* what is honest but large would take its memory by right */
    }
    return take(kind, &answer);
}

/* What the stream sends is not judged here. */
static void perform(struct talk *talk)
{
    for (uint32_t i = 0; i < talk->out.count; i++) {
        const struct rbt_out *item = &talk->out.items[i];
        RBT_ASSERT(item->kind == RBT_OUT_CONNECT ? !talk->is_open && !talk->is_wanted
                                                 : talk->is_open || talk->is_wanted);
        talk->is_wanted =
            item->kind == RBT_OUT_CONNECT || (talk->is_wanted && item->kind != RBT_OUT_CUT);
        talk->is_open = talk->is_open && item->kind != RBT_OUT_CUT;
        rbt_block_unref(item->block);
    }
    rbt_outbox_clear(&talk->out);
}

static rbt_status happen(struct talk *talk, const struct rbt_port_event *event)
{
    struct rbt_stream_request *answered = NULL;
    const rbt_status st = rbt_stream_step(&talk->stream, event, talk->now, &talk->out, &answered);
    if (answered != NULL) {
        const rbt_status taken = receive(answered, event);
        RBT_ASSERT(taken == RBT_OK || rbt_last_error()[0] != '\0');
        rbt_stream_release(&talk->stream, answered);
    }
    perform(talk);
    return st;
}

static rbt_status hang_up(struct talk *talk)
{
    if (!talk->is_open && !talk->is_wanted) {
        return RBT_OK;
    }
    talk->is_open = false;
    talk->is_wanted = false;
    return happen(talk, &(struct rbt_port_event){
                            .kind = RBT_PORT_DOWN,
                            .down = {.status = RBT_E_CLOSED, .why = "the peer hung up"}});
}

static struct rbt_block *make_block(uint16_t kind, uint64_t id)
{
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER);
    RBT_ASSERT(block != NULL);
    block->bytes = RBT_FRAME_HEADER;
    rbt_wire_close(block->data, (struct rbt_frame){.kind = kind, .id = id}, block->bytes);
    return block;
}

static void speak(struct talk *talk)
{
    const uint64_t what = recipe_below(&talk->recipe, 8);
    if (what < 3) {
        talk->number++;
        struct rbt_block *block = make_block(RBT_FRAME_PUSH, talk->number);
        RBT_ASSERT(rbt_stream_push(&talk->stream, block, talk->number, false, &talk->out) ==
                   RBT_OK);
        perform(talk);
        return;
    }
    const size_t kind = (size_t)recipe_below(&talk->recipe, KINDS);
    const struct rbt_frame header = {.kind = kind == STATS  ? RBT_FRAME_STATS
                                             : kind == SCAN ? RBT_FRAME_SCAN
                                                            : RBT_FRAME_PULL};
    struct rbt_stream_request *request = NULL;
    if (talk->stream.request_count < 8) {
        const struct rbt_stream_question question = {.block = make_block(header.kind, 0),
                                                     .header = header,
                                                     .purpose = {.call = &purposes[kind]}};
        RBT_ASSERT(rbt_stream_ask(&talk->stream, &question, &talk->out, &request) == RBT_OK);
        talk->last_id = request->id;
        perform(talk);
    }
}

/* --- The shard ------------------------------------------------------------------------------- */

static size_t put_rows(struct talk *talk, size_t bytes)
{
    static uint64_t keys[KEYS];
    static float values[KEYS * WIDTH];
    static uint32_t offsets[KEYS + 1];
    static uint32_t elements[KEYS];
    const bool is_sparse = recipe_once_in(&talk->recipe, 3);
    struct rbt_wire_rows rows = {.count = is_sparse ? 1 : recipe_below(&talk->recipe, KEYS + 1),
                                 .keys = keys,
                                 .values = values,
                                 .element_size = sizeof(float),
                                 .width = is_sparse ? WIDTH * 100 : WIDTH,
                                 .compression = RBT_COMPRESSION_ZEROS};
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = i * (1 + recipe_below(&talk->recipe, 3)) + (i > 0 ? keys[i - 1] + 1 : 0);
        values[i] = recipe_once_in(&talk->recipe, 2) ? 0 : (float)i;
        elements[i] = (uint32_t)i * 7;
    }
    if (is_sparse) {
        offsets[1] = (uint32_t)recipe_below(&talk->recipe, KEYS);
        rows.offsets = offsets;
        rows.elements = elements;
    }
    return bytes + rbt_wire_rows_put(message + bytes, &rows, NULL);
}

/* A message of the shard: mostly right, and what the stream waits for. */
static rbt_status answer(struct talk *talk)
{
    struct recipe *recipe = &talk->recipe;
    const bool is_greeting = talk->stream.state == RBT_STREAM_GREETING;
    const struct rbt_wire_news news = {.floor = (int64_t)recipe_below(recipe, 9),
                                       .version = recipe_below(recipe, 9),
                                       .arrived = recipe_below(recipe, talk->number + 2)};
    const uint64_t what = is_greeting ? recipe_below(recipe, 20) / 18 : 2 + recipe_below(recipe, 8);
    struct rbt_frame header = {.kind = RBT_FRAME_ACK};
    size_t bytes = 0;
    const bool asks_last = recipe_once_in(recipe, 2) || talk->stream.requests == NULL;
    const uint64_t id = asks_last ? talk->last_id : talk->stream.requests->id;
    if (what == 0) {
        header.kind = RBT_FRAME_WELCOME;
        bytes = rbt_wire_put_welcome(message, &news);
    } else if (what == 1) {
        header.kind = RBT_FRAME_REFUSED;
        bytes = rbt_wire_put_refused(message, "not today");
    } else if (what < 7) {
        const struct rbt_wire_answer head = {.news = news,
                                             .was_parked = recipe_once_in(recipe, 2),
                                             .scan_count = recipe_below(recipe, 2 * KEYS)};
        header = (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = id};
        bytes = put_rows(talk, rbt_wire_put_answer(message, &head));
    } else if (what == 7) {
        const struct rbt_wire_done done = {.news = news};
        header = (struct rbt_frame){.kind = RBT_FRAME_DONE, .id = id};
        bytes = rbt_wire_put_done(message, &done);
    } else {
        bytes = rbt_wire_put_ack(message, &news);
    }
    RBT_ASSERT(bytes <= ROOM);
    rbt_wire_close(message, header, bytes);
    if (recipe_once_in(recipe, 6)) {
        recipe_damage(recipe, message, bytes);
    }
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME,
                                   .frame = {.body = message + RBT_FRAME_HEADER}};
    if (rbt_frame_get(message, ROOM - RBT_FRAME_HEADER, &event.frame.head) != RBT_OK) {
        return hang_up(talk); /* as a channel does */
    }
    return happen(talk, &event);
}

static rbt_status serve(struct talk *talk)
{
    rbt_status st = RBT_OK;
    if (talk->is_wanted) {
        talk->is_wanted = false;
        talk->is_open = true;
        st = happen(talk,
                    &(struct rbt_port_event){
                        .kind = RBT_PORT_UP,
                        .up = {.peer = "a peer", .is_near = recipe_once_in(&talk->recipe, 9)}});
    }
    if (st == RBT_OK && talk->is_open) {
        st = answer(talk);
    }
    return st == RBT_OK && recipe_once_in(&talk->recipe, 40) ? hang_up(talk) : st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct talk talk = {.recipe = recipe_begin(data, size)};
    static const struct rbt_wire_hello hello = {.worker_count = 4};
    const struct rbt_stream_options options = {
        .address = "a peer", .hello = &hello, .cut_max = 3000 * MS, .silence_max = 8000 * MS};
    RBT_ASSERT(rbt_stream_init(&talk.stream, &options) == RBT_OK);
    rbt_status st = RBT_OK;
    for (int step = 0; st == RBT_OK && step < STEPS; step++) {
        speak(&talk);
        st = rbt_stream_tick(&talk.stream, talk.now, &talk.out);
        perform(&talk);
        st = st != RBT_OK ? st : serve(&talk);
        talk.now += (rbt_time)recipe_below(&talk.recipe, 100) * MS;
    }
    RBT_ASSERT(st == RBT_OK || rbt_last_error()[0] != '\0');
    rbt_stream_deinit(&talk.stream);
    rbt_outbox_deinit(&talk.out);
    rbt_block_trim();
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
