/* policy/rule/parts_test.c - questions are answered in their order; nonsense is refused. */
#include "base/test.h"

#include <math.h>

#include "policy/rule/rule.h"

enum { TURN, PASS, LIMIT, FINISHED, FINISHED_PASS, SECONDS, SECONDS_REST, WIDTH };
enum { ANSWER = 1, ANSWER_PASS, ANSWER_PART, IS_FIRST, COUNT };

static struct rbt_rule_instance make(void)
{
    const char *text = "parts:parts=2,patience=4";
    const struct rbt_rule *rule = NULL;
    const struct rbt_rule_table table = {.name = "parts", .width = WIDTH, .worker_count = 2};
    struct rbt_rule_instance instance;
    assert_ok(rbt_rule_find(text, &rule));
    assert_ok(rbt_rule_create(rule, text, &table, &instance));
    return instance;
}

static rbt_status ask(const struct rbt_rule_instance *instance, uint32_t worker,
                      const float *question, float *answer)
{
    const struct rbt_rule_message message = {.worker = worker};
    const struct rbt_rule_row row = {
        .key = worker, .width = WIDTH, .values = answer, .delta = question};
    return instance->rule->apply(instance->self, &message, &row);
}

static void parts_are_dealt_in_the_order_of_questions(void **state)
{
    (void)state;
    struct rbt_rule_instance instance = make();
    float question[WIDTH] = {[TURN] = 1, [LIMIT] = 2};
    float answer[WIDTH] = {0};
    assert_ok(ask(&instance, 1, question, answer));
    assert_true(answer[TURN] == 1 && answer[ANSWER] == 0 && answer[ANSWER_PART] == 0);
    assert_ok(ask(&instance, 0, question, answer));
    assert_true(answer[ANSWER] == 0 && answer[ANSWER_PART] == 1);
    question[TURN] = 2;
    question[FINISHED] = 1; /* part 0 */
    assert_ok(ask(&instance, 1, question, answer));
    assert_true(answer[TURN] == 2 && answer[ANSWER] == 1 && answer[IS_FIRST] == 1);
    question[FINISHED] = 2;
    assert_ok(ask(&instance, 0, question, answer));
    assert_true(answer[ANSWER] == 2 && answer[COUNT] == 1);
    rbt_rule_destroy(&instance);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct rbt_rule_instance instance = make();
    float answer[WIDTH] = {0};
    const float wrong[][WIDTH] = {
        {[TURN] = 1, [LIMIT] = 3},
        {[TURN] = 1, [LIMIT] = -1},
        {[TURN] = 1, [PASS] = 0.5F},
        {[TURN] = 1, [PASS] = 1},
        {[TURN] = NAN, [LIMIT] = 1},
        {[TURN] = 1, [LIMIT] = 1, [FINISHED] = 1},
        {[TURN] = 1, [LIMIT] = 1, [SECONDS] = INFINITY},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(ask(&instance, 0, wrong[i], answer) != RBT_OK);
    }
    rbt_rule_destroy(&instance);
    assert_int_equal(rbt_rule_check("parts", 1, NULL), RBT_E_INVALID); /* not for parameters */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_dealt_in_the_order_of_questions),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
