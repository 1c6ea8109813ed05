/* policy/rule/builtin_test.c - parameters in ranges, and counts in the state of rows. */
#include "base/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"
#include "policy/rule/builtin.h"

static double given;

static double number(const struct rbt_rule_setup *setup, const char *name, double fallback)
{
    (void)setup;
    (void)name;
    (void)fallback;
    return given;
}

static rbt_status refuse(const char *format, ...)
{
    (void)format;
    return rbt_fail(RBT_E_INVALID, "refused");
}

static const struct rbt_rule_setup setup = {.table = "t", .number = number, .fail = refuse};

static bool is_accepted(const struct rbt_builtin_range *range, double value)
{
    double out = -77;
    given = value;
    const rbt_status st = rbt_builtin_number(&setup, range, &out);
    assert_true(st == RBT_OK ? out == value : out == -77); /* written only on success */
    return st == RBT_OK;
}

static void ranges_include_their_ends_unless_open(void **state)
{
    (void)state;
    const struct rbt_builtin_range closed = {.name = "x", .min = 1, .max = 2};
    const struct rbt_builtin_range open = {.name = "x", .min = 1, .max = 2, .is_open = true};
    const struct rbt_builtin_range whole = {.name = "x", .min = 1, .max = 3, .is_whole = true};
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
    const struct rbt_builtin_range wide = {.name = "x", .min = -1e300, .max = 1e300};
    assert_false(is_accepted(&wide, (double)NAN));
    assert_false(is_accepted(&wide, (double)INFINITY));
    assert_false(is_accepted(&wide, -(double)INFINITY));
}

static void counts_survive_the_state_of_a_row(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0,
                                      1,
                                      (UINT64_C(1) << 24) - 1,
                                      UINT64_C(1) << 24,
                                      (UINT64_C(1) << 24) + 1,
                                      (UINT64_C(1) << 40) + 12345,
                                      (UINT64_C(1) << 48) - 1};
    const float fresh[RBT_BUILTIN_COUNT_WIDTH] = {0};
    assert_int_equal(rbt_builtin_count(fresh), 0);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        float kept[RBT_BUILTIN_COUNT_WIDTH];
        rbt_builtin_set_count(kept, counts[i]);
        assert_int_equal(rbt_builtin_count(kept), counts[i]);
    }
}

static void an_instance_without_memory_is_refused(void **state)
{
    (void)state;
    void *self = NULL;
    const size_t live = rbt_alloc_live();
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_builtin_new(&setup, 8, &self), RBT_E_NOMEM, "table \"t\"");
    rbt_alloc_fail_nth(0);
    assert_null(self);
    assert_ok(rbt_builtin_new(&setup, 8, &self));
    rbt_builtin_free(self);
    assert_int_equal(rbt_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_include_their_ends_unless_open),
        cmocka_unit_test(what_is_not_a_number_is_in_no_range),
        cmocka_unit_test(counts_survive_the_state_of_a_row),
        cmocka_unit_test(an_instance_without_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
