/* proto/job_shard_parts_test.c - whatever makes no sense is refused, without harm: numbers that are
 * wrong, far or huge, tables that do not fit, messages that end too early. */
#include "proto/job_shard_rig.h"

static void test_tables(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    struct rbt_spec told = table_of(0, RBT_DENSE, 5); /* only the staleness is another */
    make_table(f, &told);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
    struct rbt_spec others[10];
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
    struct rbt_spec wrong[11];
    int count = 0;
    for (int i = 0; i < 11; i++) {
        wrong[i] = table_of(2, i < 7 ? RBT_DENSE : RBT_SPARSE, 0);
    }
    wrong[count++].number = 4; /* of 4 */
    wrong[count++].number = 3; /* 2 is missing */
    wrong[count++].number = UINT32_MAX;
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
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).arrived, 1);
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
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).floor, far + 1);
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
    f->ears[0].session.list_keys = 1; /* there is something else */
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "keys in all");
    f->ears[0].session.list_keys = 0;
    const struct rbt_wire_rows asked = dense_rows(some_keys(0, 1), NULL, KEYS);
    make_pull(f, 0, 1, (struct rbt_wire_pull){.need = 0}, &asked);
    memcpy(f->message + RBT_WIRE_PULL_BYTES + 4, &count, sizeof count);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "malformed PULL");
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
        const struct rbt_spec told = table_of(2, RBT_DENSE, 0);
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
            assert_int_equal(rbt_job_shard_receive(f->job_shard, &f->ears[0].session, &f->frame,
                                                   body, host_time),
                             RBT_E_PROTOCOL);
            test_free(body);
        }
        memset(f->message + RBT_FRAME_HEADER + length, 0, 8);
        f->frame.length = length + 8;
        assert_int_equal(deliver(f, 0), RBT_E_PROTOCOL);
        f->frame.length = length;
    }
    assert_silent(f);
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).arrived, 0);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(test_tables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impossible_tables, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_far_clocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_huge_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncation, setup, teardown),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
