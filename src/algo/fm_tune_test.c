/* algo/fm_tune_test.c - when examples are kept back. */
#include "base/test.h"

#include "algo/fm_job.h"

/* Examples are kept back while steps are long and still when they are short, but not to the end. */
static void the_last_pass_has_all_examples(void **state)
{
    (void)state;
    struct rbt_fm_job fm = {.is_tuned = true};
    for (fm.epochs = 2; fm.epochs <= 40; fm.epochs++) {
        struct rbt_training_chunk chunk = {.epoch = fm.epochs - 1};
        assert_int_equal(rbt_fm_tune_held_out(&fm, &chunk, 100), 0);
        chunk.epoch = (int64_t)(0.85 * (double)fm.epochs) - 1;
        assert_int_equal(rbt_fm_tune_held_out(&fm, &chunk, 100), 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_pass_has_all_examples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
