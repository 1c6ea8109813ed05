/* proto/membership.c - a process as a member of a cluster, without I/O.
 *
 * What holds between two steps:
 *   M1  What was said and not answered is said again on every new connection: who we are first,
 *       then the staleness, the part of a round, the versions, and goodbye.
 *   M2  A process brings one part at a time: while a round is under way no other one begins, and
 *       what comes of another round is ignored.
 *   M3  How the job ended is decided once; the first failure counts.
 *   M4  Goodbye is the last word: nothing is said after it on its connection.
 *   M5  The version of a table that the coordinator was told is not above the lowest one of the
 *       shards.
 *
 * If nobody has stepped the machine for long, because the process was stopped, it cannot blame the
 * coordinator: the time starts anew. The deadline is never further away than a quarter of the
 * silence that is allowed, so half of it without a step is such a pause.
 *
 * Threads and memory: see membership.h. Cost: a step looks at no more than the message, but for
 * versions, of which all tables of the server are looked at. */
#include "proto/membership.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/mutant.h"
#include "proto/membership_bound.h"

#define MS            INT64_C(1000000)
#define BEAT_MAX      (500 * MS) /* between two signs of life */
#define VERSIONS_TIME MS         /* between two reports of what shards have */
#define BACKOFF_MIN   (10 * MS)
#define START_SLACK   (3000 * MS) /* for the coordinator's own sentence about who is missing */
#define GOODBYE_TIME  (1000 * MS) /* to be answered */

enum { PORT = 0 };

static rbt_time earlier(rbt_time a, rbt_time b)
{
    return a < b ? a : b;
}

static rbt_time beat_period(const struct rbt_membership *m)
{
    return earlier(m->options.silence_max / 4, BEAT_MAX);
}

static bool is_up(const struct rbt_membership *m)
{
    return m->line == RBT_MEMBERSHIP_JOINED || m->line == RBT_MEMBERSHIP_LIVE;
}

static bool has_said_goodbye(const struct rbt_membership *m)
{
    return m->goodbye == RBT_MEMBERSHIP_SAID || m->goodbye == RBT_MEMBERSHIP_ANSWERED;
}

static const char *print_time(rbt_time time, char text[static 32])
{
    const double seconds = (double)time * 1e-9;
    (void)snprintf(text, 32, seconds < 1.0 ? "%.3gms" : "%.4gs",
                   seconds < 1.0 ? seconds * 1e3 : seconds);
    return text;
}

/* Nothing is awaited any more; a part is its owner's again. */
static void end_work(struct rbt_membership *m, enum rbt_membership_end end,
                     struct rbt_membership_out *out)
{
    m->end = end;
    m->gather = RBT_MEMBERSHIP_NOTHING;
    m->part = (struct rbt_control_part){0};
    m->awaited.say = RBT_MEMBERSHIP_NOTHING;
    m->advised.say = RBT_MEMBERSHIP_NOTHING;
    out->must_wake = true;
}

/* The first failure counts. */
static void fail(struct rbt_membership *m, rbt_status status, const char *text,
                 struct rbt_membership_out *out)
{
    RBT_ASSERT(status != RBT_OK);
    if (m->end == RBT_MEMBERSHIP_AT_WORK) {
        m->failure = status;
        (void)snprintf(m->failure_text, sizeof m->failure_text, "%s", text);
        end_work(m, RBT_MEMBERSHIP_FAILED, out);
    }
}

static void fail_memory(struct rbt_membership *m, struct rbt_membership_out *out)
{
    fail(m, RBT_E_NOMEM, "could not allocate a message to the coordinator", out);
}

/* There is no connection any more. */
static void note_down(struct rbt_membership *m, rbt_time now)
{
    if (m->line == RBT_MEMBERSHIP_LIVE) {
        m->cut_at = RBT_MUTANT(OLD_LINE) ? m->cut_at : now;
        m->backoff = 0;
    }
    m->has_broken = m->has_broken || (is_up(m) && !m->is_known);
    m->line = RBT_MEMBERSHIP_DOWN;
    m->retry_at = now + m->backoff;
    m->backoff = m->backoff == 0 ? BACKOFF_MIN : earlier(2 * m->backoff, RBT_ATTEMPT_WAIT_MAX);
}

/* The connection, or the attempt to make one, is of no use any more. */
static void cut(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    if (m->line == RBT_MEMBERSHIP_DOWN) {
        return;
    }
    if (rbt_outbox_cut(&out->port, PORT) != RBT_OK) {
        fail_memory(m, out); /* the carrier closes it when we have left */
        return;
    }
    note_down(m, now);
}

void rbt_membership_send(struct rbt_membership *m, struct rbt_block *block,
                         struct rbt_membership_out *out)
{
    if (block == NULL || rbt_outbox_send(&out->port, PORT, block) != RBT_OK) {
        fail_memory(m, out);
    }
    rbt_block_unref(block);
}

struct rbt_block *rbt_membership_block(size_t bytes)
{
    struct rbt_block *block = rbt_block_create(bytes);
    if (block != NULL) {
        block->bytes = bytes;
    }
    return block;
}

static void say_join(struct rbt_membership *m, struct rbt_membership_out *out)
{
    const struct rbt_membership_options *options = &m->options;
    const bool is_server = options->role == RBT_ROLE_SERVER;
    struct rbt_control_join join = {
        .token = options->token,
        .is_return = m->is_known,
        .role = (uint32_t)options->role,
        .index = options->index,
        .pid = options->pid,
        .worker_count = is_server ? 0 : options->worker_count,
        .thread_count = is_server ? 0 : options->thread_count,
        .permit = options->permit,
        .read_permit = options->read_permit,
        .shards = {.count = is_server ? options->shard_count : 0, .texts = options->shards}};
    (void)snprintf(join.space, sizeof join.space, "%s", options->space);
    (void)snprintf(join.host, sizeof join.host, "%s", options->host);
    struct rbt_block *block = rbt_membership_block(rbt_control_put_join(NULL, &join));
    if (block != NULL) {
        (void)rbt_control_put_join(block->data, &join);
    }
    rbt_membership_send(m, block, out);
}

static void say_beat(struct rbt_membership *m, struct rbt_membership_out *out)
{
    struct rbt_block *block = rbt_membership_block(rbt_control_put_plain(NULL, RBT_FRAME_BEAT, 0));
    if (block != NULL) {
        (void)rbt_control_put_plain(block->data, RBT_FRAME_BEAT, 0);
    }
    rbt_membership_send(m, block, out);
}

static void say_gather(struct rbt_membership *m, struct rbt_membership_out *out)
{
    struct rbt_block *block =
        rbt_membership_block(rbt_control_put_gather(NULL, m->round, &m->part));
    if (block != NULL) {
        (void)rbt_control_put_gather(block->data, m->round, &m->part);
    }
    rbt_membership_send(m, block, out);
}

static void say_goodbye(struct rbt_membership *m, struct rbt_membership_out *out)
{
    const enum rbt_frame_kind kind = RBT_FRAME_GOODBYE;
    struct rbt_block *block =
        rbt_membership_block(rbt_control_put_ending(NULL, kind, m->leave_status, m->leave_text));
    if (block != NULL) {
        (void)rbt_control_put_ending(block->data, kind, m->leave_status, m->leave_text);
    }
    rbt_membership_send(m, block, out);
}

/* Tells what the shards have more than the coordinator knows. */
static void say_versions(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    const enum rbt_frame_kind kind = RBT_FRAME_VERSION;
    struct rbt_control_version version;
    uint64_t job;
    if (now < m->versions_at) {
        return;
    }
    while (rbt_shard_versions_next(&m->versions, &job, &version)) { /* ends: each is told once */
        struct rbt_block *block =
            rbt_membership_block(rbt_control_put_version(NULL, kind, job, &version));
        if (block != NULL) {
            (void)rbt_control_put_version(block->data, kind, job, &version);
        }
        rbt_membership_send(m, block, out);
        m->versions_at = now + VERSIONS_TIME;
    }
}

/* Says what is to be said, if somebody is there to hear it. */
static void speak(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    if (!is_up(m) || has_said_goodbye(m)) {
        return;
    }
    rbt_membership_say_bounds(m, out); /* who has gathered knows what was told before */
    if (m->gather == RBT_MEMBERSHIP_TO_SAY) {
        m->gather = RBT_MEMBERSHIP_SAID;
        say_gather(m, out);
    }
    say_versions(m, now, out);
    if (m->goodbye == RBT_MEMBERSHIP_TO_SAY) {
        m->goodbye = RBT_MEMBERSHIP_SAID;
        say_goodbye(m, out);
    }
}

static void say_again(enum rbt_membership_say *say)
{
    *say = *say == RBT_MEMBERSHIP_SAID ? RBT_MEMBERSHIP_TO_SAY : *say;
}

static void connect_up(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    m->line = RBT_MEMBERSHIP_JOINED;
    m->looked = now; /* the carrier may have taken long to connect, and has not slept */
    m->heard = now;
    m->beat_at = now + beat_period(m);
    if (!m->is_known) {
        m->connected_at = now;
    }
    say_join(m, out);
    if (!RBT_MUTANT(ONE_BOUND)) {
        say_again(&m->awaited.say);
    }
    say_again(&m->advised.say);
    if (!RBT_MUTANT(ONE_GATHER)) {
        say_again(&m->gather);
    }
    say_again(&m->goodbye);
    rbt_shard_versions_forget_told(&m->versions);
}

static void lose_coordinator(struct rbt_membership *m, const char *why, rbt_time time,
                             struct rbt_membership_out *out)
{
    char text[RBT_WIRE_TEXT_MAX];
    char length[32];
    (void)snprintf(text, sizeof text, "lost the coordinator at %s: %s for %s",
                   m->options.coordinator, why, print_time(time, length));
    fail(m, RBT_E_CLOSED, text, out);
}

static void connect_down(struct rbt_membership *m, const struct rbt_port_event *event, rbt_time now,
                         struct rbt_membership_out *out)
{
    const rbt_status st = event->down.status;
    char text[RBT_WIRE_TEXT_MAX];
    (void)snprintf(m->trouble, sizeof m->trouble, "%s", event->down.why);
    if (is_up(m)) {
        if (st == RBT_E_PROTOCOL || st == RBT_E_NOMEM) { /* trying again would not help */
            (void)snprintf(text, sizeof text, "the coordinator at %s: %.512s",
                           m->options.coordinator, m->trouble);
            fail(m, st, text, out);
        }
    } else {
        m->looked = now; /* as in connect_up() */
        if ((st == RBT_E_INVALID || st == RBT_E_NOMEM) && m->is_known) {
            lose_coordinator(m, "no connection", m->options.cut_max, out);
        } else if (st == RBT_E_INVALID || st == RBT_E_NOMEM) {
            (void)snprintf(text, sizeof text, "could not join the coordinator: %.960s", m->trouble);
            fail(m, st, text, out);
        }
    }
    note_down(m, now);
}

static rbt_status keep_plan(struct rbt_membership *m, struct rbt_control_plan *plan,
                            struct rbt_membership_out *out)
{
    char **shards = rbt_calloc(plan->shards.count, sizeof *shards);
    bool is_good = shards != NULL;
    for (uint32_t i = 0; is_good && i < plan->shards.count; i++) {
        char address[RBT_NAME_MAX];
        rbt_control_next_shard(&plan->shards, address);
        shards[i] = rbt_strdup(address);
        is_good = shards[i] != NULL;
    }
    if (!is_good) {
        for (uint32_t i = 0; shards != NULL && i < plan->shards.count; i++) {
            rbt_free(shards[i]);
        }
        rbt_free(shards);
        return rbt_fail(RBT_E_NOMEM, "could not allocate the list of shards");
    }
    m->plan_shards = shards;
    m->plan = (struct rbt_member_plan){.cluster = plan->cluster,
                                       .job = plan->job,
                                       .index = plan->index,
                                       .process_count = plan->process_count,
                                       .worker_count = plan->worker_count,
                                       .worker_first = plan->worker_first,
                                       .thread_count = plan->thread_count,
                                       .process_size = plan->process_size,
                                       .map_version = plan->map_version,
                                       .secret = plan->secret,
                                       .shard_count = plan->shards.count,
                                       .shards = (const char *const *)shards};
    out->must_wake = true;
    return RBT_OK;
}

/* Whether the process can work by the plan: it takes shards and processes for granted, and divides
 * by how many there are. */
static rbt_status check_plan(const struct rbt_membership *m, const struct rbt_control_plan *plan)
{
    if (plan->shards.count == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "the coordinator sent a plan without shards");
    }
    if (m->options.role == RBT_ROLE_SERVER) {
        return RBT_OK;
    }
    if (plan->job == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "the coordinator sent a plan without a job");
    }
    if (plan->thread_count == 0 || plan->thread_count > plan->process_size ||
        plan->worker_first % plan->process_size != 0) {
        return rbt_fail(RBT_E_PROTOCOL, "the coordinator sent a plan with %u of %u workers here",
                        plan->thread_count, plan->process_size);
    }
    return RBT_OK;
}

static rbt_status hear_plan(struct rbt_membership *m, struct rbt_wire_cursor body,
                            struct rbt_membership_out *out)
{
    struct rbt_control_plan plan;
    rbt_status st = rbt_control_get_plan(body, &plan);
    st = st == RBT_OK ? check_plan(m, &plan) : st;
    return st == RBT_OK && !rbt_membership_has_plan(m) ? keep_plan(m, &plan, out) : st;
}

static rbt_status hear_gathered(struct rbt_membership *m, uint64_t round,
                                struct rbt_wire_cursor body, struct rbt_membership_out *out)
{
    struct rbt_wire_cursor parts;
    uint32_t count;
    const rbt_status st = rbt_control_get_gathered(body, &parts, &count);
    if (st != RBT_OK || m->gather == RBT_MEMBERSHIP_NOTHING || m->round != round) {
        return st; /* what comes twice is not wanted twice */
    }
    const size_t size = (size_t)(body.end - body.at);
    m->gathered = rbt_membership_block(size);
    if (m->gathered == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu bytes that were gathered", size);
    }
    memcpy(m->gathered->data, body.at, size);
    m->gather = RBT_MEMBERSHIP_NOTHING;
    m->part = (struct rbt_control_part){0};
    out->must_wake = true;
    return RBT_OK;
}

static rbt_status hear_stable(struct rbt_wire_cursor body, struct rbt_membership_out *out)
{
    struct rbt_membership_news news = {.kind = RBT_MEMBERSHIP_STABLE};
    const rbt_status st = rbt_control_get_version(body, &news.stable);
    if (st == RBT_OK) {
        out->news = news;
    }
    return st;
}

static rbt_status hear_drop(struct rbt_membership *m, uint64_t job, struct rbt_wire_cursor body,
                            struct rbt_membership_out *out)
{
    const rbt_status st = rbt_control_get_plain(body);
    if (st == RBT_OK) {
        rbt_shard_versions_drop(&m->versions, job);
        out->news = (struct rbt_membership_news){.kind = RBT_MEMBERSHIP_DROP, .number = job};
    }
    return st;
}

static rbt_status hear_job(uint64_t number, struct rbt_wire_cursor body,
                           struct rbt_membership_out *out)
{
    struct rbt_membership_news news = {.kind = RBT_MEMBERSHIP_JOB, .number = number};
    const rbt_status st = rbt_control_get_job(body, &news.job);
    if (st == RBT_OK && number == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "the coordinator announced a job without a number");
    }
    if (st == RBT_OK) {
        out->news = news;
    }
    return st;
}

static rbt_status hear_ending(struct rbt_membership *m, uint16_t kind, struct rbt_wire_cursor body,
                              struct rbt_membership_out *out)
{
    struct rbt_control_ending ending;
    const rbt_status st = rbt_control_get_ending(body, &ending);
    if (st != RBT_OK) {
        return st;
    }
    if (kind == RBT_FRAME_GOODBYE) {
        if (m->goodbye != RBT_MEMBERSHIP_NOTHING) {
            m->goodbye = RBT_MEMBERSHIP_ANSWERED;
            out->must_wake = true;
        }
    } else if (ending.status != RBT_OK) {
        fail(m, ending.status, ending.text, out);
    } else if (m->end == RBT_MEMBERSHIP_AT_WORK) {
        end_work(m, RBT_MEMBERSHIP_OVER, out);
    }
    return RBT_OK;
}

static rbt_status hear(struct rbt_membership *m, const struct rbt_frame *frame, const char *at,
                       struct rbt_membership_out *out)
{
    const struct rbt_wire_cursor body = {.at = at, .end = at + frame->length};
    switch (frame->kind) {
    case RBT_FRAME_BEAT:
        return rbt_control_get_plain(body);
    case RBT_FRAME_PLAN:
        return hear_plan(m, body, out);
    case RBT_FRAME_GATHERED:
        return hear_gathered(m, frame->id, body, out);
    case RBT_FRAME_BOUND:
        return rbt_membership_hear_bound(m, frame->id, body, out);
    case RBT_FRAME_BOUND_TAKEN:
        return rbt_membership_hear_taken(m, frame->id, body, out);
    case RBT_FRAME_DROP:
        return hear_drop(m, frame->id, body, out);
    case RBT_FRAME_STABLE:
        return hear_stable(body, out);
    case RBT_FRAME_JOB:
        return hear_job(frame->id, body, out);
    case RBT_FRAME_FAILED:
    case RBT_FRAME_GOODBYE:
        return hear_ending(m, frame->kind, body, out);
    case RBT_FRAME_REFUSED:
        return rbt_fail(RBT_E_PROTOCOL, "the address belongs to a server, not to a coordinator");
    default:
        return rbt_fail(RBT_E_PROTOCOL, "the coordinator sent a message of kind %u", frame->kind);
    }
}

static void step_frame(struct rbt_membership *m, const struct rbt_port_event *event, rbt_time now,
                       struct rbt_membership_out *out)
{
    m->heard = now;
    m->is_known = true;
    m->line = RBT_MEMBERSHIP_LIVE;
    const rbt_status st = hear(m, &event->frame.head, event->frame.body, out);
    if (st != RBT_OK) { /* trying again would not help */
        char text[RBT_WIRE_TEXT_MAX];
        (void)snprintf(text, sizeof text, "the coordinator at %s: %s", m->options.coordinator,
                       rbt_last_error());
        fail(m, st, text, out);
        cut(m, now, out);
    }
}

static void step_port(struct rbt_membership *m, const struct rbt_port_event *event, rbt_time now,
                      struct rbt_membership_out *out)
{
    RBT_ASSERT(event->port == PORT);
    switch (event->kind) {
    case RBT_PORT_UP:
        RBT_ASSERT(m->line == RBT_MEMBERSHIP_CONNECTING);
        connect_up(m, now, out);
        break;
    case RBT_PORT_FRAME:
        RBT_ASSERT(is_up(m));
        step_frame(m, event, now, out);
        break;
    case RBT_PORT_BROKEN: /* there is nobody worth telling */
        if (rbt_outbox_cut(&out->port, PORT) != RBT_OK) {
            fail_memory(m, out);
        }
        connect_down(m, event, now, out);
        break;
    case RBT_PORT_DOWN:
        RBT_ASSERT(m->line != RBT_MEMBERSHIP_DOWN);
        connect_down(m, event, now, out);
        break;
    case RBT_PORT_ROOM:
        break; /* there are few messages: nothing waits for room */
    }
}

/* Nobody is there, or nobody stays there, since we began. */
static void fail_join(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    char text[RBT_WIRE_TEXT_MAX];
    char length[32];
    const double seconds = (double)(now - m->began) * 1e-9;
    if (m->has_broken) {
        (void)snprintf(text, sizeof text, "could not join the coordinator at %s within %s: %.512s",
                       m->options.coordinator, print_time(m->options.start_timeout, length),
                       m->trouble);
    } else {
        (void)snprintf(text, sizeof text,
                       seconds < 10 ? "could not join the coordinator: %.900s (tried for %.2gs)"
                                    : "could not join the coordinator: %.900s (tried for %.0fs)",
                       m->trouble, seconds);
    }
    fail(m, RBT_E_TIMEOUT, text, out);
}

static void note_no_answer(struct rbt_membership *m)
{
    (void)snprintf(m->trouble, sizeof m->trouble, "could not reach %s: it does not answer",
                   m->options.coordinator);
}

/* When it has to be known whether the coordinator is there at all: RBT_TIME_NEVER if it is. */
static rbt_time join_deadline(const struct rbt_membership *m)
{
    const bool is_late = !is_up(m) || m->has_broken; /* else silence counts from this connection */
    return !m->is_known && is_late ? m->began + m->options.start_timeout : RBT_TIME_NEVER;
}

/* The others: each is RBT_TIME_NEVER while it does not matter. */
static rbt_time silence_deadline(const struct rbt_membership *m)
{
    return is_up(m) ? m->heard + m->options.silence_max : RBT_TIME_NEVER;
}

static rbt_time cut_deadline(const struct rbt_membership *m)
{
    return m->is_known && m->line != RBT_MEMBERSHIP_LIVE ? m->cut_at + m->options.cut_max
                                                         : RBT_TIME_NEVER;
}

static rbt_time plan_deadline(const struct rbt_membership *m)
{
    return is_up(m) && !rbt_membership_has_plan(m)
               ? m->connected_at + m->options.start_timeout + START_SLACK
               : RBT_TIME_NEVER;
}

/* Whether the coordinator is still there, and has said in time that all are. */
static void judge(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    const struct rbt_membership_options *options = &m->options;
    if (now >= silence_deadline(m)) {
        lose_coordinator(m, "no sign of life", options->silence_max, out);
        cut(m, now, out);
    } else if (now >= cut_deadline(m)) {
        lose_coordinator(m, "no connection", options->cut_max, out);
        cut(m, now, out);
    } else if (now >= join_deadline(m)) {
        if (m->line == RBT_MEMBERSHIP_CONNECTING && m->trouble[0] == '\0') {
            note_no_answer(m);
        }
        fail_join(m, now, out);
        if (!is_up(m)) {
            cut(m, now, out);
        }
    } else if (now >= plan_deadline(m)) {
        char length[32];
        char text[RBT_WIRE_TEXT_MAX];
        (void)snprintf(text, sizeof text,
                       "the coordinator at %s did not report all processes within %s",
                       options->coordinator, print_time(options->start_timeout, length));
        fail(m, RBT_E_TIMEOUT, text, out);
    }
}

/* Gives a sign of life if it is time to. */
static void beat(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    if (!is_up(m) || has_said_goodbye(m) || now < m->beat_at) {
        return;
    }
    m->beat_at = now + beat_period(m);
    if (m->is_alive) {
        say_beat(m, out);
    } else {
        m->heard = now; /* who says nothing is not answered */
    }
}

/* Makes a connection, or gives up an attempt that takes too long. */
static void reach(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    if (m->line == RBT_MEMBERSHIP_CONNECTING && now >= m->attempted_at + RBT_ATTEMPT_TIME_MAX) {
        note_no_answer(m);
        cut(m, now, out);
    }
    if (m->line == RBT_MEMBERSHIP_DOWN && now >= m->retry_at) {
        if (rbt_outbox_connect(&out->port, PORT) != RBT_OK) {
            fail_memory(m, out);
            return;
        }
        m->line = RBT_MEMBERSHIP_CONNECTING;
        m->attempted_at = now;
    }
}

static void step_time(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    if (now - m->looked > m->options.silence_max / 2) { /* we slept */
        m->heard = now;
        m->cut_at = now;
    }
    m->looked = now;
    beat(m, now, out);
    if (m->end == RBT_MEMBERSHIP_AT_WORK) {
        judge(m, now, out);
    }
    if (m->end == RBT_MEMBERSHIP_AT_WORK) {
        reach(m, now, out);
    }
}

/* Somebody has something to say: it does not wait for the next attempt. */
static void hurry(struct rbt_membership *m, rbt_time now)
{
    m->retry_at = earlier(m->retry_at, now);
}

/* The membership is over when goodbye was answered, or there is nobody or no time for that. */
static void settle(struct rbt_membership *m, rbt_time now, struct rbt_membership_out *out)
{
    if (m->goodbye == RBT_MEMBERSHIP_NOTHING) {
        return;
    }
    const bool is_alone = m->end != RBT_MEMBERSHIP_AT_WORK && m->line == RBT_MEMBERSHIP_DOWN;
    if (m->goodbye == RBT_MEMBERSHIP_ANSWERED || is_alone || now >= m->leave_deadline) {
        m->goodbye = RBT_MEMBERSHIP_ANSWERED;
        out->must_wake = true;
        cut(m, now, out);
    }
}

static void step_leave(struct rbt_membership *m, const struct rbt_membership_event *event,
                       rbt_time now)
{
    RBT_ASSERT(m->goodbye == RBT_MEMBERSHIP_NOTHING);
    m->goodbye = RBT_MEMBERSHIP_TO_SAY;
    m->leave_deadline = now + GOODBYE_TIME;
    m->leave_status = event->ending.status;
    (void)snprintf(m->leave_text, sizeof m->leave_text, "%s",
                   event->ending.why == NULL ? "" : event->ending.why);
    hurry(m, now);
}

static void step_gather(struct rbt_membership *m, const struct rbt_control_part *part, rbt_time now)
{
    RBT_ASSERT(m->gather == RBT_MEMBERSHIP_NOTHING);
    RBT_ASSERT(m->gathered == NULL);
    if (m->end == RBT_MEMBERSHIP_AT_WORK) {
        m->round++;
        m->part = *part;
        m->gather = RBT_MEMBERSHIP_TO_SAY;
        hurry(m, now);
    }
}

void rbt_membership_step(struct rbt_membership *m, const struct rbt_membership_event *event,
                         rbt_time now, struct rbt_membership_out *out)
{
    const struct rbt_member_version *version = &event->version;
    RBT_ASSERT(out->news.kind == RBT_MEMBERSHIP_NO_NEWS);
    if (rbt_membership_has_left(m)) {
        return;
    }
    switch (event->kind) {
    case RBT_MEMBERSHIP_PORT:
        step_port(m, event->port, now, out);
        break;
    case RBT_MEMBERSHIP_GATHER:
        step_gather(m, &event->part, now);
        break;
    case RBT_MEMBERSHIP_BOUND:
        rbt_membership_tell_bound(m, event);
        hurry(m, now);
        break;
    case RBT_MEMBERSHIP_VERSION: /* it is told at the deadline, so that much becomes one message */
        rbt_shard_versions_note(
            &m->versions, version->job, version->shard,
            &(struct rbt_control_version){.table = version->table, .version = version->version});
        return;
    case RBT_MEMBERSHIP_ALIVE:
        m->is_alive = event->is_alive;
        return;
    case RBT_MEMBERSHIP_GIVE_UP:
        fail(m, event->ending.status, event->ending.why, out);
        break;
    case RBT_MEMBERSHIP_LEAVE:
        step_leave(m, event, now);
        break;
    case RBT_MEMBERSHIP_TIME:
        step_time(m, now, out);
        break;
    }
    speak(m, now, out);
    settle(m, now, out);
}

rbt_time rbt_membership_deadline(const struct rbt_membership *m)
{
    rbt_time deadline = RBT_TIME_NEVER;
    if (rbt_membership_has_left(m)) {
        return deadline;
    }
    if (m->goodbye != RBT_MEMBERSHIP_NOTHING) {
        deadline = m->leave_deadline;
    }
    if (is_up(m) && !has_said_goodbye(m)) {
        deadline = earlier(deadline, m->beat_at);
        deadline = m->versions.is_due ? earlier(deadline, m->versions_at) : deadline;
    }
    if (m->end != RBT_MEMBERSHIP_AT_WORK) {
        return deadline;
    }
    deadline = earlier(deadline, earlier(silence_deadline(m), cut_deadline(m)));
    deadline = earlier(deadline, earlier(join_deadline(m), plan_deadline(m)));
    if (m->line == RBT_MEMBERSHIP_DOWN) {
        deadline = earlier(deadline, m->retry_at);
    } else if (m->line == RBT_MEMBERSHIP_CONNECTING) {
        deadline = earlier(deadline, m->attempted_at + RBT_ATTEMPT_TIME_MAX);
    }
    return earlier(deadline, m->looked + m->options.silence_max / 4);
}

bool rbt_membership_has_plan(const struct rbt_membership *m)
{
    return m->plan_shards != NULL;
}

bool rbt_membership_is_gathering(const struct rbt_membership *m)
{
    return m->gather != RBT_MEMBERSHIP_NOTHING;
}

struct rbt_block *rbt_membership_take_gathered(struct rbt_membership *m)
{
    struct rbt_block *gathered = m->gathered;
    m->gathered = NULL;
    return gathered;
}

bool rbt_membership_has_ended(const struct rbt_membership *m)
{
    return m->end != RBT_MEMBERSHIP_AT_WORK;
}

bool rbt_membership_has_left(const struct rbt_membership *m)
{
    return m->goodbye == RBT_MEMBERSHIP_ANSWERED;
}

void rbt_membership_init(struct rbt_membership *m, const struct rbt_membership_options *options,
                         rbt_time now)
{
    RBT_ASSERT(options->token != 0);
    RBT_ASSERT(options->silence_max > 0);
    RBT_ASSERT(options->cut_max > 0);
    *m = (struct rbt_membership){.options = *options,
                                 .is_alive = true,
                                 .began = now,
                                 .retry_at = now,
                                 .backoff = BACKOFF_MIN,
                                 .heard = now,
                                 .cut_at = now,
                                 .looked = now,
                                 .versions = {.shard_count = options->shard_count}};
}

void rbt_membership_deinit(struct rbt_membership *m)
{
    for (uint32_t i = 0; m->plan_shards != NULL && i < m->plan.shard_count; i++) {
        rbt_free(m->plan_shards[i]);
    }
    rbt_free(m->plan_shards);
    rbt_block_unref(m->gathered);
    rbt_shard_versions_deinit(&m->versions);
}
