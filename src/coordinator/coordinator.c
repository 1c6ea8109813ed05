/* coordinator/coordinator.c - drives the roster: sockets, frames, timers and the log.
 *
 * Every connection is a line. It has said nothing yet, belongs to a peer of the roster, or is
 * closing: what was said last is still under way, nothing more is listened to, and the other side
 * has a moment to hear it. A line that has ended is freed when the loop sleeps next, since whoever
 * ended it may be in the middle of reading from it.
 *
 * Threads: one, the caller's. */
#include "coordinator/coordinator.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "net/address.h"
#include "net/channel.h"
#include "net/loop.h"
#include "net/member.h"
#include "proto/roster.h"
#include "proto/strangers.h"
#include "wire/control.h"

#define MS           INT64_C(1000000)
#define HELLO_TIME   (5000 * MS) /* for a new connection to say who it is; see on_tick() */
#define CLOSING_TIME (1000 * MS) /* for the last words to arrive */
#define TICK_MAX     (100 * MS)
#define DEAF_TIME    (10000 * MS) /* before the log is told again that nobody can be accepted */

enum {
    STRANGERS_MAX = 256, /* connections that belong to nobody */
    PER_HOST_MAX = 192,  /* the same, from one host: a cluster may be on one, and come at once */
    ACCEPT_MAX = 16,     /* connections before those that were accepted have their turn */
};

struct driver;

struct line {
    struct rbt_stranger stranger; /* first: it leads back to the line */
    struct line *next;
    struct driver *driver;
    rbt_channel *channel;
    rbt_watch *watch;
    uint32_t peer; /* or RBT_ROSTER_NOBODY */
    bool is_closing;
    bool is_over;              /* freed soon */
    rbt_time deadline;         /* of a line without a peer */
    char who[RBT_ADDRESS_MAX]; /* where it came from, for people */
};

struct driver {
    const struct rbt_coordinator_options *options;
    rbt_roster *roster;
    struct rbt_roster_outbox out;
    rbt_loop *loop;
    rbt_timer *timer;
    int listener;
    rbt_watch *listener_watch;
    struct line *lines;
    struct line *by_peer[RBT_ROSTER_PEERS_MAX];
    struct rbt_strangers strangers;
    bool is_deaf;         /* no descriptor is free: nobody is accepted until the next tick */
    rbt_time deaf_logged; /* when the log was told, or 0 */
    struct rbt_control_part *parts; /* RBT_CONTROL_PARTS_MAX; scratch */
    rbt_status status;
    char text[RBT_WIRE_TEXT_MAX];
};

/* One line of the log. */
static void note(const struct driver *driver, enum rbt_log_level level, const char *format, ...)
    RBT_PRINTF(3, 4);

static void note(const struct driver *driver, enum rbt_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    rbt_log_list(driver->options->log, level, "coordinator", format, args);
    va_end(args);
}

/* Strangers must not be able to fill the log. */
static void note_refused(struct driver *driver, const char *who, const char *why)
{
    if (rbt_strangers_may_log(&driver->strangers, rbt_clock_now())) {
        note(driver, RBT_LOG_WARN, "refused a connection from %s: %s", who, why);
    }
}

/* Ends the coordinator with a failure of its own. */
static void fail_driver(struct driver *driver, rbt_status st)
{
    RBT_ASSERT(st != RBT_OK);
    if (driver->status == RBT_OK) {
        driver->status = st;
        (void)snprintf(driver->text, sizeof driver->text, "%s", rbt_last_error());
    }
    rbt_loop_stop(driver->loop);
}

/* Nothing more is done with the line. */
static void end_line(struct line *line)
{
    if (line->is_over) {
        return;
    }
    struct driver *driver = line->driver;
    line->is_over = true;
    rbt_watch_close(line->watch);
    line->watch = NULL;
    rbt_strangers_remove(&driver->strangers, &line->stranger);
    if (line->peer != RBT_ROSTER_NOBODY) {
        driver->by_peer[line->peer] = NULL;
        line->peer = RBT_ROSTER_NOBODY;
    }
}

/* The line has heard its last message; it is given time to arrive. */
static void close_line(struct line *line)
{
    struct driver *driver = line->driver;
    line->is_closing = true;
    line->deadline = rbt_clock_now() + CLOSING_TIME;
    if (line->peer != RBT_ROSTER_NOBODY) {
        driver->by_peer[line->peer] = NULL;
        line->peer = RBT_ROSTER_NOBODY;
        rbt_strangers_add(&driver->strangers, &line->stranger, line->who);
    }
}

/* Takes the block; NULL means that there was no memory. It is flushed before the loop sleeps. */
static void send_block(struct line *line, struct rbt_block *block)
{
    if (block == NULL) {
        fail_driver(line->driver, rbt_fail(RBT_E_NOMEM, "could not allocate a message"));
        return;
    }
    const rbt_status st = rbt_channel_send(line->channel, block);
    (void)st; /* a broken line is noticed, and dealt with, when it is read from */
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

static void send_plain(struct line *line, enum rbt_frame_kind kind, uint64_t id)
{
    struct rbt_block *block = make_block(rbt_control_put_plain(NULL, kind, id));
    if (block != NULL) {
        (void)rbt_control_put_plain(block->data, kind, id);
    }
    send_block(line, block);
}

static void send_ending(struct line *line, enum rbt_frame_kind kind, rbt_status status,
                        const char *text)
{
    struct rbt_block *block = make_block(rbt_control_put_ending(NULL, kind, status, text));
    if (block != NULL) {
        (void)rbt_control_put_ending(block->data, kind, status, text);
    }
    send_block(line, block);
}

static void send_plan(struct line *line, uint32_t peer)
{
    struct rbt_control_plan plan;
    rbt_roster_plan(line->driver->roster, peer, &plan);
    struct rbt_block *block = make_block(rbt_control_put_plan(NULL, &plan));
    if (block != NULL) {
        (void)rbt_control_put_plan(block->data, &plan);
    }
    send_block(line, block);
}

static void send_bound(struct line *line, uint64_t number, int64_t staleness)
{
    struct rbt_block *block = make_block(rbt_control_put_bound(NULL, number, staleness));
    if (block != NULL) {
        (void)rbt_control_put_bound(block->data, number, staleness);
    }
    send_block(line, block);
}

static void send_stable(struct line *line, const struct rbt_roster_effect *effect)
{
    const struct rbt_control_version version = {.table = effect->table, .version = effect->number};
    const enum rbt_frame_kind kind = RBT_FRAME_STABLE;
    struct rbt_block *block =
        make_block(rbt_control_put_version(NULL, kind, effect->job, &version));
    if (block != NULL) {
        (void)rbt_control_put_version(block->data, kind, effect->job, &version);
    }
    send_block(line, block);
}

static void send_job(struct line *line, uint64_t number)
{
    struct rbt_control_job job;
    rbt_roster_job(line->driver->roster, number, &job);
    struct rbt_block *block = make_block(rbt_control_put_job(NULL, number, &job));
    if (block != NULL) {
        (void)rbt_control_put_job(block->data, number, &job);
    }
    send_block(line, block);
}

/* All parts of a round in one block, which all its receivers share. */
static struct rbt_block *make_gathered(struct driver *driver,
                                       const struct rbt_roster_effect *effect)
{
    const uint32_t count = rbt_roster_parts(driver->roster, effect->job, driver->parts);
    struct rbt_block *block =
        make_block(rbt_control_put_gathered(NULL, effect->number, driver->parts, count));
    if (block != NULL) {
        (void)rbt_control_put_gathered(block->data, effect->number, driver->parts, count);
    }
    return block;
}

/* An effect that is about a peer, which may not have a line at the moment: then it is told when it
 * comes back. */
static void perform_for(struct driver *driver, struct line *line,
                        const struct rbt_roster_effect *effect)
{
    switch (effect->kind) {
    case RBT_ROSTER_PLAN:
        send_plan(line, effect->peer);
        break;
    case RBT_ROSTER_BOUND:
        send_bound(line, effect->number, effect->staleness);
        break;
    case RBT_ROSTER_STABLE:
        send_stable(line, effect);
        break;
    case RBT_ROSTER_JOB:
        send_job(line, effect->job);
        break;
    case RBT_ROSTER_DROP:
        send_plain(line, RBT_FRAME_DROP, effect->job);
        break;
    case RBT_ROSTER_FAILED:
        send_ending(line, RBT_FRAME_FAILED, effect->status, effect->text);
        break;
    case RBT_ROSTER_GOODBYE:
        send_ending(line, RBT_FRAME_GOODBYE, RBT_OK, "");
        close_line(line);
        break;
    case RBT_ROSTER_LOST:
        end_line(line);
        break;
    case RBT_ROSTER_GATHERED:
    case RBT_ROSTER_STARTED:
    case RBT_ROSTER_ENDED:
    case RBT_ROSTER_END:
        RBT_UNREACHABLE();
    }
    (void)driver;
}

static void log_effect(const struct driver *driver, const struct rbt_roster_effect *effect)
{
    char node[RBT_ROSTER_NODE_MAX];
    if (effect->kind == RBT_ROSTER_GOODBYE) {
        note(driver, RBT_LOG_INFO, "left node=%s",
             rbt_roster_node(driver->roster, effect->peer, node));
    } else if (effect->kind == RBT_ROSTER_LOST) {
        note(driver, RBT_LOG_WARN, "%s", effect->text);
    } else if (effect->kind == RBT_ROSTER_STARTED) {
        note(driver, RBT_LOG_INFO, "job started job=%llu space=%s", (unsigned long long)effect->job,
             effect->text);
    } else if (effect->kind == RBT_ROSTER_ENDED && effect->status == RBT_OK) {
        note(driver, RBT_LOG_INFO, "job ended job=%llu", (unsigned long long)effect->job);
    } else if (effect->kind == RBT_ROSTER_ENDED) {
        note(driver, RBT_LOG_INFO, "job failed job=%llu why=\"%s\"",
             (unsigned long long)effect->job, effect->text);
    }
}

static void perform_end(struct driver *driver, const struct rbt_roster_effect *effect)
{
    if (driver->status == RBT_OK) {
        driver->status = effect->status;
        (void)snprintf(driver->text, sizeof driver->text, "%s", effect->text);
    }
    rbt_loop_stop(driver->loop);
}

/* Does what the roster wants done. */
static void perform(struct driver *driver)
{
    struct rbt_block *gathered = NULL;
    uint64_t gathered_job = 0;
    for (size_t i = 0; i < driver->out.count; i++) {
        const struct rbt_roster_effect *effect = &driver->out.effects[i];
        log_effect(driver, effect);
        if (effect->kind == RBT_ROSTER_END) {
            perform_end(driver, effect);
            continue;
        }
        if (effect->kind == RBT_ROSTER_STARTED || effect->kind == RBT_ROSTER_ENDED) {
            continue;
        }
        struct line *line = driver->by_peer[effect->peer];
        if (line == NULL) {
            continue;
        }
        if (effect->kind != RBT_ROSTER_GATHERED) {
            perform_for(driver, line, effect);
            continue;
        }
        if (gathered == NULL || gathered_job != effect->job) {
            rbt_block_unref(gathered);
            gathered = make_gathered(driver, effect);
            gathered_job = effect->job;
        }
        if (gathered != NULL) {
            rbt_block_ref(gathered);
        }
        send_block(line, gathered);
    }
    rbt_block_unref(gathered);
    driver->out.count = 0;
    if (driver->out.has_failed) {
        fail_driver(driver, rbt_fail(RBT_E_NOMEM, "could not allocate messages"));
    }
}

/* The sentence in the record goes to the other side and to the log. */
static void refuse(struct line *line, rbt_status st)
{
    char why[RBT_WIRE_TEXT_MAX];
    (void)snprintf(why, sizeof why, "%s", rbt_last_error());
    note_refused(line->driver, line->who, why);
    send_ending(line, RBT_FRAME_FAILED, st, why);
    close_line(line);
}

static rbt_status hear_join(struct line *line, struct rbt_wire_cursor body)
{
    struct driver *driver = line->driver;
    struct rbt_control_join join;
    rbt_status st = rbt_control_get_join(body, &join);
    if (st != RBT_OK) {
        return st;
    }
    uint32_t peer;
    st = rbt_roster_join(driver->roster, &join, rbt_clock_now(), &driver->out, &peer);
    if (st != RBT_OK) {
        refuse(line, st);
        return RBT_OK;
    }
    if (driver->by_peer[peer] != NULL) { /* the old line, if its end has not been noticed yet */
        end_line(driver->by_peer[peer]);
    }
    driver->by_peer[peer] = line;
    line->peer = peer;
    rbt_strangers_remove(&driver->strangers, &line->stranger);
    if (join.role == RBT_ROLE_WORKER) {
        rbt_channel_set_body_max(line->channel, RBT_FRAME_BODY_MAX);
    }
    char node[RBT_ROSTER_NODE_MAX];
    note(driver, RBT_LOG_INFO, "%s node=%s host=%s pid=%u", join.is_return ? "came back" : "joined",
         rbt_roster_node(driver->roster, peer, node), join.host, join.pid);
    send_plain(line, RBT_FRAME_BEAT, 0); /* it is known now */
    return RBT_OK;
}

static rbt_status hear_goodbye(struct line *line, struct rbt_wire_cursor body)
{
    struct driver *driver = line->driver;
    struct rbt_control_ending ending;
    const rbt_status st = rbt_control_get_ending(body, &ending);
    if (st == RBT_OK) {
        rbt_roster_leave(driver->roster, line->peer, &ending, rbt_clock_now(), &driver->out);
    }
    return st;
}

/* A message of a peer that is known. */
static rbt_status hear_peer(struct line *line, const struct rbt_frame *frame,
                            struct rbt_wire_cursor body)
{
    struct driver *driver = line->driver;
    struct rbt_control_part part;
    struct rbt_control_version version;
    int64_t staleness;
    rbt_status st;
    rbt_roster_hear(driver->roster, line->peer, rbt_clock_now());
    switch (frame->kind) {
    case RBT_FRAME_BEAT:
        st = rbt_control_get_plain(body);
        if (st == RBT_OK) {
            send_plain(line, RBT_FRAME_BEAT, 0);
        }
        return st;
    case RBT_FRAME_GATHER:
        st = rbt_control_get_gather(body, &part);
        return st != RBT_OK
                   ? st
                   : rbt_roster_gather(driver->roster, line->peer, frame->id, &part, &driver->out);
    case RBT_FRAME_BOUND:
        st = rbt_control_get_bound(body, &staleness);
        return st != RBT_OK ? st
                            : rbt_roster_bound(driver->roster, line->peer, frame->id, staleness,
                                               &driver->out);
    case RBT_FRAME_VERSION:
        st = rbt_control_get_version(body, &version);
        return st != RBT_OK ? st
                            : rbt_roster_version(driver->roster, line->peer, frame->id, &version,
                                                 &driver->out);
    case RBT_FRAME_GOODBYE:
        return hear_goodbye(line, body);
    default:
        return rbt_fail(RBT_E_PROTOCOL, "a message of kind %u is not for a coordinator",
                        frame->kind);
    }
}

static rbt_status hear(struct line *line, const struct rbt_frame *frame, const char *at)
{
    const struct rbt_wire_cursor body = {.at = at, .end = at + frame->length};
    if (line->is_closing) { /* who was refused says goodbye, too */
        if (frame->kind == RBT_FRAME_GOODBYE) {
            send_ending(line, RBT_FRAME_GOODBYE, RBT_OK, "");
        }
        return RBT_OK;
    }
    if (line->peer != RBT_ROSTER_NOBODY) {
        return hear_peer(line, frame, body);
    }
    if (frame->kind != RBT_FRAME_JOIN) {
        return rbt_fail(RBT_E_PROTOCOL, "its first message, of kind %u, does not say who it is",
                        frame->kind);
    }
    return hear_join(line, body);
}

/* The line is of no use any more; the record says why. */
static void break_line(struct line *line, rbt_status st)
{
    struct driver *driver = line->driver;
    if (line->is_closing) {
        end_line(line);
    } else if (line->peer == RBT_ROSTER_NOBODY && st == RBT_E_PROTOCOL) {
        refuse(line, st); /* it may be one of ours with another version, or with a key */
    } else if (line->peer == RBT_ROSTER_NOBODY) {
        note_refused(driver, line->who, rbt_last_error());
        end_line(line);
    } else if (st == RBT_E_PROTOCOL || st == RBT_E_NOMEM || st == RBT_E_INVALID) {
        struct rbt_control_ending ending = {.status = st};
        (void)snprintf(ending.text, sizeof ending.text, "%s", rbt_last_error());
        send_ending(line, RBT_FRAME_FAILED, st, ending.text);
        rbt_roster_leave(driver->roster, line->peer, &ending, rbt_clock_now(), &driver->out);
        perform(driver);
    } else {
        const uint32_t peer = line->peer;
        char node[RBT_ROSTER_NODE_MAX];
        note(driver, RBT_LOG_INFO, "connection cut node=%s",
             rbt_roster_node(driver->roster, peer, node));
        end_line(line);
        rbt_roster_cut(driver->roster, peer, rbt_clock_now());
    }
}

static void on_line(void *context, short events)
{
    struct line *line = context;
    struct rbt_frame frame;
    const char *body;
    rbt_status st = RBT_OK;
    (void)events;
    while (st == RBT_OK && !line->is_over) { /* ends when nothing more is there */
        st = rbt_channel_receive(line->channel, &frame, &body);
        if (st == RBT_OK) {
            st = hear(line, &frame, body);
            perform(line->driver);
        }
    }
    if (st != RBT_OK && st != RBT_E_BUSY && !line->is_over) {
        break_line(line, st);
    }
}

static void turn_away(struct line *line)
{
    note_refused(line->driver, line->who,
                 "too many have not said who they are, and it was the first of them");
    end_line(line);
}

/* Makes room for somebody who comes from there. */
static void make_room(struct driver *driver, const char *who)
{
    static const struct rbt_strangers_limits limits = {.all = STRANGERS_MAX,
                                                       .per_host = PER_HOST_MAX};
    struct rbt_stranger *oldest = rbt_strangers_displaced(&driver->strangers, who, &limits);
    if (oldest != NULL) {
        turn_away((struct line *)oldest);
    }
}

static void add_line(struct driver *driver, int socket)
{
    struct line *line = rbt_calloc(1, sizeof *line);
    if (line == NULL) {
        (void)close(socket);
        return; /* it tries again */
    }
    *line = (struct line){
        .driver = driver, .peer = RBT_ROSTER_NOBODY, .deadline = rbt_clock_now() + HELLO_TIME};
    rbt_address_describe(socket, line->who);
    const struct rbt_channel_options options = {
        .security = driver->options->security, .is_server = true, .body_max = RBT_FRAME_SMALL_MAX};
    const struct rbt_watcher watcher = {.on_events = on_line, .context = line};
    rbt_status st = rbt_channel_open(socket, &options, &line->channel);
    if (st == RBT_OK) {
        st = rbt_loop_watch(driver->loop, socket, POLLIN, &watcher, &line->watch);
    }
    if (st != RBT_OK) {
        note_refused(driver, line->who, rbt_last_error());
        rbt_channel_close(line->channel);
        rbt_free(line);
        return;
    }
    make_room(driver, line->who);
    rbt_strangers_add(&driver->strangers, &line->stranger, line->who);
    line->next = driver->lines;
    driver->lines = line;
}

/* There are no descriptors. If strangers have them, some have to go, and will have gone before the
 * next turn; else who waits would wake us for nothing, again and again, until somebody leaves. */
static void go_deaf(struct driver *driver)
{
    const rbt_time now = rbt_clock_now();
    if (driver->strangers.oldest == NULL) {
        driver->is_deaf = true;
        rbt_watch_change(driver->listener_watch, 0);
    }
    for (int i = 0; i < ACCEPT_MAX && driver->strangers.oldest != NULL; i++) {
        turn_away((struct line *)driver->strangers.oldest);
    }
    if (driver->deaf_logged == 0 || now - driver->deaf_logged > DEAF_TIME) {
        driver->deaf_logged = now;
        note(driver, RBT_LOG_WARN, "%s; raise the limit of open files (ulimit -n)",
             rbt_last_error());
    }
}

static void on_listener(void *context, short events)
{
    struct driver *driver = context;
    (void)events;
    for (int i = 0; i < ACCEPT_MAX; i++) {
        int socket;
        const rbt_status st = rbt_address_accept(driver->listener, &socket);
        if (st == RBT_E_BUSY) {
            return;
        }
        if (st != RBT_OK) {
            go_deaf(driver);
            return;
        }
        add_line(driver, socket);
    }
}

/* Frees lines that have ended, and sends what has been said. */
static void before_sleep(void *context)
{
    struct driver *driver = context;
    struct line **at = &driver->lines;
    while (*at != NULL) {
        struct line *line = *at;
        if (line->is_over) {
            *at = line->next;
            rbt_channel_close(line->channel);
            rbt_free(line);
            continue;
        }
        if (rbt_channel_queued(line->channel) > 0) {
            const rbt_status st = rbt_channel_flush(line->channel);
            (void)st; /* a broken line is noticed when it is read from */
        }
        rbt_watch_change(line->watch, rbt_channel_wants(line->channel));
        at = &line->next;
    }
}

static void on_tick(void *context)
{
    struct driver *driver = context;
    const rbt_time now = rbt_clock_now();
    if (driver->is_deaf) {
        driver->is_deaf = false;
        rbt_watch_change(driver->listener_watch, POLLIN);
    }
    for (struct line *line = driver->lines; line != NULL; line = line->next) {
        if (line->is_over || line->peer != RBT_ROSTER_NOBODY || now < line->deadline) {
            continue;
        }
        if (!line->is_closing) {
            note(driver, RBT_LOG_WARN,
                 "refused a connection from %s: it did not say who it is within %ds", line->who,
                 (int)(HELLO_TIME / (1000 * MS)));
        }
        end_line(line);
    }
    if (driver->options->should_stop != NULL && driver->options->should_stop()) {
        rbt_roster_stop(driver->roster, "the coordinator was told to stop", now, &driver->out);
    }
    rbt_roster_expire(driver->roster, now, &driver->out);
    perform(driver);
}

static rbt_status draw(void *bytes, size_t size)
{
    RBT_ASSERT(size <= 256); /* so much comes whole, or not at all */
    return getrandom(bytes, size, 0) == (ssize_t)size
               ? RBT_OK
               : rbt_fail(RBT_E_IO, "could not draw a random number");
}

static rbt_status open_roster(struct driver *driver)
{
    const struct rbt_coordinator_options *options = driver->options;
    struct rbt_roster_options roster = {.server_count = options->server_count,
                                        .is_once = options->is_once,
                                        .start_timeout = options->start_timeout,
                                        .silence_max = options->silence_max,
                                        .cut_max = options->cut_max,
                                        .draw = draw};
    if (options->server_count == 0 || options->server_count >= RBT_ROSTER_PEERS_MAX) {
        return rbt_fail(RBT_E_INVALID, "a cluster cannot have %u servers", options->server_count);
    }
    while (roster.cluster == 0) {
        const rbt_status st = draw(&roster.cluster, sizeof roster.cluster);
        if (st != RBT_OK) {
            return st;
        }
    }
    driver->parts = rbt_calloc(RBT_CONTROL_PARTS_MAX, sizeof *driver->parts);
    if (driver->parts == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the coordinator");
    }
    return rbt_roster_create(&roster, rbt_clock_now(), &driver->roster);
}

static rbt_status open_driver(struct driver *driver, char address[static RBT_ADDRESS_MAX])
{
    rbt_status st = open_roster(driver);
    if (st == RBT_OK) {
        st = rbt_loop_create(&driver->loop);
    }
    if (st == RBT_OK) {
        st = rbt_address_listen(driver->options->listen, address, &driver->listener);
    }
    const struct rbt_watcher watcher = {.on_events = on_listener, .context = driver};
    if (st == RBT_OK) {
        st = rbt_loop_watch(driver->loop, driver->listener, POLLIN, &watcher,
                            &driver->listener_watch);
    }
    if (st != RBT_OK) {
        return st;
    }
    rbt_time period = driver->options->silence_max / 8;
    period = driver->options->cut_max / 8 < period ? driver->options->cut_max / 8 : period;
    period = period < TICK_MAX ? period : TICK_MAX;
    st = rbt_loop_every(driver->loop, period < MS ? MS : period, on_tick, driver, &driver->timer);
    if (st == RBT_OK) {
        rbt_loop_before_sleep(driver->loop, before_sleep, driver);
    }
    return st;
}

static void close_driver(struct driver *driver)
{
    for (struct line *line = driver->lines; line != NULL; line = line->next) {
        end_line(line);
    }
    if (driver->loop != NULL && driver->listener_watch != NULL) {
        before_sleep(driver); /* frees them */
        rbt_loop_before_sleep(driver->loop, NULL, NULL);
    }
    rbt_timer_close(driver->timer);
    rbt_watch_close(driver->listener_watch);
    if (driver->listener >= 0) {
        (void)close(driver->listener);
    }
    rbt_loop_destroy(driver->loop);
    rbt_roster_outbox_deinit(&driver->out);
    rbt_roster_destroy(driver->roster);
    rbt_free(driver->parts);
    if (driver->listener >= 0 && rbt_address_is_unix(driver->options->listen)) {
        (void)unlink(driver->options->listen + strlen("unix:")); /* it may be gone already */
    }
    rbt_free(driver);
}

rbt_status rbt_coordinator_run(const struct rbt_coordinator_options *options)
{
    struct driver *driver = rbt_calloc(1, sizeof *driver);
    if (driver == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the coordinator");
    }
    char address[RBT_ADDRESS_MAX] = "";
    driver->options = options;
    driver->listener = -1;
    rbt_status st = open_driver(driver, address);
    if (st == RBT_OK) {
        note(driver, RBT_LOG_INFO, "listening address=%s servers=%u", address,
             options->server_count);
        if (options->on_listen != NULL) {
            options->on_listen(address);
        }
        rbt_loop_run(driver->loop);
        st = driver->status;
        errno = 0; /* or it would be added for RBT_E_IO */
        if (st != RBT_OK) {
            st = rbt_fail(st, "%s", driver->text);
        }
        note(driver, RBT_LOG_INFO, "stopped");
    }
    close_driver(driver);
    return st;
}
