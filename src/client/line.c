/* client/line.c - the connection of one port. */
#include "client/line.h"

#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"

void rbt_line_init(struct rbt_line *line, const struct rbt_line_options *options)
{
    *line = (struct rbt_line){.options = *options, .socket = -1};
}

/* --- The end of a connection ----------------------------------------------------------------- */

static void add_stats(struct rbt_channel_stats *to, const struct rbt_channel_stats *from)
{
    to->bytes_sent += from->bytes_sent;
    to->bytes_received += from->bytes_received;
    to->frames_sent += from->frames_sent;
    to->frames_received += from->frames_received;
    to->writes += from->writes;
    to->reads += from->reads;
}

static void close_line(struct rbt_line *line)
{
    if (line->channel != NULL) {
        struct rbt_channel_stats stats;
        rbt_channel_stats(line->channel, &stats);
        add_stats(&line->past, &stats);
        rbt_channel_close(line->channel);
    }
    if (line->socket >= 0) {
        (void)close(line->socket);
    }
    rbt_block_unref(line->block);
    if (line->state == RBT_LINE_NEAR) {
        line->near.ops->close(line->near.connection);
        rbt_inbox_deinit(&line->inbox);
    }
    line->channel = NULL;
    line->socket = -1;
    line->block = NULL;
    line->placed = 0;
    line->lacks_memory = false;
    line->is_broken = false;
    line->state = RBT_LINE_CLOSED;
}

void rbt_line_deinit(struct rbt_line *line)
{
    close_line(line);
}

size_t rbt_line_queued(const struct rbt_line *line)
{
    return line->channel == NULL ? 0 : rbt_channel_queued(line->channel);
}

void rbt_line_stats(const struct rbt_line *line, struct rbt_channel_stats *stats)
{
    *stats = (struct rbt_channel_stats){0};
    if (line->channel != NULL) {
        rbt_channel_stats(line->channel, stats);
    }
    add_stats(stats, &line->past);
}

/* The connection is over, for the reason that the thread's record has. */
static bool report_down(struct rbt_line *line, rbt_status status, struct rbt_port_event *event,
                        char why[static RBT_ERROR_MAX])
{
    snprintf(why, RBT_ERROR_MAX, "%s", rbt_last_error());
    close_line(line);
    event->kind = RBT_PORT_DOWN;
    event->down.status = status;
    event->down.why = why;
    return true;
}

/* --- The beginning --------------------------------------------------------------------------- */

/* A long frame begins to come, and is the next one that is handed out. */
static bool find_place(void *context, const struct rbt_frame *head, struct rbt_frame_place *place)
{
    struct rbt_line *line = context;
    const bool has_place = line->options.find_place(line->options.context, head, place);
    line->placed = has_place ? place->bytes : 0;
    return has_place;
}

static bool report_up(struct rbt_line *line, struct rbt_port_event *event)
{
    event->kind = RBT_PORT_UP;
    event->up.peer = line->options.address;
    event->up.is_near = line->state == RBT_LINE_NEAR;
    return true;
}

/* Connects to a shard of this process: RBT_E_NOTFOUND if it is not. */
static rbt_status connect_near(struct rbt_line *line)
{
    rbt_status st = rbt_inbox_init(&line->inbox);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_nearby_inbox inbox = {.context = &line->inbox, .deliver = rbt_inbox_deliver};
    st = rbt_nearby_open(line->options.address, &inbox, &line->near);
    if (st != RBT_OK) {
        rbt_inbox_deinit(&line->inbox);
    }
    return st;
}

/* Begins to connect. Whether that is over already. */
static bool begin_connecting(struct rbt_line *line, struct rbt_port_event *event,
                             char why[static RBT_ERROR_MAX])
{
    rbt_status st = connect_near(line);
    if (st == RBT_OK) {
        line->state = RBT_LINE_NEAR;
        return report_up(line, event);
    }
    st = st != RBT_E_NOTFOUND ? st : rbt_address_begin(line->options.address, &line->socket);
    if (st != RBT_OK) {
        line->socket = -1;
        return report_down(line, st, event, why);
    }
    line->state = RBT_LINE_CONNECTING;
    return false;
}

/* The socket is connected, or could not be, or is still at it: then nothing has happened. */
static bool finish_connecting(struct rbt_line *line, struct rbt_port_event *event,
                              char why[static RBT_ERROR_MAX])
{
    struct pollfd poll_one = {.fd = line->socket, .events = POLLOUT};
    if (poll(&poll_one, 1, 0) <= 0) {
        return false;
    }
    const struct rbt_channel_options options = {.security = line->options.security,
                                                .body_max = RBT_FRAME_BODY_MAX};
    rbt_status st = rbt_address_finish(line->options.address, line->socket);
    if (st == RBT_OK) {
        const int socket = line->socket;
        line->socket = -1; /* the channel's now */
        st = rbt_channel_open(socket, &options, &line->channel);
    }
    if (st != RBT_OK) {
        return report_down(line, st, event, why);
    }
    rbt_channel_on_long(line->channel, find_place, line);
    line->state = RBT_LINE_OPEN;
    return report_up(line, event);
}

/* --- What is to be done ---------------------------------------------------------------------- */

static void send_block(struct rbt_line *line, struct rbt_block *block)
{
    rbt_status st = RBT_OK;
    if (line->state == RBT_LINE_NEAR) {
        rbt_block_own(block); /* it is looked at where it lies */
        st = line->near.ops->send(line->near.connection, block);
    } else if (line->state == RBT_LINE_OPEN) {
        st = rbt_channel_send(line->channel, block);
    } /* else the connection was lost meanwhile */
    /* Whatever else went wrong shows when the connection is read from, with the peer's reason. */
    line->lacks_memory = line->lacks_memory || st == RBT_E_NOMEM;
}

void rbt_line_perform(struct rbt_line *line, const struct rbt_out *item)
{
    line->is_touched = true;
    switch (item->kind) {
    case RBT_OUT_CONNECT:
        RBT_ASSERT(line->state == RBT_LINE_CLOSED);
        line->state = RBT_LINE_WANTED;
        break;
    case RBT_OUT_SEND:
        send_block(line, item->block);
        rbt_block_unref(item->block);
        break;
    case RBT_OUT_CUT: /* of a peer that is given up: what is queued is of no use to it */
        close_line(line);
        break;
    }
}

bool rbt_line_flush(struct rbt_line *line)
{
    line->is_touched = false;
    if (line->state != RBT_LINE_OPEN) {
        return false;
    }
    const rbt_status st = rbt_channel_flush(line->channel);
    line->is_broken = st != RBT_OK && st != RBT_E_BUSY;
    return line->is_broken || line->lacks_memory || rbt_channel_has_more(line->channel);
}

/* --- What happens ---------------------------------------------------------------------------- */

/* The next frame, where it lies. */
static rbt_status take_frame(struct rbt_line *line, struct rbt_port_event *event)
{
    rbt_status st = RBT_OK;
    event->frame.placed = 0;
    if (line->state == RBT_LINE_OPEN) {
        st = rbt_channel_receive(line->channel, &event->frame.head, &event->frame.body);
        if (st == RBT_OK) {
            event->frame.placed = line->placed;
            line->placed = 0;
        }
        return st;
    }
    rbt_block_unref(line->block);
    line->block = NULL;
    st = rbt_inbox_take(&line->inbox, &line->block);
    if (st != RBT_OK) {
        return st;
    }
    event->frame.body = line->block->data + RBT_FRAME_HEADER;
    return rbt_frame_get(line->block->data, RBT_FRAME_BODY_MAX, &event->frame.head);
}

/* A frame, or the end of the connection. */
static bool receive(struct rbt_line *line, struct rbt_port_event *event,
                    char why[static RBT_ERROR_MAX])
{
    if (line->lacks_memory) {
        (void)rbt_fail(RBT_E_NOMEM, "no memory to send a message");
        return report_down(line, RBT_E_NOMEM, event, why);
    }
    event->kind = RBT_PORT_FRAME;
    rbt_status st = take_frame(line, event);
    if (st == RBT_E_BUSY && line->is_broken) {
        st = rbt_channel_flush(line->channel); /* says why once more */
    }
    return st == RBT_OK || (st != RBT_E_BUSY && report_down(line, st, event, why));
}

bool rbt_line_next(struct rbt_line *line, struct rbt_port_event *event,
                   char why[static RBT_ERROR_MAX])
{
    event->port = line->options.port;
    if (line->state == RBT_LINE_WANTED && begin_connecting(line, event, why)) {
        return true;
    }
    switch (line->state) {
    case RBT_LINE_CLOSED:
    case RBT_LINE_WANTED:
        break;
    case RBT_LINE_CONNECTING:
        return finish_connecting(line, event, why);
    case RBT_LINE_OPEN:
    case RBT_LINE_NEAR:
        return receive(line, event, why);
    }
    return false;
}

bool rbt_line_prepare(struct rbt_line *line, struct pollfd *poll)
{
    *poll = (struct pollfd){.fd = -1};
    switch (line->state) {
    case RBT_LINE_CLOSED:
        break;
    case RBT_LINE_WANTED:
        return true;
    case RBT_LINE_CONNECTING:
        *poll = (struct pollfd){.fd = line->socket, .events = POLLOUT};
        break;
    case RBT_LINE_OPEN:
        poll->fd = rbt_channel_socket(line->channel);
        poll->events = rbt_channel_wants(line->channel);
        return line->lacks_memory || line->is_broken || rbt_channel_has_more(line->channel);
    case RBT_LINE_NEAR:
        *poll = (struct pollfd){.fd = line->inbox.event, .events = POLLIN};
        return line->lacks_memory || !rbt_inbox_is_empty(&line->inbox);
    }
    return false;
}
