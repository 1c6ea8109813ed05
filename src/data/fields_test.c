/* data/fields_test.c - tables with text: what becomes of each kind of cell, which columns hold
 * text, headers, labels, click data, and what is wrong with lines that are. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/fields.h"
#include "data/sort.h"

struct fixture {
    struct rbt_column_plan plan;
    struct rbt_data_options options;
    struct rbt_examples examples;
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
    rbt_fields_free(&f->plan);
    rbt_free(f);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

static rbt_status parse(struct fixture *f, const char *bytes)
{
    rbt_examples_free(&f->examples);
    const struct rbt_text text = {
        .name = "T", .bytes = bytes, .size = strlen(bytes), .first_line = 1};
    return rbt_examples_parse(&f->options, &text, &f->examples);
}

/* Example `i` has the feature with this value. */
static float value_of(const struct fixture *f, size_t i, uint64_t key)
{
    for (uint64_t k = f->examples.offsets[i]; k < f->examples.offsets[i + 1]; k++) {
        if (f->examples.keys[k] == key) {
            return f->examples.values[k];
        }
    }
    return 0;
}

static bool has_text(const struct fixture *f, size_t i, size_t column, const char *text)
{
    return value_of(f, i, rbt_fields_hash(text, strlen(text), column)) == 1;
}

static size_t length(const struct fixture *f, size_t i)
{
    return (size_t)(f->examples.offsets[i + 1] - f->examples.offsets[i]);
}

static void texts_and_numbers_become_features(void **state)
{
    struct fixture *f = *state;
    f->plan.categorical = "auto,day";
    assert_ok(parse(f, "age,job,day,y\n"
                       "8, \"clerk, old\" ,3,1\n"
                       "0,?,4,0\n"
                       ",clerk,,1\n"));
    assert_int_equal(f->examples.count, 3);
    assert_int_equal(length(f, 0), 3);
    assert_true(value_of(f, 0, 1) == 8 * f->plan.scales[0]);
    assert_true(f->plan.scales[0] == 0.125F); /* the root of (64 + 0) / 2 is nearest to 8 */
    assert_true(has_text(f, 0, 1, "clerk, old") && has_text(f, 0, 2, "3"));
    assert_int_equal(length(f, 1), 1);
    assert_true(has_text(f, 1, 2, "4") && !has_text(f, 0, 2, "4"));
    assert_int_equal(length(f, 2), 1);
    assert_true(has_text(f, 2, 1, "clerk") && !has_text(f, 2, 2, "clerk"));
    assert_true(f->examples.labels[0] == 1 && f->examples.labels[1] == 0);
    for (size_t i = 0; i < 3; i++) { /* sorted, whatever the hashes are */
        for (uint64_t k = f->examples.offsets[i] + 1; k < f->examples.offsets[i + 1]; k++) {
            assert_true(f->examples.keys[k - 1] < f->examples.keys[k]);
        }
    }
}

static void a_complete_plan_is_kept_to(void **state)
{
    struct fixture *f = *state;
    f->plan.categorical = "auto";
    f->plan.skipped = "0,3-4";
    f->options.label_column = 2;
    assert_ok(parse(f, "x\ta\t1\tb\tc\t2\n")); /* the separator is seen, too */
    assert_int_equal(f->plan.count, 6);
    const uint8_t kinds[] = {RBT_COLUMN_SKIPPED, RBT_COLUMN_CATEGORY, RBT_COLUMN_NUMBER,
                             RBT_COLUMN_SKIPPED, RBT_COLUMN_SKIPPED,  RBT_COLUMN_NUMBER};
    assert_memory_equal(f->plan.kinds, kinds, sizeof kinds);
    assert_int_equal(length(f, 0), 2);
    f->options.label_column = -1; /* the plan knows better */
    assert_ok(parse(f, "n1\tn2\tn3\tn4\tn5\tn6\n?\t17\t0\t-\t-\t4\n"));
    assert_int_equal(f->examples.count, 1);
    assert_true(has_text(f, 0, 1, "17"));
    assert_fails(parse(f, "x\ta\t1\tb\tc\n"), RBT_E_DATA, "line 1: 5 columns instead of 6");
    assert_fails(parse(f, "x\ta\t1\tb\tc\t2\nx\ta\t1\tb\tc\td\n"), RBT_E_DATA,
                 "line 2: column 5 (from 0) holds \"d\", which is not a number");
    assert_fails(parse(f, "x\ta\t1\tb\tc\t2\n1\t2\t3\n"), RBT_E_DATA,
                 "line 2: 3 columns instead of 6");
}

static void labels_may_be_texts(void **state)
{
    struct fixture *f = *state;
    f->plan.categorical = "auto";
    assert_fails(parse(f, "a,1,yes\nb,2,no\n"), RBT_E_DATA,
                 "line 1: the label in column 2 (from 0) is \"yes\", which is not a number");
    rbt_fields_free(&f->plan);
    f->plan =
        (struct rbt_column_plan){.categorical = "auto", .positive = rbt_fields_positive("yes", 3)};
    f->options.has_binary_label = true;
    assert_ok(parse(f, "a,1,yes\nb,2,no\nc,3, \"yes\"\n"));
    assert_true(f->examples.labels[0] == 1 && f->examples.labels[1] == -1);
    assert_true(f->examples.labels[2] == 1);
    assert_fails(parse(f, "a,1,maybe\nb,2,no\n"), RBT_E_DATA, "no example has the label");
    assert_fails(parse(f, "a,1,\n"), RBT_E_DATA, "the label in column 2 (from 0) is missing");
    f->options.ignores_label = true;
    f->options.has_binary_label = false;
    f->plan.is_loaded = true; /* as it is when predictions are made */
    assert_ok(parse(f, "a,1,\nb,2,maybe\nc,3,yes\n"));
    assert_int_equal(f->examples.count, 3);
    assert_true(f->examples.labels[1] == 0 && f->examples.labels[2] == 0);
    assert_ok(parse(f, "a,1\n")); /* nor need their column be there */
    assert_int_equal(f->examples.count, 1);
    assert_true(has_text(f, 0, 0, "a") && length(f, 0) == 2);
    f->options.ignores_label = false;
    assert_fails(parse(f, "a,1\n"), RBT_E_DATA, "line 1: 2 columns instead of 3 as in training");
    assert_non_null(strstr(rbt_last_hint(), "all columns of training are needed"));
}

static void columns_that_are_not_there_are_named(void **state)
{
    struct fixture *f = *state;
    f->plan.categorical = "auto,jbo";
    assert_fails(parse(f, "job,y\na,1\n"), RBT_E_INVALID, "there is no column \"jbo\"");
    rbt_fields_free(&f->plan);
    f->plan = (struct rbt_column_plan){.skipped = "2"};
    assert_fails(parse(f, "job,y\n2,1\n"), RBT_E_INVALID, "there is no column \"2\"");
    rbt_fields_free(&f->plan);
    f->plan = (struct rbt_column_plan){.skipped = "0-7"};
    assert_fails(parse(f, "job,y\n2,1\n"), RBT_E_INVALID, "there is no column \"0-7\"");
}

/* A line of Criteo's with these two counts, and the same code in all categories but the last. */
static void write_criteo(char *line, size_t size, const char *first, const char *second)
{
    size_t used = (size_t)snprintf(line, size, "1\t%s\t%s", first, second);
    for (int i = 3; i <= 13; i++) {
        used += (size_t)snprintf(line + used, size - used, "\t");
    }
    for (int i = 14; i <= 38; i++) {
        used += (size_t)snprintf(line + used, size - used, "\t68fd1e64");
    }
    (void)snprintf(line + used, size - used, "\t\n");
}

static void files_of_criteo_are_recognised(void **state)
{
    struct fixture *f = *state;
    char line[1024];
    f->options.format = RBT_FORMAT_AUTO;
    write_criteo(line, sizeof line, "2", "1000");
    assert_ok(parse(f, line));
    assert_int_equal(f->plan.format, RBT_FORMAT_CRITEO);
    assert_true(f->examples.labels[0] == 1);
    assert_int_equal(length(f, 0), 27);
    assert_true(has_text(f, 0, 14, "68fd1e64") && has_text(f, 0, 38, "68fd1e64"));
    const int64_t two = 2;
    const int64_t thousand = 3 + 47; /* log(1000)^2 = 47.7 */
    assert_true(value_of(f, 0, rbt_fields_hash((const char *)&two, sizeof two, 1)) == 1);
    assert_true(value_of(f, 0, rbt_fields_hash((const char *)&thousand, sizeof thousand, 2)) == 1);
    write_criteo(line, sizeof line, "-2", "x");
    assert_fails(parse(f, line), RBT_E_DATA,
                 "column 2 (from 0) holds \"x\", which is not a number");
    f->options.plan = NULL; /* whoever cannot read text says so */
    assert_fails(parse(f, line), RBT_E_INVALID, "that reads columns of text");
}

static void files_of_avazu_are_recognised(void **state)
{
    struct fixture *f = *state;
    f->options.format = RBT_FORMAT_AUTO;
    assert_ok(parse(f, "id,click,hour,C1,site_id\n"
                       "1000009418151094273,0,14102100,1005,1fbe01fe\n"
                       "10000169349117863715,1,14102223,1005,1fbe01fe\n"));
    assert_int_equal(f->plan.format, RBT_FORMAT_AVAZU);
    assert_int_equal(f->examples.count, 2);
    assert_true(f->examples.labels[0] == 0 && f->examples.labels[1] == 1);
    assert_int_equal(length(f, 0), 3);
    assert_true(has_text(f, 0, 2, "00") && has_text(f, 1, 2, "23"));
    assert_true(has_text(f, 0, 3, "1005") && has_text(f, 0, 4, "1fbe01fe"));
    f->options.format = RBT_FORMAT_AVAZU; /* a later part has no header */
    assert_ok(parse(f, "7,1,14102223,1005,1fbe01fe\n"));
    assert_int_equal(f->examples.count, 1);
}

static void hashing_bounds_the_number_of_features(void **state)
{
    struct fixture *f = *state;
    f->options.hash_bits = 3;
    f->plan.categorical = "auto";
    assert_ok(parse(f, "a,b,c,d,e,f,g,h,i,j,k,l,1\n"));
    float sum = 0;
    for (size_t k = 0; k < length(f, 0); k++) {
        assert_in_range(f->examples.keys[k], 1, 8);
        assert_true(k == 0 || f->examples.keys[k - 1] < f->examples.keys[k]);
        sum += f->examples.values[k];
    }
    assert_true(sum == 12); /* what meets is added up */
    f->options.format = RBT_FORMAT_LIBSVM;
    f->options.plan = NULL;
    assert_ok(parse(f, "1 1:1 20:2 300:3 4000:4 50000:5 600000:6 7000000:7 80000000:8 90000000:9"));
    sum = 0;
    for (size_t k = 0; k < length(f, 0); k++) {
        assert_in_range(f->examples.keys[k], 1, 8);
        sum += f->examples.values[k];
    }
    assert_true(sum == 45);
}

/* Ids of neighbouring columns: digits must not make up for the number of the column. */
static void short_texts_of_neighbouring_columns_have_keys_of_their_own(void **state)
{
    enum { IDS = 100000, COLUMNS = 4, COUNT = IDS * COLUMNS };
    (void)state;
    uint64_t *keys = rbt_calloc(COUNT, sizeof *keys);
    uint64_t *scratch = rbt_calloc(COUNT, sizeof *scratch);
    assert_non_null(keys);
    assert_non_null(scratch);
    for (size_t i = 0; i < COUNT; i++) {
        char text[16];
        const int size = snprintf(text, sizeof text, "%zu", i / COLUMNS);
        keys[i] = rbt_fields_hash(text, (size_t)size, i % COLUMNS);
    }
    rbt_sort_keys(keys, scratch, COUNT);
    size_t collisions = 0;
    for (size_t i = 1; i < COUNT; i++) {
        collisions += keys[i] == keys[i - 1];
    }
    assert_int_equal(collisions, 0);
    rbt_free(scratch);
    rbt_free(keys);
}

static void long_lines_are_sorted_too(void **state)
{
    struct fixture *f = *state;
    char *text = rbt_calloc(4, 4096);
    size_t used = 0;
    for (int i = 0; i < 1000; i++) {
        used += (size_t)snprintf(text + used, 16384 - used, "%c,", 'a' + i % 26);
    }
    (void)snprintf(text + used, 16384 - used, "1\n");
    f->plan.categorical = "auto";
    assert_ok(parse(f, text));
    assert_int_equal(length(f, 0), 1000);
    for (size_t k = 1; k < 1000; k++) {
        assert_true(f->examples.keys[k - 1] < f->examples.keys[k]);
    }
    assert_true(has_text(f, 0, 999, "l"));
    rbt_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_and_numbers_become_features, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_complete_plan_is_kept_to, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_may_be_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(columns_that_are_not_there_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_of_criteo_are_recognised, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_of_avazu_are_recognised, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hashing_bounds_the_number_of_features, set_up, tear_down),
        cmocka_unit_test(short_texts_of_neighbouring_columns_have_keys_of_their_own),
        cmocka_unit_test_setup_teardown(long_lines_are_sorted_too, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
