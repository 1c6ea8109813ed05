/* proto/roster_ports_test.c - the coordinator without a socket: the test is its carrier and all of
 * its processes, and time is a number. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "proto/roster_ports.h"

#define MS    INT64_C(1000000)
#define START (1000 * MS)

enum {
    START_MS = 30001,
    SILENCE_MS = 10000,
    CUT_MS = 3000,
    LATE_MS = 7,
    ROOM = 1 << 12,
    LOG_ROOM = 1 << 15
};

struct fixture {
    rbt_roster_ports *ports;
    struct rbt_outbox out;
    rbt_time now;
    char said[2048]; /* since the last look: "0:beat 1:cut", in order */
    char log[LOG_ROOM];
    uint32_t worker; /* the last port whose messages may be long, or UINT32_MAX */
    bool has_ended;
    rbt_status status;
    char text[256];
    char last_text[256]; /* of the last FAILED */
    char lost[32];       /* who was, last */
    _Alignas(8) char message[ROOM];
};

static void add_text(char *to, size_t max, const char *text)
{
    const size_t used = strlen(to);
    assert_true(used + strlen(text) + 2 < max);
    (void)snprintf(to + used, max - used, "%s%s", used > 0 ? " " : "", text);
}

static void on_note(void *context, enum rbt_log_level level, const char *text)
{
    struct fixture *f = context;
    (void)level;
    add_text(f->log, sizeof f->log, text);
}

static void on_lost(void *context, const char *node)
{
    struct fixture *f = context;
    (void)snprintf(f->lost, sizeof f->lost, "%s", node);
}

static void on_worker(void *context, uint32_t port)
{
    struct fixture *f = context;
    f->worker = port;
}

static void on_end(void *context, rbt_status status, const char *text)
{
    struct fixture *f = context;
    assert_false(f->has_ended);
    f->has_ended = true;
    f->status = status;
    (void)snprintf(f->text, sizeof f->text, "%s", text);
}

static rbt_status draw(void *bytes, size_t size)
{
    memset(bytes, 7, size);
    *(char *)bytes = 8;
    return RBT_OK;
}

static const char *kind_name(uint16_t kind)
{
    static const char *const names[] = {"join",   "plan", "beat",   "gather",  "gathered",
                                        "bound",  "drop", "failed", "goodbye", "version",
                                        "stable", "job",  "taken"};
    assert_in_range(kind, RBT_FRAME_JOIN, RBT_FRAME_BOUND_TAKEN);
    return names[kind - RBT_FRAME_JOIN];
}

static void read_message(struct fixture *f, const struct rbt_block *block, const char **name)
{
    struct rbt_frame head;
    assert_ok(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &head));
    assert_int_equal(block->bytes, RBT_FRAME_HEADER + head.length);
    *name = kind_name(head.kind);
    if (head.kind == RBT_FRAME_FAILED) {
        struct rbt_control_ending ending;
        assert_ok(rbt_control_get_ending(
            (struct rbt_wire_cursor){block->data + RBT_FRAME_HEADER, block->data + block->bytes},
            &ending));
        (void)snprintf(f->last_text, sizeof f->last_text, "%.255s", ending.text);
    }
}

static void step(struct fixture *f, const struct rbt_roster_ports_event *event)
{
    rbt_roster_ports_step(f->ports, event, f->now, &f->out);
    for (uint32_t i = 0; i < f->out.count; i++) {
        const struct rbt_out *item = &f->out.items[i];
        const char *name = "cut";
        char text[64];
        assert_int_not_equal(item->kind, RBT_OUT_CONNECT);
        if (item->kind == RBT_OUT_SEND) {
            read_message(f, item->block, &name);
            rbt_block_unref(item->block);
        }
        (void)snprintf(text, sizeof text, "%u:%s", item->port, name);
        add_text(f->said, sizeof f->said, text);
    }
    rbt_outbox_clear(&f->out);
}

static void assert_said(struct fixture *f, const char *text)
{
    assert_string_equal(f->said, text);
    f->said[0] = '\0';
}

static void step_port(struct fixture *f, const struct rbt_port_event *event)
{
    step(f, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_PORT, .port = event});
}

static void up(struct fixture *f, uint32_t port)
{
    step_port(f, &(struct rbt_port_event){
                     .kind = RBT_PORT_UP, .port = port, .up = {.peer = "10.0.0.7:4711"}});
}

static void down(struct fixture *f, uint32_t port)
{
    step_port(f, &(struct rbt_port_event){.kind = RBT_PORT_DOWN,
                                          .port = port,
                                          .down = {.status = RBT_E_CLOSED, .why = "it is gone"}});
}

static void broken(struct fixture *f, uint32_t port, rbt_status status)
{
    step_port(f, &(struct rbt_port_event){.kind = RBT_PORT_BROKEN,
                                          .port = port,
                                          .down = {.status = status, .why = "it is noise"}});
}

/* What is in `message` comes on the port. */
static void hear(struct fixture *f, uint32_t port)
{
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME, .port = port};
    assert_ok(rbt_frame_get(f->message, RBT_FRAME_BODY_MAX, &event.frame.head));
    event.frame.body = f->message + RBT_FRAME_HEADER;
    step_port(f, &event);
}

static void hear_beat(struct fixture *f, uint32_t port)
{
    (void)rbt_control_put_plain(f->message, RBT_FRAME_BEAT, 0);
    hear(f, port);
}

static void hear_goodbye(struct fixture *f, uint32_t port)
{
    (void)rbt_control_put_ending(f->message, RBT_FRAME_GOODBYE, RBT_OK, "");
    hear(f, port);
}

/* A process joins on a new connection; its token is its number. */
static void join(struct fixture *f, uint32_t port, enum rbt_role role, uint64_t token)
{
    static const char *const shards[] = {"unix:a"};
    struct rbt_control_join join = {
        .token = token, .role = role, .index = RBT_INDEX_ANY, .pid = 12, .host = "far"};
    if (role == RBT_ROLE_SERVER) {
        join.shards = (struct rbt_control_shards){.count = 1, .texts = shards};
    } else {
        join.worker_count = 2;
        join.thread_count = 1;
        (void)snprintf(join.space, sizeof join.space, "main");
    }
    (void)rbt_control_put_join(f->message, &join);
    up(f, port);
    hear(f, port);
}

static const struct rbt_control_bound a_bound = {.job = 1, .table = 0, .staleness = 3};

/* A server on port 0, worker processes on ports 1 and 2. */
static void start_job(struct fixture *f)
{
    join(f, 0, RBT_ROLE_SERVER, 1);
    assert_said(f, "0:beat 0:plan");
    join(f, 1, RBT_ROLE_WORKER, 2);
    assert_int_equal(f->worker, 1);
    assert_said(f, "1:beat");
    join(f, 2, RBT_ROLE_WORKER, 3);
    assert_said(f, "2:beat 0:job 1:plan 2:plan");
}

/* Time passes, and the machine hears of that at its deadlines only; those who are named by their
 * bits give signs of life then. */
static void pass(struct fixture *f, int64_t ms, uint32_t alive)
{
    const rbt_time last = f->now + ms * MS;
    while (f->now < last) {
        const rbt_time deadline = rbt_roster_ports_deadline(f->ports);
        assert_true(deadline > f->now); /* else time would stand still */
        if (deadline > last) {
            f->now = last;
            return;
        }
        f->now = deadline;
        for (uint32_t port = 0; port < 32; port++) {
            if ((alive >> port & 1) != 0) {
                char said[sizeof f->said];
                memcpy(said, f->said, sizeof said);
                hear_beat(f, port);
                memcpy(f->said, said, sizeof said); /* the answers are not looked at */
            }
        }
        step(f, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_TIME});
    }
}

static int setup_with(void **state, bool is_once, rbt_time silence_max)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    f->now = START;
    f->worker = UINT32_MAX;
    const struct rbt_roster_ports_options options = {.roster = {.cluster = 99,
                                                                .server_count = 1,
                                                                .is_once = is_once,
                                                                .start_timeout = START_MS * MS,
                                                                .silence_max = silence_max,
                                                                .cut_max = CUT_MS * MS,
                                                                .draw = draw},
                                                     .context = f,
                                                     .note = on_note,
                                                     .on_worker = on_worker,
                                                     .on_lost = on_lost,
                                                     .on_end = on_end};
    *state = f;
    const rbt_status st = rbt_roster_ports_create(&options, f->now, &f->ports);
    f->now += LATE_MS * MS; /* so that no time is a multiple of another one */
    return st == RBT_OK ? 0 : -1;
}

static int setup(void **state)
{
    return setup_with(state, true, SILENCE_MS * MS);
}

static int setup_lasting(void **state)
{
    return setup_with(state, false, SILENCE_MS * MS);
}

static int setup_patient(void **state)
{
    return setup_with(state, true, 6 * SILENCE_MS * MS);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_roster_ports_destroy(f->ports);
    rbt_outbox_deinit(&f->out);
    rbt_block_trim();
    test_free(f);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

static void a_job_from_joining_to_the_end(void **state)
{
    struct fixture *f = *state;
    const struct rbt_control_part part = {"bytes", 5};
    start_job(f);
    (void)rbt_control_put_gather(f->message, 1, &part);
    hear(f, 1);
    assert_said(f, "");
    hear(f, 2);
    assert_said(f, "1:gathered 2:gathered");
    (void)rbt_control_put_bound(f->message, 1, &a_bound);
    hear(f, 2);
    assert_said(f, "0:bound 1:bound 2:bound");
    (void)rbt_control_put_taken(f->message, 1, 1);
    hear(f, 2);
    hear(f, 0);
    assert_said(f, "");
    hear(f, 1);
    assert_said(f, "2:taken");
    (void)rbt_control_put_version(f->message, RBT_FRAME_VERSION, 1,
                                  &(struct rbt_control_version){.table = 0, .version = 4});
    hear(f, 0);
    assert_said(f, "1:stable 2:stable");
    hear_goodbye(f, 1);
    assert_said(f, "1:goodbye");
    hear_goodbye(f, 2);
    assert_said(f, "2:goodbye 0:drop 0:failed"); /* RBT_OK: the cluster has ended well */
    assert_false(f->has_ended);
    hear_goodbye(f, 0);
    assert_said(f, "0:goodbye");
    assert_true(f->has_ended);
    assert_int_equal(f->status, RBT_OK);
    assert_non_null(strstr(f->log, "joined node=server/0 host=far pid=12"));
    assert_non_null(strstr(f->log, "job started job=1 space=main"));
    assert_non_null(strstr(f->log, "left node=worker/1"));
    assert_non_null(strstr(f->log, "job ended job=1"));
}

static void a_sign_of_life_is_answered(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    hear_beat(f, 1);
    assert_said(f, "1:beat");
}

static void who_does_not_say_who_it_is_goes(void **state)
{
    struct fixture *f = *state;
    up(f, 5);
    pass(f, 4999, 0);
    assert_said(f, "");
    pass(f, 1, 0);
    assert_said(f, "5:cut");
    assert_non_null(strstr(f->log, "10.0.0.7:4711: it sent no greeting within 5s"));
    up(f, 5); /* the port is free again */
    assert_said(f, "");
}

static void who_says_something_else_first_is_refused(void **state)
{
    struct fixture *f = *state;
    up(f, 0);
    hear_beat(f, 0);
    assert_said(f, "0:failed");
    assert_string_equal(f->last_text,
                        "malformed message: the first is of kind 34 instead of a greeting");
    hear_beat(f, 0); /* does not count */
    assert_said(f, "");
    hear_goodbye(f, 0);
    assert_said(f, "0:goodbye");
    pass(f, 999, 0);
    assert_said(f, "");
    pass(f, 1, 0); /* it has had time to hear that */
    assert_said(f, "0:cut");
}

static void who_does_not_fit_is_told_why(void **state)
{
    struct fixture *f = *state;
    join(f, 0, RBT_ROLE_SERVER, 1);
    assert_said(f, "0:beat 0:plan");
    join(f, 1, RBT_ROLE_SERVER, 2);
    assert_said(f, "1:failed");
    assert_string_equal(f->last_text, "all 1 servers have already joined");
    down(f, 1);
    assert_said(f, "");
    assert_null(strstr(f->log, "it is gone")); /* that was expected */
}

static void noise_is_refused_once(void **state)
{
    struct fixture *f = *state;
    up(f, 0);
    broken(f, 0, RBT_E_PROTOCOL);
    assert_said(f, "0:failed");
    assert_string_equal(f->last_text, "it is noise");
    broken(f, 0, RBT_E_PROTOCOL);
    assert_said(f, "0:cut");
    up(f, 0);
    broken(f, 0, RBT_E_NOMEM);
    assert_said(f, "0:cut"); /* there is no memory for an answer */
}

static void a_peer_that_makes_no_sense_ends_its_job(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    (void)rbt_control_put_version(f->message, RBT_FRAME_STABLE, 1,
                                  &(struct rbt_control_version){.table = 0, .version = 4});
    hear(f, 1);
    assert_said(f, "1:failed 1:goodbye 2:failed 0:drop");
    assert_string_equal(
        f->last_text,
        "worker/0 on far failed: malformed message: kind 42 is not for a coordinator");
    pass(f, 1000, 0x5);
    assert_said(f, "1:cut");
    broken(f, 2, RBT_E_PROTOCOL); /* it was told already */
    assert_said(f, "2:failed 2:goodbye 0:failed");
}

static void a_cut_peer_comes_back(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    down(f, 1);
    assert_non_null(strstr(f->log, "connection cut node=worker/0"));
    (void)rbt_control_put_bound(f->message, 1, &a_bound);
    hear(f, 2);
    assert_said(f, "0:bound 2:bound"); /* the other one is not there to hear it */
    (void)rbt_control_put_taken(f->message, 1, 1);
    hear(f, 0);
    hear(f, 2);
    assert_said(f, "");
    pass(f, CUT_MS - 1, 0x5);
    join(f, 7, RBT_ROLE_WORKER, 2);
    assert_said(f, "7:beat 7:plan 7:bound");
    (void)rbt_control_put_taken(f->message, 1, 1);
    hear(f, 7);
    assert_said(f, "2:taken");
    pass(f, 2 * CUT_MS, 0x85);
    assert_said(f, "");
}

static void the_newest_connection_of_a_peer_counts(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    join(f, 7, RBT_ROLE_WORKER, 2);
    assert_said(f, "1:cut 7:beat 7:plan");
    hear_beat(f, 7);
    assert_said(f, "7:beat");
    up(f, 1); /* the port is somebody else's now */
    pass(f, 5000, 0x85);
    assert_said(f, "1:cut");
}

static void a_peer_that_stays_away_is_lost(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    down(f, 1);
    pass(f, CUT_MS - 1, 0x5);
    assert_said(f, "");
    pass(f, 1, 0x5);
    assert_said(f, "2:failed 0:drop");
    assert_string_equal(f->last_text, "lost worker/0 on far (pid 12): no connection for 3s");
    assert_string_equal(f->lost, "worker/0");
    assert_non_null(strstr(f->log, "job failed job=1 why=\"lost worker/0"));
}

static void a_peer_that_is_silent_is_lost_and_cut(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    pass(f, SILENCE_MS - 1, 0x5);
    assert_said(f, "");
    pass(f, 1, 0x5);
    assert_said(f, "1:cut 2:failed 0:drop");
    assert_string_equal(f->last_text, "lost worker/0 on far (pid 12): no sign of life for 10s");
}

static void a_pause_of_our_own_is_forgiven(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    assert_true(rbt_roster_ports_deadline(f->ports) <= f->now + SILENCE_MS / 4 * MS);
    down(f, 1);
    f->now += 10 * SILENCE_MS * MS;
    step(f, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_TIME});
    assert_said(f, "");
    pass(f, CUT_MS, 0x5); /* from now on it counts */
    assert_said(f, "2:failed 0:drop");
}

static void who_does_not_come_is_missed_in_time(void **state)
{
    struct fixture *f = *state;
    join(f, 0, RBT_ROLE_SERVER, 1);
    join(f, 1, RBT_ROLE_WORKER, 2);
    f->said[0] = '\0';
    pass(f, START_MS - LATE_MS - 1, 0x3);
    assert_said(f, "");
    pass(f, 1, 0x3);
    assert_said(f, "1:failed 0:drop");
    assert_string_equal(f->last_text, "worker/1 did not join within 30s");
    pass(f, 2000, 0x3); /* nobody leaves */
    assert_said(f, "0:failed");
    pass(f, 1999, 0x3);
    assert_false(f->has_ended);
    pass(f, 1, 0x3);
    assert_true(f->has_ended);
    assert_int_equal(f->status, RBT_E_TIMEOUT);
    assert_string_equal(f->text, "worker/1 did not join within 30s");
}

static void nobody_comes(void **state)
{
    struct fixture *f = *state;
    pass(f, START_MS - LATE_MS - 1, 0);
    assert_false(f->has_ended);
    pass(f, 1, 0);
    assert_true(f->has_ended);
    assert_int_equal(f->status, RBT_E_TIMEOUT);
    assert_string_equal(f->text, "server/0 and all workers did not join within 30s");
}

static void a_reader_that_wspec_does_not_keep_time_standing(void **state)
{
    struct fixture *f = *state;
    join(f, 0, RBT_ROLE_SERVER, 1);
    join(f, 1, RBT_ROLE_READER, 2);
    f->said[0] = '\0';
    pass(f, START_MS - 1, 0x3);
    assert_said(f, "");
    pass(f, 1, 0x3);
    assert_said(f, "1:failed");
    pass(f, START_MS, 0x3); /* fails if a deadline stays in the past */
    assert_said(f, "");
    assert_string_equal(f->last_text, "no job started in namespace \"main\" within 30s");
}

static void too_many_strangers_of_a_host_displace_the_first(void **state)
{
    struct fixture *f = *state;
    for (uint32_t port = 0; port < 192; port++) {
        up(f, port);
    }
    assert_said(f, "");
    up(f, 192);
    assert_said(f, "0:cut");
    assert_non_null(strstr(f->log, "too many connections have not greeted"));
    step(f, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_NO_ROOM});
    assert_said(f, "1:cut 2:cut 3:cut 4:cut 5:cut 6:cut 7:cut 8:cut 9:cut 10:cut 11:cut 12:cut "
                   "13:cut 14:cut 15:cut 16:cut");
}

static void whoever_belongs_here_is_not_shed(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    step(f, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_NO_ROOM});
    assert_said(f, "");
}

static void a_coordinator_that_is_told_to_stop_tells_all(void **state)
{
    struct fixture *f = *state;
    const struct rbt_roster_ports_event stop = {.kind = RBT_ROSTER_PORTS_STOP, .why = "stopped"};
    start_job(f);
    step(f, &stop);
    assert_said(f, "1:failed 2:failed 0:drop 0:failed");
    step(f, &stop);
    assert_said(f, "");
    pass(f, 2000, 0x7);
    assert_true(f->has_ended);
    assert_int_equal(f->status, RBT_OK);
    assert_int_equal(rbt_roster_ports_deadline(f->ports), RBT_TIME_NEVER);
}

static void without_memory_the_coordinator_ends(void **state)
{
    struct fixture *f = *state;
    start_job(f);
    rbt_block_trim();
    rbt_alloc_fail_nth(1);
    hear_beat(f, 1);
    rbt_alloc_fail_nth(0);
    assert_true(f->has_ended);
    assert_int_equal(f->status, RBT_E_NOMEM);
    rbt_block_trim();
    rbt_alloc_fail_nth(1);
    hear_beat(f, 2); /* it has ended once */
    rbt_alloc_fail_nth(1);
    up(f, 9);
    rbt_alloc_fail_nth(0);
    assert_said(f, "9:cut"); /* it tries again */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SLOW(name) cmocka_unit_test_setup_teardown(name, setup_patient, teardown)
#define LAST(name) cmocka_unit_test_setup_teardown(name, setup_lasting, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_from_joining_to_the_end),
        TEST(a_sign_of_life_is_answered),
        TEST(who_does_not_say_who_it_is_goes),
        SLOW(who_does_not_say_who_it_is_goes),
        SLOW(who_says_something_else_first_is_refused),
        TEST(who_says_something_else_first_is_refused),
        TEST(who_does_not_fit_is_told_why),
        TEST(noise_is_refused_once),
        TEST(a_peer_that_makes_no_sense_ends_its_job),
        TEST(a_cut_peer_comes_back),
        TEST(the_newest_connection_of_a_peer_counts),
        TEST(a_peer_that_stays_away_is_lost),
        TEST(a_peer_that_is_silent_is_lost_and_cut),
        TEST(a_pause_of_our_own_is_forgiven),
        TEST(who_does_not_come_is_missed_in_time),
        TEST(nobody_comes),
        LAST(a_reader_that_wspec_does_not_keep_time_standing),
        TEST(too_many_strangers_of_a_host_displace_the_first),
        TEST(whoever_belongs_here_is_not_shed),
        LAST(a_coordinator_that_is_told_to_stop_tells_all),
        TEST(without_memory_the_coordinator_ends),
    };
    return cmocka_run_group_tests_name("proto/roster_ports", tests, NULL, NULL);
}
