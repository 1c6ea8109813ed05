/* test/fuzz/caller_fuzz.c - the whole side of a worker survives whatever shards answer, and however
 * its connections fare.
 *
 * An input is a script (fuzz/script.h) for a caller (proto/caller.h) with two shards: what the
 * worker wants, messages of the shards, cuts, and time. Shards read what they are sent, so that
 * most answers fit; for rows of the input, which a simulation may have sent, the worker first asks
 * for rows of this shape. Answers are written to blocks whose ends a sanitizer guards. Steps end,
 * well or with a sentence; nothing may break an assertion or leak. */
#include <rubato/status.h>

#include "base/error.h"
#include "fuzz/script.h"
#include "proto/caller.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)

enum {
    STEPS = 40,       /* after the end of the input */
    STEPS_MAX = 1000, /* in all */
    SHARDS = 2,
    WORKERS = 4,
    WORKER = 1,
    KEYS = 12,
    WIDE = 8192, /* elements of a row that is put where it belongs */
    ROOM = 1 << 16,
    ASKED_MAX = 8,        /* requests that a shard remembers */
    SHAPES_MAX = 16,      /* of rows of the input */
    ELEMENTS_MAX = 4096,  /* of them */
    LIVE_MAX = 128 << 20, /* bytes */
};

/* Tables: what their rows are like. The last one is as the rows of the input are. */
enum { DENSE, SPARSE, RULED, FILTERED, LONG, SHAPED, TABLES };

/* A request as its shard has read it. */
struct asked {
    uint64_t id;
    uint16_t kind; /* 0: none */
    struct rbt_wire_pull pull;
    struct rbt_wire_view view;
};

struct shard {
    bool is_wanted; /* a connection is */
    bool is_open;
    struct asked asked[ASKED_MAX];
    uint32_t next;
    int64_t floor;
    uint64_t version;
};

struct talk {
    struct script script;
    struct rbt_caller_entry tables[TABLES];
    struct rbt_caller_entry *shared_tables[TABLES]; /* the same, as callers want them */
    struct rbt_caller_shared shared;
    struct rbt_caller caller;
    struct rbt_outbox out;
    struct shard shards[SHARDS];
    uint32_t current;
    /* The step under way. */
    bool is_stepping;
    uint32_t call_count;
    struct rbt_driver_call calls[SHARDS];
    struct rbt_batch batches[SHARDS];
    struct rbt_shard_scan scans[SHARDS];
    struct rbt_shard_early early[SHARDS];
    uint64_t applied[SHARDS][WORKERS];
    uint64_t stamps[SHARDS];
    uint64_t copies[SHARDS];
    struct rbt_wire_done done;
    char *values[TABLES][SHARDS];
    char *shapes[SHAPES_MAX]; /* of SHAPED: a request for them may stay */
    uint32_t shape_count;
    uint64_t sequence;
    uint64_t damages;
    rbt_time now;
};

static _Alignas(8) char message[ROOM];
static uint64_t keys[ELEMENTS_MAX];
static uint64_t early_keys[SHARDS][KEYS];

static uint32_t width_of(uint32_t table)
{
    static const uint32_t widths[TABLES] = {3, 300, 2, 2, WIDE, 1};
    return widths[table];
}

static size_t rows_of(uint32_t table)
{
    return table == SPARSE || table == LONG ? 1 : KEYS;
}

/* --- The carrier ----------------------------------------------------------------------------- */

/* A shard reads a request, so that it can answer. */
static void note_request(struct shard *shard, const struct rbt_frame *head,
                         struct rbt_wire_cursor body)
{
    struct asked asked = {.id = head->id, .kind = head->kind};
    struct rbt_wire_scan scan;
    if (head->kind == RBT_FRAME_PULL) {
        RBT_ASSERT(rbt_wire_get_pull(&body, &asked.pull) == RBT_OK);
        RBT_ASSERT(rbt_wire_rows_get(&body.at, body.end, &asked.view) == RBT_OK);
    } else if (head->kind == RBT_FRAME_SCAN) {
        RBT_ASSERT(rbt_wire_get_scan(&body, &scan) == RBT_OK);
        asked.view.table = scan.table;
        asked.view.count = (uint32_t)scan.capacity;
    } else if (head->kind != RBT_FRAME_STATS) {
        return;
    }
    shard->asked[shard->next++ % ASKED_MAX] = asked;
}

static void check_sent(struct shard *shard, struct rbt_block *block)
{
    struct rbt_frame head;
    rbt_block_own(block); /* as if it had been written to a socket */
    RBT_ASSERT(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &head) == RBT_OK);
    RBT_ASSERT(head.length + RBT_FRAME_HEADER == block->bytes);
    const struct rbt_wire_cursor body = {block->data + RBT_FRAME_HEADER,
                                         block->data + block->bytes};
    note_request(shard, &head, body);
}

static void perform(struct talk *talk)
{
    for (uint32_t i = 0; i < talk->out.count; i++) {
        const struct rbt_out *item = &talk->out.items[i];
        RBT_ASSERT(item->port < SHARDS);
        struct shard *shard = &talk->shards[item->port];
        if (item->kind == RBT_OUT_CONNECT) {
            RBT_ASSERT(!shard->is_open && !shard->is_wanted);
            shard->is_wanted = true;
        } else if (item->kind == RBT_OUT_SEND) {
            RBT_ASSERT(shard->is_open);
            check_sent(shard, item->block);
            rbt_block_unref(item->block);
        } else {
            RBT_ASSERT(shard->is_open || shard->is_wanted);
            shard->is_open = false;
            shard->is_wanted = false;
        }
    }
    rbt_outbox_clear(&talk->out);
    RBT_ASSERT(talk->caller.status == RBT_OK || rbt_caller_is_answered(&talk->caller));
    RBT_ASSERT(rbt_alloc_live_bytes() < LIVE_MAX);
}

/* The worker goes on if it may. */
static void finish(struct talk *talk)
{
    if (!talk->is_stepping || !rbt_caller_is_answered(&talk->caller) ||
        !rbt_caller_may_go_on(&talk->caller)) {
        return;
    }
    rbt_caller_finish(&talk->caller, talk->calls, talk->call_count);
    for (uint32_t i = 0; i < talk->call_count; i++) {
        RBT_ASSERT(talk->calls[i].reply.status == talk->caller.status ||
                   talk->calls[i].reply.status == RBT_E_BUSY);
    }
    talk->is_stepping = false;
}

static void happen(struct talk *talk, struct rbt_port_event event)
{
    event.port = talk->current;
    if (talk->caller.status == RBT_OK && !rbt_caller_is_lost(&talk->caller)) {
        rbt_caller_port(&talk->caller, &event, talk->now);
    }
    perform(talk);
    finish(talk);
}

static void tick(struct talk *talk, rbt_time time)
{
    talk->now += time;
    rbt_caller_tick(&talk->caller, talk->now);
    perform(talk);
    if (rbt_caller_deadline(&talk->caller) <= talk->now) {
        rbt_caller_tick(&talk->caller, talk->now); /* one that fell silent is replaced at once */
        perform(talk);
    }
    RBT_ASSERT(rbt_caller_deadline(&talk->caller) > talk->now);
    finish(talk);
}

static void cut(struct talk *talk, bool is_broken)
{
    struct shard *shard = &talk->shards[talk->current];
    if (!shard->is_open && !shard->is_wanted) {
        return;
    }
    is_broken = is_broken && shard->is_open;
    if (!is_broken) {
        shard->is_open = false;
        shard->is_wanted = false;
    }
    happen(talk, (struct rbt_port_event){.kind = is_broken ? RBT_PORT_BROKEN : RBT_PORT_DOWN,
                                         .down = {RBT_E_CLOSED, "a fault"}});
}

/* --- The worker ------------------------------------------------------------------------------ */

static void see_elements(void *context, const uint32_t *index, const void *values, size_t count)
{
    volatile uint32_t sum = 0;
    const struct talk *talk = context;
    for (size_t i = 0; i < count; i++) {
        sum = sum + ((const uint32_t *)values)[i];
        RBT_ASSERT(index[i] < talk->tables[talk->calls[0].event.table].spec.width);
    }
}

/* A call for rows of the table at a shard. */
static struct rbt_driver_call *add_call(struct talk *talk, enum rbt_shard_kind kind, uint32_t table,
                                        uint32_t shard)
{
    const uint32_t i = talk->call_count++;
    talk->batches[i] = (struct rbt_batch){.table = table,
                                          .count = rows_of(table),
                                          .keys = keys,
                                          .values = talk->values[table][shard],
                                          .least = RBT_STAMP_NONE};
    talk->scans[i] = (struct rbt_shard_scan){.range = {0, UINT64_MAX},
                                             .keys = early_keys[i],
                                             .values = talk->values[table][shard],
                                             .capacity = rows_of(table)};
    talk->calls[i] = (struct rbt_driver_call){.shard = shard,
                                              .event = {.kind = kind,
                                                        .worker = WORKER,
                                                        .table = table,
                                                        .marker = RBT_MARKER_NONE,
                                                        .batches = &talk->batches[i],
                                                        .batch_count = 1,
                                                        .scan = &talk->scans[i],
                                                        .on_elements = see_elements,
                                                        .context = talk,
                                                        .least = RBT_STAMP_NONE,
                                                        .applied = talk->applied[i],
                                                        .stamp = &talk->stamps[i]}};
    return &talk->calls[i];
}

static void start(struct talk *talk)
{
    talk->is_stepping = true;
    rbt_caller_start(&talk->caller, talk->calls, talk->call_count);
    perform(talk);
    finish(talk);
}

static void push(struct talk *talk)
{
    static const uint32_t offsets[2] = {0, 3};
    static const uint32_t elements[3] = {1, 7, 9};
    const uint32_t table = (uint32_t)script_below(&talk->script, SHAPED);
    const bool ends = script_once_in(&talk->script, 2);
    talk->call_count = 0;
    talk->sequence++;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct rbt_driver_call *call = add_call(talk, RBT_SHARD_PUSH, table, i);
        call->event.sequence = talk->sequence;
        call->event.marker = ends ? (int64_t)talk->sequence : RBT_MARKER_NONE;
        talk->batches[i].offsets = table == SPARSE ? offsets : NULL;
        talk->batches[i].elements = table == SPARSE ? elements : NULL;
        talk->batches[i].base = 0;
    }
    start(talk);
    if (table == LONG) { /* as a worker does that writes to its rows again */
        for (uint32_t i = 0; i < SHARDS; i++) {
            rbt_stream_own(&talk->caller.streams[i]);
        }
    }
}

static void fill_pulls(struct talk *talk, uint32_t table)
{
    const int64_t need = talk->shards[0].floor + (int64_t)script_below(&talk->script, 3) - 1;
    const uint64_t how = script_below(&talk->script, 16);
    const bool has_set = table != SPARSE && how < 8;
    talk->call_count = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct rbt_driver_call *call = add_call(talk, RBT_SHARD_PULL, table, i);
        call->event.need = need;
        call->event.asked = has_set ? 1 + table : 0;
        call->event.subscription = has_set && how < 4 ? 1 + table : 0;
        call->event.applied_count = how % 2 == 0 ? WORKERS : 0;
        call->event.is_base = table == RULED;
        call->event.is_stable = table == RULED && how == 15;
        call->event.copy = &talk->copies[i];
        call->event.sequence = talk->sequence;
    }
}

static void pull(struct talk *talk)
{
    fill_pulls(talk, (uint32_t)script_below(&talk->script, SHAPED));
    start(talk);
}

/* Rows that are told of before they are wanted: those of a set. */
static void expect(struct talk *talk)
{
    const uint32_t table = DENSE + (uint32_t)script_below(&talk->script, 2) * RULED;
    fill_pulls(talk, table);
    for (uint32_t i = 0; i < SHARDS; i++) {
        talk->calls[i].event.asked = 10 + table;
        talk->calls[i].event.subscription = 0;
    }
    rbt_caller_expect(&talk->caller, talk->calls, SHARDS);
    perform(talk);
    if (script_once_in(&talk->script, 2)) {
        start(talk);
    }
}

static void read_early(struct talk *talk)
{
    fill_pulls(talk, DENSE);
    for (uint32_t i = 0; i < SHARDS; i++) {
        talk->early[i] = (struct rbt_shard_early){.room = KEYS, .keys = early_keys[i]};
        talk->calls[i].event.early = &talk->early[i];
        talk->calls[i].event.subscription = 20;
        talk->calls[i].event.asked = 0;
        talk->calls[i].event.need = RBT_CLOCK_ANY;
    }
    rbt_caller_take_early(&talk->caller, talk->calls, SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++) {
        RBT_ASSERT(talk->early[i].count <= KEYS);
    }
    rbt_caller_ask_early(&talk->caller, talk->calls, SHARDS);
    perform(talk);
}

static void scan(struct talk *talk)
{
    const uint32_t table = DENSE + (uint32_t)script_below(&talk->script, 2) * RULED;
    talk->call_count = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        add_call(talk, RBT_SHARD_SCAN, table, i)->event.need = talk->shards[i].floor;
    }
    start(talk);
}

static void ask_stats(struct talk *talk)
{
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER);
    RBT_ASSERT(block != NULL);
    block->bytes = RBT_FRAME_HEADER;
    talk->is_stepping = true;
    talk->call_count = 0;
    rbt_caller_ask(&talk->caller, talk->current, block,
                   (struct rbt_frame){.kind = RBT_FRAME_STATS, .worker = WORKER}, &talk->done);
    perform(talk);
}

/* What the worker wants next, if it does not wait. */
static void work(struct talk *talk, uint64_t what)
{
    if (talk->is_stepping || talk->caller.status != RBT_OK || rbt_caller_is_lost(&talk->caller)) {
        return;
    }
    if (what < 3) {
        push(talk);
    } else if (what < 8) {
        pull(talk);
    } else if (what < 10) {
        expect(talk);
    } else if (what < 12) {
        read_early(talk);
    } else if (what == 12) {
        scan(talk);
    } else if (what == 13) {
        ask_stats(talk);
    } else if (script_once_in(&talk->script, 4)) {
        rbt_caller_reset(&talk->caller);
        talk->sequence = 0;
        perform(talk);
    }
}

/* --- The shards ------------------------------------------------------------------------------ */

static void receive(struct talk *talk, const struct script_frame *frame)
{
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME,
                                   .frame = {.head = frame->head, .body = frame->body}};
    struct rbt_frame_place place;
    if (!talk->shards[talk->current].is_open) {
        return;
    }
    if (rbt_caller_place(&talk->caller, talk->current, &frame->head, &place)) {
        memcpy(place.to, frame->body + place.prefix, place.bytes);
        event.frame.placed = place.bytes;
    }
    happen(talk, event);
}

static void say(struct talk *talk, struct rbt_frame head, size_t bytes)
{
    RBT_ASSERT(bytes <= ROOM);
    rbt_wire_close(message, head, bytes);
    struct script_frame frame = script_make_frame(&talk->script, message, talk->damages);
    talk->damages = 0;
    receive(talk, &frame);
    script_drop_frame(&frame);
}

static struct rbt_wire_news news_of(const struct talk *talk)
{
    const struct shard *shard = &talk->shards[talk->current];
    return (struct rbt_wire_news){.floor = shard->floor,
                                  .version = shard->version,
                                  .arrived = talk->caller.streams[talk->current].sent};
}

/* A connection that is wanted is made, and a greeting answered. */
static void connect_up(struct talk *talk)
{
    struct shard *shard = &talk->shards[talk->current];
    if (!shard->is_open && !shard->is_wanted && rbt_caller_deadline(&talk->caller) <= talk->now) {
        tick(talk, 0);
    }
    if (shard->is_wanted) {
        shard->is_wanted = false;
        shard->is_open = true;
        memset(shard->asked, 0, sizeof shard->asked);
        happen(talk, (struct rbt_port_event){.kind = RBT_PORT_UP,
                                             .up = {.peer = "10.0.0.1:7",
                                                    .is_near = script_once_in(&talk->script, 9)}});
    }
    if (shard->is_open && talk->caller.streams[talk->current].state == RBT_STREAM_GREETING) {
        const struct rbt_wire_news news = news_of(talk);
        const bool is_refused = script_below(&talk->script, 64) == 63;
        const size_t bytes = is_refused ? rbt_wire_put_refused(message, "not today")
                                        : rbt_wire_put_welcome(message, &news);
        say(talk, (struct rbt_frame){.kind = is_refused ? RBT_FRAME_REFUSED : RBT_FRAME_WELCOME},
            bytes);
    }
}

/* Rows as they were asked for. */
static size_t put_rows(struct talk *talk, const struct asked *asked, size_t bytes)
{
    static float values[WIDE];
    static uint32_t offsets[2];
    static const uint32_t elements[4] = {1, 2, 40, 299};
    const uint32_t table = asked->view.table % TABLES;
    const bool has_keys = asked->kind == RBT_FRAME_SCAN || asked->pull.is_early;
    const size_t most = asked->pull.is_early ? asked->pull.room : asked->view.count;
    struct rbt_wire_rows rows = {.table = table,
                                 .count = has_keys ? script_below(&talk->script, most + 1) : most,
                                 .keys = keys,
                                 .values = values,
                                 .element_size = sizeof(float),
                                 .width = talk->tables[table].spec.width,
                                 .compression =
                                     table == LONG ? RBT_COMPRESSION_NONE : RBT_COMPRESSION_ZEROS};
    if (table == SPARSE) {
        offsets[1] = (uint32_t)script_below(&talk->script, 5);
        rows.offsets = offsets;
        rows.elements = elements;
    }
    values[script_below(&talk->script, 16)] = (float)script_below(&talk->script, 9);
    const uint64_t oddity = script_below(&talk->script, 64); /* a table of another shape? */
    rows.width += oddity == 63;
    rows.width -= oddity == 62 && rows.width > 1;
    rows.count += oddity == 61 && table != SPARSE;
    rows.count -= oddity == 60 && rows.count > 0;
    rows.element_size = oddity == 59 && rows.width <= WIDE / 2 ? 8 : 4;
    if (rows.count * rows.width * rows.element_size > sizeof values) {
        return bytes; /* a shape of the input, asked for again */
    }
    return bytes + rbt_wire_rows_put(message + bytes, &rows, NULL);
}

/* The answer to something that was asked. */
static void answer(struct talk *talk, const struct asked *asked)
{
    struct shard *shard = &talk->shards[talk->current];
    const uint64_t how = script_below(&talk->script, 16);
    const struct rbt_wire_answer head = {
        .news = news_of(talk),
        .was_parked = how % 2 == 0,
        .is_withheld = how == 15 || (how > 12 && asked->pull.is_ahead),
        .has_stamp = asked->pull.wants_stamp,
        .stamp = shard->version,
        .has_copy = asked->pull.has_copy,
        .copy_base = how < 8 ? 0 : asked->pull.copy,
        .copy = ++shard->version,
        .has_limit = asked->pull.is_stable,
        .limit = asked->pull.stable + how % 3,
        .scan_count = asked->kind == RBT_FRAME_SCAN ? how : 0,
        .applied = talk->applied[0],
        .applied_count = asked->pull.applied_count <= WORKERS ? asked->pull.applied_count : 0};
    const struct rbt_wire_done done = {.news = head.news};
    if (asked->kind == RBT_FRAME_STATS) {
        say(talk, (struct rbt_frame){.kind = RBT_FRAME_DONE, .id = asked->id},
            rbt_wire_put_done(message, &done));
        return;
    }
    say(talk, (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = asked->id},
        put_rows(talk, asked, rbt_wire_put_answer(message, &head)));
}

/* A message of the shard: mostly right, and what the caller waits for. */
static void serve(struct talk *talk)
{
    struct shard *shard = &talk->shards[talk->current];
    const uint64_t what = script_below(&talk->script, 2 * ASKED_MAX);
    connect_up(talk);
    shard->floor += script_once_in(&talk->script, 4);
    for (uint32_t i = 0; shard->is_open && i < ASKED_MAX; i++) {
        struct asked *asked = &shard->asked[(what + i) % ASKED_MAX];
        if (asked->kind != 0 && what < 2 * ASKED_MAX - 1) {
            const struct asked copy = *asked;
            asked->kind = 0;
            answer(talk, &copy);
            return;
        }
    }
    const struct rbt_wire_news news = news_of(talk);
    if (shard->is_open) {
        say(talk, (struct rbt_frame){.kind = RBT_FRAME_ACK}, rbt_wire_put_ack(message, &news));
    }
}

/* --- Messages of the input ------------------------------------------------------------------- */

/* The worker asks for rows that have the shape of these. */
static void ask_for(struct talk *talk, const struct script_frame *frame)
{
    struct rbt_answer rows = {0};
    const struct rbt_body body = {.bytes = frame->body, .count = frame->head.length};
    if (rbt_answer_parse(&body, &rows) != RBT_OK || rows.head.is_withheld ||
        talk->shape_count == SHAPES_MAX || rows.view.count > ELEMENTS_MAX / 2 ||
        rows.view.element_count > ELEMENTS_MAX || rows.head.applied_count > WORKERS) {
        return;
    }
    const uint64_t count = rows.view.count > 0 ? rows.view.count : 1;
    const bool is_sparse = rows.view.offsets != NULL;
    struct rbt_caller_entry *table = &talk->tables[SHAPED];
    struct rbt_spec *spec = &table->spec;
    *table = (struct rbt_caller_entry){0};
    spec->number = SHAPED;
    spec->type = rows.view.element_size == 8 ? RBT_F64 : RBT_F32;
    spec->layout = is_sparse ? RBT_SPARSE : RBT_DENSE;
    spec->width = is_sparse ? ELEMENTS_MAX : (uint32_t)(rows.view.element_count / count);
    spec->width += spec->width == 0;
    spec->rule[0] = rows.head.has_stamp || rows.head.has_limit ? 'x' : '\0';
    char *values = rbt_calloc(count, rbt_spec_row_size(spec));
    RBT_ASSERT(values != NULL);
    talk->shapes[talk->shape_count++] = values;
    talk->values[SHAPED][talk->current] = values;
    talk->call_count = 0;
    const bool is_scan = rows.head.scan_count > 0 && count <= KEYS;
    struct rbt_driver_call *call =
        add_call(talk, is_scan ? RBT_SHARD_SCAN : RBT_SHARD_PULL, SHAPED, talk->current);
    talk->batches[0].count = rows.view.count;
    talk->scans[0].capacity = is_scan ? rows.view.count : 0;
    call->event.applied_count = rows.head.applied_count;
    call->event.is_stable = rows.head.has_limit;
    start(talk);
}

static void hear(struct talk *talk, struct script_frame *frame)
{
    const struct rbt_stream *stream = &talk->caller.streams[talk->current];
    work(talk, talk->sequence == 0 ? 0 : UINT64_MAX); /* else nobody wants a connection */
    connect_up(talk);
    if (frame->is_broken) {
        cut(talk, true);
        return;
    }
    const bool is_free =
        !talk->is_stepping && talk->caller.status == RBT_OK && !rbt_caller_is_lost(&talk->caller);
    if (is_free && frame->head.kind == RBT_FRAME_ROWS) {
        ask_for(talk, frame);
    } else if (is_free && frame->head.kind == RBT_FRAME_DONE) {
        ask_stats(talk);
    }
    if (stream->requests_last != NULL && frame->head.id % 8 != 7) {
        frame->head.id = stream->requests_last->id;
    }
    receive(talk, frame);
    script_drop_frame(frame);
}

/* --- The script ------------------------------------------------------------------------------ */

static void play(struct talk *talk, uint64_t what)
{
    switch (what % 8) {
    case 0:
        work(talk, what / 8);
        break;
    case 1:
        tick(talk, (rbt_time)script_below(&talk->script, 256) * MS);
        break;
    case 2:
        if (what < 64) {
            cut(talk, what < 16);
        } else if (what == 122) {
            rbt_caller_alarm(&talk->caller, rbt_fail(RBT_E_CLOSED, "a process was lost"));
            finish(talk);
        } else {
            talk->damages = what / 8 % 4;
        }
        break;
    case 3:
    case 4:
        work(talk, script_below(&talk->script, 16));
        break;
    default:
        serve(talk);
        break;
    }
}

static void open_tables(struct talk *talk)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        talk->tables[i] =
            (struct rbt_caller_entry){.spec = {.number = i,
                                               .layout = i == SPARSE ? RBT_SPARSE : RBT_DENSE,
                                               .width = width_of(i),
                                               .rule = {i == RULED ? 'x' : '\0'}}};
        for (uint32_t k = 0; i < SHAPED && k < SHARDS; k++) {
            talk->values[i][k] = rbt_calloc(rows_of(i) * width_of(i), sizeof(float));
            RBT_ASSERT(talk->values[i][k] != NULL);
        }
    }
    struct rbt_caller_entry *filtered = &talk->tables[FILTERED];
    memcpy(filtered->spec.name, "t", sizeof "t");
    memcpy(filtered->spec.filter, "changed,f16", sizeof "changed,f16");
    RBT_ASSERT(rbt_packing_filters_create(&filtered->spec, WORKERS, &filtered->filters) == RBT_OK);
    for (uint64_t i = 0; i < ELEMENTS_MAX; i++) {
        keys[i] = 3 * i;
    }
}

static void close_tables(struct talk *talk)
{
    for (uint32_t i = 0; i < SHAPED; i++) {
        for (uint32_t k = 0; k < SHARDS; k++) {
            rbt_free(talk->values[i][k]);
        }
    }
    for (uint32_t i = 0; i < talk->shape_count; i++) {
        rbt_free(talk->shapes[i]);
    }
    rbt_packing_filters_destroy(talk->tables[FILTERED].filters);
}

static void open_caller(struct talk *talk)
{
    static const struct rbt_wire_hello hello = {.worker_count = WORKERS};
    struct rbt_stream_options streams[SHARDS];
    for (uint32_t i = 0; i < SHARDS; i++) {
        streams[i] = (struct rbt_stream_options){.address = "a shard",
                                                 .hello = &hello,
                                                 .shard = i,
                                                 .cut_max = 3000 * MS,
                                                 .silence_max = 8000 * MS};
    }
    for (uint32_t i = 0; i < TABLES; i++) {
        talk->shared_tables[i] = &talk->tables[i];
    }
    talk->shared = (struct rbt_caller_shared){.shard_count = SHARDS, .tables = talk->shared_tables};
    const struct rbt_caller_options options = {
        .shared = &talk->shared, .streams = streams, .worker = WORKER, .out = &talk->out};
    RBT_ASSERT(rbt_caller_init(&talk->caller, &options) == RBT_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct talk talk; /* it is large */
    memset(&talk, 0, sizeof talk);
    talk.script = script_begin(data, size);
    talk.now = 1000 * MS;
    open_tables(&talk);
    open_caller(&talk);
    uint32_t after = 0;
    for (uint32_t i = 0; i < STEPS_MAX && after < STEPS && talk.caller.status == RBT_OK; i++) {
        after += talk.script.left == 0;
        talk.now += MS / 10;
        if (script_has_frame(&talk.script)) {
            struct script_frame frame = script_take_frame(&talk.script);
            hear(&talk, &frame);
            continue;
        }
        const uint64_t what = script_below(&talk.script, 256);
        if (what >= SCRIPT_PORT) {
            talk.current = (uint32_t)(what - SCRIPT_PORT) % SHARDS;
        } else {
            play(&talk, what);
        }
    }
    if (talk.caller.status == RBT_OK) {
        rbt_caller_fail(&talk.caller, rbt_fail(RBT_E_CLOSED, "that is enough"));
        finish(&talk);
    }
    RBT_ASSERT(!talk.is_stepping);
    RBT_ASSERT(rbt_caller_refuse(&talk.caller) != RBT_OK && rbt_last_error()[0] != '\0');
    rbt_caller_deinit(&talk.caller);
    rbt_outbox_deinit(&talk.out);
    close_tables(&talk);
    rbt_block_trim();
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
