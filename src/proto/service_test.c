/* proto/service_test.c - who is let in to a shard, and when connections end: without a socket. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "core/shard_event.h"
#include "proto/service.h"
#include "wire/message.h"

enum { CLUSTER = 11, SHARD = 2, JOB = 5, WORKERS = 2, ROOM = 1 << 14 };

#define SECOND INT64_C(1000000000)

static const struct rbt_control_job ADMITTED = {
    .worker_count = WORKERS, .secret = {"of its workers"}, .read_secret = {"of its readers"}};

struct fixture {
    rbt_service *service;
    struct rbt_outbox out;
    rbt_time now;
    char note[512]; /* the last one */
    uint32_t notes;
    _Alignas(8) char message[ROOM];
};

static void on_note(void *context, const char *text)
{
    struct fixture *f = context;
    (void)snprintf(f->note, sizeof f->note, "%s", text);
    f->notes++;
}

static void forget_out(struct fixture *f)
{
    rbt_outbox_deinit(&f->out);
}

static void step(struct fixture *f, struct rbt_service_event event)
{
    forget_out(f);
    rbt_service_step(f->service, &event, ++f->now, &f->out);
}

static void step_port(struct fixture *f, struct rbt_port_event event)
{
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_PORT, .port = &event});
}

static void dial(struct fixture *f, uint32_t port)
{
    char peer[64];
    (void)snprintf(peer, sizeof peer, "10.0.0.%u:1", port % 2);
    step_port(f, (struct rbt_port_event){.kind = RBT_PORT_UP, .port = port, .up = {.peer = peer}});
}

/* Sends the message of `bytes` bytes with its header. */
static void post(struct fixture *f, uint32_t port, struct rbt_frame header, size_t bytes)
{
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME, .port = port};
    rbt_wire_close(f->message, header, bytes);
    assert_ok(rbt_frame_get(f->message, ROOM, &event.frame.head));
    event.frame.body = f->message + RBT_FRAME_HEADER;
    step_port(f, event);
}

static void greet_with(struct fixture *f, uint32_t port, const struct rbt_wire_hello *hello)
{
    post(f, port, (struct rbt_frame){.kind = RBT_FRAME_HELLO, .worker = hello->worker},
         rbt_wire_put_hello(f->message, hello));
}

static struct rbt_wire_hello hello_of(uint32_t worker)
{
    return (struct rbt_wire_hello){.cluster = CLUSTER,
                                   .job = JOB,
                                   .worker = worker,
                                   .worker_count = WORKERS,
                                   .shard = SHARD,
                                   .secret = ADMITTED.secret,
                                   .node = "a client"};
}

static void greet(struct fixture *f, uint32_t port, uint32_t worker)
{
    const struct rbt_wire_hello hello = hello_of(worker);
    greet_with(f, port, &hello);
}

static void admit(struct fixture *f)
{
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_NAME, .name = {CLUSTER, SHARD}});
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_ADMIT,
                                       .admit = {.number = JOB, .job = &ADMITTED}});
}

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    const struct rbt_service_options options = {
        .address = "here:1", .context = f, .on_note = on_note};
    assert_ok(rbt_service_create(&options, &f->service));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    forget_out(f);
    rbt_service_destroy(f->service);
    test_free(f);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* Item `at` of the outbox is this message to that port. */
static void expect_sent(const struct fixture *f, uint32_t at, uint32_t port, uint16_t kind,
                        uint16_t flags)
{
    struct rbt_frame frame;
    assert_true(at < f->out.count);
    assert_int_equal(f->out.items[at].kind, RBT_OUT_SEND);
    assert_int_equal(f->out.items[at].port, port);
    assert_ok(rbt_frame_get(f->out.items[at].block->data, ROOM, &frame));
    assert_int_equal(frame.kind, kind);
    assert_int_equal(frame.flags, flags);
}

static void expect_cut(const struct fixture *f, uint32_t at, uint32_t port)
{
    assert_true(at < f->out.count);
    assert_int_equal(f->out.items[at].kind, RBT_OUT_CUT);
    assert_int_equal(f->out.items[at].port, port);
}

static void expect_refused(const struct fixture *f, uint32_t port, uint16_t flags)
{
    assert_int_equal(f->out.count, 2);
    expect_sent(f, 0, port, RBT_FRAME_REFUSED, flags);
    expect_cut(f, 1, port);
}

static void expect_welcome(const struct fixture *f, uint32_t port)
{
    assert_int_equal(f->out.count, 1);
    expect_sent(f, 0, port, RBT_FRAME_WELCOME, 0);
    assert_true(rbt_service_is_admitted(f->service, port));
}

static void peers_come_in_when_the_shard_knows_the_job(void **state)
{
    struct fixture *f = *state;
    dial(f, 7);
    assert_int_equal(f->out.count, 0);
    greet(f, 7, 0); /* it does not even know its own name: the peer is to try again */
    expect_refused(f, 7, RBT_FRAME_TRY_AGAIN);
    assert_int_equal(f->notes, 0);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_NAME, .name = {CLUSTER, SHARD}});
    dial(f, 7);
    greet(f, 7, 0);
    expect_refused(f, 7, RBT_FRAME_TRY_AGAIN);
    admit(f);
    dial(f, 7);
    assert_false(rbt_service_is_admitted(f->service, 7));
    greet(f, 7, 0);
    expect_welcome(f, 7);
}

/* Worker 0 opens a table with staleness 0, begins a run and ends its first clock; whether the shard
 * shows what it has pushed, although the others have not ended theirs. */
static bool is_shown_at_once(struct fixture *f, uint32_t port)
{
    const struct rbt_frame header = {.worker = 0, .id = 1};
    struct rbt_spec table = {.type = RBT_I64, .width = 1, .name = "main/counts"};
    const struct rbt_wire_push push = {
        .clock = 0, .marker = 1, .range_last = UINT64_MAX, .batch_count = 1};
    const struct rbt_wire_rows rows = {.count = 1,
                                       .keys = (const uint64_t[]){7},
                                       .values = (const int64_t[]){1},
                                       .element_size = 8,
                                       .width = 1};
    struct rbt_frame next = header;
    next.kind = RBT_FRAME_TABLE;
    post(f, port, next, rbt_wire_put_table(f->message, &table));
    expect_sent(f, 0, port, RBT_FRAME_DONE, 0);
    next.kind = RBT_FRAME_RESET;
    post(f, port, next, RBT_WIRE_RESET_BYTES);
    expect_sent(f, 0, port, RBT_FRAME_DONE, 0);
    next.kind = RBT_FRAME_PUSH;
    const size_t bytes = rbt_wire_put_push(f->message, &push);
    post(f, port, next, bytes + rbt_wire_rows_put(f->message + bytes, &rows, NULL));
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = port});
    expect_sent(f, 0, port, RBT_FRAME_ACK, 0);
    struct rbt_wire_news news;
    const struct rbt_block *ack = f->out.items[0].block;
    struct rbt_wire_cursor body = {ack->data + RBT_FRAME_HEADER, ack->data + ack->bytes};
    assert_ok(rbt_wire_get_news(&body, &news));
    return news.settled == 1;
}

static void a_staleness_counts_that_wspec_before_anybody_came(void **state)
{
    struct fixture *f = *state;
    const struct rbt_bound bound = {.number = 1, .table = 0, .staleness = 3};
    admit(f);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_BOUND,
                                       .bound = {.job = JOB + 1, .bound = bound}});
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_BOUND,
                                       .bound = {.job = JOB, .bound = bound}});
    dial(f, 7);
    greet(f, 7, 0);
    assert_true(is_shown_at_once(f, 7));
}

static void the_staleness_of_another_job_does_not_count(void **state)
{
    struct fixture *f = *state;
    const struct rbt_bound bound = {.number = 1, .table = 0, .staleness = 3};
    admit(f);
    dial(f, 7);
    greet(f, 7, 0);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_BOUND,
                                       .bound = {.job = JOB + 1, .bound = bound}});
    assert_false(is_shown_at_once(f, 7));
}

static void who_means_another_shard_or_lacks_the_secret_is_refused(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_hello wrong[4];
    admit(f);
    for (int i = 0; i < 4; i++) {
        wrong[i] = hello_of(0);
    }
    wrong[0].cluster++;
    wrong[1].shard++;
    wrong[2].secret.bytes[0] ^= 1;
    wrong[3].worker = WORKERS;
    for (uint32_t i = 0; i < 4; i++) {
        dial(f, i);
        greet_with(f, i, &wrong[i]);
        expect_refused(f, i, 0);
        assert_int_equal(f->notes, i + 1);
        assert_false(rbt_service_is_admitted(f->service, i));
    }
    dial(f, 4);
    post(f, 4, (struct rbt_frame){.kind = RBT_FRAME_STATS, .worker = 0}, RBT_FRAME_HEADER);
    expect_refused(f, 4, 0); /* the first message must be a greeting */
}

static void the_newest_connection_of_a_worker_counts(void **state)
{
    struct fixture *f = *state;
    admit(f);
    dial(f, 0);
    greet(f, 0, 1);
    dial(f, 1);
    greet(f, 1, 0); /* another worker is left alone */
    expect_welcome(f, 1);
    dial(f, 2);
    greet(f, 2, 1);
    assert_int_equal(f->out.count, 2);
    expect_sent(f, 0, 2, RBT_FRAME_WELCOME, 0);
    expect_cut(f, 1, 0);
    assert_false(rbt_service_is_admitted(f->service, 0));
    assert_true(rbt_service_is_admitted(f->service, 1));
}

/* Each job counts its workers from 0. */
static void the_same_worker_of_another_job_is_another(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_hello hello = hello_of(1);
    admit(f);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_ADMIT,
                                       .admit = {.number = JOB + 1, .job = &ADMITTED}});
    dial(f, 0);
    greet(f, 0, 1);
    dial(f, 1);
    hello.job = JOB + 1;
    greet_with(f, 1, &hello);
    expect_welcome(f, 1);
    assert_int_equal(f->out.count, 1);
    assert_true(rbt_service_is_admitted(f->service, 0));
    assert_true(rbt_service_is_admitted(f->service, 1));
}

static void a_stranger_has_five_seconds(void **state)
{
    struct fixture *f = *state;
    admit(f);
    assert_true(rbt_service_deadline(f->service) == RBT_TIME_NEVER);
    dial(f, 0);
    dial(f, 1);
    greet(f, 1, 0);
    const rbt_time due = rbt_service_deadline(f->service);
    assert_true(due > f->now && due <= f->now + 5 * SECOND);
    f->now = due - 2; /* a step counts one nanosecond */
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_TIME});
    assert_int_equal(f->out.count, 0);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_TIME});
    expect_refused(f, 0, 0);
    assert_non_null(strstr(f->note, "it sent no greeting in time"));
    assert_true(rbt_service_deadline(f->service) == RBT_TIME_NEVER);
    assert_true(rbt_service_is_admitted(f->service, 1));
}

static void the_oldest_stranger_makes_room(void **state)
{
    struct fixture *f = *state;
    admit(f); /* two workers: 258 strangers in all, 194 of one host; they come from two */
    for (uint32_t i = 0; i < 258; i++) {
        dial(f, i);
        assert_int_equal(f->out.count, 0);
    }
    dial(f, 258);
    assert_int_equal(f->out.count, 1);
    expect_cut(f, 0, 0);
    assert_int_equal(rbt_service_strangers(f->service), 258);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_SHED, .shed = 3});
    assert_int_equal(f->out.count, 3);
    expect_cut(f, 0, 1);
    expect_cut(f, 1, 2);
    expect_cut(f, 2, 3);
    assert_int_equal(f->notes, 4);
}

static void a_job_that_is_over_has_no_connections(void **state)
{
    struct fixture *f = *state;
    admit(f);
    dial(f, 0);
    greet(f, 0, 0);
    dial(f, 1);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_DROP, .drop = JOB});
    assert_int_equal(f->out.count, 1);
    expect_cut(f, 0, 0);
    greet(f, 1, 0);
    expect_refused(f, 1, 0);
    assert_non_null(strstr(f->note, "the job is over"));
}

static void when_a_job_fails_all_of_its_peers_hear_why(void **state)
{
    struct fixture *f = *state;
    admit(f);
    for (uint32_t i = 0; i < 2; i++) {
        dial(f, i);
        greet(f, i, i);
    }
    dial(f, 2); /* a stranger is not concerned */
    step_port(f, (struct rbt_port_event){.kind = RBT_PORT_BROKEN,
                                         .port = 1,
                                         .down = {RBT_E_NOMEM, "no memory for a long message"}});
    assert_int_equal(f->out.count, 4);
    expect_sent(f, 0, 0, RBT_FRAME_REFUSED, RBT_FRAME_FAILURE);
    expect_sent(f, 1, 1, RBT_FRAME_REFUSED, RBT_FRAME_FAILURE);
    expect_cut(f, 2, 0);
    expect_cut(f, 3, 1);
    assert_int_equal(rbt_service_strangers(f->service), 1);
}

static void a_peer_that_breaks_the_protocol_is_told_and_the_job_goes_on(void **state)
{
    struct fixture *f = *state;
    admit(f);
    for (uint32_t i = 0; i < 2; i++) {
        dial(f, i);
        greet(f, i, i);
    }
    step_port(f, (struct rbt_port_event){.kind = RBT_PORT_BROKEN,
                                         .port = 1,
                                         .down = {RBT_E_PROTOCOL, "this is no frame"}});
    expect_refused(f, 1, 0);
    assert_true(rbt_service_is_admitted(f->service, 0));
}

static void a_lost_connection_is_forgotten_without_a_word(void **state)
{
    struct fixture *f = *state;
    admit(f);
    dial(f, 0);
    greet(f, 0, 0);
    step_port(f, (struct rbt_port_event){.kind = RBT_PORT_DOWN,
                                         .port = 0,
                                         .down = {RBT_E_IO, "connection reset by peer"}});
    assert_int_equal(f->out.count, 0);
    assert_int_equal(f->notes, 0);
    dial(f, 0); /* the port is free again */
    greet(f, 0, 0);
    expect_welcome(f, 0);
}

/* Starts a run, and ends clock 0 of worker 0. */
static void push_a_clock(struct fixture *f, uint32_t port)
{
    post(f, port, (struct rbt_frame){.kind = RBT_FRAME_RESET, .worker = 0, .id = 1},
         RBT_WIRE_RESET_BYTES);
    expect_sent(f, 0, port, RBT_FRAME_DONE, 0);
    const struct rbt_wire_push push = {.range_last = UINT64_MAX, .clock = 0, .marker = 1};
    post(f, port, (struct rbt_frame){.kind = RBT_FRAME_PUSH, .worker = 0, .id = 1},
         rbt_wire_put_push(f->message, &push));
    assert_int_equal(f->out.count, 0); /* more may come: one word for all of it */
}

static void what_is_owed_is_sent_once_when_the_turn_ends(void **state)
{
    struct fixture *f = *state;
    admit(f);
    dial(f, 3);
    greet(f, 3, 0);
    push_a_clock(f, 3);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = RBT_SERVICE_ALL});
    assert_int_equal(f->out.count, 1);
    expect_sent(f, 0, 3, RBT_FRAME_ACK, 0);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = RBT_SERVICE_ALL});
    assert_int_equal(f->out.count, 0);
}

static void one_connection_can_have_its_turn_alone(void **state)
{
    struct fixture *f = *state;
    admit(f);
    dial(f, 3);
    greet(f, 3, 0);
    push_a_clock(f, 3);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = 2});
    assert_int_equal(f->out.count, 0);
    step(f, (struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = 3});
    expect_sent(f, 0, 3, RBT_FRAME_ACK, 0);
}

/* A connection, a greeting, and its end, with allocation number `nth` failing. Returns whether one
 * failed. */
static bool visit(struct fixture *f, unsigned nth)
{
    const struct rbt_service_event events[] = {
        {.kind = RBT_SERVICE_NAME, .name = {CLUSTER, SHARD}},
        {.kind = RBT_SERVICE_ADMIT, .admit = {.number = JOB, .job = &ADMITTED}}};
    forget_out(f);
    rbt_alloc_fail_nth(nth);
    rbt_service_step(f->service, &events[0], ++f->now, &f->out);
    rbt_service_step(f->service, &events[1], ++f->now, &f->out);
    dial(f, 0);
    greet(f, 0, 0);
    const bool has_failed = !rbt_service_is_admitted(f->service, 0);
    rbt_alloc_fail_nth(0);
    step_port(f, (struct rbt_port_event){
                     .kind = RBT_PORT_DOWN, .port = 0, .down = {RBT_E_CLOSED, "it is over"}});
    return has_failed;
}

static void without_memory_a_peer_is_turned_away_and_nothing_is_lost(void **state)
{
    struct fixture *f = *state;
    unsigned nth = 1;
    while (visit(f, nth)) { /* ends: there are only so many allocations */
        rbt_service_destroy(f->service);
        forget_out(f);
        rbt_block_trim();
        assert_int_equal(rbt_alloc_live(), 0);
        const struct rbt_service_options options = {
            .address = "here:1", .context = f, .on_note = on_note};
        assert_ok(rbt_service_create(&options, &f->service));
        nth++;
    }
    assert_true(nth > 5);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(peers_come_in_when_the_shard_knows_the_job),
        T(a_staleness_counts_that_wspec_before_anybody_came),
        T(the_staleness_of_another_job_does_not_count),
        T(who_means_another_shard_or_lacks_the_secret_is_refused),
        T(the_newest_connection_of_a_worker_counts),
        T(the_same_worker_of_another_job_is_another),
        T(a_stranger_has_five_seconds),
        T(the_oldest_stranger_makes_room),
        T(a_job_that_is_over_has_no_connections),
        T(when_a_job_fails_all_of_its_peers_hear_why),
        T(a_peer_that_breaks_the_protocol_is_told_and_the_job_goes_on),
        T(a_lost_connection_is_forgotten_without_a_word),
        T(what_is_owed_is_sent_once_when_the_turn_ends),
        T(one_connection_can_have_its_turn_alone),
        T(without_memory_a_peer_is_turned_away_and_nothing_is_lost),
    };
#undef T
    return cmocka_run_group_tests_name("proto/service", tests, NULL, NULL);
}
