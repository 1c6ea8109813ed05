/* algo/sample_test.c - samples depend on what examples are, not on where they stand. */
#include "algo/sample.h"

#include "base/test.h"

#include <string.h>

#include "base/alloc.h"

enum { COUNT = 1000, WIDTH = 3 };

/* Example i of the file is example (i * step) % COUNT of a list: all of them, in another order. */
static void make(struct rbt_examples *examples, size_t step)
{
    *examples = (struct rbt_examples){.count = COUNT,
                                      .offsets = rbt_calloc(COUNT + 1, sizeof(uint64_t)),
                                      .labels = rbt_calloc(COUNT, sizeof(float)),
                                      .keys = rbt_calloc(COUNT * WIDTH, sizeof(uint64_t)),
                                      .values = rbt_calloc(COUNT * WIDTH, sizeof(float))};
    for (size_t i = 0; i < COUNT; i++) {
        const size_t number = i * step % COUNT;
        examples->labels[i] = number % 2 == 0 ? 1.0F : -1.0F;
        for (size_t k = 0; k < WIDTH; k++) {
            examples->keys[i * WIDTH + k] = k + 1;
            examples->values[i * WIDTH + k] = (float)(number + k);
        }
        examples->offsets[i + 1] = (i + 1) * WIDTH;
    }
}

static void the_order_of_the_file_makes_no_difference(void **state)
{
    (void)state;
    struct rbt_share shares[2];
    const size_t steps[2] = {1, 37};
    for (size_t f = 0; f < 2; f++) {
        struct rbt_examples examples;
        struct rbt_sample sample = {0};
        make(&examples, steps[f]);
        assert_ok(rbt_sample_choose(&examples, 5, COUNT / 4, &sample));
        assert_in_range(sample.count, COUNT / 8, COUNT / 2);
        assert_ok(rbt_sample_take(&examples, &sample, 5, &shares[f]));
        assert_int_equal(shares[f].count, sample.count);
        rbt_sample_free(&sample);
        rbt_examples_free(&examples);
    }
    assert_int_equal(shares[0].count, shares[1].count);
    assert_memory_equal(shares[0].labels, shares[1].labels,
                        shares[0].count * sizeof *shares[0].labels);
    assert_memory_equal(shares[0].values, shares[1].values,
                        shares[0].count * WIDTH * sizeof *shares[0].values);
    rbt_share_free(&shares[0]);
    rbt_share_free(&shares[1]);
}

static void few_examples_are_all_taken_and_seeds_choose_others(void **state)
{
    (void)state;
    struct rbt_examples examples;
    struct rbt_sample all = {0};
    struct rbt_sample one = {0};
    struct rbt_sample other = {0};
    make(&examples, 1);
    assert_ok(rbt_sample_choose(&examples, 1, COUNT, &all));
    assert_int_equal(all.count, COUNT);
    assert_ok(rbt_sample_choose(&examples, 1, COUNT / 4, &one));
    assert_ok(rbt_sample_choose(&examples, 2, COUNT / 4, &other));
    const size_t least = one.count < other.count ? one.count : other.count;
    assert_memory_not_equal(one.places, other.places, least * sizeof *one.places);
    rbt_sample_free(&all);
    rbt_sample_free(&one);
    rbt_sample_free(&other);
    rbt_examples_free(&examples);
}

static void without_memory_nothing_is_kept(void **state)
{
    (void)state;
    struct rbt_examples examples;
    make(&examples, 1);
    const size_t live = rbt_alloc_live();
    for (unsigned nth = 1;; nth++) {
        struct rbt_sample sample = {0};
        struct rbt_share share = {0};
        rbt_alloc_fail_nth(nth);
        rbt_status st = rbt_sample_choose(&examples, 1, COUNT / 4, &sample);
        st = st != RBT_OK ? st : rbt_sample_take(&examples, &sample, 1, &share);
        rbt_alloc_fail_nth(0);
        rbt_sample_free(&sample);
        if (st == RBT_OK) {
            rbt_share_free(&share);
            assert_true(nth > 5);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), live);
    }
    rbt_examples_free(&examples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_the_file_makes_no_difference),
        cmocka_unit_test(few_examples_are_all_taken_and_seeds_choose_others),
        cmocka_unit_test(without_memory_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
