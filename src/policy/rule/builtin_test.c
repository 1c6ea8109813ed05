/* policy/rule/builtin_test.c - how rules read their parameters, and counts in the state of rows. */
#include "base/test.h"

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

static const struct rbt_rule_setup setup = {.table = "t", .number = number};

static void parameters_are_read_until_one_is_refused(void **state)
{
    (void)state;
    static const struct rbt_policy_parameter parameters[] = {
        {"a", "", .max = 5}, {"b", "", .max = 2}, {"c", "", .max = 5}, {.name = NULL}};
    double values[3] = {-77, -77, -77};
    given = 2;
    assert_ok(rbt_builtin_numbers(&setup, parameters, values));
    assert_true(values[0] == 2 && values[1] == 2 && values[2] == 2);
    given = 3;
    assert_fails(rbt_builtin_numbers(&setup, parameters, values), RBT_E_INVALID,
                 "b must be at most 2, not 3");
    assert_true(values[0] == 3 && values[1] == 2 && values[2] == 2); /* written only on success */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_read_until_one_is_refused),
        cmocka_unit_test(counts_survive_the_state_of_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
