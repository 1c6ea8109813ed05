/* proto/job_shard_rules_test.c - tables with a rule at a job shard: what updates and reads must
 * say, what is answered, and who is refused. */
#include "proto/job_shard_rig.h"

static struct rbt_spec table_with(const char *rule)
{
    struct rbt_spec table = {
        .type = RBT_F32, .layout = RBT_DENSE, .width = 1, .staleness = 5, .name = "weights"};
    (void)snprintf(table.rule, sizeof table.rule, "%s", rule);
    return table;
}

static struct rbt_wire_done open_table(struct fixture *f, const struct rbt_spec *table)
{
    make_table(f, table);
    assert_ok(deliver(f, 2));
    return hear_done(&f->ears[2]);
}

/* Table 0 with this rule, and run 1. */
static void begin_with(struct fixture *f, const char *rule)
{
    const struct rbt_spec table = table_with(rule);
    assert_int_equal(open_table(f, &table).status, RBT_OK);
    make_empty(f, RBT_FRAME_RESET, RBT_FRAME_NOBODY, 1);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
}

static const uint64_t KEY[1] = {7};

/* A message of one worker's stream with one row, or none. */
struct update {
    uint32_t worker;
    uint64_t id;
    int64_t clock;
    uint64_t base;
    uint64_t least;
    float value;
    bool is_empty;
    bool has_no_base;
};

static rbt_status push(struct fixture *f, const struct update *update)
{
    const struct rbt_wire_rows rows = {.count = update->is_empty ? 0 : 1,
                                       .keys = KEY,
                                       .values = &update->value,
                                       .element_size = 4,
                                       .width = 1,
                                       .has_base = !update->has_no_base,
                                       .base = update->base,
                                       .least = update->least};
    make_push(f, update->worker, update->id,
              (struct rbt_wire_push){
                  .clock = update->clock, .marker = update->clock + 1, .batch_count = 1},
              &rows);
    return deliver(f, update->worker);
}

static void make_read(struct fixture *f, uint32_t from, struct rbt_wire_pull pull)
{
    const struct rbt_wire_rows asked = {.count = 1, .keys = KEY, .element_size = 4, .width = 1};
    make_pull(f, from < 2 ? from : RBT_FRAME_NOBODY, 50, pull, &asked);
}

/* What a worker reads, and the stamp of that. */
static float read_row(struct fixture *f, uint32_t worker, uint64_t *stamp)
{
    struct rbt_wire_view view;
    make_read(f, worker,
              (struct rbt_wire_pull){.need = INT64_MIN,
                                     .wants_stamp = true,
                                     .is_base = true,
                                     .least = RBT_STAMP_NONE,
                                     .sequence = 0});
    assert_ok(deliver(f, worker));
    const struct rbt_wire_answer answer = hear_rows(&f->ears[worker], 50, &view);
    assert_true(answer.has_stamp);
    assert_false(answer.is_withheld);
    *stamp = answer.stamp;
    float value = 0;
    memcpy(&value, rbt_wire_view_raw(&view), sizeof value);
    return value;
}

/* DynSGD weighs updates of one version by their number: without their bases the sum would be
 * another one. */
static void test_bases_and_stamps_reach_the_rule(void **state)
{
    struct fixture *f = *state;
    uint64_t stamp = 99;
    begin_with(f, "dynsgd");
    assert_true(read_row(f, 0, &stamp) == 0 && stamp == 0);
    assert_true(read_row(f, 1, &stamp) == 0 && stamp == 0);
    assert_ok(push(f, &(struct update){.worker = 0, .id = 1, .value = 4}));
    assert_true(read_row(f, 0, &stamp) == 4 && stamp == 1);
    assert_ok(push(f, &(struct update){.worker = 1, .id = 1, .value = 8})); /* the same version */
    assert_true(read_row(f, 1, &stamp) == 6 && stamp == 2);
    assert_ok(push(f, &(struct update){.worker = 1, .id = 2, .clock = 1, .base = 2, .value = 1}));
    assert_true(read_row(f, 1, &stamp) == 7 && stamp == 3);
    /* What has no rows counts as a message, too. */
    assert_ok(push(f, &(struct update){.worker = 0,
                                       .id = 2,
                                       .clock = 1,
                                       .base = 1,
                                       .least = RBT_STAMP_NONE,
                                       .is_empty = true}));
    assert_true(read_row(f, 1, &stamp) == 6.5F && stamp == 4);
}

static void test_reads_without_stamps(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin_with(f, "adagrad");
    make_read(f, 3, (struct rbt_wire_pull){.need = 0});
    assert_ok(deliver(f, 3));
    assert_false(hear_rows(&f->ears[3], 50, &view).has_stamp);
    make_read(f, 3, (struct rbt_wire_pull){.need = 0, .wants_stamp = true});
    assert_ok(deliver(f, 3));
    assert_true(hear_rows(&f->ears[3], 50, &view).has_stamp);
    make_read(f, 3, (struct rbt_wire_pull){.need = 0, .is_base = true});
    assert_fails(deliver(f, 3), RBT_E_PROTOCOL, "malformed PULL");
    make_read(f, 2, (struct rbt_wire_pull){.need = 0, .is_base = true});
    assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "malformed PULL");
}

static void test_who_says_too_much_or_too_little(void **state)
{
    struct fixture *f = *state;
    begin_with(f, "adagrad");
    assert_fails(push(f, &(struct update){.id = 1, .has_no_base = true}), RBT_E_PROTOCOL,
                 "need a base");
    struct rbt_spec plain = table_with("");
    plain.number = 1;
    assert_int_equal(open_table(f, &plain).status, RBT_OK);
    const float value = 1;
    const struct rbt_wire_rows rows = {.table = 1,
                                       .count = 1,
                                       .keys = KEY,
                                       .values = &value,
                                       .element_size = 4,
                                       .width = 1,
                                       .has_base = true};
    make_push(f, 0, 1, (struct rbt_wire_push){.marker = 1, .batch_count = 1}, &rows);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "cannot have a base");
    struct rbt_wire_rows asked = rows;
    asked.values = NULL;
    asked.has_base = false;
    make_pull(f, 0, 1, (struct rbt_wire_pull){.wants_stamp = true}, &asked);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "malformed PULL");
    /* Bases that were never read do no harm. */
    assert_ok(push(f, &(struct update){.id = 1, .base = 12345, .least = 77, .value = 1}));
}

static void test_rules_that_cannot_be_had(void **state)
{
    struct fixture *f = *state;
    struct rbt_spec table = table_with("nonsense:lr=1");
    struct rbt_wire_done done = open_table(f, &table);
    assert_int_equal(done.status, RBT_E_INVALID);
    assert_non_null(strstr(done.text, "the shard: "));
    assert_non_null(strstr(done.text, "nonsense"));
    table = table_with("/nowhere/mine.so");
    done = open_table(f, &table);
    assert_int_equal(done.status, RBT_E_INVALID);
    assert_non_null(strstr(done.text, "/nowhere/mine.so"));
    table = table_with("adagrad:lr=-1");
    assert_int_equal(open_table(f, &table).status, RBT_E_INVALID);
    table = table_with("adagrad:lr=0.5"); /* nothing of the others is left */
    assert_int_equal(open_table(f, &table).status, RBT_OK);
    table.staleness = 7;
    assert_int_equal(open_table(f, &table).status, RBT_OK);
    table = table_with("adagrad:lr=0.25");
    done = open_table(f, &table);
    assert_int_equal(done.status, RBT_E_INVALID);
    assert_non_null(strstr(done.text, "or its options differ"));
    table = table_with("");
    assert_int_equal(open_table(f, &table).status, RBT_E_INVALID);
    for (int i = 0; i < 3; i++) { /* rules are for dense floats that add */
        table = table_with("adagrad");
        table.number = 1;
        table.type = i == 0 ? RBT_F64 : RBT_F32;
        table.layout = i == 1 ? RBT_SPARSE : RBT_DENSE;
        table.merge = i == 2 ? RBT_MERGE_MAX : RBT_MERGE_ADD;
        make_table(f, &table);
        assert_fails(deliver(f, 2), RBT_E_PROTOCOL, "a rule needs dense rows of f32");
    }
}

/* A reader gets the rule with the table. */
static void test_readers_know_the_rule(void **state)
{
    struct fixture *f = *state;
    begin_with(f, "adagrad:lr=0.5");
    struct rbt_spec asked = {.must_exist = true, .name = "weights"};
    make_table(f, &asked);
    assert_ok(deliver(f, 3));
    assert_string_equal(hear_done(&f->ears[3]).table.rule, "adagrad:lr=0.5");
}

static uint64_t figure(struct fixture *f, uint32_t which)
{
    make_empty(f, RBT_FRAME_STATS, RBT_FRAME_NOBODY, 4);
    assert_ok(deliver(f, 2));
    return hear_done(&f->ears[2]).figures[which];
}

/* Three quarters of four snapshots: then rows that nobody waits for are not sent. */
static void test_rows_are_withheld_at_the_cap(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    const struct rbt_wire_pull early = {
        .need = INT64_MIN, .wants_stamp = true, .is_base = true, .is_ahead = true, .least = 0};
    begin_with(f, "adarev:max=4");
    uint64_t stamp = 0;
    uint64_t id = 1;
    bool is_withheld = false;
    for (; id < 10 && !is_withheld; id++) {
        const uint64_t base = stamp;
        (void)read_row(f, 1, &stamp); /* lets go of nothing: it may have overtaken updates */
        assert_ok(
            push(f, &(struct update){
                        .worker = 0, .id = id, .clock = (int64_t)id, .base = base, .value = 1}));
        make_read(f, 0, early);
        assert_ok(deliver(f, 0));
        const struct rbt_wire_answer answer = hear_rows(&f->ears[0], 50, &view);
        is_withheld = answer.is_withheld;
        assert_int_equal(view.count, is_withheld ? 0 : 1);
        assert_int_equal(answer.has_stamp, !is_withheld);
    }
    assert_true(is_withheld);
    assert_true(figure(f, 7) <= 4 && figure(f, 7) >= 3);
    (void)read_row(f, 0, &stamp); /* but who waits is served */
    assert_true(figure(f, 4) > figure(f, 5) && figure(f, 5) > 0);
}

/* What was asked for ahead is answered when its worker is gone, and keeps nothing. */
static void test_nothing_is_kept_for_the_gone(void **state)
{
    struct fixture *f = *state;
    struct rbt_wire_view view;
    begin_with(f, "adarev");
    make_read(f, 0,
              (struct rbt_wire_pull){
                  .need = 1, .wants_stamp = true, .is_base = true, .is_ahead = true, .least = 0});
    assert_ok(deliver(f, 0));
    leave(f, 0);
    uint64_t stamp = RBT_STAMP_NONE;
    for (uint64_t id = 1; id < 4; id++) {
        assert_ok(push(f, &(struct update){.worker = 1,
                                           .id = id,
                                           .clock = (int64_t)id - 1,
                                           .base = stamp,
                                           .least = stamp,
                                           .value = 1}));
        if (id == 1) {
            assert_true(hear_rows(&f->ears[0], 50, &view).was_parked);
        } else {
            (void)read_row(f, 1, &stamp);
        }
    }
    assert_int_equal(figure(f, 7), 1); /* for worker 1, one after the other */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bases_and_stamps_reach_the_rule, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reads_without_stamps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_says_too_much_or_too_little, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rules_that_cannot_be_had, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readers_know_the_rule, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows_are_withheld_at_the_cap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_kept_for_the_gone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
