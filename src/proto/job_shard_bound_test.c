/* proto/job_shard_bound_test.c - what a shard shows follows the staleness that the coordinator
 * says, also of tables that are opened later. */
#include "proto/job_shard_rig.h"

/* Worker 0 ends its clock 0; nobody else does. Whether the shard shows what it has pushed. */
static bool is_shown_after_push(struct fixture *f)
{
    push_dense(f, 0, 1, 0, true);
    return rbt_job_shard_news(f->job_shard, 0).settled == 1;
}

static void bound(struct fixture *f, uint64_t number, uint32_t table, int64_t staleness)
{
    rbt_job_shard_bound(
        f->job_shard,
        &(struct rbt_bound){.number = number, .table = table, .staleness = staleness});
}

static void a_table_shows_by_its_new_bound(void **state)
{
    struct fixture *f = *state;
    begin(f, 0);
    assert_false(is_shown_after_push(f));
    bound(f, 1, 1, 3); /* another table */
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).settled, 0);
    bound(f, 2, RBT_CONTROL_ALL, 3); /* it does not follow the job */
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).settled, 0);
    bound(f, 1, 0, 3); /* an old one, told again */
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).settled, 0);
    bound(f, 3, 0, 3);
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).settled, 1);
}

static void a_table_that_follows_the_job_does(void **state)
{
    struct fixture *f = *state;
    struct rbt_spec told = table_of(0, RBT_DENSE, 0);
    begin(f, 0);
    assert_false(is_shown_after_push(f));
    told.follows_job = true;
    make_table(f, &told);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
    bound(f, 1, RBT_CONTROL_ALL, 1);
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).settled, 1);
}

/* A process that opens the table says what it was made with, and may not have heard of more. */
static void whoever_opens_the_table_does_not_change_its_bound(void **state)
{
    struct fixture *f = *state;
    bound(f, 1, 0, 3); /* before it is open */
    begin(f, 0);
    assert_true(is_shown_after_push(f));
    bound(f, 2, 0, 0);
    const struct rbt_spec told = table_of(0, RBT_DENSE, 3);
    make_table(f, &told);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_OK);
    push_dense(f, 0, 2, 1, true);
    assert_int_equal(rbt_job_shard_news(f->job_shard, 0).settled, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_table_shows_by_its_new_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_that_follows_the_job_does, setup, teardown),
        cmocka_unit_test_setup_teardown(whoever_opens_the_table_does_not_change_its_bound, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("proto/host_bound", tests, NULL, NULL);
}
