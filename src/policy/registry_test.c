/* policy/registry_test.c - texts fall into pieces, names are found or refused with the nearest one,
 * and paths are told from names. Shared objects are the business of the tests of each kind. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "policy/filter/filter.h"
#include "policy/priority/priority.h"
#include "policy/registry.h"
#include "policy/rule/rule.h"

static const struct rbt_policy_kind *const kinds[] = {&rbt_policy_rules, &rbt_policy_filters,
                                                      &rbt_policy_priorities};

static const struct rbt_policy_head one = {.name = "one", .summary = "The first."};
static const struct rbt_policy_head thirteen = {.name = "thirteen", .summary = "The second."};
static const struct rbt_policy_head hidden = {.name = "hidden", .summary = "Nobody's."};
static const struct rbt_policy policies[] = {{.code = &one}, {.code = &thirteen}};
static const struct rbt_policy internal = {.code = &hidden};
static const struct rbt_policy *const all[] = {&policies[0], &policies[1], NULL};

enum { TEXT_MAX = 32 };

static size_t prefix_size(const char *piece)
{
    return strncmp(piece, "at.", 3) == 0 ? 3 : 0;
}

static const struct rbt_policy_kind kind = {.plugin = {.what = "number"},
                                            .plural = "numbers",
                                            .text = "a list of numbers",
                                            .text_max = TEXT_MAX,
                                            .is_list = true,
                                            .has_parameters = true,
                                            .prefix_size = prefix_size,
                                            .all = all,
                                            .internal = &internal};

static void every_name_is_found_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (const struct rbt_policy *const *at = kinds[i]->all; *at != NULL; at++) {
            const char *name = rbt_policy_name(*at);
            const void *code = NULL;
            assert_ok(rbt_policy_find(kinds[i], name, &code));
            assert_ptr_equal(code, (*at)->code);
            for (const struct rbt_policy *const *other = kinds[i]->all; other != at; other++) {
                assert_string_not_equal(rbt_policy_name(*other), name);
            }
        }
    }
}

static void texts_fall_into_pieces(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        size_t before; /* the name */
        size_t name_size;
        bool is_path;
    } cases[] = {{"one", 3, 0, 3, false},
                 {"one,thirteen", 3, 0, 3, false},
                 {"at.one:1:2,thirteen", 10, 3, 3, false},
                 {"one:1/2", 7, 0, 3, false},
                 {"at../a.so:1:2", 13, 3, 6, true},
                 {"/a:b/c.so:1,/d", 11, 0, 9, true},
                 {"", 0, 0, 0, false},
                 {",one", 0, 0, 0, false},
                 {"at.,one", 3, 3, 0, false},
                 {":1", 2, 0, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rbt_policy_piece piece = rbt_policy_piece(&kind, cases[i].text);
        assert_int_equal(piece.size, cases[i].size);
        assert_ptr_equal(piece.name, cases[i].text + cases[i].before);
        assert_int_equal(piece.name_size, cases[i].name_size);
        assert_int_equal(piece.is_path, cases[i].is_path);
    }
}

static void what_a_kind_has_not_is_part_of_the_name(void **state)
{
    (void)state;
    struct rbt_policy_kind bare = kind;
    bare.is_list = false;
    bare.has_parameters = false;
    bare.prefix_size = NULL;
    const struct rbt_policy_piece piece = rbt_policy_piece(&bare, "at./a:b,c");
    assert_int_equal(piece.size, 9);
    assert_int_equal(piece.name_size, 9);
    assert_true(piece.is_path);
}

static rbt_status find(const char *text)
{
    const void *code = NULL;
    const rbt_status st = rbt_policy_find(&kind, text, &code);
    assert_int_equal(st == RBT_OK, code != NULL);
    return st;
}

static void an_unknown_name_is_refused_with_the_nearest(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *said;
        const char *hint;
    } cases[] = {
        {"ones:1", "there is no number \"ones\"", "Did you mean \"one\"?"},
        {"at.thriteen,one", "there is no number \"thriteen\"", "Did you mean \"thirteen\"?"},
        {"quux", "there is no number \"quux\"",
         "The numbers are one, thirteen. A number of your own is named by its path: ./mine.so."},
        {"", "there is no number \"\"",
         "The numbers are one, thirteen. A number of your own is named by its path: ./mine.so."}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(find(cases[i].text), RBT_E_INVALID, cases[i].said);
        assert_string_equal(rbt_last_hint(), cases[i].hint);
    }
}

/* Rubato itself finds it; nobody is told of it. */
static void what_nobody_chooses_is_found_and_not_listed(void **state)
{
    (void)state;
    assert_ok(find("hidden:1"));
    assert_fails(find("hidde"), RBT_E_INVALID, "there is no number \"hidde\"");
    assert_null(strstr(rbt_last_hint(), "hidden"));
}

static void texts_have_a_largest_size(void **state)
{
    (void)state;
    char text[TEXT_MAX + 1];
    char to[TEXT_MAX];
    memset(text, 'x', sizeof text);
    text[TEXT_MAX] = '\0';
    assert_fails(find(text), RBT_E_INVALID, "a list of numbers has at most 31 bytes, not 32");
    assert_fails(rbt_policy_resolve(&kind, text, to), RBT_E_INVALID, "at most 31 bytes, not 32");
    text[TEXT_MAX - 1] = '\0';
    assert_fails(find(text), RBT_E_INVALID, "there is no number");
}

static void names_stay_and_paths_become_absolute(void **state)
{
    (void)state;
    char to[TEXT_MAX];
    char here[RBT_PLUGIN_PATH_MAX];
    assert_ok(rbt_policy_resolve(&kind, "at.one:1:2,thirteen", to));
    assert_string_equal(to, "at.one:1:2,thirteen");
    assert_ok(rbt_policy_resolve(&kind, "", to));
    assert_string_equal(to, "");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir("/"), 0);
    assert_ok(rbt_policy_resolve(&kind, "one,at../tmp/..:1,./proc", to));
    assert_string_equal(to, "one,at./:1,/proc");
    assert_fails(rbt_policy_resolve(&kind, "one,./quux", to), RBT_E_INVALID,
                 "cannot find the number \"./quux\"");
    assert_fails(rbt_policy_resolve(&kind, "aaaaaa,one", to), RBT_E_INVALID,
                 "there is no number \"aaaaaa\"");
    assert_int_equal(chdir(here), 0);
}

static void paths_that_grow_too_long_are_refused(void **state)
{
    (void)state;
    char folder[] = "/tmp/registry-of-policies-XXXXXX";
    char here[RBT_PLUGIN_PATH_MAX];
    char to[TEXT_MAX];
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    const rbt_status st = rbt_policy_resolve(&kind, "one,./:1", to);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_fails(st, RBT_E_INVALID, "a list of numbers has a path that is too long: \"/tmp/");
}

static void paths_are_visited_in_their_order(void **state)
{
    (void)state;
    static const char *const expected[] = {"./a.so", "/b:c/d.so"};
    const char *at = "one,at../a.so:1,thirteen:2/3,/b:c/d.so:4,one";
    char path[TEXT_MAX];
    for (size_t i = 0; i < 2; i++) {
        assert_true(rbt_policy_next_path(&kind, &at, path));
        assert_string_equal(path, expected[i]);
    }
    assert_false(rbt_policy_next_path(&kind, &at, path));
    assert_string_equal(at, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_is_found_once),
        cmocka_unit_test(texts_fall_into_pieces),
        cmocka_unit_test(what_a_kind_has_not_is_part_of_the_name),
        cmocka_unit_test(an_unknown_name_is_refused_with_the_nearest),
        cmocka_unit_test(what_nobody_chooses_is_found_and_not_listed),
        cmocka_unit_test(texts_have_a_largest_size),
        cmocka_unit_test(names_stay_and_paths_become_absolute),
        cmocka_unit_test(paths_that_grow_too_long_are_refused),
        cmocka_unit_test(paths_are_visited_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
