/* client/process_test.c - what processes tell each other at the end of a run. */
#include "base/test.h"

#include "client/process.h"

static void test_success_needs_no_reason(void **state)
{
    struct rbt_outcome own;
    struct rbt_outcome first = {0};
    (void)state;
    rbt_outcome_fill(&own, RBT_OK);
    assert_int_equal(rbt_outcome_size(&own), 8);
    rbt_outcome_take(&first, 0, (const char *)&own, rbt_outcome_size(&own));
    assert_int_equal(first.status, RBT_OK);
}

static void test_first_failure_is_told(void **state)
{
    struct rbt_outcome own[3];
    struct rbt_outcome first = {0};
    (void)state;
    rbt_outcome_fill(&own[0], RBT_OK);
    rbt_outcome_fill(&own[1], rbt_fail(RBT_E_CLOSED, "the second failed"));
    rbt_outcome_fill(&own[2], rbt_fail(RBT_E_INVALID, "the third failed"));
    for (uint32_t i = 0; i < 3; i++) {
        rbt_outcome_take(&first, i, (const char *)&own[i], rbt_outcome_size(&own[i]));
    }
    assert_int_equal(rbt_outcome_fail(&first), RBT_E_CLOSED);
    assert_string_equal(rbt_last_error(), "the second failed");
}

static void test_part_of_another_size_is_ignored(void **state)
{
    struct rbt_outcome own;
    struct rbt_outcome first = {0};
    (void)state;
    rbt_outcome_fill(&own, rbt_fail(RBT_E_CLOSED, "failed"));
    rbt_outcome_take(&first, 0, (const char *)&own, sizeof own - 1);
    rbt_outcome_take(&first, 0, (const char *)&own, 0);
    assert_int_equal(first.status, RBT_OK);
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test(test_success_needs_no_reason),
        cmocka_unit_test(test_first_failure_is_told),
        cmocka_unit_test(test_part_of_another_size_is_ignored),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
