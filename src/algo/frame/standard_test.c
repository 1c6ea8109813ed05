/* algo/frame/standard_test.c - which features change and how, and that a model says the same before
 * and after it is folded back. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>

#include "algo/frame/standard.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "data/lines.h"

enum { ROWS = 400, LINE = 96, FAR = 1, BINARY = 2, SPARSE = 3, NEAR = 4, FEATURES = 4 };

/* Column 1 is far from zero and 0 in one row of 50, 2 is 0 or 1, 3 is 0 mostly, 4 is near zero. */
static void read_rows(struct rbt_examples *examples)
{
    static char text[ROWS * LINE];
    size_t used = 0;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    for (int i = 0; i < ROWS; i++) {
        const double far = i % 50 == 49 ? 0.0 : 2000 + 30 * rbt_rng_normal(&rng);
        used += (size_t)snprintf(text + used, LINE, "%.3f,%d,%d,%.4f,%.2f\n", far,
                                 (int)rbt_rng_below(&rng, 10) < 9, i % 20 == 0 ? i : 0,
                                 0.01 * rbt_rng_normal(&rng), 100.0 + i);
    }
    const struct rbt_data_options options = {.format = RBT_FORMAT_CSV, .label_column = -1};
    const struct rbt_text whole = {.bytes = text, .size = used, .name = "rows"};
    assert_ok(rbt_examples_parse(&options, &whole, examples));
    assert_int_equal(examples->count, ROWS);
}

/* Mean and standard deviation of a feature, zeros counted. */
static void measure(const struct rbt_examples *examples, uint64_t key, double *mean, double *spread)
{
    double sum = 0.0;
    double squares = 0.0;
    for (uint64_t k = 0; k < examples->offsets[examples->count]; k++) {
        sum += examples->keys[k] == key ? (double)examples->values[k] : 0.0;
    }
    *mean = sum / ROWS;
    for (size_t i = 0; i < examples->count; i++) {
        double x = 0.0;
        for (uint64_t k = examples->offsets[i]; k < examples->offsets[i + 1]; k++) {
            x = examples->keys[k] == key ? (double)examples->values[k] : x;
        }
        squares += (x - *mean) * (x - *mean);
    }
    *spread = sqrt(squares / ROWS);
}

static void columns_of_tables_get_mean_zero_and_spread_one(void **state)
{
    (void)state;
    struct rbt_examples examples;
    struct rbt_standard standard = {0};
    double means[FEATURES + 1];
    double spreads[FEATURES + 1];
    const struct rbt_standard_options options = {.has_shift = true, .has_scale = true};
    read_rows(&examples);
    for (uint64_t key = 1; key <= FEATURES; key++) {
        measure(&examples, key, &means[key], &spreads[key]);
    }
    assert_ok(rbt_standard_find(&examples, &options, &standard));
    assert_int_equal(standard.count, 3); /* not the one that is 0 or 1 */
    assert_true(fabs(standard.means[0] - means[FAR]) < 1e-9 * means[FAR]);
    assert_true(fabs(standard.scales[0] * spreads[FAR] - 1) < 1e-9);
    assert_int_equal(standard.keys[1], SPARSE);
    assert_true(standard.means[1] == 0.0); /* it stays sparse */
    assert_ok(rbt_standard_apply(&standard, &examples));
    for (uint64_t key = 1; key <= FEATURES; key++) {
        double mean = 0.0;
        double spread = 0.0;
        measure(&examples, key, &mean, &spread);
        assert_true(key == BINARY || fabs(spread - 1) < 1e-6);
        assert_true(key != FAR || fabs(mean) < 1e-6);
        assert_true(key != BINARY || mean == means[BINARY]);
    }
    for (size_t i = 0; i < ROWS; i++) { /* also where there was a zero, and in order */
        assert_int_equal(examples.keys[examples.offsets[i]], FAR);
        for (uint64_t k = examples.offsets[i] + 1; k < examples.offsets[i + 1]; k++) {
            assert_true(examples.keys[k] > examples.keys[k - 1]);
        }
    }
    rbt_standard_free(&standard);
    rbt_examples_free(&examples);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* What is found in parts is what is found at once, to the last bit. */
static void examples_may_come_part_by_part(void **state)
{
    (void)state;
    for (int has_scale = 0; has_scale < 2; has_scale++) {
        struct rbt_examples examples;
        struct rbt_standard whole = {0};
        struct rbt_standard standard = {0};
        const struct rbt_standard_options options = {
            .has_shift = true, .has_label = true, .has_scale = has_scale != 0};
        struct rbt_standard_finder finder = {.options = options, .count = ROWS};
        read_rows(&examples);
        assert_ok(rbt_standard_find(&examples, &options, &whole));
        for (int pass = 0; pass < 2; pass++) {
            for (size_t first = 0; first < ROWS; first += 7) {
                struct rbt_examples part = examples;
                part.count = ROWS - first < 7 ? ROWS - first : 7;
                part.offsets += first;
                part.labels += first;
                if (pass == 0) {
                    assert_ok(rbt_standard_list(&finder, &part));
                } else {
                    rbt_standard_look(&finder, &part);
                }
            }
            if (pass == 0) {
                assert_ok(rbt_standard_listed(&finder));
            }
        }
        assert_ok(rbt_standard_make(&finder, &standard));
        assert_true(whole.count > 0);
        assert_int_equal(standard.count, whole.count);
        assert_memory_equal(standard.keys, whole.keys, whole.count * sizeof *whole.keys);
        assert_memory_equal(standard.means, whole.means, whole.count * sizeof *whole.means);
        assert_memory_equal(standard.scales, whole.scales, whole.count * sizeof *whole.scales);
        assert_true(standard.label == whole.label);
        rbt_standard_finder_free(&finder);
        rbt_standard_free(&standard);
        rbt_standard_free(&whole);
        rbt_examples_free(&examples);
    }
}

static void other_formats_are_only_shifted_and_nothing_without_a_bias(void **state)
{
    (void)state;
    struct rbt_examples examples;
    struct rbt_standard standard = {0};
    read_rows(&examples);
    const struct rbt_standard_options shifted = {.has_shift = true};
    assert_ok(rbt_standard_find(&examples, &shifted, &standard));
    assert_int_equal(standard.count, 1);
    assert_int_equal(standard.keys[0], FAR);
    assert_true(standard.scales[0] == 1.0 && standard.means[0] > 1900);
    rbt_standard_free(&standard);
    const struct rbt_standard_options nothing = {0};
    assert_ok(rbt_standard_find(&examples, &nothing, &standard));
    assert_int_equal(standard.count, 0);
    rbt_examples_free(&examples);
    assert_int_equal(rbt_alloc_live(), 0);
}

static double margin_of(const struct rbt_examples *examples, size_t i, const float *weights,
                        double bias)
{
    double margin = bias;
    for (uint64_t k = examples->offsets[i]; k < examples->offsets[i + 1]; k++) {
        margin += (double)examples->values[k] * (double)weights[examples->keys[k] - 1];
    }
    return margin;
}

static void a_folded_model_says_the_same_in_the_units_of_the_file(void **state)
{
    (void)state;
    struct rbt_examples examples;
    struct rbt_examples raw;
    struct rbt_standard standard = {0};
    const struct rbt_standard_options options = {
        .has_shift = true, .has_scale = true, .has_label = true};
    uint64_t keys[FEATURES] = {FAR, BINARY, SPARSE, NEAR};
    float weights[FEATURES] = {3.0F, -1.0F, 0.5F, 2.0F};
    const float before[FEATURES] = {3.0F, -1.0F, 0.5F, 2.0F};
    uint64_t zero = 0;
    float bias = 0.25F;
    struct rbt_model_array w = {.width = 1, .count = FEATURES, .keys = keys, .values = weights};
    struct rbt_model_array b = {.width = 1, .count = 1, .keys = &zero, .values = &bias};
    read_rows(&examples);
    read_rows(&raw);
    assert_ok(rbt_standard_find(&examples, &options, &standard));
    assert_ok(rbt_standard_apply(&standard, &examples));
    assert_true(fabs((double)examples.labels[0] + standard.label - (double)raw.labels[0]) < 1e-4);
    assert_ok(rbt_standard_fold(&standard, &w, &b));
    for (size_t i = 0; i < ROWS; i++) {
        const double then = margin_of(&examples, i, before, 0.25) + standard.label;
        assert_true(fabs(margin_of(&raw, i, weights, (double)bias) - then) < 1e-4);
    }
    assert_ok(rbt_standard_unfold(&standard, &w, &b));
    for (size_t j = 0; j < FEATURES; j++) {
        assert_true(fabsf(weights[j] / before[j] - 1) < 1e-6F);
    }
    assert_true(fabsf(bias - 0.25F) < 1e-4F);
    rbt_standard_free(&standard);
    rbt_examples_free(&raw);
    rbt_examples_free(&examples);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_tables_get_mean_zero_and_spread_one),
        cmocka_unit_test(examples_may_come_part_by_part),
        cmocka_unit_test(other_formats_are_only_shifted_and_nothing_without_a_bias),
        cmocka_unit_test(a_folded_model_says_the_same_in_the_units_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
