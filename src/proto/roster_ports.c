/* proto/roster_ports.c - the coordinator's connections, without I/O.
 *
 * What holds between two steps:
 *   (1) A peer of the roster has at most one connection, the newest; one that belongs to a peer is
 *       connected in the roster.
 *   (2) A connection is listed among the strangers exactly while it has no peer: it has not said
 * who it is, or is closing. (3) All that the roster wanted said was said, on the connection of its
 * peer if there is one: who has none is told when it comes back.
 *
 * Threads and memory: see roster_ports.h. Cost: signs of life, bounds and versions look at their
 * peer and its job; whatever may change who is there looks at all peers. */
#include "proto/roster_ports.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "proto/strangers.h"

#define MS           INT64_C(1000000)
#define HELLO_TIME   (5000 * MS) /* for a new connection to say who it is */
#define CLOSING_TIME (1000 * MS) /* for the last words to arrive */

enum {
    SHED_MAX = 16, /* strangers that go when there is no room */
};

struct line {
    struct rbt_stranger stranger; /* first: it leads back to the line */
    uint32_t port;
    uint32_t peer; /* or RBT_ROSTER_NOBODY */
    bool is_closing;
    rbt_time deadline;      /* of a line without a peer */
    char who[RBT_NAME_MAX]; /* where it came from, for people */
};

struct rbt_roster_ports {
    struct rbt_roster_ports_options options;
    rbt_roster *roster;
    struct rbt_roster_outbox effects;
    struct line **lines; /* by port */
    uint32_t line_max;
    struct line *by_peer[RBT_ROSTER_PEERS_MAX];
    struct rbt_strangers strangers;
    rbt_time stranger_deadline;     /* of the first of them, or before it */
    rbt_time roster_deadline;       /* the roster's, or before it */
    struct rbt_control_part *parts; /* RBT_CONTROL_PARTS_MAX; scratch */
    bool has_ended;
};

static rbt_time earlier(rbt_time a, rbt_time b)
{
    return a < b ? a : b;
}

/* One line of the log. */
static void note(const rbt_roster_ports *ports, enum rbt_log_level level, const char *format, ...)
    RBT_PRINTF(3, 4);

static void note(const rbt_roster_ports *ports, enum rbt_log_level level, const char *format, ...)
{
    char text[2 * RBT_WIRE_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* cut where it must be */
    va_end(args);
    ports->options.note(ports->options.context, level, text);
}

/* Strangers must not be able to fill the log. */
static void note_refused(rbt_roster_ports *ports, const char *who, const char *why, rbt_time now)
{
    if (rbt_strangers_may_log(&ports->strangers, now)) {
        note(ports, RBT_LOG_WARN, "refused a connection from %s: %s", who, why);
    }
}

static void end(rbt_roster_ports *ports, rbt_status status, const char *text)
{
    if (!ports->has_ended) {
        ports->has_ended = true;
        ports->options.on_end(ports->options.context, status, text);
    }
}

/* The coordinator cannot say what it has to. */
static void fail_memory(rbt_roster_ports *ports)
{
    end(ports, RBT_E_NOMEM, "could not allocate a message");
}

static void unlist(rbt_roster_ports *ports, struct line *line)
{
    rbt_strangers_remove(&ports->strangers, &line->stranger);
    if (line->peer != RBT_ROSTER_NOBODY) {
        ports->by_peer[line->peer] = NULL;
        line->peer = RBT_ROSTER_NOBODY;
    }
}

/* The connection is gone. */
static void free_line(rbt_roster_ports *ports, struct line *line)
{
    unlist(ports, line);
    ports->lines[line->port] = NULL;
    rbt_free(line);
}

static void cut(rbt_roster_ports *ports, struct line *line, struct rbt_outbox *out)
{
    if (rbt_outbox_cut(out, line->port) != RBT_OK) {
        fail_memory(ports);
    }
    free_line(ports, line);
}

/* The line has heard its last message; it is given time to arrive. */
static void close_line(rbt_roster_ports *ports, struct line *line, rbt_time now)
{
    line->is_closing = true;
    line->deadline = now + CLOSING_TIME;
    ports->stranger_deadline = earlier(ports->stranger_deadline, line->deadline);
    if (line->peer != RBT_ROSTER_NOBODY) { /* (2) */
        unlist(ports, line);
        rbt_strangers_add(&ports->strangers, &line->stranger, line->who);
    }
}

/* Takes the block; NULL means that there was no memory. */
static void send_block(rbt_roster_ports *ports, const struct line *line, struct rbt_block *block,
                       struct rbt_outbox *out)
{
    if (block == NULL || rbt_outbox_send(out, line->port, block) != RBT_OK) {
        fail_memory(ports);
    }
    rbt_block_unref(block);
}

static struct rbt_block *make_block(size_t bytes)
{
    struct rbt_block *block = rbt_block_create(bytes);
    if (block != NULL) {
        block->bytes = bytes;
    }
    return block;
}

static struct rbt_block *make_plain(enum rbt_frame_kind kind, uint64_t id)
{
    struct rbt_block *block = make_block(rbt_control_put_plain(NULL, kind, id));
    if (block != NULL) {
        (void)rbt_control_put_plain(block->data, kind, id);
    }
    return block;
}

static struct rbt_block *make_ending(enum rbt_frame_kind kind, rbt_status status, const char *text)
{
    struct rbt_block *block = make_block(rbt_control_put_ending(NULL, kind, status, text));
    if (block != NULL) {
        (void)rbt_control_put_ending(block->data, kind, status, text);
    }
    return block;
}

static struct rbt_block *make_plan(const rbt_roster_ports *ports, uint32_t peer)
{
    struct rbt_control_plan plan;
    rbt_roster_plan(ports->roster, peer, &plan);
    struct rbt_block *block = make_block(rbt_control_put_plan(NULL, &plan));
    if (block != NULL) {
        (void)rbt_control_put_plan(block->data, &plan);
    }
    return block;
}

static struct rbt_block *make_bound(const struct rbt_roster_effect *effect)
{
    const struct rbt_control_bound bound = {
        .job = effect->job, .table = effect->table, .staleness = effect->staleness};
    struct rbt_block *block = make_block(rbt_control_put_bound(NULL, effect->number, &bound));
    if (block != NULL) {
        (void)rbt_control_put_bound(block->data, effect->number, &bound);
    }
    return block;
}

static struct rbt_block *make_taken(const struct rbt_roster_effect *effect)
{
    struct rbt_block *block = make_block(rbt_control_put_taken(NULL, effect->number, effect->job));
    if (block != NULL) {
        (void)rbt_control_put_taken(block->data, effect->number, effect->job);
    }
    return block;
}

static struct rbt_block *make_stable(const struct rbt_roster_effect *effect)
{
    const struct rbt_control_version version = {.table = effect->table, .version = effect->number};
    const enum rbt_frame_kind kind = RBT_FRAME_STABLE;
    struct rbt_block *block =
        make_block(rbt_control_put_version(NULL, kind, effect->job, &version));
    if (block != NULL) {
        (void)rbt_control_put_version(block->data, kind, effect->job, &version);
    }
    return block;
}

static struct rbt_block *make_job(const rbt_roster_ports *ports, uint64_t number)
{
    struct rbt_control_job job;
    rbt_roster_job(ports->roster, number, &job);
    struct rbt_block *block = make_block(rbt_control_put_job(NULL, number, &job));
    if (block != NULL) {
        (void)rbt_control_put_job(block->data, number, &job);
    }
    return block;
}

/* All parts of a round in one block, which all its receivers share. */
static struct rbt_block *make_gathered(const rbt_roster_ports *ports,
                                       const struct rbt_roster_effect *effect)
{
    const uint32_t count = rbt_roster_parts(ports->roster, effect->job, ports->parts);
    struct rbt_block *block =
        make_block(rbt_control_put_gathered(NULL, effect->number, ports->parts, count));
    if (block != NULL) {
        (void)rbt_control_put_gathered(block->data, effect->number, ports->parts, count);
    }
    return block;
}

/* Does what the roster wants done on a line; parts of a round are for perform(). */
static void perform_on(rbt_roster_ports *ports, struct line *line,
                       const struct rbt_roster_effect *effect, rbt_time now, struct rbt_outbox *out)
{
    switch (effect->kind) {
    case RBT_ROSTER_PLAN:
        send_block(ports, line, make_plan(ports, effect->peer), out);
        break;
    case RBT_ROSTER_BOUND:
        send_block(ports, line, make_bound(effect), out);
        break;
    case RBT_ROSTER_TAKEN:
        send_block(ports, line, make_taken(effect), out);
        break;
    case RBT_ROSTER_STABLE:
        send_block(ports, line, make_stable(effect), out);
        break;
    case RBT_ROSTER_JOB:
        send_block(ports, line, make_job(ports, effect->job), out);
        break;
    case RBT_ROSTER_DROP:
        send_block(ports, line, make_plain(RBT_FRAME_DROP, effect->job), out);
        break;
    case RBT_ROSTER_FAILED:
        send_block(ports, line, make_ending(RBT_FRAME_FAILED, effect->status, effect->text), out);
        break;
    case RBT_ROSTER_GOODBYE:
        send_block(ports, line, make_ending(RBT_FRAME_GOODBYE, RBT_OK, ""), out);
        close_line(ports, line, now);
        break;
    case RBT_ROSTER_LOST:
        cut(ports, line, out);
        break;
    case RBT_ROSTER_GATHERED:
    case RBT_ROSTER_STARTED:
    case RBT_ROSTER_ENDED:
    case RBT_ROSTER_END:
        RBT_UNREACHABLE();
    }
}

static void note_effect(const rbt_roster_ports *ports, const struct rbt_roster_effect *effect)
{
    char node[RBT_ROSTER_NODE_MAX];
    const unsigned long long job = (unsigned long long)effect->job;
    if (effect->kind == RBT_ROSTER_GOODBYE) {
        note(ports, RBT_LOG_INFO, "left node=%s",
             rbt_roster_node(ports->roster, effect->peer, node));
    } else if (effect->kind == RBT_ROSTER_LOST) {
        note(ports, RBT_LOG_WARN, "%s", effect->text);
        if (ports->options.on_lost != NULL) {
            ports->options.on_lost(ports->options.context,
                                   rbt_roster_node(ports->roster, effect->peer, node));
        }
    } else if (effect->kind == RBT_ROSTER_STARTED) {
        note(ports, RBT_LOG_INFO, "job started job=%llu space=%s", job, effect->text);
    } else if (effect->kind == RBT_ROSTER_ENDED && effect->status == RBT_OK) {
        note(ports, RBT_LOG_INFO, "job ended job=%llu", job);
    } else if (effect->kind == RBT_ROSTER_ENDED) {
        note(ports, RBT_LOG_INFO, "job failed job=%llu why=\"%s\"", job, effect->text);
    }
}

/* Does what the roster wants done. (3) */
static void perform(rbt_roster_ports *ports, rbt_time now, struct rbt_outbox *out)
{
    struct rbt_block *gathered = NULL;
    uint64_t gathered_job = 0;
    for (size_t i = 0; i < ports->effects.count; i++) {
        const struct rbt_roster_effect *effect = &ports->effects.effects[i];
        note_effect(ports, effect);
        if (effect->kind == RBT_ROSTER_END) {
            end(ports, effect->status, effect->text);
        }
        if (effect->kind == RBT_ROSTER_END || effect->kind == RBT_ROSTER_STARTED ||
            effect->kind == RBT_ROSTER_ENDED || ports->by_peer[effect->peer] == NULL) {
            continue;
        }
        struct line *line = ports->by_peer[effect->peer];
        if (effect->kind != RBT_ROSTER_GATHERED) {
            perform_on(ports, line, effect, now, out);
            continue;
        }
        if (gathered == NULL || gathered_job != effect->job) {
            rbt_block_unref(gathered);
            gathered = make_gathered(ports, effect);
            gathered_job = effect->job;
        }
        if (gathered != NULL) {
            rbt_block_ref(gathered);
        }
        send_block(ports, line, gathered, out);
    }
    rbt_block_unref(gathered);
    ports->effects.count = 0;
    if (ports->effects.has_failed) {
        fail_memory(ports);
    }
}

static void refuse(rbt_roster_ports *ports, struct line *line, rbt_status st, const char *why,
                   rbt_time now, struct rbt_outbox *out)
{
    note_refused(ports, line->who, why, now);
    send_block(ports, line, make_ending(RBT_FRAME_FAILED, st, why), out);
    close_line(ports, line, now);
}

static rbt_status hear_join(rbt_roster_ports *ports, struct line *line, struct rbt_wire_cursor body,
                            rbt_time now, struct rbt_outbox *out)
{
    struct rbt_control_join join;
    rbt_status st = rbt_control_get_join(body, &join);
    if (st != RBT_OK) {
        return st;
    }
    uint32_t peer;
    st = rbt_roster_join(ports->roster, &join, now, &ports->effects, &peer);
    if (st != RBT_OK) {
        char why[RBT_WIRE_TEXT_MAX];
        (void)snprintf(why, sizeof why, "%s", rbt_last_error());
        refuse(ports, line, st, why, now, out);
        return RBT_OK;
    }
    if (ports->by_peer[peer] != NULL) { /* (1): the end of the old one was not noticed yet */
        cut(ports, ports->by_peer[peer], out);
    }
    ports->by_peer[peer] = line;
    line->peer = peer;
    rbt_strangers_remove(&ports->strangers, &line->stranger); /* (2) */
    if (join.role == RBT_ROLE_WORKER) {
        ports->options.on_worker(ports->options.context, line->port);
    }
    char node[RBT_ROSTER_NODE_MAX];
    note(ports, RBT_LOG_INFO, "%s node=%s host=%s pid=%u", join.is_return ? "came back" : "joined",
         rbt_roster_node(ports->roster, peer, node), join.host, join.pid);
    send_block(ports, line, make_plain(RBT_FRAME_BEAT, 0), out); /* it is known now */
    return RBT_OK;
}

static rbt_status hear_beat(rbt_roster_ports *ports, const struct line *line,
                            struct rbt_wire_cursor body, struct rbt_outbox *out)
{
    const rbt_status st = rbt_control_get_plain(body);
    if (st == RBT_OK) {
        send_block(ports, line, make_plain(RBT_FRAME_BEAT, 0), out);
    }
    return st;
}

static rbt_status hear_goodbye(rbt_roster_ports *ports, const struct line *line,
                               struct rbt_wire_cursor body, rbt_time now)
{
    struct rbt_control_ending ending;
    const rbt_status st = rbt_control_get_ending(body, &ending);
    if (st == RBT_OK) {
        rbt_roster_leave(ports->roster, line->peer, &ending, now, &ports->effects);
    }
    return st;
}

/* A message of a peer that is known. */
static rbt_status hear_peer(rbt_roster_ports *ports, const struct line *line,
                            const struct rbt_frame *frame, struct rbt_wire_cursor body,
                            rbt_time now, struct rbt_outbox *out)
{
    struct rbt_roster_outbox *effects = &ports->effects;
    struct rbt_control_part part;
    struct rbt_control_version version;
    struct rbt_control_bound bound;
    uint64_t job;
    rbt_status st;
    rbt_roster_hear(ports->roster, line->peer, now);
    switch (frame->kind) {
    case RBT_FRAME_BEAT:
        return hear_beat(ports, line, body, out);
    case RBT_FRAME_GATHER:
        st = rbt_control_get_gather(body, &part);
        return st != RBT_OK
                   ? st
                   : rbt_roster_gather(ports->roster, line->peer, frame->id, &part, effects);
    case RBT_FRAME_BOUND:
        st = rbt_control_get_bound(body, &bound);
        return st != RBT_OK
                   ? st
                   : rbt_roster_bound(ports->roster, line->peer, frame->id, &bound, effects);
    case RBT_FRAME_BOUND_TAKEN:
        st = rbt_control_get_taken(body, &job);
        return st != RBT_OK ? st
                            : rbt_roster_taken(ports->roster, line->peer, job, frame->id, effects);
    case RBT_FRAME_VERSION:
        st = rbt_control_get_version(body, &version);
        return st != RBT_OK
                   ? st
                   : rbt_roster_version(ports->roster, line->peer, frame->id, &version, effects);
    case RBT_FRAME_GOODBYE:
        return hear_goodbye(ports, line, body, now);
    default:
        return rbt_fail(RBT_E_PROTOCOL, "malformed message: kind %u is not for a coordinator",
                        frame->kind);
    }
}

static rbt_status hear(rbt_roster_ports *ports, struct line *line,
                       const struct rbt_port_event *event, rbt_time now, struct rbt_outbox *out)
{
    const struct rbt_frame *frame = &event->frame.head;
    const struct rbt_wire_cursor body = {.at = event->frame.body,
                                         .end = event->frame.body + frame->length};
    if (line->is_closing) { /* who was refused says goodbye, too */
        if (frame->kind == RBT_FRAME_GOODBYE) {
            send_block(ports, line, make_ending(RBT_FRAME_GOODBYE, RBT_OK, ""), out);
        }
        return RBT_OK;
    }
    if (line->peer != RBT_ROSTER_NOBODY) {
        return hear_peer(ports, line, frame, body, now, out);
    }
    if (frame->kind != RBT_FRAME_JOIN) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed message: the first is of kind %u instead of a greeting",
                        frame->kind);
    }
    return hear_join(ports, line, body, now, out);
}

/* What was said on the line makes no sense, or could not be kept. */
static void break_line(rbt_roster_ports *ports, struct line *line, rbt_status st, const char *why,
                       rbt_time now, struct rbt_outbox *out)
{
    if (line->is_closing) {
        cut(ports, line, out);
    } else if (line->peer == RBT_ROSTER_NOBODY && st == RBT_E_PROTOCOL) {
        refuse(ports, line, st, why, now, out); /* one of ours with another version, or a key? */
    } else if (line->peer == RBT_ROSTER_NOBODY) {
        note_refused(ports, line->who, why, now);
        cut(ports, line, out);
    } else {
        struct rbt_control_ending ending = {.status = st};
        (void)snprintf(ending.text, sizeof ending.text, "%s", why);
        send_block(ports, line, make_ending(RBT_FRAME_FAILED, st, ending.text), out);
        rbt_roster_leave(ports->roster, line->peer, &ending, now, &ports->effects);
        perform(ports, now, out);
    }
}

static void step_frame(rbt_roster_ports *ports, const struct rbt_port_event *event, rbt_time now,
                       struct rbt_outbox *out)
{
    const rbt_status st = hear(ports, ports->lines[event->port], event, now, out);
    char why[RBT_WIRE_TEXT_MAX] = "";
    if (st != RBT_OK) {
        (void)snprintf(why, sizeof why, "%s", rbt_last_error());
    }
    perform(ports, now, out);
    if (st != RBT_OK && ports->lines[event->port] != NULL) {
        break_line(ports, ports->lines[event->port], st, why, now, out);
    }
}

static void step_down(rbt_roster_ports *ports, const struct rbt_port_event *event, rbt_time now)
{
    struct line *line = ports->lines[event->port];
    const uint32_t peer = line->peer;
    if (peer != RBT_ROSTER_NOBODY) {
        char node[RBT_ROSTER_NODE_MAX];
        note(ports, RBT_LOG_INFO, "connection cut node=%s",
             rbt_roster_node(ports->roster, peer, node));
        rbt_roster_cut(ports->roster, peer, now);
    } else if (!line->is_closing) {
        note_refused(ports, line->who, event->down.why, now);
    }
    free_line(ports, line);
}

static void turn_away(rbt_roster_ports *ports, struct line *line, rbt_time now,
                      struct rbt_outbox *out)
{
    note_refused(ports, line->who,
                 "too many connections have not greeted, and it was the oldest of them", now);
    cut(ports, line, out);
}

/* Makes room for somebody who comes from there. */
static void make_room(rbt_roster_ports *ports, const char *who, rbt_time now,
                      struct rbt_outbox *out)
{
    static const struct rbt_strangers_limits limits = {.all = RBT_STRANGERS_MAX,
                                                       .per_host = RBT_STRANGERS_PER_HOST_MAX};
    struct rbt_stranger *oldest = rbt_strangers_displaced(&ports->strangers, who, &limits);
    if (oldest != NULL) {
        turn_away(ports, (struct line *)oldest, now, out);
    }
}

/* The place for the port's line, or NULL without memory. */
static struct line **place_at(rbt_roster_ports *ports, uint32_t port)
{
    if (port >= ports->line_max) {
        const uint32_t max = port < 32 ? 64 : 2 * port;
        struct line **lines = rbt_realloc(ports->lines, max, sizeof(struct line *));
        if (lines == NULL) {
            return NULL;
        }
        for (uint32_t i = ports->line_max; i < max; i++) {
            lines[i] = NULL;
        }
        ports->lines = lines;
        ports->line_max = max;
    }
    RBT_ASSERT(ports->lines[port] == NULL);
    return &ports->lines[port];
}

static void step_up(rbt_roster_ports *ports, const struct rbt_port_event *event, rbt_time now,
                    struct rbt_outbox *out)
{
    struct line **place = place_at(ports, event->port);
    struct line *line = place == NULL ? NULL : rbt_calloc(1, sizeof *line);
    if (line == NULL) {
        if (rbt_outbox_cut(out, event->port) != RBT_OK) { /* it tries again */
            fail_memory(ports);
        }
        return;
    }
    line->port = event->port;
    line->peer = RBT_ROSTER_NOBODY;
    line->deadline = now + HELLO_TIME;
    (void)snprintf(line->who, sizeof line->who, "%s", event->up.peer);
    make_room(ports, line->who, now, out);
    rbt_strangers_add(&ports->strangers, &line->stranger, line->who); /* (2) */
    ports->stranger_deadline = earlier(ports->stranger_deadline, line->deadline);
    *place = line;
}

static void step_port(rbt_roster_ports *ports, const struct rbt_port_event *event, rbt_time now,
                      struct rbt_outbox *out)
{
    RBT_ASSERT(event->kind == RBT_PORT_UP ||
               (event->port < ports->line_max && ports->lines[event->port] != NULL));
    switch (event->kind) {
    case RBT_PORT_UP:
        step_up(ports, event, now, out);
        break;
    case RBT_PORT_FRAME:
        step_frame(ports, event, now, out);
        break;
    case RBT_PORT_BROKEN:
        break_line(ports, ports->lines[event->port], event->down.status, event->down.why, now, out);
        break;
    case RBT_PORT_DOWN:
        step_down(ports, event, now);
        break;
    case RBT_PORT_ROOM:
        break;
    }
}

/* Strangers who have not said who they are in time go, and those who have heard the last word. */
static void expire_strangers(rbt_roster_ports *ports, rbt_time now, struct rbt_outbox *out)
{
    ports->stranger_deadline = RBT_TIME_NEVER;
    struct rbt_stranger *next;
    for (struct rbt_stranger *s = ports->strangers.oldest; s != NULL; s = next) {
        struct line *line = (struct line *)s;
        next = s->newer;
        if (now < line->deadline) {
            ports->stranger_deadline = earlier(ports->stranger_deadline, line->deadline);
            continue;
        }
        if (!line->is_closing) {
            note(ports, RBT_LOG_WARN,
                 "refused a connection from %s: it sent no greeting within %ds", line->who,
                 (int)(HELLO_TIME / (1000 * MS)));
        }
        cut(ports, line, out);
    }
}

static void shed_strangers(rbt_roster_ports *ports, rbt_time now, struct rbt_outbox *out)
{
    for (int i = 0; i < SHED_MAX && ports->strangers.oldest != NULL; i++) {
        turn_away(ports, (struct line *)ports->strangers.oldest, now, out);
    }
}

/* Whether the event can make something of the roster late before its deadline. */
static bool may_hurry(const struct rbt_roster_ports_event *event)
{
    if (event->kind != RBT_ROSTER_PORTS_PORT || event->port->kind != RBT_PORT_FRAME) {
        return true;
    }
    const uint16_t kind = event->port->frame.head.kind;
    return kind != RBT_FRAME_BEAT && kind != RBT_FRAME_VERSION && kind != RBT_FRAME_BOUND;
}

void rbt_roster_ports_step(rbt_roster_ports *ports, const struct rbt_roster_ports_event *event,
                           rbt_time now, struct rbt_outbox *out)
{
    switch (event->kind) {
    case RBT_ROSTER_PORTS_PORT:
        step_port(ports, event->port, now, out);
        break;
    case RBT_ROSTER_PORTS_NO_ROOM:
        shed_strangers(ports, now, out);
        break;
    case RBT_ROSTER_PORTS_STOP:
        rbt_roster_stop(ports->roster, event->why, now, &ports->effects);
        perform(ports, now, out);
        break;
    case RBT_ROSTER_PORTS_TIME:
        expire_strangers(ports, now, out);
        rbt_roster_expire(ports->roster, now, &ports->effects);
        perform(ports, now, out);
        break;
    }
    if (may_hurry(event)) {
        ports->roster_deadline = rbt_roster_deadline(ports->roster);
    }
}

rbt_time rbt_roster_ports_deadline(const rbt_roster_ports *ports)
{
    return earlier(ports->stranger_deadline, ports->roster_deadline);
}

rbt_status rbt_roster_ports_create(const struct rbt_roster_ports_options *options, rbt_time now,
                                   rbt_roster_ports **ports)
{
    rbt_roster_ports *p = rbt_calloc(1, sizeof *p);
    if (p == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the coordinator");
    }
    p->options = *options;
    p->stranger_deadline = RBT_TIME_NEVER;
    p->parts = rbt_calloc(RBT_CONTROL_PARTS_MAX, sizeof *p->parts);
    const rbt_status st = p->parts == NULL
                              ? rbt_fail(RBT_E_NOMEM, "could not allocate the coordinator")
                              : rbt_roster_create(&options->roster, now, &p->roster);
    if (st != RBT_OK) {
        rbt_roster_ports_destroy(p);
        return st;
    }
    p->roster_deadline = rbt_roster_deadline(p->roster);
    *ports = p;
    return RBT_OK;
}

void rbt_roster_ports_destroy(rbt_roster_ports *ports)
{
    if (ports == NULL) {
        return;
    }
    for (uint32_t i = 0; i < ports->line_max; i++) {
        rbt_free(ports->lines[i]);
    }
    rbt_free(ports->lines);
    rbt_roster_outbox_deinit(&ports->effects);
    rbt_roster_destroy(ports->roster);
    rbt_free(ports->parts);
    rbt_free(ports);
}
