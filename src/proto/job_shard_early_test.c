/* proto/job_shard_early_test.c - rows before their time at a job shard: which are sent, how many
 * the budget lets pass, and who is refused. */
#include "proto/job_shard_rig.h"

enum { WIDE = 2000, ROW_BYTES = WIDE * 4 + 8, GRANT_ROWS = 8, RATE = 2000000 };

static const rbt_time SECOND = 1000000000;

static struct rbt_spec table_with(const char *priority, uint64_t bandwidth)
{
    struct rbt_spec table = {.type = RBT_F32,
                             .layout = RBT_DENSE,
                             .width = WIDE,
                             .partial = RBT_PARTIAL_SHOW,
                             .staleness = 5,
                             .name = "weights",
                             .bandwidth = bandwidth};
    (void)snprintf(table.priority, sizeof table.priority, "%s", priority);
    return table;
}

static struct rbt_wire_done open_table(struct fixture *f, const struct rbt_spec *table)
{
    make_table(f, table);
    assert_ok(deliver(f, 2));
    return hear_done(&f->ears[2]);
}

static void begin_with(struct fixture *f, const char *priority, uint64_t bandwidth)
{
    const struct rbt_spec table = table_with(priority, bandwidth);
    assert_int_equal(open_table(f, &table).status, RBT_OK);
    make_empty(f, RBT_FRAME_RESET, RBT_FRAME_NOBODY, 1);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
}

/* Worker 0 adds `value` to all elements of a row. */
static void push_row(struct fixture *f, uint64_t id, uint64_t key, float value)
{
    float values[WIDE];
    for (size_t i = 0; i < WIDE; i++) {
        values[i] = value;
    }
    const struct rbt_wire_rows rows = {
        .count = 1, .keys = &key, .values = values, .element_size = 4, .width = WIDE};
    make_push(f, 0, id,
              (struct rbt_wire_push){.clock = 0, .marker = RBT_MARKER_NONE, .batch_count = 1},
              &rows);
    assert_ok(deliver(f, 0));
}

/* Rows 0, 3, 6, ... of worker 1's set, each with another value. */
static void push_all(struct fixture *f)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        push_row(f, i + 1, 3 * i, (float)(1 + i));
    }
}

static void make_early(struct fixture *f, uint32_t worker, uint32_t room)
{
    const struct rbt_wire_rows rows = {.count = KEYS, .keys = some_keys(0, 3)};
    make_pull(f, worker, 50,
              (struct rbt_wire_pull){.need = INT64_MIN,
                                     .subscription = 4,
                                     .applied_count = 2,
                                     .is_early = true,
                                     .room = room},
              &rows);
}

/* Reads early; returns how many rows have come, and writes their keys. */
static uint32_t read_early(struct fixture *f, uint32_t worker, uint32_t room, uint64_t *keys)
{
    struct rbt_wire_view view;
    make_early(f, worker, room);
    assert_ok(deliver(f, worker));
    const struct rbt_wire_answer answer = hear_rows(&f->ears[worker], 50, &view);
    assert_int_equal(answer.applied_count, 2);
    assert_true(view.count <= room);
    if (view.count > 0) {
        assert_int_equal(view.element_count, view.count * WIDE);
        assert_ok(rbt_wire_view_keys(&view, keys));
        const float *values = rbt_wire_view_raw(&view);
        for (uint32_t i = 0; i < view.count; i++) {
            assert_float_equal(values[i * WIDE], (float)(1 + keys[i] / 3), 0);
        }
    }
    return view.count;
}

/* The largest changes go first, none of them twice, and all of them in the end. */
static void test_the_largest_changes_go_first(void **state)
{
    struct fixture *f = *state;
    uint64_t keys[KEYS];
    begin_with(f, "magnitude", UINT64_C(1) << 40);
    push_all(f);
    assert_int_equal(read_early(f, 1, 2, keys), 2);
    assert_int_equal(keys[0], 3 * (KEYS - 2));
    assert_int_equal(keys[1], 3 * (KEYS - 1));
    assert_int_equal(read_early(f, 1, 3, keys), 3);
    assert_int_equal(keys[0], 3 * (KEYS - 5));
    uint32_t count = 5;
    for (uint32_t got = 1; got > 0; count += got) {
        got = read_early(f, 1, 4, keys);
    }
    assert_int_equal(count, KEYS);
}

/* A message has no more than 64 KiB, and two of them are the burst; a second later there is room
 * again. Half of the budget is this shard's, since there are two. */
static void test_the_budget_is_kept(void **state)
{
    struct fixture *f = *state;
    uint64_t keys[KEYS];
    begin_with(f, "oldest", RATE);
    push_all(f);
    assert_int_equal(read_early(f, 1, 100, keys), GRANT_ROWS);
    assert_int_equal(read_early(f, 1, 100, keys), GRANT_ROWS);
    assert_int_equal(read_early(f, 1, 100, keys), 0);
    host_time += 4 * SECOND * ROW_BYTES / RATE; /* two rows of this shard's: not worth a message */
    assert_true(read_early(f, 1, 100, keys) <= 2);
    host_time += SECOND;
    assert_true(read_early(f, 1, 100, keys) >= KEYS - 2 * GRANT_ROWS - 2);
    assert_int_equal(read_early(f, 1, 100, keys), 0);
}

/* What is asked for and waited for goes, and uses up what early rows may use. */
static void test_other_answers_use_it_up(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    uint64_t keys[KEYS];
    begin_with(f, "oldest", RATE);
    push_all(f);
    const struct rbt_wire_rows rows = {.count = KEYS, .keys = some_keys(0, 3)};
    make_pull(f, 1, 51, (struct rbt_wire_pull){.need = 0, .subscription = 9}, &rows);
    assert_ok(deliver(f, 1)); /* 160 kB */
    assert_int_equal(hear_rows(&f->ears[1], 51, &view).applied_count, 0);
    assert_int_equal(view.count, KEYS);
    assert_int_equal(read_early(f, 1, 100, keys), 0);
    host_time += SECOND;
    assert_int_equal(read_early(f, 1, 100, keys), GRANT_ROWS);
}

/* Nothing is due to a set that has just been read. */
static void test_a_read_of_all_is_known(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    uint64_t keys[KEYS];
    begin_with(f, "oldest", UINT64_C(1) << 40);
    assert_int_equal(read_early(f, 1, 100, keys), 0);
    push_all(f);
    const struct rbt_wire_rows rows = {.count = KEYS, .keys = some_keys(0, 3)};
    make_pull(f, 1, 51, (struct rbt_wire_pull){.need = 0, .subscription = 4}, &rows);
    assert_ok(deliver(f, 1));
    (void)hear_rows(&f->ears[1], 51, &view);
    assert_int_equal(view.count, KEYS);
    assert_int_equal(read_early(f, 1, 100, keys), 0);
}

/* Nothing goes over a network for who is in the same process. */
static void test_neighbours_have_no_budget(void **state)
{
    struct fixture *f = *state;
    uint64_t keys[KEYS];
    begin_with(f, "oldest", 1000);
    push_all(f);
    f->ears[1].session.is_near = true;
    assert_int_equal(read_early(f, 1, 100, keys), KEYS);
}

static void test_without_a_budget_nothing_goes(void **state)
{
    struct fixture *f = *state;
    uint64_t keys[KEYS];
    begin_with(f, "", 0);
    push_all(f);
    assert_int_equal(read_early(f, 1, 100, keys), 0);
}

static void test_priorities_that_cannot_be_had(void **state)
{
    struct fixture *f = *state;
    struct rbt_spec table = table_with("loudest", RATE);
    const struct rbt_wire_done done = open_table(f, &table);
    assert_int_equal(done.status, RBT_E_INVALID);
    assert_string_equal(done.text, "the shard: there is no priority \"loudest\"");
    for (int i = 0; i < 3; i++) { /* rows go early of dense floats that add */
        table = table_with("walk", RATE);
        table.type = i == 0 ? RBT_F64 : RBT_F32;
        table.layout = i == 1 ? RBT_SPARSE : RBT_DENSE;
        table.merge = i == 2 ? RBT_MERGE_MAX : RBT_MERGE_ADD;
        make_table(f, &table);
        assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "a priority needs dense rows of f32");
    }
    table = table_with("walk", RATE);
    assert_int_equal(open_table(f, &table).status, RBT_OK);
    table = table_with("random", RATE);
    assert_int_equal(open_table(f, &table).status, RBT_E_INVALID); /* as another process has it */
}

static void test_who_may_not(void **state)
{
    struct fixture *f = *state;
    begin_with(f, "walk", RATE);
    make_early(f, 2, 5);
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "malformed PULL"); /* not a worker */
    make_early(f, 3, 5);
    assert_fails(deliver(f, 3), RBT_E_PROTOCOL, "malformed PULL"); /* a reader */
    const struct rbt_wire_rows rows = {.count = KEYS, .keys = some_keys(0, 3)};
    make_pull(f, 1, 50, (struct rbt_wire_pull){.need = 1, .is_early = true, .room = 5}, &rows);
    assert_fails(deliver(f, 1), RBT_E_PROTOCOL, "malformed PULL"); /* would wait */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_largest_changes_go_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_budget_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_answers_use_it_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_read_of_all_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(test_neighbours_have_no_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_a_budget_nothing_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_priorities_that_cannot_be_had, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_may_not, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
