/* policy/priority/priority_test.c - scores are what they say, also where values are zero or not
 * known, and users' priorities are found. Arguments: the folder with the cases (test/priorities),
 * and the example. */
#include "policy/plugin_rig.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/rng.h"
#include "policy/priority/priority.h"

static float score_of(const char *name, const float *change, const float *value, uint32_t width)
{
    struct rbt_priority_policy policy;
    const struct rbt_priority_row row = {
        .key = 1, .width = width, .change = change, .value = value};
    assert_ok(rbt_priority_find(name, &policy));
    assert_string_equal(policy.name, name);
    assert_int_equal(policy.order, RBT_ORDER_SCORE);
    return policy.score(&row);
}

static void round_robin_and_random_ask_for_no_score(void **state)
{
    (void)state;
    static const struct rbt_priority_policy expected[] = {
        {"oldest", RBT_ORDER_OLDEST, NULL, false},
        {"walk", RBT_ORDER_WALK, NULL, false},
        {"sweep", RBT_ORDER_WALK, NULL, true},
        {"random", RBT_ORDER_RANDOM, NULL, false}};
    for (size_t i = 0; i < 4; i++) {
        struct rbt_priority_policy policy;
        assert_ok(rbt_priority_find(expected[i].name, &policy));
        assert_string_equal(policy.name, expected[i].name);
        assert_int_equal(policy.order, expected[i].order);
        assert_null(policy.score);
        assert_int_equal(policy.is_sweep, expected[i].is_sweep);
    }
}

static void magnitude_is_the_sum_of_absolute_changes(void **state)
{
    (void)state;
    static const float change[] = {1, -2, 4, 0, -8, 16, -32, 64, 128, -256};
    static const float value[10] = {1e9F};
    assert_true(score_of("magnitude", change, value, 10) == 511);
    assert_true(score_of("magnitude", change, NULL, 3) == 7);
    assert_true(score_of("magnitude", change, NULL, 0) == 0);
    static const float strange[] = {1, -INFINITY};
    assert_true(score_of("magnitude", strange, NULL, 2) == INFINITY);
    static const float number[] = {1, NAN};
    assert_true(isnan(score_of("magnitude", number, NULL, 2)));
}

static void relative_divides_by_what_is_known_and_not_zero(void **state)
{
    (void)state;
    static const float change[] = {1, -2, 4, -8};
    static const float value[] = {-4, 0, -0.0F, 16};
    assert_true(score_of("relative", change, value, 4) == 0.25F + 2 + 4 + 0.5F);
    assert_true(score_of("relative", change, NULL, 4) == 15);
    static const float none[4] = {0};
    assert_true(score_of("relative", change, none, 4) == 15);
    assert_true(score_of("relative", none, none, 4) == 0);
    static const float tiny[] = {0x1p-149F, 1, 1, 1};
    assert_true(score_of("relative", change, tiny, 4) == INFINITY);
    static const float number[] = {NAN, 1, 1, 1};
    assert_true(isnan(score_of("relative", change, number, 4)));
    static const float large[] = {INFINITY, 1, 1, 1};
    assert_true(score_of("relative", change, large, 4) == 14);
}

/* Against plain sums in double, for all widths around the lanes. */
static void scores_are_as_the_plain_sums(void **state)
{
    (void)state;
    struct rbt_rng rng;
    float change[100];
    float value[100];
    rbt_rng_init(&rng, 3, 0, 0);
    for (uint32_t width = 0; width < 100; width++) {
        double magnitude = 0;
        double relative = 0;
        for (uint32_t i = 0; i < width; i++) {
            change[i] = (float)rbt_rng_normal(&rng);
            value[i] = rbt_rng_below(&rng, 4) == 0 ? 0 : (float)rbt_rng_normal(&rng);
            magnitude += fabs((double)change[i]);
            relative += fabs((double)change[i] / (value[i] == 0 ? 1 : (double)value[i]));
        }
        assert_true(fabs(score_of("magnitude", change, value, width) - magnitude) <=
                    1e-5 * magnitude);
        assert_true(fabs(score_of("relative", change, value, width) - relative) <= 1e-5 * relative);
    }
}

/* The two disagree about a small change of a small value. */
static void rows_go_in_the_order_of_their_scores(void **state)
{
    (void)state;
    static const float changes[3][2] = {{1, 1}, {0.1F, 0.1F}, {5, 5}};
    static const float values[3][2] = {{2, 2}, {0.01F, 0}, {100, 100}};
    static const char *const names[2] = {"magnitude", "relative"};
    static const uint32_t expected[2][3] = {{2, 0, 1}, {1, 0, 2}};
    for (int i = 0; i < 2; i++) {
        rbt_change_queue *queue = NULL;
        assert_ok(rbt_queue_create(RBT_ORDER_SCORE, 3, 1, &queue));
        for (uint32_t k = 0; k < 3; k++) {
            rbt_queue_mark(queue, k, score_of(names[i], changes[k], values[k], 2));
        }
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(rbt_queue_take(queue), expected[i][k]);
        }
        rbt_queue_destroy(queue);
    }
}

static void a_users_priority_is_found_and_asked(void **state)
{
    (void)state;
    struct rbt_priority_policy policy;
    struct rbt_priority_policy again;
    static const float change[] = {3, -4};
    static const float value[] = {0, 9};
    struct rbt_priority_row row = {.width = 2, .change = change, .value = value};
    assert_ok(rbt_priority_find(rig_example, &policy));
    assert_string_equal(policy.name, "turn");
    assert_int_equal(policy.order, RBT_ORDER_SCORE);
    assert_true(policy.score(&row) == 0.5F);
    row.value = NULL;
    assert_true(policy.score(&row) == 5);
    assert_ok(rbt_priority_find(rig_example, &again));
    assert_ptr_equal(policy.score, again.score);
}

/* What is refused leaves the policy as it was. */
static rbt_status find(const char *name)
{
    struct rbt_priority_policy policy = {.name = "none"};
    const rbt_status st = rbt_priority_find(name, &policy);
    assert_string_equal(policy.name, "none");
    return st;
}

static void what_does_not_fit_is_refused_with_one_sentence(void **state)
{
    (void)state;
    static const struct rig_case cases[] = {
        {"case_abi.so", "is built for version 99 of the interface, but this program has version 1",
         "Rebuild it with this version's rubato/priority.h."},
        {"case_size.so", "has a struct_size of 8, but needs at least",
         "Set .struct_size = sizeof rbt_priority"},
        {"case_name.so", "case_name.so\" has no name", ""},
        {"case_score.so", "case_score.so\" has no score function", ""},
        {"case_symbol.so", "is not a priority: it has no symbol \"rbt_priority\"",
         "It should define"},
    };
    rig_refuses(find, cases, sizeof cases / sizeof cases[0]);
    assert_fails(find("relation"), RBT_E_INVALID, "there is no priority \"relation\"");
    assert_non_null(strstr(rbt_last_hint(), "oldest, walk, sweep, random, magnitude, relative"));
    assert_fails(find(""), RBT_E_INVALID, "there is no priority \"\"");
    assert_fails(find("./none.so"), RBT_E_INVALID,
                 "cannot find the priority \"./none.so\": No such file");
}

static void a_path_is_made_absolute_and_a_name_stays(void **state)
{
    (void)state;
    char resolved[RBT_PLUGIN_PATH_MAX];
    char expected[RBT_PLUGIN_PATH_MAX];
    assert_ok(rbt_priority_resolve("walk", resolved));
    assert_string_equal(resolved, "walk");
    (void)snprintf(expected, sizeof expected, "%s", rig_path("case_abi.so"));
    assert_ok(rbt_priority_resolve(rig_path("./case_abi.so"), resolved));
    assert_string_equal(resolved, expected);
    assert_fails(rbt_priority_resolve("wal", resolved), RBT_E_INVALID, "there is no priority");
    assert_fails(rbt_priority_resolve("./wal", resolved), RBT_E_INVALID, "cannot find");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_robin_and_random_ask_for_no_score),
        cmocka_unit_test(magnitude_is_the_sum_of_absolute_changes),
        cmocka_unit_test(relative_divides_by_what_is_known_and_not_zero),
        cmocka_unit_test(scores_are_as_the_plain_sums),
        cmocka_unit_test(rows_go_in_the_order_of_their_scores),
        cmocka_unit_test(a_users_priority_is_found_and_asked),
        cmocka_unit_test(what_does_not_fit_is_refused_with_one_sentence),
        cmocka_unit_test(a_path_is_made_absolute_and_a_name_stays),
    };
    const int wrong = rig_arguments(argc, argv);
    return wrong != 0 ? wrong : cmocka_run_group_tests(tests, NULL, NULL);
}
