/* net/member_line.c - the member's thread: it keeps the line to the coordinator.
 *
 * When the line is cut, the thread connects again and says all that it has not seen an answer to
 * once more; numbers make that harmless. The coordinator is lost when there was no connection for
 * `cut_max`, or no sign of life for `silence_max`. If the thread itself has not run for long,
 * because the process was stopped, it cannot blame the coordinator: the time starts anew.
 *
 * Threads: the member's own; what others may touch is under the mutex. Memory: one block per
 * message; there are few. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/address.h"
#include "net/member_state.h"

#define MS            INT64_C(1000000)
#define BEAT_MAX      (500 * MS) /* between two signs of life */
#define VERSIONS_TIME MS         /* between two reports of what shards have */
#define BACKOFF_MIN   (10 * MS)
#define BACKOFF_MAX   (500 * MS)
#define START_SLACK   (3000 * MS) /* for the coordinator's own sentence about who is missing */

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

static rbt_time beat_period(const rbt_member *member)
{
    const rbt_time quarter = member->options.silence_max / 4;
    return quarter < BEAT_MAX ? quarter : BEAT_MAX;
}

static const char *print_time(rbt_time time, char text[static 32])
{
    const double seconds = (double)time * 1e-9;
    (void)snprintf(text, 32, seconds < 1.0 ? "%.3gms" : "%.4gs",
                   seconds < 1.0 ? seconds * 1e3 : seconds);
    return text;
}

/* The first failure counts. */
void rbt_member_give_up(rbt_member *member, rbt_status status, const char *text)
{
    RBT_ASSERT(status != RBT_OK);
    pthread_mutex_lock(&member->mutex);
    const bool is_first = member->failure == RBT_OK && !member->is_over;
    if (is_first) {
        member->failure = status;
        (void)snprintf(member->failure_text, sizeof member->failure_text, "%s", text);
    }
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
    if (is_first) {
        rbt_member_signal(member->alarm);
    }
}

static bool is_ended(rbt_member *member)
{
    pthread_mutex_lock(&member->mutex);
    const bool is_ended = member->failure != RBT_OK || member->is_over;
    pthread_mutex_unlock(&member->mutex);
    return is_ended;
}

/* The connection is of no use any more. */
static void drop_line(rbt_member *member)
{
    if (member->channel == NULL) {
        return;
    }
    rbt_channel_close(member->channel);
    member->channel = NULL;
    if (member->is_live) {
        member->is_live = false;
        member->cut_at = rbt_clock_now();
        member->backoff = 0;
    }
}

/* Writes what is queued. A failure is found, with what the coordinator has said before it, when the
 * line is read from. */
static void flush(rbt_member *member)
{
    const rbt_status st = rbt_channel_flush(member->channel);
    (void)st; /* see above */
}

/* Takes the block, and sends it as far as that is possible at once. */
static void send_block(rbt_member *member, struct rbt_block *block)
{
    if (block == NULL) {
        rbt_member_give_up(member, RBT_E_NOMEM, "could not allocate a message to the coordinator");
        return;
    }
    if (member->channel != NULL && rbt_channel_send(member->channel, block) == RBT_OK) {
        flush(member);
    }
    rbt_block_unref(block);
}

/* A block for `bytes`, which it counts as written. */
static struct rbt_block *make_block(size_t bytes)
{
    struct rbt_block *block = rbt_block_create(bytes);
    if (block != NULL) {
        block->bytes = bytes;
    }
    return block;
}

static void send_join(rbt_member *member)
{
    const struct rbt_member_options *options = &member->options;
    struct rbt_control_join join = {
        .token = member->token,
        .is_return = member->is_known,
        .role = (uint32_t)options->role,
        .index = options->index,
        .pid = (uint32_t)getpid(),
        .worker_count = options->role == RBT_ROLE_SERVER ? 0 : options->worker_count,
        .thread_count = options->role == RBT_ROLE_SERVER ? 0 : options->thread_count,
        .permit = options->permit,
        .read_permit = options->read_permit,
        .shards = {.count = member->shard_count, .texts = (const char *const *)member->shards}};
    (void)snprintf(join.space, sizeof join.space, "%s", member->space);
    memcpy(join.host, member->host, sizeof join.host);
    struct rbt_block *block = make_block(rbt_control_put_join(NULL, &join));
    if (block != NULL) {
        (void)rbt_control_put_join(block->data, &join);
    }
    send_block(member, block);
}

static void send_beat(rbt_member *member)
{
    struct rbt_block *block = make_block(rbt_control_put_plain(NULL, RBT_FRAME_BEAT, 0));
    if (block != NULL) {
        (void)rbt_control_put_plain(block->data, RBT_FRAME_BEAT, 0);
    }
    send_block(member, block);
}

/* These three are called with the mutex held, and make what others have left to be said. */
static struct rbt_block *make_gather(const rbt_member *member)
{
    struct rbt_block *block =
        make_block(rbt_control_put_gather(NULL, member->round, &member->part));
    if (block != NULL) {
        (void)rbt_control_put_gather(block->data, member->round, &member->part);
    }
    return block;
}

static struct rbt_block *make_bound(const rbt_member *member)
{
    struct rbt_block *block =
        make_block(rbt_control_put_bound(NULL, member->bound_number, member->bound));
    if (block != NULL) {
        (void)rbt_control_put_bound(block->data, member->bound_number, member->bound);
    }
    return block;
}

static struct rbt_block *make_goodbye(const rbt_member *member)
{
    struct rbt_block *block = make_block(
        rbt_control_put_ending(NULL, RBT_FRAME_GOODBYE, member->leave_status, member->leave_text));
    if (block != NULL) {
        (void)rbt_control_put_ending(block->data, RBT_FRAME_GOODBYE, member->leave_status,
                                     member->leave_text);
    }
    return block;
}

/* Tells what the shards have more than the coordinator knows. */
static void tell_versions(rbt_member *member)
{
    const rbt_time now = rbt_clock_now();
    bool has_more = now >= member->versions_at;
    while (has_more) { /* ends: what has been told is not told again */
        struct rbt_control_version version;
        struct rbt_block *block = NULL;
        pthread_mutex_lock(&member->mutex);
        const struct rbt_member_table *table = rbt_member_next_table(member, &version);
        if (table != NULL) {
            const enum rbt_frame_kind kind = RBT_FRAME_VERSION;
            block = make_block(rbt_control_put_version(NULL, kind, table->job, &version));
            if (block != NULL) {
                (void)rbt_control_put_version(block->data, kind, table->job, &version);
            }
        }
        pthread_mutex_unlock(&member->mutex);
        has_more = table != NULL;
        if (has_more) {
            send_block(member, block);
            member->versions_at = now + VERSIONS_TIME;
        }
    }
}

/* Says what others have left to be said. */
static void speak(rbt_member *member)
{
    struct rbt_block *blocks[3];
    size_t count = 0;
    if (member->channel == NULL) {
        return;
    }
    pthread_mutex_lock(&member->mutex);
    if (member->must_bound) { /* first: who has gathered knows what was told before */
        member->must_bound = false;
        blocks[count++] = make_bound(member);
    }
    if (member->must_gather) {
        member->must_gather = false;
        blocks[count++] = make_gather(member);
    }
    if (member->must_goodbye) {
        member->must_goodbye = false;
        blocks[count++] = make_goodbye(member);
    }
    pthread_mutex_unlock(&member->mutex);
    for (size_t i = 0; i < count; i++) {
        send_block(member, blocks[i]);
    }
    if (member->channel != NULL) {
        tell_versions(member);
    }
}

/* After a cut: what has not been answered has to be said again. */
static void speak_again(rbt_member *member)
{
    pthread_mutex_lock(&member->mutex);
    member->must_gather = member->is_gathering;
    member->must_bound = member->bound_number > 0;
    member->must_goodbye = member->must_leave;
    rbt_member_forget_told(member);
    pthread_mutex_unlock(&member->mutex);
    speak(member);
}

static rbt_status keep_plan(rbt_member *member, struct rbt_control_plan *plan)
{
    char **shards = rbt_calloc(plan->shards.count, sizeof *shards);
    bool is_good = shards != NULL;
    for (uint32_t i = 0; is_good && i < plan->shards.count; i++) {
        char address[RBT_WIRE_NAME_MAX];
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
    pthread_mutex_lock(&member->mutex);
    member->plan_shards = shards;
    member->plan = (struct rbt_member_plan){.cluster = plan->cluster,
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
    member->has_plan = true;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
    return RBT_OK;
}

/* A part of the round was lost, or all of it has come. */
static rbt_status hear_gathered(rbt_member *member, uint64_t round, struct rbt_wire_cursor body)
{
    struct rbt_wire_cursor parts;
    uint32_t count;
    const rbt_status st = rbt_control_get_gathered(body, &parts, &count);
    if (st != RBT_OK) {
        return st;
    }
    const size_t size = (size_t)(body.end - body.at);
    struct rbt_block *block = make_block(size);
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu bytes that were gathered", size);
    }
    memcpy(block->data, body.at, size);
    pthread_mutex_lock(&member->mutex);
    const bool is_wanted = member->is_gathering && member->round == round;
    if (is_wanted) {
        member->gathered = block;
        member->is_gathering = false;
        member->must_gather = false;
        pthread_cond_broadcast(&member->changed);
    }
    pthread_mutex_unlock(&member->mutex);
    if (!is_wanted) { /* it came twice */
        rbt_block_unref(block);
    }
    return RBT_OK;
}

static rbt_status hear_bound(rbt_member *member, uint64_t number, struct rbt_wire_cursor body)
{
    int64_t staleness;
    const rbt_status st = rbt_control_get_bound(body, &staleness);
    if (st == RBT_OK && number > member->bound_heard) {
        member->bound_heard = number;
        if (member->options.on_bound != NULL) {
            member->options.on_bound(member->options.context, staleness);
        }
    }
    return st;
}

static rbt_status hear_stable(rbt_member *member, struct rbt_wire_cursor body)
{
    struct rbt_control_version version;
    const rbt_status st = rbt_control_get_version(body, &version);
    if (st == RBT_OK && member->options.on_stable != NULL) {
        member->options.on_stable(member->options.context, version.table, version.version);
    }
    return st;
}

static void hear_drop(rbt_member *member, uint64_t job)
{
    pthread_mutex_lock(&member->mutex);
    rbt_member_drop_tables(member, job);
    pthread_mutex_unlock(&member->mutex);
    if (member->options.on_drop != NULL) {
        member->options.on_drop(member->options.context, job);
    }
}

static rbt_status hear_job(const rbt_member *member, uint64_t number, struct rbt_wire_cursor body)
{
    struct rbt_control_job job;
    const rbt_status st = rbt_control_get_job(body, &job);
    if (st == RBT_OK && member->options.on_job != NULL) {
        member->options.on_job(member->options.context, number, &job);
    }
    return st;
}

static rbt_status hear_ending(rbt_member *member, uint16_t kind, struct rbt_wire_cursor body)
{
    struct rbt_control_ending ending;
    const rbt_status st = rbt_control_get_ending(body, &ending);
    if (st != RBT_OK) {
        return st;
    }
    if (kind == RBT_FRAME_FAILED && ending.status != RBT_OK) {
        rbt_member_give_up(member, ending.status, ending.text);
        return RBT_OK;
    }
    pthread_mutex_lock(&member->mutex);
    if (kind == RBT_FRAME_FAILED) {
        member->is_over = true;
    } else {
        member->has_left = member->must_leave;
    }
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
    return RBT_OK;
}

static rbt_status hear(rbt_member *member, const struct rbt_frame *frame, const char *at)
{
    const struct rbt_wire_cursor body = {.at = at, .end = at + frame->length};
    rbt_status st;
    switch (frame->kind) {
    case RBT_FRAME_BEAT:
        return rbt_control_get_plain(body);
    case RBT_FRAME_PLAN: {
        struct rbt_control_plan plan;
        st = rbt_control_get_plan(body, &plan);
        return st == RBT_OK && !member->has_plan ? keep_plan(member, &plan) : st;
    }
    case RBT_FRAME_GATHERED:
        return hear_gathered(member, frame->id, body);
    case RBT_FRAME_BOUND:
        return hear_bound(member, frame->id, body);
    case RBT_FRAME_DROP:
        st = rbt_control_get_plain(body);
        if (st == RBT_OK) {
            hear_drop(member, frame->id);
        }
        return st;
    case RBT_FRAME_STABLE:
        return hear_stable(member, body);
    case RBT_FRAME_JOB:
        return hear_job(member, frame->id, body);
    case RBT_FRAME_FAILED:
    case RBT_FRAME_GOODBYE:
        return hear_ending(member, frame->kind, body);
    case RBT_FRAME_REFUSED:
        return rbt_fail(RBT_E_PROTOCOL, "a server listens there, not a coordinator");
    default:
        return rbt_fail(RBT_E_PROTOCOL, "the coordinator sent a message of kind %u", frame->kind);
    }
}

/* Takes all that has come. */
static void listen_to(rbt_member *member)
{
    struct rbt_frame frame;
    const char *body;
    rbt_status st = RBT_OK;
    while (st == RBT_OK) { /* ends when nothing more is there, or the line is broken */
        st = rbt_channel_receive(member->channel, &frame, &body);
        if (st == RBT_OK) {
            member->heard = rbt_clock_now();
            member->is_known = true;
            member->is_live = true;
            st = hear(member, &frame, body);
        }
    }
    if (st == RBT_E_PROTOCOL || st == RBT_E_NOMEM) { /* trying again would not help */
        char text[RBT_WIRE_TEXT_MAX];
        (void)snprintf(text, sizeof text, "the coordinator at %s: %s", member->coordinator,
                       rbt_last_error());
        rbt_member_give_up(member, st, text);
    }
    if (st != RBT_E_BUSY) {
        (void)snprintf(member->trouble, sizeof member->trouble, "%s", rbt_last_error());
        drop_line(member);
    }
}

/* There is nobody to say goodbye to. */
static void forgo_goodbye(rbt_member *member)
{
    pthread_mutex_lock(&member->mutex);
    member->has_left = true;
    pthread_cond_broadcast(&member->changed);
    pthread_mutex_unlock(&member->mutex);
}

static void lose_coordinator(rbt_member *member, const char *why, rbt_time time)
{
    char text[RBT_WIRE_TEXT_MAX];
    char length[32];
    (void)snprintf(text, sizeof text, "lost the coordinator at %s: %s for %s", member->coordinator,
                   why, print_time(time, length));
    rbt_member_give_up(member, RBT_E_CLOSED, text);
    drop_line(member);
}

static void wait_a_little(rbt_member *member)
{
    struct pollfd fd = {.fd = member->wake, .events = POLLIN};
    if (member->backoff > 0) {
        (void)poll(&fd, 1, (int)(member->backoff / MS)); /* how long exactly does not matter */
    }
    drain_descriptor(member->wake);
    const rbt_time next = member->backoff == 0 ? BACKOFF_MIN : 2 * member->backoff;
    member->backoff = next < BACKOFF_MAX ? next : BACKOFF_MAX;
}

/* When there must be a connection. */
static rbt_time connect_deadline(rbt_member *member)
{
    rbt_time deadline = member->is_known ? member->cut_at + member->options.cut_max
                                         : member->began + member->options.start_timeout;
    pthread_mutex_lock(&member->mutex);
    if (member->must_leave && member->leave_deadline < deadline) {
        deadline = member->leave_deadline;
    }
    pthread_mutex_unlock(&member->mutex);
    return deadline;
}

static void fail_connect(rbt_member *member, rbt_status st)
{
    if (member->is_known) {
        lose_coordinator(member, "no connection", member->options.cut_max);
        return;
    }
    char text[RBT_WIRE_TEXT_MAX];
    (void)snprintf(text, sizeof text, "could not join the coordinator: %s", rbt_last_error());
    rbt_member_give_up(member, st, text);
}

static void connect_line(rbt_member *member)
{
    int socket = -1;
    wait_a_little(member); /* and is not woken by what connect_deadline() sees */
    rbt_status st =
        rbt_address_connect(member->coordinator, connect_deadline(member), member->wake, &socket);
    if (st == RBT_E_INTERRUPTED) {
        return; /* there is something to do; then again */
    }
    if (st == RBT_OK) {
        const struct rbt_channel_options options = {.security = member->options.security,
                                                    .body_max = RBT_FRAME_BODY_MAX};
        st = rbt_channel_open(socket, &options, &member->channel);
    }
    if (st != RBT_OK) {
        fail_connect(member, st);
        return;
    }
    member->looked = rbt_clock_now();
    member->beat_at = member->looked + beat_period(member);
    if (!member->is_known) {
        member->connected_at = member->looked;
        member->heard = member->looked;
    }
    send_join(member);
    speak_again(member);
}

/* Gives a sign of life if it is time to. */
static void beat(rbt_member *member, rbt_time now)
{
    if (now < member->beat_at) {
        return;
    }
    member->beat_at = now + beat_period(member);
    if (member->options.is_alive == NULL || member->options.is_alive(member->options.context)) {
        send_beat(member);
    } else {
        member->heard = now; /* who says nothing is not answered */
    }
}

/* Connections are made, but end before anything comes of them. */
static void fail_join(rbt_member *member)
{
    char length[32];
    char text[RBT_WIRE_TEXT_MAX];
    (void)snprintf(text, sizeof text, "could not join the coordinator at %s within %s: %.512s",
                   member->coordinator, print_time(member->options.start_timeout, length),
                   member->trouble);
    rbt_member_give_up(member, RBT_E_TIMEOUT, text);
}

/* Whether the coordinator is still there, and has said in time that all are. */
static void judge(rbt_member *member, rbt_time now)
{
    if (now - member->looked > member->options.silence_max / 2) { /* we slept */
        member->heard = now;
        member->cut_at = now;
    }
    member->looked = now;
    if (now - member->heard >= member->options.silence_max) {
        lose_coordinator(member, "no sign of life", member->options.silence_max);
    } else if (!member->is_live && member->is_known &&
               now - member->cut_at >= member->options.cut_max) {
        lose_coordinator(member, "no connection", member->options.cut_max);
    } else if (!member->is_known && member->trouble[0] != '\0' &&
               now - member->began >= member->options.start_timeout) {
        fail_join(member);
    } else if (!member->has_plan &&
               now - member->connected_at >= member->options.start_timeout + START_SLACK) {
        char length[32];
        char text[RBT_WIRE_TEXT_MAX];
        (void)snprintf(text, sizeof text,
                       "the coordinator at %s has not said within %s that everybody is there",
                       member->coordinator, print_time(member->options.start_timeout, length));
        rbt_member_give_up(member, RBT_E_TIMEOUT, text);
    }
}

static bool must_end(rbt_member *member)
{
    pthread_mutex_lock(&member->mutex);
    const bool must_end =
        member->must_leave && (member->has_left || rbt_clock_now() >= member->leave_deadline);
    pthread_mutex_unlock(&member->mutex);
    return must_end;
}

/* When there is something to say, unless somebody has more before. */
static rbt_time next_time(rbt_member *member)
{
    pthread_mutex_lock(&member->mutex);
    const bool must_version = member->must_version;
    pthread_mutex_unlock(&member->mutex);
    return must_version && member->versions_at < member->beat_at ? member->versions_at
                                                                 : member->beat_at;
}

/* One turn with a connection. */
static void turn(rbt_member *member)
{
    struct pollfd fds[] = {
        {.fd = rbt_channel_socket(member->channel), .events = rbt_channel_wants(member->channel)},
        {.fd = member->wake, .events = POLLIN}};
    const rbt_time left = next_time(member) - rbt_clock_now();
    (void)poll(fds, 2, left <= 0 ? 0 : (int)(left / MS) + 1); /* an error leaves no events */
    if (fds[1].revents != 0) {
        drain_descriptor(member->wake);
    }
    if (fds[0].revents != 0) {
        flush(member);
        listen_to(member);
    }
    if (member->channel != NULL) {
        beat(member, rbt_clock_now());
    }
    if (!is_ended(member)) {
        judge(member, rbt_clock_now());
    }
    speak(member);
}

void *rbt_member_run(void *argument)
{
    rbt_member *member = argument;
    while (!must_end(member)) {
        if (member->channel != NULL) {
            turn(member);
        } else if (!is_ended(member)) {
            connect_line(member);
        } else { /* nothing is left but to be told to end */
            struct pollfd fd = {.fd = member->wake, .events = POLLIN};
            forgo_goodbye(member);
            (void)poll(&fd, 1, must_end(member) ? 0 : -1); /* an error is another turn */
            drain_descriptor(member->wake);
        }
    }
    rbt_channel_close(member->channel);
    member->channel = NULL;
    forgo_goodbye(member);
    return NULL;
}
