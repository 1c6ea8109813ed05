/* cli/halves_test.c - tests of cli/halves.c. */
#include "base/test.h"

#include "base/error.h"
#include "cli/halves.h"

static void a_line_is_cut_once(void **state)
{
    (void)state;
    char *const argv[] = {"--workers", "2", "--", "prog", "--", "x", NULL};
    const struct rbt_halves halves = rbt_halves_cut(6, argv);
    assert_true(halves.is_cut);
    assert_int_equal(halves.front, 2);
    assert_int_equal(halves.behind_count, 3);
    assert_string_equal(halves.behind[0], "prog");
    assert_null(halves.behind[3]);
}

static void without_a_cut_the_front_ends_at_train(void **state)
{
    (void)state;
    char *const argv[] = {"--workers", "2", "train", "linear", "train", NULL};
    const struct rbt_halves halves = rbt_halves_cut(5, argv);
    assert_false(halves.is_cut);
    assert_int_equal(halves.front, 2);
    assert_int_equal(halves.behind_count, 0);
}

static void an_option_stands_on_one_side(void **state)
{
    (void)state;
    char *const argv[] = {"--", "train", "linear", "--servers=3", "--workers-x", NULL};
    const struct rbt_halves halves = rbt_halves_cut(5, argv);
    assert_true(rbt_halves_has(&halves, "--servers"));
    assert_false(rbt_halves_has(&halves, "--workers"));
    struct rbt_halves_shared shared[] = {{"--workers", true}, {"--servers", false}};
    assert_ok(rbt_halves_check(&halves, "run", shared, 2));
    shared[1].is_given = true;
    assert_fails(rbt_halves_check(&halves, "run", shared, 2), RBT_E_INVALID,
                 "option \"--servers\" is given to \"run\" and to \"train\"");
}

static void an_option_of_the_other_side_gets_a_hint(void **state)
{
    (void)state;
    const struct rbt_option options[] = {{.name = "hosts", .type = RBT_OPTION_TEXT}};
    const struct rbt_option_table table = {options, 1, NULL};
    char *const argv[] = {"--", "train", "--hosts", "x", NULL};
    const struct rbt_halves halves = rbt_halves_cut(4, argv);
    const rbt_status st = rbt_fail(RBT_E_INVALID, "unrecognised option \"--hosts\" for \"x\"");
    assert_int_equal(rbt_halves_hint(st, &halves, &table), RBT_E_INVALID);
    assert_non_null(strstr(rbt_last_hint(), "belongs before"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_cut_once),
        cmocka_unit_test(without_a_cut_the_front_ends_at_train),
        cmocka_unit_test(an_option_stands_on_one_side),
        cmocka_unit_test(an_option_of_the_other_side_gets_a_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
