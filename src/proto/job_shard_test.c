/* proto/job_shard_test.c - what a job shard sends is what a shard says that is used directly. */
#include "proto/job_shard_rig.h"

static void test_dense_rows_are_the_shards(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin(f, 1);
    for (int64_t clock = 0; clock < 5; clock++) {
        for (uint32_t worker = 0; worker < 2; worker++) {
            push_dense(f, worker, (uint64_t)clock + 1, clock, true);
            rbt_job_shard_settle(f->job_shard, &f->ears[worker].session);
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
    rbt_job_shard_settle(f->job_shard, &f->ears[0].session);
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
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "malformed PULL");
    struct rbt_wire_rows two = asked;
    two.count = 2;
    make_pull(f, 0, 4, (struct rbt_wire_pull){.need = 1}, &two);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "malformed PULL");
    const uint32_t beyond[3] = {5, 100, 7};
    rows.elements = beyond;
    make_push(f, 0, 2, (struct rbt_wire_push){.clock = 1, .marker = -1, .batch_count = 1}, &rows);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "wrong type or width");
}

/* Whoever sends again has not heard that it came. */
static void test_what_comes_twice_is_acknowledged_twice(void **state)
{
    struct fixture *f = *state;
    begin(f, 1);
    push_dense(f, 0, 1, 0, true);
    for (int times = 0; times < 2; times++) {
        rbt_job_shard_settle(f->job_shard, &f->ears[0].session);
        assert_int_equal(hear_ack(&f->ears[0], 0).arrived, 1);
        assert_ok(deliver(f, 0)); /* the same message */
    }
    assert_silent(f);
}

/* Requests and lists of sessions that have gone take up nothing, however many come and go. */
static void test_sessions_come_and_go(void **state)
{
    enum { MANY = 1 << 22, TIMES = 33 }; /* more keys than may wait, all together */
    struct fixture *f = *state;
    struct rbt_session *session = &f->ears[0].session;
    uint64_t *keys = test_calloc(MANY, sizeof *keys);
    size_t live = 0;
    begin(f, 1);
    for (uint64_t i = 0; i < MANY; i++) {
        keys[i] = i;
    }
    for (uint64_t i = 0; i < TIMES; i++) {
        const struct rbt_wire_rows asked = dense_rows(keys, NULL, MANY);
        make_pull(f, 0, 1 + i, (struct rbt_wire_pull){.need = 9}, &asked);
        assert_ok(deliver(f, 0));
        make_list(f, 0, keys + i, KEYS);
        assert_ok(deliver(f, 0));
        rbt_job_shard_forget(f->job_shard, session);
        live = i == 0 ? rbt_alloc_live() : live;
    }
    assert_int_equal(rbt_alloc_live(), live);
    assert_silent(f);
    test_free(keys);
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
    assert_fails(deliver(f, 0), RBT_E_NOTFOUND, "named before it was sent");
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
    assert_fails(deliver(f, 1), RBT_E_NOTFOUND, "named before it was sent");
    asked.count--;
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 1}, &asked);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "but the message says");
    make_list(f, 1, keys, KEYS);
    f->message[RBT_FRAME_HEADER + 8] ^= 1; /* its name */
    assert_fails(deliver(f, 1), RBT_E_PROTOCOL, "does not match the name");
    rbt_job_shard_forget(f->job_shard, &f->ears[0].session);
    asked.count++;
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 1}, &asked);
    assert_fails(deliver(f, 0), RBT_E_NOTFOUND, "named before it was sent");
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
    rbt_job_shard_settle(f->job_shard, &f->ears[1].session);
    assert_silent(f); /* the answers have acknowledged */
    push_dense(f, 1, 2, 1, true);
    push_dense(f, 0, 2, 1, true);
    assert_int_equal(f->ears[1].count, 501);
    f->ears[1].next = 501;
    rbt_job_shard_settle(f->job_shard, &f->ears[0].session);
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
    rbt_job_shard_forget(f->job_shard, &f->ears[1].session);
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
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "arrived out of order");
    make_empty(f, RBT_FRAME_LEAVE, 0, 2);
    assert_ok(deliver(f, 0));
    assert_ok(deliver(f, 0)); /* again: the acknowledgement was lost */
    make_empty(f, RBT_FRAME_STATS, 0, 6);
    assert_ok(deliver(f, 0));
    struct rbt_frame frame;
    (void)hear_next(&f->ears[0], RBT_FRAME_DONE, &frame);
    assert_int_equal(frame.flags, RBT_FRAME_HAS_LEFT);
    rbt_job_shard_settle(f->job_shard, &f->ears[0].session);
    assert_int_equal(hear_ack(&f->ears[0], RBT_FRAME_HAS_LEFT).arrived, 1);
    const struct rbt_wire_push push = {.clock = 1, .marker = 2};
    make_push(f, 0, 2, push, NULL);
    assert_fails(deliver(f, 0), RBT_E_CLOSED, "given up");
    make_empty(f, RBT_FRAME_LEAVE, 1, 2);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "not a worker of this run");
    make_empty(f, RBT_FRAME_LEAVE, RBT_FRAME_NOBODY, 1);
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "not a worker of this run");
    assert_fails(deliver(f, 3), RBT_E_PROTOCOL, "not a worker of this run");
}

static void reset(struct fixture *f, uint32_t from, uint64_t run)
{
    make_empty(f, RBT_FRAME_RESET, f->ears[from].session.worker, run);
}

static void test_runs(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_push push = {.clock = 0, .marker = 1};
    make_push(f, 0, 1, push, NULL);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "malformed PUSH: worker 0"); /* no run has begun */
    make_empty(f, RBT_FRAME_LEAVE, 0, 1);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "not a worker of this run");
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
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "has not ended");
    leave(f, 0);
    leave(f, 1);
    reset(f, 2, 2);
    assert_ok(deliver(f, 2));
    f->ears[2].next = f->ears[2].count - 1;
    assert_int_equal(hear_done(&f->ears[2]).news.floor, 0);
    make_push(f, 0, 1, push, NULL); /* counts from 1 again */
    assert_ok(deliver(f, 0));
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).arrived, 1);
}

/* --- Long rows ------------------------------------------------------------------------------- */

enum { LONG_WIDTH = 8192, LONG_TABLE = 2 }; /* 64 KB: such rows are sent from where they lie */

/* Adds `amount` to every element of the long row, in a message that ends the clock. */
static void push_long(struct fixture *f, uint32_t worker, uint64_t id, int64_t amount)
{
    static int64_t values[LONG_WIDTH];
    const uint64_t key = 3;
    for (size_t i = 0; i < LONG_WIDTH; i++) {
        values[i] = amount;
    }
    const struct rbt_wire_rows rows = {.table = LONG_TABLE,
                                       .count = 1,
                                       .keys = &key,
                                       .values = values,
                                       .element_size = 8,
                                       .width = LONG_WIDTH};
    make_push(
        f, worker, id,
        (struct rbt_wire_push){.clock = (int64_t)id - 1, .marker = (int64_t)id, .batch_count = 1},
        &rows);
    assert_ok(deliver(f, worker));
}

static void pull_long(struct fixture *f, uint32_t worker)
{
    const uint64_t key = 3;
    const struct rbt_wire_rows asked = {
        .table = LONG_TABLE, .count = 1, .keys = &key, .element_size = 8, .width = LONG_WIDTH};
    make_pull(f, worker, 50, (struct rbt_wire_pull){.need = RBT_CLOCK_ANY}, &asked);
    assert_ok(deliver(f, worker));
}

/* What would be sent now of the last answer, if nothing of it has been: all elements are `value`.
 */
static void expect_long(const struct fixture *f, uint32_t worker, int64_t value)
{
    const struct ear *ear = &f->ears[worker];
    const struct rbt_block *block = ear->heard[ear->count - 1];
    const size_t bytes = LONG_WIDTH * sizeof value;
    const char *rows = block->tail != NULL ? block->tail : block->data + block->bytes - bytes;
    for (size_t i = 0; i < LONG_WIDTH; i++) {
        int64_t element;
        memcpy(&element, rows + i * sizeof element, sizeof element);
        assert_int_equal(element, value);
    }
}

/* An answer is of one moment, however long it takes to be sent: updates that come meanwhile, and
 * those that are shown meanwhile because somebody has left, are not in it. */
static void test_long_rows_on_their_way_do_not_change(void **state)
{
    struct fixture *f = *state;
    struct rbt_spec told = table_of(LONG_TABLE, RBT_DENSE, 0);
    told.width = LONG_WIDTH;
    begin(f, 0);
    make_table(f, &told);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
    push_long(f, 0, 1, 5);
    push_long(f, 1, 1, 1);
    pull_long(f, 0); /* it has all of clock 0 */
    assert_non_null(f->ears[0].heard[f->ears[0].count - 1]->tail);
    expect_long(f, 0, 6);
    push_long(f, 0, 2, 10); /* held back, since worker 1 is not so far */
    expect_long(f, 0, 6);
    pull_long(f, 1);
    expect_long(f, 1, 6);
    leave(f, 1); /* now it is shown */
    expect_long(f, 1, 6);
    expect_long(f, 0, 6);
    pull_long(f, 0);
    expect_long(f, 0, 16);
    push_long(f, 0, 3, 100);
    expect_long(f, 0, 16);
    f->ears[0].session.is_near = true; /* it keeps answers for as long as it likes */
    pull_long(f, 0);
    assert_null(f->ears[0].heard[f->ears[0].count - 1]->tail);
    expect_long(f, 0, 116);
}

/* A job that is over may still owe somebody an answer: its rows do not go with the job. */
static void test_long_rows_on_their_way_outlive_the_job(void **state)
{
    struct fixture *f = *state;
    struct rbt_spec told = table_of(LONG_TABLE, RBT_DENSE, 0);
    told.width = LONG_WIDTH;
    begin(f, 0);
    make_table(f, &told);
    assert_ok(deliver(f, 2));
    push_long(f, 0, 1, 5);
    push_long(f, 1, 1, 1);
    pull_long(f, 0);
    const struct rbt_block *block = f->ears[0].heard[f->ears[0].count - 1];
    const char *rows = block->tail; /* of the shard */
    assert_non_null(rows);
    rbt_job_shard_destroy(f->job_shard);
    const struct rbt_job_shard_options next = {
        .job = 6, .worker_count = 2, .table_max = 4, .shards_here = 2};
    assert_ok(rbt_job_shard_create(&next, &f->job_shard));
    assert_ptr_not_equal(block->tail, rows);
    expect_long(f, 0, 6);
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

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(test_dense_rows_are_the_shards, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sparse_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_comes_twice_is_acknowledged_twice, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_sessions_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_named_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several_batches_of_one_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parked_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_far_requests_hold_nobody_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forgotten_while_it_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leaving, setup, teardown),
        cmocka_unit_test_setup_teardown(test_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_rows_on_their_way_do_not_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_rows_on_their_way_outlive_the_job, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_figures, setup, teardown),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
