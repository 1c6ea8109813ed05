/* algo/frame/sample_test.c - samples depend on what examples are, not on where they stand. */
#include "algo/frame/sample.h"

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
        struct rbt_sample sample = {.seed = 5};
        make(&examples, steps[f]);
        assert_ok(rbt_sample_choose(&sample, &examples, COUNT / 4));
        assert_in_range(sample.examples.count, COUNT / 8, COUNT / 2);
        assert_ok(rbt_sample_share(&sample, &shares[f]));
        assert_int_equal(shares[f].count, sample.examples.count);
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
    struct rbt_sample all = {.seed = 1};
    struct rbt_sample one = {.seed = 1};
    struct rbt_sample other = {.seed = 2};
    make(&examples, 1);
    assert_ok(rbt_sample_choose(&all, &examples, COUNT));
    assert_int_equal(all.examples.count, COUNT);
    assert_ok(rbt_sample_choose(&one, &examples, COUNT / 4));
    assert_ok(rbt_sample_choose(&other, &examples, COUNT / 4));
    const size_t counts[2] = {one.examples.count, other.examples.count};
    const size_t least = counts[0] < counts[1] ? counts[0] : counts[1];
    assert_memory_not_equal(one.examples.values, other.examples.values,
                            least * WIDTH * sizeof *one.examples.values);
    rbt_sample_free(&all);
    rbt_sample_free(&one);
    rbt_sample_free(&other);
    rbt_examples_free(&examples);
}

/* Half of the file is one example again and again: half of the sample is, too. */
static void equal_examples_are_thinned_like_others(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct rbt_examples examples;
        struct rbt_sample sample = {.seed = seed};
        make(&examples, 1);
        for (size_t i = 0; i < COUNT / 2; i++) {
            memcpy(examples.values + i * WIDTH, examples.values, WIDTH * sizeof *examples.values);
            examples.labels[i] = 7.0F;
        }
        assert_ok(rbt_sample_choose(&sample, &examples, COUNT / 4));
        size_t equal = 0;
        for (size_t i = 0; i < sample.examples.count; i++) {
            equal += sample.examples.labels[i] == 7.0F;
        }
        assert_in_range(equal, COUNT / 16, COUNT / 5);
        assert_in_range(sample.examples.count - equal, COUNT / 16, COUNT / 5);
        rbt_sample_free(&sample);
        rbt_examples_free(&examples);
    }
}

/* What comes part by part gives the sample of the whole. */
static void parts_of_a_file_give_the_sample_of_all(void **state)
{
    (void)state;
    struct rbt_examples examples;
    struct rbt_sample whole = {.seed = 3};
    struct rbt_sample parts = {.seed = 3};
    uint64_t hashes[COUNT];
    make(&examples, 1);
    assert_ok(rbt_sample_choose(&whole, &examples, COUNT / 4));
    for (size_t i = 0; i < COUNT; i++) {
        hashes[i] = rbt_sample_hash(&examples, i, 3);
    }
    assert_ok(rbt_sample_draw(&parts, hashes, COUNT, COUNT / 4));
    for (size_t first = 0; first < COUNT; first += 7) {
        struct rbt_examples part = examples;
        part.count = COUNT - first < 7 ? COUNT - first : 7;
        part.offsets += first;
        part.labels += first;
        assert_ok(rbt_sample_pick(&parts, &part));
    }
    const size_t count = whole.examples.count;
    assert_int_equal(parts.examples.count, count);
    assert_memory_equal(parts.examples.values, whole.examples.values,
                        count * WIDTH * sizeof *whole.examples.values);
    rbt_sample_free(&parts);
    rbt_sample_free(&whole);
    rbt_examples_free(&examples);
}

/* Each once, whatever the order of the file, and never only some of equal examples. */
static void held_out_examples_are_nowhere_else(void **state)
{
    (void)state;
    struct rbt_examples files[2];
    uint32_t *places[2];
    size_t counts[2];
    bool is_held_out[COUNT] = {false};
    make(&files[0], 1);
    make(&files[1], 37);
    for (size_t f = 0; f < 2; f++) {
        assert_ok(rbt_sample_places(&files[f], 5, COUNT / 4, &places[f], &counts[f]));
        assert_in_range(counts[f], COUNT / 8, COUNT / 2);
    }
    assert_int_equal(counts[0], counts[1]);
    for (size_t i = 0; i < counts[0]; i++) {
        assert_false(is_held_out[places[0][i]]);
        is_held_out[places[0][i]] = true;
        assert_int_equal(places[0][i], places[1][i] * 37 % COUNT);
    }
    const uint32_t first = places[0][0];
    for (size_t i = 0; i < COUNT; i++) { /* all examples are the first one of these */
        memcpy(files[1].values + i * WIDTH, files[0].values + first * WIDTH,
               WIDTH * sizeof *files[1].values);
        files[1].labels[i] = files[0].labels[first];
    }
    rbt_free(places[1]);
    assert_ok(rbt_sample_places(&files[1], 5, COUNT / 4, &places[1], &counts[1]));
    assert_int_equal(counts[1], COUNT);
    for (size_t f = 0; f < 2; f++) {
        rbt_free(places[f]);
        rbt_examples_free(&files[f]);
    }
}

static void without_memory_nothing_is_kept(void **state)
{
    (void)state;
    struct rbt_examples examples;
    make(&examples, 1);
    const size_t live = rbt_alloc_live();
    for (unsigned nth = 1;; nth++) {
        struct rbt_sample sample = {.seed = 1};
        struct rbt_share share = {0};
        rbt_alloc_fail_nth(nth);
        rbt_status st = rbt_sample_choose(&sample, &examples, COUNT / 4);
        st = st != RBT_OK ? st : rbt_sample_share(&sample, &share);
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
        cmocka_unit_test(held_out_examples_are_nowhere_else),
        cmocka_unit_test(few_examples_are_all_taken_and_seeds_choose_others),
        cmocka_unit_test(equal_examples_are_thinned_like_others),
        cmocka_unit_test(parts_of_a_file_give_the_sample_of_all),
        cmocka_unit_test(without_memory_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
