/* proto/membership_fixture.h - a member without a socket, for tests: the test is its carrier and
 * its coordinator, and time is a number. */
#ifndef RUBATO_PROTO_MEMBERSHIP_FIXTURE_H
#define RUBATO_PROTO_MEMBERSHIP_FIXTURE_H

#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "proto/membership.h"

#define MS    INT64_C(1000000)
#define START (1000 * MS) /* when the machine is made */

enum { START_MS = 20000, SILENCE_MS = 2000, CUT_MS = 3000, ROOM = 1 << 12 };

struct fixture {
    struct rbt_membership m;
    struct rbt_membership_out out;
    rbt_time now;
    char said[512]; /* what the last step wanted done: "connect", "cut", kinds of messages */
    bool has_woken; /* those who wait, in the last step */
    struct rbt_membership_news news; /* of the last step */
    uint64_t last_id;                /* of the last message that was sent */
    _Alignas(8) char last_body[1024];
    size_t last_size;
    _Alignas(8) char message[ROOM];
};

static const char *const fixture_shards[] = {"unix:a", "unix:b"};

static inline const char *kind_name(uint16_t kind)
{
    static const char *const names[] = {"join",   "plan", "beat",   "gather",  "gathered",
                                        "bound",  "drop", "failed", "goodbye", "version",
                                        "stable", "job",  "taken"};
    assert_in_range(kind, RBT_FRAME_JOIN, RBT_FRAME_BOUND_TAKEN);
    return names[kind - RBT_FRAME_JOIN];
}

/* Does what the machine wants done: writes it down. */
static inline void take_out(struct fixture *f)
{
    size_t used = 0;
    f->said[0] = '\0';
    for (uint32_t i = 0; i < f->out.port.count; i++) {
        const struct rbt_out *item = &f->out.port.items[i];
        const char *name = item->kind == RBT_OUT_CONNECT ? "connect" : "cut";
        assert_int_equal(item->port, 0);
        if (item->kind == RBT_OUT_SEND) {
            struct rbt_frame head;
            assert_ok(rbt_frame_get(item->block->data, RBT_FRAME_BODY_MAX, &head));
            assert_int_equal(item->block->bytes, RBT_FRAME_HEADER + head.length);
            name = kind_name(head.kind);
            f->last_id = head.id;
            assert_in_range(head.length, 0, sizeof f->last_body);
            f->last_size = head.length;
            memcpy(f->last_body, item->block->data + RBT_FRAME_HEADER, head.length);
            rbt_block_unref(item->block);
        }
        used +=
            (size_t)snprintf(f->said + used, sizeof f->said - used, i == 0 ? "%s" : " %s", name);
    }
    f->has_woken = f->out.must_wake;
    f->news = f->out.news;
    rbt_membership_out_clear(&f->out);
}

static inline void step(struct fixture *f, const struct rbt_membership_event *event)
{
    rbt_membership_step(&f->m, event, f->now, &f->out);
    take_out(f);
}

static inline void add_said(char *all, size_t max, const char *said)
{
    const size_t used = strlen(all);
    const char *gap = used > 0 && said[0] != '\0' ? " " : "";
    assert_in_range(snprintf(all + used, max - used, "%s%s", gap, said), 0, max - used - 1);
}

/* Time passes, in steps that are none longer than the machine wants; the last one is at the end. */
static inline void pass(struct fixture *f, int64_t ms)
{
    const rbt_time end = f->now + ms * MS;
    char all[512] = "";
    bool has_woken = false;
    while (f->now < end) {
        const rbt_time deadline = rbt_membership_deadline(&f->m);
        assert_true(deadline > f->now); /* else time would stand still */
        f->now = deadline < end ? deadline : end;
        step(f, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME});
        add_said(all, sizeof all, f->said);
        has_woken = has_woken || f->has_woken;
    }
    (void)snprintf(f->said, sizeof f->said, "%s", all);
    f->has_woken = has_woken;
}

/* It is noticed that so much time has passed, all at once. */
static inline void sleep_for(struct fixture *f, int64_t ms)
{
    f->now += ms * MS;
    step(f, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME});
}

static inline void step_port(struct fixture *f, const struct rbt_port_event *event)
{
    step(f, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_PORT, .port = event});
}

static inline void step_up(struct fixture *f)
{
    step_port(f, &(struct rbt_port_event){.kind = RBT_PORT_UP, .up = {.peer = "unix:c"}});
}

static inline void step_down(struct fixture *f, rbt_status status, const char *why)
{
    step_port(
        f, &(struct rbt_port_event){.kind = RBT_PORT_DOWN, .down = {.status = status, .why = why}});
}

/* The coordinator says what is in `message`. */
static inline void hear(struct fixture *f)
{
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME};
    assert_ok(rbt_frame_get(f->message, RBT_FRAME_BODY_MAX, &event.frame.head));
    event.frame.body = f->message + RBT_FRAME_HEADER;
    step_port(f, &event);
}

static inline void hear_beat(struct fixture *f)
{
    (void)rbt_control_put_plain(f->message, RBT_FRAME_BEAT, 0);
    hear(f);
}

static inline void hear_plan(struct fixture *f)
{
    const struct rbt_control_plan plan = {.cluster = 9,
                                          .job = 1,
                                          .index = 1,
                                          .process_count = 2,
                                          .worker_count = 2,
                                          .worker_first = 1,
                                          .thread_count = 1,
                                          .process_size = 1,
                                          .map_version = 1,
                                          .shards = {.count = 2, .texts = fixture_shards}};
    (void)rbt_control_put_plan(f->message, &plan);
    hear(f);
}

static inline void hear_gathered(struct fixture *f, uint64_t round)
{
    const struct rbt_control_part parts[] = {{"a", 1}, {"bc", 2}};
    (void)rbt_control_put_gathered(f->message, round, parts, 2);
    hear(f);
}

static inline void hear_ending(struct fixture *f, enum rbt_frame_kind kind, rbt_status status,
                               const char *text)
{
    (void)rbt_control_put_ending(f->message, kind, status, text);
    hear(f);
}

static inline void gather(struct fixture *f, const char *text)
{
    step(f, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_GATHER,
                                           .part = {.bytes = text, .size = strlen(text)}});
}

static inline void tell_bound(struct fixture *f, int64_t staleness)
{
    step(f, &(struct rbt_membership_event){
                .kind = RBT_MEMBERSHIP_BOUND,
                .bound = {.table = 4, .staleness = staleness, .is_awaited = true}});
}

static inline void advise_bound(struct fixture *f, int64_t staleness)
{
    step(f, &(struct rbt_membership_event){
                .kind = RBT_MEMBERSHIP_BOUND,
                .bound = {.table = RBT_CONTROL_ALL, .staleness = staleness}});
}

static inline void hear_bound(struct fixture *f, uint64_t number, int64_t staleness)
{
    const struct rbt_control_bound bound = {.job = 1, .table = 4, .staleness = staleness};
    (void)rbt_control_put_bound(f->message, number, &bound);
    hear(f);
}

static inline void hear_taken(struct fixture *f, uint64_t number)
{
    (void)rbt_control_put_taken(f->message, number, 1);
    hear(f);
}

static inline void tell_version(struct fixture *f, uint32_t shard, uint64_t version)
{
    step(f, &(struct rbt_membership_event){
                .kind = RBT_MEMBERSHIP_VERSION,
                .version = {.job = 1, .table = 2, .shard = shard, .version = version}});
}

static inline void leave(struct fixture *f, rbt_status status, const char *why)
{
    step(f, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_LEAVE,
                                           .ending = {.status = status, .why = why}});
}

static inline void begin(struct fixture *f, enum rbt_role role)
{
    const struct rbt_membership_options options = {.coordinator = "unix:c",
                                                   .role = role,
                                                   .index = RBT_INDEX_ANY,
                                                   .start_timeout = START_MS * MS,
                                                   .silence_max = SILENCE_MS * MS,
                                                   .cut_max = CUT_MS * MS,
                                                   .shards = fixture_shards,
                                                   .shard_count = role == RBT_ROLE_SERVER ? 2 : 0,
                                                   .space = role == RBT_ROLE_SERVER ? "" : "main",
                                                   .worker_count = 2,
                                                   .thread_count = 1,
                                                   .token = 4711,
                                                   .host = "near",
                                                   .pid = 12};
    f->now = START;
    rbt_membership_init(&f->m, &options, f->now);
}

/* A member that has said who it is. */
static inline void meet(struct fixture *f, enum rbt_role role)
{
    begin(f, role);
    assert_int_equal(rbt_membership_deadline(&f->m), START); /* it wants to connect */
    sleep_for(f, 0);
    assert_string_equal(f->said, "connect");
    step_up(f);
    assert_string_equal(f->said, "join");
}

/* A member that has its plan. */
static inline void join(struct fixture *f, enum rbt_role role)
{
    meet(f, role);
    hear_beat(f);
    assert_false(f->has_woken);
    hear_plan(f);
    assert_true(f->has_woken);
    assert_true(rbt_membership_has_plan(&f->m));
}

/* The connection is cut, and another one is made. */
static inline void reconnect(struct fixture *f)
{
    step_down(f, RBT_E_CLOSED, "the peer closed the connection");
    sleep_for(f, 0); /* at once, since it had worked */
    assert_string_equal(f->said, "connect");
    step_up(f);
}

static inline void assert_failure(const struct fixture *f, rbt_status status, const char *text)
{
    assert_true(rbt_membership_has_ended(&f->m));
    assert_int_equal(f->m.failure, status);
    if (strstr(f->m.failure_text, text) == NULL) {
        assert_string_equal(f->m.failure_text, text); /* shows both */
    }
}

static inline int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_membership_deinit(&f->m);
    rbt_outbox_deinit(&f->out.port);
    rbt_block_trim();
    test_free(f);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
