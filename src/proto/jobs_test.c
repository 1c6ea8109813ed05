/* proto/jobs_test.c - two jobs at one shard: a service and the callers of both, over connections
 * that are cut at random moments. Workers of both have the same numbers, their tables the same name
 * and rows of the same keys; a reader looks at one of them.
 *
 * The test is the carrier: a connection is two queues of messages, and what happens next is drawn
 * from a seed. Whatever is cut, every read of a job shows its own updates and all of those, the
 * shard cuts nobody whose connection was not cut, nobody connects again for another reason, and
 * when the one job is dropped the other goes on. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "core/gate.h"
#include "core/shard_event.h"
#include "proto/caller.h"
#include "proto/queue_rig.h"
#include "proto/service.h"

#define MS INT64_C(1000000)

enum { JOBS = 2, WORKERS = 2, PEERS = JOBS * WORKERS + 1, READER = PEERS - 1, CLUSTER = 11 };
enum { CLOCKS = 6, LOOKS = 10, LINES_MAX = 256, SEEDS = 300 };

static const struct rbt_control_job PLANS[JOBS] = {
    {.worker_count = WORKERS, .secret = {"of the first"}, .read_secret = {"of its readers"}},
    {.worker_count = WORKERS, .secret = {"of the second"}, .read_secret = {"of those"}}};

static const int64_t UPDATES[JOBS] = {1, 1000};

/* A connection; its place is the service's port. */
struct line {
    uint32_t peer;
    bool is_made;
    bool is_cut;     /* what was under way is lost */
    bool has_caller; /* this end has not heard of the end, nor brought it about */
    bool has_service;
    struct queue to_service;
    struct queue to_caller;
};

enum step { OPENING, RESETTING, READING, WRITING, LEAVING, DONE };

struct peer {
    uint32_t job;
    bool is_reader;
    struct rbt_wire_hello hello;
    struct rbt_caller_entry table;
    struct rbt_caller_entry *tables[1];
    struct rbt_caller_shared shared;
    struct rbt_outbox out;
    struct rbt_caller caller;
    struct line *line; /* or NULL */
    uint64_t cuts;     /* of its connections, by the test */
    enum step step;
    bool is_under_way; /* what the step asks for */
    int64_t clock;
    int64_t seen;
    int64_t value;
    uint64_t key;
    struct rbt_batch batch;
    struct rbt_driver_call call;
    struct rbt_wire_done done;
};

struct shard {
    rbt_service *service;
    struct rbt_outbox out;
    struct peer peers[PEERS];
    struct line lines[LINES_MAX];
    uint32_t line_count;
    uint32_t cuts_left;
    bool is_dropped[JOBS];
    rbt_time now;
    struct rbt_rng rng;
};

static uint64_t below(struct shard *s, uint64_t limit)
{
    return rbt_rng_below(&s->rng, limit);
}

/* --- What machines want done ----------------------------------------------------------------- */

static void step_service(struct shard *s, const struct rbt_service_event *event)
{
    rbt_service_step(s->service, event, s->now, &s->out);
    for (uint32_t i = 0; i < s->out.count; i++) {
        const struct rbt_out *item = &s->out.items[i];
        struct line *line = &s->lines[item->port];
        assert_true(line->has_service);
        if (item->kind == RBT_OUT_CUT) {
            const uint32_t job = s->peers[line->peer].job;
            assert_true(line->is_cut || !line->has_caller || s->is_dropped[job]);
            line->has_service = false;
        } else if (line->is_cut || !line->has_caller) {
            rbt_block_unref(item->block);
        } else {
            push(&line->to_caller, item->block);
        }
    }
    rbt_outbox_clear(&s->out);
}

static void perform(struct shard *s, struct peer *peer)
{
    for (uint32_t i = 0; i < peer->out.count; i++) {
        const struct rbt_out *item = &peer->out.items[i];
        if (item->kind == RBT_OUT_CONNECT) {
            assert_in_range(s->line_count, 0, LINES_MAX - 1);
            peer->line = &s->lines[s->line_count++];
            *peer->line = (struct line){
                .peer = (uint32_t)(peer - s->peers), .has_caller = true, .has_service = true};
        } else if (item->kind == RBT_OUT_CUT) {
            peer->line->has_caller = false;
            peer->line = NULL;
        } else if (peer->line->is_cut || !peer->line->has_service) {
            rbt_block_unref(item->block);
        } else {
            push(&peer->line->to_service, item->block);
        }
    }
    rbt_outbox_clear(&peer->out);
}

static void tell(struct shard *s, struct peer *peer, const struct rbt_port_event *event)
{
    if (peer->step != DONE) { /* else its process is gone */
        rbt_caller_port(&peer->caller, event, s->now);
        perform(s, peer);
    }
}

/* --- Workers and the reader ------------------------------------------------------------------ */

/* Sends a TABLE, or a RESET. */
static void ask(struct peer *peer)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_SHORT_MAX);
    struct rbt_frame header = {.kind = RBT_FRAME_TABLE, .worker = peer->caller.worker};
    assert_non_null(block);
    if (peer->step == OPENING) {
        const struct rbt_spec table = {.name = "t",
                                       .type = RBT_I64,
                                       .layout = RBT_DENSE,
                                       .width = 1,
                                       .must_exist = peer->is_reader};
        block->bytes = rbt_wire_put_table(block->data, &table);
    } else {
        block->bytes = RBT_WIRE_RESET_BYTES;
        header.kind = RBT_FRAME_RESET;
        header.id = 1;
    }
    rbt_caller_ask(&peer->caller, 0, block, header, &peer->done);
}

/* Starts a call that reads, writes, or leaves. */
static void start(struct peer *peer)
{
    peer->value = peer->step == WRITING ? UPDATES[peer->job] : -1;
    peer->batch = (struct rbt_batch){.count = 1, .keys = &peer->key, .values = &peer->value};
    struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                    .worker = peer->caller.worker,
                                    .batches = &peer->batch,
                                    .batch_count = 1,
                                    .need = peer->is_reader ? RBT_CLOCK_ANY : peer->clock,
                                    .least = RBT_STAMP_NONE};
    if (peer->step == WRITING) {
        event.kind = RBT_SHARD_PUSH;
        event.sequence = (uint64_t)peer->clock + 1;
        event.clock = peer->clock;
        event.marker = peer->clock + 1;
    } else if (peer->step == LEAVING) {
        event.kind = RBT_SHARD_LEAVE;
        event.sequence = CLOCKS + 1;
        event.batch_count = 0;
    }
    peer->call = (struct rbt_driver_call){.event = event};
    rbt_caller_start(&peer->caller, &peer->call, 1);
}

/* A read has ended: everything of clocks before is there, nothing of this one, and nothing of the
 * other job. A reader sees whole clocks, and no fewer than before. */
static void check_read(struct peer *peer)
{
    const int64_t clock = UPDATES[peer->job] * WORKERS;
    if (!peer->is_reader) {
        assert_int_equal(peer->value, clock * peer->clock);
        return;
    }
    assert_int_equal(peer->value % clock, 0);
    assert_in_range(peer->value, peer->seen, clock * CLOCKS);
    peer->seen = peer->value;
}

/* What the peer asked for has been done: what comes next. */
static void go_on(struct peer *peer)
{
    switch (peer->step) {
    case OPENING:
        assert_int_equal(peer->done.status, RBT_OK);
        peer->step = peer->is_reader ? READING : RESETTING;
        return;
    case RESETTING:
        assert_int_equal(peer->done.status, RBT_OK);
        peer->step = READING;
        return;
    case READING:
        rbt_caller_finish(&peer->caller, &peer->call, 1);
        assert_int_equal(peer->call.reply.status, RBT_OK);
        check_read(peer);
        if (peer->is_reader) {
            peer->step = ++peer->clock == LOOKS ? DONE : READING;
        } else {
            peer->step = peer->clock == CLOCKS ? LEAVING : WRITING;
        }
        return;
    case WRITING:
        rbt_caller_finish(&peer->caller, &peer->call, 1);
        peer->clock++;
        peer->step = READING;
        return;
    case LEAVING:
        rbt_caller_finish(&peer->caller, &peer->call, 1);
        peer->step = DONE;
        return;
    case DONE:
        return;
    }
}

/* Whether there is nothing to wait for. */
static bool may_go_on(const struct peer *peer)
{
    return rbt_caller_is_answered(&peer->caller) && rbt_caller_may_go_on(&peer->caller) &&
           (peer->step != LEAVING || rbt_caller_is_drained(&peer->caller));
}

static void work(struct shard *s, struct peer *peer)
{
    if (peer->step == DONE || (peer->is_reader && s->peers[0].clock == 0)) {
        return;
    }
    assert_int_equal(peer->caller.status, RBT_OK);
    if (!peer->is_under_way) {
        peer->is_under_way = true;
        if (peer->step <= RESETTING) {
            ask(peer);
        } else {
            start(peer);
        }
        perform(s, peer);
    } else if (may_go_on(peer)) {
        peer->is_under_way = false;
        go_on(peer);
    }
    if (peer->step == DONE) { /* its process ends */
        assert_in_range(peer->caller.streams[0].cuts, 0, peer->cuts);
        if (peer->line != NULL) {
            peer->line->has_caller = false;
            peer->line = NULL;
        }
    }
}

/* The coordinator drops a job when all have left. */
static void drop(struct shard *s)
{
    for (uint32_t job = 0; job < JOBS; job++) {
        bool is_over = !s->is_dropped[job];
        for (uint32_t i = 0; i < PEERS; i++) {
            is_over = is_over && (s->peers[i].job != job || s->peers[i].step == DONE);
        }
        if (is_over) {
            s->is_dropped[job] = true;
            step_service(s, &(struct rbt_service_event){.kind = RBT_SERVICE_DROP, .drop = job + 1});
            assert_null(rbt_service_host(s->service, job + 1));
            assert_true(s->is_dropped[1 - job] || rbt_service_host(s->service, 2 - job) != NULL ||
                        s->peers[(1 - job) * WORKERS].step == OPENING);
        }
    }
}

/* --- Connections ----------------------------------------------------------------------------- */

static bool move_to_service(struct shard *s, struct line *line)
{
    struct rbt_port_event event = {.port = (uint32_t)(line - s->lines)};
    struct rbt_block *block = NULL;
    if (!line->has_service) {
        clear(&line->to_service);
        return false;
    }
    if (line->to_service.count > 0) {
        block = pop(&line->to_service, &event);
    } else if (line->is_cut || !line->has_caller) {
        line->has_service = false;
        set_down(&event);
    } else {
        return false;
    }
    step_service(s, &(struct rbt_service_event){.kind = RBT_SERVICE_PORT, .port = &event});
    step_service(s, &(struct rbt_service_event){.kind = RBT_SERVICE_TURN, .turn = event.port});
    rbt_block_unref(block);
    return true;
}

static bool move_to_caller(struct shard *s, struct line *line)
{
    struct rbt_port_event event = {.port = 0};
    struct peer *peer = &s->peers[line->peer];
    struct rbt_block *block = NULL;
    if (!line->has_caller) {
        clear(&line->to_caller);
        return false;
    }
    if (line->to_caller.count > 0) {
        block = pop(&line->to_caller, &event);
    } else if (line->is_cut || !line->has_service) {
        line->has_caller = false;
        peer->line = NULL;
        set_down(&event);
    } else {
        return false;
    }
    tell(s, peer, &event);
    rbt_block_unref(block);
    return true;
}

static void make(struct shard *s, struct line *line)
{
    const struct rbt_port_event event = {
        .kind = RBT_PORT_UP, .port = (uint32_t)(line - s->lines), .up = {.peer = "10.0.0.7:4711"}};
    const struct rbt_port_event own = {.kind = RBT_PORT_UP, .up = {.peer = "shard"}};
    line->is_made = true;
    step_service(s, &(struct rbt_service_event){.kind = RBT_SERVICE_PORT, .port = &event});
    tell(s, &s->peers[line->peer], &own);
}

/* One thing happens somewhere. False if nothing can before time passes. */
static bool move(struct shard *s)
{
    const uint32_t first = s->line_count == 0 ? 0 : (uint32_t)below(s, s->line_count);
    for (uint32_t i = 0; i < s->line_count; i++) {
        struct line *line = &s->lines[(first + i) % s->line_count];
        if (!line->is_made) {
            make(s, line);
            return true;
        }
        const bool is_open = line->has_caller && line->has_service && !line->is_cut;
        if (is_open && s->cuts_left > 0 && below(s, 8) == 0) {
            s->cuts_left--;
            s->peers[line->peer].cuts++;
            line->is_cut = true;
            clear(&line->to_service);
            clear(&line->to_caller);
            return true;
        }
        const bool is_caller_first = below(s, 2) == 0;
        if ((is_caller_first && move_to_caller(s, line)) || move_to_service(s, line) ||
            move_to_caller(s, line)) {
            return true;
        }
    }
    return false;
}

static void tick(struct shard *s)
{
    if (rbt_service_deadline(s->service) <= s->now) {
        step_service(s, &(struct rbt_service_event){.kind = RBT_SERVICE_TIME});
    }
    for (uint32_t i = 0; i < PEERS; i++) {
        struct peer *peer = &s->peers[i];
        if (peer->step != DONE && rbt_caller_deadline(&peer->caller) <= s->now) {
            rbt_caller_tick(&peer->caller, s->now);
            perform(s, peer);
        }
    }
}

/* Time goes on to where something is due. */
static void wait(struct shard *s)
{
    rbt_time due = rbt_service_deadline(s->service);
    for (uint32_t i = 0; i < PEERS; i++) {
        const rbt_time deadline = rbt_caller_deadline(&s->peers[i].caller);
        due = s->peers[i].step != DONE && deadline < due ? deadline : due;
    }
    s->now = due > s->now && due != RBT_TIME_NEVER ? due : s->now;
    tick(s);
}

/* --- A schedule ------------------------------------------------------------------------------ */

static void begin_peer(struct shard *s, uint32_t i)
{
    struct peer *peer = &s->peers[i];
    const uint32_t worker = i == READER ? RBT_FRAME_NOBODY : i % WORKERS;
    *peer = (struct peer){.job = i == READER ? 0 : i / WORKERS,
                          .is_reader = i == READER,
                          .table = {.spec = {.type = RBT_I64, .width = 1}},
                          .key = 7};
    const struct rbt_control_job *plan = &PLANS[peer->job];
    peer->hello =
        (struct rbt_wire_hello){.cluster = CLUSTER,
                                .job = peer->job + 1,
                                .worker_count = WORKERS,
                                .is_reader = peer->is_reader,
                                .secret = peer->is_reader ? plan->read_secret : plan->secret,
                                .node = "a peer"};
    const struct rbt_stream_options stream = {.address = "shard",
                                              .hello = &peer->hello,
                                              .worker = worker,
                                              .cut_max = 3000 * MS,
                                              .silence_max = 10000 * MS};
    peer->tables[0] = &peer->table;
    peer->shared = (struct rbt_caller_shared){.shard_count = 1, .tables = peer->tables};
    const struct rbt_caller_options options = {
        .shared = &peer->shared, .streams = &stream, .worker = worker, .out = &peer->out};
    assert_ok(rbt_caller_init(&peer->caller, &options));
}

static void begin(struct shard *s, uint64_t seed)
{
    const struct rbt_service_options options = {.address = "shard"};
    memset(s, 0, sizeof *s);
    s->now = 1000 * MS;
    s->cuts_left = (uint32_t)(seed % 40);
    rbt_rng_init(&s->rng, seed, 0, 0);
    assert_ok(rbt_service_create(&options, &s->service));
    struct rbt_service_event event = {.kind = RBT_SERVICE_NAME, .name = {.cluster = CLUSTER}};
    step_service(s, &event);
    for (uint32_t job = 0; job < JOBS; job++) {
        event = (struct rbt_service_event){.kind = RBT_SERVICE_ADMIT,
                                           .admit = {.number = job + 1, .job = &PLANS[job]}};
        step_service(s, &event);
    }
    for (uint32_t i = 0; i < PEERS; i++) {
        begin_peer(s, i);
    }
}

static void end(struct shard *s)
{
    while (move(s)) { /* both sides hear of all ends */
    }
    assert_int_equal(rbt_service_strangers(s->service), 0);
    for (uint32_t i = 0; i < s->line_count; i++) {
        assert_false(s->lines[i].has_service);
        clear(&s->lines[i].to_service);
        clear(&s->lines[i].to_caller);
    }
    for (uint32_t i = 0; i < PEERS; i++) {
        rbt_caller_deinit(&s->peers[i].caller);
        rbt_outbox_deinit(&s->peers[i].out);
    }
    rbt_outbox_deinit(&s->out);
    rbt_service_destroy(s->service);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
}

static void two_jobs_do_not_disturb_each_other(void **state)
{
    static struct shard s;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        begin(&s, seed);
        for (int i = 0; !s.is_dropped[0] || !s.is_dropped[1]; i++) {
            assert_in_range(i, 0, 100000);
            const uint32_t first = (uint32_t)below(&s, PEERS);
            for (uint32_t n = 0; n < PEERS; n++) {
                work(&s, &s.peers[(first + n) % PEERS]);
            }
            tick(&s);
            if (!move(&s)) {
                wait(&s);
            }
            drop(&s);
        }
        end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_jobs_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests_name("proto/jobs", tests, NULL, NULL);
}
