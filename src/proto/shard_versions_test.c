/* proto/shard_versions_test.c - the lowest version of the shards is told, once. */
#include "proto/shard_versions.h"

#include "base/alloc.h"
#include "base/test.h"

static void note(struct rbt_shard_versions *versions, uint64_t job, uint32_t shard,
                 uint64_t version)
{
    rbt_shard_versions_note(versions, job, shard,
                            &(struct rbt_control_version){.table = 3, .version = version});
}

static void expect_next(struct rbt_shard_versions *versions, uint64_t job, uint64_t version)
{
    struct rbt_control_version next;
    uint64_t next_job;
    assert_true(rbt_shard_versions_next(versions, &next_job, &next));
    assert_int_equal(next_job, job);
    assert_int_equal(next.table, 3);
    assert_int_equal(next.version, version);
}

static void expect_none(struct rbt_shard_versions *versions)
{
    struct rbt_control_version next;
    uint64_t job;
    assert_false(rbt_shard_versions_next(versions, &job, &next));
    assert_false(versions->is_due);
}

static void the_lowest_version_is_told_once(void **state)
{
    struct rbt_shard_versions versions = {.shard_count = 2};
    (void)state;
    note(&versions, 1, 0, 5);
    assert_false(versions.is_due); /* the other shard has none */
    note(&versions, 1, 1, 4);
    assert_true(versions.is_due);
    expect_next(&versions, 1, 4);
    expect_none(&versions);
    note(&versions, 1, 1, 3); /* older: ignored */
    assert_false(versions.is_due);
    note(&versions, 1, 1, 9);
    expect_next(&versions, 1, 5);
    expect_none(&versions);
    rbt_shard_versions_deinit(&versions);
}

/* What is due stays so, whatever is noted of others before it is told. */
static void another_table_that_lags_hides_nothing(void **state)
{
    struct rbt_shard_versions versions = {.shard_count = 2};
    (void)state;
    note(&versions, 1, 0, 5);
    note(&versions, 1, 1, 5);
    note(&versions, 2, 0, 7); /* the other shard of this job has none */
    assert_true(versions.is_due);
    expect_next(&versions, 1, 5);
    expect_none(&versions);
    rbt_shard_versions_deinit(&versions);
}

static void all_is_told_again_but_of_jobs_that_are_over(void **state)
{
    struct rbt_shard_versions versions = {.shard_count = 1};
    (void)state;
    for (uint64_t job = 1; job <= 6; job++) {
        note(&versions, job, 0, 10 + job);
    }
    for (uint64_t job = 1; job <= 6; job++) {
        expect_next(&versions, job, 10 + job);
    }
    expect_none(&versions);
    rbt_shard_versions_drop(&versions, 2);
    rbt_shard_versions_forget_told(&versions);
    expect_next(&versions, 1, 11);
    expect_next(&versions, 3, 13);
    rbt_shard_versions_deinit(&versions);
}

static void without_memory_nothing_is_noted(void **state)
{
    struct rbt_shard_versions versions = {.shard_count = 1};
    (void)state;
    for (unsigned nth = 1; nth <= 2; nth++) {
        rbt_alloc_fail_nth(nth);
        note(&versions, 1, 0, 7);
        rbt_alloc_fail_nth(0);
        assert_false(versions.is_due);
    }
    note(&versions, 1, 0, 7);
    expect_next(&versions, 1, 7);
    rbt_shard_versions_deinit(&versions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_version_is_told_once),
        cmocka_unit_test(another_table_that_lags_hides_nothing),
        cmocka_unit_test(all_is_told_again_but_of_jobs_that_are_over),
        cmocka_unit_test(without_memory_nothing_is_noted),
    };
    return cmocka_run_group_tests_name("proto/shard_versions", tests, NULL, NULL);
}
