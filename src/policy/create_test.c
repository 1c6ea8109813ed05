/* policy/create_test.c - numbers in ranges, memory of instances, and failures of their creation. */
#include "base/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"
#include "policy/create.h"

static bool is_accepted(const struct rbt_policy_parameter *parameter, double value)
{
    return rbt_policy_check_number(parameter, value) == RBT_OK;
}

static void ranges_include_their_ends_unless_open(void **state)
{
    (void)state;
    const struct rbt_policy_parameter closed = {.name = "x", .min = 1, .max = 2};
    const struct rbt_policy_parameter open = {.name = "x", .min = 1, .max = 2, .is_open = true};
    const struct rbt_policy_parameter whole = {.name = "x", .min = 1, .max = 3, .is_whole = true};
    assert_true(is_accepted(&closed, 1));
    assert_true(is_accepted(&closed, 2));
    assert_false(is_accepted(&closed, 0.999));
    assert_false(is_accepted(&closed, 2.001));
    assert_false(is_accepted(&open, 1));
    assert_true(is_accepted(&open, 1.001));
    assert_true(is_accepted(&open, 2));
    assert_true(is_accepted(&whole, 2));
    assert_false(is_accepted(&whole, 2.5));
}

static void what_is_not_a_number_is_in_no_range(void **state)
{
    (void)state;
    const struct rbt_policy_parameter wide = {.name = "x", .min = -1e300, .max = 1e300};
    assert_false(is_accepted(&wide, (double)NAN));
    assert_false(is_accepted(&wide, (double)INFINITY));
    assert_false(is_accepted(&wide, -(double)INFINITY));
}

static void sentences_call_a_parameter_by_its_name_or_more(void **state)
{
    (void)state;
    const struct rbt_policy_parameter short_one = {.name = "x", .min = 1, .max = 2};
    const struct rbt_policy_parameter long_one = {
        .name = "x", .called = "the size", .max = 9, .is_open = true};
    assert_fails(rbt_policy_check_number(&short_one, 0), RBT_E_INVALID,
                 "x must be at least 1, not 0");
    assert_fails(rbt_policy_check_number(&short_one, 3), RBT_E_INVALID,
                 "x must be at most 2, not 3");
    assert_fails(rbt_policy_check_number(&long_one, 0), RBT_E_INVALID,
                 "the size must be above 0, not 0");
    assert_fails(rbt_policy_check_number(&long_one, (double)NAN), RBT_E_INVALID,
                 "the size must be a number");
}

static void an_instance_without_memory_is_refused(void **state)
{
    (void)state;
    void *self = NULL;
    const size_t live = rbt_alloc_live();
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_policy_new(8, "rule", "t", &self), RBT_E_NOMEM, "table \"t\"");
    rbt_alloc_fail_nth(0);
    assert_null(self);
    assert_ok(rbt_policy_new(8, "rule", "t", &self));
    rbt_policy_free(self);
    assert_int_equal(rbt_alloc_live(), live);
}

static void failures_are_told_with_the_name(void **state)
{
    (void)state;
    static const struct rbt_error_record none = {.message = ""};
    rbt_error_restore(&none);
    assert_ok(rbt_policy_created(RBT_OK, "rule", "mine"));
    assert_fails(rbt_policy_created(RBT_E_IO, "rule", "mine"), RBT_E_INVALID,
                 "rule \"mine\": the operating system reported an error");
    assert_fails(rbt_policy_created(rbt_policy_fail("%d is odd", 3), "filter", "mine"),
                 RBT_E_INVALID, "filter \"mine\": 3 is odd");
    rbt_error_restore(&none);
    assert_int_equal(rbt_policy_created(RBT_E_NOMEM, "filter", "mine"), RBT_E_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_include_their_ends_unless_open),
        cmocka_unit_test(what_is_not_a_number_is_in_no_range),
        cmocka_unit_test(sentences_call_a_parameter_by_its_name_or_more),
        cmocka_unit_test(an_instance_without_memory_is_refused),
        cmocka_unit_test(failures_are_told_with_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
