/* policy/rule/plugin_test.c - rules from shared objects: those that fit are found, once, and the
 * others are refused with a sentence. Arguments: the folder with the cases (test/rules), and the
 * example.
 */
#include "base/limits.h"
#include "policy/plugin_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "policy/rule/rule.h"

/* Nothing is kept of what is refused. */
static rbt_status find(const char *path)
{
    const struct rbt_rule *rule = NULL;
    const size_t live = rbt_alloc_live();
    const rbt_status st = rbt_rule_find(path, &rule);
    assert_null(rule);
    assert_int_equal(rbt_alloc_live(), live);
    return st;
}

static void what_does_not_fit_is_refused_with_one_sentence(void **state)
{
    (void)state;
    static const struct rig_case cases[] = {
        {"missing.so", "missing.so\": No such file or directory",
         "It must be at this path on every host of the job."},
        {"case_abi.so", "is built for version 99 of the interface, but this program has version 2",
         ""},
        {"case_old.so",
         "is built for version 1 of the interface, but this program has version 2: rebuild it; see "
         "docs/rules.md",
         ""},
        {"case_size.so", "has a struct_size of 16, but needs at least",
         "Set .struct_size = sizeof rbt_rule"},
        {"case_name.so", "case_name.so\" has no name", ""},
        {"case_create.so", "case_create.so\" has no create function", ""},
        {"case_apply.so", "case_apply.so\" has no apply function", ""},
        {"case_save.so", "case_save.so\" has no load function, but a save function", ""},
        {"case_symbol.so", "is not a rule: it has no symbol \"rbt_rule\"", "It should define"},
    };
    rig_refuses(find, cases, sizeof cases / sizeof cases[0]);
}

/* A file with the first bytes of the good rule, or of a text, is refused with this sentence. */
static void refuse_file(const void *bytes, size_t size, const char *complaint, const char *hint)
{
    const struct rbt_rule *rule = NULL;
    char path[] = "./rule-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
    const rbt_status st = rbt_rule_find(path, &rule);
    unlink(path);
    assert_fails(st, RBT_E_INVALID, complaint);
    assert_non_null(strstr(rbt_last_error(), "cannot load the rule \"/"));
    assert_string_equal(rbt_last_hint(), hint);
    assert_null(rule);
}

static void a_file_that_is_no_shared_object_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const char build[] = "Build it with: cc -shared -fPIC -o mine.so mine.c.";
    static const char text[4096] = "no object, and longer than any head of one";
    const struct rbt_rule *rule = NULL;
    refuse_file(text, 10, "it is not a shared object", build);
    refuse_file(text, sizeof text, "it is not a shared object", build);
    refuse_file("", 0, "it is not a shared object", build);
    assert_fails(rbt_rule_find("./", &rule), RBT_E_INVALID, "it is a directory");
    assert_string_equal(rbt_last_hint(), build);
}

/* The loader would be killed by SIGBUS. */
static void a_file_that_is_cut_off_is_refused(void **state)
{
    (void)state;
    static char bytes[8192]; /* more than its heads, less than its parts */
    FILE *file = fopen(rig_path("case_good.so"), "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    assert_int_equal(size, sizeof bytes);
    refuse_file(bytes, 100, "the file is cut off at 100 bytes", "Rebuild it or copy it again.");
    refuse_file(bytes, 8192, "the file is cut off at 8192 bytes", "Rebuild it or copy it again.");
}

static void without_memory_nothing_is_kept(void **state)
{
    (void)state;
    const struct rbt_rule *rule = NULL;
    for (unsigned nth = 1; nth <= 2; nth++) {
        const size_t live = rbt_alloc_live();
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_rule_find(rig_path("case_good.so"), &rule);
        rbt_alloc_fail_nth(0);
        assert_fails(st, RBT_E_NOMEM, "no memory for the rule");
        assert_null(rule);
        assert_int_equal(rbt_alloc_live(), live);
    }
}

static const struct rbt_rule *found[8];

static rbt_status find_good(void *argument, uint32_t index)
{
    return rbt_rule_find(argument, &found[index]);
}

static void a_file_is_opened_once_by_any_path_and_thread(void **state)
{
    (void)state;
    char path[RBT_PLUGIN_PATH_MAX];
    const struct rbt_rule *again = NULL;
    (void)snprintf(path, sizeof path, "%s", rig_path("case_good.so:lr=1"));
    const size_t live = rbt_alloc_live();
    assert_ok(rbt_thread_run(8, find_good, path));
    assert_int_equal(rbt_alloc_live(), live + 2); /* its entry and its path */
    for (uint32_t i = 1; i < 8; i++) {
        assert_ptr_equal(found[i], found[0]);
    }
    assert_ok(rbt_rule_find(rig_path("../rules/./case_good.so"), &again));
    assert_ptr_equal(again, found[0]);
    assert_int_equal(rbt_alloc_live(), live + 2);
}

static void a_users_rule_is_applied(void **state)
{
    (void)state;
    const struct rbt_rule *rule = NULL;
    struct rbt_rule_needs needs;
    struct rbt_rule_instance instance;
    const struct rbt_rule_table table = {.name = "t", .width = 2, .worker_count = 1};
    const struct rbt_rule_message message = {0};
    float values[2] = {1, 2};
    const float deltas[2] = {10, 20};
    const struct rbt_rule_row row = {.width = 2, .values = values, .delta = deltas};
    const char *path = rig_path("case_good.so");
    assert_ok(rbt_rule_check(path, 2, &needs));
    assert_ok(rbt_rule_find(path, &rule));
    assert_ok(rbt_rule_create(rule, path, &table, &instance));
    assert_ok(rule->apply(instance.self, &message, &row));
    assert_true(values[0] == 21);
    assert_true(values[1] == 42);
    rbt_rule_destroy(&instance);
    assert_fails(rbt_rule_check(rig_path("case_good.so:lr=1"), 2, &needs), RBT_E_INVALID,
                 "rule \"twice\" has no parameter \"lr\"");
}

/* v <- mu v + g, w <- w - lr v, with gradients of 8, 0 and 16 for a row of one. */
static void the_example_is_momentum(void **state)
{
    (void)state;
    const struct rbt_rule *rule = NULL;
    struct rbt_rule_instance instance;
    const struct rbt_rule_table table = {.name = "t", .width = 1, .worker_count = 1};
    const struct rbt_rule_message message = {0};
    char text[RBT_TEXT_MAX];
    float w = 100;
    float v = 0;
    float g = 0;
    const struct rbt_rule_row row = {.width = 1, .values = &w, .state = &v, .delta = &g};
    static const float gradients[] = {8, 0, 16};
    static const float expected[] = {100 - 2, 98 - 1, 97 - 4.5F};
    (void)snprintf(text, sizeof text, "%s:lr=0.25,mu=0.5", rig_example);
    assert_ok(rbt_rule_find(text, &rule));
    assert_ok(rbt_rule_create(rule, text, &table, &instance));
    assert_int_equal(instance.needs.input, RBT_RULE_GRADIENTS);
    assert_int_equal(instance.needs.state_width, 1);
    for (uint32_t i = 0; i < 3; i++) {
        g = gradients[i];
        assert_ok(rule->apply(instance.self, &message, &row));
        assert_true(w == expected[i]);
    }
    g = NAN;
    assert_fails(rule->apply(instance.self, &message, &row), RBT_E_INVALID, "row 0");
    rbt_rule_destroy(&instance);
    (void)snprintf(text, sizeof text, "%s:mu=1", rig_example);
    assert_fails(rbt_rule_check(text, 1, NULL), RBT_E_INVALID,
                 "rule \"momentum\": mu must be at least 0 and below 1, not 1");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused_with_one_sentence),
        cmocka_unit_test(a_file_that_is_no_shared_object_is_refused_with_the_reason),
        cmocka_unit_test(a_file_that_is_cut_off_is_refused),
        cmocka_unit_test(without_memory_nothing_is_kept),
        cmocka_unit_test(a_file_is_opened_once_by_any_path_and_thread),
        cmocka_unit_test(a_users_rule_is_applied),
        cmocka_unit_test(the_example_is_momentum),
    };
    const int wrong = rig_arguments(argc, argv);
    return wrong != 0 ? wrong : cmocka_run_group_tests(tests, NULL, NULL);
}
