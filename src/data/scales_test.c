/* data/scales_test.c - scales of columns come from all lines, wherever the large numbers are. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/fields.h"
#include "data/scales.h"

enum { LINES = 4000, TEXT_SIZE = LINES * 40 };

struct fixture {
    struct rbt_column_plan plan;
    struct rbt_data_options options;
    struct rbt_examples examples;
    char text[TEXT_SIZE];
};

static int set_up(void **state)
{
    struct fixture *f = rbt_calloc(1, sizeof *f);
    f->options = (struct rbt_data_options){
        .format = RBT_FORMAT_CSV, .threads = 1, .label_column = -1, .plan = &f->plan};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_examples_free(&f->examples);
    rbt_free(f);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

/* Reads lines "text,amount,year,label": amounts grow with the place of a line, and every fourth
 * is missing, every fourth 0; years differ by 8. */
static void read_lines(struct fixture *f, bool is_reversed)
{
    size_t used = 0;
    for (int i = 0; i < LINES; i++) {
        const int k = is_reversed ? LINES - 1 - i : i;
        char amount[16] = "";
        if (k % 4 != 0) {
            (void)snprintf(amount, sizeof amount, "%d", k % 4 == 1 ? 0 : k < 2000 ? 1 : 4096);
        }
        used += (size_t)snprintf(f->text + used, TEXT_SIZE - used, "t%d,%s,%d,%d\n", k % 3, amount,
                                 k % 2 == 0 ? 1992 : 2008, k % 2);
    }
    const struct rbt_text text = {.name = "T", .bytes = f->text, .size = used, .first_line = 1};
    rbt_examples_free(&f->examples);
    f->plan = (struct rbt_column_plan){.categorical = "auto", .is_spread = f->plan.is_spread};
    assert_ok(rbt_examples_parse(&f->options, &text, &f->examples));
    assert_false(f->plan.is_measuring);
}

static float largest(const struct fixture *f, uint64_t key)
{
    float most = 0;
    for (uint64_t k = 0; k < f->examples.offsets[f->examples.count]; k++) {
        const bool is_it = f->examples.keys[k] == key;
        most = is_it && f->examples.values[k] > most ? f->examples.values[k] : most;
    }
    return most;
}

static void all_lines_count(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 2; i++) {
        read_lines(f, i == 1);
        /* of three numbers one is 0, two are 4096 in every second case: 4096 / sqrt 3 */
        assert_true(f->plan.scales[1] == 1.0F / 2048);
        assert_true(f->plan.scales[2] == 1.0F / 2048);
        assert_true(largest(f, 2) == 2);
        assert_true(largest(f, 3) == 2008.0F / 2048);
    }
}

static void a_spread_is_one_around_the_mean(void **state)
{
    struct fixture *f = *state;
    f->plan.is_spread = true;
    for (int i = 0; i < 2; i++) {
        read_lines(f, i == 1);
        assert_true(f->plan.scales[2] == 1.0F / 8); /* 2000 plus or minus 8 */
        assert_true(f->plan.scales[1] == 1.0F / 2048);
    }
}

static void numbers_are_multiplied_before_they_are_hashed(void **state)
{
    struct fixture *f = *state;
    f->options.hash_bits = 40; /* nothing meets */
    read_lines(f, false);
    float most = 0;
    for (uint64_t k = 0; k < f->examples.offsets[f->examples.count]; k++) {
        assert_true(f->examples.keys[k] > 3);
        most = f->examples.values[k] > most ? f->examples.values[k] : most;
    }
    assert_true(most == 2);
    f->options.hash_bits = 1; /* all but two meet: they are added up */
    read_lines(f, false);
    assert_true(f->examples.offsets[f->examples.count] <= 2 * LINES);
    assert_true(largest(f, 1) + largest(f, 2) < 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_lines_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_spread_is_one_around_the_mean, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_are_multiplied_before_they_are_hashed, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
