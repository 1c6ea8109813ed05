/* base/text_test.c - one test per promise of text.h. */
#include "base/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/text.h"

static void whole_numbers_accept_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"0", 0},
                 {"-1", -1},
                 {"+7", 7},
                 {"64k", 64000},
                 {"10M", 10000000},
                 {"4Ki", 4096},
                 {"2Mi", 2097152},
                 {"-3k", -3000},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 99;
        assert_true(rbt_text_to_int(cases[i].text, &value));
        assert_true(value == cases[i].value);
    }
}

static void what_is_no_whole_number_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {"",       "-",   "x",   "1.5",      " 1",
                                        "1 ",     "0x1", "1kk", "1e3",      "9223372036854775808",
                                        "10Ti k", "k",   "--1", "99999999T"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 99;
        assert_false(rbt_text_to_int(cases[i], &value));
        assert_true(value == 99); /* written only on success */
    }
}

static void reals_are_decimal_and_complete(void **state)
{
    (void)state;
    double value = 0;
    assert_true(rbt_text_to_real("1e-3", &value) && value == 1e-3);
    assert_true(rbt_text_to_real("-.5", &value) && value == -0.5);
    assert_true(rbt_text_to_real("nan", &value) && isnan(value));
    static const char *const cases[] = {"", "x", "1x", " 1", "0x1p3", "1e999", "infinity", "."};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_false(rbt_text_to_real(cases[i], &value));
    }
}

static void times_have_units(void **state)
{
    (void)state;
    double value = 0;
    assert_true(rbt_text_to_seconds("250us", &value) && value == 250e-6);
    assert_true(rbt_text_to_seconds("1.5ms", &value) && value == 1.5e-3);
    assert_true(rbt_text_to_seconds("2s", &value) && value == 2);
    assert_true(rbt_text_to_seconds("3m", &value) && value == 180);
    assert_true(rbt_text_to_seconds("-1h", &value) && value == -3600);
    assert_true(rbt_text_to_seconds("0.25", &value) && value == 0.25);
    static const char *const cases[] = {"",     "s",   "1x",     "1 s",   "1sm",
                                        "nans", "inf", "1e308h", "1e999", "2sec"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_false(rbt_text_to_seconds(cases[i], &value));
    }
}

static void printed_reals_read_back_as_the_same_bits(void **state)
{
    (void)state;
    static const double cases[] = {0, 0.1, 10, 1.0 / 3, 1e300, 5e-324, -123456789.125, 2.5e-7};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[RBT_TEXT_SHORT];
        rbt_text_from_real(cases[i], text);
        assert_true(strtod(text, NULL) == cases[i]);
    }
    char text[RBT_TEXT_SHORT];
    rbt_text_from_real(0.1, text);
    assert_string_equal(text, "0.1");
    rbt_text_from_real(10, text);
    assert_string_equal(text, "10");
}

static void numbers_for_people_have_three_digits(void **state)
{
    (void)state;
    char text[RBT_TEXT_SHORT];
    rbt_text_from_count(812, text);
    assert_string_equal(text, "812");
    rbt_text_from_count(1250, text);
    assert_string_equal(text, "1.25k");
    rbt_text_from_count(999999, text);
    assert_string_equal(text, "1.00M");
    rbt_text_from_bytes(3400000, text);
    assert_string_equal(text, "3.40 MB");
    rbt_text_from_seconds(0.0421, text);
    assert_string_equal(text, "0.042 s");
    rbt_text_from_seconds(185, text);
    assert_string_equal(text, "3:05");
    rbt_text_from_seconds(7385, text);
    assert_string_equal(text, "2:03:05");
    rbt_text_from_seconds(NAN, text);
    assert_string_equal(text, "?");
}

static void what_may_not_be_shown_is_printed_as_question_marks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"plain", "plain"},
        {"a\001b\033[1m\177\n", "a?b?[1m??"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xbb", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8e\xbb"},
        {"\xff\xc3.", "??."}, /* not UTF-8 */
        {"\xc2\x9b"
         "2J",
         "??2J"},                               /* a control character of two bytes */
        {"\xed\xa0\x80\xef\xbf\xbf", "??????"}, /* half a pair, and no character */
        {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char shown[64] = "";
        FILE *out = fmemopen(shown, sizeof shown, "w");
        assert_non_null(out);
        rbt_text_print(out, cases[i].text);
        assert_int_equal(fclose(out), 0);
        assert_string_equal(shown, cases[i].shown);
    }
}

static void a_text_remembers_that_memory_ran_out(void **state)
{
    (void)state;
    struct rbt_text_buffer text = {0};
    rbt_alloc_fail_nth(1);
    rbt_text_add(&text, "%s", "lost");
    rbt_alloc_fail_nth(0);
    rbt_text_add(&text, "%s", "also lost");
    assert_true(text.has_failed);
    assert_string_equal(rbt_text_data(&text), "");
    rbt_text_clear(&text);
    rbt_text_add(&text, "%s and %d", "kept", 2);
    assert_string_equal(rbt_text_data(&text), "kept and 2");
    rbt_text_deinit(&text);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void only_valid_utf8_counts(void **state)
{
    (void)state;
    assert_int_equal(rbt_text_utf8("a", 1), 1);
    assert_int_equal(rbt_text_utf8("\xC3\xA4", 2), 2);
    assert_int_equal(rbt_text_utf8("\xE2\x82\xAC", 3), 3);
    assert_int_equal(rbt_text_utf8("\xF0\x9F\x98\x80", 4), 4);
    assert_int_equal(rbt_text_utf8("\xC3", 1), 0);
    assert_int_equal(rbt_text_utf8("\xC0\x80", 2), 0);
    assert_int_equal(rbt_text_utf8("\xED\xA0\x80", 3), 0);
    assert_int_equal(rbt_text_utf8("\xF4\x90\x80\x80", 4), 0);
    assert_int_equal(rbt_text_utf8("\xFF", 1), 0);
    assert_int_equal(rbt_text_utf8("", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_accept_units),
        cmocka_unit_test(what_is_no_whole_number_is_refused),
        cmocka_unit_test(reals_are_decimal_and_complete),
        cmocka_unit_test(times_have_units),
        cmocka_unit_test(printed_reals_read_back_as_the_same_bits),
        cmocka_unit_test(numbers_for_people_have_three_digits),
        cmocka_unit_test(what_may_not_be_shown_is_printed_as_question_marks),
        cmocka_unit_test(a_text_remembers_that_memory_ran_out),
        cmocka_unit_test(only_valid_utf8_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
