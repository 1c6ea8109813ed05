/* proto/job_shard_rig.h - for tests: a job shard that is handed messages, what it says to whom, and
 * a shard that is used directly, to compare. Threads: the test's. */
#ifndef RUBATO_PROTO_JOB_SHARD_RIG_H
#define RUBATO_PROTO_JOB_SHARD_RIG_H

#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "core/gate.h"
#include "core/shard_event.h"
#include "proto/job_shard.h"
#include "store/shard.h"

enum { SESSIONS = 4, HEARD_MAX = 4096, ROOM = 1 << 17, KEYS = 20 };

/* A connection, and what it has heard. */
struct ear {
    struct rbt_session session;
    struct rbt_block *heard[HEARD_MAX];
    uint32_t count;
    uint32_t next; /* that was not looked at */
};

struct fixture {
    rbt_job_shard *job_shard;
    rbt_shard *shard; /* the same, without a job shard */
    struct rbt_shard_effect effects[65];
    struct ear ears[SESSIONS]; /* workers 0 and 1, a process, a reader */
    _Alignas(8) char message[ROOM];
    struct rbt_frame frame;
};

static inline void hear(void *context, struct rbt_block *block)
{
    struct ear *ear = context;
    assert_true(ear->count < HEARD_MAX);
    rbt_block_ref(block);
    ear->heard[ear->count++] = block;
}

static rbt_time host_time; /* the job shard's, which goes when the test says so */

static inline int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    const struct rbt_job_shard_options options = {
        .job = 5, .worker_count = 2, .table_max = 4, .shards_here = 2};
    host_time = 0;
    const struct rbt_shard_options shard = {.worker_count = 2, .table_max = 4, .parked_max = 64};
    assert_ok(rbt_job_shard_create(&options, &f->job_shard));
    assert_ok(rbt_shard_create(&shard, &f->shard));
    for (uint32_t i = 0; i < SESSIONS; i++) {
        f->ears[i].session = (struct rbt_session){.worker = i < 2 ? i : RBT_FRAME_NOBODY,
                                                  .is_reader = i == 3,
                                                  .send = hear,
                                                  .context = &f->ears[i]};
    }
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        rbt_job_shard_forget(f->job_shard, &f->ears[i].session);
        for (uint32_t k = 0; k < f->ears[i].count; k++) {
            rbt_block_unref(f->ears[i].heard[k]);
        }
    }
    rbt_job_shard_destroy(f->job_shard);
    rbt_shard_destroy(f->shard);
    test_free(f);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* Completes the message in f->message. */
static inline void finish(struct fixture *f, uint16_t kind, uint32_t worker, uint64_t id,
                          size_t bytes)
{
    rbt_wire_close(f->message, (struct rbt_frame){.kind = kind, .worker = worker, .id = id}, bytes);
    assert_ok(rbt_frame_get(f->message, ROOM, &f->frame));
}

static inline rbt_status deliver(struct fixture *f, uint32_t from)
{
    return rbt_job_shard_receive(f->job_shard, &f->ears[from].session, &f->frame,
                                 f->message + RBT_FRAME_HEADER, host_time);
}

static inline struct rbt_spec table_of(uint32_t number, rbt_layout layout, int64_t staleness)
{
    struct rbt_spec table = {.number = number,
                             .type = RBT_I64,
                             .layout = layout,
                             .width = layout == RBT_SPARSE ? 100 : 2,
                             .staleness = staleness};
    (void)snprintf(table.name, sizeof table.name, "t%u", number);
    return table;
}

static inline void make_table(struct fixture *f, const struct rbt_spec *table)
{
    finish(f, RBT_FRAME_TABLE, RBT_FRAME_NOBODY, 9, rbt_wire_put_table(f->message, table));
}

static inline void make_empty(struct fixture *f, uint16_t kind, uint32_t worker, uint64_t id)
{
    finish(f, kind, worker, id, RBT_FRAME_HEADER);
}

static inline const uint64_t *some_keys(uint64_t first, uint64_t step)
{
    static uint64_t keys[KEYS];
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = first + i * step;
    }
    return keys;
}

static inline struct rbt_wire_rows dense_rows(const uint64_t *keys, const int64_t *values,
                                              size_t count)
{
    return (struct rbt_wire_rows){.table = 0,
                                  .count = count,
                                  .keys = keys,
                                  .values = values,
                                  .element_size = 8,
                                  .width = 2,
                                  .compression = RBT_COMPRESSION_ZEROS};
}

static inline void make_push(struct fixture *f, uint32_t worker, uint64_t id,
                             struct rbt_wire_push push, const struct rbt_wire_rows *rows)
{
    push.range_last = push.range_last == 0 ? UINT64_MAX : push.range_last;
    size_t bytes = rbt_wire_put_push(f->message, &push);
    for (uint32_t i = 0; i < push.batch_count; i++) {
        bytes += rbt_wire_rows_put(f->message + bytes, &rows[i], NULL);
    }
    finish(f, RBT_FRAME_PUSH, worker, id, bytes);
}

static inline void make_pull(struct fixture *f, uint32_t worker, uint64_t id,
                             struct rbt_wire_pull pull, const struct rbt_wire_rows *rows)
{
    const size_t bytes = rbt_wire_put_pull(f->message, &pull);
    finish(f, RBT_FRAME_PULL, worker, id,
           bytes + rbt_wire_rows_put(f->message + bytes, rows, NULL));
}

static inline void make_scan(struct fixture *f, uint32_t worker, struct rbt_wire_scan scan)
{
    finish(f, RBT_FRAME_SCAN, worker, 77, rbt_wire_put_scan(f->message, &scan));
}

static inline void make_list(struct fixture *f, uint32_t worker, const uint64_t *keys, size_t count)
{
    const struct rbt_wire_rows rows = {
        .count = count, .keys = keys, .list = rbt_wire_list_name(keys, NULL, count)};
    finish(f, RBT_FRAME_LIST, worker, 0,
           RBT_WIRE_LIST_BYTES + rbt_wire_rows_put(f->message + RBT_WIRE_LIST_BYTES, &rows, NULL));
}

/* The next message that a session has heard, which must be there. */
static inline struct rbt_wire_cursor hear_next(struct ear *ear, uint16_t kind,
                                               struct rbt_frame *frame)
{
    assert_true(ear->next < ear->count);
    const struct rbt_block *block = ear->heard[ear->next++];
    struct rbt_frame own;
    frame = frame == NULL ? &own : frame;
    assert_ok(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, frame));
    assert_int_equal(frame->kind, kind);
    assert_int_equal(frame->length + RBT_FRAME_HEADER, block->bytes);
    return (struct rbt_wire_cursor){block->data + RBT_FRAME_HEADER, block->data + block->bytes};
}

static inline struct rbt_wire_done hear_done(struct ear *ear)
{
    struct rbt_wire_done done;
    struct rbt_wire_cursor body = hear_next(ear, RBT_FRAME_DONE, NULL);
    assert_ok(rbt_wire_get_done(&body, &done));
    return done;
}

static inline struct rbt_wire_news hear_ack(struct ear *ear, uint16_t flags)
{
    struct rbt_wire_news news;
    struct rbt_frame frame;
    struct rbt_wire_cursor body = hear_next(ear, RBT_FRAME_ACK, &frame);
    assert_ok(rbt_wire_get_news(&body, &news));
    assert_int_equal(frame.flags, flags);
    return news;
}

static inline struct rbt_wire_answer hear_rows(struct ear *ear, uint64_t id,
                                               struct rbt_wire_view *view)
{
    struct rbt_wire_answer answer;
    struct rbt_frame frame;
    struct rbt_wire_cursor body = hear_next(ear, RBT_FRAME_ROWS, &frame);
    assert_int_equal(frame.id, id);
    assert_ok(rbt_wire_get_answer(&body, &answer));
    assert_ok(rbt_wire_rows_get(&body.at, body.end, view));
    assert_ok(rbt_wire_get_end(&body));
    return answer;
}

static inline void assert_silent(const struct fixture *f)
{
    for (uint32_t i = 0; i < SESSIONS; i++) {
        assert_int_equal(f->ears[i].next, f->ears[i].count);
    }
}

/* Opens table 0 (dense) and 1 (sparse) with this staleness and begins run 1. */
static inline void begin(struct fixture *f, int64_t staleness)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct rbt_spec told = table_of(i, i == 0 ? RBT_DENSE : RBT_SPARSE, staleness);
        make_table(f, &told);
        assert_ok(deliver(f, 2));
        assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
        const struct rbt_spec spec = {
            .type = RBT_I64, .layout = told.layout, .width = told.width, .staleness = staleness};
        const struct rbt_shard_event event = {.kind = RBT_SHARD_TABLE, .table = i, .spec = &spec};
        struct rbt_shard_outbox out = {.effects = f->effects};
        rbt_shard_step(f->shard, &event, &out);
        assert_ok(out.status);
    }
    make_empty(f, RBT_FRAME_RESET, RBT_FRAME_NOBODY, 1);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
}

/* Pushes one dense batch, to both; `marker` ends the clock. */
static inline void push_dense(struct fixture *f, uint32_t worker, uint64_t id, int64_t clock,
                              bool ends)
{
    int64_t values[2 * KEYS];
    uint64_t keys[KEYS];
    memcpy(keys, some_keys(worker + (uint64_t)clock, 3), sizeof keys);
    for (int64_t i = 0; i < 2 * KEYS; i++) {
        values[i] = i * (int64_t)id + worker;
    }
    const struct rbt_wire_rows rows = dense_rows(keys, values, KEYS);
    const int64_t marker = ends ? clock + 1 : RBT_MARKER_NONE;
    make_push(f, worker, id,
              (struct rbt_wire_push){.clock = clock, .marker = marker, .batch_count = 1}, &rows);
    assert_ok(deliver(f, worker));
    struct rbt_batch batch = {.count = KEYS, .keys = keys, .values = values};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = worker,
                                          .sequence = id,
                                          .clock = clock,
                                          .marker = marker,
                                          .batches = &batch,
                                          .batch_count = 1};
    struct rbt_shard_outbox out = {.effects = f->effects};
    rbt_shard_step(f->shard, &event, &out);
    assert_ok(out.status);
}

static inline void leave(struct fixture *f, uint32_t worker)
{
    make_empty(f, RBT_FRAME_LEAVE, worker, 0);
    assert_ok(deliver(f, worker));
}

/* What the shard without a job shard has for these keys. */
static inline void expect_rows(struct fixture *f, const uint64_t *keys,
                               const struct rbt_wire_view *view)
{
    int64_t values[2 * KEYS];
    struct rbt_batch batch = {.count = KEYS, .keys = keys, .values = values};
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_PULL, .need = RBT_CLOCK_ANY, .batches = &batch, .batch_count = 1};
    struct rbt_shard_outbox out = {.effects = f->effects};
    rbt_shard_step(f->shard, &event, &out);
    assert_int_equal(out.effects[0].kind, RBT_SHARD_ANSWERED);
    assert_true(view->count == KEYS && view->element_count == 2 * KEYS);
    assert_memory_equal(rbt_wire_view_raw(view), values, sizeof values);
}

#endif
