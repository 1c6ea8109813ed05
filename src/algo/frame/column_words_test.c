/* algo/frame/column_words_test.c - a dictionary goes through a model; one that makes no sense is
 * refused.
 */
#include "base/test.h"

#include <string.h>

#include "algo/frame/column_words.h"
#include "base/alloc.h"
#include "base/error.h"

/* Columns: a number, two with texts, one that is skipped. */
static struct rbt_column_plan plan_of_four(void)
{
    return (struct rbt_column_plan){
        .count = 4,
        .kinds = {RBT_COLUMN_NUMBER, RBT_COLUMN_CATEGORY, RBT_COLUMN_COUNT, RBT_COLUMN_SKIPPED}};
}

static rbt_status load(const char *bytes, size_t size, size_t count,
                       struct rbt_dictionary *dictionary)
{
    char copy[64];
    struct rbt_column_plan plan = plan_of_four();
    struct rbt_model model = {.text_count = 1};
    memcpy(copy, bytes, size);
    model.texts[0] =
        (struct rbt_model_texts){.name = "dictionary", .count = count, .size = size, .bytes = copy};
    return rbt_column_words_load(&model, dictionary, &plan);
}

static void a_dictionary_goes_through_a_model(void **state)
{
    (void)state;
    struct rbt_dictionary dictionary = {0};
    struct rbt_dictionary again = {0};
    struct rbt_column_plan plan = plan_of_four();
    const struct rbt_dictionary_cell cells[] = {{1, "blue", 4}, {2, "-1", 2}, {1, "=", 1}};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(rbt_dictionary_add(&dictionary, &cells[i]));
    }
    const uint64_t kept[] = {5, 7};
    assert_ok(rbt_dictionary_keep(&dictionary, kept, 2, 5));
    struct rbt_model model = {0};
    plan.dictionary = &dictionary;
    assert_ok(rbt_column_words_store(&plan, &model));
    assert_int_equal(model.texts[0].size, sizeof "1=blue" + 1 + sizeof "1==");
    assert_ok(rbt_column_words_load(&model, &again, &plan));
    assert_ptr_equal(plan.dictionary, &again);
    assert_true(again.is_closed);
    assert_int_equal(rbt_dictionary_find(&again, &cells[0]), 0);
    assert_int_equal(rbt_dictionary_find(&again, &cells[1]), RBT_WORD_NONE); /* it was rare */
    assert_int_equal(rbt_dictionary_find(&again, &cells[2]), 2);
    rbt_model_free(&model);
    rbt_dictionary_free(&again);
    rbt_dictionary_free(&dictionary);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        size_t count;
    } wrong[] = {
        {"blue", 5, 1}, /* no column */
        {"1=", 3, 1},   /* no text */
        {"=blue", 6, 1},
        {"0=blue", 7, 1}, /* a column of numbers */
        {"3=blue", 7, 1}, /* one that is skipped */
        {"4=blue", 7, 1}, /* one that there is not */
        {"1=a\0"
         "1=a",
         8, 2}, /* twice */
        {"99999999999999999999=a", 23, 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct rbt_dictionary dictionary = {0};
        assert_int_equal(load(wrong[i].bytes, wrong[i].size, wrong[i].count, &dictionary),
                         RBT_E_DATA);
        assert_non_null(strstr(rbt_last_error(), "dictionary is damaged"));
        rbt_dictionary_free(&dictionary);
    }
    struct rbt_dictionary dictionary = {0};
    assert_ok(load("1=a\0\0002=a", 9, 3, &dictionary));
    rbt_dictionary_free(&dictionary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dictionary_goes_through_a_model),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
