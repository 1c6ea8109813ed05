/* algo/linear/linear_export_test.c - liblinear's model files, read again as liblinear does. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "algo/linear/linear.h"
#include "algo/linear/linear_model.h"

enum { TEXT_MAX = 1024 };

/* Arrays of a small model: features 2 and 4, so that there are gaps. */
static uint64_t keys[2] = {2, 4};
static uint64_t bias_keys[1] = {0};
static uint64_t class_keys[3] = {0, 1, 2};
static float weights[6] = {0.5F, -1.25F, 3.0F, 1e-20F, 0.1F, -7.0F};
static float biases[3] = {0.25F, -0.5F, 1.0F};
static float labels[3] = {-1.0F, 4.0F, 9.0F};

static struct rbt_model model_of(enum rbt_loss loss, uint32_t width)
{
    struct rbt_model model = {
        .kind = RBT_MODEL_LINEAR,
        .arrays =
            {{.name = "weights", .width = width, .count = 2, .keys = keys, .values = weights},
             {.name = "bias", .width = width, .count = 1, .keys = bias_keys, .values = biases},
             {.name = "classes", .width = 1, .count = width, .keys = class_keys, .values = labels}},
        .array_count = width > 1 ? 3 : 2};
    rbt_model_set(&model, "loss", loss);
    rbt_model_set(&model, "label_positive", 1);
    rbt_model_set(&model, "label_negative", 0);
    return model;
}

static rbt_status write_text(const struct rbt_model *model, char text[TEXT_MAX])
{
    memset(text, 0, TEXT_MAX);
    FILE *out = fmemopen(text, TEXT_MAX - 1, "w");
    assert_non_null(out);
    const rbt_status st = rbt_linear_model_export(model, out);
    assert_int_equal(fclose(out), 0);
    return st;
}

/* The text starts so; what follows are the numbers. */
static void assert_text(const char *text, const char *head, const float *numbers, size_t count)
{
    assert_memory_equal(text, head, strlen(head));
    char *at = NULL;
    const char *rest = text + strlen(head);
    for (size_t i = 0; i < count; i++) {
        assert_true(strtof(rest, &at) == numbers[i]);
        assert_true(at != rest);
        rest = at;
    }
    assert_string_equal(rest, " \n");
}

static void two_labels_are_one_column(void **state)
{
    (void)state;
    char text[TEXT_MAX];
    struct rbt_model model = model_of(RBT_LOSS_LOGISTIC, 1);
    assert_ok(write_text(&model, text));
    assert_text(text, "solver_type L2R_LR\nnr_class 2\nlabel 1 0\nnr_feature 4\nbias 1\nw\n",
                (const float[]){0, 0.5F, 0, -1.25F, 0.25F}, 5);
    model.array_count = 1; /* no bias */
    rbt_model_set(&model, "l1", 0.1);
    assert_ok(write_text(&model, text));
    assert_text(text, "solver_type L1R_LR\nnr_class 2\nlabel 1 0\nnr_feature 4\nbias -1\nw\n",
                (const float[]){0, 0.5F, 0, -1.25F}, 4);
    model = model_of(RBT_LOSS_HINGE, 1);
    assert_ok(write_text(&model, text));
    assert_memory_equal(text, "solver_type L2R_L1LOSS_SVC_DUAL\n", 32);
    model = model_of(RBT_LOSS_SQUARED, 1);
    assert_ok(write_text(&model, text));
    assert_text(text, "solver_type L2R_L2LOSS_SVR\nnr_class 2\nnr_feature 4\nbias 1\nw\n",
                (const float[]){0, 0.5F, 0, -1.25F, 0.25F}, 5);
}

static void classes_are_columns(void **state)
{
    (void)state;
    char text[TEXT_MAX];
    const struct rbt_model model = model_of(RBT_LOSS_SOFTMAX, 3);
    assert_ok(write_text(&model, text));
    assert_text(text, "solver_type MCSVM_CS\nnr_class 3\nlabel -1 4 9\nnr_feature 4\nbias 1\nw\n",
                (const float[]){0, 0, 0, 0.5F, -1.25F, 3.0F, 0, 0, 0, 1e-20F, 0.1F, -7.0F, 0.25F,
                                -0.5F, 1.0F},
                15);
}

static void an_empty_model_is_a_model(void **state)
{
    (void)state;
    char text[TEXT_MAX];
    struct rbt_model model = model_of(RBT_LOSS_LOGISTIC, 1);
    model.arrays[0].count = 0;
    assert_ok(write_text(&model, text));
    assert_text(text, "solver_type L2R_LR\nnr_class 2\nlabel 1 0\nnr_feature 1\nbias 1\nw\n",
                (const float[]){0, 0.25F}, 2);
}

static void what_it_cannot_hold_is_refused(void **state)
{
    (void)state;
    char text[TEXT_MAX];
    struct rbt_model model = model_of(RBT_LOSS_LOGISTIC, 1);
    uint64_t first[2] = {0, 4};
    uint64_t large[2] = {2, UINT64_C(1) << 40};
    float fractions[3] = {-1.0F, 0.5F, 2.0F};
    model.arrays[0].keys = first;
    assert_fails(write_text(&model, text), RBT_E_INVALID, "has feature 0");
    model.arrays[0].keys = large;
    assert_fails(write_text(&model, text), RBT_E_INVALID, "has feature 1099511627776");
    model = model_of(RBT_LOSS_SOFTMAX, 3);
    model.arrays[2].values = fractions;
    assert_fails(write_text(&model, text), RBT_E_INVALID, "whole numbers, not 0.5");
    model.arrays[2].count = 2;
    assert_fails(write_text(&model, text), RBT_E_DATA, "the model has no weights");
    model.array_count = 2;
    assert_fails(write_text(&model, text), RBT_E_DATA, "the model has no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_labels_are_one_column),
        cmocka_unit_test(classes_are_columns),
        cmocka_unit_test(an_empty_model_is_a_model),
        cmocka_unit_test(what_it_cannot_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
