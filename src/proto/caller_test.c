/* proto/caller_test.c - a caller and two shards that do what the test says, without a socket. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/error.h"
#include "proto/caller.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)

enum { SHARDS = 2, WORKER = 3, WIRE_MAX = 64, ROWS = 2, MANY = 8192, LONG = 16384, ROOM = 1 << 16 };

struct port {
    bool is_wanted;
    bool is_open;
    struct rbt_block *wire[WIRE_MAX]; /* sent on this connection, in order */
    uint32_t first;
    uint32_t end;
};

struct fixture {
    struct rbt_caller_entry table;
    struct rbt_caller_entry *tables[1];
    struct rbt_caller_shared shared;
    struct rbt_outbox out;
    struct rbt_caller caller;
    struct port ports[SHARDS];
    rbt_time now;
    uint64_t keys[SHARDS][MANY];
    float values[SHARDS][MANY];
    struct rbt_batch batches[SHARDS];
    struct rbt_driver_call calls[SHARDS];
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    static const struct rbt_wire_hello hello = {.worker_count = 4};
    struct rbt_stream_options streams[SHARDS];
    for (uint32_t i = 0; i < SHARDS; i++) {
        streams[i] = (struct rbt_stream_options){.address = "a.shard:7",
                                                 .hello = &hello,
                                                 .shard = i,
                                                 .cut_max = 3 * SECOND,
                                                 .silence_max = 800 * SECOND};
        for (uint64_t k = 0; k < MANY; k++) {
            f->keys[i][k] = SHARDS * k + i;
        }
    }
    f->table = (struct rbt_caller_entry){.spec = {.width = 1}};
    f->tables[0] = &f->table;
    f->shared = (struct rbt_caller_shared){.shard_count = SHARDS, .tables = f->tables};
    const struct rbt_caller_options options = {
        .shared = &f->shared, .streams = streams, .worker = WORKER, .out = &f->out};
    assert_ok(rbt_caller_init(&f->caller, &options));
    *state = f;
    return 0;
}

static void drop_wire(struct port *port)
{
    while (port->first < port->end) {
        rbt_block_unref(port->wire[port->first++]);
    }
    port->first = 0;
    port->end = 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < SHARDS; i++) {
        drop_wire(&f->ports[i]);
    }
    rbt_caller_deinit(&f->caller);
    rbt_outbox_deinit(&f->out);
    test_free(f);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* --- The carrier ----------------------------------------------------------------------------- */

static void perform(struct fixture *f)
{
    for (uint32_t i = 0; i < f->out.count; i++) {
        const struct rbt_out *item = &f->out.items[i];
        struct port *port = &f->ports[item->port];
        switch (item->kind) {
        case RBT_OUT_CONNECT:
            port->is_wanted = true;
            break;
        case RBT_OUT_SEND:
            assert_true(port->is_open && port->end < WIRE_MAX);
            port->wire[port->end++] = item->block;
            break;
        case RBT_OUT_CUT:
            port->is_wanted = false;
            port->is_open = false;
            drop_wire(port);
            break;
        }
    }
    rbt_outbox_clear(&f->out);
}

static void happen(struct fixture *f, struct rbt_port_event event)
{
    rbt_caller_port(&f->caller, &event, f->now);
    perform(f);
}

static void tick(struct fixture *f)
{
    rbt_caller_tick(&f->caller, f->now);
    perform(f);
}

static void connection_is_lost(struct fixture *f, uint32_t shard)
{
    f->ports[shard].is_wanted = false;
    f->ports[shard].is_open = false;
    drop_wire(&f->ports[shard]);
    happen(f, (struct rbt_port_event){
                  .kind = RBT_PORT_DOWN, .port = shard, .down = {RBT_E_CLOSED, "nobody listens"}});
}

/* --- The shards ------------------------------------------------------------------------------ */

static void deliver(struct fixture *f, uint32_t shard, char *message, size_t bytes,
                    struct rbt_frame header)
{
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME, .port = shard};
    rbt_wire_close(message, header, bytes);
    assert_ok(rbt_frame_get(message, RBT_FRAME_BODY_MAX, &event.frame.head));
    event.frame.body = message + RBT_FRAME_HEADER;
    happen(f, event);
}

/* The next message that a shard gets must be of this kind; returns its id. */
static uint64_t shard_gets(struct fixture *f, uint32_t shard, uint16_t kind)
{
    struct port *port = &f->ports[shard];
    struct rbt_frame frame;
    assert_true(port->first < port->end);
    struct rbt_block *block = port->wire[port->first++];
    assert_ok(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &frame));
    rbt_block_unref(block);
    assert_int_equal(frame.kind, kind);
    assert_int_equal(frame.worker, WORKER);
    return frame.id;
}

/* The same of a PULL; what it needs. */
static uint64_t shard_gets_pull(struct fixture *f, uint32_t shard, int64_t need)
{
    struct port *port = &f->ports[shard];
    struct rbt_wire_pull pull;
    assert_true(port->first < port->end);
    const struct rbt_block *block = port->wire[port->first];
    struct rbt_wire_cursor cursor = {block->data + RBT_FRAME_HEADER, block->data + block->bytes};
    assert_ok(rbt_wire_get_pull(&cursor, &pull));
    assert_int_equal(pull.need, need);
    return shard_gets(f, shard, RBT_FRAME_PULL);
}

static void shard_gets_nothing(const struct fixture *f, uint32_t shard)
{
    assert_int_equal(f->ports[shard].first, f->ports[shard].end);
}

/* Rows that are all `value`. */
static void shard_answers(struct fixture *f, uint32_t shard, uint64_t id, int64_t floor,
                          float value)
{
    static _Alignas(8) char message[ROOM];
    const float values[ROWS] = {value, value};
    const struct rbt_wire_answer answer = {.news = {.floor = floor, .version = (uint64_t)floor}};
    const struct rbt_wire_rows rows = {.count = ROWS,
                                       .keys = f->keys[shard],
                                       .values = values,
                                       .element_size = sizeof(float),
                                       .width = 1};
    size_t bytes = rbt_wire_put_answer(message, &answer);
    bytes += rbt_wire_rows_put(message + bytes, &rows, NULL);
    deliver(f, shard, message, bytes, (struct rbt_frame){.kind = RBT_FRAME_ROWS, .id = id});
}

static void come_up(struct fixture *f, uint32_t shard)
{
    static _Alignas(8) char message[RBT_WIRE_SHORT_MAX];
    const struct rbt_wire_news news = {0};
    assert_true(f->ports[shard].is_wanted);
    f->ports[shard].is_wanted = false;
    f->ports[shard].is_open = true;
    happen(f, (struct rbt_port_event){.kind = RBT_PORT_UP, .port = shard, .up = {.peer = "p"}});
    (void)shard_gets(f, shard, RBT_FRAME_HELLO);
    const size_t bytes = rbt_wire_put_welcome(message, &news);
    deliver(f, shard, message, bytes, (struct rbt_frame){.kind = RBT_FRAME_WELCOME});
}

/* --- The worker ------------------------------------------------------------------------------ */

static void start_pull(struct fixture *f, size_t rows, int64_t need, uint64_t subscription)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        f->batches[i] =
            (struct rbt_batch){.count = rows, .keys = f->keys[i], .values = f->values[i]};
        f->calls[i] = (struct rbt_driver_call){.shard = i,
                                               .event = {.kind = RBT_SHARD_PULL,
                                                         .worker = WORKER,
                                                         .batches = &f->batches[i],
                                                         .batch_count = 1,
                                                         .need = need,
                                                         .subscription = subscription,
                                                         .least = RBT_STAMP_NONE}};
    }
    rbt_caller_start(&f->caller, f->calls, SHARDS);
    perform(f);
}

static void start_push(struct fixture *f, uint64_t sequence)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        f->batches[i] =
            (struct rbt_batch){.count = ROWS, .keys = f->keys[i], .values = f->values[i]};
        f->calls[i] = (struct rbt_driver_call){.shard = i,
                                               .event = {.kind = RBT_SHARD_PUSH,
                                                         .worker = WORKER,
                                                         .sequence = sequence,
                                                         .marker = (int64_t)sequence,
                                                         .batches = &f->batches[i],
                                                         .batch_count = 1}};
    }
    rbt_caller_start(&f->caller, f->calls, SHARDS);
    perform(f);
}

/* Both shards are connected. */
static void begin(struct fixture *f)
{
    start_push(f, 1);
    tick(f);
    for (uint32_t i = 0; i < SHARDS; i++) {
        come_up(f, i);
        assert_int_equal(shard_gets(f, i, RBT_FRAME_PUSH), 1);
    }
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
}

/* --- Tests ----------------------------------------------------------------------------------- */

static void a_pull_ends_with_its_last_answer(void **state)
{
    struct fixture *f = *state;
    begin(f);
    start_pull(f, ROWS, 2, 0);
    const uint64_t first = shard_gets_pull(f, 0, 2);
    const uint64_t second = shard_gets_pull(f, 1, 2);
    assert_false(rbt_caller_is_answered(&f->caller));
    shard_answers(f, 1, second, 2, 5);
    assert_false(rbt_caller_is_answered(&f->caller));
    shard_answers(f, 0, first, 3, 4);
    assert_true(rbt_caller_is_answered(&f->caller));
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    assert_int_equal(f->calls[0].reply.status, RBT_OK);
    assert_int_equal(f->calls[0].reply.floor, 3);
    assert_int_equal(f->calls[1].reply.floor, 2);
    assert_true(f->values[0][1] == 4 && f->values[1][0] == 5);
    assert_true(f->calls[0].reply.traffic_received[RBT_TRAFFIC_READ] > 0);
}

/* A connection is cut between request and answer: the request goes out again, and nobody else
 * notices. */
static void a_pull_survives_a_cut(void **state)
{
    struct fixture *f = *state;
    begin(f);
    start_pull(f, ROWS, 2, 0);
    (void)shard_gets_pull(f, 0, 2);
    shard_answers(f, 1, shard_gets_pull(f, 1, 2), 2, 5);
    connection_is_lost(f, 0);
    f->now = rbt_caller_deadline(&f->caller);
    tick(f);
    come_up(f, 0);
    assert_int_equal(shard_gets(f, 0, RBT_FRAME_PUSH), 1);
    shard_answers(f, 0, shard_gets_pull(f, 0, 2), 2, 4);
    assert_true(rbt_caller_is_answered(&f->caller));
    assert_int_equal(f->caller.status, RBT_OK);
    assert_true(f->values[0][0] == 4);
}

/* --- Going on -------------------------------------------------------------------------------- */

static void a_worker_waits_for_connections(void **state)
{
    struct fixture *f = *state;
    assert_true(rbt_caller_may_go_on(&f->caller));
    start_push(f, 1);
    assert_false(rbt_caller_may_go_on(&f->caller));
    assert_false(rbt_caller_is_drained(&f->caller));
    tick(f);
    come_up(f, 0);
    assert_false(rbt_caller_may_go_on(&f->caller));
    come_up(f, 1);
    assert_true(rbt_caller_may_go_on(&f->caller)); /* what was sent need not have arrived */
    assert_false(rbt_caller_is_drained(&f->caller));
    f->caller.streams[1].kept_bytes += 64 << 20; /* but not if it is too much */
    assert_false(rbt_caller_may_go_on(&f->caller));
    f->caller.streams[1].kept_bytes -= 64 << 20;
}

/* --- Losing shards --------------------------------------------------------------------------- */

/* Loses shard 0 for good. */
static void lose_shard(struct fixture *f)
{
    begin(f);
    start_pull(f, ROWS, 2, 0);
    for (int i = 0; i < 100 && !rbt_caller_is_lost(&f->caller); i++) {
        connection_is_lost(f, 0);
        if (!rbt_caller_is_lost(&f->caller)) {
            f->now = rbt_caller_deadline(&f->caller);
            tick(f);
        }
    }
    assert_true(rbt_caller_is_lost(&f->caller));
    assert_int_equal(f->caller.status, RBT_OK);
    assert_false(rbt_caller_is_answered(&f->caller));
    assert_false(rbt_caller_may_go_on(&f->caller));
    assert_int_equal(rbt_caller_deadline(&f->caller), f->now + SECOND);
}

/* For a second the coordinator may say more; then the caller says what it knows. */
static void a_lost_shard_is_a_failure_after_a_second(void **state)
{
    struct fixture *f = *state;
    lose_shard(f);
    (void)rbt_fail(RBT_E_INVALID, "something else");
    f->now += SECOND - 1;
    tick(f);
    shard_answers(f, 1, shard_gets_pull(f, 1, 2), 2, 5); /* makes no difference any more */
    assert_true(f->values[1][0] == 0);
    assert_int_equal(f->caller.status, RBT_OK);
    f->now++;
    tick(f);
    assert_true(rbt_caller_is_answered(&f->caller));
    assert_true(rbt_caller_may_go_on(&f->caller));
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    assert_fails(f->calls[1].reply.status, RBT_E_CLOSED, "lost shard 0");
    assert_non_null(strstr(rbt_last_error(), "nobody listens"));
}

/* It is told even to a worker that waits for nothing else. */
static void a_refusal_stops_a_worker_that_pushes(void **state)
{
    struct fixture *f = *state;
    static _Alignas(8) char message[RBT_WIRE_SHORT_MAX];
    const struct rbt_wire_news news = {.arrived = 1};
    begin(f);
    size_t bytes = rbt_wire_put_ack(message, &news);
    deliver(f, 0, message, bytes, (struct rbt_frame){.kind = RBT_FRAME_ACK});
    assert_true(rbt_caller_may_go_on(&f->caller));
    bytes = rbt_wire_put_refused(message, "not today");
    deliver(f, 0, message, bytes, (struct rbt_frame){.kind = RBT_FRAME_REFUSED});
    assert_true(rbt_caller_is_lost(&f->caller));
    assert_false(rbt_caller_may_go_on(&f->caller));
    f->now = rbt_caller_deadline(&f->caller);
    tick(f);
    assert_true(rbt_caller_may_go_on(&f->caller));
    assert_fails(rbt_caller_refuse(&f->caller), RBT_E_CLOSED, "refused the connection: not today");
}

static void the_coordinator_knows_more(void **state)
{
    struct fixture *f = *state;
    lose_shard(f);
    rbt_caller_alarm(&f->caller, RBT_OK); /* not yet */
    assert_int_equal(f->caller.status, RBT_OK);
    rbt_caller_alarm(&f->caller, rbt_fail(RBT_E_INTERRUPTED, "the server was stopped"));
    assert_true(rbt_caller_is_answered(&f->caller));
    f->now += SECOND;
    tick(f);
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    assert_fails(f->calls[0].reply.status, RBT_E_INTERRUPTED, "the server was stopped");
}

static void a_wrong_answer_is_a_failure(void **state)
{
    struct fixture *f = *state;
    static _Alignas(8) char message[RBT_WIRE_SHORT_MAX];
    const struct rbt_wire_done done = {0};
    begin(f);
    start_pull(f, ROWS, 2, 0);
    const size_t bytes = rbt_wire_put_done(message, &done);
    deliver(f, 0, message, bytes,
            (struct rbt_frame){.kind = RBT_FRAME_DONE, .id = shard_gets_pull(f, 0, 2)});
    assert_true(rbt_caller_is_answered(&f->caller));
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    assert_fails(f->calls[1].reply.status, RBT_E_PROTOCOL, "does not match its request");
    start_pull(f, ROWS, 2, 0); /* and nothing works any more */
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    assert_int_equal(f->calls[0].reply.status, RBT_E_PROTOCOL);
}

/* --- Rows asked for ahead -------------------------------------------------------------------- */

/* When an answer has been used, the next one is asked for; a kept one is used without asking. */
static void eager_rows_are_asked_for_ahead(void **state)
{
    struct fixture *f = *state;
    begin(f);
    start_pull(f, ROWS, 1, 9);
    shard_answers(f, 0, shard_gets_pull(f, 0, 1), 1, 4);
    const uint64_t prefetch = shard_gets_pull(f, 0, 2); /* more than there is */
    shard_answers(f, 1, shard_gets_pull(f, 1, 1), 3, 5);
    assert_true(rbt_caller_is_answered(&f->caller));
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    const uint64_t further = shard_gets_pull(f, 1, 4);
    shard_answers(f, 0, prefetch, 2, 6); /* nobody waits for it */
    shard_gets_nothing(f, 0);
    assert_true(f->values[0][0] == 4);
    start_pull(f, ROWS, 2, 9); /* both are there: shard 1 had said 3 before */
    assert_true(rbt_caller_is_answered(&f->caller));
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    assert_true(f->values[0][0] == 6 && f->values[1][0] == 5);
    assert_int_equal(f->calls[0].reply.floor, 2);
    const uint64_t next = shard_gets_pull(f, 0, 3);
    shard_gets_nothing(f, 1); /* whose next one is on its way */
    start_pull(f, ROWS, 4, 9);
    assert_false(rbt_caller_is_answered(&f->caller));
    shard_answers(f, 1, further, 4, 7);
    assert_false(rbt_caller_is_answered(&f->caller));
    shard_answers(f, 0, next, 3, 1); /* not enough: it is asked for again, as it is wanted */
    assert_false(rbt_caller_is_answered(&f->caller));
    shard_answers(f, 0, shard_gets_pull(f, 0, 4), 4, 8);
    assert_true(rbt_caller_is_answered(&f->caller));
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    assert_true(f->values[0][0] == 8 && f->values[1][0] == 7);
}

/* Told of before, wanted later; or not wanted after all. */
static void what_is_expected_is_asked_for_once(void **state)
{
    struct fixture *f = *state;
    enum { ASKED = 11 };
    begin(f);
    start_pull(f, ROWS, 1, 0); /* fills in the calls */
    for (uint32_t i = 0; i < SHARDS; i++) {
        shard_answers(f, i, shard_gets_pull(f, i, 1), 1, 1);
        f->calls[i].event.asked = ASKED;
    }
    rbt_caller_expect(&f->caller, f->calls, SHARDS);
    rbt_caller_expect(&f->caller, f->calls, SHARDS); /* it is on its way */
    perform(f);
    assert_true(rbt_caller_is_asking(&f->caller, ASKED));
    shard_answers(f, 0, shard_gets_pull(f, 0, 1), 1, 2);
    shard_gets_nothing(f, 0);
    const uint64_t second = shard_gets_pull(f, 1, 1);
    rbt_caller_start(&f->caller, f->calls, SHARDS);
    perform(f);
    shard_gets_nothing(f, 0);
    assert_false(rbt_caller_is_answered(&f->caller));
    shard_answers(f, 1, second, 1, 3);
    assert_true(rbt_caller_is_answered(&f->caller));
    assert_false(rbt_caller_is_asking(&f->caller, ASKED));
    assert_true(f->values[0][0] == 2 && f->values[1][0] == 3);
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
    rbt_caller_forget(&f->caller, ASKED);
}

/* Connects, and fills in calls that ask for early rows. */
static void begin_early(struct fixture *f, struct rbt_shard_early early[static SHARDS],
                        uint64_t keys[static SHARDS][ROWS])
{
    begin(f);
    start_pull(f, ROWS, 0, 9); /* fills in the calls */
    for (uint32_t i = 0; i < SHARDS; i++) {
        shard_answers(f, i, shard_gets_pull(f, i, 0), RBT_CLOCK_GONE, 1); /* no more to come */
        early[i] = (struct rbt_shard_early){.room = ROWS, .keys = keys[i]};
        f->calls[i].event.early = &early[i];
    }
}

/* Early rows are taken when all shards have answered, and once. */
static void early_rows_are_taken_once(void **state)
{
    struct fixture *f = *state;
    struct rbt_shard_early early[SHARDS];
    uint64_t keys[SHARDS][ROWS];
    begin_early(f, early, keys);
    rbt_caller_ask_early(&f->caller, f->calls, SHARDS);
    rbt_caller_ask_early(&f->caller, f->calls, SHARDS); /* it is on its way */
    perform(f);
    shard_answers(f, 0, shard_gets_pull(f, 0, 0), 1, 2);
    shard_gets_nothing(f, 0);
    assert_false(rbt_caller_has_early(&f->caller, f->calls, SHARDS));
    shard_answers(f, 1, shard_gets_pull(f, 1, 0), 1, 3);
    assert_true(rbt_caller_is_answered(&f->caller)); /* nobody has waited */
    assert_true(f->values[0][0] == 1);
    assert_true(rbt_caller_has_early(&f->caller, f->calls, SHARDS));
    rbt_caller_take_early(&f->caller, f->calls, SHARDS);
    assert_int_equal(early[0].count, ROWS);
    assert_int_equal(keys[1][1], f->keys[1][1]);
    assert_true(f->values[0][0] == 2 && f->values[1][1] == 3);
    rbt_caller_take_early(&f->caller, f->calls, SHARDS);
    assert_int_equal(early[0].count, 0);
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
}

/* Whichever shard is last. */
static void early_rows_wait_for_the_slowest_shard(void **state)
{
    struct fixture *f = *state;
    struct rbt_shard_early early[SHARDS];
    uint64_t keys[SHARDS][ROWS];
    begin_early(f, early, keys);
    for (uint32_t slowest = 0; slowest < SHARDS; slowest++) {
        rbt_caller_ask_early(&f->caller, f->calls, SHARDS);
        perform(f);
        for (uint32_t i = 1; i <= SHARDS; i++) {
            const uint32_t shard = (slowest + i) % SHARDS;
            assert_false(rbt_caller_has_early(&f->caller, f->calls, SHARDS));
            shard_answers(f, shard, shard_gets_pull(f, shard, 0), 1, 2);
        }
        assert_true(rbt_caller_has_early(&f->caller, f->calls, SHARDS));
        rbt_caller_take_early(&f->caller, f->calls, SHARDS);
    }
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
}

/* --- Long answers ---------------------------------------------------------------------------- */

/* Rows that the carrier has put where they belong are taken as they lie. */
static void placed_rows_are_taken_as_they_lie(void **state)
{
    struct fixture *f = *state;
    static _Alignas(8) char message[ROOM];
    const struct rbt_wire_answer answer = {.news = {.floor = 2}};
    const struct rbt_wire_rows rows = {.count = MANY, .element_size = sizeof(float), .width = 1};
    void *at = NULL;
    begin(f);
    start_pull(f, MANY, 2, 0);
    size_t bytes = rbt_wire_put_answer(message, &answer);
    bytes += rbt_wire_rows_reserve(message + bytes, &rows, &at);
    const size_t values = MANY * sizeof(float);
    struct rbt_port_event event = {.kind = RBT_PORT_FRAME,
                                   .frame = {.head = {.kind = RBT_FRAME_ROWS,
                                                      .length = (uint32_t)bytes - RBT_FRAME_HEADER,
                                                      .id = shard_gets_pull(f, 0, 2)},
                                             .body = message + RBT_FRAME_HEADER}};
    struct rbt_frame_place place = {0};
    assert_true(rbt_caller_place(&f->caller, 0, &event.frame.head, &place));
    assert_ptr_equal(place.to, f->values[0]);
    assert_int_equal(place.bytes, values);
    f->values[0][MANY - 1] = 8;
    event.frame.placed = place.bytes;
    happen(f, event);
    assert_int_equal(f->caller.unanswered, 1);
    assert_true(f->values[0][MANY - 1] == 8);
    event.port = 1; /* the other one comes whole, with zeros */
    event.frame.head.id = shard_gets_pull(f, 1, 2);
    event.frame.placed = 0;
    f->values[1][0] = 8;
    happen(f, event);
    assert_true(rbt_caller_is_answered(&f->caller));
    assert_int_equal(f->caller.status, RBT_OK);
    assert_true(f->values[1][0] == 0);
    rbt_caller_finish(&f->caller, f->calls, SHARDS);
}

/* --- Long updates ---------------------------------------------------------------------------- */

/* Pushes `batch` to shard 0 and looks at what it gets: the value of each row must be its key.
 * Whether the message takes the values from where they are. */
static bool push_rows(struct fixture *f, struct rbt_batch *batch, uint64_t sequence)
{
    static uint64_t keys[LONG];
    struct rbt_driver_call call = {.event = {.kind = RBT_SHARD_PUSH,
                                             .worker = WORKER,
                                             .sequence = sequence,
                                             .marker = (int64_t)sequence,
                                             .batches = batch,
                                             .batch_count = 1}};
    rbt_caller_start(&f->caller, &call, 1);
    perform(f);
    assert_int_equal(call.reply.status, RBT_OK);
    const struct port *port = &f->ports[0];
    assert_true(port->first < port->end);
    struct rbt_block *block = port->wire[port->first];
    const bool stays = block->tail == batch->values;
    rbt_block_own(block); /* as if it had been sent: all of it lies side by side */
    struct rbt_wire_cursor cursor = {block->data + RBT_FRAME_HEADER, block->data + block->bytes};
    struct rbt_wire_push push;
    struct rbt_wire_view view;
    assert_ok(rbt_wire_get_push(&cursor, &push));
    assert_ok(rbt_wire_rows_get(&cursor.at, cursor.end, &view));
    assert_int_equal(view.count, LONG);
    assert_ok(rbt_wire_view_keys(&view, keys));
    const float *values = rbt_wire_view_raw(&view);
    assert_non_null(values);
    for (uint32_t i = 0; i < LONG; i++) {
        assert_true(values[i] == (float)keys[i]);
    }
    assert_int_equal(shard_gets(f, 0, RBT_FRAME_PUSH), sequence);
    return stays;
}

/* With several shards each gets its rows from among those of the others, and however many they are
 * they cannot be sent from where they are. */
static void long_updates_that_lie_apart_are_gathered(void **state)
{
    struct fixture *f = *state;
    static uint64_t keys[SHARDS * LONG];
    static float values[SHARDS * LONG];
    static uint32_t positions[LONG];
    for (uint32_t i = 0; i < SHARDS * LONG; i++) {
        keys[i] = i;
        values[i] = (float)i;
    }
    for (uint32_t i = 0; i < LONG; i++) {
        positions[i] = SHARDS * i;
    }
    begin(f);
    struct rbt_batch batch = {.count = LONG, .keys = keys, .values = values};
    assert_true(push_rows(f, &batch, 2));
    batch.positions = positions;
    assert_false(push_rows(f, &batch, 3));
}

/* --- Questions ------------------------------------------------------------------------------- */

static void a_question_is_answered_with_done(void **state)
{
    struct fixture *f = *state;
    static _Alignas(8) char message[RBT_WIRE_SHORT_MAX];
    struct rbt_wire_done told = {.figures = {0, 6}};
    struct rbt_wire_done done = {0};
    struct rbt_block *block = rbt_block_create(RBT_WIRE_RESET_BYTES);
    assert_non_null(block);
    block->bytes = RBT_WIRE_RESET_BYTES;
    begin(f);
    const struct rbt_frame header = {.kind = RBT_FRAME_STATS, .worker = WORKER};
    rbt_caller_ask(&f->caller, 1, block, header, &done);
    perform(f);
    assert_false(rbt_caller_is_answered(&f->caller));
    const size_t bytes = rbt_wire_put_done(message, &told);
    deliver(f, 1, message, bytes,
            (struct rbt_frame){.kind = RBT_FRAME_DONE, .id = shard_gets(f, 1, RBT_FRAME_STATS)});
    assert_true(rbt_caller_is_answered(&f->caller));
    assert_int_equal(done.figures[1], 6);
}

/* A new run forgets what was asked for, and counts from 1 again. */
static void a_new_run_begins_anew(void **state)
{
    struct fixture *f = *state;
    begin(f);
    start_pull(f, ROWS, 1, 9);
    const uint64_t old = shard_gets_pull(f, 0, 1);
    rbt_caller_reset(&f->caller);
    perform(f);
    assert_true(rbt_caller_is_answered(&f->caller));
    assert_true(rbt_caller_is_drained(&f->caller));
    shard_answers(f, 0, old, 7, 4);
    assert_int_equal(f->caller.streams[0].news.floor, 0);
    start_push(f, 1);
    assert_int_equal(shard_gets(f, 0, RBT_FRAME_PUSH), 1);
    assert_int_equal(rbt_caller_heard(&f->caller), 0);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(a_pull_ends_with_its_last_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pull_survives_a_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(a_worker_waits_for_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_shard_is_a_failure_after_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_stops_a_worker_that_pushes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_coordinator_knows_more, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_answer_is_a_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(eager_rows_are_asked_for_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_expected_is_asked_for_once, setup, teardown),
        cmocka_unit_test_setup_teardown(early_rows_are_taken_once, setup, teardown),
        cmocka_unit_test_setup_teardown(early_rows_wait_for_the_slowest_shard, setup, teardown),
        cmocka_unit_test_setup_teardown(placed_rows_are_taken_as_they_lie, setup, teardown),
        cmocka_unit_test_setup_teardown(long_updates_that_lie_apart_are_gathered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_question_is_answered_with_done, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_run_begins_anew, setup, teardown),
    };
    return cmocka_run_group_tests_name("proto/caller", list, NULL, NULL);
}
