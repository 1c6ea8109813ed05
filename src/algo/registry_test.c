/* algo/registry_test.c - tests of the list of algorithms. */
#include "algo/registry.h"

#include <string.h>

#include "base/test.h"

/* Model files hold these numbers: they stay. */
static void test_kinds_of_models_stay(void **state)
{
    (void)state;
    const char *const names[] = {"linear", "mf", "lda", "fm", "kmeans", "sketch"};
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(rbt_algo_of_kind(i + 1)->name, names[i]);
    }
    assert_null(rbt_algo_of_kind(0));
    assert_null(rbt_algo_of_kind(7));
}

/* Algorithms may share a kind if they have the same models. */
static void test_a_kind_has_one_reader(void **state)
{
    (void)state;
    for (const struct rbt_algo *const *algo = rbt_algo_all(); *algo != NULL; algo++) {
        const struct rbt_algo *first = rbt_algo_of_kind((*algo)->model_kind);
        assert_true((*algo)->model_kind >= 1 && (*algo)->model_kind <= RBT_MODEL_KIND_MAX);
        assert_true((*algo)->predict == first->predict);
        assert_true((*algo)->evaluate == first->evaluate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_of_models_stay),
        cmocka_unit_test(test_a_kind_has_one_reader),
    };
    return cmocka_run_group_tests_name("algo/registry", tests, NULL, NULL);
}
