/* test/fuzz/roster_fuzz.c - the coordinator survives whatever processes say, in whatever order, and
 * however long they are silent.
 *
 * An input is a script (fuzz/script.h) for the coordinator's machine (proto/roster_ports.h):
 * servers and workers of several jobs come, come back, gather, tell bounds and versions, are cut
 * off, leave or are lost. There are as many servers as say JOIN in the input, so that conversations
 * of simulations go on behind that. What the coordinator wants done must make sense: it says what a
 * member can read, on connections that are there, and nothing after the last word; and a process
 * has one connection. */
#include <stdio.h>

#include <rubato/status.h>

#include "fuzz/script.h"
#include "proto/roster_ports.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)

enum {
    STEPS = 40,      /* after the end of the input */
    STEPS_MAX = 200, /* in all: each looks at all places of a roster */
    PORTS = 24,
    TOKENS = 12,
    SERVERS_MAX = 4,
    ROOM = 1 << 14,
    LIVE_MAX = 64 << 20,
};

struct port {
    bool is_open;
    bool is_known;  /* its JOIN was answered */
    uint64_t token; /* of that, or of one that is being answered */
    bool is_closing;
};

struct history {
    struct script script;
    rbt_roster_ports *coordinator;
    struct rbt_outbox out;
    struct port ports[PORTS];
    uint32_t current;
    uint64_t damages;
    uint64_t job; /* the last that servers were told of */
    bool has_ended;
    rbt_time now;
};

static _Alignas(8) char message[ROOM];

/* What secrets are made of; here anything that differs. */
static rbt_status draw_bytes(void *bytes, size_t size)
{
    static uint64_t last;
    last++;
    memset(bytes, 1, size);
    memcpy(bytes, &last, size < sizeof last ? size : sizeof last);
    return RBT_OK;
}

/* --- What the coordinator wants done --------------------------------------------------------- */

static bool can_be_read(const struct rbt_frame *head, struct rbt_wire_cursor body)
{
    struct rbt_control_plan plan;
    struct rbt_control_bound bound;
    struct rbt_control_version version;
    struct rbt_control_job job;
    struct rbt_control_ending ending;
    struct rbt_wire_cursor parts;
    uint32_t count;
    uint64_t number;
    switch (head->kind) {
    case RBT_FRAME_PLAN:
        return rbt_control_get_plan(body, &plan) == RBT_OK;
    case RBT_FRAME_BEAT:
    case RBT_FRAME_DROP:
        return rbt_control_get_plain(body) == RBT_OK;
    case RBT_FRAME_GATHERED:
        return rbt_control_get_gathered(body, &parts, &count) == RBT_OK && count > 0;
    case RBT_FRAME_BOUND:
        return rbt_control_get_bound(body, &bound) == RBT_OK && head->id > 0;
    case RBT_FRAME_BOUND_TAKEN:
        return rbt_control_get_taken(body, &number) == RBT_OK;
    case RBT_FRAME_STABLE:
        return rbt_control_get_version(body, &version) == RBT_OK;
    case RBT_FRAME_JOB:
        return rbt_control_get_job(body, &job) == RBT_OK && head->id > 0;
    case RBT_FRAME_FAILED:
    case RBT_FRAME_GOODBYE:
        return rbt_control_get_ending(body, &ending) == RBT_OK;
    default:
        return false; /* nothing else is for a member */
    }
}

static void check_sent(struct history *history, struct port *port, const struct rbt_block *block)
{
    struct rbt_frame head;
    RBT_ASSERT(port->is_open);
    RBT_ASSERT(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &head) == RBT_OK);
    RBT_ASSERT(head.length + RBT_FRAME_HEADER == block->bytes);
    RBT_ASSERT(can_be_read(&head, (struct rbt_wire_cursor){block->data + RBT_FRAME_HEADER,
                                                           block->data + block->bytes}));
    RBT_ASSERT(!port->is_closing || head.kind == RBT_FRAME_GOODBYE);
    port->is_closing = port->is_closing || head.kind == RBT_FRAME_GOODBYE;
    port->is_known = port->is_known || (head.kind == RBT_FRAME_BEAT && port->token != 0);
    history->job = head.kind == RBT_FRAME_JOB ? head.id : history->job;
}

static void perform(struct history *history)
{
    for (uint32_t i = 0; i < history->out.count; i++) {
        const struct rbt_out *item = &history->out.items[i];
        RBT_ASSERT(item->port < PORTS && item->kind != RBT_OUT_CONNECT);
        struct port *port = &history->ports[item->port];
        if (item->kind == RBT_OUT_SEND) {
            check_sent(history, port, item->block);
            rbt_block_unref(item->block);
        } else {
            RBT_ASSERT(port->is_open);
            *port = (struct port){0};
        }
    }
    rbt_outbox_clear(&history->out);
    for (uint32_t i = 0; i < PORTS; i++) {
        for (uint32_t k = 0; k < i; k++) { /* a process has one connection */
            const struct port *a = &history->ports[i];
            const struct port *b = &history->ports[k];
            RBT_ASSERT(!a->is_known || !b->is_known || a->is_closing || b->is_closing ||
                       a->token != b->token);
        }
    }
    RBT_ASSERT(rbt_alloc_live_bytes() < LIVE_MAX);
}

static void step(struct history *history, struct rbt_roster_ports_event event)
{
    rbt_roster_ports_step(history->coordinator, &event, history->now, &history->out);
    perform(history);
}

static void note(void *context, enum rbt_log_level level, const char *text)
{
    (void)context;
    (void)level;
    RBT_ASSERT(text[0] != '\0');
}

static void on_worker(void *context, uint32_t port)
{
    const struct history *history = context;
    RBT_ASSERT(port < PORTS && history->ports[port].is_open);
}

static void on_end(void *context, rbt_status status, const char *text)
{
    struct history *history = context;
    RBT_ASSERT(!history->has_ended);
    RBT_ASSERT(status == RBT_OK || text[0] != '\0');
    history->has_ended = true;
}

/* --- Connections ----------------------------------------------------------------------------- */

static void step_port(struct history *history, struct rbt_port_event event)
{
    event.port = history->current;
    step(history, (struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_PORT, .port = &event});
}

static void connect_port(struct history *history)
{
    if (!history->ports[history->current].is_open) {
        history->ports[history->current].is_open = true;
        step_port(history,
                  (struct rbt_port_event){.kind = RBT_PORT_UP, .up = {.peer = "10.0.0.1:7"}});
    }
}

static void cut_port(struct history *history, bool is_broken)
{
    if (!history->ports[history->current].is_open) {
        return;
    }
    if (!is_broken) {
        history->ports[history->current] = (struct port){0};
    }
    step_port(history, (struct rbt_port_event){.kind = is_broken ? RBT_PORT_BROKEN : RBT_PORT_DOWN,
                                               .down = {RBT_E_PROTOCOL, "a fault"}});
}

/* Who a connection will be, if it is let in. */
static void note_join(struct port *port, const struct script_frame *frame)
{
    struct rbt_control_join join;
    if (!frame->is_broken && frame->head.kind == RBT_FRAME_JOIN && !port->is_known &&
        rbt_control_get_join(script_body(frame), &join) == RBT_OK) {
        port->token = join.token;
    }
}

static void receive(struct history *history, struct script_frame *frame)
{
    connect_port(history);
    note_join(&history->ports[history->current], frame);
    if (frame->is_broken) {
        cut_port(history, true);
    } else {
        step_port(history,
                  (struct rbt_port_event){.kind = RBT_PORT_FRAME,
                                          .frame = {.head = frame->head, .body = frame->body}});
    }
    script_drop_frame(frame);
}

/* --- Messages that a process could have sent ------------------------------------------------- */

static void put_join(struct script *script)
{
    static const char *const shards[] = {"unix:a", "10.0.0.1:7000", "[::1]:1"};
    struct rbt_control_join join = {.token = 1 + script_below(script, TOKENS),
                                    .is_return = script_once_in(script, 4),
                                    .role = script_once_in(script, 3) ? RBT_ROLE_SERVER
                                                                      : RBT_ROLE_WORKER,
                                    .index = (int32_t)script_below(script, 4) - 1,
                                    .pid = 1234};
    (void)snprintf(join.host, sizeof join.host, "host"); /* fits */
    if (join.role == RBT_ROLE_SERVER) {
        join.shards.count = 1 + (uint32_t)script_below(script, 3);
        join.shards.texts = shards;
    } else {
        join.worker_count = 1 + (uint32_t)script_below(script, 3);
        join.thread_count = 1 + (uint32_t)script_below(script, join.worker_count);
        (void)snprintf(join.space, sizeof join.space, "s%d", (int)script_below(script, 3));
        memset(&join.permit, (int)script_below(script, 8) / 6, sizeof join.permit);
        join.role = script_once_in(script, 6) ? RBT_ROLE_READER : RBT_ROLE_WORKER;
    }
    (void)rbt_control_put_join(message, &join);
}

static void put_message(struct history *history)
{
    struct script *script = &history->script;
    const uint64_t number = 1 + script_below(script, 6);
    const uint64_t what = script_below(script, 10);
    const uint64_t job = history->job + script_once_in(script, 9);
    const struct rbt_control_part part = {"some bytes of a part", (size_t)(3 * number)};
    const struct rbt_control_bound bound = {
        .job = job, .table = (uint32_t)(number % 3), .staleness = (int64_t)script_below(script, 4)};
    const struct rbt_control_version version = {.table = (uint32_t)(number % 3),
                                                .version = script_below(script, 9)};
    if (what < 3) {
        (void)rbt_control_put_gather(message, number, &part);
    } else if (what == 3) {
        (void)rbt_control_put_bound(message, number, &bound);
    } else if (what == 4) {
        (void)rbt_control_put_taken(message, number, job);
    } else if (what < 8) {
        (void)rbt_control_put_version(message, RBT_FRAME_VERSION, job, &version);
    } else if (what == 8) {
        (void)rbt_control_put_plain(message, RBT_FRAME_BEAT, 0);
    } else {
        const bool is_good = number % 3 > 0;
        (void)rbt_control_put_ending(message, RBT_FRAME_GOODBYE, is_good ? RBT_OK : RBT_E_DATA,
                                     is_good ? "" : "because");
    }
}

static void speak(struct history *history, bool is_join)
{
    if (is_join) {
        put_join(&history->script);
    } else {
        put_message(history);
    }
    struct script_frame frame = script_make_frame(&history->script, message, history->damages);
    history->damages = 0;
    receive(history, &frame);
}

/* --- The script ------------------------------------------------------------------------------ */

static void pass_time(struct history *history, rbt_time time)
{
    history->now += time;
    step(history, (struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_TIME});
    RBT_ASSERT(history->has_ended ||
               rbt_roster_ports_deadline(history->coordinator) > history->now);
}

static void happen(struct history *history, uint64_t what)
{
    const rbt_time deadline = rbt_roster_ports_deadline(history->coordinator);
    switch (what % 16) {
    case 0:
        cut_port(history, what >= 96);
        break;
    case 1:
        pass_time(history, (rbt_time)script_below(&history->script, 256) * 10 * MS);
        break;
    case 2:
        if (deadline != RBT_TIME_NEVER) {
            pass_time(history, deadline > history->now ? deadline - history->now : 0);
        }
        break;
    case 3:
        history->damages = 1 + what / 16 % 4;
        break;
    case 4:
        if (what >= 96) {
            step(history, (struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_NO_ROOM});
        } else if (what < 16) {
            step(history, (struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_STOP,
                                                          .why = "it was told to"});
        }
        break;
    default: /* a port that is not open begins with JOIN, mostly */
        speak(history, !history->ports[history->current].is_open || what >= 120);
        break;
    }
}

/* How many different servers say JOIN in the script. */
static uint32_t count_servers(struct script script)
{
    uint64_t tokens[SERVERS_MAX];
    uint32_t count = 0;
    while (script.left > 0 && count < SERVERS_MAX) {
        struct rbt_control_join join;
        if (!script_has_frame(&script)) {
            (void)script_below(&script, 1);
            continue;
        }
        struct script_frame frame = script_take_frame(&script);
        bool is_new = !frame.is_broken && frame.head.kind == RBT_FRAME_JOIN &&
                      rbt_control_get_join(script_body(&frame), &join) == RBT_OK &&
                      join.role == RBT_ROLE_SERVER;
        for (uint32_t i = 0; is_new && i < count; i++) {
            is_new = tokens[i] != join.token;
        }
        if (is_new) {
            tokens[count++] = join.token;
        }
        script_drop_frame(&frame);
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct history history = {.script = script_begin(data, size), .now = 1000 * MS, .job = 1};
    const uint32_t servers = count_servers(history.script);
    const struct rbt_roster_ports_options options = {
        .roster = {.cluster = 99,
                   .server_count = servers > 0 ? servers : 1 + (uint32_t)(size % 2),
                   .is_once = size == 0 || data[size - 1] % 2 == 0,
                   .start_timeout = 30000 * MS,
                   .silence_max = 10000 * MS,
                   .cut_max = 3000 * MS,
                   .draw = draw_bytes},
        .context = &history,
        .note = note,
        .on_worker = on_worker,
        .on_end = on_end};
    RBT_ASSERT(rbt_roster_ports_create(&options, history.now, &history.coordinator) == RBT_OK);
    uint32_t after = 0;
    for (uint32_t i = 0; i < STEPS_MAX && after < STEPS && !history.has_ended; i++) {
        after += history.script.left == 0;
        history.now += MS / 10;
        if (script_has_frame(&history.script)) {
            struct script_frame frame = script_take_frame(&history.script);
            receive(&history, &frame);
            continue;
        }
        const uint64_t what = script_below(&history.script, 256);
        if (what >= SCRIPT_PORT) {
            history.current = (uint32_t)(what - SCRIPT_PORT) % PORTS;
        } else {
            happen(&history, what);
        }
    }
    rbt_roster_ports_destroy(history.coordinator);
    rbt_outbox_deinit(&history.out);
    rbt_block_trim();
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
