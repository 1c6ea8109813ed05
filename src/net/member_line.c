/* net/member_line.c - the member's thread: it carries what proto/membership.c wants done.
 *
 * It makes and closes the connection, moves the bytes, and steps the machine with all that has come
 * and with the time. It decides nothing.
 *
 * The machine is stepped under the mutex. What it wants done is taken out under the mutex, too, and
 * done without it: callbacks may take locks that are held by those who step the machine.
 *
 * Threads: the member's own. Memory: two lists of things to do, which grow and stay as large. */
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/address.h"
#include "net/member_state.h"

#define MS INT64_C(1000000)

void rbt_member_signal(int descriptor)
{
    const uint64_t one = 1;
    (void)!write(descriptor, &one, sizeof one); /* it is readable even if this fails: it is full */
}

static void drain_descriptor(int descriptor)
{
    uint64_t count;
    (void)!read(descriptor, &count, sizeof count); /* nothing there is fine */
}

/* Writes what is queued. A failure is found, with what the coordinator has said before it, when the
 * line is read from. */
static void flush(const rbt_member *member)
{
    if (member->channel != NULL) {
        const rbt_status st = rbt_channel_flush(member->channel);
        (void)st; /* see above */
    }
}

/* Closes what is open, or being opened. */
static void close_line(rbt_member *member)
{
    rbt_channel_close(member->channel);
    member->channel = NULL;
    if (member->socket >= 0) {
        (void)close(member->socket);
        member->socket = -1;
    }
}

/* The attempt has failed at once: the machine hears of it when this is no answer to a step. */
static void begin_line(rbt_member *member)
{
    RBT_ASSERT(member->channel == NULL && member->socket < 0);
    const rbt_status st =
        rbt_address_begin_at(member->coordinator, member->attempts++, &member->socket);
    if (st != RBT_OK) {
        member->refusal = st;
        (void)snprintf(member->why, sizeof member->why, "%s", rbt_last_error());
    }
}

static void perform(rbt_member *member, const struct rbt_out *item)
{
    switch (item->kind) {
    case RBT_OUT_CONNECT:
        begin_line(member);
        break;
    case RBT_OUT_SEND:
        if (member->channel != NULL) { /* else it was cut meanwhile, and all is said again */
            const rbt_status st = rbt_channel_send(member->channel, item->block);
            (void)st; /* see flush() */
        }
        rbt_block_unref(item->block);
        break;
    case RBT_OUT_CUT:
        flush(member);
        close_line(member);
        member->refusal = RBT_OK;
        break;
    }
}

static void tell(rbt_member *member, const struct rbt_membership_news *news)
{
    const struct rbt_member_options *options = &member->options;
    switch (news->kind) {
    case RBT_MEMBERSHIP_NO_NEWS:
        break;
    case RBT_MEMBERSHIP_DROP:
        if (options->on_drop != NULL) {
            options->on_drop(options->context, news->number);
        }
        break;
    case RBT_MEMBERSHIP_JOB:
        if (options->on_job != NULL) {
            options->on_job(options->context, news->number, &news->job);
        }
        break;
    case RBT_MEMBERSHIP_NEW_BOUND:
        if (options->on_bound != NULL &&
            options->on_bound(options->context, news->number, &news->bound) != RBT_OK) {
            rbt_member_give_up(member, RBT_E_NOMEM, rbt_last_error());
        }
        break;
    case RBT_MEMBERSHIP_STABLE:
        if (options->on_stable != NULL) {
            options->on_stable(options->context, news->stable.table, news->stable.version);
        }
        break;
    }
}

/* Steps the machine, and does what it and callers want done. */
static void step(rbt_member *member, const struct rbt_membership_event *event)
{
    pthread_mutex_lock(&member->mutex);
    rbt_membership_step(&member->machine, event, rbt_clock_now(), &member->out);
    (void)rbt_member_settle(member); /* nobody has to be woken: this is the thread */
    const struct rbt_membership_news news = member->out.news;
    member->out.news.kind = RBT_MEMBERSHIP_NO_NEWS;
    const struct rbt_outbox doing = member->out.port;
    member->out.port = member->doing;
    member->doing = doing;
    pthread_mutex_unlock(&member->mutex);
    tell(member, &news);
    for (uint32_t i = 0; i < member->doing.count; i++) {
        perform(member, &member->doing.items[i]);
    }
    rbt_outbox_clear(&member->doing);
    flush(member);
}

static void step_port(rbt_member *member, const struct rbt_port_event *event)
{
    step(member, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_PORT, .port = event});
}

static void step_down(rbt_member *member, rbt_status status, const char *why)
{
    char text[RBT_ERROR_MAX];
    struct rbt_port_event event = {.kind = RBT_PORT_DOWN};
    (void)snprintf(text, sizeof text, "%s", why); /* it may be the record, which changes */
    event.down.status = status;
    event.down.why = text;
    close_line(member);
    step_port(member, &event);
}

/* The socket can be written to: the connection is there, or it is known why not. A channel keeps
 * what is sent until the other side is trusted, so nobody has to wait for that. */
static void finish_line(rbt_member *member)
{
    rbt_status st = rbt_address_finish(member->coordinator, member->socket);
    if (st == RBT_OK) {
        const struct rbt_channel_options options = {.security = member->options.security,
                                                    .body_max = RBT_FRAME_BODY_MAX};
        const int socket = member->socket;
        member->socket = -1; /* the channel's, also if this fails */
        st = rbt_channel_open(socket, &options, &member->channel);
    }
    if (st != RBT_OK) {
        step_down(member, st, rbt_last_error());
        return;
    }
    struct rbt_port_event event = {.kind = RBT_PORT_UP};
    event.up.peer = member->coordinator;
    step_port(member, &event);
}

/* Takes all that has come. */
static void listen_to(rbt_member *member)
{
    rbt_status st = RBT_OK;
    while (st == RBT_OK && member->channel != NULL) { /* ends when nothing more is there */
        struct rbt_port_event event = {.kind = RBT_PORT_FRAME};
        st = rbt_channel_receive(member->channel, &event.frame.head, &event.frame.body);
        if (st == RBT_OK) {
            step_port(member, &event);
        }
    }
    if (st != RBT_OK && st != RBT_E_BUSY) {
        step_down(member, st, rbt_last_error());
    }
}

/* Sleeps until something has come, somebody has something to say, or it is time. */
static void sleep_until_due(rbt_member *member, struct pollfd fds[static 2])
{
    pthread_mutex_lock(&member->mutex);
    const rbt_time deadline = rbt_membership_deadline(&member->machine);
    member->sleeps_until = deadline;
    pthread_mutex_unlock(&member->mutex);
    const rbt_time left = deadline == RBT_TIME_NEVER ? -1 : (deadline - rbt_clock_now()) / MS + 1;
    const bool is_due = deadline != RBT_TIME_NEVER && deadline <= rbt_clock_now();
    (void)poll(fds, 2, is_due ? 0 : left > INT_MAX ? INT_MAX : (int)left); /* errors: no events */
}

static void turn(rbt_member *member)
{
    struct pollfd fds[] = {{.fd = member->wake, .events = POLLIN},
                           {.fd = member->socket, .events = POLLOUT}};
    if (member->refusal != RBT_OK) {
        const rbt_status st = member->refusal;
        member->refusal = RBT_OK;
        step_down(member, st, member->why);
        return;
    }
    if (member->channel != NULL) {
        fds[1].fd = rbt_channel_socket(member->channel);
        fds[1].events = rbt_channel_wants(member->channel);
    }
    sleep_until_due(member, fds);
    if (fds[0].revents != 0) {
        drain_descriptor(member->wake);
    }
    if (fds[1].revents != 0 && member->channel != NULL) {
        flush(member);
        listen_to(member);
    } else if (fds[1].revents != 0) {
        finish_line(member);
    }
    if (member->options.is_alive != NULL) {
        const bool is_alive = member->options.is_alive(member->options.context);
        step(member,
             &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_ALIVE, .is_alive = is_alive});
    }
    step(member, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME});
}

static bool has_left(rbt_member *member)
{
    pthread_mutex_lock(&member->mutex);
    const bool has_left = rbt_membership_has_left(&member->machine);
    pthread_mutex_unlock(&member->mutex);
    return has_left;
}

void *rbt_member_run(void *argument)
{
    rbt_member *member = argument;
    while (!has_left(member)) {
        turn(member);
    }
    close_line(member);
    return NULL;
}
