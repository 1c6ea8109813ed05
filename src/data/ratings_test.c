/* data/ratings_test.c - ratings are read whatever separates them, and mistakes have a line. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/examples.h"
#include "data/lines.h"

static rbt_status parse(const char *text, const struct rbt_data_options *options,
                        struct rbt_ratings *ratings)
{
    const struct rbt_text all = {.name = "f", .bytes = text, .size = strlen(text), .first_line = 1};
    return rbt_ratings_parse(options, &all, ratings);
}

static void separators_and_headers_are_understood(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "1,2,3.5\n4,5,-1\n",
        "user,item,rating\n1,2,3.5\n4,5,-1",
        "userId,movieId,rating,timestamp\r\n1,2,3.5,964982703\r\n4,5,-1,7\r\n",
        "1\t2\t3.5\t881250949\n4\t5\t-1\n",
        "1 2   3.5\n\n  4 5 -1  \n",
        "1::2::3.5::978300760\n4::5::-1::978302109\n",
        "# of somebody\n1, 2, 3.5, \"what else\"\n4 ,5 ,-1\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct rbt_data_options options = {.threads = 1};
        struct rbt_ratings ratings = {0};
        assert_ok(parse(texts[i], &options, &ratings));
        assert_int_equal(ratings.count, 2);
        assert_int_equal(ratings.users[0], 1);
        assert_int_equal(ratings.items[0], 2);
        assert_true(ratings.values[0] == 3.5F);
        assert_int_equal(ratings.users[1], 4);
        assert_int_equal(ratings.items[1], 5);
        assert_true(ratings.values[1] == -1);
        rbt_ratings_free(&ratings);
    }
}

static void ids_have_64_bits(void **state)
{
    (void)state;
    const struct rbt_data_options options = {.threads = 1};
    struct rbt_ratings ratings = {0};
    assert_ok(parse("18446744073709551615,0,1\n", &options, &ratings));
    assert_true(ratings.users[0] == UINT64_MAX);
    assert_int_equal(ratings.items[0], 0);
    rbt_ratings_free(&ratings);
}

static void ratings_may_be_ignored(void **state)
{
    (void)state;
    const struct rbt_data_options options = {.threads = 1, .ignores_label = true};
    struct rbt_ratings ratings = {0};
    assert_ok(parse("user,item\n1,2\n3,4,\n5::6::?\n7 8 5 99\n", &options, &ratings));
    assert_int_equal(ratings.count, 4);
    assert_int_equal(ratings.users[2], 5);
    assert_int_equal(ratings.items[3], 8);
    assert_true(ratings.values[0] == 0 && ratings.values[3] == 0);
    rbt_ratings_free(&ratings);
    assert_fails(parse("1\n", &options, &ratings), RBT_E_DATA, "the item is missing");
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"1,2,3\nx,2,3", "line 2: user \"x\" is not a whole number below 2^64"},
        {"-1,2,3", "line 1: user \"-1\" is not a whole number below 2^64"},
        {"1,2.5,3", "line 1: item \"2.5\" is not a whole number below 2^64"},
        {"1,18446744073709551616,3",
         "line 1: item \"18446744073709551616\" is not a whole number below 2^64"},
        {"u,i,r\n1,2,nan", "line 2: rating \"nan\" is not a finite number"},
        {"1,2,1e40", "line 1: rating \"1e40\" is not a finite number"},
        {"1,2", "line 1: the rating is missing; a line is: user item rating"},
        {"1,2,", "line 1: the rating is missing; a line is: user item rating"},
        {"1", "line 1: the item is missing; a line is: user item rating"},
        {"1,,3", "line 1: the item is missing; a line is: user item rating"},
        {"1,2,\x03", "line 1: it is not text"},
        {"user,item,rating\n", "\"f\": it has no ratings"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rbt_data_options options = {.threads = 1};
        struct rbt_ratings ratings = {0};
        assert_fails(parse(cases[i].text, &options, &ratings), RBT_E_DATA, cases[i].message);
        assert_null(ratings.users);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

static void examples_are_not_ratings(void **state)
{
    (void)state;
    struct rbt_data_options options = {.threads = 1};
    struct rbt_ratings ratings = {0};
    assert_fails(parse("1 2:3 4:5\n", &options, &ratings), RBT_E_INVALID,
                 "cannot read \"f\": it holds examples, not ratings");
    options.format = RBT_FORMAT_CSV;
    assert_fails(parse("1,2,3\n", &options, &ratings), RBT_E_INVALID,
                 "files of the format \"CSV\" do not hold ratings");
}

enum { LINES = 20000 };

/* Line `wrong` has no rating. */
static char *make_large(size_t wrong)
{
    char *text = rbt_calloc(LINES, 32);
    char *p = text;
    for (size_t i = 1; i <= LINES; i++) {
        p += i == wrong   ? snprintf(p, 32, "1,2\n")
             : i % 9 == 0 ? snprintf(p, 32, "\n")
                          : snprintf(p, 32, "%zu,%zu,%zu.5\n", i, i % 77, i % 5);
    }
    return text;
}

static void threads_do_not_change_the_result(void **state)
{
    (void)state;
    char *text = make_large(0);
    struct rbt_data_options options = {.threads = 1};
    struct rbt_ratings one = {0};
    struct rbt_ratings four = {0};
    assert_ok(parse(text, &options, &one));
    options.threads = 4;
    assert_ok(parse(text, &options, &four));
    assert_int_equal(one.count, LINES - LINES / 9);
    assert_int_equal(four.count, one.count);
    assert_memory_equal(four.users, one.users, one.count * sizeof *one.users);
    assert_memory_equal(four.items, one.items, one.count * sizeof *one.items);
    assert_memory_equal(four.values, one.values, one.count * sizeof *one.values);
    rbt_ratings_free(&one);
    rbt_ratings_free(&four);
    rbt_free(text);
}

static void wrong_line_is_found_by_any_number_of_threads(void **state)
{
    (void)state;
    char *text = make_large(15321);
    for (uint32_t threads = 1; threads <= 5; threads++) {
        const struct rbt_data_options options = {.threads = threads};
        struct rbt_ratings ratings = {0};
        assert_fails(parse(text, &options, &ratings), RBT_E_DATA, "line 15321: the rating is");
    }
    rbt_free(text);
}

static void reading_survives_every_failed_allocation(void **state)
{
    (void)state;
    char path[] = "/tmp/ratings_test.XXXXXX";
    const int fd = mkstemp(path);
    char *text = make_large(0);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    rbt_free(text);
    const char *const paths[] = {path, path};
    const struct rbt_data_options options = {.paths = paths, .path_count = 2, .threads = 2};
    for (unsigned nth = 1;; nth++) { /* ends when nothing fails any more */
        struct rbt_ratings ratings = {0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_ratings_read(&options, &ratings);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            assert_true(nth > 10);
            rbt_ratings_free(&ratings);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(ratings.users);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    assert_int_equal(rbt_alloc_live(), 0);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separators_and_headers_are_understood),
        cmocka_unit_test(ids_have_64_bits),
        cmocka_unit_test(ratings_may_be_ignored),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(examples_are_not_ratings),
        cmocka_unit_test(threads_do_not_change_the_result),
        cmocka_unit_test(wrong_line_is_found_by_any_number_of_threads),
        cmocka_unit_test(reading_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("data/ratings", tests, NULL, NULL);
}
