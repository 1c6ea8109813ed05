/* policy/rule/add_test.c - The rule that adds, against a plain sum. */
#include "policy/rule/rule_game.h"

static double sum(const struct touch *touches, size_t count, float first, double *scale)
{
    (void)scale;
    for (size_t i = 0; i < count; i++) {
        first += touches[i].g;
    }
    return (double)first;
}

static void add_gives_the_sum_of_all_updates(void **state)
{
    (void)state;
    const struct rig_game game = {.text = "add", .games = 1000, .steps = 60, .reference = sum};
    rig_play(&game);
}

static void add_wants_moves_and_keeps_nothing(void **state)
{
    (void)state;
    struct rbt_rule_needs needs;
    assert_ok(rbt_rule_check("add", WIDTH, &needs));
    assert_int_equal(needs.input, RBT_RULE_MOVES);
    assert_int_equal(needs.state_width, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_gives_the_sum_of_all_updates),
        cmocka_unit_test(add_wants_moves_and_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
