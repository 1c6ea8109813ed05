/* test/fuzz/link_fuzz.c - the worker's side of a connection survives whatever a shard answers.
 *
 * An input is a recipe for a conversation: a link that sends updates and requests, and a peer that
 * welcomes, acknowledges, answers, refuses, hangs up, and damages some of what it says. Answers are
 * taken apart and put where they were wanted, in blocks whose ends a sanitizer guards. The link may
 * give up with a sentence; nothing may break an assertion or leak. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/link.h"
#include "fuzz/recipe.h"
#include "proto/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)

enum { STEPS = 60, KEYS = 12, WIDTH = 3, ROOM = 1 << 14, ELEMENTS_MAX = 1 << 12 };
enum asked_for { PULL, SPARSE, EARLY, SCAN, STATS, KINDS };

struct talk {
    struct recipe recipe;
    struct rbt_link link;
    int peer; /* a socket, or -1 */
    rbt_time now;
    uint64_t number; /* of the stream */
    uint64_t last_id;
};

static char folder[64];
static char address[128];
static int listener = -1;
static _Alignas(8) char message[ROOM];
static int owners[KINDS]; /* a request's owner says what was asked for */

static void clean_up(void)
{
    (void)close(listener);
    (void)unlink(address + strlen("unix:"));
    (void)rmdir(folder);
}

static void begin(void)
{
    char actual[RBT_ADDRESS_MAX];
    (void)snprintf(folder, sizeof folder, "/tmp/rubato-link-XXXXXX"); /* fits */
    RBT_ASSERT(mkdtemp(folder) != NULL);
    (void)snprintf(address, sizeof address, "unix:%s/p", folder); /* the same */
    RBT_ASSERT(rbt_address_listen(address, actual, &listener) == RBT_OK);
    RBT_ASSERT(atexit(clean_up) == 0);
}

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
    const struct rbt_caller_table table = {.element_size = sizeof(float),
                                           .width = kind == SPARSE ? WIDTH * 100 : WIDTH,
                                           .is_sparse = kind == SPARSE};
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

static rbt_status on_answer(void *context, struct rbt_link *link, struct rbt_link_request *request,
                            const struct rbt_frame *frame, const char *body)
{
    const int *owner = request->owner;
    (void)context;
    (void)link;
    if (owner == NULL) { /* a probe of a connection before */
        return RBT_OK;
    }
    const enum asked_for kind = (enum asked_for)(owner - owners);
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

static void on_news(void *context, struct rbt_link *link)
{
    (void)context;
    (void)link;
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
        RBT_ASSERT(rbt_link_push(&talk->link, block, talk->number, false) == RBT_OK);
        return;
    }
    const size_t kind = (size_t)recipe_below(&talk->recipe, KINDS);
    const struct rbt_frame header = {.kind = kind == STATS  ? RBT_FRAME_STATS
                                             : kind == SCAN ? RBT_FRAME_SCAN
                                                            : RBT_FRAME_PULL};
    struct rbt_link_request *request = NULL;
    if (talk->link.request_count < 8) {
        struct rbt_block *block = make_block(header.kind, 0);
        RBT_ASSERT(rbt_link_ask(&talk->link, block, header, &owners[kind], &request) == RBT_OK);
        talk->last_id = request->id;
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

static void hang_up(struct talk *talk)
{
    if (talk->peer >= 0) {
        (void)close(talk->peer); /* nothing is expected of it any more */
    }
    talk->peer = -1;
}

/* A message of the shard: mostly right, and what the link waits for. */
static void answer(struct talk *talk)
{
    struct recipe *recipe = &talk->recipe;
    const bool is_greeting = talk->link.state == RBT_LINK_GREETING;
    const struct rbt_wire_news news = {.floor = (int64_t)recipe_below(recipe, 9),
                                       .version = recipe_below(recipe, 9),
                                       .arrived = recipe_below(recipe, talk->number + 2)};
    const uint64_t what = is_greeting ? recipe_below(recipe, 20) / 18 : 2 + recipe_below(recipe, 8);
    struct rbt_frame header = {.kind = RBT_FRAME_ACK};
    size_t bytes = 0;
    const bool asks_last = recipe_once_in(recipe, 2) || talk->link.requests == NULL;
    const uint64_t id = asks_last ? talk->last_id : talk->link.requests->id;
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
    if (send(talk->peer, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        hang_up(talk); /* the link has, too */
    }
}

static void serve(struct talk *talk)
{
    int socket = -1;
    if (rbt_address_accept(listener, &socket) == RBT_OK) {
        hang_up(talk);
        talk->peer = socket;
    }
    while (talk->peer >= 0 && recv(talk->peer, message, ROOM, MSG_DONTWAIT) > 0) {
        /* what the link says is not judged here */
    }
    if (talk->peer >= 0) {
        answer(talk);
    }
    if (recipe_once_in(&talk->recipe, 40)) {
        hang_up(talk);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (listener < 0) {
        begin();
    }
    struct talk talk = {.recipe = recipe_begin(data, size), .peer = -1, .now = 1000000 * MS};
    struct rbt_link_options options = {
        .hello = {.worker_count = 4}, .cut_max = 3000 * MS, .silence_max = 8000 * MS};
    const struct rbt_link_handler handler = {&talk, on_answer, on_news};
    (void)snprintf(options.address, sizeof options.address, "%s", address); /* fits */
    RBT_ASSERT(rbt_link_init(&talk.link, &options) == RBT_OK);
    rbt_status st = RBT_OK;
    for (int step = 0; st == RBT_OK && step < STEPS; step++) {
        struct pollfd poll;
        speak(&talk);
        (void)rbt_link_prepare(&talk.link, &poll); /* nothing waits here */
        st = rbt_link_work(&talk.link, talk.now, &handler);
        serve(&talk);
        talk.now += (rbt_time)recipe_below(&talk.recipe, 100) * MS;
    }
    RBT_ASSERT(st == RBT_OK || rbt_last_error()[0] != '\0');
    rbt_link_deinit(&talk.link);
    hang_up(&talk);
    int left = -1;
    while (rbt_address_accept(listener, &left) == RBT_OK) { /* who was not served any more */
        (void)close(left);
    }
    rbt_block_trim();
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
