/* algo/frame/column_options_test.c - what is known of columns goes through a model; keys of another
 * hash are refused. */
#include "base/test.h"

#include <string.h>

#include "algo/frame/column_options.h"
#include "base/alloc.h"
#include "base/error.h"

/* Columns: a number, a text, the label. */
static struct rbt_column_plan plan_of_three(void)
{
    return (struct rbt_column_plan){.count = 3,
                                    .label = 2,
                                    .kinds = {RBT_COLUMN_NUMBER, RBT_COLUMN_CATEGORY},
                                    .scales = {0.25F, 1, 1}};
}

/* The name of a setting becomes one that nobody asks for. */
static void forget(struct rbt_model *model, const char *name)
{
    for (size_t i = 0; i < model->setting_count; i++) {
        if (strcmp(model->settings[i].name, name) == 0) {
            model->settings[i].name[0] = '-';
        }
    }
}

static void columns_go_through_a_model(void **state)
{
    (void)state;
    struct rbt_column_plan plan = plan_of_three();
    struct rbt_column_plan again;
    struct rbt_data_options data = {.plan = &plan};
    struct rbt_model model = {0};
    assert_ok(rbt_column_options_store(&data, &model));
    assert_ok(rbt_column_options_load(&model, &again, &data));
    assert_int_equal(again.count, 3);
    assert_int_equal(again.label, 2);
    assert_int_equal(again.kinds[1], RBT_COLUMN_CATEGORY);
    assert_true(again.scales[0] == 0.25F);
    rbt_model_free(&model);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void keys_of_another_hash_are_refused(void **state)
{
    (void)state;
    struct rbt_column_plan plan = plan_of_three();
    struct rbt_column_plan again;
    struct rbt_data_options data = {.plan = &plan};
    struct rbt_model model = {0};
    assert_ok(rbt_column_options_store(&data, &model));
    forget(&model, "text_hash"); /* as in models before there was one */
    assert_int_equal(rbt_column_options_load(&model, &again, &data), RBT_E_DATA);
    assert_non_null(strstr(rbt_last_error(), "train it again"));
    char none[] = "";
    model.texts[model.text_count++] = (struct rbt_model_texts){.name = "dictionary", .bytes = none};
    assert_ok(rbt_column_options_load(&model, &again, &data)); /* it has numbers instead */
    model.text_count = 0;
    rbt_model_free(&model);

    plan = plan_of_three();
    plan.kinds[1] = RBT_COLUMN_SKIPPED;
    data.plan = &plan;
    assert_ok(rbt_column_options_store(&data, &model));
    forget(&model, "text_hash");
    assert_ok(rbt_column_options_load(&model, &again, &data)); /* nothing was hashed */
    rbt_model_free(&model);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_go_through_a_model),
        cmocka_unit_test(keys_of_another_hash_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
