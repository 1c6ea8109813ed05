/* algo/fm/fm_scale_test.c - which columns change, and that a model says the same about the data as
 * it is as it did about the data that it was trained on. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/fm/fm_job.h"
#include "algo/fm/fm_model.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "data/lines.h"

enum { ROWS = 300, LINE = 128, RANK = 3 };
enum { YEAR = 1, BINARY = 2, SPARSE = 3, PLACE = 4, CLOCK = 5, CONSTANT = 6, FEATURES = 6 };

/* Columns 1 and 4 are far from zero, 2 is 0 or 1, 3 is 0 mostly, 5 is too far away, and 6 always
 * says one number. */
static void read_rows(struct rbt_examples *examples)
{
    static char text[ROWS * LINE];
    size_t used = 0;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    for (int i = 0; i < ROWS; i++) {
        /* one after the other: compilers choose the order of arguments */
        const double year = 2000 + 30 * rbt_rng_normal(&rng);
        const int binary = (int)rbt_rng_below(&rng, 2);
        const double place = -119 + 2 * rbt_rng_normal(&rng);
        const double clock = 1e6 + 5 * rbt_rng_normal(&rng);
        used += (size_t)snprintf(text + used, LINE, "%.3f,%d,%d,%.4f,%.0f,7.5,%.2f\n", year, binary,
                                 i % 20 == 0 ? i : 0, place, clock, 100.0 + i);
    }
    const struct rbt_data_options options = {.format = RBT_FORMAT_CSV, .label_column = -1};
    const struct rbt_text whole = {.bytes = text, .size = used, .name = "rows"};
    assert_ok(rbt_examples_parse(&options, &whole, examples));
    assert_int_equal(examples->count, ROWS);
}

static void add_array(struct rbt_model *model, const char *name, uint32_t width,
                      const uint64_t *keys, size_t count, struct rbt_rng *rng)
{
    struct rbt_model_array *array = &model->arrays[model->array_count++];
    (void)snprintf(array->name, sizeof array->name, "%s", name);
    array->width = width;
    array->count = count;
    array->keys = rbt_calloc(count, sizeof *array->keys);
    array->values = rbt_calloc(count * width, sizeof *array->values);
    assert_true(array->keys != NULL && array->values != NULL);
    memcpy(array->keys, keys, count * sizeof *keys);
    for (size_t i = 0; i < count * width; i++) {
        array->values[i] = (float)(0.5 * rbt_rng_normal(rng));
    }
}

/* A model of the changed data. The sparse column has no embedding, as if it were too rare. */
static void make_model(bool has_bias, size_t embedded, struct rbt_model *model)
{
    static const uint64_t weights[] = {YEAR, BINARY, SPARSE, PLACE, CLOCK};
    static const uint64_t embeddings[] = {YEAR, BINARY, PLACE, CLOCK};
    static const uint64_t bias[] = {0};
    struct rbt_rng rng;
    rbt_rng_init(&rng, 2, 0, 0);
    *model = (struct rbt_model){.kind = RBT_MODEL_FM};
    add_array(model, "weights", 1, weights, sizeof weights / sizeof weights[0], &rng);
    add_array(model, "embeddings", RANK, embeddings, embedded, &rng);
    if (has_bias) {
        add_array(model, "bias", 1, bias, 1, &rng);
    }
}

static void margins_of(const struct rbt_model *model, const struct rbt_examples *examples,
                       float *margins)
{
    struct rbt_share share = {0};
    assert_ok(rbt_share_take(examples, 1, 0, 1, &share));
    assert_ok(rbt_fm_model_margins(model, &share, margins));
    rbt_share_free(&share);
}

/* Folds a model out and back again. */
static void check_fold(enum rbt_loss loss, bool has_bias, size_t embedded)
{
    struct rbt_fm_job fm = {.loss = loss, .config = {.has_bias = has_bias}};
    struct rbt_examples raw;
    struct rbt_model model;
    struct rbt_model outer = {0};
    struct rbt_model again = {0};
    const struct rbt_fm_scales none = {.common = 1.0, .label_unit = 1.0};
    float inside[ROWS];
    float outside[ROWS];
    read_rows(&raw);
    read_rows(&fm.examples);
    assert_ok(rbt_fm_scale_take(&fm));
    make_model(has_bias, embedded, &model);
    assert_ok(rbt_fm_scale_copy(&none, &model, &outer));
    assert_ok(rbt_fm_scale_model(&fm.scales, &outer, true));
    margins_of(&model, &fm.examples, inside);
    margins_of(&outer, &raw, outside);
    double spread = 0.0;
    for (size_t i = 0; i < ROWS; i++) {
        const double said =
            ((double)outside[i] - (double)fm.scales.label_shift) / fm.scales.label_unit;
        assert_true(fabs(said - (double)inside[i]) < 2e-2); /* floats, far from zero */
        spread = fmax(spread, fabs((double)inside[i] - (double)inside[0]));
    }
    assert_true(spread > 0.1); /* margins differ from example to example */
    assert_ok(rbt_fm_scale_copy(&fm.scales, &outer, &again));
    assert_int_equal(again.array_count, model.array_count);
    for (size_t a = 0; a < model.array_count; a++) {
        for (size_t i = 0; i < model.arrays[a].count * model.arrays[a].width; i++) {
            const float was = model.arrays[a].values[i];
            assert_true(fabsf(again.arrays[a].values[i] - was) < 1e-3F);
        }
    }
    rbt_model_free(&again);
    rbt_model_free(&outer);
    rbt_model_free(&model);
    rbt_fm_scale_free(&fm.scales);
    rbt_examples_free(&fm.examples);
    rbt_examples_free(&raw);
}

static void models_say_the_same_about_the_data_as_it_is(void **state)
{
    (void)state;
    static const size_t embedded[] = {4, 1, 0};
    for (size_t e = 0; e < sizeof embedded / sizeof embedded[0]; e++) {
        check_fold(RBT_LOSS_LOGISTIC, true, embedded[e]);
        check_fold(RBT_LOSS_SQUARED, true, embedded[e]);
        check_fold(RBT_LOSS_LOGISTIC, false, embedded[e]);
        check_fold(RBT_LOSS_SQUARED, false, embedded[e]);
    }
}

/* Mean and root of the mean square of a column, of values that are there. */
static void measure(const struct rbt_examples *examples, uint64_t key, double *mean, double *size)
{
    double sum = 0.0;
    double squares = 0.0;
    double count = 0.0;
    for (uint64_t k = 0; k < examples->offsets[examples->count]; k++) {
        const double value = examples->keys[k] == key ? (double)examples->values[k] : 0.0;
        sum += value;
        squares += value * value;
        count += examples->keys[k] == key ? 1.0 : 0.0;
    }
    *mean = sum / count;
    *size = sqrt(squares / count);
}

static void columns_of_tables_are_centred(void **state)
{
    (void)state;
    for (int is_table = 0; is_table < 2; is_table++) {
        struct rbt_fm_job fm = {.loss = RBT_LOSS_SQUARED, .config = {.has_bias = true}};
        double mean = 0.0;
        double size = 0.0;
        read_rows(&fm.examples);
        fm.examples.column_count *= (size_t)is_table;
        const uint64_t before = fm.examples.offsets[ROWS];
        assert_ok(rbt_fm_scale_take(&fm));
        assert_int_equal(fm.examples.offsets[ROWS], before); /* no zero has become an entry */
        for (uint64_t key = 1; key <= FEATURES; key++) {
            const bool is_centred = is_table && (key == YEAR || key == PLACE || key == CONSTANT);
            measure(&fm.examples, key, &mean, &size);
            assert_true((fabs(mean) < 1e-3) == is_centred);
            assert_true(key == CONSTANT || (size > 0.25 && size < 4));
            assert_true(key == CONSTANT || !is_centred || fabs(size - 1) < 1e-3);
            assert_true(key != BINARY || size == 1.0);
        }
        rbt_fm_scale_free(&fm.scales);
        rbt_examples_free(&fm.examples);
    }
}

/* Of sparse data, sizes that are near each other keep their proportions, whatever the unit, and one
 * that is far from the others does not count. */
static void near_sizes_have_one_unit(void **state)
{
    (void)state;
    static const double units[] = {0.0625, 1, 1000};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        struct rbt_fm_job fm = {.loss = RBT_LOSS_LOGISTIC, .config = {.has_bias = true}};
        const struct rbt_data_options options = {.format = RBT_FORMAT_LIBSVM};
        char text[20 * LINE];
        size_t used = 0;
        for (int i = 0; i < 20; i++) {
            used += (size_t)snprintf(text + used, LINE, "%d 1:%g 2:%g 3:%g", i % 2, 0.48 * units[u],
                                     units[u], 2 * units[u]);
            used += (size_t)snprintf(text + used, LINE, i == 0 ? " 4:65536\n" : "\n");
        }
        const struct rbt_text whole = {.bytes = text, .size = used, .name = "sizes"};
        double mean = 0.0;
        double sizes[4];
        assert_ok(rbt_examples_parse(&options, &whole, &fm.examples));
        assert_ok(rbt_fm_scale_take(&fm));
        for (uint64_t key = 1; key <= 4; key++) {
            measure(&fm.examples, key, &mean, &sizes[key - 1]);
            assert_true(sizes[key - 1] >= 0.25 && sizes[key - 1] <= 4);
        }
        assert_true(fabs(sizes[0] / sizes[1] - 0.48) < 1e-6);
        assert_true(fabs(sizes[2] / sizes[1] - 2) < 1e-6);
        rbt_fm_scale_free(&fm.scales);
        rbt_examples_free(&fm.examples);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_say_the_same_about_the_data_as_it_is),
        cmocka_unit_test(columns_of_tables_are_centred),
        cmocka_unit_test(near_sizes_have_one_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
