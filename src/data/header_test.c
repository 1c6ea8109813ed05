/* data/header_test.c - which first lines are headers, and which are data. */
#include "base/test.h"

#include <string.h>

#include "base/alloc.h"
#include "data/header.h"

static bool is_header(const char *bytes, char separator)
{
    struct rbt_text rest = {.name = "T", .bytes = bytes, .size = strlen(bytes), .first_line = 1};
    struct rbt_line line;
    size_t count = 1;
    assert_true(rbt_lines_next(&rest, &line));
    for (const char *p = line.begin; p < line.end; p++) {
        count += *p == separator;
    }
    const bool result = rbt_header_is(&line, separator, count, &rest);
    assert_int_equal(rbt_alloc_live(), 0);
    return result;
}

static void names_above_numbers_are_a_header(void **state)
{
    (void)state;
    assert_true(is_header("a,b\n1,2\n", ','));
    assert_true(is_header("\"a\";\"b c\"\n1;2\n", ';'));
    assert_true(is_header(",x,y\n0,1,2\n", ',')); /* of line numbers */
    assert_true(is_header("age,job\n31,clerk\n40,boss\n", ','));
    assert_true(is_header("age,job,y\n?,clerk,no\n40,boss,yes\n", ','));
    assert_true(is_header("age,job,default\n31,default,no\n40,boss,yes\n", ','));
    assert_true(is_header("1st,2nd\n1,2\n", ','));
}

static void lines_with_numbers_or_gaps_are_data(void **state)
{
    (void)state;
    assert_false(is_header("1,2,yes\n3,4,no\n", ','));
    assert_false(is_header("1e5,x\n3,y\n", ','));
    assert_false(is_header("nan,x\n3,y\n", ','));
    assert_false(is_header("-inf,x\n3,y\n", ','));
    assert_false(is_header("?,x\n3,y\n", ','));
    assert_false(is_header("NA,x\n3,y\n", ','));
    assert_false(is_header("1,2\n3,4\n", ','));
    assert_false(is_header(",,\n3,4,5\n", ','));
}

static void texts_that_come_again_are_data(void **state)
{
    (void)state;
    assert_false(is_header("large,red,yes\n3,red,no\n4,blue,yes\n", ','));
    assert_false(is_header("red,yes\nblue,no\nred,yes\n", ','));
}

static void tables_of_text_need_a_column_of_few_texts(void **state)
{
    (void)state;
    assert_true(is_header("colour,good\nred,yes\nblue,no\nred,yes\nred,no\n", ','));
    assert_false(is_header("ann,york\nbob,bath\ncid,hull\n", ',')); /* nobody can tell */
    assert_false(is_header("x,x\nred,yes\nblue,no\nred,yes\nred,no\n", ','));
    assert_false(is_header("colour,good\n", ','));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_above_numbers_are_a_header),
        cmocka_unit_test(lines_with_numbers_or_gaps_are_data),
        cmocka_unit_test(texts_that_come_again_are_data),
        cmocka_unit_test(tables_of_text_need_a_column_of_few_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
