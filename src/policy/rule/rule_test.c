/* policy/rule/rule_test.c - rules by their text, and that each keeps to what all rules promise. */
#include "base/limits.h"
#include "base/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "policy/rule/rule.h"

static void rules_are_found_by_name_whatever_their_parameters(void **state)
{
    (void)state;
    for (const struct rbt_policy *const *at = rbt_policy_rules.all; *at != NULL; at++) {
        const struct rbt_rule *found = NULL;
        char text[64];
        assert_ok(rbt_rule_find(rbt_policy_name(*at), &found));
        assert_ptr_equal(found, (*at)->code);
        (void)snprintf(text, sizeof text, "%s:x=1/2", rbt_policy_name(*at));
        assert_ok(rbt_rule_find(text, &found));
        assert_ptr_equal(found, (*at)->code);
    }
}

/* Which names are near is for the registry to say (policy/registry_test.c). */
static void a_name_that_there_is_not_is_refused(void **state)
{
    (void)state;
    const struct rbt_rule *found = NULL;
    static const char *const texts[] = {"adagra", "adagradd", "", ":lr=1", "Add"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_fails(rbt_rule_find(texts[i], &found), RBT_E_INVALID, "there is no rule \"");
        assert_true(strlen(rbt_last_hint()) > 0);
        assert_null(found);
    }
}

static void the_name_ends_before_the_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {{"adagrad:lr=1", 7},       {"adagrad", 7},
                 {"adagrad:x=1/2", 7},      {"./mine.so:lr=1", 9},
                 {"/a:b/mine.so:lr=1", 12}, {"", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rbt_policy_piece piece = rbt_policy_piece(&rbt_policy_rules, cases[i].text);
        assert_ptr_equal(piece.name, cases[i].text);
        assert_int_equal(piece.name_size, cases[i].size);
    }
}

/* Asked for a default, help and training get what create() takes; see also numbers below. */
static void defaults_are_known_by_name(void **state)
{
    (void)state;
    assert_true(rbt_rule_default("adagrad", "lr") == 0.1);
    assert_true(rbt_rule_default("adam:beta1=0.5", "lr") == 0.001);
    assert_true(rbt_rule_default("adam", "quux") == 0);
    assert_true(rbt_rule_default("add", "lr") == 0);
    assert_true(rbt_rule_default("./mine.so", "lr") == 0);
    assert_true(rbt_rule_default("quux", "lr") == 0);
}

static void all_rules_are_whole(void **state)
{
    (void)state;
    for (const struct rbt_policy *const *at = rbt_policy_rules.all; *at != NULL; at++) {
        const struct rbt_rule *rule = (*at)->code;
        struct rbt_rule_needs needs;
        assert_int_equal(rule->abi, RBT_RULE_ABI);
        assert_int_equal(rule->struct_size, sizeof *rule);
        assert_non_null(rule->create);
        assert_non_null(rule->apply);
        assert_non_null(rule->summary);
        assert_int_equal(rule->summary[strlen(rule->summary) - 1], '.');
        assert_ok(rbt_rule_check(rule->name, 6, &needs)); /* needs no parameters */
        assert_true(needs.snapshot_width <= needs.state_width);
    }
}

enum { WIDTH = 8, WORKERS = 4 };

static const struct rbt_policy_parameter *listed;
static uint32_t asked;

static const struct rbt_policy_parameter *listed_as(const char *name)
{
    const struct rbt_policy_parameter *at = listed;
    while (at->name != NULL && strcmp(at->name, name) != 0) {
        at++;
    }
    return at;
}

static double number(const struct rbt_rule_setup *setup, const char *name, double fallback)
{
    (void)setup;
    const struct rbt_policy_parameter *parameter = listed_as(name);
    if (parameter->name == NULL) {
        fail_msg("help does not know the parameter %s", name);
    }
    assert_true(fallback == (parameter->usual != NULL ? 1.0 / WORKERS : parameter->fallback));
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
    static const struct rbt_policy_parameter none[] = {{.name = NULL}};
    for (const struct rbt_policy *const *at = rbt_policy_rules.all; *at != NULL; at++) {
        const struct rbt_rule *rule = (*at)->code;
        struct rbt_rule_needs needs = {0};
        void *self = NULL;
        uint32_t count = 0;
        listed = (*at)->parameters == NULL ? none : (*at)->parameters;
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

/* The first allocation fails, then the second, until nothing fails. */
static void all_rules_survive_without_memory(void **state)
{
    (void)state;
    for (const struct rbt_policy *const *at = rbt_policy_rules.all; *at != NULL; at++) {
        const size_t live = rbt_alloc_live();
        rbt_status st = RBT_E_NOMEM;
        for (unsigned nth = 1; st != RBT_OK; nth++) {
            assert_true(nth < 10);
            rbt_alloc_fail_nth(nth);
            st = rbt_rule_check(rbt_policy_name(*at), 6, NULL);
            rbt_alloc_fail_nth(0);
            assert_true(st == RBT_OK || st == RBT_E_NOMEM);
            assert_int_equal(rbt_alloc_live(), live);
        }
    }
}

static void checks_say_what_is_wrong(void **state)
{
    (void)state;
    struct rbt_rule_needs needs = {.state_width = 77};
    assert_fails(rbt_rule_check(NULL, 1, &needs), RBT_E_INVALID, "needs a text");
    assert_fails(rbt_rule_check("add", 0, &needs), RBT_E_INVALID, "at least one value");
    assert_fails(rbt_rule_check("add:lr=1", 1, &needs), RBT_E_INVALID, "no parameter \"lr\"");
    assert_int_equal(needs.state_width, 77); /* written only on success */
    assert_ok(rbt_rule_check("add", 1, NULL));
}

static void names_resolve_to_themselves_and_paths_to_absolute_ones(void **state)
{
    (void)state;
    char to[RBT_TEXT_MAX];
    char here[PATH_MAX];
    char file[] = "rule-XXXXXX";
    char text[RBT_TEXT_MAX];
    char expected[PATH_MAX + 32];
    assert_ok(rbt_policy_resolve(&rbt_policy_rules, "adagrad:lr=0.5", to));
    assert_string_equal(to, "adagrad:lr=0.5");
    const int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    assert_non_null(realpath(".", here));
    (void)snprintf(text, sizeof text, "./%s:lr=0.5", file);
    (void)snprintf(expected, sizeof expected, "%s/%s:lr=0.5", here, file);
    const rbt_status st = rbt_policy_resolve(&rbt_policy_rules, text, to);
    unlink(file);
    assert_ok(st);
    assert_string_equal(to, expected);
    assert_fails(rbt_policy_resolve(&rbt_policy_rules, text, to), RBT_E_INVALID,
                 "cannot find the rule \"./rule-");
}

static void texts_that_are_too_long_are_refused(void **state)
{
    (void)state;
    char text[RBT_TEXT_MAX + 1];
    char to[RBT_TEXT_MAX];
    const struct rbt_rule *found = NULL;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_fails(rbt_policy_resolve(&rbt_policy_rules, text, to), RBT_E_INVALID,
                 "at most 1023 bytes, not 1024");
    text[0] = '/';
    assert_fails(rbt_rule_find(text, &found), RBT_E_INVALID, "at most 1023 bytes, not 1024");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_found_by_name_whatever_their_parameters),
        cmocka_unit_test(a_name_that_there_is_not_is_refused),
        cmocka_unit_test(the_name_ends_before_the_parameters),
        cmocka_unit_test(defaults_are_known_by_name),
        cmocka_unit_test(all_rules_are_whole),
        cmocka_unit_test(help_knows_the_parameters_of_every_rule),
        cmocka_unit_test(all_rules_survive_without_memory),
        cmocka_unit_test(checks_say_what_is_wrong),
        cmocka_unit_test(names_resolve_to_themselves_and_paths_to_absolute_ones),
        cmocka_unit_test(texts_that_are_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
