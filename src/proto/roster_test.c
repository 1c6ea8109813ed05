/* proto/roster_test.c - one test per promise of the roster. Times are literal; nothing
 * sleeps.
 *
 * The fixture holds a roster and what it wanted done last. Effects are compared as text, one letter
 * and the peer for each, in order: P plan, G gathered, B bound, T taken, V version, D drop, F
 * failed, g goodbye, L lost, S started, E ended, X end; "P0 P1". */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "proto/roster.h"

#define MS    INT64_C(1000000)
#define START 1000 * MS

struct fixture {
    struct rbt_roster_options options;
    rbt_roster *roster;
    struct rbt_roster_outbox out;
    rbt_time now;
    uint64_t token;
    char text[256];
    _Alignas(8) char frame[4096];
};

static void begin(struct fixture *f)
{
    assert_ok(rbt_roster_create(&f->options, f->now, &f->roster));
}

/* Bytes that are different every time. */
static rbt_status draw(void *bytes, size_t size)
{
    static unsigned char last;
    memset(bytes, ++last, size);
    *((unsigned char *)bytes + size - 1) ^= 0xff; /* so that two halves are not equal */
    return RBT_OK;
}

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.now = START,
                               .options = {.cluster = 99,
                                           .server_count = 1,
                                           .is_once = true,
                                           .start_timeout = 30000 * MS,
                                           .silence_max = 10000 * MS,
                                           .cut_max = 3000 * MS,
                                           .draw = draw}};
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_roster_destroy(f->roster);
    rbt_roster_outbox_deinit(&f->out);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* What was wanted since the last call, as text. */
static const char *effects(struct fixture *f)
{
    static const char letters[] = "PGBTVJDFgLSEX";
    size_t used = 0;
    f->text[0] = '\0';
    for (size_t i = 0; i < f->out.count && used < sizeof f->text; i++) {
        const struct rbt_roster_effect *e = &f->out.effects[i];
        const bool has_peer = e->kind < RBT_ROSTER_STARTED;
        used +=
            (size_t)snprintf(f->text + used, sizeof f->text - used, has_peer ? "%s%c%u" : "%s%c",
                             i == 0 ? "" : " ", letters[e->kind], e->peer);
    }
    f->out.count = 0;
    return f->text;
}

/* The last effect of a kind; they stay readable after effects(). */
static const struct rbt_roster_effect *last(const struct fixture *f,
                                            enum rbt_roster_effect_kind kind, size_t count)
{
    for (size_t i = count; i > 0; i--) {
        if (f->out.effects[i - 1].kind == kind) {
            return &f->out.effects[i - 1];
        }
    }
    fail_msg("there is no effect of kind %d", (int)kind);
    return NULL;
}

static const char *said(const struct fixture *f, enum rbt_roster_effect_kind kind)
{
    return last(f, kind, f->out.count)->text;
}

/* Joins through the bytes, as the driver does: the roster reads addresses from the message. */
static rbt_status join_as(struct fixture *f, struct rbt_control_join join, uint32_t *peer)
{
    static const char *const shards[] = {"unix:a", "unix:b"};
    join.token = join.token == 0 ? ++f->token : join.token;
    join.pid = 1234;
    (void)snprintf(join.host, sizeof join.host, "host");
    if (join.role == RBT_ROLE_SERVER) {
        join.shards = (struct rbt_control_shards){.count = 2, .texts = shards};
    } else if (join.space[0] == '\0') {
        (void)snprintf(join.space, sizeof join.space, "main");
    }
    const size_t bytes = rbt_control_put_join(f->frame, &join);
    assert_true(bytes <= sizeof f->frame);
    const struct rbt_wire_cursor body = {f->frame + RBT_FRAME_HEADER, f->frame + bytes};
    struct rbt_control_join read;
    assert_ok(rbt_control_get_join(body, &read));
    return rbt_roster_join(f->roster, &read, f->now, &f->out, peer);
}

static uint32_t join_server(struct fixture *f, int32_t index)
{
    uint32_t peer = RBT_ROSTER_NOBODY;
    assert_ok(
        join_as(f, (struct rbt_control_join){.role = RBT_ROLE_SERVER, .index = index}, &peer));
    return peer;
}

static struct rbt_control_join worker(int32_t index, uint32_t threads, uint32_t workers)
{
    return (struct rbt_control_join){
        .role = RBT_ROLE_WORKER, .index = index, .worker_count = workers, .thread_count = threads};
}

static uint32_t join_worker(struct fixture *f, int32_t index, uint32_t threads, uint32_t workers)
{
    uint32_t peer = RBT_ROSTER_NOBODY;
    assert_ok(join_as(f, worker(index, threads, workers), &peer));
    return peer;
}

/* A server at 0 and two workers at 1 and 2, at work. */
static void start_job(struct fixture *f)
{
    begin(f);
    assert_int_equal(join_server(f, -1), 0);
    assert_int_equal(join_worker(f, 0, 1, 2), 1);
    assert_int_equal(join_worker(f, 1, 1, 2), 2);
    assert_string_equal(effects(f), "P0 S J0 P1 P2");
}

static void leave(struct fixture *f, uint32_t peer, rbt_status status, const char *why)
{
    struct rbt_control_ending ending = {.status = status};
    (void)snprintf(ending.text, sizeof ending.text, "%s", why);
    rbt_roster_leave(f->roster, peer, &ending, f->now, &f->out);
}

/* Time goes on in small steps, and those who are named by their bits are heard. */
static void pass(struct fixture *f, rbt_time time, uint32_t heard)
{
    const rbt_time end = f->now + time;
    while (f->now < end) {
        const rbt_time step = end - f->now < 500 * MS ? end - f->now : 500 * MS;
        f->now += step;
        for (uint32_t i = 0; i < 32; i++) {
            if ((heard >> i & 1) != 0) {
                rbt_roster_hear(f->roster, i, f->now);
            }
        }
        rbt_roster_expire(f->roster, f->now, &f->out);
    }
}

static rbt_status gather(struct fixture *f, uint32_t peer, uint64_t round, const char *text)
{
    const struct rbt_control_part part = {text, strlen(text)};
    return rbt_roster_gather(f->roster, peer, round, &part, &f->out);
}

static void everybody_gets_a_plan_when_all_are_there(void **state)
{
    static const char *const orders[] = {"swwv", "wswv", "wwsv", "wwvs", "vwws", "vsww", "svww"};
    struct fixture *f = *state;
    f->options.server_count = 1;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        begin(f);
        uint32_t small = 0;
        for (const char *c = orders[i]; *c != '\0'; c++) {
            if (*c == 's') {
                (void)join_server(f, -1);
            } else if (*c == 'w') {
                (void)join_worker(f, -1, 2, 5);
            } else {
                small = join_worker(f, -1, 1, 5);
            }
        }
        uint32_t plans = 0;
        for (size_t e = 0; e < f->out.count; e++) {
            plans += f->out.effects[e].kind == RBT_ROSTER_PLAN;
        }
        assert_int_equal(plans, 4);
        struct rbt_control_plan plan;
        rbt_roster_plan(f->roster, small, &plan);
        assert_int_equal(plan.cluster, 99);
        assert_int_equal(plan.job, 1);
        assert_int_equal(plan.index, 2);
        assert_int_equal(plan.process_count, 3);
        assert_int_equal(plan.process_size, 2);
        assert_int_equal(plan.worker_first, 4);
        assert_int_equal(plan.thread_count, 1);
        assert_int_equal(plan.shards.count, 2);
        assert_string_equal(plan.shards.texts[1], "unix:b");
        f->out.count = 0;
        rbt_roster_destroy(f->roster);
        f->roster = NULL;
    }
}

static void shards_are_in_order_of_their_servers(void **state)
{
    struct fixture *f = *state;
    f->options.server_count = 2;
    begin(f);
    const uint32_t any = join_server(f, -1);
    assert_string_equal(effects(f), "");
    const uint32_t first = join_server(f, 0);
    assert_string_equal(effects(f), "P0 P1");
    struct rbt_control_plan plan;
    rbt_roster_plan(f->roster, any, &plan);
    assert_int_equal(plan.index, 1);
    assert_int_equal(plan.job, 0);
    assert_int_equal(plan.shards.count, 4);
    rbt_roster_plan(f->roster, first, &plan);
    assert_int_equal(plan.index, 0);
}

static void who_does_not_fit_is_refused(void **state)
{
    struct fixture *f = *state;
    uint32_t peer;
    f->options.server_count = 2;
    begin(f);
    (void)join_server(f, 1);
    struct rbt_control_join server = {.role = RBT_ROLE_SERVER, .index = 1};
    assert_fails(join_as(f, server, &peer), RBT_E_INVALID,
                 "server/1 on host (pid 1234) has already joined");
    (void)join_server(f, 0);
    assert_fails(join_as(f, server, &peer), RBT_E_INVALID, "all 2 servers have already joined");
    (void)join_worker(f, 0, 1, 2);
    assert_fails(join_as(f, worker(0, 1, 2), &peer), RBT_E_INVALID, "worker/0 on host");
    assert_fails(join_as(f, worker(-1, 1, 3), &peer), RBT_E_INVALID,
                 "the job in namespace \"main\" has 2 workers, but this process has 3");
    assert_fails(join_as(f, worker(-1, 0, 2), &peer), RBT_E_PROTOCOL, "without workers");
    (void)join_worker(f, 1, 1, 2);
    assert_fails(join_as(f, worker(-1, 1, 2), &peer), RBT_E_INVALID,
                 "namespace \"main\" already has a running job");
    struct rbt_control_join late = worker(0, 1, 2);
    late.is_return = true;
    assert_fails(join_as(f, late, &peer), RBT_E_CLOSED, "declared it lost");
}

static void the_missing_are_named(void **state)
{
    struct fixture *f = *state;
    f->options.server_count = 2;
    begin(f);
    (void)join_server(f, 0);
    (void)join_worker(f, 1, 1, 3);
    pass(f, 29500 * MS, 3);
    assert_string_equal(effects(f), "");
    pass(f, 500 * MS, 3);
    const char *sentence = "server/1 and worker/0, worker/2 did not join within 30s";
    assert_string_equal(said(f, RBT_ROSTER_FAILED), sentence);
    assert_string_equal(effects(f), "E F1 D0 F0");
    leave(f, 0, RBT_E_TIMEOUT, sentence);
    leave(f, 1, RBT_E_TIMEOUT, sentence);
    assert_string_equal(said(f, RBT_ROSTER_END), sentence);
    assert_int_equal(last(f, RBT_ROSTER_END, f->out.count)->status, RBT_E_TIMEOUT);
    assert_string_equal(effects(f), "g0 g1 X");
}

static void missing_workers_alone_are_named_too(void **state)
{
    struct fixture *f = *state;
    begin(f);
    (void)join_server(f, 0);
    assert_string_equal(effects(f), "P0");
    pass(f, 30000 * MS, 1);
    assert_string_equal(said(f, RBT_ROSTER_FAILED), "all workers did not join within 30s");
}

static void a_lost_worker_ends_its_job(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    rbt_roster_cut(f->roster, 2, f->now);
    pass(f, 2500 * MS, 3);
    assert_string_equal(effects(f), "");
    pass(f, 500 * MS, 3);
    const char *sentence = "lost worker/1 on host (pid 1234): no connection for 3s";
    assert_string_equal(said(f, RBT_ROSTER_FAILED), sentence);
    assert_int_equal(last(f, RBT_ROSTER_FAILED, f->out.count)->status, RBT_E_CLOSED);
    assert_string_equal(effects(f), "L2 E F1 D0");
    leave(f, 1, RBT_E_CLOSED, sentence);
    assert_int_equal(last(f, RBT_ROSTER_FAILED, f->out.count)->status, RBT_OK); /* the server's */
    assert_string_equal(effects(f), "g1 F0");
    leave(f, 0, RBT_OK, "");
    assert_string_equal(said(f, RBT_ROSTER_END), sentence);
    assert_string_equal(effects(f), "g0 X");
}

static void a_silent_worker_ends_its_job(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    pass(f, 9500 * MS, 3);
    assert_string_equal(effects(f), "");
    pass(f, 500 * MS, 3);
    assert_string_equal(said(f, RBT_ROSTER_FAILED),
                        "lost worker/1 on host (pid 1234): no sign of life for 10s");
    assert_string_equal(effects(f), "L2 E F1 D0");
    pass(f, 1500 * MS, 1); /* the other one does not leave */
    assert_string_equal(effects(f), "");
    pass(f, 500 * MS, 1);
    assert_string_equal(effects(f), "F0");
    pass(f, 2000 * MS, 1); /* nor does the server */
    assert_string_equal(effects(f), "X");
}

static void a_lost_server_ends_everything(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    rbt_roster_cut(f->roster, 0, f->now);
    pass(f, 3000 * MS, 6);
    assert_string_equal(said(f, RBT_ROSTER_FAILED),
                        "lost server/0 on host (pid 1234): no connection for 3s");
    assert_string_equal(effects(f), "L0 E F1 F2");
    leave(f, 1, RBT_E_CLOSED, "");
    leave(f, 2, RBT_E_CLOSED, "");
    assert_string_equal(effects(f), "g1 g2 X");
}

static void a_worker_that_fails_says_why(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    leave(f, 1, RBT_E_DATA, "no such file");
    assert_string_equal(said(f, RBT_ROSTER_FAILED), "worker/0 on host failed: no such file");
    assert_string_equal(effects(f), "g1 E F2 D0");
}

static void who_comes_back_is_told_what_it_missed(void **state)
{
    struct fixture *f = *state;
    uint32_t peer;
    start_job(f);
    const struct rbt_control_bound bound = {.job = 1, .staleness = 5};
    assert_ok(rbt_roster_bound(f->roster, 1, 1, &bound, &f->out));
    assert_ok(rbt_roster_bound(f->roster, 1, 1, &bound, &f->out)); /* said again: once is enough */
    assert_string_equal(effects(f), "B0 B1 B2");
    rbt_roster_cut(f->roster, 2, f->now);
    pass(f, 2000 * MS, 3);
    struct rbt_control_join again = worker(1, 1, 2);
    again.token = 3;
    again.is_return = true;
    assert_ok(join_as(f, again, &peer));
    assert_int_equal(peer, 2);
    assert_string_equal(effects(f), "P2 B2");
    pass(f, 5000 * MS, 7); /* and is not lost */
    assert_string_equal(effects(f), "");
    leave(f, 1, RBT_E_DATA, "bad");
    assert_string_equal(effects(f), "g1 E F2 D0");
    assert_ok(join_as(f, again, &peer)); /* told it, but perhaps has not heard it */
    assert_string_equal(effects(f), "P2 F2");
    struct rbt_control_join server = {.role = RBT_ROLE_SERVER, .index = -1, .token = 1};
    assert_ok(join_as(f, server, &peer));
    assert_string_equal(effects(f), "P0 D0");
}

static void a_coordinator_that_slept_blames_nobody(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    rbt_roster_cut(f->roster, 2, f->now);
    f->now += 60000 * MS;
    rbt_roster_expire(f->roster, f->now, &f->out);
    assert_string_equal(effects(f), "");
    pass(f, 2500 * MS, 3);
    assert_string_equal(effects(f), "");
    pass(f, 500 * MS, 3);
    assert_string_equal(effects(f), "L2 E F1 D0");
}

static void parts_are_gathered_in_order_of_process(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    struct rbt_control_part parts[2];
    assert_ok(gather(f, 2, 1, "second"));
    assert_ok(gather(f, 2, 1, "second")); /* the line was cut, it says it again */
    assert_string_equal(effects(f), "");
    assert_ok(gather(f, 1, 1, "first"));
    assert_string_equal(effects(f), "G1 G2");
    assert_int_equal(rbt_roster_parts(f->roster, 1, parts), 2);
    assert_memory_equal(parts[0].bytes, "first", 5);
    assert_memory_equal(parts[1].bytes, "second", 6);

    assert_ok(gather(f, 1, 2, "later")); /* one is ahead, and the other missed the answer */
    assert_string_equal(effects(f), "");
    assert_ok(gather(f, 2, 1, "second"));
    assert_string_equal(effects(f), "G2");
    assert_int_equal(rbt_roster_parts(f->roster, 1, parts), 2);
    assert_memory_equal(parts[0].bytes, "first", 5);
    assert_ok(gather(f, 2, 2, ""));
    assert_string_equal(effects(f), "G1 G2");
    assert_int_equal(rbt_roster_parts(f->roster, 1, parts), 2);
    assert_memory_equal(parts[0].bytes, "later", 5);
    assert_int_equal(parts[1].size, 0);
    assert_fails(gather(f, 1, 4, ""), RBT_E_PROTOCOL, "round 4 of a gather instead of round 3");
    assert_fails(gather(f, 0, 1, ""), RBT_E_PROTOCOL, "only a worker process");
}

static void what_was_gathered_outlives_who_brought_it(void **state)
{
    struct fixture *f = *state;
    struct rbt_control_part parts[2];
    start_job(f);
    assert_ok(gather(f, 1, 1, "first"));
    assert_ok(gather(f, 2, 1, "second"));
    leave(f, 1, RBT_OK, "");
    assert_string_equal(effects(f), "G1 G2 g1");
    assert_ok(gather(f, 2, 1, "second"));
    assert_string_equal(effects(f), "G2");
    assert_int_equal(rbt_roster_parts(f->roster, 1, parts), 2);
    assert_memory_equal(parts[0].bytes, "first", 5);
}

static void nobody_waits_for_who_has_left(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    assert_ok(gather(f, 1, 1, "x"));
    leave(f, 2, RBT_OK, "");
    assert_string_equal(said(f, RBT_ROSTER_FAILED),
                        "worker/1 on host left while others waited for it");
    assert_string_equal(effects(f), "g2 E F1 D0");
}

static void who_gathers_after_others_have_left_is_told(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    leave(f, 2, RBT_OK, "");
    assert_string_equal(effects(f), "g2");
    assert_ok(gather(f, 1, 1, "x"));
    assert_string_equal(effects(f), "E F1 D0");
    assert_ok(gather(f, 1, 1, "x")); /* it has not heard yet */
    assert_string_equal(effects(f), "");
}

static void once_ends_with_the_first_job(void **state)
{
    struct fixture *f = *state;
    uint32_t peer;
    start_job(f);
    leave(f, 1, RBT_OK, "");
    assert_string_equal(effects(f), "g1");
    leave(f, 2, RBT_OK, "");
    assert_int_equal(last(f, RBT_ROSTER_FAILED, f->out.count)->status, RBT_OK);
    assert_string_equal(effects(f), "g2 E D0 F0");
    assert_fails(join_as(f, worker(-1, 1, 1), &peer), RBT_E_CLOSED, "has ended");
    leave(f, 0, RBT_OK, "");
    assert_int_equal(last(f, RBT_ROSTER_END, f->out.count)->status, RBT_OK);
    assert_string_equal(effects(f), "g0 X");
}

static void jobs_follow_each_other_and_run_side_by_side(void **state)
{
    struct fixture *f = *state;
    f->options.is_once = false;
    start_job(f);
    struct rbt_control_join other = worker(-1, 1, 1);
    (void)snprintf(other.space, sizeof other.space, "other");
    uint32_t peer;
    assert_ok(join_as(f, other, &peer));
    assert_int_equal(peer, 3);
    assert_string_equal(effects(f), "S J0 P3");
    struct rbt_control_plan plan;
    rbt_roster_plan(f->roster, 3, &plan);
    assert_int_equal(plan.job, 2);
    leave(f, 1, RBT_E_DATA, "bad"); /* ends the first, and not the second */
    assert_string_equal(effects(f), "g1 E F2 D0");
    const uint32_t next = join_worker(f, -1, 1, 1); /* the namespace is free at once */
    rbt_roster_plan(f->roster, next, &plan);
    assert_int_equal(plan.job, 3);
    assert_int_equal(next, 1);
    assert_string_equal(effects(f), "S J0 P1");
    leave(f, 3, RBT_OK, "");
    assert_string_equal(effects(f), "g3 E D0");
}

static void a_late_job_fails_alone(void **state)
{
    struct fixture *f = *state;
    f->options.is_once = false;
    begin(f);
    (void)join_server(f, 0);
    pass(f, 60000 * MS, 1); /* nobody has to come */
    assert_string_equal(effects(f), "P0");
    (void)join_worker(f, 1, 1, 2);
    pass(f, 29500 * MS, 3);
    assert_string_equal(effects(f), "");
    pass(f, 500 * MS, 3);
    assert_string_equal(said(f, RBT_ROSTER_FAILED), "worker/0 did not join within 30s");
    assert_string_equal(effects(f), "E F1 D0");
}

static struct rbt_control_join reader(void)
{
    struct rbt_control_join join = worker(-1, 3, 3);
    join.role = RBT_ROLE_READER;
    return join;
}

static void readers_join_a_running_job(void **state)
{
    struct fixture *f = *state;
    uint32_t early;
    uint32_t late;
    begin(f);
    assert_ok(join_as(f, reader(), &early));
    (void)join_server(f, 0);
    (void)join_worker(f, 0, 1, 1);
    assert_string_equal(effects(f), "P1 S J1 P2 P0");
    assert_ok(join_as(f, reader(), &late));
    assert_string_equal(effects(f), "P3");
    struct rbt_control_plan plan;
    rbt_roster_plan(f->roster, late, &plan);
    assert_int_equal(plan.job, 1);
    assert_int_equal(plan.process_count, 1);
    assert_int_equal(plan.worker_first, 0);
    assert_int_equal(plan.thread_count, 3);
    assert_int_equal(plan.worker_count, 3);
    rbt_roster_cut(f->roster, late, f->now); /* disturbs nobody */
    pass(f, 3000 * MS, 15);
    assert_string_equal(effects(f), "L3");
    leave(f, 2, RBT_OK, "");
    assert_string_equal(effects(f), "g2 E F0 D1"); /* the other one has nothing to read any more */
}

static void a_reader_does_not_wait_for_ever(void **state)
{
    struct fixture *f = *state;
    uint32_t peer;
    f->options.is_once = false;
    begin(f);
    (void)join_server(f, 0);
    assert_ok(join_as(f, reader(), &peer));
    pass(f, 30000 * MS, 3);
    assert_string_equal(said(f, RBT_ROSTER_FAILED),
                        "no job started in namespace \"main\" within 30s");
    assert_string_equal(effects(f), "P0 F1");
}

static void stopping_tells_everybody(void **state)
{
    struct fixture *f = *state;
    f->options.is_once = false;
    start_job(f);
    rbt_roster_stop(f->roster, "told to", f->now, &f->out);
    rbt_roster_stop(f->roster, "told to", f->now, &f->out);
    assert_string_equal(effects(f), "E F1 F2 D0 F0");
    pass(f, 2000 * MS, 7);
    assert_int_equal(last(f, RBT_ROSTER_END, f->out.count)->status, RBT_OK);
}

static void every_failed_allocation_is_survived(void **state)
{
    struct fixture *f = *state;
    for (unsigned nth = 1;; nth++) {
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_roster_create(&f->options, f->now, &f->roster);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    uint32_t peer = RBT_ROSTER_NOBODY;
    for (unsigned nth = 1; peer == RBT_ROSTER_NOBODY; nth++) {
        const struct rbt_control_join join = {.role = RBT_ROLE_SERVER, .index = 0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = join_as(f, join, &peer);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
    }
    assert_true(f->out.has_failed || f->out.count == 1);
}

/* One random peer of a run; it does whatever a process can do. */
struct random_peer {
    bool is_there;
    bool is_connected;
    bool is_planned;
    bool is_told;
    uint64_t round; /* that it has brought a part of */
    struct rbt_control_join join;
};

enum { RANDOM_PEERS = 12 };

/* What the driver would do: who is told or lost is marked. Returns whether it is the end. */
static bool take_effects(struct fixture *f, struct random_peer *peers)
{
    bool is_end = false;
    for (size_t i = 0; i < f->out.count; i++) {
        const struct rbt_roster_effect *e = &f->out.effects[i];
        assert_false(is_end); /* nothing comes after it */
        is_end = e->kind == RBT_ROSTER_END;
        assert_true(e->text == NULL || strlen(e->text) < RBT_WIRE_TEXT_MAX); /* it is readable */
        if (e->kind >= RBT_ROSTER_STARTED) {
            continue;
        }
        assert_true(e->peer < RANDOM_PEERS);
        struct random_peer *peer = &peers[e->peer];
        assert_true(peer->is_there);
        assert_true(e->kind == RBT_ROSTER_LOST || e->kind == RBT_ROSTER_GOODBYE ||
                    e->kind == RBT_ROSTER_FAILED || e->kind == RBT_ROSTER_DROP ||
                    e->kind == RBT_ROSTER_PLAN || peer->is_planned);
        peer->is_planned = peer->is_planned || e->kind == RBT_ROSTER_PLAN;
        peer->is_told = peer->is_told || e->kind == RBT_ROSTER_FAILED;
        peer->is_there = e->kind != RBT_ROSTER_LOST && e->kind != RBT_ROSTER_GOODBYE;
        if (e->kind == RBT_ROSTER_PLAN) {
            struct rbt_control_plan plan;
            rbt_roster_plan(f->roster, e->peer, &plan);
            assert_true(rbt_control_put_plan(NULL, &plan) > 0); /* it asserts what a plan is */
        }
        if (e->kind == RBT_ROSTER_GATHERED) {
            struct rbt_control_part parts[RANDOM_PEERS];
            assert_true(rbt_roster_parts(f->roster, e->job, parts) > 0);
        }
    }
    f->out.count = 0;
    return is_end;
}

static struct rbt_control_join draw_join(struct rbt_rng *rng)
{
    const uint32_t workers = 1 + (uint32_t)rbt_rng_below(rng, 3);
    struct rbt_control_join join = worker((int32_t)rbt_rng_below(rng, 4) - 1,
                                          1 + (uint32_t)rbt_rng_below(rng, workers), workers);
    join.role = (uint32_t)rbt_rng_below(rng, RBT_CONTROL_ROLES);
    if (join.role == RBT_ROLE_SERVER) {
        join.worker_count = 0;
        join.thread_count = 0;
    }
    (void)snprintf(join.space, sizeof join.space, "%c", (char)('a' + rbt_rng_below(rng, 2)));
    return join;
}

/* One thing happens to a peer that is there. */
static void disturb(struct fixture *f, struct rbt_rng *rng, struct random_peer *peers, uint32_t at)
{
    struct random_peer *peer = &peers[at];
    uint32_t place;
    switch (rbt_rng_below(rng, 8)) {
    case 0:
        rbt_roster_cut(f->roster, at, f->now);
        peer->is_connected = false;
        break;
    case 1:
        leave(f, at, rbt_rng_below(rng, 2) == 0 ? RBT_OK : RBT_E_DATA, "why");
        break;
    case 2:
    case 3:
        if (!peer->is_connected) {
            struct rbt_control_join join = peer->join;
            join.is_return = true;
            assert_ok(join_as(f, join, &place));
            assert_int_equal(place, at);
            peer->is_connected = true;
        }
        break;
    case 4:
    case 5: { /* it may be refused; then nothing has happened */
        const rbt_status st = gather(f, at, peer->round + rbt_rng_below(rng, 2), "part");
        assert_true(st == RBT_OK || st == RBT_E_PROTOCOL);
        peer->round += rbt_rng_below(rng, 2);
        break;
    }
    case 6: {
        const struct rbt_control_bound bound = {.job = 1, .staleness = 3};
        const rbt_status st =
            rbt_roster_bound(f->roster, at, 1 + rbt_rng_below(rng, 9), &bound, &f->out);
        assert_true(st == RBT_OK || st == RBT_E_PROTOCOL);
        break;
    }
    default:
        break;
    }
}

/* Whatever happens, nobody is told what is not meant for it, and a run that is stopped ends. */
static void run_at_random(struct fixture *f, uint64_t seed)
{
    struct rbt_rng rng;
    struct random_peer peers[RANDOM_PEERS] = {0};
    bool is_end = false;
    rbt_rng_init(&rng, seed, 0, 0);
    f->options.is_once = rbt_rng_below(&rng, 2) == 0;
    f->options.server_count = 1 + (uint32_t)rbt_rng_below(&rng, 2);
    begin(f);
    for (int step = 0; step < 300 && !is_end; step++) {
        const uint32_t at = (uint32_t)rbt_rng_below(&rng, RANDOM_PEERS);
        uint32_t place = RBT_ROSTER_NOBODY;
        if (peers[at].is_there) {
            disturb(f, &rng, peers, at);
        } else {
            struct rbt_control_join join = draw_join(&rng);
            join.token = ++f->token;
            if (join_as(f, join, &place) == RBT_OK && place < RANDOM_PEERS) {
                peers[place] =
                    (struct random_peer){.is_there = true, .is_connected = true, .join = join};
            }
        }
        assert_true(place == RBT_ROSTER_NOBODY || place < RANDOM_PEERS);
        is_end = take_effects(f, peers);
        if (!is_end) {
            f->now += (rbt_time)rbt_rng_below(&rng, 3000) * MS;
            rbt_roster_hear(f->roster, (uint32_t)rbt_rng_below(&rng, RANDOM_PEERS), f->now);
            rbt_roster_expire(f->roster, f->now, &f->out);
            is_end = take_effects(f, peers);
        }
    }
    if (!is_end) {
        rbt_roster_stop(f->roster, "enough", f->now, &f->out);
        is_end = take_effects(f, peers);
        f->now += 2000 * MS;
        rbt_roster_expire(f->roster, f->now, &f->out);
        is_end = take_effects(f, peers) || is_end;
    }
    if (!is_end) { /* it was ending before, and has had half of its time */
        f->now += 2000 * MS;
        rbt_roster_expire(f->roster, f->now, &f->out);
        is_end = take_effects(f, peers);
    }
    assert_true(is_end);
    rbt_roster_destroy(f->roster);
    f->roster = NULL;
}

static void random_runs_keep_every_promise(void **state)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        run_at_random(*state, seed);
    }
}

#define ROSTER_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROSTER_TEST(everybody_gets_a_plan_when_all_are_there),
        ROSTER_TEST(shards_are_in_order_of_their_servers),
        ROSTER_TEST(who_does_not_fit_is_refused),
        ROSTER_TEST(the_missing_are_named),
        ROSTER_TEST(missing_workers_alone_are_named_too),
        ROSTER_TEST(a_lost_worker_ends_its_job),
        ROSTER_TEST(a_silent_worker_ends_its_job),
        ROSTER_TEST(a_lost_server_ends_everything),
        ROSTER_TEST(a_worker_that_fails_says_why),
        ROSTER_TEST(who_comes_back_is_told_what_it_missed),
        ROSTER_TEST(a_coordinator_that_slept_blames_nobody),
        ROSTER_TEST(parts_are_gathered_in_order_of_process),
        ROSTER_TEST(what_was_gathered_outlives_who_brought_it),
        ROSTER_TEST(nobody_waits_for_who_has_left),
        ROSTER_TEST(who_gathers_after_others_have_left_is_told),
        ROSTER_TEST(once_ends_with_the_first_job),
        ROSTER_TEST(jobs_follow_each_other_and_run_side_by_side),
        ROSTER_TEST(a_late_job_fails_alone),
        ROSTER_TEST(readers_join_a_running_job),
        ROSTER_TEST(a_reader_does_not_wait_for_ever),
        ROSTER_TEST(stopping_tells_everybody),
        ROSTER_TEST(random_runs_keep_every_promise),
        ROSTER_TEST(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
