/* test/fuzz/service_fuzz.c - a whole shard survives whatever comes over its connections, in
 * whatever order, and whatever the coordinator says meanwhile.
 *
 * An input is a script (fuzz/script.h): messages on several connections, most of which a worker
 * could have sent, cuts, turns, jobs that begin and end, and time. The shard is told of the cluster
 * that the first HELLO means, so that conversations of simulations go on behind it. What the shard
 * wants done must make sense: it says what a shard may say, to connections that are there; who is
 * refused is cut; a worker has one connection. Messages that are honest but large are left out, so
 * that memory stays bounded. */
#include <stdio.h>

#include "core/shard_event.h"
#include "fuzz/large.h"
#include "fuzz/script.h"
#include "proto/service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)

enum {
    STEPS = 40,       /* after the end of the input */
    STEPS_MAX = 1000, /* in all */
    PORTS = 8,
    JOBS = 3,
    TABLES = 3,
    KEYS = 20,
    ROOM = 1 << 14,
    LIVE_MAX = 256 << 20,
};

/* A connection as its carrier sees it. */
struct port {
    bool is_open;
    bool is_welcome;
    bool is_refused;
    bool is_reader;
    uint64_t job;
    uint32_t worker;
    uint64_t sequence; /* of its updates */
    int64_t clock;
};

struct talk {
    struct script script;
    rbt_service *service;
    struct rbt_outbox out;
    struct rbt_wire_hello hello; /* as a worker of the cluster would say it */
    struct rbt_control_job job;
    bool has_name;
    uint32_t current;
    uint64_t damages; /* to the next message that is made here */
    uint64_t run;
    struct port ports[PORTS];
    rbt_time now;
};

static const struct rbt_wire_hello HELLO = {
    .cluster = 9, .job = 4, .worker_count = 3, .secret = {"of its workers"}};

static _Alignas(8) char message[ROOM];

/* --- What the shard wants done --------------------------------------------------------------- */

static void check_sent(struct port *port, const struct rbt_block *block)
{
    struct rbt_frame head;
    RBT_ASSERT(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &head) == RBT_OK);
    RBT_ASSERT(head.length + RBT_FRAME_HEADER == block->bytes);
    RBT_ASSERT(port->is_open && !port->is_refused);
    switch (head.kind) {
    case RBT_FRAME_WELCOME:
        RBT_ASSERT(!port->is_welcome);
        port->is_welcome = true;
        break;
    case RBT_FRAME_REFUSED:
        port->is_refused = true;
        break;
    case RBT_FRAME_ROWS:
    case RBT_FRAME_ACK:
    case RBT_FRAME_DONE:
        RBT_ASSERT(port->is_welcome);
        break;
    default:
        RBT_UNREACHABLE(); /* nothing else is for a worker */
    }
}

static void perform(struct talk *talk)
{
    for (uint32_t i = 0; i < talk->out.count; i++) {
        const struct rbt_out *item = &talk->out.items[i];
        RBT_ASSERT(item->port < PORTS);
        struct port *port = &talk->ports[item->port];
        RBT_ASSERT(item->kind != RBT_OUT_CONNECT);
        if (item->kind == RBT_OUT_SEND) {
            check_sent(port, item->block);
            rbt_block_unref(item->block);
        } else {
            RBT_ASSERT(port->is_open);
            *port = (struct port){0};
        }
    }
    rbt_outbox_clear(&talk->out);
    for (uint32_t i = 0; i < PORTS; i++) {
        const struct port *a = &talk->ports[i];
        RBT_ASSERT(!a->is_refused); /* it was cut */
        RBT_ASSERT(rbt_service_is_admitted(talk->service, i) == a->is_welcome);
        for (uint32_t k = 0; k < i; k++) {
            const struct port *b = &talk->ports[k];
            RBT_ASSERT(!a->is_welcome || !b->is_welcome || a->is_reader || b->is_reader ||
                       a->worker == RBT_FRAME_NOBODY || a->worker != b->worker || a->job != b->job);
        }
    }
    RBT_ASSERT(rbt_alloc_live_bytes() < LIVE_MAX);
}

static void step(struct talk *talk, struct rbt_service_event event)
{
    rbt_service_step(talk->service, &event, talk->now, &talk->out);
    perform(talk);
}

static void note(void *context, const char *text)
{
    (void)context;
    RBT_ASSERT(text[0] != '\0');
}

static void note_version(void *context, uint64_t job, uint32_t table, uint64_t version)
{
    const struct talk *talk = context;
    (void)table;
    (void)version;
    RBT_ASSERT(rbt_service_host(talk->service, job) != NULL);
}

/* --- The coordinator ------------------------------------------------------------------------- */

static void admit(struct talk *talk, uint64_t number)
{
    step(talk, (struct rbt_service_event){.kind = RBT_SERVICE_ADMIT,
                                          .admit = {.number = number, .job = &talk->job}});
}

/* The shard is one of the cluster that this HELLO means. */
static void name(struct talk *talk, const struct rbt_wire_hello *hello)
{
    talk->has_name = true;
    talk->hello = *hello;
    talk->job.worker_count = hello->worker_count;
    talk->job.secret = hello->secret;
    talk->job.read_secret = hello->secret;
    talk->job.read_secret.bytes[0] ^= 1;
    step(talk, (struct rbt_service_event){.kind = RBT_SERVICE_NAME,
                                          .name = {hello->cluster, hello->shard}});
    admit(talk, hello->job);
}

/* --- Connections ----------------------------------------------------------------------------- */

static void step_port(struct talk *talk, struct rbt_port_event event)
{
    event.port = talk->current;
    step(talk, (struct rbt_service_event){.kind = RBT_SERVICE_PORT, .port = &event});
}

static void connect_port(struct talk *talk, bool is_near)
{
    if (!talk->ports[talk->current].is_open) {
        talk->ports[talk->current].is_open = true;
        step_port(talk, (struct rbt_port_event){.kind = RBT_PORT_UP,
                                                .up = {.peer = "10.0.0.1:7", .is_near = is_near}});
    }
}

static void cut_port(struct talk *talk, bool is_broken)
{
    if (!talk->ports[talk->current].is_open) {
        return;
    }
    if (!is_broken) {
        talk->ports[talk->current] = (struct port){0};
    }
    step_port(talk, (struct rbt_port_event){.kind = is_broken ? RBT_PORT_BROKEN : RBT_PORT_DOWN,
                                            .down = {.status = RBT_E_PROTOCOL, .why = "a fault"}});
}

/* Who a connection will be, if it is welcomed. */
static void note_hello(struct talk *talk, const struct script_frame *frame)
{
    struct rbt_wire_cursor cursor = script_body(frame);
    struct rbt_wire_hello hello;
    struct port *port = &talk->ports[talk->current];
    if (frame->head.kind != RBT_FRAME_HELLO || port->is_welcome ||
        rbt_wire_get_hello(&cursor, &hello) != RBT_OK || hello.job == 0 ||
        hello.worker_count == 0) {
        return;
    }
    if (!talk->has_name) {
        name(talk, &hello);
    }
    port->job = hello.job;
    port->worker = hello.worker;
    port->is_reader = hello.is_reader;
}

static void receive(struct talk *talk, struct script_frame *frame)
{
    connect_port(talk, false);
    if (frame->is_broken) {
        cut_port(talk, true);
    } else if (!large_message(&frame->head, script_body(frame))) {
        note_hello(talk, frame);
        step_port(talk,
                  (struct rbt_port_event){.kind = RBT_PORT_FRAME,
                                          .frame = {.head = frame->head, .body = frame->body}});
    }
    script_drop_frame(frame);
}

/* --- Messages that a worker could have sent -------------------------------------------------- */

static size_t put_table(struct talk *talk)
{
    const uint32_t number = (uint32_t)script_below(&talk->script, TABLES);
    struct rbt_spec table = {.number = number,
                             .type = number == 1 ? RBT_I64 : RBT_F32,
                             .layout = number == 1 ? RBT_SPARSE : RBT_DENSE,
                             .width = number == 1 ? 50 : 1 + number,
                             .staleness = (int64_t)script_below(&talk->script, 5) - 1,
                             .is_synchronised = number == 2,
                             .follows_job = script_once_in(&talk->script, 2)};
    (void)snprintf(table.name, sizeof table.name, "t%u", number); /* fits */
    (void)snprintf(table.rule, sizeof table.rule, "%s", number == 2 ? "dynsgd" : "");
    (void)snprintf(table.filter, sizeof table.filter, "%s", number == 0 ? "changed,f16" : "");
    return rbt_wire_put_table(message, &table);
}

/* Rows of a table, with values or without. */
static size_t put_rows(struct talk *talk, char *to, uint32_t table, bool has_values)
{
    static uint64_t keys[KEYS];
    static uint64_t values[4 * KEYS];
    static uint32_t offsets[KEYS + 1];
    static uint32_t elements[KEYS];
    const bool is_sparse = table == 1;
    const uint64_t gap = 1 + script_below(&talk->script, 3);
    struct rbt_wire_rows rows = {.table = table,
                                 .count = 1 + script_below(&talk->script, is_sparse ? 1 : KEYS),
                                 .keys = keys,
                                 .element_size = is_sparse ? 8 : 4,
                                 .width = is_sparse ? 50 : 1 + table,
                                 .compression = RBT_COMPRESSION_ZEROS};
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = i * gap;
        values[i] = i % 3 == 0 ? 0 : i;
        elements[i] = (uint32_t)i;
    }
    if (script_once_in(&talk->script, 3)) {
        rows.list = rbt_wire_list_name(keys, NULL, rows.count);
        rows.keys = has_values || script_once_in(&talk->script, 2) ? NULL : keys;
    }
    if (has_values) {
        rows.values = values;
        rows.has_base = table == 2;
        rows.base = rows.has_base ? script_below(&talk->script, 9) : 0;
        rows.least = rows.base;
        offsets[1] = (uint32_t)script_below(&talk->script, KEYS);
        rows.offsets = is_sparse ? offsets : NULL;
        rows.elements = is_sparse ? elements : NULL;
    }
    return rbt_wire_rows_put(to, &rows, NULL);
}

static struct rbt_frame put_push(struct talk *talk, size_t *bytes)
{
    struct port *port = &talk->ports[talk->current];
    const bool ends = script_once_in(&talk->script, 2);
    const struct rbt_wire_push push = {.clock = port->clock,
                                       .marker = ends ? port->clock + 1 : RBT_MARKER_NONE,
                                       .range_last = UINT64_MAX,
                                       .batch_count = (uint32_t)script_below(&talk->script, 3)};
    port->clock += ends;
    port->sequence++;
    *bytes = rbt_wire_put_push(message, &push);
    for (uint32_t i = 0; i < push.batch_count; i++) {
        const uint32_t table = (uint32_t)script_below(&talk->script, TABLES);
        *bytes += put_rows(talk, message + *bytes, table, true);
    }
    return (struct rbt_frame){.kind = RBT_FRAME_PUSH, .worker = port->worker, .id = port->sequence};
}

static size_t put_read(struct talk *talk, bool is_scan)
{
    const struct port *port = &talk->ports[talk->current];
    const uint32_t table = (uint32_t)script_below(&talk->script, TABLES);
    const int64_t need = port->clock - (int64_t)script_below(&talk->script, 3);
    if (is_scan) {
        const struct rbt_wire_scan scan = {.need = need,
                                           .table = table,
                                           .range_last = script_below(&talk->script, 100),
                                           .capacity = script_below(&talk->script, 50)};
        return rbt_wire_put_scan(message, &scan);
    }
    const struct rbt_wire_pull pull = {.need = need,
                                       .subscription = script_below(&talk->script, 3),
                                       .applied_count = (uint32_t)script_below(&talk->script, 2),
                                       .wants_stamp = table == 2,
                                       .is_base = table == 2 && script_once_in(&talk->script, 2),
                                       .least = script_below(&talk->script, 9),
                                       .sequence = port->sequence,
                                       .has_copy = table == 0 && script_once_in(&talk->script, 2)};
    const size_t bytes = rbt_wire_put_pull(message, &pull);
    return bytes + put_rows(talk, message + bytes, table, false);
}

static size_t put_hello(struct talk *talk)
{
    struct rbt_wire_hello hello = talk->hello;
    const uint64_t who = script_below(&talk->script, 8);
    hello.worker = who < 6 ? (uint32_t)(who % hello.worker_count) : RBT_FRAME_NOBODY;
    hello.is_reader = who == 7;
    hello.job += script_below(&talk->script, 8) / 7;
    hello.secret = hello.is_reader ? talk->job.read_secret : hello.secret;
    return rbt_wire_put_hello(message, &hello);
}

/* Any message, most of them what may be said on this connection. */
static struct rbt_frame put_message(struct talk *talk, size_t *bytes)
{
    const struct port *port = &talk->ports[talk->current];
    const uint64_t what = port->is_welcome ? script_below(&talk->script, 16) : 15;
    struct rbt_frame head = {.worker = port->worker, .id = script_below(&talk->script, 100)};
    *bytes = RBT_FRAME_HEADER;
    if (what < 5) {
        return put_push(talk, bytes);
    }
    if (what < 9) {
        head.kind = what < 8 ? RBT_FRAME_PULL : RBT_FRAME_SCAN;
        *bytes = put_read(talk, what == 8);
    } else if (what == 9) {
        head.kind = RBT_FRAME_LIST;
        *bytes += put_rows(talk, message + *bytes, 0, false);
    } else if (what < 12) {
        head.kind = RBT_FRAME_TABLE;
        *bytes = put_table(talk);
    } else if (what == 12) {
        head.kind = RBT_FRAME_RESET;
        head.id = talk->run += script_below(&talk->script, 2);
    } else if (what == 13) {
        head.kind = RBT_FRAME_STATS;
    } else if (what == 14) {
        head.kind = RBT_FRAME_LEAVE;
        head.id = port->sequence + 1;
    } else {
        head.kind = RBT_FRAME_HELLO;
        *bytes = put_hello(talk);
    }
    return head;
}

static void speak(struct talk *talk)
{
    size_t bytes = 0;
    connect_port(talk, script_once_in(&talk->script, 8));
    const struct rbt_frame head = put_message(talk, &bytes);
    RBT_ASSERT(bytes <= ROOM);
    rbt_wire_close(message, head, bytes);
    struct script_frame frame = script_make_frame(&talk->script, message, talk->damages);
    talk->damages = 0;
    receive(talk, &frame);
}

/* --- The script ------------------------------------------------------------------------------ */

static void pass_time(struct talk *talk)
{
    talk->now += (rbt_time)script_below(&talk->script, 200) * 20 * MS;
    if (rbt_service_deadline(talk->service) <= talk->now) {
        step(talk, (struct rbt_service_event){.kind = RBT_SERVICE_TIME});
        RBT_ASSERT(rbt_service_deadline(talk->service) > talk->now);
    }
}

static void change_bound(struct talk *talk, uint64_t job)
{
    const struct rbt_bound bound = {.number = 1 + script_below(&talk->script, 5),
                                    .table = script_once_in(&talk->script, 2)
                                                 ? RBT_CONTROL_ALL
                                                 : (uint32_t)script_below(&talk->script, TABLES),
                                    .staleness = (int64_t)script_below(&talk->script, 5) - 1};
    step(talk, (struct rbt_service_event){.kind = RBT_SERVICE_BOUND, .bound = {job, bound}});
}

/* What is neither a message nor the choice of a connection. */
static void happen(struct talk *talk, uint64_t what)
{
    const uint64_t job = talk->hello.job + what % JOBS;
    switch (what % 16) {
    case 0:
        cut_port(talk, what >= 64);
        break;
    case 1:
        pass_time(talk);
        break;
    case 2:
        step(talk, (struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = RBT_SERVICE_ALL});
        break;
    case 3:
        step(talk, (struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = talk->current});
        break;
    case 4:
        change_bound(talk, job);
        break;
    case 5:
        if (what < 32) {
            step(talk, (struct rbt_service_event){.kind = RBT_SERVICE_DROP, .drop = job});
        } else {
            admit(talk, job);
        }
        break;
    case 6:
        step(talk,
             (struct rbt_service_event){.kind = RBT_SERVICE_SHED, .shed = (uint32_t)what / 16});
        break;
    case 7:
        talk->damages = 1 + what / 16 % 4;
        break;
    default:
        speak(talk);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct talk talk = {.script = script_begin(data, size), .now = 1000 * MS, .run = 1};
    const struct rbt_service_options options = {
        .address = "here:1", .context = &talk, .on_note = note, .on_version = note_version};
    RBT_ASSERT(rbt_service_create(&options, &talk.service) == RBT_OK);
    uint32_t after = 0;
    for (uint32_t i = 0; i < STEPS_MAX && after < STEPS; i++) {
        after += talk.script.left == 0;
        talk.now += MS / 10;
        if (script_has_frame(&talk.script)) {
            struct script_frame frame = script_take_frame(&talk.script);
            receive(&talk, &frame);
            continue;
        }
        const uint64_t what = script_below(&talk.script, 256);
        if (what >= SCRIPT_PORT) {
            talk.current = (uint32_t)(what - SCRIPT_PORT) % PORTS;
            continue;
        }
        if (!talk.has_name) {
            name(&talk, &HELLO);
        }
        happen(&talk, what);
    }
    rbt_service_destroy(talk.service);
    rbt_outbox_deinit(&talk.out);
    rbt_block_trim();
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
