/* algo/frame/rules_test.c - what becomes of --rule: its kind, its parameters, and its tables. */
#include "base/limits.h"
#include "base/test.h"

#include <math.h>

#include "algo/frame/replica.h"
#include "algo/frame/rules.h"

static struct rbt_train_options options_of(const char *rule)
{
    return (struct rbt_train_options){.rule = rule, .tiny = (double)NAN};
}

static void add_and_nothing_are_plain(void **state)
{
    (void)state;
    const char *const texts[] = {NULL, "add"};
    for (size_t i = 0; i < 2; i++) {
        const struct rbt_train_options options = options_of(texts[i]);
        struct rbt_rules rules;
        struct rbt_table_options table = {0};
        int32_t combine = RBT_COMBINE_AUTO;
        assert_ok(rbt_rules_read(&options, &rules));
        assert_true(rules.is_plain && !rules.has_gradients);
        rbt_rules_apply(&rules, &table);
        assert_null(table.rule);
        assert_ok(rbt_rules_combine(&rules, &combine));
        assert_int_equal(combine, RBT_COMBINE_MEAN);
    }
}

static void moves_are_summed_in_replicas(void **state)
{
    (void)state;
    struct rbt_train_options options = options_of("dynsgd");
    struct rbt_rules rules;
    struct rbt_table_options table = {0};
    int32_t combine = RBT_COMBINE_AUTO;
    assert_ok(rbt_rules_read(&options, &rules));
    assert_false(rules.is_plain || rules.has_gradients);
    assert_ok(rbt_rules_combine(&rules, &combine));
    assert_int_equal(combine, RBT_COMBINE_SUM);
    combine = RBT_COMBINE_MEAN;
    assert_fails(rbt_rules_combine(&rules, &combine), RBT_E_INVALID, "\"--combine mean\"");
    combine = RBT_COMBINE_SUM;
    assert_ok(rbt_rules_combine(&rules, &combine));
    rbt_rules_apply(&rules, &table);
    assert_int_equal(table.overlay, RBT_OVERLAY_REPLICA);
    assert_int_equal(table.experiments->slack, 0);
    assert_true(table.experiments->tiny == 1e-6);
    options.pull = RBT_PULL_PRINTED;
    options.tiny = 0.5;
    rbt_rules_apply(&rules, &table);
    assert_int_equal(table.experiments->slack, 1);
    assert_true(table.experiments->tiny == 0.5);
}

static void gradients_are_not_combined(void **state)
{
    (void)state;
    const struct rbt_train_options options = options_of("adagrad");
    struct rbt_rules rules;
    int32_t combine = RBT_COMBINE_AUTO;
    assert_ok(rbt_rules_read(&options, &rules));
    assert_ok(rbt_rules_combine(&rules, &combine));
    combine = RBT_COMBINE_SUM;
    assert_fails(rbt_rules_combine(&rules, &combine), RBT_E_INVALID,
                 "\"--combine\" excludes rule \"adagrad\", which takes gradients");
    combine = RBT_COMBINE_MEAN;
    assert_fails(rbt_rules_combine(&rules, &combine), RBT_E_INVALID, "which takes gradients");
}

static void parameters_are_found_added_and_dropped(void **state)
{
    (void)state;
    const struct rbt_train_options options = options_of("ftrl:l1=1,beta=2,l2=3");
    struct rbt_rules rules;
    assert_ok(rbt_rules_read(&options, &rules));
    assert_true(rules.has_gradients && rbt_rules_is(&rules, "ftrl"));
    assert_true(rbt_rules_has(&rules, "l1") && rbt_rules_has(&rules, "l2"));
    assert_false(rbt_rules_has(&rules, "lr") || rbt_rules_has(&rules, "l"));
    assert_ok(rbt_rules_give(&rules, "l1", 9));
    assert_string_equal(rules.text, "ftrl:l1=1,beta=2,l2=3");
    rbt_rules_drop(&rules, "l2");
    assert_string_equal(rules.text, "ftrl:l1=1,beta=2");
    rbt_rules_drop(&rules, "l1");
    rbt_rules_drop(&rules, "beta");
    assert_ok(rbt_rules_give(&rules, "lr", 0.25));
    assert_string_equal(rules.text, "ftrl:lr=0.25");
    assert_ok(rbt_rules_check(&rules, 3));
    assert_ok(rbt_rules_give(&rules, "quux", 1));
    assert_int_equal(rbt_rules_check(&rules, 3), RBT_E_INVALID);
}

static void step_sizes_come_from_one_place(void **state)
{
    (void)state;
    const struct rbt_rules_rate rates[] = {{"sgd", 3}, {"adagrad", 4}, {NULL, 0}};
    struct rbt_train_options options = options_of("adagrad");
    struct rbt_rules rules;
    assert_ok(rbt_rules_read(&options, &rules));
    assert_ok(rbt_rules_give_lr(&rules, (double)NAN, rates));
    assert_string_equal(rules.text, "adagrad:lr=4");
    options.rule = "ftrl:l1=1";
    assert_ok(rbt_rules_read(&options, &rules));
    assert_ok(rbt_rules_give_lr(&rules, (double)NAN, rates));
    assert_string_equal(rules.text, "ftrl:l1=1"); /* nothing is known of its own */
    options.rule_lr = 0.125;
    assert_ok(rbt_rules_read(&options, &rules));
    assert_ok(rbt_rules_give_lr(&rules, (double)NAN, rates));
    assert_string_equal(rules.text, "ftrl:l1=1,lr=0.125");
    options.rule = "adagrad";
    assert_ok(rbt_rules_read(&options, &rules));
    assert_ok(rbt_rules_give_lr(&rules, (double)NAN, rates));
    assert_string_equal(rules.text, "adagrad:lr=4");
    assert_ok(rbt_rules_read(&options, &rules));
    assert_ok(rbt_rules_give_lr(&rules, 0.5, rates));
    assert_string_equal(rules.text, "adagrad:lr=0.5");
    options.rule = "adagrad:lr=1";
    assert_ok(rbt_rules_read(&options, &rules));
    assert_ok(rbt_rules_give_lr(&rules, (double)NAN, rates));
    assert_string_equal(rules.text, "adagrad:lr=1");
    assert_fails(rbt_rules_give_lr(&rules, 0.5, rates), RBT_E_INVALID, "given twice");
    options.rule = "quux";
    assert_fails(rbt_rules_read(&options, &rules), RBT_E_INVALID, "no rule \"quux\"");
}

/* Nobody is late for what is one's own, unless rows travel early. */
static void revision_is_left_out_where_rows_belong_to_one_worker(void **state)
{
    (void)state;
    const struct {
        const char *rule;
        double bandwidth;
        const char *expected;
    } cases[] = {{"adarev:lr=0.25,max=9", 0, "adagrad:lr=0.25"},
                 {"adarev:max=9,beta=2", 0, "adagrad:beta=2"},
                 {"adarev:lr=0.25", 1e6, "adarev:lr=0.25"},
                 {"adarev:trust=1", 0, "adagrad:trust=1"},
                 {"ftrl:l1=1", 0, "ftrl:l1=1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rbt_train_options options = options_of(cases[i].rule);
        options.bandwidth = cases[i].bandwidth;
        struct rbt_rules rules;
        struct rbt_table_options table = {.struct_size = sizeof table};
        assert_ok(rbt_rules_read(&options, &rules));
        rbt_rules_apply_alone(&rules, &table);
        assert_string_equal(table.rule, cases[i].expected);
        assert_string_equal(table.consistency, "asp");
        assert_ok(rbt_rule_check(table.rule, 4, NULL));
        rbt_rules_apply(&rules, &table);
        assert_string_equal(table.rule, cases[i].rule);
    }
}

static void filters_are_given_their_numbers(void **state)
{
    (void)state;
    struct rbt_train_options options = {.rule = "prox:l1=0.25,lr=2", .filter = "keys,kkt,lz4"};
    struct rbt_table_options table = {0};
    struct rbt_rules rules;
    char text[RBT_TEXT_MAX];
    assert_ok(rbt_rules_read(&options, &rules));
    assert_true(rbt_rules_number(&rules, "l1", 9) == 0.25);
    assert_true(rbt_rules_number(&rules, "l2", 9) == 9);
    rbt_rules_apply(&rules, &table);
    assert_string_equal(table.filter, "keys,kkt,lz4");
    assert_true(rbt_rules_has_bare(rules.filter, "kkt"));
    assert_false(rbt_rules_has_bare("kkt:1,kktt,pull.f16", "kkt"));
    assert_ok(rbt_rules_complete("push.kkt,kkt:3,f16,kkt", "kkt", 0.5, text));
    assert_string_equal(text, "push.kkt:0.5,kkt:3,f16,kkt:0.5");
    options = (struct rbt_train_options){0};
    assert_ok(rbt_rules_read(&options, &rules));
    rbt_rules_apply(&rules, &table);
    assert_null(table.filter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_and_nothing_are_plain),
        cmocka_unit_test(moves_are_summed_in_replicas),
        cmocka_unit_test(gradients_are_not_combined),
        cmocka_unit_test(parameters_are_found_added_and_dropped),
        cmocka_unit_test(step_sizes_come_from_one_place),
        cmocka_unit_test(revision_is_left_out_where_rows_belong_to_one_worker),
        cmocka_unit_test(filters_are_given_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
