/* server/host_test.c - a host is handed messages; what it sends is compared with a shard that is
 * used directly, and whatever makes no sense is refused without harm. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "core/gate.h"
#include "core/shard_event.h"
#include "server/host.h"
#include "store/shard.h"

enum { GUESTS = 4, HEARD_MAX = 4096, ROOM = 1 << 16, KEYS = 20 };

/* A connection, and what it has heard. */
struct ear {
    struct rbt_guest guest;
    struct rbt_block *heard[HEARD_MAX];
    uint32_t count;
    uint32_t next; /* that was not looked at */
};

struct fixture {
    rbt_host *host;
    rbt_shard *shard; /* the same, without a host */
    struct rbt_shard_effect effects[65];
    struct ear ears[GUESTS]; /* workers 0 and 1, a process, a reader */
    _Alignas(8) char message[ROOM];
    struct rbt_frame frame;
};

static void hear(void *context, struct rbt_block *block)
{
    struct ear *ear = context;
    assert_true(ear->count < HEARD_MAX);
    rbt_block_ref(block);
    ear->heard[ear->count++] = block;
}

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    const struct rbt_host_options options = {.job = 5, .worker_count = 2, .table_max = 4};
    const struct rbt_shard_options shard = {
        .worker_count = 2, .table_max = 4, .range_max = 8, .parked_max = 64};
    assert_ok(rbt_host_create(&options, &f->host));
    assert_ok(rbt_shard_create(&shard, &f->shard));
    for (uint32_t i = 0; i < GUESTS; i++) {
        f->ears[i].guest = (struct rbt_guest){.worker = i < 2 ? i : RBT_FRAME_NOBODY,
                                              .is_reader = i == 3,
                                              .send = hear,
                                              .context = &f->ears[i]};
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < GUESTS; i++) {
        rbt_host_forget(f->host, &f->ears[i].guest);
        for (uint32_t k = 0; k < f->ears[i].count; k++) {
            rbt_block_unref(f->ears[i].heard[k]);
        }
    }
    rbt_host_destroy(f->host);
    rbt_shard_destroy(f->shard);
    test_free(f);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* --- Sending --------------------------------------------------------------------------------- */

/* Completes the message in f->message. */
static void finish(struct fixture *f, uint16_t kind, uint32_t worker, uint64_t id, size_t bytes)
{
    rbt_wire_close(f->message, (struct rbt_frame){.kind = kind, .worker = worker, .id = id}, bytes);
    assert_ok(rbt_frame_get(f->message, ROOM, &f->frame));
}

static rbt_status deliver(struct fixture *f, uint32_t from)
{
    return rbt_host_receive(f->host, &f->ears[from].guest, &f->frame,
                            f->message + RBT_FRAME_HEADER);
}

static struct rbt_wire_table table_of(uint32_t number, rbt_layout layout, int64_t staleness)
{
    struct rbt_wire_table table = {.table = number,
                                   .type = RBT_I64,
                                   .layout = layout,
                                   .width = layout == RBT_SPARSE ? 100 : 2,
                                   .staleness = staleness};
    (void)snprintf(table.name, sizeof table.name, "t%u", number);
    return table;
}

static void make_table(struct fixture *f, const struct rbt_wire_table *table)
{
    finish(f, RBT_FRAME_TABLE, RBT_FRAME_NOBODY, 9, rbt_wire_put_table(f->message, table));
}

static void make_empty(struct fixture *f, uint16_t kind, uint32_t worker, uint64_t id)
{
    finish(f, kind, worker, id, RBT_FRAME_HEADER);
}

static const uint64_t *some_keys(uint64_t first, uint64_t step)
{
    static uint64_t keys[KEYS];
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = first + i * step;
    }
    return keys;
}

static struct rbt_wire_rows dense_rows(const uint64_t *keys, const int64_t *values, size_t count)
{
    return (struct rbt_wire_rows){.table = 0,
                                  .count = count,
                                  .keys = keys,
                                  .values = values,
                                  .element_size = 8,
                                  .width = 2,
                                  .compression = RBT_COMPRESSION_ZEROS};
}

static void make_push(struct fixture *f, uint32_t worker, uint64_t id, struct rbt_wire_push push,
                      const struct rbt_wire_rows *rows)
{
    push.range_last = push.range_last == 0 ? UINT64_MAX : push.range_last;
    size_t bytes = rbt_wire_put_push(f->message, &push);
    for (uint32_t i = 0; i < push.batch_count; i++) {
        bytes += rbt_wire_rows_put(f->message + bytes, &rows[i], NULL);
    }
    finish(f, RBT_FRAME_PUSH, worker, id, bytes);
}

static void make_pull(struct fixture *f, uint32_t worker, uint64_t id, struct rbt_wire_pull pull,
                      const struct rbt_wire_rows *rows)
{
    const size_t bytes = rbt_wire_put_pull(f->message, &pull);
    finish(f, RBT_FRAME_PULL, worker, id,
           bytes + rbt_wire_rows_put(f->message + bytes, rows, NULL));
}

static void make_scan(struct fixture *f, uint32_t worker, struct rbt_wire_scan scan)
{
    finish(f, RBT_FRAME_SCAN, worker, 77, rbt_wire_put_scan(f->message, &scan));
}

static void make_list(struct fixture *f, uint32_t worker, const uint64_t *keys, size_t count)
{
    const struct rbt_wire_rows rows = {
        .count = count, .keys = keys, .list = rbt_wire_list_name(keys, NULL, count)};
    finish(f, RBT_FRAME_LIST, worker, 0,
           RBT_WIRE_LIST_BYTES + rbt_wire_rows_put(f->message + RBT_WIRE_LIST_BYTES, &rows, NULL));
}

/* --- Hearing --------------------------------------------------------------------------------- */

/* The next message that a guest has heard, which must be there. */
static struct rbt_wire_cursor hear_next(struct ear *ear, uint16_t kind, struct rbt_frame *frame)
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

static struct rbt_wire_done hear_done(struct ear *ear)
{
    struct rbt_wire_done done;
    struct rbt_wire_cursor body = hear_next(ear, RBT_FRAME_DONE, NULL);
    assert_ok(rbt_wire_get_done(&body, &done));
    return done;
}

static struct rbt_wire_news hear_ack(struct ear *ear, uint16_t flags)
{
    struct rbt_wire_news news;
    struct rbt_frame frame;
    struct rbt_wire_cursor body = hear_next(ear, RBT_FRAME_ACK, &frame);
    assert_ok(rbt_wire_get_news(&body, &news));
    assert_int_equal(frame.flags, flags);
    return news;
}

static struct rbt_wire_answer hear_rows(struct ear *ear, uint64_t id, struct rbt_wire_view *view)
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

static void assert_silent(const struct fixture *f)
{
    for (uint32_t i = 0; i < GUESTS; i++) {
        assert_int_equal(f->ears[i].next, f->ears[i].count);
    }
}

/* Opens table 0 (dense) and 1 (sparse) with this staleness and begins run 1. */
static void begin(struct fixture *f, int64_t staleness)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct rbt_wire_table told = table_of(i, i == 0 ? RBT_DENSE : RBT_SPARSE, staleness);
        make_table(f, &told);
        assert_ok(deliver(f, 2));
        assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
        const struct rbt_shard_table schema = {.type = RBT_I64,
                                               .layout = (rbt_layout)told.layout,
                                               .width = told.width,
                                               .staleness = staleness};
        const struct rbt_shard_event event = {
            .kind = RBT_SHARD_TABLE, .table = i, .schema = &schema};
        struct rbt_shard_outbox out = {.effects = f->effects};
        rbt_shard_step(f->shard, &event, &out);
        assert_ok(out.status);
    }
    make_empty(f, RBT_FRAME_RESET, RBT_FRAME_NOBODY, 1);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
}

/* Pushes one dense batch, to both; `marker` ends the clock. */
static void push_dense(struct fixture *f, uint32_t worker, uint64_t id, int64_t clock, bool ends)
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
                                          .range = RBT_RANGE_ALL,
                                          .clock = clock,
                                          .marker = marker,
                                          .batches = &batch,
                                          .batch_count = 1};
    struct rbt_shard_outbox out = {.effects = f->effects};
    rbt_shard_step(f->shard, &event, &out);
    assert_ok(out.status);
}

static void leave(struct fixture *f, uint32_t worker)
{
    make_empty(f, RBT_FRAME_LEAVE, worker, 0);
    assert_ok(deliver(f, worker));
}

/* What the shard without a host has for these keys. */
static void expect_rows(struct fixture *f, const uint64_t *keys, const struct rbt_wire_view *view)
{
    int64_t values[2 * KEYS];
    struct rbt_batch batch = {.count = KEYS, .keys = keys, .values = values};
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_PULL, .need = RBT_CLOCK_ANY, .batches = &batch, .batch_count = 1};
    struct rbt_shard_outbox out = {.effects = f->effects};
    rbt_shard_step(f->shard, &event, &out);
    assert_int_equal(out.effects[0].kind, RBT_SHARD_ANSWERED);
    assert_int_equal(view->count, KEYS);
    assert_int_equal(view->element_count, 2 * KEYS);
    assert_memory_equal(rbt_wire_view_raw(view), values, sizeof values);
}

/* --- Tests ----------------------------------------------------------------------------------- */

static void test_dense_rows_are_the_shards(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin(f, 1);
    for (int64_t clock = 0; clock < 5; clock++) {
        for (uint32_t worker = 0; worker < 2; worker++) {
            push_dense(f, worker, (uint64_t)clock + 1, clock, true);
            rbt_host_settle(f->host, &f->ears[worker].guest);
            assert_int_equal(hear_ack(&f->ears[worker], 0).arrived, clock + 1);
        }
        const uint64_t *keys = some_keys(0, 2);
        const struct rbt_wire_rows asked = dense_rows(keys, NULL, KEYS);
        make_pull(f, 1, 50, (struct rbt_wire_pull){.need = clock + 1, .applied_count = 2}, &asked);
        assert_ok(deliver(f, 1));
        const struct rbt_wire_answer answer = hear_rows(&f->ears[1], 50, &view);
        assert_int_equal(answer.applied_count, 2);
        assert_int_equal(answer.applied[0], clock + 1);
        assert_int_equal(answer.news.floor, clock + 1);
        assert_false(answer.was_parked);
        expect_rows(f, some_keys(0, 2), &view);
    }
    rbt_host_settle(f->host, &f->ears[0].guest);
    assert_silent(f); /* nothing is owed twice */
}

static void test_sparse_rows(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin(f, 0);
    const uint64_t keys[2] = {3, 9};
    const uint32_t offsets[3] = {0, 2, 3};
    const uint32_t elements[3] = {5, 99, 7};
    const int64_t values[3] = {50, 990, 70};
    struct rbt_wire_rows rows = {.table = 1,
                                 .count = 2,
                                 .keys = keys,
                                 .values = values,
                                 .element_size = 8,
                                 .width = 100,
                                 .offsets = offsets,
                                 .elements = elements};
    const struct rbt_wire_push push = {.marker = 1, .batch_count = 1};
    make_push(f, 0, 1, push, &rows);
    assert_ok(deliver(f, 0));
    make_push(f, 1, 1, push, &rows);
    assert_ok(deliver(f, 1));
    const struct rbt_wire_rows asked = {
        .table = 1, .count = 1, .keys = keys, .element_size = 8, .width = 100};
    make_pull(f, 0, 2, (struct rbt_wire_pull){.need = 1}, &asked);
    assert_ok(deliver(f, 0));
    (void)hear_rows(&f->ears[0], 2, &view);
    assert_int_equal(view.element_count, 2);
    assert_int_equal(view.elements[1], 99);
    assert_int_equal(((const int64_t *)rbt_wire_view_raw(&view))[1], 1980);
    const uint64_t nowhere = 1000;
    const struct rbt_wire_rows empty = {
        .table = 1, .count = 1, .keys = &nowhere, .element_size = 8, .width = 100};
    make_pull(f, 0, 3, (struct rbt_wire_pull){.need = 1}, &empty);
    assert_ok(deliver(f, 0));
    (void)hear_rows(&f->ears[0], 3, &view);
    assert_int_equal(view.element_count, 0);
    make_pull(f, 0, 4, (struct rbt_wire_pull){.need = 1}, &rows); /* with values */
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "cannot be sent");
    struct rbt_wire_rows two = asked;
    two.count = 2;
    make_pull(f, 0, 4, (struct rbt_wire_pull){.need = 1}, &two);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "cannot be sent");
    const uint32_t beyond[3] = {5, 100, 7};
    rows.elements = beyond;
    make_push(f, 0, 2, (struct rbt_wire_push){.clock = 1, .marker = -1, .batch_count = 1}, &rows);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "another shape");
}

static void test_named_lists(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin(f, 0);
    push_dense(f, 0, 1, 0, true);
    push_dense(f, 1, 1, 0, true);
    uint64_t keys[KEYS];
    memcpy(keys, some_keys(0, 3), sizeof keys);
    struct rbt_wire_rows asked = dense_rows(NULL, NULL, KEYS);
    asked.list = rbt_wire_list_name(keys, NULL, KEYS);
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 1}, &asked);
    assert_fails(deliver(f, 0), RBT_E_NOTFOUND, "was not sent before");
    for (int i = 0; i < 3; i++) { /* more than once does no harm */
        make_list(f, 0, keys, KEYS);
        assert_ok(deliver(f, 0));
    }
    for (int i = 0; i < 3; i++) {
        make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 1}, &asked);
        assert_ok(deliver(f, 0));
        (void)hear_rows(&f->ears[0], 1, &view);
        expect_rows(f, keys, &view);
    }
    make_pull(f, 1, 1, (struct rbt_wire_pull){.need = 1}, &asked); /* another's name */
    assert_fails(deliver(f, 1), RBT_E_NOTFOUND, "was not sent before");
    asked.count--;
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 1}, &asked);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "named as one of");
    make_list(f, 1, keys, KEYS);
    f->message[RBT_FRAME_HEADER + 8] ^= 1; /* its name */
    assert_fails(deliver(f, 1), RBT_E_PROTOCOL, "another name");
    rbt_host_forget(f->host, &f->ears[0].guest);
    asked.count++;
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 1}, &asked);
    assert_fails(deliver(f, 0), RBT_E_NOTFOUND, "was not sent before");
}

/* The same list in two batches of one message, which both create its rows. */
static void test_several_batches_of_one_table(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin(f, 0);
    int64_t values[2 * KEYS];
    uint64_t keys[KEYS];
    memcpy(keys, some_keys(0, 5), sizeof keys);
    for (int64_t i = 0; i < 2 * KEYS; i++) {
        values[i] = i + 1;
    }
    make_list(f, 0, keys, KEYS);
    assert_ok(deliver(f, 0));
    struct rbt_wire_rows rows[3] = {dense_rows(NULL, values, KEYS), dense_rows(keys, values, KEYS),
                                    dense_rows(NULL, values, KEYS)};
    rows[0].list = rows[2].list = rbt_wire_list_name(keys, NULL, KEYS);
    make_push(f, 0, 1, (struct rbt_wire_push){.marker = 1, .batch_count = 3}, rows);
    assert_ok(deliver(f, 0));
    leave(f, 1);
    const struct rbt_wire_rows asked = dense_rows(keys, NULL, KEYS);
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 1}, &asked);
    assert_ok(deliver(f, 0));
    (void)hear_rows(&f->ears[0], 1, &view);
    const int64_t *got = rbt_wire_view_raw(&view);
    for (int i = 0; i < 2 * KEYS; i++) {
        assert_int_equal(got[i], 3 * values[i]);
    }
}

/* A message without rows, which says so with a batch. */
static void test_empty_batches(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    struct rbt_wire_rows rows[2] = {dense_rows(some_keys(0, 1), NULL, 0),
                                    dense_rows(some_keys(0, 1), NULL, 0)};
    rows[1].table = 1;
    make_push(f, 0, 1, (struct rbt_wire_push){.marker = 1, .batch_count = 2}, rows);
    assert_ok(deliver(f, 0));
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 0}, &rows[0]);
    assert_ok(deliver(f, 0));
    struct rbt_wire_view view;
    (void)hear_rows(&f->ears[0], 1, &view);
    assert_int_equal(view.count, 0);
    leave(f, 0);
    leave(f, 1);
}

static void test_parked_reads(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin(f, 0);
    const struct rbt_wire_rows asked = dense_rows(some_keys(0, 2), NULL, KEYS);
    for (uint64_t i = 0; i < 500; i++) { /* more than there are slots */
        make_pull(f, 1, 100 + i, (struct rbt_wire_pull){.need = 1 + (int64_t)(i % 2)}, &asked);
        assert_ok(deliver(f, 1));
    }
    make_scan(f, 1, (struct rbt_wire_scan){.need = 1, .range_last = UINT64_MAX, .capacity = 5});
    assert_ok(deliver(f, 1));
    push_dense(f, 0, 1, 0, true);
    assert_silent(f);
    push_dense(f, 1, 1, 0, true);
    assert_int_equal(f->ears[1].count, 251);
    while (f->ears[1].next < 250) {
        const uint64_t id = 100 + 2 * f->ears[1].next;
        assert_true(hear_rows(&f->ears[1], id, &view).was_parked);
        expect_rows(f, some_keys(0, 2), &view);
    }
    assert_int_equal(hear_rows(&f->ears[1], 77, &view).scan_count, 2 * KEYS);
    assert_int_equal(view.count, 5);
    rbt_host_settle(f->host, &f->ears[1].guest);
    assert_silent(f); /* the answers have acknowledged */
    push_dense(f, 1, 2, 1, true);
    push_dense(f, 0, 2, 1, true);
    assert_int_equal(f->ears[1].count, 501);
    f->ears[1].next = 501;
    rbt_host_settle(f->host, &f->ears[0].guest);
    assert_int_equal(hear_ack(&f->ears[0], 0).arrived, 2);
}

/* All slots wait for a clock that is far away; others are answered all the same. */
static void test_far_requests_hold_nobody_up(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin(f, 0);
    const struct rbt_wire_rows asked = dense_rows(some_keys(0, 2), NULL, KEYS);
    for (uint64_t i = 0; i < 400; i++) {
        make_pull(f, 1, i, (struct rbt_wire_pull){.need = INT64_C(1) << 62}, &asked);
        assert_ok(deliver(f, 1));
    }
    make_pull(f, 0, 7, (struct rbt_wire_pull){.need = 1}, &asked);
    assert_ok(deliver(f, 0));
    push_dense(f, 1, 1, 0, true);
    push_dense(f, 0, 1, 0, true);
    assert_true(hear_rows(&f->ears[0], 7, &view).was_parked);
    leave(f, 0);
    leave(f, 1);
    assert_int_equal(f->ears[1].count, 400);
}

static void test_forgotten_while_it_waits(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    make_list(f, 1, some_keys(0, 2), KEYS);
    assert_ok(deliver(f, 1));
    struct rbt_wire_rows asked = dense_rows(NULL, NULL, KEYS);
    asked.list = rbt_wire_list_name(some_keys(0, 2), NULL, KEYS);
    for (uint64_t i = 0; i < 300; i++) {
        asked.keys = i % 2 == 0 ? NULL : some_keys(1, 2);
        make_pull(f, 1, i, (struct rbt_wire_pull){.need = 1}, &asked);
        assert_ok(deliver(f, 1));
    }
    rbt_host_forget(f->host, &f->ears[1].guest);
    push_dense(f, 0, 1, 0, true);
    push_dense(f, 1, 1, 0, true);
    assert_silent(f);
    asked.keys = some_keys(0, 2); /* it has come back */
    make_pull(f, 1, 1, (struct rbt_wire_pull){.need = 2}, &asked);
    assert_ok(deliver(f, 1));
    leave(f, 0);
    leave(f, 1);
    struct rbt_wire_view view;
    assert_int_equal(hear_rows(&f->ears[1], 1, &view).news.floor, RBT_CLOCK_GONE);
    make_empty(f, RBT_FRAME_RESET, RBT_FRAME_NOBODY, 2);
    assert_ok(deliver(f, 2));
}

static void test_leaving(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    push_dense(f, 0, 1, 0, true);
    make_empty(f, RBT_FRAME_LEAVE, 0, 3);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "came before the one before it");
    make_empty(f, RBT_FRAME_LEAVE, 0, 2);
    assert_ok(deliver(f, 0));
    assert_ok(deliver(f, 0)); /* again: the acknowledgement was lost */
    make_empty(f, RBT_FRAME_STATS, 0, 6);
    assert_ok(deliver(f, 0));
    struct rbt_frame frame;
    (void)hear_next(&f->ears[0], RBT_FRAME_DONE, &frame);
    assert_int_equal(frame.flags, RBT_FRAME_HAS_LEFT);
    rbt_host_settle(f->host, &f->ears[0].guest);
    assert_int_equal(hear_ack(&f->ears[0], RBT_FRAME_HAS_LEFT).arrived, 1);
    const struct rbt_wire_push push = {.clock = 1, .marker = 2};
    make_push(f, 0, 2, push, NULL);
    assert_fails(deliver(f, 0), RBT_E_CLOSED, "given up");
    make_empty(f, RBT_FRAME_LEAVE, 1, 2);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "only a worker");
    make_empty(f, RBT_FRAME_LEAVE, RBT_FRAME_NOBODY, 1);
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "only a worker");
    assert_fails(deliver(f, 3), RBT_E_PROTOCOL, "only a worker");
}

static void reset(struct fixture *f, uint32_t from, uint64_t run)
{
    make_empty(f, RBT_FRAME_RESET, f->ears[from].guest.worker, run);
}

static void test_runs(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_push push = {.clock = 0, .marker = 1};
    make_push(f, 0, 1, push, NULL);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "makes no sense"); /* no run has begun */
    make_empty(f, RBT_FRAME_LEAVE, 0, 1);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "only a run");
    begin(f, 0);
    reset(f, 2, 1);
    assert_ok(deliver(f, 2)); /* another process says so, too */
    reset(f, 2, 3);
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "cannot follow");
    reset(f, 2, 0);
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "cannot follow");
    reset(f, 3, 1);
    assert_fails(deliver(f, 3), RBT_E_PROTOCOL, "cannot follow");
    push_dense(f, 0, 1, 0, true);
    reset(f, 2, 2);
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "under way");
    leave(f, 0);
    leave(f, 1);
    reset(f, 2, 2);
    assert_ok(deliver(f, 2));
    f->ears[2].next = f->ears[2].count - 1;
    assert_int_equal(hear_done(&f->ears[2]).news.floor, 0);
    make_push(f, 0, 1, push, NULL); /* counts from 1 again */
    assert_ok(deliver(f, 0));
    assert_int_equal(rbt_host_news(f->host, 0).arrived, 1);
}

static void test_tables(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    struct rbt_wire_table told = table_of(0, RBT_DENSE, 5); /* only the staleness is another */
    make_table(f, &told);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
    struct rbt_wire_table others[10];
    for (int i = 0; i < 10; i++) {
        others[i] = told;
    }
    (void)snprintf(others[0].name, sizeof others[0].name, "other");
    others[1].width = 3;
    others[2].type = RBT_F32;
    others[3].merge = RBT_MERGE_MAX;
    others[4].seed = 1;
    others[5].a = 2;
    others[6].b = 2;
    others[7].partial = RBT_PARTIAL_SHOW;
    others[8].state_width = 1;
    others[9].init = RBT_INIT_NORMAL;
    for (int i = 0; i < 10; i++) {
        make_table(f, &others[i]);
        assert_ok(deliver(f, 2));
        const struct rbt_wire_done done = hear_done(&f->ears[2]);
        assert_int_equal(done.status, RBT_E_INVALID);
        assert_non_null(strstr(done.text, "in one process"));
    }
    told.must_exist = true;
    make_table(f, &told);
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "a reader");
    assert_ok(deliver(f, 3));
    assert_int_equal(hear_done(&f->ears[3]).table.staleness, 5);
    (void)snprintf(told.name, sizeof told.name, "nowhere");
    make_table(f, &told);
    assert_ok(deliver(f, 3));
    assert_int_equal(hear_done(&f->ears[3]).status, RBT_E_NOTFOUND);
}

static void test_impossible_tables(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    struct rbt_wire_table wrong[11];
    int count = 0;
    for (int i = 0; i < 11; i++) {
        wrong[i] = table_of(2, i < 7 ? RBT_DENSE : RBT_SPARSE, 0);
    }
    wrong[count++].table = 4; /* of 4 */
    wrong[count++].table = 3; /* 2 is missing */
    wrong[count++].table = UINT32_MAX;
    wrong[count++].width = 0;
    wrong[count++].width = UINT32_MAX;
    wrong[count++].rows_expected = UINT32_MAX;
    wrong[count].type = RBT_F32;
    wrong[count++].merge = RBT_MERGE_OR;
    wrong[count++].init = RBT_INIT_NORMAL; /* sparse ones from here */
    wrong[count++].state_width = 1;
    wrong[count++].merge = RBT_MERGE_MAX;
    wrong[count++].merge = RBT_MERGE_MIN;
    for (int i = 0; i < count; i++) {
        make_table(f, &wrong[i]);
        assert_int_equal(deliver(f, 2), RBT_E_PROTOCOL);
    }
    make_empty(f, RBT_FRAME_STATS, RBT_FRAME_NOBODY, 1); /* nothing has happened */
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).figures[2], 0);
}

static void test_readers(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin(f, 0);
    push_dense(f, 0, 1, 0, true);
    push_dense(f, 1, 1, 0, true);
    const struct rbt_wire_rows asked = dense_rows(some_keys(0, 2), NULL, KEYS);
    make_pull(f, RBT_FRAME_NOBODY, 1, (struct rbt_wire_pull){.need = RBT_CLOCK_ANY}, &asked);
    assert_ok(deliver(f, 3));
    assert_int_equal(hear_rows(&f->ears[3], 1, &view).news.arrived, 0);
    expect_rows(f, some_keys(0, 2), &view);
    make_pull(f, RBT_FRAME_NOBODY, 1, (struct rbt_wire_pull){.need = 2}, &asked);
    assert_int_equal(deliver(f, 3), RBT_E_PROTOCOL); /* it would wait */
    make_scan(f, RBT_FRAME_NOBODY, (struct rbt_wire_scan){.need = 2, .capacity = 1});
    assert_int_equal(deliver(f, 3), RBT_E_PROTOCOL);
    make_push(f, RBT_FRAME_NOBODY, 1, (struct rbt_wire_push){.marker = 1}, NULL);
    assert_int_equal(deliver(f, 3), RBT_E_PROTOCOL);
    make_push(f, 0, 2, (struct rbt_wire_push){.clock = 1, .marker = 2}, NULL);
    assert_int_equal(deliver(f, 3), RBT_E_PROTOCOL);
}

static void test_figures(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    push_dense(f, 0, 1, 0, true);
    push_dense(f, 0, 2, 1, true);
    push_dense(f, 1, 1, 0, true);
    push_dense(f, 1, 1, 0, true); /* again */
    make_empty(f, RBT_FRAME_STATS, 0, 1);
    assert_ok(deliver(f, 0));
    const struct rbt_wire_done done = hear_done(&f->ears[0]);
    struct rbt_shard_stats stats;
    rbt_shard_stats(f->shard, &stats);
    assert_int_equal(done.figures[0], stats.updates);
    assert_int_equal(done.figures[1], 1);
    assert_int_equal(done.figures[2], stats.rows);
    assert_int_equal(done.figures[3], 1); /* held */
    assert_int_equal(done.news.arrived, 2);
}

static void test_wrong_numbers(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    push_dense(f, 0, 1, 0, true);
    int64_t values[2 * KEYS] = {1};
    const struct rbt_wire_rows rows = dense_rows(some_keys(0, 1), values, KEYS);
    const struct rbt_wire_push wrong[] = {
        {.clock = 0, .marker = 1, .batch_count = 1}, /* has ended */
        {.clock = 3, .marker = 3, .batch_count = 1}, /* ends before it begins */
        {.clock = 1, .marker = RBT_CLOCK_GONE, .batch_count = 1},
        {.clock = RBT_CLOCK_GONE, .marker = -1, .batch_count = 1},
        {.clock = 1, .marker = 2, .range_last = 10, .batch_count = 1},
        {.clock = 1, .marker = 2, .range_first = 1, .batch_count = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        make_push(f, 0, 2, wrong[i], &rows);
        assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    }
    const struct rbt_wire_push well = {.clock = 1, .marker = 2, .batch_count = 1};
    const uint64_t ids[] = {0, 3, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        make_push(f, 0, ids[i], well, &rows);
        assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    }
    make_push(f, 1, 1, well, &rows); /* somebody else's */
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    struct rbt_wire_rows other = rows;
    other.table = 1; /* a sparse one */
    make_push(f, 0, 2, well, &other);
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    other.table = 2; /* not there */
    make_push(f, 0, 2, well, &other);
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    other = rows;
    other.width = 1;
    make_push(f, 0, 2, well, &other);
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    other = rows;
    other.element_size = 4;
    make_push(f, 0, 2, well, &other);
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    other.values = NULL;
    make_push(f, 0, 2, well, &other);
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    const struct rbt_wire_pull ranges[] = {
        {.applied_first = 1, .applied_count = 2}, {.applied_first = 65536}, {.applied_first = 3}};
    const struct rbt_wire_rows asked = dense_rows(some_keys(0, 1), NULL, KEYS);
    for (size_t i = 0; i < 3; i++) {
        make_pull(f, 0, 1, ranges[i], &asked);
        assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    }
    make_scan(f, 0, (struct rbt_wire_scan){.table = 1, .range_last = 9});
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    make_scan(f, 0, (struct rbt_wire_scan){.table = 9, .range_last = 9});
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    make_empty(f, RBT_FRAME_WELCOME, 0, 1);
    assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
    assert_int_equal(rbt_host_news(f->host, 0).arrived, 1);
}

/* Clocks may jump as far as they like. */
static void test_far_clocks(void **state)
{
    struct fixture *f = *state;
    const int64_t far = INT64_C(1) << 62;
    begin(f, 3);
    push_dense(f, 0, 1, far, true);
    push_dense(f, 1, 1, 0, false);
    push_dense(f, 1, 2, RBT_CLOCK_GONE - 2, true);
    assert_int_equal(rbt_host_news(f->host, 0).floor, far + 1);
    make_scan(
        f, 0,
        (struct rbt_wire_scan){.need = far, .range_last = UINT64_MAX, .capacity = UINT64_MAX});
    assert_ok(deliver(f, 0));
    struct rbt_wire_view view;
    struct rbt_shard_stats stats;
    rbt_shard_stats(f->shard, &stats);
    assert_int_equal(hear_rows(&f->ears[0], 77, &view).scan_count, stats.rows);
    assert_int_equal(view.count, stats.rows);
}

/* A run of very many keys in a few bytes. */
static void test_huge_lists(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    make_list(f, 0, some_keys(0, 1), KEYS); /* a run */
    const uint32_t count = RBT_WIRE_COUNT_MAX;
    memcpy(f->message + RBT_FRAME_HEADER + 4, &count, sizeof count);
    f->ears[0].guest.list_keys = 1; /* there is something else */
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "keys in all");
    f->ears[0].guest.list_keys = 0;
    const struct rbt_wire_rows asked = dense_rows(some_keys(0, 1), NULL, KEYS);
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 0}, &asked);
    memcpy(f->message + RBT_WIRE_PULL_BYTES + 4, &count, sizeof count);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "cannot be sent");
    assert_true(rbt_alloc_live_bytes() < 1 << 20);
}

/* Every message that is valid, cut off anywhere and with something behind it, is refused. */
static void test_truncation(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    int64_t values[2 * KEYS] = {1, 2, 3};
    for (int kind = 0; kind < 8; kind++) {
        const struct rbt_wire_rows rows = dense_rows(some_keys(0, 2), values, KEYS);
        const struct rbt_wire_rows asked = dense_rows(some_keys(0, 2), NULL, KEYS);
        const struct rbt_wire_table told = table_of(2, RBT_DENSE, 0);
        switch (kind) {
        case 0:
            make_push(f, 0, 1, (struct rbt_wire_push){.marker = 1, .batch_count = 1}, &rows);
            break;
        case 1:
            make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 0}, &asked);
            break;
        case 2:
            make_scan(f, 0, (struct rbt_wire_scan){.range_last = 1});
            break;
        case 3:
            make_list(f, 0, some_keys(0, 2), KEYS);
            break;
        case 4:
            make_table(f, &told);
            break;
        default:
            make_empty(f,
                       kind == 5   ? RBT_FRAME_LEAVE
                       : kind == 6 ? RBT_FRAME_RESET
                                   : RBT_FRAME_STATS,
                       0, 1);
        }
        const uint32_t length = f->frame.length;
        for (uint32_t cut = 0; cut < length; cut += 8) {
            /* A block of its own, so that sanitizers see reads behind its end. */
            char *body = test_malloc(cut + 8);
            memcpy(body, f->message + RBT_FRAME_HEADER, cut);
            f->frame.length = cut;
            assert_int_equal(rbt_host_receive(f->host, &f->ears[0].guest, &f->frame, body),
                             RBT_E_PROTOCOL);
            test_free(body);
        }
        memset(f->message + RBT_FRAME_HEADER + length, 0, 8);
        f->frame.length = length + 8;
        assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
        f->frame.length = length;
    }
    assert_silent(f);
    assert_int_equal(rbt_host_news(f->host, 0).arrived, 0);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(test_dense_rows_are_the_shards, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sparse_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_named_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several_batches_of_one_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parked_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_far_requests_hold_nobody_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forgotten_while_it_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaving, setup, teardown),
        cmocka_unit_test_setup_teardown(test_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impossible_tables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_figures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_far_clocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_huge_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncation, setup, teardown),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
