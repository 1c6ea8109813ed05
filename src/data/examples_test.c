/* data/examples_test.c - examples are read as written, by any number of threads, and every mistake
 * in a file is reported with its line. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/examples.h"
#include "data/lines.h"

static const struct rbt_data_options libsvm = {.format = RBT_FORMAT_LIBSVM, .threads = 1};
static const struct rbt_data_options csv = {
    .format = RBT_FORMAT_CSV, .threads = 1, .label_column = -1};
static const struct rbt_data_options binary = {
    .format = RBT_FORMAT_LIBSVM, .threads = 1, .has_binary_label = true};

static rbt_status parse(const char *text, const struct rbt_data_options *options,
                        struct rbt_examples *examples)
{
    const struct rbt_text all = {.name = "f", .bytes = text, .size = strlen(text), .first_line = 1};
    return rbt_examples_parse(options, &all, examples);
}

/* Shows examples as text: "label key=value ...;". */
static void assert_parses(const struct rbt_data_options *options, const char *text,
                          const char *expected)
{
    struct rbt_examples examples = {0};
    char shown[512] = "";
    assert_ok(parse(text, options, &examples));
    for (size_t i = 0; i < examples.count; i++) {
        size_t used = strlen(shown);
        (void)snprintf(shown + used, sizeof shown - used, "%g", (double)examples.labels[i]);
        for (uint64_t k = examples.offsets[i]; k < examples.offsets[i + 1]; k++) {
            used = strlen(shown);
            (void)snprintf(shown + used, sizeof shown - used, " %llu=%g",
                           (unsigned long long)examples.keys[k], (double)examples.values[k]);
        }
        used = strlen(shown);
        (void)snprintf(shown + used, sizeof shown - used, ";");
    }
    assert_string_equal(shown, expected);
    rbt_examples_free(&examples);
}

static void assert_refuses(const struct rbt_data_options *options, const char *text,
                           const char *message)
{
    struct rbt_examples examples = {0};
    assert_int_equal(parse(text, options, &examples), RBT_E_DATA);
    assert_string_equal(rbt_last_error(), message);
    assert_null(examples.labels);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void libsvm_is_read(void **state)
{
    (void)state;
    assert_parses(&libsvm, "1 1:2 3:-.5\n-1 7:1e2", "1 1=2 3=-0.5;-1 7=100;");
    assert_parses(&libsvm, "\xef\xbb\xbf+1 \t 2:0.5 \r\n\r\n 3\r\n", "1 2=0.5;3;");
    assert_parses(&libsvm, "# head\n1 2:3 # 4:5\n\n  \n0 18446744073709551615:1#x\n",
                  "1 2=3;0 18446744073709551615=1;");
}

static void libsvm_may_count_from_zero(void **state)
{
    (void)state;
    struct rbt_data_options options = libsvm;
    options.is_zero_based = true;
    assert_parses(&options, "1 0:2 1:3\n", "1 0=2 1=3;");
    assert_refuses(&libsvm, "1 1:1\n1 0:2 1:3\n",
                   "cannot read \"f\", line 2: feature 0; features start at 1");
    assert_string_equal(rbt_last_hint(), "use --zero-based if yours start at 0");
}

static void mistakes_in_libsvm_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"1 23:1 17:1", "feature 17 follows feature 23; features must increase"},
        {"1 17:1 17:1", "feature 17 is given twice"},
        {"1 1:2 0:1", "feature 0 follows feature 1; features must increase"},
        {"1 5:", "feature 5 has no value"},
        {"1 5: 6:1", "feature 5 has no value"},
        {"1 5 6:1", "feature 5 has no value"},
        {"1 5:abc", "feature 5 has the value \"abc\", which is not a finite number"},
        {"1 5:nan", "feature 5 has the value \"nan\", which is not a finite number"},
        {"1 5:-inf", "feature 5 has the value \"-inf\", which is not a finite number"},
        {"1 5:1e39", "feature 5 has the value \"1e39\", which is too large"},
        {"1 5:1:2", "feature 5 has the value \"1:2\", which is not a finite number"},
        {"1 qid:3 5:1", "\"qid:3\" is a query id; ranking data is not supported"},
        {"1 -5:1", "\"-5:1\" is not a feature; features look like 17:0.5"},
        {"1 abc", "\"abc\" is not a feature; features look like 17:0.5"},
        {"1 18446744073709551616:1",
         "feature \"18446744073709551616:1\" is above 18446744073709551615"},
        {"abc 1:1", "label \"abc\" is not a number"},
        {"nan 1:1", "label \"nan\" is not a number"},
        {"1,2 1:1", "label \"1,2\" is not a number"},
        {"1e50 1:1", "label \"1e50\" is too large"},
        {"1:1 2:1", "the label is missing; the line begins with feature \"1:1\""},
        {"1 2:\x01\x02", "it is not text"},
        {"1 aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee",
         "\"aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd...\" is not a feature; "
         "features look like 17:0.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char message[256];
        (void)snprintf(message, sizeof message, "cannot read \"f\", line 1: %s", cases[i].message);
        assert_refuses(&libsvm, cases[i].text, message);
    }
    assert_refuses(&libsvm, "\n# nothing\n", "cannot read \"f\": it has no examples");
}

static void csv_is_read_with_and_without_header(void **state)
{
    (void)state;
    struct rbt_data_options first = csv;
    first.label_column = 0;
    assert_parses(&csv, "1,0,3,9\n4,5,0,8\r\n", "9 1=1 3=3;8 1=4 2=5;");
    assert_parses(&csv, "a,\"b, c\",y\n1, \"2\" ,3\n", "3 1=1 2=2;");
    assert_parses(&first, "7;1;2\n", "7 2=1 3=2;");
    assert_parses(&first, "7\t1\t0\n6\t0\t1\n", "7 2=1;6 3=1;");
}

static void columns_of_a_model_are_asked_for(void **state)
{
    (void)state;
    struct rbt_data_options known = csv;
    struct rbt_examples examples = {0};
    assert_ok(parse("a,b,c\n1,2,3\n", &csv, &examples));
    assert_int_equal(examples.column_count, 3);
    rbt_examples_free(&examples);
    assert_ok(parse("1 1:1 2:1\n", &libsvm, &examples));
    assert_int_equal(examples.column_count, 0);
    rbt_examples_free(&examples);
    known.column_count = 3;
    assert_parses(&known, "1,2,3\n", "3 1=1 2=2;");
    assert_refuses(&known, "\n7\n",
                   "cannot read \"f\", line 2: 1 column instead of 3 as in training");
    assert_string_equal(rbt_last_hint(), "");
    assert_refuses(&known, "1,2\n",
                   "cannot read \"f\", line 1: 2 columns instead of 3 as in training");
    assert_non_null(strstr(rbt_last_hint(), "Add the label's column"));
    known.is_unlabelled = true; /* then there is no such column */
    assert_refuses(&known, "1,2\n",
                   "cannot read \"f\", line 1: 2 columns instead of 3 as in training");
    assert_string_equal(rbt_last_hint(), "");
    known.format = RBT_FORMAT_LIBSVM;
    assert_refuses(&known, "1 1:1\n",
                   "cannot read \"f\": it is LIBSVM data, but training was on CSV data with 3 "
                   "columns");
}

static void mistakes_in_csv_are_explained(void **state)
{
    (void)state;
    assert_refuses(
        &csv, "a,b,c\n1,2,3\n1,x,3\n",
        "cannot read \"f\", line 3: column 1 (\"b\") holds \"x\", which is not a number");
    assert_refuses(
        &csv, "1,2,3\n1, x  y ,3\n",
        "cannot read \"f\", line 2: column 1 (from 0) holds \"x  y\", which is not a number");
    assert_refuses(
        &csv, "1;2;3\n1;\"x y\";3\n",
        "cannot read \"f\", line 2: column 1 (from 0) holds \"x y\", which is not a number");
    assert_refuses(
        &csv, "1,nan,3\n",
        "cannot read \"f\", line 1: column 1 (from 0) holds \"nan\", which is not a number");
    assert_refuses(
        &csv, "1,2,1e99\n",
        "cannot read \"f\", line 1: column 2 (from 0) holds \"1e99\", which is too large");
    assert_refuses(&csv, "1,2,3\n1,,3\n", "cannot read \"f\", line 2: column 1 (from 0) is empty");
    assert_refuses(&csv, "1,2,3\n1,2\n",
                   "cannot read \"f\", line 2: 2 columns instead of 3 as in the first line");
    assert_refuses(&csv, "1,2,3\n\n1,2,3,4\n",
                   "cannot read \"f\", line 3: 4 columns instead of 3 as in the first line");
    assert_refuses(&csv, "a,b\n", "cannot read \"f\": it has no examples");
}

/* Predictions need no labels; a header must be told from texts in their place. */
static void labels_may_be_ignored(void **state)
{
    (void)state;
    struct rbt_data_options options = csv;
    options.ignores_label = true;
    assert_parses(&options, "1,2,x\n3,4,\n5,6,?\n", "0 1=1 2=2;0 1=3 2=4;0 1=5 2=6;");
    assert_parses(&options, "1,2,x\n3,4,\"y,z\"\n", "0 1=1 2=2;0 1=3 2=4;");
    assert_parses(&options, "a,b,c\n1,2,x\n3,4,x\n", "0 1=1 2=2;0 1=3 2=4;");
    assert_parses(&options, "1,2,x\n", "0 1=1 2=2;");
    options.label_column = 0;
    assert_parses(&options, "x,1,2\ny,3,4\n,5,6\n", "0 2=1 3=2;0 2=3 3=4;0 2=5 3=6;");
    options.ignores_label = false;
    assert_refuses(
        &options, "1,2,3\nx,3,4\n",
        "cannot read \"f\", line 2: column 0 (from 0) holds \"x\", which is not a number");
}

static void label_column_must_exist(void **state)
{
    (void)state;
    struct rbt_data_options options = csv;
    struct rbt_examples examples = {0};
    options.label_column = 3;
    assert_fails(parse("1,2,3\n", &options, &examples), RBT_E_INVALID,
                 "there is no column 3 for the label; the columns are 0 to 2");
}

static void two_classes_become_minus_one_and_one(void **state)
{
    (void)state;
    assert_parses(&binary, "1\n-1\n+1\n", "1;-1;1;");
    assert_parses(&binary, "1\n0\n", "1;-1;");
    assert_parses(&binary, "1\n2\n1\n", "-1;1;-1;");
    assert_parses(&binary, "1\n1.0\n", "1;1;");
    assert_parses(&binary, "0\n-0\n", "-1;-1;");
    assert_parses(&binary, "-1\n", "-1;");
}

static void labels_that_are_not_two_classes_are_refused(void **state)
{
    (void)state;
    assert_refuses(&binary, "1\n3\n",
                   "cannot read \"f\", line 2: label 3; "
                   "labels must be -1 and 1, 0 and 1, or 1 and 2");
    assert_refuses(&binary, "1\n-1\n\n1\n0\n",
                   "cannot read \"f\", line 5: label 0, after labels 1 and -1; "
                   "labels must be -1 and 1, 0 and 1, or 1 and 2");
    assert_refuses(&binary, "0\n2\n",
                   "cannot read \"f\", line 2: label 2, after label 0; "
                   "labels must be -1 and 1, 0 and 1, or 1 and 2");
    assert_refuses(
        &binary, "2\n2\n",
        "cannot read \"f\", line 1: all labels are 2; a file with one label needs -1, 0 or 1");
}

static void formats_are_recognized(void **state)
{
    (void)state;
    const struct rbt_data_options any = {.threads = 1, .label_column = -1};
    struct rbt_examples examples = {0};
    assert_parses(&any, "1\n1 2:3\n", "1;1 2=3;");
    assert_parses(&any, "1,2\n", "2 1=1;");
    assert_fails(parse("1::2::3\n", &any, &examples), RBT_E_INVALID,
                 "cannot read \"f\": it holds ratings, not examples");
    const struct rbt_text text = {
        .name = "x/Ratings.csv", .bytes = "1,2,3\n", .size = 6, .first_line = 1};
    assert_fails(rbt_examples_parse(&any, &text, &examples), RBT_E_INVALID,
                 "it holds ratings, not examples");
}

static void lines_longer_than_the_limit_are_refused(void **state)
{
    (void)state;
    const size_t size = RBT_LINE_SIZE_MAX + 10;
    char *text = rbt_calloc(size + 1, 1);
    memset(text, ' ', size);
    memcpy(text, "1\n1 ", 4);
    text[size - 1] = '1';
    struct rbt_examples examples = {0};
    assert_fails(parse(text, &libsvm, &examples), RBT_E_DATA,
                 "cannot read \"f\", line 2: the line is longer than 16 MiB");
    rbt_free(text);
}

enum { LINES = 20000 };

/* A large text with comments and blank lines; lines wrong_first and after it are wrong. */
static char *make_large(size_t wrong_first)
{
    char *text = rbt_calloc(LINES, 64);
    char *p = text;
    for (size_t line = 1; line <= LINES; line++) {
        if (line >= wrong_first && line % 3 == wrong_first % 3) {
            p += snprintf(p, 64, "1 9:1 %zu:1\n", line % 9);
        } else if (line % 7 == 0) {
            p += snprintf(p, 64, "%s\n", line % 2 == 0 ? "" : "# 1:1 2:2");
        } else {
            p += snprintf(p, 64, "%zu %zu:%zu.25 %zu:1\n", line % 5, line, line % 100, line * 9);
        }
    }
    return text;
}

static void threads_do_not_change_the_result(void **state)
{
    (void)state;
    char *text = make_large(LINES + 1);
    struct rbt_examples one = {0};
    struct rbt_examples four = {0};
    struct rbt_data_options options = libsvm;
    assert_ok(parse(text, &options, &one));
    options.threads = 4;
    assert_ok(parse(text, &options, &four));
    const size_t nonzeros = one.offsets[one.count];
    assert_int_equal(one.count, LINES - LINES / 7);
    assert_int_equal(four.count, one.count);
    assert_memory_equal(four.offsets, one.offsets, (one.count + 1) * sizeof *one.offsets);
    assert_memory_equal(four.labels, one.labels, one.count * sizeof *one.labels);
    assert_memory_equal(four.keys, one.keys, nonzeros * sizeof *one.keys);
    assert_memory_equal(four.values, one.values, nonzeros * sizeof *one.values);
    rbt_examples_free(&one);
    rbt_examples_free(&four);
    rbt_free(text);
}

static void first_wrong_line_is_reported_by_any_number_of_threads(void **state)
{
    (void)state;
    static const size_t wrong[] = {1, 3, 5000, 10001, 19999, 20000};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *text = make_large(wrong[i]);
        for (uint32_t threads = 1; threads <= 7; threads += 3) {
            char place[64];
            struct rbt_examples examples = {0};
            struct rbt_data_options options = libsvm;
            options.threads = threads;
            (void)snprintf(place, sizeof place, "cannot read \"f\", line %zu: feature", wrong[i]);
            assert_fails(parse(text, &options, &examples), RBT_E_DATA, place);
        }
        rbt_free(text);
    }
}

static void third_label_is_found_by_any_number_of_threads(void **state)
{
    (void)state;
    char *text = rbt_calloc(200000, 1);
    for (size_t i = 0; i < 60000; i++) {
        memcpy(text + 2 * i, i == 41233 || i == 50000 ? "2\n" : i % 2 == 0 ? "0\n" : "1\n", 2);
    }
    for (uint32_t threads = 1; threads <= 4; threads++) {
        struct rbt_examples examples = {0};
        struct rbt_data_options options = binary;
        options.threads = threads;
        assert_fails(parse(text, &options, &examples), RBT_E_DATA, "line 41234: label 2, after");
    }
    rbt_free(text);
}

/* Writes the text to a file in /tmp whose name the caller removes. */
static void write_file(char *path, size_t size, const char *text)
{
    (void)snprintf(path, size, "/tmp/examples_test.XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

static void files_are_read_one_after_the_other(void **state)
{
    (void)state;
    char first[64];
    char second[64];
    write_file(first, sizeof first, "1 1:1\n0 2:2\n");
    write_file(second, sizeof second, "1 3:3\n0 4:4 x\n");
    const char *const paths[] = {first, first, second};
    struct rbt_data_options options = {.paths = paths, .path_count = 2, .has_binary_label = true};
    struct rbt_examples examples = {0};
    assert_ok(rbt_examples_read(&options, &examples));
    assert_int_equal(examples.count, 4);
    assert_int_equal(examples.offsets[4], 4);
    assert_int_equal(examples.keys[3], 2);
    assert_true(examples.labels[3] == -1);
    rbt_examples_free(&examples);
    options.path_count = 3;
    assert_fails(rbt_examples_read(&options, &examples), RBT_E_DATA, "line 2: \"x\" is not");
    assert_non_null(strstr(rbt_last_error(), second));
    assert_int_equal(rbt_alloc_live(), 0);
    (void)unlink(first);
    (void)unlink(second);
}

/* `count` lines, each with a long comment behind it: several parts of text, and little to parse.
 * The last line is what is given. */
static char *make_parts(const char *header, const char *line, size_t count, const char *last)
{
    enum { COMMENT = 4000, LINE_MAX_SIZE = 64 };
    char *text = rbt_calloc(count + 1, COMMENT + LINE_MAX_SIZE);
    assert_non_null(text);
    char *p = text + snprintf(text, LINE_MAX_SIZE, "%s", header);
    for (size_t i = 0; i < count; i++) {
        p += snprintf(p, LINE_MAX_SIZE, "%s\n#", i + 1 < count ? line : last);
        memset(p, 'x', COMMENT);
        p += COMMENT;
        *p++ = '\n';
    }
    return text;
}

/* What is read part by part is the same as the whole text at once. */
static void large_files_are_read_in_parts(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static const struct {
        const char *header;
        const char *line;
    } cases[] = {{"", "1 3:0.5 8:1.25"}, {"a,b,y\n", "0.5,2,1"}};
    for (size_t i = 0; i < 2; i++) {
        char path[64];
        char *text = make_parts(cases[i].header, cases[i].line, COUNT, cases[i].line);
        assert_true(strlen(text) > 2 * (8 << 20));
        write_file(path, sizeof path, text);
        const char *const paths[] = {path};
        const struct rbt_data_options options = {.paths = paths,
                                                 .path_count = 1,
                                                 .format =
                                                     i == 0 ? RBT_FORMAT_LIBSVM : RBT_FORMAT_CSV,
                                                 .label_column = -1,
                                                 .threads = 2};
        struct rbt_examples whole = {0};
        struct rbt_examples parts = {0};
        assert_ok(parse(text, &options, &whole));
        assert_ok(rbt_examples_read(&options, &parts));
        assert_int_equal(parts.count, COUNT);
        assert_int_equal(whole.count, COUNT);
        assert_memory_equal(parts.offsets, whole.offsets, (COUNT + 1) * sizeof *whole.offsets);
        assert_memory_equal(parts.labels, whole.labels, COUNT * sizeof *whole.labels);
        assert_memory_equal(parts.keys, whole.keys, 2 * COUNT * sizeof *whole.keys);
        assert_memory_equal(parts.values, whole.values, 2 * COUNT * sizeof *whole.values);
        rbt_examples_free(&whole);
        rbt_examples_free(&parts);
        rbt_free(text);
        (void)unlink(path);
    }
    char path[64];
    char *text = make_parts("a,b,y\n", "0.5,2,1", COUNT, "0.5,x,1");
    write_file(path, sizeof path, text);
    rbt_free(text);
    const char *const paths[] = {path};
    const struct rbt_data_options options = {.paths = paths, .path_count = 1, .label_column = -1};
    struct rbt_examples none = {0};
    assert_fails(rbt_examples_read(&options, &none), RBT_E_DATA, "line 10000: ");
    assert_non_null(strstr(rbt_last_error(), "\"b\"")); /* the header is known to the last part */
    assert_int_equal(rbt_alloc_live(), 0);
    (void)unlink(path);
}

static void csv_files_must_have_equally_many_columns(void **state)
{
    (void)state;
    char first[64];
    char second[64];
    write_file(first, sizeof first, "a,b,c\n1,2,3\n");
    write_file(second, sizeof second, "a,b\n1,2\n");
    const char *const paths[] = {first, second};
    const struct rbt_data_options options = {.paths = paths, .path_count = 2, .label_column = -1};
    struct rbt_examples examples = {0};
    assert_fails(rbt_examples_read(&options, &examples), RBT_E_DATA,
                 "line 1: 2 columns; the files before have 3");
    (void)unlink(first);
    (void)unlink(second);
}

static void reading_survives_every_failed_allocation(void **state)
{
    (void)state;
    char path[64];
    char *text = make_large(LINES + 1);
    write_file(path, sizeof path, text);
    rbt_free(text);
    const char *const paths[] = {path, path};
    const struct rbt_data_options options = {.paths = paths, .path_count = 2, .threads = 3};
    for (unsigned nth = 1;; nth++) { /* ends when nothing fails any more */
        struct rbt_examples examples = {0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_examples_read(&options, &examples);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            assert_true(nth > 10);
            rbt_examples_free(&examples);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(examples.labels);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    assert_int_equal(rbt_alloc_live(), 0);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libsvm_is_read),
        cmocka_unit_test(libsvm_may_count_from_zero),
        cmocka_unit_test(mistakes_in_libsvm_are_explained),
        cmocka_unit_test(csv_is_read_with_and_without_header),
        cmocka_unit_test(columns_of_a_model_are_asked_for),
        cmocka_unit_test(mistakes_in_csv_are_explained),
        cmocka_unit_test(labels_may_be_ignored),
        cmocka_unit_test(label_column_must_exist),
        cmocka_unit_test(two_classes_become_minus_one_and_one),
        cmocka_unit_test(labels_that_are_not_two_classes_are_refused),
        cmocka_unit_test(formats_are_recognized),
        cmocka_unit_test(lines_longer_than_the_limit_are_refused),
        cmocka_unit_test(threads_do_not_change_the_result),
        cmocka_unit_test(first_wrong_line_is_reported_by_any_number_of_threads),
        cmocka_unit_test(third_label_is_found_by_any_number_of_threads),
        cmocka_unit_test(files_are_read_one_after_the_other),
        cmocka_unit_test(large_files_are_read_in_parts),
        cmocka_unit_test(csv_files_must_have_equally_many_columns),
        cmocka_unit_test(reading_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("data/examples", tests, NULL, NULL);
}
