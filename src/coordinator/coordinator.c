/* coordinator/coordinator.c - carries what proto/roster_ports.c wants done: sockets, frames, time
 * and the log. It decides nothing about processes.
 *
 * Every connection is a line; its place in the table is its port. A line that has ended is freed
 * when the loop sleeps next, since whoever ended it may be in the middle of reading from it; what
 * was sent on it before is written then.
 *
 * Threads: one, the caller's. */
#include "coordinator/coordinator.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/log.h"
#include "net/address.h"
#include "net/channel.h"
#include "net/loop.h"
#include "proto/roster_ports.h"

#define MS        INT64_C(1000000)
#define LOOK_TIME (100 * MS)   /* between two looks whether to stop */
#define DEAF_TIME (100 * MS)   /* while nobody is accepted, for want of descriptors */
#define LOG_TIME  (10000 * MS) /* before the log is told again that nobody can be accepted */

enum { ACCEPT_MAX = 16 }; /* connections before those that were accepted have their turn */

struct driver;

struct line {
    struct line *next; /* of those that have ended */
    struct driver *driver;
    rbt_channel *channel;
    rbt_watch *watch;
    uint32_t port;
    bool is_over; /* freed soon */
};

struct driver {
    const struct rbt_coordinator_options *options;
    rbt_roster_ports *ports;
    struct rbt_outbox out;
    rbt_loop *loop;
    rbt_timer *timer; /* for the machine's deadline */
    rbt_timer *look_timer;
    rbt_timer *deaf_timer;
    int listener;
    rbt_watch *listener_watch;
    struct line **lines; /* by port */
    uint32_t line_max;
    struct line *ended;
    rbt_time logged; /* when the log was told that somebody cannot be accepted, or 0 */
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

/* Strangers must not be able to fill the log with what goes wrong here. */
static bool may_log(struct driver *driver)
{
    const rbt_time now = rbt_clock_now();
    const bool may_log = driver->logged == 0 || now - driver->logged > LOG_TIME;
    driver->logged = may_log ? now : driver->logged;
    return may_log;
}

static void on_note(void *context, enum rbt_log_level level, const char *text)
{
    note(context, level, "%s", text);
}

static void on_worker(void *context, uint32_t port)
{
    const struct driver *driver = context;
    rbt_channel_set_body_max(driver->lines[port]->channel, RBT_FRAME_BODY_MAX);
}

static void on_end(void *context, rbt_status status, const char *text)
{
    struct driver *driver = context;
    driver->status = status;
    (void)snprintf(driver->text, sizeof driver->text, "%s", text);
    rbt_loop_stop(driver->loop);
}

/* Nothing more is done with the line; its port is free. */
static void end_line(struct line *line)
{
    struct driver *driver = line->driver;
    RBT_ASSERT(!line->is_over);
    line->is_over = true;
    rbt_watch_close(line->watch);
    line->watch = NULL;
    driver->lines[line->port] = NULL;
    line->next = driver->ended;
    driver->ended = line;
}

/* Steps the machine, and does what it wants done. Says how many connections it has cut. */
static uint32_t step(struct driver *driver, const struct rbt_roster_ports_event *event)
{
    uint32_t cuts = 0;
    rbt_roster_ports_step(driver->ports, event, rbt_clock_now(), &driver->out);
    for (uint32_t i = 0; i < driver->out.count; i++) {
        const struct rbt_out *item = &driver->out.items[i];
        struct line *line = driver->lines[item->port];
        RBT_ASSERT(item->kind != RBT_OUT_CONNECT); /* it is others who connect */
        if (item->kind == RBT_OUT_CUT) {
            end_line(line);
            cuts++;
        } else {
            const rbt_status st = rbt_channel_send(line->channel, item->block);
            (void)st; /* a broken line is noticed, and told of, when it is read from */
            rbt_block_unref(item->block);
        }
    }
    rbt_outbox_clear(&driver->out);
    return cuts;
}

static void step_port(struct driver *driver, const struct rbt_port_event *event)
{
    (void)step(driver,
               &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_PORT, .port = event});
}

/* Nothing more can be read from the line; the record says why. What came may have been no message:
 * then its sender can still be told so. */
static void break_line(struct line *line, rbt_status st)
{
    const bool is_writable = st == RBT_E_PROTOCOL || st == RBT_E_NOMEM || st == RBT_E_INVALID;
    char why[RBT_ERROR_MAX];
    (void)snprintf(why, sizeof why, "%s", rbt_last_error());
    const struct rbt_port_event event = {.kind = is_writable ? RBT_PORT_BROKEN : RBT_PORT_DOWN,
                                         .port = line->port,
                                         .down = {.status = st, .why = why}};
    if (!is_writable) {
        end_line(line);
    }
    step_port(line->driver, &event);
}

static void on_line(void *context, short events)
{
    struct line *line = context;
    rbt_status st = RBT_OK;
    (void)events;
    while (st == RBT_OK && !line->is_over) { /* ends when nothing more is there */
        struct rbt_port_event event = {.kind = RBT_PORT_FRAME, .port = line->port};
        st = rbt_channel_receive(line->channel, &event.frame.head, &event.frame.body);
        if (st == RBT_OK) {
            step_port(line->driver, &event);
        }
    }
    if (st != RBT_OK && st != RBT_E_BUSY) {
        break_line(line, st);
    }
}

/* A port that is free, or UINT32_MAX without memory. */
static uint32_t find_port(struct driver *driver)
{
    for (uint32_t i = 0; i < driver->line_max; i++) {
        if (driver->lines[i] == NULL) {
            return i;
        }
    }
    const uint32_t port = driver->line_max;
    const uint32_t max = port == 0 ? 64 : 2 * port;
    struct line **lines = rbt_realloc(driver->lines, max, sizeof(struct line *));
    if (lines == NULL) {
        return UINT32_MAX;
    }
    for (uint32_t i = port; i < max; i++) {
        lines[i] = NULL;
    }
    driver->lines = lines;
    driver->line_max = max;
    return port;
}

static void add_line(struct driver *driver, int socket)
{
    const uint32_t port = find_port(driver);
    struct line *line = port == UINT32_MAX ? NULL : rbt_calloc(1, sizeof *line);
    if (line == NULL) {
        (void)close(socket);
        return; /* it tries again */
    }
    *line = (struct line){.driver = driver, .port = port};
    char who[RBT_ADDRESS_MAX];
    rbt_address_describe(socket, who);
    const struct rbt_channel_options options = {
        .security = driver->options->security, .is_server = true, .body_max = RBT_FRAME_SMALL_MAX};
    const struct rbt_watcher watcher = {.on_events = on_line, .context = line};
    rbt_status st = rbt_channel_open(socket, &options, &line->channel);
    if (st == RBT_OK) {
        st = rbt_loop_watch(driver->loop, socket, POLLIN, &watcher, &line->watch);
    }
    if (st != RBT_OK) {
        if (may_log(driver)) {
            note(driver, RBT_LOG_WARN, "refused a connection from %s: %s", who, rbt_last_error());
        }
        rbt_channel_close(line->channel);
        rbt_free(line);
        return;
    }
    driver->lines[port] = line;
    step_port(driver,
              &(struct rbt_port_event){.kind = RBT_PORT_UP, .port = port, .up = {.peer = who}});
}

/* There are no descriptors. If strangers have them, some have to go, and will have gone before the
 * next turn; else who waits would wake us for nothing, again and again, until somebody leaves. */
static void go_deaf(struct driver *driver)
{
    if (may_log(driver)) {
        note(driver, RBT_LOG_WARN, "%s; raise the limit of open files (ulimit -n)",
             rbt_last_error());
    }
    if (step(driver, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_NO_ROOM}) == 0) {
        rbt_watch_change(driver->listener_watch, 0);
        rbt_timer_set(driver->deaf_timer, rbt_clock_now() + DEAF_TIME);
    }
}

static void on_deaf_timer(void *context)
{
    const struct driver *driver = context;
    rbt_watch_change(driver->listener_watch, POLLIN);
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

/* Writes what is queued. */
static void flush(const struct line *line)
{
    if (rbt_channel_queued(line->channel) > 0) {
        const rbt_status st = rbt_channel_flush(line->channel);
        (void)st; /* a broken line is noticed when it is read from */
    }
}

static void free_ended(struct driver *driver)
{
    while (driver->ended != NULL) {
        struct line *line = driver->ended;
        driver->ended = line->next;
        flush(line);
        rbt_channel_close(line->channel);
        rbt_free(line);
    }
}

/* Sends what has been said, frees lines that have ended, and sleeps no longer than may be. */
static void before_sleep(void *context)
{
    struct driver *driver = context;
    for (uint32_t i = 0; i < driver->line_max; i++) {
        if (driver->lines[i] != NULL) {
            flush(driver->lines[i]);
            rbt_watch_change(driver->lines[i]->watch, rbt_channel_wants(driver->lines[i]->channel));
        }
    }
    free_ended(driver);
    rbt_timer_set(driver->timer, rbt_roster_ports_deadline(driver->ports));
}

static void on_timer(void *context)
{
    (void)step(context, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_TIME});
}

static void on_look(void *context)
{
    const struct driver *driver = context;
    if (driver->options->should_stop()) {
        (void)step(context, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_STOP,
                                                             .why = "the coordinator was stopped"});
    }
}

static rbt_status draw(void *bytes, size_t size)
{
    RBT_ASSERT(size <= 256); /* so much comes whole, or not at all */
    return getrandom(bytes, size, 0) == (ssize_t)size
               ? RBT_OK
               : rbt_fail(RBT_E_IO, "could not draw a random number");
}

static rbt_status open_ports(struct driver *driver)
{
    const struct rbt_coordinator_options *options = driver->options;
    struct rbt_roster_ports_options ports = {.roster = {.server_count = options->server_count,
                                                        .is_once = options->is_once,
                                                        .start_timeout = options->start_timeout,
                                                        .silence_max = options->silence_max,
                                                        .cut_max = options->cut_max,
                                                        .draw = draw},
                                             .context = driver,
                                             .note = on_note,
                                             .on_worker = on_worker,
                                             .on_end = on_end};
    if (options->server_count == 0 || options->server_count >= RBT_ROSTER_PEERS_MAX) {
        return rbt_fail(RBT_E_INVALID, "a cluster cannot have %u servers", options->server_count);
    }
    while (ports.roster.cluster == 0) {
        const rbt_status st = draw(&ports.roster.cluster, sizeof ports.roster.cluster);
        if (st != RBT_OK) {
            return st;
        }
    }
    return rbt_roster_ports_create(&ports, rbt_clock_now(), &driver->ports);
}

static rbt_status open_timers(struct driver *driver)
{
    rbt_status st = rbt_loop_timer(driver->loop, on_timer, driver, &driver->timer);
    if (st == RBT_OK) {
        st = rbt_loop_timer(driver->loop, on_deaf_timer, driver, &driver->deaf_timer);
    }
    if (st == RBT_OK && driver->options->should_stop != NULL) {
        st = rbt_loop_every(driver->loop, LOOK_TIME, on_look, driver, &driver->look_timer);
    }
    return st;
}

static rbt_status open_driver(struct driver *driver, char address[static RBT_ADDRESS_MAX])
{
    rbt_status st = open_ports(driver);
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
    if (st == RBT_OK) {
        st = open_timers(driver);
    }
    if (st == RBT_OK) {
        rbt_loop_before_sleep(driver->loop, before_sleep, driver);
    }
    return st;
}

static void close_driver(struct driver *driver)
{
    for (uint32_t i = 0; i < driver->line_max; i++) {
        if (driver->lines[i] != NULL) {
            end_line(driver->lines[i]);
        }
    }
    free_ended(driver);
    rbt_free(driver->lines);
    rbt_timer_close(driver->timer);
    rbt_timer_close(driver->look_timer);
    rbt_timer_close(driver->deaf_timer);
    rbt_watch_close(driver->listener_watch);
    if (driver->listener >= 0) {
        (void)close(driver->listener);
    }
    if (driver->loop != NULL) {
        rbt_loop_before_sleep(driver->loop, NULL, NULL);
    }
    rbt_loop_destroy(driver->loop);
    rbt_outbox_deinit(&driver->out);
    rbt_roster_ports_destroy(driver->ports);
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
