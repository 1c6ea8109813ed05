/* test/fuzz/member_fuzz.c - a member survives whatever a coordinator says to it, and however its
 * connection fares.
 *
 * An input is a script (fuzz/script.h) for the machine (proto/membership.h): messages of the
 * coordinator, cuts, time, and what the process wants meanwhile. It is played to a worker process
 * and to a server. What the member wants done must make sense: every connection begins with JOIN
 * and ends with GOODBYE if that is said, and every message can be read. In the end the process
 * leaves, which takes a bounded time whatever was said. */
#include <rubato/status.h>

#include "base/error.h"
#include "fuzz/script.h"
#include "proto/membership.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)

enum {
    STEPS = 20,       /* after the end of the input */
    STEPS_MAX = 1000, /* in all */
    LEAVE_STEPS = 100,
    ROOM = 1 << 14,
    LIVE_MAX = 64 << 20,
};

struct talk {
    struct script script;
    struct rbt_membership member;
    struct rbt_membership_out out;
    bool is_wanted; /* a connection is */
    bool is_open;
    bool has_joined; /* on this connection */
    bool has_left;   /* the same */
    uint64_t job;    /* that the coordinator speaks of */
    uint64_t damages;
    rbt_time now;
};

static const char *const shards[] = {"unix:a", "127.0.0.1:7000"};
static _Alignas(8) char message[ROOM];

/* --- What the member wants done -------------------------------------------------------------- */

static bool can_be_read(const struct rbt_frame *head, struct rbt_wire_cursor body)
{
    struct rbt_control_join join;
    struct rbt_control_part part;
    struct rbt_control_bound bound;
    struct rbt_control_version version;
    struct rbt_control_ending ending;
    uint64_t job;
    switch (head->kind) {
    case RBT_FRAME_JOIN:
        return rbt_control_get_join(body, &join) == RBT_OK;
    case RBT_FRAME_BEAT:
        return rbt_control_get_plain(body) == RBT_OK;
    case RBT_FRAME_GATHER:
        return rbt_control_get_gather(body, &part) == RBT_OK;
    case RBT_FRAME_BOUND:
        return rbt_control_get_bound(body, &bound) == RBT_OK;
    case RBT_FRAME_BOUND_TAKEN:
        return rbt_control_get_taken(body, &job) == RBT_OK;
    case RBT_FRAME_VERSION:
        return rbt_control_get_version(body, &version) == RBT_OK;
    case RBT_FRAME_GOODBYE:
        return rbt_control_get_ending(body, &ending) == RBT_OK;
    default:
        return false; /* nothing else is for a coordinator */
    }
}

static void check_sent(struct talk *talk, const struct rbt_block *block)
{
    struct rbt_frame head;
    RBT_ASSERT(talk->is_open && !talk->has_left);
    RBT_ASSERT(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &head) == RBT_OK);
    RBT_ASSERT(head.length + RBT_FRAME_HEADER == block->bytes);
    RBT_ASSERT(can_be_read(&head, (struct rbt_wire_cursor){block->data + RBT_FRAME_HEADER,
                                                           block->data + block->bytes}));
    RBT_ASSERT((head.kind == RBT_FRAME_JOIN) != talk->has_joined);
    talk->has_joined = true;
    talk->has_left = head.kind == RBT_FRAME_GOODBYE;
}

static void check_news(const struct rbt_membership_news *news)
{
    RBT_ASSERT(news->kind != RBT_MEMBERSHIP_NEW_BOUND ||
               (news->number > 0 && news->bound.staleness >= -1));
    RBT_ASSERT(news->kind != RBT_MEMBERSHIP_JOB || news->number > 0);
    RBT_ASSERT(news->kind != RBT_MEMBERSHIP_STABLE || news->stable.table < RBT_JOB_TABLES_MAX);
}

static void step(struct talk *talk, struct rbt_membership_event event)
{
    rbt_membership_step(&talk->member, &event, talk->now, &talk->out);
    check_news(&talk->out.news);
    for (uint32_t i = 0; i < talk->out.port.count; i++) {
        const struct rbt_out *item = &talk->out.port.items[i];
        RBT_ASSERT(item->port == 0);
        if (item->kind == RBT_OUT_CONNECT) {
            RBT_ASSERT(!talk->is_open && !talk->is_wanted);
            talk->is_wanted = true;
        } else if (item->kind == RBT_OUT_SEND) {
            check_sent(talk, item->block);
            rbt_block_unref(item->block);
        } else {
            RBT_ASSERT(talk->is_open || talk->is_wanted);
            talk->is_open = false;
            talk->is_wanted = false;
        }
    }
    rbt_membership_out_clear(&talk->out);
    const struct rbt_membership *member = &talk->member;
    RBT_ASSERT(!rbt_membership_has_plan(member) || member->plan.shard_count > 0);
    RBT_ASSERT(!rbt_membership_has_plan(member) || member->options.role == RBT_ROLE_SERVER ||
               (member->plan.process_size > 0 && member->plan.thread_count > 0));
    RBT_ASSERT(member->end != RBT_MEMBERSHIP_FAILED ||
               (member->failure != RBT_OK && member->failure_text[0] != '\0'));
    RBT_ASSERT(rbt_alloc_live_bytes() < LIVE_MAX);
}

static void step_port(struct talk *talk, struct rbt_port_event event)
{
    step(talk, (struct rbt_membership_event){.kind = RBT_MEMBERSHIP_PORT, .port = &event});
}

/* --- What happens ---------------------------------------------------------------------------- */

static void pass_time(struct talk *talk, rbt_time time)
{
    talk->now += time;
    step(talk, (struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME});
    RBT_ASSERT(rbt_membership_has_left(&talk->member) ||
               rbt_membership_deadline(&talk->member) > talk->now);
}

/* Time passes until the member wants something. */
static void wait(struct talk *talk)
{
    const rbt_time deadline = rbt_membership_deadline(&talk->member);
    if (deadline != RBT_TIME_NEVER) {
        pass_time(talk, deadline > talk->now ? deadline - talk->now : 0);
    }
}

static void connect_up(struct talk *talk)
{
    if (!talk->is_open && !talk->is_wanted) {
        wait(talk);
    }
    if (talk->is_wanted) {
        talk->is_wanted = false;
        talk->is_open = true;
        talk->has_joined = false;
        talk->has_left = false;
        step_port(talk, (struct rbt_port_event){.kind = RBT_PORT_UP, .up = {.peer = "unix:c"}});
    }
}

static void cut(struct talk *talk)
{
    static const rbt_status causes[] = {RBT_E_CLOSED, RBT_E_IO, RBT_E_INVALID, RBT_E_PROTOCOL};
    const uint64_t how = script_below(&talk->script, 8);
    const bool is_broken = how >= 6 && talk->is_open;
    if (!talk->is_open && !talk->is_wanted) {
        return;
    }
    if (!is_broken) { /* else the member has to cut it */
        talk->is_open = false;
        talk->is_wanted = false;
    }
    step_port(talk, (struct rbt_port_event){.kind = is_broken ? RBT_PORT_BROKEN : RBT_PORT_DOWN,
                                            .down = {causes[how % 4], "a fault"}});
    RBT_ASSERT(!talk->is_open);
}

static void gather(struct talk *talk)
{
    rbt_block_unref(rbt_membership_take_gathered(&talk->member));
    if (!rbt_membership_is_gathering(&talk->member)) {
        step(talk, (struct rbt_membership_event){.kind = RBT_MEMBERSHIP_GATHER,
                                                 .part = {.bytes = "a part", .size = 6}});
    }
}

static void tell_bound(struct talk *talk, bool is_awaited)
{
    if (is_awaited && rbt_membership_is_telling(&talk->member)) {
        return; /* one at a time */
    }
    step(talk, (struct rbt_membership_event){
                   .kind = RBT_MEMBERSHIP_BOUND,
                   .bound = {.table = is_awaited ? 1 : RBT_CONTROL_ALL,
                             .staleness = (int64_t)script_below(&talk->script, 5) - 1,
                             .is_awaited = is_awaited}});
}

static void leave(struct talk *talk, rbt_status status)
{
    if (talk->member.goodbye == RBT_MEMBERSHIP_NOTHING) {
        step(talk, (struct rbt_membership_event){
                       .kind = RBT_MEMBERSHIP_LEAVE,
                       .ending = {status, status == RBT_OK ? NULL : "it failed"}});
    }
}

/* What the process wants. Servers bring no parts and want no staleness. */
static void want(struct talk *talk, uint64_t what)
{
    const bool is_server = talk->member.options.role == RBT_ROLE_SERVER;
    switch (is_server && what < 3 ? 6 : what) {
    case 0:
        gather(talk);
        break;
    case 1:
        tell_bound(talk, true);
        break;
    case 2:
        tell_bound(talk, false);
        break;
    case 3:
        step(talk, (struct rbt_membership_event){.kind = RBT_MEMBERSHIP_ALIVE,
                                                 .is_alive = !script_once_in(&talk->script, 3)});
        break;
    case 4:
        if (script_once_in(&talk->script, 8)) {
            step(talk, (struct rbt_membership_event){.kind = RBT_MEMBERSHIP_GIVE_UP,
                                                     .ending = {RBT_E_DATA, "it cannot go on"}});
        }
        break;
    case 5:
        if (script_once_in(&talk->script, 8)) {
            leave(talk, script_once_in(&talk->script, 2) ? RBT_OK : RBT_E_DATA);
        }
        break;
    default:
        if (is_server) {
            step(talk, (struct rbt_membership_event){
                           .kind = RBT_MEMBERSHIP_VERSION,
                           .version = {.job = talk->job,
                                       .table = (uint32_t)script_below(&talk->script, 4),
                                       .shard = (uint32_t)script_below(&talk->script, 2),
                                       .version = script_below(&talk->script, 99)}});
        }
        break;
    }
}

/* --- The coordinator ------------------------------------------------------------------------- */

static void hear(struct talk *talk, struct script_frame *frame)
{
    connect_up(talk);
    if (!frame->is_broken && frame->head.kind == RBT_FRAME_GATHERED &&
        talk->member.options.role == RBT_ROLE_WORKER) {
        gather(talk); /* so that it is an answer */
    }
    if (!talk->is_open) {
        script_drop_frame(frame);
        return; /* it has left, or does not want to hear anything any more */
    }
    if (frame->is_broken) {
        step_port(talk, (struct rbt_port_event){.kind = RBT_PORT_BROKEN,
                                                .down = {RBT_E_PROTOCOL, "it is no message"}});
    } else {
        step_port(talk,
                  (struct rbt_port_event){.kind = RBT_PORT_FRAME,
                                          .frame = {.head = frame->head, .body = frame->body}});
    }
    script_drop_frame(frame);
}

static size_t put_plan(struct talk *talk)
{
    const bool is_server = talk->member.options.role == RBT_ROLE_SERVER;
    struct rbt_control_plan plan = {.cluster = 9,
                                    .job = is_server ? 0 : talk->job,
                                    .process_count = 1,
                                    .worker_count = 2,
                                    .thread_count = 2,
                                    .process_size = 2,
                                    .map_version = 1};
    plan.shards.count = 1 + (uint32_t)script_below(&talk->script, 2);
    plan.shards.texts = shards;
    return rbt_control_put_plan(message, &plan);
}

/* One message of a coordinator. */
static void put_message(struct talk *talk)
{
    struct script *script = &talk->script;
    const struct rbt_control_part part = {"bytes", (size_t)script_below(script, 6)};
    const struct rbt_control_version version = {.table = (uint32_t)script_below(script, 4),
                                                .version = script_below(script, 9)};
    const struct rbt_control_bound bound = {
        .job = talk->job, .table = version.table, .staleness = (int64_t)version.version - 1};
    const struct rbt_control_job job = {.worker_count = 2};
    const uint64_t number = 1 + script_below(script, 3);
    const uint64_t what = script_below(script, 24);
    if (what < 4) {
        (void)put_plan(talk);
    } else if (what < 10) {
        (void)rbt_control_put_gathered(
            message, talk->member.round + (talk->member.round == 0 || number == 3), &part, 1);
    } else if (what < 12) {
        (void)rbt_control_put_bound(message, number, &bound);
    } else if (what < 15) {
        (void)rbt_control_put_taken(message, number, bound.job);
    } else if (what == 15) {
        (void)rbt_control_put_version(message, RBT_FRAME_STABLE, talk->job, &version);
    } else if (what == 16) {
        (void)rbt_control_put_plain(message, RBT_FRAME_DROP, talk->job);
    } else if (what == 17) {
        (void)rbt_control_put_job(message, talk->job, &job);
    } else if (what == 18) {
        (void)rbt_control_put_ending(message, number == 1 ? RBT_FRAME_FAILED : RBT_FRAME_GOODBYE,
                                     number == 2 ? RBT_OK : RBT_E_DATA, "enough");
    } else {
        (void)rbt_control_put_plain(message, RBT_FRAME_BEAT, 0);
    }
}

/* --- The script ------------------------------------------------------------------------------ */

static void happen(struct talk *talk, uint64_t what)
{
    struct script_frame frame;
    if (what < 2) {
        cut(talk);
    } else if (what < 6) {
        wait(talk);
    } else if (what < 8) {
        pass_time(talk, (rbt_time)script_below(&talk->script, 256) * 20 * MS);
    } else if (what < 16) {
        want(talk, what - 8);
    } else if (what == 16) {
        talk->damages = 1 + script_below(&talk->script, 3);
    } else {
        put_message(talk);
        frame = script_make_frame(&talk->script, message, talk->damages);
        talk->damages = 0;
        hear(talk, &frame);
    }
}

static void play(const uint8_t *data, size_t size, enum rbt_role role)
{
    struct talk talk = {.script = script_begin(data, size), .now = 1000 * MS, .job = 1};
    const struct rbt_membership_options options = {.coordinator = "unix:c",
                                                   .role = role,
                                                   .index = RBT_INDEX_ANY,
                                                   .start_timeout = 20000 * MS,
                                                   .silence_max = 2000 * MS,
                                                   .cut_max = 3000 * MS,
                                                   .shards = shards,
                                                   .shard_count = role == RBT_ROLE_SERVER ? 2 : 0,
                                                   .space = role == RBT_ROLE_SERVER ? "" : "main",
                                                   .worker_count = 2,
                                                   .thread_count = 1,
                                                   .token = 4711,
                                                   .host = "near",
                                                   .pid = 12};
    rbt_membership_init(&talk.member, &options, talk.now);
    uint32_t after = 0;
    for (uint32_t i = 0; i < STEPS_MAX && after < STEPS; i++) {
        after += talk.script.left == 0;
        talk.now += MS / 10;
        if (script_has_frame(&talk.script)) {
            struct script_frame frame = script_take_frame(&talk.script);
            hear(&talk, &frame);
            continue;
        }
        const uint64_t what = script_below(&talk.script, 256);
        if (what < SCRIPT_PORT) { /* there is one connection: a choice says nothing */
            happen(&talk, what % 32);
        }
    }
    leave(&talk, RBT_OK);
    for (int i = 0; i < LEAVE_STEPS && !rbt_membership_has_left(&talk.member); i++) {
        wait(&talk);
    }
    RBT_ASSERT(rbt_membership_has_left(&talk.member));
    rbt_membership_deinit(&talk.member);
    rbt_outbox_deinit(&talk.out.port);
    rbt_block_trim();
    RBT_ASSERT(rbt_alloc_live() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    play(data, size, RBT_ROLE_WORKER);
    play(data, size, RBT_ROLE_SERVER);
    return 0;
}
