/* policy/rule/help_test.c - help tells of every parameter that a rule asks for, and of no other,
 * with the value that it has when it is not given. */
#include "base/test.h"

#include <stdlib.h>

#include "policy/rule/rule.h"

enum { WIDTH = 8, WORKERS = 4 };

static const struct rbt_rule_parameter *listed;
static uint32_t asked;

static const struct rbt_rule_parameter *find(const char *name)
{
    const struct rbt_rule_parameter *at = listed;
    while (at->name != NULL && strcmp(at->name, name) != 0) {
        at++;
    }
    return at;
}

static double number(const struct rbt_rule_setup *setup, const char *name, double fallback)
{
    (void)setup;
    const struct rbt_rule_parameter *parameter = find(name);
    if (parameter->name == NULL) {
        fail_msg("help does not know the parameter %s", name);
    }
    const double value =
        strcmp(parameter->value, "1/workers") == 0 ? 1.0 / WORKERS : strtod(parameter->value, NULL);
    assert_true(value == fallback);
    asked++;
    return fallback;
}

static rbt_status refuse(const char *format, ...)
{
    fail_msg("%s", format);
    return RBT_E_INVALID;
}

static void help_knows_the_parameters_of_every_rule(void **state)
{
    (void)state;
    const struct rbt_rule_setup setup = {.struct_size = sizeof setup,
                                         .table = "t",
                                         .width = WIDTH,
                                         .worker_count = WORKERS,
                                         .number = number,
                                         .fail = refuse};
    for (size_t i = 0; rbt_rule_all[i] != NULL; i++) {
        const struct rbt_rule *rule = rbt_rule_all[i];
        const struct rbt_rule_help *help = rbt_rule_help_of(rule);
        struct rbt_rule_needs needs = {0};
        void *self = NULL;
        uint32_t count = 0;
        assert_non_null(help);
        listed = help->parameters;
        asked = 0;
        assert_ok(rule->create(&setup, &needs, &self));
        if (rule->destroy != NULL) {
            rule->destroy(self);
        }
        while (listed[count].name != NULL) {
            count++;
        }
        assert_int_equal(asked, count);
    }
}

static void help_has_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; rbt_rule_all[i] != NULL; i++) {
        const struct rbt_rule_help *help = rbt_rule_help_of(rbt_rule_all[i]);
        assert_int_equal(help->choose[strlen(help->choose) - 1], '.');
        assert_true(strlen(help->choose) <= 160); /* two lines */
        assert_true(strlen(help->formula) > 0);
        for (const struct rbt_rule_parameter *at = help->parameters; at->name != NULL; at++) {
            assert_true(strlen(at->help) > 0);
            assert_true(strlen(at->help) <= 64);
            assert_int_not_equal(at->help[strlen(at->help) - 1], '.');
        }
    }
}

static void help_knows_nothing_of_a_users_rule(void **state)
{
    (void)state;
    const struct rbt_rule mine = {.name = "add"};
    assert_null(rbt_rule_help_of(&mine));
    assert_string_equal(rbt_rule_common[0].name, "aggregate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_knows_the_parameters_of_every_rule),
        cmocka_unit_test(help_has_sentences),
        cmocka_unit_test(help_knows_nothing_of_a_users_rule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
